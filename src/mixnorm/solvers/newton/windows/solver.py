r"""Newton's method for sensors and windows chosen together, one problem at a time.

Where a sensor and a window are present the penalty is smooth, so that Newton's method goes on the coefficients of
present sensors and windows as it does for one family of groups. What enters, and whether anything asks to, is decided
by the decomposition of the gradient into a part for the sensors and one for the windows
(`mixnorm.core.crossed_groups`). The next alpha of a path starts from the solution before it.

A step costs O(n d) for products with X and O(m³) for the factorisation, m being the number of present coefficients;
a look at the whole problem adds a decomposition, O((S + K)³) for S sensors and K windows.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from mixnorm.core.penalties import GroupNorm
from mixnorm.core.problem import Solution, Stack
from mixnorm.core.where_when import SensorsAndWindows
from mixnorm.solvers.newton.certifying import Attempt, Limits, Reached, certified, closed
from mixnorm.solvers.newton.host.solver import Newton
from mixnorm.solvers.newton.tuning import HOST
from mixnorm.solvers.newton.windows.descent import approach, solve
from mixnorm.solvers.newton.windows.problem import Problem
from mixnorm.solvers.sequence import cells


@dataclass(frozen=True)
class WindowsNewton:
    """Second-order solver for `SensorsAndWindows` on NumPy arrays of one subject."""

    def path(
        self, stack: Stack, alphas: np.ndarray, tol: float, max_iter: int, similarities: np.ndarray | None = None
    ) -> list[Solution]:
        """Solve every problem at a sequence of alphas and similarities (A, B, K), each from the solution before."""
        allowed = np.isfinite(stack.group_weights[:, : stack.groups.n_groups]).all(axis=(0, 2))
        if not allowed.all():
            inner = self.path(stack.only(allowed), alphas, tol, max_iter, similarities)
            return [_widened(solution, allowed[stack.groups.index]) for solution in inner]
        if not stack.group_weights[:, : stack.groups.n_groups].any():
            return Newton().path(_of_windows(stack), alphas, tol, max_iter, similarities)
        return self._sequence(cells(stack, alphas, similarities), Limits(tol, max_iter))

    def _sequence(self, stacks: list[Stack], limits: Limits) -> list[Solution]:
        B, T, _, d, K = stacks[0].shape
        A = len(stacks)
        reached = Reached(np.zeros((A, B, T, d, K)), np.zeros((A, B, T, K)), np.zeros((A, B, K), dtype=np.int64))
        for i, k in np.ndindex(B, K):
            problem = Problem(stacks[0], i, k)
            point = problem.zero()
            for place, cell in enumerate(stacks):
                problem.enter_cell(cell, i, k)
                point, far = approach(problem, point, limits.max_iter)
                point, near = solve(problem, point, HOST.goals[0] * limits.tol, limits.max_iter - far)
                reached.W[place, i, 0, :, k], reached.b[place, i, 0, k] = point.w, point.b
                reached.n_iter[place, i, k] = far + near
        solutions = list(certified(stacks, reached, 1))
        return closed(stacks, solutions, partial(_resume, stacks, limits), HOST.goals[1:], limits)


def _resume(stacks: list[Stack], limits: Limits, attempt: Attempt, solution: Solution) -> Reached:
    """Go on with the open problems of a cell, each from its point, or from the zero model where it is lost."""
    cell = stacks[attempt.place]
    reached = Reached(*(np.array(part)[None] for part in (solution.W, solution.b, solution.n_iter)))
    for i, k in zip(*attempt.open_.nonzero(), strict=True):
        problem = Problem(cell, i, k)
        problem.enter_cell(cell, i, k)
        point = problem.point(solution.W[i, 0, :, k], float(solution.b[i, 0, k]))
        left, far = limits.max_iter - int(solution.n_iter[i, k]), 0
        if attempt.lost[i, k]:
            point, far = approach(problem, problem.zero(), left, HOST.fine)
        point, near = solve(problem, point, attempt.goal, left - far)
        reached.W[0, i, 0, :, k], reached.b[0, i, 0, k] = point.w, point.b
        reached.n_iter[0, i, k] += far + near
    return reached


def _of_windows(stack: Stack) -> Stack:
    """Where no sensor has a norm of its own: the problem with the windows as groups."""
    penalty = stack.penalty
    assert isinstance(penalty, SensorsAndWindows)
    weights = stack.group_weights[:, stack.groups.n_groups :]
    return replace(stack, groups=penalty.windows, penalty=GroupNorm(2.0), group_weights=weights)


def _widened(solution: Solution, features: np.ndarray) -> Solution:
    """Return a solution on some features, a mask (d,), as one on all of them."""
    B, T, _, K = solution.W.shape
    W = np.zeros((B, T, len(features), K))
    W[:, :, features] = solution.W
    return replace(solution, W=W)
