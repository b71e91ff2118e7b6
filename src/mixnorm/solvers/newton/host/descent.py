"""One problem of a stack, as Newton's method sees it, with what is kept along its path."""

from dataclasses import replace
from functools import cached_property

import numpy as np

from mixnorm.core.arrays import to_numpy
from mixnorm.core.intercept import solve_intercept
from mixnorm.core.losses import SquaredHinge
from mixnorm.core.problem import NOTHING, Stack
from mixnorm.solvers.newton.host.atoms import Atoms
from mixnorm.solvers.newton.host.hessian import WorkingHessian
from mixnorm.solvers.newton.host.metric_system import Kronecker
from mixnorm.solvers.newton.host.state import Active, Point, times
from mixnorm.solvers.newton.host.step import Slopes, newton_step

_MAX_INNER = 30
#: Newton steps for the intercepts before the general method takes over.
_FEW = 6
#: Looks at the whole problem without progress before it is given up.
_PATIENCE = 5
#: The same where atoms still ask to enter: some enter and leave in turn for ever.
_LIMIT = 20
#: Steps after which another start is more likely to help than more steps.
_MOST_STEPS, _MOST_PER_COEFFICIENT = 300, 5
#: How often a proximal gradient step is shortened.
_MAX_SHORTER = 12
#: A decrease of the value by this share of the gap is progress.
_PROGRESS = 1e-4
#: γ of the normal map in units of one over the group's share of the trace of the Hessian; measured, flat around this.
_GAMMA = 10.0
#: The coarse path by which a far alpha is approached: its ratio, and the gap that is enough on it; and a finer one.
_COARSE, _FINE = (0.2, 1e-1), (0.4, 1e-2)
#: So small a share of alpha_max is far even where trials are many: there the jump leaves no trial inside the margin,
#: and with them goes all curvature.
_NEAR = 1e-4
#: So many trials for every coefficient are plenty.
_PLENTY = 3.0
#: How many groups may enter together, at least and as a share of those present, from so many trials per coefficient.
_GROUPS_AT_ONCE = ((_PLENTY, (16, 2.0)), (1.0, (8, 1.0)), (0.0, (2, 0.2)))
#: With ℓ1, how many coefficients may enter together, and from which correlation on two of them may not.
_MOST_AT_ONCE, _ALIKE = 4, 0.3
#: So few coefficients may all be woken at once, if there are four times as many trials.
_TINY = 32
#: Levenberg-Marquardt damping to begin with, in units of the Hessian's diagonal.
_DAMPING = 1e-6


class Problem:
    """One problem of a stack, with what is kept along its path."""

    def __init__(self, stack: Stack, i: int, k: int):
        p = to_numpy(stack.trial_weight)[i, :, :, k]
        used = p.any(axis=0)
        self.p = np.ascontiguousarray(p[:, used])
        self.y = to_numpy(stack.y)[i][:, used]
        self.Z = to_numpy(stack.X)[i][:, used]
        self.Z *= self.y[:, :, None]  # in place: memory that is new takes longer to get than the product
        self.loss: SquaredHinge = stack.loss
        self.penalty = stack.penalty
        self.fit_intercept = stack.fit_intercept
        T, _, d = self.Z.shape
        self.q = stack.penalty.q if stack.penalty.is_norm else 2.0
        if stack.penalty.is_norm and T * stack.groups.sizes.max() == 1:
            self.q = 1.0  # groups of one coefficient: every q is ℓ1
        self.similarity = 0.0  # set for every cell of a path
        self.center = None if stack.center is None else to_numpy(stack.center)[i, :, :, k]
        self.alignment = self.kronecker = None
        self._place = stack, i
        if stack.alignment is not None:
            self.alignment = to_numpy(stack.alignment)[i]
            by_factors = T > 1 and self.q == 2 and self.center is None
            self.kronecker = Kronecker.of(self.alignment, stack.groups) if by_factors else None
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
        if self.kronecker is not None:
            self.bend = self.kronecker.evened(self.bend)
        self.trace = self.atoms.sums(self.bend)
        self._active: Active | None = None
        self._seen: tuple[tuple | None, float] = None, 0.0
        self._is_tiny = self.atom_of.size <= _TINY and self.p.shape[1] >= 4 * d
        plenty = self.p.shape[1] / d  # trials for every coefficient
        self._may_jump = self._is_tiny or (T == 1 and self.q == 2 and plenty >= _PLENTY)
        self._at_once = next(groups for least, groups in _GROUPS_AT_ONCE if plenty >= least)
        self._inverse = np.divide(0.25, self.p, where=self.p > 0, out=np.zeros_like(self.p))
        self.damping = _DAMPING
        self._limit = max(_MOST_STEPS, _MOST_PER_COEFFICIENT * self.atom_of.size)

    def point(self, W: np.ndarray, b: np.ndarray) -> Point:
        """Return the point of some coefficients (T, d) and intercepts (T,)."""
        return Point(W, b, times(W, self.Z.transpose(0, 2, 1)))

    def weigh(self, beta: np.ndarray, point: Point) -> Point:
        """Take other group weights, of groups that are atoms; return the point without those that are now out."""
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
        """From the zero model go down a coarse path to near alpha, since a far jump wakes too many groups at once.

        Where trials are many, whoever wakes in vain soon leaves again, and the jump is quicker.
        """
        if not self.penalty.is_norm or point.W.any():
            return point, 0
        point, top = self._nothing_chosen(point)
        if self._may_jump and alpha >= _NEAR * top:
            return point, 0
        # Where q is near 1 and trials are few, a path that is too coarse loses itself among edges.
        ways = _FINE if 1 < self.q < 1.2 and self.p.shape[1] < self.Z.shape[2] else _COARSE
        return self._descend(top, alpha, point, ways, max_iter)

    def careful(self, alpha: float, max_iter: int) -> tuple[Point, int]:
        """From the zero model go down a fine path to near alpha: slow, and seldom lost."""
        point, top = self._nothing_chosen(Point.zero(*self.Z.shape))
        if not self.penalty.is_norm:
            top = float(self.trace.max())
        return self._descend(top, alpha, point, _FINE, max_iter)

    def _nothing_chosen(self, point: Point) -> tuple[Point, float]:
        """The zero model with its exact intercepts, and the least alpha at which it is the best one."""
        point, a = self._exact_intercept(point)
        norms, limited = self.atoms.dual_norms(self._descent(point, a)), self.beta > 0
        return point, float(np.max(norms[limited] / self.beta[limited], initial=0.0))

    def _descend(self, top: float, alpha: float, point: Point, ways: tuple, max_iter: int) -> tuple[Point, int]:
        """Solve at shares of ``top`` above alpha; ``ways``: their ratio, and the gap that is enough."""
        steps, (step, enough), max_iter = 0, ways, min(max_iter, self._limit)
        current = step * top
        while current > alpha and steps < max_iter:
            point, taken = self.solve(current, point, enough, max_iter - steps)
            steps += taken
            current *= step
        return point, steps

    def solve(self, alpha: float, point: Point, tol: float, max_iter: int) -> tuple[Point, int]:
        """Descend from a point until the relative gap is at most tol; return the point and the number of steps."""
        tau = alpha * self.beta
        gamma = _GAMMA / np.maximum(self.stiffness() * self.trace, 1e-300)
        steps, best, closest, waited = 0, (np.inf, point), np.inf, 0
        look, limit = 0, min(max_iter, self._limit)
        while True:
            point, a, descent, norms = self._seen_at(point)
            value, gap = self._value_and_gap(point, a, (descent, norms), tau)
            # without a norm the gap says how much is left: a decrease by less than a share of it leads nowhere
            enough = 1e-13 if self.penalty.is_norm else max(_PROGRESS * gap, 1e-13)
            waited = 0 if gap < 0.9 * closest or value < (1 - enough) * best[0] else waited + 1
            closest = min(closest, gap)
            # by its value, not by its gap: of two points without a certificate the lower one is the better model
            best = min(best, (value, point), key=lambda pair: pair[0])
            if value <= NOTHING or (gap <= tol and look > 0):
                return point, steps
            if steps >= limit:
                return best[1], steps
            present = self._present(point)
            entering = self._violators(present, norms, tau)
            # A zero model is only taken where nothing asks to enter, however little it would bring.
            if gap <= tol and not len(entering):
                return point, steps
            if waited > _PATIENCE and (not len(entering) or waited > _LIMIT):
                return best[1], steps
            known = (a, descent)
            # A new alpha first moves those that are there: many that ask to enter before that would leave again.
            if len(entering) and (look > 0 or not present.any()):
                point = self._enter(point, entering, descent, tau, gamma)
                present[entering] = True
                value, known = self.smooth_value(point.Zw, point.W, point.b) + self.atoms.value(point.W, tau), None
            elif waited and 1 < self.q < 2:
                point, value, known = *self._forward_backward(point, value, descent, tau, gamma), None
                present = self._present(point)
            goal = max(0.1 * tol, 0.05 * gap)
            taken, point = self._inner((point, value, known), present, tau, gamma, goal, max_iter - steps)
            steps += max(taken, 1)
            look += 1

    def stiffness(self) -> np.ndarray:
        """How much stiffer the similarity term makes every atom, (atoms,): 1 without it.

        A prox step bends, and bends subjects apart; where that is dear, steps through the prox must be short.
        """
        return 1 + 2 * self.similarity * self._drawn_size / np.maximum(self.trace, 1e-300)

    @cached_property
    def _drawn_size(self) -> np.ndarray:
        """How much an atom is drawn at similarity 1: its size, or its share of the trace of the A_t'A_t."""
        own = np.ones_like(self.bend) if self.alignment is None else np.sum(self.alignment**2, axis=1)
        return self.atoms.sums(own)

    # One look at the whole problem.

    def _seen_at(self, point: Point) -> tuple[Point, np.ndarray, np.ndarray, np.ndarray]:
        """Return the point with its exact intercepts, its dual variable, descent and dual norms.

        The point where one alpha ends is that where the next one begins: it is not looked at twice.
        """
        seen, similarity = self._seen
        if seen is None or seen[0] is not point or similarity != self.similarity:
            point, a = self._exact_intercept(point)
            descent = self._descent(point, a)
            self._seen = seen, _ = (point, a, descent, self.atoms.dual_norms(descent)), self.similarity
        return seen

    def _exact_intercept(self, point: Point) -> tuple[Point, np.ndarray]:
        """Solve the intercepts exactly; return the point and its dual variable, (T, n)."""
        a = self.dual(point)
        for _ in range(_FEW if self.fit_intercept else 0):
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
        return self.loss.dual_variable(point.Zw + self.y * point.b[:, None], self.p)

    def _descent(self, point: Point, a: np.ndarray) -> np.ndarray:
        descent = times(a, self.Z)
        if self.similarity:
            descent -= 2 * self.similarity * self.drawn(self.deviation(point.W))
        return descent

    def deviation(self, W: np.ndarray) -> np.ndarray:
        """W, aligned, less what it is drawn to: the centre, or the mean over subjects."""
        V = self._aligned(W)
        if self.center is not None:
            return V - self.center
        deviation = V - V.mean(axis=0)
        return deviation - deviation.mean(axis=0)  # see `Stack.deviation`

    def spread(self, direction: np.ndarray, features=slice(None)) -> np.ndarray:
        """The change of the deviation along a direction in some features, (T, m)."""
        change = self._aligned(direction, features)
        return change - change.mean(axis=0) if self.center is None else change

    def _aligned(self, W: np.ndarray, features=slice(None)) -> np.ndarray:
        """A_t w_t, of coefficients of some features, (T, m)."""
        if self.alignment is None:
            return W
        if self.kronecker is None:
            return times(W, self.alignment[:, :, features].transpose(0, 2, 1))
        whole = np.zeros(self.bend.shape)
        whole[:, features] = W
        return self.kronecker.forward(whole)

    def drawn(self, deviation: np.ndarray, features=slice(None)) -> np.ndarray:
        """A_t', for some features, times a deviation: half the gradient of its square."""
        if self.alignment is None:
            return deviation
        if self.kronecker is None:
            return times(deviation, self.alignment[:, :, features])
        return self.kronecker.backward(deviation)[:, features]

    @cached_property
    def metric(self) -> np.ndarray | None:
        """A_t'A_t, (T, d, d); the stack computes it once for all its problems, when it is asked for."""
        stack, i = self._place
        return None if stack.metric is None else to_numpy(stack.metric)[i]

    def smooth_value(self, Zw: np.ndarray, W: np.ndarray, b: np.ndarray) -> float:
        """Mean loss plus similarity term at a point."""
        value = np.vdot(self.p, self.loss.value(Zw + self.y * b[:, None]))
        if self.similarity:
            deviation = self.deviation(W)
            value += self.similarity * np.vdot(deviation, deviation)
        return float(value)

    def _present(self, point: Point) -> np.ndarray:
        """Atoms that are not zero, or never are."""
        present = np.zeros(len(self.beta), dtype=bool)
        present[self.atom_of[point.W != 0]] = True
        present |= self.beta == 0
        if not self.penalty.is_norm:
            present |= np.isfinite(self.beta)
        return present

    def _violators(self, present: np.ndarray, norms: np.ndarray, tau: np.ndarray) -> np.ndarray:
        """The absent atoms whose gradient asks most for them: few at a time.

        Many that enter together must mostly leave again, the more so the fewer trials there are; with ℓ1, where
        nothing ties neighbours together, only those may enter that do not resemble each other.
        """
        if not self.penalty.is_norm:
            return np.empty(0, dtype=int)
        outside = np.flatnonzero(~present & (norms > tau * (1 + 1e-10)))
        asking = outside[np.argsort(-norms[outside] / tau[outside], kind="stable")]
        if self.q > 1:
            least, share = self._at_once
            return asking[: max(least, int(share * present.sum()))]
        return self._unlike(asking if self._is_tiny else asking[:_MOST_AT_ONCE])

    def _unlike(self, coefficients: np.ndarray) -> np.ndarray:
        """Those of some coefficients, in order, that resemble none before them: columns of low correlation."""
        subject, feature = np.divmod(coefficients, self.Z.shape[2])
        columns = self.Z[subject, :, feature] * np.sqrt(self.p[subject])
        columns /= np.maximum(np.linalg.norm(columns, axis=1, keepdims=True), 1e-300)
        alike = np.abs(columns @ columns.T) > _ALIKE
        kept: list[int] = []
        for place in range(len(coefficients)):
            if not alike[place, kept].any():
                kept.append(place)
        return coefficients[kept]

    def _value_and_gap(self, point: Point, a: np.ndarray, slopes: tuple, tau: np.ndarray) -> tuple[float, float]:
        """Value of the problem, and the certificate's gap from what is at hand; the certificate has the last word."""
        descent, norms = slopes
        S1, S2 = a.sum(), np.vdot(a * a, self._inverse)  # S2: also the loss, since a²/(4p) = p ℓ
        if self.similarity:
            deviation = self.deviation(point.W)
            S2 += self.similarity * np.vdot(deviation, deviation)
            if self.center is not None:
                S1 -= 2 * self.similarity * np.vdot(deviation, self.center)
        value = float(S2) + self.atoms.value(point.W, tau)
        limited, kappa = self._limited, np.inf
        if not self.penalty.is_norm:
            S2 += np.sum(norms[limited] ** 2 / (2 * tau[limited]))
        elif len(limited):
            kappa = 1 / max(np.max(norms[limited] / tau[limited]), 1e-300)
        kappa = max(min(kappa, S1 / (2 * S2) if S2 > 0 else 1.0), 0.0)
        dual = kappa * S1 - kappa**2 * S2
        # What unpenalised coefficients still lack of their equalities makes the dual value too high.
        lack = 0.0
        if not self._all_penalised:
            free = (self.beta == 0)[self.atom_of]
            lack = np.sum(np.abs(descent * point.W)[free] + descent[free] ** 2 / self.bend[free])
        return value, (abs(value - dual) + lack) / value if value > 0 else 0.0

    # Steps.

    def _enter(self, point: Point, entering, descent, tau, gamma) -> Point:
        """Proximal step of the entering atoms, its common length chosen by exact line search."""
        chosen = np.zeros(len(tau), dtype=bool)
        chosen[entering] = True
        forward = np.where(chosen[self.atom_of], gamma[self.atom_of] * descent, 0.0)
        direction = self.atoms.prox(forward, gamma * tau)
        price = self.atoms.value(direction, tau)
        features = direction.any(axis=0).nonzero()[0]
        change = np.matmul(self.Z[:, :, features], direction[:, features, None])[..., 0]
        length = self._line_minimum(point, direction, change, price)
        return Point(point.W + length * direction, point.b, point.Zw + length * change)

    def _forward_backward(self, point: Point, value: float, descent, tau, gamma) -> tuple[Point, float]:
        """Proximal gradient step of all atoms, shortened until the value falls; return the point and its value.

        Where 1 < q < 2 a coefficient of exactly zero in a group that is not has no part in a Newton step, and a step
        in u that is too long for it leaves it there.
        """
        for _ in range(_MAX_SHORTER):
            gamma = gamma / 4
            W = point.W + np.where(np.isinf(tau)[self.atom_of], 0.0, gamma[self.atom_of] * descent)
            moved = self.point(self.atoms.prox(W, gamma * tau), point.b)
            reached = self.smooth_value(moved.Zw, moved.W, moved.b) + self.atoms.value(moved.W, tau)
            if reached < value:
                return moved, reached
        return point, value

    def _line_minimum(self, point: Point, direction, change, price: float) -> float:
        """Argmin over t > 0 of the objective along a direction that costs ``price`` per unit, nearly."""
        margins = point.Zw + self.y * point.b[:, None]
        bend = 0.0
        if self.similarity:
            spread = self.spread(direction)
            bend = 2 * self.similarity * np.vdot(spread, spread)
            price = price + 2 * self.similarity * np.vdot(spread, self.deviation(point.W))
        length, low, high = 1.0, 0.0, np.inf
        for _ in range(50):
            at = margins + length * change
            slope = price + bend * length - np.vdot(self.loss.dual_variable(at, self.p), change)
            curvature = bend + np.vdot(self.p * self.loss.curvature(at), change**2)
            low, high = (low, length) if slope > 0 else (length, high)
            following = length - slope / curvature if curvature > 0 else np.inf
            if not low < following < high:
                following = (low + high) / 2 if np.isfinite(high) else 2 * length
            if abs(following - length) <= 1e-3 * length:
                break
            length = following
        return length

    def _inner(
        self, start: tuple[Point, float, Slopes | None], present, tau, gamma, tol: float, max_iter: int
    ) -> tuple[int, Point]:
        """Newton steps on the present atoms until the step's predicted decrease is below tol of the value."""
        point, value, known = start
        for step in range(min(_MAX_INNER, max_iter)):
            if not (self.fit_intercept or present.any()):  # all have left, and nothing can move
                return step, point
            active = self._activate(present)
            moved = newton_step(self, point, active, tau, gamma, value, known)
            if moved is None:
                return step, point
            point, value, decrease = moved
            known = None
            if decrease <= tol * value:
                return step + 1, point
            present = self._present(point)
        return min(_MAX_INNER, max_iter), point

    def _activate(self, present: np.ndarray) -> Active:
        which = present.nonzero()[0]
        if self._active is None or not np.array_equal(which, self._active.which):
            mask = present[self.atom_of]
            features = mask.any(axis=0).nonzero()[0]
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
