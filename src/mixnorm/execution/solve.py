"""`solve`: the function by which all estimators call a solver."""

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from mixnorm.core.problem import Solution, Stack
from mixnorm.execution.batching import current_batcher
from mixnorm.execution.device import on_device
from mixnorm.execution.direct import SolverOptions, solve_directly


def solve(
    stack: Stack,
    alphas: np.ndarray,
    options: SolverOptions,
    similarities: np.ndarray | None = None,
    n_jobs: int | None = None,
) -> list[Solution]:
    """Solve every problem of a stack at a sequence of alphas.

    Inside `use_device` the stack is solved on the device; inside `together` it is solved with the stacks of the other
    fits; otherwise it is solved on the host, with the columns of the stack in ``n_jobs`` parallel jobs.

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
    batcher = current_batcher()
    if batcher is not None and stack.shape[0] == 1 and stack.penalty.is_separable:
        return batcher.submit(stack, alphas, similarities, options)
    if on_device() or effective_n_jobs(n_jobs) == 1:
        return solve_directly(stack, alphas, similarities, options)
    return _in_parallel(stack, (alphas, similarities), options, n_jobs)


def _in_parallel(
    stack: Stack, grids: tuple[np.ndarray, np.ndarray | None], options: SolverOptions, n_jobs: int | None
) -> list[Solution]:
    """Solve the columns of a stack in parallel jobs, or its data sets if each has only one column."""
    B, K = stack.shape[0], stack.shape[-1]
    by_column = K > 1 or B == 1
    cells = (
        [(np.arange(B), np.array([k])) for k in range(K)] if by_column else [(np.array([i]), [0]) for i in range(B)]
    )
    parts = Parallel(n_jobs=n_jobs)(
        delayed(solve_directly)(
            stack.take(rows, columns),
            *(None if grid is None else grid[:, rows][:, :, columns] for grid in grids),
            options,
        )
        for rows, columns in cells
    )
    return [Solution.join(pieces, axis=-1 if by_column else 0) for pieces in zip(*parts, strict=True)]
