"""A look at all problems at once: how far each is, where it goes next, and what enters.

Functions of arrays that never ask the host for anything, so that they can be recorded and replayed.
"""

from mixnorm.core.arrays import Array, positive_part
from mixnorm.solvers.newton.batched.problems import Look, Point, StackedProblems
from mixnorm.solvers.newton.batched.state import (
    Aim,
    Judged,
    Paths,
    Progress,
    descent,
    dual_norms,
    is_present,
    value_of,
)

#: Steps without progress before a problem is given up.
_PATIENCE = 20
#: A far alpha is approached by a coarse path: its ratio, and the gap that is enough on it.
_COARSE_STEP, _COARSE_TOL = 0.4, 1e-2
#: New atoms enter once the last step was this small a share of the gap.
_SETTLED = 0.3


def judge(
    problems: StackedProblems, max_iter: int, paths: Paths, point: Point, aim: Aim, progress: Progress
) -> Judged:
    """Gap and progress of every problem; those that are done are sent on; who enters."""
    xp = problems.xp
    look = problems.look(point)
    pull = descent(look, aim.similarity)
    dual = dual_norms(problems, pull)
    value = value_of(look, aim)
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
    value = value_of(look, aim)
    S1 = xp.sum(look.a, axis=(1, 2)) - 2 * aim.similarity * look.toward
    S2 = look.loss + aim.similarity * look.spread
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
