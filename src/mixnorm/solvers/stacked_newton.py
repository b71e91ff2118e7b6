r"""Newton's method on a whole stack of problems at once, for arrays of any library.

The step is that of `newton` (Robinson's normal map on the active groups), taken by all B × K problems together: batched
Hessians on the trials inside the margin, batched Cholesky factorisations, several step lengths tried at once.
Every problem has its own active groups and stands at its own place of its path.
"""

from dataclasses import dataclass, replace

import numpy as np

from .._arrays import Array, like, namespace, to_numpy
from ..certificate import Certificate, certify, polish
from ..stack import Solution, Stack
from ._sequence import cells
from ._stacked_problems import Point, StackedProblems
from ._stacked_run import StackedRun
from .fista import Fista

#: The solver's own estimate of the gap aims a little lower than asked for.
_MARGIN = 0.7


@dataclass(frozen=True)
class StackedNewton:
    """Second-order solver for ℓ2, ℓ1 and ℓ1-ℓq, 1 < q ≤ 2, on whole stacks; first order for what it leaves open."""

    def path(
        self, stack: Stack, alphas: Array, tol: float, max_iter: int, similarities: Array | None = None
    ) -> list[Solution]:
        """Solve every problem at a sequence of alphas and similarities (A, B, K), each from the solution before."""
        stacks = cells(stack, alphas, similarities)
        xp = namespace(stack.X)
        problems = StackedProblems(stack)
        A = alphas.shape[0]
        W, b, scores = polish(stacks[0], *stack.start())
        start = _point(problems, W, b)
        tables = (xp.reshape(alphas, (A, -1)), xp.reshape(xp.stack([cell.similarity for cell in stacks]), (A, -1)))
        run = StackedRun(problems, *tables, _MARGIN * tol, max_iter)
        found = run.run(start)
        self_stats.append(run.n_steps)
        order = np.empty((A, problems.P), dtype=np.int64)
        n_iter = np.empty((A, problems.P), dtype=np.int64)
        for i, (key, count) in enumerate(zip(found.keys, found.n_iter)):
            order[key], n_iter[key] = i, count
        rows = like(stack.X, order.ravel(), dtype=xp.int64)
        W = xp.take(xp.concat(found.W, axis=0), rows, axis=0)
        W = problems.coefficients(xp.reshape(W, (A, problems.P, problems.G, problems.T, problems.r)))
        b = xp.reshape(xp.take(xp.concat(found.b, axis=0), rows, axis=0), (A, problems.B, problems.K, problems.T))
        b = xp.permute_dims(b, (0, 1, 3, 2))
        solutions = []
        for j, cell in enumerate(stacks):
            c = certify(cell, W[j, ...], b[j, ...])
            counts = like(stack.X, n_iter[j].reshape(problems.B, problems.K), dtype=xp.int64)
            solutions.append(Solution(c.W, c.b, c.primal, c.gap, counts))
        return solutions


self_stats = []


def _point(problems: StackedProblems, W: Array, b: Array) -> Point:
    xp = problems.xp
    slots = problems.slots(W)
    b = xp.reshape(xp.permute_dims(b, (0, 2, 1)), (problems.P, problems.T))
    return Point(slots, b, problems.scores(slots[:, None])[:, 0, ...])
