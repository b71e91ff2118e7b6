"""Penalties of some sensors from what all sensors show: the definition, in every form in which they are used."""

import numpy as np
import pytest

import noise_reference as reference
from mixnorm.noise import SensorMoments, covariance, subset_penalties, subsets
from mixnorm.noise.subsets import EvokedSubsets, StructuredSubsets

SETS = [np.array([2]), np.array([3, 0, 1]), np.arange(4)]
ORDER = np.array([3, 1, 0, 2])


@pytest.fixture
def trials(rng):
    """Coloured trials with a response in some sensors, large enough to be seen."""
    n, C, r = 40, 4, 3
    signs = np.where(np.arange(n) % 3 == 0, 1, -1)
    X = rng.standard_normal((n, C, C)) @ rng.standard_normal((C, C)) @ rng.standard_normal((C, r))
    return X + (signs > 0)[:, None, None] * 4.0 * rng.standard_normal((C, r)), signs, rng.uniform(0.5, 2.0, n)


@pytest.fixture(params=["evoked", "structured"])
def penalties(request, trials, monkeypatch):
    if request.param == "structured":
        monkeypatch.setattr(subsets, "MOST_FEATURES", 11)
    found = subset_penalties(*trials)
    assert isinstance(found, EvokedSubsets if request.param == "evoked" else StructuredSubsets)
    assert found.noise == request.param
    return found


def features(sensors, r=3):
    return (r * sensors[:, None] + np.arange(r)).ravel()


def expected_evoked(trials, sensors):
    N, Q = reference.noise_and_response(*trials)
    unit = np.mean(np.diag(N @ np.linalg.inv(Q) @ N))
    part = np.ix_(features(sensors), features(sensors))
    return N[part] @ np.linalg.inv(Q[part]) @ N[part] / unit


@pytest.mark.parametrize("sensors", SETS, ids=str)
def test_matrix_is_that_of_the_definition(trials, sensors):
    M = subset_penalties(*trials).matrix(sensors)
    np.testing.assert_allclose(M, expected_evoked(trials, sensors), rtol=1e-9, atol=1e-11)
    # and not the noise alone, nor the estimate of these sensors by themselves
    X, signs, weights = trials
    alone = reference.evoked(X[:, sensors], signs, weights)
    assert len(sensors) == 4 or np.abs(M - alone).max() > 0.01
    assert np.abs(M - reference.structured(reference.residuals(X, signs, weights)[:, sensors], weights)).max() > 0.01


def test_with_all_sensors_it_is_evoked(trials):
    X, signs, weights = trials
    layout = np.arange(12).reshape(4, 3)
    expected = covariance("evoked", X.reshape(len(X), -1), signs, weights, layout)
    np.testing.assert_allclose(subset_penalties(*trials).matrix(np.arange(4)), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("sensors", SETS, ids=str)
def test_above_the_limit_it_is_the_structured_noise_of_the_sensors_themselves(trials, sensors, monkeypatch):
    monkeypatch.setattr(subsets, "MOST_FEATURES", 11)
    X, signs, weights = trials
    E = reference.residuals(X[:, sensors], signs, weights)
    np.testing.assert_allclose(
        subset_penalties(*trials).matrix(sensors), reference.structured(E, weights), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("sensors", SETS, ids=str)
def test_whitening_keeps_scores_and_makes_the_penalty_the_identity(penalties, sensors, rng):
    d = 3 * len(sensors)
    X, V = rng.standard_normal((7, d)), rng.standard_normal((d, 2))
    coordinates = penalties.whitening(sensors)
    W = coordinates.coefficients(V)
    np.testing.assert_allclose(coordinates.trials(X) @ V, X @ W, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(W.T @ penalties.matrix(sensors) @ W, V.T @ V, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("K", [1, 3, 4])
def test_nested_penalties_are_those_of_the_first_sensors(penalties, K, rng):
    M, own = penalties.matrix(ORDER[:K]), penalties.nested(ORDER).first(K)
    W = rng.standard_normal((K, 3))
    np.testing.assert_allclose(own.dense(), M, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(own.times(W).ravel(), M @ W.ravel(), rtol=1e-9, atol=1e-10)
    exact = W.ravel() @ np.linalg.solve(M, W.ravel())
    assert own.inverse_bound(W) >= exact * (1 - 1e-9)
    if penalties.noise == "evoked":
        assert own.inverse_bound(W) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("K", [1, 3, 4])
def test_trials_of_the_first_sensors_are_in_coordinates_of_their_penalty(penalties, trials, K, rng):
    X, V = trials[0][:, ORDER], rng.standard_normal((3 * K, 2))
    coordinates, Z = penalties.nested(ORDER).whitened(X).first(K)
    W = coordinates.coefficients(V)
    np.testing.assert_allclose(Z @ V, X[:, :K].reshape(len(X), -1) @ W, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(W.T @ penalties.matrix(ORDER[:K]) @ W, V.T @ V, rtol=1e-8, atol=1e-9)


def test_moments_in_another_order_are_those_of_the_sensors_in_that_order(trials):
    X, signs, weights = trials
    part, alone = SensorMoments(*trials).in_order(ORDER[:3]), SensorMoments(X[:, ORDER[:3]], signs, weights)
    np.testing.assert_allclose(part.sample(slice(0, 3)), alone.sample(slice(0, 3)), rtol=0, atol=1e-12)
    np.testing.assert_allclose(part.difference, alone.difference)
    assert part.variance == pytest.approx(alone.variance)


def test_other_library_gives_the_same(trials):
    torch = pytest.importorskip("torch")
    X, signs, weights = trials
    host, other = subset_penalties(*trials), subset_penalties(torch.as_tensor(X), signs, weights)
    pairs = (host, np.asarray), (other, torch.as_tensor)
    for sensors in SETS:
        np.testing.assert_allclose(other.matrix(sensors), host.matrix(sensors), rtol=1e-9, atol=1e-11)
        X = np.ones((2, 3 * len(sensors)))
        there = other.whitening(sensors).trials(torch.as_tensor(X)).numpy()
        np.testing.assert_allclose(there, host.whitening(sensors).trials(X), rtol=1e-9, atol=1e-11)
    X, E = trials[0][:, ORDER], np.ones((3, 3))
    (_, Z), (_, there) = (own.nested(ORDER).whitened(send(X)).first(3) for own, send in pairs)
    np.testing.assert_allclose(there.numpy(), Z, rtol=1e-9, atol=1e-10)
    bounds = [own.nested(ORDER).first(3).inverse_bound(E) for own, _ in pairs]
    assert bounds[1] == pytest.approx(bounds[0])
