"""Decoders that people would use instead, each with its own inner cross-validation.

All take trials (n, channels, times); ``cv`` is what scikit-learn's searches take.
"""

from __future__ import annotations

from typing import Any

from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mixnorm.eeg.readers.guard import require
from mixnorm.study.discriminant import ShrinkageLDA, ToeplitzLDA

_SHRINKAGES = ("auto", 0.01, 0.03, 0.1, 0.3, 0.9)
"""Ledoit and Wolf's, and a grid for trials that are not as independent as it assumes."""
_FILTERS = (1, 2, 4)
_CS = (0.1, 1.0)


def lda(cv: Any) -> GridSearchCV:
    """Shrinkage LDA on all features."""
    return _search(ShrinkageLDA(), {"shrinkage": _SHRINKAGES}, cv)


def toeplitz_lda(_cv: Any) -> ToeplitzLDA:
    """LDA with a block-Toeplitz covariance, which has no parameter to search for."""
    return ToeplitzLDA()


def xdawn_lda(cv: Any) -> GridSearchCV:
    """Xdawn spatial filters, then shrinkage LDA."""
    filters = require("pyriemann.spatialfilters", "moabb")
    # The default covariance: a shrunk one of an average of few samples is nearly the identity, and finds noise.
    pipeline = make_pipeline(filters.Xdawn(), ShrinkageLDA())
    return _search(pipeline, {"xdawn__nfilter": _FILTERS}, cv)


def xdawncov_ts_lr(cv: Any) -> GridSearchCV:
    """Covariances of Xdawn-filtered trials and prototypes, tangent space, logistic regression."""
    estimation = require("pyriemann.estimation", "moabb")
    tangent = require("pyriemann.tangentspace", "moabb")
    pipeline = make_pipeline(
        estimation.XdawnCovariances(estimator="oas"),
        tangent.TangentSpace(),
        StandardScaler(),
        LogisticRegression(max_iter=1000),
    )
    grid = {"xdawncovariances__nfilter": _FILTERS[1:], "logisticregression__C": _CS}
    return _search(pipeline, grid, cv)


def _search(pipeline: Any, grid: dict[str, tuple], cv: Any) -> GridSearchCV:
    # An error of a peer must not become a score of NaN that only makes it look bad.
    return GridSearchCV(pipeline, grid, scoring="roc_auc", cv=cv, error_score="raise")
