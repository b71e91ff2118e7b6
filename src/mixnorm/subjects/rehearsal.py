r"""Leave-one-subject-out trial of adaptation on the known subjects (``rehearse=True``).

A new subject with few calibration trials cannot choose its strength of regularisation reliably by cross-validation.
The known subjects show which strengths work: each of them is left out of the joint problem, which is solved again at
the chosen alpha and similarity; it is then adapted to the mean of the others with a few of its trials
(`AdaptationProblem`), and tested on its remaining trials. With many subjects, several are left out at a time.

The result is a small table: for several numbers of calibration trials and every strength, the AUC minus the AUC at
strength ∞, as a mean over subjects. With noise the rehearsal also chooses how much the mean noise of the known
subjects counts beside that of a new subject (`mixnorm.subjects.prior`). Only this is stored with the model, not the
trials.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from mixnorm.estimators.cross_validation import auc
from mixnorm.estimators.objective import Objective
from mixnorm.estimators.svc import TO_THE_USER
from mixnorm.execution import SolverOptions
from mixnorm.subjects.adaptation import STRENGTHS, AdaptationProblem
from mixnorm.subjects.classifier import SubjectTrials
from mixnorm.subjects.joint import joint_stack
from mixnorm.subjects.new_subject_metric import new_subject_metric, within_covariance
from mixnorm.subjects.noise import JointNoise, solve_joint
from mixnorm.subjects.prior import (
    CHOICES_OF_TRIALS,
    TRIALS_OF_MEAN,
    NoisePrior,
    Placed,
    PlainPrior,
    Prior,
    new_subject_alpha,
)

#: Largest number of parts that the subjects are divided into; the joint problem is solved once for each part. With
#: fewer parts more subjects are left out at a time. The mean of the others is then over fewer subjects than the mean
#: that a new subject is regularised towards, and the best strengths would be underestimated.
_PARTS = 12
#: Number of random draws of calibration trials for every subject and every number of trials.
_DRAWS = 2
#: Smallest number of calibration trials, and largest ratio between two consecutive numbers.
_FEWEST, _RATIO = 12, 3
#: Numbers of trials from which the noise of a subject is estimated, to choose n₀, the weight of the mean noise.
_NOISE_SIZES = (6.0, 12.0, 36.0)
#: Relative gap of the joint problem at which its mean classifier is accurate enough to compare AUCs.
_TOL = 1e-3
#: AUC of a classifier that knows nothing.
CHANCE = 0.5

#: Returns the weights (n,) of the trials in a mask (n,), class weights included.
Weigh = Callable[[SubjectTrials, np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """The joint problem of the known subjects, from which they are left out in turn.

    ``group_weights`` is β (G,) of the fitted model; with the adaptive norm, that of its second stage.
    """

    objective: Objective
    options: SolverOptions
    data: SubjectTrials
    group_weights: np.ndarray
    alpha: float
    similarity: float
    weigh: Weigh
    noise: str | np.ndarray | dict | None = None

    def run(self) -> "Rehearsed | None":
        """Return the gains of all strengths, and how well the classifiers of the others transfer; None without any.

        At least three subjects are needed, so that two remain for a joint problem, and enough trials of some subject
        for both calibration and test.
        """
        labels = self.data.subjects.labels
        if len(labels) < 3:
            return None
        sizes = _sizes([len(rows) for rows in self.data.subjects.rows])
        found: list[list[np.ndarray]] = [[] for _ in sizes]
        transferred = []
        known = self._left_out()
        trials_of_mean = self._trials_of_mean(known)
        for own, others in known:
            aucs = [self._aucs_of(own, others.with_trials_of_mean(trials_of_mean), size) for size in sizes]
            for gains, each in zip(found, aucs, strict=True):
                gains += [one - one[0] for one in each]
            transferred += [np.mean([one[0] for each in aucs for one in each])] if any(aucs) else []
        kept = [m for m, gains in enumerate(found) if gains]
        if not kept:
            return None
        gains = np.stack([np.mean(found[m], axis=0) for m in kept])
        return Rehearsed(sizes[kept], gains, np.array(transferred), trials_of_mean)

    def _left_out(self) -> list[tuple[SubjectTrials, "_Others"]]:
        """Return the trials of every subject, and what the remaining ones hand over when it is left out."""
        labels, found = self.data.subjects.labels, []
        n_parts = min(_PARTS, len(labels))
        # Every n-th subject: parts of equal size, whatever the order in which the subjects were recorded.
        for left_out in (labels[part::n_parts] for part in range(n_parts)):
            others = self._others(self.data.take([label for label in labels if label not in left_out]))
            found += [(self.data.take([label]), others) for label in left_out]
        return found

    def _trials_of_mean(self, known: list[tuple[SubjectTrials, "_Others"]]) -> float:
        """Return the n₀ with the best AUC of strength ∞ over subjects and numbers of trials; the first of equals."""
        if not isinstance(known[0][1].prior, NoisePrior) or known[0][1].prior.noise is None:
            return TRIALS_OF_MEAN
        aucs = []
        for own, others in known:
            for mask in (mask for size in _NOISE_SIZES for mask in _draws(own.signs, own.weights > 0, size)):
                rest = ~mask & (own.weights > 0)
                placed = [self._placed(own, others.with_trials_of_mean(count), mask) for count in CHOICES_OF_TRIALS]
                W = np.stack([each.center for each in placed], axis=1)
                aucs.append(auc(own.signs[rest], own.trials.matrix[rest] @ W))
        return CHOICES_OF_TRIALS[int(np.argmax(np.mean(aucs, axis=0)))] if aucs else TRIALS_OF_MEAN

    def _others(self, others: SubjectTrials) -> "_Others":
        """Solve the joint problem of the remaining subjects and return what they hand over."""
        weights = self.weigh(others, np.ones(len(others.signs), dtype=bool))
        stack = joint_stack(self.objective, others.trials, others.signs, weights[:, None], others.subjects)
        stack = replace(stack, group_weights=self.group_weights[None, :, None])
        given = self.noise
        # A dict by subject must not name those that are left out.
        if isinstance(given, dict):
            given = {label: given[label] for label in others.subjects.labels}
        noise = JointNoise.of(given, stack, others, others.weights[:, None])
        options = replace(self.options, tol=max(self.options.tol, _TOL))
        cell = np.full((1, 1, 1), self.alpha), options, np.full((1, 1, 1), self.similarity)
        W = solve_joint(noise, stack, *cell)[0].W
        chosen = (stack.groups.to_blocks(W) != 0).any(axis=2)[0, :, 0]
        beta, W = np.where(chosen, self.group_weights, np.inf), W[0, :, :, 0]
        if noise is not None:
            return _Others(NoisePrior.of(noise, W), beta, new_subject_alpha(self.alpha, self.objective, len(W)))
        metric = new_subject_metric(within_covariance(stack, np.flatnonzero(chosen[stack.groups.index])))
        return _Others(PlainPrior(W.mean(axis=0), metric), beta, self.alpha)

    def _aucs_of(self, own: SubjectTrials, others: "_Others", size: float) -> list[np.ndarray]:
        """Return the AUCs (S,) of one subject in every draw of ``size`` trials; an empty list if it has too few.

        All strengths are solved, also those that are seldom the best: what is lost with them is what keeps a new
        subject, whose own trials are too few to tell, from choosing them.
        """
        found = []
        for mask in _draws(own.signs, own.weights > 0, size):
            problem = self._placed(own, others, mask).problem
            W, _ = problem.solve(self.weigh(own, mask)[:, None], problem.unit * STRENGTHS)
            rest = ~mask & (own.weights > 0)
            found.append(auc(own.signs[rest], problem.trials.matrix[rest] @ W[:, :, 0].T))
        return found

    def _placed(self, own: SubjectTrials, others: "_Others", mask: np.ndarray) -> Placed:
        """Return the problem of a subject, regularised towards the others in the noise of the trials in a mask."""
        problem = AdaptationProblem(
            self.objective,
            self.options,
            own.trials,
            own.signs,
            center=np.zeros(own.trials.matrix.shape[1]),  # `place` sets it
            alpha=others.alpha,
            group_weights=others.group_weights,
            rough=True,
        )
        return others.prior.place(problem, own.trials.matrix[mask], own.signs[mask])


@dataclass(frozen=True, eq=False)
class Rehearsed:
    """What a rehearsal found.

    Attributes
    ----------
    sizes : ndarray of shape (M,)
        Numbers of calibration trials.
    gains : ndarray of shape (M, S)
        AUC of every strength minus that of strength ∞, as a mean over subjects.
    transferred : ndarray of shape (T,)
        AUC of strength ∞, the classifier of the others, on every subject left out.
    trials_of_mean : float
        n₀, for how many trials the mean noise of the known subjects counts.
    """

    sizes: np.ndarray
    gains: np.ndarray
    transferred: np.ndarray
    trials_of_mean: float

    def warn_of_chance(self) -> None:
        """Warn if the classifiers of other subjects are at chance level, within one standard error, or below it."""
        mean, n = self.transferred.mean(), len(self.transferred)
        error = self.transferred.std(ddof=1) / np.sqrt(n) if n > 1 else 0.0
        if mean - error <= CHANCE:
            warnings.warn(
                f"Classifiers do not transfer between these subjects: on a subject that was left out, the mean of the "
                f"others has an AUC of {mean:.3f} ± {error:.3f} ({n} subjects), which is not above chance level "
                f"({CHANCE}). Check the labels of each subject; give a new subject calibration trials of its own.",
                UserWarning,
                stacklevel=TO_THE_USER + 1,
            )


@dataclass(frozen=True, eq=False)
class _Others:
    """What the remaining subjects hand over: their prior, β (G,) of their sensors, and alpha of another subject."""

    prior: Prior
    group_weights: np.ndarray
    alpha: float

    def with_trials_of_mean(self, trials_of_mean: float) -> "_Others":
        """Return the same with another n₀; without noise there is none."""
        if not isinstance(self.prior, NoisePrior):
            return self
        return replace(self, prior=replace(self.prior, trials_of_mean=trials_of_mean))


def expected_gains(sizes: np.ndarray, gains: np.ndarray, n_trials: int) -> np.ndarray:
    """Return the gain (S,) of every strength for ``n_trials`` trials, interpolated in the logarithm of their number.

    Outside the range of ``sizes``, the gain of a strength is that of the strength with the same product of strength
    and number of trials at the nearest size. The loss is a mean over trials, so that at equal products the ratio of
    the regularisation to the sum of the losses is the same.
    """
    nearest = np.clip(n_trials, sizes[0], sizes[-1])
    row = np.array([np.interp(np.log(nearest), np.log(sizes), column) for column in gains.T])
    # For the interpolation ∞ is placed one decade above the largest finite strength. The strength 0 keeps its gain.
    places = np.log10(np.concatenate([10 * STRENGTHS[1:2], STRENGTHS[1:-1]]))
    moved = np.interp(-(places + np.log10(n_trials / nearest)), -places, row[:-1])
    return np.concatenate([row[:1], moved[1:], row[-1:]])


def _sizes(counts: list[int]) -> np.ndarray:
    """Numbers of calibration trials, log-spaced up to two thirds of the median number of trials per subject."""
    top = 2 / 3 * float(np.median(counts))
    if top <= _FEWEST:
        return np.array([top])
    return np.geomspace(_FEWEST, top, 1 + int(np.ceil(np.log(top / _FEWEST) / np.log(_RATIO))))


def _draws(signs: np.ndarray, usable: np.ndarray, size: float) -> list[np.ndarray]:
    """Draw about ``size`` trials, stratified by class; return masks (n,).

    At least two trials of each class are drawn and at least two are left for the test; if that is impossible, the list
    is empty.
    """
    members = [np.flatnonzero(usable & (signs == sign)) for sign in (-1, 1)]
    takes = [max(2, round(size * len(own) / usable.sum())) for own in members]
    if any(len(own) - take < 2 for own, take in zip(members, takes, strict=True)):
        return []
    # A fixed seed: the same trials must give the same model.
    rng, masks = np.random.default_rng(0), []
    for _ in range(_DRAWS):
        drawn = np.concatenate([rng.permutation(own)[:take] for own, take in zip(members, takes, strict=True)])
        masks.append(np.isin(np.arange(len(signs)), drawn))
    return masks
