"""How well scores separate the two classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: The variance of a class is shrunk towards the pooled one as if the class had this many more trials of that variance:
#: the variance of a few trials is a poor estimate.
_SHRINKAGE_TRIALS = 20


def separation(signs: NDArray[np.float64], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return d' of every column of scores (n, A): distance of the class means over the standard deviation.

    The variance is the mean of those of the two classes, each first shrunk towards the pooled variance within classes.
    """
    parts = [scores[signs > 0], scores[signs < 0]]
    variances = [part.var(axis=0) for part in parts]
    pooled = sum(len(part) * own for part, own in zip(parts, variances, strict=True)) / len(scores)
    shrunk = [
        (len(part) * own + _SHRINKAGE_TRIALS * pooled) / (len(part) + _SHRINKAGE_TRIALS)
        for part, own in zip(parts, variances, strict=True)
    ]
    distance = parts[0].mean(axis=0) - parts[1].mean(axis=0)
    return distance / np.maximum(np.sqrt(sum(shrunk) / 2), np.finfo(float).tiny)


def precision(tested: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Weights of folds, summing to 1, for the mean of their d': the inverse of its variance 1/n₊ + 1/n₋."""
    counts = [((signs > 0).sum(), (signs < 0).sum()) for signs in tested]
    weights = np.array([targets * others / (targets + others) for targets, others in counts])
    return weights / weights.sum()
