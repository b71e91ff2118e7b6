r"""The decoders of nested montages: ℓ2 SVMs with the noise of their own sensors.

The decoder of a montage is that of ``mixnorm train`` on its electrodes, with alpha · ½ w'N w as the penalty. N is the
noise of its K sensors (``noise="evoked"``), estimated from the training trials, and alpha is chosen on inner folds,
each with its own N. The decoder depends on the set of the sensors and on the trials alone, not on the order in which
the sensors were found, so that two ways to the same montage have the same score.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.decoder import default_classifier
from mixnorm.estimators.settings import SETTINGS
from mixnorm.estimators.svc import GroupSVC
from mixnorm.estimators.svc_cv import GroupSVCCV
from mixnorm.montage.trials import Training


@dataclass(frozen=True, eq=False)
class Ranking:
    """Sensors in order of importance, and the numbers of sensors to fit.

    Attributes
    ----------
    order : ndarray of shape (m,)
        Sensors, the most important one first; montage K is the first K of them.
    sizes : ndarray of shape (S,)
        Numbers of sensors, ascending.
    """

    order: NDArray[np.integer]
    sizes: NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class Models:
    """Nested montages fitted on one set of trials, and a classifier for each.

    Attributes
    ----------
    order : ndarray of shape (m,)
        Sensors, the most important one first; montage K is the first K of them.
    sizes : ndarray of shape (S,)
        Numbers of sensors, ascending.
    alphas : ndarray of shape (S,)
    coefs : ndarray of shape (S, G, r)
        Zero outside the montage.
    intercepts : ndarray of shape (S,)
    """

    order: NDArray[np.integer]
    sizes: NDArray[np.integer]
    alphas: NDArray[np.float64]
    coefs: NDArray[np.float64]
    intercepts: NDArray[np.float64]

    def scores(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores of trials (n, G, r) by every montage, (n, S)."""
        return X.reshape(len(X), -1) @ self.coefs.reshape(len(self.sizes), -1).T + self.intercepts


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """Held-out trials of one fold and subject: their signs (n,), and their scores by every montage (n, S)."""

    signs: NDArray[np.float64]
    scores: NDArray[np.float64]


def refit(training: Training, ranking: Ranking) -> Models:
    """Fit the decoder on the first K sensors of the ranking for every K of its sizes.

    Alpha is chosen by the inner folds at the sizes of `sizes_up_to`, and interpolated between them.
    """
    sizes = ranking.sizes
    chosen = np.isin(sizes, sizes_up_to(len(ranking.order))) | (sizes == sizes[0])
    fitted: dict[int, GroupSVC | GroupSVCCV] = {}
    for size in sizes[chosen].tolist():
        fitted[size] = _with_alpha_by_folds(training, ranking.order[:size])
    known = np.array(sorted(fitted))
    alphas = np.exp(np.interp(np.log(sizes), np.log(known), np.log([fitted[size].alpha_ for size in known.tolist()])))
    for size, alpha in zip(sizes.tolist(), alphas.tolist(), strict=True):
        if size not in fitted:
            sensors = np.sort(ranking.order[:size])
            fitted[size] = montage_classifier(alpha).fit(training.X[:, sensors], training.signs)
    coefs = np.zeros((len(sizes), *training.X.shape[1:]))
    for own, size in zip(coefs, sizes.tolist(), strict=True):
        own[np.sort(ranking.order[:size])] = fitted[size].coef_.reshape(size, -1)
    return Models(
        ranking.order, sizes, alphas, coefs, np.array([fitted[size].intercept_[0] for size in sizes.tolist()])
    )


def _with_alpha_by_folds(training: Training, sensors: NDArray[np.integer]) -> GroupSVCCV:
    """The decoder of some sensors, alpha by the AUC on the inner folds."""
    splits = [(np.flatnonzero(fold.train), np.flatnonzero(fold.test)) for fold in training.folds]
    return default_classifier(cv=splits).fit(training.X[:, np.sort(sensors)], training.signs)


def montage_classifier(alpha: float) -> GroupSVC:
    """The decoder of a montage at a given alpha."""
    return GroupSVC(alpha, **SETTINGS["svm-noise"])


def sizes_up_to(most: int) -> NDArray[np.int64]:
    """Numbers of sensors at which curves are compared: 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, … and all."""
    grid = np.unique(np.concatenate([2 ** np.arange(11), 3 * 2 ** np.arange(10)]))
    return np.append(grid[grid < most], most)
