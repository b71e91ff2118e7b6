r"""Which sensor is missed least? Backward elimination judged on trials that were not learned from.

On centred training trials X (n, d) with labels y the regularised least-squares classifier is

    w = P X'y/n,        P = (X'X/n + alpha v I)⁻¹,        v = the mean variance of a feature,

and leaving out the features f of one sensor gives exactly

    w' = w − P_f D w_f,     P' = P − P_f D P_f',     scores' = scores − (X_test P)_f D w_f,     D = (P_ff)⁻¹,

so that what every single sensor is worth on held-out trials costs one small system each, and taking one out is an
update of low rank: the whole elimination takes no longer than a few inversions of P. Sensors leave one by one, each time the
one without which the classes are best told apart on the held-out trials of all folds together.
"""

from dataclasses import dataclass

import numpy as np

from ._folds import Fold

#: Share of the variance over time that the components searched in hold.
_SHARE = 0.98


@dataclass(frozen=True, eq=False)
class Elimination:
    """The order in which sensors are needed.

    Attributes
    ----------
    order : ndarray of shape (m,)
        The sensors that are allowed, the most important one first.
    scores : ndarray of shape (m,)
        Separation d' on held-out trials, mean over folds, of the first 1 … m sensors.
    """

    order: np.ndarray
    scores: np.ndarray


@dataclass(frozen=True, eq=False)
class Wishes:
    """What is known about the sensors beforehand.

    Attributes
    ----------
    keep, forbid : bool ndarrays of shape (G,)
    cost : ndarray of shape (G,)
        What each sensor costs, > 0.
    """

    keep: np.ndarray
    forbid: np.ndarray
    cost: np.ndarray

    @classmethod
    def none(cls, n_sensors: int) -> "Wishes":
        """All sensors are free to come and go, at the same cost."""
        return cls(np.zeros(n_sensors, dtype=bool), np.zeros(n_sensors, dtype=bool), np.ones(n_sensors))

    @property
    def group_weights(self) -> np.ndarray:
        """β of the mixed norm: 0 for those to keep, ∞ for the forbidden ones, else the cost over its mean."""
        free = ~(self.keep | self.forbid)
        mean = self.cost[free].mean() if free.any() else 1.0
        return np.where(self.forbid, np.inf, np.where(self.keep, 0.0, self.cost / mean))


def eliminate(models: list["HeldOut"], wishes: Wishes) -> Elimination:
    """Eliminate sensors one by one, from all models at once.

    Parameters
    ----------
    models : list of HeldOut
        One for each fold (and each subject, where several are to share a montage), on all sensors; used up.
    wishes : Wishes
        Sensors to keep go last, forbidden ones first and unnamed. What a sensor brings counts relative to its cost.
    """
    left = np.arange(len(wishes.cost))
    for place in np.flatnonzero(wishes.forbid)[::-1]:
        left = _leave_out(models, left, place)
    out, scores = [], []
    while len(left):
        scores.append(np.mean([separation(m.signs, m.scores[:, None])[0] for m in models]))
        without = np.mean([separation(m.signs, m.without_each()) for m in models], axis=0)
        loss = scores[-1] - without
        price = np.where(loss > 0, loss / wishes.cost[left], loss * wishes.cost[left])
        kept = wishes.keep[left]
        price[kept & ~kept.all()] = np.inf
        place = int(np.argmin(price))
        out.append(left[place])
        left = _leave_out(models, left, place)
    return Elimination(np.array(out[::-1]), np.array(scores[::-1]))


def _leave_out(models: list["HeldOut"], left: np.ndarray, place: int) -> np.ndarray:
    for model in models:
        model.remove(place)
    return np.delete(left, place)


def separation(signs: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """D' of every column of scores (n, A): distance of the class means over their root mean variance."""
    there, rest = scores[signs > 0], scores[signs < 0]
    spread = np.sqrt((there.var(axis=0) + rest.var(axis=0)) / 2)
    return (there.mean(axis=0) - rest.mean(axis=0)) / np.maximum(spread, np.finfo(float).tiny)


def components(X: np.ndarray) -> np.ndarray:
    """Orthonormal time courses, (r, k), that hold nearly all of the variance over time of trials (n, G, r).

    The search needs no more: neighbouring samples of filtered EEG say much the same.
    """
    values, vectors = np.linalg.eigh(np.einsum("ngi,ngj->ij", X, X, optimize=True))
    values, vectors = values[::-1], vectors[:, ::-1]
    count = int(np.searchsorted(np.cumsum(values), _SHARE * values.sum())) + 1
    return vectors[:, : min(count, len(values))]


class HeldOut:
    """The classifier of one fold, and its scores on the held-out trials, as sensors are taken out.

    Build it with `of`.
    """

    def __init__(self, P: np.ndarray, w: np.ndarray, Q: np.ndarray, signs: np.ndarray, size: int):
        self.P, self.w, self.Q, self.signs, self.size = P, w, Q, signs, size
        self.scores = np.zeros(len(signs))

    @classmethod
    def of(cls, X: np.ndarray, signs: np.ndarray, fold: Fold, alpha: float) -> "HeldOut":
        """Learn from the training trials among (n, G, r), alpha in units of the mean variance of a feature."""
        flat = X.reshape(len(X), -1)
        train = np.repeat(flat, fold.train, axis=0) if fold.train.max() > 1 else flat[fold.train > 0]
        labels = np.repeat(signs, fold.train)
        centre = train.mean(axis=0)
        train = train - centre
        gram = train.T @ train / len(train)
        variance = np.trace(gram) / len(gram)
        gram[np.diag_indices_from(gram)] += alpha * (variance if variance > 0 else 1.0)
        P = np.linalg.inv(gram)
        w = P @ (train.T @ (labels - labels.mean()) / len(train))
        test = flat[fold.test] - centre
        model = cls(P, w, test @ P, signs[fold.test], X.shape[2])
        model.scores = test @ w
        return model

    def without_each(self) -> np.ndarray:
        """Scores of the held-out trials after leaving out each one of the sensors, (n_test, sensors)."""
        step = self._steps()
        return self.scores[:, None] - np.einsum("vgr,gr->vg", self.Q.reshape(len(self.Q), -1, self.size), step)

    def _steps(self) -> np.ndarray:
        """D w_f of every sensor, (sensors, size)."""
        G, r = len(self.w) // self.size, self.size
        blocks = self.P.reshape(G, r, G, r)[np.arange(G), :, np.arange(G)]
        return np.linalg.solve(blocks, self.w.reshape(G, r, 1))[..., 0]

    def remove(self, place: int) -> None:
        """Take out the sensor at a place."""
        own = slice(place * self.size, (place + 1) * self.size)
        rest = np.delete(np.arange(len(self.w)), own)
        step = np.linalg.solve(self.P[own, own], np.column_stack([self.P[own][:, rest], self.w[own]]))
        self.scores = self.scores - self.Q[:, own] @ step[:, -1]
        self.Q = self.Q[:, rest] - self.Q[:, own] @ step[:, :-1]
        self.w = self.w[rest] - self.P[rest, own] @ step[:, -1]
        self.P = self.P[np.ix_(rest, rest)] - self.P[rest, own] @ step[:, :-1]
