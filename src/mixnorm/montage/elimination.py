r"""Which sensor is missed least? Backward elimination judged on trials that were not learned from.

On centred training trials X (n, d) with labels y the regularised least-squares classifier is

    w = P X'y/n,        P = (X'X/n + alpha v I)⁻¹,        v = the mean variance of a feature,

and leaving out the features f of one sensor gives exactly

    w' = w − P_f D w_f,     P' = P − P_f D P_f',     scores' = scores − (X_test P)_f D w_f,     D = (P_ff)⁻¹,

so that what every single sensor is worth on held-out trials costs one small system each, and taking one out is an
update of low rank: the whole elimination takes no longer than a few inversions of P. The training error grows by
w_f' D w_f.

Sensors leave one by one, each time the one without which the classes are best told apart: by the mean over folds of
the separation d' on training and on held-out trials. The first knows a weak sensor from none where all trials are
alike; the second knows what does not carry over to another session.
"""

from dataclasses import dataclass

import numpy as np

from mixnorm.estimators.folds import Fold

#: Regularisations of the search, in units of the mean variance of a feature, times the features per trial, if not too
#: few: the more trials, the less is needed.
SEARCH_ALPHAS = np.array([0.01, 0.1, 1.0]) / 0.75
_FEWEST = 0.02
#: What the trials that others lend count in an order; the own ones count the rest.
LENT = 0.5
#: Trials that the variance of a class borrows from that within both classes.
_BORROWED = 20
#: Share of the variance over time that the components searched in hold.
_SHARE = 0.98
#: And how many they are at most.
_MOST = 12


@dataclass(frozen=True, eq=False)
class Elimination:
    """The order in which sensors are needed.

    Attributes
    ----------
    order : ndarray of shape (m,)
        The sensors that are allowed, the most important one first.
    scores : ndarray of shape (m,)
        Separation d' of the first 1 … m sensors: mean of held-out and training trials, over folds.
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


def order_sensors(subjects: list[tuple[np.ndarray, np.ndarray, list[Fold]]], wishes: Wishes) -> np.ndarray:
    """Order the sensors by elimination, common to all subjects: (X, signs, folds) of each.

    The classifiers of several regularisations are asked together: few sensors need less of it than many, and trials of
    another session more than those of the same.

    Subjects without folds lend their trials: one classifier of all of them speaks for each, and together they count
    ``LENT``. Where a subject's own trials cannot tell two sensors apart, those of others often can.
    """
    own = [model for one in subjects for model in _searched(*one)]
    weights = precision([model.signs for model in own])
    lent = [(X, signs) for X, signs, folds in subjects if not folds]
    if lent:
        own += [model for X, signs in lent for model in _searched(X, signs, [_everything(signs)], SEARCH_ALPHAS[1:2])]
        weights = np.concatenate([(1 - LENT) * weights, LENT * precision([signs for _, signs in lent])])
    return eliminate(own, wishes, weights).order


def _searched(X: np.ndarray, signs: np.ndarray, folds: list[Fold], alphas=SEARCH_ALPHAS) -> list["HeldOut"]:
    """Return the classifiers of every fold at every alpha, on components over time."""
    reduced = X @ components(X)
    per_trial = max(reduced[0].size / len(signs), _FEWEST)
    return [HeldOut.of(reduced, signs, fold, per_trial * alpha) for fold in folds for alpha in alphas]


def _everything(signs: np.ndarray) -> Fold:
    """All trials to learn from, none held out."""
    return Fold(np.ones(len(signs), dtype=np.int64), np.zeros(len(signs), dtype=bool))


def eliminate(models: list["HeldOut"], wishes: Wishes, weights: np.ndarray | None = None) -> Elimination:
    """Eliminate sensors one by one, from all models at once.

    Parameters
    ----------
    models : list of HeldOut
        One for each fold (and each subject, where several are to share a montage), on all sensors; used up.
    wishes : Wishes
        Sensors to keep go last, forbidden ones first and unnamed. What a sensor brings counts relative to its cost.
    weights : ndarray of shape (models,), optional
        What the word of each model counts, adding up to 1; by default as `precision` says.
    """
    left = np.arange(len(wishes.cost))
    for place in np.flatnonzero(wishes.forbid)[::-1]:
        left = _leave_out(models, left, place)
    weights = precision([model.signs for model in models]) if weights is None else weights
    out, scores = [], []
    while len(left):
        now = np.array([model.worth() for model in models])
        losses = now[:, None] - [model.worth_without_each() for model in models]
        price = _price(weights @ losses, losses, wishes.cost[left])
        scores.append(weights @ now)
        kept = wishes.keep[left]
        price[kept & ~kept.all()] = np.inf
        place = int(np.argmin(price))
        out.append(left[place])
        left = _leave_out(models, left, place)
    return Elimination(np.array(out[::-1], dtype=np.intp), np.array(scores[::-1]))


def _price(loss: np.ndarray, losses: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """What leaving out each sensor costs, from its mean loss (sensors,) and that of every model (models, sensors).

    At equal costs that is the mean loss.

    Where costs differ, the loss beyond the smallest one, raised by the standard error of a loss, is divided by what
    the sensor costs: sensors that the trials cannot tell apart are told apart by their cost.
    """
    error = losses.std(axis=0).mean() / np.sqrt(len(losses))
    return (loss - loss.min() + error + np.finfo(float).tiny) / cost if np.ptp(cost) > 0 else loss


def _leave_out(models: list["HeldOut"], left: np.ndarray, place: int) -> np.ndarray:
    for model in models:
        model.remove(place)
    return np.delete(left, place)


def separation(signs: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The d' of every column of scores (n, A): distance of the class means over the deviation within classes.

    The variance is the mean of those of the two classes, each first drawn to that of all trials about the mean of
    their class, as if so many more had it: of a few trials no variance can be told.
    """
    parts = [scores[signs > 0], scores[signs < 0]]
    variances = [part.var(axis=0) for part in parts]
    pooled = sum(len(part) * own for part, own in zip(parts, variances)) / len(scores)
    drawn = [(len(part) * own + _BORROWED * pooled) / (len(part) + _BORROWED) for part, own in zip(parts, variances)]
    distance = parts[0].mean(axis=0) - parts[1].mean(axis=0)
    return distance / np.maximum(np.sqrt(sum(drawn) / 2), np.finfo(float).tiny)


def precision(tested: list[np.ndarray]) -> np.ndarray:
    """Weights of folds, adding up to 1, for the mean of their d': each over its variance, 1/n₊ + 1/n₋."""
    counts = [((signs > 0).sum(), (signs < 0).sum()) for signs in tested]
    weights = np.array([there * rest / (there + rest) for there, rest in counts])
    return weights / weights.sum()


def components(X: np.ndarray) -> np.ndarray:
    """Orthonormal time courses, (r, k), that hold most of the variance over time of trials (n, G, r).

    The search needs no more: neighbouring samples of filtered EEG say much the same.
    """
    values, vectors = np.linalg.eigh(np.einsum("ngi,ngj->ij", X, X, optimize=True))
    values, vectors = values[::-1], vectors[:, ::-1]
    count = int(np.searchsorted(np.cumsum(values), _SHARE * values.sum())) + 1
    return vectors[:, : min(count, _MOST, len(values))]


class HeldOut:
    """The classifier of one fold, and its scores on the held-out trials, as sensors are taken out.

    Build it with `of`.
    """

    def __init__(self, P: np.ndarray, w: np.ndarray, Q: np.ndarray, signs: np.ndarray, size: int):
        self.P, self.w, self.Q, self.signs, self.size = P, w, Q, signs, size
        self.scores = np.zeros(len(signs))
        self.variance = self.residual = 1.0  # of the training labels, before and after the fit

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
        slope = train.T @ (labels - labels.mean()) / len(train)
        w = P @ slope
        test = flat[fold.test] - centre
        model = cls(P, w, test @ P, signs[fold.test], X.shape[2])
        model.scores = test @ w
        model.variance = float(np.var(labels))
        model.residual = model.variance - float(slope @ w)
        return model

    def worth(self) -> float:
        """How well the sensors that are left tell the classes apart: mean of d' on held-out and on training trials.

        Where no trial was held out, on training trials alone.
        """
        return float(self._judged(self.scores[:, None], np.array([self.residual]))[0])

    def worth_without_each(self) -> np.ndarray:
        """The same without each one of the sensors, (sensors,)."""
        step = self._steps()
        lost = np.sum(self.w.reshape(step.shape) * step, axis=1)
        return self._judged(self.without_each(), self.residual + lost)

    def _judged(self, scores: np.ndarray, residual: np.ndarray) -> np.ndarray:
        fitted = self._fitted(residual)
        return (separation(self.signs, scores) + fitted) / 2 if len(self.signs) else fitted

    def _fitted(self, residual):
        """The d' on training trials that goes with a residual: d'² = R²/(1 − R²) over the product of class shares."""
        explained = np.maximum(1 - residual / self.variance, 0.0)
        return np.sqrt(explained / np.maximum(1 - explained, 1e-12) * 4 / self.variance)

    def without_each(self) -> np.ndarray:
        """Scores of the held-out trials after leaving out each one of the sensors, (n_test, sensors)."""
        step = self._steps()
        return self.scores[:, None] - np.einsum("vgr,gr->vg", self.Q.reshape(len(self.Q), *step.shape), step)

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
        self.residual += float(self.w[own] @ step[:, -1])
        self.scores = self.scores - self.Q[:, own] @ step[:, -1]
        self.Q = self.Q[:, rest] - self.Q[:, own] @ step[:, :-1]
        self.w = self.w[rest] - self.P[rest, own] @ step[:, -1]
        self.P = self.P[np.ix_(rest, rest)] - self.P[rest, own] @ step[:, :-1]
