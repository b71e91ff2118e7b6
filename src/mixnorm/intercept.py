"""The best intercept for given scores: a piecewise quadratic in one variable, solved exactly."""

from ._arrays import Array, namespace
from .losses import SquaredHinge

_MAX_ITER = 200


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
    xp = namespace(scores)
    low, high = _bracket(scores, y, weight)
    b = xp.clip(b, low, high)
    for _ in range(_MAX_ITER):
        margins = y * (scores + b[..., None, :])
        a = loss.dual_variable(margins, weight)
        pull = xp.sum(a * y, axis=-2)  # minus the derivative in b: positive where b is too small
        slope = xp.sum(weight * loss.curvature(margins), axis=-2)
        low, high = xp.where(pull > 0, b, low), xp.where(pull < 0, b, high)
        step = b + pull / xp.where(slope > 0, slope, 1.0)
        step = xp.where((step >= low) & (step <= high), step, (low + high) / 2)
        # below that is the rounding of the sum itself, which would be chased for dozens of iterations
        still = (xp.abs(pull) > 2e-15 * xp.sum(a, axis=-2)) & (step != b)
        b = xp.where(still, step, b)
        if not bool(xp.any(still)):
            break
    return b


def _bracket(scores: Array, y: Array, weight: Array) -> tuple[Array, Array]:
    """Margins 1 of all trials lie between; so does a minimiser."""
    xp = namespace(scores)
    edge = xp.where(weight > 0, y - scores, 0.0)
    return xp.min(edge, axis=-2), xp.max(edge, axis=-2)
