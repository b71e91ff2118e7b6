r"""What a new subject takes over from known subjects: their mean classifier, and how a distance from it is measured.

Without noise a new subject is regularised towards the mean w̄ of the w_t, by the covariance of the known subjects'
trials (`new_subject_metric`). With noise (`mixnorm.subjects.noise`) it is regularised towards the mean v̄ of
v_t = R_t w_t, in the coordinates where its own noise is white: strength ‖R w − v̄‖². The noise of the new subject is
estimated from its own trials, with labels or without, and averaged with the mean over the known subjects,

    N = (n N_own + n₀ N̄) / (n + n₀)

for n trials; without any trial N = N̄. A small n₀ is better where the noise differs much between subjects, a large one
where the response is weak; a rehearsal among the known subjects decides (`mixnorm.subjects.rehearsal`). What
``noise="evoked"`` says of the response needs labels; without them it is that of the known subjects
(`ExpectedResponse`).
"""

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from mixnorm.core.groups import Groups
from mixnorm.core.metric import DenseMetric, Metric, SymmetricMetric
from mixnorm.estimators.objective import Objective
from mixnorm.noise import covariance, layout_for
from mixnorm.noise.white import scaled
from mixnorm.subjects.adaptation import AdaptationProblem
from mixnorm.subjects.noise import JointNoise, White

#: n₀, the number of trials for which the mean noise of the known subjects counts, without a rehearsal; and the values
#: that a rehearsal chooses from. The first is better on two of three data sets, the second on the third
#: (benchmarks/many_subjects.md).
TRIALS_OF_MEAN = 2.0
CHOICES_OF_TRIALS = (TRIALS_OF_MEAN, 20.0)
#: With ℓ2 the classifier of a subject is about R⁻¹ (δ + (2 strength/alpha) δ̄) for a large alpha, δ being the
#: difference of its class means and δ̄ the mean one. Ratios up to some hundreds are needed with few trials.
ALPHAS_IN_UNIT = 5.0


@dataclass(frozen=True, eq=False)
class Placed:
    """The problem of one subject, regularised towards the mean of others.

    Attributes
    ----------
    problem : AdaptationProblem
        In white coordinates where ``white`` is given.
    white : White or None
    by_own_trials : bool
        Whether the subject's own trials have a part in what it is regularised towards.
    """

    problem: AdaptationProblem
    white: White | None = None
    by_own_trials: bool = False

    @property
    def center(self) -> np.ndarray:
        """The classifier w (d,) that the subject is regularised towards."""
        return self.restored(self.problem.center)

    def restored(self, w: np.ndarray) -> np.ndarray:
        """Return the coefficients (d,) of the trials as they are."""
        return w if self.white is None else self.white.coefficients(w[:, None])[:, 0]


def new_subject_alpha(alpha: float, objective: Objective, n_subjects: int) -> float:
    """Return the alpha of a new subject's problem with noise.

    In a joint problem the loss of one of T subjects counts 1/T. With ℓ2 a new subject has the penalty of the joint
    problem, so that alpha is multiplied by T; beside a norm, which selects sensors for all, it is not.
    """
    return alpha * n_subjects if objective.penalty == "l2" else alpha


class Prior(Protocol):
    """What known subjects hand over to another one."""

    def place(self, problem: AdaptationProblem, X: np.ndarray, signs: np.ndarray | None) -> Placed:
        """Return a problem with its centre and metric, given trials X (n, d) and their signs or None."""


@dataclass(frozen=True, eq=False)
class PlainPrior:
    """The mean classifier w̄ (d,), and the metric of the distance from it; None: the identity."""

    coef: np.ndarray
    metric: Metric | None = None

    def place(self, problem: AdaptationProblem, X: np.ndarray, signs: np.ndarray | None) -> Placed:
        """Regularise towards w̄; the trials have no part in it."""
        return Placed(replace(problem, center=self.coef, metric=self.metric))


@dataclass(frozen=True, eq=False)
class ExpectedResponse:
    r"""What known subjects say of the response of one whose trials have no labels, for ``noise="evoked"``.

    That noise is M_t = N_t^½ P_t N_t^½. N_t is the structured noise. P_t, the penalty in coordinates where N_t is
    white, is smaller where the subject has its response (`mixnorm.noise.evoked`). Trials without labels show N alone.
    In these coordinates responses are alike, so that P is taken over: M = N^½ P̄ N^½, scaled to a mean diagonal of 1.

    Attributes
    ----------
    noise : ndarray of shape (m, m)
        N̄, the mean of the N_t.
    penalty : ndarray of shape (m, m)
        P̄, the mean of the P_t.
    """

    noise: np.ndarray
    penalty: np.ndarray

    @classmethod
    def of(cls, noise: JointNoise) -> "ExpectedResponse | None":
        """Return what the last of some joint problems says; None if its noise knows of no response."""
        if any(not isinstance(name, str) or name != "evoked" for name in noise.given):
            return None
        structured, everything = noise.covariances("structured", -1), np.arange(len(noise.features))
        penalties = []
        for N, own in zip(structured, noise.white(-1), strict=True):
            white = SymmetricMetric.of_covariance(N)
            # from both sides: P = N^−½ M N^−½
            penalties.append(white.whiten(white.whiten(own.metric.gram(everything)[0, 0]).T))
        return cls(np.mean(structured, axis=0), np.mean(penalties, axis=0))

    def beside(self, N: np.ndarray) -> np.ndarray:
        """Return M (m, m) of a subject with the structured noise N."""
        root = SymmetricMetric.of_covariance(N).root[0, 0]
        return scaled(root @ self.penalty @ root)


@dataclass(frozen=True, eq=False)
class NoisePrior:
    """The mean v̄ of known subjects in white coordinates, and the mean of their noise.

    Attributes
    ----------
    coef : ndarray of shape (d,)
        v̄.
    mean_noise : ndarray of shape (m, m)
        N̄ on the features that N covers.
    features : ndarray of shape (m,)
    groups : Groups
    noise : str or None
        Name of the estimate; None: the noise of a new subject is N̄.
    trials_of_mean : float
        n₀.
    response : ExpectedResponse or None
        For trials without labels; None: they are treated as trials without a response.
    """

    coef: np.ndarray
    mean_noise: np.ndarray
    features: np.ndarray
    groups: Groups
    noise: str | None
    trials_of_mean: float = TRIALS_OF_MEAN
    response: ExpectedResponse | None = None

    @classmethod
    def of(cls, noise: JointNoise, W: np.ndarray) -> "NoisePrior":
        """Return what the last of some joint problems hands over, given its solution W (T, d)."""
        white = noise.white(-1)
        coef = np.mean([own.apply(w[:, None])[:, 0] for own, w in zip(white, W, strict=True)], axis=0)
        everything = np.arange(len(noise.features))
        mean_noise = np.mean([own.metric.gram(everything)[0, 0] for own in white], axis=0)
        # subjects whose noise was given, or estimated in different ways, do not say how that of another is estimated
        names = {name if isinstance(name, str) else None for name in noise.given}
        return cls(coef, mean_noise, noise.features, noise.groups, names.pop() if len(names) == 1 else None)

    def place(self, problem: AdaptationProblem, X: np.ndarray, signs: np.ndarray | None) -> Placed:
        """Regularise towards v̄ in the coordinates where the noise of trials X is white."""
        metric = SymmetricMetric.of_covariance(self._noise_of(X, signs))
        white = White(metric, self.features)
        # ℓ2 is solved in white coordinates, where the centre is v̄ itself. A norm acts on w, and needs a centre of w.
        if problem.objective.penalty == "l2":
            trials = replace(problem.trials, matrix=white.trials(problem.trials.matrix))
            placed = replace(problem, trials=trials, center=self.coef, metric=None, alphas_in_unit=ALPHAS_IN_UNIT)
            return Placed(placed, white, by_own_trials=True)
        center, metric = self._center_and_metric(metric, problem.usable)
        return Placed(replace(problem, center=center, metric=metric), by_own_trials=True)

    def _noise_of(self, X: np.ndarray, signs: np.ndarray | None) -> np.ndarray:
        """Return N (m, m) of trials X (n, d), and their classes where they are known."""
        n, own = len(X), X[:, self.features]
        if self.noise is None or n < 2 or not np.ptp(own, axis=0).any():
            return self.mean_noise
        # about the class means, where there are at least two trials of each; else about the mean of all
        few = signs is None or min((signs > 0).sum(), (signs < 0).sum()) < 2
        covered = np.isin(np.arange(self.groups.n_groups), self.groups.index[self.features])
        layout = layout_for(self.noise, self.groups.only(covered))
        if few and self.response is not None:
            N = covariance("structured", own, np.ones(n), np.ones(n), layout)
            return self.response.beside(self._averaged(N, self.response.noise, n))
        N = covariance(self.noise, own, np.ones(n) if few else signs, np.ones(n), layout)
        return self._averaged(N, self.mean_noise, n)

    def _averaged(self, own: np.ndarray, mean: np.ndarray, n: int) -> np.ndarray:
        """Return the average of the noise of n own trials and of the mean over known subjects, which counts n₀."""
        return (n * own + self.trials_of_mean * mean) / (n + self.trials_of_mean)

    def _center_and_metric(self, metric: Metric, usable: np.ndarray) -> tuple[np.ndarray, DenseMetric | None]:
        """Return the w (d,) with the least ‖R w − v̄‖² over the usable features (a mask (d,)), and N on them."""
        kept, center = np.flatnonzero(usable[self.features]), np.zeros(len(self.coef))
        if not len(kept):
            return center, None
        N, slope = metric.gram(kept)[0, 0], metric.adjoint(self.coef[None, None, self.features, None])[0, 0, kept, 0]
        center[self.features[kept]] = np.linalg.solve(N, slope)
        return center, DenseMetric.of_covariance(N)
