"""Forward-backward splitting as the paper has it (equation 8): the reference for every faster solver."""

from dataclasses import dataclass

from mixnorm.core.arrays import Array, namespace
from mixnorm.core.certificate import certify
from mixnorm.core.problem import Solution, Stack
from mixnorm.solvers.first_order.lipschitz import intercept_scale, paper_constant
from mixnorm.solvers.sequence import cells, solve_in_sequence


@dataclass(frozen=True)
class ForwardBackward:
    """w⁺ = prox_{γΩ}(w − γ∇f(w)), γ = 1/L, with the paper's constant L = 2 Σ p_i ‖x_i‖² (+ 2 similarity).

    Requires of the loss a Lipschitz gradient, of the penalty a prox. Slow by design; see `Fista`.
    """

    certify_every: int = 50

    def path(self, stack: Stack, alphas: Array, tol: float, max_iter: int, similarities=None) -> list[Solution]:
        """Solve the stack at a sequence of alphas and similarities (A, B, K), each from the solution before."""
        return solve_in_sequence(self.solve, cells(stack, alphas, similarities), tol, max_iter)

    def solve(self, stack: Stack, tol: float, max_iter: int, start: tuple[Array, Array] | None = None) -> Solution:
        """Solve every problem of the stack to a relative gap of tol, or for max_iter iterations."""
        xp = namespace(stack.X)
        W, b = stack.start() if start is None else start
        step = 1 / paper_constant(stack)
        step_b = step * intercept_scale(stack)
        n_iter = 0
        certificate = certify(stack, W, b)
        while bool(xp.any(certificate.gap > (tol if n_iter else min(tol, 1e-12)))) and n_iter < max_iter:
            for _ in range(min(self.certify_every, max_iter - n_iter)):
                a = stack.dual_variable(stack.scores(W, b))
                forward = W + step[:, None, None, :] * stack.descent(W, a)
                blocks = stack.penalty.prox(stack.groups.to_blocks(forward), step[:, None, :] * stack.threshold)
                W = stack.groups.from_blocks(blocks, W.shape[1])
                b = b + step_b[:, None, :] * xp.sum(a * stack.y[..., None], axis=2)
                n_iter += 1
            certificate = certify(stack, W, b)
        counts = xp.full_like(certificate.gap, n_iter, dtype=xp.int64)
        return Solution(certificate.W, certificate.b, certificate.primal, certificate.gap, counts)
