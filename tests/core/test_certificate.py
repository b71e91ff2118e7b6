"""The allowance of the certificate for rounding, against its formula."""

import numpy as np
import pytest

from mixnorm.core.certificate import rounding_error
from mixnorm.core.problem import Stack
from stacks import make_stack


def _allowed(stack: Stack, W, b, loss, primal):
    """16 eps (P + 2 √loss (‖w‖ √Σ p ‖x‖² + ‖b‖)), problem by problem."""
    p, found = stack.trial_weight, np.empty_like(primal)
    for i, k in np.ndindex(*found.shape):
        length = sum(p[i, t, n, k] * np.sum(stack.X[i, t, n] ** 2) for t, n in np.ndindex(*p.shape[1:3]))
        size = np.linalg.norm(W[i, ..., k]) * np.sqrt(length) + np.linalg.norm(b[i, :, k])
        found[i, k] = primal[i, k] + 2 * np.sqrt(loss[i, k]) * size
    return 16 * np.finfo(float).eps * found


@pytest.mark.parametrize("T", [1, 3])
def test_the_error_by_rounding_grows_with_scores_and_loss(T):
    stack, rng = make_stack("q=2", T=T), np.random.default_rng(0)
    B, _, _, d, K = stack.shape
    W, b = rng.standard_normal((B, T, d, K)), rng.standard_normal((B, T, K))
    loss, primal = rng.uniform(0.1, 1, (B, K)), rng.uniform(1e-3, 1e-2, (B, K))
    found = rounding_error(stack, W, b, loss, primal)
    np.testing.assert_allclose(found, _allowed(stack, W, b, loss, primal), rtol=1e-10)
