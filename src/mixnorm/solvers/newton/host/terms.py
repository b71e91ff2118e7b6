"""One problem of a stack: its data, and the value and the gradient of its terms."""

from functools import cached_property

import numpy as np

from mixnorm.core.arrays import to_numpy
from mixnorm.core.groups import Groups
from mixnorm.core.metric import KroneckerMetric
from mixnorm.core.problem import SquaredHinge, Stack
from mixnorm.solvers.newton.host.atoms import Atoms, are_equal
from mixnorm.solvers.newton.host.line import Line
from mixnorm.solvers.newton.host.metric_system import Factors
from mixnorm.solvers.newton.host.state import Level, Look, Point, Position, times
from mixnorm.solvers.newton.rules import (
    AtomValues,
    Scalars,
    gap_estimate,
    penalty_curvature,
    stiffness,
    unmet_equality,
)
from mixnorm.solvers.newton.tuning import HOST


class Terms:
    """One problem of a stack: loss, similarity, ridge and penalty.

    Attributes
    ----------
    X : ndarray of shape (T, n, d)
        The trials that have weight: the stack's own array where all of them have, so that it must not be changed. Z,
        the trials times their labels, stands in formulas only.
    y, p : ndarrays of shape (T, n)
        Labels and relative weights.
    atom_of : ndarray of shape (T, d)
        The atom of every coefficient.
    beta : ndarray over atoms
        Group weights.
    bend : ndarray of shape (T, d)
        Diagonal of the Hessian with all trials inside the margin; ``trace`` is its sum over each atom.
    """

    def __init__(self, stack: Stack, i: int, k: int):
        p = to_numpy(stack.trial_weight)[i, :, :, k]
        used = p.any(axis=0)
        self.p = np.ascontiguousarray(p[:, used])
        self.y = to_numpy(stack.y)[i][:, used]
        X = to_numpy(stack.X)[i]
        self.X = np.ascontiguousarray(X if used.all() else X[:, used])
        self.loss: SquaredHinge = stack.loss
        self.penalty = stack.penalty
        self.fit_intercept = stack.fit_intercept
        T, _, d = self.X.shape
        self.q = stack.penalty.q
        if stack.penalty.is_norm and T * stack.groups.sizes.max() == 1:
            self.q = 1.0  # groups of one coefficient: every q is ℓ1
        self.similarity = 0.0  # set for every cell of a path
        self.ridge = 0.0 if stack.ridge is None else float(to_numpy(stack.ridge)[i, k])
        self.center = None if stack.center is None else to_numpy(stack.center)[i, :, :, k]
        self.metric = None if stack.metric is None else stack.metric.data_set(i)
        self.factors = self._factors(stack.groups)
        beta = to_numpy(stack.group_weights)[i, :, k]
        if self.q == 1:
            self.atom_of = np.arange(T * d).reshape(T, d)
            self._set_weights(np.tile(beta[stack.groups.index], T))
        else:
            self.atom_of = np.tile(stack.groups.index, (T, 1))
            self._set_weights(beta)
        everywhere = np.ones_like(self.atom_of, dtype=bool)
        self.atoms = Atoms(self.atom_of, everywhere, len(self.beta), stack.penalty, self.q)
        self.bend = np.maximum(2 * np.einsum("tn,tnd,tnd->td", self.p, self.X, self.X), 1e-300)
        if self.factors is not None:
            self.bend = self.factors.evened(self.bend)
        self.trace = self.atoms.sums(self.bend)
        self._twice = 2 * self.p
        #: γ of the normal map, and the curvature of similarity and ridge term for which it was computed
        self._gamma, self._gamma_of = np.empty(0), np.nan
        #: 1/(4p), so that a²/(4p) is the weighted loss of a trial
        self._inverse = np.divide(0.25, self.p, where=self.p > 1e-300, out=np.zeros_like(self.p))

    def _factors(self, groups: Groups) -> Factors | None:
        """The metric's factors, where the Newton system can be solved by them."""
        if not isinstance(self.metric, KroneckerMetric) or self.q != 2 or groups.layout is None:
            return None
        return Factors.of(self.metric) if np.array_equal(self.metric.layout, groups.layout) else None

    def _set_weights(self, beta: np.ndarray) -> None:
        self.beta = beta
        self._all_penalised = bool(np.all(beta > 0))
        self._limited = ((beta > 0) & np.isfinite(beta)).nonzero()[0]

    def weigh(self, beta: np.ndarray, point: Point) -> Point:
        """Set other group weights, of groups that are atoms; return the point without groups of infinite weight."""
        if self.q == 1 or are_equal(beta, self.beta):
            return point
        self._set_weights(beta)
        gone = np.isinf(beta)[self.atom_of] & (point.W != 0)
        if not gone.any():
            return point
        return self.point(np.where(gone, 0.0, point.W), point.b)

    def level(self, alpha: float) -> Level:
        """What an alpha makes of every atom."""
        if self._gamma_of != self.own_curvature:  # the same along a path
            gamma = HOST.gamma / np.maximum(self.stiffness() * self.trace, 1e-300)
            self._gamma_of, self._gamma = self.own_curvature, gamma
        return Level(alpha * self.beta, self._gamma)

    def stiffness(self) -> np.ndarray:
        """How much stiffer the similarity term makes every atom, (atoms,): 1 without it."""
        return stiffness(self.own_curvature / 2, self._metric_size, np.maximum(self.trace, 1e-300))

    @cached_property
    def _metric_size(self) -> np.ndarray:
        """Trace of the similarity term's curvature at similarity 1 on every atom: its size, or that of the N_t."""
        own = np.ones_like(self.bend) if self.metric is None else self.metric.diagonal()[0]
        return self.atoms.sums(own)

    # Points, and the values there.

    def point(self, W: np.ndarray, b: np.ndarray) -> Point:
        """Return the point of some coefficients (T, d) and intercepts (T,)."""
        return Point(W, b, self.y * times(W, self.X.transpose(0, 2, 1)))

    def margins(self, point: Point) -> np.ndarray:
        """Signed scores, (T, n)."""
        margins = self.y * point.b[:, None]
        margins += point.Zw
        return margins

    def dual(self, point: Point) -> np.ndarray:
        """The a of every trial at a point, (T, n)."""
        a = self.margins(point)  # a new array, in which the rest is done: 2p max(0, 1 − m)
        np.subtract(1.0, a, out=a)
        np.maximum(a, 0.0, out=a)
        a *= self._twice
        return a

    def smooth_value(self, W: np.ndarray, a: np.ndarray) -> float:
        """Mean loss plus similarity and ridge term, a being the dual variable: a²/(4p) = p ℓ."""
        value = np.vdot(a * a, self._inverse)
        if self.own_curvature:
            value += self.quadratic(W)
        return float(value)

    def position(self, point: Point, tau: np.ndarray) -> Position:
        """Return a point with the value of the problem there."""
        a = self.dual(point)
        return Position(point, self.smooth_value(point.W, a) + self.atoms.value(point.W, tau), a, None)

    def descent(self, point: Point, a: np.ndarray) -> np.ndarray:
        """Minus the gradient of the smooth part at a point with dual variable a, (T, d)."""
        descent = times(a * self.y, self.X)
        if self.own_curvature:
            descent -= self.quadratic_gradient(point.W)
        return descent

    def slope(self, look: Look, direction: np.ndarray, tau: np.ndarray) -> float:
        """Slope of the problem along a direction (T, d) in which no zero atom moves."""
        tau, W = np.where(np.isinf(tau), 0.0, tau), look.point.W  # those atoms are zero, and stay so
        if not self.penalty.is_norm:
            pull = tau[self.atom_of] * W
        else:
            values = AtomValues(self.atoms.norms(W), tau, self.trace, lambda of_atoms: of_atoms[self.atom_of])
            pull = penalty_curvature(np, self.q, W, values).slope
        return float(np.vdot(pull - look.descent, direction))

    def value_and_gap(self, look: Look, tau: np.ndarray) -> tuple[float, float]:
        """Value of the problem, and an estimate of the certificate's gap from what is at hand."""
        W, a, norms, limited = look.point.W, look.a, look.dual_norms, self._limited
        S1, S2 = float(a.sum()), self.smooth_value(W, a)
        if self.similarity and self.center is not None:
            S1 -= 2 * self.similarity * float(np.vdot(self.deviation(W), self.center))
        value, ratio = S2 + self.atoms.value(W, tau), 0.0
        if not self.penalty.is_norm:
            S2 += float((norms[limited] ** 2 / (2 * tau[limited])).sum())
        elif len(limited):
            ratio = float((norms[limited] / tau[limited]).max())
        lack = 0.0
        if not self._all_penalised:
            free = (self.beta == 0)[self.atom_of]
            lack = float(unmet_equality(look.descent[free], W[free], self.bend[free]).sum())
        return value, gap_estimate(Scalars, value, S1, S2, ratio, lack)

    def line(self, point: Point, direction: np.ndarray, change: np.ndarray) -> Line:
        """The smooth part along a direction (T, d) that changes the margins by so much, (T, n)."""
        price = bend = 0.0
        if self.similarity:
            spread = self.spread(direction)
            price = 2 * self.similarity * float(np.vdot(spread, self.deviation(point.W)))
            bend = 2 * self.similarity * float(np.vdot(spread, spread))
        if self.ridge:
            V = self._mapped(direction)
            price += self.ridge * float(np.vdot(V, self._mapped(point.W)))
            bend += self.ridge * float(np.vdot(V, V))
        return Line(self.loss, self.p, self.margins(point), change, price, bend)

    # Similarity and ridge term.

    @property
    def own_curvature(self) -> float:
        """What similarity and ridge term add to the Hessian of every subject, times N_t; the mean couples them."""
        return 2 * self.similarity + self.ridge

    def quadratic(self, W: np.ndarray) -> float:
        """Similarity and ridge term."""
        deviation = self.deviation(W)
        value = self.similarity * np.vdot(deviation, deviation)
        if self.ridge:
            V = self._mapped(W)
            value += self.ridge / 2 * np.vdot(V, V)
        return value

    def quadratic_gradient(self, W: np.ndarray) -> np.ndarray:
        """Gradient of the similarity and the ridge term, (T, d)."""
        return self._pulled(self.deviation(W), W)

    def quadratic_change(self, direction: np.ndarray) -> np.ndarray:
        """Change of this gradient along a direction, (T, d)."""
        return self._pulled(self.spread(direction), direction)

    def _pulled(self, deviation: np.ndarray, W: np.ndarray) -> np.ndarray:
        gradient = 2 * self.similarity * self.mapped_back(deviation)
        return gradient + self.ridge * self.mapped_back(self._mapped(W)) if self.ridge else gradient

    def deviation(self, W: np.ndarray) -> np.ndarray:
        """R_t w_t less what it is regularised towards, the centre or the mean over subjects, (T, D)."""
        V = self._mapped(W)
        if self.center is not None:
            return V - self.center
        deviation = V - V.mean(axis=0)
        return deviation - deviation.mean(axis=0)  # see `Stack.deviation`

    def spread(self, direction: np.ndarray) -> np.ndarray:
        """The change of the deviation along a direction, (T, D)."""
        change = self._mapped(direction)
        return change - change.mean(axis=0) if self.center is None else change

    def _mapped(self, W: np.ndarray) -> np.ndarray:
        """R_t w_t, (T, D)."""
        return W if self.metric is None else self.metric.apply(W[None, ..., None])[0, ..., 0]

    def mapped_back(self, deviation: np.ndarray) -> np.ndarray:
        """R_t' times a deviation, (T, d): half the gradient of its square."""
        return deviation if self.metric is None else self.metric.adjoint(deviation[None, ..., None])[0, ..., 0]
