"""The least value of every problem along a straight line, with ℓ1: φ(s) = F(w + s δw, b + s δb), s in [0, 1].

φ is convex and φ' piecewise linear: its slope changes where a trial crosses the margin, and it jumps by 2 τ_i |δw_i|
where a coefficient passes zero (a kink). Sorted by s, all these changes give φ' at each of them by a cumulative sum,
and so the exact minimum for all problems at once.

Shortened through the prox, a step lets coefficients leave, but those that have left no longer balance what the others
do; where trials inside the margin are hardly more than coefficients, such a step must be very short.
"""

from types import ModuleType
from typing import NamedTuple

from mixnorm.core.arrays import Array
from mixnorm.solvers.newton.batched.problems import Point, StackedProblems
from mixnorm.solvers.newton.batched.state import Aim, Step, wide


class _Changes(NamedTuple):
    """Where φ'(s) = A + B s changes, and by how much A and B change there, (P, x); s = 1: not before the end."""

    s: Array
    A: Array
    B: Array


def least_along(problems: StackedProblems, point: Point, step: Step, aim: Aim) -> tuple[Point, Array]:
    """Return the point of least value along a step with ℓ1, exactly zero at a kink, and its length, (P,)."""
    xp = problems.xp
    scores = problems.scores(step.dw[:, None, ...])[:, 0, ...]
    change = problems.margins(scores, step.db)
    tau = wide(aim.alpha) * problems.of_atoms(problems.finite_beta)
    of_trials, A, B = _trials(problems, problems.margins(point.Zw, point.b), change)
    of_kinks, passes = _kinks(problems, point.W, step.dw, tau)
    A = A + xp.sum(tau * xp.where(point.W == 0, xp.abs(step.dw), xp.sign(point.W) * step.dw), axis=(1, 2, 3))
    if problems.similar:
        spread = problems.spread(step.dw)
        A = A + 2 * aim.similarity * xp.sum(problems.deviation(point.W) * spread, axis=(1, 2, 3))
        B = B + 2 * aim.similarity * xp.sum(spread**2, axis=(1, 2, 3))
    if problems.ridge is not None:
        gradient = problems.ridge_gradient(step.dw)
        A, B = (part + xp.sum(gradient * along, axis=(1, 2, 3)) for part, along in ((A, point.W), (B, step.dw)))
    both = _Changes(*(xp.concat(parts, axis=1) for parts in zip(of_trials, of_kinks, strict=True)))
    length = _zero_of_slope(xp, both, A, B)
    at_kink = passes & (xp.reshape(of_kinks.s, point.W.shape) == wide(length))
    W = xp.where(at_kink, 0.0, point.W + wide(length) * step.dw)
    return Point(W, point.b + length[:, None] * step.db, point.Zw + length[:, None, None] * scores), length


def _trials(problems: StackedProblems, margins: Array, change: Array) -> tuple[_Changes, Array, Array]:
    """What changes where trials cross the margin, and A and B of the loss at s = 0, (P,)."""
    xp = problems.xp
    inside, short = margins < 1, 1 - margins
    crosses = xp.where(inside, change > 0, change < 0)
    s = xp.where(crosses, short / xp.where(crosses, change, 1.0), 1.0)
    crosses = crosses & (s < 1)
    A, B = -2 * problems.p * short * change, 2 * problems.p * change**2
    by_crossing = (xp.where(crosses, xp.where(inside, -part, part), 0.0) for part in (A, B))
    parts = xp.where(crosses, s, 1.0), *by_crossing
    changes = _Changes(*(xp.reshape(part, (problems.P, -1)) for part in parts))
    return changes, *(xp.sum(xp.where(inside, part, 0.0), axis=(1, 2)) for part in (A, B))


def _kinks(problems: StackedProblems, W: Array, dw: Array, tau: Array) -> tuple[_Changes, Array]:
    """What changes where coefficients pass zero, and which of them do, (P, G, T, r)."""
    xp = problems.xp
    passes = W * dw < 0
    s = xp.where(passes, -W / xp.where(passes, dw, 1.0), 1.0)
    passes = passes & (s < 1)
    parts = xp.where(passes, s, 1.0), xp.where(passes, 2 * tau * xp.abs(dw), 0.0), xp.zeros_like(W)
    return _Changes(*(xp.reshape(part, (problems.P, -1)) for part in parts)), passes


def _zero_of_slope(xp: ModuleType, changes: _Changes, A: Array, B: Array) -> Array:
    """The s in [0, 1] at which φ' passes zero, (P,); 1 where it is negative up to there."""
    order = xp.argsort(changes.s, axis=1)
    s, dA, dB = (xp.take_along_axis(part, order, axis=1) for part in changes)
    A, B = A[:, None] + xp.cumulative_sum(dA, axis=1), B[:, None] + xp.cumulative_sum(dB, axis=1)
    # φ' increases: the first change at which it is not negative comes after all those at which it is.
    n_below = xp.sum(xp.astype(A + B * s < 0, xp.int64), axis=1, keepdims=True)
    last = s.shape[1] - 1
    first = xp.where(n_below < last, n_below, last)
    s, A, B, dA, dB = (xp.take_along_axis(part, first, axis=1)[:, 0] for part in (s, A, B, dA, dB))
    A, B = A - dA, B - dB  # before this change
    between = -A / xp.where(B > 0, B, 1.0)
    is_between = (B > 0) & (between < s)
    return xp.where(is_between, xp.where(between > 0, between, 0.0), s)
