"""Which paths are solved in the Gram matrix, and their solutions."""

import numpy as np

from mixnorm.core.penalties import GroupNorm
from mixnorm.core.problem import Stack
from mixnorm.solvers.newton.certifying import Reached
from mixnorm.solvers.newton.gram.descent import Descent
from mixnorm.solvers.newton.gram.problem import GramProblem
from mixnorm.solvers.newton.tuning import GRAM, HOST


def is_small(stack: Stack, n_alphas: int) -> bool:
    """Whether the paths of a stack are solved here: the ℓ1-ℓ2 norm of one subject, few features, several alphas."""
    _, T, n, d, _ = stack.shape
    is_plain = T == 1 and stack.center is None and stack.metric is None and not stack.has_unpenalised
    is_group_norm = isinstance(stack.penalty, GroupNorm) and stack.penalty.q == 2 and stack.groups.sizes.max() > 1
    has_size = d <= GRAM.most_features and n >= GRAM.least_trials * d and n_alphas >= GRAM.least_alphas
    return is_plain and is_group_norm and has_size and bool(np.isfinite(stack.group_weights).any(axis=1).all())


def follow(stack: Stack, alphas: np.ndarray, tol: float, max_iter: int) -> Reached:
    """Solve every problem at decreasing alphas (A, B, K), each from the solution before, by estimates of the gap."""
    B, T, _, d, K = stack.shape
    A = len(alphas)
    reached = Reached(np.zeros((A, B, T, d, K)), np.zeros((A, B, T, K)), np.zeros((A, B, K), dtype=np.int64))
    for i, k in np.ndindex(B, K):
        problem = GramProblem(stack, i, k)
        descent = Descent(problem)
        for place, alpha in enumerate(alphas[:, i, k].tolist()):
            reached.n_iter[place, i, k] = descent.solve(alpha, HOST.goals[0] * tol, max_iter)
            reached.W[place, i, 0, problem.features, k] = descent.place.v[problem.free : -1]
            reached.b[place, i, 0, k] = descent.place.v[0] if problem.free else 0.0
    return reached
