"""Folds as columns of weights, and the scores of their test trials."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import check_scoring
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from mixnorm.core.problem import Solution


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
    solutions: list[Solution], folds: list[Fold], parts: list[np.ndarray], labels: np.ndarray, scoring, params: dict
) -> np.ndarray:
    """Score the test trials of every fold, (A, folds): column k of the solutions is the model of fold k.

    ``parts`` are the test trials of every fold, which are copied once and used for several grids.
    """
    columns = []
    for k, (fold, part) in enumerate(zip(folds, parts, strict=True)):
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
