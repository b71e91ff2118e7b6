r"""Known subjects rehearse being newcomers, so that a real one need not choose its strength from a handful of trials.

The subjects are parted; each part is left out of the joint problem, solved again at the chosen alpha and similarity,
and every subject left out is then drawn to the mean of the others with a few of its trials (`Leaning`), and tested on
its other trials. What comes of it is a small table: the AUC that each strength gained over strength ∞, the mean over
subjects, for a growing number of calibration trials. It travels with the model; nobody's trials do.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from mixnorm.core.groups import Groups
from mixnorm.core.metric import Metric
from mixnorm.estimators.folds import auc
from mixnorm.estimators.objective import Objective
from mixnorm.execution import SolverOptions, solve
from mixnorm.subjects.adaptation import STRENGTHS, Leaning, n_worth_trying
from mixnorm.subjects.alignment import aligned, new_subjects_center_and_metric
from mixnorm.subjects.classifier import SubjectTrials
from mixnorm.subjects.joint import joint_stack
from mixnorm.subjects.pull import pull_metric, within_covariance

#: Most parts that the subjects are divided into: the joint problem is solved this often again. With fewer, subjects
#: rehearse with fewer others than a newcomer will have, and learn to lean on them less than is right.
_PARTS = 12
#: Times that the calibration trials of every subject and number are drawn.
_DRAWS = 2
#: Smallest number of calibration trials, and the largest ratio of one number to the one before.
_FEWEST, _RATIO = 12, 3
#: Relative gap of the joint problem that is small enough to be drawn to its mean classifier.
_TOL = 1e-3

#: Weights (n,) of the trials in a mask (n,), with those of their classes.
Weigh = Callable[[SubjectTrials, np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """The joint problem that is rehearsed: its method, trials, β (G,), alpha, similarity, weights of trials, align."""

    objective: Objective
    options: SolverOptions
    data: SubjectTrials
    group_weights: np.ndarray
    alpha: float
    similarity: float
    weigh: Weigh
    align: bool = False

    def gains(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return numbers of calibration trials (M,) and the mean gains (M, S); None where nobody can rehearse.

        That takes three subjects, so that two are left to share, and some sensor selected without each part.
        """
        labels = self.data.subjects.labels
        if len(labels) < 3:
            return None
        sizes = _sizes([len(rows) for rows in self.data.subjects.rows])
        found = [[] for _ in sizes]
        n_parts = min(_PARTS, len(labels))
        for left_out in (labels[part::n_parts] for part in range(n_parts)):
            others = self.data.take([label for label in labels if label not in left_out])
            mean = self._mean_classifier(others)
            for label in left_out:
                for gains, size in zip(found, sizes):
                    gains += self._gains_of(self.data.take([label]), mean, size)
        kept = [m for m, gains in enumerate(found) if gains]
        if not kept:
            return None
        return sizes[kept], np.stack([np.mean(found[m], axis=0) for m in kept])

    def _mean_classifier(self, others: SubjectTrials) -> "_Mean":
        """Solve the joint problem of some."""
        weights = self.weigh(others, np.ones(len(others.signs), dtype=bool))
        stack = joint_stack(self.objective, others.trials, others.signs, weights[:, None], others.subjects)
        stack = replace(stack, group_weights=self.group_weights[None, :, None])
        if self.align:
            stack = aligned(stack, others)
        options = replace(self.options, tol=max(self.options.tol, _TOL))
        W = solve(stack, np.full((1, 1, 1), self.alpha), options, np.full((1, 1, 1), self.similarity))[0].W
        chosen = (stack.groups.to_blocks(W) != 0).any(axis=2)[0, :, 0]
        mean, beta = W[0, :, :, 0].mean(axis=0), np.where(chosen, self.group_weights, np.inf)
        if self.align:
            aligned_mean = stack.metric.apply(W)[0, :, :, 0].mean(axis=0)
            return _Mean(mean, beta, aligned_coef=aligned_mean, groups=stack.groups)
        return _Mean(mean, beta, pull_metric(within_covariance(stack, np.flatnonzero(chosen[stack.groups.index]))))

    def _gains_of(self, own: SubjectTrials, mean: "_Mean", size: float) -> list[np.ndarray]:
        """Return the gains (S,) of one subject in every draw of so many trials; none where it has too few.

        Strengths that are not worth trying take the gain of the last one that is.
        """
        tried, found = n_worth_trying(size), []
        for mask in _draws(own.signs, own.weights > 0, size):
            center, metric = mean.drawn_to(own.trials.matrix[mask])
            how = self.objective, self.options, own.trials, own.signs
            problem = Leaning(*how, center, self.alpha, mean.group_weights, metric, rough=True)
            W, _ = problem.solve(self.weigh(own, mask)[:, None], problem.unit * STRENGTHS[:tried])
            rest = ~mask & (own.weights > 0)
            aucs = auc(own.signs[rest], own.trials.matrix[rest] @ W[:, :, 0].T)
            found.append(np.pad(aucs - aucs[0], (0, len(STRENGTHS) - tried), mode="edge"))
        return found


@dataclass(frozen=True, eq=False)
class _Mean:
    """The mean classifier w̄ (d,) of some subjects, with β (G,), ∞ for the sensors that they left out.

    And M of the pull to it; or v̄ (d,) and the sensors, where they are aligned and each newcomer's own trials give M.
    """

    coef: np.ndarray
    group_weights: np.ndarray
    metric: Metric | None = None
    aligned_coef: np.ndarray | None = None
    groups: Groups | None = None

    def drawn_to(self, X: np.ndarray) -> tuple[np.ndarray, Metric | None]:
        """What a newcomer with trials X (n, d) is drawn to, (d,), and by which M."""
        found = None
        if self.aligned_coef is not None:
            usable = np.isfinite(self.group_weights)[self.groups.index]
            found = new_subjects_center_and_metric(X, self.groups, self.aligned_coef, usable)
        return (self.coef, self.metric) if found is None else found


def expected_gains(sizes: np.ndarray, gains: np.ndarray, n_trials: int) -> np.ndarray:
    """Return the gain (S,) of every strength for so many trials, interpolated in their logarithm.

    Beyond the numbers that were rehearsed, a strength is taken to gain what the one with the same strength × trials
    gained at the nearest of them: loss and pull then have the same proportion in sums over trials.
    """
    nearest = np.clip(n_trials, sizes[0], sizes[-1])
    row = np.array([np.interp(np.log(nearest), np.log(sizes), column) for column in gains.T])
    # ∞ stands one decade above the largest finite strength; 0 is the last and stays what it is.
    places = np.log10(np.concatenate([10 * STRENGTHS[1:2], STRENGTHS[1:-1]]))
    moved = np.interp(-(places + np.log10(n_trials / nearest)), -places, row[:-1])
    return np.concatenate([row[:1], moved[1:], row[-1:]])


def _sizes(counts: list[int]) -> np.ndarray:
    """Numbers of calibration trials, log-spaced up to two thirds of what the median subject has."""
    top = 2 / 3 * float(np.median(counts))
    if top <= _FEWEST:
        return np.array([top])
    return np.geomspace(_FEWEST, top, 1 + int(np.ceil(np.log(top / _FEWEST) / np.log(_RATIO))))


def _draws(signs: np.ndarray, usable: np.ndarray, size: float) -> list[np.ndarray]:
    """Draw about so many trials, classes in proportion and two of each at least, as many left; masks (n,)."""
    members = [np.flatnonzero(usable & (signs == sign)) for sign in (-1, 1)]
    takes = [max(2, round(size * len(own) / usable.sum())) for own in members]
    if any(len(own) - take < 2 for own, take in zip(members, takes)):
        return []
    rng, masks = np.random.default_rng(0), []
    for _ in range(_DRAWS):
        drawn = np.concatenate([rng.permutation(own)[:take] for own, take in zip(members, takes)])
        masks.append(np.isin(np.arange(len(signs)), drawn))
    return masks
