"""Labelled trials of a subject, as electrode selection uses them, and their inner folds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import BaseCrossValidator, StratifiedKFold

from mixnorm.estimators.cross_validation import Fold

FEWEST_TRAINING_TRIALS = 3
"""Fewest training trials of a class: each of three inner folds leaves one out, and estimates the noise from two."""


@dataclass(frozen=True, eq=False)
class SubjectTrials:
    """All labelled trials of one subject, with their outer folds.

    Attributes
    ----------
    X : ndarray of shape (n, G, r)
    signs : ndarray of shape (n,)
        −1 or +1.
    fold : ndarray of shape (n,)
        Outer fold in which the trial is held out.
    trial_groups : ndarray of shape (n,)
        Trials with the same label are never split between inner training and test trials.
    """

    X: NDArray[np.float64]
    signs: NDArray[np.float64]
    fold: NDArray[np.integer]
    trial_groups: NDArray

    def take(self, mask: NDArray[np.bool_]) -> SubjectTrials:
        """Return the trials where ``mask`` is true."""
        return SubjectTrials(self.X[mask], self.signs[mask], self.fold[mask], self.trial_groups[mask])

    @property
    def has_both_classes(self) -> bool:
        """Whether there are trials of both classes."""
        return len(np.unique(self.signs)) == 2


@dataclass(frozen=True, eq=False)
class Training:
    """Scaled training trials of one subject: X (n, G, r), signs (n,) and the inner folds."""

    X: NDArray[np.float64]
    signs: NDArray[np.float64]
    folds: list[Fold]


def divided(one: SubjectTrials, fold: int | None, scaler: Any = None) -> tuple[SubjectTrials, SubjectTrials]:
    """Return the training and the held-out trials of an outer fold; None: all trials are training trials.

    Both are scaled by what ``scaler`` learns from the training trials, and training trials beyond the peak-to-peak
    limit are left out.
    """
    train, test = one.take(one.fold != fold), one.take(one.fold == fold)
    if scaler is None:
        return train, test
    # A clone: the same scaler is fitted in every fold, and folds may run side by side.
    scaler = clone(scaler).fit(train.X)
    # only training trials: nobody can leave out the bad trials of the future
    train = train.take(scaler.accepted(train.X, train.signs))
    scaled = scaler.transform(test.X) if len(test.X) else test.X
    return replace(train, X=scaler.transform(train.X)), replace(test, X=scaled)


def inner_folds(cv: BaseCrossValidator, signs: NDArray[np.float64], trial_groups: NDArray) -> list[Fold]:
    """Return the folds of ``cv`` that can be used; where there are fewer than two, three stratified folds.

    A fold needs both classes among its test trials, and two trials of each among its training trials, from which the
    noise is estimated.
    """
    folds = _usable(cv.split(np.zeros(len(signs)), signs, trial_groups), signs)
    fewest = int(min((signs > 0).sum(), (signs < 0).sum()))
    if len(folds) < 2 and fewest >= FEWEST_TRAINING_TRIALS:
        # Folds that divide characters are optimistic about alpha; without them there would be no alpha at all.
        folds = _usable(StratifiedKFold(3).split(np.zeros(len(signs)), signs), signs)
    if len(folds) < 2:
        raise ValueError(
            f"Only {fewest} training trial{'s' * (fewest != 1)} of one class; electrodes cannot be chosen from fewer "
            f"than {FEWEST_TRAINING_TRIALS}. Record more trials, or use fewer folds."
        )
    return folds


def _usable(splits: Iterable[tuple[NDArray, NDArray]], signs: NDArray[np.float64]) -> list[Fold]:
    return [
        Fold(np.bincount(train, minlength=len(signs)), np.bincount(test, minlength=len(signs)) > 0)
        for train, test in splits
        if all(np.sum(signs[train] == sign) >= 2 and np.any(signs[test] == sign) for sign in (-1, 1))
    ]
