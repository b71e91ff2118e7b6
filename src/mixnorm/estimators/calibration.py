r"""Probabilities from scores: a sigmoid fitted to the scores of held-out trials.

    P(classes_[1] | score) = 1 / (1 + exp(−(slope · score + intercept)))

The scores are those of the cross-validation at the chosen parameters. Each trial is scored by a model that was not
trained on it, and whose noise was not estimated from it; nothing is fitted again.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mixnorm.core.arrays import Array, namespace
from mixnorm.estimators.cross_validation import Fold

#: Newton steps of the sigmoid. Platt's targets keep the optimum finite, where a few steps are enough.
_MOST_STEPS = 100


@dataclass(frozen=True)
class Calibration:
    """A fitted sigmoid.

    Attributes
    ----------
    slope, intercept : float
        Maximum likelihood with Platt's targets.
    slope_error : float
        Standard error of the slope, from the curvature of the likelihood; infinite if all scores are equal.
    log_odds : float
        Log of the ratio of the weights of both classes among the calibrating trials: what the intercept owes to the
        proportion of the classes, and not to the score.
    """

    slope: float
    intercept: float
    slope_error: float
    log_odds: float

    def probability(self, scores: Array) -> Array:
        """Return P(classes_[1]) of scores (n,)."""
        return sigmoid(self.slope * scores + self.intercept)


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Scores of held-out trials: the index of the trial (m,) and its score (m,). A trial of several folds repeats."""

    trial: np.ndarray
    score: np.ndarray

    def mean(self, n_trials: int) -> np.ndarray:
        """Return the mean score of every trial, (n,); NaN for a trial that no fold held out."""
        counts = np.bincount(self.trial, minlength=n_trials)
        sums = np.bincount(self.trial, weights=self.score, minlength=n_trials)
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)

    def of_trials(self, rows: np.ndarray) -> "HeldOut":
        """Return the same scores, where trial i is trial ``rows[i]`` of a larger set."""
        return HeldOut(rows[self.trial], self.score)

    def calibration(self, signs: np.ndarray, weights: np.ndarray) -> Calibration | None:
        """Fit the sigmoid for signs (n,) and sample weights (n,); None if no trial was held out.

        Trials that are held out several times count once in all.
        """
        # a splitter may hold out only trials of weight 0, or none
        if not weights[self.trial].any():
            return None
        counts = np.bincount(self.trial, minlength=len(signs))
        return fit_sigmoid(self.score, signs[self.trial], (weights / np.maximum(counts, 1))[self.trial])


def held_out_scores(matrix: np.ndarray, folds: Sequence[Fold], models: tuple[np.ndarray, np.ndarray]) -> HeldOut:
    """Score the test trials of every fold by its own model, W (d, folds) and b (folds,).

    A trial that a splitter puts into both parts of a fold is left out there: its score saw its label.
    """
    trials, scores = [], []
    for fold, w, b in zip(folds, models[0].T, models[1], strict=True):
        rows = np.flatnonzero(fold.test & (fold.train == 0))
        trials.append(rows)
        scores.append(matrix[rows] @ w + b)
    return HeldOut(np.concatenate(trials), np.concatenate(scores))


def join_held_out(parts: Sequence[HeldOut]) -> HeldOut:
    """Return the scores of several parts together."""
    return HeldOut(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("trial", "score")))


def fit_sigmoid(scores: np.ndarray, signs: np.ndarray, weights: np.ndarray) -> Calibration:
    r"""Fit slope a and intercept c by maximum likelihood with Platt's targets.

    Minimises L(a, c) = Σ_i s_i (log(1 + exp(v_i)) − t_i v_i) with v_i = a·score_i + c and, n₊ and n₋ being the weights
    of the two classes, t_i = (n₊ + 1)/(n₊ + 2) for positive and 1/(n₋ + 2) for negative trials. The targets stand for
    one more trial of each class, so that a is finite where the scores separate the classes.

    If the classes are of equal size, up to √n trials, and c is within one standard error of 0, that is if
    2 (min_a L(a, 0) − min L) ≤ 1, it is left out: then the class of the larger probability is the one that `predict`
    returns, as scikit-learn expects.
    """
    used = weights > 0
    scores, positive, weights = scores[used], signs[used] > 0, weights[used]
    n_pos, n_neg = float(weights[positive].sum()), float(weights[~positive].sum())
    targets = np.where(positive, (n_pos + 1) / (n_pos + 2), 1 / (n_neg + 2))
    log_odds = float(np.log((n_pos + 1) / (n_neg + 1)))  # finite also where one class was never held out
    # All scores equal (a zero model): the slope is not identified, and the probability is the share of the class.
    centre = float(np.average(scores, weights=weights))
    spread = float(np.sqrt(np.average((scores - centre) ** 2, weights=weights)))
    if not spread > np.finfo(float).eps * abs(centre):
        share = float(np.average(targets, weights=weights))
        return Calibration(0.0, float(np.log(share / (1 - share))), np.inf, log_odds)
    # In units of their spread, both parameters are of order 1, whatever the scale of the scores.
    both = _newton(np.column_stack([(scores - centre) / spread, np.ones_like(scores)]), targets, weights)
    a, c = float(both.point[0]), float(both.point[1] - both.point[0] * centre / spread)
    if abs(n_pos - n_neg) <= np.sqrt(n_pos + n_neg):
        alone = _newton(scores[:, None] / spread, targets, weights)
        if 2 * (alone.loss - both.loss) <= 1:
            both, a, c = alone, float(alone.point[0]), 0.0
    error = float(np.sqrt(np.linalg.inv(both.hessian)[0, 0]))
    return Calibration(a / spread, c, error / spread, log_odds)


@dataclass(frozen=True, eq=False)
class _Optimum:
    """The optimum of the loss of `fit_sigmoid`, its value there and its Hessian."""

    point: np.ndarray
    loss: float
    hessian: np.ndarray


def _newton(Z: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> _Optimum:
    """Minimise the convex loss of `fit_sigmoid` over v = Z·point, by Newton's method with step halving."""

    def loss(point: np.ndarray) -> float:
        values = Z @ point
        return float(weights @ (np.logaddexp(0, values) - targets * values))

    point = np.zeros(Z.shape[1])
    value = loss(point)
    for _ in range(_MOST_STEPS):
        share = sigmoid(Z @ point)
        gradient = Z.T @ (weights * (share - targets))
        # the multiple of the identity matters only where every probability is 0 or 1 and the curvature vanishes
        hessian = Z.T @ (Z * (weights * share * (1 - share))[:, None]) + 1e-12 * weights.sum() * np.eye(len(point))
        step = np.linalg.solve(hessian, gradient)
        size = 1.0
        while loss(point - size * step) > value and size > 1e-8:
            size /= 2
        new = loss(point - size * step)
        if not new < value:
            break
        point, value = point - size * step, new
    return _Optimum(point, value, hessian)


class Probabilities:
    """`predict_proba` of classifiers that were calibrated in their own cross-validation."""

    calibration_: dict[str, float] | None

    def predict_proba(self, X) -> np.ndarray:
        """Return the probabilities of both classes, in the order of ``classes_``.

        The sigmoid of the score whose parameters are in ``calibration_``. `predict` remains the sign of the score;
        where the classes are of different sizes, it may differ from the class of the larger probability.

        Parameters
        ----------
        X : array of shape (n, d) or (n, channels, times), DataFrame, or mne.Epochs
            The trials, as for `decision_function`.

        Returns
        -------
        ndarray of shape (n, 2)
            One row per trial; the rows sum to 1.
        """
        check_is_fitted(self)
        return both_classes(self.calibration().probability(self.decision_function(X)))  # type: ignore[attr-defined]

    def calibration(self) -> Calibration:
        """Return the calibration of a fitted model; an error says why there is none.

        Returns
        -------
        Calibration
            Its ``probability`` turns scores into probabilities.
        """
        return read_calibration(self, getattr(self, "calibration_", None))


def sigmoid(values: Array) -> Array:
    """Return 1 / (1 + exp(−v)); tanh does not overflow, as the exponential of a large value would."""
    return 0.5 + 0.5 * namespace(values).tanh(0.5 * values)


def both_classes(positive: Array) -> Array:
    """Return the probabilities (n, 2) of both classes from that of the second one, (n,)."""
    return namespace(positive).stack([1 - positive, positive], axis=1)


def plain(calibration: Calibration | None) -> dict[str, float] | None:
    """Return a calibration as a dict, which model files can hold."""
    return None if calibration is None else asdict(calibration)


def read_calibration(model: Any, content: dict[str, float] | None) -> Calibration:
    """Return the calibration of a fitted model from its dict; None: raise an error that says how to get one."""
    if content is None:
        raise ValueError(
            f"This {type(model).__name__} has no calibration: it was saved by an earlier version of mixnorm, or no "
            "trial was held out in its cross-validation. Fit it again, with folds that hold out every trial."
        )
    return Calibration(**content)
