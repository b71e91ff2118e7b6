"""From the scores of a recording to spelled text: posteriors flash by flash, stopping, decided characters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.decoder import Decoder
from mixnorm.eeg.evidence import FlashEvidence, Posterior
from mixnorm.eeg.flashes import Flashes, check_codes, divide_into_characters, true_symbol
from mixnorm.eeg.learning import LetterLearner
from mixnorm.eeg.letter_prior import LetterPrior
from mixnorm.eeg.recording import EpochedRecording, Recording, RecordingError
from mixnorm.eeg.speller import Speller


@dataclass(frozen=True)
class Stopping:
    """When the flashes of a character are enough.

    Attributes
    ----------
    threshold : float or None
        Stop as soon as a symbol has this probability; None: never.
    min_repetitions, max_repetitions : int, int or None
        Complete repetitions before which it is not stopped, and after which it always is.

    See Also
    --------
    spell : Uses it for recordings.
    StreamSpeller : Uses it on a stream.

    Examples
    --------
    >>> from mixnorm.eeg import Stopping
    >>> rule = Stopping(threshold=0.95, min_repetitions=2, max_repetitions=10)
    >>> rule.passed(0.97, repetitions=1), rule.passed(0.97, repetitions=2), rule.over(10)
    (False, True, True)
    """

    threshold: float | None = None
    min_repetitions: int = 1
    max_repetitions: int | None = None

    def __post_init__(self) -> None:
        if self.threshold is not None and not 0 < self.threshold < 1:
            raise ValueError(f"The stopping threshold is a probability between 0 and 1, but got {self.threshold:g}.")
        for name, value in (("min_repetitions", self.min_repetitions), ("max_repetitions", self.max_repetitions)):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, but got {value}.")
        if self.max_repetitions is not None and self.max_repetitions < self.min_repetitions:
            raise ValueError(
                f"At most {self.max_repetitions} repetitions are fewer than the least number, {self.min_repetitions}."
            )

    def passed(self, probability: float, repetitions: int) -> bool:
        """Whether a symbol of this probability is decided on.

        Parameters
        ----------
        probability : float
            That of the most probable symbol.
        repetitions : int
            Complete repetitions so far.

        Returns
        -------
        bool
            True: the flashes are enough.
        """
        if self.threshold is None or repetitions < self.min_repetitions:
            return False
        return probability >= self.threshold

    def over(self, repetitions: int) -> bool:
        """Whether no further flash is waited for.

        Parameters
        ----------
        repetitions : int
            Complete repetitions so far.

        Returns
        -------
        bool
            True: the most probable symbol is taken, whatever its probability.
        """
        return self.max_repetitions is not None and repetitions >= self.max_repetitions


@dataclass(frozen=True)
class Trace:
    """The posterior after every flash of a character.

    Attributes
    ----------
    first, second : (n,) int arrays
        Positions of the most probable symbol and of the next one.
    probability, runner_up : (n,) arrays
        Their probabilities.
    repetitions : (n,) int array
        Complete repetitions so far.
    """

    first: NDArray[np.int64] = field(repr=False)
    second: NDArray[np.int64] = field(repr=False)
    probability: NDArray[np.float64] = field(repr=False)
    runner_up: NDArray[np.float64] = field(repr=False)
    repetitions: NDArray[np.int64] = field(repr=False)

    def end(self, stopping: Stopping) -> tuple[int, bool]:
        """The last flash that is used, and whether the threshold was passed there."""
        for place, (probability, count) in enumerate(zip(self.probability, self.repetitions, strict=True)):
            if stopping.passed(probability, count):
                return place, True
            if stopping.over(count):
                return place, False
        return len(self.first) - 1, False

    def after(self, repetitions: int) -> int | None:
        """The flash that completes this many repetitions; None where there are fewer."""
        enough = np.flatnonzero(self.repetitions >= repetitions)
        return int(enough[0]) if len(enough) else None


@dataclass(frozen=True)
class Spelled:
    """A decided character.

    Attributes
    ----------
    symbol : str
        The symbol that was decided on, the most probable one.
    probability : float
        Its probability.
    runner_up : str
        The next symbol.
    runner_up_probability : float
        Its probability.
    n_flashes, n_repetitions : int
        Flashes and complete repetitions that were used.
    stopped : bool
        Whether the threshold was passed.
    true_symbol : str or None
        The symbol that the subject attended to; None where it is not known.
    flashes : Flashes
        All flashes of the character, with their scores.
    trace : Trace
        The probabilities after every flash.

    See Also
    --------
    spell : Returns one for each character.

    Examples
    --------
    >>> from mixnorm.eeg import Decoder, MATRICES, simulated_recording, spell
    >>> train, new = (simulated_recording(120, n_channels=4, n_informative=4, amplitude=15, seed=s) for s in (0, 1))
    >>> (one,) = spell(Decoder.fit(train), [new], MATRICES["6x6"])
    >>> one.n_flashes, one.n_repetitions, one.stopped
    (120, 10, False)
    """

    symbol: str
    probability: float
    runner_up: str
    runner_up_probability: float
    n_flashes: int
    n_repetitions: int
    stopped: bool
    true_symbol: str | None
    flashes: Flashes = field(repr=False)
    trace: Trace = field(repr=False)


def spell(
    decoder: Decoder,
    recordings: Sequence[Recording | EpochedRecording],
    speller: Speller,
    stopping: Stopping | None = None,
    prior: LetterPrior | None = None,
    learner: LetterLearner | None = None,
) -> list[Spelled]:
    """Spell recordings, one after the other.

    Parameters
    ----------
    decoder : Decoder
        With a calibration, as `Decoder.fit` and ``mixnorm train`` make it.
    recordings : sequence of recordings
        With flash codes. Flashes of one character belong together; a recording without characters is one.
    speller : Speller
        The symbols, and those that each flash code lights up.
    stopping : Stopping, optional
        By default all flashes are used.
    prior : LetterPrior, optional
        By default all symbols are equally probable. The context is the text spelled so far in the same recording.
    learner : LetterLearner, optional
        Learns from every character, before the first flash of the next one is scored, from the flashes that were
        used. By default all characters are scored by the same classifier.

    Returns
    -------
    list of Spelled
        One for each character, in order.

    See Also
    --------
    StreamSpeller : The same on a stream.
    LetterLearner : Learns while it spells.
    read_speller : A speller from a matrix file.
    LetterPrior : How likely a letter is after the letters before it.

    Examples
    --------
    >>> from mixnorm.eeg import Decoder, simulated_recording, spell, MATRICES
    >>> train, new = (simulated_recording(240, n_channels=4, n_informative=4, amplitude=15, seed=s) for s in (0, 1))
    >>> [one.symbol == one.true_symbol for one in spell(Decoder.fit(train), [new], MATRICES["6x6"])]
    [True, True]
    """
    evidence, stopping = decoder.evidence, stopping or Stopping()
    if learner is not None:
        # before minutes of scoring
        learner.check_decoder(decoder)
    spelled: list[Spelled] = []
    for recording in recordings:
        # The context of a letter is the text of its own recording.
        text: list[str] = []
        check_codes(recording, speller)
        found = divide_into_characters(recording, decoder.predict(recording))
        trials = None if learner is None else decoder.trials(recording)
        for flashes in found:
            before = None if prior is None else prior.probabilities(text)
            if learner is not None:
                # Scored again: the classifier has changed since the recording was scored.
                own = trials[flashes.event]
                flashes = replace(flashes, score=np.array([learner.score_trial(trial) for trial in own]))
                evidence = learner.decoder.evidence
            one = spell_character(flashes, speller, evidence, stopping, before)
            if learner is not None:
                # Only flashes that were used: a speller that stops early would not have shown the others.
                learner.add(own[: one.n_flashes], flashes.code[: one.n_flashes], speller, before)
            text.append(one.symbol)
            spelled.append(one)
    return spelled


def spell_character(
    flashes: Flashes,
    speller: Speller,
    evidence: FlashEvidence,
    stopping: Stopping,
    prior: NDArray[np.float64] | None = None,
) -> Spelled:
    """Decide on the symbol of one character."""
    if not np.isfinite(flashes.score).any():
        raise RecordingError(
            flashes.where,
            f"the character has no flash that can be scored ({len(flashes)} flashes)",
            "record until the window of a flash has ended, or leave the character out",
        )
    trace = follow(flashes, speller, evidence, prior)
    end, stopped = trace.end(stopping)
    return Spelled(
        symbol=speller.symbols[trace.first[end]],
        probability=float(trace.probability[end]),
        runner_up=speller.symbols[trace.second[end]],
        runner_up_probability=float(trace.runner_up[end]),
        n_flashes=end + 1,
        n_repetitions=int(trace.repetitions[end]),
        stopped=stopped,
        true_symbol=true_symbol(flashes, speller),
        flashes=flashes,
        trace=trace,
    )


def follow(
    flashes: Flashes, speller: Speller, evidence: FlashEvidence, prior: NDArray[np.float64] | None = None
) -> Trace:
    """The posterior after every flash. A repetition is complete when every code that occurs was shown once more."""
    posterior = Posterior(speller, evidence, prior)
    # The codes of this character and not those of the speller: a run may leave some out.
    shown = frozenset(flashes.code.tolist())
    rows = []
    for code, score in zip(flashes.code.tolist(), flashes.score.tolist(), strict=True):
        posterior.add(code, score)
        shares = posterior.probabilities
        first, second = best_two(shares)
        rows.append((first, second, shares[first], shares[second], posterior.repetitions(shown)))
    return Trace(*(np.array(column) for column in zip(*rows, strict=True)))


def best_two(shares: NDArray[np.float64]) -> tuple[int, int]:
    """Positions of the largest and the second largest probability; the first of equals."""
    order = np.argsort(-shares, kind="stable")
    return int(order[0]), int(order[1])
