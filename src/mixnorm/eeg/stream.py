"""A decoder on a stream: chunks of signal in, scores out as soon as a window is complete."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mixnorm.eeg.cutting import re_referenced
from mixnorm.eeg.decoder import Decoder
from mixnorm.eeg.filters import CausalFilter


class StreamScore(NamedTuple):
    """The score of one event; `onset` counts samples from the start of the stream."""

    onset: int
    score: float


class StreamDecoder:
    """Run a `Decoder` on chunks of a signal; the scores are bit-identical to those of the whole recording.

    The filter state and unfinished windows are kept between chunks; memory is bounded by the longest window.

    Parameters
    ----------
    decoder : Decoder
        Fitted, or loaded from a file, with a causal preparation.
    ch_names : sequence of str, optional
        Channels of the stream in the order in which they come; the decoder's own by default.
    """

    def __init__(self, decoder: Decoder, ch_names: Sequence[str] | None = None) -> None:
        preparation = decoder.preparation
        if preparation.phase != "causal" and preparation.band is not None:
            raise ValueError("A zero-phase filter cannot run on a stream: train with a preparation of phase='causal'.")
        names = tuple(ch_names or decoder.ch_names)
        missing = [name for name in decoder.ch_names if name not in names]
        if missing:
            raise ValueError(f"The stream has no channel {', '.join(missing)}, which the model needs.")
        self._decoder = decoder
        self._n_channels = len(names)
        self._order = [names.index(name) for name in decoder.ch_names]
        self._grid = preparation.grid(decoder.sfreq)
        sos = preparation.sos(decoder.sfreq)
        self._filter = None if sos is None else CausalFilter(sos)
        self._pending: list[int] = []
        self._begin = 0  # sample number of the first one in the buffer
        self._buffer = np.empty((len(decoder.feature_names), 0))

    @property
    def n_samples(self) -> int:
        """Samples pushed so far."""
        return self._begin + self._buffer.shape[1]

    def push(self, chunk: ArrayLike, events: Iterable[int] = ()) -> list[StreamScore]:
        """Take the next samples, and return the scores of all events whose window is now complete.

        Parameters
        ----------
        chunk : (n_channels, n_samples) array
            Microvolts.
        events : iterable of int
            Onsets within this chunk, 0 being its first sample.

        Returns
        -------
        list of StreamScore
            In the order of the onsets. An event whose window begins before the stream did gets NaN.
        """
        chunk = self._checked(chunk)
        onsets = sorted(int(event) for event in events)
        if onsets and not 0 <= onsets[0] <= onsets[-1] < chunk.shape[1]:
            raise ValueError(f"Events must lie in 0 … {chunk.shape[1] - 1}, but got {onsets}.")
        self._pending += [self.n_samples + onset for onset in onsets]
        signal, _ = re_referenced(chunk[self._order], self._decoder.ch_names, self._decoder.preparation)
        if self._filter is not None:
            signal = self._filter.push(signal)
        self._buffer = np.concatenate([self._buffer, signal], axis=1)
        return self._ready()

    def _checked(self, chunk: ArrayLike) -> NDArray[np.float64]:
        chunk = np.asarray(chunk, dtype=np.float64)
        if chunk.ndim != 2 or chunk.shape[0] != self._n_channels:
            raise ValueError(f"A chunk must be ({self._n_channels}, n_samples), but got shape {chunk.shape}.")
        return chunk

    def _ready(self) -> list[StreamScore]:
        grid, scores = self._grid, []
        while self._pending and self._pending[0] + grid.stop <= self.n_samples:
            onset = self._pending.pop(0)
            first = onset + grid.start - self._begin
            if onset + grid.start < 0:
                scores.append(StreamScore(onset, float("nan")))
                continue
            trial = grid.reduce(self._buffer[:, first : first + grid.stop - grid.start])
            scores.append(StreamScore(onset, self._decoder.score_trial(trial)))
        oldest = min([self.n_samples, *self._pending[:1]]) + min(grid.start, 0)
        drop = max(0, oldest - self._begin)
        self._buffer, self._begin = self._buffer[:, drop:].copy(), self._begin + drop
        return scores
