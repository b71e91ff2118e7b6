import numpy as np
import pytest
from sklearn.covariance import ledoit_wolf

import noise_reference as reference
from mixnorm.noise.shrunk import count_trials, shrunk


@pytest.mark.parametrize(("n", "d"), [(5, 12), (40, 12), (3000, 6), (8, 1)])
def test_equal_weights_give_the_matrix_of_scikit_learn(rng, n, d):
    E = rng.standard_normal((n, d)) * np.geomspace(1, 5, d)
    expected = reference.unit(ledoit_wolf(E, assume_centered=True)[0])
    np.testing.assert_allclose(shrunk(E, np.full(n, 1 / n)), expected, atol=1e-12)


def test_the_shares_that_are_compared_differ(rng):
    """The sizes above cover strong and weak shrinkage."""
    shares = [ledoit_wolf(rng.standard_normal((n, d)) * np.geomspace(1, 5, d))[1] for n, d in [(5, 12), (3000, 6)]]
    assert shares[0] > 0.3
    assert shares[1] < 0.01


def test_repeated_trials_give_the_matrix_of_scikit_learn(rng):
    E, times = rng.standard_normal((9, 5)) * np.geomspace(1, 5, 5), rng.integers(1, 5, 9)
    expected = reference.unit(ledoit_wolf(np.repeat(E, times, axis=0), assume_centered=True)[0])
    np.testing.assert_allclose(shrunk(E, times / times.sum()), expected, atol=1e-12)


def test_share_is_cut_at_one():
    # trials along the axes, nearly of one length: S is so near to white noise that the formula exceeds 1
    E = np.diag([1.0, 1.1, 1.2, 1.0])
    assert ledoit_wolf(E, assume_centered=True)[1] == 1.0
    np.testing.assert_allclose(shrunk(E, np.full(4, 0.25)), np.eye(4), atol=1e-15)


def test_residuals_of_one_vector_and_its_opposite_are_positive_definite(rng):
    e = rng.standard_normal(7)
    N = shrunk(np.stack([e, -e]), np.full(2, 0.5))
    assert reference.positive_definite(N)
    # the formula by itself gives no shrinkage here, and a matrix of rank 1
    assert ledoit_wolf(np.stack([e, -e]), assume_centered=True)[1] == pytest.approx(0.0, abs=1e-12)


def test_unequal_reliability_counts_as_fewer_trials():
    """Four trials, two of them nearly worthless, are about two; a common factor changes nothing."""
    weights = np.array([1.0, 1.0, 1e-3 * np.pi, 1e-3 * np.pi])
    assert count_trials(weights) == pytest.approx(2.0, abs=0.02)
    assert count_trials(1e-9 * weights) == pytest.approx(count_trials(weights))


def test_tiny_weight_is_no_unit_of_repetition():
    # every number above 2⁵³ is whole in floating point, so that any weights would be multiples of 1e-300
    assert count_trials(np.array([1.0, 1.3, 1e-300])) == pytest.approx(2.3**2 / (1 + 1.3**2))
