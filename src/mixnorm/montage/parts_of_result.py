"""The parts of a selection as plain JSON: strings, numbers, lists and None, never NaN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.design import Design
from mixnorm.eeg.positions import on_page
from mixnorm.eeg.preparation import Preparation
from mixnorm.eeg.splitting import Folds
from mixnorm.estimators.stability import StabilitySelection
from mixnorm.montage.elimination import Wishes
from mixnorm.montage.scoring import Montages, Subject, corrected_interval, mean_known

CLASSES = ("nontarget", "target")


def curve(method: str, sizes: NDArray, by_fold: NDArray, ratio: float) -> dict[str, Any]:
    """AUC (sizes, folds) against the number of sensors."""
    low, high = corrected_interval(by_fold, ratio)
    return {
        "method": method,
        "n_sensors": [int(size) for size in sizes],
        "auc": numbers(mean_known(by_fold, axis=1), 6),
        "low": numbers(low, 6),
        "high": numbers(high, 6),
    }


def stability_part(stable: StabilitySelection | None, ch_names: Sequence[str]) -> dict[str, Any] | None:
    """What stability selection found; None where there was none."""
    if stable is None:
        return None
    return {
        "n_resamplings": stable.n_resamplings,
        "threshold": number(stable.threshold),
        "error_bound": number(stable.error_bound),
        "selected": [ch_names[int(i)] for i in stable.selected],
        "statement": stable.statement,
    }


def montage_parts(
    design: Design, wishes: Wishes, subjects: Sequence[Subject], found: Montages
) -> list[dict[str, Any]]:
    """One entry for each number of sensors."""
    names, cost = design.ch_names, wishes.cost
    mean, (low, high) = found.mean, found.interval()
    weights, patterns = weights_and_patterns(design.preparation, subjects, found)
    rows = []
    for place, size in enumerate(found.sizes):
        chosen = found.order[:size]
        smaller = {"sensor": names[chosen[-1]], "auc_change": number(mean[place - 1] - mean[place], 6)}
        rows.append(
            {
                "n_sensors": int(size),
                "sensors": [names[i] for i in chosen],
                "auc": number(mean[place], 6),
                "low": number(low[place], 6),
                "high": number(high[place], 6),
                "cost": number(cost[chosen].sum()),
                "drop": smaller if place else None,
                "weights": {names[i]: numbers(weights[place, i]) for i in chosen},
                "patterns": {names[i]: numbers(patterns[place, i]) for i in chosen},
            }
        )
    return rows


def weights_and_patterns(
    preparation: Preparation, subjects: Sequence[Subject], found: Montages
) -> tuple[NDArray, NDArray]:
    r"""Weights on the scaled signals, and activation patterns in the recording's unit, (S, G, r): means over subjects.

    A = Cov(X) w / Var(X w) on the features of the montage (Haufe et al. 2014).
    """
    weights, patterns = [], []
    for one, models in zip(subjects, found.models, strict=True):
        scaler = preparation.scaler().fit(one.X)
        flat = scaler.transform(one.X).reshape(len(one.X), -1)
        flat = flat - flat.mean(axis=0)
        w = models.coefs.reshape(len(models.sizes), -1)
        scores = flat @ w.T
        variance = np.maximum(scores.var(axis=0), np.finfo(float).tiny)
        pattern = np.where(w != 0, (flat.T @ scores / len(flat) / variance).T, 0.0).reshape(models.coefs.shape)
        weights.append(models.coefs)
        patterns.append(pattern * scaler.scale_[:, None])
    return np.mean(weights, axis=0), np.mean(patterns, axis=0)


def source_part(
    design: Design, recordings: Sequence[Any], folds: Mapping[str, Folds], n_scored: int
) -> dict[str, Any]:
    """Where the trials come from, and what the scores are worth; ``folds`` of every subject, ``n_scored`` of them."""
    return {
        "recordings": [Path(str(recording.source)).name for recording in recordings],
        "subjects": list(dict.fromkeys(design.subject.tolist())),
        "n_trials": len(design),
        "n_targets": int(design.y.sum()),
        "classes": list(CLASSES),
        "preparation": design.preparation.describe(),
        "unit": "µV",
        "folds": {"by": " and ".join(dict.fromkeys(one.by for one in folds.values())), "count": n_scored},
        "optimistic": _optimistic(folds),
    }


def _optimistic(folds: Mapping[str, Folds]) -> str | None:
    """Why the scores of some subjects may be too good, if they may."""
    of_one = [name for name, one in folds.items() if one.by not in ("session", "run")]
    of_two = [name for name, one in folds.items() if one.by == "run"]
    whose = "" if len(of_one or of_two) == len(folds) else f" of {', '.join(of_one or of_two)}"
    if of_one:
        return (
            f"Only one session{whose}: training and test trials come from the same one, so that these scores may be "
            "optimistic for another day."
        )
    if of_two:
        return (
            f"Only two sessions{whose}, and their runs are the folds: training and test trials may be of the same "
            "session, so that these scores may be optimistic for another day."
        )
    return None


def sensor_parts(design: Design, wishes: Wishes, stable: StabilitySelection | None) -> list[dict[str, Any]]:
    """All sensors, in recording order."""
    places = on_page(design.positions)
    return [
        {
            "name": name,
            "x": number(places[i, 0]),
            "y": number(places[i, 1]),
            "keep": bool(wishes.keep[i]),
            "forbid": bool(wishes.forbid[i]),
            "cost": number(wishes.cost[i]),
            "stability": None if stable is None else number(stable.frequencies[i]),
        }
        for i, name in enumerate(design.ch_names)
    ]


def evoked_part(design: Design) -> dict[str, Any]:
    """Mean responses of both classes at every sensor."""
    means = {name: design.X[design.y == label].mean(axis=0) for label, name in enumerate(CLASSES)}
    return {
        kind: {name: numbers(row) for name, row in zip(design.ch_names, mean, strict=True)}
        for kind, mean in means.items()
    }


def number(value: float, digits: int = 4) -> float | None:
    """A number as JSON has it, to so many digits; None where it does not exist."""
    return float(f"{float(value):.{digits}g}") if np.isfinite(value) else None


def numbers(values: NDArray, digits: int = 4) -> list[float | None]:
    """Numbers as JSON has them."""
    return [number(value, digits) for value in np.asarray(values, dtype=float)]
