"""Newton's method on whole stacks: the answers of the one-problem-at-a-time Newton, in every array library."""

from dataclasses import replace

import array_api_strict
import numpy as np
import pytest

from mixnorm._arrays import to_numpy
from mixnorm.certificate import certify
from mixnorm.groups import Groups
from mixnorm.penalties import GroupNorm
from mixnorm.solvers import Newton, solve_path
from mixnorm.solvers.stacked_newton import StackedNewton
from stacks import PENALTIES, converted, every_penalty, make_stack

try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
LIBRARIES = [
    pytest.param(np.array, id="numpy"),
    pytest.param(array_api_strict.asarray, id="array-api-strict"),
    pytest.param(lambda values: torch.tensor(values), id="torch", marks=needs_torch),
]
every_library = pytest.mark.parametrize("asarray", LIBRARIES)
FACTORS = np.array([1.0, 0.3, 0.05])


def both(stack, asarray, tol=1e-8, factors=FACTORS, similarities=None):
    """Solutions of a path by the one-at-a-time Newton, and by the stacked one in another library."""
    alphas = factors[:, None, None] * stack.alpha
    more = {} if similarities is None else {"similarities": similarities}
    plain = Newton().path(stack, alphas, tol, 10_000, **more)
    more = {} if similarities is None else {"similarities": asarray(similarities)}
    return plain, StackedNewton().path(converted(stack, asarray), asarray(alphas), tol, 1000, **more)


def assert_same(plain, stacked, tol=1e-8):
    for mine, theirs in zip(plain, stacked, strict=True):
        assert to_numpy(theirs.gap).max() <= tol
        # both are within tol of the optimum, by their certificates
        np.testing.assert_allclose(to_numpy(theirs.objective), mine.objective, rtol=tol)


@every_library
@every_penalty
@pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "without"])
def test_folds_weights_kept_and_forbidden_groups(name, asarray, fit_intercept):
    stack = make_stack(name, fit_intercept=fit_intercept)
    plain, stacked = both(stack, asarray)
    assert_same(plain, stacked)
    features = stack.groups.index
    for found in stacked:
        W, b = to_numpy(found.W), to_numpy(found.b)
        assert not W[0, :, features == 3, 0].any()
        assert not W[:, :, features == 3, 2].any()
        assert fit_intercept or not b.any()


@pytest.mark.parametrize("q", [1.0, 1.2, 1.5, 1.8, 2.0])
def test_every_q(q):
    stack = replace(make_stack("q=2", beta=False), penalty=GroupNorm(q))
    assert_same(*both(stack, np.array))


@pytest.mark.parametrize("asarray", [LIBRARIES[0], LIBRARIES[2]])
@every_penalty
def test_three_subjects_along_alphas_and_similarities(name, asarray):
    stack = make_stack(name, B=1, T=3, beta=False)
    alphas, similarities = np.repeat([1.0, 0.2], 3), np.tile([0.0, 0.3, 30.0], 2)
    grid = similarities[:, None, None] * np.ones_like(stack.alpha)
    assert_same(*both(stack, asarray, factors=alphas, similarities=grid))


@every_penalty
def test_one_subject_drawn_to_a_centre(name):
    stack = make_stack(name, beta=False)
    center = np.random.default_rng(0).standard_normal((2, 1, stack.shape[3], 3))
    stack = replace(stack, center=center, similarity=np.full((2, 3), 0.4))
    assert_same(*both(stack, np.array))
