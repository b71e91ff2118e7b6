"""When a recommendation is worth little, and how that is said."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from mixnorm.montage.scoring import Montages, Subject, mean_known, paired_variance

FEWEST_TRIALS = 20
"""With fewer trials of a class than this, nothing is recommended with confidence."""

FEWEST_FOLDS = 3
"""With fewer folds than this, an interval over folds says next to nothing, and the trials themselves are asked."""

NOT_SURE = "No montage can be recommended with confidence"
"""How a reason begins that must not be trusted."""


def few_trials(subjects: list[Subject]) -> str | None:
    """What to say where a class is small; None where both are large enough."""
    signs = np.concatenate([one.signs for one in subjects])
    counts = {"targets": int(np.sum(signs > 0)), "nontargets": int(np.sum(signs < 0))}
    small = [f"{count} {what}" for what, count in counts.items() if count < FEWEST_TRIALS]
    if not small:
        return None
    return f"There are only {' and '.join(small)}: too few to tell electrodes apart; record more."


def nothing_shown(found: Montages, place: int) -> str | None:
    """What to say where the scores could be chance; None where best and recommended montage are beyond it."""
    asked = (
        ("best", int(np.argmax(found.mean)), "any electrode helps; record more"),
        ("recommended", place, "it does better than chance; record more, or take more electrodes"),
    )
    for which, at, what in asked:
        low, high = _interval(found, at)
        if not low > 0.5:
            span = f"{low:.3f} … {high:.3f}"
            return f"The interval of the {which} montage ({span}) holds 0.5: these trials do not show that {what}."
    return None


def few_folds(found: Montages) -> str | None:
    """What to say where there are too few folds for an interval that means anything."""
    J = len(found.tests)
    if J >= FEWEST_FOLDS:
        return None
    low, high = found.interval()
    best = int(np.argmax(found.mean))
    span = f" ({low[best]:.3f} … {high[best]:.3f} for the best montage)" if np.isfinite(low[best]) else ""
    many = "fold" if J == 1 else "folds"
    return (
        f"Only {J} {many}: the classes are told apart beyond chance, but the intervals{span} say next to nothing "
        "about another session; record more."
    )


def caution_of(found: Montages, place: int, subjects: list[Subject]) -> tuple[str | None, bool]:
    """What a user must know before trusting the recommendation, or None; and whether nothing is sure at all.

    Nothing is sure where a class has fewer than ``FEWEST_TRIALS`` trials, or where the 95 % interval of the best or of
    the recommended montage holds 0.5. With one or two folds the interval over folds always does, whatever the trials
    say; it is then taken over trials (DeLong's variance in each fold, corrected for overlapping training sets).
    """
    unsure = [said for said in (few_trials(subjects), nothing_shown(found, place)) if said]
    if unsure:
        return " ".join(unsure), True
    return few_folds(found), False


def _interval(found: Montages, place: int) -> tuple[float, float]:
    """95 % interval of a montage's AUC: over folds or, where these are too few, over trials."""
    if len(found.tests) < FEWEST_FOLDS:
        return _interval_over_trials(found, place)
    low, high = found.interval()
    return float(low[place]), float(high[place])


def _interval_over_trials(found: Montages, place: int) -> tuple[float, float]:
    """Each fold's models taken as given; within 0 and 1."""
    variances = [
        [_variance(one.signs, one.scores[:, place]) for one in fold if one is not None] for fold in found.tests
    ]
    mean = np.mean([np.mean(fold) / len(fold) for fold in variances])
    reach = norm.ppf(0.975) * np.sqrt((1 / len(variances) + found.ratio) * mean)
    auc = mean_known(found.by_fold[[place]], axis=1)[0]
    return float(max(auc - reach, 0)), float(min(auc + reach, 1))


def _variance(signs: np.ndarray, scores: np.ndarray) -> float:
    """DeLong's variance of one AUC: that of its difference from scores that are all equal, whose AUC is 0.5."""
    return float(paired_variance(signs, np.column_stack([scores, np.zeros(len(scores))]), 1)[0])
