"""Positive definite systems by the batch, in whatever array library they come."""

import numpy as np

from .._arrays import Array, is_torch_array, namespace

#: Added to the diagonal, in units of its mean, so that rounding does not make a matrix indefinite.
_RIDGE = 1e-14


def add_to_diagonal(S: Array, diagonal: Array) -> Array:
    """Add (..., m) to the diagonals of matrices (..., m, m), in place."""
    xp = namespace(S)
    m = S.shape[-1]
    flat = xp.reshape(S, (-1, m * m))
    flat[:, :: m + 1] = flat[:, :: m + 1] + xp.reshape(diagonal, (-1, m))
    return xp.reshape(flat, S.shape)


def solve_posdef(S: Array, right: Array) -> Array:
    """Solve S x = right, (..., m, m) and (..., m, k); NaN where S is not positive definite."""
    xp = namespace(S)
    m = S.shape[-1]
    mean = xp.linalg.trace(S) / m
    S = add_to_diagonal(S, _RIDGE * xp.where(mean > 0, mean, 1.0)[..., None] * xp.ones_like(S[..., 0]))
    if is_torch_array(S):
        import torch

        factor, failed = torch.linalg.cholesky_ex(S)
        return torch.where(failed[..., None, None] > 0, torch.nan, torch.cholesky_solve(right, factor))
    try:
        return xp.linalg.solve(S, right)
    except np.linalg.LinAlgError:  # one of them is singular, and spoils them all
        return xp.full_like(right, float("nan"))


def solve_coupled(S: Array, columns: list[Array], right: Array) -> Array:
    """Solve (blockdiag_t(S_t) − U U') z = right for T coupled blocks: S (M, T, m, m), U (M, T, m, c), right (M, T, m).

    (S − U U')⁻¹ r = S⁻¹(r + U λ) with (I − U'S⁻¹U) λ = U'S⁻¹r, summed over the blocks.
    """
    xp = namespace(S)
    M, T, m = right.shape
    solved = solve_posdef(S, xp.concat([right[..., None], *columns], axis=-1))
    if not columns:
        return solved[..., 0]
    U = xp.reshape(xp.concat(columns, axis=-1), (M, T * m, -1))
    c = U.shape[-1]
    against = xp.matmul(xp.matrix_transpose(U), xp.reshape(solved, (M, T * m, c + 1)))
    schur = -against[..., 1:]
    schur = (schur + xp.matrix_transpose(schur)) / 2
    schur = add_to_diagonal(schur, xp.ones_like(schur[..., 0]))
    price = solve_posdef(schur, against[..., :1])
    return xp.matmul(solved[..., 1:], price[:, None, ...])[..., 0] + solved[..., 0]
