r"""The quadratic part of a penalty, ½ w'N w, where N is the identity or a covariance of the noise.

With ``penalty="l2"`` it is the penalty, alpha · ½ w'N w. In the coordinates v = R w, N = R'R, that is the plain
ℓ2 problem on whitened trials z = R⁻'x: x·w = z·v and w'N w = ‖v‖². Beside a norm it is ridge · ½ w'N w, the ridge term
of a stack with the metric N.

An estimate of the noise is made of the training trials of the problem at hand. Each fold has its own, so that it
becomes a data set of its own in the stack that is solved.
"""

import warnings
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import numpy as np

from mixnorm.core.arrays import Array
from mixnorm.core.groups import Groups
from mixnorm.core.metric import DenseMetric, Metric, join_metrics
from mixnorm.core.problem import Solution, Stack
from mixnorm.core.span import Span
from mixnorm.execution import SolverOptions, few_threads, solve
from mixnorm.noise import NOISES, estimate, layout_for

#: Numbers in a matrix of trials from which coordinates of their span save time.
_LEAST_FOR_SPAN = 20_000
#: How far a given noise matrix may be from symmetric, relative to its largest entry.
_ASYMMETRY = 1e-8


@dataclass(frozen=True, eq=False)
class Noise:
    """The noise covariance N of K problems on the trials of one subject.

    Attributes
    ----------
    given : str, or ndarray of shape (d, d)
        Name of an estimate, or the matrix itself.
    X : ndarray of shape (n, d)
    signs : ndarray of shape (n,)
        −1 or +1.
    sample_weight : ndarray of shape (n, K)
        Weights of the trials that each problem's N is estimated from, without class weights.
    groups : Groups
    covered : ndarray of shape (G,)
        Groups that have a part in N: those that may be chosen.
    """

    given: str | np.ndarray
    X: np.ndarray
    signs: np.ndarray
    sample_weight: np.ndarray
    groups: Groups
    covered: np.ndarray

    @cached_property
    def features(self) -> np.ndarray:
        """The features that N covers, (m,)."""
        return np.flatnonzero(self.covered[self.groups.index])

    @cached_property
    def metrics(self) -> list[Metric]:
        """N of every problem, as metrics of the m features; a matrix that was given serves all problems."""
        if not isinstance(self.given, str):
            own = self.given[np.ix_(self.features, self.features)]
            # Only the part that is used: a matrix may be singular because of a sensor that is left out.
            check_positive_definite(own)
            return [DenseMetric.of_covariance(own)]
        # Estimates are of the covered sensors alone: the Kronecker and Toeplitz structures average over all sensors in
        # them.
        X, layout = self.X[:, self.features], layout_for(self.given, self.groups.only(self.covered))
        with few_threads(X):
            return [estimate(self.given, X, self.signs, weights, layout) for weights in self.sample_weight.T]

    def take(self, columns: np.ndarray) -> "Noise":
        """Return the noise of some of the problems."""
        part = replace(self, sample_weight=self.sample_weight[:, columns])
        if "metrics" in vars(self):  # what is estimated already is not estimated again
            given = not isinstance(self.given, str)
            vars(part)["metrics"] = self.metrics if given else [self.metrics[int(k)] for k in columns]
        return part

    def last(self) -> "FittedNoise":
        """Return the noise of the last problem."""
        return FittedNoise(self.metrics[-1], self.features, self.groups.n_features)


@dataclass(frozen=True, eq=False)
class FittedNoise:
    """The noise of a fitted model: a metric of some of its features."""

    metric: Metric
    features: np.ndarray
    n_features: int

    def matrix(self) -> np.ndarray:
        """Return N, (d, d); zero for features that have no part in it."""
        N = np.zeros((self.n_features, self.n_features))
        N[np.ix_(self.features, self.features)] = self.metric.gram(np.arange(len(self.features)))[0, 0]
        return N


@dataclass(frozen=True, eq=False)
class Quadratic:
    """The quadratic part of K problems on the trials of one subject.

    Attributes
    ----------
    noise : Noise or None
        None for the identity.
    ridge : float
        Its strength beside a norm; 0 with ℓ2, whose strength is alpha.
    """

    noise: Noise | None
    ridge: float

    def take(self, columns: np.ndarray) -> "Quadratic":
        """Return the quadratic part of some of the problems."""
        return replace(self, noise=None if self.noise is None else self.noise.take(columns))

    def last(self) -> "Quadratic":
        """Return the quadratic part of the last problem; the noise of all is estimated, since it is needed next."""
        if self.noise is None:
            return self
        last = len(self.noise.metrics) - 1 if isinstance(self.noise.given, str) else -1
        return self.take(np.array([last]))

    def solve(
        self, stack: Stack, alphas: np.ndarray, options: SolverOptions, n_jobs: int | None = None
    ) -> list[Solution]:
        """Solve the problems of a stack, B = 1, with this quadratic part, at alphas (A, 1, K)."""
        prepared = self.prepared(stack)
        # Each problem has trials whitened by its own noise, so that problems of one data set become data sets of one
        # problem.
        by_data_set = prepared.stack.shape[0] > 1
        grid = alphas.swapaxes(1, 2) if by_data_set else alphas
        solutions = solve(prepared.stack, grid, options, n_jobs=n_jobs)
        return prepared.restored([_as_columns(s) for s in solutions] if by_data_set else solutions)

    def prepared(self, stack: Stack) -> "_Prepared":
        """Return the stack that is solved in the place of one, B = 1, without the quadratic part."""
        if stack.penalty.is_norm or self.noise is None:
            return _beside_a_norm(stack, self)
        return _whitened(stack, self.noise)


@dataclass(frozen=True, eq=False)
class _Prepared:
    """A stack to be solved, and how coefficients of the problems asked for follow from its solutions.

    Attributes
    ----------
    stack : Stack
    features : ndarray of shape (m,)
        The features whose coefficients change.
    metrics : list of Metric
        With ℓ2 those that the trials were whitened with; empty where coefficients are taken as they are.
    n_features : int
        Number of features of the problems asked for.
    spans : list of Span
        Where the trials were replaced by coordinates of their span: one for each metric. Otherwise empty.
    """

    stack: Stack
    features: np.ndarray
    metrics: list[Metric]
    n_features: int
    spans: list[Span] = field(default_factory=list)

    def restored(self, solutions: list[Solution]) -> list[Solution]:
        """Return solutions with the coefficients of the problems asked for, B = 1."""
        W = np.stack([s.W[0, 0] for s in solutions])  # (A, m or d, K)
        full = np.zeros((len(W), self.n_features, W.shape[2]))
        if not self.metrics:
            full[:, self.features] = W
        else:
            # Features outside N keep their coefficients. The coordinates of a span are no features, and are used only
            # where there are no others.
            if not self.spans:
                full[:] = W
            for k in range(W.shape[2]):
                own = k if len(self.metrics) > 1 else 0
                V = self.spans[own].coefficients(W[:, :, k].T) if self.spans else W[:, self.features, k].T
                full[:, self.features, k] = self.metrics[own].unwhiten(V).T
        return [replace(s, W=w[None, None]) for s, w in zip(solutions, full, strict=True)]


def _whitened(stack: Stack, noise: Noise) -> _Prepared:
    """With ℓ2: whiten the trials, each problem with its own metric. Sensors of weight 0 leave N."""
    # With ℓ2 a sensor of weight 0 is not penalised: in N, its correlation with others would still change their
    # penalty.
    free = stack.group_weights[0, :, -1][stack.groups.index][noise.features] == 0
    penalised, metrics = noise.features[~free], noise.metrics
    if free.any():
        kept = np.flatnonzero(~free)
        # A part of a Kronecker product need not be one, so that the metric becomes dense.
        metrics = [DenseMetric.of_covariance(metric.gram(kept)[0, 0]) for metric in metrics]
    # A copy, because the trials are whitened in place, each data set by its own metric.
    X = np.repeat(stack.X, len(metrics), axis=0)
    with few_threads(stack.X):
        for own, metric in zip(X[:, 0], metrics, strict=True):
            own[:, penalised] = metric.whiten(own[:, penalised])
        spans = [] if free.any() else _spans(X[:, 0][..., penalised])
    prepared = replace(stack if len(metrics) == 1 else _as_data_sets(stack), X=X)
    if spans:
        prepared = _in_span(prepared, spans)
    return _Prepared(prepared, penalised, metrics, stack.groups.n_features, spans)


def _spans(X: np.ndarray) -> list[Span]:
    """Return the spans of the trials (B, n, m) of every data set; none where any of them has no advantage."""
    # For small matrices the factorisation costs more than it saves.
    if X[0].size < _LEAST_FOR_SPAN:
        return []
    found = []
    for Z in X:
        span = Span.of(Z)
        if span is None:
            return []
        found.append(span)
    return found


def _in_span(stack: Stack, spans: list[Span]) -> Stack:
    """Return an ℓ2 problem of every data set in coordinates of the span of its trials."""
    B, _, n, _, K = stack.shape
    return replace(
        stack,
        X=np.stack([span.trials for span in spans])[:, None],
        # ℓ2 knows no groups, and in these coordinates ½ w'N w is again ½ ‖v‖²: n coordinates instead of d features.
        groups=Groups.from_labels(None, n),
        group_weights=np.ones((B, n, K)),
    )


def _beside_a_norm(stack: Stack, term: Quadratic) -> _Prepared:
    """Beside a norm: ridge · ½ w'N w, on the features that N covers."""
    features, metrics, reduced = np.arange(stack.groups.n_features), [], stack
    # Forbidden sensors are left out together with their rows and columns of N.
    if term.noise is not None:
        features, metrics = term.noise.features, term.noise.metrics
        reduced = stack.only(term.noise.covered)
    if len(metrics) > 1:
        reduced = _as_data_sets(reduced)
    strength = np.full((reduced.shape[0], reduced.shape[-1]), term.ridge)
    prepared = replace(reduced, ridge=strength, metric=join_metrics(metrics) if metrics else None)
    return _Prepared(prepared, features, [], stack.groups.n_features)


def _as_data_sets(stack: Stack) -> Stack:
    """Return a stack of one data set and K problems as K data sets of one problem each."""

    def turned(array: np.ndarray) -> Array:
        return np.moveaxis(array[0], -1, 0)[..., None]

    K = stack.shape[-1]
    names = ("sample_weight", "alpha", "group_weights", "similarity")
    return replace(
        stack,
        X=np.broadcast_to(stack.X, (K, *stack.X.shape[1:])),
        y=np.broadcast_to(stack.y, (K, *stack.y.shape[1:])),
        **{name: turned(getattr(stack, name)) for name in names},
    )


def _as_columns(solution: Solution) -> Solution:
    """Return the solution of K data sets of one problem each as that of one data set of K problems."""
    return Solution(*(np.moveaxis(getattr(solution, f.name)[..., 0], 0, -1)[None] for f in fields(solution)))


def check_noise(noise: str | np.ndarray, n_features: int) -> None:
    """Refuse an unknown name, and a matrix of the wrong size or one that is not finite and symmetric."""
    if not isinstance(noise, str):
        _check_matrix(noise, n_features)
    elif noise not in NOISES:
        raise ValueError(
            "Invalid value for the 'noise' parameter. Allowed are None, "
            f"{', '.join(map(repr, NOISES))} and a matrix, but got {noise!r} instead."
        )


def _check_matrix(noise: np.ndarray, n_features: int) -> None:
    """Refuse a noise matrix of the wrong size, or one that is not finite and symmetric."""
    if noise.shape != (n_features, n_features):
        raise ValueError(
            f"noise must be a matrix of shape ({n_features}, {n_features}), one row and column per feature, but its "
            f"shape is {noise.shape}."
        )
    if not np.isfinite(noise).all():
        row, column = np.argwhere(~np.isfinite(noise))[0]
        raise ValueError(f"noise must be finite, but its entry ({row}, {column}) is {noise[row, column]}.")
    # A product such as A'A is symmetric only to rounding, which is no reason for an error.
    difference = np.abs(noise - noise.T)
    if difference.max() > _ASYMMETRY * np.abs(noise).max():
        row, column = np.unravel_index(np.argmax(difference), noise.shape)
        raise ValueError(
            f"noise must be symmetric, but its entry ({row}, {column}) is {noise[row, column]:.6g} and its entry "
            f"({column}, {row}) is {noise[column, row]:.6g}: they differ by {difference[row, column]:.3g}."
        )


def check_positive_definite(noise: np.ndarray) -> None:
    """Refuse a noise matrix that is singular to rounding, as the covariance of average-referenced channels is."""
    # A Cholesky factorisation succeeds for matrices that are singular to rounding, and the whitened trials would be
    # noise.
    values = np.linalg.eigvalsh(noise)
    if not values[0] > len(noise) * np.finfo(float).eps * values[-1]:
        raise ValueError(
            f"noise must be positive definite, but its smallest eigenvalue is {values[0]:.3g} and its largest "
            f"{values[-1]:.3g}; add a small multiple of the identity."
        )


def check_enough_trials(noise, signs: np.ndarray, weights: np.ndarray, classes: np.ndarray, whose: str = "") -> None:
    """Refuse to estimate a noise covariance with fewer than two trials of a class."""
    if not isinstance(noise, str):
        return
    # Weights are relative: trials are counted in units of the smallest positive weight.
    smallest = np.min(weights[weights > 0], initial=np.inf)
    for sign, label in zip((-1, 1), classes.tolist(), strict=True):
        # a trial of weight 2 counts as two trials, as it does in the estimate
        count = round(float(weights[signs == sign].sum() / smallest), 6)
        if count < 2:
            raise ValueError(
                f"noise={noise!r} is estimated from at least two trials of each class, but class {label!r} has "
                f"{count:g} {whose}".rstrip()
                + "."
            )


def warn_light_trials(noise, weights: np.ndarray, stacklevel: int, whose: str = "") -> None:
    """Warn if ``noise="evoked"`` sees no response because the weights of the trials, (n,), are small numbers."""
    # Other estimates depend on the ratios of the weights only.
    if isinstance(noise, str) and noise == "evoked" and weights.sum() <= 2:
        warnings.warn(
            f"The sample weights {whose}sum to {weights.sum():.3g}. noise='evoked' takes this sum as the number of "
            "trials, and with 2 or fewer it is the same as noise='structured'. Multiply the weights by a constant, so "
            "that an ordinary trial has weight 1.",
            UserWarning,
            stacklevel=stacklevel,
        )
