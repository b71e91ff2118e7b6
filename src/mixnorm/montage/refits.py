r"""ℓ2 SVMs on nested sets of sensors: the classifiers of the montages.

An ℓ2 SVM is refitted on the first K sensors of an order for every K, its alpha chosen on inner folds. These problems
are solved one after another on the host, each from the solution of the one before: a sequence of small, warm-started
problems leaves no work for a device, so that `mixnorm.use_device` does not apply to them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixnorm.core.groups import Groups
from mixnorm.core.penalties import L2
from mixnorm.core.problem import Solution, Stack
from mixnorm.execution import few_threads
from mixnorm.montage.elimination import precision, separation
from mixnorm.montage.trials import Training
from mixnorm.solvers import Newton

#: Regularisations of the refit, in units of the mean curvature of the loss.
REFIT_ALPHAS = np.logspace(-2.5, 1.5, 9)
#: The largest alpha is taken whose separation reaches this share of the best one: the trials that choose alpha also
#: had a part in the order of the sensors, so that their best alpha is too small.
_SHARE_OF_BEST = 0.99
#: Relative duality gaps: of the models that are kept, and of those that only choose alpha.
_TOL, _ROUGH_TOL, _MAX_ITER = 1e-6, 1e-3, 1000


@dataclass(frozen=True, eq=False)
class Ranking:
    """Sensors in order of importance, and the numbers of sensors to fit.

    Attributes
    ----------
    order : ndarray of shape (m,)
        Sensors, the most important one first; montage K is the first K of them.
    sizes : ndarray of shape (S,)
        Numbers of sensors, ascending.
    """

    order: NDArray[np.integer]
    sizes: NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class Models:
    """Nested montages fitted on one set of trials, and a classifier for each.

    Attributes
    ----------
    order : ndarray of shape (m,)
        Sensors, the most important one first; montage K is the first K of them.
    sizes : ndarray of shape (S,)
        Numbers of sensors, ascending.
    alphas : ndarray of shape (S,)
    coefs : ndarray of shape (S, G, r)
        Zero outside the montage.
    intercepts : ndarray of shape (S,)
    """

    order: NDArray[np.integer]
    sizes: NDArray[np.integer]
    alphas: NDArray[np.float64]
    coefs: NDArray[np.float64]
    intercepts: NDArray[np.float64]

    def scores(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores of trials (n, G, r) by every montage, (n, S)."""
        return X.reshape(len(X), -1) @ self.coefs.reshape(len(self.sizes), -1).T + self.intercepts


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """Held-out trials of one fold and subject: their signs (n,), and their scores by every montage (n, S)."""

    signs: NDArray[np.float64]
    scores: NDArray[np.float64]


def refit(training: Training, ranking: Ranking) -> Models:
    """Fit an ℓ2 SVM on the first K sensors of the ranking for every K of its sizes, alpha by the inner folds.

    Alpha is chosen at K = 1, 2, 4, … and all, and interpolated between. Each problem starts from the solution with
    one sensor less.
    """
    n, G, r = training.X.shape
    sizes = ranking.sizes
    coarse = sizes[np.isin(sizes, 2 ** np.arange(10)) | (sizes == sizes[0]) | (sizes == sizes[-1])]
    alphas = _choose_alphas(training, Ranking(ranking.order, coarse))
    alphas = np.exp(np.interp(np.log(sizes), np.log(coarse), np.log(alphas)))
    steps = _growing(_stack(training, np.ones((n, 1))), ranking, alphas[:, None], _TOL)
    coefs = np.stack([step.W[0, 0, :, 0].reshape(G, r) for step in steps])
    return Models(ranking.order, sizes, alphas, coefs, np.array([step.b[0, 0, 0] for step in steps]))


def order_by_weights(training: Training) -> NDArray[np.intp]:
    """Order the sensors by the weights of an ℓ2 SVM: the one with the smallest ‖w_g‖ is removed, and it is refitted.

    Its alpha is that of the refit on all sensors, chosen by the inner folds.
    """
    n, G, r = training.X.shape
    alpha = _choose_alphas(training, Ranking(np.arange(G), np.array([G])))[0]
    left = np.arange(G)

    def next_to_remove(W: NDArray[np.float64]) -> int:
        nonlocal left
        removed = left[np.argmin(np.linalg.norm(W.reshape(G, r)[left], axis=1))]
        left = left[left != removed]
        return int(removed)

    stack = _stack(training, np.ones((n, 1)))
    with few_threads(stack.X):
        return np.array(Newton().shrinking(stack, alpha, next_to_remove, _ROUGH_TOL, _MAX_ITER)[::-1])


def _choose_alphas(training: Training, ranking: Ranking) -> NDArray[np.float64]:
    """Return for every size the largest alpha whose models separate the held-out trials nearly best."""
    folds, sizes = training.folds, ranking.sizes
    stack = _stack(training, np.stack([fold.train for fold in folds], axis=1))
    curvature = 2 * float(np.mean(np.var(training.X, axis=0))) or 1.0
    grid = curvature * REFIT_ALPHAS
    steps = _growing(stack, ranking, np.broadcast_to(grid, (len(sizes), len(grid))), _ROUGH_TOL)
    found = np.zeros((len(steps), len(folds)))
    for k, fold in enumerate(folds):
        W = np.stack([step.W[0, 0, :, k] for step in steps], axis=1)
        found[:, k] = separation(stack.y[0, 0, fold.test], stack.X[0, 0, fold.test] @ W)
    found = found @ precision([stack.y[0, 0, fold.test] for fold in folds])
    found = found.reshape(len(sizes), len(grid))
    best = found.max(axis=1, keepdims=True)
    enough = found >= best - (1 - _SHARE_OF_BEST) * np.abs(best)
    return grid[len(grid) - 1 - enough[:, ::-1].argmax(axis=1)]


def _growing(stack: Stack, ranking: Ranking, alphas: NDArray[np.float64], tol: float) -> list[Solution]:
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
    walk[::2] = walk[::2, ::-1]
    walk = walk.ravel()
    steps = np.broadcast_to(beta[walk // A, None, :, None], (S * A, 1, G, K))
    grid = np.broadcast_to(alphas.ravel()[walk, None, None], (S * A, 1, K))
    with few_threads(stack.X):
        found = Newton().subsets(stack, grid, steps, tol, _MAX_ITER)
    return [found[place] for place in np.argsort(walk)]


def _stack(training: Training, weights: NDArray) -> Stack:
    n, G, r = training.X.shape
    return Stack.single(
        training.X.reshape(n, -1),
        training.signs,
        sample_weight=weights.astype(float),
        group_weights=np.ones((G, weights.shape[1])),
        groups=Groups.from_channels(range(G), r),
        penalty=L2(),
    )
