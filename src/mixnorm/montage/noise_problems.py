r"""ℓ2 problems of nested montages with a penalty alpha ½ w'M w, which is the plain penalty on whitened trials.

`mixnorm.noise.subsets` estimates M of the first K sensors of an order for every K, and the coordinates in which it is
the identity; what all K share is computed once for each set of trials. On the host the problems are solved one after
the other. On a device many are solved as one stack: problems with fewer sensors are filled up with features that are
zero, and those with fewer trials with trials of weight zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mixnorm.core.arrays import Array, like, namespace, to_numpy
from mixnorm.core.groups import Groups
from mixnorm.core.penalties import L2
from mixnorm.core.problem import Solution, Stack
from mixnorm.core.span import Span
from mixnorm.execution import SolverOptions, few_threads, on_device, solve, to_device
from mixnorm.noise import NestedPenalties, subset_penalties
from mixnorm.noise.residuals import rows
from mixnorm.noise.subsets import NestedTrials, Whitening

#: Problems of one stack have at least this share of the sensors of its largest one, so that little is filled up.
_LEAST_SHARE = 0.25
#: Bytes of the whitened trials of one stack, and of the factors of their penalties.
_BYTES = 8 * 2**30


@dataclass(frozen=True, eq=False)
class NoiseTrials:
    """Training trials, and the penalties of the first sensors of an order. Build it with `of`.

    Attributes
    ----------
    signs, weights : ndarrays of shape (n,)
        −1 or +1, and sample weights > 0.
    penalties : NestedPenalties
    trials : NestedTrials
        On the device in use.
    n_samples : int
    """

    signs: NDArray[np.float64] = field(repr=False)
    weights: NDArray[np.float64] = field(repr=False)
    penalties: NestedPenalties = field(repr=False)
    trials: NestedTrials = field(repr=False)
    n_samples: int

    @classmethod
    def of(
        cls,
        X: Array,
        signs: NDArray[np.float64],
        weights: NDArray[np.float64],
        order: NDArray[np.integer],
    ) -> NoiseTrials:
        """Estimate the penalties from trials (n, C, r) of all sensors, on the device in use; weight 0: left out."""
        used, xp = weights > 0, namespace(X)
        X, signs, weights = rows(X, used), signs[used], weights[used].astype(np.float64)
        with few_threads(X):
            penalties = subset_penalties(X, signs, weights).nested(order)
            trials = penalties.whitened(xp.take(X, like(X, order, dtype=xp.int64), axis=1))
        return cls(signs, weights, penalties, trials, X.shape[2])


@dataclass(frozen=True, eq=False)
class NoiseProblem:
    """The classifiers of the first ``n_sensors`` sensors of the order at several alphas (A,)."""

    trials: NoiseTrials
    n_sensors: int
    alphas: NDArray[np.float64]

    @property
    def n_values(self) -> int:
        """Number of values in the trials of these sensors and in the two factors of their penalty."""
        n, d = len(self.trials.signs), self.trials.n_samples * self.n_sensors
        return n * d + 2 * d * d

    def whitened(self) -> tuple[Whitening, Array]:
        """Return the coordinates in which the penalty is the identity, and the trials in them, (n, d)."""
        return self.trials.trials.first(self.n_sensors)


@dataclass(frozen=True, eq=False)
class Classifiers:
    """Solutions at A alphas: coefficients (A, K, r), intercepts (A,) and relative duality gaps (A,)."""

    coefs: NDArray[np.float64]
    intercepts: NDArray[np.float64]
    gap: NDArray[np.float64]

    @classmethod
    def of(cls, W: Array, solutions: list[Solution], place: int, n_sensors: int) -> Classifiers:
        """Take coefficients (d, A), and the rest from solutions of several data sets."""
        return cls(
            to_numpy(W).T.reshape(len(solutions), n_sensors, -1),
            np.array([s.b[place, 0, 0] for s in solutions]),
            np.array([s.gap[place, 0] for s in solutions]),
        )


def solve_problems(problems: Sequence[NoiseProblem], options: SolverOptions) -> Iterator[tuple[int, Classifiers]]:
    """Solve problems with the same number of alphas; yield them with their index, in any order, as they are solved."""
    if not on_device():
        for place, problem in enumerate(problems):
            with few_threads(problem.trials.trials.values):
                found = _solved(problem, options)
            yield place, found
        return
    for place, problem in enumerate(problems):
        if not problem.n_sensors:
            yield place, _without_sensors(problem)
    for places in _stacks(problems):
        yield from zip(places, _solved_together([problems[place] for place in places], options), strict=True)


def _solved(problem: NoiseProblem, options: SolverOptions) -> Classifiers:
    """Solve one problem on the host."""
    if not problem.n_sensors:
        return _without_sensors(problem)
    whitening, Z = problem.whitened()
    # With more features than trials the problem has only as many dimensions as trials.
    span = Span.of(Z)
    groups = Groups.from_channels(range(problem.n_sensors), problem.trials.n_samples)
    if span is not None:
        groups = Groups.from_labels(None, len(Z))
    stack = Stack.single(
        Z if span is None else span.trials,
        problem.trials.signs,
        sample_weight=problem.trials.weights[:, None],
        group_weights=np.ones((groups.n_groups, 1)),
        groups=groups,
        penalty=L2(),
    )
    solutions = solve(stack, problem.alphas[:, None, None], options)
    V = np.stack([s.W[0, 0, :, 0] for s in solutions], axis=1)
    W = whitening.coefficients(V if span is None else span.coefficients(V))
    return Classifiers.of(W, solutions, 0, problem.n_sensors)


def _without_sensors(problem: NoiseProblem) -> Classifiers:
    """The intercept alone: the difference of the shares of the classes minimises the squared hinge loss."""
    A, r = len(problem.alphas), problem.trials.n_samples
    b = float(problem.trials.weights @ problem.trials.signs / problem.trials.weights.sum())
    return Classifiers(np.zeros((A, 0, r)), np.full(A, b), np.zeros(A))


def _stacks(problems: Sequence[NoiseProblem]) -> Iterator[list[int]]:
    """Indices of the problems of every stack, from the most sensors to the fewest."""
    places: list[int] = []
    some = [place for place, problem in enumerate(problems) if problem.n_sensors]
    for place in sorted(some, key=lambda place: -problems[place].n_sensors):
        if places:
            first = problems[places[0]]
            fits = 8 * first.n_values * (len(places) + 1) <= _BYTES
            if not fits or problems[place].n_sensors < _LEAST_SHARE * first.n_sensors:
                yield places
                places = []
        places.append(place)
    if places:
        yield places


def _solved_together(problems: Sequence[NoiseProblem], options: SolverOptions) -> list[Classifiers]:
    """Whiten and solve some problems on the device, the first of which has the most sensors."""
    first, r = problems[0].trials.trials.values, problems[0].trials.n_samples
    xp = namespace(first)
    B, G, n = len(problems), problems[0].n_sensors, max(len(problem.trials.signs) for problem in problems)
    Z = xp.zeros((B, 1, n, G * r), dtype=first.dtype, device=first.device)
    y, weights, whitenings = np.ones((B, 1, n)), np.zeros((B, 1, n, 1)), []
    for i, problem in enumerate(problems):
        whitening, own = problem.whitened()
        whitenings.append(whitening)
        Z[i, 0, : own.shape[0], : own.shape[1]] = own
        y[i, 0, : own.shape[0]], weights[i, 0, : own.shape[0], 0] = problem.trials.signs, problem.trials.weights
    ones, groups = np.ones((B, 1)), Groups.from_channels(range(G), r)
    stack = Stack(
        Z, to_device(y), to_device(weights), *map(to_device, (ones, np.ones((B, G, 1)), 0 * ones)), groups, L2()
    )
    solutions = solve(stack, np.stack([problem.alphas for problem in problems], axis=1)[:, :, None], options)
    V = to_device(np.stack([s.W[:, 0, :, 0] for s in solutions], axis=2))
    return [
        Classifiers.of(whitening.coefficients(V[i, : r * problem.n_sensors]), solutions, i, problem.n_sensors)
        for i, (whitening, problem) in enumerate(zip(whitenings, problems, strict=True))
    ]
