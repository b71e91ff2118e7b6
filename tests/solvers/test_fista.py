"""Restarted FISTA where rounding decides: nearly every trial beyond the margin, the loss a sum of tiny squares."""

import numpy as np

from mixnorm import group_svc_path


def test_backtracking_ends_where_the_loss_is_nearly_zero():
    rng = np.random.default_rng(0)
    y = np.arange(30) % 2
    X = rng.standard_normal((30, 20, 6))
    path = group_svc_path(X, y, solver="fista", alphas=12, tol=1e-9, max_iter=20_000)
    loss = np.maximum(1 - (2 * y - 1) * (X.reshape(30, -1) @ path.coefs[-1] + path.intercepts[-1]), 0) ** 2
    assert loss.mean() < 1e-5  # the data can tell the difference
    assert path.dual_gaps.max() <= 1e-9
