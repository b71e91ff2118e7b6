r"""The Newton system on the coefficients of present sensors and windows.

There the penalty is smooth, with the Hessian

    ∇²Ω = C − V'V,    C = diag(λ_s/‖w_s‖ + μ_k/‖w^(k)‖),

V having one row √(λ_s/‖w_s‖) h_s for every sensor and √(μ_k/‖w^(k)‖) h_k for every window, h the unit vectors along
w_s and w^(k). With Q the n' trials inside the margin as columns, and N the metric of the quadratic term, the system is

    (Q diag(2p) Q' + ridge N + C − V'V) step = −gradient.

It is solved as it stands, by Cholesky factorisation in O(m³); or, where N is the identity or absent and the trials are
fewer than the m coefficients, by Woodbury's formula through n' + (sensors + windows) + 1 unknowns.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from mixnorm.solvers.newton.tuning import RIDGES, THROUGH_TRIALS
from mixnorm.solvers.newton.windows.problem import Problem

#: Residual of a solution through the trials, as a share of the right side, from which the full system is solved.
_WRONG = 1e-6


class Curvature(NamedTuple):
    """The Hessian C − V'V of the penalty: the diagonal C (m,), and V (sensors + windows, m)."""

    diagonal: np.ndarray
    along: np.ndarray


def newton_direction(
    problem: Problem, features: np.ndarray, inside: np.ndarray, curvature: Curvature, gradient: np.ndarray
) -> np.ndarray:
    """Solve the Newton system for the intercept, if there is one, and the coefficients of some features."""
    few = THROUGH_TRIALS * (int(inside.sum()) + len(curvature.along))
    if problem.metric is None and len(features) > few:
        step = _through_trials(problem, features, inside, curvature, gradient)
        if step is not None:
            return step
    return _solve(_full(problem, features, inside, curvature), -gradient)


def _full(problem: Problem, features: np.ndarray, inside: np.ndarray, curvature: Curvature) -> np.ndarray:
    """The system as a matrix, (free + m, free + m)."""
    columns, free = problem.hessian.columns(features), problem.hessian.n_free
    order = np.argsort(columns)
    H = problem.hessian.at(inside[None], columns[order])[0]
    if (order != np.arange(len(order))).any():
        back = np.concatenate([np.arange(free), free + np.argsort(order)])
        H = H[np.ix_(back, back)]
    inner = H[free:, free:]
    if problem.ridge and problem.metric is not None:
        inner += problem.ridge * problem.metric.gram(features)[0, 0]
    elif problem.ridge:
        inner[np.diag_indices_from(inner)] += problem.ridge
    inner -= curvature.along.T @ curvature.along
    inner[np.diag_indices_from(inner)] += curvature.diagonal
    return H


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


def _through_trials(
    problem: Problem, features: np.ndarray, inside: np.ndarray, curvature: Curvature, gradient: np.ndarray
) -> np.ndarray | None:
    """Solve by Woodbury's formula; None where rounding spoils it.

    With D = C + ridge, the unknowns t = √(2p) Q'w + √(2p) y b of trials and r = V w satisfy

        D w = −g + V'r − Q √(2p) t,    √(2p) y · t = −g_b,

    which is linear in (t, r, b) once w is put in.
    """
    free = problem.hessian.n_free
    D = curvature.diagonal + problem.ridge
    if not (D > 0).all():
        return None
    root = np.sqrt(2 * problem.p[inside])
    Q = problem.Z[inside][:, features] * root[:, None]
    F = np.concatenate([Q, curvature.along])
    n, g = len(Q), gradient[free:]
    scaled = F / D
    sign = np.concatenate([np.full(n, 1.0), np.full(len(curvature.along), -1.0)])
    size = len(F) + free
    system = np.zeros((size, size))
    system[: len(F), : len(F)] = scaled @ F.T * sign
    system[np.diag_indices(len(F))] += 1.0
    right = np.zeros(size)
    right[: len(F)] = -(scaled @ g)
    if free:
        intercept = root * problem.y[inside]
        system[:n, -1] = -intercept
        system[-1, :n] = intercept
        right[-1] = -gradient[0]
    try:
        found = np.linalg.solve(system, right)
    except np.linalg.LinAlgError:
        return None
    t, r = found[:n], found[n : len(F)]
    w = (-g + curvature.along.T @ r - Q.T @ t) / D
    error = D * w + Q.T @ (Q @ w + (root * problem.y[inside] * found[-1] if free else 0.0))
    error += g - curvature.along.T @ (curvature.along @ w)
    if not np.linalg.norm(error) <= _WRONG * np.linalg.norm(g):
        return None
    return np.concatenate([found[-1:], w]) if free else w
