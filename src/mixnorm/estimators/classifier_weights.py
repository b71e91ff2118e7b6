r"""Elimination of sensors by the distance between the classes and, with many trials, by the weights of a classifier.

The distance of a montage (`mixnorm.estimators.unbiased_distance`) says how well its sensors *could* separate the
classes. Which of several sensors with nearly the same distance is removed is then a matter of chance. A second
criterion of another kind makes it less so: the size of a sensor's weights in the regularised least-squares classifier

    w = (C + a v I)⁻¹ d,        ‖w_g‖ for w of length 1,

with d the difference of the class means, C the covariance within the classes and v the mean variance, all of the
sensors that are left, each divided by its standard deviation. Samples are replaced by the few components over time
that explain most of the variance. The mean over three strengths a is taken, which are proportional to the number of
features per trial. Both criteria count the same: they are divided by their spread over the sensors.

With few trials the weights are mostly noise, and the distance decides alone; so it does between the last two sensors.
"""

import numpy as np
from numpy.typing import NDArray

from mixnorm.core.groups import Groups
from mixnorm.estimators.kronecker_distance import comparable
from mixnorm.estimators.trained import Trained
from mixnorm.estimators.unbiased_distance import UnbiasedDistance

TRIALS_PER_FEATURE = 8
"""Trials for each feature of a montage from which its covariance is known well enough to compare many sensors."""
#: The strengths a, in units of the features per trial, of which there are at least so many: as in the search of the
#: first version of `mixnorm select`, from which they are taken.
_STRENGTHS, _FEWEST_PER_TRIAL = np.array([0.01, 0.1, 1.0]) / 0.75, 0.02
#: Share of the variance over time that the components explain.
_EXPLAINED = 0.98


class DistanceAndWeights:
    """Both criteria for one subject, as sensors are removed; for `mixnorm.estimators.elimination.eliminate`.

    Parameters
    ----------
    trials : Trained
    groups : Groups
        Sensors of equal numbers of samples.
    sensors : ndarray of shape (K,)
        The sensors to begin with.
    """

    def __init__(self, trials: Trained, groups: Groups, sensors: NDArray[np.intp]) -> None:
        self._distance = UnbiasedDistance(trials, groups, sensors)
        self._n_trials, self.precision = trials.n_trials, self._distance.precision
        # constant sensors have no part in the classifier: their residuals are rounding errors
        real = self._distance.varies.astype(np.float64)
        C = self._distance.covariance * real[:, None, None, None] * real[:, None]
        self._moments = _standardised(C, self._distance.difference * real[:, None])

    @property
    def error(self) -> float:
        """Standard error of the loss of a sensor without information."""
        return self._distance.error

    def losses(self) -> NDArray[np.float64]:
        """Loss of d' by the removal of each sensor, (sensors,), or its mean with the weights in the same unit."""
        losses, left = self._distance.losses(), self._distance.left
        n_samples, varies = self._distance.difference.shape[1], self._distance.varies[left]
        # Of two sensors, criteria that count the same can only agree or leave it open. A sensor that is constant in
        # each class and differs between them separates the classes alone.
        is_perfect = (varies & ~self._distance.has_noise[left]).any()
        if self._n_trials < TRIALS_PER_FEATURE * n_samples * len(left) or np.sum(varies) <= 2 or is_perfect:
            return losses
        weights = self.weights()
        spreads = [float(np.std(one[varies])) for one in (losses, weights)]
        if not spreads[1] > 0:
            return losses
        return comparable((losses + weights * (spreads[0] / spreads[1])) / 2, varies)

    def weights(self) -> NDArray[np.float64]:
        """Mean over the strengths of ‖w_g‖ of the sensors that are left, (sensors,); w has length 1."""
        C, d = self._moments
        left = self._distance.left
        K, k = len(left), d.shape[1]
        C, d = C[left][:, :, left].reshape(K * k, K * k), d[left].ravel()
        level = float(np.mean(np.diag(C))) * max(K * k / self._n_trials, _FEWEST_PER_TRIAL)
        if not level > 0:  # no noise at all
            return np.zeros(K)
        found = np.zeros(K)
        for strength in _STRENGTHS:
            w = np.linalg.solve(C + strength * level * np.eye(len(C)), d).reshape(K, k)
            size = float(np.linalg.norm(w))
            found += np.linalg.norm(w, axis=1) / (size if size > 0 else 1.0)
        return found / len(_STRENGTHS)

    def remove(self, place: int) -> None:
        """Remove the sensor at an index; the last sensor takes its index."""
        self._distance.remove(place)


def _standardised(
    C: NDArray[np.float64], difference: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return covariance (K, k, K, k) and difference (K, k) in components over time, each sensor of variance 1."""
    r = difference.shape[1]
    variance = np.einsum("grgr->g", C) / r
    scale = 1 / np.sqrt(np.where(variance > 0, variance, 1.0))
    C, difference = C * scale[:, None, None, None] * scale[:, None], difference * scale[:, None]
    values, courses = np.linalg.eigh(np.einsum("grgs->rs", C))
    values, courses = values[::-1], courses[:, ::-1]
    few = courses[:, : int(np.searchsorted(np.cumsum(values), _EXPLAINED * values.sum())) + 1]
    return np.einsum("rk,grhs,sl->gkhl", few, C, few, optimize=True), difference @ few
