"""Elimination by distance and weights: against formulas, the units of channels, and where the distance is alone."""

import numpy as np
import pytest

from elimination_reference import losses, weights
from mixnorm import SensorSelector
from mixnorm.core.groups import Groups
from mixnorm.estimators.classifier_weights import TRIALS_PER_FEATURE, DistanceAndWeights
from mixnorm.estimators.elimination import elimination_order
from mixnorm.estimators.trained import Trained
from mixnorm.estimators.unbiased_distance import UnbiasedDistance

G, R = 5, 6
ENOUGH = TRIALS_PER_FEATURE * G * R


def trials_of(seed, n):
    """Noise that is smooth over time and shared by sensors, and a response of some of them."""
    rng = np.random.default_rng(seed)
    signs = np.where(np.arange(n) % 4 == 0, 1.0, -1.0)
    X = np.einsum("gh,nhr->ngr", np.eye(G) + 0.5 * rng.standard_normal((G, G)), rng.standard_normal((n, G, R)))
    X = np.cumsum(X, axis=2)
    X[signs > 0, 0] += 0.6 * np.hanning(R)
    X[signs > 0, 3] -= 0.4 * np.hanning(R)
    return X * np.array([1.0, 3.0, 0.2, 1.0, 50.0])[:, None], signs


def built(X, signs, sample_weight=None, kind=DistanceAndWeights):
    sample_weight = np.ones(len(X)) if sample_weight is None else sample_weight
    trained = Trained(X.reshape(len(X), -1), signs, sample_weight)
    return kind(trained, Groups.from_channels(range(X.shape[1]), X.shape[2]), np.arange(X.shape[1]))


@pytest.mark.parametrize("n", [60, ENOUGH, 8 * ENOUGH])  # the last with few features per trial
def test_weights_and_losses_are_those_of_the_formulas(n):
    X, signs = trials_of(0, n)
    own, left = built(X, signs), list(range(G))
    for place in (1, 0, 2):
        np.testing.assert_allclose(own.weights(), weights(X, signs, left, list(range(G))), rtol=1e-8)
        # those of the distance are rounded
        np.testing.assert_allclose(own.losses(), losses(X, signs, left, list(range(G))), atol=1e-7)
        own.remove(place)
        left[place] = left[-1]
        left.pop()


def test_the_distance_decides_alone_below_eight_trials_per_feature():
    for n in (ENOUGH - 1, ENOUGH):
        X, signs = trials_of(1, n)
        both, distance = built(X, signs), built(X, signs, kind=UnbiasedDistance)
        assert np.array_equal(both.losses(), distance.losses()) == (n < ENOUGH)
        assert both.error == distance.error


def test_units_and_offsets_of_channels_do_not_matter():
    X, signs = trials_of(2, 2 * ENOUGH)
    unit = np.array([1e-6, 1e3, 1.0, 7.0, 1e-2])[:, None]
    np.testing.assert_allclose(built(unit * X + 1e4 * unit, signs).weights(), built(X, signs).weights(), rtol=1e-6)


def test_trials_of_weight_zero_do_not_count():
    X, signs = trials_of(3, 2 * ENOUGH)
    kept = np.arange(2 * ENOUGH) % 3 > 0
    found, expected = built(X, signs, 0.3 * kept), built(X[kept], signs[kept])
    np.testing.assert_allclose(found.weights(), expected.weights(), rtol=1e-9)
    np.testing.assert_allclose(found.losses(), expected.losses(), atol=1e-8)


def test_a_constant_sensor_has_no_part_and_of_two_copies_the_later_one_is_removed():
    X, signs = trials_of(4, 2 * ENOUGH)
    X[:, 1], X[:, 4] = 3.0, X[:, 0]
    order = SensorSelector(2).fit(X, signs).order_.tolist()
    assert 1 not in order
    losses = built(X, signs).losses()
    assert losses.argmin() == 1
    assert losses[0] == losses[4]  # without rounding errors, by which the earlier one could be removed
    assert order.index(0) < order.index(4)


@pytest.mark.parametrize("value", [0.0, 3.3, 0.1])
def test_the_value_of_a_constant_sensor_does_not_matter(value):
    """Its residuals are rounding errors. In another subject it is not constant."""
    X, signs = trials_of(0, 2 * ENOUGH)
    X[:, 1] = value
    own, without = built(X, signs), built(np.delete(X, 1, axis=1), signs)
    assert own.weights()[1] == 0
    np.testing.assert_allclose(np.delete(own.weights(), 1), without.weights(), rtol=0.05)  # K k / n differs
    people = [
        Trained(part.reshape(len(part), -1), y, np.ones(len(y))) for part, y in ((X, signs), trials_of(10, ENOUGH))
    ]
    found = elimination_order(people, Groups.from_channels(range(G), R), np.ones(G)).tolist()
    X[:, 1] = 0.0
    people[0] = Trained(X.reshape(len(X), -1), signs, np.ones(len(X)))
    assert found == elimination_order(people, Groups.from_channels(range(G), R), np.ones(G)).tolist()


def test_a_sensor_that_separates_without_noise_is_kept():
    X, signs = trials_of(5, 2 * ENOUGH)
    X[:, 2] = 0.1 * signs[:, None]
    both, distance = built(X, signs), built(X, signs, kind=UnbiasedDistance)
    np.testing.assert_array_equal(both.losses(), distance.losses())
    assert SensorSelector(2).fit(X, signs).order_[0] == 2


def test_trials_without_noise_are_ordered():
    signs = np.tile([1.0, -1.0], ENOUGH)
    X = np.zeros((len(signs), 2, R))
    X[signs > 0, 0] = 1.0
    X[:, 1] = np.random.default_rng(0).standard_normal((len(signs), R))
    assert SensorSelector(1).fit(X, signs).order_.tolist() == [0, 1]
