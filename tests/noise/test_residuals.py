import numpy as np
import pytest

import noise_reference as reference
from mixnorm.noise.residuals import residuals


def test_residuals_are_the_trials_minus_the_weighted_means_of_their_classes(trials):
    X, signs, weights = trials
    X = X.reshape(len(X), -1)
    noise = residuals(X, signs, weights)
    np.testing.assert_allclose(noise.trials, reference.residuals(X, signs, weights), atol=1e-13)
    np.testing.assert_allclose(noise.weights, weights / weights.sum(), rtol=1e-14)


def test_trials_of_weight_zero_are_left_out_whatever_they_hold(trials):
    X, signs, weights = trials
    X, kept = X.reshape(len(X), -1), np.arange(len(X)) % 4 > 0
    noise = residuals(np.where(kept[:, None], X, np.inf), signs, np.where(kept, weights, 0.0))
    np.testing.assert_allclose(noise.trials, reference.residuals(X[kept], signs[kept], weights[kept]), atol=1e-13)
    assert noise.weights.sum() == pytest.approx(1.0)


def test_other_library_gives_the_same(trials):
    torch = pytest.importorskip("torch")
    X, signs, weights = trials
    X, weights = X.reshape(len(X), -1), np.where(np.arange(len(X)) % 4 > 0, weights, 0.0)
    host, other = (residuals(part, signs, weights) for part in (X, torch.as_tensor(X)))
    np.testing.assert_allclose(other.trials.numpy(), host.trials, rtol=0, atol=1e-13)
    np.testing.assert_allclose(other.difference.numpy(), host.difference, rtol=0, atol=1e-13)
    assert other.n_difference == host.n_difference
    with pytest.raises(ValueError, match="all training trials of each class are the same"):
        residuals(torch.as_tensor(np.outer(signs, X[0])), signs, weights)


def test_training_trials_are_not_changed(trials):
    X, signs, weights = trials
    X = X.reshape(len(X), -1)
    before = X.copy()
    residuals(X, signs, weights)
    np.testing.assert_array_equal(X, before)


def test_trials_of_single_precision_are_summed_in_double(trials):
    X, signs, weights = trials
    X = X.reshape(len(X), -1).astype(np.float32)
    expected = reference.residuals(X.astype(np.float64), signs, weights)
    np.testing.assert_allclose(residuals(X, signs, weights).trials, expected, atol=1e-13)


def test_features_of_a_sensor_are_gathered_in_order_of_time(trials):
    X, signs, weights = trials
    n, C, r = X.shape
    times_first = X.transpose(0, 2, 1).reshape(n, -1)
    layout = np.arange(C * r).reshape(r, C).T
    expected = reference.residuals(X.reshape(n, -1), signs, weights).reshape(n, C, r)
    np.testing.assert_allclose(residuals(times_first, signs, weights).by_sensor(layout), expected, atol=1e-13)


@pytest.mark.parametrize("offset", [0.0, 1.0 / 3.0, 1e9 / 7.0])
def test_trials_that_are_the_same_within_each_class_are_refused(offset):
    signs = np.array([1, -1] * 30)
    X = offset + np.outer(signs, np.array([0.1, 0.7]))
    with pytest.raises(ValueError, match=r"all training trials of each class are the same\. Use noise=None, or give"):
        residuals(X, signs, np.linspace(0.3, 0.9, 60))
