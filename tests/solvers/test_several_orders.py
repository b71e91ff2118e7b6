"""Stacks whose problems differ in the order q of the norm: each problem as if it were solved alone."""

from dataclasses import replace

import numpy as np
import pytest

from mixnorm.core.arrays import to_numpy
from mixnorm.core.certificate import certify
from mixnorm.core.penalties import GroupNorm, GroupNorms
from mixnorm.solvers.newton.batched import run, system
from mixnorm.solvers.newton.batched import solver as stacked_newton
from mixnorm.solvers.newton.batched.solver import StackedNewton
from mixnorm.solvers.newton.host.solver import Newton
from stacks import converted, every_library, make_stack

ORDERS = np.array([[1.2, 1.5, 1.9], [1.35, 1.6, 1.05]])
TOL = 1e-9


def several_orders(**how):
    return replace(make_stack("q=1.4", **how), penalty=GroupNorms(ORDERS))


def alone(stack, factor=1.0):
    """Every problem by itself, by the engine of the host."""
    for place in np.ndindex(*stack.alpha.shape):
        own = replace(stack.take(*(np.array([i]) for i in place)), penalty=GroupNorm(ORDERS[place]))
        yield place, own, Newton().path(own, factor * own.alpha[None], TOL, 1000)[0]


@every_library
@pytest.mark.parametrize("subjects", [1, 3])
@pytest.mark.parametrize("beta", [False, True], ids=["plain", "weights"])
def test_each_problem_is_solved_for_its_own_order(asarray, subjects, beta, monkeypatch):
    monkeypatch.setattr(stacked_newton, "Fista", None)  # Newton alone must get there
    stack = several_orders(T=subjects, beta=beta, similarity=0.2 if subjects > 1 else 0.0)
    there = converted(stack, asarray)
    factors = (1.0, 0.4)
    alphas = asarray(np.stack([factor * stack.alpha for factor in factors]))
    for factor, found in zip(factors, StackedNewton().path(there, alphas, TOL, 1000), strict=True):
        assert to_numpy(found.gap).max() <= TOL
        for (i, k), _, expected in alone(stack, factor):
            assert float(found.objective[i, k]) == pytest.approx(expected.objective[0, 0], rel=2 * TOL)
            np.testing.assert_allclose(to_numpy(found.W)[i, ..., k], expected.W[0, ..., 0], atol=1e-3)


def test_the_certificate_is_that_of_each_order():
    stack = several_orders()
    rng = np.random.default_rng(0)
    W, b = 0.1 * rng.standard_normal((2, 1, stack.shape[3], 3)), np.zeros((2, 1, 3))
    W[:, :, stack.groups.index == 3] = 0.0  # a forbidden sensor
    found = certify(stack, W, b)
    for (i, k), own, _ in alone(stack):
        expected = certify(own, W[i : i + 1, ..., k : k + 1], b[i : i + 1, ..., k : k + 1])
        np.testing.assert_allclose(found.primal[i, k], expected.primal[0, 0], rtol=1e-13)
        np.testing.assert_allclose(found.gap[i, k], expected.gap[0, 0], rtol=1e-10)


def test_in_chunks_and_as_on_a_gpu(monkeypatch):
    stack = several_orders()
    whole = StackedNewton().path(stack, stack.alpha[None], TOL, 1000)[0]
    with monkeypatch.context() as patch:
        for module in (system, run):
            patch.setattr(module, "is_on_gpu", lambda array: True)
        ahead = StackedNewton().path(stack, stack.alpha[None], TOL, 1000)[0]
    monkeypatch.setattr("mixnorm.solvers.newton.batched.memory.HOST_BYTES", 1)
    parts = StackedNewton().path(stack, stack.alpha[None], TOL, 1000)[0]
    for other in (ahead, parts):
        np.testing.assert_allclose(other.objective, whole.objective, rtol=2 * TOL)


def test_what_newton_leaves_open_goes_to_the_first_order_method(monkeypatch):
    """Columns of several orders in one call of the first-order method."""
    monkeypatch.setattr("mixnorm.solvers.newton.batched.system.solve_posdef", lambda S, right: right * float("nan"))
    stack = several_orders(beta=False)
    found = StackedNewton().path(stack, stack.alpha[None], 1e-6, 20_000)[0]
    assert found.gap.max() <= 1e-6
    for place, _, expected in alone(stack):
        assert found.objective[place] == pytest.approx(expected.objective[0, 0], rel=1e-6)
