r"""From the scores of flashes to the probabilities of symbols.

The score of a flash of code c in one character is modelled as μ_y + u_c + e: μ₁ if the code lights the attended symbol
and μ₀ otherwise, a deviation u_c that all flashes of the code in this character share, and a deviation e of the flash,
both normal. With the share ρ of u in the variance σ², n_c flashes of the code have the log-likelihood ratio

    L_c = a Σ_j (score_j − m) / (1 + (n_c − 1) ρ),     a = (μ₁ − μ₀)/σ²,  m = (μ₀ + μ₁)/2,

and P(symbol | flashes) ∝ prior(symbol) · exp(Σ L_c over the codes that light it). ρ = 0 is the product of the ratios
of independent flashes. Its probabilities are too high: responses to neighbouring flashes overlap, and attention
changes from character to character.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.recording import UNKNOWN
from mixnorm.eeg.speller import Speller
from mixnorm.estimators.calibration import Calibration

#: ρ where it cannot be estimated, and the number of characters that this value counts for beside an estimate. Chosen
#: on development splits of uam-p300 (docs/letters.md), where single estimates from one character are too variable.
USUAL_CORRELATION, USUAL_CHARACTERS = 0.08, 3
#: Held-out scores of m characters separate the classes better than those of the next character, most of all where all
#: folds are parts of one character. The slope is multiplied by m / (m + this); chosen on the same development splits.
CHARACTERS_FOR_HALF = 0.5
#: The least slope of the evidence, in standard errors; so small that 180 flashes do not make a symbol probable.
LEAST_SLOPE = 0.05


@dataclass(frozen=True)
class FlashEvidence:
    """The log-likelihood ratio of flashes.

    Attributes
    ----------
    slope, offset : float
        log p(score | target) − log p(score | non-target) = slope · score + offset for one flash.
    correlation : float
        ρ, the correlation of the scores of flashes of one code within a character.

    See Also
    --------
    Decoder.evidence : That of a decoder.
    Posterior : Uses it, flash by flash.

    Examples
    --------
    >>> from mixnorm.eeg import FlashEvidence
    >>> FlashEvidence(slope=2.0, offset=-0.5).log_ratio(1.0)
    1.5
    """

    slope: float
    offset: float
    correlation: float = 0.0

    @classmethod
    def of(cls, calibration: Calibration, correlation: float, n_characters: int | None = None) -> FlashEvidence:
        """From the sigmoid of held-out scores, whose slope is (μ₁ − μ₀)/σ² for normal scores of one variance.

        The slope is multiplied by 1 − (error/slope)², because one that is within its standard error of 0 may be a
        matter of chance. At least `LEAST_SLOPE` standard errors are left, and also of a negative slope: the order of
        the symbols is then still that of the summed scores, and no symbol becomes probable. Few characters are worth
        less than their standard error says (`CHARACTERS_FOR_HALF`).

        Parameters
        ----------
        calibration : Calibration
            That of a classifier, as `mixnorm.GroupSVCCV.calibration` returns it.
        correlation : float
            The correlation ρ of the scores of flashes of one code within a character.
        n_characters : int, optional
            How many characters the held-out scores are of; by default so many that it does not matter.

        Returns
        -------
        FlashEvidence
            With the slope and the offset for one flash.
        """
        slope, error = calibration.slope, calibration.slope_error
        if not np.isfinite(error):  # all scores are equal
            return cls(0.0, 0.0, correlation)
        if slope <= 0:
            return cls(LEAST_SLOPE * error, 0.0, correlation)
        sure = max(slope * (1 - (error / slope) ** 2), LEAST_SLOPE * error)
        if n_characters is not None:
            sure *= n_characters / (n_characters + CHARACTERS_FOR_HALF)
        return cls(sure, sure * (calibration.intercept - calibration.log_odds) / slope, correlation)

    def log_ratio(self, score: float) -> float:
        """Return the log-likelihood ratio of one flash.

        Parameters
        ----------
        score : float
            Score of the flash.

        Returns
        -------
        float
            Positive where the flash was more probably a target.
        """
        return self.slope * score + self.offset


class Posterior:
    """Probabilities of the symbols of one character, updated flash by flash.

    Parameters
    ----------
    speller : Speller
        The symbols, and those that each flash code lights up.
    evidence : FlashEvidence
        What a score says, as `Decoder.evidence` has it.
    prior : (n_symbols,) array, optional
        Probabilities before the first flash; uniform by default.

    See Also
    --------
    spell : Spells recordings.
    StreamSpeller : Spells on a stream.

    Examples
    --------
    >>> from mixnorm.eeg import FlashEvidence, Posterior, Speller
    >>> speller = Speller.of_matrix(["AB", "CD"], rows=[1, 2], columns=[3, 4])
    >>> posterior = Posterior(speller, FlashEvidence(slope=1.0, offset=0.0))
    >>> for code, score in [(1, 2.0), (2, -2.0), (3, -2.0), (4, 2.0)]:
    ...     posterior.add(code, score)
    >>> speller.symbols[posterior.probabilities.argmax()], posterior.repetitions()
    ('B', 1)
    """

    def __init__(self, speller: Speller, evidence: FlashEvidence, prior: NDArray[np.float64] | None = None) -> None:
        self._speller, self._evidence = speller, evidence
        self._members = speller.members.astype(float)
        count = len(speller.symbols)
        self._prior = np.log(np.full(count, 1 / count) if prior is None else prior)
        self._sums = np.zeros(len(speller.codes))
        self._counts = np.zeros(len(speller.codes))
        self._shown = np.zeros(len(speller.codes), dtype=np.int64)

    def add(self, code: int, score: float) -> None:
        """Take one flash; a score of NaN (the window was lost) counts as shown, but says nothing.

        Parameters
        ----------
        code : int
            Flash code.
        score : float
            Score of the flash.
        """
        place = self._speller.place(code)
        self._shown[place] += 1
        if np.isfinite(score):
            self._sums[place] += self._evidence.log_ratio(score)
            self._counts[place] += 1

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """P(symbol | flashes so far), in the order of the symbols."""
        spread = 1 + np.maximum(self._counts - 1, 0) * self._evidence.correlation
        logs = self._prior + (self._sums / spread) @ self._members
        shares = np.exp(logs - logs.max())
        return shares / shares.sum()

    def repetitions(self, codes: frozenset[int] | None = None) -> int:
        """Number of complete repetitions: how often every code (of those given) was shown at least.

        Parameters
        ----------
        codes : frozenset of int, or None
            The codes that count; None: all of the speller.

        Returns
        -------
        int
            The number.
        """
        wanted = [place for place, code in enumerate(self._speller.codes) if codes is None or code in codes]
        return int(self._shown[wanted].min())


def flash_correlation(
    scores: NDArray[np.float64],
    target: NDArray[np.int64],
    stimulus: NDArray[np.int64],
    character: NDArray[np.int64],
) -> float:
    """Estimate ρ from held-out scores (n,): one-way analysis of variance over codes within characters.

    Scores are taken about the means of their classes. The estimate is averaged with `USUAL_CORRELATION`, which counts
    for `USUAL_CHARACTERS` characters, and is at least 0.
    """
    usable = np.isfinite(scores) & (target != UNKNOWN) & (stimulus != UNKNOWN)
    scores, target = scores[usable].copy(), target[usable]
    for label in np.unique(target):
        scores[target == label] -= scores[target == label].mean()
    pairs = np.column_stack([character[usable], stimulus[usable]])
    _, group, sizes = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
    n, k = len(scores), len(sizes)
    if k <= 2 or n <= k:
        return USUAL_CORRELATION
    means = np.bincount(group.ravel(), scores) / sizes
    between = np.sum(sizes * means**2) / (k - 2)  # the means of two classes were taken out
    within = (np.sum(scores**2) - np.sum(sizes * means**2)) / (n - k)
    size = (n - np.sum(sizes**2) / n) / (k - 1)
    total = between + (size - 1) * within
    found = (between - within) / total if total > 0 else 0.0
    count = len(np.unique(pairs[:, 0]))
    mean = (count * found + USUAL_CHARACTERS * USUAL_CORRELATION) / (count + USUAL_CHARACTERS)
    return float(max(0.0, mean))
