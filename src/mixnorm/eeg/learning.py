r"""Learning while spelling: the classifier of a decoder is fitted again with the characters spelled so far.

It is not known what was spelled, but every character has flashes of targets and of non-targets, and its posterior says
which are which. After every character, one step of expectation–maximisation is taken. E: with the classifier so far,
flash j of a spelled character c is a target with the probability

    q_j = Σ_s P(s | flashes of c) [the code of j lights s] .

M: the classifier is fitted to the calibration trials, with their labels and the weight 1, and to every spelled flash
twice: as a target with the weight q_j and as a non-target with the weight 1 − q_j. More steps, or smaller weights for
characters that are less sure, made no difference on development splits (docs/letters.md).

Spelled flashes do not show whether this made the classifier better, because it is fitted to what it read itself.
Calibration trials do. Each fold of them is scored by a fit to the other folds and all spelled flashes, and the sigmoid
that says how probable a symbol is (`Decoder.evidence`) is fitted to these scores. The probabilities q for this fit are
those of a classifier of its own, which learns in the same way, with the sigmoid of the first decoder, and never sees
the fold: otherwise the labels of the fold would come back to it by the spelled flashes. Where wrong letters were
learned, the slope is small, and the next symbols are less probable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mixnorm.eeg.decoder import Decoder
from mixnorm.eeg.design import prepare
from mixnorm.eeg.evidence import FlashEvidence, Posterior
from mixnorm.eeg.recording import UNKNOWN, EpochedRecording, Recording, RecordingError
from mixnorm.eeg.sources import as_recordings
from mixnorm.eeg.speller import Speller
from mixnorm.eeg.splitting import InOrder
from mixnorm.estimators.cross_validation import auc
from mixnorm.estimators.fixed_alpha import with_held_out_scores
from mixnorm.estimators.svc import GroupSVC
from mixnorm.estimators.svc_cv import GroupSVCCV

#: A label that is less probable than this is not learned from; otherwise every flash would be fitted twice.
LEAST_WEIGHT = 1e-3


@dataclass(frozen=True, eq=False)
class Calibrating:
    """Labelled trials: scaled X (n, n_channels, n_times), y (n,), and groups (n,) that folds keep together."""

    X: NDArray[np.float64] = field(repr=False)
    y: NDArray[np.int64] = field(repr=False)
    groups: NDArray[np.int64] = field(repr=False)

    def __len__(self) -> int:
        return len(self.y)

    def part(self, places: NDArray[np.intp]) -> Calibrating:
        """Some of the trials."""
        return Calibrating(self.X[places], self.y[places], self.groups[places])


@dataclass(frozen=True, eq=False)
class SpelledFlashes:
    """The flashes of one spelled character: scaled trials (n, n_channels, n_times), codes (n,), speller and prior."""

    X: NDArray[np.float64] = field(repr=False)
    code: NDArray[np.int64] = field(repr=False)
    speller: Speller = field(repr=False)
    prior: NDArray[np.float64] | None = field(repr=False)

    def target_probabilities(self, classifier: Any, evidence: FlashEvidence) -> NDArray[np.float64]:
        """The probability q (n,) of every flash to be that of a target, by the scores of a classifier."""
        posterior = Posterior(self.speller, evidence, self.prior)
        for code, score in zip(self.code.tolist(), classifier.decision_function(self.X).tolist(), strict=True):
            posterior.add(code, score)
        places = [self.speller.place(code) for code in self.code.tolist()]
        return self.speller.members[places] @ posterior.probabilities


class LetterLearner:
    """Learns from the characters that a decoder spells, without knowing what they are.

    After a character is decided on, the classifier is fitted again on the calibration trials and on all spelled
    flashes, which count as targets as far as the posteriors of their characters say so. How scores change the
    probabilities (`Decoder.evidence`) is learned again from calibration trials that are held out. A character never
    influences its own symbol, and labels of spelled recordings are not looked at. The preparation, the scaling and the
    electrodes remain those of the decoder.

    Parameters
    ----------
    decoder : Decoder
        With a calibration, as `Decoder.fit` and ``mixnorm train`` make it.
    calibration : one or several recordings
        With labels: those that the decoder was trained on. Anything that `prepare` takes.

    Attributes
    ----------
    n_learned : int
        Number of characters that the current decoder has learned from.

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
        _ = decoder.evidence  # an error for a decoder without calibration
        if not hasattr(decoder.classifier, "window_share_"):  # which every fit of one subject sets
            raise ValueError(
                "This decoder cannot learn: its classifier was fitted together with those of other subjects. Train "
                "one on the recordings of the subject with `mixnorm train`."
            )
        self.n_learned = 0
        self._first = self._decoder = decoder
        # channels that the decoder does not use are constant in these trials, so that no fit gives them a weight
        X, y, groups = _labelled(decoder, as_recordings(calibration))
        self._limits = decoder.preparation.scaler().fit(X)
        kept = self._limits.accepted(X, y)
        self._calibrating = Calibrating(decoder.scaler.transform(X[kept]), y[kept], groups[kept])
        self._folds = list(InOrder().split(self._calibrating.X, groups=self._calibrating.groups))
        # One for each fold, which has never seen the trials of the fold.
        self._teachers: list[GroupSVC] = []
        self._characters: list[SpelledFlashes] = []

    @property
    def decoder(self) -> Decoder:
        """The decoder for the next flash, which has learned from all characters that were added."""
        if self.n_learned < len(self._characters):
            self._decoder = replace(self._first, classifier=self._taught())
            self.n_learned = len(self._characters)
        return self._decoder

    def _taught(self) -> GroupSVCCV:
        """The classifier after one step, calibrated by those of the folds."""
        like, own = self._first.classifier, self._calibrating
        spelled = np.concatenate([one.X for one in self._characters])
        # beside the sum of the losses, of which the objective has the mean, the penalty stays what it was
        alpha = like.alpha_ * len(own) / (len(own) + len(spelled))

        def step(teacher: Any, labelled: Calibrating, evidence: FlashEvidence) -> GroupSVC:
            q = [one.target_probabilities(teacher, evidence) for one in self._characters]
            return fit_with_probabilities(like, alpha, labelled, spelled, np.concatenate(q))

        parts = [own.part(train) for train, _ in self._folds]
        if not self._teachers:
            nothing = spelled[:0], np.empty(0)
            self._teachers = [fit_with_probabilities(like, like.alpha_, part, *nothing) for part in parts]
        first = self._first.evidence
        self._teachers = [step(teacher, part, first) for teacher, part in zip(self._teachers, parts, strict=True)]
        scores, aucs = np.full(len(own), np.nan), []
        for teacher, (_, test) in zip(self._teachers, self._folds, strict=True):
            scores[test] = teacher.decision_function(own.X[test])
            aucs.append(auc(own.y[test], scores[test, None])[0])
        found = step(self._decoder.classifier, own, self._decoder.evidence)
        return with_held_out_scores(found, own.y, scores, np.array(aucs))

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
            X = self._first.scaler.transform(trials[usable])
            self._characters.append(SpelledFlashes(X, codes[usable], speller, prior))

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


def fit_with_probabilities(
    like: GroupSVCCV, alpha: float, labelled: Calibrating, spelled: NDArray[np.float64], q: NDArray[np.float64]
) -> GroupSVC:
    """Fit a classifier to labelled trials, and to spelled ones (m, n_channels, n_times) with probabilities q (m,).

    Except for alpha it has the settings of another one, `like`, as they were chosen.
    """
    n, m = len(labelled), len(spelled)
    weights = np.concatenate([np.ones(n), q, 1 - q])
    kept = weights > LEAST_WEIGHT
    X = np.concatenate([labelled.X, spelled, spelled])[kept]
    y = np.concatenate([labelled.y, np.ones(m), np.zeros(m)]).astype(np.int64)[kept]
    settings = {name: value for name, value in like.get_params().items() if name in GroupSVC().get_params()}
    chosen = {name: getattr(like, f"{name}_", getattr(like, name)) for name in ("q", "ridge", "window_share")}
    return GroupSVC(alpha, **settings | chosen).fit(X, y, sample_weight=weights[kept])


def _labelled(
    decoder: Decoder, recordings: Sequence[Recording | EpochedRecording]
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Prepared trials of calibration recordings, labels, and groups; each recording must fit the decoder."""
    if not recordings:
        raise ValueError("There is no calibration recording to learn with: give those that the model was trained on.")
    advice = "learn with the labelled recordings that the model was trained on"
    for recording in recordings:
        target = recording.events.target
        unknown = int(np.sum(target == UNKNOWN))
        if unknown:
            problem = f"{unknown} of its {len(target)} flashes have no label ('target'), which calibration needs"
            raise RecordingError(recording.source, problem, advice)
    X = np.concatenate([decoder.trials(recording) for recording in recordings])
    _, y, groups = prepare([decoder.matched(one) for one in recordings], decoder.preparation).to_sklearn()
    if set(y.tolist()) != {0, 1}:
        sources = ", ".join(recording.source for recording in recordings)
        raise RecordingError(sources, "calibration needs targets and non-targets, but one of them is missing", advice)
    return X[np.isfinite(X).all(axis=(1, 2))], y, groups
