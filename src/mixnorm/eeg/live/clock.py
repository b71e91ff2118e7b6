"""From time stamps to sample numbers: which samples were lost, and at which sample a marker lies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Jitter (s) that is assumed before any was observed.
_FIRST_JITTER = 0.02
#: A deviation is a jump where it exceeds both: so many samples, and so many times the mean deviation.
_SAMPLES, _TIMES_JITTER = 1.5, 6.0
#: How fast the mean deviation and the origin follow the stream, per block of samples.
_FORGET, _FOLLOW = 0.1, 0.05


class Piece(NamedTuple):
    """Samples ``begin … stop − 1`` of a block without a gap, and how many were lost before them."""

    begin: int
    stop: int
    lost: int


class SampleClock:
    """Counts the samples of a stream, lost ones included.

    Sample n of a stream of rate f is expected at time origin + n / f. A small deviation is jitter or drift, which the
    origin follows slowly. A larger one is a jump: forwards, samples were lost (as many as fit into the gap);
    backwards, the clock was set, and at least one sample counts as lost so that no window extends across the jump.
    How large is "larger" is learned from the stream: with exact time stamps, two samples.

    Parameters
    ----------
    sfreq : float
        Samples per second.
    """

    def __init__(self, sfreq: float) -> None:
        self._period = 1.0 / sfreq
        self._origin: float | None = None
        self._count = 0
        self._jitter = _FIRST_JITTER

    def pieces(self, times: NDArray[np.float64]) -> Iterator[Piece]:
        """Divide a block of samples, by their time stamps, into pieces without gaps, and count them."""
        begin = 0
        while begin < len(times):
            lost = self._lost_before(times[begin])
            # From the count and not from the time stamp before: errors of single stamps do not add up.
            expected = self._origin + (self._count + np.arange(len(times) - begin)) * self._period
            deviation = times[begin:] - expected
            jumps = np.flatnonzero(np.abs(deviation) > self._tolerance)
            length = int(jumps[0]) if len(jumps) else len(deviation)
            self._count += length
            self._follow(deviation[:length])
            yield Piece(begin, begin + length, lost)
            begin += length

    def sample_of(self, time: float) -> int | None:
        """Number of the sample that is nearest to a time; None before the first sample."""
        return None if self._origin is None else round((time - self._origin) / self._period)

    @property
    def _tolerance(self) -> float:
        return max(_SAMPLES * self._period, _TIMES_JITTER * self._jitter)

    def _lost_before(self, time: float) -> int:
        """Number of samples lost before one at this time; the origin is set anew after a jump."""
        if self._origin is None:
            self._origin = time
            return 0
        deviation = time - (self._origin + self._count * self._period)
        if abs(deviation) <= self._tolerance:
            return 0
        # at least one also after a jump backwards, so that no window extends across it
        lost = max(1, round(deviation / self._period))
        self._count += lost
        self._origin = time - self._count * self._period
        return lost

    def _follow(self, deviation: NDArray[np.float64]) -> None:
        self._jitter += _FORGET * (float(np.abs(deviation).mean()) - self._jitter)
        # Slowly, because drift is slow, and the deviation of a single block is mostly jitter.
        self._origin += _FOLLOW * float(deviation.mean())
