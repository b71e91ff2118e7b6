"""One Newton step on the active atoms: curvature of the penalty, linear system, line search through the prox."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ._newton_state import Active, Point, times
from ._newton_system import (
    Curvature,
    DenseBlock,
    TrialBlock,
    solve_single,
    solve_subjects,
    solve_together,
    solve_trials,
)

if TYPE_CHECKING:
    from ._newton_problem import Problem

_MAX_HALVINGS = 40
#: Coordinates per trial inside the margin from which the system is solved through the trials.
_THROUGH_TRIALS = 2.5
#: How far the damping goes down and up.
_MIN_DAMPING, _MAX_DAMPING = 1e-10, 1e3


def newton_step(problem: Problem, point: Point, active: Active, tau, gamma, value):
    """Take one step on the active atoms; return the new point, its value and the predicted decrease, or None."""
    free = problem.hessian.n_free
    tau, gamma = tau[active.atoms], gamma[active.atoms]
    margins = point.Zw + problem.y * point.b[:, None]
    a = problem.loss.dual_variable(margins, problem.p)
    gradient = -times(a, active.rows.transpose(0, 2, 1))
    w = point.W[:, active.features]
    inside = (margins < 1) & (problem.p > 0)
    if problem.similarity:
        gradient[:, free:] += 2 * problem.similarity * problem.deviation(w, active.features)
    curvature, slope, gamma = _penalty_curvature(problem, active, w, tau, gamma)
    residual = gradient.copy()
    residual[:, free:] += slope
    scale = np.concatenate([np.ones((len(w), free)), curvature.scale], axis=1)
    step = scale * _solve(problem, active, inside, curvature, -scale * residual)
    decrease = -float(np.vdot(residual, step))
    bent = 2 * problem.p * inside * times(step, active.rows)
    predicted = times(bent, active.rows.transpose(0, 2, 1))[:, free:] + residual[:, free:]
    dw, db = step[:, free:], step[:, 0] if free else np.zeros(len(w))
    if problem.similarity:
        predicted += 2 * problem.similarity * problem.spread(dw)
    predicted += problem.damping * problem.bend[:, active.features] * dw
    gamma_of = gamma[active.group] * active.mask
    u = w + gamma_of * slope
    du = dw - gamma_of * predicted
    return _line_search(problem, point, active, (u, du, db), gamma * tau, tau, value, decrease)


def _penalty_curvature(problem: Problem, active: Active, w, tau, gamma):
    """Curvature and gradient of the penalty at w, and the γ of the normal map (0: the penalty is smooth there)."""
    q, group = problem.q, active.group
    coupling = problem.similarity if problem.center is None else 0.0
    if not problem.penalty.is_norm:
        zero = np.zeros_like(w)
        diagonal = tau[group] + 2 * problem.similarity
        curvature = Curvature(np.ones_like(w), diagonal, zero, group, np.zeros(len(tau)), coupling)
        return curvature, tau[group] * w, np.zeros(len(tau))
    size = np.abs(w)
    norm = active.sums(size * active.mask) if q == 1 else active.sums(size**q) ** (1 / q)
    smooth = (tau == 0) | (norm == 0)
    norm = np.where(smooth, 1.0, norm)
    ratio = np.where(smooth[group], 1.0, size / norm[group])
    sign = np.sign(w)
    penalised = ~smooth[group]
    weight = np.where(smooth, 0.0, np.minimum((q - 1) * tau / norm, 1e8 * problem.trace[active.atoms]))
    scale = np.where(active.mask, ratio ** (1 - q / 2) if 1 < q < 2 else 1.0, 0.0)
    direction = np.where(penalised & active.mask, sign * ratio ** (q / 2), 0.0)
    own = (problem.damping * problem.bend[:, active.features] + 2 * problem.similarity) * scale**2
    diagonal = np.where(active.mask, weight[group] + own, 1.0)
    slope = np.where(penalised & active.mask, tau[group] * sign * ratio ** (q - 1), 0.0)
    if 1 < q < 2:
        # For small coefficients the step must be long in u, where the prox is smooth, not in w, where it is not.
        gamma = np.maximum(gamma, norm / np.where(tau > 0, tau, np.inf))
    curvature = Curvature(scale, diagonal, direction, group, weight, coupling)
    return curvature, slope, np.where(smooth, 0.0, gamma)


def _solve(problem: Problem, active: Active, inside, curvature: Curvature, rhs: np.ndarray) -> np.ndarray:
    """Solve the Newton system by whichever route is cheapest."""
    if len(rhs) > 1:
        return _solve_coupled(problem, active, inside, curvature, rhs)
    if rhs.shape[1] > _THROUGH_TRIALS * inside.sum() and problem.q > 1:
        trials = inside[0]
        return solve_trials(active.rows[0][:, trials], problem.p[0, trials], curvature, rhs[0])[None]
    return solve_single(problem.hessian.at(inside, active.columns)[0], curvature, rhs[0], active.pairs)[None]


def _solve_coupled(problem: Problem, active: Active, inside, curvature: Curvature, rhs: np.ndarray) -> np.ndarray:
    """Solve the Newton system of several subjects by whichever route is cheapest."""
    own = list(zip(curvature.scale, curvature.diagonal))
    m = rhs.shape[1]
    N, n = inside.sum(), inside.sum(axis=1).max()
    by_features = m > 1.2 * n and problem.q > 1
    if not by_features:
        blocks = [DenseBlock(H, *mine) for H, mine in zip(problem.hessian.at(inside, active.columns), own)]
        return solve_subjects(blocks, curvature, rhs)
    rows = [rows[:, used] for rows, used in zip(active.rows, inside)]
    weights = [p[used] for p, used in zip(problem.p, inside)]
    # Through all trials at once N² m + N³/3; subject by subject 4 N m² and m³/3 for what couples them.
    if curvature.similarity > 0 and N * N * (m + N / 3) < m * m * (4 * N + m / 3):
        return solve_together(rows, weights, curvature, rhs)
    blocks = [TrialBlock(*trials, *mine) for trials, mine in zip(zip(rows, weights), own)]
    return solve_subjects(blocks, curvature, rhs)


def _line_search(problem, point, active, move, threshold, tau, value, decrease):
    """Halve the step through the prox until the objective falls enough."""
    u, du, db = move
    rows = active.rows[:, problem.hessian.n_free :]
    length = 1.0
    for halving in range(_MAX_HALVINGS):
        w = u + length * du
        if problem.penalty.is_norm:
            w = active.prox(problem.penalty, w, threshold)
        b = point.b + length * db
        Zw = times(w, rows)
        W = np.zeros_like(point.W)
        W[:, active.features] = w
        blocks = np.append(w.ravel(), 0.0)[active.slots]
        reached = problem.smooth_value(Zw, W, b) + float(problem.penalty.value(blocks[..., None], tau[:, None])[0])
        # Near the optimum the decrease drowns in rounding: then a full step is taken unless it visibly climbs.
        drowned = decrease <= 1e-9 * value and reached <= value * (1 + 1e-14)
        if reached <= value - 1e-4 * length * decrease or drowned:
            factor = 1 / 16 if halving == 0 else 4.0 ** max(halving - 4, 0)
            problem.damping = min(max(problem.damping * factor, _MIN_DAMPING), _MAX_DAMPING)
            return Point(W, b, Zw), reached, decrease
        length /= 2
    problem.damping = min(1e3 * problem.damping, _MAX_DAMPING)
    return None
