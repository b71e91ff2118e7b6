r"""The least value of the problem along a straight line: φ(s) = F(w + s δw, b + s δb), which is convex.

φ' is the sum of a smooth part, piecewise linear since the loss is piecewise quadratic, and of the penalty's. With ℓ1
that is constant but for a jump of 2 τ_i |δw_i| where a coefficient passes zero (a kink), so that the minimum is a kink
or lies between two of them.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import brentq

from mixnorm.core.problem import SquaredHinge
from mixnorm.solvers.newton.host.atoms import Atoms
from mixnorm.solvers.newton.tuning import LEAST_LENGTH, LINE_TOLERANCE, NEARLY_L1


@dataclass(frozen=True, eq=False)
class Line:
    """The smooth part of a problem along a line.

    Attributes
    ----------
    loss : SquaredHinge
    p : ndarray of shape (T, n)
        Relative weights of the trials.
    margins, change : ndarrays of shape (T, n)
        Margins at s = 0, and their change per unit of s.
    price, bend : float
        Slope at s = 0 and curvature of the similarity and the ridge term.
    """

    loss: SquaredHinge
    p: np.ndarray
    margins: np.ndarray
    change: np.ndarray
    price: float
    bend: float

    def slope(self, s: float) -> float:
        """Derivative at s."""
        a = self.loss.dual_variable(self.margins + s * self.change, self.p)
        return float(self.price + self.bend * s - np.vdot(a, self.change))

    def slope_and_curvature(self, s: float) -> tuple[float, float]:
        """First and second derivative at s."""
        margins = self.margins + s * self.change
        slope = self.price + self.bend * s - np.vdot(self.loss.dual_variable(margins, self.p), self.change)
        bend = self.bend + np.vdot(margins < 1, self._curvatures)
        return float(slope), float(bend)

    @cached_property
    def _curvatures(self) -> np.ndarray:
        """Second derivative of every trial's loss where it is inside the margin."""
        return 2 * self.p * self.change**2


def least_ahead(line: Line, price: float) -> float:
    """Return the s > 0 of the least value, nearly, along a direction whose penalty costs ``price`` per unit."""
    length, low, high = 1.0, 0.0, np.inf
    for _ in range(50):
        slope, curvature = line.slope_and_curvature(length)
        slope += price
        low, high = (low, length) if slope > 0 else (length, high)
        following = length - slope / curvature if curvature > 0 else np.inf
        if abs(following - length) <= LINE_TOLERANCE * length:  # first: where the slope is zero it is a bound itself
            break
        if not low < following < high:
            following = (low + high) / 2 if np.isfinite(high) else 2 * length
        length = following
    return length


def least_along(line: Line, atoms: Atoms, w: np.ndarray, dw: np.ndarray, tau: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the s in [0, 1] of the least value, nearly, and w + s δw, exactly zero where that is a kink."""
    if atoms.q == 1:
        return _least_among_kinks(line, w, dw, tau[atoms.label])

    def slope(s: float) -> float:
        return line.slope(s) + float(np.vdot(atoms.gradient(w + s * dw, tau), dw))

    s = _root(slope, 0.0, 1.0)
    return s, _without_passed(atoms, w + s * dw, s * dw)


def _without_passed(atoms: Atoms, w: np.ndarray, way: np.ndarray) -> np.ndarray:
    """The point w at the end of a way, exactly zero on groups whose zero lies there as exactly as its length is known.

    A group norm has its kink there. Left beside it, the group would be taken across it and back by every step to come.
    So would a single coefficient where q is nearly 1: its slope τ r^{q−1} is nearly ±τ however small it is.
    """
    if not atoms.penalty.is_norm:
        return w
    known = 2 * LINE_TOLERANCE
    passed = (atoms.norms(w) <= known * atoms.norms(way))[atoms.label]
    if atoms.q < NEARLY_L1:
        passed |= np.abs(w) <= known * np.abs(way)
    return np.where(passed, 0.0, w)


def _least_among_kinks(line: Line, w: np.ndarray, dw: np.ndarray, tau: np.ndarray) -> tuple[float, np.ndarray]:
    """The same for ℓ1, tau (T, m) being the price of each coefficient: first among the kinks, then between two."""
    passes = w * dw < 0
    kink = np.where(passes, -w / np.where(passes, dw, 1.0), np.inf)
    order = np.argsort(kink, axis=None)[: np.sum(kink < 1)]
    kinks = kink.ravel()[order].tolist()
    jumps = 2 * (tau * np.abs(dw)).ravel()[order]
    # the penalty's slope before each kink, and after the last; at w_i = 0 a coefficient that moves is paid for
    slopes = np.vdot(tau, np.where(w == 0, np.abs(dw), np.sign(w) * dw)) + np.concatenate([[0.0], np.cumsum(jumps)])
    place = bisect_left(range(len(kinks)), 0.0, key=lambda j: line.slope(kinks[j]) + slopes[j + 1])
    if place < len(kinks) and line.slope(kinks[place]) + slopes[place] <= 0:
        s = kinks[place]
    else:
        low, high = ([0.0, *kinks, 1.0][place + j] for j in range(2))
        s = _root(lambda s: line.slope(s) + slopes[place], low, high)
    return s, np.where(kink == s, 0.0, w + s * dw)


def _root(slope: Callable[[float], float], low: float, high: float) -> float:
    """Where an increasing function passes zero; the end that is nearer to it where it does not.

    A singular system may ask for a step so long that the slope overflows: then the lower end, at which it is refused.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        at_high, at_low = slope(high), slope(low)
    if not np.isfinite(at_high + at_low):
        return low
    if at_high <= 0:
        return high
    if at_low >= 0:
        return low
    return brentq(slope, low, high, xtol=LEAST_LENGTH, rtol=LINE_TOLERANCE, disp=False)
