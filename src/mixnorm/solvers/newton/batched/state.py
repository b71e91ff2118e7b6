"""What the batched engine knows of all problems at a time, as named tuples of arrays, and what follows from it."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mixnorm.core.arrays import Array, put_rows
from mixnorm.solvers.newton.batched.problems import Look, Point, StackedProblems
from mixnorm.solvers.newton.rules import stiffness
from mixnorm.solvers.newton.tuning import BATCHED


class Paths(NamedTuple):
    """The path of every problem: alphas and similarities (A, P), and the gap to reach, (P,)."""

    alphas: Array
    similarities: Array
    goal: Array


class Aim(NamedTuple):
    """What every problem is being solved for, (P,).

    Attributes
    ----------
    place : the step of its path that comes next
    alpha, similarity, goal : the problem it is solving, and the gap to reach
    on_target : whether alpha is that of the step itself, or one of the coarse path before it
    fresh : whether no Newton step was taken for this aim yet
    steps : Newton steps taken since the last step of the path
    fall, change : 1 − alpha'/alpha, alpha' being the next one, and by how much the similarity is expected to change
    """

    place: Array
    alpha: Array
    similarity: Array
    goal: Array
    on_target: Array
    fresh: Array
    steps: Array
    fall: Array
    change: Array


class Progress(NamedTuple):
    """The progress of every problem, (P,).

    The damping; the least gap and value for this aim; steps since the last progress; the decrease that the last step
    predicted.
    """

    damping: Array
    best: Array
    lowest: Array
    waited: Array
    decrease: Array


class Slopes(NamedTuple):
    """Minus the gradient of the smooth part, (P, G, T, r), and its dual norm on every atom, (P, atoms)."""

    descent: Array
    dual_norms: Array


class Assessed(NamedTuple):
    """A look at all problems: flags for the host, (4, P), the atoms that enter, the next aims and their first points.

    ``flags``: whether it arrived at its step of the path, the steps it took, whether atoms enter, and a bound of the
    number of active groups.
    """

    flags: Array
    entering: Array
    point: Point
    look: Look
    aim: Aim
    progress: Progress


class Prepared(NamedTuple):
    """A Newton step before its systems are solved.

    Attributes
    ----------
    packed : array of shape (P G + 1, 5 T r)
        Scale R, diagonal, direction k √c and the right-hand sides of step and tangent of every group; the last row is
        that of no group.
    packed_rows, trial_rows : arrays of shape (P, G) and (P, T, G)
        Which rows of ``packed`` and of the trials hold the active groups of a problem; they come first.
    spread : array of shape (P, G)
        At which place an active group stands; −1: not active.
    root : array of shape (P, T, n)
        √(2p) of the trials inside the margin, else 0.
    u, gamma, residual : arrays of shape (P, G, T, r)
    threshold : array of shape (P, atoms)
    pull_b : array of shape (P, T)
        Minus the gradient in the intercepts.
    similarity, value : arrays of shape (P,)
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
    pull_b: Array
    similarity: Array
    value: Array


class Tangent(NamedTuple):
    """How the solution is expected to move to the next alpha and similarity, (P, G, T, r); the intercepts, (P, T)."""

    W: Array
    b: Array


class Step(NamedTuple):
    """Solutions of the systems: δw and H(δw, δb), (P, G, T, r), δb, (P, T), and the tangent of the path."""

    dw: Array
    bent: Array
    db: Array
    tangent: Tangent


@dataclass(frozen=True, eq=False)
class Found:
    """Solutions at the A steps of the paths; those of problems that did not run hold nothing of use.

    Attributes
    ----------
    W, b : arrays of shape (A, P, G, T, r) and (A, P, T)
        Overwritten by the next run with as many steps.
    n_iter : ndarray of shape (A, P)
    """

    W: Array
    b: Array
    n_iter: np.ndarray


@dataclass(frozen=True, eq=False)
class Kept:
    """Where the solutions along paths of A steps are kept, on the device, so that the host has nothing to do with it.

    Attributes
    ----------
    W, b : arrays of shape (A P + 1, G T r) and (A P + 1, T)
        Row a P + p is problem p at step a of its path; the last one is for what is not to be kept.
    """

    W: Array
    b: Array

    @classmethod
    def of(cls, problems: StackedProblems, A: int) -> "Kept":
        """Make room for the solutions of paths of A steps."""
        sizes = problems.G * problems.T * problems.r, problems.T
        shapes = [(A * problems.P + 1, size) for size in sizes]
        return cls(*(problems.xp.zeros(shape, dtype=problems.p.dtype, device=problems.p.device) for shape in shapes))

    def keep(self, problems: StackedProblems, point: Point, place: Array, assessed: Assessed) -> None:
        """Keep the points of those problems that arrived at a step of their path, which is that at ``place`` (P,)."""
        xp, last = problems.xp, self.W.shape[0] - 1
        rows = place * problems.P + problems.range_P
        # problems at the end of their path take steps along with the others
        rows = xp.where((assessed.flags[0, :] > 0) & (rows < last), rows, last)
        put_rows(self.W, rows, xp.reshape(point.W, (problems.P, -1)))
        put_rows(self.b, rows, point.b)

    def found(self, problems: StackedProblems, n_iter: np.ndarray) -> Found:
        """Return what was kept."""
        lead = n_iter.shape
        W = problems.xp.reshape(self.W[:-1, :], (*lead, problems.G, problems.T, problems.r))
        return Found(W, problems.xp.reshape(self.b[:-1, :], (*lead, problems.T)), n_iter)


def wide(values: Array) -> Array:
    """Return (P,) in a shape that broadcasts with slots (P, G, T, r)."""
    return values[:, None, None, None]


def descent(problems: StackedProblems, look: Look, similarity: Array) -> Array:
    """Minus the gradient of the smooth part, (P, G, T, r)."""
    return look.pull - 2 * wide(similarity) * look.mapped_back if problems.similar else look.pull


def is_present(problems: StackedProblems, look: Look) -> Array:
    """Atoms that are not zero, or never are, (P, atoms)."""
    return (look.norms > 0) | problems.free if problems.penalty.is_norm else problems.penalised | problems.free


def value_of(problems: StackedProblems, look: Look, aim: Aim) -> Array:
    """Objective of every problem, (P,)."""
    value = look.loss + aim.alpha * look.penalty
    return value + aim.similarity * look.spread if problems.similar else value


def slopes_of(problems: StackedProblems, look: Look, similarity: Array) -> Slopes:
    """Minus the gradient at some similarities, (P,), and its dual norms."""
    down = descent(problems, look, similarity)
    return Slopes(down, problems.dual_norms(down))


def gamma_of(problems: StackedProblems, similarity: Array) -> Array:
    """γ of the normal map, (P, atoms)."""
    if not problems.similar and problems.ridge is None:
        return BATCHED.gamma / problems.trace
    return BATCHED.gamma / (stiffness_of(problems, similarity) * problems.trace)


def stiffness_of(problems: StackedProblems, similarity: Array) -> Array:
    """How much stiffer similarity and ridge term make every atom, (P, atoms): 1 without them."""
    return stiffness(problems.own_curvature(similarity)[:, None] / 2, problems.atom_size, problems.trace)
