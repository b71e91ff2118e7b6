"""Certify what Newton's method found, and take up again what the certificate leaves open; the same in both engines.

A *cell* is one stack of a path: all problems at one alpha and similarity. The solver stops by its own estimate of the
gap; the certificate decides.
"""

from collections.abc import Iterator
from dataclasses import fields
from typing import NamedTuple, Protocol

import numpy as np

from mixnorm.core.arrays import Array, namespace, to_numpy, where_problems
from mixnorm.core.certificate import Certificate, certify
from mixnorm.core.problem import Solution, Stack
from mixnorm.solvers.sequence import side_by_side


class Reached(NamedTuple):
    """Points of the cells of a path: W (A, B, T, d, K), b (A, B, T, K), and the steps that they took, (A, B, K)."""

    W: Array
    b: Array
    n_iter: Array


class Resume(Protocol):
    """How an engine takes up some problems of a cell again."""

    def __call__(self, place: int, open_: np.ndarray, goal: float, solution: Solution) -> Reached:
        """Go on from a solution with the open problems, a mask (B, K), to a smaller gap by the solver's estimate.

        ``place``: which cell of the path. Returns points of all its problems, A = 1.
        """


def certified(cells: list[Stack], reached: Reached, at_once: int) -> Iterator[Solution]:
    """Certify the points of every cell, so many cells at a time: one product serves them all."""
    K = cells[0].shape[-1]
    for first in range(0, len(cells), at_once):
        some = slice(first, min(first + at_once, len(cells)))
        found = certify(
            side_by_side(cells[some]), _columns_last(reached.W[some, ...]), _columns_last(reached.b[some, ...])
        )
        for j in range(len(cells[some])):
            own = found.columns(slice(j * K, (j + 1) * K))
            yield _solution(own, reached.n_iter[first + j, ...])


class Limits(NamedTuple):
    """When to stop: the relative gap to reach, and the most steps for one alpha."""

    tol: float
    max_iter: int


def closed(
    cells: list[Stack], solutions: list[Solution], resume: Resume, goals: tuple[float, ...], limits: Limits
) -> list[Solution]:
    """Take up again the problems that the certificate leaves open, to ever smaller goals, in units of tol."""
    found = []
    for place, (cell, solution) in enumerate(zip(cells, solutions, strict=True)):
        if cell.has_unpenalised and to_numpy(solution.gap > limits.tol).any():
            # Where sensors that are always kept separate the trials alone, no penalised one is needed, and no step is
            # short enough to get there.
            solution = better(solution, _solution(certify(cell, *cell.start()), solution.n_iter))
        for goal in goals:
            open_ = is_open(solution, limits)
            if not open_.any():
                break
            (again,) = certified([cell], resume(place, open_, goal * limits.tol, solution), 1)
            solution = better(solution, again)
        found.append(solution)
    return found


def is_open(solution: Solution, limits: Limits) -> np.ndarray:
    """Problems above tol that may still take steps, a mask (B, K)."""
    return to_numpy((solution.gap > limits.tol) & (solution.n_iter < limits.max_iter))


def better(before: Solution, after: Solution) -> Solution:
    """Take what was found later where its certificate is the better one; the steps are counted in any case."""
    wins = after.gap < before.gap
    names = [f.name for f in fields(Solution) if f.name != "n_iter"]
    parts = {name: where_problems(wins, getattr(after, name), getattr(before, name)) for name in names}
    return Solution(**parts, n_iter=after.n_iter)


def _solution(found: Certificate, n_iter: Array) -> Solution:
    return Solution(found.W, found.b, found.primal, found.gap, n_iter)


def _columns_last(values: Array) -> Array:
    """Return (A, ..., K) as (..., A K)."""
    xp = namespace(values)
    moved = xp.moveaxis(values, 0, -2)
    return xp.reshape(moved, (*moved.shape[:-2], -1))
