r"""The last sensors of an elimination, in a better order than one removal at a time finds.

An elimination looks only one step ahead. It can remove a sensor that separates the classes well with any one other
sensor, because the three or four others do as well without it. With six sensors there are only 63 montages, so that
the nested montages S₂ ⊂ S₃ ⊂ … of largest

    Σ_k d'(S_k),        k = 2, 3, …,

are found exactly, from small to large: the best sum of a montage is its d' plus the best sum of one of its parts. d'
is the unbiased distance (`mixnorm.estimators.unbiased_distance`). A single sensor does not count: it would be
preferred to better pairs. Of the pair, the better single sensor comes first.

They replace all montages of the elimination if d' is larger at some size by more than 1/√m, with m = n₊n₋/(n₊ + n₋).
With many trials this is about the standard error of d'. Smaller differences are mostly noise, and the elimination has
a second criterion for them. The noise of all montages is shrunk by the share of the sensors that are compared.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from mixnorm.core.groups import Groups
from mixnorm.estimators.kronecker_distance import ROUNDING
from mixnorm.estimators.trained import Trained
from mixnorm.estimators.unbiased_distance import UnbiasedDistance

N_LAST = 6
"""Number of sensors of which all montages are compared."""


def improve_last(
    order: NDArray[np.intp], subjects: Sequence[Trained], groups: Groups, group_weights: NDArray[np.float64]
) -> NDArray[np.intp]:
    """Return an order of sensors whose first `N_LAST` are nested better, or as they were.

    Parameters
    ----------
    order : ndarray of shape (m,)
        From an elimination.
    subjects, groups, group_weights
        As for `mixnorm.estimators.elimination.elimination_order`. Where costs differ, the order is returned as it is:
        cost has decided between sensors that are nearly as good.
    """
    first = np.sort(order[:N_LAST])  # in recording order, so that of two equal sensors the earlier one stays
    costs = np.unique(group_weights[order])
    if len(first) < 3 or np.sum(costs > 0) > 1:
        return order
    models = [UnbiasedDistance(own, groups, first) for own in subjects]
    precision = np.array([model.precision for model in models])

    def separation(montage: tuple[int, ...]) -> float:
        """Mean d' of the subjects, those with more trials counting more."""
        found = precision / precision.sum() @ [model.separation(np.array(montage)) for model in models]
        return ROUNDING * float(np.round(found / ROUNDING))

    n = len(first)
    d = {montage: separation(montage) for size in range(1, n + 1) for montage in combinations(range(n), size)}
    former = [int(place) for place in np.searchsorted(first, order[:n])]
    # constant sensors leave before all others, as in the elimination, and those to keep after them
    varies = np.any([model.varies for model in models], axis=0)
    best = _best_order(d, np.where(group_weights[first] == 0, 2, np.where(varies, 1, 0)).tolist())
    gains = [d[tuple(sorted(best[:size]))] - d[tuple(sorted(former[:size]))] for size in range(2, n)]
    # of several subjects the precisions m add up
    if max(gains) <= 1 / np.sqrt(precision.sum()):
        return order
    return np.concatenate([first[best], order[n:]])


def _best_order(d: dict[tuple[int, ...], float], stage: list[int]) -> list[int]:
    """Order sensors so that the sum of d' over the first 2, 3, … is largest; those of a higher stage come first."""
    total: dict[tuple[int, ...], float] = {}
    removed: dict[tuple[int, ...], int] = {}
    for montage, own in d.items():  # from small to large
        rest = {one: tuple(other for other in montage if other != one) for one in montage}
        first = min(stage[one] for one in montage)
        value = d if len(montage) == 2 else total
        # of equal values the earlier sensor stays
        left_by = {one: value.get(rest[one], 0.0) for one in reversed(montage) if stage[one] == first}
        removed[montage] = max(left_by, key=left_by.__getitem__)
        total[montage] = (own if len(montage) > 1 else 0.0) + total.get(rest[removed[montage]], 0.0)
    left, found = tuple(range(len(stage))), []
    while left:
        found.append(removed[left])
        left = tuple(other for other in left if other != found[-1])
    return found[::-1]
