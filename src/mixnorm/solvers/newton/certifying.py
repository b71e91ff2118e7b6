"""Certify what Newton's method found, and take up again what the certificate leaves open; the same in all engines.

A *cell* is one stack of a path: all problems at one alpha and similarity. The solver stops by its own estimate of the
gap; the certificate decides.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from mixnorm.core.arrays import Array, namespace, to_numpy, where_problems
from mixnorm.core.certificate import Certificate, certify, relative_gap
from mixnorm.core.problem import Solution, Stack
from mixnorm.solvers.newton.tuning import LOST
from mixnorm.solvers.sequence import side_by_side


class Reached(NamedTuple):
    """Points of the cells of a path: W (A, B, T, d, K), b (A, B, T, K), and the steps that they took, (A, B, K)."""

    W: Array
    b: Array
    n_iter: Array


class Attempt(NamedTuple):
    """Which problems of a path are taken up again.

    Attributes
    ----------
    place : int
        Their cell.
    open_ : ndarray of shape (B, K)
        The problems above tol that may still take steps.
    lost : ndarray of shape (B, K)
        Those of them that are far above tol at the first attempt: another start is more likely to help than more
        steps.
    goal : float
        The gap to reach, by the solver's estimate.
    """

    place: int
    open_: np.ndarray
    lost: np.ndarray
    goal: float


class Resume(Protocol):
    """How an engine takes up some problems of a cell again."""

    def __call__(self, attempt: Attempt, solution: Solution) -> Reached:
        """Go on from the solution of a cell; return points of all its problems, A = 1."""


def certified(cells: list[Stack], reached: Reached, at_once: int) -> Iterator[Solution]:
    """Certify the points of every cell, so many cells at a time: one product serves them all."""
    K = cells[0].shape[-1]
    for first in range(0, len(cells), at_once):
        some = slice(first, min(first + at_once, len(cells)))
        found = certify(
            side_by_side(cells[some]), _columns_last(reached.W[some, ...]), _columns_last(reached.b[some, ...])
        )
        for j in range(len(cells[some])):
            yield _solution(found, reached.n_iter[first + j, ...], slice(j * K, (j + 1) * K))


class Limits(NamedTuple):
    """When to stop: the relative gap to reach, and the most steps for one alpha."""

    tol: float
    max_iter: int


def closed(
    cells: list[Stack], solutions: list[Solution], resume: Resume, goals: tuple[float, ...], limits: Limits
) -> list[Solution]:
    """Take up again the problems that the certificate leaves open, to ever smaller goals, in units of tol."""
    if all(to_numpy(solution.gap <= limits.tol).all() for solution in solutions):
        return solutions
    found = []
    for place, (cell, solution) in enumerate(zip(cells, solutions, strict=True)):
        if cell.has_unpenalised and to_numpy(solution.gap > limits.tol).any():
            # Where sensors that are always kept separate the trials alone, no penalised one is needed, and no step is
            # short enough to get there.
            solution = better(solution, _solution(certify(cell, *cell.start()), solution.n_iter))
        for number, goal in enumerate(goals):
            open_ = is_open(solution, limits)
            if not open_.any():
                break
            lost = open_ & (number == 0) & to_numpy(solution.gap > LOST * limits.tol)
            (again,) = certified([cell], resume(Attempt(place, open_, lost, goal * limits.tol), solution), 1)
            solution = better(solution, again)
        found.append(solution)
    return found


def is_open(solution: Solution, limits: Limits) -> np.ndarray:
    """Problems above tol that may still take steps, a mask (B, K)."""
    return to_numpy((solution.gap > limits.tol) & (solution.n_iter < limits.max_iter))


def better(before: Solution, after: Solution) -> Solution:
    """Return the points of lower value, with the larger of both lower bounds of the optimum and the later steps.

    By its value, not by its gap: of two points without a certificate the lower one is the better model.
    """
    xp = namespace(before.gap)
    wins = (after.objective < before.objective) | ~xp.isfinite(before.gap)
    pairs = [(getattr(after, name), getattr(before, name)) for name in ("W", "b", "objective")]
    W, b, objective = (where_problems(wins, *pair) for pair in pairs)
    bounds = [xp.where(xp.isfinite(s.gap), s.objective * (1 - s.gap), 0.0) for s in (before, after)]
    return Solution(W, b, objective, relative_gap(objective, xp.maximum(*bounds)), after.n_iter)


def _solution(found: Certificate, n_iter: Array, columns: slice = slice(None)) -> Solution:
    """The solution that some of the columns of a certificate describe."""
    W, b, objective, gap = (part[..., columns] for part in (found.W, found.b, found.primal, found.gap))
    return Solution(W, b, objective, gap, n_iter)


def _columns_last(values: Array) -> Array:
    """Return (A, ..., K) as (..., A K)."""
    xp = namespace(values)
    moved = xp.moveaxis(values, 0, -2)
    return xp.reshape(moved, (*moved.shape[:-2], -1))
