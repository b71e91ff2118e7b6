"""The classifier of one subject of a joint fit, as an estimator for one subject."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mixnorm.core.groups import Groups
from mixnorm.estimators.objective import Objective
from mixnorm.estimators.svc import GroupSVC
from mixnorm.subjects.multitask_classifier import MultiTaskClassifier

#: What describes the input of a fit, the same for all subjects.
_INPUT = ("n_features_in_", "feature_names_in_", "_epochs_shape", "_ch_names", "_recording", "classes_")


def single_classifier(model: MultiTaskClassifier, subject) -> GroupSVC:
    """Return a fitted `GroupSVC` with the classifier of one subject, whose scores are those of the joint model.

    ``objective_`` and ``dual_gap_`` are those of the joint problem.
    """
    check_is_fitted(model)
    if subject not in model._labels:
        raise ValueError(f"unknown subject {subject!r}; available: {', '.join(map(repr, model._labels))}.")
    row = model._labels.index(subject)
    how = {name: getattr(model, name) for name in ("penalty", "q", "fit_intercept", "class_weight", "tol")}
    single = GroupSVC(model._alpha(), **how)
    for name in (*_INPUT, "n_iter_", "dual_gap_", "objective_"):
        if hasattr(model, name):
            setattr(single, name, getattr(model, name))
    single.coef_, single.intercept_ = model.coef_[[row]].copy(), np.array([model.intercept_[row]])
    groups = Groups(model.groups_.copy(), model._group_index.copy())
    single._set_sensors(groups, single.coef_, Objective.without_noise(model, model.q).norm_order)
    return single
