"""One Newton step on the active atoms: curvature of the penalty, linear system, line search through the prox."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mixnorm.solvers.newton.host.kept import Kept
from mixnorm.solvers.newton.host.line import least_along
from mixnorm.solvers.newton.host.metric_system import DenseMetricBlock, KroneckerBlock, solve_with_metric
from mixnorm.solvers.newton.host.state import Active, Level, Point, Position
from mixnorm.solvers.newton.host.system import (
    Curvature,
    DenseBlock,
    SingleBlock,
    SingleTrialBlock,
    TrialBlock,
    solve_subjects,
    solve_together,
)
from mixnorm.solvers.newton.rules import AtomValues, is_accepted, normal_map_step, penalty_curvature
from mixnorm.solvers.newton.tuning import (
    HOST,
    KEPT_FROM,
    KEPT_NEAR,
    LEAST_DAMPING,
    MOST_DAMPING,
    REFUSED_FACTOR,
    THROUGH_FACTORS,
    THROUGH_TRIALS,
    THROUGH_TRIALS_OF_SUBJECTS,
)

if TYPE_CHECKING:
    from mixnorm.solvers.newton.host.descent import Problem


class Moved(NamedTuple):
    """Where a step led, the value there, the decrease that was predicted, and whether it was taken as a whole."""

    point: Point
    value: float
    decrease: float
    is_whole: bool


class _Bend(NamedTuple):
    """The penalty on the active coordinates: its curvature and gradient, and γ and thresholds τ over atoms."""

    curvature: Curvature
    slope: np.ndarray
    gamma: np.ndarray
    tau: np.ndarray


class _Move(NamedTuple):
    """A step of the coefficients along dw, before the prox from u along du, and of the intercepts along db.

    ``threshold``: of the prox, over atoms.
    """

    dw: np.ndarray
    u: np.ndarray
    du: np.ndarray
    db: np.ndarray
    threshold: np.ndarray


def newton_step(problem: Problem, position: Position, active: Active, level: Level) -> Moved | None:
    """Take one step on the active atoms; None where no length of it lowers the value."""
    free, w = problem.hessian.n_free, position.point.W[:, active.features]
    level = Level(level.tau[active.which], level.gamma[active.which])
    a, gradient = _gradient(problem, position, active)
    inside = a != 0  # negative where a trial is expected inside the margin that is beyond it
    bend = _penalty_bend(problem, active, w, level)
    residual = gradient.copy()
    residual[:, free:] += bend.slope
    step, decrease = _direction(problem, active, inside, bend, residual, position.value)
    dw, db = step[:, free:], step[:, 0] if free else np.zeros(len(w))
    gamma_of = bend.gamma[active.atoms.label] * active.atoms.mask
    u = w + gamma_of * bend.slope
    du = dw + gamma_of * _slope_change(problem, active, bend.curvature, inside, residual, step)
    move = _Move(dw, u, du, db, bend.gamma * level.tau)
    return _line_search(problem, position, active, move, level.tau, decrease)


def _gradient(problem: Problem, position: Position, active: Active) -> tuple[np.ndarray, np.ndarray]:
    """The dual variable (T, n), and the gradient of the smooth part in active coordinates, (T, free + m)."""
    free, look = problem.hessian.n_free, position.look
    if look is not None:
        pull = [(look.a * problem.y).sum(axis=1, keepdims=True)] if free else []
        return look.a, -np.concatenate([*pull, look.descent[:, active.features]], axis=1)
    a = problem.dual(position.point)
    gradient = -active.backward(a)
    if problem.own_curvature:
        gradient[:, free:] += problem.quadratic_gradient(position.point.W)[:, active.features]
    return a, gradient


def _penalty_bend(problem: Problem, active: Active, w: np.ndarray, level: Level) -> _Bend:
    """Curvature and gradient of the penalty at w, with the diagonal curvature of other terms and of the damping."""
    group, mask, tau = active.atoms.label, active.atoms.mask, level.tau
    coupling = problem.similarity if problem.center is None else 0.0
    own = problem.damping * problem.bend[:, active.features]
    if problem.metric is None:  # else it is no diagonal
        own = own + problem.own_curvature
    if not problem.penalty.is_norm:
        zero = np.zeros_like(w)
        # The damping matters where a sensor is unpenalised: in some directions there is no other curvature.
        curvature = Curvature(np.ones_like(w), tau[group] + own, zero, group, np.zeros(len(tau)), coupling)
        return _Bend(curvature, tau[group] * w, np.zeros(len(tau)), tau)
    values = AtomValues(active.atoms.norms(w), tau, problem.trace[active.which], lambda of_atoms: of_atoms[group])
    bent = penalty_curvature(np, problem.q, w, values)
    scale = mask.astype(float)
    if bent.scale is not None:
        scale *= bent.scale
    diagonal = np.where(mask, bent.weight[group] + own * scale**2, 1.0)
    stiffness = problem.stiffness()[active.which] if 1 < problem.q < 2 else 1.0
    gamma = normal_map_step(np, problem.q, level.gamma, values, stiffness)
    curvature = Curvature(scale, diagonal, bent.direction, group, bent.weight, coupling)
    return _Bend(curvature, bent.slope, gamma, tau)


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
    if problem.own_curvature:
        direction = np.zeros(problem.bend.shape)
        direction[:, active.features] = dw
        rest += problem.quadratic_change(direction)[:, active.features]
    return -rest


def _direction(
    problem: Problem, active: Active, inside: np.ndarray, bend: _Bend, residual: np.ndarray, value: float
) -> tuple[np.ndarray, float]:
    """The Newton step (T, free + m), and the decrease that it predicts."""
    kept = problem.kept
    if kept is not None and kept.serves(active, bend.tau, inside):
        found = kept.again(inside, problem.p, residual)
        if found is not None:
            step, problem.kept = found
            return step, problem.kept.decrease
    curvature, problem.kept = bend.curvature, None
    scale = np.concatenate([np.ones((len(residual), problem.hessian.n_free)), curvature.scale], axis=1)
    block = _block(problem, active, inside, curvature) if len(residual) == 1 else None
    if block is None:
        step = scale * _solve(problem, active, inside, curvature, -scale * residual)
    else:
        step = scale * block.solve((-scale * residual).T).T
    decrease = -float(np.vdot(residual, step))
    # For 1 < q < 2 the matrix is that of scaled coordinates, and the scale changes from step to step.
    is_worth = residual.size >= KEPT_FROM or decrease <= KEPT_NEAR * value
    if block is not None and is_worth and problem.q in (1.0, 2.0) and problem.metric is None:
        problem.kept = Kept(block, active, inside, bend.tau, decrease)
    return step, decrease


def _block(problem: Problem, active: Active, inside, curvature: Curvature) -> SingleBlock | SingleTrialBlock | None:
    """One subject's Newton matrix, factorised by whichever route is cheaper; None: by the factors of its metric."""
    m, trials = len(active.features) + problem.hessian.n_free, inside[0]
    n, has_metric = trials.sum(), problem.metric is not None and problem.own_curvature > 0
    if not has_metric and m > THROUGH_TRIALS * n and problem.q > 1:
        return SingleTrialBlock(active.trials(0, trials), problem.p[0, trials], curvature)
    if has_metric and problem.factors is not None and m > THROUGH_FACTORS * n:
        return None
    return SingleBlock(_hessians(problem, active, inside)[0], curvature, active.pairs)


def _solve(problem: Problem, active: Active, inside, curvature: Curvature, rhs: np.ndarray) -> np.ndarray:
    """Solve the Newton system without keeping anything, by whichever route is cheapest."""
    if len(rhs) > 1:
        return _solve_coupled(problem, active, inside, curvature, rhs)
    return _solve_by_factors(problem, active, inside, curvature, rhs)


def _hessians(problem: Problem, active: Active, inside) -> np.ndarray:
    """Hessians of the loss, plus (2 similarity + ridge) N_t where there is a metric, (T, free + m, free + m)."""
    H, free = problem.hessian.at(inside, active.columns), problem.hessian.n_free
    if problem.metric is not None and problem.own_curvature:
        H[:, free:, free:] += problem.own_curvature * problem.metric.gram(active.features)[0]
    return H


def _solve_coupled(problem: Problem, active: Active, inside, curvature: Curvature, rhs: np.ndarray) -> np.ndarray:
    """Solve the Newton system of several subjects by whichever route is cheapest."""
    own = list(zip(curvature.scale, curvature.diagonal, strict=True))
    m = rhs.shape[1]
    N, n = inside.sum(), inside.sum(axis=1).max()
    if problem.metric is not None:
        return _solve_with_metric(problem, active, inside, curvature, rhs)
    by_features = m > THROUGH_TRIALS_OF_SUBJECTS * n and problem.q > 1
    if not by_features:
        dense = [DenseBlock(H, *mine) for H, mine in zip(problem.hessian.at(inside, active.columns), own, strict=True)]
        return solve_subjects(dense, curvature, rhs)
    rows = [active.trials(t, used) for t, used in enumerate(inside)]
    weights = [p[used] for p, used in zip(problem.p, inside, strict=True)]
    # Through all trials at once N² m + N³/3; subject by subject 4 N m² and m³/3 for what couples them.
    if curvature.similarity > 0 and N * N * (m + N / 3) < m * m * (4 * N + m / 3):
        return solve_together(rows, weights, curvature, rhs)
    blocks = [TrialBlock(*trials, *mine) for trials, mine in zip(zip(rows, weights, strict=True), own, strict=True)]
    return solve_subjects(blocks, curvature, rhs)


def _solve_with_metric(problem: Problem, active: Active, inside, curvature: Curvature, rhs: np.ndarray) -> np.ndarray:
    """Solve the Newton system of several subjects compared by a metric, by whichever route is cheaper."""
    d, m, n = problem.Z.shape[2], rhs.shape[1], inside.sum(axis=1).max()
    if problem.factors is not None and n * (n * (m + d) + d * d) < m * (m * m / 3 + m * d + d * d):
        return _solve_by_factors(problem, active, inside, curvature, rhs)
    assert problem.metric is not None  # the caller has looked
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
    assert problem.factors is not None  # the caller has looked
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
        blocks.append(KroneckerBlock(factors, own, problem.own_curvature, rows, 2 * p))
    solved = np.empty_like(rhs)
    if curvature.similarity > 0:
        solved[:, whole] = solve_with_metric(blocks, ordered, rhs[:, whole], layout.shape)
    else:  # no mean couples the subjects
        solved[:, whole] = solve_subjects(blocks, ordered, rhs[:, whole])
    return solved


def _line_search(
    problem: Problem, position: Position, active: Active, move: _Move, tau: np.ndarray, decrease: float
) -> Moved | None:
    """Take the whole step through the prox or, where the value does not fall enough, the best part of it.

    Shortened through the prox, a step lets atoms leave, but those that have left no longer balance what the others do.
    Along the straight line the best length can be found exactly, up to the coefficient that becomes zero or the trial
    that comes inside the margin: shortened by halves, a step would come ever closer to these and never get there.
    """
    shortened, factor = None, REFUSED_FACTOR
    for length, of_length in zip(HOST.lengths, HOST.damping_factors, strict=True):
        moved = _through_prox(problem, position, active, move, tau, length)
        if is_accepted(moved.value, position.value, length, decrease):
            shortened, factor = moved._replace(decrease=decrease, is_whole=length == 1), of_length
            break
        if problem.q == 1 or not problem.penalty.is_norm:  # the straight line has all that a shorter step could have
            break
    if shortened is None or not shortened.is_whole:
        straight = _straight(problem, position, active, move, tau)
        if straight.value < min(position.value, np.inf if shortened is None else shortened.value):
            return straight._replace(decrease=decrease)
    problem.damping = min(max(problem.damping * factor, LEAST_DAMPING), MOST_DAMPING)
    return shortened


def _through_prox(
    problem: Problem, position: Position, active: Active, move: _Move, tau: np.ndarray, length: float
) -> Moved:
    """A part of the step, taken before the prox."""
    w = move.u + length * move.du
    if problem.penalty.is_norm:
        w = active.atoms.prox(w, move.threshold)
    return _moved(problem, position, active, w, position.point.b + length * move.db, tau)


def _straight(problem: Problem, position: Position, active: Active, move: _Move, tau: np.ndarray) -> Moved:
    """The point of least value between the position and the end of the step, along a straight line."""
    free, point = problem.hessian.n_free, position.point
    direction = np.zeros_like(point.W)
    direction[:, active.features] = move.dw
    change = active.forward(np.concatenate([move.db[:, None][:, :free], move.dw], axis=1))
    line = problem.line(point, direction, change)
    length, w = least_along(line, active.atoms, point.W[:, active.features], move.dw, tau)
    return _moved(problem, position, active, w, point.b + length * move.db, tau)


def _moved(problem: Problem, position: Position, active: Active, w: np.ndarray, b: np.ndarray, tau) -> Moved:
    """The point of some active coefficients (T, m) and intercepts, and the value there."""
    free = problem.hessian.n_free
    Zw = active.forward(np.concatenate([np.zeros((len(w), free)), w], axis=1))
    W = np.zeros_like(position.point.W)
    W[:, active.features] = w
    return Moved(Point(W, b, Zw), problem.smooth_value(Zw, W, b) + active.atoms.value(w, tau), 0.0, False)
