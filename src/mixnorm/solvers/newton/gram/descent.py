r"""The path of one problem in the Gram matrix: Newton steps, groups that enter, and trials that cross the margin.

A step sees the trials that K counts as if all of them stayed inside the margin and no other came. So after every step
the margins are computed (a *check*), K is changed by the trials that have crossed, and what it says is exact again.
Groups enter at once where the gain they promise is not far below that of the last step. Where few trials are inside
the margin, K has little curvature, and many groups that enter at once must leave again: there they enter once the
present ones have nearly settled.

The next alpha begins on the tangent of the path (`mixnorm.solvers.newton.host.predictor`), M dw/dalpha = −s, with the
trials inside the margin that are expected there.
"""

import numpy as np
from scipy.optimize import brentq

from mixnorm.solvers.newton.gram.problem import GramProblem
from mixnorm.solvers.newton.gram.step import Place, entered, newton_step
from mixnorm.solvers.newton.gram.system import Factor
from mixnorm.solvers.newton.rules import (
    Scalars,
    asks_to_enter,
    gap_estimate,
    is_given_up,
    is_progress,
    next_alpha,
    number_to_enter,
    unmet_equality,
)
from mixnorm.solvers.newton.tuning import GRAM, HOST, LEAVES, MOST_STEPS


class Descent:
    """Follows the path of one problem from alpha to alpha.

    Attributes
    ----------
    place : Place
        Where it stands: at first the zero model.
    gap : float
        Estimate of its relative gap at the alpha of the last call of `solve`.
    """

    def __init__(self, problem: GramProblem):
        self._problem = problem
        v = problem.zero()
        self.place = Place.of(v, problem.times(v), np.zeros(len(problem.beta)), problem.beta)
        self.gap = np.inf
        #: 1 − m of every trial at the last check
        self._short = problem.shortfalls(v)
        self._factor: Factor | None = None
        self._alpha = np.inf
        self._limit = HOST.entry_limit(len(problem.y) / len(problem.features))

    def solve(self, alpha: float, tol: float, max_iter: int) -> int:
        """Descend until the relative gap is at most tol, by its estimate; return the number of steps.

        From the zero model a far alpha is approached by others, so that few groups enter at once.
        """
        steps, top = 0, 0.0
        if not self.place.norms.any():
            top = float((self._dual_norms() / self._problem.beta).max())
        between = float(next_alpha(np, alpha, top, GRAM.coarse.ratio))
        while between > alpha:
            steps += self._descend(between, GRAM.coarse.gap, max_iter - steps)
            between = float(next_alpha(np, alpha, between, GRAM.coarse.ratio))
        return steps + self._descend(alpha, tol, max_iter - steps)

    def _descend(self, alpha: float, tol: float, max_iter: int) -> int:
        """Descend at one alpha."""
        tau, most = alpha * self._problem.beta, min(max_iter, MOST_STEPS)
        checked = self.place = self._place_at(tau)
        decrease, steps, waited, least_gap, least_value = np.inf, 0, 0, np.inf, np.inf
        is_checked = not self._predict(alpha, tau)
        self._alpha = alpha
        while True:
            place, dual_norms = self.place, self._dual_norms()
            gap = self._gap(tau, dual_norms)
            if is_checked:
                better = is_progress(gap, least_gap, place.value, least_value, is_norm=True)
                waited, checked = 0 if better else waited + 1, place
                least_gap, least_value = min(gap, least_gap), min(place.value, least_value)
                self.gap = gap
                if gap <= tol:
                    break
            entering = self._entering(dual_norms, tau, decrease)
            if steps >= most or is_given_up(waited, not len(entering), HOST):
                break
            if len(entering):
                self.place, is_checked = entered(self._problem, place, entering, dual_norms, tau), False
            elif (gap <= tol and not is_checked) or not np.count_nonzero(place.norms):
                self._check(checked, tau)
                is_checked = True
                continue
            there, self._factor, promised = newton_step(self._problem, self.place, tau, self._factor, decrease)
            if there is self.place:  # no part of the step lowers the value
                break
            # 0 where all trials that were expected inside have left
            self.place, decrease = there, promised / there.value if there.value > 0 else np.inf
            steps += 1
            self._check(checked, tau)
            is_checked = True
        if not is_checked:
            self._check(checked, tau)
            self.gap = self._gap(tau, self._dual_norms())
        return steps

    def _place_at(self, tau: np.ndarray) -> Place:
        """Return the present point at other thresholds; by a new K where the present one has lost its digits."""
        v, slope, norms, *_ = self.place
        return Place.of(v, self._problem.times(v) if self._problem.refresh() else slope, norms, tau)

    def _dual_norms(self) -> np.ndarray:
        """‖·‖ of every group's gradient, (G,)."""
        return self._problem.groups.norms(self.place.slope[self._problem.free : -1])

    def _gap(self, tau: np.ndarray, dual_norms: np.ndarray) -> float:
        """Estimate the certificate's gap; after a check its value is exact but for rounding."""
        problem, place, lack = self._problem, self.place, 0.0
        if problem.free and problem.gram[0, 0] > 0:
            lack = unmet_equality(float(place.slope[0]), float(place.v[0]), float(problem.gram[0, 0]))
        ratio = float((dual_norms / tau).max())
        return gap_estimate(Scalars, place.value, -float(place.slope[-1]), place.smooth, ratio, lack)

    def _entering(self, dual_norms: np.ndarray, tau: np.ndarray, decrease: float) -> np.ndarray:
        """Return the absent groups that enter now, of those whose gradient asks for it the largest first.

        The gain of a group is that of its proximal step: a lower bound, and often a small part of what it brings.
        """
        place = self.place
        n_present = np.count_nonzero(place.norms)
        if n_present == len(tau):
            return np.zeros(0, dtype=np.intp)
        asking = ((place.norms == 0) & asks_to_enter(dual_norms, tau)).nonzero()[0]
        if not len(asking):
            return asking
        excess = dual_norms[asking] - tau[asking]
        gain = float((excess * excess / self._problem.trace[asking]).sum()) / 2
        is_few = self._problem.n_inside < GRAM.few * len(self._problem.features)
        is_first = not n_present or not (is_few or np.isfinite(decrease))
        worth = GRAM.entry_few if is_few else GRAM.entry
        if not (is_first or decrease * place.value <= worth * gain or decrease <= GRAM.settled):
            return asking[:0]
        most = number_to_enter(np, self._limit, n_present)
        return asking[np.argsort(-dual_norms[asking] / tau[asking], kind="stable")][: int(most)]

    def _check(self, before: Place, tau: np.ndarray) -> None:
        """Compute the margins, and let K count the trials inside.

        ``before``: the place of the check before. Where the value is higher than there, the best point between the two
        takes the place of this one.
        """
        problem, v = self._problem, self.place.v
        short = problem.shortfalls(v)
        slope = problem.times(v) if self._count(short > 0) else self.place.slope
        self.place = Place.of(v, slope, self.place.norms, tau)
        if self.place.value > before.value + problem.rounding:
            self._step_back(before, short, tau)
        else:
            self._short = short

    def _count(self, inside: np.ndarray) -> int:
        """Let K count the trials that are inside the margin; return how many have crossed it."""
        crossed = self._problem.move_to(inside)
        if self._factor is not None:
            self._factor.crossed += crossed
        return crossed

    def _step_back(self, before: Place, short: np.ndarray, tau: np.ndarray) -> None:
        """Go to the least value between the place of the check before and this one."""
        problem, here = self._problem, self.place
        change, ahead = here.v - before.v, short - self._short
        w, dw = before.v[problem.free : -1], change[problem.free : -1]
        groups, p = problem.groups, problem.p

        def derivative(s: float) -> float:
            at = w + s * dw
            norms = groups.norms(at)
            pull = float(tau @ (groups.sums(at * dw) / np.where(norms > 0, norms, 1.0)))
            loss = 2 * float((p * np.maximum(self._short + s * ahead, 0.0)) @ ahead)
            return loss + problem.ridge * float(at @ dw) + pull

        length = brentq(derivative, 0.0, 1.0, disp=False) if derivative(0.0) < 0 < derivative(1.0) else 0.0
        v = before.v + length * change
        self._short = problem.shortfalls(v)
        self._count(self._short > 0)
        self.place = Place.of(v, problem.times(v), groups.norms(v[problem.free : -1]), tau)

    # The next alpha.

    def _tangent(self) -> np.ndarray | None:
        """Return the derivative of v by −alpha; None where the last factor is not that of the present groups."""
        problem, place, factor = self._problem, self.place, self._factor
        own = problem.coordinates(place.norms > 0)
        if factor is None or factor.own is not own:
            return None
        right = np.zeros(len(own.places))
        weight = own.of_groups(problem.beta) / own.of_groups(place.norms)
        right[problem.free :] = weight[own.label] * own.of(place.v)[problem.free :]
        return own.to(factor.solve(right), place.v, 0.0)

    def _predict(self, alpha: float, tau: np.ndarray) -> bool:
        """Go to the tangent of the path, with the trials expected inside the margin; return whether there is one."""
        problem, place = self._problem, self.place
        tangent = self._tangent() if alpha < self._alpha < np.inf else None
        if tangent is None:
            return False
        inner, length = slice(problem.free, -1), self._alpha - alpha
        v = place.v + length * tangent
        # On the other side of its zero the gradient of a group's norm has the other direction.
        passed = problem.groups.sums(place.v[inner] * v[inner]) < 0
        short = self._short + np.float32(length) * problem.derivative(tangent)
        if passed.any():
            v[inner] = np.where(passed[problem.groups.label], place.v[inner], v[inner])
            short = problem.shortfalls(v)
        # To count a trial that has left costs little; without one that has not, the step may be far too long.
        expected = (short > 0) | ((self._short > 0) & (short > -LEAVES * self._short))
        self._count(expected)
        self.place = Place.of(v, problem.times(v), problem.groups.norms(v[inner]), tau)
        return True
