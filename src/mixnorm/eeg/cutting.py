"""One recording cut into trials: re-referenced, filtered, then sampled around each stimulus."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from mixnorm.eeg.bridging import BridgingFilter
from mixnorm.eeg.faults import MARKED, OUTSIDE, Faults, faults_of
from mixnorm.eeg.filters import bridged, zero_phase
from mixnorm.eeg.left_out import LeftOut
from mixnorm.eeg.preparation import Preparation
from mixnorm.eeg.recording import EpochedRecording, Recording, RecordingError
from mixnorm.eeg.sample_grid import SampleGrid


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
    left_out: LeftOut


def cut(recording: Recording | EpochedRecording, preparation: Preparation) -> Cut:
    """The trials of one recording, prepared."""
    if isinstance(recording, EpochedRecording):
        return _cut_epochs(recording, preparation)
    return _cut_continuous(recording, preparation)


def faults_in(recording: Recording | EpochedRecording, preparation: Preparation) -> Faults:
    """What is wrong with the trials that a preparation would cut."""
    if isinstance(recording, EpochedRecording):
        return faults_of(recording)
    return faults_of(recording, _grid_and_filter(recording, preparation)[0])


def re_referenced(
    signal: NDArray[np.float64], ch_names: Sequence[str], preparation: Preparation
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """The signal (n_channels, n_samples) minus its reference, and the names of the remaining channels."""
    keep, reference = _reference(signal, ch_names, preparation)
    if reference is None:
        return signal, tuple(ch_names)
    return signal[keep] - reference, tuple(ch_names[channel] for channel in keep)


def _reference(
    signal: NDArray[np.float64], ch_names: Sequence[str], preparation: Preparation
) -> tuple[list[int], NDArray[np.float64] | None]:
    """The channels that remain, and the reference (n_samples,) that is subtracted from them; None without one."""
    reference = preparation.reference
    if reference is None:
        return list(range(len(ch_names))), None
    names = tuple(ch_names) if reference == "average" else reference
    missing = [name for name in names if name not in ch_names]
    if missing:
        raise KeyError(", ".join(missing))
    # Summed channel by channel: the last bit of a sum over an axis depends on the length of the chunk.
    total = np.zeros(signal.shape[1])
    for name in names:
        total += signal[list(ch_names).index(name)]
    # Electrodes that are the reference are no longer sensors; those of an average reference are.
    keep = [channel for channel, name in enumerate(ch_names) if reference == "average" or name not in reference]
    return keep, total / len(names)


def _cut_continuous(recording: Recording, preparation: Preparation) -> Cut:
    grid, sos = _grid_and_filter(recording, preparation)
    _check_length(recording, grid)
    faults = _some_usable(recording, faults_of(recording, grid))
    with _reference_is_known(recording):
        keep, reference = _reference(recording.signal, recording.ch_names, preparation)
    begin = recording.events.onset[faults.usable] + grid.start
    X = np.empty((len(begin), len(keep), len(grid.times)))
    causal = BridgingFilter(sos, len(keep)) if preparation.phase == "causal" else None
    # Channel by channel: a filtered copy of the whole signal would double the memory that a recording takes. A stream
    # is cut trial by trial, but every number is computed along one channel, so that the bits are the same.
    for place, channel in enumerate(keep):
        row = recording.signal[channel]
        if reference is not None:
            row = row - reference
        # The whole signal is filtered and then cut: filters need seconds to settle, and a trial has less than one.
        if causal is not None:
            row = causal.push_channel(place, row)
        elif sos is not None:
            row = zero_phase(sos, bridged(row[None]))[0]
        X[:, place] = grid.reduce(sliding_window_view(row, grid.stop - grid.start)[begin])
    return _cut(recording, X, faults, (tuple(recording.ch_names[channel] for channel in keep), grid.times))


def _cut_epochs(recording: EpochedRecording, preparation: Preparation) -> Cut:
    if preparation.band is not None:
        raise RecordingError(
            recording.source,
            "it contains epochs, which cannot be filtered",
            "use the preset 'epochs' or a preparation with band=None",
        )
    faults = _some_usable(recording, faults_of(recording))
    X, ch_names, times = recording.X[faults.usable], recording.ch_names, recording.times
    if preparation.reference is not None:
        # Epochs are short signals; the same function re-references both.
        with _reference_is_known(recording):
            trials = [re_referenced(trial, recording.ch_names, preparation) for trial in X]
        X, ch_names = np.stack([signal for signal, _ in trials]), trials[0][1]
    if preparation.window is not None:
        grid, _ = _grid_and_filter(recording, preparation)
        X, times = _regridded(X, recording, grid), grid.times
    return _cut(recording, X, faults, (ch_names, times))


def _cut(
    recording: Recording | EpochedRecording,
    X: NDArray[np.float64],
    faults: Faults,
    axes: tuple[tuple[str, ...], NDArray[np.float64]],
) -> Cut:
    events, (ch_names, times) = recording.events.take(faults.usable), axes
    per_second = recording.sfreq if isinstance(recording, Recording) else 1.0
    return Cut(
        X=X,
        target=events.target,
        subject=_of_each(recording, recording.subject)[faults.usable],
        session=_of_each(recording, recording.session)[faults.usable],
        character=events.character,
        stimulus=events.stimulus,
        onset=events.onset / per_second,
        ch_names=ch_names,
        positions=recording.positions[[recording.ch_names.index(name) for name in ch_names]],
        times=times,
        sfreq=recording.sfreq,
        left_out=_left_out(recording, faults),
    )


def _of_each(recording: Recording | EpochedRecording, who: str | NDArray[np.str_]) -> NDArray[np.str_]:
    """Subject or session of every event."""
    return np.full(len(recording.events), who) if isinstance(recording, Recording) else np.asarray(who)


def _left_out(recording: Recording | EpochedRecording, faults: Faults) -> LeftOut:
    out = ~faults.usable
    return LeftOut(
        kind=faults.kind[out],
        because=tuple(names for names, wrong in zip(faults.because, out, strict=True) if wrong),
        target=recording.events.target[out],
        subject=_of_each(recording, recording.subject)[out],
        session=_of_each(recording, recording.session)[out],
        of=len(out),
    )


def _check_length(recording: Recording, grid: SampleGrid) -> None:
    width = grid.stop - grid.start
    if width > recording.signal.shape[1]:
        raise RecordingError(
            recording.source,
            f"the window of {width / recording.sfreq:g} s is longer than the recording ({recording.duration:g} s)",
            "record longer or use a shorter window",
        )


def _some_usable(recording: Recording | EpochedRecording, faults: Faults) -> Faults:
    """Return the faults; an error where no trial is left, a warning that counts those that are left out."""
    if faults.usable.all():
        return faults
    text = _left_out(recording, faults).describe()
    if faults.usable.any():
        warnings.warn(f"{recording.source}: {text}", RuntimeWarning, stacklevel=5)
        return faults
    # a matter of the window and not of the signal, with another remedy
    if np.all(faults.kind == OUTSIDE):
        raise RecordingError(
            recording.source, "no event has its whole window inside the recording", "use a shorter window"
        )
    remedy = "use_bads=True uses what is marked as bad" if MARKED in faults.kind else "exclude the channels named"
    raise RecordingError(recording.source, f"no trial remains: {text}", remedy)


def _regridded(X: NDArray[np.float64], recording: EpochedRecording, grid: SampleGrid) -> NDArray[np.float64]:
    """Epochs resampled to a grid inside them."""
    # the first sample of an epoch, in samples relative to the stimulus
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


@contextmanager
def _reference_is_known(recording: Recording | EpochedRecording) -> Iterator[None]:
    """Name the recording and its channels where a reference channel is missing."""
    try:
        yield
    except KeyError as error:
        raise RecordingError(
            recording.source,
            f"unknown reference channel {error.args[0]}",
            f"available: {', '.join(recording.ch_names)}",
        ) from None
