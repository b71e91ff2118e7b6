r"""A Newton step of all problems at once, by the normal map; see `newton` for the formulas.

Functions of arrays that never ask the host for anything, so that they can be recorded and replayed. Between `prepare`
and `advance` the linear systems are solved (`_stacked_system`), whose sizes change from step to step.
"""

from mixnorm.core.arrays import Array
from mixnorm.core.lq_prox import prox_lq_in_steps
from mixnorm.solvers.newton.batched.judge import judge
from mixnorm.solvers.newton.batched.problems import Look, Point, StackedProblems
from mixnorm.solvers.newton.batched.state import (
    Aim,
    Judged,
    Paths,
    Prepared,
    Progress,
    Step,
    descent,
    gamma_of,
    is_present,
    stiffness,
    value_of,
    wide,
)
from mixnorm.solvers.newton.host.step import LONGEST

#: What the damping is multiplied with where no length will do, and its bounds.
_REFUSED_FACTOR = 1e3
_MIN_DAMPING, _MAX_DAMPING = 1e-10, 1e3


def enter(problems: StackedProblems, point: Point, look: Look, aim: Aim, entering: Array) -> tuple[Point, Look]:
    """Proximal step of the entering atoms (P, atoms), its common length the best of several."""
    xp = problems.xp
    gamma = xp.where(entering, gamma_of(problems, aim.similarity), 0.0)
    threshold = gamma * aim.alpha[:, None] * problems.safe_beta
    forward = problems.of_atoms(gamma) * descent(look, aim.similarity)
    direction = _prox(problems, forward, threshold)
    change = problems.scores(direction[:, None, ...])
    lengths = problems.entry_lengths
    margins = problems.margins(point.Zw, point.b)[:, None, ...] + lengths[:, None, None] * change
    price = aim.alpha * problems.penalty_value(direction)
    value = xp.sum(problems.p[:, None, ...] * problems.loss.value(margins), axis=(2, 3)) + price[:, None] * lengths
    if problems.similar:
        bend = xp.sum(problems.spread(direction) ** 2, axis=(1, 2, 3))
        slope = 2 * xp.sum(direction * look.drawn, axis=(1, 2, 3))
        value = value + aim.similarity[:, None] * (bend[:, None] * lengths**2 + slope[:, None] * lengths)
    best = xp.take(lengths, xp.argmin(value, axis=1))
    point = Point(point.W + wide(best) * direction, point.b, point.Zw + best[:, None, None] * change[:, 0, ...])
    return point, problems.look(point)


def _prox(problems: StackedProblems, W: Array, threshold: Array) -> Array:
    """Prox of slots (P, ..., G, T, r), one threshold for each atom."""
    blocks, threshold = problems.blocks(W)[..., None], threshold[..., None]
    if 1 < problems.q < 2:
        shrunk = prox_lq_in_steps(blocks, threshold, problems.q)
    else:
        shrunk = problems.penalty.prox(blocks, threshold)
    return problems.xp.reshape(shrunk, W.shape)


def enter_and_prepare(
    problems: StackedProblems, point: Point, look: Look, aim: Aim, entering: Array, damping: Array
) -> tuple[Point, Array, "Prepared"]:
    """Let atoms enter, then prepare the step; also return the pull of the intercepts."""
    point, look = enter(problems, point, look, aim, entering)
    return point, look.pull_b, prepare(problems, point, look, aim, damping)


def only_prepare(
    problems: StackedProblems, point: Point, look: Look, aim: Aim, damping: Array
) -> tuple[Point, Array, "Prepared"]:
    """Prepare the step where nothing enters."""
    return point, look.pull_b, prepare(problems, point, look, aim, damping)


def prepare(problems: StackedProblems, point: Point, look: Look, aim: Aim, damping: Array) -> Prepared:
    """Curvature and slope of the penalty, right-hand sides, and which groups are active."""
    xp = problems.xp
    present = is_present(problems, look)
    scale, diagonal, direction, slope, gamma = _penalty_curvature(problems, point.W, look, aim, (damping, present))
    residual = slope - descent(look, aim.similarity)
    groups = problems.groups_with(present)
    order = xp.argsort(xp.astype(groups, xp.int8), axis=1, descending=True, stable=True)
    place = xp.argsort(order, axis=1)
    first = xp.sum(xp.astype(groups, xp.int64), axis=1, keepdims=True)
    active = problems.range_G < first
    packed_rows = xp.where(active, problems.range_P[:, None] * problems.G + order, problems.P * problems.G)
    group = xp.where(active, order, problems.G)[:, None, :]
    trial_rows = problems.first_rows[:, :, None] + group
    parts = xp.stack([scale, diagonal, direction, -scale * residual], axis=2)
    packed = xp.concat([xp.reshape(parts, (problems.P * problems.G, -1)), problems.no_group], axis=0)
    inside = problems.margins(point.Zw, point.b) < 1
    threshold = gamma * aim.alpha[:, None] * problems.safe_beta
    gamma = problems.of_atoms(gamma)
    return Prepared(
        packed,
        packed_rows,
        trial_rows,
        xp.where(groups, place, -1),
        xp.where(inside, problems.root_weight, 0.0),
        point.W + gamma * slope,
        gamma + xp.zeros_like(slope),
        residual,
        threshold,
        value_of(look, aim),
    )


def _penalty_curvature(problems: StackedProblems, W: Array, look: Look, aim: Aim, rest: tuple[Array, Array]):
    """R, diagonal, k √c and gradient of the penalty at W, on slots; and the γ of the normal map, on atoms.

    The diagonal contains the curvature of the damping and, without a metric, of the similarity term; γ is 0 where the
    penalty is smooth.
    """
    xp, q, atoms = problems.xp, problems.q, problems.of_atoms
    damping, present = rest
    mask = atoms(present) & problems.real
    own = wide(damping) * problems.bend
    if problems.root_rows is None:
        own = own + 2 * wide(aim.similarity)
    one, zero = xp.astype(mask, W.dtype), xp.zeros_like(W)
    tau = xp.where(present, aim.alpha[:, None] * problems.finite_beta, 0.0)
    if not problems.penalty.is_norm:
        return one, xp.where(mask, atoms(tau) + own, 1.0), zero, atoms(tau) * W, xp.zeros_like(tau)
    bent = present & problems.penalised
    norm = xp.where(bent, look.norms, 1.0)
    gamma = xp.where(bent, gamma_of(problems, aim.similarity), 0.0)
    sign = xp.sign(W)
    if q == 1:
        return one, xp.where(mask, own, 1.0), zero, atoms(tau) * sign, gamma
    ratio = xp.abs(W) / atoms(norm)
    weight = xp.minimum((q - 1) * tau / norm, 1e8 * problems.trace)
    if q == 2:
        direction = xp.where(atoms(bent), W / atoms(norm), 0.0)
        slope, scale = atoms(tau) * direction, one
    else:
        direction = xp.where(atoms(bent), sign * ratio ** (q / 2), 0.0)
        slope = atoms(tau) * sign * ratio ** (q - 1)
        scale = one * xp.where(atoms(bent), ratio ** (1 - q / 2), 1.0)
        # For small coefficients the step must be long in u, where the prox is smooth, not in w, where it is not.
        longer = norm / xp.where(tau > 0, tau, 1.0) / stiffness(problems, aim.similarity)
        gamma = xp.where(bent, xp.maximum(gamma, xp.minimum(longer, LONGEST * gamma)), 0.0)
    diagonal = xp.where(mask, atoms(weight) + own * scale**2, 1.0)
    return scale, diagonal, direction * atoms(xp.sqrt(weight)), slope, gamma


def advance(
    problems: StackedProblems,
    point: Point,
    judged: tuple[Aim, Progress],
    prepared: Prepared,
    step: Step,
    pull_b: Array,
) -> tuple[Point, Aim, Progress]:
    """Try several lengths of the step through the prox at once; take the first that lowers the objective enough."""
    xp = problems.xp
    aim, progress = judged
    decrease = xp.sum(pull_b * step.db, axis=1) - xp.sum(prepared.residual * step.dw, axis=(1, 2, 3))
    predicted = step.bent + prepared.residual + wide(progress.damping) * problems.bend * step.dw
    if problems.similar:
        predicted = predicted + 2 * wide(aim.similarity) * problems.drawn(problems.spread(step.dw))
    du = step.dw - prepared.gamma * predicted
    lengths = problems.lengths
    W = prepared.u[:, None, ...] + lengths[:, None, None, None] * du[:, None, ...]
    if problems.penalty.is_norm:
        W = _prox(problems, W, prepared.threshold[:, None, :])
    tried = Point(W, point.b[:, None, :] + lengths[:, None] * step.db[:, None, :], problems.scores(W))
    reached = problems.value(tried, aim.alpha, aim.similarity)
    value = prepared.value[:, None]
    enough = reached <= value - 1e-4 * lengths * decrease[:, None]
    # Near the optimum the decrease drowns in rounding: then a full step is taken unless it visibly climbs.
    drowned = (decrease[:, None] <= 1e-9 * value) & (reached <= value * (1 + 1e-14))
    # A system that was not positive definite gives any step at all: it must at least lead down.
    taken = (enough | drowned) & (decrease[:, None] >= 0)
    accepted = xp.any(taken, axis=1)
    first = xp.argmax(xp.astype(taken, xp.int8), axis=1)
    factor = xp.where(accepted, xp.take(problems.damping_factors, first), _REFUSED_FACTOR)
    damping = _clip(xp, progress.damping * factor, _MIN_DAMPING, _MAX_DAMPING)
    decrease = xp.where(accepted, decrease, float("inf"))
    progress = Progress(damping, progress.best, progress.lowest, progress.waited + 1, decrease)
    aim = Aim(*aim[:5], xp.zeros_like(aim.fresh), aim.steps + 1)
    return _chosen(problems, point, tried, first, accepted), aim, progress


def _chosen(problems: StackedProblems, point: Point, tried: Point, first: Array, accepted: Array) -> Point:
    xp = problems.xp
    L = tried.W.shape[1]
    rows = problems.range_P * L + first

    def pick(many, before):
        flat = xp.reshape(many, (problems.P * L, -1))
        one = xp.reshape(xp.take(flat, rows, axis=0), before.shape)
        return xp.where(xp.reshape(accepted, (problems.P, *(1,) * (before.ndim - 1))), one, before)

    return Point(pick(tried.W, point.W), pick(tried.b, point.b), pick(tried.Zw, point.Zw))


def _clip(xp, values: Array, least: float, most: float) -> Array:
    return xp.where(values < least, least, xp.where(values > most, most, values))


def advance_and_judge(problems: StackedProblems, max_iter: int, paths: Paths, *rest) -> tuple[Point, Judged]:
    """Take the step, and look where it led."""
    point, aim, progress = advance(problems, *rest)
    return point, judge(problems, max_iter, paths, point, aim, progress)
