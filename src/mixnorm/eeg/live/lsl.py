"""Streams of the Lab Streaming Layer: find them, check them, read them, publish scores."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.decoder import Decoder
from mixnorm.eeg.live.live_speller import LiveLetter
from mixnorm.eeg.live.session import LiveScore, Marker
from mixnorm.eeg.readers.guard import require
from mixnorm.eeg.stream import UNITS

#: Types of marker streams, as programs name them.
MARKER_TYPES = ("markers", "marker", "annotations", "events", "stim")
# seconds of EEG at any usual rate: after a pause the backlog comes in a few reads
_MOST_SAMPLES = 4096
_WORDS = {"volts": "V", "volt": "V", "millivolts": "mV", "microvolts": "µV", "microvolt": "µV", "nanovolts": "nV"}
_POWERS = {0: "V", -3: "mV", -6: "µV", -9: "nV"}


class StreamError(ValueError):
    """A stream that is not there, or does not fit the model."""


class ConnectionLost(Exception):
    """A stream ended or no longer answers."""


def lsl() -> Any:
    """The module `mne_lsl.lsl`, or an error that names the extra."""
    return require("mne_lsl.lsl", "lsl")


def find(kind: str, name: str | None, timeout: float, progress: Callable[[str], None] | None = None) -> Any:
    """Wait for the EEG or marker stream (`kind` "eeg" or "markers") and return its description.

    Parameters
    ----------
    kind : {"eeg", "markers"}
    name : str or None
        Name of the stream; needed where there are several.
    timeout : float
        Seconds; infinite where a lost stream is awaited.
    """
    resolve, fits = lsl().resolve_streams, _is_eeg if kind == "eeg" else _is_markers
    until, told = time.monotonic() + timeout, False
    while True:
        found = [one for one in resolve(timeout=1.0) if (one.name == name if name else fits(one))]
        # Markers come at irregular times and have the rate 0, which tells them from samples also where a name was
        # given.
        found = [one for one in found if (one.sfreq > 0) == (kind == "eeg")]
        if len(found) == 1:
            return found[0]
        if len(found) > 1:
            names = ", ".join(sorted(repr(one.name) for one in found))
            option = "--eeg" if kind == "eeg" else "--markers"
            raise StreamError(f"There are {len(found)} {kind} streams, {names}; choose one with {option} NAME.")
        if time.monotonic() > until:
            what = f"stream named {name!r}" if name else f"stream of type {'EEG' if kind == 'eeg' else 'Markers'}"
            raise StreamError(f"No {what} was found within {timeout:g} s; is the program that sends it running?")
        if progress is not None and not told:
            progress(f"waiting for the {kind} stream")
            told = True


def _is_eeg(info: Any) -> bool:
    return info.stype.lower() == "eeg"


def _is_markers(info: Any) -> bool:
    return info.stype.lower() in MARKER_TYPES


@dataclass(frozen=True)
class EegStream:
    """An EEG stream that fits a decoder, open for reading."""

    inlet: Any
    name: str
    source_id: str
    ch_names: tuple[str, ...]
    unit: str

    @classmethod
    def open(cls, info: Any, decoder: Decoder, unit: str | None = None) -> EegStream:
        """Connect, and check channels, rate and unit before anything is read."""
        inlet = lsl().StreamInlet(info, max_buffered=360, recover=False, processing_flags=["clocksync"])
        inlet.open_stream(timeout=10)
        full = inlet.get_sinfo(timeout=10)
        names = checked_names(full.name, full.get_channel_names(), full.sfreq, decoder)
        unit = unit or checked_unit(full.name, names, full.get_channel_units(), decoder)
        return cls(inlet, full.name, full.source_id, names, unit)

    def pull(self, timeout: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Samples (n, channels) and their times, as far as they have arrived."""
        samples, times = _pulled(self.inlet, timeout)
        return np.asarray(samples, dtype=np.float64).reshape(-1, len(self.ch_names)), times


@dataclass(frozen=True)
class MarkerStream:
    """A marker stream, open for reading: one channel of text or codes, or annotations one-hot."""

    inlet: Any
    name: str
    source_id: str
    ch_names: tuple[str, ...]

    @classmethod
    def open(cls, info: Any) -> MarkerStream:
        """Connect."""
        # As for the EEG: the clocks of both computers are compared, so that markers and samples have one time axis.
        inlet = lsl().StreamInlet(info, max_buffered=360, recover=False, processing_flags=["clocksync"])
        inlet.open_stream(timeout=10)
        full = inlet.get_sinfo(timeout=10)
        return cls(inlet, full.name, full.source_id, tuple(full.get_channel_names() or ()))

    def pull(self) -> list[Marker]:
        """Markers that have arrived."""
        rows, times = _pulled(self.inlet, 0.0)
        return [
            Marker(float(at), name)
            for row, at in zip(rows, times, strict=True)
            for name in marker_names(row, self.ch_names)
        ]


def _pulled(inlet: Any, timeout: float) -> tuple[Any, NDArray[np.float64]]:
    try:
        return inlet.pull_chunk(timeout=timeout, max_samples=_MOST_SAMPLES)
    except TimeoutError:
        return [], np.empty(0)
    # `recover=False`: a lost stream is an error here, and the session searches for it again by its name.
    except RuntimeError as error:  # mne-lsl's LostError is one
        raise ConnectionLost(str(error)) from error


def marker_names(row: Sequence[Any], ch_names: Sequence[str]) -> list[str]:
    """Names of the events in one sample of a marker stream.

    One channel contains text or a code, where 0 and no text mean no event. Of several channels, each stands for an
    event, which occurs where the value is not 0 (annotations one-hot, as PlayerLSL of MNE sends them).

    Examples
    --------
    >>> marker_names(["Target"], ["description"]), marker_names([3.0], []), marker_names([0], [])
    (['Target'], ['3'], [])
    >>> marker_names([0.0, -1.0], ["NonTarget", "Target"])
    ['Target']
    """
    if len(row) > 1:
        labels = ch_names or [str(number + 1) for number in range(len(row))]
        return [label for label, value in zip(labels, row, strict=True) if value]
    value = row[0]
    if isinstance(value, str):
        return [value] if value else []
    return [f"{value:g}"] if value else []


def marker_delay(eeg: EegStream, markers: MarkerStream) -> float | None:
    """Seconds to add to marker times where the streams come from PlayerLSL of MNE; None for other programs.

    The player gives the last sample of a chunk the time at which the chunk ends, and an annotation the time from the
    beginning of the chunk: an annotation is one sample earlier than the sample it belongs to.
    """
    # PlayerLSL gives both of its streams these names and one source.
    played = markers.name == f"{eeg.name}-annotations" and markers.source_id == eeg.source_id
    return 1.0 / eeg.inlet.sfreq if played else None


def checked_names(stream: str, names: Sequence[str] | None, sfreq: float, decoder: Decoder) -> tuple[str, ...]:
    """The channel names of a stream; an error where it does not fit the decoder."""
    if not names:
        raise StreamError(f"Stream {stream!r} does not name its channels; the model needs {_needed(decoder)}.")
    missing = [name for name in decoder.needed if name not in names]
    if missing:
        raise StreamError(
            f"Stream {stream!r} lacks channels that the model needs: {', '.join(missing)}; it has {', '.join(names)}."
        )
    # the filter and the sample times of the model are those of its rate
    if abs(sfreq - decoder.sfreq) > 1e-6 * decoder.sfreq:
        raise StreamError(
            f"Stream {stream!r} has a rate of {sfreq:g} Hz, the model one of {decoder.sfreq:g} Hz; set the amplifier "
            f"to {decoder.sfreq:g} Hz, or train a model at {sfreq:g} Hz."
        )
    return tuple(names)


def checked_unit(stream: str, names: Sequence[str], units: Sequence[str | None] | None, decoder: Decoder) -> str:
    """The unit of the needed channels, one of `UNITS`; an error where it is not known."""
    given = dict(zip(names, units or [None] * len(names), strict=True))
    found = {_unit(given[name]) for name in decoder.needed}
    if len(found) != 1 or None in found:
        said = ", ".join(sorted({repr(given[name]) for name in decoder.needed}))
        raise StreamError(
            f"Stream {stream!r} does not say one voltage unit for the channels of the model (it says {said}); give it "
            "with --unit µV, mV or V."
        )
    return found.pop()


def _unit(text: str | None) -> str | None:
    """A unit as a key of `UNITS`: a symbol, a word, or the power of ten of a volt, as MNE writes it."""
    text = (text or "").strip().replace("μ", "µ")  # the Greek letter and the sign for micro look the same
    if text in UNITS:
        return "µV" if text == "uV" else text
    try:
        return _POWERS.get(int(text))
    except ValueError:
        return _WORDS.get(text.lower())


def _needed(decoder: Decoder) -> str:
    return ", ".join(decoder.needed)


class Outlets:
    """Publishes scores as a stream "mixnorm-scores", and letters as one of text, "mixnorm-letters".

    Both have one channel and the times of the markers.
    """

    def __init__(self, source_id: str, letters: bool = False) -> None:
        self._scores = _outlet("mixnorm-scores", "scores", "float64", source_id)
        self._letters = _outlet("mixnorm-letters", "letters", "string", f"{source_id}-letters") if letters else None

    def push_scores(self, scores: Sequence[LiveScore]) -> None:
        """Publish scores; NaN where there is none."""
        for one in scores:
            self._scores.push_sample(np.array([one.score]), timestamp=one.time)

    def push_letters(self, letters: Sequence[LiveLetter]) -> None:
        """Publish letters."""
        for one in letters:
            self._letters.push_sample([one.symbol], timestamp=one.time)


def _outlet(name: str, kind: str, dtype: str, source_id: str) -> Any:
    info = lsl().StreamInfo(name, kind, 1, 0.0, dtype, source_id)
    info.set_channel_names([name.removeprefix("mixnorm-")])
    return lsl().StreamOutlet(info)
