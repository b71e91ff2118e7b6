"""Stability selection: the halves, the frequencies, the bound."""

import numpy as np
import pytest

from mixnorm import group_svc_path, stability_selection
from mixnorm.eeg import simulated_p300
from mixnorm.estimators.stability import complementary_halves, error_bound, unimodal_bound


def halves_of(signs, groups, n_pairs, seed=0):
    return complementary_halves(signs, groups, n_pairs, np.random.RandomState(seed))


def test_halves_are_complementary_and_stratified():
    signs = np.where(np.arange(60) % 6 == 0, 1.0, -1.0)
    halves = halves_of(signs, None, 7)
    assert halves.shape == (60, 14)
    for first, second in zip(halves.T[::2], halves.T[1::2], strict=True):
        assert np.all(first ^ second)  # 60 is even: each trial in exactly one of the two
        assert first[signs > 0].sum() == second[signs > 0].sum() == 5
    assert len({tuple(half) for half in halves.T}) == 14


def test_trials_of_one_group_stay_in_the_same_half():
    rng = np.random.default_rng(0)
    signs = np.where(rng.uniform(size=90) < 0.3, 1.0, -1.0)
    groups = np.repeat(np.arange(9), 10)
    halves = halves_of(signs, groups, 5)
    for half in halves.T:
        inside = [half[groups == g] for g in range(9)]
        assert all(part.all() or not part.any() for part in inside)
    assert np.all(halves.sum(axis=0) == 40)  # nine groups: one sits out
    assert not np.any(halves[:, ::2] & halves[:, 1::2])
    assert len({int(np.flatnonzero(~(a | b))[0]) for a, b in zip(halves.T[::2], halves.T[1::2], strict=True)}) > 1


def test_frequencies_are_those_of_a_fine_path_on_each_half():
    data = simulated_p300(240, n_channels=6, n_informative=3, noise=0.15, seed=3)
    settings = {"n_resamplings": 4, "n_sensors": 2, "threshold": 0.9, "random_state": 5, "tol": 1e-6}
    found = stability_selection(data.X, data.y, strategy="path", **settings)
    signs = np.where(data.y > 0, 1.0, -1.0)
    halves = halves_of(signs, None, 4, seed=5)
    counts = np.zeros(6)
    for half in halves.T:
        path = group_svc_path(data.X[half], data.y[half], alphas=300, tol=1e-6)
        present = (path.coefs.reshape(300, 6, 8) != 0).any(axis=2)
        entered = np.where(present.any(axis=0), present.argmax(axis=0), 1000)
        counts[np.argsort(entered, kind="stable")[:2]] += 1
    np.testing.assert_array_equal(found.frequencies * 8, counts)
    assert found.frequencies.sum() * 8 == pytest.approx(16)
    np.testing.assert_array_equal(found.selected, np.flatnonzero(counts >= 0.9 * 8))


def test_bounds_are_those_of_the_papers():
    assert error_bound(2, 8, 0.75) == pytest.approx(4 / (0.5 * 8))
    # C(0.9, 50) = 4 (0.1 + 0.01) / 1.02 and C(0.7, 50) = 1 / (2 (0.4 - 0.01))
    assert unimodal_bound(7, 64, 0.9, 50) == pytest.approx(4 * 0.11 / 1.02 * 49 / 64)
    assert unimodal_bound(7, 64, 0.7, 50) == pytest.approx(49 / 64 / 0.78)
    # where a share of more than 1/√3 is taken of each half the theorem says nothing
    assert unimodal_bound(6, 8, 0.9, 50) == error_bound(6, 8, 0.9)


def test_default_threshold_expects_one_false_sensor_at_most():
    data = simulated_p300(200, seed=0)
    found = stability_selection(data.X, data.y, n_resamplings=2)
    assert found.n_sensors == 3  # ⌊√(0.8·16)⌋
    assert found.error_bound == pytest.approx(1.0)
    assert found.threshold == pytest.approx((1 + 9 / 16) / 2)
    assert found.statement.startswith("At most 1.0 falsely chosen sensors are expected")


def test_bound_holds_where_nothing_is_informative():
    def selected(seed, **simulated):
        data = simulated_p300(120, n_channels=12, seed=seed, **simulated)
        found = stability_selection(data.X, data.y, n_resamplings=5, n_sensors=2, threshold=0.7, tol=1e-2)
        assert found.frequencies.sum() == pytest.approx(2)  # every half selects two sensors
        assert found.error_bound == pytest.approx(error_bound(2, 12, 0.7))
        return found.selected

    false = [len(selected(seed, n_informative=0)) for seed in range(8)]
    assert error_bound(2, 12, 0.7) < 1
    assert np.mean(false) <= error_bound(2, 12, 0.7)
    # the same settings find a sensor where there is one; the second of each half is a matter of chance
    found = [list(selected(seed, n_informative=1, noise=0.02)) for seed in range(3)]
    assert all(0 in one for one in found)
    assert np.mean([len(one) - 1 for one in found]) <= error_bound(2, 12, 0.7)


def test_kept_sensors_are_always_in_and_forbidden_ones_never():
    data = simulated_p300(200, n_channels=6, n_informative=3, noise=0.1, seed=0)
    weights = {2: np.inf, 5: 0.0}
    found = stability_selection(data.X, data.y, n_resamplings=3, n_sensors=2, group_weights=weights)
    assert found.frequencies[2] == 0
    assert found.frequencies[5] == 1
    assert 5 in found.selected
    free = [0, 1, 3, 4]
    assert found.frequencies[free].sum() == pytest.approx(2)
    assert found.error_bound == pytest.approx(error_bound(2, 4, found.threshold))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"n_resamplings": 0}, "n_resamplings must be a whole number from 1, but got 0"),
        ({"n_sensors": 7}, "n_sensors=7 is larger than the number of sensors to choose from, 6"),
        ({"threshold": 0.5}, "threshold must be above 0.5 and at most 1, but got 0.5"),
        ({"trial_groups": [0, 1]}, "trial_groups must hold one label for each of the 40 trials"),
        ({"trial_groups": [0] * 40}, "of one class only; stability selection needs more groups"),
    ],
)
def test_bad_options_are_refused(options, message):
    data = simulated_p300(40, n_channels=6, n_informative=3, seed=0)
    with pytest.raises(ValueError, match=message):
        stability_selection(data.X, data.y, **{"n_resamplings": 2, **options})
