r"""Coordinates in which subjects are alike: those in which everybody's trials are white.

A classifier w answers to the response and to the ongoing activity that it must suppress, so that two subjects with the
same response still need different ones. Let R_t be the covariance between the sensors of subject t, over trials and
samples, and S_t that between samples once the sensors are white. Then with

    A_t = R_t^½ ⊗ S_t^½,    z = A_t⁻¹ x,    v = A_t w,    x·w = z·v,

the ongoing activity is the same for everybody in z, and what is left between the v_t is the difference of responses:
it is they that are drawn to their mean, similarity Σ_t ‖v_t − v̄‖², while sensors are chosen by the w_t. Labels have no
part in A_t. (Over sensors alone this is the Euclidean alignment of He and Wu, IEEE Trans. Biomed. Eng. 67, 2020.)
"""

from dataclasses import replace

import numpy as np

from mixnorm.core.groups import Groups
from mixnorm.core.problem import Stack
from mixnorm.subjects.classifier import SubjectTrials

#: Share of white noise in R and S, of their mean variance; measured, flat around this (benchmarks/many_subjects.md).
WHITE_SHARE = 0.03
#: A Newton step of so many features, each subject having a dense map of them, still takes seconds.
MOST_FEATURES = 2000
#: Fewer trials than this say too little of a newcomer's covariances; from 5 on it was measured.
FEWEST_TRIALS = 5
#: A variance this small beside the mean square is rounding.
_ROUNDING = 1e-24


def aligned(stack: Stack, data: SubjectTrials) -> Stack:
    """Return a joint problem whose subjects are compared in coordinates of their own, made of all their trials."""
    maps = []
    for label, rows in zip(data.subjects.labels, data.subjects.rows):
        A = alignment(data.trials.matrix[rows], data.weights[rows], stack.groups)
        if A is None:
            raise ValueError(f"Subject {label!r}: all trials are the same, so that align=True has nothing to go by.")
        maps.append(A)
    return replace(stack, alignment=np.stack(maps)[None])


def alignment(X: np.ndarray, weights: np.ndarray, groups: Groups) -> np.ndarray | None:
    """A (d, d) of one subject's trials X (n, d), counting by their weights (n,); None where they are all the same."""
    layout = _layout(groups)
    p = weights / weights.sum()
    centred = X - p @ X
    if not p @ np.sum(centred**2, axis=1) > _ROUNDING * (p @ np.sum(X**2, axis=1)):
        return None
    trials = centred[:, layout]
    weighed, (n_sensors, n_samples) = p[:, None, None] * trials, layout.shape
    R = _shrunk(np.tensordot(weighed, trials, axes=([0, 2], [0, 2])) / n_samples)
    trials, weighed = (np.matmul(_power(R, -0.5), part) for part in (trials, weighed))
    S = _shrunk(np.tensordot(weighed, trials, axes=([0, 1], [0, 1])) / n_sensors)
    A = np.empty((len(groups.index),) * 2)
    order = layout.ravel()
    A[np.ix_(order, order)] = np.kron(_power(R, 0.5), _power(S, 0.5))
    return A


def center_and_metric(A: np.ndarray, target: np.ndarray, usable: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where ‖A w − target‖² is least over the m usable features (a mask), w (d,), and its M = A'A on them, (m, m)."""
    own = A[:, usable]
    metric, center = own.T @ own, np.zeros(len(usable))
    center[usable] = np.linalg.solve(metric, own.T @ target)
    return center, metric


def newcomers_center_and_metric(
    X: np.ndarray, groups: Groups, target: np.ndarray, usable: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """`center_and_metric` of a newcomer with trials X (n, d); None where they are too few, or all the same.

    M is divided by the mean of its diagonal, so that a strength means the same as beside ‖w − w̄‖².
    """
    A = alignment(X, np.ones(len(X)), groups) if len(X) >= FEWEST_TRIALS and usable.any() else None
    if A is None:
        return None
    center, metric = center_and_metric(A, target, usable)
    return center, metric / np.mean(np.diag(metric))


def _layout(groups: Groups) -> np.ndarray:
    """The features of every sensor in order, (C, r); all sensors must have as many."""
    if groups.n_features > MOST_FEATURES:
        raise ValueError(
            f"align=True takes at most {MOST_FEATURES} features, but X has {groups.n_features}; use fewer samples per "
            "sensor (average neighbouring ones), or fewer sensors."
        )
    if groups.layout is None:
        odd = np.flatnonzero(groups.sizes != groups.sizes[0])
        first, other = groups.labels.tolist()[0], groups.labels.tolist()[odd[0]]
        raise ValueError(
            f"align=True needs the same samples of every sensor, but sensor {first!r} has {groups.sizes[0]} features "
            f"and sensor {other!r} has {groups.sizes[odd[0]]}."
        )
    return groups.layout


def _shrunk(covariance: np.ndarray) -> np.ndarray:
    """Mix some white noise of the same mean variance in."""
    size = np.trace(covariance) / len(covariance)
    return (1 - WHITE_SHARE) * covariance + WHITE_SHARE * size * np.eye(len(covariance))


def _power(covariance: np.ndarray, exponent: float) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * values**exponent) @ vectors.T
