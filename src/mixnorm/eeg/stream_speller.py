"""A speller on a stream: chunks of signal and flash codes in, the most probable symbol out after every flash."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mixnorm.eeg.decoder import Decoder
from mixnorm.eeg.evidence import Posterior
from mixnorm.eeg.learning import LetterLearner
from mixnorm.eeg.letter_prior import LetterPrior
from mixnorm.eeg.speller import Speller, SpellerError
from mixnorm.eeg.spelling import Stopping, best_two
from mixnorm.eeg.stream import StreamDecoder


class StreamLetter(NamedTuple):
    """The most probable symbol of the current character after a flash.

    Attributes
    ----------
    symbol : str
        The symbol.
    probability : float
        Its probability.
    stopped : bool
        Whether it is decided on.

    See Also
    --------
    StreamSpeller : Returns one for each flash.

    Examples
    --------
    >>> from mixnorm.eeg import StreamLetter
    >>> StreamLetter("A", 0.97, True).symbol
    'A'
    """

    symbol: str
    probability: float
    stopped: bool


class ScoredLetters:
    """The symbols of one character after another, from the scores of their flashes.

    Parameters
    ----------
    decoder : Decoder
        With a calibration.
    speller, stopping, prior, codes
        As in `StreamSpeller`.
    """

    def __init__(
        self,
        decoder: Decoder,
        speller: Speller,
        stopping: Stopping | None = None,
        prior: LetterPrior | None = None,
        codes: Iterable[int] | None = None,
    ) -> None:
        self._speller = speller
        self.evidence = decoder.evidence  # from the next character on
        self._stopping = stopping or Stopping(threshold=0.95)
        self._prior = prior
        self._codes = frozenset(speller.codes if codes is None else codes)
        self._posterior: Posterior | None = None
        self.number = 0  # the character that the posterior belongs to
        self.before: NDArray[np.float64] | None = None  # its prior; None: uniform
        self.latest: StreamLetter | None = None
        self.text: list[str] = []

    def take(self, number: int, code: int, score: float) -> StreamLetter:
        """Take the score of a flash of a character; return the state after it."""
        if self._posterior is None or number != self.number:
            self._begin(number)
        elif self.latest is not None and self.latest.stopped:
            return self.latest
        self._posterior.add(code, score)
        shares = self._posterior.probabilities
        first, _ = best_two(shares)
        count = self._posterior.repetitions(self._codes)
        over = self._stopping.passed(shares[first], count) or self._stopping.over(count)
        self.latest = StreamLetter(self._speller.symbols[first], float(shares[first]), bool(over))
        self.text[number:] = [self.latest.symbol]
        return self.latest

    def _begin(self, number: int) -> None:
        self.before = None if self._prior is None else self._prior.probabilities(self.text)
        self._posterior = Posterior(self._speller, self.evidence, self.before)
        self.number, self.latest = number, None


class StreamSpeller:
    """Spell on a stream; symbols and probabilities are bit-identical to those of `spell` on the recording.

    Parameters
    ----------
    decoder : Decoder
        With a calibration and a causal preparation.
    speller : Speller
        The symbols, and those that each flash code lights up.
    stopping : Stopping, optional
        By default at a probability of 0.95.
    prior : LetterPrior, optional
        By default all symbols are equally probable. The context is `text`.
    ch_names : sequence of str, optional
        Channels of the stream, as in `StreamDecoder`.
    codes : iterable of int, optional
        The codes that flash, which make a repetition complete; by default all of the speller.
    learner : LetterLearner, optional
        Learns from every character, as in `spell`. `push` then takes longer where it scores the first flash of a
        character, because the classifier is fitted there; the windows of the last character are then complete.

    See Also
    --------
    spell : The same for recordings.
    StreamDecoder : Scores on a stream.
    Stopping : When the flashes of a character are enough.

    Examples
    --------
    >>> from mixnorm.eeg import Decoder, MATRICES, Stopping, StreamSpeller, simulated_recording
    >>> train, new = (simulated_recording(120, n_channels=4, n_informative=4, amplitude=15, seed=s) for s in (0, 1))
    >>> live = StreamSpeller(Decoder.fit(train), MATRICES["6x6"], Stopping(threshold=0.99))
    >>> states = live.push(new.signal, zip(new.events.onset, new.events.stimulus))
    >>> live.latest.stopped, live.text == [states[-1].symbol]
    (True, True)
    """

    def __init__(
        self,
        decoder: Decoder,
        speller: Speller,
        stopping: Stopping | None = None,
        prior: LetterPrior | None = None,
        ch_names: Sequence[str] | None = None,
        codes: Iterable[int] | None = None,
        learner: LetterLearner | None = None,
    ) -> None:
        self._decoder, self._speller, self._learner = decoder, speller, learner
        self._used: list[tuple[int, NDArray[np.float64]]] = []  # code and trial of flashes to learn from
        self._letters = ScoredLetters(decoder, speller, stopping, prior, codes)
        if learner is not None:
            learner.check_decoder(decoder)
            self._letters.evidence = learner.decoder.evidence  # it may have learned before
        self._stream = StreamDecoder(decoder, ch_names)
        self._n_samples = 0
        self._waiting: dict[int, tuple[int, int]] = {}  # onset → number of the character, flash code
        self._number = 0
        self._shown = 0  # flashes of the character that is shown now

    @property
    def text(self) -> list[str]:
        """The symbols so far, one for each character."""
        return self._letters.text

    @property
    def latest(self) -> StreamLetter | None:
        """The state of the current character; None before its first flash is scored."""
        return self._letters.latest

    def next_character(self) -> None:
        """Say that the flashes from now on belong to the next character.

        The windows of the last flashes may not be complete yet; their scores still count for their own character.
        """
        if not self._shown:
            raise SpellerError(
                f"character {self._number + 1} has no flash yet; push its flashes before the next character begins."
            )
        self._number, self._shown = self._number + 1, 0

    def push(self, chunk: ArrayLike, flashes: Iterable[tuple[int, int]] = ()) -> list[StreamLetter]:
        """Take the next samples and the flashes in them; return the state after every flash that is now scored.

        Parameters
        ----------
        chunk : (n_channels, n_samples) array
            Microvolts.
        flashes : iterable of (onset, code)
            Onset within this chunk, 0 being its first sample, and flash code.

        Returns
        -------
        list of StreamLetter
            One for each scored flash, in order. Once a character is decided on, its later flashes change nothing.
        """
        codes = {}
        for onset, code in flashes:
            self._speller.place(int(code))
            if int(onset) in codes:
                raise SpellerError(f"two flashes begin at sample {onset} of a chunk; give every onset once.")
            codes[int(onset)] = int(code)
        ready = self._stream.trials(chunk, list(codes))
        # only now, so that a chunk that was refused leaves nothing behind
        self._waiting |= {self._n_samples + onset: (self._number, code) for onset, code in codes.items()}
        self._n_samples += np.shape(chunk)[1]
        self._shown += len(codes)
        return [self._take(*self._waiting.pop(one.onset), one.trial) for one in ready]

    def _take(self, number: int, code: int, trial: NDArray[np.float64] | None) -> StreamLetter:
        """Score a flash and take it.

        Windows are complete in the order of the onsets: those of a character before those of the next one, so that
        all flashes are scored by the same classifiers as in a file.
        """
        if number != self._letters.number:
            self._learn()
        score = float("nan") if trial is None else (self._learner or self._decoder).score_trial(trial)
        decided = self.latest is not None and self.latest.stopped and number == self._letters.number
        if self._learner is not None and trial is not None and not decided:
            self._used.append((code, trial))
        return self._letters.take(number, code, score)

    def _learn(self) -> None:
        """Add the flashes that the last character was decided on to the learner."""
        if self._learner is not None and self._used:
            codes, trials = zip(*self._used, strict=True)
            self._learner.add(trials, codes, self._speller, self._letters.before)
            self._letters.evidence = self._learner.decoder.evidence
        self._used = []
