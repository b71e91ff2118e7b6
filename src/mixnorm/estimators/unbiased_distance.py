r"""The Mahalanobis distance between the class means of a montage, without what it gains by chance.

With d̂ the difference of the class means of the training trials, C their covariance within the classes and
m = n₊n₋/(n₊ + n₋), d̂ has the covariance C/m. So in a noise N the distance is too large by tr(N⁻¹C)/m on average:

    E[d̂'N⁻¹d̂] = d'N⁻¹d + tr(N⁻¹C)/m,

and D² = d̂'N⁻¹d̂ − tr(N⁻¹C)/m estimates the distance of the true means without bias. What is subtracted would be the
same for all montages of one size if N were C. But N is structured, and fits some sensors better than others: sensors
whose noise it does not describe well seem to separate the classes.

N is estimated for every montage by itself, as for the decoder that is trained on it. For a few sensors this is far
from their part of an estimate for all: the time course of the noise that is left after the other sensors have been
used to suppress it is not that of the noise itself. It is

    N = λ T + (1 − λ) C

with T the structured estimate and λ the share of Ledoit and Wolf (`mixnorm.noise.shrunk`), in coordinates where T is
the identity. With few trials λ is near 1. With many, C is known better than any structure describes it, and the
decoder learns as much from the trials.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri

from mixnorm.core.groups import Groups
from mixnorm.core.triangular import cholesky, inverse, times
from mixnorm.estimators.kronecker_distance import ROUNDING, comparable, signed_root
from mixnorm.estimators.objective import varying
from mixnorm.estimators.trained import Trained
from mixnorm.noise import SensorMoments, residuals
from mixnorm.noise.shrunk import shrinkage
from mixnorm.noise.toeplitz import WHITE_SHARE as TOEPLITZ_SHARE

#: Least share of the structured noise, which keeps N positive definite where sensors are copies of each other.
_LEAST_SHARE = 1e-3
#: d' by sensors that are constant in each class and differ between the classes.
_PERFECT = 1e6


def _squared_and_bias(N: NDArray[np.float64], d: NDArray[np.float64], C: NDArray[np.float64]) -> tuple[float, float]:
    """Return d'N⁻¹d and tr(N⁻¹C), for a positive definite N and a symmetric C."""
    # LAPACK has matrices column by column; the lower half of the inverse is enough, the other one stays zero
    lower, failed = dpotrf(N.T, lower=1, clean=1)
    P, failed = (lower, failed) if failed else dpotri(lower, lower=1, overwrite_c=1)
    if failed:  # singular to rounding
        P = np.asarray(np.linalg.pinv(N, hermitian=True), dtype=np.float64)
        return float(d @ P @ d), float(np.vdot(P, C))
    diagonal, half = np.diag(P), P.T  # row by row, as C
    squared = 2 * float(d @ half @ d) - float(diagonal @ d**2)
    return squared, 2 * float(np.vdot(half, C)) - float(diagonal @ np.diag(C))


class UnbiasedDistance:
    """The distance of one subject, as sensors are removed; for `mixnorm.estimators.elimination.eliminate`.

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
        n₊n₋/(n₊ + n₋), less what the class means take from the residuals. With sample weights s, a class counts as
        (Σs)²/Σs² trials: the variance of its weighted mean is that of so many.
    left : ndarray of shape (number of sensors that are left,)
        Their places among the sensors to begin with.
    difference : ndarray of shape (K, r)
        d̂ of the sensors to begin with.
    covariance : ndarray of shape (K, r, K, r)
        C of the sensors to begin with.
    varies, has_noise : boolean ndarrays of shape (K,)
        Sensors that are not constant, and those that are not constant in each class.
    """

    def __init__(self, trials: Trained, groups: Groups, sensors: NDArray[np.intp]) -> None:
        layout = groups.layout
        assert layout is not None
        X = trials.X[:, layout[sensors].ravel()]
        weights = trials.weights / trials.weights.max()
        found = residuals(X, trials.signs, weights)
        self._shape = K, r = len(sensors), layout.shape[1]
        self.precision = trials.precision
        self.difference = found.difference.reshape(K, r)
        self._moments = SensorMoments(X.reshape(len(X), K, r), trials.signs, weights)
        self.covariance = self._moments.sample(slice(0, K)).reshape(K, r, K, r)
        self._lagged = self._moments.lagged(slice(0, K)).reshape(K, r, K, r)
        self.varies = varying(X, Groups.from_channels(range(K), r))
        noise, signal = (np.sum(part.reshape(-1, K, r) ** 2, axis=(0, 2)) for part in (found.trials, X))
        self.has_noise = noise > ROUNDING**2 * signal  # smaller residuals are rounding
        self._residuals = found
        self.left = np.arange(K)
        self._begin()

    def separation(self, sensors: NDArray[np.intp]) -> float:
        """Return d' = √D² of some sensors, by their places among those to begin with; 0 for none, −√−D² if D² < 0."""
        own = np.sort(sensors[self.varies[sensors]])
        if not self.has_noise[own].any():
            return _PERFECT if len(own) else 0.0
        d = self.difference[own].ravel()
        C, N = (part[own][:, :, own].reshape(len(d), len(d)) for part in (self.covariance, self._unscaled))
        variance = float(np.mean(np.diag(C)))
        # the structured estimate has a mean variance of 1
        N /= variance
        self._moments.structured(own).add_product(N, self._share / 2)
        N.ravel()[:: len(d) + 1] += self._share / 2 * TOEPLITZ_SHARE
        squared, bias = _squared_and_bias(N, d, C)
        return float(signed_root((squared - bias / self.precision) / variance))

    def _begin(self) -> None:
        """Compute what is the same for all montages that are compared next."""
        self._share = self._shrinkage()
        # λ T + (1 − λ) C without the Kronecker product and the white noise of T, before both are scaled
        self._unscaled = self._share * (1 - TOEPLITZ_SHARE) / 2 * self._lagged + (1 - self._share) * self.covariance
        self._separation = self.separation(self.left)

    def _shrinkage(self) -> float:
        """λ of the sensors that are left: one for all montages that are compared, so that it favours none of them."""
        own = np.sort(self.left[self.varies[self.left]])
        if not self.has_noise[own].any():
            return 1.0
        _, r = self._shape
        found, features = self._residuals, (r * own[:, None] + np.arange(r)).ravel()
        root = inverse(cholesky(self._moments.structured(own).dense()))
        white = times(found.trials[:, features], root, transpose=True)
        C = self.covariance[own][:, :, own].reshape(len(features), len(features))
        S = root @ C @ root.T  # the covariance of the white trials
        squares = np.einsum("ij,ij->i", white, white)
        return max(shrinkage(squares, found.weights, float(np.vdot(S, S)), len(S)), _LEAST_SHARE)

    @property
    def error(self) -> float:
        """Standard error of the loss of a sensor without information, as for `Distance`."""
        return float(np.sqrt(2 * self._shape[1]) / self.precision / max(2 * self._separation, 1e-12))

    def losses(self) -> NDArray[np.float64]:
        """Loss of d' by the removal of each sensor, (sensors,); negative where it is better to do without."""
        without = [self.separation(np.delete(self.left, place)) for place in range(len(self.left))]
        return comparable(self._separation - np.array(without), self.varies[self.left])

    def remove(self, place: int) -> None:
        """Remove the sensor at an index; the last sensor takes its index."""
        self.left[place] = self.left[-1]
        self.left = self.left[:-1]
        self._begin()
