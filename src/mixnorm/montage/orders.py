"""How sensors are chosen elsewhere: orders to compare with, each found on training trials alone.

An order is a function from (X, signs, folds), the scaled training trials (n, channels, times) with their inner folds,
to the channels, the most important one first; `finder` makes of it what ``score_montages`` takes as ``find``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.positions import standard_name
from mixnorm.eeg.readers.guard import require
from mixnorm.estimators.folds import Fold
from mixnorm.montage.elimination import HeldOut, components, separation
from mixnorm.montage.scoring import order_by_weights

STANDARD_CAP = ("Fz", "Cz", "Pz", "Oz", "P3", "P4", "PO7", "PO8")
"""The eight electrodes that most P300 spellers are sold with."""

Training = tuple[NDArray[np.float64], NDArray[np.float64], list[Fold]]


def by_snr(X: NDArray[np.float64], signs: NDArray[np.float64], folds: list[Fold]) -> NDArray[np.int64]:
    """Channels by signal to noise: power of the difference of the class means over the variance within classes."""
    there, rest = X[signs > 0], X[signs < 0]
    signal = np.sum((there.mean(axis=0) - rest.mean(axis=0)) ** 2, axis=1)
    noise = np.sum((there.var(axis=0) + rest.var(axis=0)) / 2, axis=1)
    return np.argsort(-signal / np.where(noise > 0, noise, np.inf), kind="stable")


def by_backward_elimination(
    X: NDArray[np.float64], signs: NDArray[np.float64], folds: list[Fold]
) -> NDArray[np.int64]:
    """Backward elimination by the weights of an ℓ2 SVM: the channel of the smallest ‖w_g‖ leaves, then a refit.

    Its alpha is chosen by the inner folds on all channels.
    """
    return order_by_weights(X, signs, folds)


def by_least_squares_elimination(
    X: NDArray[np.float64], signs: NDArray[np.float64], folds: list[Fold]
) -> NDArray[np.int64]:
    """The same by the weights of regularised least squares on the components over time."""
    X = X @ components(X)
    alpha = max(10.0 ** np.arange(-2, 1.5, 0.5), key=lambda a: _separation(X, signs, folds, a))
    everything = Fold(np.ones(len(signs), dtype=int), np.zeros(len(signs), dtype=bool))
    model = HeldOut.of(X, signs, everything, alpha)
    left, out = np.arange(X.shape[1]), []
    while len(left):
        place = int(np.argmin(np.linalg.norm(model.w.reshape(len(left), -1), axis=1)))
        out.append(left[place])
        model.remove(place)
        left = np.delete(left, place)
    return np.array(out[::-1])


def by_riemannian_distance(X: NDArray[np.float64], signs: NDArray[np.float64], folds: list[Fold]) -> NDArray[np.int64]:
    """PyRiemann's ``ElectrodeSelection``: backward elimination by the distance of the classes' mean covariances.

    Shrunk covariances of the trials, log-Euclidean means; within each step of sizes (64, 48, 32, … 1) the order is
    that of the channels.
    """
    estimation = require("pyriemann.estimation", "moabb")
    selection = require("pyriemann.channelselection", "moabb")
    covariances = estimation.Covariances("oas").transform(X)
    # a trial that was clipped flat has no covariance, and one such trial would stop everything
    covariances += 1e-6 * np.mean(np.trace(covariances, axis1=1, axis2=2)) / X.shape[1] * np.eye(X.shape[1])
    metric = {"mean": "logeuclid", "distance": "riemann"}
    means = selection.ElectrodeSelection(X.shape[1], metric).fit(covariances, signs).covmeans_
    left, out = np.arange(X.shape[1]), []
    for size in sizes_up_to(X.shape[1])[-2::-1]:
        found = selection.ElectrodeSelection(int(size), metric).fit(means[:, left][:, :, left], np.arange(len(means)))
        stays = np.array(found.subelec_)
        out.extend(np.delete(left, stays)[::-1])
        left = left[stays]
    return np.array([*left, *out[::-1]])


def standard_cap(ch_names: Sequence[str]) -> NDArray[np.int64]:
    """Channels of the standard cap that there are."""
    usual = [standard_name(name) for name in ch_names]
    return np.array([usual.index(name) for name in STANDARD_CAP if name in usual], dtype=np.int64)


def sizes_up_to(most: int) -> NDArray[np.int64]:
    """Numbers of sensors at which compared orders are scored: 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, … and all."""
    grid = np.unique(np.concatenate([2 ** np.arange(11), 3 * 2 ** np.arange(10)]))
    return np.append(grid[grid < most], most)


def finder(order: Callable[..., NDArray[np.int64]], allowed: NDArray[np.int64]) -> Callable[[list[Training]], tuple]:
    """Turn an order into what ``score_montages`` takes, among the allowed channels, for one subject."""

    def find(training: list[Training]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        X, signs, folds = training[0]
        return allowed[order(X[:, allowed], signs, folds)], sizes_up_to(len(allowed))

    return find


def _separation(X: NDArray[np.float64], signs: NDArray[np.float64], folds: list[Fold], alpha: float) -> float:
    models = [HeldOut.of(X, signs, fold, alpha) for fold in folds]
    return float(np.mean([separation(model.signs, model.scores[:, None])[0] for model in models]))
