r"""How far a fit can be from the optimum: the relative duality gap. It knows no solver.

With p = s/Σs, margins m and a_i = −p_i ℓ'(m_i) = 2 p_i max(0, 1 − m_i), the dual value

    D(a) = Σ_i (a_i − a_i² / (4 p_i)) − similarity Σ_t ‖w_t − w̄‖² − ridge ½ Σ_t ‖w_t‖²

bounds the optimum from below whenever a ≥ 0, Σ_i a_i y_i = 0 for each subject (with an intercept), and the vector v_t
= X_t'(a_t∘y_t) − 2 similarity (w_t − w̄) − ridge w_t satisfies ‖v_g‖_{q*} ≤ alpha β_g for every group; ℓ2 has no such
constraint but subtracts ‖v‖²/(2 alpha). Where a fixed centre c stands in the place of w̄, 2 similarity ⟨w − c, c⟩ is
subtracted as well (it vanishes for the mean). Where subjects are aligned, A_t w_t stands in the place of w_t in all
this, and A_t' times the deviation in v_t. The intercepts are solved exactly first, so that the equalities hold; then
(a, w − w̄, w) is scaled by the best feasible κ, along which D(κ) = κ S₁ − κ² S₂. The bound holds for any deviations
that add up to zero over subjects: where better ones than w_t − w̄ are known (`_best_deviation`), they are taken.
"""

from dataclasses import dataclass, fields, replace

import numpy as np

from mixnorm.core.arrays import (
    Array,
    like,
    matmul_transposed,
    namespace,
    positive_part,
    where_problems,
)
from mixnorm.core.intercept import balance, polish
from mixnorm.core.problem import NOTHING, Stack
from mixnorm.core.unpenalised import equality_residual
from mixnorm.core.where_when import SensorsAndWindows

#: Roundings that add up in a sum of products: far fewer than its terms, since they do not all go one way.
_MARGIN = 16.0


@dataclass(frozen=True, eq=False)
class Certificate:
    """A point, polished in its unpenalised coordinates, with its primal and dual values.

    Attributes
    ----------
    W, b : the point; only b and the coefficients of unpenalised groups may differ from what was handed in.
    primal, dual, gap : arrays of shape (B, K)
        P, D and (P − D)/P (0 when P = 0, to rounding).
    descent : array of shape (B, T, d, K)
        Minus the gradient of the smooth part at the point.
    """

    W: Array
    b: Array
    primal: Array
    dual: Array
    gap: Array
    descent: Array

    def better(self, other: "Certificate") -> "Certificate":
        """Return the point of lower value, problem by problem, with the better of both lower bounds of the optimum."""
        xp = namespace(self.primal)
        wins = (other.primal < self.primal) | ~xp.isfinite(self.gap)
        pairs = [(getattr(other, part.name), getattr(self, part.name)) for part in fields(self)]
        best = Certificate(*(where_problems(wins, *pair) for pair in pairs))
        dual = xp.maximum(self.dual, other.dual)
        return replace(best, dual=dual, gap=relative_gap(best.primal, dual))


def certify(stack: Stack, W: Array, b: Array) -> Certificate:
    """Certify the point (W, b) of every problem of the stack."""
    W, b, scores = polish(stack, W, b)
    loss = stack.mean_loss(scores)
    primal = stack.objective_of(W, loss)
    a = stack.dual_variable(scores)
    # Scaling meets every inequality but restores no equality: those of intercepts and unpenalised groups come first.
    if not stack.has_unpenalised:
        v, dual = _bound(stack, W, balance(a, stack.y[..., None]) if stack.fit_intercept else a)
    else:
        projected, *lacks = equality_residual(stack, W, b, a)
        slopes, values = zip(*(_bound(stack, W, each) for each in (a, projected)), strict=True)
        bounds = [value - lack for value, lack in zip(values, lacks, strict=True)]
        v, dual = where_problems(bounds[1] >= bounds[0], slopes[1], slopes[0]), namespace(W).maximum(*bounds)
    dual = positive_part(dual - rounding_error(stack, W, b, loss, primal))  # a = 0 is always feasible
    return Certificate(W, b, primal, dual, relative_gap(primal, dual), v)


def relative_gap(primal: Array, dual: Array) -> Array:
    """(P − D)/P, (B, K): 0 where P = 0 to rounding, and infinite where P is not a number."""
    xp = namespace(primal)
    difference = positive_part(primal - dual)
    something = primal > NOTHING
    gap = xp.where(something, difference / xp.where(something, primal, 1.0), 0.0)
    return xp.where(xp.isfinite(primal) & xp.isfinite(difference), gap, float("inf"))


def quadratic_gap(primal: float, alpha: float, square: float) -> float:
    """(P − D)/P of ℓ2 with a metric N, at the best intercept, from the gradient: for one problem and any solver.

    With a_i = 2 p_i max(0, 1 − m_i) and e = X'(a∘y) − alpha N w, minus the gradient, the sums of P and D leave
    P − D = e'N⁻¹e / (2 alpha). ``square``: e'N⁻¹e, or an upper bound of it; then the gap is one too.
    """
    gap = square / (2 * alpha) / primal if primal > NOTHING else 0.0
    return gap if np.isfinite(primal + square) else float("inf")


def rounding_error(stack: Stack, W: Array, b: Array, loss: Array, primal: Array) -> Array:
    r"""A bound of how much rounding may have made P (``primal``) too low and D too high together, (B, K).

    The score of a trial is wrong by eps (‖x‖‖w‖ + |b|), which the loss takes in with the factor a; X'(a∘y) is wrong by
    eps |X|'a, which D takes in with the factor w; the Cauchy-Schwarz inequality bounds the sums of both by
    eps 2 √loss (‖w‖ √Σ p‖x‖² + ‖b‖). Sums themselves are wrong by eps P, deviations by eps ‖v‖.
    """
    xp = namespace(W)
    size = xp.sqrt(stack.square_length) * xp.sqrt(xp.sum(W**2, axis=(1, 2))) + xp.sqrt(xp.sum(b**2, axis=1))
    error = primal + 2 * xp.sqrt(loss) * size
    if stack.has_quadratic:
        # Subjects that are nearly alike: the deviation is a small difference of large numbers.
        deviation = stack.deviation(W)
        spread, held = (xp.sqrt(xp.sum(part**2, axis=(1, 2))) for part in (deviation, deviation - stack.mapped(W)))
        error = error + 2 * stack.similarity * spread * held
        if stack.ridge is not None:
            error = error + stack.ridge * xp.sum(stack.mapped(W) ** 2, axis=(1, 2))
    return _MARGIN * float(xp.finfo(W.dtype).eps) * error


def _excess(stack: Stack, v: Array) -> Array:
    """The dual norm of v: the smallest factor of the thresholds with which v meets the constraint, (B, K)."""
    if isinstance(stack.penalty, SensorsAndWindows):
        return stack.penalty.gauge(stack.groups.to_blocks(v), stack.threshold)
    norms, limit = _norms_and_limits(stack, v)
    return namespace(v).max(norms / limit, axis=1)


def _norms_and_limits(stack: Stack, v: Array) -> tuple[Array, Array]:
    """‖v_g‖_{q*} and alpha β_g of the penalised groups, 0 and 1 for the others, (B, G, K)."""
    xp = namespace(v)
    norms = xp.where(stack.penalised, stack.penalty.dual_norm(stack.groups.to_blocks(v)), 0.0)
    return norms, xp.where(stack.penalised, stack.threshold, 1.0)


def _bound(stack: Stack, W: Array, a: Array) -> tuple[Array, Array]:
    """Minus the gradient of the smooth part for a given a, (B, T, d, K), and the best dual value, (B, K)."""
    pull = matmul_transposed(stack.X, a * stack.y[..., None])
    if not stack.has_quadratic:
        return pull, _best_dual(stack, W, None, a, pull)
    descent = pull - stack.quadratic_gradient(W)
    if not stack.compares_coefficients:
        return descent, _best_dual(stack, W, None, a, descent)
    own, fits = _best_deviation(stack, pull)
    xp, twice = namespace(W), 2 * stack.similarity[:, None, None, :]
    deviation, v = xp.where(fits, own, stack.deviation(W)), xp.where(fits, pull - twice * own, descent)
    return descent, _best_dual(stack, W, deviation, a, v)


def _best_deviation(stack: Stack, pull: Array) -> tuple[Array, Array]:
    """The deviations of the greatest dual value beside a, (B, T, d, K), and the features that they are for.

    Any deviations that add up to zero over subjects may stand in the place of w_t − w̄. With u_t = X_t'(a_t∘y_t), those
    of (u_t − ū) / (alpha β_g + 2 similarity) are the best for ℓ2, and those that leave v_t = ū for β_g = 0. Subjects
    with a large similarity are nearly alike: rounding leaves few digits of w_t − w̄, and all of u_t − ū.
    """
    xp = namespace(pull)
    index = like(stack.threshold, stack.groups.index, dtype=xp.int64)
    weight = xp.take(stack.threshold, index, axis=1)[:, None, ...]
    stiffness = weight + 2 * stack.similarity[:, None, None, :]
    fits = xp.isfinite(weight) & (stack.similarity > 0)[:, None, None, :]
    if stack.penalty.is_norm:
        fits = fits & (weight == 0)
    own = (pull - xp.mean(pull, axis=1, keepdims=True)) / xp.where(fits, stiffness, 1.0)
    return own, fits


def _best_dual(stack: Stack, W: Array, deviation: Array | None, a: Array, v: Array) -> Array:
    """Max over feasible κ of D(κ) = κ S₁ − κ² S₂; deviations in the place of w_t − w̄, if any are given."""
    xp = namespace(v)
    linear, quadratic = stack.loss.dual_terms(a, stack.shares)
    S1, S2 = xp.sum(linear, axis=(1, 2)), xp.sum(quadratic, axis=(1, 2))
    if stack.has_quadratic:
        own = stack.quadratic(W) if deviation is None else stack.similarity * xp.sum(deviation**2, axis=(1, 2))
        S2 = S2 + own
        if stack.center is not None:
            S1 = S1 - 2 * stack.similarity * xp.sum(stack.deviation(W) * stack.center, axis=(1, 2))
    if stack.penalty.is_norm:
        largest = _excess(stack, v)
        # Where v = 0 there is no limit: a huge number and not infinity, which times 0 would be NaN.
        kappa_max = 1 / xp.where(largest > 0, largest, 1e-300)
    else:
        norms, limit = _norms_and_limits(stack, v)
        S2 = S2 + xp.sum(norms**2 / (2 * limit), axis=1)
        kappa_max = xp.full_like(S1, float("inf"))
    kappa = positive_part(xp.minimum(S1 / xp.where(S2 > 0, 2 * S2, 1.0), kappa_max))
    return kappa * S1 - kappa**2 * S2
