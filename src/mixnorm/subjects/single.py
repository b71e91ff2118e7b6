"""The classifier of one subject of a joint fit, as an estimator for one subject."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mixnorm.core.groups import Groups
from mixnorm.estimators.objective import Objective
from mixnorm.estimators.svc_cv import GroupSVCCV
from mixnorm.subjects.multitask_cv import MultiTaskGroupSVCCV

#: What describes the input of a fit, the same for all subjects.
_INPUT = ("n_features_in_", "feature_names_in_", "_epochs_shape", "_ch_names", "_recording", "classes_")


def single_classifier(model: MultiTaskGroupSVCCV, subject) -> GroupSVCCV:
    """Return a fitted `GroupSVCCV` with the classifier of one subject, whose scores are those of the joint model.

    ``objective_``, ``dual_gap_`` and ``scores_`` are those of the joint problem at what was chosen, the one point of
    the grid. The sigmoid is the subject's own, that of all subjects for one who was not in the joint fit.
    """
    check_is_fitted(model)
    if subject not in model._labels:
        raise ValueError(f"unknown subject {subject!r}; available: {', '.join(map(repr, model._labels))}.")
    row = model._labels.index(subject)
    how = {name: getattr(model, name) for name in ("penalty", "q", "fit_intercept", "class_weight", "tol")}
    single = GroupSVCCV([model.alpha_], **how)
    for name in (*_INPUT, "n_iter_", "dual_gap_", "objective_", "alpha_"):
        if hasattr(model, name):
            setattr(single, name, getattr(model, name))
    single.coef_, single.intercept_ = model.coef_[[row]].copy(), np.array([model.intercept_[row]])
    groups = Groups(model.groups_.copy(), model._group_index.copy())
    single._set_sensors(groups, single.coef_, Objective.without_noise(model, model.q).norm_order)
    single.q_, single.ridge_, single.alphas_ = float(model.q), model._ridge(), np.array([model.alpha_])
    single.scores_, single.n_selected_ = _chosen_scores(model)[None], np.array([len(single.selected_groups_)])
    single.path_coefs_, single.path_intercepts_ = single.coef_.copy(), single.intercept_.copy()
    known = getattr(model, "calibrations_", {None: None})  # a model file of an earlier version has none
    single.calibration_ = known[subject if subject in known else None]
    return single


def _chosen_scores(model: MultiTaskGroupSVCCV) -> np.ndarray:
    """Return the scores (folds,) of the chosen point of the grid."""
    scores = model.scores_.reshape(-1, *model.scores_.shape[-3:])
    ridge = list(np.atleast_1d(model.ridge)).index(model._ridge()) if len(scores) > 1 else 0
    alphas = model.alphas_.reshape(len(scores), -1)[ridge]
    similarities = np.broadcast_to(model.similarities_.reshape(scores.shape[1], -1), scores.shape[1:3])
    at = (similarities == model.similarity_) & (alphas == model.alpha_)
    return scores[ridge][tuple(np.argwhere(at)[0])]
