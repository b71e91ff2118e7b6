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
