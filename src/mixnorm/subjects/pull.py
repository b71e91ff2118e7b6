r"""What is far from the mean classifier: what would change the scores of the known subjects' trials.

A newcomer is drawn to w̄ by strength (w − w̄)'M(w − w̄) with

    M = (1 − ρ) C / c + ρ I,    C = Σ_{t,i} s_ti (x_ti − x̄_t)(x_ti − x̄_t)' / Σ_{t,i} s_ti,    c = trace(C)/m,

C being the covariance of the known subjects' trials within subjects, m the number of features. (w − w̄)'C(w − w̄) is
the mean square by which the scores of their trials would change, each subject's intercept set free: moves that the
known subjects would not feel cost little, as when everybody is learned again. The mean of the diagonal of M is 1, so
that a strength means the same as beside ‖w − w̄‖², which is ρ = 1.
"""

import numpy as np

from mixnorm.core.problem import Stack

#: ρ, the share of the plain distance; measured, flat around this (benchmarks/many_subjects.md).
PLAIN_SHARE = 0.03
#: With more features than this newcomers are drawn by the plain distance.
MOST_FEATURES = 1000


def within_covariance(stack: Stack, features: np.ndarray) -> np.ndarray | None:
    """C (m, m) of some features in the last problem of the first data set of a stack; O(trials · m²).

    None for more than `MOST_FEATURES`, where a step of a newcomer's fit would take seconds and a file many megabytes.
    """
    if len(features) > MOST_FEATURES:
        return None
    X, p = stack.X[0][:, :, features], stack.trial_weight[0, :, :, -1]
    covariance = np.zeros((len(features), len(features)))
    for X_t, p_t in zip(X, p):
        root = np.sqrt(p_t)[:, None] * (X_t - p_t @ X_t / p_t.sum())
        covariance += root.T @ root
    return covariance


def pull_metric(covariance: np.ndarray | None) -> np.ndarray | None:
    """Return M for a covariance C, both (m, m); None where there is none, or it is 0, or nothing is to be drawn."""
    if covariance is None:
        return None
    size = np.trace(covariance) / max(len(covariance), 1)
    if not size > 0:
        return None
    return (1 - PLAIN_SHARE) * covariance / size + PLAIN_SHARE * np.eye(len(covariance))
