"""Which samples around a stimulus make a trial, and how a trial is made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from mixnorm.eeg.preparation import Preparation


@dataclass(frozen=True)
class SampleGrid:
    """Offsets from the stimulus, in samples.

    Sample k averages ``length[k]`` samples from ``first[k]`` on; the baseline averages
    ``baseline[0] … baseline[1] − 1``. Together they lie in ``start … stop − 1``.
    """

    first: NDArray[np.int64]
    length: NDArray[np.int64]
    baseline: tuple[int, int] | None
    sfreq: float

    @classmethod
    def of(cls, preparation: Preparation, sfreq: float) -> SampleGrid:
        """The grid of a preparation at a rate; every time is rounded to the nearest sample."""
        if preparation.window is None:
            raise ValueError("a continuous recording needs a window; set window=(start, stop)")
        edges = _edges(preparation, sfreq)
        first = edges[:-1]
        length = np.diff(edges) if preparation.reduce == "mean" else np.ones_like(first)
        baseline = preparation.baseline
        if baseline is not None:
            baseline = (
                round(baseline[0] * sfreq),
                # a baseline of at least one sample, also at a low rate
                max(round(baseline[1] * sfreq), round(baseline[0] * sfreq) + 1),
            )
        return cls(first, length, baseline, sfreq)

    @property
    def times(self) -> NDArray[np.float64]:
        """Centre of each sample, in seconds after the stimulus."""
        return (self.first + (self.length - 1) / 2) / self.sfreq

    @property
    def start(self) -> int:
        """First offset that is needed."""
        return int(min(self.first[0], self.baseline[0] if self.baseline else self.first[0]))

    @property
    def stop(self) -> int:
        """One past the last offset that is needed."""
        last = int(self.first[-1] + self.length[-1])
        return max(last, self.baseline[1]) if self.baseline else last

    def reduce(self, segment: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rows (n_rows, n_times) from rows of the signal at offsets ``start … stop − 1``, each by itself.

        The rows are the channels of one trial, or the trials of one channel. Before anything is summed, the
        segment is copied: sums over the same memory layout have the same bits, whether it was cut from a file or
        from a stream.
        """
        first = self.first - self.start
        picked = np.all(self.length == 1)
        # Nothing is summed, so that no copy is needed for equal bits.
        if picked and self.baseline is None:
            return segment[:, first]
        segment = np.ascontiguousarray(segment)
        if self.baseline is not None:
            low, high = self.baseline[0] - self.start, self.baseline[1] - self.start
            segment = segment - segment[:, low:high].mean(axis=1, keepdims=True)
        if picked:
            return segment[:, first]
        last = first[-1] + self.length[-1]
        # means of unequal numbers of samples in one call
        return np.add.reduceat(segment[:, :last], first, axis=1) / self.length


def _edges(preparation: Preparation, sfreq: float) -> NDArray[np.int64]:
    """Where each sample begins, and where the last one ends."""
    start, stop = preparation.window
    count, step = preparation.n_samples, preparation.decimation
    if step is None and count is not None:
        # The edges are rounded and not the lengths: errors do not add up over the window.
        edges = np.rint(np.linspace(start, stop, count + 1) * sfreq).astype(np.int64)
        if np.any(np.diff(edges) < 1):
            raise ValueError(f"{count} samples do not fit into {stop - start:g} s at {sfreq:g} Hz")
        return edges
    step = step or 1
    # A sample belongs to the window when its time does: 0.6 s at 256 Hz is 153.6 samples, so 0 … 153.
    begin, end = round(start * sfreq), int(np.ceil(stop * sfreq - 1e-9))
    fitting = -(-(end - begin) // step)
    if count is not None and fitting < count:
        raise ValueError(f"every {step} samples at {sfreq:g} Hz give {fitting} in the window, not {count}")
    return begin + step * np.arange((count or fitting) + 1)
