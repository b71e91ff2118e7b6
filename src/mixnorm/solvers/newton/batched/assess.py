"""A look at all problems at once: how far each is from its optimum, which alpha is next, and which atoms enter.

Functions of arrays that never ask the host for anything, so that they can be recorded and replayed.
"""

from mixnorm.core.arrays import Array
from mixnorm.solvers.newton.batched.predictor import expected_change, predicted
from mixnorm.solvers.newton.batched.problems import Look, Point, StackedProblems
from mixnorm.solvers.newton.batched.state import (
    Aim,
    Assessed,
    Paths,
    Progress,
    Slopes,
    Tangent,
    is_present,
    slopes_of,
    value_of,
)
from mixnorm.solvers.newton.rules import (
    asks_to_enter,
    gap_estimate,
    is_given_up,
    is_progress,
    next_alpha,
    number_to_enter,
    unmet_equality,
)
from mixnorm.solvers.newton.tuning import ALIKE, BATCHED, SETTLED


def assess(
    problems: StackedProblems,
    max_iter: int,
    paths: Paths,
    point: Point,
    aim: Aim,
    progress: Progress,
    tangent: Tangent,
) -> Assessed:
    """Return gap and progress of every problem, the next aim of those that are done, and the atoms that enter."""
    xp = problems.xp
    look = problems.look(point)
    slopes = slopes_of(problems, look, aim.similarity)
    value = value_of(problems, look, aim)
    gap = _gap(problems, look, point, slopes, aim)
    present = is_present(problems, look)
    better = is_progress(gap, progress.best, value, progress.lowest, problems.penalty.is_norm)
    waited = xp.where(better, 0.0, progress.waited)
    settled = aim.fresh | (progress.decrease <= SETTLED * gap * value)
    asks = xp.any(_asking(problems, present, slopes.dual_norms, aim, settled), axis=1)
    # A zero model is only accepted where no atom asks to enter, however small the gap.
    done = (gap <= aim.goal) & ~(aim.fresh & asks)
    spent = aim.steps >= max_iter
    stop = done | is_given_up(waited, ~asks, BATCHED) | spent
    arrived = stop & (aim.on_target | spent)
    onward = _onward(problems, paths, aim, stop, arrived)
    progress = Progress(
        progress.damping,
        xp.where(stop, float("inf"), xp.minimum(gap, progress.best)),
        xp.where(stop, float("inf"), xp.minimum(value, progress.lowest)),
        xp.where(stop, 0.0, waited),
        progress.decrease,
    )
    point, look = predicted(problems, point, look, tangent, aim, onward)
    present, slopes = is_present(problems, look), slopes_of(problems, look, onward.similarity)
    entering = _entering(problems, present, slopes.dual_norms, onward, settled | stop)
    count = xp.sum(xp.astype(problems.groups_with(present | entering), xp.int64), axis=1)
    asks, arrived = (xp.astype(flag, xp.int64) for flag in (xp.any(entering, axis=1), arrived))
    return Assessed(xp.stack([arrived, aim.steps, asks, count]), entering, point, look, onward, progress)


def _onward(problems: StackedProblems, paths: Paths, aim: Aim, stop: Array, arrived: Array) -> Aim:
    """Give those that stopped their next aim: down a coarse path, or to the next step of their path."""
    xp = problems.xp
    place = aim.place + xp.astype(arrived, xp.int64)
    target, similarity = _target(problems, paths, place)
    alpha = target
    if problems.penalty.is_norm:
        alpha = xp.where(stop, next_alpha(xp, target, aim.alpha, BATCHED.coarse.ratio), aim.alpha)
    on_target = alpha <= target
    after, similarity_after = _target(problems, paths, place + xp.astype(on_target, xp.int64))
    if problems.penalty.is_norm:
        after = next_alpha(xp, after, alpha, BATCHED.coarse.ratio)
    coarse = xp.where(paths.goal > BATCHED.coarse.gap, paths.goal, BATCHED.coarse.gap)
    return Aim(
        place,
        alpha,
        similarity,
        xp.where(on_target, paths.goal, coarse),
        on_target,
        aim.fresh | stop,
        xp.where(arrived, 0, aim.steps),
        1 - after / alpha,
        expected_change(xp, similarity, similarity_after) if problems.similar else aim.change,
    )


def _target(problems: StackedProblems, paths: Paths, place: Array) -> tuple[Array, Array]:
    """Return alpha and similarity of every problem at a step of its path, at most the last one, (P,)."""
    xp, A = problems.xp, paths.alphas.shape[0]
    index = xp.where(place < A, place, A - 1) * problems.P + problems.range_P
    return tuple(xp.take(xp.reshape(values, (-1,)), index) for values in (paths.alphas, paths.similarities))


def _gap(problems: StackedProblems, look: Look, point: Point, slopes: Slopes, aim: Aim) -> Array:
    """An estimate of the certificate's gap from what is at hand, (P,)."""
    xp = problems.xp
    S1, S2 = xp.sum(look.a, axis=(1, 2)), look.loss
    if problems.similar:
        S1, S2 = S1 - 2 * aim.similarity * look.toward, S2 + aim.similarity * look.spread
    dual = xp.where(problems.penalised, slopes.dual_norms, 0.0)
    ratios = dual / problems.safe_beta / aim.alpha[:, None]
    if problems.penalty.is_norm:
        ratio = xp.max(ratios, axis=1)
    else:
        S2, ratio = S2 + xp.sum(ratios * dual, axis=1) / 2, xp.zeros_like(S1)
    return gap_estimate(xp, value_of(problems, look, aim), S1, S2, ratio, _lack(problems, look, point, slopes.descent))


def _lack(problems: StackedProblems, look: Look, point: Point, descent: Array) -> Array:
    """What intercepts and unpenalised coefficients, which are not solved exactly, may add to the gap, (P,)."""
    xp = problems.xp
    lack = xp.sum(unmet_equality(look.pull_b, point.b, problems.subject_weight), axis=1)
    if problems.has_free:
        own = unmet_equality(descent, point.W, problems.bend)
        lack = lack + xp.sum(xp.where(problems.of_atoms(problems.free), own, 0.0), axis=(1, 2, 3))
    return lack


def _asking(problems: StackedProblems, present: Array, dual: Array, aim: Aim, settled: Array) -> Array:
    """The absent atoms whose gradient has left its dual ball, (P, atoms); none until the present ones have settled."""
    if not problems.penalty.is_norm:
        return problems.xp.zeros_like(present)
    outside = asks_to_enter(dual, aim.alpha[:, None] * problems.safe_beta)
    return problems.penalised & ~present & outside & settled[:, None]


def _entering(problems: StackedProblems, present: Array, dual: Array, aim: Aim, settled: Array) -> Array:
    """Those of the asking atoms that enter, (P, atoms): few at a time, the largest first."""
    xp = problems.xp
    asking = _asking(problems, present, dual, aim, settled)
    if not problems.penalty.is_norm:
        return asking
    ratio = xp.where(asking, dual / problems.safe_beta, 0.0)
    if problems.single_atoms:
        return _unlike(problems, asking, ratio)
    count = xp.sum(xp.astype(present, ratio.dtype), axis=1, keepdims=True)
    rank = xp.argsort(xp.argsort(ratio, axis=1, descending=True), axis=1)
    return asking & (xp.astype(rank, ratio.dtype) < number_to_enter(xp, BATCHED.entry_limit(0.0), count))


def _unlike(problems: StackedProblems, asking: Array, ratio: Array) -> Array:
    """Those of the asking coefficients that enter together, (P, atoms): the largest that resemble none before them."""
    xp = problems.xp
    first = xp.argsort(ratio, axis=1, descending=True)[:, : BATCHED.coefficients_at_once]
    columns = problems.columns(first)
    alike = xp.abs(xp.matmul(columns, xp.matrix_transpose(columns))) > ALIKE
    asks = xp.take_along_axis(asking, first, axis=1)
    kept = xp.zeros_like(asks)
    for j in range(first.shape[1]):
        kept[:, j] = asks[:, j] & ~xp.any(kept & alike[:, :, j], axis=1)
    return xp.any(kept[:, :, None] & (problems.range_atoms == first[:, :, None]), axis=1)
