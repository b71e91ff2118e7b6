r"""The pieces of a Newton step of all problems at once, by the normal map; see `newton` for the formulas.

Each is a function of arrays that never asks the host for anything, so that it can be recorded and replayed. In between
`_stacked_system` solves the linear systems, whose sizes change from step to step.
"""

from typing import NamedTuple

from .._arrays import Array, positive_part
from .._lq import prox_lq_in_steps
from ._stacked_problems import Look, Point, StackedProblems

#: What the damping is multiplied with where no length will do, and its bounds.
_REFUSED_FACTOR = 1e3
_MIN_DAMPING, _MAX_DAMPING = 1e-10, 1e3
#: γ of the normal map in units of one over the group's share of the trace of the Hessian, as in `_newton_problem`.
_GAMMA = 25.0
#: Steps without progress before a problem is given up.
_PATIENCE = 20
#: A far alpha is approached by a coarse path: its ratio, and the gap that is enough on it.
_COARSE_STEP, _COARSE_TOL = 0.4, 1e-2
#: New atoms enter once the last step was this small a share of the gap.
_SETTLED = 0.3


class Paths(NamedTuple):
    """Where every problem is to go: alphas and similarities (A, P), and the gap to reach, (P,)."""

    alphas: Array
    similarities: Array
    goal: Array


class Aim(NamedTuple):
    """What every problem is after, (P,).

    Attributes
    ----------
    place : which step of its path it is on the way to
    alpha, similarity, goal : the problem it is solving, and the gap to reach
    on_target : whether that is the step itself, or a waypoint before it
    fresh : whether it only just set out
    steps : taken on the way to this place
    """

    place: Array
    alpha: Array
    similarity: Array
    goal: Array
    on_target: Array
    fresh: Array
    steps: Array


class Progress(NamedTuple):
    """How every problem gets on, (P,).

    The damping; the least gap and value at this aim; steps since there was progress; the last step's predicted decrease.
    """

    damping: Array
    best: Array
    lowest: Array
    waited: Array
    decrease: Array


class Judged(NamedTuple):
    """A look at all problems: what the host needs to know, (4, P), who enters, the aims from here.

    ``flags``: has arrived at its place, steps it took there, asks for atoms, bound of its active groups.
    """

    flags: Array
    entering: Array
    look: Look
    aim: Aim
    progress: Progress


class Prepared(NamedTuple):
    """A Newton step before its systems are solved.

    Attributes
    ----------
    packed : array of shape (P G + 1, 4 T r)
        Scale R, diagonal, direction k √c and right-hand side of every group; the last row is that of no group.
    packed_rows, trial_rows : arrays of shape (P, G) and (P, T, G)
        Which rows of ``packed`` and of the trials hold the active groups of a problem; they come first.
    spread : array of shape (P, G)
        At which place an active group stands; −1: not active.
    root : array of shape (P, T, n)
        √(2p) of the trials inside the margin, else 0.
    u, gamma, slope, residual : arrays of shape (P, G, T, r)
    threshold : array of shape (P, atoms)
    """

    packed: Array
    packed_rows: Array
    trial_rows: Array
    spread: Array
    root: Array
    u: Array
    gamma: Array
    residual: Array
    threshold: Array
    value: Array


class Step(NamedTuple):
    """Solutions of the systems: δw and H(δw, δb), (P, G, T, r), and δb, (P, T)."""

    dw: Array
    bent: Array
    db: Array


def _clip(xp, values: Array, least: float, most: float) -> Array:
    return xp.where(values < least, least, xp.where(values > most, most, values))


def _wide(values: Array) -> Array:
    return values[:, None, None, None]


def descent(look: Look, similarity: Array) -> Array:
    """Minus the gradient of the smooth part, (P, G, T, r)."""
    return look.pull - 2 * _wide(similarity) * look.deviation


def dual_norms(problems: StackedProblems, pull: Array) -> Array:
    """Dual norm of every atom, (P, atoms)."""
    return problems.penalty.dual_norm(problems.blocks(pull)[..., None])[..., 0]


def is_present(problems: StackedProblems, look: Look) -> Array:
    """Atoms that are not zero, or never are, (P, atoms)."""
    return (look.norms > 0) | problems.free if problems.penalty.is_norm else problems.penalised | problems.free


def _value(look: Look, aim: Aim) -> Array:
    return look.loss + aim.similarity * look.spread + aim.alpha * look.penalty


def _gamma(problems: StackedProblems, similarity: Array) -> Array:
    return _GAMMA / (_stiffness(problems, similarity) * problems.trace)


def _stiffness(problems: StackedProblems, similarity: Array) -> Array:
    """How much stiffer the similarity term makes every atom, (P, atoms): 1 without it."""
    return 1 + 2 * similarity[:, None] * problems.atom_size / problems.trace


# A look: how far is every problem, and what does it need?


def judge(problems: StackedProblems, max_iter: int, paths: Paths, point: Point, aim: Aim, progress: Progress) -> Judged:
    """Gap and progress of every problem; those that are done are sent on; who enters."""
    xp = problems.xp
    look = problems.look(point)
    pull = descent(look, aim.similarity)
    dual = dual_norms(problems, pull)
    value = _value(look, aim)
    gap = _gap(problems, look, point, (pull, dual), aim)
    present = is_present(problems, look)
    waited = xp.where((gap < 0.9 * progress.best) | (value < (1 - 1e-13) * progress.lowest), 0.0, progress.waited)
    settled = aim.fresh | (progress.decrease <= _SETTLED * gap * value)
    asks = xp.any(_asking(problems, present, dual, aim, settled), axis=1)
    # A zero model is only taken where nothing asks to enter, however little it would bring.
    done = (gap <= aim.goal) & ~(aim.fresh & asks)
    spent = aim.steps >= max_iter
    stop = done | ((waited > _PATIENCE) & ~asks) | spent
    arrived = stop & (aim.on_target | spent)
    onward = _onward(problems, paths, aim, stop, arrived)
    progress = Progress(
        progress.damping,
        xp.where(stop, float("inf"), xp.minimum(gap, progress.best)),
        xp.where(stop, float("inf"), xp.minimum(value, progress.lowest)),
        xp.where(stop, 0.0, waited),
        progress.decrease,
    )
    if problems.similar:
        dual = dual_norms(problems, descent(look, onward.similarity))
    entering = _entering(problems, present, dual, onward, settled | stop)
    count = xp.sum(xp.astype(problems.groups_with(present | entering), xp.int64), axis=1)
    asks, arrived = (xp.astype(flag, xp.int64) for flag in (xp.any(entering, axis=1), arrived))
    return Judged(xp.stack([arrived, aim.steps, asks, count]), entering, look, onward, progress)


def _onward(problems: StackedProblems, paths: Paths, aim: Aim, stop: Array, arrived: Array) -> Aim:
    """Send those who stopped on: down a coarse path, or to where they are to go next."""
    xp = problems.xp
    A = paths.alphas.shape[0]
    place = aim.place + xp.astype(arrived, xp.int64)
    index = xp.where(place < A, place, A - 1) * problems.P + problems.range_P
    target = xp.take(xp.reshape(paths.alphas, (-1,)), index)
    alpha = target
    if problems.penalty.is_norm:
        # A far jump wakes too many groups at once.
        alpha = xp.where(stop, xp.maximum(target, _COARSE_STEP * aim.alpha), aim.alpha)
    on_target = alpha <= target
    coarse = xp.where(paths.goal > _COARSE_TOL, paths.goal, _COARSE_TOL)
    return Aim(
        place,
        alpha,
        xp.take(xp.reshape(paths.similarities, (-1,)), index),
        xp.where(on_target, paths.goal, coarse),
        on_target,
        aim.fresh | stop,
        xp.where(arrived, 0, aim.steps),
    )


def _gap(problems: StackedProblems, look: Look, point: Point, gradient: tuple[Array, Array], aim: Aim) -> Array:
    """The certificate's gap, from what the solver has at hand; the certificate itself has the last word."""
    xp = problems.xp
    pull, dual = gradient
    value = _value(look, aim)
    S1, S2 = xp.sum(look.a, axis=(1, 2)), look.loss + aim.similarity * look.spread
    if problems.center is not None:
        S1 = S1 - 2 * aim.similarity * xp.sum(look.deviation * problems.center, axis=(1, 2, 3))
    share = xp.where(problems.penalised, dual / problems.safe_beta, 0.0) / aim.alpha[:, None]
    kappa = S1 / xp.where(S2 > 0, 2 * S2, 1.0)
    if problems.penalty.is_norm:
        largest = xp.max(share, axis=1)
        kappa = xp.minimum(kappa, 1 / xp.where(largest > 0, largest, 1e-300))
    else:
        S2 = S2 + xp.sum(share * xp.where(problems.penalised, dual, 0.0), axis=1) / 2
        kappa = S1 / xp.where(S2 > 0, 2 * S2, 1.0)
    kappa = positive_part(kappa)
    difference = xp.abs(value - (kappa * S1 - kappa**2 * S2)) + _lack(problems, look, point, pull)
    return xp.where(value > 0, difference / xp.where(value > 0, value, 1.0), 0.0)


def _lack(problems: StackedProblems, look: Look, point: Point, pull: Array) -> Array:
    """What unpenalised coefficients and intercepts still lack of their equalities makes the dual value too high."""
    xp = problems.xp
    lack = xp.sum(xp.abs(look.pull_b * point.b) + look.pull_b**2 / problems.subject_weight, axis=1)
    if problems.has_free:
        own = xp.abs(pull * point.W) + pull**2 / problems.bend
        lack = lack + xp.sum(xp.where(problems.of_atoms(problems.free), own, 0.0), axis=(1, 2, 3))
    return lack


def _asking(problems: StackedProblems, present: Array, dual: Array, aim: Aim, settled: Array) -> Array:
    """The absent atoms whose gradient has left its dual ball, (P, atoms); none until the present ones have settled."""
    if not problems.penalty.is_norm:
        return problems.xp.zeros_like(present)
    outside = dual > (1 + 1e-10) * aim.alpha[:, None] * problems.safe_beta
    return problems.penalised & ~present & outside & settled[:, None]


def _entering(problems: StackedProblems, present: Array, dual: Array, aim: Aim, settled: Array) -> Array:
    """Those of them that ask most, (P, atoms): few at a time."""
    xp = problems.xp
    asking = _asking(problems, present, dual, aim, settled)
    if not problems.penalty.is_norm:
        return asking
    ratio = xp.where(asking, dual / problems.safe_beta, 0.0)
    if problems.single_atoms:
        # where nothing ties them, one at a time needs a third of the steps
        return asking & (ratio >= xp.max(ratio, axis=1, keepdims=True))
    # groups may come in twos, or a fifth of those present
    count = xp.sum(xp.astype(present, xp.int64), axis=1, keepdims=True)
    rank = xp.argsort(xp.argsort(ratio, axis=1, descending=True), axis=1)
    return asking & (rank < xp.where(count > 10, count // 5, 2))


def enter(problems: StackedProblems, point: Point, look: Look, aim: Aim, entering: Array) -> tuple[Point, Look]:
    """Proximal step of the entering atoms (P, atoms), its common length the best of several."""
    xp = problems.xp
    gamma = xp.where(entering, _gamma(problems, aim.similarity), 0.0)
    threshold = gamma * aim.alpha[:, None] * problems.safe_beta
    forward = problems.of_atoms(gamma) * descent(look, aim.similarity)
    direction = _prox(problems, forward, threshold)
    change = problems.scores(direction[:, None, ...])
    lengths = problems.entry_lengths
    margins = problems.margins(point.Zw, point.b)[:, None, ...] + lengths[:, None, None] * change
    price = aim.alpha * problems.penalty_value(direction)
    value = xp.sum(problems.p[:, None, ...] * problems.loss.value(margins), axis=(2, 3)) + price[:, None] * lengths
    if problems.similar:
        spread = problems.spread(direction)
        bend, slope = xp.sum(spread**2, axis=(1, 2, 3)), 2 * xp.sum(spread * look.deviation, axis=(1, 2, 3))
        value = value + aim.similarity[:, None] * (bend[:, None] * lengths**2 + slope[:, None] * lengths)
    best = xp.take(lengths, xp.argmin(value, axis=1))
    point = Point(point.W + _wide(best) * direction, point.b, point.Zw + best[:, None, None] * change[:, 0, ...])
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


# A step: before its systems are solved, and after.


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
        _value(look, aim),
    )


def _penalty_curvature(problems: StackedProblems, W: Array, look: Look, aim: Aim, rest: tuple[Array, Array]):
    """R, diagonal, k √c and gradient of the penalty at W, on slots; and the γ of the normal map, on atoms.

    The similarity's and the damping's curvature is in the diagonal; γ is 0 where the penalty is smooth.
    """
    xp, q, atoms = problems.xp, problems.q, problems.of_atoms
    damping, present = rest
    mask = atoms(present) & problems.real
    own = _wide(damping) * problems.bend + 2 * _wide(aim.similarity)
    one, zero = xp.astype(mask, W.dtype), xp.zeros_like(W)
    tau = xp.where(present, aim.alpha[:, None] * problems.finite_beta, 0.0)
    if not problems.penalty.is_norm:
        return one, xp.where(mask, atoms(tau) + own, 1.0), zero, atoms(tau) * W, xp.zeros_like(tau)
    bent = present & problems.penalised
    norm = xp.where(bent, look.norms, 1.0)
    gamma = xp.where(bent, _gamma(problems, aim.similarity), 0.0)
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
        longer = norm / xp.where(tau > 0, tau, 1.0) / _stiffness(problems, aim.similarity)
        gamma = xp.where(bent, xp.maximum(gamma, longer), 0.0)
    diagonal = xp.where(mask, atoms(weight) + own * scale**2, 1.0)
    return scale, diagonal, direction * atoms(xp.sqrt(weight)), slope, gamma


def advance(
    problems: StackedProblems, point: Point, aim: Aim, progress: Progress, prepared: Prepared, step: Step, pull_b: Array
) -> tuple[Point, Aim, Progress]:
    """Try several lengths of the step through the prox at once, and take the first that lowers the objective enough."""
    xp = problems.xp
    decrease = xp.sum(pull_b * step.db, axis=1) - xp.sum(prepared.residual * step.dw, axis=(1, 2, 3))
    predicted = step.bent + prepared.residual + _wide(progress.damping) * problems.bend * step.dw
    if problems.similar:
        predicted = predicted + 2 * _wide(aim.similarity) * problems.spread(step.dw)
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


def advance_and_judge(problems: StackedProblems, max_iter: int, paths: Paths, *rest) -> tuple[Point, Judged]:
    """Take the step, and look where it led."""
    point, aim, progress = advance(problems, *rest)
    return point, judge(problems, max_iter, paths, point, aim, progress)
