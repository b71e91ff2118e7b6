r"""Newton's method on the active groups, one problem at a time: the solver that reaches the certificate on EEG.

Where w_g ≠ 0 the penalty is smooth, and f is piecewise quadratic: its Hessian H changes only by the trials that cross
the margin. With r_i = |w_i|/‖w_g‖_q, k_i = sign(w_i) r_i^{q/2} (a unit vector in each group), R = diag(r_i^{1−q/2}),

    ∇² alpha β_g ‖w_g‖_q = c_g R⁻¹ (I − k k') R⁻¹,        c_g = alpha β_g (q − 1) / ‖w_g‖_q,

so that in the variables R⁻¹w every q in (1, 2] has the shape of q = 2: the Newton system is R H R + c (I − k k').
ℓ1 is the case of groups of one coefficient, where the curvature vanishes.

The step is taken in the variable before the prox (Robinson's normal map): u = w + γ ∂Ω(w), w = prox_γΩ(u),
δu = (I + γ ∇²Ω) δw. A group whose u falls inside the dual ball leaves, exactly zero; a group whose gradient has left
its dual ball enters by a proximal step. The next alpha of a path starts from the solution before it, so that the first
step is the predictor along the path.

With n trials, d features, m of them active, a step costs O(n d) for products with X, O(m²) for every trial that
crossed the margin and O(m³) for the factorisation, or O(n'² m) in their place through the n' trials inside the margin,
where they are few. A path is so at most linear in trials and alphas and cubic in features; memory O(n d + m²).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from mixnorm.core.arrays import to_numpy
from mixnorm.core.certificate import Certificate, certify
from mixnorm.core.problem import Solution, Stack
from mixnorm.solvers.newton.host.descent import Problem
from mixnorm.solvers.newton.host.state import Point
from mixnorm.solvers.sequence import cells, side_by_side

#: How often a problem is taken up again whose certificate is still open.
_MAX_ATTEMPTS = 3
#: A gap of so many times tol says that the path was lost: a fine one from the zero model is tried, once.
_LOST = 100.0
#: Numbers in one array of a certificate, when cells of a path are certified together.
_CERTIFIED_AT_ONCE = 2_000_000

#: Coefficients and intercepts of the problems of a cell.
Points = dict[tuple[int, int], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Newton:
    """Second-order solver for ℓ2, ℓ1 and ℓ1-ℓq, 1 < q ≤ 2. Requires of the loss a piecewise constant curvature."""

    def path(
        self, stack: Stack, alphas: np.ndarray, tol: float, max_iter: int, similarities: np.ndarray | None = None
    ) -> list[Solution]:
        """Solve every problem at a sequence of alphas and similarities (A, B, K), each from the solution before."""
        return self._sequence(stack, cells(stack, alphas, similarities), tol, max_iter)

    def subsets(
        self, stack: Stack, alphas: np.ndarray, group_weights: np.ndarray, tol: float, max_iter: int
    ) -> list[Solution]:
        """Solve at a sequence of alphas (A, B, K) and group weights (A, B, G, K), each from the solution before.

        For sensors that are left out (β = ∞) and taken in one after another; ℓ2 or a group norm, not ℓ1.
        """
        if stack.penalty.is_norm and stack.X.shape[1] * stack.groups.sizes.max() == 1:
            raise ValueError("Subsets of sensors are for ℓ2 and for groups of several coefficients.")
        steps = [replace(stack, alpha=alpha, group_weights=beta) for alpha, beta in zip(alphas, group_weights)]
        return self._sequence(stack, steps, tol, max_iter)

    def shrinking(
        self, stack: Stack, alpha: float, leaves: Callable[[np.ndarray], int], tol: float, max_iter: int
    ) -> list[int]:
        """Solve the first problem of a stack on ever fewer groups; return the groups as they left, all of them.

        ``leaves`` names from the coefficients (T, d) the group that leaves next. Each solution starts from the one
        before, to the solver's own estimate of the gap; ℓ2 or a group norm, not ℓ1.
        """
        problem, beta = Problem(stack, 0, 0), to_numpy(stack.group_weights)[0, :, 0].copy()
        point, out = Point.zero(*problem.Z.shape), []
        while np.isfinite(beta).any():
            point, far = problem.approach(alpha, problem.weigh(beta.copy(), point), max_iter)
            point, _ = problem.solve(alpha, point, tol, max_iter - far)
            out.append(leaves(point.W))
            beta[out[-1]] = np.inf
        return out

    def _sequence(self, stack: Stack, stacks: list[Stack], tol: float, max_iter: int) -> list[Solution]:
        B, _, _, _, K = stack.shape
        reached: list[Points] = [{} for _ in stacks]
        n_iter = np.zeros((len(stacks), B, K), dtype=np.int64)
        for key in np.ndindex(B, K):  # a whole path at a time: what one problem keeps stays in the cache, and is freed
            problem = Problem(stack, *key)
            point = _start(problem, stacks[0], key)
            for place, cell in enumerate(stacks):
                alpha, point = _enter_cell(problem, cell, key, point)
                point, far = problem.approach(alpha, point, max_iter)
                point, near = problem.solve(alpha, point, tol, max_iter - far)
                reached[place][key], n_iter[place][key] = (point.W, point.b), far + near
        found = self._certify(stacks, reached)
        return [self._finish(*each, tol, max_iter) for each in zip(stacks, reached, n_iter, found)]

    def _finish(self, cell: Stack, points: Points, n_iter, found: Certificate, tol: float, max_iter: int) -> Solution:
        """Take up again what the certificate leaves open: the solver's own estimate of the gap is not its word."""
        if cell.has_unpenalised and (found.gap > tol).any():
            # Where sensors that are always kept separate the trials alone, no penalised one is needed, and no step is
            # short enough to get there.
            found = found.better(certify(cell, *cell.start()))
        restarted: set[tuple[int, int]] = set()
        for goal in tol * 0.1 ** np.arange(1, _MAX_ATTEMPTS + 1):
            todo = [key for key in points if found.gap[key] > tol and n_iter[key] < max_iter]
            if not todo:
                break
            for key in todo:
                problem = Problem(cell, *key)
                alpha, point = _enter_cell(problem, cell, key, problem.point(*points[key]))
                left, far = max_iter - int(n_iter[key]), 0
                if found.gap[key] > _LOST * tol and key not in restarted:
                    restarted.add(key)
                    point, far = problem.careful(alpha, left)
                point, steps = problem.solve(alpha, point, goal, left - far)
                points[key] = point.W, point.b
                n_iter[key] += far + steps
            (again,) = self._certify([cell], [points])
            found = found.better(again)
            points |= {(i, k): (found.W[i, :, :, k], found.b[i, :, k]) for i, k in todo}
        return Solution(found.W, found.b, found.primal, found.gap, n_iter)

    @staticmethod
    def _certify(stacks: list[Stack], reached: list[Points]) -> Iterator[Certificate]:
        """Certify the points of every cell, as many cells at a time as fit: one product serves them all."""
        B, T, n, d, K = stacks[0].shape
        at_once = max(1, _CERTIFIED_AT_ONCE // (B * T * max(n, d) * K))
        for first in range(0, len(stacks), at_once):
            some = slice(first, first + at_once)
            joint = side_by_side(stacks[some])
            W, b = joint.start()
            for place, points in enumerate(reached[some]):
                for (i, k), point in points.items():
                    W[i, :, :, place * K + k], b[i, :, place * K + k] = point
            found = certify(joint, W, b)
            for place in range(len(stacks[some])):
                yield found.columns(slice(place * K, (place + 1) * K))


def _start(problem: Problem, first: Stack, key: tuple[int, int]) -> Point:
    """Where to begin: at the centre of the first cell's similarity term, else with the zero model."""
    if problem.center is None or not problem.center.any() or not first.similarity[key] > 0:
        return Point.zero(*problem.Z.shape)
    out, W = np.isinf(problem.beta)[problem.atom_of], problem.center
    if problem.metric is not None:
        W = problem.metric.nearest(W[None, ..., None])[0, ..., 0]
    return problem.point(np.where(out, 0.0, W), np.zeros(len(W)))


def _enter_cell(problem: Problem, cell: Stack, key: tuple[int, int], point: Point) -> tuple[float, Point]:
    """Set the similarity and the group weights of a cell; return its alpha, and the point within them."""
    i, k = key
    problem.similarity = float(cell.similarity[key]) if cell.has_similarity else 0.0
    return float(cell.alpha[key]), problem.weigh(to_numpy(cell.group_weights)[i, :, k], point)
