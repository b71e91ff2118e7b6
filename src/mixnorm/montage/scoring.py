r"""The best montage for every number of sensors, and its score by nested cross-validation.

On training trials alone the sensors are put in order (`orders`), and the decoder is fitted on the first K of them
(`refits`). All of that is repeated without the trials of each outer fold, which are then scored by these models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator

from mixnorm.estimators.cross_validation import auc
from mixnorm.execution import on_device
from mixnorm.montage.checkpoint import Call, Work
from mixnorm.montage.intervals import corrected_interval, mean_known, paired_variance
from mixnorm.montage.orders import Order
from mixnorm.montage.progress import report_share
from mixnorm.montage.refits import HeldOutScores, Models, refit_all
from mixnorm.montage.trials import SubjectTrials, Training, divided, inner_folds

#: Share of the ranking in the work of a fold; only for the progress that is shown.
_RANKING = 0.05


@dataclass(frozen=True, eq=False)
class ScoredMontages:
    """What `score_montages` returns, for T subjects and J outer folds.

    Attributes
    ----------
    models : list of T Models
        Fitted on all trials; the order of the sensors is common to all subjects.
    tests : list of J lists of T HeldOutScores, or None where a subject has no held-out trials of both classes
        Scores of the held-out trials of every outer fold, by models of the other trials.
    ratio : float
        Held-out trials per training trial, mean over folds.
    orders : list of J ndarrays
        The order found without each fold.
    """

    models: list[Models]
    tests: list[list[HeldOutScores | None]]
    ratio: float
    orders: list[NDArray[np.integer]]

    @property
    def order(self) -> NDArray[np.integer]:
        """The sensors, the most important one first."""
        return self.models[0].order

    @property
    def sizes(self) -> NDArray[np.integer]:
        """Numbers of sensors, (S,)."""
        return self.models[0].sizes

    @cached_property
    def aucs(self) -> NDArray[np.float64]:
        """AUC of every montage in every fold for every subject, (S, J, T); NaN where there is none."""
        nothing = np.full(len(self.sizes), np.nan)
        rows = [[nothing if one is None else auc(one.signs, one.scores) for one in fold] for fold in self.tests]
        return np.moveaxis(np.array(rows), 2, 0)

    def held_out(self, subjects: Sequence[SubjectTrials], t: int, place: int) -> NDArray[np.float64]:
        """Scores of all trials of subject t by the montage at an index, (n,); NaN where they were never held out."""
        scores = np.full(len(subjects[t].signs), np.nan)
        for fold, tests in zip(usable_folds(subjects), self.tests, strict=True):
            own = tests[t]
            if own is not None:
                scores[subjects[t].fold == fold] = own.scores[:, place]
        return scores

    @property
    def by_fold(self) -> NDArray[np.float64]:
        """AUC of every montage in every fold, mean over subjects, (S, J)."""
        return mean_known(self.aucs, axis=2)

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean AUC of every montage, (S,)."""
        return mean_known(self.by_fold, axis=1)

    def interval(self, level: float = 0.95) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Corrected confidence interval of the mean AUC, within 0 and 1: (low, high), (S,) each."""
        return corrected_interval(self.by_fold, self.ratio, level)

    def error_of_difference(self, place: int) -> NDArray[np.float64]:
        """Standard error of the difference in mean AUC between every montage and the one at an index, (S,).

        DeLong's for paired scores in each fold, averaged over folds and subjects, times Nadeau and Bengio's correction
        √(1 + J n_test/n_train). The montages are compared on the same trials, so that differences in difficulty
        between sessions do not count.
        """
        variances = [
            [paired_variance(one.signs, one.scores, place) for one in fold if one is not None] for fold in self.tests
        ]
        means = [np.mean(fold, axis=0) / len(fold) for fold in variances]
        J = len(means)
        return np.sqrt((1 / J + self.ratio) * np.mean(means, axis=0))


def score_montages(
    subjects: Sequence[SubjectTrials],
    order: Order,
    *,
    cv: BaseCrossValidator,
    scaler: Any = None,
    work: Work | None = None,
    folds: Sequence[int] | None = None,
) -> ScoredMontages:
    """Find the montages on all trials, and score the search on the held-out trials of every outer fold.

    Parameters
    ----------
    subjects : sequence of SubjectTrials
        Several subjects share one order of sensors and have a classifier each.
    order : Order
        Puts the sensors in order.
    cv : splitter
        Makes the inner folds, ``cv.split(X, y, trial_groups)``.
    scaler : transformer, optional
        Fitted on the training trials of each fold and subject.
    work : Work, optional
        Runs one call for each outer fold and one for all trials; by default one after another in this process.
    folds : sequence of int, optional
        The outer folds to score; by default all that can be (`usable_folds`).
    """
    folds = usable_folds(subjects) if folds is None else folds
    if not folds:
        raise ValueError("No fold has both classes among its held-out and its training trials; use fewer folds.")
    *held_out, models = _run(subjects, folds, _Settings(order, cv, scaler), work or Work())
    # for the correction of Nadeau and Bengio: the larger the held-out part, the more the training sets differ
    share = np.array([np.mean([np.mean(one.fold == fold) for one in subjects]) for fold in folds])
    return ScoredMontages(
        models=models,
        tests=[tests for _, tests in held_out],
        ratio=float(np.mean(share / (1 - share))),
        orders=[order for order, _ in held_out],
    )


@dataclass(frozen=True, eq=False)
class _Settings:
    """What is the same in every fold."""

    order: Order
    cv: BaseCrossValidator
    scaler: Any


def usable_folds(subjects: Sequence[SubjectTrials]) -> list[int]:
    """Return the outer folds that are scored, in order."""
    numbers = np.unique(np.concatenate([one.fold for one in subjects]))
    return [int(fold) for fold in numbers if _usable(subjects, fold)]


def _usable(subjects: Sequence[SubjectTrials], fold: int) -> bool:
    """Whether at least one subject can be tested on the fold, and every subject trained without it."""
    # A subject without held-out trials is only left out of the mean, but one without training trials has no decoder
    # at all.
    if any(not one.take(one.fold != fold).has_both_classes for one in subjects):
        return False
    return any(one.take(one.fold == fold).has_both_classes for one in subjects)


def _run(subjects: Sequence[SubjectTrials], folds: Sequence[int], settings: _Settings, work: Work) -> list[Any]:
    """Return order and held-out scores of every fold, and at last the models of all trials.

    On a device everything is one call, because a device solves the problems of all folds in little more time than
    those of one.
    """
    name = settings.order.name
    if on_device():
        return work.run(f"{name}, all folds together", [Call.of(_together, subjects, folds, settings)])[0]
    calls = [Call.of(_held_out, subjects, fold, settings) for fold in folds]
    return work.run(name, [*calls, Call.of(_fitted_on_all, subjects, settings)])


def _held_out(
    subjects: Sequence[SubjectTrials], fold: int, settings: _Settings
) -> tuple[NDArray[np.integer], list[HeldOutScores | None]]:
    """Return the order found without the trials of a fold, and the scores of these trials."""
    models, tests = _fitted(subjects, [fold], settings, report_share)[0]
    return models[0].order, tests


def _fitted_on_all(subjects: Sequence[SubjectTrials], settings: _Settings) -> list[Models]:
    return _fitted(subjects, [None], settings, report_share)[0][0]


def _together(subjects: Sequence[SubjectTrials], folds: Sequence[int], settings: _Settings) -> list[Any]:
    """What `_held_out` returns for every fold, and `_fitted_on_all`, at once."""
    parts = [*folds, None]
    # the work of this one call is that of as many parts
    *held_out, (models, _) = _fitted(subjects, parts, settings, lambda share: report_share(share * len(parts)))
    return [*((own[0].order, tests) for own, tests in held_out), models]


def _fitted(
    subjects: Sequence[SubjectTrials],
    folds: Sequence[int | None],
    settings: _Settings,
    tell: Callable[[float], None],
) -> list[tuple[list[Models], list[HeldOutScores | None]]]:
    """Fit without the trials of each fold (None: on all); return each subject's models, and their scores on the fold.

    ``tell`` is called with the share that is done, from 0 to 1.
    """
    trials = [[_split(one, fold, settings) for one in subjects] for fold in folds]
    cases = []
    for number, own in enumerate(trials, start=1):
        # one order for all subjects, because they are to wear the same electrodes; each has decoders of its own
        ranking = settings.order.rank([training for training, _ in own])
        cases += [(training, ranking) for training, _ in own]
        tell(_RANKING * number / len(folds))
    models = refit_all(cases, lambda share: tell(_RANKING + (1 - _RANKING) * share))
    by_fold = [models[start : start + len(subjects)] for start in range(0, len(models), len(subjects))]
    return [
        (
            fitted,
            [
                None if test is None else HeldOutScores(test.signs, model.scores(test.X))
                for model, (_, test) in zip(fitted, own, strict=True)
            ],
        )
        for fitted, own in zip(by_fold, trials, strict=True)
    ]


def _split(one: SubjectTrials, fold: int | None, settings: _Settings) -> tuple[Training, SubjectTrials | None]:
    """The scaled training trials of a subject without a fold, and those of the fold if it has both classes."""
    train, test = divided(one, fold, settings.scaler)
    # from the training trials alone, so that alpha never sees a held-out trial
    folds = inner_folds(settings.cv, train.signs, train.trial_groups)
    return Training(train.X, train.signs, folds), test if test.has_both_classes else None
