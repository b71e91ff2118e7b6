"""The choice of a model from a grid of cross-validated scores."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from mixnorm.core.intercept import polish
from mixnorm.core.problem import Solution, Stack

#: Mean scores that differ by at most this much are equal, because rounding errors can be that large. Of equal scores
#: the sparser model is chosen.
EQUAL = 1e-12


@dataclass(frozen=True, eq=False)
class Choice:
    """A solved and scored grid of alphas.

    Attributes
    ----------
    stack : Stack
        The problems of the folds and, as the last one, of the refit on all trials.
    alphas : ndarray of shape (A,)
    solutions : list of A Solution
    scores : ndarray of shape (A, folds)
    n_selected : ndarray of shape (A,)
        Number of sensors that the refit selects.
    zero_score : float or None
        Mean score of models of the folds without any sensor; None: not needed.
    """

    stack: Stack
    alphas: np.ndarray
    solutions: list[Solution]
    scores: np.ndarray
    n_selected: np.ndarray
    zero_score: float | None = None

    @classmethod
    def scored(
        cls,
        stack: Stack,
        alphas: np.ndarray,
        solutions: list[Solution],
        score: Callable[[list[Solution]], np.ndarray],
    ) -> "Choice":
        """Score a solved grid; ``score`` returns the scores (A, folds) of A solutions."""
        found = cls(stack, alphas, solutions, score(solutions), count_selected(stack, solutions))
        if not found.zero_refit.any():
            return found
        W, b, _ = polish(stack, *stack.start())
        return replace(found, zero_score=float(score([replace(solutions[0], W=W, b=b)]).mean()))

    @property
    def zero_refit(self) -> np.ndarray:
        """Where the refit selects nothing although the model of a fold does, (A,): the score is not that of the refit.

        A grid starts at alpha_max of all trials. That of a fold, which has fewer trials, is mostly larger.
        """
        if not self.solutions:
            return np.zeros(len(self.alphas), dtype=bool)
        by_folds = np.array([bool(s.W[..., :-1].any()) for s in self.solutions])
        return (self.n_selected == 0) & by_folds


def check_rule(rule, max_sensors, allowed: tuple[str, ...] = ("best", "1se")) -> None:
    """Raise an error for an unknown rule or an invalid number of sensors."""
    if rule not in allowed:
        names = ", ".join(map(repr, allowed[:-1])) + f" and {allowed[-1]!r}"
        raise ValueError(
            f"Invalid value for the 'rule' parameter. Allowed values are {names}, but got {rule!r} instead."
        )
    if max_sensors is not None and not (isinstance(max_sensors, int | np.integer) and max_sensors >= 0):
        raise ValueError(f"max_sensors must be a whole number from 0, or None, but got {max_sensors!r}.")


def count_selected(stack: Stack, solutions: list[Solution]) -> np.ndarray:
    """Return the number of sensors that the last problem, the refit, selects in every solution, (A,)."""
    # The refit is the model that is kept; the models of the folds may select other sensors.
    blocks = np.stack([stack.groups.to_blocks(s.W[..., -1:])[0, :, :, 0] for s in solutions])
    return (blocks != 0).any(axis=2).sum(axis=1)


def choose(candidates: list[Choice], rule: str, max_sensors: int | None) -> tuple[int, int]:
    """Return the positions of the chosen grid and of the chosen alpha in it.

    "best": the best mean score, on equal scores the fewest sensors, then the largest alpha. "1se": among the models
    whose mean score is at most one standard error (of the best model's folds) below the best, the largest alpha of
    each grid, and among grids the fewest sensors. "centre": of those models the one whose indices in the grids are
    nearest to their mean. Where many models have nearly the same score, the best of them is a matter of chance and
    often lies at the edge of their region.

    A point at which the refit is the zero model, but not all models of folds are, is chosen only if the zero model
    scores better than every other point, by more than one standard error of the best of these: a model that gives
    every trial the same score would be chosen for the scores of models that do not.
    """
    means = np.stack([c.scores.mean(axis=1) for c in candidates])
    sensors = np.stack([c.n_selected for c in candidates])
    alphas = np.stack([c.alphas for c in candidates])
    # The limit applies before the rule: the best model is the best of those that may be used.
    allowed = np.ones_like(means, dtype=bool) if max_sensors is None else sensors <= max_sensors
    if not allowed.any():
        raise ValueError(
            f"No model of the grid has at most max_sensors={max_sensors} sensors (the sparsest has {sensors.min()}); "
            "add larger alphas."
        )
    zero_refit = np.stack([c.zero_refit for c in candidates])
    others = allowed & ~zero_refit
    if others.any():
        zero = max((c.zero_score for c in candidates if c.zero_score is not None), default=-np.inf)
        # With a weak response the scores of held-out trials vary around chance, and a zero model is of no use.
        reached = means[others].max() + _standard_error(candidates, means, others)
        allowed = others if reached >= zero - EQUAL else allowed & zero_refit
    best = means[allowed].max()
    if rule == "best":
        eligible = allowed & (means >= best - EQUAL)
    else:
        eligible = allowed & (means >= best - _standard_error(candidates, means, allowed) - EQUAL)
        if rule == "centre":
            return _middle(eligible, alphas)
        # Within a grid a larger alpha is the sparser model; between grids alphas do not compare, and sensors are
        # counted.
        largest = np.where(eligible, alphas, -np.inf)
        eligible &= largest == largest.max(axis=1, keepdims=True)
    # The last key counts most: eligible ones first, then the fewest sensors, then the largest alpha.
    order = np.lexsort((-alphas.ravel(), sensors.ravel(), ~eligible.ravel()))
    grid, alpha = np.unravel_index(order[0], means.shape)
    return int(grid), int(alpha)


def _standard_error(candidates: list[Choice], means: np.ndarray, allowed: np.ndarray) -> float:
    """Return the standard error over folds of the best of the allowed points, as in Breiman's rule; 0 for one fold."""
    grid, alpha = np.unravel_index(np.argmax(np.where(allowed, means, -np.inf)), means.shape)
    folds = candidates[grid].scores[alpha]
    return float(folds.std(ddof=1) / np.sqrt(len(folds))) if len(folds) > 1 else 0.0


def _middle(eligible: np.ndarray, alphas: np.ndarray) -> tuple[int, int]:
    """Return the eligible grid point nearest to the mean of all eligible ones, alphas by rank; the first of equals."""
    cells = np.argwhere(eligible)
    # By rank, because the alphas of two grids differ in scale but not in their number.
    ranks = np.argsort(np.argsort(-alphas, axis=1), axis=1)
    places = np.column_stack([cells[:, 0], ranks[tuple(cells.T)]])
    distance = np.sum((places - places.mean(axis=0)) ** 2, axis=1)
    grid, alpha = cells[np.argmin(distance)]
    return int(grid), int(alpha)


def warn_zero_choice(found: Choice, place: int, stacklevel: int) -> None:
    """Warn if the chosen model selects no sensor, and say what it means."""
    if found.n_selected[place]:
        return
    warnings.warn(
        f"The model chosen by cross-validation, with alpha={found.alphas[place]:.3g}, selects no sensor: all "
        "coefficients are zero, and the score of every trial is the same. The best mean score of held-out trials at "
        f"any alpha is {found.scores.mean(axis=1).max():.3g} (of the AUC, 0.5 is chance level). If that is no better "
        "than chance, check labels and events, or use more trials; otherwise use more or smaller alphas, or a larger "
        "max_sensors.",
        UserWarning,
        stacklevel=stacklevel,
    )
