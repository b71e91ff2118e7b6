"""Windows of time: the parameter ``windows`` as groups of features, and the penalty of sensors and windows.

    Ω(w) = (1 − τ) Σ_s β_s ‖w_s‖₂ + τ Σ_k γ_k ‖w^(k)‖₂

γ_k = 1 for every window, as β_s = 1 by default: then τ = 1 is the ℓ1-ℓ2 norm with windows as groups at the same
alpha. A longer window is thereby favoured, as a sensor with more samples is; τ says how sensors and windows compare.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from mixnorm.core.groups import Groups
from mixnorm.core.problem import Stack
from mixnorm.core.where_when import SensorsAndWindows
from mixnorm.estimators.inputs import Trials


def read_windows(windows: Any, trials: Trials, groups: Groups) -> Groups:
    """Return the windows as a partition of the features, in order of time."""
    # True is an int in Python, and windows=True would be one window
    if isinstance(windows, int | np.integer) and not isinstance(windows, bool):
        return _equal_windows(int(windows), groups)
    labels = _checked_labels(windows)
    if trials.shape is not None:
        return _from_samples(labels, trials.shape)
    if len(labels) != groups.n_features:
        raise ValueError(
            f"windows must hold one label per column of X: X has {groups.n_features} columns, but windows has "
            f"{len(labels)} labels."
        )
    return _in_order(labels)


def _equal_windows(number: int, groups: Groups) -> Groups:
    """So many windows of equal length, to within one sample, of the samples that every sensor has."""
    if groups.layout is None:
        few, many = int(groups.sizes.argmin()), int(groups.sizes.argmax())
        raise ValueError(
            f"windows={number} needs the same number of samples for every sensor, but {groups.labels.tolist()[few]!r} "
            f"has {groups.sizes[few]} and {groups.labels.tolist()[many]!r} has {groups.sizes[many]}; give one label "
            "per column instead."
        )
    n_samples = groups.layout.shape[1]
    if not 1 <= number <= n_samples:
        raise ValueError(
            f"Invalid value for the 'windows' parameter. Allowed are numbers of windows from 1 to the number of "
            f"samples, {n_samples}, but got {number}."
        )
    # The features of a sensor need not be adjacent columns; the layout says which sample a column is.
    index = np.empty(groups.n_features, dtype=np.intp)
    index[groups.layout] = equal_windows(number, n_samples)
    return Groups(np.arange(number), index)


def equal_windows(number: int, n_samples: int) -> np.ndarray:
    """Window of every sample, (n_samples,): so many windows of equal length, to within one sample."""
    # Integer arithmetic spreads the remainder evenly: lengths differ by at most one sample.
    return np.arange(n_samples) * number // n_samples


def cell_norms(model: Any) -> np.ndarray:
    """‖w‖₂ of every sensor in every window, (G, windows), of a classifier fitted on epochs with ``windows``."""
    if not hasattr(model, "windows_"):
        raise ValueError("The classifier was fitted without windows; fit it with windows=…")
    weights = np.asarray(model.filters_).T
    if weights.shape[0] != len(model.groups_):
        raise ValueError("The classifier was fitted on vectors; fit it on epochs (trials, channels, times).")
    window = window_of_samples(model, weights.shape[1])
    return np.stack([np.linalg.norm(weights[:, window == k], axis=1) for k in range(len(model.windows_))], axis=1)


def window_of_samples(model: Any, n_samples: int) -> np.ndarray:
    """Place in ``windows_`` of the window of every sample, (n_samples,), of a fitted classifier."""
    if np.ndim(model.windows) == 0:
        return equal_windows(int(model.windows), n_samples)
    place = {label: k for k, label in enumerate(model.windows_.tolist())}
    return np.array([place[label] for label in np.asarray(model.windows).tolist()])


def _from_samples(labels: np.ndarray, shape: tuple[int, int]) -> Groups:
    """Windows of epochs (channels, times) from one label per sample."""
    if len(labels) != shape[1]:
        raise ValueError(
            f"windows must hold one label per sample: the epochs have {shape[1]} samples, but windows has "
            f"{len(labels)} labels."
        )
    # features are channel-major: the samples of one channel after those of another
    return _in_order(np.tile(labels, shape[0]))


def _checked_labels(windows: Any) -> np.ndarray:
    """One-dimensional labels of one type, none of them missing."""
    labels = np.asarray(windows)
    if labels.ndim != 1 or labels.dtype.kind not in "iufbUO":
        raise ValueError(
            "windows must be a whole number, or hold one label per sample of epochs (one per column of a matrix), but "
            f"got {windows!r}."
        )
    for place, label in enumerate(labels.tolist()):
        if label is None or (isinstance(label, float) and not np.isfinite(label)):
            raise ValueError(f"windows must hold a label for every sample, but that of sample {place} is {label}.")
    return labels


def _in_order(labels: np.ndarray) -> Groups:
    """Windows by the labels of features, in the order in which they first appear: that of time."""
    try:
        # `np.unique` sorts labels as text ("late" before "middle"); windows are shown in order of time.
        unique, first, index = np.unique(labels, return_index=True, return_inverse=True)
    except TypeError as error:
        raise ValueError(
            "windows mixes labels that cannot be put in order (strings and numbers?); use one type."
        ) from error
    order = np.argsort(first)
    place = np.argsort(order)
    return Groups(unique[order], place[index].astype(np.intp))


def with_windows(stack: Stack, windows: Groups, share: float) -> Stack:
    """Return a stack of ℓ1-ℓ2 problems with the penalty of sensors and windows, 0 < share ≤ 1, in its place."""
    beta = stack.group_weights
    # a sensor that is forbidden stays so, also where no sensor has a norm of its own: (1 − τ)·∞ = ∞ for τ = 1 too
    rows = np.where(np.isinf(beta), np.inf, (1 - share) * np.where(np.isinf(beta), 0.0, beta))
    columns = np.full((beta.shape[0], windows.n_groups, beta.shape[2]), share)
    return replace(
        stack,
        group_weights=np.concatenate([rows, columns], axis=1),
        penalty=SensorsAndWindows(stack.groups, windows),
    )
