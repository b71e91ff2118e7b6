"""A covariance over sensors times one over samples."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from mixnorm.noise.white import scaled, with_white_noise

#: Share of white noise in each factor.
WHITE_SHARE = 0.01


@dataclass(frozen=True, eq=False)
class KroneckerCovariance:
    """N = R ⊗ S, each factor of mean diagonal 1.

    Attributes
    ----------
    sensors : ndarray of shape (C, C)
        R.
    samples : ndarray of shape (r, r)
        S.
    """

    sensors: NDArray[np.float64] = field(repr=False)
    samples: NDArray[np.float64] = field(repr=False)

    def dense(self) -> NDArray[np.float64]:
        """Return N (C r, C r), sensor by sensor."""
        return np.asarray(np.kron(self.sensors, self.samples), dtype=np.float64)


def kronecker(
    trials: NDArray[np.float64], weights: NDArray[np.float64], white_share: float = WHITE_SHARE
) -> KroneckerCovariance:
    r"""Estimate a covariance that is a Kronecker product of sensors and samples.

    With residual trials :math:`E_i` (C, r) of weights :math:`p_i` and sum 1,

    .. math::

        R = \frac1r \sum_i p_i E_i E_i', \qquad S = \frac1C \sum_i p_i E_i' R^{-1} E_i, \qquad N = R \otimes S :

    the covariance between sensors, and that between samples once the sensors are white. White noise is mixed into R
    before it is inverted, and into S. This is the first round of the iteration that maximises the likelihood of such
    a product [1]_, [2]_.

    C (C + 1)/2 + r (r + 1)/2 numbers are estimated from n C r, so that few trials are enough. A common factor of all
    sensors changes nothing (N has mean diagonal 1); a factor per sensor, D, turns R into D R D and leaves S as it is
    where there is no white noise, and only nearly so beside it.

    Parameters
    ----------
    trials : ndarray of shape (n, C, r)
        Residual trials.
    weights : ndarray of shape (n,)
        Of sum 1.
    white_share : float
        Share of white noise in each factor.

    Returns
    -------
    KroneckerCovariance

    References
    ----------
    .. [1] J. C. de Munck, H. M. Huizenga, L. J. Waldorp, R. M. Heethaar: Estimating stationary dipoles from MEG/EEG
       data contaminated with spatially and temporally correlated background noise. IEEE Trans. Signal Process. 50,
       1565–1572, 2002.
    .. [2] F. Bijma, J. C. de Munck, H. M. Huizenga, R. M. Heethaar: A mathematical approach to the temporal
       stationarity of background noise in MEG/EEG measurements. NeuroImage 20, 233–243, 2003.
    """
    return kronecker_of(sensors_first(trials, weights), white_share)


def sensors_first(trials: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return residual trials (n, C, r), times the roots of their weights, as (C, n, r)."""
    return np.multiply(np.sqrt(weights)[:, None], trials.transpose(1, 0, 2), order="C")


def kronecker_of(weighted: NDArray[np.float64], white_share: float = WHITE_SHARE) -> KroneckerCovariance:
    """Return the estimate of `kronecker` from the trials of `sensors_first`."""
    C, n, r = weighted.shape
    # so that both sums are products of matrices
    flat = weighted.reshape(C, n * r)
    R = with_white_noise(flat @ flat.T / r, white_share)
    # any root of R⁻¹ gives the same S; the inverse of a factor is accurate here, as white noise bounds its condition
    inverse_root = solve_triangular(np.linalg.cholesky(R), np.eye(C), lower=True, check_finite=False)
    whitened = (inverse_root @ flat).reshape(C * n, r)
    # S is not scaled before white noise is added: the share is relative to the trace of S itself.
    S = with_white_noise(whitened.T @ whitened / C, white_share)
    return KroneckerCovariance(scaled(R), scaled(S))
