r"""The same problems in better units: features about their means and of ordinary size.

Solvers compute in floating point, and features far from zero or of an extreme unit (tesla) leave few digits for what
matters. Neither changes a problem: with x' = (x − μ)/c, w' = c w and, beside an intercept, b' = b + μ·w,

    x·w + b = x'·w' + b',     alpha ‖w‖ = (alpha/c) ‖w'‖,     alpha ½‖w‖² = (alpha/c²) ½‖w'‖²,

and similarity becomes similarity/c², the centre c times itself; objective and gap stay. c is a power of two, so that
nothing but x − μ is ever rounded. One μ serves all problems of a data set and subject: the means of folds differ from
it by sampling error. Features are touched only where their offset is many times their spread, or their unit is far
from 1: ordinary trials are neither copied nor changed by a bit.
"""

from dataclasses import dataclass, replace

import numpy as np

from mixnorm.core.arrays import Array, is_numpy_array, namespace
from mixnorm.core.problem import Solution, Stack

#: A mean of more than so many standard deviations is subtracted: its square costs three digits of a second moment.
_FAR = 32.0
#: A root mean square beyond this, or below its inverse, is brought to between 1 and 2; µV and z-scores are within.
_LARGE = 2.0**10


@dataclass(frozen=True, eq=False)
class Conditioned:
    """A stack in better units, and the way back.

    Attributes
    ----------
    stack : Stack
    mean : array of shape (B, T, d), or None
        μ; None: nothing was subtracted.
    unit : array of shape (B,), or None
        c; None: 1 for all data sets.
    """

    stack: Stack
    mean: Array | None = None
    unit: Array | None = None

    def alphas(self, alphas: Array) -> Array:
        """Alphas (..., B, K) of the original stack in the units of this one."""
        return alphas if self.unit is None else alphas / self._alpha_unit

    def original_alphas(self, alphas: Array) -> Array:
        """Alphas (..., B, K) of this stack in the units of the original one."""
        return alphas if self.unit is None else alphas * self._alpha_unit

    def similarities(self, similarities: Array | None) -> Array | None:
        """Similarities (..., B, K), likewise."""
        if similarities is None or self.unit is None:
            return similarities
        return similarities / self.unit[:, None] ** 2

    def restore(self, solution: Solution) -> Solution:
        """Return a solution of this stack as one of the original stack."""
        W, b, xp = solution.W, solution.b, namespace(solution.W)
        if self.unit is not None:
            W = W / self.unit[:, None, None, None]
        if self.mean is not None:
            b = b - xp.sum(self.mean[..., None] * W, axis=2)
        return replace(solution, W=W, b=b)

    @property
    def _alpha_unit(self) -> Array:
        unit = self.unit[:, None]
        return unit if self.stack.penalty.is_norm else unit**2


def condition(stack: Stack) -> Conditioned:
    """Return the problems of a stack in units that floating point likes; the stack itself where it is so already."""
    stack = _without_idle_similarity(stack)
    weight = namespace(stack.X).sum(stack.trial_weight, axis=-1)  # of a trial in any of the problems, (B, T, n)
    square = _mean_square(stack.X, weight)
    mean = _offsets(stack, weight, square) if stack.fit_intercept else None
    X = stack.X
    if mean is not None:
        X = X - mean[:, :, None, :]
        square = _mean_square(X, weight)
    unit = _unit(X, weight, square)
    if mean is None and unit is None:
        return Conditioned(stack)
    if unit is not None:
        X = X / unit[:, None, None, None]
    return _in_units(stack, X, mean, unit)


def _in_units(stack: Stack, X: Array, mean: Array | None, unit: Array | None) -> Conditioned:
    """Put together what was found; the alphas and similarities of the stack follow."""
    found = Conditioned(replace(stack, X=X), mean, unit)
    center = stack.center
    if unit is not None and center is not None:
        center = center * unit[:, None, None, None]
    same = found.alphas(stack.alpha), found.similarities(stack.similarity)
    return replace(found, stack=replace(found.stack, alpha=same[0], similarity=same[1], center=center))


def _without_idle_similarity(stack: Stack) -> Stack:
    """Drop what compares subjects where there is nobody to be similar to."""
    if stack.has_similarity or stack.alignment is None:
        return stack
    return replace(stack, alignment=None)


def _mean_square(X: Array, weight: Array) -> Array:
    """Σ_i ω_i x_i² / Σ ω, (B, T, d); no array of the size of X is made for NumPy."""
    xp = namespace(X)
    total = xp.sum(weight, axis=2)[..., None]
    if is_numpy_array(X):
        square = np.einsum("btn,btnd,btnd->btd", weight, X, X)
    else:
        square = xp.matmul(weight[:, :, None, :], X * X)[:, :, 0, :]
    return square / xp.where(total > 0, total, 1.0)


def _offsets(stack: Stack, weight: Array, square: Array) -> Array | None:
    """The weighted means (B, T, d) of features whose mean is far from zero, 0 for the others; None where none is."""
    xp = namespace(stack.X)
    total = xp.sum(weight, axis=2)[..., None]
    mean = xp.matmul(weight[:, :, None, :], stack.X)[:, :, 0, :] / xp.where(total > 0, total, 1.0)
    # E x² − μ² < μ²/_FAR²: cancellation makes the left side noise of size eps μ², which answers rightly all the same
    far = square - mean**2 < (mean / _FAR) ** 2
    if not bool(xp.any(far)):
        return None
    return xp.where(far, mean, 0.0)


def _unit(X: Array, weight: Array, square: Array) -> Array | None:
    """The c of every data set, (B,); None where all are 1."""
    xp = namespace(X)
    largest = xp.max(square, axis=(1, 2))
    safe = (largest > 1e-250) & xp.isfinite(largest)
    if not bool(xp.all(safe)):
        return _unit_of_extremes(X, weight)
    size = xp.sqrt(largest)
    far = (size > _LARGE) | (size < 1 / _LARGE)
    if not bool(xp.any(far)):
        return None
    return xp.where(far, 2.0 ** xp.floor(xp.log2(size)), 1.0)


def _unit_of_extremes(X: Array, weight: Array) -> Array | None:
    """The same where squares overflow, underflow, or are all zero: by the largest number of a data set."""
    xp = namespace(X)
    used = xp.where((weight > 0)[..., None], xp.abs(X), 0.0)
    largest = xp.max(used, axis=(1, 2, 3))
    return xp.where(largest > 0, 2.0 ** xp.floor(xp.log2(xp.where(largest > 0, largest, 1.0))), 1.0)
