"""One recording cut into trials: re-referenced, filtered, then sampled around each stimulus."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.filters import CausalFilter, zero_phase
from mixnorm.eeg.preparation import Preparation, SampleGrid
from mixnorm.eeg.recording import EpochedRecording, Recording, RecordingError


@dataclass(frozen=True)
class Cut:
    """The trials of one source; fields as in `Design`."""

    X: NDArray[np.float64] = field(repr=False)
    target: NDArray[np.int64]
    subject: NDArray[np.str_]
    session: NDArray[np.str_]
    character: NDArray[np.int64]
    stimulus: NDArray[np.int64]
    onset: NDArray[np.float64]
    ch_names: tuple[str, ...]
    positions: NDArray[np.float64]
    times: NDArray[np.float64]
    sfreq: float


def cut(recording: Recording | EpochedRecording, preparation: Preparation) -> Cut:
    """The trials of one recording, prepared."""
    if isinstance(recording, EpochedRecording):
        return _cut_epochs(recording, preparation)
    return _cut_continuous(recording, preparation)


def windows_inside(recording: Recording, grid: SampleGrid) -> NDArray[np.bool_]:
    """Which events have their whole window in the recording."""
    onset = recording.events.onset
    return (onset + grid.start >= 0) & (onset + grid.stop <= recording.signal.shape[1])


def re_referenced(
    signal: NDArray[np.float64], ch_names: Sequence[str], preparation: Preparation
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """The signal (n_channels, n_samples) minus its reference, and the names of the remaining channels."""
    reference = preparation.reference
    if reference is None:
        return signal, tuple(ch_names)
    names = tuple(ch_names) if reference == "average" else reference
    missing = [name for name in names if name not in ch_names]
    if missing:
        raise KeyError(", ".join(missing))
    # Summed channel by channel: the last bit of a sum over an axis depends on the length of the chunk.
    total = np.zeros(signal.shape[1])
    for name in names:
        total += signal[list(ch_names).index(name)]
    keep = [channel for channel, name in enumerate(ch_names) if reference == "average" or name not in reference]
    return signal[keep] - total / len(names), tuple(ch_names[channel] for channel in keep)


def _cut_continuous(recording: Recording, preparation: Preparation) -> Cut:
    grid, sos = _grid_and_filter(recording, preparation)
    inside = _usable(recording, grid)
    signal, ch_names = _referenced(recording.signal, recording, preparation)
    if sos is not None:
        signal = CausalFilter(sos).push(signal) if preparation.phase == "causal" else zero_phase(sos, signal)
    onsets = recording.events.onset[inside]
    X = np.stack([grid.reduce(signal[:, at + grid.start : at + grid.stop]) for at in onsets])
    subject, session = np.full(len(X), recording.subject), np.full(len(X), recording.session)
    return _cut(recording, X, inside, (subject, session), (ch_names, grid.times))


def _cut_epochs(recording: EpochedRecording, preparation: Preparation) -> Cut:
    if preparation.band is not None:
        raise RecordingError(
            recording.source,
            "it contains epochs, which cannot be filtered",
            "use the preset 'epochs' or a preparation with band=None",
        )
    X, ch_names, times = recording.X, recording.ch_names, recording.times
    if preparation.reference is not None:
        trials = [_referenced(trial, recording, preparation) for trial in X]
        X, ch_names = np.stack([signal for signal, _ in trials]), trials[0][1]
    if preparation.window is not None:
        grid, _ = _grid_and_filter(recording, preparation)
        X, times = _regridded(X, recording, grid), grid.times
    everything = np.ones(len(X), dtype=bool)
    return _cut(recording, X, everything, (recording.subject, recording.session), (ch_names, times))


def _cut(
    recording: Recording | EpochedRecording,
    X: NDArray[np.float64],
    inside: NDArray[np.bool_],
    who: tuple[NDArray[np.str_], NDArray[np.str_]],
    axes: tuple[tuple[str, ...], NDArray[np.float64]],
) -> Cut:
    events, (ch_names, times) = recording.events, axes
    per_second = recording.sfreq if isinstance(recording, Recording) else 1.0
    return Cut(
        X=X,
        target=events.target[inside],
        subject=who[0],
        session=who[1],
        character=events.character[inside],
        stimulus=events.stimulus[inside],
        onset=events.onset[inside] / per_second,
        ch_names=ch_names,
        positions=recording.positions[[recording.ch_names.index(name) for name in ch_names]],
        times=times,
        sfreq=recording.sfreq,
    )


def _usable(recording: Recording, grid: SampleGrid) -> NDArray[np.bool_]:
    """Events whose window is inside the recording; an error where there is none, a warning where some are not."""
    source, width = recording.source, grid.stop - grid.start
    if width > recording.signal.shape[1]:
        raise RecordingError(
            source,
            f"the window of {width / recording.sfreq:g} s is longer than the recording ({recording.duration:g} s)",
            "record longer or use a shorter window",
        )
    inside = windows_inside(recording, grid)
    if not inside.any():
        raise RecordingError(source, "no event has its whole window inside the recording", "use a shorter window")
    if not inside.all():
        warnings.warn(
            f"{source}: {np.sum(~inside)} of {len(inside)} trials are left out because their windows are not wholly "
            "inside the recording",
            RuntimeWarning,
            stacklevel=5,
        )
    return inside


def _regridded(X: NDArray[np.float64], recording: EpochedRecording, grid: SampleGrid) -> NDArray[np.float64]:
    """Epochs resampled to a grid inside them."""
    origin = round(recording.times[0] * recording.sfreq)
    first, last = grid.start - origin, grid.stop - origin
    if first < 0 or last > X.shape[2]:
        raise RecordingError(
            recording.source,
            f"its epochs reach from {recording.times[0]:g} to {recording.times[-1]:g} s and do not cover the window",
            "use a window inside the epochs",
        )
    return np.stack([grid.reduce(trial[:, first:last]) for trial in X])


def _grid_and_filter(
    recording: Recording | EpochedRecording, preparation: Preparation
) -> tuple[SampleGrid, NDArray[np.float64] | None]:
    try:
        return preparation.grid(recording.sfreq), preparation.sos(recording.sfreq)
    except ValueError as error:
        raise RecordingError(recording.source, str(error), "choose another preparation") from error


def _referenced(
    signal: NDArray[np.float64], recording: Recording | EpochedRecording, preparation: Preparation
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    try:
        return re_referenced(signal, recording.ch_names, preparation)
    except KeyError as error:
        raise RecordingError(
            recording.source,
            f"unknown reference channel {error.args[0]}",
            f"available: {', '.join(recording.ch_names)}",
        ) from None
