"""Training trials of one subject, as the orders of sensors use them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Trained:
    """Training trials of one subject.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    signs : ndarray of shape (n,)
        −1 or +1; at least two trials of each class.
    weights : ndarray of shape (n,)
        Sample weights.
    """

    X: NDArray[np.float64]
    signs: NDArray[np.float64]
    weights: NDArray[np.float64]

    @property
    def n_trials(self) -> float:
        """(Σs)²/Σs²: so many trials of equal weight have a mean as precise as these."""
        weights = self.weights / self.weights.max()  # squares of tiny weights would vanish
        return float(np.sum(weights) ** 2 / np.sum(weights**2))

    @property
    def precision(self) -> float:
        """(1 − 2/n) / (1/n₊ + 1/n₋): variance within the classes over that of the noise in the difference of means.

        The former is that of the residuals, which have lost two degrees of freedom to the means. With weights s, a
        class counts as (Σs)²/Σs² trials, because the variance of its weighted mean is that of so many; and the
        residuals lose Σs²/Σs of each class, as a share of the sum of all weights, in the place of 2/n.
        """
        weights = self.weights / self.weights.max()  # squares of tiny weights would vanish
        parts = (weights[self.signs > 0], weights[self.signs < 0])
        first, second = (np.sum(own) ** 2 / np.sum(own**2) for own in parts)
        lost = sum(np.sum(own**2) / np.sum(own) for own in parts) / np.sum(weights)
        return float((1 - lost) * first * second / (first + second))
