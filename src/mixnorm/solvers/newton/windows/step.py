r"""One Newton step on the sensors and windows that are present.

On the coefficients of present sensors and windows the penalty is smooth, with the Hessian

    ∇²Ω = diag(λ_s/‖w_s‖ + μ_k/‖w^(k)‖) − Σ_s λ_s/‖w_s‖ h_s h_s' − Σ_k μ_k/‖w^(k)‖ h_k h_k',

h the unit vectors along w_s and w^(k). A sensor or a window that the step would turn round leaves: it is set to zero.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from mixnorm.solvers.newton.rules import is_accepted
from mixnorm.solvers.newton.tuning import HOST, RIDGES, STIFFEST
from mixnorm.solvers.newton.windows.problem import Point, Problem


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
    features = present.features
    slope, bend = _penalty(problem, point.w, present)
    a = problem.dual(point)
    gradient = slope - problem.descent(point.w, a)[features]
    columns = problem.hessian.columns(features)
    order = np.argsort(columns)
    H = problem.hessian.at((a > 0)[None], columns[order])[0]
    free = problem.hessian.n_free
    back = np.concatenate([np.arange(free), free + np.argsort(order)])
    H = H[np.ix_(back, back)]
    inner = slice(free, None)
    if problem.similarity:
        own = np.eye(len(features)) if problem.metric is None else problem.metric.gram(features)[0, 0]
        H[inner, inner] += 2 * problem.similarity * own
    H[inner, inner] += bend
    full = np.concatenate([[-float(a @ problem.y)], gradient]) if free else gradient
    step = _solve(H, -full)
    return _search(problem, point, value, features, step, -float(full @ step))


def _penalty(problem: Problem, w: np.ndarray, present: Present) -> tuple[np.ndarray, np.ndarray]:
    """Gradient (m,) and Hessian (m, m) of alpha Ω on the present features."""
    own = w[present.features]
    slope, bend = np.zeros_like(own), np.zeros((len(own), len(own)))
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
        along = np.sqrt(c) * unit
        bend -= np.where(group[:, None] == group, np.outer(along, along), 0.0)
        bend[np.diag_indices_from(bend)] += c
    return slope, bend


def _solve(H: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve with the smallest ridge that makes H positive definite."""
    diagonal = np.diag_indices_from(H)
    size = np.maximum(H[diagonal], 1e-300)
    for ridge in RIDGES:
        H[diagonal] = size * (1 + ridge)
        try:
            return cho_solve(cho_factor(H, lower=True, check_finite=False), right, check_finite=False)
        except np.linalg.LinAlgError:
            continue
    return right / size


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
