"""Folds that keep neighbouring trials together, so that scores are not optimistic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import BaseCrossValidator

from mixnorm.eeg.design import Design
from mixnorm.eeg.events import UNKNOWN
from mixnorm.estimators.calibration import Calibration

#: Default number of folds of characters or blocks.
N_FOLDS = 5
#: More sessions than this share folds: a cohort of fifty would need fifty fits.
MOST_SESSIONS = 10


@dataclass(frozen=True)
class Folds:
    """`number` (n_trials,) is the fold in which a trial is held out, `by` the unit that folds are made of."""

    number: NDArray[np.int64] = field(repr=False)
    by: str

    def __len__(self) -> int:
        return int(self.number.max()) + 1


def honest_folds(design: Design, n_folds: int | None = None) -> Folds:
    """Divide trials into folds: sessions if there are several, else characters, else contiguous blocks.

    Each session is a fold of its own, up to ten. Where one subject has two sessions, of three runs or more, the runs
    are the folds, because two folds do not show how much scores vary. Characters and trials are divided into
    `n_folds` folds in the order of recording, so that few training trials are next to held-out ones. None: five,
    or as many as there are characters; more than there are characters, or trials of the smaller class, are refused.

    Parameters
    ----------
    design : Design
        The prepared trials.
    n_folds : int or None
        Number of folds, where they are made of characters or blocks.

    Returns
    -------
    Folds
        ``number`` is the fold in which each trial is held out, ``by`` the unit that the folds are made of.

    See Also
    --------
    InOrder : The folds inside a fit.
    select_montage : Uses these folds.

    Examples
    --------
    >>> from mixnorm.eeg import honest_folds, prepare, simulated_recording
    >>> folds = honest_folds(prepare(simulated_recording(600)))
    >>> len(folds), folds.by
    (5, 'character')
    """
    # a line break, which names do not contain, so that two pairs cannot give the same text
    whose = [f"{subject}\n{session}" for subject, session in zip(design.subject, design.session, strict=True)]
    sessions = np.unique(whose, return_inverse=True)[1]
    one_subject = len(np.unique(design.subject)) == 1
    if sessions.max() == 1 and one_subject and len(np.unique(design.run)) > 2:
        return Folds(dealt(design.run, MOST_SESSIONS), "run")
    # Sessions differ in cap, gel and day: the score of another session is what use on another day would have.
    if sessions.max() > 0:
        return Folds(dealt(sessions, MOST_SESSIONS), "session")
    known = np.all(design.character != UNKNOWN)
    if known and len(np.unique(design.character)) > 1:
        return Folds(dealt(design.character, _possible(n_folds, design, "characters")), "character")
    return Folds(dealt(np.arange(len(design)), _possible(n_folds, design, "trials")), "block")


def _possible(n_folds: int | None, design: Design, units: str) -> int:
    """The number of folds that was asked for, if that many can be tested."""
    # `dealt` takes fewer folds where there are fewer units; only a number that was asked for is refused.
    if n_folds is None:
        return N_FOLDS
    count = len(np.unique(design.character)) if units == "characters" else len(design)
    fewest = int(np.unique(design.y, return_counts=True)[1].min())
    if n_folds > min(count, fewest):
        whose = np.unique(design.subject)
        of = f"subject {whose[0]!s} has" if len(whose) == 1 else "there are"
        raise ValueError(
            f"{n_folds} folds were asked for, but {of} {count} {units} and {fewest} trials of the smaller class; "
            f"take at most {min(count, fewest)} folds."
        )
    return n_folds


class InOrder(BaseCrossValidator):
    """A scikit-learn splitter for the folds inside a fit: whole groups in the order of recording.

    Where there are fewer groups than folds, blocks of consecutive trials are used instead.

    Parameters
    ----------
    n_splits : int
        Number of folds.

    See Also
    --------
    honest_folds : The outer folds, on which models are scored.
    default_classifier : Uses this splitter.

    Examples
    --------
    >>> import numpy as np
    >>> from mixnorm.eeg import InOrder
    >>> [test.tolist() for _, test in InOrder(2).split(np.zeros(6), groups=[7, 7, 3, 3, 5, 5])]
    [[0, 1, 2, 3], [4, 5]]
    """

    def __init__(self, n_splits: int = 3) -> None:
        self.n_splits = n_splits

    def get_n_splits(self, X: object = None, y: object = None, groups: object = None) -> int:
        """Number of folds.

        Parameters
        ----------
        X, y, groups : object
            Not used; for scikit-learn.

        Returns
        -------
        int
            The number.
        """
        return self.n_splits

    def _iter_test_indices(
        self, X: Any = None, y: object = None, groups: ArrayLike | None = None
    ) -> Iterator[NDArray[np.int64]]:
        units = np.arange(len(X)) if groups is None else np.asarray(groups)
        if len(np.unique(units)) < self.n_splits:
            # Too few groups for the folds: consecutive trials are the next best.
            units = np.arange(len(units))
        number = dealt(units, self.n_splits)
        return (np.flatnonzero(number == fold) for fold in range(self.n_splits))


def fitted(classifier: Any, X: NDArray[np.float64], y: NDArray[np.int64], groups: NDArray[np.int64]) -> Any:
    """Fit a classifier; its splitter gets the groups, where it has one that can use them."""
    splits = hasattr(getattr(classifier, "cv", None), "split")
    return classifier.fit(X, y, groups=groups) if splits else classifier.fit(X, y)


class HeldOutScores(NamedTuple):
    """Scores (n,) of trials by classifiers that were not trained on them, and probabilities of a target; NaN: none.

    `calibrated`: whether the probabilities are those of the classifiers' own calibrations.
    """

    score: NDArray[np.float64]
    probability: NDArray[np.float64]
    calibrated: bool


def held_out_scores(
    design: Design,
    make_classifier: Callable[[], Any],
    folds: Folds,
    progress: Callable[[int], None] | None = None,
) -> HeldOutScores:
    """Score every trial by a classifier of the other folds; NaN where a class is missing.

    Scaling and the calibration of probabilities are those of each training set.
    """
    X, y, groups = design.to_sklearn()
    score, probability = np.full((2, len(y)), np.nan)
    calibrated = True
    for fold in range(len(folds)):
        test = folds.number == fold
        train = ~test
        if len(np.unique(y[test])) == 2 and len(np.unique(y[train])) == 2:
            scaler = design.preparation.scaler().fit(X[train])
            # Limits are learned from training trials, and held-out trials are never rejected: the score is that of all
            # trials.
            train[train] = scaler.accepted(X[train], y[train])
            model = fitted(make_classifier(), scaler.transform(X[train]), y[train], groups[train])
            score[test] = model.decision_function(scaler.transform(X[test]))
            probability[test] = target_probability(model, score[test])
            calibrated = calibrated and getattr(model, "calibration_", None) is not None
        if progress is not None:
            progress(fold)
    return HeldOutScores(score, probability, calibrated)


def target_probability(classifier: Any, score: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probability of a target from scores (n,): the sigmoid of a calibrated classifier.

    Without a calibration, (1 + score) / 2 limited to [0, 1], for which a score minimises the squared hinge loss.
    """
    known = getattr(classifier, "calibration_", None)
    return np.clip((1 + score) / 2, 0, 1) if known is None else Calibration(**known).probability(score)


def auc_by_fold(design: Design, scores: NDArray[np.float64], folds: Folds) -> list[float | None]:
    """AUC of each fold from held-out scores; None where they are not known."""
    parts = [folds.number == fold for fold in range(len(folds))]
    return [
        float(roc_auc_score(design.y[test], scores[test])) if np.isfinite(scores[test]).all() else None
        for test in parts
    ]


def dealt(labels: NDArray, n_folds: int) -> NDArray[np.int64]:
    """Contiguous folds of whole labels, of nearly equal numbers of labels."""
    units = _in_order(labels)
    count = units.max() + 1
    # integer arithmetic, so that the folds differ by at most one unit
    return units * min(n_folds, count) // count


def _in_order(labels: NDArray) -> NDArray[np.int64]:
    """Labels as 0, 1, 2, … in the order in which they first appear."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]
