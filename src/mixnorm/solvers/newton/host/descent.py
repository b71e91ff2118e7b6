"""Newton's method on one problem of a stack: looks at the whole problem, and steps on the atoms that are present."""

from dataclasses import replace
from functools import cached_property

import numpy as np

from mixnorm.core.arrays import to_numpy
from mixnorm.core.groups import Groups
from mixnorm.core.intercept import solve_intercept
from mixnorm.core.losses import SquaredHinge
from mixnorm.core.metric import KroneckerMetric
from mixnorm.core.problem import Stack
from mixnorm.solvers.newton.host.atoms import Atoms
from mixnorm.solvers.newton.host.entry import block_minimum
from mixnorm.solvers.newton.host.hessian import WorkingHessian
from mixnorm.solvers.newton.host.kept import Kept
from mixnorm.solvers.newton.host.line import Line, least_ahead
from mixnorm.solvers.newton.host.metric_system import Factors
from mixnorm.solvers.newton.host.state import Active, Level, Look, Point, Position, times
from mixnorm.solvers.newton.host.step import newton_step
from mixnorm.solvers.newton.rules import (
    AtomValues,
    asks_to_enter,
    gap_estimate,
    is_given_up,
    is_progress,
    next_alpha,
    number_to_enter,
    penalty_curvature,
    stiffness,
    unmet_equality,
)
from mixnorm.solvers.newton.tuning import (
    ALIKE,
    CUT_STEPS,
    DAMPING,
    HOST,
    INNER_STEPS,
    INTERCEPT_STEPS,
    MOST_STEPS,
    MOST_STEPS_PER_COEFFICIENT,
    NEAR,
    PLENTY,
    PRECISE_ENTRY,
    SHORTER_STEPS,
    TINY,
    CoarsePath,
)


class Problem:
    """One problem of a stack, with what is kept along its path."""

    def __init__(self, stack: Stack, i: int, k: int):
        p = to_numpy(stack.trial_weight)[i, :, :, k]
        used = p.any(axis=0)
        self.p = np.ascontiguousarray(p[:, used])
        self.y = to_numpy(stack.y)[i][:, used]
        self.Z = to_numpy(stack.X)[i][:, used]
        self.Z *= self.y[:, :, None]  # in place: allocating memory takes longer than the product
        self.loss: SquaredHinge = stack.loss
        self.penalty = stack.penalty
        self.fit_intercept = stack.fit_intercept
        T, _, d = self.Z.shape
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
        self.hessian = WorkingHessian(self.Z, self.y, self.p, self.fit_intercept)
        #: diagonal of the Hessian with all trials inside the margin, (T, d), and its sum over each atom
        self.bend = np.maximum(2 * np.einsum("tn,tnd,tnd->td", self.p, self.Z, self.Z), 1e-300)
        if self.factors is not None:
            self.bend = self.factors.evened(self.bend)
        self.trace = self.atoms.sums(self.bend)
        self._active: Active | None = None
        self._look: Look | None = None
        self._look_similarity = 0.0
        self._is_tiny = self.atom_of.size <= TINY and self.p.shape[1] >= 4 * d
        trials_per_coefficient = self.p.shape[1] / d
        self._may_jump = self._is_tiny or (T == 1 and self.q == 2 and trials_per_coefficient >= PLENTY)
        self._entry_limit = HOST.entry_limit(trials_per_coefficient)
        self._inverse = np.divide(0.25, self.p, where=self.p > 0, out=np.zeros_like(self.p))
        self.damping = DAMPING
        #: the last matrix that was factorised, where it may serve again
        self.kept: Kept | None = None
        self._most_steps = max(MOST_STEPS, MOST_STEPS_PER_COEFFICIENT * self.atom_of.size)

    def _factors(self, groups: Groups) -> Factors | None:
        """The metric's factors, where the Newton system can be solved by them."""
        if not isinstance(self.metric, KroneckerMetric) or self.q != 2 or groups.layout is None:
            return None
        return Factors.of(self.metric) if np.array_equal(self.metric.layout, groups.layout) else None

    def point(self, W: np.ndarray, b: np.ndarray) -> Point:
        """Return the point of some coefficients (T, d) and intercepts (T,)."""
        return Point(W, b, times(W, self.Z.transpose(0, 2, 1)))

    def weigh(self, beta: np.ndarray, point: Point) -> Point:
        """Set other group weights, of groups that are atoms; return the point without groups of infinite weight."""
        if self.q == 1 or np.array_equal(beta, self.beta):
            return point
        self._set_weights(beta)
        gone = np.isinf(beta)[self.atom_of] & (point.W != 0)
        if not gone.any():
            return point
        return self.point(np.where(gone, 0.0, point.W), point.b)

    def _set_weights(self, beta: np.ndarray) -> None:
        self.beta = beta
        self._all_penalised = bool(np.all(beta > 0))
        self._limited = ((beta > 0) & np.isfinite(beta)).nonzero()[0]

    def approach(self, alpha: float, point: Point, max_iter: int) -> tuple[Point, int]:
        """From the zero model go down a coarse path to near alpha: a far jump lets too many groups enter at once.

        Where trials are many, groups that enter in vain soon leave again, and the jump is quicker.
        """
        if not self.penalty.is_norm or point.W.any():
            return point, 0
        point, top = self._zero_model(point)
        if self._may_jump and alpha >= NEAR * top:
            return point, 0
        is_fine = 1 < self.q < 1.2 and self.p.shape[1] < self.Z.shape[2]
        return self._go_down(top, alpha, point, HOST.fine if is_fine else HOST.coarse, max_iter)

    def restart(self, alpha: float, max_iter: int) -> tuple[Point, int]:
        """From the zero model go down the fine path to near alpha, with any penalty: slow, but it seldom fails."""
        point, top = self._zero_model(Point.zero(*self.Z.shape))
        if not self.penalty.is_norm:
            top = float(self.trace.max())  # from here on the penalty has more curvature than the loss
        return self._go_down(top, alpha, point, HOST.fine, max_iter)

    def _zero_model(self, point: Point) -> tuple[Point, float]:
        """Return the zero model with its exact intercepts, and the least alpha at which it is the optimum."""
        seen, limited = self._look_at(point), self.beta > 0
        return seen.point, float(np.max(seen.dual_norms[limited] / self.beta[limited], initial=0.0))

    def _go_down(self, top: float, alpha: float, point: Point, path: CoarsePath, max_iter: int) -> tuple[Point, int]:
        """Solve at the alphas of a coarse path from ``top`` to above alpha; return the point and the steps."""
        steps, current = 0, next_alpha(np, alpha, top, path.ratio)
        max_iter = min(max_iter, self._most_steps)
        while current > alpha and steps < max_iter:
            point, taken = self.solve(float(current), point, path.gap, max_iter - steps)
            steps += taken
            current = next_alpha(np, alpha, current, path.ratio)
        return point, steps

    def solve(self, alpha: float, point: Point, tol: float, max_iter: int, steps: int = 0) -> tuple[Point, int]:
        """Descend from a point until the relative gap is at most tol; return the point and the number of steps.

        ``steps``: how many were taken at this alpha before.
        """
        level = self.level(alpha)
        tau = level.tau
        limit = min(max_iter, self._most_steps)
        look, waited, least_gap, best = steps, 0, np.inf, (np.inf, point)
        while True:
            seen = self._look_at(point)
            point = seen.point
            value, gap = self._value_and_gap(seen, tau)
            waited = 0 if is_progress(gap, least_gap, value, best[0], self.penalty.is_norm) else waited + 1
            least_gap = min(least_gap, gap)
            # by its value, not by its gap: of two points without a certificate the lower one is the better model
            best = min(best, (value, point), key=lambda pair: pair[0])
            if gap <= tol and look > 0:
                return point, steps
            if steps >= limit:
                return best[1], steps
            present = self.present(point)
            entering = self._entering(present, seen.dual_norms, tau)
            # A zero model is only taken where nothing asks to enter, however little it would bring.
            if gap <= tol and not len(entering):
                return point, steps
            if is_given_up(waited, not len(entering), HOST):
                return best[1], steps
            position = Position(point, value, seen)
            # At a new alpha the present atoms move first: many that ask to enter before that would leave again.
            if len(entering) and (look > 0 or not present.any()):
                position = self._enter(seen, entering, level)
                present = self.present(position.point)
            elif waited and 1 < self.q < 2:
                position = self._proximal_step(seen, value, level)
                present = self.present(position.point)
            goal = max(0.1 * tol, 0.05 * gap)
            # Where nothing asked to enter, there is no reason to look again before Newton's method has converged. With
            # ℓ2 there is: its gap falls with the square of the error, and is often reached a step earlier.
            goals = (goal if len(entering) or not self.penalty.is_norm else 0.1 * tol, goal)
            taken, point = self.inner(position, present, level, goals, max_iter - steps)
            steps += max(taken, 1)
            look += 1

    def level(self, alpha: float) -> Level:
        """What an alpha makes of every atom."""
        return Level(alpha * self.beta, HOST.gamma / np.maximum(self.stiffness() * self.trace, 1e-300))

    def stiffness(self) -> np.ndarray:
        """How much stiffer the similarity term makes every atom, (atoms,): 1 without it."""
        return stiffness(self.own_curvature / 2, self._drawn_size, np.maximum(self.trace, 1e-300))

    @cached_property
    def _drawn_size(self) -> np.ndarray:
        """Trace of the similarity term's curvature at similarity 1 on every atom: its size, or that of the N_t."""
        own = np.ones_like(self.bend) if self.metric is None else self.metric.diagonal()[0]
        return self.atoms.sums(own)

    # One look at the whole problem.

    def _look_at(self, point: Point) -> Look:
        """Look at a point, its intercepts solved exactly.

        The point where one alpha ends is that where the next one begins: it is not looked at twice.
        """
        if self._look is None or self._look.point is not point or self._look_similarity != self.similarity:
            point, a = self._exact_intercept(point)
            descent = self.descent(point, a)
            self._look = Look(point, a, descent, self.atoms.dual_norms(descent))
            self._look_similarity = self.similarity
        return self._look

    def _exact_intercept(self, point: Point) -> tuple[Point, np.ndarray]:
        """Solve the intercepts exactly; return the point and its dual variable, (T, n)."""
        a = self.dual(point)
        for _ in range(INTERCEPT_STEPS if self.fit_intercept else 0):
            pull = np.vecdot(a, self.y)
            if np.all(np.abs(pull) <= 2e-15 * a.sum(axis=1)):
                break
            slope = 2 * np.vecdot(self.p, a > 0)
            point = Point(point.W, point.b + pull / np.where(slope > 0, slope, np.inf), point.Zw)
            a = self.dual(point)
        else:
            if self.fit_intercept:  # seldom: the general method keeps it in a bracket
                args = (self.y * point.Zw)[..., None], self.y[..., None], self.p[..., None], point.b[:, None]
                point = Point(point.W, solve_intercept(self.loss, *args)[:, 0], point.Zw)
                a = self.dual(point)
        return point, a

    def dual(self, point: Point) -> np.ndarray:
        """The a of every trial at a point, (T, n)."""
        return self.loss.dual_variable(self.margins(point), self.p)

    def margins(self, point: Point) -> np.ndarray:
        """Signed scores, (T, n)."""
        return point.Zw + self.y * point.b[:, None]

    def descent(self, point: Point, a: np.ndarray) -> np.ndarray:
        """Minus the gradient of the smooth part at a point with dual variable a, (T, d)."""
        descent = times(a, self.Z)
        if self.own_curvature:
            descent -= self.quadratic_gradient(point.W)
        return descent

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
        gradient = 2 * self.similarity * self.drawn(deviation)
        return gradient + self.ridge * self.drawn(self._mapped(W)) if self.ridge else gradient

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

    def drawn(self, deviation: np.ndarray) -> np.ndarray:
        """R_t' times a deviation, (T, d): half the gradient of its square."""
        return deviation if self.metric is None else self.metric.adjoint(deviation[None, ..., None])[0, ..., 0]

    def smooth_value(self, Zw: np.ndarray, W: np.ndarray, b: np.ndarray) -> float:
        """Mean loss plus similarity and ridge term at a point."""
        value = np.vdot(self.p, self.loss.value(Zw + self.y * b[:, None]))
        if self.own_curvature:
            value += self.quadratic(W)
        return float(value)

    def value(self, point: Point, tau: np.ndarray) -> float:
        """Value of the problem at a point."""
        return self.smooth_value(point.Zw, point.W, point.b) + self.atoms.value(point.W, tau)

    def value_and_slope(self, point: Point, direction: np.ndarray, tau: np.ndarray) -> tuple[float, float]:
        """Value of the problem at a point, and its slope along a direction (T, d) in which no zero atom moves."""
        seen = self._look_at(point)
        value, _ = self._value_and_gap(seen, tau)
        tau = np.where(np.isinf(tau), 0.0, tau)  # those atoms are zero, and stay so
        if not self.penalty.is_norm:
            pull = tau[self.atom_of] * point.W
        else:
            values = AtomValues(self.atoms.norms(point.W), tau, self.trace, lambda of_atoms: of_atoms[self.atom_of])
            pull = penalty_curvature(np, self.q, point.W, values).slope
        return value, float(np.vdot(pull - seen.descent, direction))

    def present(self, point: Point) -> np.ndarray:
        """Atoms that are not zero, or never are."""
        present = np.zeros(len(self.beta), dtype=bool)
        present[self.atom_of[point.W != 0]] = True
        present |= self.beta == 0
        if not self.penalty.is_norm:
            present |= np.isfinite(self.beta)
        return present

    def _entering(self, present: np.ndarray, dual_norms: np.ndarray, tau: np.ndarray) -> np.ndarray:
        """The absent atoms that enter: of those whose gradient asks for it a few, the largest first.

        Many that enter together must mostly leave again, the more so the fewer trials there are; with ℓ1, where
        nothing ties neighbours together, only those may enter that do not resemble each other.
        """
        if not self.penalty.is_norm:
            return np.empty(0, dtype=int)
        outside = np.flatnonzero(~present & asks_to_enter(dual_norms, tau))
        if not len(outside):
            return outside
        asking = outside[np.argsort(-dual_norms[outside] / tau[outside], kind="stable")]
        if self.q > 1:
            return asking[: int(number_to_enter(np, self._entry_limit, present.sum()))]
        return self._unlike(asking if self._is_tiny else asking[: HOST.coefficients_at_once])

    def _unlike(self, coefficients: np.ndarray) -> np.ndarray:
        """Those of some coefficients, in order, that resemble none before them: columns of low correlation."""
        subject, feature = np.divmod(coefficients, self.Z.shape[2])
        columns = self.Z[subject, :, feature] * np.sqrt(self.p[subject])
        columns /= np.maximum(np.linalg.norm(columns, axis=1, keepdims=True), 1e-300)
        alike = np.abs(columns @ columns.T) > ALIKE
        kept: list[int] = []
        for place in range(len(coefficients)):
            if not alike[place, kept].any():
                kept.append(place)
        return coefficients[kept]

    def _value_and_gap(self, look: Look, tau: np.ndarray) -> tuple[float, float]:
        """Value of the problem, and an estimate of the certificate's gap from what is at hand."""
        W, a, norms, limited = look.point.W, look.a, look.dual_norms, self._limited
        S1, S2 = a.sum(), np.vdot(a * a, self._inverse)  # S2: also the loss, since a²/(4p) = p ℓ
        if self.own_curvature:
            S2 += self.quadratic(W)
            if self.center is not None:
                S1 -= 2 * self.similarity * np.vdot(self.deviation(W), self.center)
        value, ratio = float(S2) + self.atoms.value(W, tau), 0.0
        if not self.penalty.is_norm:
            S2 += np.sum(norms[limited] ** 2 / (2 * tau[limited]))
        elif len(limited):
            ratio = np.max(norms[limited] / tau[limited])
        lack = 0.0
        if not self._all_penalised:
            free = (self.beta == 0)[self.atom_of]
            lack = np.sum(unmet_equality(look.descent[free], W[free], self.bend[free]))
        return value, float(gap_estimate(np, value, S1, S2, ratio, lack))

    # Steps.

    def _enter(self, look: Look, entering: np.ndarray, level: Level) -> Position:
        """Proximal step of the entering atoms, its common length chosen by exact line search."""
        point, (tau, gamma) = look.point, level
        chosen = np.zeros(len(tau), dtype=bool)
        chosen[entering] = True
        if len(self.Z) == 1 and self.q == 2 and self.Z.size >= PRECISE_ENTRY:
            direction = self._entry_minimum(look, chosen, tau)
        else:
            forward = np.where(chosen[self.atom_of], gamma[self.atom_of] * look.descent, 0.0)
            direction = self.atoms.prox(forward, gamma * tau)
        price = self.atoms.value(direction, tau)
        features = np.flatnonzero(direction.any(axis=0))
        change = np.matmul(self.Z[:, :, features], direction[:, features, None])[..., 0]
        length = least_ahead(self.line(point, direction, change), price)
        point = Point(point.W + length * direction, point.b, point.Zw + length * change)
        return Position(point, self.value(point, tau), None)

    def _entry_minimum(self, look: Look, chosen: np.ndarray, tau: np.ndarray) -> np.ndarray:
        """The coefficients (1, d) of some groups of one subject at the minimum of the quadratic model over them."""
        group, which, free = self.atom_of[0], np.flatnonzero(chosen), self.hessian.n_free
        features = np.flatnonzero(chosen[group])
        features = features[np.argsort(group[features], kind="stable")]
        H = self.hessian.at(look.a > 0, self.hessian.columns(features))[0, free:, free:]
        ends = np.searchsorted(group[features], which, side="right")
        out = np.zeros_like(look.descent)
        out[0, features] = block_minimum(H, look.descent[0, features], tau[which], ends)
        return out

    def _proximal_step(self, look: Look, value: float, level: Level) -> Position:
        """Proximal gradient step of all atoms, shortened until the value falls; the same point where it never does.

        Where 1 < q < 2 a coefficient of exactly zero in a group that is not has no part in a Newton step, and a step
        in u that is too long for it leaves it there.
        """
        point, (tau, gamma) = look.point, level
        for _ in range(SHORTER_STEPS):
            gamma = gamma / 4
            W = point.W + np.where(np.isinf(tau)[self.atom_of], 0.0, gamma[self.atom_of] * look.descent)
            moved = self.point(self.atoms.prox(W, gamma * tau), point.b)
            reached = self.value(moved, tau)
            if reached < value:
                return Position(moved, reached, None)
        return Position(point, value, look)

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
        return Line(self.loss, self.p, point.Zw + self.y * point.b[:, None], change, price, bend)

    def inner(
        self, position: Position, present: np.ndarray, level: Level, goals: tuple[float, float], max_iter: int
    ) -> tuple[int, Point]:
        """Newton steps on the present atoms until a step's predicted decrease is below a goal, a share of the value.

        The first goal is for steps of any kind, the second for steps that converge slowly. After a step in which an
        atom left there is another one, because all others moved as if that atom went on beyond zero.
        """
        most, (quick, slow), before, n_cut = min(INNER_STEPS, max_iter), goals, np.inf, 0
        for step in range(most):
            if not (self.fit_intercept or present.any()):  # all have left, and nothing can move
                return step, position.point
            active = self.activate(present)
            moved = newton_step(self, position, active, level)
            if moved is None:
                return step, position.point
            position = Position(moved.point, moved.value, None)
            # What a step promises that must be cut short says little about what is left: a trial has come inside the
            # margin, and the next step knows it, unless the intercepts are solved between them and put it out again.
            n_cut = 0 if moved.is_whole else n_cut + 1
            present = self.present(position.point)
            goal = slow if moved.decrease > 0.1 * before else quick
            is_small = moved.decrease <= goal * moved.value and present.sum() == len(active.which)
            if is_small and not 0 < n_cut < CUT_STEPS:
                return step + 1, position.point
            before = moved.decrease
        return most, position.point

    def activate(self, present: np.ndarray) -> Active:
        """Return the coordinates of the present atoms; the same object as long as the atoms are the same."""
        which = present.nonzero()[0]
        if self._active is None or not np.array_equal(which, self._active.which):
            mask = present[self.atom_of]
            features = np.flatnonzero(mask.any(axis=0))
            columns = self.hessian.columns(features)
            order = np.argsort(columns)
            features, columns = features[order], columns[order]
            position = np.zeros(len(present), dtype=int)
            position[which] = np.arange(len(which))
            atoms = replace(
                self.atoms, label=position[self.atom_of[:, features]], mask=mask[:, features], count=len(which)
            )
            self._active = Active(which, atoms, features, columns, *self.hessian.rows(columns))
        return self._active
