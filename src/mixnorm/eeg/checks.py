"""The one funnel through which every recording passes before it is used."""

from __future__ import annotations

import numpy as np

from mixnorm.eeg.recording import EpochedRecording, Recording, RecordingError


def checked(recording: Recording | EpochedRecording) -> Recording | EpochedRecording:
    """The recording itself, or a `RecordingError` that says what is wrong with it."""
    _check_shape(recording)
    _check_channels(recording)
    if isinstance(recording, Recording):
        _check_onsets(recording)
    return recording


def _check_shape(recording: Recording | EpochedRecording) -> None:
    source = recording.source
    if isinstance(recording, Recording) and not 0 < recording.sfreq < np.inf:
        raise RecordingError(source, f"the sampling rate is {recording.sfreq}", "say it with sfreq=… (Hz)")
    data = recording.signal if isinstance(recording, Recording) else recording.X
    if data.size == 0:
        raise RecordingError(source, f"there is no signal in it (shape {data.shape})", "record again")
    if len(recording.events) == 0:
        raise RecordingError(source, "no events were found", "check that the triggers were recorded")
    repeated = sorted({name for name in recording.ch_names if recording.ch_names.count(name) > 1})
    if repeated:
        raise RecordingError(source, f"several channels are called {', '.join(repeated)}", "rename them")


def _check_channels(recording: Recording | EpochedRecording) -> None:
    """Refuse NaN and flat channels by name; one channel at a time, so that no copy of the signal is made."""
    continuous = isinstance(recording, Recording)
    broken, flat = [], []
    for channel, name in enumerate(recording.ch_names):
        values = recording.signal[channel] if continuous else recording.X[:, channel]
        low, high = values.min(), values.max()
        if not (np.isfinite(low) and np.isfinite(high)):
            where = int(np.flatnonzero(~np.isfinite(values.reshape(len(values), -1).sum(axis=1)))[0])
            broken.append(
                f"{name} (first at {f'{where / recording.sfreq:.3f} s' if continuous else f'trial {where}'})"
            )
        elif low == high:
            flat.append(name)
    remedy = f"leave them out with drop={[name.split(' (')[0] for name in broken or flat]}"
    if broken:
        raise RecordingError(recording.source, f"channels with NaN or infinite values: {', '.join(broken)}", remedy)
    if flat:
        raise RecordingError(recording.source, f"flat channels: {', '.join(flat)}", remedy)


def _check_onsets(recording: Recording) -> None:
    onset, n_samples = recording.events.onset, recording.signal.shape[1]
    outside = onset[(onset < 0) | (onset >= n_samples)]
    if len(outside):
        raise RecordingError(
            recording.source,
            f"{len(outside)} of {len(onset)} events lie outside the recording (sample {outside[0]} of {n_samples})",
            "check that events and signal belong together and count samples at the same rate",
        )
    same = np.flatnonzero(np.diff(onset) == 0)
    if len(same):
        raise RecordingError(
            recording.source,
            f"{len(same)} events have the same onset as the one before (first at sample {onset[same[0]]})",
            "remove the duplicates",
        )
