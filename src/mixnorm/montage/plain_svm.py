r"""ℓ2 SVMs without a noise covariance on nested sets of sensors: what other ways to choose sensors are built on.

These problems are solved one after another on the host, each from the solution of the one before: a sequence of small,
warm-started problems leaves no work for a device, so that `mixnorm.use_device` does not apply to them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixnorm.core.groups import Groups
from mixnorm.core.penalties import L2
from mixnorm.core.problem import Solution, Stack
from mixnorm.execution import few_threads
from mixnorm.montage.refits import Ranking
from mixnorm.montage.separation import precision, separation
from mixnorm.montage.trials import Training
from mixnorm.solvers import Newton

#: Regularisations, in units of the mean curvature of the loss.
PLAIN_ALPHAS = np.logspace(-2.5, 1.5, 9)
#: The largest alpha is taken whose separation reaches this share of the best one: the trials that choose alpha also
#: had a part in the order of the sensors, so that their best alpha is too small.
_SHARE_OF_BEST = 0.99
#: Relative duality gap of models that only choose alpha or an order, and largest number of iterations.
_ROUGH_TOL, _MAX_ITER = 1e-3, 1000


def order_by_weights(training: Training) -> NDArray[np.intp]:
    """Order the sensors by the weights of an ℓ2 SVM: the one with the smallest ‖w_g‖ is removed, and it is refitted.

    Its alpha is chosen by the inner folds on all sensors.
    """
    n, G, r = training.X.shape
    alpha = choose_alphas(training, Ranking(np.arange(G), np.array([G])))[0]
    left = np.arange(G)

    def next_to_remove(W: NDArray[np.float64]) -> int:
        nonlocal left
        removed = left[np.argmin(np.linalg.norm(W.reshape(G, r)[left], axis=1))]
        left = left[left != removed]
        return int(removed)

    stack = stack_of(training, np.ones((n, 1)))
    with few_threads(stack.X):
        return np.array(Newton().shrinking(stack, alpha, next_to_remove, _ROUGH_TOL, _MAX_ITER)[::-1])


def choose_alphas(training: Training, ranking: Ranking) -> NDArray[np.float64]:
    """Return for every size the largest alpha whose models separate the held-out trials nearly best."""
    folds, sizes = training.folds, ranking.sizes
    stack = stack_of(training, np.stack([fold.train for fold in folds], axis=1))
    # The loss has the curvature 2 x x'; in its units the same grid serves any scaling of the trials.
    curvature = 2 * float(np.mean(np.var(training.X, axis=0))) or 1.0
    grid = curvature * PLAIN_ALPHAS
    steps = growing(stack, ranking, np.broadcast_to(grid, (len(sizes), len(grid))), _ROUGH_TOL)
    found = np.zeros((len(steps), len(folds)))
    for k, fold in enumerate(folds):
        W = np.stack([step.W[0, 0, :, k] for step in steps], axis=1)
        found[:, k] = separation(stack.y[0, 0, fold.test], stack.X[0, 0, fold.test] @ W)
    found = found @ precision([stack.y[0, 0, fold.test] for fold in folds])
    found = found.reshape(len(sizes), len(grid))
    best = found.max(axis=1, keepdims=True)
    enough = found >= best - (1 - _SHARE_OF_BEST) * np.abs(best)
    return grid[len(grid) - 1 - enough[:, ::-1].argmax(axis=1)]


def growing(stack: Stack, ranking: Ranking, alphas: NDArray[np.float64], tol: float) -> list[Solution]:
    """Solve the stack on the first K sensors, for every K of S sizes at its alphas (S, A): S·A solutions, in order.

    From few sensors to all (the work of the solver grows with the sensors it has seen), up and down the alphas in
    turn, each from the solution before.
    """
    G, K = stack.groups.n_groups, stack.shape[-1]
    beta = np.full((len(ranking.sizes), G), np.inf)
    for row, size in zip(beta, ranking.sizes, strict=True):
        row[ranking.order[:size]] = 1.0
    S, A = alphas.shape
    walk = np.arange(S * A).reshape(S, A)
    # up and down in turn, so that no step from one problem to the next is large
    walk[::2] = walk[::2, ::-1]
    walk = walk.ravel()
    steps = np.broadcast_to(beta[walk // A, None, :, None], (S * A, 1, G, K))
    grid = np.broadcast_to(alphas.ravel()[walk, None, None], (S * A, 1, K))
    with few_threads(stack.X):
        found = Newton().subsets(stack, grid, steps, tol, _MAX_ITER)
    return [found[place] for place in np.argsort(walk)]


def stack_of(training: Training, weights: NDArray) -> Stack:
    """Return the problems of ℓ2 SVMs on all sensors, one for each column of weights (n, K)."""
    n, G, r = training.X.shape
    return Stack.single(
        training.X.reshape(n, -1),
        training.signs,
        sample_weight=weights.astype(float),
        group_weights=np.ones((G, weights.shape[1])),
        groups=Groups.from_channels(range(G), r),
        penalty=L2(),
    )
