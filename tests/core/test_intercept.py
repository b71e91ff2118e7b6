"""The best intercept and alpha_max: exact to rounding, and no work is spent on rounding itself."""

from dataclasses import replace

import numpy as np
import pytest

from mixnorm.core import intercept
from mixnorm.core.intercept import alpha_max, alpha_maxima, solve_intercept
from mixnorm.core.penalties import GroupNorm
from mixnorm.core.problem import SquaredHinge
from stacks import make_stack


def test_no_iterations_are_spent_on_the_rounding_of_margins(monkeypatch):
    # nearly all margins are near 1: what is left of the loss is small beside their rounding
    brackets, plain, loss = [], intercept._bracket, SquaredHinge()
    monkeypatch.setattr(intercept, "_bracket", lambda *args: brackets.append(args) or plain(*args))
    for seed in range(20):
        rng = np.random.default_rng(seed)
        y = np.where(rng.random((400, 1)) < 0.3, 1.0, -1.0)
        scores, weight = y + 0.01 * rng.standard_normal((400, 20)), np.full((400, 20), 1 / 400)
        b = solve_intercept(loss, scores, y, weight, np.zeros(20))
        a = loss.dual_variable(y * (scores + b), weight)
        assert (np.abs((a * y).sum(axis=0)) <= 1e-13 * a.sum(axis=0)).all()
    assert not brackets


def test_alpha_max_beside_a_huge_trial_without_weight():
    # the bound by the largest number says nothing here, and the sums of sizes must decide
    stack = make_stack("q=2")
    weight, X = stack.sample_weight.copy(), stack.X.copy()
    weight[:, :, 0], X[:, :, 0] = 0.0, 1e20
    expected = alpha_max(replace(stack, sample_weight=weight))
    assert (expected > 0).all()
    np.testing.assert_allclose(alpha_max(replace(stack, X=X, sample_weight=weight)), expected, rtol=1e-12)


def test_alpha_max_of_several_norms_is_that_of_each():
    stack = make_stack("q=2")
    norms = [GroupNorm(q) for q in (1.0, 1.3, 2.0)]
    for norm, found in zip(norms, alpha_maxima(stack, norms), strict=True):
        np.testing.assert_array_equal(found, alpha_max(replace(stack, penalty=norm)))
    # they differ, so that the one of another norm would be seen
    assert len({float(found[0, 0]) for found in alpha_maxima(stack, norms)}) == 3


@pytest.mark.parametrize("size", [1.0, 1e-170])
def test_the_terms_of_alpha_max_are_bounded_also_where_squares_underflow(size):
    stack = make_stack("q=2", T=2, K=2)
    stack = replace(stack, X=size * stack.X)
    a = stack.dual_variable(np.zeros_like(stack.trial_weight))
    exact = np.einsum("btnd,btnk->btdk", np.abs(stack.X), a)
    found = intercept._largest_terms(stack, a)
    assert (found >= exact * (1 - 1e-12)).all()
    if size == 1.0:
        assert (found <= 10 * exact.max()).all()
