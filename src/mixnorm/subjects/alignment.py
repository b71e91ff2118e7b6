r"""Adaptation of models that version 0.1.0 fitted with ``align=True``, the predecessor of ``noise="kronecker"``.

A classifier w depends on the response and on the ongoing activity that it must suppress, so that two subjects with the
same response still need different classifiers. Let C_t be the covariance between the sensors of subject t, over trials
and samples, and S_t the covariance between samples of the trials with white sensors. With

    R_t = C_t^½ ⊗ S_t^½,    z = R_t⁻¹ x,    v = R_t w,    x·w = z·v,

the ongoing activity has the same covariance in z for all subjects, and the v_t differ by the responses only: the
similarity term is Σ_t ‖v_t − v̄‖², while sensors are chosen by the w_t. R_t does not depend on labels. (Over sensors
alone this is the Euclidean alignment of He and Wu, IEEE Trans. Biomed. Eng. 67, 2020.)
"""

from dataclasses import dataclass, replace

import numpy as np

from mixnorm.core.groups import Groups
from mixnorm.core.metric import KroneckerMetric
from mixnorm.subjects.adaptation import AdaptationProblem
from mixnorm.subjects.prior import Placed, PlainPrior

#: Share of white noise that is mixed into C and S so that they can be inverted. The AUC hardly depends on it around
#: this value (benchmarks/many_subjects_0.1.md).
WHITE_SHARE = 0.03
#: Smallest number of trials from which the covariances of a new subject are estimated; fewer were not tested.
FEWEST_TRIALS = 5
#: A variance below this share of the mean square cannot be told from rounding error (the square of about 1e-12).
_ROUNDING = 1e-24


@dataclass(frozen=True, eq=False)
class AlignedPrior:
    """The mean classifier w̄ (d,) and the mean v̄ (d,) of the R_t w_t in a model file of version 0.1.0."""

    coef: np.ndarray
    aligned_coef: np.ndarray
    groups: Groups

    def place(self, problem: AdaptationProblem, X: np.ndarray, signs: np.ndarray | None) -> Placed:
        """Regularise towards v̄ after whitening; towards w̄ where the trials are too few or all the same."""
        usable = problem.usable
        metric = alignment(X, np.ones(len(X)), self.groups) if len(X) >= FEWEST_TRIALS and usable.any() else None
        if metric is None:
            return PlainPrior(self.coef).place(problem, X, signs)
        center, metric = _center_and_metric(metric, self.aligned_coef, usable)
        return Placed(replace(problem, center=center, metric=metric), by_own_trials=True)


def alignment(X: np.ndarray, weights: np.ndarray, groups: Groups) -> KroneckerMetric | None:
    """Return R of one subject's trials X (n, d) with weights (n,); None if all trials are the same."""
    layout = _layout(groups)
    p = weights / weights.sum()
    centred = X - p @ X
    if not p @ np.sum(centred**2, axis=1) > _ROUNDING * (p @ np.sum(X**2, axis=1)):
        return None
    trials = centred[:, layout]
    weighted, (n_sensors, n_samples) = p[:, None, None] * trials, layout.shape
    over_sensors = _shrunk(np.tensordot(weighted, trials, axes=([0, 2], [0, 2])) / n_samples)
    trials, weighted = (np.matmul(_power(over_sensors, -0.5), part) for part in (trials, weighted))
    over_samples = _shrunk(np.tensordot(weighted, trials, axes=([0, 1], [0, 1])) / n_sensors)
    return KroneckerMetric(layout, *(_power(C, 0.5)[None, None] for C in (over_sensors, over_samples)))


def _center_and_metric(
    metric: KroneckerMetric, target: np.ndarray, usable: np.ndarray
) -> tuple[np.ndarray, KroneckerMetric]:
    """Return the w (d,) with the least ‖R w − target‖² over the usable sensors, and the metric on their features.

    ``usable`` is a mask of features (d,) that contains all features of a sensor or none of them. N = R'R is divided by
    the mean of its diagonal, so that a strength has the same scale as with the plain distance ‖w − w̄‖².
    """
    own = metric.only(np.flatnonzero(usable[metric.layout[:, 0]]))
    slope = metric.adjoint(target[None, None, :, None])[:, :, usable]
    center = np.zeros(len(usable))
    center[usable] = own.inverse_times(slope)[0, 0, :, 0]
    return center, replace(own, sensors=own.sensors / np.sqrt(own.diagonal().mean()))


def _layout(groups: Groups) -> np.ndarray:
    """The features of every sensor in order, (C, r); all sensors must have the same number of features."""
    if groups.layout is None:
        odd = np.flatnonzero(groups.sizes != groups.sizes[0])
        first, other = groups.labels.tolist()[0], groups.labels.tolist()[odd[0]]
        raise ValueError(
            f"align=True needs the same samples of every sensor, but sensor {first!r} has {groups.sizes[0]} features "
            f"and sensor {other!r} has {groups.sizes[odd[0]]}."
        )
    return groups.layout


def _shrunk(covariance: np.ndarray) -> np.ndarray:
    """Return (1 − ρ) C + ρ trace(C)/p I for C (p, p), with ρ = `WHITE_SHARE`."""
    size = np.trace(covariance) / len(covariance)
    return (1 - WHITE_SHARE) * covariance + WHITE_SHARE * size * np.eye(len(covariance))


def _power(covariance: np.ndarray, exponent: float) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * values**exponent) @ vectors.T
