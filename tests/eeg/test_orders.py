"""The orders that montages are compared with."""

import numpy as np
import pytest

from mixnorm.eeg import InOrder, simulated_p300
from mixnorm.eeg.orders import (
    by_backward_elimination,
    by_riemannian_distance,
    by_snr,
    finder,
    sizes_up_to,
    standard_cap,
)
from mixnorm.montages import inner_folds


@pytest.fixture(scope="module")
def training():
    data = simulated_p300(400, n_channels=6, n_informative=2, noise=0.1, seed=0)
    signs = np.where(data.y > 0, 1.0, -1.0)
    return data.X, signs, inner_folds(InOrder(3), signs, np.arange(400))


@pytest.mark.parametrize("order", [by_snr, by_backward_elimination])
def test_informative_channels_come_first(order, training):
    found = order(*training)
    assert sorted(found.tolist()) == list(range(6))
    assert set(found[:2].tolist()) == {0, 1}


def test_snr_is_power_of_the_difference_over_variance(training):
    X, signs, folds = training
    expected = []
    for channel in range(6):
        a, b = X[signs > 0, channel], X[signs < 0, channel]
        expected.append(np.sum((a.mean(0) - b.mean(0)) ** 2) / np.sum((a.var(0) + b.var(0)) / 2))
    assert by_snr(X, signs, folds).tolist() == np.argsort(expected)[::-1].tolist()


def test_riemannian_order_is_that_of_pyriemann(training):
    selection = pytest.importorskip("pyriemann.channelselection")
    estimation = pytest.importorskip("pyriemann.estimation")
    X, signs, folds = training
    found = by_riemannian_distance(X, signs, folds)
    assert sorted(found.tolist()) == list(range(6))
    metric = {"mean": "logeuclid", "distance": "riemann"}
    for size in (1, 2, 3, 4):
        direct = selection.ElectrodeSelection(size, metric).fit(estimation.Covariances("oas").transform(X), signs)
        assert set(found[:size].tolist()) == set(direct.subelec_)


def test_riemannian_order_bears_a_flat_trial(training):
    pytest.importorskip("pyriemann")
    X, signs, folds = training
    X = X.copy()
    X[3] = 0.0
    assert sorted(by_riemannian_distance(X, signs, folds).tolist()) == list(range(6))


def test_standard_cap_takes_what_there_is():
    assert standard_cap(["Oz", "C3", "FZ", "po8"]).tolist() == [2, 0, 3]
    assert not len(standard_cap(["ch1", "ch2"]))


def test_sizes_and_finder_respect_what_is_allowed(training):
    assert sizes_up_to(10).tolist() == [1, 2, 3, 4, 6, 8, 10]
    assert sizes_up_to(1).tolist() == [1]
    order, sizes = finder(by_snr, np.array([1, 3, 5]))([training])
    assert set(order.tolist()) == {1, 3, 5}
    assert order[0] == 1
    assert sizes.tolist() == [1, 2, 3]
