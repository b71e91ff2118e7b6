"""The order in which sensors enter the mixed-norm path, for a whole stack of problems at once."""

import numpy as np

from mixnorm.core.intercept import alpha_max
from mixnorm.core.problem import Solution, Stack
from mixnorm.estimators.objective import solve_with
from mixnorm.estimators.quadratic import Quadratic
from mixnorm.execution import SolverOptions

#: The path is solved in blocks of _STRETCH alphas, each alpha _STEP times the one before, down to _LOWEST times
#: alpha_max. After each block the problems with enough sensors are left out, which saves their dense and slow end.
_STRETCH, _STEP, _LOWEST = 10, 0.87, 1e-4
#: Largest number of values that the solver may copy at once (160 MB); a larger stack is solved in parts.
_MOST = 20_000_000


def entry_order(
    stack: Stack, n_sensors: int, options: SolverOptions, quadratic: Quadratic | None = None
) -> np.ndarray:
    """Return the rank of every sensor by its entry on the path from alpha_max down, (G, K).

    The first sensor has rank 0; a sensor that has not entered has rank G. The path of a problem is followed until
    ``n_sensors`` penalised sensors have entered. Of the sensors that enter between the same two alphas, the one with
    the larger weighted norm β_g ‖w_g‖ comes first. Sensors of weight 0 are always selected: they have the first ranks,
    in their order, and are not counted in ``n_sensors``.
    """
    *_, n, d, K = stack.shape
    # With noise each problem also has matrices of d × d numbers: N and what is computed from it.
    size = n * d if quadratic is None or quadratic.noise is None else n * d + 3 * d * d
    part = max(1, _MOST // size)
    pieces = [np.arange(k, min(k + part, K)) for k in range(0, K, part)]
    return np.concatenate(
        [
            _ranks(stack.take(np.arange(1), own), n_sensors, options, quadratic and quadratic.take(own))
            for own in pieces
        ],
        axis=1,
    )


def _ranks(stack: Stack, n_sensors: int, options: SolverOptions, quadratic: Quadratic | None) -> np.ndarray:
    beta = stack.group_weights[0]
    step = np.where(beta == 0, 0.0, np.inf)  # the step of the path at which a sensor first had a coefficient
    norm = np.zeros_like(beta)
    # The quadratic part changes alpha_max where sensors of weight 0 have coefficients, so that it is asked of what is
    # solved.
    solved = stack if quadratic is None else quadratic.prepared(stack).stack
    top = np.maximum(np.ravel(alpha_max(solved)), np.finfo(float).tiny)
    todo, share = np.arange(beta.shape[1]), 1.0
    for start in range(1, 10_000, _STRETCH):
        alphas = share * _STEP ** np.arange(1, _STRETCH + 1)[:, None, None] * top[todo]
        term = quadratic and quadratic.take(todo)
        solutions = solve_with(term, stack.take(np.arange(1), todo), alphas, options)
        for place, solution in enumerate(solutions):
            _note(stack, solution, todo, start + place, step, norm)
        entered = np.isfinite(step) & (beta > 0)
        # No more sensors can enter than may be chosen: otherwise the path would go on to its end for nothing.
        allowed = np.isfinite(beta).sum(axis=0) - (beta == 0).sum(axis=0)
        share *= _STEP**_STRETCH
        todo = np.flatnonzero(entered.sum(axis=0) < np.minimum(n_sensors, allowed))
        if not len(todo) or share < _LOWEST:
            break
    # β_g ‖w_g‖ is what the penalty counts, so that a sensor with a small weight is not first because of it.
    order = np.lexsort((-norm * np.where(np.isfinite(beta), beta, 0.0), step), axis=0)
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.broadcast_to(np.arange(len(beta))[:, None], order.shape), axis=0)
    return np.where(np.isfinite(step), ranks, len(beta))


def _note(
    stack: Stack, solution: Solution, columns: np.ndarray, place: int, step: np.ndarray, norm: np.ndarray
) -> None:
    """Record the step and the norm of the sensors that have a coefficient for the first time."""
    seen = np.sqrt(np.sum(stack.groups.to_blocks(solution.W)[0] ** 2, axis=1))
    new = (seen > 0) & ~np.isfinite(step[:, columns])
    step[:, columns] = np.where(new, place, step[:, columns])
    norm[:, columns] = np.where(new, seen, norm[:, columns])
