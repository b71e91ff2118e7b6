"""A fit at one alpha, calibrated by held-out scores from elsewhere, as a `GroupSVCCV`.

Where alpha and the held-out scores are known already, as after the nested cross-validation of a montage, fitting a
`GroupSVCCV` would do all of it again. `GroupSVC` itself has no probabilities.
"""

import numpy as np

from mixnorm.estimators.calibration import fit_sigmoid, plain
from mixnorm.estimators.svc import GroupSVC
from mixnorm.estimators.svc_cv import GroupSVCCV


def with_held_out_scores(single: GroupSVC, y: np.ndarray, scores: np.ndarray, fold_scores: np.ndarray) -> GroupSVCCV:
    """Return the classifier of a fit, with the sigmoid of held-out scores.

    Parameters
    ----------
    single : GroupSVC
        Fitted.
    y : ndarray of shape (n,)
        Labels, of both classes.
    scores : ndarray of shape (n,)
        Scores of the trials by classifiers that were not trained on them; NaN for trials without one.
    fold_scores : ndarray of shape (folds,)
        What ``scores_`` holds for the one alpha.
    """
    shared = {name: value for name, value in single.get_params().items() if name in GroupSVCCV().get_params()}
    model = GroupSVCCV([float(single.alpha)], **shared)
    learned = {name: value for name, value in vars(single).items() if name not in single.get_params()}
    known = np.isfinite(scores)
    signs = np.where(y == single.classes_[1], 1.0, -1.0)
    model.__dict__.update(
        learned,
        alpha_=float(single.alpha),
        q_=float(single.q),
        ridge_=float(single.ridge),
        window_share_=float(single.window_share),
        alphas_=np.array([float(single.alpha)]),
        scores_=np.asarray(fold_scores, dtype=np.float64)[None],
        n_selected_=np.array([len(single.selected_groups_)]),
        path_coefs_=single.coef_.copy(),
        path_intercepts_=single.intercept_.copy(),
        out_of_fold_scores_=scores,
        calibration_=plain(fit_sigmoid(scores[known], signs[known], np.ones(known.sum()))),
    )
    return model
