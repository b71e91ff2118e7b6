"""Trials minus the mean of their class: what is left is ongoing activity."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

#: A variance this small beside the mean square is rounding.
_ROUNDING = 1e-24


@dataclass(frozen=True, eq=False)
class Residuals:
    """Residual trials and how much each of them counts.

    Attributes
    ----------
    trials : ndarray of shape (n, d)
        Only those of positive weight.
    weights : ndarray of shape (n,)
        Positive, of sum 1.
    difference : ndarray of shape (d,)
        Mean of the second class minus mean of the first.
    n_difference : float
        How many times smaller than the mean square of the residuals the variance of the noise in `difference` is. A
        weight of 2 is the trial twice.
    """

    trials: NDArray[np.float64] = field(repr=False)
    weights: NDArray[np.float64] = field(repr=False)
    difference: NDArray[np.float64] = field(repr=False)
    n_difference: float

    def by_sensor(self, layout: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the trials as (n, C, r) for a layout (C, r): the features of every sensor in order of time."""
        order = layout.ravel()
        trials = self.trials if _is_in_order(order) else self.trials[:, order]
        return trials.reshape(len(trials), *layout.shape)


def residuals(X: NDArray, signs: NDArray, weights: NDArray) -> Residuals:
    r"""Subtract from every trial the weighted mean of its class.

    .. math:: e_i = x_i - \sum_{j: y_j = y_i} s_j x_j / \sum_{j: y_j = y_i} s_j

    The means cost degrees of freedom, one per class; this is a common factor of every covariance, and all estimates
    are scaled afterwards.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Training trials.
    signs : ndarray of shape (n,)
        Class of every trial, −1 or 1.
    weights : ndarray of shape (n,)
        Sample weights s ≥ 0, class weights not included: how often a class counts in the loss says nothing about the
        ongoing activity. Trials of weight zero are left out.

    Returns
    -------
    Residuals

    Raises
    ------
    ValueError
        If all trials of each class are the same.
    """
    kept = np.asarray(weights) > 0
    counts = np.asarray(weights, dtype=np.float64)[kept]
    shares = counts / counts.sum()
    side, X = (signs[kept] > 0).astype(np.intp), np.asarray(X if kept.all() else X[kept], dtype=np.float64)
    means = _class_means(X, side, shares)
    trials = means[side]
    np.subtract(X, trials, out=trials)  # in place: another array of this size takes as long as the difference
    # not `<=`, so that NaN is refused as well
    if not _mean_square(trials, shares) > _ROUNDING * _mean_square(X, shares):
        raise ValueError(
            "The noise cannot be estimated, because all training trials of each class are the same. Use noise=None, "
            "or give noise as a matrix."
        )
    return Residuals(trials, shares, means[1] - means[0], _n_difference(side, counts))


def _class_means(X: NDArray[np.float64], side: NDArray[np.intp], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weighted means of both classes, (2, d); zero for a class without trials."""
    sums = np.stack([shares * (side == k) for k in (0, 1)])
    return sums @ X / np.maximum(sums.sum(axis=1, keepdims=True), np.finfo(float).tiny)


def _n_difference(side: NDArray[np.intp], counts: NDArray[np.float64]) -> float:
    """(1 − 2/n) / (1/n₊ + 1/n₋): the residuals have lost two degrees of freedom to the means."""
    first, second = np.bincount(side, counts, minlength=2)
    n = first + second
    # n is the sum of weights, and can be below 2 where weights are small numbers.
    return float(max(1 - 2 / n, 0.0) * first * second / n)


def _mean_square(trials: NDArray[np.float64], shares: NDArray[np.float64]) -> float:
    return float(shares @ np.einsum("ij,ij->i", trials, trials))


def _is_in_order(order: NDArray[np.intp]) -> bool:
    return bool((np.diff(order) == 1).all())
