"""The unbiased distance against its formula in every montage's own noise, and against the truth in the mean."""

import numpy as np
import pytest

from elimination_reference import noise_of, parts_of, share_of, unbiased
from elimination_reference import order_of as expected_order
from mixnorm import SensorSelector, stability_selection
from mixnorm.core.groups import Groups
from mixnorm.estimators.elimination import LEAST_OWN_NOISE, eliminate, elimination_order, n_own_noise
from mixnorm.estimators.kronecker_distance import KroneckerDistance
from mixnorm.estimators.trained import Trained
from mixnorm.estimators.unbiased_distance import UnbiasedDistance

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


def order_of(*people, beta=None):
    G = people[0][0].shape[1]
    trained = [Trained(X.reshape(len(X), -1), y, np.ones(len(X))) for X, y in people]
    return elimination_order(trained, Groups.from_channels(range(G), R), np.ones(G) if beta is None else beta).tolist()


def test_order_is_that_of_computing_every_montage_anew():
    X, signs = trials_of(np.random.default_rng(2), 40)
    assert order_of((X, signs)) == expected_order([(1.0, X, signs)], range(G))
    by_distance = SensorSelector(2, noise="kronecker").fit(X, signs).order_.tolist()
    assert by_distance != order_of((X, signs))  # the data can tell the difference
    assert SensorSelector(2).fit(X, signs).order_.tolist() == order_of((X, signs))


def test_the_noise_is_shrunk_anew_for_the_sensors_that_are_left():
    X, signs = trials_of(np.random.default_rng(12), 90)
    X[:, ::2] *= np.array([0.3, 1.0, 2.0, 4.0])  # other courses in time, which no structure describes
    trained = Trained(X.reshape(90, -1), signs, np.ones(90))
    own, left = UnbiasedDistance(trained, Groups.from_channels(range(G), R), np.arange(G)), list(range(G))
    shares = []
    for place in (4, 1, 0):
        own.remove(place)
        left[place] = left[-1]
        left.pop()
        shares.append(share_of(X, signs, left))
        assert own.separation(np.array(left)) == pytest.approx(unbiased(X, signs, left, shares[-1]), rel=1e-8)
    assert 0.01 < min(shares) < 0.9 * max(shares) < 0.9


def test_several_subjects_share_the_order_of_their_mean():
    people = [trials_of(np.random.default_rng(seed), n) for seed, n in ((2, 48), (3, 90))]
    people[1][0][people[1][1] > 0, 4] += 0.9
    share = np.array([(y > 0).sum() * (y < 0).sum() / len(y) * (1 - 2 / len(y)) for _, y in people])
    share = share / share.sum()
    parts = [(weight, *person) for weight, person in zip(share, people, strict=True)]
    assert order_of(*people) == expected_order(parts, range(G))
    assert order_of(*people) != order_of(people[0])


def test_only_the_last_sensors_are_ordered_by_it():
    X, signs = trials_of(np.random.default_rng(4), 80, n_sensors=LEAST_OWN_NOISE + 3)
    all_sensors, trained = np.arange(LEAST_OWN_NOISE + 3), Trained(X.reshape(80, -1), signs, np.ones(80))
    distance = KroneckerDistance(trained, Groups.from_channels(all_sensors, R), all_sensors)
    many = eliminate([distance], np.ones(len(all_sensors))).tolist()
    order = order_of((X, signs))
    assert order[LEAST_OWN_NOISE:] == many[LEAST_OWN_NOISE:]
    assert order == expected_order([(1.0, X, signs)], sorted(many[:LEAST_OWN_NOISE])) + many[LEAST_OWN_NOISE:]


@pytest.mark.parametrize(
    ("n_trials", "n_samples", "expected"),
    [(90, 4, 8), (8 * 4 * 9 - 1, 4, 8), (8 * 4 * 9, 4, 9), (8 * 4 * 12, 4, 12), (5000, 4, 16), (5000, 40, 15)],
)
def test_more_sensors_have_their_own_noise_where_there_are_eight_trials_per_feature(n_trials, n_samples, expected):
    def subject(n):
        return Trained(np.zeros((n, 1)), np.ones(n), np.full(n, 0.3))

    assert n_own_noise([subject(n_trials)], n_samples) == expected
    # the subject with the fewest trials decides, and trials of weight 0 do not count
    assert n_own_noise([subject(n_trials), subject(50)], n_samples) == 8
    part = Trained(np.zeros((9000, 1)), np.ones(9000), (np.arange(9000) < n_trials) * 2.0)
    assert n_own_noise([part], n_samples) == expected


def test_with_many_trials_the_order_of_more_sensors_is_that_of_their_own_noise():
    X, signs = trials_of(np.random.default_rng(4), 10 * 8 * R + 5, n_sensors=12)
    X[:, ::2] *= np.array([0.3, 1.0, 2.0, 4.0])  # other courses in time, which no structure describes
    order, all_sensors = order_of((X, signs)), np.arange(12)
    trained = Trained(X.reshape(len(X), -1), signs, np.ones(len(X)))
    distance = KroneckerDistance(trained, Groups.from_channels(all_sensors, R), all_sensors)
    many = eliminate([distance], np.ones(12)).tolist()
    assert order == expected_order([(1.0, X, signs)], sorted(many[:10])) + many[10:]
    # the data can tell the difference from the noise of eight sensors
    assert order != expected_order([(1.0, X, signs)], sorted(many[:8])) + many[8:]


def test_it_is_the_distance_of_the_true_means_in_the_mean():
    """On 400 training sets, in the mean noise that they estimate; the plain distance is far above it."""
    truth, _ = trials_of(np.random.default_rng(0), 60, strength=1.0)
    nothing, _ = trials_of(np.random.default_rng(0), 60, strength=0.0)
    d = (truth - nothing)[0, :3].ravel()  # trial 0 is of class +1
    groups, found, plain, true = Groups.from_channels(range(G), R), [], [], []
    for seed in range(400):
        X, y = trials_of(np.random.default_rng(seed), 60)
        own = UnbiasedDistance(Trained(X.reshape(60, -1), y, np.ones(60)), groups, np.arange(3))
        value = own.separation(np.arange(3))
        found.append(np.sign(value) * value**2)
        N = noise_of(X, y, range(3), share_of(X, y, range(3)))
        seen, _, _ = parts_of(X, y, range(3))
        plain.append(seen @ np.linalg.solve(N, seen))
        true.append(d @ np.linalg.solve(N, d))
    error = np.std(np.array(found) - true) / np.sqrt(400)
    assert abs(np.mean(found) - np.mean(true)) < 3 * error
    assert np.mean(plain) > np.mean(true) + 20 * error


def test_with_many_trials_it_is_the_distance_in_the_true_noise():
    """The noise of the two sensors has another course in time, and each its own: no structure describes it."""
    rng, n = np.random.default_rng(11), 4000
    signs = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    courses = [np.diag([0.4, 1.0, 1.0, 2.5]), np.diag([2.5, 1.0, 1.0, 0.4])]
    d = np.array([0.4, 0.0, 0.0, 1.2, 1.2, 0.0, 0.0, 0.4])
    X = np.concatenate([rng.standard_normal((n, R)) @ course for course in courses], axis=1)
    X[signs > 0] += d
    truth = np.sqrt(np.sum(d**2 / np.concatenate([np.diag(course) ** 2 for course in courses])))
    own = UnbiasedDistance(Trained(X, signs, np.ones(n)), Groups.from_channels(range(2), R), np.arange(2))
    error = np.sqrt(1 / (signs > 0).sum() + 1 / (signs < 0).sum())  # of d', the noise being known
    assert own.separation(np.arange(2)) == pytest.approx(truth, abs=3 * error)
    assert unbiased(X.reshape(n, 2, R), signs, range(2), 1.0) < truth - 6 * error  # in the structured noise


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
    own = UnbiasedDistance(Trained(X.reshape(60, -1), signs, np.ones(60)), groups, np.array([0, 4]))
    assert 1 < own.separation(np.array([0])) < 10 < own.separation(np.array([1]))


def test_units_do_not_matter_and_a_weight_of_all_trials_neither():
    X, signs = trials_of(np.random.default_rng(7), 60)
    order = order_of((X, signs))
    assert order_of((1e-7 * X, signs)) == order
    weights = np.ones(60)
    found = [
        UnbiasedDistance(
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


def test_one_trial_of_a_large_weight_does_not_decide():
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    X = rng.standard_normal((200, 6, 4))
    X[y == 1, 4] += 1.0
    weights = np.ones(200)
    weights[0] = 1000
    assert SensorSelector(n_sensors=1).fit(X, y, sample_weight=weights).selected_groups_.tolist() == [4]


def test_the_distance_has_no_bias_with_unequal_weights():
    groups, rng = Groups.from_channels(range(2), 3), np.random.default_rng(0)
    found = []
    for _ in range(400):
        signs = np.where(np.arange(60) % 2, 1.0, -1.0)
        X = rng.standard_normal((60, 6))
        X[signs > 0] += 0.5
        distance = UnbiasedDistance(Trained(X, signs, np.where(np.arange(60) < 2, 5.0, 0.5)), groups, np.arange(2))
        d = distance.separation(np.arange(2))
        found.append(np.sign(d) * d**2)
    # The true distance is 6 · 0.5² = 1.5. A weight counted as so many trials would give about −1.5.
    assert np.mean(found) == pytest.approx(1.5, abs=0.5)


@pytest.mark.parametrize("unit", [1.0, 1e-170])
def test_precision_is_that_of_unequal_weights_in_any_unit(unit):
    """Variances of residuals and of the weighted means, by the matrices that make them of independent trials."""
    weights, signs = np.r_[np.full(4, 15.0), np.linspace(0.5, 2, 20)], np.repeat([1.0, -1.0], [4, 20])
    means = np.stack([np.where(signs == sign, weights, 0) / weights[signs == sign].sum() for sign in (1, -1)])
    residuals = np.eye(24) - means[(signs < 0).astype(int)]
    within = np.sum(weights[:, None] * residuals**2) / weights.sum()
    of_difference = np.sum((means[0] - means[1]) ** 2)
    found = Trained(np.zeros((24, 2)), signs, unit * weights).precision
    assert found == pytest.approx(within / of_difference, rel=1e-12)
