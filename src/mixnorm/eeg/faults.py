"""What is wrong with channels and trials: NaN, flat signals, segments marked as bad, windows that are cut off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.recording import EpochedRecording, Recording
from mixnorm.eeg.sample_grid import SampleGrid

#: Kinds of faults of a trial, the most serious first; a trial with several counts as the first of them.
OUTSIDE, MARKED, LOST, FLAT = KINDS = ("outside", "marked", "lost", "flat")

#: A channel that is flat or lost in more than this share of the recording is left out as a whole: otherwise most
#: trials would be.
MOST_OF_A_CHANNEL = 0.5

#: Seconds, and at least so many samples, of one and the same value that count as flat. EEG, even in 8 bits, does not
#: stay on one value that long; a dead or saturated channel does.
FLAT_S, FLAT_SAMPLES = 0.1, 8

#: Epochs of fewer samples cannot be flat one by one: with so few, equal values occur by chance.
FEWEST_TIMES = 5


_REASONS = {
    "": "",
    OUTSIDE: "the window is not wholly inside the recording",
    MARKED: "overlaps {}",
    LOST: "NaN in {}",
    FLAT: "flat: {}",
}


@dataclass(frozen=True)
class Faults:
    """The fault of every event of a recording.

    Attributes
    ----------
    kind : (n_events,) str array
        One of `KINDS`, "" where the trial can be used.
    because : tuple of tuples of str
        For each event the channels that are lost or flat, or the annotation that marks it.
    """

    kind: NDArray[np.str_]
    because: tuple[tuple[str, ...], ...] = field(repr=False)

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Which trials have no fault."""
        return self.kind == ""

    def reasons(self) -> NDArray[np.str_]:
        """For each event what is wrong with it in words, "" where the trial can be used."""
        texts = [_REASONS[kind].format(", ".join(names)) for kind, names in zip(self.kind, self.because, strict=True)]
        return np.array(texts, dtype=str)


def useless_channels(recording: Recording | EpochedRecording) -> dict[str, str]:
    """The channels that are flat or lost in most of the recording, and why they are of no use."""
    found = {}
    for channel, name in enumerate(recording.ch_names):
        if isinstance(recording, Recording):
            lost, flat = _shares(recording.signal[channel], recording.sfreq)
        else:
            lost, flat = _shares_of_epochs(recording.X[:, channel])
        # lost before flat: a channel of NaN has no values that could be equal
        if lost > MOST_OF_A_CHANNEL:
            found[name] = f"NaN in {_percent(lost)} of the recording"
        elif flat > MOST_OF_A_CHANNEL:
            found[name] = f"flat in {_percent(flat)} of the recording"
    return found


def faults_of(recording: Recording | EpochedRecording, grid: SampleGrid | None = None) -> Faults:
    """What is wrong with each trial; `grid` says what the window of a continuous recording is."""
    if isinstance(recording, EpochedRecording):
        masks = _faults_of_epochs(recording)
    else:
        assert grid is not None  # a continuous recording has no trials without a window
        masks = _faults_of_windows(recording, grid)
    kind = np.full(len(recording.events), "", dtype="<U8")
    because: list[tuple[str, ...]] = [()] * len(kind)
    # In the order of `KINDS`: the first fault that is found is the one that is reported.
    for name, (names, mask) in masks.items():
        for event in np.flatnonzero((kind == "") & mask.any(axis=1)):
            kind[event] = name
            because[event] = tuple(names[column] for column in np.flatnonzero(mask[event]))
    return Faults(kind, tuple(because))


#: For each kind of fault the names that may cause it, and a mask (events, names).
_Masks = dict[str, tuple[Sequence[str], NDArray[np.bool_]]]


def _faults_of_windows(recording: Recording, grid: SampleGrid) -> _Masks:
    onset = recording.events.onset
    start, stop = onset + grid.start, onset + grid.stop
    n_samples, spans = recording.signal.shape[1], recording.bad_spans
    outside = (start < 0) | (stop > n_samples)
    # The rule of mne.Epochs: the window and the segment share more than a border.
    marked = [(span.start < stop) & (span.stop > start) for span in spans]
    # Windows outside the recording are reported as such; here they only must not be out of bounds.
    inside = np.clip(start, 0, n_samples), np.clip(stop, 0, n_samples)
    lost = [_lost_in(row, *inside) for row in recording.signal]
    flat = [_flat_in(row, *inside, recording.sfreq) for row in recording.signal]
    return {
        # no channel is the cause
        OUTSIDE: ((" ",), outside[:, None]),
        MARKED: ([span.description for span in spans], np.array(marked, dtype=bool).reshape(-1, len(onset)).T),
        LOST: (recording.ch_names, np.array(lost).T),
        FLAT: (recording.ch_names, np.array(flat).T),
    }


def _faults_of_epochs(recording: EpochedRecording) -> _Masks:
    X, bad = recording.X, recording.bad
    descriptions = [] if bad is None else sorted({str(text) for text in bad if text})
    marked = [] if bad is None else [bad == text for text in descriptions]
    return {
        MARKED: (descriptions, np.array(marked, dtype=bool).reshape(-1, len(X)).T),
        LOST: (recording.ch_names, ~np.isfinite(X).all(axis=2)),
        FLAT: (recording.ch_names, _constant(X) if X.shape[2] >= FEWEST_TIMES else np.zeros(X.shape[:2], dtype=bool)),
    }


def _constant(X: NDArray[np.float64]) -> NDArray[np.bool_]:
    return (X[..., :1] == X).all(axis=-1)


def _shares(row: NDArray[np.float64], sfreq: float) -> tuple[float, float]:
    """The shares of the samples of a channel that are lost, and that are in a flat segment."""
    begin, end = _flat_runs(row, sfreq)
    return float(np.mean(~np.isfinite(row))), float(np.sum(end - begin)) / len(row)


def _shares_of_epochs(trials: NDArray[np.float64]) -> tuple[float, float]:
    lost = float(np.mean(~np.isfinite(trials).all(axis=1)))
    if trials.shape[1] >= FEWEST_TIMES:
        return lost, float(np.mean(_constant(trials)))
    # Too few samples to tell a flat epoch from chance: only a channel that never changes is flat.
    return lost, float(_constant(trials.ravel()))


def _lost_in(row: NDArray[np.float64], start: NDArray[np.int64], stop: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which windows ``start … stop − 1`` of a channel contain a value that is not finite."""
    if np.isfinite(row.sum()):  # the usual case: one pass, no memory
        return np.zeros(len(start), dtype=bool)
    # The number of lost samples before each one: the difference at both ends of a window is the number inside it.
    before = np.concatenate([[0], np.cumsum(~np.isfinite(row))])
    return before[stop] > before[start]


def _flat_in(
    row: NDArray[np.float64], start: NDArray[np.int64], stop: NDArray[np.int64], sfreq: float
) -> NDArray[np.bool_]:
    """Which windows of a channel contain a flat segment, or are shorter than one and constant."""
    begin, end = _flat_runs(row, sfreq)
    if not len(begin):
        return np.zeros(len(start), dtype=bool)
    # A flat segment that only touches a window is no fault of the trial; it must be long enough inside.
    shared = np.minimum(stop[:, None], end) - np.maximum(start[:, None], begin)
    return (shared >= np.minimum(_flat_length(sfreq), stop - start)[:, None]).any(axis=1)


def _flat_runs(row: NDArray[np.float64], sfreq: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First sample, and one past the last, of every segment of one and the same value that is long enough."""
    same = row[1:] == row[:-1]  # NaN differs from NaN
    if same.sum() < _flat_length(sfreq) - 1:  # the usual case
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    changes = np.flatnonzero(~same) + 1
    edges = np.concatenate([[0], changes, [len(row)]])
    long = np.diff(edges) >= _flat_length(sfreq)
    return edges[:-1][long], edges[1:][long]


def _flat_length(sfreq: float) -> int:
    return max(FLAT_SAMPLES, round(FLAT_S * sfreq))


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
