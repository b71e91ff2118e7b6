import numpy as np
import pytest

import noise_reference as reference
from mixnorm.noise.toeplitz import from_lags, lag_covariances, toeplitz


def test_every_entry_is_the_sum_over_all_pairs_of_samples_at_its_lag(trials):
    E, _, weights = trials
    np.testing.assert_allclose(toeplitz(E, weights / weights.sum()), reference.toeplitz(E, weights), atol=1e-13)


def test_blocks_depend_on_the_lag_alone(trials):
    E, _, weights = trials
    _, C, r = E.shape
    N = toeplitz(E, weights / weights.sum()).reshape(C, r, C, r)
    np.testing.assert_array_equal(N[:, 1:, :, 1:], N[:, :-1, :, :-1])
    assert np.abs(N[:, 0, :, 1] - N[:, 1, :, 0]).max() > 1e-2  # lag 1 and lag −1 are transposes, not equal


def test_one_sample_has_lag_zero_only(rng):
    E, weights = rng.standard_normal((6, 3, 1)), np.full(6, 1 / 6)
    np.testing.assert_allclose(from_lags(lag_covariances(E, weights)), E[:, :, 0].T @ E[:, :, 0] / 6, atol=1e-15)


def test_division_by_the_number_of_samples_keeps_the_matrix_positive_semidefinite(rng):
    # one trial, more features than samples: as mean over pairs instead, the same lags are indefinite
    E, weights = rng.standard_normal((1, 3, 8)), np.ones(1)
    lags = lag_covariances(E, weights)
    over_pairs = lags * (8 / (8 - np.arange(8)))[:, None, None]
    assert np.linalg.eigvalsh(from_lags(lags))[0] > -1e-12
    assert np.linalg.eigvalsh(from_lags(over_pairs))[0] < -0.1


def test_without_white_noise_the_blocks_follow_the_scale_of_the_sensors(trials, rng):
    E, _, weights = trials
    weights, scale = weights / weights.sum(), rng.uniform(0.1, 10.0, E.shape[1])
    D = np.diag(np.repeat(scale, E.shape[2]))
    plain, other = (toeplitz(part, weights, white_share=0.0) for part in (E, scale[:, None] * E))
    np.testing.assert_allclose(other, reference.unit(D @ plain @ D), atol=1e-12)
    plain, other = (toeplitz(part, weights) for part in (E, scale[:, None] * E))
    assert np.abs(other - reference.unit(D @ plain @ D)).max() > 1e-3


def test_lags_of_an_autoregressive_process_are_found(rng):
    """x_t = 0.8 x_{t−1} + u_t has the correlation 0.8^l at lag l; the taper makes it (1 − l/r) 0.8^l."""
    x = np.zeros((20_000, 6 + 60))
    for t in range(1, x.shape[1]):
        x[:, t] = 0.8 * x[:, t - 1] + rng.standard_normal(len(x))
    lags = lag_covariances(x[:, None, -6:], np.full(len(x), 1 / len(x)))[:, 0, 0]
    expected = (1 - np.arange(6) / 6) * 0.8 ** np.arange(6)
    assert lags / lags[0] == pytest.approx(expected, abs=0.02)
