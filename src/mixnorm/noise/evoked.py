"""The noise beside the evoked response: where a response is expected, the penalty is smaller."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from mixnorm.noise.structured import structured
from mixnorm.noise.white import scaled

#: Eigenvalues of a covariance below this share of the largest are rounding.
_ROUNDING = 1e-12


def evoked(
    trials: NDArray[np.float64], weights: NDArray[np.float64], difference: NDArray[np.float64], n_difference: float
) -> NDArray[np.float64]:
    r"""Estimate the structured noise N, and reduce it where the classes differ.

    An evoked response has few patterns over the sensors and few courses in time. The difference of the class means
    shows them, but with the noise of all other patterns and courses. In coordinates where the noise of a trial is the
    identity,

    .. math::

        \tilde D = \sqrt{m / \sigma^2}\; N^{-1/2} \bar d , \qquad m = \frac{1}{1/n_+ + 1/n_-} ,

    has noise of variance 1. Here :math:`\bar d` is the difference of the class means, :math:`\sigma^2 N` the
    covariance of a trial, with :math:`\sigma^2` the mean square of the residuals over 1 − 2/n, and :math:`n_\pm` are
    the trials of each class. So every eigenvalue of

    .. math:: \tfrac1r \tilde D \tilde D' \; (C, C) \quad\text{and}\quad \tfrac1C \tilde D' \tilde D \; (r, r)

    that is not above 1 may be noise alone. Such eigenvalues are raised to 1, and both matrices are divided by the mean
    of their eigenvalues. This gives A and B: how large a response each pattern over the sensors and each course in
    time may have. The penalty that goes with a response of covariance :math:`(A \otimes I + I \otimes B)/2` in these
    coordinates is

    .. math:: M = N^{1/2} \left( \tfrac12 (A \otimes I + I \otimes B) \right)^{-1} N^{1/2} ,

    scaled to a mean diagonal of 1. Without any visible response, A and B are the identity, and M is N. Because the
    number of trials says how large the noise of a mean is, M depends on the sum of the sample weights: a weight of 2
    is the trial twice. Where the sum is 2 or less, nothing is left for the variance of a trial, no response is
    visible, and M is N.

    Parameters
    ----------
    trials : ndarray of shape (n, C, r)
        Residual trials.
    weights : ndarray of shape (n,)
        Of sum 1.
    difference : ndarray of shape (C, r)
        Mean of the second class minus that of the first.
    n_difference : float
        (1 − 2/n) m: how many times smaller than the mean square of the residuals the noise of the difference is.

    Returns
    -------
    ndarray of shape (C r, C r)
        Sensor by sensor.
    """
    N = structured(trials, weights)
    values, vectors = eigh(N, check_finite=False)
    # White noise makes N positive definite; this only keeps rounding from giving a negative eigenvalue.
    values = np.sqrt(np.maximum(values, _ROUNDING * values[-1]))
    root, inverse_root = ((vectors * power) @ vectors.T for power in (values, 1 / values))
    variance = float(weights @ np.einsum("ijk,ijk->i", trials, trials)) / difference.size
    D = (inverse_root @ difference.ravel()).reshape(difference.shape) * np.sqrt(n_difference / variance)
    C, r = D.shape
    (a, U), (b, V) = _above_the_noise(D @ D.T / r), _above_the_noise(D.T @ D / C)
    # A ⊗ I + I ⊗ B has the eigenvectors U ⊗ V, so that its inverse root needs no further factorisation
    shares = 1 / np.sqrt((a[:, None] + b) / 2).ravel()
    # M = half' half is symmetric and positive semidefinite to the last bit.
    half = _kronecker_product(U.T, V.T, root) * shares[:, None]
    return scaled(half.T @ half)


def _above_the_noise(squares: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eigenvalues, raised to at least 1 and divided by their mean, and eigenvectors."""
    values, vectors = eigh(squares, check_finite=False)
    values = np.maximum(values, 1.0)
    return values / values.mean(), vectors


def _kronecker_product(
    left: NDArray[np.float64], right: NDArray[np.float64], matrix: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(left ⊗ right) matrix, without making the Kronecker product."""
    C, r = len(left), len(right)
    inner = np.matmul(right, matrix.reshape(C, r, -1))
    return np.tensordot(left, inner, axes=1).reshape(C * r, -1)
