"""Folds as columns of weights, and the scores of their test trials."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils.metadata_routing import process_routing

from .stack import Solution, Stack


@dataclass(frozen=True)
class Routed:
    """What of fit's metadata goes to the splitter, and what to the scorer."""

    split: dict
    score: dict


def route(estimator, params: dict, sample_weight) -> Routed:
    """Send fit's metadata where they belong: by scikit-learn's routing if enabled, else ``groups`` to the splitter."""
    if get_config()["enable_metadata_routing"]:
        if sample_weight is not None:
            params = {**params, "sample_weight": sample_weight}
        routed = process_routing(estimator, "fit", **params)
        return Routed(routed.splitter.split, routed.scorer.score)
    unknown = sorted(set(params) - {"groups"})
    if unknown:
        raise TypeError(
            f"fit got unexpected parameters: {', '.join(unknown)}; enable metadata routing to pass them on."
        )
    return Routed(params, {} if sample_weight is None else {"sample_weight": np.asarray(sample_weight)})


@dataclass(frozen=True, eq=False)
class Fold:
    """Training and test trials of a fold.

    Attributes
    ----------
    train : ndarray of shape (n,)
        How often each trial is in the training part: 0 or 1, or more where a splitter draws with replacement.
    test : ndarray of shape (m,)
        Which trials are in the test part.
    """

    train: np.ndarray
    test: np.ndarray


def split_folds(cv, X: np.ndarray, labels: np.ndarray, scoring, params: dict) -> list[Fold]:
    """Split the trials; every training part must hold both classes, and with "roc_auc" every test part too."""
    folds = []
    trials = np.arange(len(labels))
    for number, (train, test) in enumerate(check_cv(cv, labels, classifier=True).split(X, labels, **params)):
        train, test = trials[train], trials[test]
        _check_classes("training", number, labels[train])
        if isinstance(scoring, str) and scoring == "roc_auc":
            _check_classes("test", number, labels[test])
        folds.append(Fold(np.bincount(train, minlength=len(trials)), test))
    if not folds:
        raise ValueError("cv gave no fold.")
    return folds


def _check_classes(name: str, number: int, labels: np.ndarray) -> None:
    if len(np.unique(labels)) < 2:
        raise ValueError(
            f"The {name} part of fold {number} of cv holds trials of one class only; "
            "use fewer folds, or a splitter that stratifies."
        )


def scorer_object(scoring):
    """Return scikit-learn's scorer for the ``scoring`` parameter."""
    return check_scoring(_Scored(), scoring)


def score_folds(stack: Stack, solutions: list[Solution], folds: list[Fold], labels: np.ndarray, scoring, params: dict):
    """Score the test trials of every fold, (A, folds): column k of the stack is the model of fold k."""
    X = stack.X[0, 0]
    columns = []
    for k, fold in enumerate(folds):
        W = np.stack([s.W[0, 0, :, k] for s in solutions], axis=1)
        scores = X[fold.test] @ W + np.array([s.b[0, 0, k] for s in solutions])
        if isinstance(scoring, str) and scoring == "roc_auc" and not params:
            columns.append(auc(labels[fold.test], scores))
        else:
            columns.append(_score_each(scoring, fold, X, labels, scores, params))
        if not np.isfinite(columns[-1]).all():
            raise ValueError(
                f"scoring={scoring!r} gave a score that is not finite on the test part of fold {k} of cv."
            )
    return np.stack(columns, axis=1)


def auc(labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Area under the ROC curve of every column of scores (n, A): the rank-sum statistic, ties counting one half."""
    positive = labels == np.unique(labels)[1]
    n_pos, n_neg = positive.sum(), (~positive).sum()
    ranks = rankdata(scores, axis=0)[positive].sum(axis=0)
    return (ranks - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg)


def _score_each(scoring, fold: Fold, X, labels, scores, params) -> np.ndarray:
    scorer = scorer_object(scoring)
    params = {
        name: np.asarray(value)[fold.test] if np.shape(value)[:1] == (len(labels),) else value
        for name, value in params.items()
    }
    classes = np.unique(labels)
    return np.array(
        [scorer(_Scored(classes, column), X[fold.test], labels[fold.test], **params) for column in scores.T]
    )


class _Scored(ClassifierMixin, BaseEstimator):
    """A classifier that has its scores already, for scikit-learn's scorers."""

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
        """The scores it was given."""
        return self.scores

    def predict(self, X):
        """The label of the side of zero that the score is on."""
        return self.classes[(self.scores > 0).astype(int)]
