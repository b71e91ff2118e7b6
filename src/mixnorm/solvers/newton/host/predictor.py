r"""The first step at the next alpha of a path, from what the last two solutions say about the third.

Where no group enters or leaves and no trial crosses the margin, the path is smooth: linear in alpha where nearly all
trials inside the margin are fitted, and nearly linear in log alpha before that. So the next solution is expected on
the line through the last two, and the first Newton step is taken there instead of at the last solution.

That step must know which trials will be inside the margin. With r = 1 − m at the last solution and r' on the line, a
trial that is inside counts as one that leaves only where r' < −LEAVES r. To expect a trial inside that has left costs
little; one that is left out wrongly lets the step go where nothing holds it, above all where few trials are inside.

Nor may the line take a group across its zero: on the other side the gradient of its norm points the other way, and a
Newton step from there can be far too long. Such a group stays where it is, and the step lets it leave. It saves up to
8 % of the work, on top of what lets present groups move first.
"""

from typing import NamedTuple

import numpy as np

from mixnorm.solvers.newton.host.descent import Problem
from mixnorm.solvers.newton.host.state import Look, Point, Position
from mixnorm.solvers.newton.host.step import Moved, newton_step
from mixnorm.solvers.newton.tuning import LEAVES, PRESENT_FIRST

#: The line is followed at most so many times the distance of the last two solutions.
_FURTHEST = 2.0


class _Solved(NamedTuple):
    """A solution of the path, and what it is the solution of."""

    point: Point
    alpha: float
    similarity: float
    beta: np.ndarray

    def follows(self, other: "_Solved") -> bool:
        """Whether this is the same problem at a smaller alpha."""
        return self.alpha < other.alpha and self.similarity == other.similarity and self.beta is other.beta


class Predictor:
    """Predicts the solutions along the path of one problem."""

    def __init__(self, problem: Problem):
        self._problem = problem
        self._before: _Solved | None = None
        self._last: _Solved | None = None

    def add(self, alpha: float, point: Point) -> None:
        """Remember a solution."""
        problem = self._problem
        self._before, self._last = self._last, _Solved(point, alpha, problem.similarity, problem.beta)

    def step(self, alpha: float, point: Point, tol: float, max_iter: int) -> tuple[Point, int]:
        """Take the first step at an alpha, if two solutions allow it; return the point and the number of steps.

        Where no atom of a norm is absent, and so none can enter, more steps need no look at the whole problem before.
        With fewer trials than coefficients they come before it too: present atoms that are not yet where they belong
        let many others ask to enter that must leave again.
        """
        problem, last, before = self._problem, self._last, self._before
        if last is None or before is None or point is not last.point or not before.point.W.any():
            return point, 0
        new = last._replace(alpha=alpha, similarity=problem.similarity, beta=problem.beta)
        if not (new.follows(last) and last.follows(before)):
            return point, 0
        furthest = min(np.log(last.alpha / alpha) / np.log(before.alpha / last.alpha), _FURTHEST)
        there = self._beyond(before.point, point, furthest, alpha * problem.beta)
        moved = None if there is None else self._newton(point, *there, alpha)
        if moved is None:
            return point, 0
        present = problem.present(moved.position.point)
        goals = self._goals(moved, present, tol)
        if goals is None or max_iter < 2:
            return moved.position.point, 1
        taken, position = problem.inner(moved.position, present, problem.level(alpha), goals, max_iter - 1)
        return position.point, 1 + taken

    def _goals(self, moved: Moved, present: np.ndarray, tol: float) -> tuple[float, float] | None:
        """How far the present atoms are moved before others may enter; None: no further."""
        if not self._problem.penalty.is_norm:
            return None
        if present.all():
            return 0.1 * tol, np.inf
        _, n, d = self._problem.Z.shape
        is_near = moved.is_whole and moved.decrease <= PRESENT_FIRST * moved.position.value
        return None if n >= d or is_near else (PRESENT_FIRST, PRESENT_FIRST)

    def _beyond(self, before: Point, here: Point, furthest: float, tau: np.ndarray) -> tuple[Point, float] | None:
        """Return the point on the line where a parabola has its minimum, and the value here; None: nothing is gained.

        The parabola goes through the value here, with its slope, and the value at the furthest point.
        """
        problem = self._problem
        line = _Line.through(before, here, furthest, problem)
        seen = problem.look_at(here)
        value, _ = problem.value_and_gap(seen, tau)
        slope = problem.slope(seen, line.W, tau) * furthest
        drop = problem.position(line.at(here, furthest), tau).value - value
        if not (drop < 0 and slope < 0):
            return None
        return line.at(here, furthest * min(1.0, slope / (2 * (slope - drop)))), value

    def _newton(self, here: Point, point: Point, value: float, alpha: float) -> Moved | None:
        """Newton step at a point, with the trials inside the margin that are expected; None where it fails.

        ``value``: what it must improve on, the value where the path stands.
        """
        problem, damping = self._problem, self._problem.damping
        short, was_short = (1 - problem.margins(at) for at in (point, here))
        expected = (short > 0) | ((was_short > 0) & (short > -LEAVES * was_short))
        a = np.where(expected, 2 * problem.p * short, 0.0)
        look = Look(point, a, problem.descent(point, a), np.empty(0))
        position = Position(point, value, a, look)
        moved = newton_step(problem, position, problem.activate(problem.present(point)), problem.level(alpha))
        if moved is None:
            problem.damping = damping  # the prediction failed, not Newton's method
        return moved


class _Line(NamedTuple):
    """The line through two solutions, its coefficients (T, d), intercepts (T,) and scores (T, n)."""

    W: np.ndarray
    b: np.ndarray
    Zw: np.ndarray

    @classmethod
    def through(cls, before: Point, here: Point, furthest: float, problem: Problem) -> "_Line":
        W, b, Zw = here.W - before.W, here.b - before.b, here.Zw - before.Zw
        stays = (here.W == 0) & (W != 0)  # what has left stays away
        if problem.penalty.is_norm:
            stays |= (problem.atoms.sums(here.W * (here.W + furthest * W)) < 0)[problem.atom_of]
        if stays.any():
            W = np.where(stays, 0.0, W)
            Zw = problem.point(W, b).Zw
        return cls(W, b, Zw)

    def at(self, here: Point, length: float) -> Point:
        return Point(here.W + length * self.W, here.b + length * self.b, here.Zw + length * self.Zw)
