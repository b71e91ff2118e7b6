"""Where the solution at the next alpha of a path is expected, at no cost of another matrix.

As alpha falls, the solution moves along the tangent −alpha dw/dalpha = M⁻¹ ∇Ω, ∇Ω being the gradient of the penalty
and M the matrix of Newton's method on the active groups. The last step before a solution has factorised a matrix which
is nearly that one, so that the tangent is one more right-hand side of its system. A Newton step from the last solution
would lead nearly to the same point.

Which atoms enter is then seen from the gradient at the point that is expected, where it is nearly that of the next
alpha. A parabola through the last two solutions with this tangent predicts no better: too many trials cross the margin
between two alphas.
"""

from mixnorm.core.arrays import Array
from mixnorm.solvers.newton.batched.problems import Look, Point, StackedProblems
from mixnorm.solvers.newton.batched.state import Aim, Tangent, value_of, wide


def predicted(
    problems: StackedProblems, point: Point, look: Look, tangent: Tangent, aim: Aim, onward: Aim
) -> tuple[Point, Look]:
    """Return the points at which the next alphas begin, and a look at them.

    A problem stays where it is if its alpha stays, if its similarity changes, of which the tangent knows nothing, or
    if its value at the next alpha would not be lower.
    """
    length = 1 - onward.alpha / aim.alpha
    change = _without_crossings(problems, point.W, wide(length) * tangent.W)
    W, b = point.W + change, point.b + length[:, None] * tangent.b
    there = Point(W, b, problems.scores(W[:, None, ...])[:, 0, ...])
    seen = problems.look(there)
    # Not true of a tangent that is not finite, from a matrix that was not positive definite.
    lower = value_of(seen, onward) < value_of(look, onward)
    moved = lower & (length != 0) & (aim.similarity == onward.similarity)
    return _where(problems, moved, there, point), _where(problems, moved, seen, look)


def _without_crossings(problems: StackedProblems, W: Array, change: Array) -> Array:
    """Let atoms that a change would take across their zero stay where they are.

    Beyond it the gradient of their norm points the other way, and a Newton step from there can be far too long.
    """
    if not problems.penalty.is_norm:
        return change
    xp = problems.xp
    crosses = problems.penalised & (xp.sum(problems.blocks(W * (W + change)), axis=-1) < 0)
    return xp.where(problems.of_atoms(crosses), 0.0, change)


def _where(problems: StackedProblems, moved: Array, one, other):
    """Return a point or a look of those problems that moved from one, and of the others from another."""
    xp = problems.xp

    def pick(here: Array, there: Array) -> Array:
        return xp.where(xp.reshape(moved, (problems.P, *(1,) * (here.ndim - 1))), here, there)

    return type(one)(*(pick(here, there) for here, there in zip(one, other, strict=True)))
