"""The orders of sensors: that of this package, and those it is compared with."""

from dataclasses import replace

import numpy as np
import pytest

from mixnorm import GroupSVC
from mixnorm.eeg import InOrder, simulated_p300
from mixnorm.montage.constraints import Constraints
from mixnorm.montage.orders import (
    ComparedOrder,
    EliminationOrder,
    FixedMontage,
    by_backward_elimination,
    by_riemannian_distance,
    by_snr,
    compared_orders,
    standard_cap,
)
from mixnorm.montage.plain_svm import PLAIN_ALPHAS
from mixnorm.montage.refits import sizes_up_to
from mixnorm.montage.separation import precision, separation
from mixnorm.montage.trials import Training, inner_folds


@pytest.fixture(scope="module")
def training():
    data = simulated_p300(400, n_channels=6, n_informative=2, noise=0.1, seed=0)
    signs = np.where(data.y > 0, 1.0, -1.0)
    return Training(data.X, signs, inner_folds(InOrder(3), signs, np.arange(400)))


@pytest.mark.parametrize("order", [by_snr, by_backward_elimination])
def test_informative_channels_come_first(order, training):
    found = order(training)
    assert sorted(found.tolist()) == list(range(6))
    assert set(found[:2].tolist()) == {0, 1}


def test_snr_is_power_of_the_difference_over_variance(training):
    X, signs = training.X, training.signs
    expected = []
    for channel in range(6):
        a, b = X[signs > 0, channel], X[signs < 0, channel]
        expected.append(np.sum((a.mean(0) - b.mean(0)) ** 2) / np.sum((a.var(0) + b.var(0)) / 2))
    assert by_snr(training).tolist() == np.argsort(expected)[::-1].tolist()


@pytest.fixture(scope="module")
def hard():
    rng = np.random.default_rng(4)
    signs = np.where(rng.uniform(size=150) < 0.3, 1.0, -1.0)
    X = rng.standard_normal((150, 6, 3))
    X[signs > 0, :3] += np.array([0.9, 0.6, 0.5])[:, None]
    X[:, 3] = X[:, 0] + 0.3 * rng.standard_normal((150, 3))  # two channels with nearly the same information
    return Training(X, signs, inner_folds(InOrder(3), signs, np.arange(150)))


def svm(X, signs, alpha):
    return GroupSVC(alpha, penalty="l2", tol=1e-9).fit(X, signs).coef_.reshape(X.shape[1:])


def alpha_of_the_svm(X, signs, folds):
    """The largest alpha whose SVMs on all channels come within 1 % of the best d' on held-out trials."""
    grid = 2 * np.mean(np.var(X, axis=0)) * PLAIN_ALPHAS
    weights = precision([signs[fold.test] for fold in folds])
    found = []
    for alpha in grid:
        models = [svm(X[fold.train > 0], signs[fold.train > 0], alpha) for fold in folds]
        scores = [np.tensordot(X[fold.test], model, 2)[:, None] for fold, model in zip(folds, models, strict=True)]
        found.append(weights @ [separation(signs[fold.test], own)[0] for fold, own in zip(folds, scores, strict=True)])
    return grid[np.flatnonzero(np.array(found) >= 0.99 * max(found))[-1]]


def test_backward_elimination_is_that_of_svms_fitted_one_after_another(hard):
    X, signs, folds = hard.X, hard.signs, hard.folds
    alpha = alpha_of_the_svm(X, signs, folds)
    left, out, margins = list(range(6)), [], []
    while left:
        norms = np.linalg.norm(svm(X[:, left], signs, alpha), axis=1)
        margins.extend(np.diff(np.sort(norms)[:2]) / norms.max())
        out.append(left.pop(int(np.argmin(norms))))
    assert min(margins) > 0.01  # no tie that the solver's tolerance would decide
    assert by_backward_elimination(hard).tolist() == out[::-1]
    # and once is not enough: the weights of a single fit put them in another order
    assert np.argsort(-np.linalg.norm(svm(X, signs, alpha), axis=1)).tolist() != out[::-1]


def test_riemannian_order_is_that_of_pyriemann(training):
    selection = pytest.importorskip("pyriemann.channelselection")
    estimation = pytest.importorskip("pyriemann.estimation")
    X, signs = training.X, training.signs
    found = by_riemannian_distance(training)
    assert sorted(found.tolist()) == list(range(6))
    metric = {"mean": "logeuclid", "distance": "riemann"}
    for size in (1, 2, 3, 4):
        direct = selection.ElectrodeSelection(size, metric).fit(estimation.Covariances("oas").transform(X), signs)
        assert set(found[:size].tolist()) == set(direct.subelec_)


def test_riemannian_order_accepts_a_flat_trial(training):
    pytest.importorskip("pyriemann")
    X = training.X.copy()
    X[3] = 0.0
    assert sorted(by_riemannian_distance(replace(training, X=X)).tolist()) == list(range(6))


def test_standard_cap_takes_what_there_is():
    assert standard_cap(["Oz", "C3", "FZ", "po8"]).tolist() == [2, 0, 3]
    assert not len(standard_cap(["ch1", "ch2"]))


def test_compared_orders_use_the_allowed_channels_only(training):
    assert sizes_up_to(10).tolist() == [1, 2, 3, 4, 6, 8, 10]
    assert sizes_up_to(1).tolist() == [1]
    found = ComparedOrder("SNR", by_snr, np.array([1, 3, 5])).rank([training])
    assert set(found.order.tolist()) == {1, 3, 5}
    assert found.order[0] == 1
    assert found.sizes.tolist() == [1, 2]  # all allowed channels together are scored once for all orders


def test_elimination_starts_with_the_channels_to_keep(training):
    constraints = Constraints.by_name("abcdef", keep=["c", "f"], forbid=["a"])
    found = EliminationOrder(constraints).rank([training])
    assert set(found.order[:2].tolist()) == {2, 5}
    assert set(found.order.tolist()) == {1, 2, 3, 4, 5}
    assert found.sizes.tolist() == [2, 3, 4, 5]


def test_the_standard_cap_is_compared_without_its_forbidden_electrodes(training):
    names = ("Fz", "Cz", "Pz", "Oz", "C3", "C4")
    *_, cap = compared_orders(names, Constraints.by_name(names, forbid=["Cz"]))
    assert isinstance(cap, FixedMontage)
    found = cap.rank([training])
    assert found.order.tolist() == [0, 2, 3]
    assert found.sizes.tolist() == [3]
    none = compared_orders(names[4:], Constraints.none(2))
    assert "standard 8-channel cap" not in [order.name for order in none]
    assert compared_orders(names[:1], Constraints.none(1)) == []
