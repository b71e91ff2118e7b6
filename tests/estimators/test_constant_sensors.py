"""Sensors that are constant over the trials."""

import numpy as np

from mixnorm.core.groups import Groups
from mixnorm.estimators.objective import varying


def test_a_sensor_varies_if_any_of_its_features_differs_in_any_trial():
    X = np.random.default_rng(0).standard_normal((6, 5))
    X[:, 0] = X[:, 1] = 3.0
    X[-1] = X[0]  # then the first and the last trial tell nothing
    X[:, 2] = 0.0
    X[3, 2] = 5e-324
    groups = Groups.from_labels(["a", "a", "b", "c", "c"], n_features=5)
    np.testing.assert_array_equal(varying(X, groups), [False, True, True])
    np.testing.assert_array_equal(varying(X[:1], groups), [False, False, False])
