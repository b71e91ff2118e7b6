"""One problem with sensors and windows: its data, its value, and a look at the whole of it."""

from typing import NamedTuple

import numpy as np

from mixnorm.core.arrays import to_numpy
from mixnorm.core.intercept import solve_intercept
from mixnorm.core.metric import Metric
from mixnorm.core.problem import Stack
from mixnorm.core.where_when import SensorsAndWindows
from mixnorm.solvers.newton.host.hessian import WorkingHessian
from mixnorm.solvers.newton.rules import gap_estimate


class Point(NamedTuple):
    """Coefficients w (d,), intercept b, and scores without it, signed by the labels: Z w, (n,)."""

    w: np.ndarray
    b: float
    Zw: np.ndarray


class Look(NamedTuple):
    """The whole problem at a point with its exact intercept.

    Attributes
    ----------
    point : Point
    descent : ndarray of shape (d,)
        z, minus the gradient of the smooth part.
    value : float
    excess : float
        Dual norm of z: at most 1 where the constraint of the dual problem is met.
    gap : float
        Estimate of the relative gap.
    """

    point: Point
    descent: np.ndarray
    value: float
    excess: float
    gap: float


class Problem:
    """One problem of a stack of one subject whose sensors may all be chosen, with what is kept along its path."""

    def __init__(self, stack: Stack, i: int, k: int):
        weight = to_numpy(stack.trial_weight)[i, 0, :, k]
        used = weight > 0
        self.p, self.y = weight[used], to_numpy(stack.y)[i, 0][used]
        X = to_numpy(stack.X)[i, 0] if used.all() else to_numpy(stack.X)[i, 0][used]
        self.Z = X * self.y[:, None]
        self.loss, self.fit_intercept = stack.loss, stack.fit_intercept
        assert isinstance(stack.penalty, SensorsAndWindows)  # the solver has asked
        self.penalty: SensorsAndWindows = stack.penalty
        self.row, self.column = self.penalty.groups.index, self.penalty.windows.index
        self.weight = to_numpy(stack.group_weights)[i, :, k]
        self.ridge = 0.0  # set for every cell of a path, as alpha
        self.alpha = 1.0
        self._seen: tuple[Point, np.ndarray, np.ndarray, float] | None = None
        self._seen_ridge = 0.0
        self.metric: Metric | None = None if stack.metric is None else stack.metric.data_set(i)
        self.hessian = WorkingHessian(X[None], self.y[None], self.p[None], self.fit_intercept)
        #: diagonal of the Hessian with all trials inside the margin, (d,), and its sum over each sensor
        self.bend = np.maximum(2 * np.einsum("n,nd,nd->d", self.p, self.Z, self.Z), 1e-300)
        own = np.ones(len(self.bend)) if self.metric is None else self.metric.diagonal()[0, 0]
        self.trace, self.metric_trace = (np.bincount(self.row, weights=part) for part in (self.bend, own))

    def enter_cell(self, cell: Stack, i: int, k: int) -> None:
        """Set alpha and the ridge of a cell of the path."""
        self.alpha = float(cell.alpha[i, k])
        self.ridge = 0.0 if cell.ridge is None else float(to_numpy(cell.ridge)[i, k])

    def zero(self) -> Point:
        """The zero model."""
        return Point(np.zeros(self.Z.shape[1]), 0.0, np.zeros(len(self.y)))

    def point(self, w: np.ndarray, b: float) -> Point:
        """The point of some coefficients and an intercept."""
        return Point(w, b, self.Z @ w)

    @property
    def threshold(self) -> np.ndarray:
        """Alpha times the weights of sensors and windows."""
        return self.alpha * self.weight

    def value(self, point: Point) -> float:
        """Value of the problem."""
        return self.smooth(point) + self.penalty.value_of(point.w, self.threshold)

    def smooth(self, point: Point) -> float:
        """Mean loss plus ridge term."""
        value = float(self.p @ self.loss.value(point.Zw + self.y * point.b))
        if self.ridge:
            mapped = self.mapped(point.w)
            value += self.ridge / 2 * float(mapped @ mapped)
        return value

    def mapped(self, w: np.ndarray) -> np.ndarray:
        """R w."""
        return w if self.metric is None else self.metric.apply(w[None, None, :, None])[0, 0, :, 0]

    def dual(self, point: Point) -> np.ndarray:
        """The a of every trial, (n,)."""
        return self.loss.dual_variable(point.Zw + self.y * point.b, self.p)

    def descent(self, w: np.ndarray, a: np.ndarray) -> np.ndarray:
        """Minus the gradient of the smooth part, (d,)."""
        z = a @ self.Z
        if self.ridge:
            mapped_back = self.mapped(w)
            if self.metric is not None:
                mapped_back = self.metric.adjoint(mapped_back[None, None, :, None])[0, 0, :, 0]
            z = z - self.ridge * mapped_back
        return z

    def slope(self, point: Point, direction: np.ndarray, change: np.ndarray) -> float:
        """Derivative of the value along a direction (d,), ``change`` = Z times it, as the direction goes on."""
        slope = -float(self.dual(point) @ change)
        if self.ridge:
            slope += self.ridge * float(self.mapped(point.w) @ self.mapped(direction))
        for group, weights in zip((self.row, self.column), self.penalty.divided(self.threshold), strict=True):
            norms = np.sqrt(np.bincount(group, weights=point.w**2))
            product = np.bincount(group, weights=point.w * direction)
            grown = np.sqrt(np.bincount(group, weights=direction**2))
            slope += float(weights @ np.where(norms > 0, product / np.where(norms > 0, norms, 1.0), grown))
        return slope

    def _gradient(self, point: Point) -> tuple[Point, np.ndarray, np.ndarray, float]:
        """The point with its exact intercept, its dual variable, z, and the dual norm of z at alpha = 1.

        The point where one alpha ends is that where the next one begins: it is not decomposed twice.
        """
        if self._seen is None or self._seen[0] is not point or self._seen_ridge != self.ridge:
            if self.fit_intercept:
                args = (self.y * point.Zw)[:, None], self.y[:, None], self.p[:, None], np.array([point.b])
                point = point._replace(b=float(solve_intercept(self.loss, *args)[0]))
            a = self.dual(point)
            z = self.descent(point.w, a)
            self._seen = point, a, z, self.penalty.gauge_of(z, self.weight)
            self._seen_ridge = self.ridge
        return self._seen

    def look(self, point: Point) -> Look:
        """Solve the intercept exactly and look at the whole problem."""
        point, a, z, dual_norm = self._gradient(point)
        excess = dual_norm / self.alpha
        S1, S2 = float(a.sum()), float(np.sum(a * a / (4 * self.p)))
        if self.ridge:
            mapped = self.mapped(point.w)
            S2 += self.ridge / 2 * float(mapped @ mapped)
        value = S2 + self.penalty.value_of(point.w, self.threshold)  # a²/(4p) = p ℓ
        return Look(point, z, value, excess, float(gap_estimate(np, value, S1, S2, excess, 0.0)))
