r"""Learning while spelling: the classifier of a decoder is fitted again with the characters spelled so far.

Nobody says what was spelled, but every character has flashes of targets and of non-targets, and its posterior says
which are which. This is expectation–maximisation. E: with the classifier so far, flash j of a spelled character c is a
target with the probability

    q_j = Σ_s P(s | flashes of c) [the code of j lights s] .

M: the classifier is fitted to the calibration trials, with their labels and the weight 1, and to every spelled flash
twice: as a target with the weight q_j and as a non-target with the weight 1 − q_j.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mixnorm.eeg.decoder import Decoder
from mixnorm.eeg.evidence import FlashEvidence, Posterior
from mixnorm.eeg.recording import UNKNOWN, EpochedRecording, Recording, RecordingError
from mixnorm.eeg.sources import as_recordings
from mixnorm.eeg.speller import Speller
from mixnorm.estimators.svc import GroupSVC

#: Rounds of expectation and maximisation after every character.
ROUNDS = 2
#: alpha is multiplied by (weight of the calibration trials / weight of all trials) to this power: more trials need less
#: regularisation. Both constants were chosen on development splits of uam-p300 (docs/letters.md), where neighbouring
#: values are within 0.5 percentage points.
ALPHA_POWER = 0.5
#: A label that is less probable than this is not learned from; otherwise every flash would be fitted twice.
LEAST_WEIGHT = 1e-3


@dataclass(frozen=True, eq=False)
class SpelledFlashes:
    """The flashes of one spelled character: scaled trials (n, n_channels, n_times), codes (n,), speller and prior."""

    X: NDArray[np.float64] = field(repr=False)
    code: NDArray[np.int64] = field(repr=False)
    speller: Speller = field(repr=False)
    prior: NDArray[np.float64] | None = field(repr=False)

    def target_probabilities(self, classifier: Any, evidence: FlashEvidence) -> NDArray[np.float64]:
        """The probability q (n,) of every flash to be that of a target."""
        posterior = Posterior(self.speller, evidence, self.prior)
        for code, score in zip(self.code.tolist(), classifier.decision_function(self.X).tolist(), strict=True):
            posterior.add(code, score)
        places = [self.speller.place(code) for code in self.code.tolist()]
        return self.speller.members[places] @ posterior.probabilities


class LetterLearner:
    """Learns from the characters that a decoder spells, without knowing what they are.

    After a character is decided on, the classifier is fitted again on the calibration trials and on all spelled
    flashes, which count as targets as far as the posteriors of their characters say so. A character never influences
    its own symbol, and labels of spelled recordings are not looked at. The preparation, the scaling, the electrodes,
    and how scores change the probabilities (`Decoder.evidence`) remain those of the decoder.

    Parameters
    ----------
    decoder : Decoder
        With a calibration, as `Decoder.fit` and ``mixnorm train`` make it.
    calibration : one or several recordings
        With labels: those that the decoder was trained on. Anything that `prepare` takes.

    Attributes
    ----------
    n_learned : int
        Number of characters that the current classifier was fitted to.

    See Also
    --------
    spell : Takes it as `learner`.
    StreamSpeller : Takes it as `learner`.

    Notes
    -----
    A learner belongs to one subject and one session, and goes on learning as long as it is used. Make a new one to
    begin again.

    Examples
    --------
    >>> from mixnorm.eeg import Decoder, LetterLearner, MATRICES, simulated_recording, spell
    >>> train, new = (simulated_recording(n, n_channels=4, n_informative=4, seed=n) for n in (120, 360))
    >>> decoder = Decoder.fit(train)
    >>> learner = LetterLearner(decoder, train)
    >>> letters = spell(decoder, [new], MATRICES["6x6"], learner=learner)
    >>> len(letters), learner.n_learned  # nothing was spelled after the third one
    (3, 2)
    """

    def __init__(self, decoder: Decoder, calibration: Any) -> None:
        self.evidence = decoder.evidence
        self.n_learned = 0
        self._first = self._decoder = decoder
        self._X, self._y = _labelled(decoder, as_recordings(calibration))
        self._limits = decoder.preparation.scaler().fit(self._X)
        kept = self._limits.accepted(self._X, self._y)
        self._X, self._y = self._scaled(self._X[kept]), self._y[kept]
        self._characters: list[SpelledFlashes] = []

    @property
    def decoder(self) -> Decoder:
        """The decoder for the next flash, fitted to all characters that were added."""
        if self.n_learned < len(self._characters):
            self._decoder = replace(self._first, classifier=self._learned())
            self.n_learned = len(self._characters)
        return self._decoder

    def check_decoder(self, decoder: Decoder) -> None:
        """Raise an error if it was made for another decoder.

        Parameters
        ----------
        decoder : Decoder
            The decoder that spells.
        """
        if self._first is not decoder:
            raise ValueError("The learner was made for another decoder: make it with LetterLearner(decoder, …).")

    def add(
        self, trials: ArrayLike, codes: ArrayLike, speller: Speller, prior: NDArray[np.float64] | None = None
    ) -> None:
        """Add the flashes that a character was decided on; they are learned from before the next flash is scored.

        Parameters
        ----------
        trials : (n_flashes, n_channels, n_times) array
            Prepared trials as `Decoder.trials` returns them; those with NaN are left out.
        codes : (n_flashes,) array of int
            Their flash codes.
        speller : Speller
            The symbols, and those that each flash code lights up.
        prior : (n_symbols,) array, optional
            Probabilities of the symbols before the first flash; uniform by default.
        """
        trials, codes = np.asarray(trials, dtype=float), np.asarray(codes, dtype=np.int64)
        usable = np.isfinite(trials).all(axis=(1, 2))
        if usable.any():
            usable[usable] = self._limits.accepted(trials[usable])
        if usable.any():
            self._characters.append(SpelledFlashes(self._scaled(trials[usable]), codes[usable], speller, prior))

    def score_trial(self, trial: NDArray[np.float64]) -> float:
        """Score of one prepared trial (n_channels, n_times) by the current decoder; NaN for a trial with NaN.

        Parameters
        ----------
        trial : (n_channels, n_times) array
            As `Decoder.trials` returns them.

        Returns
        -------
        float
            The score.
        """
        return self.decoder.score_trial(trial) if np.isfinite(trial).all() else float("nan")

    def _scaled(self, trials: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scaled trials. Channels that the decoder does not use are zero, so that a fit does not use them either."""
        scaled = np.zeros_like(trials)
        scaled[:, self._first.used] = self._first.scaler.transform(trials)[:, self._first.used]
        return scaled

    def _learned(self) -> GroupSVC:
        classifier = self._decoder.classifier
        for _ in range(ROUNDS):
            q = [one.target_probabilities(classifier, self.evidence) for one in self._characters]
            classifier = fit_with_probabilities(
                self._first.classifier, self._X, self._y, [one.X for one in self._characters], q
            )
        return classifier


def fit_with_probabilities(
    like: Any,
    X: NDArray[np.float64],
    y: NDArray[np.int64],
    spelled: Sequence[NDArray[np.float64]],
    q: Sequence[NDArray[np.float64]],
) -> GroupSVC:
    """Fit a classifier with the settings of another one to labelled trials, and to trials with probabilities.

    Parameters
    ----------
    like : GroupSVCCV
        Fitted: its chosen alpha is reduced for the larger number of trials, everything else remains.
    X, y : arrays of shape (n, n_channels, n_times) and (n,)
        Labelled trials.
    spelled : sequence of arrays of shape (m, n_channels, n_times)
        Trials of spelled characters.
    q : sequence of arrays of shape (m,)
        Their probabilities of being targets.
    """
    parts, target = np.concatenate(spelled), np.concatenate(q)
    weights = np.concatenate([np.ones(len(y)), target, 1 - target])
    kept = weights > LEAST_WEIGHT
    trials = np.concatenate([X, parts, parts])[kept]
    labels = np.concatenate([y, np.ones(len(parts), dtype=y.dtype), np.zeros(len(parts), dtype=y.dtype)])[kept]
    alpha = like.alpha_ * (len(y) / weights.sum()) ** ALPHA_POWER
    return GroupSVC(alpha, **_settings(like)).fit(trials, labels, sample_weight=weights[kept])


def _settings(like: Any) -> dict[str, Any]:
    """Parameters of `GroupSVC` that a fitted `GroupSVCCV` has, the chosen ones (``q_``, …) instead of those given."""
    given = {name: value for name, value in like.get_params().items() if name in signature(GroupSVC).parameters}
    return given | {name: getattr(like, f"{name}_", given[name]) for name in ("q", "ridge", "window_share")}


def _labelled(
    decoder: Decoder, recordings: Sequence[Recording | EpochedRecording]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Prepared trials and labels of calibration recordings; each must fit the decoder."""
    trials, labels = [], []
    for recording in recordings:
        target = recording.events.target
        unknown = int(np.sum(target == UNKNOWN))
        if unknown:
            raise RecordingError(
                recording.source,
                f"{unknown} of its {len(target)} flashes have no label ('target'), but calibration needs all labels",
                "learn with the labelled recordings that the model was trained on",
            )
        prepared = decoder.trials(recording)
        usable = np.isfinite(prepared).all(axis=(1, 2))
        trials.append(prepared[usable])
        labels.append(target[usable])
    y = np.concatenate(labels) if labels else np.zeros(0, dtype=np.int64)
    if set(y.tolist()) != {0, 1}:
        raise RecordingError(
            ", ".join(recording.source for recording in recordings) or "calibration",
            "calibration needs targets and non-targets that can be used, but there is only one kind of them, or none",
            "learn with the labelled recordings that the model was trained on",
        )
    return np.concatenate(trials), y
