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
