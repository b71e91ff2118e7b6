"""Newton's method on one problem of a stack: looks at the whole problem, and steps on the atoms that are present."""

from dataclasses import replace

import numpy as np

from mixnorm.core.intercept import INTERCEPT_ROUNDING, solve_intercept
from mixnorm.core.problem import Stack
from mixnorm.solvers.newton.host.atoms import are_equal
from mixnorm.solvers.newton.host.entry import enter, entering_atoms
from mixnorm.solvers.newton.host.hessian import WorkingHessian
from mixnorm.solvers.newton.host.kept import Kept
from mixnorm.solvers.newton.host.state import Active, Level, Look, Point, Position
from mixnorm.solvers.newton.host.step import newton_step
from mixnorm.solvers.newton.host.terms import Terms
from mixnorm.solvers.newton.rules import is_given_up, is_progress, next_alpha
from mixnorm.solvers.newton.tuning import (
    CUT_STEPS,
    DAMPING,
    FAINT,
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
    VANISHING,
    CoarsePath,
)


class Problem(Terms):
    """One problem of a stack, with what is kept along its path."""

    def __init__(self, stack: Stack, i: int, k: int):
        super().__init__(stack, i, k)
        T, n, d = self.X.shape
        self.hessian = WorkingHessian(self.X, self.y, self.p, self.fit_intercept)
        self._active: Active | None = None
        self._look: Look | None = None
        self._look_similarity = 0.0
        self.is_tiny = self.atom_of.size <= TINY and n >= 4 * d
        self._may_jump = self.is_tiny or (T == 1 and self.q == 2 and n >= PLENTY * d)
        #: whether groups enter at a minimum (`mixnorm.solvers.newton.host.entry`)
        self.enters_precisely = T == 1 and self.q == 2 and self.penalty.is_norm and self.X.size >= PRECISE_ENTRY
        self.damping = DAMPING
        #: the last matrix that was factorised, where it may serve again, for a step or for groups that enter
        self.kept: Kept | None = None
        self._most_steps = max(MOST_STEPS, MOST_STEPS_PER_COEFFICIENT * self.atom_of.size)

    def approach(self, alpha: float, point: Point, max_iter: int) -> tuple[Point, int]:
        """From the zero model go down a coarse path to near alpha: a far jump lets too many groups enter at once.

        Where trials are many, groups that enter in vain soon leave again, and the jump is quicker. With ℓ2 no group
        enters, and only where alpha is next to nothing the jump leaves no trial inside the margin.
        """
        if point.W.any():
            return point, 0
        if not self.penalty.is_norm:
            is_near = alpha >= VANISHING * float(self.trace.max())
            return (point, 0) if is_near else self.restart(alpha, max_iter)
        point, top = self._zero_model(point)
        if self._may_jump and alpha >= NEAR * top:
            return point, 0
        few_trials = self.p.shape[1] < self.X.shape[2]
        is_fine = 1 < self.q < 2 and (alpha < FAINT * top or (self.q < 1.2 and few_trials))
        return self._go_down(top, alpha, point, HOST.fine if is_fine else HOST.coarse, max_iter)

    def restart(self, alpha: float, max_iter: int) -> tuple[Point, int]:
        """From the zero model go down the fine path to near alpha, with any penalty: slow, but it seldom fails."""
        point, top = self._zero_model(Point.zero(*self.X.shape))
        if not self.penalty.is_norm:
            top = float(self.trace.max())  # from here on the penalty has more curvature than the loss
        return self._go_down(top, alpha, point, HOST.fine, max_iter)

    def _zero_model(self, point: Point) -> tuple[Point, float]:
        """Return the zero model with its exact intercepts, and the least alpha at which it is the optimum."""
        seen, limited = self.look_at(point), self.beta > 0
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
        a = None
        while True:
            seen = self.look_at(point, a)
            point = seen.point
            value, gap = self.value_and_gap(seen, tau)
            waited = 0 if is_progress(gap, least_gap, value, best[0], self.penalty.is_norm) else waited + 1
            least_gap = min(least_gap, gap)
            # by its value, not by its gap: of two points without a certificate the lower one is the better model
            best = min(best, (value, point), key=lambda pair: pair[0])
            if gap <= tol and look > 0:
                return point, steps
            if steps >= limit:
                return best[1], steps
            present = self.present(point)
            entering = entering_atoms(self, present, seen.dual_norms, tau)
            # A zero model is only taken where nothing asks to enter, however little it would bring.
            if gap <= tol and not len(entering):
                return point, steps
            if is_given_up(waited, not len(entering), HOST):
                return best[1], steps
            position = Position(point, value, seen.a, seen)
            # At a new alpha the present atoms move first: many that ask to enter before that would leave again.
            if len(entering) and (look > 0 or not present.any()):
                position = enter(self, seen, entering, level)
                present = self.present(position.point)
            elif waited and 1 < self.q < 2:
                position = self._proximal_step(seen, value, level)
                present = self.present(position.point)
            goal = max(0.1 * tol, 0.05 * gap)
            # Where nothing asked to enter, there is no reason to look again before Newton's method has converged. With
            # ℓ2 there is: its gap falls with the square of the error, and is often reached a step earlier.
            goals = (goal if len(entering) or not self.penalty.is_norm else 0.1 * tol, goal)
            taken, position = self.inner(position, present, level, goals, max_iter - steps)
            point, a = position.point, position.a
            steps += max(taken, 1)
            look += 1

    # One look at the whole problem.

    def look_at(self, point: Point, a: np.ndarray | None = None) -> Look:
        """Look at a point, its intercepts solved exactly; a is its dual variable, where that is known.

        The point where one alpha ends is that where the next one begins: it is not looked at twice.
        """
        if self._look is None or self._look.point is not point or self._look_similarity != self.similarity:
            point, a = self._exact_intercept(point, self.dual(point) if a is None else a)
            descent = self.descent(point, a)
            self._look = Look(point, a, descent, self.atoms.dual_norms(descent))
            self._look_similarity = self.similarity
        return self._look

    def _exact_intercept(self, point: Point, a: np.ndarray) -> tuple[Point, np.ndarray]:
        """Solve the intercepts exactly; return the point and its dual variable, (T, n)."""
        for _ in range(INTERCEPT_STEPS if self.fit_intercept else 0):
            pull = np.vecdot(a, self.y)
            if not np.count_nonzero(np.abs(pull) > 2e-15 * a.sum(axis=1)):
                break
            slope = 2 * np.vecdot(self.p, a > 0)
            step = pull / np.where(slope > 0, slope, np.inf)
            if not np.count_nonzero(np.abs(step) > INTERCEPT_ROUNDING * (1 + np.abs(point.b))):
                break
            point = Point(point.W, point.b + step, point.Zw)
            a = self.dual(point)
        else:
            if self.fit_intercept:  # seldom: the general method keeps it in a bracket
                args = (self.y * point.Zw)[..., None], self.y[..., None], self.p[..., None], point.b[:, None]
                point = Point(point.W, solve_intercept(self.loss, *args)[:, 0], point.Zw)
                a = self.dual(point)
        return point, a

    def present(self, point: Point) -> np.ndarray:
        """Atoms that are not zero, or never are."""
        present = self.atoms.sums(point.W != 0) > 0
        if not self._all_penalised:
            present |= self.beta == 0
        if not self.penalty.is_norm:
            present |= np.isfinite(self.beta)
        return present

    # Steps.

    def _proximal_step(self, look: Look, value: float, level: Level) -> Position:
        """Proximal gradient step of all atoms, shortened until the value falls; the same point where it never does.

        Where 1 < q < 2 a coefficient of exactly zero in a group that is not has no part in a Newton step, and a step
        in u that is too long for it leaves it there.
        """
        point, (tau, gamma) = look.point, level
        for _ in range(SHORTER_STEPS):
            gamma = gamma / 4
            W = point.W + np.where(np.isinf(tau)[self.atom_of], 0.0, gamma[self.atom_of] * look.descent)
            moved = self.position(self.point(self.atoms.prox(W, gamma * tau), point.b), tau)
            if moved.value < value:
                return moved
        return Position(point, value, look.a, look)

    def inner(
        self, position: Position, present: np.ndarray, level: Level, goals: tuple[float, float], max_iter: int
    ) -> tuple[int, Position]:
        """Newton steps on the present atoms until a step's predicted decrease is below a goal, a share of the value.

        The first goal is for steps of any kind, the second for steps that converge slowly. After a step in which an
        atom left there is another one, because all others moved as if that atom went on beyond zero.
        """
        most, (quick, slow), before, n_cut = min(INNER_STEPS, max_iter), goals, np.inf, 0
        active = self.activate(present)
        for step in range(most):
            if not (self.fit_intercept or len(active.which)):  # all have left, and nothing can move
                return step, position
            moved = newton_step(self, position, active, level)
            if moved is None:
                return step, position
            position, former = moved.position, active
            if moved.has_zeros:
                active = self.activate(self.present(position.point))
            # What a step promises that must be cut short says little about what is left: a trial has come inside the
            # margin, and the next step knows it, unless the intercepts are solved between them and put it out again.
            n_cut = 0 if moved.is_whole else n_cut + 1
            goal = slow if moved.decrease > 0.1 * before else quick
            if moved.decrease <= goal * position.value and active is former and not 0 < n_cut < CUT_STEPS:
                return step + 1, position
            before = moved.decrease
        return most, position

    def activate(self, present: np.ndarray) -> Active:
        """Return the coordinates of the present atoms; the same object as long as the atoms are the same."""
        which = present.nonzero()[0]
        if self._active is None or not are_equal(which, self._active.which):
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
            known = self.hessian.rows(columns)
            self._active = Active(which, atoms, features, columns, *known, self.bend[:, features], self.trace[which])
        return self._active
