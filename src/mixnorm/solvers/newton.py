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

from dataclasses import dataclass, replace

import numpy as np

from ..certificate import Certificate, certify
from ..stack import Solution, Stack
from ._newton_problem import Problem
from ._newton_state import Point
from ._sequence import cells

#: How often a problem is taken up again whose certificate is still open.
_MAX_ATTEMPTS = 4


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

    def _sequence(self, stack: Stack, steps: list[Stack], tol: float, max_iter: int) -> list[Solution]:
        B, _, _, _, K = stack.shape
        problems = {(i, k): Problem(stack, i, k) for i in range(B) for k in range(K)}
        points = {key: Point.zero(*problem.Z.shape) for key, problem in problems.items()}
        solutions = []
        for step in steps:
            if step.group_weights is not stack.group_weights:
                for i, k in problems:
                    points[i, k] = problems[i, k].weigh(step.group_weights[i, :, k], points[i, k])
            solutions.append(self._solve_at(step, problems, points, tol, max_iter))
        return solutions

    def _solve_at(self, stack: Stack, problems: dict, points: dict, tol: float, max_iter: int) -> Solution:
        """Solve all problems from the points given, which are moved to the solutions, and certify them together."""
        n_iter = np.zeros(stack.alpha.shape, dtype=np.int64)
        todo = problems.keys()
        for key, problem in problems.items():
            problem.similarity = float(stack.similarity[key]) if stack.has_similarity else 0.0
            points[key], n_iter[key] = problem.approach(float(stack.alpha[key]), points[key], max_iter)
        for goal in tol * 0.1 ** np.arange(_MAX_ATTEMPTS):
            for i, k in todo:
                budget = max_iter - int(n_iter[i, k])
                points[i, k], steps = problems[i, k].solve(float(stack.alpha[i, k]), points[i, k], goal, budget)
                n_iter[i, k] += steps
            found = self._certify(stack, points)
            # The solver's own estimate of the gap is not the certificate: where that is still open, aim lower.
            todo = [key for key in todo if found.gap[key] > tol and n_iter[key] < max_iter]
            if not todo:
                break
        return Solution(found.W, found.b, found.primal, found.gap, n_iter)

    @staticmethod
    def _certify(stack: Stack, points: dict) -> Certificate:
        W, b = stack.start()
        for (i, k), point in points.items():
            W[i, :, :, k], b[i, :, k] = point.W, point.b
        return certify(stack, W, b)
