r"""Backward elimination of sensors, judged on training trials and on held-out trials.

On centred training trials X (n, d) with labels y the regularised least-squares classifier is

    w = P X'y/n,        P = (X'X/n + alpha v I)⁻¹,        v = the mean variance of a feature,

and leaving out the features f of one sensor gives exactly

    w' = w − P_f D w_f,     P' = P − P_f D P_f',     scores' = scores − (X_test P)_f D w_f,     D = (P_ff)⁻¹,

so that the contribution of every single sensor to the held-out scores costs one small linear system, and removing a
sensor is an update of low rank: the whole elimination takes no longer than a few inversions of P. The training error
grows by w_f' D w_f.

Sensors are removed one by one, each time the one without which the classes are best separated: by the mean over folds
of the separation d' on training and on held-out trials. The training d' ranks weak sensors where the held-out trials
are too few to do so; the held-out d' penalises what does not generalise to another session.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mixnorm.estimators.cross_validation import Fold
from mixnorm.montage.constraints import Constraints
from mixnorm.montage.separation import precision, separation
from mixnorm.montage.trials import Training

#: Regularisations of the search, in units of the mean variance of a feature, multiplied by the number of features per
#: trial (at least `_FEWEST_PER_TRIAL`): the more trials, the less regularisation is needed. Few sensors need less
#: regularisation than many, and trials of another session more than those of the same, so three are averaged.
SEARCH_ALPHAS = np.array([0.01, 0.1, 1.0]) / 0.75
_FEWEST_PER_TRIAL = 0.02
#: Share of the variance over time that the temporal components of the search explain.
_EXPLAINED = 0.98
#: Largest number of temporal components.
_MAX_COMPONENTS = 12


@dataclass(frozen=True, eq=False)
class Elimination:
    """Result of an elimination.

    Attributes
    ----------
    order : ndarray of shape (m,)
        The allowed sensors, the most important one first.
    scores : ndarray of shape (m,)
        Separation d' of the first 1 … m sensors: mean of held-out and training trials, over folds.
    """

    order: NDArray[np.intp]
    scores: NDArray[np.float64]


def order_sensors(subjects: Sequence[Training], constraints: Constraints) -> NDArray[np.intp]:
    """Order the sensors by elimination, most important first; one order for all subjects."""
    return eliminate([model for one in subjects for model in search_models(one)], constraints).order


def search_models(training: Training) -> list[HeldOut]:
    """Return the classifiers of every inner fold at every alpha, on temporal components of the trials."""
    reduced = training.X @ components(training.X)
    per_trial = max(reduced[0].size / len(training.signs), _FEWEST_PER_TRIAL)
    return [
        HeldOut.of(reduced, training.signs, fold, per_trial * alpha)
        for fold in training.folds
        for alpha in SEARCH_ALPHAS
    ]


def eliminate(models: list[HeldOut], constraints: Constraints) -> Elimination:
    """Eliminate sensors one by one, the same one from all models.

    Parameters
    ----------
    models : list of HeldOut
        One for each fold (and each subject, where several share a montage), on all sensors. They are modified.
    constraints : Constraints
        Forbidden sensors are removed first and are not in the order; sensors to keep are removed last. The
        contribution of a sensor counts relative to its cost.
    """
    left = np.arange(len(constraints.cost))
    for place in np.flatnonzero(constraints.forbid)[::-1]:
        left = _remove(models, left, place)
    weights = precision([model.signs for model in models])
    removed, scores = [], []
    while len(left):
        now = np.array([model.separation_now() for model in models])
        losses = now[:, None] - [model.separation_without_each() for model in models]
        price = _price(weights @ losses, losses, constraints.cost[left])
        scores.append(weights @ now)
        kept = constraints.keep[left]
        price[kept & ~kept.all()] = np.inf
        place = int(np.argmin(price))
        removed.append(left[place])
        left = _remove(models, left, place)
    return Elimination(np.array(removed[::-1], dtype=np.intp), np.array(scores[::-1]))


def _price(loss: NDArray, losses: NDArray, cost: NDArray) -> NDArray[np.float64]:
    """Return the price of removing each sensor, from its mean loss (sensors,) and its losses (models, sensors).

    At equal costs the price is the mean loss. Where costs differ, it is the loss beyond the smallest one, plus the
    standard error of a loss, divided by the cost of the sensor: cost decides between sensors whose losses the trials
    cannot distinguish.
    """
    error = losses.std(axis=0).mean() / np.sqrt(len(losses))
    return (loss - loss.min() + error + np.finfo(float).tiny) / cost if np.ptp(cost) > 0 else loss


def _remove(models: list[HeldOut], left: NDArray, place: int) -> NDArray[np.intp]:
    for model in models:
        model.remove(place)
    return np.delete(left, place)


def components(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Orthonormal time courses (r, k) that explain most of the variance over time of trials (n, G, r).

    The search needs no more: neighbouring samples of filtered EEG are strongly correlated.
    """
    values, vectors = np.linalg.eigh(np.einsum("ngi,ngj->ij", X, X, optimize=True))
    values, vectors = values[::-1], vectors[:, ::-1]
    count = int(np.searchsorted(np.cumsum(values), _EXPLAINED * values.sum())) + 1
    return vectors[:, : min(count, _MAX_COMPONENTS, len(values))]


class HeldOut:
    """The least-squares classifier of one fold and its scores on the held-out trials, updated as sensors are removed.

    Build it with `of`.
    """

    def __init__(self, P: NDArray, w: NDArray, Q: NDArray, signs: NDArray, size: int) -> None:
        self.P, self.w, self.Q, self.signs, self.size = P, w, Q, signs, size
        self.scores = np.zeros(len(signs))
        # Variance of the training labels, and what is left of it after the fit.
        self.variance = self.residual = 1.0

    @classmethod
    def of(cls, X: NDArray[np.float64], signs: NDArray[np.float64], fold: Fold, alpha: float) -> HeldOut:
        """Fit on the training trials among (n, G, r), alpha in units of the mean variance of a feature."""
        flat = X.reshape(len(X), -1)
        train = np.repeat(flat, fold.train, axis=0) if fold.train.max() > 1 else flat[fold.train > 0]
        labels = np.repeat(signs, fold.train)
        centre = train.mean(axis=0)
        train = train - centre
        gram = train.T @ train / len(train)
        variance = np.trace(gram) / len(gram)
        gram[np.diag_indices_from(gram)] += alpha * (variance if variance > 0 else 1.0)
        P = np.linalg.inv(gram)
        slope = train.T @ (labels - labels.mean()) / len(train)
        w = P @ slope
        test = flat[fold.test] - centre
        model = cls(P, w, test @ P, signs[fold.test], X.shape[2])
        model.scores = test @ w
        model.variance = float(np.var(labels))
        model.residual = model.variance - float(slope @ w)
        return model

    def separation_now(self) -> float:
        """Separation of the classes by the remaining sensors: mean of d' on held-out and on training trials."""
        return float(self._mean_separation(self.scores[:, None], np.array([self.residual]))[0])

    def separation_without_each(self) -> NDArray[np.float64]:
        """The same after removing each one of the sensors, (sensors,)."""
        step = self._steps()
        lost = np.sum(self.w.reshape(step.shape) * step, axis=1)
        return self._mean_separation(self.without_each(), self.residual + lost)

    def _mean_separation(self, scores: NDArray, residual: NDArray) -> NDArray[np.float64]:
        return (separation(self.signs, scores) + self.training_separation(residual)) / 2

    def training_separation(self, residual: NDArray) -> NDArray[np.float64]:
        """Return d' on training trials from the residual: d'² = R²/(1 − R²) over the product of the class shares."""
        explained = np.maximum(1 - residual / self.variance, 0.0)
        return np.sqrt(explained / np.maximum(1 - explained, 1e-12) * 4 / self.variance)

    def without_each(self) -> NDArray[np.float64]:
        """Scores of the held-out trials after removing each one of the sensors, (n_test, sensors)."""
        step = self._steps()
        return self.scores[:, None] - np.einsum("vgr,gr->vg", self.Q.reshape(len(self.Q), *step.shape), step)

    def _steps(self) -> NDArray[np.float64]:
        """D w_f of every sensor, (sensors, size)."""
        G, r = len(self.w) // self.size, self.size
        blocks = self.P.reshape(G, r, G, r)[np.arange(G), :, np.arange(G)]
        return np.linalg.solve(blocks, self.w.reshape(G, r, 1))[..., 0]

    def remove(self, place: int) -> None:
        """Remove the sensor at an index among the remaining ones."""
        own = slice(place * self.size, (place + 1) * self.size)
        rest = np.delete(np.arange(len(self.w)), own)
        step = np.linalg.solve(self.P[own, own], np.column_stack([self.P[own][:, rest], self.w[own]]))
        self.residual += float(self.w[own] @ step[:, -1])
        self.scores = self.scores - self.Q[:, own] @ step[:, -1]
        self.Q = self.Q[:, rest] - self.Q[:, own] @ step[:, :-1]
        self.w = self.w[rest] - self.P[rest, own] @ step[:, -1]
        self.P = self.P[np.ix_(rest, rest)] - self.P[rest, own] @ step[:, :-1]
