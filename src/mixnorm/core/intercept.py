"""What no penalty acts on, solved exactly: intercepts and unpenalised coefficients; and `alpha_max`, where only they
are left.

The best intercept for given scores is the minimiser of a piecewise quadratic in one variable.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mixnorm.core.arrays import Array, is_numpy_array, matmul_by_columns, matmul_transposed, namespace
from mixnorm.core.conditioning import condition
from mixnorm.core.penalties import Penalty
from mixnorm.core.problem import SquaredHinge, Stack
from mixnorm.core.unpenalised import solve_unpenalised
from mixnorm.core.where_when import SensorsAndWindows

#: A sum this small beside the sum of its terms' sizes is rounding.
_ROUNDING = 1e-14
#: Squares that add up to less may have underflowed.
_SMALL_SQUARES = 1e-150
#: A step of an intercept by no more than this share of 1 + |b| is rounding: margins near 1 are known no better.
INTERCEPT_ROUNDING = 2 * 2.0**-52
_PLAIN_ITER = 6  # nearly always enough from a good start, and then no bracket is needed
# far more than halving the bracket needs for all digits of a float
_MAX_ITER = 200


def alpha_max(stack: Stack) -> Array:
    """Return the smallest alpha at which no penalised group is chosen, exactly, (B, K).

    alpha_max = max_g ‖v_g‖_{q*} / β_g over 0 < β_g < ∞, where v is minus the gradient at the solution of the
    problem in the intercepts and the unpenalised coefficients alone. 0 where v is nothing but rounding: no data speak
    for either class, and any alpha will do.
    """
    return alpha_maxima(stack, [stack.penalty])[0]


def alpha_maxima(stack: Stack, penalties: Sequence[Penalty]) -> list[Array]:
    """Return `alpha_max` with each of several penalties, all of them norms or none: v is the same for all."""
    conditioned = condition(stack)
    stack, xp = conditioned.stack, namespace(stack.X)
    W, _, scores = polish(stack, *stack.start())
    a = stack.dual_variable(scores)
    v, most, found = stack.descent(W, a), _largest_terms(stack, a), []
    for penalty in penalties:
        own = replace(stack, penalty=penalty)
        largest = _largest_ratio(own, v)
        # The bound mostly shows that it is not rounding, without |X|, which is a copy of all trials.
        if not bool(xp.all(largest > _ROUNDING * _largest_ratio(own, most))):
            rounding = _ROUNDING * _largest_ratio(own, matmul_transposed(xp.abs(stack.X), a))
            largest = xp.where(largest > rounding, largest, 0.0)
        found.append(conditioned.original_alphas(largest))
    return found


def _largest_terms(stack: Stack, a: Array) -> Array:
    """Return a bound of |X|'a, (B, T, d, K): by the Cauchy-Schwarz inequality (Σ p x²)^½ (Σ a²/p)^½."""
    xp = namespace(a)
    _, quarters = stack.loss.dual_terms(a, stack.shares)
    sums = stack.second_moment[..., None], xp.sum(quarters, axis=2, keepdims=True)
    # a bound also where squares underflow
    of_trials, of_a = (xp.sqrt(xp.where(each > _SMALL_SQUARES, each, _SMALL_SQUARES)) for each in sums)
    return 2 * of_trials * of_a


def polish(stack: Stack, W: Array, b: Array) -> tuple[Array, Array, Array]:
    """Solve intercepts and unpenalised coefficients exactly, the rest held; return W, b and the scores."""
    if stack.has_unpenalised:
        W, b = solve_unpenalised(stack, W, b)
        return W, b, stack.scores(W, b)
    if not stack.fit_intercept:
        return W, b, stack.scores(W, b)
    scores = _products(stack.X, W)
    b = solve_intercept(stack.loss, scores, stack.y[..., None], stack.shares, b)
    return W, b, scores + b[:, :, None, :]


def _products(X: Array, W: Array) -> Array:
    """Return X W; at the zero model, where every path begins, no product is needed."""
    if is_numpy_array(W) and not W.any():  # elsewhere the question would make the host wait for the device
        return np.zeros((*X.shape[:-1], W.shape[-1]), dtype=W.dtype)
    return matmul_by_columns(X, W)


def solve_intercept(loss: SquaredHinge, scores: Array, y: Array, weight: Array, b: Array) -> Array:
    """Return argmin_b Σ_i p_i ℓ(y_i (z_i + b)) for scores z (..., n, K), the sum taken over n.

    Newton's method on the piecewise linear derivative, kept inside a bracket: exact in finitely many steps.

    Parameters
    ----------
    scores, y, weight : arrays of shape (..., n, K)
        Scores without the intercept, labels ±1, p ≥ 0.
    b : array of shape (..., K)
        Where to start.
    """
    # Along a path the intercept before is a good start; a bracket would cost two more passes over the trials.
    b, still = _newton(loss, scores, y, weight, b)
    if bool(namespace(b).any(still)):
        b, _ = _newton(loss, scores, y, weight, b, _bracket(scores, y, weight))
    return b


def balance(a: Array, y: Array) -> Array:
    """Scale the a ≥ 0 of one class down so that Σ a y = 0, (..., n, K), the sum taken over n; a vanishes with a class.

    At the best intercept the sum is zero but for rounding, and of the rounding of margins near 1 a small a is made:
    then the equality must be restored before a dual value may be computed from it.
    """
    xp = namespace(a)
    classes = xp.astype(xp.concat([y > 0, y <= 0], axis=-1), a.dtype)
    sums = matmul_transposed(classes, a)
    least = xp.min(sums, axis=-2, keepdims=True)
    shares = xp.where(sums > 0, least / xp.where(sums > 0, sums, 1.0), 0.0)
    return a * matmul_by_columns(classes, shares)


def _newton(
    loss: SquaredHinge, scores: Array, y: Array, weight: Array, b: Array, bracket: tuple[Array, Array] | None = None
) -> tuple[Array, Array]:
    """Newton steps, inside a bracket if there is one; return b and where it still moves."""
    xp = namespace(scores)
    # Newton's steps on a piecewise linear derivative can go back and forth between two pieces; the bracket ends that.
    if bracket is not None:
        low, high = bracket
        b = xp.minimum(xp.maximum(b, low), high)
    for _ in range(_PLAIN_ITER if bracket is None else _MAX_ITER):
        margins = y * (scores + b[..., None, :])
        a = loss.dual_variable(margins, weight)
        pull = xp.vecdot(a, y, axis=-2)  # minus the derivative in b: positive where b is too small
        # 0 where all trials are beyond the margin: any intercept there is a minimiser, and the step is 0.
        slope = xp.vecdot(weight, loss.curvature(margins), axis=-2)
        step = b + pull / xp.where(slope > 0, slope, 1.0)
        if bracket is not None:
            low, high = xp.where(pull > 0, b, low), xp.where(pull < 0, b, high)
            # Halved also where the step ends on the bracket: from end to end and back it would go forever.
            step = xp.where((step == b) | ((step > low) & (step < high)), step, (low + high) / 2)
        # below that is rounding, of the sum itself or of the margins, on which dozens of iterations would be spent
        is_visible = xp.abs(step - b) > INTERCEPT_ROUNDING * (1 + xp.abs(b))
        still = (xp.abs(pull) > 2e-15 * xp.sum(a, axis=-2)) & is_visible
        b = xp.where(still, step, b)
        if not bool(xp.any(still)):
            break
    return b, still


def _bracket(scores: Array, y: Array, weight: Array) -> tuple[Array, Array]:
    """Margins 1 of all trials lie between; so does a minimiser."""
    xp = namespace(scores)
    # the b at which a trial's margin is exactly 1
    edge = xp.where(weight > 0, y - scores, 0.0)
    return xp.min(edge, axis=-2), xp.max(edge, axis=-2)


def _largest_ratio(stack: Stack, v: Array) -> Array:
    """Max over the penalised groups of ‖v_g‖_{q*} / β_g, (B, K)."""
    xp = namespace(v)
    if isinstance(stack.penalty, SensorsAndWindows):
        return stack.penalty.gauge(stack.groups.to_blocks(v), stack.group_weights)
    norms = stack.penalty.dual_norm(stack.groups.to_blocks(v))
    ratio = norms / xp.where(stack.penalised, stack.group_weights, 1.0)
    return xp.max(xp.where(stack.penalised, ratio, 0.0), axis=1)
