r"""The best montage for every number of sensors, and what it honestly scores.

On training trials alone the sensors are put in order (`elimination`); an ℓ2 SVM is then refitted on the first K of
them, its alpha chosen on held-out trials of the same training trials. All of that is repeated without the trials of
each outer fold, which are scored by models that knew nothing of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import rankdata
from scipy.stats import t as student
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from mixnorm.core.groups import Groups
from mixnorm.core.penalties import L2
from mixnorm.core.problem import Solution, Stack
from mixnorm.estimators.folds import Fold, auc
from mixnorm.execution import few_threads
from mixnorm.montage.elimination import Wishes, order_sensors, precision, separation
from mixnorm.solvers import Newton

#: Regularisations of the refit, in units of the mean curvature of the loss.
REFIT_ALPHAS = np.logspace(-2.5, 1.5, 9)
#: Share of the best separation that is enough for a larger alpha: the trials it is chosen by had a say in the order.
_ENOUGH = 0.99
#: Relative duality gaps: of the models that are kept, and of those that only choose alpha.
_TOL, _ROUGH, _MAX_ITER = 1e-6, 1e-3, 1000


@dataclass(frozen=True, eq=False)
class Models:
    """Nested montages learned on one set of trials, and a classifier for each.

    Attributes
    ----------
    order : ndarray of shape (m,)
        Sensors, the most important first; montage K is the first K of them.
    sizes : ndarray of shape (S,)
        Numbers of sensors, ascending.
    alphas : ndarray of shape (S,)
    coefs : ndarray of shape (S, G, r)
        Zero outside the montage.
    intercepts : ndarray of shape (S,)
    """

    order: np.ndarray
    sizes: np.ndarray
    alphas: np.ndarray
    coefs: np.ndarray
    intercepts: np.ndarray

    def scores(self, X: np.ndarray) -> np.ndarray:
        """Scores of trials (n, G, r) by every montage, (n, S)."""
        return X.reshape(len(X), -1) @ self.coefs.reshape(len(self.sizes), -1).T + self.intercepts


@dataclass(frozen=True, eq=False)
class Subject:
    """Labelled trials of one subject and what keeps their scores honest.

    Attributes
    ----------
    X : ndarray of shape (n, G, r)
    signs : ndarray of shape (n,)
        −1 or +1.
    number : ndarray of shape (n,)
        In which outer fold a trial is tested.
    trial_groups : ndarray of shape (n,)
        Labels of trials that inner folds must not split.
    """

    X: np.ndarray
    signs: np.ndarray
    number: np.ndarray
    trial_groups: np.ndarray

    def take(self, mask: np.ndarray) -> "Subject":
        """Return some of the trials."""
        return Subject(self.X[mask], self.signs[mask], self.number[mask], self.trial_groups[mask])

    @property
    def has_both_classes(self) -> bool:
        """Whether there are trials of both classes."""
        return len(np.unique(self.signs)) == 2


@dataclass(frozen=True, eq=False)
class Montages:
    """What `score_montages` returns, for T subjects and J outer folds.

    Attributes
    ----------
    models : list of T Models
        Of all trials; the order of the sensors is common to all subjects.
    tests : list of J lists of T Tested, or None where a subject has no test trials of both classes
        Scores of the test trials of every outer fold, by models of the other trials.
    ratio : float
        Test trials per training trial, mean over folds.
    orders : list of J ndarrays
        The order found without each fold.
    """

    models: list[Models]
    tests: list[list["Tested | None"]]
    ratio: float
    orders: list[np.ndarray]

    @property
    def order(self) -> np.ndarray:
        """The sensors, the most important one first."""
        return self.models[0].order

    @property
    def sizes(self) -> np.ndarray:
        """Numbers of sensors, (S,)."""
        return self.models[0].sizes

    @cached_property
    def aucs(self) -> np.ndarray:
        """AUC of every montage in every fold for every subject, (S, J, T); NaN where there is none."""
        nothing = np.full(len(self.sizes), np.nan)
        rows = [[nothing if one is None else auc(one.signs, one.scores) for one in fold] for fold in self.tests]
        return np.moveaxis(np.array(rows), 2, 0)

    @property
    def by_fold(self) -> np.ndarray:
        """AUC of every montage in every fold, mean over subjects, (S, J)."""
        return mean_known(self.aucs, axis=2)

    @property
    def mean(self) -> np.ndarray:
        """Mean AUC of every montage, (S,)."""
        return mean_known(self.by_fold, axis=1)

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Corrected confidence interval of the mean AUC, within 0 and 1: (low, high), (S,) each."""
        return corrected_interval(self.by_fold, self.ratio, level)

    def error_of_difference(self, place: int) -> np.ndarray:
        """Standard error of the difference in mean AUC between every montage and the one at a place, (S,).

        DeLong's for paired scores in each fold, averaged over folds and subjects, times Nadeau and Bengio's correction
        √(1 + J n_test/n_train): the montages are compared on the same trials, so that what makes one session harder
        than another does not count.
        """
        variances = [
            [paired_variance(one.signs, one.scores, place) for one in fold if one is not None] for fold in self.tests
        ]
        means = [np.mean(fold, axis=0) / len(fold) for fold in variances]
        J = len(means)
        return np.sqrt((1 / J + self.ratio) * np.mean(means, axis=0))

    def smallest_near_best(self) -> tuple[int, int, float]:
        """Places of the smallest montage within one standard error (of the difference) of the best, and of the best.

        The third value is that standard error.
        """
        best = int(np.argmax(self.mean))
        error = self.error_of_difference(best)
        place = int(np.flatnonzero(self.mean >= self.mean[best] - error)[0])
        return place, best, float(error[place])


@dataclass(frozen=True, eq=False)
class Tested:
    """Test trials of one fold and subject: their signs (n,), and their scores by every montage (n, S)."""

    signs: np.ndarray
    scores: np.ndarray


def paired_variance(signs: np.ndarray, scores: np.ndarray, place: int) -> np.ndarray:
    """Variance of AUC_k − AUC_place for every column k of scores (n, S) on the same trials (DeLong et al. 1988)."""
    ranks = rankdata(scores, axis=0)
    variance = np.zeros(scores.shape[1])
    for side in (signs > 0, signs < 0):
        others = (~side).sum()
        above = (ranks[side] - rankdata(scores[side], axis=0)) / others
        difference = above - above[:, [place]]
        # of a single trial the variance is not known: its largest value, unless nothing differs
        known = side.sum() > 1
        variance += np.var(difference, axis=0, ddof=1) / side.sum() if known else 0.25 * difference.any(axis=0)
    return variance


def mean_known(values: np.ndarray, axis: int) -> np.ndarray:
    """Mean of what is not NaN; NaN where nothing is known."""
    known = np.isfinite(values)
    count = known.sum(axis=axis)
    return np.where(count > 0, np.where(known, values, 0.0).sum(axis=axis) / np.maximum(count, 1), np.nan)


def corrected_interval(aucs: np.ndarray, ratio: float, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Return mean ± t √((1/J + n_test/n_train) σ²) over the J folds of every row, cut to [0, 1] (Nadeau, Bengio 2003).

    The training sets of two folds overlap, so that their scores are correlated and σ²/J would be too small.
    NaN where there is but one fold.
    """
    J = np.sum(np.isfinite(aucs), axis=1)
    reach = student.ppf((1 + level) / 2, np.maximum(J - 1, 1)) * corrected_error(aucs, ratio)
    mean = mean_known(aucs, axis=1)
    return np.clip(mean - reach, 0, 1), np.clip(mean + reach, 0, 1)


def corrected_error(values: np.ndarray, ratio: float) -> np.ndarray:
    """√((1/J + n_test/n_train) σ²) of the J folds of every row; NaN where there is but one fold."""
    J = np.sum(np.isfinite(values), axis=1)
    squares = np.nansum((values - mean_known(values, axis=1)[:, None]) ** 2, axis=1)
    variance = np.where(J > 1, squares / np.maximum(J - 1, 1), np.nan)
    return np.sqrt((1 / np.maximum(J, 1) + ratio) * variance)


def refit(X: np.ndarray, signs: np.ndarray, folds: list[Fold], order: np.ndarray, sizes: np.ndarray) -> Models:
    """Fit an ℓ2 SVM on the first K sensors of an order for every K of ``sizes``, alpha by the folds.

    Alpha is chosen at K = 1, 2, 4, … and all, and interpolated between. Each problem starts from the solution with
    one sensor less.
    """
    n, G, r = X.shape
    coarse = sizes[np.isin(sizes, 2 ** np.arange(10)) | (sizes == sizes[0]) | (sizes == sizes[-1])]
    alphas = _choose_alphas(X, signs, folds, order, coarse)
    alphas = np.exp(np.interp(np.log(sizes), np.log(coarse), np.log(alphas)))
    steps = _growing(_stack(X, signs, np.ones((n, 1))), order, sizes, alphas[:, None], _TOL)
    coefs = np.stack([step.W[0, 0, :, 0].reshape(G, r) for step in steps])
    return Models(order, sizes, alphas, coefs, np.array([step.b[0, 0, 0] for step in steps]))


def order_by_weights(X: np.ndarray, signs: np.ndarray, folds: list[Fold]) -> np.ndarray:
    """Order the sensors by the weights of an ℓ2 SVM: the one with the smallest ‖w_g‖ leaves, then it is fitted again.

    Its alpha is that of the refit on all sensors, by the folds.
    """
    n, G, r = X.shape
    alpha = _choose_alphas(X, signs, folds, np.arange(G), np.array([G]))[0]
    left = np.arange(G)

    def leaves(W: np.ndarray) -> int:
        nonlocal left
        gone = left[np.argmin(np.linalg.norm(W.reshape(G, r)[left], axis=1))]
        left = left[left != gone]
        return int(gone)

    stack = _stack(X, signs, np.ones((n, 1)))
    with few_threads(stack.X):
        return np.array(Newton().shrinking(stack, alpha, leaves, _ROUGH, _MAX_ITER)[::-1])


def _choose_alphas(X: np.ndarray, signs: np.ndarray, folds: list[Fold], order, sizes: np.ndarray) -> np.ndarray:
    """Return for every size the largest alpha whose models separate the held-out trials nearly best."""
    stack = _stack(X, signs, np.stack([fold.train for fold in folds], axis=1))
    unit = 2 * float(np.mean(np.var(X, axis=0))) or 1.0  # the mean curvature of the loss
    grid = unit * REFIT_ALPHAS
    steps = _growing(stack, order, sizes, np.broadcast_to(grid, (len(sizes), len(grid))), _ROUGH)
    found = np.zeros((len(steps), len(folds)))
    for k, fold in enumerate(folds):
        W = np.stack([step.W[0, 0, :, k] for step in steps], axis=1)
        found[:, k] = separation(stack.y[0, 0, fold.test], stack.X[0, 0, fold.test] @ W)
    found = found @ precision([stack.y[0, 0, fold.test] for fold in folds])
    found = found.reshape(len(sizes), len(grid))
    best = found.max(axis=1, keepdims=True)
    enough = found >= best - (1 - _ENOUGH) * np.abs(best)
    return grid[len(grid) - 1 - enough[:, ::-1].argmax(axis=1)]


def _growing(stack: Stack, order: np.ndarray, sizes: np.ndarray, alphas: np.ndarray, tol: float) -> list[Solution]:
    """Solve the stack on the first K sensors, for every K of sizes (S,) at its alphas (S, A): S·A solutions, in order.

    From few sensors to all (the solver's work grows with the sensors it has seen), up and down the alphas in turn,
    each from the solution before.
    """
    G, K = stack.groups.n_groups, stack.shape[-1]
    beta = np.full((len(sizes), G), np.inf)
    for row, size in zip(beta, sizes):
        row[order[:size]] = 1.0
    S, A = alphas.shape
    walk = np.arange(S * A).reshape(S, A)
    walk[::2] = walk[::2, ::-1]
    walk = walk.ravel()
    steps = np.broadcast_to(beta[walk // A, None, :, None], (S * A, 1, G, K))
    grid = np.broadcast_to(alphas.ravel()[walk, None, None], (S * A, 1, K))
    with few_threads(stack.X):
        found = Newton().subsets(stack, grid, steps, tol, _MAX_ITER)
    return [found[place] for place in np.argsort(walk)]


def _stack(X: np.ndarray, signs: np.ndarray, weights: np.ndarray) -> Stack:
    n, G, r = X.shape
    return Stack.single(
        X.reshape(n, -1),
        signs,
        sample_weight=weights.astype(float),
        group_weights=np.ones((G, weights.shape[1])),
        groups=Groups.from_channels(range(G), r),
        penalty=L2(),
    )


def score_montages(
    subjects: list[Subject], *, cv, wishes: Wishes | None = None, scaler=None, run=None, find=None
) -> Montages:
    """Search the montages on all trials, and score the search on the test trials of every outer fold.

    Parameters
    ----------
    subjects : list of Subject
        Several share one order of sensors, and have a classifier each.
    cv : splitter
        Makes the inner folds, ``cv.split(X, y, trial_groups)``.
    wishes : Wishes, optional
    scaler : transformer, optional
        Learned on the training trials of each fold and subject.
    run : callable, optional
        Makes delayed calls, one for each outer fold and one for all trials, and returns their results in order, as
        ``joblib.Parallel(n_jobs=2)`` does; by default one after the other.
    find : callable, optional
        Another way to choose: from (X, signs, folds) of each subject to (order, sizes).
    """
    wishes = Wishes.none(subjects[0].X.shape[1]) if wishes is None else wishes
    find = partial(_by_elimination, wishes=wishes) if find is None else find
    folds = [fold for fold in np.unique(np.concatenate([one.number for one in subjects])) if _usable(subjects, fold)]
    if not folds:
        raise ValueError("No fold has trials of both classes to test on and to learn from; take fewer folds.")
    run = Parallel(n_jobs=1) if run is None else run
    calls = [delayed(_tested)(subjects, fold, cv, scaler, find) for fold in folds]
    *tested, models = run([*calls, delayed(_learned)(subjects, cv, scaler, find)])
    share = np.array([np.mean([np.mean(one.number == fold) for one in subjects]) for fold in folds])
    return Montages(
        models,
        [tests for _, tests in tested],
        float(np.mean(share / (1 - share))),
        [order for order, _ in tested],
    )


def _by_elimination(subjects: list[tuple], wishes: Wishes) -> tuple[np.ndarray, np.ndarray]:
    order = order_sensors(subjects, wishes)
    return order, np.arange(max(1, int(wishes.keep.sum())), len(order) + 1)


def _usable(subjects: list[Subject], fold: int) -> bool:
    """Whether anyone can be tested in the fold, and everyone trained without it."""
    if any(not one.take(one.number != fold).has_both_classes for one in subjects):
        return False
    return any(one.take(one.number == fold).has_both_classes for one in subjects)


def _tested(subjects: list[Subject], fold, cv, scaler, find) -> tuple[np.ndarray, list["Tested | None"]]:
    """Return the order found without the trials of a fold, and the scores of these trials."""
    models, tests = _without(subjects, fold, cv, scaler, find)
    return models[0].order, tests


def _learned(subjects: list[Subject], cv, scaler, find) -> list[Models]:
    """Learn on all trials."""
    return _without(subjects, None, cv, scaler, find)[0]


def _without(subjects: list[Subject], fold, cv, scaler, find) -> tuple[list[Models], list[Tested | None]]:
    """Learn without the trials of a fold (None: on all); return each subject's models, and their scores on it."""
    training, tests = [], []
    for one in subjects:
        train, test = one.take(one.number != fold), one.take(one.number == fold)
        scale = _identity if scaler is None else clone(scaler).fit(train.X).transform
        training.append((scale(train.X), train.signs, inner_folds(cv, train.signs, train.trial_groups)))
        tests.append((scale(test.X), test.signs) if test.has_both_classes else None)
    order, sizes = find(training)
    models = [refit(X, signs, folds, order, sizes) for X, signs, folds in training]
    return models, [None if t is None else Tested(t[1], m.scores(t[0])) for m, t in zip(models, tests)]


def _identity(X: np.ndarray) -> np.ndarray:
    return X


def inner_folds(cv, signs: np.ndarray, trial_groups: np.ndarray) -> list[Fold]:
    """Return the inner folds whose two parts hold both classes; where there are fewer than two, stratified ones."""
    folds = _with_both_classes(cv.split(np.zeros(len(signs)), signs, trial_groups), signs)
    fewest = int(min((signs > 0).sum(), (signs < 0).sum()))
    if len(folds) < 2 <= fewest:
        folds = _with_both_classes(StratifiedKFold(min(3, fewest)).split(np.zeros(len(signs)), signs), signs)
    if len(folds) < 2:
        raise ValueError(f"Only {fewest} training trial of one class: sensors cannot be chosen by so few.")
    return folds


def _with_both_classes(splits: Iterable[tuple[np.ndarray, np.ndarray]], signs: np.ndarray) -> list[Fold]:
    return [
        Fold(np.bincount(train, minlength=len(signs)), np.bincount(test, minlength=len(signs)) > 0)
        for train, test in splits
        if len(np.unique(signs[train])) == len(np.unique(signs[test])) == 2
    ]
