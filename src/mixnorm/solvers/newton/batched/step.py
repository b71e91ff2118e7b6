r"""A Newton step of all problems at once by the normal map; `mixnorm.solvers.newton.host.solver` has the formulas.

Functions of arrays that never ask the host for anything, so that they can be recorded and replayed. Between `prepare`
and `advance` the linear systems are solved (`mixnorm.solvers.newton.batched.system`), whose sizes change from step to
step.
"""

from typing import NamedTuple

from mixnorm.core.arrays import Array
from mixnorm.core.lq_prox import prox_lq_in_steps
from mixnorm.core.penalties import is_between
from mixnorm.solvers.newton.batched.assess import assess
from mixnorm.solvers.newton.batched.line import least_along
from mixnorm.solvers.newton.batched.problems import Look, Point, StackedProblems
from mixnorm.solvers.newton.batched.state import (
    Aim,
    Assessed,
    Kept,
    Paths,
    Prepared,
    Progress,
    Step,
    descent,
    gamma_of,
    is_present,
    stiffness_of,
    value_of,
    wide,
)
from mixnorm.solvers.newton.rules import AtomValues, is_accepted, normal_map_step, penalty_curvature
from mixnorm.solvers.newton.tuning import (
    CUT_SHORT,
    ENTRY_PROX_STEPS,
    LEAST_DAMPING,
    MOST_DAMPING,
    REFUSED_FACTOR,
    WHOLE_STEP,
)


class _Bend(NamedTuple):
    """The penalty at a point: R, diagonal, k √c and gradient on slots, and γ of the normal map on atoms."""

    scale: Array
    diagonal: Array
    direction: Array
    slope: Array
    gamma: Array


class Advanced(NamedTuple):
    """Where a step led: the points, what every problem aims at from there, and how it gets on."""

    point: Point
    aim: Aim
    progress: Progress


def enter(problems: StackedProblems, point: Point, look: Look, aim: Aim, entering: Array) -> tuple[Point, Look]:
    """Proximal step of the entering atoms (P, atoms), its common length the best of several."""
    xp = problems.xp
    gamma = xp.where(entering, gamma_of(problems, aim.similarity), 0.0)
    threshold = gamma * aim.alpha[:, None] * problems.safe_beta
    forward = problems.of_atoms(gamma) * descent(problems, look, aim.similarity)
    direction = _prox(problems, forward, threshold, ENTRY_PROX_STEPS)
    change = problems.scores(direction[:, None, ...])
    lengths = problems.entry_lengths
    margins = problems.margins(point.Zw, point.b)[:, None, ...] + lengths[:, None, None] * change
    price = aim.alpha * problems.penalty_value(direction)
    value = xp.sum(problems.p[:, None, ...] * problems.loss.value(margins), axis=(2, 3)) + price[:, None] * lengths
    if problems.similar:
        bend = xp.sum(problems.spread(direction) ** 2, axis=(1, 2, 3))
        slope = 2 * xp.sum(direction * look.mapped_back, axis=(1, 2, 3))
        value = value + aim.similarity[:, None] * (bend[:, None] * lengths**2 + slope[:, None] * lengths)
    if problems.ridge is not None:
        gradient = problems.ridge_gradient(direction)
        bend, slope = (xp.sum(gradient * part, axis=(1, 2, 3)) for part in (direction, point.W))
        value = value + bend[:, None] / 2 * lengths**2 + slope[:, None] * lengths
    best = xp.take(lengths, xp.argmin(value, axis=1))
    point = Point(point.W + wide(best) * direction, point.b, point.Zw + best[:, None, None] * change[:, 0, ...])
    return point, problems.look(point)


def _prox(problems: StackedProblems, W: Array, threshold: Array, steps: int | None = None) -> Array:
    """Prox of slots (P, ..., G, T, r), one threshold for each atom; with few ``steps`` nearly, for 1 < q < 2."""
    blocks, threshold = problems.blocks(W)[..., None], threshold[..., None]
    if is_between(problems.q):
        shrunk = prox_lq_in_steps(blocks, threshold, problems.orders(blocks), steps or problems.n_prox_steps)
    else:
        shrunk = problems.penalty.prox(blocks, threshold)
    return problems.xp.reshape(shrunk, W.shape)


def enter_and_prepare(
    problems: StackedProblems, point: Point, look: Look, aim: Aim, entering: Array, damping: Array
) -> tuple[Point, Prepared]:
    """Let atoms enter, then prepare the step."""
    point, look = enter(problems, point, look, aim, entering)
    return point, prepare(problems, point, look, aim, damping)


def only_prepare(
    problems: StackedProblems, point: Point, look: Look, aim: Aim, damping: Array
) -> tuple[Point, Prepared]:
    """Prepare the step where nothing enters."""
    return point, prepare(problems, point, look, aim, damping)


def prepare(problems: StackedProblems, point: Point, look: Look, aim: Aim, damping: Array) -> Prepared:
    """Curvature and slope of the penalty, right-hand sides, and which groups are active."""
    xp = problems.xp
    present = is_present(problems, look)
    bend = _penalty_bend(problems, point.W, look, aim, damping)
    residual = bend.slope - descent(problems, look, aim.similarity)
    groups = problems.groups_with(present)
    order = xp.argsort(xp.astype(groups, xp.int8), axis=1, descending=True, stable=True)
    place = xp.argsort(order, axis=1)
    first = xp.sum(xp.astype(groups, xp.int64), axis=1, keepdims=True)
    active = problems.range_G < first
    packed_rows = xp.where(active, problems.range_P[:, None] * problems.G + order, problems.P * problems.G)
    group = xp.where(active, order, problems.G)[:, None, :]
    trial_rows = problems.first_rows[:, :, None] + group
    toward = wide(aim.fall) * bend.slope
    if problems.similar:
        toward = toward - 2 * wide(aim.change) * look.mapped_back
    right = (-bend.scale * residual, bend.scale * toward)
    parts = xp.stack([bend.scale, bend.diagonal, bend.direction, *right], axis=2)
    packed = xp.concat([xp.reshape(parts, (problems.P * problems.G, -1)), problems.no_group], axis=0)
    inside = problems.margins(point.Zw, point.b) < 1
    threshold = bend.gamma * aim.alpha[:, None] * problems.safe_beta
    gamma = problems.of_atoms(bend.gamma)
    return Prepared(
        packed,
        packed_rows,
        trial_rows,
        xp.where(groups, place, -1),
        xp.where(inside, problems.root_weight, 0.0),
        point.W + gamma * bend.slope,
        gamma + xp.zeros_like(bend.slope),
        residual,
        threshold,
        look.pull_b,
        aim.similarity,
        value_of(problems, look, aim),
    )


def _penalty_bend(problems: StackedProblems, W: Array, look: Look, aim: Aim, damping: Array) -> _Bend:
    """Curvature and gradient of the penalty at W.

    The diagonal contains the curvature of the damping and, without a metric, of similarity and ridge term.
    """
    xp, q, atoms = problems.xp, problems.q, problems.of_atoms
    present = is_present(problems, look)
    mask = atoms(present) & problems.real
    own = wide(damping) * problems.bend
    if problems.root_rows is None:
        own = own + wide(problems.own_curvature(aim.similarity))
    scale, tau = xp.astype(mask, W.dtype), xp.where(present, aim.alpha[:, None] * problems.finite_beta, 0.0)
    if not problems.penalty.is_norm:
        diagonal = xp.where(mask, atoms(tau) + own, 1.0)
        return _Bend(scale, diagonal, xp.zeros_like(W), atoms(tau) * W, xp.zeros_like(tau))
    values = AtomValues(look.norms, tau, problems.trace, atoms)
    bent = penalty_curvature(xp, q, W, values)
    scale = scale if bent.scale is None else scale * bent.scale
    diagonal = xp.where(mask, atoms(bent.weight) + own * scale**2, 1.0)
    gamma = normal_map_step(xp, q, gamma_of(problems, aim.similarity), values, stiffness_of(problems, aim.similarity))
    return _Bend(scale, diagonal, bent.direction * atoms(xp.sqrt(bent.weight)), bent.slope, gamma)


def advance(problems: StackedProblems, before: Advanced, prepared: Prepared, step: Step) -> Advanced:
    """Try several lengths of the step at once; take the best that lowers the objective enough."""
    xp = problems.xp
    point, aim, progress = before
    decrease = xp.sum(prepared.pull_b * step.db, axis=1) - xp.sum(prepared.residual * step.dw, axis=(1, 2, 3))
    tried, lengths = _through_prox(problems, before, prepared, step)
    if problems.single_atoms:
        straight, length = least_along(problems, point, step, aim)
        tried = Point(
            *(xp.concat([many, one[:, None, ...]], axis=1) for many, one in zip(tried, straight, strict=True))
        )
        lengths = xp.concat([lengths, length[:, None]], axis=1)
    reached = problems.value(tried, aim.alpha, aim.similarity)
    low_enough = is_accepted(reached, prepared.value[:, None], lengths, decrease[:, None])
    # A system that was not positive definite gives any step at all: it must at least lead down.
    taken = low_enough & (decrease[:, None] >= 0)
    accepted = xp.any(taken, axis=1)
    best = xp.argmin(xp.where(taken, reached, float("inf")), axis=1)
    gained = prepared.value - xp.take_along_axis(reached, best[:, None], axis=1)[:, 0]
    kept = gained >= WHOLE_STEP * decrease
    factor = xp.where(accepted, _damping_factor(problems, best, kept), REFUSED_FACTOR)
    damping = _clip(xp, progress.damping * factor, LEAST_DAMPING, MOST_DAMPING)
    decrease = xp.where(kept, decrease, CUT_SHORT * decrease)
    decrease = xp.where(accepted, decrease, float("inf"))
    progress = Progress(damping, progress.best, progress.lowest, progress.waited + 1, decrease)
    aim = aim._replace(fresh=xp.zeros_like(aim.fresh), steps=aim.steps + 1)
    return Advanced(_chosen(problems, point, tried, best, accepted), aim, progress)


def _through_prox(problems: StackedProblems, before: Advanced, prepared: Prepared, step: Step) -> tuple[Point, Array]:
    """Return points (P, L, ...) at several lengths of the step, taken before the prox, and these lengths, (P, L)."""
    xp, (point, aim, progress) = problems.xp, before
    predicted = step.bent + prepared.residual + wide(progress.damping) * problems.bend * step.dw
    if problems.similar:
        predicted = predicted + 2 * wide(aim.similarity) * problems.mapped_back(problems.spread(step.dw))
    if problems.ridge is not None:
        predicted = predicted + problems.ridge_gradient(step.dw)
    du = step.dw - prepared.gamma * predicted
    lengths = problems.lengths
    W = prepared.u[:, None, ...] + lengths[:, None, None, None] * du[:, None, ...]
    if problems.penalty.is_norm:
        W = _prox(problems, W, prepared.threshold[:, None, :])
    b = point.b[:, None, :] + lengths[:, None] * step.db[:, None, :]
    return Point(W, b, problems.scores(W)), lengths + xp.zeros_like(prepared.value[:, None])


def _damping_factor(problems: StackedProblems, best: Array, kept: Array) -> Array:
    """What the damping is multiplied with, (P,), by the length that was taken; with ℓ1 the last one is that of a line.

    A step along the line that keeps its promise was damped too much; that another one is shorter says only that a
    coefficient or a trial stands in the way.
    """
    xp, factors = problems.xp, problems.damping_factors
    if not problems.single_atoms:
        return xp.take(factors, best)
    straight = xp.where(kept, factors[0], 1.0)
    L = factors.shape[0]
    return xp.where(best < L, xp.take(factors, xp.where(best < L, best, 0)), straight)


def _chosen(problems: StackedProblems, point: Point, tried: Point, best: Array, accepted: Array) -> Point:
    xp = problems.xp
    L = tried.W.shape[1]
    rows = problems.range_P * L + best

    def pick(many, before):
        flat = xp.reshape(many, (problems.P * L, -1))
        one = xp.reshape(xp.take(flat, rows, axis=0), before.shape)
        return xp.where(xp.reshape(accepted, (problems.P, *(1,) * (before.ndim - 1))), one, before)

    return Point(pick(tried.W, point.W), pick(tried.b, point.b), pick(tried.Zw, point.Zw))


def _clip(xp, values: Array, least: float, most: float) -> Array:
    return xp.where(values < least, least, xp.where(values > most, most, values))


def advance_and_assess(
    problems: StackedProblems,
    max_iter: int,
    kept: Kept,
    paths: Paths,
    before: Advanced,
    prepared: Prepared,
    step: Step,
) -> Assessed:
    """Take the step, look where it led, and keep the points of problems that arrived at a step of their path."""
    after = advance(problems, before, prepared, step)
    assessed = assess(problems, max_iter, paths, *after, step.tangent)
    kept.keep(problems, after.point, before.aim.place, assessed)
    return assessed
