"""Trials minus the mean of their class: what is left is ongoing activity."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mixnorm.core.arrays import Array, is_numpy_array, like, namespace

#: A variance this small beside the mean square is rounding.
_ROUNDING = 1e-24


@dataclass(frozen=True, eq=False)
class Residuals:
    """Residual trials and how much each of them counts.

    Attributes
    ----------
    trials : array of shape (n, d)
        Only those of positive weight; on the device of the trials that were given.
    weights : ndarray of shape (n,)
        Positive, of sum 1.
    difference : array of shape (d,)
        Mean of the second class minus mean of the first.
    n_difference : float
        How many times smaller than the mean square of the residuals the variance of the noise in `difference` is. A
        weight of 2 is the trial twice.
    """

    trials: Array = field(repr=False)
    weights: NDArray[np.float64] = field(repr=False)
    difference: Array = field(repr=False)
    n_difference: float

    def by_sensor(self, layout: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the trials as (n, C, r) for a layout (C, r): the features of every sensor in order of time."""
        order = layout.ravel()
        trials = self.trials if _is_in_order(order) else self.trials[:, order]
        return trials.reshape(len(trials), *layout.shape)


def residuals(X: Array, signs: NDArray, weights: NDArray) -> Residuals:
    r"""Subtract from every trial the weighted mean of its class.

    .. math:: e_i = x_i - \sum_{j: y_j = y_i} s_j x_j / \sum_{j: y_j = y_i} s_j

    The means cost degrees of freedom, one per class; this is a common factor of every covariance, and all estimates
    are scaled afterwards.

    Parameters
    ----------
    X : array of shape (n, d)
        Training trials, on any device.
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
    side, X = (signs[kept] > 0).astype(np.int64), rows(X, kept)
    X = np.asarray(X, dtype=np.float64) if is_numpy_array(X) else X
    means = _class_means(X, side, shares)
    trials = _without(X, means, side)
    # not `<=`, so that NaN is refused as well
    if not _mean_square(trials, shares) > _ROUNDING * _mean_square(X, shares):
        raise ValueError(
            "The noise cannot be estimated, because all training trials of each class are the same. Use noise=None, "
            "or give noise as a matrix."
        )
    return Residuals(trials, shares, means[1] - means[0], _n_difference(side, counts))


def rows(X: Array, kept: NDArray[np.bool_]) -> Array:
    """Return the trials (n, ...) that are kept, or X itself if that is all of them."""
    if kept.all():
        return X
    xp = namespace(X)
    return xp.take(X, like(X, np.flatnonzero(kept), dtype=xp.int64), axis=0)


def _class_means(X: Array, side: NDArray[np.int64], shares: NDArray[np.float64]) -> Array:
    """Weighted means of both classes, (2, d); zero for a class without trials."""
    sums = np.stack([shares * (side == k) for k in (0, 1)])
    return like(X, sums) @ X / like(X, np.maximum(sums.sum(axis=1, keepdims=True), np.finfo(float).tiny))


def _without(X: Array, means: Array, side: NDArray[np.int64]) -> Array:
    """Every trial without the mean of its class."""
    xp = namespace(X)
    own = xp.take(means, like(X, side, dtype=xp.int64), axis=0)
    # in place on the host: another array of this size takes as long as the difference
    return np.subtract(X, own, out=own) if is_numpy_array(X) else X - own


def _n_difference(side: NDArray[np.int64], counts: NDArray[np.float64]) -> float:
    """(1 − 2/n) / (1/n₊ + 1/n₋): the residuals have lost two degrees of freedom to the means."""
    first, second = np.bincount(side, counts, minlength=2)
    n = first + second
    # n is the sum of weights, and can be below 2 where weights are small numbers.
    return float(max(1 - 2 / n, 0.0) * first * second / n)


def _mean_square(trials: Array, shares: NDArray[np.float64]) -> float:
    if is_numpy_array(trials):
        return float(shares @ np.einsum("ij,ij->i", trials, trials))
    return float(like(trials, shares) @ namespace(trials).sum(trials**2, axis=1))


def _is_in_order(order: NDArray[np.intp]) -> bool:
    return bool((np.diff(order) == 1).all())
