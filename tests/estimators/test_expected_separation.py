"""The expected separation against its formula with every montage's own noise, and against new trials."""

import numpy as np
import pytest

from mixnorm import SensorSelector, stability_selection
from mixnorm.core.groups import Groups
from mixnorm.estimators.elimination import MOST_EXPECTED, elimination_order
from mixnorm.estimators.expected_separation import ExpectedSeparation
from mixnorm.estimators.trained import Trained
from mixnorm.noise import covariance

G, R = 6, 4


def trials_of(rng, n, n_sensors=G, strength=1.0):
    """Correlated noise, a third of the trials of class +1, to which the first two sensors respond."""
    signs = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    mixing = np.eye(n_sensors) + 0.4 * np.random.default_rng(1).standard_normal((n_sensors, n_sensors))
    smooth = np.eye(R) + 0.6 * np.eye(R, k=1)
    X = np.einsum("gh,nhr,rs->ngs", mixing, rng.standard_normal((n, n_sensors, R)), smooth)
    X[signs > 0, 0] += strength * np.array([0.1, 0.8, 0.5, 0.0])
    X[signs > 0, 1] += strength * np.array([0.4, 0.0, -0.3, 0.2])
    return X, signs


def expected(X, signs, sensors):
    """(d'w − tr(N⁻¹C)/m) / √(w'Cw) with N and C estimated from the trials of these sensors alone."""
    if not len(sensors):
        return 0.0
    flat = X[:, sorted(sensors)].reshape(len(X), -1)
    upper, lower = flat[signs > 0], flat[signs < 0]
    rest = np.concatenate([upper - upper.mean(axis=0), lower - lower.mean(axis=0)])
    C, n = rest.T @ rest / len(rest), len(rest)
    N = covariance("structured", flat, signs, np.ones(n), np.arange(flat.shape[1]).reshape(-1, X.shape[2]))
    d = upper.mean(axis=0) - lower.mean(axis=0)
    w = np.linalg.solve(N, d)
    # the residuals have lost two degrees of freedom to the class means
    m = len(upper) * len(lower) / n * (1 - 2 / n)
    return (d @ w - np.trace(np.linalg.solve(N, C)) / m) / np.sqrt(w @ C @ w)


def greedy(parts, sensors):
    """Remove the sensor without which the weighted mean of the expected separations is largest."""
    left, removed = list(sensors), []
    while left:
        worth = [sum(p * expected(X, y, [h for h in left if h != g]) for p, X, y in parts) for g in left]
        removed.append(left.pop(int(np.argmax(worth))))
    return removed[::-1]


def order_of(*people, beta=None):
    G = people[0][0].shape[1]
    trained = [Trained(X.reshape(len(X), -1), y, np.ones(len(X))) for X, y in people]
    return elimination_order(trained, Groups.from_channels(range(G), R), np.ones(G) if beta is None else beta).tolist()


def test_order_is_that_of_computing_every_montage_anew():
    X, signs = trials_of(np.random.default_rng(0), 60)
    assert order_of((X, signs)) == greedy([(1.0, X, signs)], range(G))
    by_distance = SensorSelector(2, noise="kronecker").fit(X, signs).order_.tolist()
    assert by_distance != order_of((X, signs))  # the data can tell the difference
    assert SensorSelector(2).fit(X, signs).order_.tolist() == order_of((X, signs))


def test_several_subjects_share_the_order_of_their_mean():
    people = [trials_of(np.random.default_rng(seed), n) for seed, n in ((2, 48), (3, 90))]
    people[1][0][people[1][1] > 0, 4] += 0.9
    share = np.array([(y > 0).sum() * (y < 0).sum() / len(y) * (1 - 2 / len(y)) for _, y in people])
    share = share / share.sum()
    parts = [(weight, *person) for weight, person in zip(share, people, strict=True)]
    assert order_of(*people) == greedy(parts, range(G))
    assert order_of(*people) != order_of(people[0])


def test_only_the_last_sensors_are_ordered_by_it():
    X, signs = trials_of(np.random.default_rng(4), 80, n_sensors=MOST_EXPECTED + 3)
    by_distance = SensorSelector(1, noise="kronecker").fit(X, signs).order_.tolist()
    order = order_of((X, signs))
    assert order[MOST_EXPECTED:] == by_distance[MOST_EXPECTED:]
    assert order == greedy([(1.0, X, signs)], sorted(by_distance[:MOST_EXPECTED])) + by_distance[MOST_EXPECTED:]


def test_it_is_the_separation_of_new_trials_in_the_mean():
    """On 300 training sets; the distance in the training trials, √(d'N⁻¹d), is far above it."""
    new, signs = trials_of(np.random.default_rng(100), 6000)
    promised, kept, naive = [], [], []
    for seed in range(300):
        X, y = trials_of(np.random.default_rng(seed), 60)
        own = ExpectedSeparation(
            Trained(X.reshape(60, -1), y, np.ones(60)), Groups.from_channels(range(G), R), np.arange(3)
        )
        promised.append(own.separation(np.arange(3)))
        flat = X[:, :3].reshape(60, -1)
        d = flat[y > 0].mean(axis=0) - flat[y < 0].mean(axis=0)
        N = covariance("structured", flat, y, np.ones(60), np.arange(3 * R).reshape(3, R))
        scores = new[:, :3].reshape(len(new), -1) @ np.linalg.solve(N, d)
        upper, lower = scores[signs > 0], scores[signs < 0]
        kept.append((upper.mean() - lower.mean()) / np.sqrt((2 * upper.var() + 4 * lower.var()) / 6))
        scores = flat @ np.linalg.solve(N, d)
        upper, lower = scores[y > 0], scores[y < 0]
        naive.append((upper.mean() - lower.mean()) / np.sqrt((upper.var() + 2 * lower.var()) / 3))
    error = np.std(promised) / np.sqrt(300)
    # C is estimated from the same trials as w, which makes w'Cw a little too small
    assert np.mean(kept) - 3 * error < np.mean(promised) < 1.1 * np.mean(kept) + 3 * error
    assert np.mean(naive) > 1.5 * np.mean(kept)


def test_constant_sensors_leave_first_and_a_repeated_one_before_its_original():
    X, signs = trials_of(np.random.default_rng(5), 60)
    X[:, 3], X[:, 2] = 7.0, 0.0
    assert order_of((X, signs))[-2:] == [2, 3]
    X[:, 5] = X[:, 0]
    order = order_of((X, signs))
    assert order.index(0) < order.index(5)
    # a sensor to keep stays, also where it is constant
    beta = np.ones(G)
    beta[3] = 0
    assert order_of((X, signs), beta=beta)[0] == 3


def test_a_sensor_that_shows_the_labels_comes_first():
    X, signs = trials_of(np.random.default_rng(6), 60, strength=4.0)
    X[:, 4] = signs[:, None]
    assert order_of((X, signs))[0] == 4
    groups = Groups.from_channels(range(G), R)
    own = ExpectedSeparation(Trained(X.reshape(60, -1), signs, np.ones(60)), groups, np.array([0, 4]))
    assert 1 < own.separation(np.array([0])) < 10 < own.separation(np.array([1]))


def test_units_do_not_matter_and_a_weight_of_all_trials_neither():
    X, signs = trials_of(np.random.default_rng(7), 60)
    order = order_of((X, signs))
    assert order_of((1e-7 * X, signs)) == order
    weights = np.ones(60)
    found = [
        ExpectedSeparation(
            Trained(X.reshape(60, -1), signs, factor * weights), Groups.from_channels(range(G), R), np.arange(G)
        )
        for factor in (1.0, 3.0)
    ]
    assert found[0].separation(np.array([0, 1])) == pytest.approx(found[1].separation(np.array([0, 1])))
    assert found[0].precision == pytest.approx(20 * 40 / 60 * 58 / 60)
    some = (np.arange(60) > 11).astype(float)
    assert SensorSelector(2).fit(X, signs, some).order_.tolist() == order_of((X[12:], signs[12:]))


def test_of_two_equal_sensors_the_expensive_one_leaves_first():
    X, signs = trials_of(np.random.default_rng(8), 200, strength=2.0)
    X[:, 1] = X[:, 0] + 0.3 * np.random.default_rng(9).standard_normal((200, R))
    for expensive, cheap in ((0, 1), (1, 0)):
        cost = np.ones(G)
        cost[expensive] = 50.0
        order = order_of((X, signs), beta=cost)
        assert order.index(cheap) < order.index(expensive)


def test_stability_counts_the_same_order():
    X, signs = trials_of(np.random.default_rng(10), 60)
    found = stability_selection(X, signs, n_resamplings=1, n_sensors=2, random_state=1)
    assert found.frequencies.sum() == pytest.approx(2)
    by_distance = stability_selection(X, signs, n_resamplings=1, n_sensors=2, random_state=1, noise="kronecker")
    assert found.frequencies.tolist() != by_distance.frequencies.tolist()
