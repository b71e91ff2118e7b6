"""One Newton step on the active atoms: curvature of the penalty, linear system, line search through the prox."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from mixnorm.solvers.newton.host.metric_system import DenseMetricBlock, KroneckerBlock, solve_with_metric
from mixnorm.solvers.newton.host.state import Active, Point
from mixnorm.solvers.newton.host.system import (
    Curvature,
    DenseBlock,
    TrialBlock,
    solve_single,
    solve_subjects,
    solve_together,
    solve_trials,
)

if TYPE_CHECKING:
    from mixnorm.solvers.newton.host.descent import Problem

#: The dual variable (T, n) at a point, and minus the gradient of the smooth part in all features, (T, d).
Slopes = tuple[np.ndarray, np.ndarray]

_MAX_HALVINGS = 40
#: Coordinates per trial inside the margin from which the system is solved through the trials.
_THROUGH_TRIALS = 1.6
#: Coordinates per trial inside the margin from which one subject's system is solved by the factors of its metric.
_THROUGH_FACTORS = 1.6
#: How many times longer a step in u may get for small coefficients where 1 < q < 2; where the features of subjects are
#: of unlike size, those of one have the norm and those of another the curvature, and no step of that length would do.
LONGEST = 1e3
#: How far the damping goes down and up.
_MIN_DAMPING, _MAX_DAMPING = 1e-10, 1e3


def newton_step(problem: Problem, point: Point, active: Active, tau, gamma, value, known: Slopes | None = None):
    """Take one step on the active atoms; return the new point, its value and the predicted decrease, or None.

    ``known``: the slopes of the smooth part at the point, where they are at hand.
    """
    free = problem.hessian.n_free
    tau, gamma = tau[active.which], gamma[active.which]
    w = point.W[:, active.features]
    if known is None:
        a = problem.dual(point)
        gradient = -active.backward(a)
        if problem.similarity:
            drawn = problem.drawn(problem.deviation(point.W))
            gradient[:, free:] += 2 * problem.similarity * drawn[:, active.features]
    else:
        a, descent = known
        pull = [(a * problem.y).sum(axis=1, keepdims=True)] if free else []
        gradient = -np.concatenate([*pull, descent[:, active.features]], axis=1)
    inside = a > 0
    curvature, slope, gamma = _penalty_curvature(problem, active, w, tau, gamma)
    residual = gradient.copy()
    residual[:, free:] += slope
    scale = np.concatenate([np.ones((len(w), free)), curvature.scale], axis=1)
    step = scale * _solve(problem, active, inside, curvature, -scale * residual)
    decrease = -float(np.vdot(residual, step))
    dw, db = step[:, free:], step[:, 0] if free else np.zeros(len(w))
    gamma_of = gamma[active.atoms.label] * active.atoms.mask
    u = w + gamma_of * slope
    du = dw + gamma_of * _slope_change(problem, active, curvature, inside, residual, step)
    return _line_search(problem, point, active, (u, du, db), gamma * tau, tau, value, decrease)


def _penalty_curvature(problem: Problem, active: Active, w, tau, gamma):
    """Curvature and gradient of the penalty at w, and the γ of the normal map (0: the penalty is smooth there)."""
    q, group, mask = problem.q, active.atoms.label, active.atoms.mask
    coupling = problem.similarity if problem.center is None else 0.0
    own = problem.damping * problem.bend[:, active.features]
    if problem.metric is None:  # else it is no diagonal
        own = own + 2 * problem.similarity
    if not problem.penalty.is_norm:
        zero = np.zeros_like(w)
        # the damping matters where a sensor is unpenalised: nothing else bends there along what no trial tells
        curvature = Curvature(np.ones_like(w), tau[group] + own, zero, group, np.zeros(len(tau)), coupling)
        return curvature, tau[group] * w, np.zeros(len(tau))
    norm = active.atoms.norms(w)
    smooth = (tau == 0) | (norm == 0)
    norm[smooth] = 1.0
    # The gradient of ‖w‖_q, and the unit vector k of its curvature: for q = 2 and for ℓ1 they are the same.
    slope = direction = np.where(mask & ~smooth[group], w / norm[group], 0.0)
    scale = mask.astype(float)
    if 1 < q < 2:
        ratio = np.where(smooth[group], 1.0, np.abs(w) / norm[group])
        direction, slope = (np.copysign(np.abs(slope) ** power, slope) for power in (q / 2, q - 1))
        scale *= ratio ** (1 - q / 2)
    weight = np.where(smooth, 0.0, np.minimum((q - 1) * tau / norm, 1e8 * problem.trace[active.which]))
    diagonal = np.where(mask, weight[group] + own * scale**2, 1.0)
    slope = tau[group] * slope
    if 1 < q < 2:
        # For small coefficients the step must be long in u, where the prox is smooth, not in w, where it is not.
        longer = norm / np.where(tau > 0, tau, np.inf) / problem.stiffness()[active.which]
        gamma = np.clip(longer, gamma, LONGEST * gamma)
    curvature = Curvature(scale, diagonal, direction, group, weight, coupling)
    return curvature, slope, np.where(smooth, 0.0, gamma)


def _slope_change(problem: Problem, active: Active, curvature: Curvature, inside, residual, step) -> np.ndarray:
    """Change of the penalty's gradient along a Newton step, (T, m): its curvature times the step.

    For 1 < q < 2 that is 0·∞ where a coefficient is zero; there it is what the rest of the Newton equation leaves.
    """
    free = problem.hessian.n_free
    dw = step[:, free:]
    if problem.q in (1.0, 2.0):
        along = active.atoms.sums(curvature.direction * dw)[curvature.group] * curvature.direction
        return curvature.group_weight[curvature.group] * (dw - along)
    bent = 2 * problem.p * inside * active.forward(step)
    rest = active.backward(bent)[:, free:] + residual[:, free:]
    rest += problem.damping * problem.bend[:, active.features] * dw
    if problem.similarity:
        direction = np.zeros(problem.bend.shape)
        direction[:, active.features] = dw
        rest += 2 * problem.similarity * problem.drawn(problem.spread(direction))[:, active.features]
    return -rest


def _solve(problem: Problem, active: Active, inside, curvature: Curvature, rhs: np.ndarray) -> np.ndarray:
    """Solve the Newton system by whichever route is cheapest."""
    if len(rhs) > 1:
        return _solve_coupled(problem, active, inside, curvature, rhs)
    m, trials = rhs.shape[1], inside[0]
    n, has_metric = trials.sum(), problem.metric is not None and problem.similarity > 0
    if not has_metric and m > _THROUGH_TRIALS * n and problem.q > 1:
        return solve_trials(active.trials(0, trials), problem.p[0, trials], curvature, rhs[0])[None]
    if has_metric and problem.factors is not None and m > _THROUGH_FACTORS * n:
        return _solve_by_factors(problem, active, inside, curvature, rhs)
    return solve_single(_hessians(problem, active, inside)[0], curvature, rhs[0], active.pairs)[None]


def _hessians(problem: Problem, active: Active, inside) -> np.ndarray:
    """Hessians of the loss, plus 2 similarity N_t where there is a metric, (T, free + m, free + m)."""
    H, free = problem.hessian.at(inside, active.columns), problem.hessian.n_free
    if problem.metric is not None and problem.similarity:
        H[:, free:, free:] += 2 * problem.similarity * problem.metric.gram(active.features)[0]
    return H


def _solve_coupled(problem: Problem, active: Active, inside, curvature: Curvature, rhs: np.ndarray) -> np.ndarray:
    """Solve the Newton system of several subjects by whichever route is cheapest."""
    own = list(zip(curvature.scale, curvature.diagonal))
    m = rhs.shape[1]
    N, n = inside.sum(), inside.sum(axis=1).max()
    if problem.metric is not None:
        return _solve_with_metric(problem, active, inside, curvature, rhs)
    by_features = m > 1.2 * n and problem.q > 1
    if not by_features:
        blocks = [DenseBlock(H, *mine) for H, mine in zip(problem.hessian.at(inside, active.columns), own)]
        return solve_subjects(blocks, curvature, rhs)
    rows = [active.trials(t, used) for t, used in enumerate(inside)]
    weights = [p[used] for p, used in zip(problem.p, inside)]
    # Through all trials at once N² m + N³/3; subject by subject 4 N m² and m³/3 for what couples them.
    if curvature.similarity > 0 and N * N * (m + N / 3) < m * m * (4 * N + m / 3):
        return solve_together(rows, weights, curvature, rhs)
    blocks = [TrialBlock(*trials, *mine) for trials, mine in zip(zip(rows, weights), own)]
    return solve_subjects(blocks, curvature, rhs)


def _solve_with_metric(problem: Problem, active: Active, inside, curvature: Curvature, rhs: np.ndarray) -> np.ndarray:
    """Solve the Newton system of several subjects compared by a metric, by whichever route is cheaper."""
    d, m, n = problem.Z.shape[2], rhs.shape[1], inside.sum(axis=1).max()
    if problem.factors is not None and n * (n * (m + d) + d * d) < m * (m * m / 3 + m * d + d * d):
        return _solve_by_factors(problem, active, inside, curvature, rhs)
    parts = zip(
        _hessians(problem, active, inside),
        curvature.scale,
        curvature.diagonal,
        problem.metric.columns(active.features)[0],
        strict=True,
    )
    return solve_with_metric([DenseMetricBlock(*part) for part in parts], curvature, rhs, (d, 1))


def _solve_by_factors(problem: Problem, active: Active, inside, curvature: Curvature, rhs: np.ndarray) -> np.ndarray:
    """Solve the Newton system by the factors of the metric, coordinates put in order sensor by sensor."""
    free, layout = problem.hessian.n_free, problem.factors.layout
    places = np.empty(layout.size, dtype=int)
    places[active.features] = np.arange(len(active.features))
    order = places[layout[active.which]].ravel()
    whole = np.concatenate([np.arange(free), free + order])
    names = ("scale", "diagonal", "direction", "group")
    ordered = replace(curvature, **{name: getattr(curvature, name)[:, order] for name in names})
    blocks = []
    for t, used in enumerate(inside):
        factors = problem.factors.of_subject(t, active.which)
        rows, p = active.trials(t, used)[whole], problem.p[t, used]
        own = ordered.diagonal[t, :: layout.shape[1]]
        blocks.append(KroneckerBlock(factors, own, 2 * problem.similarity, rows, 2 * p))
    solved = np.empty_like(rhs)
    if curvature.similarity > 0:
        solved[:, whole] = solve_with_metric(blocks, ordered, rhs[:, whole], layout.shape)
    else:  # no mean couples the subjects
        solved[:, whole] = solve_subjects(blocks, ordered, rhs[:, whole])
    return solved


def _line_search(problem, point, active, move, threshold, tau, value, decrease):
    """Halve the step through the prox until the objective falls enough."""
    u, du, db = move
    free = problem.hessian.n_free
    length = 1.0
    for halving in range(_MAX_HALVINGS):
        w = u + length * du
        if problem.penalty.is_norm:
            w = active.atoms.prox(w, threshold)
        b = point.b + length * db
        Zw = active.forward(np.concatenate([np.zeros((len(w), free)), w], axis=1))
        W = np.zeros_like(point.W)
        W[:, active.features] = w
        reached = problem.smooth_value(Zw, W, b) + active.atoms.value(w, tau)
        # Near the optimum the decrease drowns in rounding: then a full step is taken unless it visibly climbs.
        drowned = decrease <= 1e-9 * value and reached <= value * (1 + 1e-14)
        if reached <= value - 1e-4 * length * decrease or drowned:
            factor = 1 / 16 if halving == 0 else 4.0 ** max(halving - 4, 0)
            problem.damping = min(max(problem.damping * factor, _MIN_DAMPING), _MAX_DAMPING)
            return Point(W, b, Zw), reached, decrease
        length /= 2
    problem.damping = min(1e3 * problem.damping, _MAX_DAMPING)
    return None
