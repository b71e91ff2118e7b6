"""The unbiased distance in a Kronecker noise, against its formula with matrices of all features."""

import numpy as np
import pytest

from mixnorm.core.groups import Groups
from mixnorm.estimators.elimination import LEAST_OWN_NOISE, eliminate, elimination_order
from mixnorm.estimators.kronecker_distance import KroneckerDistance
from mixnorm.estimators.trained import Trained
from mixnorm.noise import covariance

G, R, N_TRIALS = 11, 3, 70


def trials_of(seed, n=N_TRIALS):
    """Correlated noise that is no Kronecker product; sensors 0 and 5 respond."""
    rng = np.random.default_rng(seed)
    signs = np.where(np.arange(n) % 4 == 0, 1.0, -1.0)
    mixing = np.eye(G * R) + 0.3 * np.random.default_rng(1).standard_normal((G * R, G * R))
    X = (rng.standard_normal((n, G * R)) @ mixing).reshape(n, G, R)
    X[:, ::2] += 2 * rng.standard_normal((n, len(range(0, G, 2)), 1))  # slow at every other sensor
    X[signs > 0, 0] += [0.5, 1.5, 0.5]
    X[signs > 0, 5] += [0.0, -0.8, 0.6]
    return X, signs


def squared(X, signs, sensors):
    """d'N⁻¹d − tr(N⁻¹C)/m on some sensors, N that of all, in units of the mean noise variance."""
    n = len(X)
    flat = X.reshape(n, -1)
    upper, lower = flat[signs > 0], flat[signs < 0]
    rest = np.concatenate([upper - upper.mean(axis=0), lower - lower.mean(axis=0)])
    N = covariance("kronecker", flat, signs, np.ones(n), np.arange(G * R).reshape(G, R)) * np.mean(rest**2)
    own = np.array([g * R + k for g in sensors for k in range(R)], dtype=int)
    P = np.linalg.inv(N[np.ix_(own, own)])
    d = (upper.mean(axis=0) - lower.mean(axis=0))[own]
    C = rest[:, own].T @ rest[:, own] / (n - 2)
    return d @ P @ d - np.trace(P @ C) * (1 / len(upper) + 1 / len(lower))


def root(value):
    return np.sign(value) * np.sqrt(abs(value))


def greedy(people, shares):
    left, removed = list(range(G)), []
    while left:
        worth = [
            sum(
                share * root(squared(*one, [h for h in left if h != g]))
                for share, one in zip(shares, people, strict=True)
            )
            for g in left
        ]
        removed.append(left.pop(int(np.argmax(worth))))
    return removed[::-1]


def trained(X, signs):
    return Trained(X.reshape(len(X), -1), signs, np.ones(len(X)))


GROUPS = Groups.from_channels(range(G), R)


def test_distance_after_removals_is_that_of_the_rest():
    X, signs = trials_of(0)
    found, left = KroneckerDistance(trained(X, signs), GROUPS, np.arange(G)), list(range(G))
    for place in (2, 0, 7, 1, 0, 3):
        whole = squared(X, signs, left)
        assert found.squared == pytest.approx(whole, rel=1e-9)
        without = [squared(X, signs, [h for h in left if h != g]) for g in left]
        np.testing.assert_allclose(found.losses(), root(whole) - [root(one) for one in without], atol=2e-9)
        found.remove(place)
        left[place] = left[-1]
        left.pop()
    assert found.squared == pytest.approx(squared(X, signs, left), rel=1e-9)


def test_order_is_that_of_computing_every_montage_anew_for_one_subject_and_several():
    people = [trials_of(0), trials_of(5, 130)]
    assert eliminate([KroneckerDistance(trained(*people[0]), GROUPS, np.arange(G))], np.ones(G)).tolist() == greedy(
        people[:1], [1.0]
    )
    counts = [((y > 0).sum(), (y < 0).sum()) for _, y in people]
    shares = np.array([(1 - 2 / (a + b)) * a * b / (a + b) for a, b in counts])
    distances = [KroneckerDistance(trained(*one), GROUPS, np.arange(G)) for one in people]
    assert eliminate(distances, np.ones(G)).tolist() == greedy(people, shares)


def test_it_orders_the_sensors_that_leave_while_more_than_eight_are_left():
    X, signs = trials_of(7)
    order = elimination_order([trained(X, signs)], GROUPS, np.ones(G)).tolist()
    assert order[LEAST_OWN_NOISE:] == greedy([(X, signs)], [1.0])[LEAST_OWN_NOISE:]
    # the data can tell the difference from the distance with its bias
    biased = elimination_order([trained(X, signs)], GROUPS, np.ones(G), "kronecker").tolist()
    assert order[LEAST_OWN_NOISE:] != biased[LEAST_OWN_NOISE:]


def test_it_is_about_zero_in_the_mean_where_the_classes_do_not_differ():
    """What is left comes from N, which is estimated from the same trials."""
    signs = np.where(np.arange(60) % 4 == 0, 1.0, -1.0)
    people = [trained(np.random.default_rng(seed).standard_normal((60, G, R)), signs) for seed in range(200)]
    found = [KroneckerDistance(one, GROUPS, np.arange(G)).squared for one in people]
    bias = G * R / people[0].precision  # of the distance as it is
    assert abs(np.mean(found)) < 0.1 * bias
    assert np.std(found) / np.sqrt(200) < 0.03 * bias


def test_constant_sensors_leave_first_and_a_repeated_one_before_its_original():
    X, signs = trials_of(3)
    X[:, 3], X[:, 8] = 7.0, 0.0
    X[:, 10] = X[:, 0]
    order = elimination_order([trained(X, signs)], GROUPS, np.ones(G)).tolist()
    assert sorted(order[-2:]) == [3, 8]
    assert order.index(0) < order.index(10)


def test_of_two_sensors_with_the_same_signal_rounding_does_not_choose():
    for seed in range(20):
        X, signs = trials_of(seed)
        X[:, 10] = X[:, 0]
        losses = KroneckerDistance(trained(X, signs), GROUPS, np.arange(G)).losses()
        assert losses[0] == losses[10], f"seed {seed}"
