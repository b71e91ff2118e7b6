"""White noise and scale, which the estimates have in common."""

import numpy as np
from numpy.typing import NDArray


def with_white_noise(covariance: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    r"""Replace a share r of the variance by white noise: (1 − r) C + r · trace(C)/p · I for C (p, p).

    A positive semidefinite C becomes positive definite, whatever its rank, unless it is zero.
    """
    mixed = (1 - share) * covariance
    # only the diagonal is touched: the identity would be another matrix of this size
    mixed.flat[:: len(mixed) + 1] += share * np.trace(covariance) / len(mixed)
    return mixed


def scaled(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Divide by the mean of the diagonal."""
    return covariance / np.mean(np.diag(covariance))
