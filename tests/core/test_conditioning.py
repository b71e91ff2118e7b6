"""Units and offsets of features: the same problems in better numbers, and the way back."""

from dataclasses import replace

import array_api_strict
import numpy as np
import pytest

from mixnorm.core.certificate import Certificate, certify
from mixnorm.core.conditioning import condition
from mixnorm.core.intercept import alpha_max, balance
from mixnorm.core.metric import DenseMetric
from mixnorm.core.problem import Solution
from reference import alpha_max_reference
from stacks import PENALTIES, converted, every_penalty, make_stack

RNG = np.random.default_rng(0)


def moved(stack, scale, offset):
    """The stack with features scale (x + offset), every second feature of every subject moved."""
    shift = offset * (np.arange(stack.X.shape[-1]) % 2) * np.arange(1, stack.X.shape[1] + 1)[:, None]
    return replace(stack, X=scale * (stack.X + shift[None, :, None, :]))


def random_point(stack):
    B, T, _, d, K = stack.shape
    W, b = RNG.standard_normal((B, T, d, K)), RNG.standard_normal((B, T, K))
    return np.where(np.isinf(stack.group_weights[:, stack.groups.index])[:, None], 0.0, W), b


def as_solution(stack, W, b, objective):
    zero = np.zeros_like(stack.alpha)
    return Solution(W, b, objective, zero, zero)


def test_ordinary_trials_are_neither_copied_nor_changed():
    stack = make_stack("q=2", T=2, similarity=0.3)
    for scale in (1.0, 50.0, 0.02):  # z-scores, µV, dV
        given = moved(stack, scale, 5.0)
        found = condition(given)
        assert found.stack.X is given.X
        assert found.mean is None
        assert found.unit is None


@every_penalty
@pytest.mark.parametrize("scale", [1.0, 2.0**-40, 1e-13, 1e13])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_every_point_has_the_same_objective_after_restoring(name, scale, fit_intercept):
    stack = moved(make_stack(name, T=3, fit_intercept=fit_intercept, similarity=0.3), scale, 1e3)
    rng = np.random.default_rng(1)
    more = {
        "center": rng.standard_normal((2, 3, 8, 3)) / scale,
        "metric": DenseMetric(rng.standard_normal((2, 3, 8, 8))),
    }
    for given in (stack, replace(stack, **more), replace(stack, center=more["center"])):
        found = condition(given)
        W, b = random_point(given)
        b = b * fit_intercept
        assert (found.unit is not None) == (scale != 1.0 or not fit_intercept)
        value = found.stack.objective(W, found.stack.scores(W, b))
        restored = found.restore(as_solution(given, W, b, value))
        again = given.objective(restored.W, given.scores(restored.W, restored.b))
        np.testing.assert_allclose(again, value, rtol=1e-9)
        assert (found.mean is not None) == fit_intercept


def test_features_come_out_centred_and_of_ordinary_size():
    found = condition(moved(make_stack("q=2", T=2), 1e-13, 1e5)).stack
    weight = found.trial_weight.sum(axis=-1)
    mean = np.einsum("btn,btnd->btd", weight, found.X) / weight.sum(axis=2)[..., None]
    size = np.sqrt(np.einsum("btn,btnd->btd", weight, found.X**2) / weight.sum(axis=2)[..., None])
    assert np.abs(mean[..., 1::2]).max() < 1e-9
    assert size.max(axis=(1, 2)).min() >= 1
    assert size.max() < 2


def test_every_data_set_has_a_unit_of_its_own_and_units_are_powers_of_two():
    stack = make_stack("q=2")
    found = condition(replace(stack, X=stack.X * np.array([1.0, 3e-9])[:, None, None, None]))
    assert found.unit[0] == 1.0
    assert 1e-9 < found.unit[1] < 1e-8
    assert np.log2(found.unit[1]) == np.round(np.log2(found.unit[1]))
    np.testing.assert_array_equal(found.stack.alpha * found.unit[:, None], stack.alpha)


def test_trials_without_weight_have_no_say_in_it():
    stack = make_stack("q=2")
    X = stack.X.copy()
    X[:, :, 0] = 1e9
    weights = stack.sample_weight.copy()
    weights[:, :, 0] = 0.0
    assert condition(replace(stack, X=X, sample_weight=weights)).stack.X is X
    assert condition(replace(stack, X=X)).unit is not None


@pytest.mark.parametrize("scale", [1e-200, 1e-160, 1e160])
def test_squares_that_overflow_or_underflow_are_never_formed(scale):
    stack = make_stack("q=2")
    with np.errstate(over="raise", invalid="raise"):
        found = condition(replace(stack, X=scale * stack.X, alpha=scale * stack.alpha))
    assert 0.1 < np.abs(found.stack.X).max() < 10
    np.testing.assert_allclose(found.original_alphas(found.stack.alpha), scale * stack.alpha, rtol=1e-15)
    assert np.all(np.isfinite(found.stack.X))


def test_all_features_zero_are_left_alone():
    stack = make_stack("l2")
    found = condition(replace(stack, X=0 * stack.X)).stack
    assert not found.X.any()
    assert np.all(np.isfinite(found.alpha))


def test_other_array_libraries_give_the_same():
    stack = moved(make_stack("q=1.4", T=2, similarity=0.3), 1e-13, 1e5)
    plain, other = condition(stack), condition(converted(stack, array_api_strict.asarray))
    np.testing.assert_allclose(np.asarray(other.stack.X), plain.stack.X, rtol=1e-9, atol=1e-12)
    for name in ("mean", "unit"):
        np.testing.assert_allclose(np.asarray(getattr(other, name)), getattr(plain, name), rtol=1e-12)


@every_penalty
@pytest.mark.parametrize("scale", [1.0, 2.0**40, 1e-13])
def test_alpha_max_follows_the_unit_and_ignores_the_offset(name, scale):
    stack = make_stack(name, B=1, beta=False)
    if not stack.penalty.is_norm:
        return
    _, penalty, q = PENALTIES[name]
    expected = alpha_max_reference(
        stack.X[0, 0], stack.y[0, 0], stack.sample_weight[0, 0, :, -1], penalty, q, stack.groups.index, np.ones(4)
    )
    found = alpha_max(moved(stack, scale, 1e6))[0, -1]
    assert found == pytest.approx(scale * expected, rel=1e-7)  # a feature at 1e6 is rounded at 1e-10 of its spread


def test_balanced_dual_variables_meet_the_equality():
    y = np.where(np.arange(50) % 3 == 0, 1.0, -1.0)[:, None]
    a = RNG.uniform(0, 1e-12, (50, 2)) + 1e-13
    a[:, 1] *= y[:, 0] > 0  # one class alone: nothing but zero meets it
    found = balance(a, y)
    assert abs(np.sum(found * y, axis=0)[0]) <= 1e-15 * found[:, 0].sum()
    assert np.all(found <= a)
    assert np.all(found[:, 0] > 0)
    assert not found[:, 1].any()


def test_of_two_points_the_lower_is_kept_with_the_better_bound():
    stack = make_stack("q=2", B=1, K=1, beta=False)
    far = certify(stack, *stack.start())
    near = certify(stack, *random_point(stack))
    low, high = (near, far) if near.primal < far.primal else (far, near)
    high = replace(high, dual=0.5 * low.primal, gap=1 - 0.5 * low.primal / high.primal)
    low = replace(low, dual=0.0 * low.primal, gap=0.0 * low.primal + 1)
    for found in (low.better(high), high.better(low)):
        np.testing.assert_array_equal(found.W, low.W)
        assert found.gap[0, 0] == pytest.approx(0.5)
    lost = Certificate(*(np.full_like(getattr(low, n), np.nan) for n in ("W", "b", "primal", "dual")), far.gap, far.W)
    lost = replace(lost, gap=np.full((1, 1), np.inf), dual=np.zeros((1, 1)))
    np.testing.assert_array_equal(lost.better(low).W, low.W)
