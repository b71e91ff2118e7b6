"""Few trials of many features: the same scores and lengths in coordinates of their span."""

import numpy as np
import pytest

from mixnorm import GroupSVC
from mixnorm.core.span import Span


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def trials(rng):
    return rng.standard_normal((20, 90))


def test_scores_and_lengths_are_the_same(trials, rng):
    span = Span.of(trials)
    V = rng.standard_normal((20, 3))
    W = span.coefficients(V)
    np.testing.assert_allclose(trials @ W, span.trials @ V, atol=1e-12)
    np.testing.assert_allclose(np.sum(W**2, axis=0), np.sum(V**2, axis=0), rtol=1e-12)


def test_many_or_dependent_trials_are_left_as_they_are(trials):
    assert Span.of(trials.T) is None
    assert Span.of(np.concatenate([trials, trials[:1]])) is None


@pytest.mark.parametrize("noise", ["structured", "shrunk"])
def test_fit_with_noise_is_the_same_in_the_span(noise, rng, monkeypatch):
    y = np.tile([0, 1, 1], 10)
    X = rng.standard_normal((30, 8, 6)) + 0.5 * y[:, None, None]
    X[:, 3] = 1.0  # a constant sensor has no part in it
    inside = GroupSVC(0.3, penalty="l2", noise=noise, tol=1e-10).fit(X, y)
    monkeypatch.setattr(Span, "of", classmethod(lambda cls, Z: None))
    outside = GroupSVC(0.3, penalty="l2", noise=noise, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(inside.coef_, outside.coef_, atol=1e-9)
    assert inside.intercept_ == pytest.approx(outside.intercept_, abs=1e-9)
    assert inside.objective_ == pytest.approx(outside.objective_, rel=1e-10)
    assert not inside.coef_.reshape(8, 6)[3].any()
