r"""The metric by which a new subject's classifier is regularised towards the mean of the known ones.

The term is strength (w − w̄)'M(w − w̄) with

    M = (1 − ρ) C / c + ρ I,    C = Σ_{t,i} s_ti (x_ti − x̄_t)(x_ti − x̄_t)' / Σ_{t,i} s_ti,    c = trace(C)/m,

where C is the covariance of the known subjects' trials within subjects and m the number of features. The value of
(w − w̄)'C(w − w̄) is the mean squared change of the scores of these trials, apart from an intercept, when w replaces w̄.
Changes of w that hardly affect the scores of the known subjects therefore cost little, as in the joint fit. The mean
of the diagonal of M is 1, so that a strength has the same scale as with the plain distance ‖w − w̄‖² (ρ = 1).
"""

import numpy as np

from mixnorm.core.metric import DenseMetric
from mixnorm.core.problem import Stack

#: ρ, the share of the plain distance, which makes M positive definite. The AUC hardly depends on it around this value
#: (benchmarks/many_subjects_0.1.md).
PLAIN_SHARE = 0.03
#: With more features than this M is the identity: one step of the new subject's fit would take seconds, and C would
#: make a model file many megabytes large.
MOST_FEATURES = 1000


def within_covariance(stack: Stack, features: np.ndarray) -> np.ndarray | None:
    """Return C (m, m) of some features in the last problem of the first data set of a stack, in O(trials · m²).

    None for more than `MOST_FEATURES` features.
    """
    if len(features) > MOST_FEATURES:
        return None
    covariance = np.zeros((len(features), len(features)))
    for X_t, p_t in zip(stack.X[0], stack.trial_weight[0, :, :, -1], strict=True):
        own = X_t[:, features]  # a copy
        own -= p_t @ own / p_t.sum()
        own *= np.sqrt(p_t)[:, None]
        covariance += own.T @ own
    return covariance


def new_subject_metric(covariance: np.ndarray | None) -> DenseMetric | None:
    """Return the metric M of a covariance C (m, m); None, the identity, if there is no C or it is 0."""
    if covariance is None:
        return None
    size = np.trace(covariance) / max(len(covariance), 1)
    if not size > 0:
        return None
    return DenseMetric.of_covariance((1 - PLAIN_SHARE) * covariance / size + PLAIN_SHARE * np.eye(len(covariance)))
