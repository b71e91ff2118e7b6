"""Lipschitz constants of the gradient of the smooth part, in the metric ‖W‖² + ‖b/c‖².

c is the root mean square of the features: an intercept column of that size conditions the problem far better
than a column of ones next to features of another scale.
"""

import numpy as np

from mixnorm.core.arrays import Array, like, matmul_transposed, namespace
from mixnorm.core.problem import Stack

_POWER_ITERATIONS = 20


def intercept_scale(stack: Stack) -> Array:
    """c² = mean square of the features, (B, 1); 1 where the features are all zero, 0 without an intercept."""
    xp = namespace(stack.X)
    if not stack.fit_intercept:
        return xp.zeros_like(stack.alpha[:, :1])
    square = xp.mean(stack.X**2, axis=(1, 2, 3))
    return xp.where(square > 0, square, 1.0)[:, None]


def _similarity_constant(stack: Stack) -> Array:
    """2 similarity + ridge, times a bound of the metric's largest eigenvalue, (B, K)."""
    curvature = 2 * stack.similarity if stack.ridge is None else 2 * stack.similarity + stack.ridge
    if stack.metric is None:
        return curvature
    return curvature * namespace(stack.X).max(stack.metric.bound(), axis=1)[:, None]


def paper_constant(stack: Stack) -> Array:
    """2 Σ_i p_i (‖x_i‖² + c²), the paper's bound (appendix) for the mean loss, plus the similarity term's, (B, K)."""
    xp = namespace(stack.X)
    square = xp.sum(stack.X**2, axis=-1)[..., None] + intercept_scale(stack)[:, None, None, :]
    bound = stack.loss.lipschitz * xp.sum(stack.trial_weight * square, axis=2)
    return xp.max(bound, axis=1) + _similarity_constant(stack)


def power_estimate(stack: Stack) -> Array:
    """Estimate max_t 2 σ_max([√p X_t, c √p])² from below by power iteration, plus the similarity term's, (B, K)."""
    xp = namespace(stack.X)
    d = stack.X.shape[-1]
    c2 = intercept_scale(stack)[:, None, :]
    # A fixed, irregular start: no randomness in a fit, and no symmetry to be orthogonal to the answer by accident.
    u = stack.start()[0] + like(stack.X, np.cos(np.arange(d) ** 2 + 1.0))[None, None, :, None]
    v = xp.ones_like(u[:, :, 0, :])
    size = xp.ones_like(v)
    for _ in range(_POWER_ITERATIONS):
        scores = stack.trial_weight * stack.scores(u, c2 * v)
        u, v = matmul_transposed(stack.X, scores), xp.sum(scores, axis=2)
        size = xp.sqrt(xp.sum(u**2, axis=2) + c2 * v**2)
        size = xp.where(size > 0, size, 1.0)
        u, v = u / size[:, :, None, :], v / size
    return xp.max(stack.loss.lipschitz * size, axis=1) + _similarity_constant(stack)
