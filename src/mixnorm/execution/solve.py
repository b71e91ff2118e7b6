"""The one way from an estimator to a solver."""

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from mixnorm.core.problem import Solution, Stack
from mixnorm.execution.batching import waiting_room
from mixnorm.execution.device import is_elsewhere
from mixnorm.execution.direct import SolverOptions, solve_directly


def solve(
    stack: Stack,
    alphas: np.ndarray,
    options: SolverOptions,
    similarities: np.ndarray | None = None,
    n_jobs: int | None = None,
) -> list[Solution]:
    """Solve every problem of a stack at a sequence of alphas, wherever problems are being solved.

    Inside `use_device` that is the device; inside `together` the stack is solved with those of the other fits;
    otherwise it is solved here, the columns of the stack in ``n_jobs`` parallel jobs.

    Parameters
    ----------
    stack : Stack
        NumPy arrays.
    alphas : ndarray of shape (A, B, K)
        In any order.
    options : SolverOptions
    similarities : ndarray of shape (A, B, K), optional
        One for every alpha; by default those of the stack.
    n_jobs : int, optional
        As in joblib.

    Returns
    -------
    list of A Solution
        In the order of the alphas.
    """
    room = waiting_room()
    if room is not None and stack.shape[0] == 1:
        return room.ask(stack, alphas, similarities, options)
    if is_elsewhere() or effective_n_jobs(n_jobs) == 1:
        return solve_directly(stack, alphas, similarities, options)
    parts = Parallel(n_jobs=n_jobs)(
        delayed(solve_directly)(
            stack.take(np.arange(stack.shape[0]), np.array([k])),
            alphas[:, :, k : k + 1],
            None if similarities is None else similarities[:, :, k : k + 1],
            options,
        )
        for k in range(stack.shape[-1])
    )
    return [Solution.join(pieces) for pieces in zip(*parts, strict=True)]
