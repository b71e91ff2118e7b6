"""Small stacks of problems with everything in them, for the tests of solvers; also in other array libraries."""

from dataclasses import replace

import array_api_strict
import numpy as np
import pytest

from mixnorm.core.groups import Groups
from mixnorm.core.penalties import L1, L2, GroupNorm
from mixnorm.core.problem import Stack
from mixnorm.execution.solve import SolverOptions, solve_directly
from reference import random_problem

try:
    import torch
except ImportError:
    torch = None

SIZES = [1, 2, 3, 2]
N, G, D = 40, len(SIZES), sum(SIZES)
PENALTIES = {
    "l2": (L2(), "l2", 2.0),
    "l1": (L1(), "l1", 1.0),
    "q=2": (GroupNorm(2.0), "group", 2.0),
    "q=1.4": (GroupNorm(1.4), "group", 1.4),
}
every_penalty = pytest.mark.parametrize("name", PENALTIES)
needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
LIBRARIES = [
    pytest.param(np.array, id="numpy"),
    pytest.param(array_api_strict.asarray, id="array-api-strict"),
    pytest.param(lambda values: torch.tensor(values), id="torch", marks=needs_torch),
]
every_library = pytest.mark.parametrize("asarray", LIBRARIES)


def make_stack(name, B=2, K=3, T=1, beta=True, fit_intercept=True, similarity=0.0):
    """B data sets, K = 3 problems each: two folds and a weighted whole, different alphas, β with 0 and ∞."""
    rng = np.random.default_rng(5)
    data = [[random_problem(rng, N, G, SIZES) for _ in range(T)] for _ in range(B)]
    X = np.array([[subject[0] for subject in one] for one in data])
    y = np.array([[subject[1] for subject in one] for one in data])
    s = np.ones((B, T, N, K))
    s[..., ::2, 0] = 0.0
    if K > 1:
        s[..., 1::2, 1] = 0.0
    s[..., -1] = rng.uniform(0.2, 2.0, (B, T, N))
    weights = np.ones((B, G, K))
    if beta:
        graded = PENALTIES[name][1] == "group"
        weights[..., -1] = [0.0, 1.0, 0.5 if graded else 1.0, np.inf]
        weights[0, :, 0] = [1.0, 2.0 if graded else 1.0, 1.0, np.inf]
    alpha = 0.3 * np.geomspace(1, 0.05, B * K).reshape(B, K)
    groups = Groups.from_labels(np.repeat(np.arange(G), SIZES), D)
    similarities = np.full((B, K), similarity)
    return Stack(X, y, s, alpha, weights, similarities, groups, PENALTIES[name][0], fit_intercept)


def converted(stack, asarray):
    """The same stack with its arrays in another library."""
    names = ("X", "y", "sample_weight", "alpha", "group_weights", "similarity", "center", "ridge")
    given = {name: getattr(stack, name) for name in names if getattr(stack, name) is not None}
    metric = None if stack.metric is None else stack.metric.map(asarray)
    return replace(stack, metric=metric, **{name: asarray(values) for name, values in given.items()})


def solve_path(stack, alphas, *, similarities=None, **options):
    """Solve a stack at alphas (A, B, K) here and now, as `mixnorm.execution` does for an estimator."""
    return solve_directly(stack, alphas, similarities, SolverOptions(**options))
