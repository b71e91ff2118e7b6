r"""Newton's method on the active groups, one problem at a time: the solver that reaches the certificate on EEG.

Where w_g ≠ 0 the penalty is smooth, and f is piecewise quadratic: its Hessian H changes only by the trials that cross
the margin. With r_i = |w_i|/‖w_g‖_q, k_i = sign(w_i) r_i^{q/2} (a unit vector in each group), R = diag(r_i^{1−q/2}),

    ∇² alpha β_g ‖w_g‖_q = c_g R⁻¹ (I − k k') R⁻¹,        c_g = alpha β_g (q − 1) / ‖w_g‖_q,

so that in the variables R⁻¹w every q in (1, 2] has the shape of q = 2: the Newton system is R H R + c (I − k k').
ℓ1 is the case of groups of one coefficient, where the curvature vanishes.

The step is taken in the variable before the prox (Robinson's normal map): u = w + γ ∂Ω(w), w = prox_γΩ(u),
δu = (I + γ ∇²Ω) δw. A group whose u falls inside the dual ball leaves, exactly zero; a group whose gradient has left
its dual ball enters by a proximal step. The next alpha of a path starts on the tangent at the solution
before it (`mixnorm.solvers.newton.host.predictor`). Paths of small ℓ1-ℓ2 problems of one subject begin in
`mixnorm.solvers.newton.gram`, and go on here from the first alpha that is not solved there.

With n trials, d features, m of them active, a step costs O(n d) for products with X, O(m²) for every trial that
crossed the margin and O(m³) for the factorisation, or O(n'² m) in their place through the n' trials inside the margin,
where they are few. A path is so at most linear in trials and alphas and cubic in features; memory O(n d + m²).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from mixnorm.core.arrays import to_numpy
from mixnorm.core.problem import Solution, Stack
from mixnorm.solvers.newton.certifying import Attempt, Limits, Reached, certified, closed
from mixnorm.solvers.newton.gram.path import follow, is_small
from mixnorm.solvers.newton.host.descent import Problem
from mixnorm.solvers.newton.host.predictor import Predictor
from mixnorm.solvers.newton.host.state import Point
from mixnorm.solvers.newton.tuning import HOST
from mixnorm.solvers.sequence import cells

#: Numbers in one array of a certificate, when cells of a path are certified together.
_CERTIFIED_AT_ONCE = 2_000_000


@dataclass(frozen=True)
class Newton:
    """Second-order solver for ℓ2, ℓ1 and ℓ1-ℓq, 1 < q ≤ 2. Requires of the loss a piecewise constant curvature."""

    def path(
        self, stack: Stack, alphas: np.ndarray, tol: float, max_iter: int, similarities: np.ndarray | None = None
    ) -> list[Solution]:
        """Solve every problem at a sequence of alphas and similarities (A, B, K), each from the solution before."""
        stacks = cells(stack, alphas, similarities)
        return self._sequence(stack, stacks, tol, max_iter, in_gram=is_small(stack, len(stacks)))

    def subsets(
        self, stack: Stack, alphas: np.ndarray, group_weights: np.ndarray, tol: float, max_iter: int
    ) -> list[Solution]:
        """Solve at a sequence of alphas (A, B, K) and group weights (A, B, G, K), each from the solution before.

        For sensors that are left out (β = ∞) and taken in one after another; ℓ2 or a group norm, not ℓ1.
        """
        if stack.penalty.is_norm and stack.X.shape[1] * stack.groups.sizes.max() == 1:
            raise ValueError("Subsets of sensors are for ℓ2 and for groups of several coefficients.")
        steps = [
            replace(stack, alpha=alpha, group_weights=beta) for alpha, beta in zip(alphas, group_weights, strict=True)
        ]
        return self._sequence(stack, steps, tol, max_iter)

    def shrinking(
        self, stack: Stack, alpha: float, leaves: Callable[[np.ndarray], int], tol: float, max_iter: int
    ) -> list[int]:
        """Solve the first problem of a stack on ever fewer groups; return the groups as they left, all of them.

        ``leaves`` names from the coefficients (T, d) the group that leaves next. Each solution starts from the one
        before, to the solver's own estimate of the gap; ℓ2 or a group norm, not ℓ1.
        """
        problem, beta = Problem(stack, 0, 0), to_numpy(stack.group_weights)[0, :, 0].copy()
        point, out = Point.zero(*problem.X.shape), []
        while np.isfinite(beta).any():
            point, far = problem.approach(alpha, problem.weigh(beta.copy(), point), max_iter)
            point, _ = problem.solve(alpha, point, tol, max_iter - far)
            out.append(leaves(point.W))
            beta[out[-1]] = np.inf
        return out

    def _sequence(
        self, stack: Stack, stacks: list[Stack], tol: float, max_iter: int, in_gram: bool = False
    ) -> list[Solution]:
        """Solve the problems of a stack at a sequence of cells, then certify them all.

        ``in_gram``: begin in the Gram matrix, for cells that differ in alpha alone.
        """
        B, T, n, d, K = stack.shape
        A, limits = len(stacks), Limits(tol, max_iter)
        own = Limits(HOST.goals[0] * tol, max_iter)  # by the solver's estimate
        reached = Reached(np.zeros((A, B, T, d, K)), np.zeros((A, B, T, K)), np.zeros((A, B, K), dtype=np.int64))
        for key in np.ndindex(B, K):  # a whole path at a time: what a problem keeps stays in the cache, and is freed
            solved = 0
            if in_gram:
                solved = follow(stack, key, np.array([cell.alpha[key] for cell in stacks]), own, reached)
            if solved < A:
                _go_on(Problem(stack, *key), stacks, key, solved, own, reached)
        at_once = max(1, _CERTIFIED_AT_ONCE // (B * K * T * max(n, d)))
        solutions = list(certified(stacks, reached, at_once))
        return closed(stacks, solutions, partial(_resume, stacks, limits), HOST.goals[1:], limits)


def _go_on(
    problem: Problem, stacks: list[Stack], key: tuple[int, int], first: int, limits: Limits, reached: Reached
) -> None:
    """Solve one problem at the cells from the first open one on; write the solutions to ``reached``."""
    i, k = key
    if first:
        point = problem.point(reached.W[first - 1, i, :, :, k], reached.b[first - 1, i, :, k])
    else:
        point = _start(problem, stacks[0], key)
    predictor = Predictor(problem)
    for place, cell in enumerate(stacks[first:], first):
        left = limits.max_iter - int(reached.n_iter[place, i, k])
        alpha, point = _enter_cell(problem, cell, key, point)
        point, far = problem.approach(alpha, point, left)
        point, steps = predictor.step(alpha, point, limits.tol, left - far)
        point, near = problem.solve(alpha, point, limits.tol, left - far, steps)
        predictor.add(alpha, point)
        reached.W[place, i, :, :, k], reached.b[place, i, :, k] = point.W, point.b
        reached.n_iter[place, i, k] += far + near


def _resume(stacks: list[Stack], limits: Limits, attempt: Attempt, solution: Solution) -> Reached:
    """Go on with the open problems of a cell, each from its point, or from the zero model where it is lost."""
    cell = stacks[attempt.place]
    reached = Reached(*(np.array(part)[None] for part in (solution.W, solution.b, solution.n_iter)))
    for i, k in zip(*attempt.open_.nonzero(), strict=True):
        problem = Problem(cell, i, k)
        start = problem.point(solution.W[i, :, :, k], solution.b[i, :, k])
        alpha, point = _enter_cell(problem, cell, (i, k), start)
        left, far = limits.max_iter - int(solution.n_iter[i, k]), 0
        if attempt.lost[i, k]:
            point, far = problem.restart(alpha, left)
        point, near = problem.solve(alpha, point, attempt.goal, left - far)
        reached.W[0, i, :, :, k], reached.b[0, i, :, k] = point.W, point.b
        reached.n_iter[0, i, k] += far + near
    return reached


def _start(problem: Problem, first: Stack, key: tuple[int, int]) -> Point:
    """Where to begin: at the centre of the first cell's similarity term, else with the zero model."""
    if problem.center is None or not problem.center.any() or not first.similarity[key] > 0:
        return Point.zero(*problem.X.shape)
    out, W = np.isinf(problem.beta)[problem.atom_of], problem.center
    if problem.metric is not None:
        W = problem.metric.nearest(W[None, ..., None])[0, ..., 0]
    return problem.point(np.where(out, 0.0, W), np.zeros(len(W)))


def _enter_cell(problem: Problem, cell: Stack, key: tuple[int, int], point: Point) -> tuple[float, Point]:
    """Set the similarity and the group weights of a cell; return its alpha, and the point within them."""
    i, k = key
    similarity = float(cell.similarity[key]) if cell.has_similarity else 0.0
    if similarity != problem.similarity:
        problem.similarity, problem.kept = similarity, None
    return float(cell.alpha[key]), problem.weigh(to_numpy(cell.group_weights)[i, :, k], point)
