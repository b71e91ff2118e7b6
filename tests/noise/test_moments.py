"""The noise of sets of sensors from second moments: the estimate of these sensors by themselves."""

import numpy as np
import pytest

import noise_reference as reference
from mixnorm.noise import SensorMoments

SAME = {"rtol": 0, "atol": 1e-12}  # the mean diagonal is 1
SETS = [slice(0, 1), slice(0, 3), slice(0, 4), np.array([2]), np.array([3, 0, 1])]


def expected(X, signs, weights, sensors):
    E = reference.residuals(X[:, sensors], signs, weights)
    return reference.structured(E, weights)


@pytest.fixture
def moments(trials):
    return SensorMoments(*trials)


@pytest.mark.parametrize("sensors", SETS, ids=str)
def test_estimate_is_that_of_the_sensors_by_themselves(trials, moments, sensors):
    np.testing.assert_allclose(moments.structured(sensors).dense(), expected(*trials, sensors), **SAME)


@pytest.mark.parametrize("sensors", SETS, ids=str)
def test_sample_covariance_is_that_of_the_residuals(trials, moments, sensors):
    X, signs, weights = trials
    E = reference.residuals(X[:, sensors], signs, weights).reshape(len(X), -1)
    np.testing.assert_allclose(moments.sample(sensors), E.T @ (weights[:, None] * E) / weights.sum(), **SAME)


@pytest.mark.parametrize("sensors", SETS, ids=str)
def test_lagged_matrix_has_the_mean_covariance_at_every_lag(trials, moments, sensors):
    X, signs, weights = trials
    E = reference.residuals(X[:, sensors], signs, weights)
    _, C, r = E.shape
    found = np.reshape(moments.lagged(sensors), (C, r, C, r))
    share = weights / weights.sum()
    for s in range(r):
        for t in range(s, r):
            pairs = [np.einsum("n,ni,nj->ij", share, E[:, :, k], E[:, :, k + t - s]) for k in range(r - t + s)]
            np.testing.assert_allclose(found[:, s, :, t], sum(pairs) / r, **SAME)
            np.testing.assert_allclose(found[:, t, :, s], sum(pairs).T / r, **SAME)


def test_kronecker_product_is_added_to_a_matrix(moments, rng):
    N, matrix = moments.structured(np.array([3, 0, 1])), rng.standard_normal((9, 9))
    expected = matrix + 0.3 * np.kron(N.sensors, N.samples)
    N.add_product(matrix, 0.3)
    np.testing.assert_allclose(matrix, expected, **SAME)


@pytest.mark.parametrize("sensors", SETS, ids=str)
def test_product_needs_no_matrix(moments, sensors, rng):
    N = moments.structured(sensors)
    W = rng.standard_normal((len(N.sensors), len(N.samples)))
    np.testing.assert_allclose(N.times(W).ravel(), N.dense() @ W.ravel(), rtol=0, atol=1e-13)


def test_bound_holds_and_is_that_of_the_kronecker_part(moments, rng):
    N = moments.structured(slice(0, 4))
    for _ in range(20):
        E = rng.standard_normal((len(N.sensors), len(N.samples)))
        exact = E.ravel() @ np.linalg.solve(N.dense(), E.ravel())
        assert exact <= N.inverse_bound(E)
        product = np.kron(N.sensors, N.samples)
        assert N.inverse_bound(E) == pytest.approx(2 * E.ravel() @ np.linalg.solve(product, E.ravel()))


def test_other_library_gives_the_same(trials, moments):
    torch = pytest.importorskip("torch")
    X, signs, weights = trials
    other, sensors = SensorMoments(torch.as_tensor(X), signs, weights), np.array([3, 0, 1])
    np.testing.assert_allclose(other.structured(sensors).dense().numpy(), moments.structured(sensors).dense(), **SAME)
    np.testing.assert_allclose(other.sample(sensors).numpy(), moments.sample(sensors), **SAME)


def test_sensors_that_are_constant_in_each_class_are_refused(trials):
    X, signs, weights = trials
    X = X.copy()
    X[:, 1] = (signs > 0)[:, None]
    with pytest.raises(
        ValueError, match="noise of a montage cannot be estimated, because its electrodes are constant"
    ):
        SensorMoments(X, signs, weights).structured(np.array([1]))
