import numpy as np

import noise_reference as reference
from mixnorm.noise.kronecker import kronecker


def test_factors_are_those_of_the_definition(trials):
    E, _, weights = trials
    factors = kronecker(E, weights / weights.sum())
    R, S = reference.kronecker_parts(E, weights)
    np.testing.assert_allclose(factors.sensors, reference.unit(R), atol=1e-13)
    np.testing.assert_allclose(factors.samples, reference.unit(S), atol=1e-13)


def test_dense_matrix_is_sensor_by_sensor(trials):
    E, _, weights = trials
    N = kronecker(E, weights / weights.sum()).dense()
    np.testing.assert_allclose(N, reference.kronecker(E, weights), atol=1e-13)


def test_without_white_noise_the_sensors_factor_follows_their_scale(trials, rng):
    E, _, weights = trials
    weights, scale = weights / weights.sum(), rng.uniform(0.1, 10.0, E.shape[1])
    plain, other = (kronecker(part, weights, white_share=0.0) for part in (E, scale[:, None] * E))
    np.testing.assert_allclose(
        other.sensors, reference.unit(np.diag(scale) @ plain.sensors @ np.diag(scale)), atol=1e-12
    )
    np.testing.assert_allclose(other.samples, plain.samples, atol=1e-12)
    # with it, the quiet sensors get the white noise of the loud ones
    plain, other = (kronecker(part, weights) for part in (E, scale[:, None] * E))
    followed = reference.unit(np.diag(scale) @ plain.sensors @ np.diag(scale))
    assert np.abs(other.sensors - followed).max() > 1e-3


def test_samples_of_a_true_product_are_found(rng):
    # many trials of a known R ⊗ S: both factors to the accuracy of the sum, less 1 % white noise
    R, S = (reference.unit(A @ A.T + np.eye(len(A))) for A in (rng.standard_normal((k, k)) for k in (3, 4)))
    E = np.linalg.cholesky(R) @ rng.standard_normal((40_000, 3, 4)) @ np.linalg.cholesky(S).T
    factors = kronecker(E, np.full(len(E), 1 / len(E)))
    np.testing.assert_allclose(factors.sensors, reference.white(R, 0.01), atol=0.03)
    np.testing.assert_allclose(factors.samples, reference.white(S, 0.01), atol=0.03)
