"""Which paths begin in the Gram matrix, and how far they are followed there."""

import numpy as np

from mixnorm.core.penalties import GroupNorm
from mixnorm.core.problem import Stack
from mixnorm.solvers.newton.certifying import Limits, Reached
from mixnorm.solvers.newton.gram.descent import Descent
from mixnorm.solvers.newton.gram.problem import GramProblem
from mixnorm.solvers.newton.tuning import GRAM


def is_small(stack: Stack, n_alphas: int) -> bool:
    """Whether the paths of a stack begin here: the ℓ1-ℓ2 norm of one subject, few features, several alphas."""
    _, T, n, d, _ = stack.shape
    is_plain = T == 1 and stack.center is None and stack.metric is None and not stack.has_unpenalised
    is_group_norm = isinstance(stack.penalty, GroupNorm) and stack.penalty.q == 2 and stack.groups.sizes.max() > 1
    has_size = d <= GRAM.most_features and n >= GRAM.least_trials * d and n_alphas >= GRAM.least_alphas
    return is_plain and is_group_norm and has_size and bool(np.isfinite(stack.group_weights).any(axis=1).all())


def follow(stack: Stack, key: tuple[int, int], alphas: np.ndarray, limits: Limits, reached: Reached) -> int:
    """Solve one problem (i, k) at alphas (A,), each from the solution before it; return how many of them are solved.

    The path is left to the host engine at the first alpha before which the value has too few digits, or at which the
    gap, by its estimate, stays above ``limits.tol`` with fewer steps than ``limits.max_iter``. The solutions are
    written to ``reached``, and so are the steps that were taken in vain at this alpha.
    """
    i, k = key
    problem = GramProblem(stack, i, k)
    descent = Descent(problem)
    for place, alpha in enumerate(alphas.tolist()):
        if problem.rounding > GRAM.rounding * limits.tol * descent.place.value:
            return place
        reached.n_iter[place, i, k] = steps = descent.solve(alpha, *limits)
        if descent.gap > limits.tol and steps < limits.max_iter:
            return place
        reached.W[place, i, 0, problem.features, k] = descent.place.v[problem.free : -1]
        reached.b[place, i, 0, k] = descent.place.v[0] if problem.free else 0.0
    return len(alphas)
