"""Cross-validation: folds as columns of weights, the scores of their test trials, and the choice of a model."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import rankdata
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import check_scoring
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from mixnorm.core.intercept import polish
from mixnorm.core.problem import Solution, Stack

#: Mean scores that differ by at most this much are equal, because rounding errors can be that large. Of equal scores
#: the sparser model is chosen.
EQUAL = 1e-12


@dataclass(frozen=True)
class Routed:
    """The metadata of fit for the splitter and for the scorer."""

    split: dict
    score: dict


def route(estimator, params: dict, sample_weight) -> Routed:
    """Route the metadata of fit: by scikit-learn's metadata routing if enabled, else ``groups`` to the splitter."""
    if get_config()["enable_metadata_routing"]:
        # With routing, the scorer gets sample weights only if it requests them; without, it always does, as in
        # LogisticRegressionCV.
        if sample_weight is not None:
            params = {**params, "sample_weight": sample_weight}
        routed = process_routing(estimator, "fit", **params)
        return Routed(routed.splitter.split, routed.scorer.score)
    unknown = sorted(set(params) - {"groups"})
    if unknown:
        raise TypeError(
            f"fit got unexpected parameters: {', '.join(unknown)}; to pass them to the splitter or the scorer, call "
            "sklearn.set_config(enable_metadata_routing=True)."
        )
    return Routed(params, {} if sample_weight is None else {"sample_weight": np.asarray(sample_weight)})


def cv_routing(estimator) -> MetadataRouter:
    """Return how the metadata of an estimator's fit reach its splitter and its scorer."""
    router = MetadataRouter(owner=estimator).add_self_request(estimator)
    router.add(splitter=check_cv(estimator.cv), method_mapping=MethodMapping().add(caller="fit", callee="split"))
    return router.add(
        scorer=scorer_object(estimator.scoring),
        method_mapping=MethodMapping().add(caller="fit", callee="score"),
    )


@dataclass(frozen=True, eq=False)
class Fold:
    """Training and test trials of a fold.

    Attributes
    ----------
    train : ndarray of shape (n,)
        How often each trial is in the training part: 0 or 1, or more where a splitter draws with replacement.
    test : ndarray of shape (n,)
        Which trials are in the test part, as a mask.
    """

    train: np.ndarray
    test: np.ndarray


class Divisions:
    """Two divisions of the same trials: three stratified folds in order, then five shuffled with a fixed seed.

    If a class has fewer trials (``fewest``) than that, there are as many folds as trials, but at least two.
    """

    def __init__(self, fewest: int):
        in_order, shuffled = (max(2, min(most, fewest)) for most in (3, 5))
        self.splitters = (StratifiedKFold(in_order), StratifiedKFold(shuffled, shuffle=True, random_state=0))

    def split(self, X, y, groups=None):
        """Yield the folds of both divisions."""
        for splitter in self.splitters:
            yield from splitter.split(X, y)

    def get_n_splits(self, X=None, y=None, groups=None):
        """Return the number of folds of both divisions."""
        return sum(splitter.get_n_splits() for splitter in self.splitters)


def split_folds(cv, X: np.ndarray, labels: np.ndarray, params: dict, scoring="roc_auc", whose: str = "") -> list[Fold]:
    """Split the trials; every training part must contain both classes, and with "roc_auc" every test part too."""
    folds = []
    trials = np.arange(len(labels))
    for train, test in check_cv(cv, labels, classifier=True).split(X, labels, **params):
        # A bootstrap draws trials more than once: its counts become integer weights, so that no trial is copied.
        counts = np.bincount(trials[train], minlength=len(trials))
        folds.append(Fold(counts, np.bincount(trials[test], minlength=len(trials)) > 0))
    if not folds:
        raise ValueError("cv gave no fold; use a splitter or a list with at least one split.")
    check_fold_classes(folds, labels, scoring, whose=whose)
    return folds


def check_fold_classes(folds: list[Fold], labels: np.ndarray, scoring, rows=slice(None), whose: str = "") -> None:
    """Raise an error if a part of a fold that needs both classes contains one only (of the trials in ``rows``)."""
    for number, fold in enumerate(folds):
        parts = {"training": fold.train > 0}
        # Other scores, such as the accuracy, are defined for test trials of one class.
        if is_auc(scoring):
            parts["test"] = fold.test
        for name, mask in parts.items():
            if len(np.unique(labels[rows][mask[rows]])) < 2:
                raise ValueError(
                    f"The {name} part of fold {number} of cv holds trials {whose}of one class only; "
                    "use fewer folds, or a splitter that stratifies."
                )


def is_auc(scoring) -> bool:
    """Whether the score is the area under the ROC curve, which `auc` computes for all models at once."""
    return isinstance(scoring, str) and scoring == "roc_auc"


def scorer_object(scoring):
    """Return scikit-learn's scorer for the ``scoring`` parameter."""
    return check_scoring(_Scored(), scoring)


def score_folds(
    solutions: list[Solution],
    folds: list[Fold],
    parts: Callable[[], Iterable[np.ndarray]],
    labels: np.ndarray,
    scoring,
    params: dict,
) -> np.ndarray:
    """Score the test trials of every fold, (A, folds): column k of the solutions is the model of fold k.

    ``parts`` returns the test trials of every fold.
    """
    columns = []
    for k, (fold, part) in enumerate(zip(folds, parts(), strict=True)):
        # All alphas at once: one product of the test trials with a matrix, instead of one product per model.
        W = np.stack([s.W[0, 0, :, k] for s in solutions], axis=1)
        b = np.array([s.b[0, 0, k] for s in solutions])
        columns.append(score_models(part, labels, fold.test, (W, b), scoring, params))
        # NaN would be neither better nor worse than any score, and the choice would depend on the order of the grid.
        if not np.isfinite(columns[-1]).all():
            raise ValueError(
                f"scoring={scoring!r} returned a score that is not finite on the test part of fold {k} of cv; use "
                "another scoring or other folds."
            )
    return np.stack(columns, axis=1)


def score_models(part: np.ndarray, labels: np.ndarray, test: np.ndarray, models, scoring, params: dict) -> np.ndarray:
    """Score A models W (d, A), b (A,) on the test trials ``part``, whose mask (n,) is ``test``; returns (A,)."""
    W, b = models
    scores = part @ W + b
    # `auc` scores all alphas at once; scikit-learn's scorers take one model at a time.
    if is_auc(scoring) and not params:
        return auc(labels[test], scores)
    return _score_each(scoring, test, part, labels, scores, params)


def auc(labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Area under the ROC curve of every column of scores (n, A): the rank-sum statistic, with ties counted as ½."""
    positive = labels == np.unique(labels)[1]
    n_pos, n_neg = positive.sum(), (~positive).sum()
    rows = np.ascontiguousarray(scores.T)
    # Sorting is enough without ties: the rank sum of the positive class is a product with the sorted labels.
    order = np.argsort(rows, axis=1)
    ranks = positive[order] @ np.arange(1.0, len(labels) + 1)
    ordered = np.take_along_axis(rows, order, axis=1)
    # Tied scores (a zero model) and NaN need mean ranks, which are slower to compute.
    tied = ~(ordered[:, 1:] > ordered[:, :-1]).all(axis=1)
    if tied.any():
        ranks[tied] = rankdata(rows[tied], axis=1)[:, positive].sum(axis=1)
    return (ranks - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg)


def _score_each(scoring, test: np.ndarray, part, labels, scores, params) -> np.ndarray:
    scorer = scorer_object(scoring)
    # Metadata of the length of all trials are given per trial; the scorer sees test trials only.
    params = {
        name: np.asarray(value)[test] if np.shape(value)[:1] == (len(labels),) else value
        for name, value in params.items()
    }
    classes = np.unique(labels)
    return np.array([scorer(_Scored(classes, column), part, labels[test], **params) for column in scores.T])


class _Scored(ClassifierMixin, BaseEstimator):
    """A classifier with precomputed scores, for scikit-learn's scorers."""

    def __init__(self, classes=None, scores=None):
        self.classes = classes
        self.scores = scores

    @property
    def classes_(self):
        return self.classes

    def fit(self, X, y):
        """Nothing to fit."""
        return self

    def decision_function(self, X):
        """Return the precomputed scores."""
        return self.scores

    def predict(self, X):
        """Return the label that the sign of the score indicates."""
        return self.classes[(self.scores > 0).astype(int)]


@dataclass(frozen=True, eq=False)
class Choice:
    """A solved and scored grid of alphas.

    Attributes
    ----------
    stack : Stack
        The problems of the folds and, as the last one, of the refit on all trials.
    alphas : ndarray of shape (A,)
    solutions : list of A Solution
    scores : ndarray of shape (A, folds)
    n_selected : ndarray of shape (A,)
        Number of sensors that the refit selects.
    zero_score : float or None
        Mean score of models of the folds without any sensor; None: not needed.
    """

    stack: Stack
    alphas: np.ndarray
    solutions: list[Solution]
    scores: np.ndarray
    n_selected: np.ndarray
    zero_score: float | None = None

    @property
    def zero_refit(self) -> np.ndarray:
        """Where the refit selects nothing although the model of a fold does, (A,): the score is not that of the refit.

        A grid starts at alpha_max of all trials. That of a fold, which has fewer trials, is mostly larger.
        """
        found = np.zeros(len(self.alphas), dtype=bool)
        if self.solutions:
            zero = np.flatnonzero(self.n_selected == 0)
            found[zero] = [bool(self.solutions[place].W[..., :-1].any()) for place in zero]
        return found


def scored_grids(
    stacks: Sequence[Stack],
    alphas: Sequence[np.ndarray],
    grids: Sequence[list[Solution]],
    score: Callable[[list[Solution]], np.ndarray],
) -> list[Choice]:
    """Score solved grids; each has its stack and its alphas. ``score`` returns the scores (A, folds) of A solutions.

    The stacks have the same trials, and equal numbers of alphas.
    """
    # All grids in one call, so that the test trials of a fold are copied once.
    scores = score([solution for solutions in grids for solution in solutions]).reshape(len(grids), len(alphas[0]), -1)
    found = [
        Choice(stack, own_alphas, solutions, own, count_selected(stack, solutions))
        for stack, own_alphas, solutions, own in zip(stacks, alphas, grids, scores, strict=True)
    ]
    zero_scores: dict[int, float] = {}
    for one in found:
        if one.zero_refit.any() and id(one.stack) not in zero_scores:  # once for all grids of a stack
            W, b, _ = polish(one.stack, *one.stack.start())
            zero_scores[id(one.stack)] = float(score([replace(one.solutions[0], W=W, b=b)]).mean())
    return [replace(one, zero_score=zero_scores[id(one.stack)]) if one.zero_refit.any() else one for one in found]


def check_rule(rule, max_sensors, allowed: tuple[str, ...] = ("best", "1se")) -> None:
    """Raise an error for an unknown rule or an invalid number of sensors."""
    if rule not in allowed:
        names = ", ".join(map(repr, allowed[:-1])) + f" and {allowed[-1]!r}"
        raise ValueError(
            f"Invalid value for the 'rule' parameter. Allowed values are {names}, but got {rule!r} instead."
        )
    if max_sensors is not None and not (isinstance(max_sensors, int | np.integer) and max_sensors >= 0):
        raise ValueError(f"max_sensors must be a whole number from 0, or None, but got {max_sensors!r}.")


def count_selected(stack: Stack, solutions: list[Solution]) -> np.ndarray:
    """Return the number of sensors that the last problem, the refit, selects in every solution, (A,)."""
    # The refit is the model that is kept; the models of the folds may select other sensors.
    blocks = stack.groups.to_blocks(np.concatenate([s.W[..., -1:] for s in solutions]))
    return (blocks != 0).any(axis=(2, 3)).sum(axis=1)


def choose(candidates: list[Choice], rule: str, max_sensors: int | None) -> tuple[int, int]:
    """Return the positions of the chosen grid and of the chosen alpha in it.

    "best": the best mean score, on equal scores the fewest sensors, then the largest alpha. "1se": among the models
    whose mean score is at most one standard error (of the best model's folds) below the best, the largest alpha of
    each grid, and among grids the fewest sensors. "centre": of those models the one whose indices in the grids are
    nearest to their mean. Where many models have nearly the same score, the best of them is a matter of chance and
    often lies at the edge of their region.

    A point at which the refit is the zero model, but not all models of folds are, is chosen only if the zero model
    scores better than every other point, by more than one standard error of the best of these: a model that gives
    every trial the same score would be chosen for the scores of models that do not.
    """
    means = np.stack([c.scores.mean(axis=1) for c in candidates])
    sensors = np.stack([c.n_selected for c in candidates])
    alphas = np.stack([c.alphas for c in candidates])
    # The limit applies before the rule: the best model is the best of those that may be used.
    allowed = np.ones_like(means, dtype=bool) if max_sensors is None else sensors <= max_sensors
    if not allowed.any():
        raise ValueError(
            f"No model of the grid has at most max_sensors={max_sensors} sensors (the sparsest has {sensors.min()}); "
            "add larger alphas."
        )
    zero_refit = np.stack([c.zero_refit for c in candidates])
    others = allowed & ~zero_refit
    if others.any():
        zero = max((c.zero_score for c in candidates if c.zero_score is not None), default=-np.inf)
        # With a weak response the scores of held-out trials vary around chance, and a zero model is of no use.
        reached = means[others].max() + _standard_error(candidates, means, others)
        allowed = others if reached >= zero - EQUAL else allowed & zero_refit
    best = means[allowed].max()
    if rule == "best":
        eligible = allowed & (means >= best - EQUAL)
    else:
        eligible = allowed & (means >= best - _standard_error(candidates, means, allowed) - EQUAL)
        if rule == "centre":
            return _middle(eligible, alphas)
        # Within a grid a larger alpha is the sparser model; between grids alphas do not compare, and sensors are
        # counted.
        largest = np.where(eligible, alphas, -np.inf)
        eligible &= largest == largest.max(axis=1, keepdims=True)
    # The last key counts most: eligible ones first, then the fewest sensors, then the largest alpha.
    order = np.lexsort((-alphas.ravel(), sensors.ravel(), ~eligible.ravel()))
    grid, alpha = np.unravel_index(order[0], means.shape)
    return int(grid), int(alpha)


def _standard_error(candidates: list[Choice], means: np.ndarray, allowed: np.ndarray) -> float:
    """Return the standard error over folds of the best of the allowed points, as in Breiman's rule; 0 for one fold."""
    grid, alpha = np.unravel_index(np.argmax(np.where(allowed, means, -np.inf)), means.shape)
    folds = candidates[grid].scores[alpha]
    return float(folds.std(ddof=1) / np.sqrt(len(folds))) if len(folds) > 1 else 0.0


def _middle(eligible: np.ndarray, alphas: np.ndarray) -> tuple[int, int]:
    """Return the eligible grid point nearest to the mean of all eligible ones, alphas by rank; the first of equals."""
    cells = np.argwhere(eligible)
    # By rank, because the alphas of two grids differ in scale but not in their number.
    ranks = np.argsort(np.argsort(-alphas, axis=1), axis=1)
    places = np.column_stack([cells[:, 0], ranks[tuple(cells.T)]])
    distance = np.sum((places - places.mean(axis=0)) ** 2, axis=1)
    grid, alpha = cells[np.argmin(distance)]
    return int(grid), int(alpha)


def warn_zero_choice(found: Choice, place: int, stacklevel: int) -> None:
    """Warn if the chosen model selects no sensor, and say what it means."""
    if found.n_selected[place]:
        return
    warnings.warn(
        f"The model chosen by cross-validation, with alpha={found.alphas[place]:.3g}, selects no sensor: all "
        "coefficients are zero, and the score of every trial is the same. The best mean score of held-out trials at "
        f"any alpha is {found.scores.mean(axis=1).max():.3g} (of the AUC, 0.5 is chance level). If that is no better "
        "than chance, check labels and events, or use more trials; otherwise use more or smaller alphas, or a larger "
        "max_sensors.",
        UserWarning,
        stacklevel=stacklevel,
    )
