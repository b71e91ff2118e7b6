"""Unpenalised features that are the same but for the rounding of a large offset."""

from dataclasses import replace

import array_api_strict
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from mixnorm import GroupSVC
from mixnorm.core import unpenalised
from mixnorm.core.certificate import certify
from mixnorm.core.conditioning import condition
from mixnorm.core.groups import Groups
from mixnorm.core.penalties import GroupNorm
from mixnorm.core.problem import Stack
from mixnorm.core.rounded_features import without_rounding
from stacks import converted, make_stack

EPS = np.finfo(float).eps


def rounded(X, offset):
    """Features as they are after an offset (m,) was added to them, in doubles, and subtracted again."""
    return (X + offset) - offset, EPS * np.abs(offset) * np.ones(X.shape[1])


def drawn(seed=0, m=3):
    return np.random.default_rng(seed).standard_normal((40, m))


def smallest_size(X):
    """The least size of a combination of features about their means, coefficients having length 1."""
    return np.linalg.svd(X - X.mean(axis=0), compute_uv=False)[-1]


def test_features_that_differ_by_more_than_rounding_are_left_alone():
    for offset in (0.0, 1e6, np.array([0.0, 1e3, 1e9])):
        assert without_rounding(*rounded(drawn(), offset)) is None


@pytest.mark.parametrize("offset", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("factor", [1.0, -0.3])
def test_copies_become_exactly_collinear_and_change_by_rounding_alone(offset, factor):
    X = drawn()
    X[:, 2] = factor * X[:, 0] + 0.5
    given, noise = rounded(X, offset * np.array([1.0, 0.0, -3.0]))
    assert smallest_size(given) > noise[0]  # else there is nothing to take out
    found = without_rounding(given, noise)
    assert smallest_size(found) < 100 * EPS
    assert np.all(np.abs(found - given) <= 4 * noise + 50 * EPS)


def test_a_constant_feature_becomes_zero():
    given, noise = rounded(drawn(), 1e6)
    given[:, 1] = 3e-11  # what a mean that was rounded leaves of it
    found = without_rounding(given, noise)
    assert not found[:, 1].any()
    np.testing.assert_allclose(found[:, [0, 2]], given[:, [0, 2]], rtol=0, atol=1e-15)


def test_the_rounding_of_one_feature_says_nothing_of_others():
    X = drawn(m=3)
    X[:, 1] = X[:, 0] + 1e-5 * X[:, 1]  # nearly a copy, but 1e-5 is no rounding here
    assert without_rounding(*rounded(X, np.array([0.0, 0.0, 1e10]))) is None
    assert without_rounding(*rounded(X, np.array([0.0, 1e12, 0.0]))) is not None


def copied(offset):
    """A stack whose unpenalised sensor has a copy of its own first feature beside it, at another offset."""
    stack = make_stack("q=2", B=2, T=2)
    beta, X = stack.group_weights.copy(), stack.X.copy()
    beta[:, 1, 0] = 0.0
    first, second = np.flatnonzero(stack.groups.index == 1)[:2]
    X[..., second] = X[..., first] + offset
    return replace(stack, group_weights=beta, X=X), second


def test_only_unpenalised_features_with_offsets_are_changed():
    stack, second = copied(1e6)
    found = condition(stack)
    assert np.array_equal(np.flatnonzero(found.rounding.any(axis=(0, 1))), [second])
    np.testing.assert_allclose(found.rounding[..., second], EPS * 1e6, rtol=1e-3)
    penalised = condition(replace(stack, group_weights=np.ones_like(stack.group_weights)))
    assert penalised.rounding is None
    others = np.delete(np.arange(stack.X.shape[-1]), np.flatnonzero(stack.groups.index == 1))
    np.testing.assert_array_equal(found.stack.X[..., others], penalised.stack.X[..., others])
    assert condition(copied(0.0)[0]).rounding is None


def test_other_array_libraries_change_the_same():
    stack, _ = copied(1e6)
    plain, other = condition(stack), condition(converted(stack, array_api_strict.asarray))
    np.testing.assert_allclose(np.asarray(other.stack.X), plain.stack.X, rtol=0, atol=1e-9)
    np.testing.assert_allclose(np.asarray(other.rounding), plain.rounding, rtol=1e-12)


def problem(seed, kind):
    """Trials whose second, unpenalised sensor has a copy of its first feature, or a constant, at an offset of 1e6."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(30) < 0.5, 1, -1)
    X = rng.standard_normal((30, 8)) + 0.3 * y[:, None]
    X[:, 3] = X[:, 2] if kind == "copy" else 0.0
    return X + 1e6 * np.array([1, -1, 0, 1, 0, 1, 1, -1]), y


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # no gap can be 1e-12 here
@pytest.mark.parametrize("kind", ["copy", "constant"])
@pytest.mark.parametrize("penalty", ["l1", "l2", "group"])
def test_a_gap_is_not_stated_below_what_another_fit_shows(kind, penalty):
    """Coefficients of both features went any way along their difference: by 1e-9 of the value, at a gap of 1e-12.

    A constant had coefficients of 1e6 to 1e9, and gaps up to 6e-3.
    """
    for seed in range(5):
        X, y = problem(seed, kind)
        fits = [
            GroupSVC(0.02, penalty=penalty, groups=np.arange(8) // 2, group_weights=[1, 0, 1, 1], tol=tol).fit(X, y)
            for tol in (1e-6, 1e-12)
        ]
        values = [exact_loss(X, y, fit) + penalties(fit, penalty) for fit in fits]
        assert fits[0].dual_gap_ <= 1e-6
        assert float((values[0] - min(values)) / values[0]) <= fits[0].dual_gap_
        assert np.abs(fits[0].coef_).max() < 100


def exact_loss(X, y, fit):
    """Mean squared hinge, features about the offset (a difference that is exact) in extended precision."""
    offset = np.where(np.abs(X.mean(axis=0)) > 1e3, np.round(X.mean(axis=0)), 0.0)
    w, centre = (np.asarray(part, dtype=np.longdouble) for part in (fit.coef_[0], offset))
    scores = (X - offset).astype(np.longdouble) @ w + (np.longdouble(fit.intercept_[0]) + centre @ w)
    return np.mean(np.maximum(0, 1 - y * scores) ** 2)


def penalties(fit, penalty):
    w = fit.coef_[0].astype(np.longdouble).reshape(4, 2)[[0, 2, 3]]
    paid = {"l1": np.abs(w).sum(), "l2": np.sum(w**2) / 2, "group": np.sqrt(np.sum(w**2, axis=1)).sum()}
    return np.longdouble(0.02) * paid[penalty]


def test_a_constant_feature_without_a_penalty_is_certified_beside_a_ridge():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = rng.standard_normal((60, 4)) + y[:, None] * 0.5
    X[:, 3] = 7.0
    model = GroupSVC(0.05, ridge=1e-3, groups=[0, 1, 2, 3], group_weights={2: 0.0, 3: 0.0}).fit(X, y)
    assert model.dual_gap_ <= 1e-6


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_feature_of_zeros_without_a_penalty_is_certified_beside_a_ridge(seed, fit_intercept):
    rng = np.random.default_rng(seed)
    y = np.where(rng.uniform(size=60) < 0.4, 1, -1)
    X = rng.standard_normal((60, 12)) + 0.3 * (y > 0)[:, None]
    X[:, 1] = 0.0
    groups = np.repeat([0, 1, 2, 3], 3)
    settings = {"ridge": 0.1, "group_weights": {0: 0.0}, "fit_intercept": fit_intercept}
    model = GroupSVC(0.05, groups=groups, **settings).fit(X, y)
    assert model.dual_gap_ <= 1e-6
    without = GroupSVC(0.05, groups=np.delete(groups, 1), **settings).fit(np.delete(X, 1, axis=1), y)
    assert model.objective_ == pytest.approx(without.objective_, rel=2e-6)


@pytest.mark.parametrize("distance", [1e-6, 1e-2, 1.0])
def test_the_certificate_beside_a_ridge_bounds_the_optimum_at_any_point(distance):
    rng = np.random.default_rng(5)
    y = np.where(rng.uniform(size=50) < 0.4, 1.0, -1.0)
    X = rng.standard_normal((50, 6)) + 0.3 * (y > 0)[:, None]
    X[:, 1] = 0.0
    stack = Stack.single(
        X,
        y,
        sample_weight=np.ones((50, 1)),
        group_weights=np.array([[0.0], [1.0], [1.0]]),
        groups=Groups.from_labels(np.repeat([0, 1, 2], 2), 6),
        penalty=GroupNorm(2.0),
    )
    stack = replace(stack.with_alpha(np.full((1, 1), 0.05)), ridge=np.full((1, 1), 0.1))
    best = GroupSVC(0.05, groups=np.repeat([0, 1, 2], 2), ridge=0.1, group_weights={0: 0.0}, tol=1e-12).fit(X, y)
    for _ in range(20):
        W = best.coef_[0] + distance * rng.standard_normal(6)
        found = certify(stack, W[None, None, :, None], np.zeros((1, 1, 1)))
        assert found.dual[0, 0] <= best.objective_ * (1 + 1e-12) <= found.primal[0, 0] * (1 + 2e-12)
    assert distance > 1e-6 or found.gap[0, 0] < 1e-3  # near the optimum the bound is tight


def test_what_an_unmet_equality_costs_beside_a_ridge():
    """With c + ρ in the place of c = r θ, the dual value −c²/(2 r) falls by θ·ρ + ρ²/(2 r)."""
    rng = np.random.default_rng(7)
    n, ridge, theta = 30, 0.2, np.array([0.7, -1.3])
    y, X = np.where(np.arange(n) < 12, 1.0, -1.0), rng.standard_normal((n, 4))
    stack = Stack.single(
        X,
        y,
        sample_weight=np.ones((n, 1)),
        group_weights=np.array([[0.0], [1.0]]),
        groups=Groups.from_labels(np.repeat([0, 1], 2), 4),
        penalty=GroupNorm(2.0),
    )
    stack = replace(stack.with_alpha(np.full((1, 1), 0.05)), ridge=np.full((1, 1), ridge))
    W = np.concatenate([theta, [0.4, 0.0]])[None, None, :, None]
    free = unpenalised._free_coordinates(stack, W, 0, 0)
    a = rng.uniform(0.1, 1.0, n)
    a[y > 0] *= a[y < 0].sum() / a[y > 0].sum()  # the equality of the intercept is met
    rho = X[:, :2].T @ (a * y) - ridge * theta
    target = np.append(ridge * theta, 0.0)[None]
    lack = unpenalised._lack_apart(free, a[None], target, np.zeros((1, 3)), np.append(theta, 0.3)[None])
    lower = (np.sum((ridge * theta + rho) ** 2) - np.sum((ridge * theta) ** 2)) / (2 * ridge)
    assert np.abs(rho).min() > 0.1  # more than rounding
    assert lower <= lack
    assert lack == pytest.approx(2 * (np.abs(theta * rho).sum() + rho @ rho / (2 * ridge)))


def test_rounding_beyond_the_objective_is_counted_in_the_gap():
    # The classes are separated, so that the objective is small; the intercept of an offset of 1e14 is rounded so
    # coarsely that its square is larger.
    rng = np.random.default_rng(1)
    y = np.arange(40) % 2
    X = rng.standard_normal((40, 3))
    X[:, 0] = np.where(y, 1.5, -1.5) + 0.3 * X[:, 0] + 1e14
    with pytest.warns(ConvergenceWarning):
        model = GroupSVC(1e-5, groups=[0, 1, 2]).fit(X, y)
    assert model.dual_gap_ > 1e-6
