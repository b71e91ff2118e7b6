"""Sensors and windows together, from the formulas: objective, optimum by cvxpy, dual norm and prox by cvxpy.

    minimise over w, b   Σ_i s_i max(0, 1 − y_i (x_i·w + b))² / Σ s + ridge · ½ w'N w
                         + alpha ((1 − share) Σ_s β_s ‖w_s‖ + share Σ_k ‖w^(k)‖)

`sensors` and `windows` (d,) hold the numbers of every feature's sensor and window, `beta` (S,) the weights of sensors.
"""

import warnings

import cvxpy as cp
import numpy as np


def penalty(w, sensors, windows, share, beta):
    """Ω(w); infinite where a sensor of infinite weight is not zero."""
    value = 0.0
    for s, weight in enumerate(beta):
        norm = np.linalg.norm(w[sensors == s])
        value += (weight if np.isinf(weight) else (1 - share) * weight) * norm if norm > 0 else 0.0
    return value + share * sum(np.linalg.norm(w[windows == k]) for k in np.unique(windows))


def objective(X, y, w, b, s, alpha, sensors, windows, share, beta, ridge=0.0, N=None):
    """The value of the problem at (w, b)."""
    slack = np.maximum(0.0, 1.0 - y * (X @ w + b))
    square = w @ w if N is None else w @ N @ w
    return float(np.sum(s * slack**2) / np.sum(s) + ridge / 2 * square) + alpha * penalty(
        w, sensors, windows, share, beta
    )


def optimum(X, y, s, alpha, sensors, windows, share, beta, ridge=0.0, N=None, fit_intercept=True):
    """Solve with cvxpy; return (objective by the formula at the point found, w, b)."""
    w, slack = cp.Variable(X.shape[1]), cp.Variable(len(y), nonneg=True)
    b = cp.Variable() if fit_intercept else cp.Constant(0.0)
    cost = cp.sum_squares(cp.multiply(np.sqrt(s / np.sum(s)), slack))
    constraints = [slack >= 1 - cp.multiply(y, X @ w + b)]
    for number, weight in enumerate(beta):
        own = w[np.flatnonzero(sensors == number)]
        if np.isinf(weight):
            constraints.append(own == 0)
        else:
            cost += alpha * (1 - share) * weight * cp.norm(own, 2)
    cost += alpha * share * sum(cp.norm(w[np.flatnonzero(windows == k)], 2) for k in np.unique(windows))
    if ridge > 0:
        root = np.eye(X.shape[1]) if N is None else np.linalg.cholesky(N).T
        cost += ridge / 2 * cp.sum_squares(root @ w)
    solved(cp.Problem(cp.Minimize(cost), constraints))
    found = np.where(np.isinf(beta)[sensors], 0.0, w.value)
    own = (X, y, found, float(b.value), s, alpha, sensors, windows, share, beta, ridge, N)
    return objective(*own), found, float(b.value)


def dual_norm(m, rows, columns):
    """Smallest t with m = u + v, ‖u_s‖ ≤ t rows_s, ‖v^(k)‖ ≤ t columns_k, for a matrix m."""
    u, t = cp.Variable(m.shape), cp.Variable()
    solved(cp.Problem(cp.Minimize(t), [cp.norm(u, 2, axis=1) <= t * rows, cp.norm(m - u, 2, axis=0) <= t * columns]))
    return float(t.value)


def prox(m, rows, columns):
    """argmin_w ½‖w − m‖² + Σ rows_s ‖w_s‖ + Σ columns_k ‖w^(k)‖, for a matrix m."""
    w = cp.Variable(m.shape)
    cost = cp.sum_squares(w - m) / 2 + rows @ cp.norm(w, 2, axis=1) + columns @ cp.norm(w, 2, axis=0)
    solved(cp.Problem(cp.Minimize(cost)))
    return w.value


def solved(problem):
    """Solve as exactly as Clarabel can: on some problems it fails at small tolerances.

    The objective is the formula at its point: an upper bound of the optimum whatever the tolerance.
    """
    for tol in (1e-11, 1e-9, 1e-7):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "inaccurate"
            try:
                problem.solve(solver=cp.CLARABEL, tol_gap_rel=tol, tol_gap_abs=0.1 * tol, tol_feas=tol, max_iter=500)
            except cp.SolverError:
                continue
        if problem.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
            return
    raise RuntimeError("Clarabel reached no tolerance")
