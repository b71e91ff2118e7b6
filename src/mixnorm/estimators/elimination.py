r"""Backward elimination of sensors by the Mahalanobis distance between the class means.

With d the difference of the class means and N the covariance of the noise, the best linear classifier separates the
classes by D² = d'N⁻¹d. Let P = N⁻¹ and w = P d on the sensors that are left. Without the features f of one of them,

    D² falls by w_f' E w_f,      w becomes w − P_·f E w_f,      P becomes P − P_·f E P_f·,      E = (P_ff)⁻¹,

on the rest: the inverse of N without these rows and columns is a Schur complement. So every sensor is tried at the
cost of one small linear system, a sensor is removed by an update of low rank, and a whole elimination costs about as
much as a few inversions of N.

If N = R ⊗ S is a Kronecker product of sensors and samples, D² = ‖R^{−½} Δ S^{−½}‖² with Δ the difference of the means
by sensor and sample. Then the same holds with P = R⁻¹ and w = P Δ S^{−½}, one row per sensor: a matrix over sensors
alone is enough.

The order of this package uses the unbiased distance, without what is gained by chance: in Kronecker noise while there
are many sensors (`KroneckerDistance`), then in the noise of each montage (`UnbiasedDistance`). The latter is nearer
to what the decoder of a montage will do, but it costs an inversion for each montage that is tried, which is too much
for many sensors. With many trials, the weights of a classifier count as well (`DistanceAndWeights`). At the end, all
montages of the last few sensors are compared (`improve_last`). `Distance` is for a noise that is given.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from mixnorm.core.groups import Groups
from mixnorm.estimators.classifier_weights import TRIALS_PER_FEATURE, DistanceAndWeights
from mixnorm.estimators.kronecker_distance import KroneckerDistance
from mixnorm.estimators.nested_montages import improve_last
from mixnorm.estimators.objective import as_noise
from mixnorm.estimators.quadratic import check_noise
from mixnorm.estimators.trained import Trained
from mixnorm.execution import few_threads
from mixnorm.noise import covariance, kronecker, layout_for, residuals

STRATEGIES = ("elimination", "path")
"""How sensors are chosen: by this elimination, or by their entry on the mixed-norm path."""
LEAST_OWN_NOISE, MOST_OWN_NOISE = 8, 16
"""Once so many sensors are left, the noise is that of each montage by itself: see `n_own_noise`."""


def elimination_order(
    subjects: Sequence[Trained],
    groups: Groups,
    group_weights: NDArray[np.float64],
    noise: str | NDArray[np.float64] | None = None,
) -> NDArray[np.intp]:
    """Order sensors by backward elimination, the most important one first.

    The sensor is removed without which the separation d' = √D² stays largest. For several subjects it is the mean of
    theirs, weighted by n₊n₋/(n₊ + n₋), the inverse of the variance of a difference of means. The classes of all
    subjects are so separated by the same sensors, each subject having its own d and N.

    If ``noise`` is None and the sensors have equal numbers of samples, D² is the distance without its bias: in the
    Kronecker noise of all sensors, and once `n_own_noise` sensors are left in that of every montage by itself. With
    many trials, the weights of the sensors in a classifier then count as much as the loss of d'. The last few sensors
    are put in another order if one of their montages is clearly better (`nested_montages`).

    Parameters
    ----------
    subjects : sequence of Trained
    groups : Groups
        The features of every sensor.
    group_weights : ndarray of shape (G,)
        Sensors of weight 0 are removed last; those of weight infinity are not in the order. Other weights are costs:
        where they differ, a loss counts relative to them (see `_price`).
    noise : {"structured", "evoked", "kronecker", "toeplitz", "shrunk"}, ndarray of shape (d, d), or None
        None: as described above, or with "shrunk" if sensors have unequal numbers of samples. If it is given, the
        distance in this noise, with its bias, decides at every step.

    Returns
    -------
    ndarray of shape (number of sensors of finite weight,)
    """
    allowed = np.flatnonzero(np.isfinite(group_weights))
    with few_threads(subjects[0].X):
        if noise is not None or groups.layout is None:
            estimate = elimination_noise(noise, groups)
            given = [Distance.of(own, groups, np.isfinite(group_weights), estimate) for own in subjects]
            return allowed[eliminate(given, group_weights[allowed])]
        many = [KroneckerDistance(own, groups, allowed) for own in subjects]
        order = allowed[eliminate(many, group_weights[allowed])]
        # in recording order, so that of two equal sensors the earlier one stays here too
        n_few = n_own_noise(subjects, groups.layout.shape[1])
        first = np.sort(order[:n_few])
        few = [DistanceAndWeights(own, groups, first) for own in subjects]
        order[:n_few] = first[eliminate(few, group_weights[first])]
        return improve_last(order, subjects, groups, group_weights)


def n_own_noise(subjects: Sequence[Trained], n_samples: int) -> int:
    """Number of sensors from which on the noise is that of each montage by itself.

    As many as have `TRIALS_PER_FEATURE` trials for every feature in the subject with the fewest trials, but at least
    `LEAST_OWN_NOISE`, and at most `MOST_OWN_NOISE`, because every montage that is tried costs an inversion.
    """
    fewest = min(own.n_trials for own in subjects)
    return int(np.clip(fewest / (TRIALS_PER_FEATURE * n_samples), LEAST_OWN_NOISE, MOST_OWN_NOISE))


def elimination_noise(given: str | ArrayLike | None, groups: Groups) -> str | NDArray[np.float64]:
    """Return the noise that sensors are ordered by, from a parameter: the name of an estimate, or a matrix.

    None: "kronecker", or "shrunk" where sensors have unequal numbers of samples.
    """
    if given is None:
        return "shrunk" if groups.layout is None else "kronecker"
    noise = as_noise(given)
    assert noise is not None
    check_noise(noise, groups.n_features)
    if isinstance(noise, str):
        layout_for(noise, groups)  # refuses sensors of unequal size where the estimate needs equal ones
    return noise


def check_strategy(strategy: str, ridge: float) -> None:
    """Refuse an unknown strategy, and parameters that it would ignore."""
    if strategy not in STRATEGIES:
        allowed = " and ".join(map(repr, STRATEGIES))
        raise ValueError(
            f"Invalid value for the 'strategy' parameter. Allowed values are {allowed}, but got {strategy!r} instead."
        )
    if strategy == "elimination" and ridge != 0:
        raise ValueError(
            f"ridge={ridge!r} has no effect with strategy='elimination'; use strategy='path', or ridge=0."
        )


def eliminate(
    distances: Sequence["Distance | KroneckerDistance | DistanceAndWeights"], cost: NDArray[np.float64]
) -> NDArray[np.intp]:
    """Remove sensors one by one, the same one from all distances; return them, the last one first.

    Parameters
    ----------
    distances : sequence of Distance
        One for each subject, on the same sensors. They are modified.
    cost : ndarray of shape (number of sensors,)
        0 for sensors that are removed last.
    """
    # Subjects with more trials count more: the variance of d' is inversely proportional to n₊n₋/(n₊ + n₋).
    share = np.array([distance.precision for distance in distances])
    share = share / share.sum()
    left, removed = np.arange(len(cost)), []
    while len(left):
        losses = share @ [distance.losses() for distance in distances]
        price = _price(losses, share @ [distance.error for distance in distances], cost[left])
        # of equal prices the earlier sensor stays
        place = int(np.lexsort((-left, price))[0])
        removed.append(left[place])
        # `remove` puts the last sensor in the place of the one that leaves
        left[place] = left[-1]
        left = left[:-1]
        for distance in distances:
            distance.remove(place)
    return np.array(removed[::-1], dtype=np.intp)


def _price(losses: NDArray[np.float64], error: float, cost: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the price of removing each sensor, from its loss of separation; infinite for sensors to keep.

    At equal costs the price is the loss. Where costs differ, it is the loss beyond the smallest one, plus the standard
    error of a loss, divided by the cost of the sensor: cost decides between sensors whose losses the trials cannot
    distinguish.
    """
    free = cost > 0
    if not free.any():
        return losses
    price = losses.copy()
    # Equal costs must give the order of no costs exactly, not only nearly.
    if np.ptp(cost[free]) > 0:
        price[free] = (losses[free] - losses[free].min() + error + np.finfo(float).tiny) / cost[free]
    price[~free] = np.inf
    return price


class Distance:
    """The Mahalanobis distance between the class means of one subject, updated as sensors are removed.

    Build it with `of`.

    Attributes
    ----------
    P : ndarray of shape (m, m)
        Inverse of the noise covariance, ``size`` rows for each sensor; modified in place.
    w : ndarray of shape (m, k)
        P times the difference of the means; D² is the sum over its k columns.
    size : int
    squared : float
        D², in units of the noise.
    precision : float
        n₊n₋/(n₊ + n₋).
    freedom : int
        Number of samples of a sensor.
    """

    def __init__(self, P: NDArray, difference: NDArray, size: int, precision: float) -> None:
        self.P, self.w, self.size, self.precision = P, P @ difference, size, precision
        self.squared = float(np.sum(difference * self.w))
        self.freedom = size * difference.shape[1]

    @classmethod
    def of(
        cls, trials: Trained, groups: Groups, allowed: NDArray[np.bool_], noise: str | NDArray[np.float64]
    ) -> "Distance":
        """Estimate the difference and, unless it is given, the noise of the allowed sensors from training trials."""
        features, own = np.flatnonzero(allowed[groups.index]), groups.only(allowed)
        X = trials.X[:, features]
        sums = [trials.weights * (trials.signs == sign) for sign in (-1, 1)]
        lower, upper = (one @ X / one.sum() for one in sums)
        # Trials are counted relative to the largest weight, so that a common factor of the weights changes nothing.
        counts = [one.sum() / trials.weights.max() for one in sums]
        precision = float(counts[0] * counts[1] / (counts[0] + counts[1]))
        if not isinstance(noise, str):
            return cls._dense(noise[np.ix_(features, features)], upper - lower, own, precision)
        found = residuals(X, trials.signs, trials.weights)
        # the estimates are scaled to a mean variance of 1
        difference = (upper - lower) / np.sqrt(np.mean(found.weights @ found.trials**2))
        if noise != "kronecker":
            N = covariance(noise, X, trials.signs, trials.weights, own.layout)
            return cls._dense(N, difference, own, precision)
        layout = own.layout
        assert layout is not None
        factors = kronecker(found.by_sensor(layout), found.weights)
        # Any root of S will do: D² contains S⁻¹ only.
        root = np.linalg.cholesky(factors.samples)
        whitened = solve_triangular(root, difference[layout].T, lower=True).T
        return cls(_inverse(factors.sensors), whitened, 1, precision)

    @classmethod
    def _dense(cls, N: NDArray, difference: NDArray, groups: Groups, precision: float) -> "Distance":
        """Lay the features out by sensor.

        Sensors with fewer samples are filled up with independent noise that carries no difference.
        """
        slots = groups.sources
        filled = np.flatnonzero(slots < groups.n_features)
        padded = np.eye(len(slots))
        padded[np.ix_(filled, filled)] = N[np.ix_(slots[filled], slots[filled])]
        return cls(_inverse(padded), np.append(difference, 0.0)[slots, None], int(groups.sizes.max()), precision)

    @property
    def error(self) -> float:
        """Standard error of the loss of a sensor without information.

        Its loss of D² is a χ² of r degrees of freedom over n₊n₋/(n₊ + n₋); d' = √D² divides by 2 d'.
        """
        return float(np.sqrt(2 * self.freedom) / self.precision / max(2 * np.sqrt(max(self.squared, 0.0)), 1e-12))

    def losses(self) -> NDArray[np.float64]:
        """Loss of d' by the removal of each sensor, (sensors,)."""
        G, b = len(self.w) // self.size, self.size
        w = self.w.reshape(G, b, -1)
        # the diagonal blocks of all sensors, without a loop
        blocks = self.P.reshape(G, b, G, b)[np.arange(G), :, np.arange(G)]
        # With a Kronecker noise b is 1, and the linear systems are divisions.
        lost = np.sum(w * (w / blocks if b == 1 else np.linalg.solve(blocks, w)), axis=(1, 2))
        return np.sqrt(max(self.squared, 0.0)) - np.sqrt(np.maximum(self.squared - lost, 0.0))

    def remove(self, place: int) -> None:
        """Remove the sensor at an index; the last sensor takes its index."""
        own = slice(place * self.size, (place + 1) * self.size)
        last = len(self.w) - self.size
        # The sensor is exchanged with the last one, so that what is left is a view of the first rows and columns.
        for array in (self.P, self.P.T, self.w):
            array[own], array[last:] = array[last:].copy(), array[own].copy()
        column, w = self.P[:last, last:], self.w[last:]
        step = np.linalg.solve(self.P[last:, last:], np.column_stack([column.T, w]))
        self.squared -= float(np.sum(w * step[:, last:]))
        self.w = self.w[:last] - column @ step[:, last:]
        self.P = self.P[:last, :last]
        # In place, because P is by far the largest array.
        self.P -= column @ step[:, :last]


def _inverse(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    return cho_solve(cho_factor(matrix), np.eye(len(matrix)))
