r"""The same problems in better units: features about their means and of ordinary size.

Solvers compute in floating point, and features far from zero or of an extreme unit (tesla) leave few digits for what
matters. Neither changes a problem: with x' = (x − μ)/c, w' = c w and, beside an intercept, b' = b + μ·w,

    x·w + b = x'·w' + b',     alpha ‖w‖ = (alpha/c) ‖w'‖,     alpha ½‖w‖² = (alpha/c²) ½‖w'‖²,

similarity and ridge become similarity/c² and ridge/c², the centre c times itself; objective and gap stay. c is a power
of two, so that nothing but x − μ is ever rounded. One μ serves all problems of a data set and subject: the means of
folds differ from it by sampling error. Features are touched only where their offset is many times their spread, or
their unit is far from 1: ordinary trials are neither copied nor changed by a bit.

Unpenalised features of a large offset lose what is nothing but its rounding (`mixnorm.core.rounded_features`). The gap
is then one to the optimum without it: it allows for the rounding r_j of such features at the coefficients found, which
moves scores by Σ_j r_j |w_j| and with them the objective P by 2 √P times that.
"""

from dataclasses import dataclass, replace

import numpy as np

from mixnorm.core.arrays import Array, like, namespace, to_numpy
from mixnorm.core.problem import NOTHING, Solution, Stack
from mixnorm.core.rounded_features import without_rounding

#: A mean of more than so many standard deviations is subtracted: its square costs three digits of a second moment.
_FAR = 32.0
#: A root mean square beyond this, or below its inverse, is brought to between 1 and 2; µV and z-scores are within.
_LARGE = 2.0**10
#: Roundings of products, sum and difference that add up in a restored intercept.
_ROUNDINGS = 4.0


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
    rounding : array of shape (B, T, d), or None
        r_j of the unpenalised features that were changed, in their original unit, 0 for the others; None: none was.
    """

    stack: Stack
    mean: Array | None = None
    unit: Array | None = None
    rounding: Array | None = None

    def alphas(self, alphas: Array) -> Array:
        """Alphas (..., B, K) of the original stack in the units of this one."""
        return self._times_unit(alphas, -1 if self.stack.penalty.is_norm else -2)

    def original_alphas(self, alphas: Array) -> Array:
        """Alphas (..., B, K) of this stack in the units of the original one."""
        return self._times_unit(alphas, 1 if self.stack.penalty.is_norm else 2)

    def similarities(self, similarities: Array | None) -> Array | None:
        """Similarities (..., B, K), likewise."""
        return None if similarities is None else self._times_unit(similarities, -2)

    def restore(self, solution: Solution) -> Solution:
        """Return a solution of this stack as one of the original stack."""
        if self.unit is None and self.mean is None:
            return solution
        W, b, gap = solution.W, solution.b, solution.gap
        xp = namespace(W)
        # W first: the mean is kept in the original units, and b follows from W in them.
        if self.unit is not None:
            W = W / self.unit[:, None, None, None]
        if self.mean is not None:
            moved = self.mean[..., None] * W
            b = b - xp.sum(moved, axis=2)
            # b is rounded; at its best value that raises the objective by no more than the square
            rounded = (
                _ROUNDINGS * float(xp.finfo(b.dtype).eps) * xp.sum(xp.sum(xp.abs(moved), axis=2) + xp.abs(b), axis=1)
            )
            # else it is zero, and certified as such
            positive = solution.objective > NOTHING
            objective = xp.where(positive, solution.objective, 1.0)
            gap = gap + xp.where(positive, rounded**2 / objective, 0.0)
            if self.rounding is not None:
                moved = xp.sum(self.rounding[..., None] * xp.abs(W), axis=(1, 2))
                gap = gap + xp.where(positive, 2 * moved / xp.sqrt(objective), 0.0)
        return replace(solution, W=W, b=b, gap=gap)

    def _times_unit(self, values: Array, power: int) -> Array:
        """Values (..., B, K) times c to a power; factor by factor, since a square may overflow."""
        if self.unit is None:
            return values
        for _ in range(abs(power)):
            values = values * self.unit[:, None] if power > 0 else values / self.unit[:, None]
        return values


def condition(stack: Stack) -> Conditioned:
    """Return the problems of a stack in units in which few digits are lost; the stack itself if it has such units."""
    stack = _without_idle_metric(stack)
    # One set of offsets for all folds: otherwise every problem would need trials of its own.
    weight = stack.total_weight
    found, square = Conditioned(stack), _mean(stack, stack.second_moment)
    # Scaled before centring, because the squares that say which features are far from zero have no digits here.
    if not _is_safe(square):
        found = _scaled(found, _unit_of_extremes(stack.X, weight))
        square = _mean(found.stack, found.stack.second_moment)
    # Without an intercept a shift of the features would be another problem.
    offsets = _offsets(found.stack, square) if stack.fit_intercept else None
    if offsets is not None:
        found = _centred(found, offsets)
        # A ridge keeps all coefficients away from rounding errors.
        if stack.ridge is None:
            found = _without_rounding(found, weight, offsets)
        square = _mean(found.stack, found.stack.second_moment)
    # After centring: a feature of a large offset can have an ordinary spread.
    unit = _unit(square)
    return found if unit is None else _scaled(found, unit)


def _scaled(found: Conditioned, unit: Array) -> Conditioned:
    """Divide the features of every data set by its unit, (B,)."""
    stack, wide = found.stack, unit[:, None, None, None]
    # alphas and similarities in the new unit, by the rules of the class itself
    own = Conditioned(stack, None, unit)
    stack = replace(
        stack,
        X=stack.X / wide,
        alpha=own.alphas(stack.alpha),
        similarity=own.similarities(stack.similarity),
        center=None if stack.center is None else stack.center * wide,
        ridge=own.similarities(stack.ridge),
    )
    return replace(found, stack=stack, unit=unit if found.unit is None else unit * found.unit)


def _centred(found: Conditioned, offsets: Array) -> Conditioned:
    """Subtract offsets (B, T, d) from the features."""
    X = found.stack.X - offsets[:, :, None, :]
    # in the units of the original stack, where `restore` uses it
    mean = offsets if found.unit is None else offsets * found.unit[:, None, None]
    return replace(found, stack=replace(found.stack, X=X), mean=mean)


def _without_rounding(found: Conditioned, weight: Array, offsets: Array) -> Conditioned:
    """Take out of unpenalised features what is nothing but the rounding of their offsets (B, T, d).

    They are few, and looked at on the host, one data set and subject at a time. X is changed in place.
    """
    stack, xp = found.stack, namespace(offsets)
    free = np.any(to_numpy(stack.group_weights) == 0, axis=2)[:, stack.groups.index]
    columns = np.flatnonzero(free.any(axis=0))
    if not len(columns):
        return found
    index = like(stack.X, columns, dtype=xp.int64)
    X, size = (np.array(to_numpy(xp.take(part, index, axis=-1))) for part in (stack.X, xp.abs(offsets)))
    rounding, used = np.zeros(offsets.shape), to_numpy(weight > 0)
    for i, t in np.ndindex(*size.shape[:2]):
        cells = np.ix_(used[i, t], free[i, columns])
        own = float(np.finfo(X.dtype).eps) * size[i, t, free[i, columns]]
        changed = without_rounding(X[i, t][cells], own) if own.any() and used[i, t].any() else None
        if changed is not None:
            X[i, t][cells] = changed
            rounding[i, t, free[i]] = own
    if not rounding.any():
        return found
    for place, column in enumerate(columns.tolist()):
        stack.X[..., column] = like(stack.X, X[..., place])  # it was made for this
    rounding = like(stack.X, rounding)
    return replace(found, rounding=rounding if found.unit is None else rounding * found.unit[:, None, None])


def _without_idle_metric(stack: Stack) -> Stack:
    """Drop the metric where no term uses it: there is one subject without a centre, and no ridge."""
    if stack.has_quadratic or stack.metric is None:
        return stack
    return replace(stack, metric=None)


def _mean(stack: Stack, moment: Array) -> Array:
    """Return a moment of the trials, (B, T, d), divided by their weight; 0 where all weights are."""
    xp = namespace(moment)
    total = xp.sum(stack.total_weight, axis=2)[..., None]
    return moment / xp.where(total > 0, total, 1.0)


def _offsets(stack: Stack, square: Array) -> Array | None:
    """The weighted means (B, T, d) of features whose mean is far from zero, 0 for the others; None where none is."""
    xp = namespace(square)
    mean = _mean(stack, stack.first_moment)
    # E x² − μ² < μ²/_FAR²: cancellation makes the left side noise of size eps μ², which answers rightly all the same
    far = square - mean**2 < (mean / _FAR) ** 2
    if not bool(xp.any(far)):
        return None
    return xp.where(far, mean, 0.0)


def _is_safe(square: Array) -> bool:
    """Whether mean squares (B, T, d) neither overflow, nor underflow, nor are all zero."""
    xp = namespace(square)
    largest = xp.max(square, axis=(1, 2))
    # with a margin: squares near the smallest float have few digits left
    return bool(xp.all((largest > 1e-250) & xp.isfinite(largest)))


def _unit(square: Array) -> Array | None:
    """The c of every data set, (B,), from mean squares (B, T, d); None where all are 1."""
    xp = namespace(square)
    # One unit for all features of a data set: units of their own would change which sensors the penalty prefers.
    size = xp.sqrt(xp.max(square, axis=(1, 2)))
    far = (size > _LARGE) | ((size < 1 / _LARGE) & (size > 0))
    if not bool(xp.any(far)):
        return None
    return xp.where(far, 2.0 ** xp.floor(xp.log2(xp.where(far, size, 1.0))), 1.0)


def _unit_of_extremes(X: Array, weight: Array) -> Array:
    """A c by the largest number of every data set, for where squares are of no use; 1 where all are zero."""
    xp = namespace(X)
    used = xp.where((weight > 0)[..., None], xp.abs(X), 0.0)
    largest = xp.max(used, axis=(1, 2, 3))
    return xp.where(largest > 0, 2.0 ** xp.floor(xp.log2(xp.where(largest > 0, largest, 1.0))), 1.0)
