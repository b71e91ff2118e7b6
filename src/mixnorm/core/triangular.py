"""Cholesky factors and what they solve, for one matrix of any array library."""

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dtrtri

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


def inverse(L: Array) -> Array:
    """Return L⁻¹, for a lower triangular L (d, d) without zeros on its diagonal."""
    if is_numpy_array(L):
        return dtrtri(L.T, lower=0)[0].T if len(L) else L  # LAPACK refuses a matrix without rows
    xp = namespace(L)
    return forward(L, xp.eye(L.shape[0], dtype=L.dtype, device=L.device))


def times(X: Array, L: Array, transpose: bool = False) -> Array:
    """Return X L or X L', for X (n, d) and a lower triangular L (d, d)."""
    if is_numpy_array(L):
        # BLAS has matrices column by column, so that it gets the transposes; it skips the zeros of L
        return dtrmm(1.0, L.T, X.T, lower=0, trans_a=int(transpose)).T
    return X @ (namespace(L).matrix_transpose(L) if transpose else L)
