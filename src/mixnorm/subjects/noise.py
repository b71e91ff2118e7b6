r"""The noise of every subject of a joint problem, and the coordinates in which it is white.

Let N_t be the covariance of the ongoing activity of subject t (`mixnorm.noise`), and R_t = N_t^½ its symmetric root. A
classifier w depends on the response and on the activity that it must suppress, so that two subjects with the same
response still need different classifiers. In the coordinates

    z = R_t⁻¹ x,    v = R_t w,    x·w = z·v

the activity has the same covariance in all subjects, and the v_t differ by the responses only. There the similarity
term is Σ_t ‖v_t − v̄‖², and with ``penalty="l2"`` the penalty is alpha ½ Σ_t ‖v_t‖² = alpha ½ Σ_t w_t'N_t w_t: the
joint problem is the one without noise on whitened trials, with the same certificate. Norms select sensors by the w_t,
and N_t is then the metric of the similarity and of the ridge term (`mixnorm.core.metric`). (Over sensors alone, and
without labels, R_t is the Euclidean alignment of He and Wu, IEEE Trans. Biomed. Eng. 67, 2020.)

Sensors that may not be used have no part in N_t. With ℓ2, sensors of weight 0 have none either: their coefficients are
compared as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from mixnorm.core.groups import Groups
from mixnorm.core.metric import KroneckerMetric, Metric, SymmetricMetric, join_metrics
from mixnorm.core.problem import Solution, Stack
from mixnorm.estimators.objective import as_noise
from mixnorm.estimators.quadratic import check_enough_trials, check_noise, check_positive_definite, warn_light_trials
from mixnorm.execution import SolverOptions, few_threads, on_device, solve, together_on_device
from mixnorm.noise import covariance, estimate, layout_for
from mixnorm.subjects.classifier import SubjectTrials

#: What stands for the noise of one subject: the name of an estimate, or the matrix itself.
Given = str | np.ndarray


@dataclass(frozen=True, eq=False)
class White:
    """The coordinates v = R w in which the noise of one subject is white.

    Attributes
    ----------
    metric : Metric
        R, of one data set and one subject.
    features : ndarray of shape (m,)
        The features that R covers; the others stay as they are.
    """

    metric: Metric
    features: np.ndarray

    def trials(self, X: np.ndarray) -> np.ndarray:
        """Return z of trials X (n, d)."""
        Z = np.array(X, dtype=float)
        Z[:, self.features] = self.metric.whiten(Z[:, self.features])
        return Z

    def apply(self, W: np.ndarray) -> np.ndarray:
        """Return v of coefficients (d, K)."""
        V = np.array(W, dtype=float)
        V[self.features] = self.metric.apply(V[None, None, self.features])[0, 0]
        return V

    def coefficients(self, V: np.ndarray) -> np.ndarray:
        """Return w of white coefficients (d, K)."""
        W = np.array(V, dtype=float)
        W[self.features] = self.metric.unwhiten(W[self.features])
        return W


@dataclass(frozen=True, eq=False)
class JointNoise:
    """The noise N_t of all subjects of K joint problems.

    Attributes
    ----------
    given : list of T names or matrices (d, d)
    data : SubjectTrials
    weights : ndarray of shape (n, K)
        Weights of the trials from which the N_t of every problem are estimated, without class weights.
    groups : Groups
    features : ndarray of shape (m,)
        The features that N covers.
    """

    given: list[Given]
    data: SubjectTrials
    weights: np.ndarray
    groups: Groups
    features: np.ndarray

    @classmethod
    def of(cls, noise, stack: Stack, data: SubjectTrials, weights: np.ndarray) -> "JointNoise | None":
        """Return the noise of the parameter ``noise`` for a joint problem; None if there is none."""
        if noise is None:
            return None
        given = by_subject(noise, data.subjects.labels, stack.groups.n_features)
        beta = stack.group_weights[0, :, -1]
        # A sensor of weight 0 is outside the penalty of ℓ2; beside a norm, the ridge term covers it.
        covered = np.isfinite(beta) & (beta > 0 if not stack.penalty.is_norm else True)
        if not covered.any():
            return None
        for name in {name for name in given if isinstance(name, str)}:
            layout_for(name, stack.groups.only(covered))  # refuses sensors of unequal size
        return cls(given, data, weights, stack.groups, np.flatnonzero(covered[stack.groups.index]))

    def check_enough_trials(self, classes: np.ndarray) -> None:
        """Refuse to estimate the noise of a subject with fewer than two trials of a class, in all trials or a fold."""
        places = [len(self.weights.T) - 1, *range(len(self.weights.T) - 1)]
        for k in places:  # all trials first: if they are too few altogether, the error must not name a fold
            where = "" if k == places[0] else f" in the training part of fold {k} of cv"
            for given, label, rows in zip(self.given, self.data.subjects.labels, self.data.subjects.rows, strict=True):
                whose = f"of subject {label!r}{where}"
                check_enough_trials(given, self.data.signs[rows], self.weights[rows, k], classes, whose)

    def warn_light_trials(self, stacklevel: int) -> None:
        """Warn if the sample weights of a subject are too small for its estimate; one warning names the lightest."""
        subjects = zip(self.given, self.data.subjects.labels, self.data.subjects.rows, strict=True)
        own = [
            (self.weights[rows, -1], label)
            for given, label, rows in subjects
            if isinstance(given, str) and given == "evoked"
        ]
        if own:
            weights, label = min(own, key=lambda one: one[0].sum())
            warn_light_trials("evoked", weights, stacklevel + 1, f"of subject {label!r} ")

    @property
    def is_estimated(self) -> bool:
        """Whether N depends on the trials of a problem."""
        return any(isinstance(given, str) for given in self.given)

    def white(self, k: int) -> list[White]:
        """Return the white coordinates of every subject in one of the problems."""
        return [White(self._metric(t, k), self.features) for t in range(len(self.given))]

    def _metric(self, t: int, k: int) -> Metric:
        given, rows, label = self.given[t], self.data.subjects.rows[t], self.data.subjects.labels[t]
        try:
            if not isinstance(given, str):
                return _of_matrix(given, self.features)
            X, layout = self.data.trials.matrix[np.ix_(rows, self.features)], self.layout(given)
            with few_threads(X):
                return symmetric_estimate(given, X, self.data.signs[rows], self.weights[rows, k], layout)
        except ValueError as error:
            # The estimate knows the trials, but not whose they are.
            raise ValueError(f"Subject {label!r}: {error}") from error

    def layout(self, name: str) -> np.ndarray | None:
        """Return the layout of the features that N covers, as an estimate needs it."""
        covered = np.isin(np.arange(self.groups.n_groups), self.groups.index[self.features])
        return layout_for(name, self.groups.only(covered))

    def covariances(self, name: str, k: int) -> list[np.ndarray]:
        """Return another estimate of the noise of every subject in one of the problems, as matrices (m, m)."""
        found = []
        for rows in self.data.subjects.rows:
            X = self.data.trials.matrix[np.ix_(rows, self.features)]
            with few_threads(X):
                found.append(covariance(name, X, self.data.signs[rows], self.weights[rows, k], self.layout(name)))
        return found

    def solve(
        self,
        stack: Stack,
        alphas: np.ndarray,
        options: SolverOptions,
        similarities: np.ndarray,
        n_jobs: int | None = None,
    ) -> list[Solution]:
        """Solve the problems of a stack, B = 1, with this noise, at alphas and similarities (A, 1, K).

        Where the noise is estimated, every problem has its own, and is solved by itself: the whitened trials of one
        problem at a time are in memory. ``n_jobs`` problems are solved in parallel, by joblib's backend.
        """
        if not self.is_estimated:
            return self._solve_one(stack, slice(None), (alphas, similarities), options)
        tasks = [
            partial(self._solve_one, stack, slice(k, k + 1), (alphas, similarities), options)
            for k in range(stack.shape[-1])
        ]
        # On a device the problems are merged into one stack, and parallel jobs would only compete for it.
        if on_device() or effective_n_jobs(n_jobs) == 1:
            parts = together_on_device(tasks)
        else:
            parts = Parallel(n_jobs=n_jobs)(delayed(task)() for task in tasks)
        return [Solution.join(pieces) for pieces in zip(*parts, strict=True)]

    def _solve_one(
        self, stack: Stack, columns: slice, grids: tuple[np.ndarray, np.ndarray], options: SolverOptions
    ) -> list[Solution]:
        """Solve some columns, which have the same noise."""
        names = ["sample_weight", "alpha", "group_weights", "similarity"] + ["ridge"] * (stack.ridge is not None)
        part = replace(stack, **{name: getattr(stack, name)[..., columns] for name in names})
        white = self.white(columns.start or 0)
        alphas, similarities = (grid[..., columns] for grid in grids)
        if stack.penalty.is_norm:
            return self._widened(solve(self._beside_a_norm(part, white), alphas, options, similarities))
        X = np.array(part.X)
        with few_threads(X):
            # Padded trials have weight 0 and stay as they are.
            for own, rows, coordinates in zip(X[0], self.data.subjects.rows, white, strict=True):
                own[: len(rows)] = coordinates.trials(own[: len(rows)])
        solutions = solve(replace(part, X=X), alphas, options, similarities)
        return _restored(solutions, white)

    def last(self, stack: Stack) -> Stack:
        """Return the last problem of a stack with this noise, on the features that it covers; for norms."""
        return self._beside_a_norm(stack.last(), self.white(-1))

    def _beside_a_norm(self, stack: Stack, white: list[White]) -> Stack:
        """Beside a norm, N is the metric of the similarity and the ridge term, on the features that it covers."""
        kept = np.isin(np.arange(self.groups.n_groups), self.groups.index[self.features])
        return replace(
            stack,
            X=stack.X[..., self.features],
            groups=stack.groups.only(kept),
            group_weights=stack.group_weights[:, kept],
            metric=join_metrics([coordinates.metric for coordinates in white], axis=1),
        )

    def _widened(self, solutions: list[Solution]) -> list[Solution]:
        """Return solutions with coefficients, all zero, of the features that N does not cover."""
        out = []
        for solution in solutions:
            W = np.zeros((*solution.W.shape[:2], self.groups.n_features, solution.W.shape[-1]))
            W[:, :, self.features] = solution.W
            out.append(replace(solution, W=W))
        return out


def solve_joint(
    noise: JointNoise | None,
    stack: Stack,
    alphas: np.ndarray,
    options: SolverOptions,
    similarities: np.ndarray,
    n_jobs: int | None = None,
) -> list[Solution]:
    """Solve joint problems, B = 1, with noise or without, at alphas and similarities (A, 1, K)."""
    if noise is None:
        return solve(stack, alphas, options, similarities, n_jobs)
    return noise.solve(stack, alphas, options, similarities, n_jobs)


def by_subject(noise, labels: Sequence, n_features: int) -> list[Given]:
    """Return the noise of every subject, from one name or matrix for all or a dict by subject."""
    if isinstance(noise, dict):
        unknown = [label for label in noise if label not in labels]
        if unknown:
            raise ValueError(
                f"noise contains the unknown subject {unknown[0]!r}; available: {', '.join(map(repr, labels))}."
            )
        missing = [label for label in labels if label not in noise]
        if missing:
            raise ValueError(
                f"noise is a dict without subject {missing[0]!r}: give a name or a matrix for each subject."
            )
        given = [as_noise(noise[label]) for label in labels]
        empty = [label for label, each in zip(labels, given, strict=True) if each is None]
        if empty:
            raise ValueError(
                f"noise is None for subject {empty[0]!r}: give every subject a name or a matrix, or set noise=None."
            )
    else:
        given = [as_noise(noise)] * len(labels)
    for each in given:
        check_noise(each, n_features)
    return given


def symmetric_estimate(
    name: str, X: np.ndarray, signs: np.ndarray, weights: np.ndarray, layout: np.ndarray | None
) -> SymmetricMetric | KroneckerMetric:
    """Estimate the noise as a metric with a symmetric root; parameters as in `mixnorm.noise.estimate`."""
    # Symmetric roots do not depend on the order of the features. With Cholesky factors the v_t of subjects would be in
    # coordinates of their own and could not be compared.
    if name == "kronecker":
        return estimate(name, X, signs, weights, layout)
    return SymmetricMetric.of_covariance(covariance(name, X, signs, weights, layout))


def _of_matrix(given: np.ndarray, features: np.ndarray) -> SymmetricMetric:
    own = given[np.ix_(features, features)]
    check_positive_definite(own)
    return SymmetricMetric.of_covariance(own)


def _restored(solutions: list[Solution], white: list[White]) -> list[Solution]:
    """Return solutions of whitened problems with the coefficients of the trials as they are."""
    W = np.stack([s.W[0] for s in solutions])  # (A, T, d, K)
    A, _, d, K = W.shape
    for t, coordinates in enumerate(white):
        # one product for all alphas and problems of a subject
        flat = W[:, t].transpose(1, 0, 2).reshape(d, A * K)
        W[:, t] = coordinates.coefficients(flat).reshape(d, A, K).transpose(1, 0, 2)
    return [replace(s, W=w[None]) for s, w in zip(solutions, W, strict=True)]
