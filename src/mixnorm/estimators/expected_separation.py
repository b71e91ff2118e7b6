r"""The separation of the classes that a montage is expected to have on new trials.

With d̂ the difference of the class means of the training trials and N an estimate of the noise of the montage, the
classifier is w = N⁻¹d̂. On new trials, whose means differ by d and whose covariance is C, it separates the classes by
w'd / √(w'Cw). The true d is not known, but d̂ has the covariance C/m with m = n₊n₋/(n₊ + n₋), so that

    E[d̂'N⁻¹d̂] = d'N⁻¹d + tr(N⁻¹C)/m,        E[w'd] = d'N⁻¹d,

and (d̂'w − tr(N⁻¹C)/m) / √(w'Cw) estimates the separation, C being the sample covariance. The term that is subtracted
is what a montage seems to gain by chance. It is large with few trials, and it differs between montages, because N is
structured and fits some sensors better than others.

N is estimated for every montage by itself, as for the decoder that will be trained on it. For two electrodes this is
far from the part of an estimate for all of them: the time course of the noise that is left after the other electrodes
have been used to suppress it is not that of the noise itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixnorm.core.groups import Groups
from mixnorm.estimators.objective import varying
from mixnorm.estimators.trained import Trained
from mixnorm.noise import SensorMoments, residuals

#: Losses that differ by less are equal: rounding must not decide between two sensors with the same signal. Residuals
#: that are smaller, relative to the trials, are zero.
_ROUNDING = 1e-9
#: Separation by sensors that are constant in each class and differ between the classes.
_PERFECT = 1e6


class ExpectedSeparation:
    """The expected separation of one subject, as sensors are removed; for `mixnorm.estimators.elimination.eliminate`.

    Parameters
    ----------
    trials : Trained
    groups : Groups
        Sensors of equal numbers of samples.
    sensors : ndarray of shape (K,)
        The sensors to begin with. They should be few: every montage has its own inverse.

    Attributes
    ----------
    precision : float
        n₊n₋/(n₊ + n₋).
    """

    def __init__(self, trials: Trained, groups: Groups, sensors: NDArray[np.intp]) -> None:
        layout = groups.layout
        assert layout is not None
        X = trials.X[:, layout[sensors].ravel()]
        weights = trials.weights / trials.weights.max()
        found = residuals(X, trials.signs, weights)
        self._shape = K, r = len(sensors), layout.shape[1]
        self.precision = found.n_difference
        self._difference = found.difference.reshape(K, r)
        self._moments = SensorMoments(X.reshape(len(X), K, r), trials.signs, weights)
        self._varies = varying(X, Groups.from_channels(range(K), r))
        noise, signal = (np.sum(part.reshape(-1, K, r) ** 2, axis=(0, 2)) for part in (found.trials, X))
        self._has_noise = noise > _ROUNDING**2 * signal
        self._left = np.arange(K)

    def separation(self, sensors: NDArray[np.intp]) -> float:
        """Expected separation by some sensors, given by their places among those to begin with; 0 by none."""
        own = np.sort(sensors[self._varies[sensors]])
        if not self._has_noise[own].any():
            return _PERFECT if len(own) else 0.0
        d, C = self._difference[own].ravel(), self._moments.sample(own)
        P = np.linalg.inv(self._moments.structured(own).dense())
        w = P @ d
        gained = d @ w - np.sum(P * C) / self.precision
        return float(gained / np.sqrt(max(w @ C @ w, np.finfo(float).tiny)))

    @property
    def error(self) -> float:
        """Standard error of the loss of a sensor without information, as for `Distance`."""
        return float(np.sqrt(2 * self._shape[1]) / self.precision / max(2 * self.separation(self._left), 1e-12))

    def losses(self) -> NDArray[np.float64]:
        """Loss of separation by the removal of each sensor, (sensors,); negative where it is better to do without."""
        without = [self.separation(np.delete(self._left, place)) for place in range(len(self._left))]
        losses = _ROUNDING * np.round((self.separation(self._left) - np.array(without)) / _ROUNDING)
        # A constant sensor does not even add noise, so that its removal loses more than that of a useless one; but
        # nobody needs to wear it.
        losses[~self._varies[self._left]] = min(losses.min(), 0.0) - _ROUNDING
        return losses

    def remove(self, place: int) -> None:
        """Remove the sensor at an index; the last sensor takes its index."""
        self._left[place] = self._left[-1]
        self._left = self._left[:-1]
