"""Letters on a running stream: markers of flashes and their scores in, decided letters out."""

from __future__ import annotations

from typing import NamedTuple

from mixnorm.eeg.decoder import Decoder
from mixnorm.eeg.events import UNKNOWN
from mixnorm.eeg.live.session import LiveScore
from mixnorm.eeg.readers.options import tagged_numbers
from mixnorm.eeg.speller import Speller
from mixnorm.eeg.spelling import Stopping
from mixnorm.eeg.stream_speller import ScoredLetters, StreamLetter


class LiveLetter(NamedTuple):
    """A letter that was decided on: its number from 0, the symbol, its probability, the time of its last flash."""

    number: int
    symbol: str
    probability: float
    time: float


class LiveSpeller:
    """Letters from the scores of a live session.

    The marker of a flash is its code ("7") or contains it ("stimulus 7"); other markers are left out. A character
    ends where the number after "character" in the marker changes or, without one, where no flash came for `pause`
    seconds. A letter is decided on when the stopping rule says so, at the latest when its character ends.

    Parameters
    ----------
    decoder : Decoder
        With a calibration.
    speller : Speller
    stopping : Stopping, optional
        By default at a probability of 0.95.
    pause : float
        Seconds.
    """

    def __init__(
        self, decoder: Decoder, speller: Speller, stopping: Stopping | None = None, pause: float = 2.0
    ) -> None:
        self._letters, self._pause = ScoredLetters(decoder, speller, stopping), pause
        self._codes = frozenset(speller.codes)
        self._number, self._tag = 0, UNKNOWN
        self._last: float | None = None  # time of the last flash
        self._state: StreamLetter | None = None
        self._decided = False

    def take(self, one: LiveScore) -> list[LiveLetter]:
        """Take a score; return the letters that are decided on now."""
        code = flash_code(one.name)
        if code not in self._codes:
            return []
        tag = int(tagged_numbers([one.name], "character")[0])
        ended = self._last is not None and self._is_next(one.time, tag)
        # The first flash of the next character is the sign that this one is over.
        letters = self.end() if ended else []
        if ended:
            self._number, self._state, self._decided = self._number + 1, None, False
        self._last, self._tag = one.time, tag
        self._state = self._letters.take(self._number, code, one.score)
        return [*letters, *self._decide(self._state.stopped)]

    def end(self) -> list[LiveLetter]:
        """The letter of the current character, if it was not decided on before."""
        return self._decide(self._state is not None)

    def _is_next(self, time: float, tag: int) -> bool:
        if tag != UNKNOWN or self._tag != UNKNOWN:
            # A marker that names its character decides, however long the pause was.
            return tag != self._tag
        return abs(time - self._last) > self._pause

    def _decide(self, now: bool) -> list[LiveLetter]:
        if self._decided or not now:
            return []
        self._decided = True
        return [LiveLetter(self._number, self._state.symbol, self._state.probability, self._last)]


def flash_code(name: str) -> int | None:
    """The flash code in the name of a marker; None where there is none.

    Examples
    --------
    >>> flash_code("7"), flash_code("Target/stimulus 12/character 0"), flash_code("pause")
    (7, 12, None)
    """
    if name.strip().isdecimal():
        return int(name)
    tagged = int(tagged_numbers([name], "stimulus")[0])
    return None if tagged == UNKNOWN else tagged
