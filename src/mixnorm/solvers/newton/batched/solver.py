r"""Newton's method on a whole stack of problems at once, for arrays of any library.

The step is that of `newton` (Robinson's normal map on the active groups), taken by all B × K problems together:
batched Hessians on the trials inside the margin, batched Cholesky factorisations, several step lengths tried at once.
Every problem has its own active groups and stands at its own place of its path. A step costs, for m active coordinates
of T subjects, O(T m² n) for the Hessian and O(T m³) for its factor, and two products with X.
"""

from dataclasses import dataclass, replace

import numpy as np

from mixnorm.core.arrays import Array, like, namespace, to_numpy, where_problems
from mixnorm.core.certificate import certify, polish, relative_gap
from mixnorm.core.problem import Solution, Stack
from mixnorm.solvers.first_order.fista import Fista
from mixnorm.solvers.newton.batched.memory import chunks, free_bytes
from mixnorm.solvers.newton.batched.problems import Point, StackedProblems
from mixnorm.solvers.newton.batched.run import Found, StackedRun
from mixnorm.solvers.sequence import cells

#: The solver's own estimate of the gap is not the certificate: it aims lower, and lower still where that is open.
_GOALS = (0.7, 0.1, 0.01)


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
        return [_assemble(parts, pieces) for pieces in zip(*solved)]


def _assemble(parts: list, pieces: tuple[Solution, ...]) -> Solution:
    """Put the solutions of rectangles together: columns side by side, then data sets one below the other."""
    by_rows: dict[int, list[Solution]] = {}
    for (rows, _), piece in zip(parts, pieces):
        by_rows.setdefault(int(rows[0]), []).append(piece)
    return Solution.join([Solution.join(side) for side in by_rows.values()], axis=0)


def _solve_chunk(stacks: list[Stack], tol: float, max_iter: int) -> list[Solution]:
    """Solve stacks that differ in alpha and similarity alone, each from the solution before."""
    xp = namespace(stacks[0].X)
    problems = StackedProblems(stacks[0])
    A = len(stacks)
    tables = [xp.reshape(xp.stack([getattr(c, name) for c in stacks]), (A, -1)) for name in ("alpha", "similarity")]
    if not problems.similar:
        tables[1] = 0 * tables[1]  # nobody to be similar to
    W, b, _ = polish(stacks[0], *stacks[0].start())
    run = StackedRun(problems, max_iter)
    found = run.follow(*tables, _point(problems, W, b), _GOALS[0] * tol)
    solutions = _certified(stacks, *_collect(problems, found, A))
    for goal in _GOALS[1:]:
        for j, solution in enumerate(solutions):
            open_ = to_numpy((solution.gap > tol) & (solution.n_iter < max_iter))
            if open_.any():
                path = [values[j : j + 1, :] for values in tables]
                start = _point(problems, solution.W, solution.b)
                again = run.follow(*path, start, goal * tol, (open_.ravel(), _per_problem(solution.n_iter)))
                solutions[j] = _better(stacks[j], solution, again, problems)
    return [_first_order(cell, solution, tol, max_iter) for cell, solution in zip(stacks, solutions)]


def _per_problem(values: Array) -> Array:
    """Return (B, K) as (P,)."""
    return namespace(values).reshape(values, (-1,))


def _point(problems: StackedProblems, W: Array, b: Array) -> Point:
    xp = problems.xp
    slots = problems.slots(W)
    b = xp.reshape(xp.permute_dims(b, (0, 2, 1)), (problems.P, problems.T))
    return Point(slots, b, problems.scores(slots[:, None, ...])[:, 0, ...])


def _collect(problems: StackedProblems, found: Found, A: int) -> tuple[Array, Array, Array]:
    """Return W (A, B, T, d, K), b (A, B, T, K) and n_iter (A, B, K) of what was found, in whatever order."""
    xp = problems.xp
    order, n_iter = np.empty((2, A, problems.P), dtype=np.int64)
    for i, (key, count) in enumerate(zip(found.keys, found.n_iter)):
        order[key], n_iter[key] = i, count
    W, b = (xp.concat(part, axis=0) for part in (found.W, found.b))
    rows = like(W, order.ravel(), dtype=xp.int64)
    W = xp.reshape(xp.take(W, rows, axis=0), (A, problems.P, problems.G, problems.T, problems.r))
    b = xp.reshape(xp.take(b, rows, axis=0), (A, problems.B, problems.K, problems.T))
    counts = like(b, n_iter.reshape(A, problems.B, problems.K), dtype=xp.int64)
    return problems.coefficients(W), xp.permute_dims(b, (0, 1, 3, 2)), counts


def _certified(stacks: list[Stack], W: Array, b: Array, n_iter: Array) -> list[Solution]:
    """Certify the points of many alphas at once, as more columns of one stack."""
    B, T, n, d, K = stacks[0].shape
    together = max(1, int(free_bytes(W) // (8 * B * T * K * (16 * n + 8 * d))))
    solutions = []
    for first in range(0, len(stacks), together):
        part = slice(first, min(first + together, len(stacks)))
        wide = _side_by_side(stacks[part])
        found = certify(wide, _columns_last(W[part, ...]), _columns_last(b[part, ...]))
        for j in range(len(stacks[part])):
            own = slice(j * K, (j + 1) * K)
            values = (found.W, found.b, found.primal, found.gap)
            solutions.append(Solution(*(value[..., own] for value in values), n_iter[first + j, ...]))
    return solutions


def _side_by_side(stacks: list[Stack]) -> Stack:
    """Return one stack whose columns are those of stacks that differ in alpha and similarity alone."""
    xp = namespace(stacks[0].X)
    names = ["sample_weight", "alpha", "group_weights", "similarity"]
    names += ["center"] if stacks[0].center is not None else []
    return replace(stacks[0], **{name: xp.concat([getattr(s, name) for s in stacks], axis=-1) for name in names})


def _columns_last(values: Array) -> Array:
    """Return (A, ..., K) as (..., A K)."""
    xp = namespace(values)
    moved = xp.moveaxis(values, 0, -2)
    return xp.reshape(moved, (*moved.shape[:-2], -1))


def _better(stack: Stack, before: Solution, again: Found, problems: StackedProblems) -> Solution:
    """Take what was found again where its value is lower."""
    xp = namespace(before.W)
    W, b, n_iter = before.W, before.b, before.n_iter
    slots = xp.reshape(problems.slots(W), (problems.P, -1))
    intercepts = xp.reshape(xp.permute_dims(b, (0, 2, 1)), (problems.P, problems.T))
    rows = np.arange(problems.P)
    steps = to_numpy(_per_problem(n_iter)).copy()
    for i, ((_, p), count) in enumerate(zip(again.keys, again.n_iter)):
        rows[p], steps[p] = problems.P + i, count
    place = like(W, rows, dtype=xp.int64)
    slots = xp.take(xp.concat([slots, *again.W], axis=0), place, axis=0)
    b = xp.take(xp.concat([intercepts, *again.b], axis=0), place, axis=0)
    W = problems.coefficients(xp.reshape(slots, (1, problems.P, problems.G, problems.T, problems.r)))
    b = xp.permute_dims(xp.reshape(b, (1, problems.B, problems.K, problems.T)), (0, 1, 3, 2))
    n_iter = like(W, steps.reshape(problems.B, problems.K), dtype=xp.int64)
    return _merge(before, _certified([stack], W, b, n_iter[None, ...])[0])


def _merge(before: Solution, after: Solution) -> Solution:
    """The points of lower value, with the better of both lower bounds of the optimum."""
    xp = namespace(before.gap)
    wins = (after.objective < before.objective) | ~xp.isfinite(before.gap)
    pairs = [(getattr(after, name), getattr(before, name)) for name in ("W", "b", "objective")]
    W, b, objective = (where_problems(wins, *pair) for pair in pairs)
    bounds = [xp.where(xp.isfinite(s.gap), s.objective * (1 - s.gap), 0.0) for s in (before, after)]
    return Solution(W, b, objective, relative_gap(objective, xp.maximum(*bounds)), after.n_iter)


def _first_order(stack: Stack, solution: Solution, tol: float, max_iter: int) -> Solution:
    """Give what is still open to the first-order method, from where it stands."""
    open_ = to_numpy((solution.gap > tol) & (solution.n_iter < max_iter))
    for i in np.flatnonzero(open_.any(axis=1)).tolist():
        place = [like(solution.n_iter, index) for index in ([i], np.flatnonzero(open_[i]))]
        solution = _put(solution, stack, place, tol, max_iter)
    return solution


def _put(solution: Solution, stack: Stack, place: list[Array], tol: float, max_iter: int) -> Solution:
    """Solve some columns of one data set by FISTA; the solution with what that found."""
    xp = namespace(solution.W)
    rows, columns = place
    start = [xp.take(xp.take(v, rows, axis=0), columns, axis=v.ndim - 1) for v in (solution.W, solution.b)]
    i = int(rows[0])
    left = max_iter - int(xp.max(xp.take(solution.n_iter[i, :], columns)))
    found = Fista().solve(stack.take(rows, columns), tol, left, start)
    after = {}
    for name in ("W", "b", "objective", "gap", "n_iter"):
        value = xp.asarray(getattr(solution, name), copy=True)
        for at, k in enumerate(to_numpy(columns).tolist()):
            value[i, ..., k] = getattr(found, name)[0, ..., at] + (value[i, k] if name == "n_iter" else 0)
        after[name] = value
    return Solution(**after)
