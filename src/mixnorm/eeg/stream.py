"""A decoder on a stream: chunks of signal in, scores out as soon as a window is complete."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mixnorm.eeg.bridging import BridgingFilter, settling_samples
from mixnorm.eeg.cutting import re_referenced
from mixnorm.eeg.decoder import Decoder

#: Factors from units of a stream to microvolts.
UNITS = {"V": 1e6, "mV": 1e3, "µV": 1.0, "uV": 1.0, "nV": 1e-3}

#: A thousand volts: a larger value is a damaged packet, whose trace in the filter would take minutes to vanish.
LARGEST = 1e9

#: A trial whose amplitudes are this many times larger or smaller than those of training is probably in another unit.
ODD_FACTOR = 100.0


class StreamScore(NamedTuple):
    """The score of one event.

    Attributes
    ----------
    onset : int
        Sample of the event, counted from the start of the stream; lost samples count.
    score : float
        NaN where the window contains lost samples.
    reason : str or None
        Why there is no score, or why it should not be trusted; None where all is well.

    See Also
    --------
    StreamDecoder : Returns one for each event.

    Examples
    --------
    >>> from mixnorm.eeg import StreamScore
    >>> StreamScore(onset=512, score=0.8)
    StreamScore(onset=512, score=0.8, reason=None)
    """

    onset: int
    score: float
    reason: str | None = None


class StreamTrial(NamedTuple):
    """A prepared trial (n_channels, n_times) of an event, not yet scored; None where samples are lost."""

    onset: int
    trial: NDArray[np.float64] | None
    reason: str | None = None


class StreamDecoder:
    """Run a `Decoder` on chunks of a signal; the scores are bit-identical to those of the whole recording.

    The filter state and unfinished windows are kept between chunks; memory is bounded by the longest window.

    A stream may lose samples: NaN or infinite values, or the number `lost` that `push` is told. An event whose window
    contains a lost sample of a channel that the classifier uses gets NaN and a reason. Every other event gets a score:
    the filter bridges the gap, and from `settling_s` after its end on the scores agree with those of a stream that
    lost nothing, to 1e-8 of their standard deviation. Channels that the classifier does not use are not read.

    Parameters
    ----------
    decoder : Decoder
        Fitted, or loaded from a file, with a causal preparation.
    ch_names : sequence of str, optional
        Channels of the stream in the order in which they come; the decoder's own by default.
    unit : {"µV", "uV", "mV", "V", "nV"}
        Unit of the chunks.
    late_s : float
        How many seconds an event may arrive after its sample (see `push`) and still be scored.

    See Also
    --------
    StreamSpeller : Letters on a stream.
    Decoder.predict : The scores of a whole recording.

    Examples
    --------
    >>> import numpy as np
    >>> from mixnorm.eeg import Decoder, StreamDecoder, simulated_recording
    >>> recording = simulated_recording(60, n_channels=3, n_informative=2)
    >>> stream = StreamDecoder(Decoder.fit(recording))
    >>> chunk = recording.signal[:, :1024].copy()
    >>> chunk[:, 600] = np.nan
    >>> first, second = stream.push(chunk, [100, 500])
    >>> bool(np.isfinite(first.score)), second.reason
    (True, '1 sample lost in Fz, Cz, Pz')
    """

    def __init__(
        self, decoder: Decoder, ch_names: Sequence[str] | None = None, unit: str = "µV", late_s: float = 0.0
    ) -> None:
        preparation = decoder.preparation
        if preparation.window is None:
            raise ValueError("A model of epochs without a window cannot run on a stream: train it on a recording.")
        if not preparation.is_causal:
            raise ValueError("A zero-phase filter cannot run on a stream: train with a preparation of phase='causal'.")
        if unit not in UNITS:
            raise ValueError(
                f"Invalid value for the 'unit' parameter. Allowed values are {', '.join(map(repr, UNITS))}, but got "
                f"{unit!r} instead."
            )
        self._decoder, self._factor = decoder, UNITS[unit]
        self._grid, self._sos = preparation.grid(decoder.sfreq), preparation.sos(decoder.sfreq)
        self._late = round(late_s * decoder.sfreq)
        self._used = decoder.used.tolist()
        self.reorder(ch_names or decoder.ch_names)
        self._begin_stream()

    @property
    def n_samples(self) -> int:
        """Samples so far, lost ones included."""
        return self._begin + self._buffer.shape[1]

    @property
    def settling_s(self) -> float:
        """Seconds from the end of a gap to the first event whose score no longer depends on it.

        "No longer" is 1e-8 of the scores' standard deviation; before that, scores are finite but may deviate.
        """
        return max(0, settling_samples(self._sos) - self._grid.start) / self._decoder.sfreq

    def reorder(self, ch_names: Sequence[str]) -> None:
        """Take the next chunks with these channels, for instance after an amplifier was connected again.

        Parameters
        ----------
        ch_names : sequence of str
            All channels of the next chunks, in their order.
        """
        names = tuple(ch_names)
        needed = self._decoder.needed
        missing = [name for name in needed if name not in names]
        if missing:
            raise ValueError(f"The stream has no channel {', '.join(missing)}, which the model needs.")
        double = [name for name in needed if names.count(name) > 1]
        if double:
            raise ValueError(f"The stream has more than one channel {', '.join(double)}.")
        self._n_channels, self._names = len(names), needed
        self._order = [names.index(name) for name in needed]
        # which rows the classifier uses once the reference is subtracted: looked up here, not in every chunk
        _, kept = re_referenced(np.empty((len(needed), 0)), needed, self._decoder.preparation)
        rows = [kept.index(self._decoder.feature_names[feature]) for feature in self._used]
        self._rows = None if rows == list(range(len(kept))) else rows

    def reset(self) -> list[StreamScore]:
        """Start a new stream; return the events whose windows were not complete, without scores.

        Returns
        -------
        list of StreamScore
            In the order of the onsets, each with a reason.
        """
        reason = "the stream was reset before the window was complete"
        unfinished = [StreamScore(onset, float("nan"), reason) for onset in self._pending]
        self._begin_stream()
        return unfinished

    def push(self, chunk: ArrayLike, events: Iterable[int] = (), lost: int = 0) -> list[StreamScore]:
        """Take the next samples, and return the scores of all events whose window is now complete.

        Parameters
        ----------
        chunk : (n_channels, n_samples) array
            In `unit`. May be empty.
        events : iterable of int
            Onsets within this chunk, 0 being its first sample. An event that arrived after its sample has a negative
            onset.
        lost : int
            Number of samples that were lost between the last chunk and this one.

        Returns
        -------
        list of StreamScore
            In the order of the onsets. Every event is returned by one of the calls.
        """
        return [self._scored(one) for one in self.trials(chunk, events, lost)]

    def trials(self, chunk: ArrayLike, events: Iterable[int] = (), lost: int = 0) -> list[StreamTrial]:
        """Do what `push` does, but return the prepared trials instead of their scores.

        Parameters
        ----------
        chunk : (n_channels, n_samples) array
            In `unit`.
        events : iterable of int
            Onsets within this chunk.
        lost : int
            Number of samples that were lost between the last chunk and this one.

        Returns
        -------
        list of StreamTrial
            In the order of the onsets.
        """
        chunk, onsets = self._checked(chunk), sorted(int(event) for event in events)
        # An event of a later chunk belongs to that chunk; late ones, with a negative onset, are allowed.
        if onsets and onsets[-1] >= chunk.shape[1]:
            raise ValueError(f"Events must lie in 0 … {chunk.shape[1] - 1}, but got {onsets}.")
        if lost < 0:
            raise ValueError(f"The number of lost samples must not be negative, but got {lost}.")
        # First the gap: its samples come before those of the chunk, and windows that end in it are complete now.
        found = self._skip(lost)
        self._pending = sorted([*self._pending, *(self.n_samples + onset for onset in onsets)])
        self._append(self._filter.push(self._read(chunk)))
        return sorted([*found, *self._ready()], key=lambda one: one.onset)

    def _begin_stream(self) -> None:
        self._filter = BridgingFilter(self._sos, len(self._used))
        self._pending: list[int] = []
        self._begin = 0  # sample number of the first one in the buffer
        self._buffer = np.empty((len(self._used), 0))

    def _checked(self, chunk: ArrayLike) -> NDArray[np.float64]:
        chunk = np.asarray(chunk, dtype=np.float64)
        if chunk.ndim != 2 or chunk.shape[0] != self._n_channels:
            raise ValueError(f"A chunk must be ({self._n_channels}, n_samples), but got shape {chunk.shape}.")
        return chunk

    def _append(self, signal: NDArray[np.float64]) -> None:
        self._buffer = np.concatenate([self._buffer, signal], axis=1)

    def _skip(self, lost: int) -> list[StreamTrial]:
        """Append lost samples; of a long gap only as many as windows and late events can reach, then count on."""
        if lost == 0:
            return []
        self._filter.skip(lost)
        # No window reaches further back than this, so that further lost samples need not be stored, only counted.
        longest = self._grid.stop - min(self._grid.start, 0) + self._late
        self._append(np.full((len(self._used), min(lost, longest)), np.nan))
        found = self._ready()
        self._begin += max(0, lost - longest)
        return found

    def _read(self, chunk: NDArray[np.float64]) -> NDArray[np.float64]:
        """The used channels in microvolts, re-referenced; NaN where a sample was lost."""
        signal = chunk[self._order]
        if self._factor != 1.0:
            signal = signal * self._factor
        # NaN compares as False, so that NaN, infinities and damaged values all become NaN.
        with np.errstate(invalid="ignore"):
            signal[~(np.abs(signal) <= LARGEST)] = np.nan
        signal, _ = re_referenced(signal, self._names, self._decoder.preparation)
        return signal if self._rows is None else signal[self._rows]

    def _ready(self) -> list[StreamTrial]:
        found = []
        while self._pending and self._pending[0] + self._grid.stop <= self.n_samples:
            found.append(self._prepared(self._pending.pop(0)))
        # Kept are the window of the first pending event, and what a late event may still ask for.
        keep_from = min([self.n_samples - self._late, *self._pending[:1]]) + min(self._grid.start, 0)
        drop = max(0, keep_from - self._begin)
        # a view would keep the whole former buffer in memory
        self._buffer, self._begin = self._buffer[:, drop:].copy(), self._begin + drop
        return found

    def _prepared(self, onset: int) -> StreamTrial:
        grid, first = self._grid, onset + self._grid.start - self._begin
        if onset + grid.start < 0:
            return StreamTrial(onset, None, "the window begins before the stream")
        if first < 0:
            return StreamTrial(onset, None, self._why_gone(onset))
        window = self._buffer[:, first : first + grid.stop - grid.start]
        lost = np.isnan(window)
        if lost.any():
            return StreamTrial(onset, None, self._why_lost(lost))
        # zero in channels without a weight, as `Decoder.score_used` has it: then the bits are the same
        trial = np.zeros((len(self._decoder.feature_names), len(grid.first)))
        trial[self._used] = grid.reduce(window)
        return StreamTrial(onset, trial, self._oddity(trial))

    def _scored(self, one: StreamTrial) -> StreamScore:
        score = float("nan") if one.trial is None else self._decoder.score_trial(one.trial)
        return StreamScore(one.onset, score, one.reason)

    def _why_gone(self, onset: int) -> str:
        late = (self.n_samples - onset) / self._decoder.sfreq
        return f"the event arrived {late:.3g} s after its sample, when its signal was no longer kept"

    def _why_lost(self, lost: NDArray[np.bool_]) -> str:
        count, channels = int(lost.any(axis=0).sum()), lost.any(axis=1)
        samples = f"{count} sample{'s' if count > 1 else ''} lost in"
        names = [self._decoder.feature_names[feature] for feature in np.asarray(self._used)[channels]]
        return f"{samples} {', '.join(names)}"

    def _oddity(self, trial: NDArray[np.float64]) -> str | None:
        """A remark where the amplitudes are far from those of training, as they are in another unit."""
        scale = self._decoder.scaler.scale_[self._used]
        if not self._used:
            return None
        # The median over channels: one bad electrode does not mean that the unit is wrong.
        ratio = float(np.median(np.abs(trial[self._used]).max(axis=1) / scale))
        if not ratio:
            return "the signal is constant"
        if 1 / ODD_FACTOR <= ratio <= ODD_FACTOR:
            return None
        return f"the amplitudes are {ratio:.1g} times those of the training trials: check the unit of the stream"
