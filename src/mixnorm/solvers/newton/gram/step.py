r"""One step in the Gram matrix: a Newton step on the present groups, or a proximal step by which others enter.

As on the host (`mixnorm.solvers.newton.host.solver`) the Newton step is taken in the variable before the prox, u = w +
γ ∂Ω(w), so that a group whose u falls inside its ball leaves, exactly zero.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from mixnorm.solvers.newton.gram.coordinates import Coordinates
from mixnorm.solvers.newton.gram.problem import GramProblem
from mixnorm.solvers.newton.gram.system import Factor, NormCurvature
from mixnorm.solvers.newton.rules import is_accepted
from mixnorm.solvers.newton.tuning import DAMPING, GRAM, LEAST_DAMPING, LEAST_LENGTH, LINE_TOLERANCE

#: A step that is predicted to gain so small a share of the value is taken if the value rises by no more than rounding.
_SMALL = 1e-9


class Place(NamedTuple):
    """A point, and what the Gram matrix says of it.

    Attributes
    ----------
    v : ndarray of shape (D,)
        (b, w, −1).
    slope : ndarray of shape (D,)
        K v: the gradient of the loss, and −Σ a.
    norms : ndarray of shape (G,)
        ‖w_g‖.
    smooth, value : float
        ½ v'K v, and with alpha Σ β_g ‖w_g‖ the problem's value, if K counts the trials inside the margin at v.
    """

    v: np.ndarray
    slope: np.ndarray
    norms: np.ndarray
    smooth: float
    value: float

    @classmethod
    def of(cls, v: np.ndarray, slope: np.ndarray, norms: np.ndarray, tau: np.ndarray) -> "Place":
        """Return the place where K v and the norms are known; tau (G,) are the thresholds alpha β."""
        smooth = 0.5 * float(v @ slope)
        return cls(v, slope, norms, smooth, smooth + float(tau @ norms))


class Moved(NamedTuple):
    """Where a Newton step led.

    Attributes
    ----------
    place : Place
    factor : Factor
        The factor that is nearest now.
    decrease : float
        What was predicted.
    """

    place: Place
    factor: Factor
    decrease: float


class _Move(NamedTuple):
    """A step of intercept and coefficients from x along dx, and of the coefficients from u along du before the prox.

    ``threshold``: of the prox, (a,).
    """

    x: np.ndarray
    dx: np.ndarray
    u: np.ndarray
    du: np.ndarray
    threshold: np.ndarray


def newton_step(problem: GramProblem, place: Place, tau: np.ndarray, factor: Factor | None, decrease: float) -> Moved:
    """Take one Newton step on the present groups.

    ``factor``: that of a former step; ``decrease``: predicted by the last step, as a share of the value.
    """
    free, own = problem.free, problem.coordinates(place.norms > 0)
    x, residual = own.of(place.v), own.of(place.slope).copy()
    norms, price, gamma = own.of_groups(place.norms), own.of_groups(tau), own.of_groups(problem.gamma)
    weight = price / norms
    spread = weight[own.label]
    pull = spread * x[free:]
    curvature = NormCurvature(weight, spread, x[free:] / norms[own.label])
    residual[free:] += pull
    step = None
    if factor is not None and factor.is_near(own, decrease):
        step = factor.iterate(problem, curvature, residual)
    if factor is None or step is None:
        factor = Factor(problem, own, curvature)
        step = factor.solve(residual)
    np.negative(step, out=step)
    longer, dw = gamma[own.label], step[free:]
    move = _Move(x, step, x[free:] + longer * pull, dw + longer * curvature.times(own, dw), gamma * price)
    gain = -float(residual @ step)
    return Moved(_searched(problem, place, own, move, tau, gain), factor, gain)


def _searched(
    problem: GramProblem, place: Place, own: Coordinates, move: _Move, tau: np.ndarray, gain: float
) -> Place:
    """Take the whole step through the prox or, where the value does not fall enough, the best part of it."""
    whole = _through_prox(problem, place, own, move, tau, 1.0)
    # Near the solution what the step gains is less than the rounding of the terms, which add up to a small value.
    is_rounding = gain <= _SMALL * place.value and whole.value <= place.value + problem.rounding
    if is_rounding or is_accepted(whole.value, place.value, 1.0, gain):
        problem.damping = max(problem.damping / GRAM.damping_factor, LEAST_DAMPING)
        return whole
    problem.damping = min(problem.damping * GRAM.damping_factor, DAMPING)
    parts = [_through_prox(problem, place, own, move, tau, length) for length in GRAM.lengths]
    return min(place, _straight(problem, place, own, move, tau), *parts, key=lambda found: found.value)


def _through_prox(
    problem: GramProblem, place: Place, own: Coordinates, move: _Move, tau: np.ndarray, length: float
) -> Place:
    """Take a part of the step before the prox."""
    u = move.u + length * move.du
    size = own.norms(u)
    left = np.maximum(size - move.threshold, 0.0)
    end = move.x + length * move.dx
    end[problem.free :] = u * (left / np.where(size > 0, size, 1.0))[own.label]
    return _reached(problem, place, own, end, left, tau)


def _reached(
    problem: GramProblem, place: Place, own: Coordinates, end: np.ndarray, norms: np.ndarray, tau: np.ndarray
) -> Place:
    """Return the place of some intercept and coefficients, whose groups have such norms."""
    v = own.to(end, place.v, -1.0)
    return Place.of(v, problem.times(v), own.to_groups(norms), tau)


def _straight(problem: GramProblem, place: Place, own: Coordinates, move: _Move, tau: np.ndarray) -> Place:
    """Return the point of least value along the straight line of the step.

    It is mostly the zero of one group, and the next steps would end at the zeros of the others that the step passes,
    one after the other. So all these leave together, if the value is still lower than at the start.
    """
    free, price = problem.free, own.of_groups(tau)
    w, dw = move.x[free:], move.dx[free:]
    direction = own.to(move.dx, place.v, 0.0)
    slope, bend = float(direction @ place.slope), float(direction @ problem.times(direction))
    square, mixed, change = own.sums(w * w), own.sums(w * dw), own.sums(dw * dw)

    def derivative(s: float) -> float:
        size = np.sqrt(np.maximum(square + s * (2 * mixed + s * change), 1e-300))
        return slope + s * bend + float(price @ ((mixed + s * change) / size))

    length = 1.0
    if derivative(1.0) > 0 > derivative(0.0):
        length = brentq(derivative, 0.0, 1.0, xtol=LEAST_LENGTH, rtol=LINE_TOLERANCE, disp=False)
    end = move.x + length * move.dx
    norms = own.norms(end[free:])
    is_zero = norms <= 2 * LINE_TOLERANCE * length * np.sqrt(change)
    for gone in (is_zero | (square + mixed < 0), is_zero):
        some = end.copy()
        some[free:] *= ~gone[own.label]
        found = _reached(problem, place, own, some, norms * ~gone, tau)
        if found.value < place.value:
            break
    return found


def entered(
    problem: GramProblem, place: Place, entering: np.ndarray, dual_norms: np.ndarray, tau: np.ndarray
) -> Place:
    """Let some absent groups enter by a proximal step of the best common length; ``dual_norms`` (G,): of K v."""
    share = np.zeros(len(tau))
    share[entering] = (1 - tau[entering] / dual_norms[entering]) / problem.trace[entering]
    direction = np.zeros_like(place.v)
    inner = slice(problem.free, -1)
    direction[inner] = -place.slope[inner] * share[problem.groups.label]
    norms, image = share * dual_norms, problem.times(direction)
    length = -(float(direction @ place.slope) + float(tau @ norms)) / float(direction @ image)
    return Place.of(place.v + length * direction, place.slope + length * image, place.norms + length * norms, tau)
