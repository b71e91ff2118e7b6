"""Checks that every recording must pass before it is used."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mixnorm.eeg.faults import useless_channels
from mixnorm.eeg.recording import AnyRecording, EpochedRecording, Recording, RecordingError, excluding


def checked(recording: AnyRecording) -> AnyRecording:
    """Return the recording without channels that are of no use; raise a `RecordingError` if it cannot be used."""
    _check_shape(recording)
    if isinstance(recording, Recording):
        _check_onsets(recording)
    return _without_useless_channels(recording)


def _check_shape(recording: Recording | EpochedRecording) -> None:
    source = recording.source
    if isinstance(recording, Recording) and not 0 < recording.sfreq < np.inf:
        raise RecordingError(source, f"the sampling rate is {recording.sfreq}", "give it with sfreq=… (Hz)")
    data = recording.signal if isinstance(recording, Recording) else recording.X
    if data.size == 0:
        raise RecordingError(source, f"it contains no signal (shape {data.shape})", "record again")
    if len(recording.events) == 0:
        raise RecordingError(source, "no events were found", "check that the triggers were recorded")
    # Channels are matched by name from here on, and the name must say which one is meant.
    repeated = sorted({name for name in recording.ch_names if recording.ch_names.count(name) > 1})
    if repeated:
        raise RecordingError(source, f"several channels have the name {', '.join(repeated)}", "rename them")


def _without_useless_channels(recording: AnyRecording) -> AnyRecording:
    """Leave out channels that are flat or NaN nearly throughout, with a note that names them."""
    useless = useless_channels(recording)
    if not useless:
        return recording
    named = "; ".join(f"{name}: {why}" for name, why in useless.items())
    if len(useless) == len(recording.ch_names):
        raise RecordingError(recording.source, f"no channel can be used ({named})", "record again")
    note = f"channels left out because they hold no signal: {named}"
    return replace(excluding(recording, useless), notes=(*recording.notes, note))


def _check_onsets(recording: Recording) -> None:
    onset, n_samples = recording.events.onset, recording.signal.shape[1]
    outside = onset[(onset < 0) | (onset >= n_samples)]
    if len(outside):
        raise RecordingError(
            recording.source,
            f"{len(outside)} of {len(onset)} events are outside the recording (sample {outside[0]} of {n_samples})",
            "check that events and signal come from the same recording and have the same sampling rate",
        )
    # Two events of one sample would be two trials of the same signal, perhaps in different folds or with different
    # labels.
    same = np.flatnonzero(np.diff(onset) == 0)
    if len(same):
        raise RecordingError(
            recording.source,
            f"{len(same)} events have the same onset as the previous event (first at sample {onset[same[0]]})",
            "remove the duplicates",
        )
