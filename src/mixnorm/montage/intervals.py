"""Confidence intervals and standard errors of AUCs over folds and over trials."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from scipy.stats import t as student


def mean_known(values: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Mean of the values that are not NaN; NaN where there is none."""
    known = np.isfinite(values)
    # not np.nanmean, which warns where there is no value
    count = known.sum(axis=axis)
    return np.where(count > 0, np.where(known, values, 0.0).sum(axis=axis) / np.maximum(count, 1), np.nan)


def corrected_interval(aucs: NDArray[np.float64], ratio: float, level: float = 0.95) -> tuple[NDArray, NDArray]:
    """Return mean ± t √((1/J + n_test/n_train) σ²) over the J folds of every row, clipped to [0, 1].

    The correction is that of Nadeau and Bengio (2003): the training sets of two folds overlap, so that their scores
    are correlated and σ²/J would be too small. ``ratio`` is n_test/n_train. NaN where there is only one fold.
    """
    J = np.sum(np.isfinite(aucs), axis=1)
    half_width = student.ppf((1 + level) / 2, np.maximum(J - 1, 1)) * corrected_error(aucs, ratio)
    mean = mean_known(aucs, axis=1)
    return np.clip(mean - half_width, 0, 1), np.clip(mean + half_width, 0, 1)


def corrected_error(values: NDArray[np.float64], ratio: float) -> NDArray[np.float64]:
    """√((1/J + n_test/n_train) σ²) of the J folds of every row; NaN where there is only one fold."""
    J = np.sum(np.isfinite(values), axis=1)
    squares = np.nansum((values - mean_known(values, axis=1)[:, None]) ** 2, axis=1)
    variance = np.where(J > 1, squares / np.maximum(J - 1, 1), np.nan)
    return np.sqrt((1 / np.maximum(J, 1) + ratio) * variance)


def paired_variance(signs: NDArray[np.float64], scores: NDArray[np.float64], reference: int) -> NDArray[np.float64]:
    """Variance of AUC_k − AUC_reference for every column k of scores (n, S) on the same trials.

    DeLong et al. (1988), computed from ranks.
    """
    ranks = rankdata(scores, axis=0)
    variance = np.zeros(scores.shape[1])
    for side in (signs > 0, signs < 0):
        others = (~side).sum()
        # rank among all minus rank among its own class: how many trials of the other class are below, ties as one half
        above = (ranks[side] - rankdata(scores[side], axis=0)) / others
        difference = above - above[:, [reference]]
        # The variance of a single trial is unknown: take the largest possible value, unless nothing differs.
        known = side.sum() > 1
        variance += np.var(difference, axis=0, ddof=1) / side.sum() if known else 0.25 * difference.any(axis=0)
    return variance


def auc_variance(signs: NDArray[np.float64], scores: NDArray[np.float64]) -> float:
    """DeLong's variance of the AUC of one column of scores (n,).

    Constant scores have an AUC of exactly 0.5, so that it is the variance of the difference from these.
    """
    return float(paired_variance(signs, np.column_stack([scores, np.zeros(len(scores))]), 1)[0])
