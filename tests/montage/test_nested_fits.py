"""Classifiers of the first K sensors for every K: those of the estimator, with a certificate."""

import numpy as np
import pytest

from mixnorm import GroupSVC
from mixnorm.core.certificate import certify, quadratic_gap
from mixnorm.core.groups import Groups
from mixnorm.core.penalties import L2
from mixnorm.core.problem import Stack
from mixnorm.montage import nested_fits as module
from mixnorm.montage.nested_fits import nested_fits
from mixnorm.noise import SensorMoments, subset_penalties
from mixnorm.noise.subsets import StructuredSubsets


@pytest.fixture(scope="module")
def trials():
    rng = np.random.default_rng(3)
    signs = np.where(rng.uniform(size=90) < 0.3, 1.0, -1.0)
    X = rng.standard_normal((90, 12, 4)) @ np.tri(4) + rng.standard_normal((90, 1, 4))
    X[signs > 0, :5] += 0.5
    return X, signs


@pytest.fixture(params=["evoked", "structured"])
def penalties(request, trials):
    X, signs = trials
    if request.param == "evoked":
        return subset_penalties(X, signs, np.ones(len(X)))
    return StructuredSubsets(SensorMoments(X, signs, np.ones(len(X))))


def objective(X, signs, w, b, alpha, M):
    h = np.maximum(0, 1 - signs * (X.reshape(len(X), -1) @ w.ravel() + b))
    return np.mean(h**2) + alpha / 2 * w.ravel() @ M @ w.ravel()


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 10.0])
def test_every_size_is_the_fit_of_the_estimator(trials, penalties, alpha):
    X, signs = trials
    sizes = [1, 2, 5, 6, 7, 11, 12]
    found = list(nested_fits(X, signs, dict.fromkeys(sizes, alpha), {}, penalties.nested(np.arange(12))))
    assert [fit.size for fit in found] == sizes[::-1]
    for fit in found:
        own = X[:, : fit.size]
        M = penalties.matrix(np.arange(fit.size))
        alone = GroupSVC(alpha, penalty="l2", noise=M, tol=1e-11).fit(own, signs)
        best = objective(own, signs, alone.coef_, alone.intercept_[0], alpha, M)
        value = objective(own, signs, fit.coef, fit.intercept, alpha, M)
        assert 0 <= fit.gap <= module.TOL
        # the gap is a certificate: the value is no further from the optimum
        assert value - best <= fit.gap * value + 1e-12
        np.testing.assert_allclose(fit.coef.ravel(), alone.coef_[0], atol=1e-3 * np.abs(alone.coef_).max())


def test_known_solutions_are_where_the_next_size_starts(trials, penalties, monkeypatch):
    X, signs = trials
    nested = penalties.nested(np.arange(12))
    solved = {fit.size: fit for fit in nested_fits(X, signs, {6: 0.1, 5: 0.1}, {}, nested)}
    known = {6: (solved[6].coef, solved[6].intercept)}
    starts = []
    plain = module._Walk.fit
    monkeypatch.setattr(
        module._Walk, "fit", lambda self, K, alpha, w, b: starts.append((K, w)) or plain(self, K, alpha, w, b)
    )
    (five,) = nested_fits(X, signs, {5: 0.1}, known, nested)
    assert [K for K, _ in starts] == [5]
    np.testing.assert_array_equal(starts[0][1], solved[6].coef[:5])
    np.testing.assert_allclose(five.coef, solved[5].coef, atol=1e-3)


@pytest.mark.parametrize(("penalties", "most"), [("evoked", 6), ("structured", 3)], indirect=["penalties"])
def test_one_factor_serves_several_sizes(trials, penalties, most, monkeypatch):
    X, signs = trials
    made = []
    plain = module._Factor.of.__func__
    monkeypatch.setattr(module._Factor, "of", classmethod(lambda cls, at: made.append(len(at.w)) or plain(cls, at)))
    nested = penalties.nested(np.arange(12))
    assert len(list(nested_fits(X, signs, dict.fromkeys(range(2, 13), 1.0), {}, nested))) == 11
    assert len(made) <= most


def test_gap_from_the_gradient_is_that_of_the_certificate():
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((40, 6)), np.tile([1.0, -1.0], 20)
    stack = Stack.single(
        X,
        y,
        sample_weight=np.ones((40, 1)),
        group_weights=np.ones((6, 1)),
        groups=Groups.from_labels(None, 6),
        penalty=L2(),
    ).with_alpha(np.full((1, 1), 0.2))
    w = 0.1 * rng.standard_normal((1, 1, 6, 1))
    found = certify(stack, w, np.zeros((1, 1, 1)))
    w, b = found.W[0, 0, :, 0], found.b[0, 0, 0]
    a = 2 * np.maximum(0, 1 - y * (X @ w + b)) / 40
    e = X.T @ (a * y) - 0.2 * w
    # the certificate also looks for the best multiple of a, so that its gap may only be smaller
    gap = quadratic_gap(float(found.primal[0, 0]), 0.2, float(e @ e))
    assert found.gap[0, 0] <= gap * (1 + 1e-9)
    linear, square = np.sum(a), np.sum(a**2) * 40 / 4 + (X.T @ (a * y)) @ (X.T @ (a * y)) / 0.4
    assert gap == pytest.approx((found.primal[0, 0] - (linear - square)) / found.primal[0, 0])


def test_a_value_that_is_no_number_is_never_certified():
    assert quadratic_gap(float("nan"), 0.1, 1.0) == float("inf")
    assert quadratic_gap(1.0, 0.1, float("nan")) == float("inf")
