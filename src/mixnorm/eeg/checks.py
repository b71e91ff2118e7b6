"""Checks that every recording must pass before it is used."""

from __future__ import annotations

import numpy as np

from mixnorm.eeg.recording import EpochedRecording, Recording, RecordingError


def checked(recording: Recording | EpochedRecording) -> Recording | EpochedRecording:
    """Return the recording; raise a `RecordingError` that says what is wrong with it."""
    _check_shape(recording)
    _check_channels(recording)
    if isinstance(recording, Recording):
        _check_onsets(recording)
    return recording


def _check_shape(recording: Recording | EpochedRecording) -> None:
    source = recording.source
    if isinstance(recording, Recording) and not 0 < recording.sfreq < np.inf:
        raise RecordingError(source, f"the sampling rate is {recording.sfreq}", "give it with sfreq=… (Hz)")
    data = recording.signal if isinstance(recording, Recording) else recording.X
    if data.size == 0:
        raise RecordingError(source, f"it contains no signal (shape {data.shape})", "record again")
    if len(recording.events) == 0:
        raise RecordingError(source, "no events were found", "check that the triggers were recorded")
    repeated = sorted({name for name in recording.ch_names if recording.ch_names.count(name) > 1})
    if repeated:
        raise RecordingError(source, f"several channels have the name {', '.join(repeated)}", "rename them")


def _check_channels(recording: Recording | EpochedRecording) -> None:
    """Refuse channels with NaN and flat channels; one channel at a time, so that the signal is not copied."""
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
    remedy = f"exclude them with drop={[name.split(' (')[0] for name in broken or flat]}"
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
            f"{len(outside)} of {len(onset)} events are outside the recording (sample {outside[0]} of {n_samples})",
            "check that events and signal come from the same recording and have the same sampling rate",
        )
    same = np.flatnonzero(np.diff(onset) == 0)
    if len(same):
        raise RecordingError(
            recording.source,
            f"{len(same)} events have the same onset as the previous event (first at sample {onset[same[0]]})",
            "remove the duplicates",
        )
