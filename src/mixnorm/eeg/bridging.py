"""A causal filter that goes on after lost samples, and how long its output then deviates."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray
from scipy import signal as sps

#: The remaining share of a disturbance at which a filter counts as settled: scores are then within 1e-8 of their
#: standard deviation (measured on real recordings: 1e-9; see docs/live.md).
SETTLED = 1e-9
#: The longest memory of a filter in samples, two hours at 512 Hz: a band from 1e-6 Hz would have one of 18 GiB.
LONGEST = 1 << 22


class BridgingFilter:
    """A causal filter whose input may contain NaN: samples that were lost.

    Channel by channel, a gap is replaced by the straight line from the sample before it to the sample after it, so
    that neither an offset nor a drift of the amplifier causes a step. The line is filtered when the gap is over, and
    the output at lost samples is NaN. A gap that is longer than the memory of the filter is not filtered: the filter
    starts again, in the state of a constant signal, as at the beginning of the stream. Memory is therefore
    constant, however long the gap is.

    The initial state is that of a constant signal at the first sample, so that the offset of a DC amplifier, thousands
    of microvolts, causes no transient. Filtering chunks gives the same bits as filtering the whole signal.

    Parameters
    ----------
    sos : (n_sections, 6) array or None
        None: nothing is filtered.
    n_channels : int

    Examples
    --------
    >>> from mixnorm.eeg.filters import design_sos
    >>> filt = BridgingFilter(design_sos((1.0, 10.0), 100.0, "butterworth", 2, 0.0), 1)
    >>> np.isnan(filt.push(np.array([[5.0, np.nan, np.nan, 5.0]]))).tolist()
    [[False, True, True, False]]
    """

    def __init__(self, sos: NDArray[np.float64] | None, n_channels: int) -> None:
        self._sos = sos
        self._memory = settling_samples(sos)
        self._at_rest = None if sos is None else sps.sosfilt_zi(sos)
        # Sections first, as SciPy wants it.
        self._state = None if sos is None else np.zeros((len(sos), n_channels, 2))
        self._last = np.full(n_channels, np.nan)
        # Longer than any memory at first: every channel starts when its first sample arrives.
        self._gap = np.full(n_channels, self._memory + 1)

    def skip(self, n_samples: int) -> None:
        """Note that the next samples of all channels were lost."""
        self._gap += n_samples

    def push(self, chunk: NDArray[np.float64]) -> NDArray[np.float64]:
        """Filter the next (n_channels, n_samples); NaN where a sample was lost."""
        if self._sos is None or chunk.shape[1] == 0:
            return chunk
        # the usual case, all channels at once: `sosfilt` treats each row by itself, so that the bits are those of the
        # loop below
        if not self._gap.any() and np.isfinite(chunk).all():
            out, self._state = sps.sosfilt(self._sos, chunk, zi=self._state)
            self._last = chunk[:, -1].copy()
            return out
        return np.stack([self.push_channel(channel, row) for channel, row in enumerate(chunk)])

    def push_channel(self, channel: int, row: NDArray[np.float64]) -> NDArray[np.float64]:
        """Filter the next samples (n_samples,) of one channel; NaN where a sample was lost."""
        if self._sos is None or not len(row):
            return row
        there, out = np.isfinite(row), np.full(len(row), np.nan)
        # segments of present and of lost samples, in turn
        edges = [0, *(np.flatnonzero(np.diff(there)) + 1).tolist(), len(row)]
        for begin, end in itertools.pairwise(edges):
            if not there[begin]:
                self._gap[channel] += end - begin
                continue
            self._close_gap(channel, row[begin])
            out[begin:end] = self._run(channel, row[begin:end])
            self._last[channel] = row[end - 1]
        return out

    def _close_gap(self, channel: int, value: float) -> None:
        """Bring the filter to the first sample after a gap."""
        gap = int(self._gap[channel])
        if gap > self._memory:
            # After a gap that is longer than its memory, a filter owes nothing to the samples before it.
            self._state[:, channel] = self._at_rest * value
        # The line is filtered and its output thrown away: it only carries the state of the filter across the gap.
        elif gap:
            self._run(channel, np.linspace(self._last[channel], value, gap + 2)[1:-1])
        self._gap[channel] = 0

    def _run(self, channel: int, row: NDArray[np.float64]) -> NDArray[np.float64]:
        out, self._state[:, channel] = sps.sosfilt(self._sos, row, zi=self._state[:, channel])
        return out


def settling_samples(sos: NDArray[np.float64] | None, share: float = SETTLED) -> int:
    """Number of samples after which a past input no longer matters.

    With h the impulse response, the error of a bridge, |e| ≤ E, contributes at most E Σ_{k ≥ n} |h_k| to the output
    n samples after its end. This is the first n at which the sum has fallen to `share` of what it is for n = 0, at
    most `LONGEST`.
    """
    if sos is None:
        return 0
    # The slowest pole says how long a response to compute: its power of this length is far below `share`.
    slowest = np.abs(np.concatenate([np.roots(section[3:]) for section in sos])).max()
    length = int(np.ceil(2 * np.log(share) / np.log(min(slowest, 1 - 1e-9)))) + 64
    if length > 2 * LONGEST:
        return LONGEST
    impulse = np.zeros(length)
    impulse[0] = 1.0
    # Σ_{k ≥ n} |h_k| for every n
    tail = np.cumsum(np.abs(sps.sosfilt(sos, impulse))[::-1])[::-1]
    return min(int(np.argmax(tail <= share * tail[0])), LONGEST)
