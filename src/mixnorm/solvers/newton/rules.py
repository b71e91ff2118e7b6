r"""The rules that the Newton engines share: curvature of the penalty, gap estimate, entry, coarse path, acceptance,
and when to give up.

Every formula is written with operators and a few functions of an array namespace ``xp``, so that it serves the small
NumPy arrays and single numbers of one problem on the host as well as arrays of all problems of a stack on a device.
Values of atoms (a group over all subjects, or with ℓ1 a single coefficient) have a trailing axis of atoms; ``expand``
repeats them for the coordinates of each atom.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from mixnorm.core.arrays import Array
from mixnorm.core.penalties import is_between
from mixnorm.core.problem import NOTHING
from mixnorm.solvers.newton.tuning import (
    ASKING,
    LONGEST,
    PROGRESS,
    STIFFEST,
    SUFFICIENT,
    EntryLimit,
    Tuning,
)


class Scalars:
    """The functions of an array namespace that `gap_estimate` takes, for Python floats: NumPy's are far slower."""

    minimum = staticmethod(min)

    @staticmethod
    def where(condition: bool, one: float, other: float) -> float:
        """Return one of two numbers."""
        return one if condition else other


class AtomValues(NamedTuple):
    """What the curvature of a penalty needs to know of the atoms.

    Attributes
    ----------
    norm : array over atoms
        ‖w_g‖_q.
    tau : array over atoms
        alpha β_g; 0 for atoms that are not penalised.
    trace : array over atoms
        The atom's share of the trace of the Hessian.
    expand : callable
        From values of atoms to values of coordinates.
    """

    norm: Array
    tau: Array
    trace: Array
    expand: Callable[[Array], Array]


class PenaltyCurvature(NamedTuple):
    """Gradient and curvature of alpha Σ_g β_g ‖w_g‖_q: c_g R⁻¹ (I − k k') R⁻¹, c_g = alpha β_g (q − 1)/‖w_g‖_q.

    Attributes
    ----------
    slope : array over coordinates
        The gradient.
    direction : array over coordinates
        k, a unit vector within each atom, or 0.
    scale : array over coordinates, or None
        R = diag(r_i^{1−q/2}), r_i = |w_i|/‖w_g‖_q; None where it is the identity.
    weight : array over atoms
        c_g.
    bent : boolean array over atoms
        Atoms at which the norm is neither zero nor without weight.
    """

    slope: Array
    direction: Array
    scale: Array | None
    weight: Array
    bent: Array


def penalty_curvature(xp: ModuleType, q: float | Array, w: Array, atoms: AtomValues) -> PenaltyCurvature:
    """Return the gradient and the curvature of the ℓ1-ℓq norm at w; q = 1 has no curvature.

    ``q``: a number or, where problems differ in it, an array over atoms.
    """
    expand, bent = atoms.expand, (atoms.tau > 0) & (atoms.norm > 0)
    norm = xp.where(bent, atoms.norm, float("inf"))  # whatever is divided by it is 0 at the other atoms
    unit = w / expand(norm)
    slope = direction = unit  # the same for q = 2, and for ℓ1, where it is the sign
    scale = None
    if is_between(q):
        own = q if isinstance(q, int | float) else expand(q)
        ratio, sign = xp.abs(unit), xp.sign(unit)
        slope, direction = sign * ratio ** (own - 1), sign * ratio ** (own / 2)
        scale = xp.where(expand(bent), ratio ** (1 - own / 2), 1.0)
    weight = xp.minimum((q - 1) * atoms.tau / norm, STIFFEST * atoms.trace)
    return PenaltyCurvature(expand(atoms.tau) * slope, direction, scale, weight, bent)


def stiffness(similarity: Array, size: Array, trace: Array) -> Array:
    """How much stiffer the similarity term makes every atom: 1 without it.

    ``size``: trace of the similarity term's curvature on the atom at similarity 1/2. A prox step changes subjects
    independently of each other; where that is expensive, steps through the prox must be short.
    """
    return 1 + 2 * similarity * size / trace


def normal_map_step(xp: ModuleType, q: float | Array, gamma: Array, atoms: AtomValues, stiffness: Array) -> Array:
    """γ of the normal map at a point, over atoms: ``gamma``, longer for small coefficients where 1 < q < 2.

    There the step must be long in u, where the prox is smooth, and not in w, where it is not. 0 where the penalty is
    smooth: no prox is needed.
    """
    bent = (atoms.tau > 0) & (atoms.norm > 0)
    if is_between(q):
        longer = atoms.norm / xp.where(bent, atoms.tau, 1.0) / stiffness
        gamma = xp.maximum(gamma, xp.minimum(longer, LONGEST * gamma))
    return xp.where(bent, gamma, 0.0)


def gap_estimate(xp: Any, value: Array, S1: Array, S2: Array, ratio: Array, lack: Array) -> Array:
    """The certificate's relative gap (`mixnorm.core.certificate`) from what a solver has at hand.

    The dual value is the largest of κ S₁ − κ² S₂ over κ in [0, 1/ratio], ratio = max_g ‖v_g‖_q* / (alpha β_g), which
    is 0 for ℓ2. ``lack``: by how much it may be too large, since unpenalised coordinates do not meet their equalities
    yet. As in the certificate, the gap is 0 where the value is 0 to rounding. The certificate has the last word.
    """
    limit = 1 / xp.where(ratio > 0, ratio, 1e-300)
    kappa = xp.minimum(S1 / xp.where(S2 > 0, 2 * S2, 1.0), limit)
    kappa = xp.where(kappa > 0, kappa, 0.0)
    difference = abs(value - (kappa * S1 - kappa**2 * S2)) + lack
    something = value > NOTHING
    return xp.where(something, difference / xp.where(something, value, 1.0), 0.0)


def unmet_equality(gradient: Array, coefficient: Array, curvature: Array) -> Array:
    """What an unpenalised coordinate's gradient, which should be 0, may add to the gap."""
    return abs(gradient * coefficient) + gradient**2 / curvature


def asks_to_enter(dual_norm: Array, tau: Array) -> Array:
    """Whether an absent atom's gradient has left its dual ball, ‖v_g‖_q* > alpha β_g."""
    return dual_norm > (1 + ASKING) * tau


def number_to_enter(xp: ModuleType, limit: EntryLimit, n_present: Array) -> Array:
    """How many groups may enter beside so many that are present."""
    return xp.maximum(limit.least + 0 * n_present, xp.floor(limit.share * n_present))


def next_alpha(xp: ModuleType, target: Array, current: Array, ratio: float) -> Array:
    """Return the next alpha on a coarse path to a target: a far jump would let too many groups enter at once."""
    return xp.maximum(target, ratio * current)


def is_progress(gap: Array, least_gap: Array, value: Array, least_value: Array, is_norm: bool) -> Array:
    """Whether a point is visibly better than those before it, by its gap or by its value.

    With ℓ2 (``is_norm`` false) the gap says how much is left: a decrease by less than a share of it leads nowhere.
    With a norm the gap stays large until the right atoms are present, and any visible decrease counts.
    """
    lower = value < (1 - 1e-13) * least_value
    if not is_norm:
        lower = lower & (value < (1 - PROGRESS * gap) * least_value)
    return (gap < 0.9 * least_gap) | lower


def is_given_up(waited: Array, complete: Array, tuning: Tuning) -> Array:
    """Whether a problem is given up after so many looks without progress; ``complete``: no atom asks to enter."""
    return ((waited > tuning.patience) & complete) | (waited > tuning.most_patience)


def is_accepted(reached: Array, value: Array, length: Array, decrease: Array) -> Array:
    """Whether a step of some length reaches a value that is low enough, ``decrease`` being what was predicted.

    Near the optimum the decrease is smaller than rounding: then a step is taken unless it visibly increases the value.
    """
    enough = reached <= value - SUFFICIENT * length * decrease
    return enough | ((decrease <= 1e-9 * value) & (reached <= value * (1 + 1e-14)))
