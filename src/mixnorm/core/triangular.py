"""Cholesky factors and what they solve, for one matrix of any array library."""

import numpy as np
from scipy.linalg import solve_triangular

from mixnorm.core.arrays import Array, is_numpy_array, is_torch_array, namespace


def cholesky(N: Array) -> Array:
    """Return the lower L with L L' = N, for a positive definite N (d, d)."""
    return np.linalg.cholesky(N) if is_numpy_array(N) else namespace(N).linalg.cholesky(N)


def forward(L: Array, right: Array) -> Array:
    """Return L⁻¹ right, for a lower triangular L (d, d) and right (d, k)."""
    if is_numpy_array(L):
        return solve_triangular(L, right, lower=True, check_finite=False)
    if is_torch_array(L):
        import torch

        return torch.linalg.solve_triangular(L, right, upper=False)
    return namespace(L).linalg.solve(L, right)


def backward(L: Array, right: Array) -> Array:
    """Return L'⁻¹ right, for a lower triangular L (d, d) and right (d, k)."""
    if is_numpy_array(L):
        return solve_triangular(L, right, lower=True, trans="T", check_finite=False)
    if is_torch_array(L):
        import torch

        return torch.linalg.solve_triangular(L.mT, right, upper=True)
    xp = namespace(L)
    return xp.linalg.solve(xp.matrix_transpose(L), right)
