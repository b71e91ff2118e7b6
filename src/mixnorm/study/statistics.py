"""How far means over subjects can be from the truth, and the exact Wilcoxon signed-rank test."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata
from scipy.stats import t as student


def wilcoxon_exact(x: ArrayLike, y: ArrayLike) -> float | None:
    """Return the two-sided p-value of the signed-rank test on paired samples, exact with ties.

    Zero differences are dropped, equal ones share their midrank, and the p-value is the share of all sign flips whose
    rank sum lies at least as far from its mean. The distribution is counted by adding one difference at a time: 30
    subjects take no longer than 8.

    Parameters
    ----------
    x, y : (n,) arrays
        Paired samples.

    Returns
    -------
    float or None
        None where no two values differ: there is nothing to test.

    See Also
    --------
    Results.rows : Has the p-value of each method against the baseline.

    Examples
    --------
    >>> from mixnorm.study import wilcoxon_exact
    >>> wilcoxon_exact([3, 4, 5, 6, 7], [1, 1, 1, 1, 1])
    0.0625
    """
    difference = np.asarray(x, dtype=float) - np.asarray(y, dtype=float)
    if np.isnan(difference).any():
        raise ValueError("The paired samples contain NaN; leave incomplete pairs out.")
    difference = difference[difference != 0]
    if not len(difference):
        return None
    # Midranks are whole or half numbers: doubled, they can be counted.
    doubled = np.rint(2 * rankdata(np.abs(difference))).astype(int)
    counts = np.zeros(doubled.sum() + 1)
    counts[0] = 1.0
    for rank in doubled:
        shifted = np.zeros_like(counts)
        shifted[rank:] = counts[: len(counts) - rank]
        # shares instead of counts: 2ⁿ sign flips overflow no float, and the sum stays 1
        counts = (counts + shifted) / 2
    observed = doubled[difference > 0].sum()
    center = doubled.sum() / 2
    # both are multiples of ½, so that the comparison is exact
    far = np.abs(np.arange(len(counts)) - center) >= abs(observed - center)
    return float(min(1.0, counts[far].sum()))


def standard_error(values: ArrayLike) -> NDArray[np.float64] | None:
    """Return σ/√n of the mean over the first axis, with σ² = Σ(x − mean)²/(n − 1); None for fewer than two values."""
    values = np.asarray(values, dtype=float)
    return values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else None


def half_interval(values: ArrayLike) -> NDArray[np.float64] | None:
    """Return t·σ/√n, half of the 95 % interval of the mean by Student's t; None for fewer than two values."""
    error = standard_error(values)
    return None if error is None else student.ppf(0.975, len(np.asarray(values)) - 1) * error
