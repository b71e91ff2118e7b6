r"""The unbiased distance between the class means in a Kronecker noise, updated as sensors are removed.

With N = R ⊗ S the noise of all sensors, Δ (G, r) the difference of the class means by sensor and sample, and C the
covariance within the classes (see `unbiased_distance`), the unbiased distance of some sensors A is

    D² = tr((R_AA)⁻¹ F_AA),        F = Δ S⁻¹ Δ' − M/m,        M_gh = tr(S⁻¹ C_gh),

with C_gh (r, r) the part of C between the sensors g and h. So matrices over sensors alone are enough. Let P = R⁻¹ and
Q = P F P on the sensors that are left. Without sensor g,

    D² falls by Q_gg/P_gg,      P becomes P − p p'/P_gg,      Q becomes T Q T',      T = I − p e_g'/P_gg,

on the rest, p being column g of P: each removal costs a few products of vectors.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from mixnorm.core.groups import Groups
from mixnorm.estimators.objective import varying
from mixnorm.estimators.trained import Trained
from mixnorm.noise import residuals
from mixnorm.noise.kronecker import kronecker_of, sensors_first

#: Losses that differ by less are equal: rounding must not decide between two sensors with the same signal.
ROUNDING = 1e-9


class KroneckerDistance:
    """The distance of one subject; for `mixnorm.estimators.elimination.eliminate`.

    Parameters
    ----------
    trials : Trained
    groups : Groups
        Sensors of equal numbers of samples.
    sensors : ndarray of shape (G,)
        The sensors to begin with, any number of them.

    Attributes
    ----------
    P, Q : ndarrays of shape (G, G)
        As above, on the sensors that are left.
    squared : float
        D², in units of the noise.
    precision : float
        That of the trials.
    """

    def __init__(self, trials: Trained, groups: Groups, sensors: NDArray[np.intp]) -> None:
        layout = groups.layout
        assert layout is not None
        features = layout[sensors].ravel()
        # a copy of all trials takes longer than the elimination
        X = trials.X if np.array_equal(features, np.arange(trials.X.shape[1])) else trials.X[:, features]
        G, r = len(sensors), layout.shape[1]
        found = residuals(X, trials.signs, trials.weights)
        E = sensors_first(found.trials.reshape(-1, G, r), found.weights)
        factors = kronecker_of(E)
        # any root of S⁻¹ will do; the noise has a mean variance of 1, and so must the trials
        root = np.linalg.cholesky(np.linalg.inv(factors.samples)) / np.sqrt(np.vdot(E, E) / (G * r))
        flat = (E.reshape(-1, r) @ root).reshape(G, -1)
        difference = found.difference.reshape(G, r) @ root
        self.precision, self._samples = trials.precision, r
        F = difference @ difference.T - flat @ flat.T / self.precision
        self.P = cho_solve(cho_factor(factors.sensors), np.eye(G))
        self.Q = self.P @ F @ self.P
        self.squared = float(np.vdot(self.P, F))
        self._varies = varying(X, Groups.from_channels(range(G), r))

    @property
    def error(self) -> float:
        """Standard error of the loss of a sensor without information, as for `Distance`."""
        return float(np.sqrt(2 * self._samples) / self.precision / max(2 * signed_root(self.squared), 1e-12))

    def losses(self) -> NDArray[np.float64]:
        """Loss of d' = √D² by the removal of each sensor, (sensors,); negative where it is better to do without."""
        left = self.squared - np.diag(self.Q) / np.diag(self.P)
        return comparable(signed_root(self.squared) - signed_root(left), self._varies)

    def remove(self, place: int) -> None:
        """Remove the sensor at an index; the last sensor takes its index."""
        last = len(self.P) - 1
        # The sensor is exchanged with the last one, so that what is left is a view of the first rows and columns.
        for array in (self.P, self.P.T, self.Q, self.Q.T, self._varies):
            array[place], array[last] = array[last].copy(), array[place].copy()
        p, q = self.P[:last, last] / self.P[last, last], self.Q[:last, last]
        self.squared -= float(self.Q[last, last] / self.P[last, last])
        self.Q = self.Q[:last, :last] + self.Q[last, last] * np.outer(p, p) - np.outer(p, q) - np.outer(q, p)
        self.P = self.P[:last, :last] - self.P[last, last] * np.outer(p, p)
        self._varies = self._varies[:last]


def signed_root(squared: float | NDArray[np.float64]) -> NDArray[np.float64]:
    """√D², and −√−D² where D² < 0."""
    return np.sign(squared) * np.sqrt(np.abs(squared))


def comparable(losses: NDArray[np.float64], varies: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Losses of d' without rounding errors, those of constant sensors the smallest."""
    losses = ROUNDING * np.round(losses / ROUNDING)
    # A constant sensor does not even add noise, so that its removal loses more than that of a useless one; but nobody
    # needs to wear it.
    losses[~varies] = min(losses.min(), 0.0) - ROUNDING
    return losses
