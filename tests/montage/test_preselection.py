"""A classifier on a given number of sensors, chosen from its training trials as electrode selection does."""

import numpy as np
import pytest

from mixnorm import GroupSVCCV, SensorSelector
from mixnorm.eeg import simulated_p300
from mixnorm.eeg.splitting import InOrder
from mixnorm.montage.constraints import Constraints
from mixnorm.montage.orders import EliminationOrder
from mixnorm.montage.preselection import PreselectedSVC
from mixnorm.montage.trials import Training


@pytest.fixture(scope="module")
def trials():
    data = simulated_p300(240, noise=0.08, n_informative=3, seed=1)
    return data.X, data.y, np.arange(240) // 12


def classifier():
    return GroupSVCCV(6, penalty="l2", noise="structured", cv=InOrder())


def test_sensors_are_the_first_of_the_elimination_order(trials):
    X, y, groups = trials
    model = PreselectedSVC(3, classifier()).fit(X, y, groups)
    signs = np.where(y == 1, 1.0, -1.0)
    training = Training(X, signs, [])
    order = EliminationOrder(Constraints.none(X.shape[1])).rank([training]).order
    np.testing.assert_array_equal(model.order_, order)
    np.testing.assert_array_equal(model.classifier_.selected_groups_, np.sort(order[:3]))
    # and those of the transformer
    np.testing.assert_array_equal(SensorSelector(3).fit(X, y).selected_groups_, np.sort(order[:3]))


def test_classifier_and_noise_are_those_of_the_chosen_sensors_alone(trials):
    X, y, groups = trials
    model = PreselectedSVC(3, classifier()).fit(X, y, groups)
    chosen = np.sort(model.order_[:3])
    alone = classifier().fit(X[:, chosen], y, groups=groups)
    np.testing.assert_allclose(model.decision_function(X), alone.decision_function(X[:, chosen]), atol=1e-6)


def test_more_sensors_than_there_are_is_refused(trials):
    X, y, groups = trials
    with pytest.raises(ValueError, match="17 electrodes were asked for, but only 16 are available"):
        PreselectedSVC(17, classifier()).fit(X, y, groups)
