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
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from .._arrays import to_numpy
from ..certificate import Certificate, certify
from ..stack import Solution, Stack
from ._newton_problem import Problem
from ._newton_state import Point
from ._sequence import cells, side_by_side

#: How often a problem is taken up again whose certificate is still open.
_MAX_ATTEMPTS = 3
#: Numbers in one array of a certificate, when cells of a path are certified together.
_CERTIFIED_AT_ONCE = 2_000_000

Points = dict[tuple[int, int], Point]


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
        steps = [replace(stack, alpha=alpha, group_weights=beta) for alpha, beta in zip(alphas, group_weights)]
        return self._sequence(stack, steps, tol, max_iter)

    def _sequence(self, stack: Stack, stacks: list[Stack], tol: float, max_iter: int) -> list[Solution]:
        B, _, _, _, K = stack.shape
        problems = {(i, k): Problem(stack, i, k) for i in range(B) for k in range(K)}
        points = {key: Point.zero(*problem.Z.shape) for key, problem in problems.items()}
        reached = []
        for cell in stacks:
            points, n_iter = self._descend(cell, problems, points, tol, max_iter)
            reached.append((points, n_iter))
        certificates = self._certify(stacks, [points for points, _ in reached])
        return [
            self._finish(cell, problems, *start, found, (tol, max_iter))
            for cell, start, found in zip(stacks, reached, certificates)
        ]

    def _descend(self, cell: Stack, problems: dict, points: Points, tol: float, max_iter: int):
        """Solve all problems of a cell from the points given; return the points reached and the steps, (B, K)."""
        reached, n_iter = {}, np.zeros(cell.alpha.shape, dtype=np.int64)
        for key, problem in problems.items():
            alpha, point = _enter_cell(problem, cell, key, points[key])
            point, far = problem.approach(alpha, point, max_iter)
            reached[key], near = problem.solve(alpha, point, tol, max_iter - far)
            n_iter[key] = far + near
        return reached, n_iter

    def _finish(self, cell: Stack, problems: dict, points: Points, n_iter, found: Certificate, limits) -> Solution:
        """Take up again what the certificate leaves open: the solver's own estimate of the gap is not its word."""
        tol, max_iter = limits
        for goal in tol * 0.1 ** np.arange(1, _MAX_ATTEMPTS + 1):
            todo = [key for key in problems if found.gap[key] > tol and n_iter[key] < max_iter]
            if not todo:
                break
            for key in todo:
                alpha, point = _enter_cell(problems[key], cell, key, points[key])
                budget = max_iter - int(n_iter[key])
                points[key], steps = problems[key].solve(alpha, point, goal, budget)
                n_iter[key] += steps
            (found,) = self._certify([cell], [points])
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
                    W[i, :, :, place * K + k], b[i, :, place * K + k] = point.W, point.b
            found = certify(joint, W, b)
            for place in range(len(stacks[some])):
                yield found.columns(slice(place * K, (place + 1) * K))


def _enter_cell(problem: Problem, cell: Stack, key: tuple[int, int], point: Point) -> tuple[float, Point]:
    """Set the similarity and the group weights of a cell; return its alpha, and the point within them."""
    i, k = key
    problem.similarity = float(cell.similarity[key]) if cell.has_similarity else 0.0
    return float(cell.alpha[key]), problem.weigh(to_numpy(cell.group_weights)[i, :, k], point)
