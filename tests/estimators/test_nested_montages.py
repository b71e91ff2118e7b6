"""The last sensors of an elimination: against all orders, and where the order stays."""

import numpy as np
import pytest

from elimination_reference import greedy, nested
from mixnorm import SensorSelector
from mixnorm.core.groups import Groups
from mixnorm.estimators.elimination import elimination_order
from mixnorm.estimators.nested_montages import N_LAST, improve_last
from mixnorm.estimators.trained import Trained

G, R = 7, 2


def trials_of(seed, n=400):
    """Three sensors of which no two are worth much, and two that are a good pair."""
    rng = np.random.default_rng(seed)
    signs = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    X = rng.standard_normal((n, G, R))
    shared = 3 * rng.standard_normal((n, 2, R))
    X[:, 1] = 0.3 * X[:, 1] + shared[:, 0]
    X[:, 3] = 0.3 * X[:, 3] + shared[:, 0] + shared[:, 1]
    X[:, 4] = 0.3 * X[:, 4] + shared[:, 1]
    X[signs > 0, 3] += 0.7
    X[signs > 0, 0] += 0.9
    X[signs > 0, 5] += 0.6
    return X, signs


def trained(X, signs, weights=None):
    return Trained(X.reshape(len(X), -1), signs, np.ones(len(X)) if weights is None else weights)


def improved(order, *people, group_weights=None):
    G = people[0][0].shape[1]
    groups = Groups.from_channels(range(G), R)
    weights = np.ones(G) if group_weights is None else group_weights
    return improve_last(np.array(order), [trained(*person) for person in people], groups, weights).tolist()


def share(people):
    m = np.array([(y > 0).sum() * (y < 0).sum() / len(y) * (1 - 2 / len(y)) for _, y in people])
    return [(weight, *person) for weight, person in zip(m / m.sum(), people, strict=True)]


@pytest.mark.parametrize("seed", range(8))
def test_it_is_the_best_of_all_orders(seed):
    # so that the better single sensor is not always the earlier one
    places = np.random.default_rng(seed + 20).permutation(G)
    people = [trials_of(seed), trials_of(seed + 10, 100)][: 1 + seed % 2]
    people = [(X[:, places], signs) for X, signs in people]
    # bad: another one is better by more than a standard error
    order = np.argsort(places)[[2, 4, 1, 3, 5, 0, 6]].tolist()
    found = improved(order, *people)
    assert found == nested(share(people), order) != order
    assert found[N_LAST:] == order[N_LAST:]


@pytest.mark.parametrize("n_people", [1, 3])
def test_it_is_taken_from_one_standard_error_on(n_people):
    rng, stayed = np.random.default_rng(0), []
    signs = np.where(np.arange(120) % 3 == 0, 1.0, -1.0)
    for _ in range(15):
        # noise alone, and the best order with two sensors exchanged: gains are about a standard error
        people = [(rng.standard_normal((120, G, R)), signs) for _ in range(n_people)]
        order = np.array(improved(rng.permutation(G), *people))
        order[[0, 2]] = order[[2, 0]]
        order = order.tolist()
        found = improved(order, *people)
        assert found == nested(share(people), order)
        stayed.append(found == order)
    assert 0 < sum(stayed) < len(stayed)


def test_it_finds_a_pair_that_the_elimination_removes():
    people = [trials_of(0)]
    one_by_one = greedy(share(people), range(G))
    found = elimination_order([trained(*people[0])], Groups.from_channels(range(G), R), np.ones(G)).tolist()
    assert set(one_by_one[:2]) != {0, 5} == set(found[:2])
    assert SensorSelector(2).fit(*people[0]).order_.tolist() == found


def test_an_order_stays_that_is_not_worse_by_a_standard_error():
    X, signs = trials_of(1)
    best = improved([6, 5, 4, 3, 2, 1, 0], (X, signs))
    exchanged = [best[1], best[0], *best[2:4], best[5], best[4], best[6]]
    assert improved(exchanged, (X, signs)) == exchanged
    assert improved(best, (X, signs)) == best


def test_sensors_to_keep_come_first_and_costs_decide_alone():
    X, signs = trials_of(2)
    kept = np.where(np.arange(G) == 2, 0.0, 1.0)
    order = [2, 6, 4, 3, 1, 0, 5]
    found = improved(order, (X, signs), group_weights=kept)
    assert found[0] == 2
    assert found != order
    assert improved(order, (X, signs), group_weights=np.arange(1.0, G + 1)) == order
    # also if it is a sensor that has been removed before that costs more
    assert improved(order, (X, signs), group_weights=np.where(np.arange(G) == order[-1], 5.0, 1.0)) == order
    forbidden = np.where(np.arange(G) == 5, np.inf, 1.0)
    assert 5 not in improved([6, 4, 3, 2, 1, 0], (X, signs), group_weights=forbidden)


# in the last set of trials rounding would decide otherwise
@pytest.mark.parametrize(("seed", "copy"), [(0, 2), (1, 2), (34, 5)])
def test_of_two_copies_the_earlier_one_stays(seed, copy):
    X, signs = trials_of(seed)
    X[:, copy] = X[:, 0]
    found = improved([6, 4, 2, 1, 0, 5, 3], (X, signs))
    assert found.index(0) < found.index(copy)


def test_a_single_sensor_does_not_decide_between_pairs():
    rng = np.random.default_rng(7)
    X, signs = rng.standard_normal((400, G, R)), np.where(np.arange(400) % 3 == 0, 1.0, -1.0)
    X[:, 1:3] = 0.3 * X[:, 1:3] + 3 * rng.standard_normal((400, 1, R))  # a good pair of bad sensors
    X[signs > 0, 1] += 0.6
    X[signs > 0, 0] += 0.9  # the best single one
    assert set(improved([0, 6, 3, 1, 4, 2, 5], (X, signs))[:2]) == {1, 2}


def test_the_unit_and_trials_of_weight_zero_do_not_matter():
    X, signs = trials_of(3)
    order = [6, 4, 2, 1, 0, 5, 3]
    found = improved(order, (X, signs))
    assert found != order
    assert improved(order, (1e-6 * X + 1e-3, signs)) == found
    doubled = np.concatenate([X, X[::-1]])
    weights = np.repeat([0.5, 0.0], len(X))
    labels = np.concatenate([signs, -signs[::-1]])
    groups = Groups.from_channels(range(G), R)
    kept = improve_last(np.array(order), [trained(doubled, labels, weights)], groups, np.ones(G))
    assert kept.tolist() == found


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_sensors(n):
    X, signs = trials_of(4)
    groups, own = Groups.from_channels(range(n), R), trained(X[:, :n], signs)
    assert sorted(improve_last(np.arange(n)[::-1], [own], groups, np.ones(n)).tolist()) == list(range(n))


def test_constant_sensors_come_last():
    X, signs = trials_of(5)
    X[:, 0], X[:, 4] = 0.0, 7.0
    assert improved([0, 6, 1, 2, 4, 5, 3], (X, signs))[4:6] == [0, 4]


def test_three_sensors_are_nested_better():
    X, signs = trials_of(4)
    X = X[:, [4, 0, 5]]
    assert improved([0, 1, 2], (X, signs)) == nested(share([(X, signs)]), [0, 1, 2]) != [0, 1, 2]


def test_a_sensor_that_is_constant_in_one_subject_counts_in_the_others():
    people = [trials_of(5), trials_of(6)]
    people[0][0][:, 0] = 0.0
    found = improved([2, 4, 1, 3, 5, 0, 6], *people)
    assert found.index(0) < 2


def test_a_constant_sensor_that_is_kept_comes_first():
    X, signs = trials_of(5)
    X[:, 4] = 7.0
    kept = np.where(np.arange(G) == 4, 0.0, 1.0)
    found = improved([4, 2, 6, 1, 3, 5, 0], (X, signs), group_weights=kept)
    assert found[0] == 4
    assert found[1:] != [2, 6, 1, 3, 5, 0]


def test_a_gain_of_five_sensors_is_enough():
    X, signs = trials_of(3)
    best = improved([2, 4, 1, 3, 5, 0, 6], (X, signs))
    # it is worth nothing, and becomes the fifth
    X[:, best[5]] = np.random.default_rng(0).standard_normal((len(X), R))
    exchanged = [*best[:4], best[5], best[4], best[6]]
    parts = share([(X, signs)])
    assert improved(exchanged, (X, signs)) == nested(parts, exchanged) != exchanged
