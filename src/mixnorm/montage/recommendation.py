"""Which of the scored montages to recommend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

from mixnorm.montage.caution import chance_level, few_folds, few_trials
from mixnorm.montage.plain import number
from mixnorm.montage.scoring import ScoredMontages
from mixnorm.montage.trials import SubjectTrials
from mixnorm.montage.verdict_records import NoTransfer, Recommendation, verdict_of

TOLERANCE = 0.01
"""How much AUC the recommended montage may lose against the best one.

A fixed number, which the page can state. One standard error would give up more, the fewer trials there are.
"""


@dataclass(frozen=True)
class Choice:
    """Indices of the chosen and of the best montage among the sizes, and the standard error of their difference."""

    chosen: int
    best: int
    standard_error: float


def smallest_near_best(found: ScoredMontages) -> Choice:
    """Choose the smallest montage whose AUC, without the luck of single montages, is within `TOLERANCE` of the best.

    The AUCs up to the best montage are first made monotone (`growing`).
    """
    best = int(np.argmax(found.mean))
    # Only up to the best: beyond it electrodes may harm, and a curve that may not fall would hide that.
    smooth = growing(found.mean[: best + 1])
    chosen = int(np.flatnonzero(smooth >= smooth[-1] - TOLERANCE)[0])
    return Choice(chosen, best, float(found.error_of_difference(best)[chosen]))


def growing(aucs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nearest AUCs, in least squares, that do not fall as electrodes are added.

    On average an electrode more does not harm up to the best montage. Where the held-out AUC falls nevertheless, the
    smaller montage was lucky: it is given the mean of those that follow, so that a lucky small montage is not chosen.
    """
    return np.asarray(isotonic_regression(aucs))


def choose(found: ScoredMontages, asked: int | None) -> Choice:
    """Choose the montage with the number of sensors asked for; None: the smallest near the best."""
    near = smallest_near_best(found)
    if asked is None:
        return near
    chosen = int(np.flatnonzero(found.sizes == asked)[0])
    return Choice(chosen, near.best, float(found.error_of_difference(near.best)[chosen]))


def recommend(
    found: ScoredMontages,
    choice: Choice,
    asked: int | None,
    subjects: Sequence[SubjectTrials],
    no_transfer: NoTransfer | None = None,
) -> Recommendation:
    """Say what is known about the chosen montage, and whether it can be recommended.

    Nothing is recommended with confidence where a class has too few trials, or where the 95 % interval of the best or
    of the chosen montage includes chance level, or where recordings that name no subject do not predict each other
    (``no_transfer``). Too few folds are reported otherwise, but do not change the verdict.
    """
    # Also for a number that was asked for: the user should know that the trials do not support any.
    few, chance = few_trials(subjects), chance_level(found, choice.chosen)
    verdict = verdict_of(asked, few, chance, no_transfer)
    return Recommendation(
        n_sensors=int(found.sizes[choice.chosen]),
        verdict=verdict,
        n_asked=asked,
        best_n_sensors=int(found.sizes[choice.best]),
        best_auc=number(found.mean[choice.best], 6),
        below_best=number(found.mean[choice.best] - found.mean[choice.chosen], 6),
        standard_error=number(choice.standard_error, 6),
        few_trials=few,
        chance_level=chance,
        few_folds=None if verdict == "unsure" else few_folds(found),
        no_transfer=no_transfer,
        tolerance=TOLERANCE if asked is None else None,
    )
