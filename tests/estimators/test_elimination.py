"""Backward elimination by the Mahalanobis distance, against inverting the noise covariance again at every step."""

import numpy as np
import pytest

from mixnorm import SensorSelector, stability_selection
from mixnorm.core.groups import Groups
from mixnorm.estimators.elimination import Distance, elimination_noise, elimination_order
from mixnorm.estimators.stability import complementary_halves
from mixnorm.estimators.trained import Trained
from mixnorm.noise import covariance

G, R = 7, 4


@pytest.fixture(scope="module")
def trials():
    """Correlated noise; sensors 1 and 4 differ between the classes, sensor 2 only shares the noise of sensor 1."""
    rng = np.random.default_rng(3)
    n = 90
    signs = np.where(rng.uniform(size=n) < 0.35, 1.0, -1.0)
    X = np.einsum("gh,nhr->ngr", np.eye(G) + 0.3 * rng.standard_normal((G, G)), rng.standard_normal((n, G, R)))
    X[:, 2] += 2 * rng.standard_normal((n, 1))
    X[:, 1] += X[:, 2]
    X[signs > 0, 1] += [0.2, 0.9, 1.2, 0.4]
    X[signs > 0, 4] += [0.8, 0.3, -0.4, 0.1]
    return X, signs


def difference(X, signs):
    return (X[signs > 0].mean(axis=0) - X[signs < 0].mean(axis=0)).ravel()


def features(sensors, size=R):
    return np.concatenate([np.arange(g * size, (g + 1) * size) for g in sensors])


def squared(N, d, members):
    """D² of some features by solving with their own part of N."""
    return d[members] @ np.linalg.solve(N[np.ix_(members, members)], d[members]) if len(members) else 0.0


def greedy(parts, sensors, members_of):
    """Remove the sensor without which the weighted mean of √D² stays largest; the last one comes first."""
    left, removed = list(sensors), []
    while left:

        def worth(gone):
            members = [f for g in left if g != gone for f in members_of(g)]
            return sum(weight * np.sqrt(squared(N, d, members)) for weight, N, d in parts)

        removed.append(max(left, key=worth))
        left.remove(removed[-1])
    return removed[::-1]


def estimated(X, signs, noise):
    """N and d, both in units of the mean noise variance."""
    n = len(X)
    flat = X.reshape(n, -1)
    rest = flat - np.where((signs > 0)[:, None], flat[signs > 0].mean(axis=0), flat[signs < 0].mean(axis=0))
    N = covariance(noise, flat, signs, np.ones(n), np.arange(flat.shape[1]).reshape(X.shape[1:]))
    return N, difference(X, signs) / np.sqrt(np.mean(rest**2))


def order_of(X, signs, noise, beta=None):
    one = Trained(X.reshape(len(X), -1), signs, np.ones(len(X)))
    groups = Groups.from_channels(range(X.shape[1]), X.shape[2])
    return elimination_order([one], groups, np.ones(X.shape[1]) if beta is None else beta, noise).tolist()


@pytest.mark.parametrize("noise", ["kronecker", "structured", "toeplitz", "shrunk"])
def test_order_is_that_of_inverting_again_at_every_step(trials, noise):
    X, signs = trials
    expected = greedy([(1.0, *estimated(X, signs, noise))], range(G), lambda g: features([g]))
    assert order_of(X, signs, noise) == expected
    # the order without noise is another one, so that the noise has a part in it
    assert expected != greedy([(1.0, np.eye(G * R), difference(X, signs))], range(G), lambda g: features([g]))


@pytest.mark.parametrize("noise", ["kronecker", "structured"])
def test_distance_after_removals_is_that_of_the_rest(trials, noise):
    X, signs = trials
    N, d = estimated(X, signs, noise)
    trained = Trained(X.reshape(len(X), -1), signs, np.ones(len(X)))
    groups = Groups.from_channels(range(G), R)
    found = Distance.of(trained, groups, np.ones(G, dtype=bool), noise)
    left = list(range(G))
    for place in (2, 0, 3):
        assert found.squared == pytest.approx(squared(N, d, features(left)), rel=1e-10)
        alone = [squared(N, d, features([h for h in left if h != g])) for g in left]
        expected = np.sqrt(found.squared) - np.sqrt(alone)
        np.testing.assert_allclose(found.losses(), expected, rtol=1e-8, atol=1e-10)
        found.remove(place)
        left[place] = left[-1]
        left.pop()
    size = found.size
    inverse = np.linalg.inv(N[np.ix_(features(left), features(left))])
    if size == R:
        np.testing.assert_allclose(found.P, inverse, rtol=1e-8, atol=1e-10)
    assert found.squared == pytest.approx(squared(N, d, features(left)), rel=1e-10)


def test_several_subjects_share_one_order_by_their_mean_separation(trials):
    X, signs = trials
    other, theirs = X[::-1][:50] * 1.5, signs[::-1][:50]
    other[theirs > 0, 6] += 1.5
    people = [Trained(Z.reshape(len(Z), -1), s, np.ones(len(Z))) for Z, s in ((X, signs), (other, theirs))]
    found = elimination_order(people, Groups.from_channels(range(G), R), np.ones(G), "structured").tolist()
    counts = [((s > 0).sum(), (s < 0).sum()) for s in (signs, theirs)]
    weights = np.array([a * b / (a + b) for a, b in counts])
    weights = weights / weights.sum()
    parts = [
        (weight, *estimated(Z, s, "structured"))
        for weight, (Z, s) in zip(weights, ((X, signs), (other, theirs)), strict=True)
    ]
    assert found == greedy(parts, range(G), lambda g: features([g]))
    assert found != order_of(X, signs, "structured")


def test_sensors_of_unequal_size_are_ordered_by_the_shrunk_covariance():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2, 3], [2, 1, 3, 2])
    signs = np.where(rng.uniform(size=60) < 0.5, 1.0, -1.0)
    X = rng.standard_normal((60, 8)) @ (np.eye(8) + 0.4 * rng.standard_normal((8, 8)))
    X[signs > 0] += 0.4 * rng.standard_normal(8)
    groups = Groups.from_labels(labels, 8)
    assert elimination_noise(None, groups) == "shrunk"
    N = covariance("shrunk", X, signs, np.ones(60), None)
    d = X[signs > 0].mean(axis=0) - X[signs < 0].mean(axis=0)
    expected = greedy([(1.0, N, d)], range(4), lambda g: np.flatnonzero(labels == g))
    assert elimination_order([Trained(X, signs, np.ones(60))], groups, np.ones(4)).tolist() == expected
    with pytest.raises(ValueError, match="noise='structured' needs the same samples of every sensor"):
        SensorSelector(2, groups=labels, noise="structured").fit(X, signs)


def test_a_given_matrix_is_the_noise(trials):
    X, signs = trials
    rng = np.random.default_rng(5)
    A = rng.standard_normal((G * R, G * R))
    N = A @ A.T / (G * R) + 0.1 * np.eye(G * R)
    expected = greedy([(1.0, N, difference(X, signs))], range(G), lambda g: features([g]))
    assert SensorSelector(3, noise=N).fit(X, signs).order_.tolist() == expected


def test_kept_sensors_leave_last_and_forbidden_ones_are_not_in_the_order(trials):
    X, signs = trials
    beta = np.ones(G)
    beta[[0, 5]], beta[1] = 0.0, np.inf
    order = order_of(X, signs, "kronecker", beta)
    assert set(order[:2]) == {0, 5}
    assert set(order) == set(range(G)) - {1}
    # a forbidden sensor has no part in the noise of the others
    rest = [g for g in range(G) if g != 1]
    assert order == [rest[i] for i in order_of(X[:, rest], signs, "kronecker", beta[rest])]


def test_of_two_equal_sensors_the_expensive_one_leaves_first():
    rng = np.random.default_rng(1)
    signs = np.repeat([1.0, -1.0], 100)[rng.permutation(200)]
    X = rng.standard_normal((200, 3, 2))
    X[:, 1] = X[:, 0] + 0.3 * rng.standard_normal((200, 2))
    X[signs > 0, :2] += 1.5
    for expensive, cheap in ((0, 1), (1, 0)):
        cost = np.ones(3)
        cost[expensive] = 50.0
        order = order_of(X, signs, "kronecker", cost)
        assert order.index(cheap) < order.index(expensive)


def test_a_flat_sensor_and_one_that_repeats_another_leave_first(trials):
    X, signs = trials
    X = X.copy()
    X[:, 3] = 0.0
    assert order_of(X, signs, "kronecker")[-1] == 3
    X[:, 6] = X[:, 4]
    order = order_of(X, signs, "kronecker")
    assert order.index(4) < order.index(6)


def test_units_of_all_sensors_and_weights_of_all_trials_do_not_matter(trials):
    X, signs = trials
    expected = order_of(X, signs, "kronecker")
    assert order_of(1e-7 * X, signs, "kronecker") == expected
    selector = SensorSelector(3, noise="kronecker")
    doubled = selector.fit(X, signs, sample_weight=np.full(len(signs), 2.0))
    assert doubled.order_.tolist() == expected
    twice = np.repeat(np.arange(len(signs)), 2)
    assert selector.fit(X[twice], signs[twice]).order_.tolist() == expected
    left_out = (np.arange(len(signs)) > 12).astype(float)
    assert selector.fit(X, signs, left_out).order_.tolist() == order_of(X[13:], signs[13:], "kronecker")


def test_stability_is_the_frequency_among_the_first_of_the_same_order(trials):
    X, signs = trials
    found = stability_selection(X, signs, n_resamplings=3, n_sensors=2, random_state=1, noise="kronecker")
    halves = complementary_halves(signs, None, 3, np.random.RandomState(1))
    counts = np.zeros(G)
    for half in halves.T:
        counts[order_of(X[half], signs[half], "kronecker")[:2]] += 1
    np.testing.assert_allclose(found.frequencies, counts / 6)


def test_stability_of_several_subjects_halves_each_of_them(trials):
    X, signs = trials
    people = np.repeat(["a", "b"], [50, 40])
    found = stability_selection(X, signs, n_resamplings=4, n_sensors=2, subjects=people)
    assert found.frequencies.sum() == pytest.approx(2)
    with pytest.raises(ValueError, match="subjects must hold one label for each of the 90 trials"):
        stability_selection(X, signs, subjects=people[:-1])
    with pytest.raises(ValueError, match="subjects is for strategy='elimination'"):
        stability_selection(X, signs, subjects=people, strategy="path")


@pytest.mark.parametrize("make", [lambda X, y, **k: SensorSelector(2, **k).fit(X, y), stability_selection])
def test_parameters_that_would_be_ignored_are_refused(trials, make):
    X, signs = trials
    with pytest.raises(ValueError, match="Allowed values are 'elimination' and 'path', but got 'forward' instead"):
        make(X, signs, strategy="forward")
    with pytest.raises(ValueError, match=r"ridge=0\.5 has no effect with strategy='elimination'"):
        make(X, signs, ridge=0.5)
    with pytest.raises(ValueError, match="Invalid value for the 'noise' parameter"):
        make(X, signs, noise="white")
