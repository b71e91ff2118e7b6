"""When a recommendation cannot be relied on: too few trials or folds, AUCs that could be chance, several people."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import norm

from mixnorm.montage.intervals import auc_variance, mean_known
from mixnorm.montage.plain import number, numbers
from mixnorm.montage.scoring import ScoredMontages
from mixnorm.montage.trials import SubjectTrials
from mixnorm.montage.verdict_records import ChanceLevel, FewFolds, FewTrials, NoTransfer

FEWEST_TRIALS = 20
"""With fewer trials of a class than this, nothing is recommended with confidence."""

FEWEST_FOLDS = 3
"""With fewer folds than this, an interval over folds is too wide to be useful, and one over trials is used."""

CHANCE = 0.5


def few_trials(subjects: Sequence[SubjectTrials]) -> FewTrials | None:
    """Numbers of trials of the classes with fewer than `FEWEST_TRIALS` over all subjects; None if both have enough."""
    signs = np.concatenate([one.signs for one in subjects])
    counts = (int(np.sum(signs > 0)), int(np.sum(signs < 0)))
    small = [count if count < FEWEST_TRIALS else None for count in counts]
    return None if small == [None, None] else FewTrials(*small)


def chance_level(found: ScoredMontages, place: int) -> ChanceLevel | None:
    """The best montage, or else the one at an index, whose 95 % interval includes chance level; otherwise None.

    With one or two folds the interval over folds always includes it; the interval is then taken over trials (DeLong's
    variance in each fold, corrected for overlapping training sets).
    """
    # The best one first: if even that may be chance, there is nothing to recommend, whatever was chosen.
    for montage, at in (("best", int(np.argmax(found.mean))), ("chosen", place)):
        low, high = _interval(found, at)
        # written so that an interval that is not known (NaN) counts as including chance level
        if not low > CHANCE:
            return ChanceLevel(montage, number(low, 6), number(high, 6))
    return None


def few_folds(found: ScoredMontages) -> FewFolds | None:
    """The number of folds where there are fewer than `FEWEST_FOLDS`, with the interval of the best montage."""
    if len(found.tests) >= FEWEST_FOLDS:
        return None
    best = int(np.argmax(found.mean))
    low, high = (number(ends[best], 6) for ends in found.interval())
    return FewFolds(len(found.tests), low, high)


def no_transfer(found: ScoredMontages, sessions: Sequence[str]) -> NoTransfer | None:
    """The supposed sessions of one subject that decoders of the others do not decode better than chance, or None.

    The best montage is judged on every session (one for each fold of ``found``) by DeLong's 95 % interval over its
    trials. Where this includes chance level, the recordings may be of different people.
    """
    best = int(np.argmax(found.mean))
    rows = []
    for name, auc, (held_out,) in zip(sessions, found.by_fold[best], found.tests, strict=True):
        # Over the trials of this session alone. An interval over sessions would hide that one of them fails.
        half_width = norm.ppf(0.975) * np.sqrt(auc_variance(held_out.signs, held_out.scores[:, best]))
        if not auc - half_width > CHANCE:
            rows.append((name, auc, max(auc - half_width, 0.0), min(auc + half_width, 1.0)))
    if not rows:
        return None
    names, *values = zip(*rows, strict=True)
    return NoTransfer(names, *(numbers(column, 6) for column in values))


def _interval(found: ScoredMontages, place: int) -> tuple[float, float]:
    """95 % interval of the AUC of a montage: over folds or, where these are too few, over trials."""
    if len(found.tests) < FEWEST_FOLDS:
        return interval_over_trials(found, place)
    low, high = found.interval()
    return float(low[place]), float(high[place])


def interval_over_trials(found: ScoredMontages, place: int) -> tuple[float, float]:
    """95 % interval of the AUC of a montage over trials, the models of each fold taken as given; within 0 and 1."""
    variances = [
        [auc_variance(one.signs, one.scores[:, place]) for one in fold if one is not None] for fold in found.tests
    ]
    # the AUC of a fold is a mean over its subjects, whose trials are independent
    mean = np.mean([np.mean(fold) / len(fold) for fold in variances])
    half_width = norm.ppf(0.975) * np.sqrt((1 / len(variances) + found.ratio) * mean)
    auc = mean_known(found.by_fold[[place]], axis=1)[0]
    return float(max(auc - half_width, 0)), float(min(auc + half_width, 1))
