"""What happens to samples and markers that arrive: the part of a live session that needs no connection."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.decoder import Decoder
from mixnorm.eeg.live.clock import SampleClock
from mixnorm.eeg.stream import StreamDecoder, StreamScore

#: How long (s) after its sample a marker may arrive.
LATE_S = 2.0


class Marker(NamedTuple):
    """A stimulus: its time on the clock of the stream (s), and its name or code."""

    time: float
    name: str


class LiveScore(NamedTuple):
    """The score of one marker; `score` is NaN where there is none, and `reason` says why."""

    time: float
    name: str
    onset: int
    score: float
    reason: str | None


class LiveSession:
    """Scores of markers from blocks of samples with time stamps.

    Everything depends on what is pushed and nothing on the time at which that happens, so that a log of the pushes
    gives the same scores again.

    Parameters
    ----------
    decoder : Decoder
    ch_names : sequence of str
        Channels of the stream.
    unit : str
        Unit of the samples, one of `mixnorm.eeg.stream.UNITS`.
    marker_delay : float
        Seconds to add to the times of markers.
    """

    def __init__(self, decoder: Decoder, ch_names: Sequence[str], unit: str = "µV", marker_delay: float = 0.0) -> None:
        self._stream = StreamDecoder(decoder, ch_names, unit, late_s=LATE_S)
        self._clock, self.marker_delay = SampleClock(decoder.sfreq), marker_delay
        self._waiting: list[Marker] = []
        self._names: dict[int, list[Marker]] = defaultdict(list)
        self.n_lost = 0

    @property
    def settling_s(self) -> float:
        """As in `StreamDecoder`."""
        return self._stream.settling_s

    @property
    def n_samples(self) -> int:
        """Samples so far, lost ones included."""
        return self._stream.n_samples

    def reorder(self, ch_names: Sequence[str]) -> None:
        """Take the next samples with these channels, after a stream was connected again."""
        self._stream.reorder(ch_names)

    def push(
        self, samples: NDArray[np.float64], times: NDArray[np.float64], markers: Iterable[Marker] = ()
    ) -> list[LiveScore]:
        """Take samples (n, channels) with their time stamps, and markers; return the scores that are complete.

        A marker may come before or after its sample.
        """
        self._waiting += markers
        scores: list[LiveScore] = []
        # Piece by piece: a gap inside a block must be known to the filter before the samples after it.
        for begin, stop, lost in self._clock.pieces(times):
            self.n_lost += lost
            first = self._stream.n_samples + lost
            onsets = self._arrived(first + stop - begin)
            piece = samples[begin:stop].T
            scores += self._named(self._stream.push(piece, [onset - first for onset in onsets], lost))
        return scores

    def end(self) -> list[LiveScore]:
        """The markers that have no score yet, without one."""
        reason = "the session ended before the window was complete"
        left = [StreamScore(one.onset, float("nan"), reason) for one in self._stream.reset()]
        never = [LiveScore(*marker, -1, float("nan"), reason) for marker in self._waiting]
        self._waiting = []
        return [*self._named(left), *never]

    def _arrived(self, stop: int) -> list[int]:
        """Samples of the waiting markers that lie before sample `stop`; the others go on waiting."""
        onsets, waiting = [], []
        for marker in self._waiting:
            # asked again with every block until its sample has arrived
            onset = self._clock.sample_of(marker.time + self.marker_delay)
            if onset is None or onset >= stop:
                waiting.append(marker)
                continue
            onsets.append(onset)
            self._names[onset].append(marker)
        self._waiting = waiting
        return onsets

    def _named(self, scores: Iterable[StreamScore]) -> list[LiveScore]:
        named = []
        for onset, score, reason in scores:
            # Two markers may lie on one sample; scores come in the order in which the markers were pushed.
            marker = self._names[onset].pop(0)
            if not self._names[onset]:
                del self._names[onset]
            named.append(LiveScore(marker.time, marker.name, onset, score, reason))
        return named
