r"""Newton's method on a whole stack of problems at once, for arrays of any library.

The step is that of `mixnorm.solvers.newton.host.solver`, taken by all B × K problems together: batched Hessians on the
trials inside the margin, batched Cholesky factorisations, several step lengths tried at once. Each problem has its own
active groups and its own place on its path. A step costs, for m active coordinates of T subjects, O(T m² n) for the
Hessian and O(T m³) for its factor, and two products with X.
"""

from dataclasses import dataclass

import numpy as np

from mixnorm.core.arrays import Array, like, namespace, to_numpy, where_problems
from mixnorm.core.certificate import polish
from mixnorm.core.problem import Solution, Stack
from mixnorm.solvers.first_order.fista import Fista
from mixnorm.solvers.newton.batched.memory import chunks, free_bytes
from mixnorm.solvers.newton.batched.problems import Point, StackedProblems
from mixnorm.solvers.newton.batched.run import Again, StackedRun
from mixnorm.solvers.newton.batched.state import Found
from mixnorm.solvers.newton.certifying import Attempt, Limits, Reached, certified, closed, is_open
from mixnorm.solvers.newton.tuning import BATCHED
from mixnorm.solvers.sequence import cells


@dataclass(frozen=True)
class StackedNewton:
    """Second-order solver of whole stacks for ℓ2, ℓ1 and ℓ1-ℓq, 1 < q ≤ 2; first order for what it leaves open.

    Requires of the loss a piecewise constant curvature, of the array library ``linalg``.
    """

    def path(
        self, stack: Stack, alphas: Array, tol: float, max_iter: int, similarities: Array | None = None
    ) -> list[Solution]:
        """Solve every problem at a sequence of alphas and similarities (A, B, K), each from the solution before."""
        parts = chunks(stack)
        if len(parts) == 1:
            return _solve_chunk(cells(stack, alphas, similarities), tol, max_iter)
        xp = namespace(stack.X)

        def rectangle(grid, rows, columns):
            return None if grid is None else xp.take(xp.take(grid, rows, axis=1), columns, axis=2)

        solved = []
        for part in parts:
            place = [like(stack.X, index, dtype=xp.int64) for index in part]
            grids = [rectangle(grid, *place) for grid in (alphas, similarities)]
            solved.append(_solve_chunk(cells(stack.take(*place), *grids), tol, max_iter))
        return [_assemble(parts, pieces) for pieces in zip(*solved, strict=True)]


def _assemble(parts: list, pieces: tuple[Solution, ...]) -> Solution:
    """Put the solutions of rectangles together: columns side by side, then data sets one below the other."""
    by_rows: dict[int, list[Solution]] = {}
    for (rows, _), piece in zip(parts, pieces, strict=True):
        by_rows.setdefault(int(rows[0]), []).append(piece)
    return Solution.join([Solution.join(side) for side in by_rows.values()], axis=0)


def _solve_chunk(stacks: list[Stack], tol: float, max_iter: int) -> list[Solution]:
    """Solve stacks that differ in alpha and similarity alone, each from the solution before."""
    chunk, limits = _Chunk.of(stacks, max_iter), Limits(tol, max_iter)
    W, b, _ = polish(stacks[0], *stacks[0].start())
    start = _point(chunk.problems, W, b)
    found = chunk.run.follow(chunk.alphas, chunk.similarities, start, BATCHED.goals[0] * tol)
    reached = _collect(chunk.problems, found)
    solutions = list(certified(stacks, reached, _cells_at_once(stacks[0])))
    solutions = closed(stacks, solutions, chunk.resume, BATCHED.goals[1:], limits)
    return [_first_order(cell, solution, limits) for cell, solution in zip(stacks, solutions, strict=True)]


@dataclass(frozen=True, eq=False)
class _Chunk:
    """The problems of a chunk, what runs them along paths, and their alphas and similarities, (A, P)."""

    problems: StackedProblems
    run: StackedRun
    alphas: Array
    similarities: Array

    @classmethod
    def of(cls, stacks: list[Stack], max_iter: int) -> "_Chunk":
        """Lay out the problems of stacks that differ in alpha and similarity alone."""
        xp, problems = namespace(stacks[0].X), StackedProblems(stacks[0])
        alphas, similarities = (
            xp.reshape(xp.stack([getattr(c, name) for c in stacks]), (len(stacks), -1))
            for name in ("alpha", "similarity")
        )
        # without other subjects or a centre the similarity has no effect
        return cls(problems, StackedRun(problems, max_iter), alphas, similarities if problems.similar else 0 * alphas)

    def resume(self, attempt: Attempt, solution: Solution) -> Reached:
        """Go on with the open problems of a cell, all at once from where they are.

        Those that are lost too: their path was a fine one already, and the first-order method comes after.
        """
        again = Again(attempt.open_.ravel(), namespace(solution.n_iter).reshape(solution.n_iter, (-1,)))
        start, place = _point(self.problems, solution.W, solution.b), attempt.place
        alphas, similarities = (values[place : place + 1, :] for values in (self.alphas, self.similarities))
        found = self.run.follow(alphas, similarities, start, attempt.goal, again)
        return _replaced(self.problems, solution, found, again.only)


def _cells_at_once(stack: Stack) -> int:
    """How many cells of a path are certified at once: as many as fit."""
    B, T, n, d, K = stack.shape
    return max(1, int(free_bytes(stack.X) // (8 * B * T * K * (16 * n + 8 * d))))


def _point(problems: StackedProblems, W: Array, b: Array) -> Point:
    xp = problems.xp
    slots = problems.slots(W)
    b = xp.reshape(xp.permute_dims(b, (0, 2, 1)), (problems.P, problems.T))
    return Point(slots, b, problems.scores(slots[:, None, ...])[:, 0, ...])


def _collect(problems: StackedProblems, found: Found) -> Reached:
    """Return the points of the cells of the paths."""
    xp, A = problems.xp, len(found.n_iter)
    # copies: what was kept is overwritten by the next run
    W, b = (xp.asarray(part, copy=True) for part in (found.W, found.b))
    b = xp.reshape(b, (A, problems.B, problems.K, problems.T))
    counts = like(b, found.n_iter.reshape(A, problems.B, problems.K), dtype=xp.int64)
    return Reached(problems.coefficients(W), xp.permute_dims(b, (0, 1, 3, 2)), counts)


def _replaced(problems: StackedProblems, before: Solution, again: Found, only: np.ndarray) -> Reached:
    """Return the points of a solution; in the place of some, a mask (P,), those that were found again."""
    reached, shape = _collect(problems, again), before.gap.shape
    wins = like(before.gap, only.reshape(shape), dtype=namespace(before.gap).bool)
    pairs = zip(reached, (before.W, before.b, before.n_iter), strict=True)
    return Reached(*(where_problems(wins, mine[0, ...], other)[None, ...] for mine, other in pairs))


def _first_order(stack: Stack, solution: Solution, limits: Limits) -> Solution:
    """Give what is still open to the first-order method, from where it stands."""
    open_, steps = is_open(solution, limits), to_numpy(solution.n_iter)
    for i in np.flatnonzero(open_.any(axis=1)).tolist():
        # Those that took as many steps together: the steps that are left to a problem must not depend on the others.
        for taken in np.unique(steps[i, open_[i]]):
            place = [like(solution.n_iter, index) for index in ([i], np.flatnonzero(open_[i] & (steps[i] == taken)))]
            solution = _put(solution, stack, place, limits)
    return solution


def _put(solution: Solution, stack: Stack, place: list[Array], limits: Limits) -> Solution:
    """Solve some columns of one data set by FISTA; the solution with what that found."""
    xp = namespace(solution.W)
    rows, columns = place
    start = tuple(xp.take(xp.take(v, rows, axis=0), columns, axis=v.ndim - 1) for v in (solution.W, solution.b))
    i = int(rows[0])
    left = limits.max_iter - int(xp.max(xp.take(solution.n_iter[i, :], columns)))
    found = Fista().solve(stack.take(rows, columns), limits.tol, left, start)
    after = {}
    for name in ("W", "b", "objective", "gap", "n_iter"):
        value = xp.asarray(getattr(solution, name), copy=True)
        for at, k in enumerate(to_numpy(columns).tolist()):
            value[i, ..., k] = getattr(found, name)[0, ..., at] + (value[i, k] if name == "n_iter" else 0)
        after[name] = value
    return Solution(**after)
