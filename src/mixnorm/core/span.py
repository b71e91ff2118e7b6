r"""Few trials of many features in coordinates of their span.

An ℓ2 problem changes nothing outside the span of its trials: w = Z'u. With Z Z' = L L' (n, n), w = Z'L⁻'v has
Z w = L v and ‖w‖ = ‖v‖. So n trials of d > n features may be replaced by the n × n matrix L, and a Newton step costs
O(n³) instead of O(n² d).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mixnorm.core.triangular import backward, cholesky

#: Features per trial from which the smaller matrix is worth its factorisation.
_WORTH = 1.25
#: Smallest diagonal entry of L relative to the largest. Entries of L are wrong by the unit roundoff over its square,
#: and the certificate is that of L: with 1e-3, scores keep ten digits. Trials with large offsets are left as they are.
_SMALLEST = 1e-3


@dataclass(frozen=True, eq=False)
class Span:
    """The span of n trials.

    Attributes
    ----------
    Z : ndarray of shape (n, d)
        The trials.
    trials : ndarray of shape (n, n)
        L, the same trials in n coordinates.
    """

    Z: NDArray[np.float64] = field(repr=False)
    trials: NDArray[np.float64] = field(repr=False)

    @classmethod
    def of(cls, Z: NDArray[np.float64]) -> Span | None:
        """Return the span of trials (n, d); None where it has no advantage, or the trials are nearly dependent."""
        n, d = Z.shape
        if d < _WORTH * n:
            return None
        try:
            L = cholesky(Z @ Z.T)
        except np.linalg.LinAlgError:
            return None
        diagonal = np.diag(L)
        return cls(Z, L) if diagonal.min() > _SMALLEST * diagonal.max() else None

    def coefficients(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        """From coefficients (n, K) of the coordinates to those of the features, (d, K)."""
        return self.Z.T @ backward(self.trials, V)
