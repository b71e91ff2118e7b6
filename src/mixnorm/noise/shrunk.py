"""The covariance of all features, shrunk towards white noise: no structure assumed."""

import numpy as np
from numpy.typing import NDArray

from mixnorm.noise.white import scaled, with_white_noise

#: Where the formula gives no shrinkage at all (all residuals are ± one vector), this keeps N positive definite.
_LEAST_SHRINKAGE = 1e-6
#: Weights that are multiples of the smallest one, up to this factor and to this accuracy, are numbers of repetitions.
_LARGEST_MULTIPLE, _MULTIPLE_TOL = 1e6, 1e-6


def shrunk(trials: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Estimate a covariance by the shrinkage of Ledoit and Wolf [1]_, scaled to a mean diagonal of 1.

    With residual trials :math:`e_i` of weights :math:`p_i` and sum 1, :math:`S = \sum_i p_i e_i e_i'` (d, d) and
    :math:`\mu = \operatorname{trace}(S)/d`,

    .. math::

        N = (1 - \lambda) S + \lambda \mu I, \qquad
        \lambda = \min\Big(1, \frac{\sum_i p_i \|e_i\|^4 - \|S\|_F^2}{n \, \|S - \mu I\|_F^2}\Big).

    For equal weights this is :func:`sklearn.covariance.ledoit_wolf` (``assume_centered=True``). n is the number of
    trials that the weights stand for, `count_trials`.

    d²/2 numbers are estimated from n d, and the features of a sensor need not be samples in order. A common factor of
    all features changes nothing; other factors change λ.

    Parameters
    ----------
    trials : ndarray of shape (n, d)
        Residual trials.
    weights : ndarray of shape (n,)
        Of sum 1.

    Returns
    -------
    ndarray of shape (d, d)

    References
    ----------
    .. [1] O. Ledoit, M. Wolf: A well-conditioned estimator for large-dimensional covariance matrices. J. Multivar.
       Anal. 88, 365–411, 2004.
    """
    weighted = np.sqrt(weights)[:, None] * trials
    S = weighted.T @ weighted
    share = shrinkage(np.einsum("ij,ij->i", trials, trials), weights, float(np.vdot(S, S)), len(S))
    return scaled(with_white_noise(S, max(share, _LEAST_SHRINKAGE)))


def shrinkage(squares: NDArray[np.float64], weights: NDArray[np.float64], frobenius: float, d: int) -> float:
    """Return λ of `shrunk` from ‖e_i‖² (n,), p_i (n,), ‖S‖_F², which n × n products give as well, and d."""
    error = (weights @ squares**2 - frobenius) / count_trials(weights)
    distance = frobenius - (weights @ squares) ** 2 / d
    # Also where both are 0 (S is a multiple of the identity): then any λ gives the same N.
    return float(error / distance) if error < distance else 1.0


def count_trials(weights: NDArray[np.float64]) -> float:
    r"""Return the number of trials n that weights (n,) > 0 stand for; a common factor of them changes nothing.

    Whole multiples of the smallest weight are repetitions: a trial of weight 2 among others of weight 1 is that trial
    twice, and n is the sum. Other weights say that trials are of unequal reliability, and :math:`n = (\sum_i p_i)^2 /
    \sum_i p_i^2`, the number of trials of equal weight whose mean is as accurate.

    Examples
    --------
    >>> count_trials(np.array([0.5, 0.5, 1.0])), round(count_trials(np.array([1.0, 1.5])), 3)
    (4.0, 1.923)
    """
    multiples = weights / weights.min()
    whole = np.rint(multiples)
    if multiples.max() < _LARGEST_MULTIPLE and np.abs(multiples - whole).max() < _MULTIPLE_TOL:
        return float(whole.sum())
    return float(weights.sum() ** 2 / (weights @ weights))
