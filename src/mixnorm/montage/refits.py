r"""The decoders of nested montages: ℓ2 SVMs with what all sensors show about the noise and the response.

The penalty of a montage's decoder is alpha · ½ w'M w. M follows from the noise and the expected response of all
sensors that may be chosen, in the training trials (`mixnorm.noise.subsets`); with all of them it is that of
``noise="evoked"``. Alpha is chosen on inner folds, each with its own M. The decoder depends on the set of its sensors,
on those that may be chosen and on the trials but, except for rounding, not on the order in which the sensors were
found, so that two ways to the same montage have the same score. Features are in this order, most important sensor
first: what montages of all sizes need is then computed once, and that of a smaller montage is a part of it.

On a device the decoders of all sizes, and of all sets of trials that are given together, are solved as stacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mixnorm.core.groups import Groups
from mixnorm.core.penalties import L2
from mixnorm.core.problem import Stack
from mixnorm.estimators.cross_validation import Choice, auc, choose
from mixnorm.estimators.objective import ALPHA_RATIO, NOISE_ALPHA_RATIO, check_alphas, varying, warn_unconverged
from mixnorm.execution import SolverOptions, few_threads, on_device, to_device
from mixnorm.montage.nested_fits import nested_fits
from mixnorm.montage.noise_problems import Classifiers, NoiseProblem, NoiseTrials, solve_problems
from mixnorm.montage.trials import Training
from mixnorm.noise import SubsetPenalties, subset_penalties

#: Number of alphas that the inner folds choose from, and the relative duality gap to reach: as in `GroupSVCCV`.
N_ALPHAS, TOL = 20, 1e-6
#: Work of a path of alphas relative to that of one classifier of as many sensors; only for the progress that is shown.
_PATH = 10.0


@dataclass(frozen=True, eq=False)
class Ranking:
    """Sensors in order of importance, and the numbers of sensors to fit.

    Attributes
    ----------
    order : ndarray of shape (m,)
        Sensors, the most important one first; montage K is the first K of them.
    sizes : ndarray of shape (S,)
        Numbers of sensors, ascending.
    allowed : ndarray of shape (m,), or None
        Sensors that may be chosen. What the noise and the response are is learned from them alone: a forbidden sensor
        may be an eye or a trigger channel. None: all sensors.
    """

    order: NDArray[np.integer]
    sizes: NDArray[np.integer]
    allowed: NDArray[np.integer] | None = None


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


def refit(training: Training, ranking: Ranking, tell: Callable[[float], None] = lambda share: None) -> Models:
    """Fit the decoder on the first K sensors of the ranking for every K of its sizes.

    Alpha is chosen by the inner folds at the sizes of `sizes_up_to`, and interpolated between them. ``tell`` is called
    with the share that is done, from 0 to 1, at least once for every size.
    """
    return _refit_together([(training, ranking)], tell)[0]


def refit_all(
    cases: Sequence[tuple[Training, Ranking]], tell: Callable[[float], None] = lambda share: None
) -> list[Models]:
    """`refit` for several sets of trials: on a device together, on the host one after another to save memory."""
    if on_device():
        return _refit_together(cases, tell)
    n = len(cases)
    return [refit(*case, lambda share, k=k: tell((k + share) / n)) for k, case in enumerate(cases)]


def _refit_together(cases: Sequence[tuple[Training, Ranking]], tell: Callable[[float], None]) -> list[Models]:
    refits = [_Refit(*case) for case in cases]
    work = _Work(sum(one.total_work for one in refits), tell)
    paths = [(one, problem) for one in refits for problem in one.paths()]
    found: list[Classifiers] = []
    for place, classifiers in solve_problems([problem for _, problem in paths], _OPTIONS):
        one, problem = paths[place]
        one.keep_path(problem, classifiers)
        work.add(_PATH * problem.n_sensors**2)
        found.append(classifiers)
    warn_unconverged(found, TOL)
    for one in refits:
        one.choose_alphas()
    _fit_between(refits, work)
    return [one.models() for one in refits]


_OPTIONS = SolverOptions(tol=TOL)


class _Work:
    """Tells how much of some work is done."""

    def __init__(self, total: float, tell: Callable[[float], None]) -> None:
        self._total, self._tell, self._done = total, tell, 0.0

    def add(self, amount: float) -> None:
        self._done += amount
        self._tell(min(self._done / self._total, 1.0))


class _Refit:
    """The decoders of one set of trials, while they are fitted."""

    def __init__(self, training: Training, ranking: Ranking) -> None:
        self.training, self.order, self.sizes = training, ranking.order, ranking.sizes
        grid = sizes_up_to(len(self.order))
        self.at_folds = [size for size in self.sizes.tolist() if size in grid or size == self.sizes[0]]
        self.between = [size for size in self.sizes.tolist() if size not in self.at_folds]
        self.varies = varying_sensors(training.X, ranking.allowed)
        # the sensors of the largest montage that have a part in its decoder, the most important one first
        self.used = self.order[self.varies[self.order]]
        self.X = training.X[:, self.used].reshape(len(training.X), -1)
        self.fitted: dict[int, tuple[float, NDArray[np.float64], float]] = {}
        self.alphas: dict[int, float] = {}
        self._paths: dict[tuple[int, int], Classifiers] = {}
        self._grids: dict[int, NDArray[np.float64]] = {}

    @property
    def total_work(self) -> float:
        columns = len(self.training.folds) + 1
        return _PATH * columns * float(np.sum(np.square(self.at_folds))) + float(np.sum(np.square(self.between)))

    @cached_property
    def columns(self) -> list[NoiseTrials]:
        """The training trials of every inner fold, and then all trials."""
        weights = [*(fold.train for fold in self.training.folds), np.ones(len(self.training.signs))]
        # copied to a device once, and divided into folds there
        X = to_device(self.training.X if self.varies.all() else self.training.X[:, self.varies])
        places = places_among(self.varies, self.used)
        return [NoiseTrials.of(X, self.training.signs, own, places) for own in weights]

    def n_used(self, size: int) -> int:
        """Number of sensors of a montage that have a part in its decoder: so many of the first that are used."""
        return int(self.varies[self.order[:size]].sum())

    def problem(self, column: NoiseTrials, size: int, alphas: NDArray[np.float64]) -> NoiseProblem:
        """The problem of a montage."""
        return NoiseProblem(column, self.n_used(size), alphas)

    def paths(self) -> Iterator[NoiseProblem]:
        """The problems by which alpha is chosen."""
        for size in self.at_folds:
            self._grids[size] = grid = self._grid(size)
            for column in self.columns:
                yield self.problem(column, size, grid)

    def keep_path(self, problem: NoiseProblem, found: Classifiers) -> None:
        place = next(k for k, column in enumerate(self.columns) if column is problem.trials)
        size = next(size for size, grid in self._grids.items() if grid is problem.alphas)
        self._paths[size, place] = found

    def choose_alphas(self) -> None:
        """Choose alpha where there are paths, and interpolate it between them."""
        last = len(self.columns) - 1
        for size in self.at_folds:
            found, grid = self._paths[size, last], self._grids[size]
            scores = np.stack([self._scores(size, k) for k in range(last)], axis=1)
            n_selected = (found.coefs != 0).any(axis=2).sum(axis=1)
            _, best = choose([Choice(None, grid, [], scores, n_selected)], "best", None)
            self.fitted[size] = float(grid[best]), found.coefs[best], float(found.intercepts[best])
        # Alpha falls slowly as electrodes are added. A choice at every size would cost more than the fits themselves,
        # and would let the curve jump where the folds prefer another alpha by chance.
        known = np.array(sorted(self.fitted))
        logs = np.log([self.fitted[size][0] for size in known.tolist()])
        alphas = np.exp(np.interp(np.log(self.sizes), np.log(known), logs))
        self.alphas = dict(zip(self.sizes.tolist(), alphas.tolist(), strict=True))
        self._paths.clear()

    def models(self) -> Models:
        """All decoders, once they are fitted."""
        coefs = np.zeros((len(self.sizes), *self.training.X.shape[1:]))
        for own, size in zip(coefs, self.sizes.tolist(), strict=True):
            own[self.used[: self.n_used(size)]] = self.fitted[size][1]
        intercepts = np.array([self.fitted[size][2] for size in self.sizes.tolist()])
        return Models(self.order, self.sizes, np.array(list(self.alphas.values())), coefs, intercepts)

    def _grid(self, size: int) -> NDArray[np.float64]:
        """The alphas of a montage, on all its trials: its folds are compared at the same ones."""
        K, signs, r = self.n_used(size), self.training.signs, self.training.X.shape[2]
        if not K:  # any alpha will do
            return np.geomspace(NOISE_ALPHA_RATIO, ALPHA_RATIO, N_ALPHAS)
        stack = Stack.single(
            self.X[:, : K * r],
            signs,
            sample_weight=np.ones((len(signs), 1)),
            group_weights=np.ones((K, 1)),
            groups=Groups.from_channels(range(K), r),
            penalty=L2(),
        )
        # without the noise: alpha_max only says where the grid starts, and whitening would cost a factorisation
        return check_alphas(N_ALPHAS, stack, has_noise=True)

    def _scores(self, size: int, fold: int) -> NDArray[np.float64]:
        """AUC on the held-out trials of an inner fold at every alpha, (A,)."""
        found, X = self._paths[size, fold], self._held_out[fold]
        coefs = found.coefs.reshape(len(found.coefs), -1)
        return auc(
            self.training.signs[self.training.folds[fold].test], X[:, : coefs.shape[1]] @ coefs.T + found.intercepts
        )

    @cached_property
    def _held_out(self) -> list[NDArray[np.float64]]:
        """The held-out trials of every inner fold."""
        return [self.X[fold.test] for fold in self.training.folds]


def _fit_between(refits: Sequence[_Refit], work: _Work) -> None:
    """Fit the sizes between those at which alpha was chosen, at their interpolated alphas."""
    # Constant sensors have no part in a decoder: then montages are not the leading blocks that nested fits need.
    together = [one for one in refits if on_device() or not one.varies.all()]
    for one in refits:
        if one.between and one not in together:
            _fit_nested(one, work)
    problems = [
        (one, size, one.problem(one.columns[-1], size, np.array([one.alphas[size]])))
        for one in together
        for size in one.between
    ]
    found = []
    for place, classifiers in solve_problems([problem for *_, problem in problems], _OPTIONS):
        one, size, _ = problems[place]
        one.fitted[size] = one.alphas[size], classifiers.coefs[0], float(classifiers.intercepts[0])
        work.add(size**2)
        found.append(classifiers)
    if found:
        warn_unconverged(found, TOL)


def _fit_nested(one: _Refit, work: _Work) -> None:
    """Fit the sizes between on the host, from the largest down, each from the solution before."""
    X = one.X.reshape(len(one.X), len(one.used), -1)
    known = {size: (coef, intercept) for size, (_, coef, intercept) in one.fitted.items()}
    found = []
    alphas = {size: one.alphas[size] for size in one.between}
    for fit in nested_fits(X, one.training.signs, alphas, known, one.columns[-1].penalties):
        one.fitted[fit.size] = one.alphas[fit.size], fit.coef, fit.intercept
        work.add(fit.size**2)
        found.append(fit)
    if found:
        warn_unconverged(found, TOL)


def varying_sensors(X: NDArray[np.float64], allowed: NDArray[np.integer] | None = None) -> NDArray[np.bool_]:
    """Return a mask of the allowed sensors that are not the same in all trials (n, G, r); None: all are allowed.

    A constant sensor adds nothing to an intercept, but rounding errors could give it a coefficient.
    """
    varies = varying(X.reshape(len(X), -1), Groups.from_channels(range(X.shape[1]), X.shape[2]))
    may_be_used = np.ones(X.shape[1], dtype=bool) if allowed is None else np.isin(np.arange(X.shape[1]), allowed)
    # where nothing varies, the estimate of the noise says what is wrong
    return varies & may_be_used if (varies & may_be_used).any() else may_be_used


@dataclass(frozen=True, eq=False)
class MontagePenalties:
    """The penalties of any allowed sensors of some training trials; those that are constant have the identity.

    Attributes
    ----------
    varies : boolean ndarray of shape (G,)
        Allowed sensors that are not constant.
    penalties : SubsetPenalties
        Of the sensors that vary.
    n_samples : int
    """

    varies: NDArray[np.bool_]
    penalties: SubsetPenalties
    n_samples: int

    @classmethod
    def of(
        cls, X: NDArray[np.float64], signs: NDArray[np.float64], allowed: NDArray[np.integer] | None = None
    ) -> MontagePenalties:
        """Estimate them from scaled training trials (n, G, r) of the allowed sensors, by default of all."""
        varies = varying_sensors(X, allowed)
        with few_threads(X):
            return cls(varies, subset_penalties(to_device(X[:, varies]), signs, np.ones(len(X))), X.shape[2])

    @property
    def noise(self) -> str:
        """The estimate of `GroupSVC` that needs no other sensors and is nearest to it, except for a factor."""
        return self.penalties.noise

    def matrix(self, sensors: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return M (K r, K r) of some sensors."""
        own = np.flatnonzero(self.varies[sensors])
        if not len(own):
            return np.eye(len(sensors) * self.n_samples)
        M = self.penalties.matrix(places_among(self.varies, sensors[own]))
        return with_identity(M, own, (len(sensors), self.n_samples))


def with_identity(M: NDArray[np.float64], places: NDArray[np.integer], shape: tuple[int, int]) -> NDArray[np.float64]:
    """Put the penalty of some sensors at their places among others (sensors, samples), with the identity for these."""
    n_sensors, r = shape
    features = (r * places[:, None] + np.arange(r)).ravel()
    whole = np.eye(r * n_sensors)
    whole[np.ix_(features, features)] = M
    return whole


def places_among(varies: NDArray[np.bool_], sensors: NDArray[np.integer]) -> NDArray[np.intp]:
    """Where sensors are among those that vary."""
    return np.cumsum(varies)[sensors] - 1


def sizes_up_to(most: int) -> NDArray[np.int64]:
    """Numbers of sensors at which curves are compared: 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, … and all."""
    grid = np.unique(np.concatenate([2 ** np.arange(11), 3 * 2 ** np.arange(10)]))
    return np.append(grid[grid < most], most)
