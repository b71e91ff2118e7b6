"""Patterns of a linear classifier: where and when the signal that it decodes appears (Haufe et al. 2014).

The weights of a classifier are a filter: they also serve to cancel noise, so that a sensor that contains no signal may
have a large weight. The pattern says how strongly each feature follows the score.

References
----------
Haufe, S., et al. (2014). On the interpretation of weight vectors of linear models in multivariate neuroimaging.
NeuroImage 87, 96–110. https://doi.org/10.1016/j.neuroimage.2013.10.067
"""

import numpy as np

from mixnorm.core.arrays import Array, like, namespace, to_numpy


def haufe_pattern(matrix: Array, w: Array, weights: np.ndarray) -> np.ndarray:
    r"""Return a = Σ w / (w'Σ w), with Σ the covariance of the trials: covariance × filter / variance of the score.

    With p_i the weights of the trials, divided by their sum, and t_i = x_i·w minus its mean, this is
    Σ_i p_i t_i x_i / Σ_i p_i t_i², which needs no covariance matrix.

    Parameters
    ----------
    matrix : array of shape (n, d)
        Training trials.
    w : array of shape (d,)
    weights : ndarray of shape (n,)
        Weights of the trials.

    Returns
    -------
    ndarray of shape (d,)
        Zeros where all scores are equal.

    Examples
    --------
    >>> X = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]]) @ [[2.0, 0.0], [0.0, 1.0]]
    >>> haufe_pattern(X, np.array([0.5, 0.0]), np.ones(4))
    array([2., 0.])
    """
    xp = namespace(matrix)
    shares = like(matrix, weights / weights.sum(), dtype=matrix.dtype)
    # O(n d) instead of O(n d²) for the covariance matrix, which is never needed by itself.
    centred = matrix - xp.matmul(shares, matrix)
    scores = xp.matmul(centred, xp.astype(w, matrix.dtype, copy=False))
    variance = float(xp.sum(shares * scores**2))
    pattern = to_numpy(xp.matmul(shares * scores, centred))
    return pattern / variance if variance > 0 else np.zeros_like(pattern)
