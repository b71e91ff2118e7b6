"""One Newton step on the sensors and windows that are present, and the search for its length.

A sensor or a window that the step would turn round leaves: it is set to zero, where that lowers the value.
"""

from typing import NamedTuple

import numpy as np

from mixnorm.solvers.newton.rules import is_accepted
from mixnorm.solvers.newton.tuning import HOST, STIFFEST
from mixnorm.solvers.newton.windows.problem import Point, Problem
from mixnorm.solvers.newton.windows.system import Curvature, newton_direction


class Moved(NamedTuple):
    """Where a step led, the value there, and the decrease that was predicted."""

    point: Point
    value: float
    decrease: float


class Present(NamedTuple):
    """The features of present sensors and windows, and the norms of these at a point.

    Attributes
    ----------
    features : ndarray of shape (m,)
    row, column : ndarrays of shape (m,)
        Sensor and window of each feature.
    by_row, by_column : ndarrays over all sensors and windows
    """

    features: np.ndarray
    row: np.ndarray
    column: np.ndarray
    by_row: np.ndarray
    by_column: np.ndarray

    @classmethod
    def at(cls, problem: Problem, w: np.ndarray) -> "Present":
        """What is present at w; a sensor of weight 0 wherever a window is."""
        m = problem.penalty.cell_norms(w)
        by_row, by_column = np.sqrt(np.sum(m**2, axis=1)), np.sqrt(np.sum(m**2, axis=0))
        rows = (by_row > 0) | (problem.weight[: len(by_row)] == 0)
        features = np.flatnonzero(rows[problem.row] & (by_column > 0)[problem.column])
        return cls(features, problem.row[features], problem.column[features], by_row, by_column)


def newton_step(problem: Problem, point: Point, value: float) -> Moved | None:
    """Take one damped Newton step; None where no length of it lowers the value."""
    present = Present.at(problem, point.w)
    slope, curvature = _penalty(problem, point.w, present)
    a = problem.dual(point)
    gradient = slope - problem.descent(point.w, a)[present.features]
    if problem.fit_intercept:
        gradient = np.concatenate([[-float(a @ problem.y)], gradient])
    step = newton_direction(problem, present.features, a > 0, curvature, gradient)
    return _search(problem, point, value, present.features, step, -float(gradient @ step))


def _penalty(problem: Problem, w: np.ndarray, present: Present) -> tuple[np.ndarray, Curvature]:
    """Gradient (m,) and curvature of alpha Ω on the present features."""
    own = w[present.features]
    slope, diagonal, parts = np.zeros_like(own), np.zeros_like(own), []
    rows, columns = problem.penalty.divided(problem.threshold)
    stiffest = STIFFEST * problem.trace
    for group, norms, weights, limit in (
        (present.row, present.by_row, rows, stiffest),
        (present.column, present.by_column, columns, np.full(len(columns), stiffest.max())),
    ):
        norm = np.where(norms > 0, norms, np.inf)
        unit = own / norm[group]
        c = np.minimum(weights / norm, limit)[group]
        slope += weights[group] * unit
        diagonal += c
        there, place = np.unique(group, return_inverse=True)
        along = np.zeros((len(there), len(own)))
        along[place, np.arange(len(own))] = np.sqrt(c) * unit
        parts.append(along)
    return slope, Curvature(diagonal, np.concatenate(parts))


def _search(problem: Problem, point: Point, value: float, features, step, decrease: float) -> Moved | None:
    """Try ever shorter steps; what the step turns round is set to zero first, else kept."""
    db, dw = (float(step[0]), step[1:]) if problem.hessian.n_free else (0.0, step)
    change = problem.Z[:, features] @ dw
    for length in HOST.lengths[:20]:
        w = point.w.copy()
        w[features] += length * dw
        gone = _turned(problem, point.w, w)
        if gone.any():
            short = np.where(gone, 0.0, w)
            moved = problem.point(short, point.b + length * db)
            reached = problem.value(moved)
            if is_accepted(reached, value, length, decrease):
                return Moved(moved, reached, decrease)
        moved = Point(w, point.b + length * db, point.Zw + length * change)
        reached = problem.value(moved)
        if is_accepted(reached, value, length, decrease):
            return Moved(moved, reached, decrease)
    return None


def _turned(problem: Problem, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Features of sensors or windows whose coefficients turned by a right angle or more, a mask (d,)."""
    product = before * after
    out = np.zeros(len(before), dtype=bool)
    rows, _ = problem.penalty.divided(problem.weight)
    for group, limited in ((problem.row, rows > 0), (problem.column, None)):
        sums = np.bincount(group, weights=product)
        was = np.bincount(group, weights=before**2) > 0
        turned = was & (sums <= 0)
        if limited is not None:
            turned &= limited
        out |= turned[group]
    return out & (before != 0)
