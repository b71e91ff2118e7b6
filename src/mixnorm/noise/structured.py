"""The mean of both structures."""

import numpy as np
from numpy.typing import NDArray

from mixnorm.noise.kronecker import kronecker
from mixnorm.noise.toeplitz import toeplitz


def structured(trials: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Estimate a covariance as the mean of `kronecker` and `toeplitz`, each of mean diagonal 1.

    .. math:: N = \tfrac12 (R \otimes S + T)

    A Kronecker product allows the variance to change over the window, but gives every sensor the same course in time;
    a block-Toeplitz matrix does the reverse. Which of them is nearer to the truth differs between recordings, and with
    few trials the mean of both is more reliable than a choice by cross-validation.

    Parameters
    ----------
    trials : ndarray of shape (n, C, r)
        Residual trials.
    weights : ndarray of shape (n,)
        Of sum 1.

    Returns
    -------
    ndarray of shape (C r, C r)
        Sensor by sensor.
    """
    mean = kronecker(trials, weights).dense()
    mean += toeplitz(trials, weights)
    mean /= 2
    return mean
