"""Batches of positive definite systems, in any array library."""

import numpy as np

from mixnorm.core.arrays import Array, is_torch_array, namespace

#: Rows of a matrix that are factorised together: what is left is a batch of products, which runs several times faster
#: than a batch of factorisations or of substitutions.
_BLOCK = 64


def add_to_diagonal(S: Array, diagonal: Array) -> Array:
    """Add (..., m) to the diagonals of matrices (..., m, m), in place."""
    xp = namespace(S)
    m = S.shape[-1]
    flat = xp.reshape(S, (-1, m * m))
    flat[:, :: m + 1] = flat[:, :: m + 1] + xp.reshape(diagonal, (-1, m))
    return xp.reshape(flat, S.shape)


def solve_posdef(S: Array, right: Array) -> Array:
    """Solve S x = right, (..., m, m) and (..., m, k); the result is arbitrary where S is not positive definite."""
    xp = namespace(S)
    if is_torch_array(S):
        inverse = inverse_factor(S)
        return xp.matmul(xp.matrix_transpose(inverse), xp.matmul(inverse, right))
    try:
        return xp.linalg.solve(S, right)
    except np.linalg.LinAlgError:  # one of them is singular: none of the batch is solved
        return xp.full_like(right, float("nan"))


def inverse_factor(S: Array) -> Array:
    """Return L⁻¹ for L L' = S, (..., m, m), L lower triangular; arbitrary where S is not positive definite.

    Block column by block column: L_ij = (S_ij − Σ_{k<j} L_ik L_jk') L_jj'⁻¹, and row by row
    (L⁻¹)_i = −L_ii⁻¹ Σ_{k<i} L_ik (L⁻¹)_k.
    """
    xp = namespace(S)
    m = S.shape[-1]
    whole = S
    S = xp.reshape(S, (-1, m, m))
    L, inverse = xp.empty_like(S), xp.zeros_like(S)
    for start in range(0, m, _BLOCK):
        end = min(start + _BLOCK, m)
        panel = S[:, start:, start:end]
        if start:
            panel = _less_product(panel, L[:, start:, :start], xp.matrix_transpose(L[:, start:end, :start]))
        corner = _inverse(_cholesky(panel[:, : end - start, :]))
        if end < m:
            L[:, end:, start:end] = xp.matmul(panel[:, end - start :, :], xp.matrix_transpose(corner))
        inverse[:, start:end, start:end] = corner
        if start:
            before = xp.matmul(L[:, start:end, :start], inverse[:, :start, :start])
            inverse[:, start:end, :start] = -xp.matmul(corner, before)
    return xp.reshape(inverse, whole.shape)


def less_square(S: Array, columns: list[Array]) -> Array:
    """Return S − V V', (..., m, m), V = all columns (..., m, c) side by side."""
    xp = namespace(S)
    V = xp.concat(columns, axis=-1) if len(columns) > 1 else columns[0]
    m = S.shape[-1]
    flat, V = xp.reshape(S, (-1, m, m)), xp.reshape(V, (-1, m, V.shape[-1]))
    return xp.reshape(_less_product(flat, V, xp.matrix_transpose(V)), S.shape)


def _less_product(S: Array, A: Array, B: Array) -> Array:
    """S − A B of three-dimensional arrays, in one pass where the library can."""
    if is_torch_array(S):
        import torch

        return torch.baddbmm(S, A, B, alpha=-1)
    return S - namespace(S).matmul(A, B)


def _cholesky(S: Array) -> Array:
    """Return L with L L' = S, (N, m, m); arbitrary where S is not positive definite."""
    xp = namespace(S)
    if is_torch_array(S):
        import torch

        return torch.linalg.cholesky_ex(S)[0]
    try:
        return xp.linalg.cholesky(S)
    except np.linalg.LinAlgError:  # one of them is indefinite: none of the batch is factorised
        return xp.full_like(S, float("nan"))


def _inverse(L: Array) -> Array:
    """The inverse of small lower triangular matrices."""
    xp = namespace(L)
    unit = xp.eye(L.shape[-1], dtype=L.dtype, device=L.device)
    if is_torch_array(L):
        import torch

        return torch.linalg.solve_triangular(L, unit.expand(L.shape), upper=False)
    return xp.linalg.inv(L)
