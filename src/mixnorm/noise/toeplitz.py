"""A covariance between samples that depends on their lag alone: block-Toeplitz in time."""

import numpy as np
from numpy.typing import NDArray

from mixnorm.noise.white import scaled, with_white_noise

#: Share of white noise.
WHITE_SHARE = 0.03


def toeplitz(
    trials: NDArray[np.float64], weights: NDArray[np.float64], white_share: float = WHITE_SHARE
) -> NDArray[np.float64]:
    r"""Estimate a covariance of stationary activity, block-Toeplitz in time, scaled to a mean diagonal of 1.

    The block between the samples s and t is the covariance between sensors at the lag t − s (`lag_covariances`) [1]_;
    then white noise is mixed in.

    About r C² numbers are estimated from n C r. A common factor of all sensors changes nothing; a factor per sensor,
    D, turns the blocks B into D B D where there is no white noise, and only nearly so beside it.

    Parameters
    ----------
    trials : ndarray of shape (n, C, r)
        Residual trials.
    weights : ndarray of shape (n,)
        Of sum 1.
    white_share : float
        Share of white noise.

    Returns
    -------
    ndarray of shape (C r, C r)
        Sensor by sensor.

    References
    ----------
    .. [1] J. Sosulski, M. Tangermann: Introducing block-Toeplitz covariance matrices to remaster linear discriminant
       analysis for event-related potential brain–computer interfaces. J. Neural Eng. 19, 066001, 2022.
    """
    return scaled(with_white_noise(from_lags(lag_covariances(trials, weights)), white_share))


def lag_covariances(trials: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Covariances between sensors at every lag l = 0 … r − 1, (r, C, C).

    .. math:: B_l = \frac1r \sum_i p_i \sum_{s=0}^{r-1-l} e_{is} e_{i,s+l}'

    for residual trials with samples :math:`e_{is}` (C,). There are r − l pairs, but the sum is divided by r: beside
    the mean over pairs this is a linear taper (1 − l/r), without which the block-Toeplitz matrix need not be positive
    semidefinite.
    """
    n, C, r = trials.shape
    weighted = (np.sqrt(weights)[:, None, None] * trials).reshape(n, C * r)
    # all pairs of features at once cost less than a product per lag, because half of a symmetric product is enough
    pairs = (weighted.T @ weighted).reshape(C, r, C, r)
    return np.stack([np.trace(pairs, lag, axis1=1, axis2=3) for lag in range(r)]) / r


def from_lags(lags: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the block-Toeplitz matrix (C r, C r), sensor by sensor, of lag covariances (r, C, C)."""
    r, C, _ = lags.shape
    # B_l for l = 1 − r … r − 1, the lag last; a negative lag exchanges the sensors
    both = np.concatenate([lags[:0:-1].transpose(2, 1, 0), lags.transpose(1, 2, 0)], axis=2)
    matrix = np.empty((C, r, C, r))
    # Row s of the blocks holds the lags −s … r − 1 − s: a stretch of the 2 r − 1 lags.
    for sample in range(r):
        matrix[:, sample] = both[:, :, r - 1 - sample : 2 * r - 1 - sample]
    return matrix.reshape(C * r, C * r)
