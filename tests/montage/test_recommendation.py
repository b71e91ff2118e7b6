"""Which montage is recommended: the smallest within the stated tolerance of the best, without luck."""

from types import SimpleNamespace

import numpy as np
import pytest

from mixnorm.montage import sentences
from mixnorm.montage.recommendation import TOLERANCE, choose, growing, smallest_near_best


def scored(*aucs):
    """Scored montages of 1, 2, … sensors with these mean AUCs."""
    return SimpleNamespace(
        mean=np.array(aucs),
        sizes=np.arange(1, len(aucs) + 1),
        error_of_difference=lambda place: 0.1 * np.abs(np.array(aucs) - aucs[place]),
    )


def chosen(*aucs):
    found = scored(*aucs)
    return int(found.sizes[smallest_near_best(found).chosen])


def test_growing_is_the_nearest_curve_that_does_not_fall():
    # by hand: 0.8 and the two after it are pooled, 0.9 stays
    np.testing.assert_allclose(growing(np.array([0.6, 0.8, 0.7, 0.75, 0.9])), [0.6, 0.75, 0.75, 0.75, 0.9])
    rng = np.random.default_rng(0)
    aucs = np.sort(rng.uniform(size=9)) + 0.2 * rng.standard_normal(9)
    fitted = growing(aucs)
    assert np.all(np.diff(fitted) >= 0)
    # no other curve that does not fall is nearer
    for _ in range(200):
        other = np.sort(fitted + 0.1 * rng.standard_normal(9))
        assert np.sum((other - aucs) ** 2) >= np.sum((fitted - aucs) ** 2)


def test_the_smallest_montage_within_the_tolerance_is_chosen():
    assert TOLERANCE == 0.01
    assert chosen(0.70, 0.80, 0.8901, 0.895, 0.90, 0.89) == 3
    assert chosen(0.70, 0.80, 0.8899, 0.895, 0.90, 0.89) == 4
    assert chosen(0.70, 0.75, 0.80) == 3
    assert chosen(0.80, 0.70) == 1


def test_a_lucky_small_montage_is_not_chosen():
    # two sensors reach 0.895, but three and four do not: the second one was lucky
    assert chosen(0.70, 0.895, 0.85, 0.86, 0.895, 0.90) == 5
    assert chosen(0.70, 0.895, 0.895, 0.893, 0.895, 0.90) == 2


def test_what_was_asked_for_is_not_changed():
    found = scored(0.70, 0.80, 0.90)
    assert choose(found, 2).chosen == 1
    assert choose(found, 2).standard_error == pytest.approx(0.01)


def test_the_reason_states_tolerance_and_loss():
    told = SimpleNamespace(
        n_sensors=4,
        n_asked=None,
        best_n_sensors=9,
        best_auc=0.9,
        below_best=0.006,
        standard_error=0.004,
        tolerance=0.01,
    )
    assert sentences.reason(told) == (
        "The smallest montage within 0.01 of the highest AUC (0.900 with 9 electrodes), after smoothing over the number "
        "of electrodes. Its own AUC is 0.006 ± 0.004 below it."
    )
    told.n_sensors = 9
    assert sentences.reason(told) == (
        "The montage with the highest AUC (0.900 with 9 electrodes); no smaller one is within 0.01 of it."
    )
