"""The noise beside the evoked response: where a response is expected, the penalty is smaller."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mixnorm.core.arrays import Array, like, namespace, to_numpy
from mixnorm.core.symmetric_root import symmetric_root
from mixnorm.noise.structured import structured


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
    variance = float(weights @ np.einsum("ijk,ijk->i", trials, trials)) / difference.size
    expected = ExpectedResponse.of(structured(trials, weights), difference, n_difference / variance)
    half = expected.penalty_root()
    # M = half' half is symmetric and positive semidefinite to the last bit.
    return half.T @ half / expected.mean_penalty


@dataclass(frozen=True, eq=False)
class ExpectedResponse:
    r"""How large a response may be, in coordinates where the noise N is the identity; build it with `of`.

    The covariance of the expected response is

    .. math:: Q = N^{1/2} \tfrac12 (A \otimes I + I \otimes B) N^{1/2} ,

    with A and B as in `evoked`, and the penalty that goes with it is M = N Q⁻¹ N, that of w = N⁻¹ d for a response d
    of covariance Q.

    Attributes
    ----------
    root : array of shape (C r, C r)
        N^{1/2}, symmetric, in coordinates where A ⊗ I + I ⊗ B is diagonal: (U' ⊗ V') N^{1/2}.
    sizes : array of shape (C r,)
        The eigenvalues of ½ (A ⊗ I + I ⊗ B).
    """

    root: Array = field(repr=False)
    sizes: Array = field(repr=False)

    @classmethod
    def of(cls, N: Array, difference: Array, precision: float) -> ExpectedResponse:
        """Estimate it from a noise N (C r, C r) and the difference of the class means (C, r).

        ``precision`` is one over the variance of the noise in the difference, where N has a mean diagonal of 1.
        """
        xp, (C, r) = namespace(N, difference), difference.shape
        root, in_noise = symmetric_root(N, xp.reshape(difference, (-1,)))
        # these matrices are so small that a device would take longer
        D = to_numpy(in_noise).reshape(C, r) * precision**0.5
        (a, U), (b, V) = _above_the_noise(D @ D.T / r), _above_the_noise(D.T @ D / C)
        # A ⊗ I + I ⊗ B has the eigenvectors U ⊗ V, so that its inverse root needs no further factorisation
        return cls(_kronecker_product(like(N, U), like(N, V), root), like(N, ((a[:, None] + b) / 2).ravel()))

    def penalty_root(self) -> Array:
        """Return a matrix whose product with its transpose, H'H, is M."""
        return self.root / namespace(self.root).sqrt(self.sizes)[:, None]

    @property
    def mean_penalty(self) -> float:
        """Mean of the diagonal of M."""
        xp = namespace(self.root)
        return float(xp.sum(self.root**2 / self.sizes[:, None])) / len(self.sizes)

    def covariance(self) -> Array:
        """Return Q (C r, C r), sensor by sensor."""
        xp = namespace(self.root)
        half = self.root * xp.sqrt(self.sizes)[:, None]
        return xp.matrix_transpose(half) @ half


def _above_the_noise(squares: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eigenvalues, raised to at least 1 and divided by their mean, and eigenvectors."""
    values, vectors = np.linalg.eigh(squares)
    values = np.maximum(values, 1.0)
    return values / values.mean(), vectors


def _kronecker_product(left: Array, right: Array, matrix: Array) -> Array:
    """(left ⊗ right)' matrix, without making the Kronecker product."""
    xp, C, r = namespace(matrix), left.shape[0], right.shape[0]
    inner = xp.matmul(xp.matrix_transpose(right), xp.reshape(matrix, (C, r, -1)))
    return xp.reshape(xp.matrix_transpose(left) @ xp.reshape(inner, (C, -1)), (C * r, -1))
