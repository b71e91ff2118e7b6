"""One Newton step on the active atoms: curvature of the penalty, linear system, line search through the prox."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mixnorm.solvers.newton.host.line import least_along
from mixnorm.solvers.newton.host.routes import direction
from mixnorm.solvers.newton.host.state import Active, Level, Point, Position
from mixnorm.solvers.newton.host.system import Bend, Curvature
from mixnorm.solvers.newton.rules import AtomValues, is_accepted, normal_map_step, penalty_curvature
from mixnorm.solvers.newton.tuning import (
    HOST,
    LEAST_DAMPING,
    LONGER_THAN_STRAIGHT,
    MOST_DAMPING,
    PROMISE_KEPT,
    REFUSED_FACTOR,
)

if TYPE_CHECKING:
    from mixnorm.solvers.newton.host.descent import Problem


class Moved(NamedTuple):
    """Where a step led.

    Attributes
    ----------
    position : Position
    has_zeros : bool
        Whether an active atom is zero there.
    decrease : float
        What was predicted.
    is_whole : bool
        Whether the step was taken as a whole.
    """

    position: Position
    has_zeros: bool
    decrease: float = 0.0
    is_whole: bool = False


class _Move(NamedTuple):
    """A step of the coefficients from w along dw, before the prox from u along du, and of the intercepts along db.

    ``threshold``: of the prox, over atoms.
    """

    w: np.ndarray
    dw: np.ndarray
    u: np.ndarray
    du: np.ndarray
    db: np.ndarray
    threshold: np.ndarray


def newton_step(problem: Problem, position: Position, active: Active, level: Level) -> Moved | None:
    """Take one step on the active atoms; None where no length of it lowers the value."""
    free, w = problem.hessian.n_free, position.point.W.take(active.features, axis=1)
    level = Level(level.tau[active.which], level.gamma[active.which])
    inside = position.a != 0  # negative where a trial is expected inside the margin that is beyond it
    bend = _penalty_bend(problem, active, w, level)
    residual = _gradient(problem, position, active)
    residual[:, free:] += bend.slope
    step, decrease = direction(problem, active, inside, bend, residual, position.value)
    dw, db = step[:, free:], step[:, 0] if free else np.zeros(len(w))
    u, du = w, dw
    if problem.penalty.is_norm:  # else it is smooth, and there is no prox
        gamma_of = bend.gamma[active.atoms.label]
        if not active.is_full:
            gamma_of *= active.atoms.mask
        u = w + gamma_of * bend.slope
        if problem.q > 1:
            du = dw + gamma_of * _slope_change(problem, active, bend.curvature, inside, residual, step)
    move = _Move(w, dw, u, du, db, bend.gamma * level.tau)
    return _line_search(problem, position, active, move, level.tau, decrease)


def _gradient(problem: Problem, position: Position, active: Active) -> np.ndarray:
    """The gradient of the smooth part in active coordinates, (T, free + m)."""
    free, look = problem.hessian.n_free, position.look
    if look is not None:
        gradient = np.empty((len(look.a), free + len(active.features)))
        gradient[:, free:] = look.descent.take(active.features, axis=1)
        if free:
            gradient[:, 0] = np.vecdot(look.a, problem.y)
        return np.negative(gradient, out=gradient)
    gradient = active.backward(position.a)
    np.negative(gradient, out=gradient)
    if problem.own_curvature:
        gradient[:, free:] += problem.quadratic_gradient(position.point.W)[:, active.features]
    return gradient


def _penalty_bend(problem: Problem, active: Active, w: np.ndarray, level: Level) -> Bend:
    """Curvature and gradient of the penalty at w, with the diagonal curvature of other terms and of the damping."""
    group, tau = active.atoms.label, level.tau
    coupling = problem.similarity if problem.center is None else 0.0
    own = problem.damping * active.bend
    if problem.metric is None and problem.own_curvature:  # with a metric it is no diagonal
        own += problem.own_curvature
    if not problem.penalty.is_norm:
        paid = tau[group]
        # The damping matters where a sensor is unpenalised: in some directions there is no other curvature.
        curvature = Curvature(active.unscaled, paid + own, np.zeros_like(w), group, np.zeros(len(tau)), coupling)
        return Bend(curvature, paid * w, np.zeros(len(tau)), tau)
    values = AtomValues(active.atoms.norms(w), tau, active.trace, lambda of_atoms: of_atoms[group])
    bent = penalty_curvature(np, problem.q, w, values)
    scale = active.unscaled
    if bent.scale is not None:
        scale = scale * bent.scale
        own *= scale**2
    diagonal = bent.weight[group] + own
    if not active.is_full:
        diagonal = np.where(active.atoms.mask, diagonal, 1.0)
    stiffness = problem.stiffness()[active.which] if 1 < problem.q < 2 else 1.0
    gamma = normal_map_step(np, problem.q, level.gamma, values, stiffness)
    curvature = Curvature(scale, diagonal, bent.direction, group, bent.weight, coupling)
    return Bend(curvature, bent.slope, gamma, tau)


def _slope_change(problem: Problem, active: Active, curvature: Curvature, inside, residual, step) -> np.ndarray:
    """Change of the penalty's gradient along a Newton step, (T, m): its curvature times the step.

    For 1 < q < 2 that is 0·∞ where a coefficient is zero; there it is what the rest of the Newton equation leaves.
    """
    free = problem.hessian.n_free
    dw = step[:, free:]
    if problem.q == 2:
        along = active.atoms.sums(curvature.direction * dw)[curvature.group] * curvature.direction
        return curvature.group_weight[curvature.group] * (dw - along)
    bent = 2 * problem.p * inside * active.forward(step)
    rest = active.backward(bent)[:, free:] + residual[:, free:]
    rest += problem.damping * active.bend * dw
    if problem.own_curvature:
        direction = np.zeros(problem.bend.shape)
        direction[:, active.features] = dw
        rest += problem.quadratic_change(direction)[:, active.features]
    return -rest


def _line_search(
    problem: Problem, position: Position, active: Active, move: _Move, tau: np.ndarray, decrease: float
) -> Moved | None:
    """Take the whole step through the prox or, where the value does not fall enough, the best part of it.

    Shortened through the prox, a step lets atoms leave, but those that have left no longer balance what the others do.
    Along the straight line the best length can be found exactly, up to the coefficient that becomes zero or the trial
    that comes inside the margin: shortened by halves, a step would come ever closer to these and never get there.
    """
    shortened, straight, longest, factor = None, None, 1.0, REFUSED_FACTOR
    for length, of_length in zip(HOST.lengths, HOST.damping_factors, strict=True):
        if length > longest:
            continue
        moved = _through_prox(problem, position.point, active, move, tau, length)
        if is_accepted(moved.position.value, position.value, length, decrease):
            shortened, factor = moved._replace(decrease=decrease, is_whole=length == 1), of_length
            break
        if straight is None:
            straight, best = _straight(problem, position, active, move, tau)
            # A prox of a norm with q near 1 is expensive, and a step much longer than this one seldom accepted.
            longest = LONGER_THAN_STRAIGHT * best if best > 0 else 1.0
        if problem.q == 1 or not problem.penalty.is_norm:  # the straight line has all that a shorter step could have
            break
    reached = np.inf if shortened is None else shortened.position.value
    if straight is not None and straight.position.value < min(position.value, reached):
        # A step that keeps its promise without the prox was damped too much.
        if position.value - straight.position.value > PROMISE_KEPT * decrease:
            problem.damping = max(problem.damping * HOST.damping_factors[0], LEAST_DAMPING)
        return straight._replace(decrease=decrease)
    problem.damping = min(max(problem.damping * factor, LEAST_DAMPING), MOST_DAMPING)
    return shortened


def _through_prox(
    problem: Problem, point: Point, active: Active, move: _Move, tau: np.ndarray, length: float
) -> Moved:
    """A part of the step, taken before the prox."""
    whole = length == 1
    w = move.u + (move.du if whole else length * move.du)
    if problem.penalty.is_norm:
        w = active.atoms.prox(w, move.threshold)
    return _reached(problem, active, w, point.b + (move.db if whole else length * move.db), tau)


def _straight(problem: Problem, start: Position, active: Active, move: _Move, tau: np.ndarray) -> tuple[Moved, float]:
    """The point of least value between the start and the end of the step, along a straight line, and its length.

    It is mostly the zero of one group, and the next steps would end at the zeros of the others that the whole step
    passes, one after the other. So these leave together, if the value still is lower than at the start.
    """
    free, point = problem.hessian.n_free, start.point
    direction = np.zeros_like(point.W)
    direction[:, active.features] = move.dw
    change = active.forward(np.concatenate([move.db[:, None][:, :free], move.dw], axis=1))
    line = problem.line(point, direction, change)
    length, w = least_along(line, active.atoms, move.w, move.dw, tau)
    b = point.b + length * move.db
    moved = _reached(problem, active, w, b, tau)
    if problem.q == 2 and problem.penalty.is_norm:
        passes = (active.atoms.sums(move.w * (move.w + move.dw)) < 0)[active.atoms.label] & (w != 0)
        if passes.any():
            without = _reached(problem, active, np.where(passes, 0.0, w), b, tau)
            moved = without if without.position.value < start.value else moved
    return moved, length


def _reached(problem: Problem, active: Active, w: np.ndarray, b: np.ndarray, tau: np.ndarray) -> Moved:
    """The point of some active coefficients (T, m) and intercepts (T,), with the value there."""
    W = np.zeros(problem.bend.shape)
    W[:, active.features] = w
    point = Point(W, b, active.forward_without_intercept(w))
    a, norms = problem.dual(point), active.atoms.norms(w)
    value = problem.smooth_value(W, a) + active.atoms.value_of(norms, tau)  # no active atom has an infinite weight
    return Moved(Position(point, value, a, None), bool(np.count_nonzero(norms) < len(norms)))
