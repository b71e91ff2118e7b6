"""Where the solution at the next step of a path is expected, at no cost of another matrix.

As alpha falls to alpha' and the similarity changes by δ, the solution moves by about

    M⁻¹ ((1 − alpha'/alpha) ∇Ω − 2 δ R'(R w − v̄)),

∇Ω being the gradient of the penalty, the other term that of the similarity term at similarity 1, and M the matrix of
Newton's method on the active groups. The last step before a solution has factorised a matrix which is nearly that one,
so that this tangent is one more right-hand side of its system. A Newton step from the last solution would lead nearly
to the same point.

Which atoms enter is then seen from the gradient at the point that is expected, where it is nearly that of the next
alpha. A parabola through the last two solutions with this tangent predicts no better: too many trials cross the margin
between two alphas.
"""

from types import ModuleType

from mixnorm.core.arrays import Array
from mixnorm.solvers.newton.batched.problems import Look, Point, StackedProblems
from mixnorm.solvers.newton.batched.state import Aim, Tangent, value_of


def predicted(
    problems: StackedProblems, point: Point, look: Look, tangent: Tangent, aim: Aim, onward: Aim
) -> tuple[Point, Look]:
    """Return the points at which the next steps of the paths begin, and a look at them.

    A problem stays where it is if it does not go on, or if its value at the next step would not be lower.
    """
    goes_on = onward.alpha != aim.alpha
    if problems.similar:
        goes_on = goes_on | (onward.similarity != aim.similarity)
    W, b = point.W + _without_crossings(problems, point.W, tangent.W), point.b + tangent.b
    there = Point(W, b, problems.scores(W[:, None, ...])[:, 0, ...])
    seen = problems.look(there)
    # Not true of a tangent that is not finite, from a matrix that was not positive definite.
    lower = value_of(problems, seen, onward) < value_of(problems, look, onward)
    moved = lower & goes_on
    return _where(problems, moved, there, point), _where(problems, moved, seen, look)


def expected_change(xp: ModuleType, similarity: Array, after: Array) -> Array:
    """By how much the similarity changes, less where it rises, from σ to σ': then σ (σ' − σ)/σ'.

    A large similarity σ leaves deviations between subjects in proportion to 1/σ, and a small one hardly changes them.
    Linear in 1/σ on the way up, and in σ on the way down, the prediction goes too far in neither case.
    """
    change = after - similarity
    return xp.where(change > 0, change * similarity / xp.where(after > 0, after, 1.0), change)


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
