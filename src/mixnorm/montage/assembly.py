"""From scored montages and trials to the typed records of the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.design import Design
from mixnorm.eeg.positions import on_page
from mixnorm.eeg.preparation import Preparation
from mixnorm.eeg.readers.labels import unnamed_recordings
from mixnorm.eeg.splitting import Folds
from mixnorm.estimators.stability import StabilitySelection
from mixnorm.estimators.windows import equal_windows
from mixnorm.montage.constraints import Constraints
from mixnorm.montage.intervals import corrected_error, corrected_interval, mean_known
from mixnorm.montage.plain import number, numbers
from mixnorm.montage.result import CLASSES, Curve, Drop, Evoked, FoldsUsed, Montage, SensorInfo, Source, Stability
from mixnorm.montage.scored_windows import ScoredWindows
from mixnorm.montage.scoring import ScoredMontages
from mixnorm.montage.trials import SubjectTrials
from mixnorm.montage.window_records import Window, WindowScores


def curve_of(method: str, sizes: NDArray, by_fold: NDArray[np.float64], ratio: float) -> Curve:
    """AUC (sizes, folds) against the number of sensors."""
    low, high = corrected_interval(by_fold, ratio)
    return Curve(
        method=method,
        n_sensors=tuple(int(size) for size in sizes),
        auc=numbers(mean_known(by_fold, axis=1), 6),
        low=numbers(low, 6),
        high=numbers(high, 6),
    )


def stability_of(found: StabilitySelection | None, ch_names: Sequence[str]) -> Stability | None:
    """The result of stability selection by channel names; None where there was none."""
    if found is None:
        return None
    return Stability(
        n_resamplings=int(found.n_resamplings),
        n_first=int(found.n_sensors),
        threshold=number(found.threshold),
        error_bound=number(found.error_bound),
        selected=tuple(ch_names[int(i)] for i in found.selected),
        by="elimination",
    )


def montages_of(
    design: Design, constraints: Constraints, subjects: Sequence[SubjectTrials], found: ScoredMontages
) -> tuple[Montage, ...]:
    """One montage for each number of sensors."""
    names, mean, (low, high) = design.ch_names, found.mean, found.interval()
    # Errors of differences within folds, not differences of errors: what makes a fold difficult is common to both
    # montages.
    gain_error = corrected_error(np.diff(found.by_fold, axis=0), found.ratio)
    below_error = corrected_error(found.by_fold[-1] - found.by_fold, found.ratio)
    weights, patterns = weights_and_patterns(design.preparation, subjects, found)
    montages = []
    for place, size in enumerate(found.sizes):
        chosen = found.order[:size]
        drop = None
        if place:
            # the montages are nested: without its last electrode this one is the one before
            change = number(mean[place - 1] - mean[place], 6)
            drop = Drop(names[chosen[-1]], change, number(gain_error[place - 1], 6))
        montages.append(
            Montage(
                n_sensors=int(size),
                sensors=tuple(names[i] for i in chosen),
                auc=number(mean[place], 6),
                low=number(low[place], 6),
                high=number(high[place], 6),
                cost=number(constraints.cost[chosen].sum()),
                drop=drop,
                weights={names[i]: numbers(weights[place, i]) for i in chosen},
                patterns={names[i]: numbers(patterns[place, i]) for i in chosen},
                below_all=number(mean[-1] - mean[place], 6),
                below_all_error=number(below_error[place], 6),
            )
        )
    return tuple(montages)


def weights_and_patterns(
    preparation: Preparation, subjects: Sequence[SubjectTrials], found: ScoredMontages
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Weights on the scaled signals, and activation patterns in the recording's unit, (S, G, r): means over subjects.

    A = Cov(X) w / Var(X w) on the features of the montage (Haufe et al. 2014).
    """
    weights, patterns = [], []
    for one, models in zip(subjects, found.models, strict=True):
        scaler = preparation.scaler().fit(one.X)
        flat = scaler.transform(one.X).reshape(len(one.X), -1)
        # a pattern is a covariance, and one product with the centred trials gives it for all montages
        flat = flat - flat.mean(axis=0)
        w = models.coefs.reshape(len(models.sizes), -1)
        scores = flat @ w.T
        # a decoder whose electrodes are all constant has weights of zero, and then patterns of zero
        variance = np.maximum(scores.var(axis=0), np.finfo(float).tiny)
        pattern = np.where(w != 0, (flat.T @ scores / len(flat) / variance).T, 0.0).reshape(models.coefs.shape)
        weights.append(models.coefs)
        # back from scaled signals: a pattern is compared with evoked responses, which are in µV
        patterns.append(pattern * scaler.scale_[:, None])
    return np.mean(weights, axis=0), np.mean(patterns, axis=0)


def source_of(design: Design, recordings: Sequence[Any], folds: Mapping[str, Folds], n_scored: int) -> Source:
    """Where the trials come from; ``folds`` of every subject, ``n_scored`` of which were scored."""
    return Source(
        # without folders: the page may be passed on, and folders can name people
        recordings=tuple(FilePath(str(recording.source)).name for recording in recordings),
        subjects=tuple(dict.fromkeys(design.subject.tolist())),
        n_trials=len(design),
        n_targets=int(design.y.sum()),
        classes=CLASSES,
        preparation=design.preparation.describe(),
        unit="µV",
        folds=FoldsUsed(n_scored, {name: one.by for name, one in folds.items()}),
        unnamed=unnamed_recordings(recordings),
    )


def sensors_of(design: Design, constraints: Constraints, stable: StabilitySelection | None) -> tuple[SensorInfo, ...]:
    """All sensors, in recording order."""
    places = on_page(design.positions)
    return tuple(
        SensorInfo(
            name=name,
            x=number(places[i, 0]),
            y=number(places[i, 1]),
            keep=bool(constraints.keep[i]),
            forbid=bool(constraints.forbid[i]),
            cost=number(constraints.cost[i]),
            stability=None if stable is None else number(stable.frequencies[i]),
        )
        for i, name in enumerate(design.ch_names)
    )


def windows_of(design: Design, found: ScoredWindows) -> tuple[Window, ...]:
    """The windows of time in order; they meet half-way between two samples."""
    V = found.norms.shape[1]
    ends = window_ends(design.times, equal_windows(V, len(design.times)))
    norms = np.linalg.norm(found.norms, axis=0)
    windows = []
    for k, own in enumerate(found.norms.T):
        windows.append(
            Window(
                start=number(ends[k][0], 6),
                stop=number(ends[k][1], 6),
                norm=number(norms[k]),
                frequency=number(found.chosen[:, k].mean()),
                selected=bool(norms[k] > 0),
                norms=dict(zip(design.ch_names, numbers(own), strict=True)),
            )
        )
    return tuple(windows)


def window_ends(times: NDArray[np.float64], window: NDArray[np.integer]) -> list[tuple[float, float]]:
    """Return where windows begin and end, from the times of the samples and the window of each, numbered from 0.

    A sample reaches half-way to its neighbours; the first and the last one reach as far to the other side.

    Examples
    --------
    >>> window_ends(np.array([0.125, 0.25, 0.375]), np.array([0, 0, 1]))
    [(0.0625, 0.3125), (0.3125, 0.4375)]
    """
    edges = np.repeat(times, 2)  # of a single sample, whose length is not known
    if len(times) > 1:
        between = (times[:-1] + times[1:]) / 2
        edges = np.concatenate([[2 * times[0] - between[0]], between, [2 * times[-1] - between[-1]]])
    places = [np.flatnonzero(window == k) for k in range(int(window.max()) + 1)]
    return [(float(edges[own[0]]), float(edges[own[-1] + 1])) for own in places]


def window_scores_of(found: ScoredWindows, ratio: float) -> WindowScores:
    """AUC with windows chosen and with all of them; ``ratio``: held-out trials per training trial."""
    by_fold = found.by_fold
    auc, all_windows = mean_known(by_fold, axis=1)
    low, high = corrected_interval(by_fold[:1], ratio)
    gain = by_fold[:1] - by_fold[1:]
    return WindowScores(
        auc=number(auc, 6),
        low=number(low[0], 6),
        high=number(high[0], 6),
        all_windows_auc=number(all_windows, 6),
        gain=number(auc - all_windows, 6),
        gain_error=number(corrected_error(gain, ratio)[0], 6),
        n_folds=by_fold.shape[1],
    )


def evoked_of(design: Design) -> Evoked:
    """Mean responses of both classes at every sensor."""
    means = {name: design.X[design.y == label].mean(axis=0) for label, name in enumerate(CLASSES)}
    return Evoked(
        **{
            kind: {name: numbers(row) for name, row in zip(design.ch_names, mean, strict=True)}
            for kind, mean in means.items()
        }
    )
