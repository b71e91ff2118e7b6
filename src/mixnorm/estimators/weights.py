"""Weights of trials and of groups: validation, class weights, and the weights of the adaptive norm."""

import warnings

import numpy as np
from sklearn.utils import compute_class_weight

from mixnorm.core.groups import Groups
from mixnorm.core.penalties import vector_norm

#: If the largest weight exceeds this, all weights are divided by it.
_LARGE = 1e100


def check_sample_weight(sample_weight, n_trials: int) -> np.ndarray:
    """Return the weight of every trial, (n,); None: all 1."""
    if sample_weight is None:
        return np.ones(n_trials)
    weights = np.asarray(sample_weight)
    if weights.ndim == 0:
        # scikit-learn also allows a single number for all trials.
        weights = np.full(n_trials, weights)
    if weights.dtype.kind not in "fiub":
        raise ValueError(f"sample_weight must be numeric, but its type is {weights.dtype}.")
    weights = weights.astype(float)
    if weights.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar, got {weights.ndim}D array.")
    if weights.shape != (n_trials,):
        raise ValueError(f"sample_weight.shape == {weights.shape}, expected {(n_trials,)}!")
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        raise ValueError(
            f"sample_weight must be finite and not negative, but that of trial {bad[0]} is {weights[bad[0]]}."
        )
    if not weights.any():
        raise ValueError("sample_weight must not be zero for all trials.")
    # Only the ratios of weights matter, and sums and products of very large weights would overflow.
    return weights / weights.max() if weights.max() > _LARGE else weights


def warn_light_trials(noise, weights: np.ndarray, stacklevel: int, whose: str = "") -> None:
    """Warn if ``noise="evoked"`` sees no response because the weights of the trials, (n,), are small numbers."""
    # Other estimates depend on the ratios of the weights only.
    if isinstance(noise, str) and noise == "evoked" and weights.sum() <= 2:
        warnings.warn(
            f"The sample weights {whose}sum to {weights.sum():.3g}. noise='evoked' takes this sum as the number of "
            "trials, and with 2 or fewer it is the same as noise='structured'. Multiply the weights by a constant, so "
            "that an ordinary trial has weight 1.",
            UserWarning,
            stacklevel=stacklevel,
        )


def class_balance(
    weights: np.ndarray, signs: np.ndarray, classes: np.ndarray, class_weight, whose: str = ""
) -> np.ndarray:
    """Multiply the weights of trials, (n,), by their class weights; both classes must have a positive weight.

    ``whose`` describes the trials in error messages, as in "All trials of class 0 … have weight zero".

    With "balanced" the class weight is Σs / (2 Σ s of the class), so that both classes have the same total weight; a
    trial of weight 2 counts as two trials.
    """
    check_both_classes(weights, signs, classes, whose)
    if class_weight is None:
        return weights
    positive = signs > 0
    if isinstance(class_weight, str) and class_weight == "balanced":
        # A trial of weight 2 must equal two trials: weights are summed, and trials are not counted.
        total = np.array([weights[~positive].sum(), weights[positive].sum()])
        factors = weights.sum() / (2 * total)
    else:
        factors = compute_class_weight(class_weight, classes=classes, y=classes[positive.astype(int)])
        if not (np.all(np.isfinite(factors)) and np.all(factors >= 0)):
            raise ValueError(f"class_weight must be finite and not negative, but got {class_weight!r}.")
    weights = weights * factors[positive.astype(int)]
    # again, because a class weight can be 0
    check_both_classes(weights, signs, classes, whose)
    return weights


def check_both_classes(weights: np.ndarray, signs: np.ndarray, classes: np.ndarray, whose: str = "") -> None:
    """Raise an error if all trials of a class have weight zero."""
    for sign, label in zip((-1, 1), classes.tolist(), strict=True):
        if not weights[signs == sign].any():
            raise ValueError(
                f"All trials of class {label!r} {whose}have weight zero; both classes need at least one trial."
            )


def check_group_weights(given, groups: Groups, penalty: str) -> np.ndarray:
    """Return β (G,) from an array in the order of ``groups.labels`` or a dict by label; None: all 1."""
    if given is None:
        return np.ones(groups.n_groups)
    if isinstance(given, dict):
        weights = np.ones(groups.n_groups)
        place = {label: i for i, label in enumerate(groups.labels.tolist())}
        for label, weight in given.items():
            if label not in place:
                raise ValueError(
                    f"group_weights contains the unknown group {label!r}; available: {_listing(groups.labels)}."
                )
            # A dict need not name all groups; those that it does not name have weight 1.
            weights[place[label]] = _number(weight)
    else:
        weights = np.array([_number(weight) for weight in given]) if np.ndim(given) == 1 else np.asarray(given)
        if weights.shape != (groups.n_groups,):
            raise ValueError(
                f"group_weights must hold one weight for each of the {groups.n_groups} groups, "
                f"but its shape is {weights.shape}."
            )
    bad = np.flatnonzero(np.isnan(weights) | (weights < 0))
    if len(bad):
        raise ValueError(
            "group_weights must not be negative or NaN, "
            f"but that of {groups.labels.tolist()[bad[0]]!r} is {weights[bad[0]]}."
        )
    if penalty != "group" and not np.all(np.isin(weights, (0, 1, np.inf))):
        odd = np.flatnonzero(~np.isin(weights, (0, 1, np.inf)))[0]
        raise ValueError(
            f"With penalty={penalty!r} group_weights must be 0 (always select), 1 or infinity (never select), but "
            f"that of {groups.labels.tolist()[odd]!r} is {weights[odd]}; use penalty='group' for other weights."
        )
    # Subnormal numbers count as 0: products with them lose their digits, and the solver would not come to an end.
    return np.where(weights < np.finfo(float).tiny, 0.0, weights)


def _number(weight) -> float:
    if not isinstance(weight, float | int | np.number) or isinstance(weight, np.complexfloating):
        raise ValueError(f"group_weights must be numbers, but got {weight!r}.")
    return float(weight)


def adaptive_weights(W: np.ndarray, groups: Groups, q: float, beta: np.ndarray) -> np.ndarray:
    r"""Return 1/‖w*_g‖_q, divided by its geometric mean and times the given β (G, K), for first-stage W (T, d, K).

    Groups that the first stage did not select get weight ∞; groups of weight 0 keep it. The geometric mean is over the
    selected penalised groups. Dividing by it removes the scale of w*, which differs between folds and refit.
    """
    norms = vector_norm(groups.to_blocks(W), q)
    selected = (norms > 0) & (beta > 0) & np.isfinite(beta)
    # In logarithms, because a product of many 1/‖w_g‖ can overflow.
    logs = np.where(selected, -np.log(np.where(selected, norms, 1.0)), 0.0)
    centre = logs.sum(axis=0) / np.maximum(selected.sum(axis=0), 1)
    return np.where(selected, np.exp(logs - centre) * np.where(selected, beta, 1.0), np.where(beta == 0, 0.0, np.inf))


def _listing(labels: np.ndarray, most: int = 12) -> str:
    shown = ", ".join(repr(label) for label in labels.tolist()[:most])
    return shown + (", …" if len(labels) > most else "")
