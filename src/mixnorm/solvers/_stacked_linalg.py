"""Positive definite systems by the batch, in whatever array library they come."""

import numpy as np

from .._arrays import Array, is_torch_array, namespace

#: Added to the diagonal, in units of its mean, so that rounding does not make a matrix indefinite.
_RIDGE = 1e-14
_BLOCK = 64


def add_to_diagonal(S: Array, diagonal: Array) -> Array:
    """Add (..., m) to the diagonals of matrices (..., m, m), in place."""
    xp = namespace(S)
    m = S.shape[-1]
    flat = xp.reshape(S, (-1, m * m))
    flat[:, :: m + 1] = flat[:, :: m + 1] + xp.reshape(diagonal, (-1, m))
    return xp.reshape(flat, S.shape)


def solve_posdef(S: Array, right: Array) -> Array:
    """Solve S x = right, (..., m, m) and (..., m, k); NaN where S is not positive definite. S is overwritten."""
    xp = namespace(S)
    S = _ridged(S)
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
    if not columns:
        return solve_posdef(S, right[..., None])[..., 0]
    everything = xp.concat([right[..., None], *columns], axis=-1)
    factor, failed = _factor(S)
    # With S = L L' and Y = L⁻¹[r, U], all that is needed of U'S⁻¹[r, U] is Y'Y, one product over all blocks.
    half = xp.reshape(_forward(factor, everything), (M, T * m, -1))
    square = xp.matmul(xp.matrix_transpose(half), half)
    schur = add_to_diagonal(xp.asarray(-square[:, 1:, 1:], copy=True), xp.ones_like(square[:, 0, 1:]))
    price = solve_posdef(schur, square[:, 1:, :1])
    inner = xp.reshape(half[..., :1] + xp.matmul(half[..., 1:], price), (M, T, m, 1))
    return xp.where(failed, float("nan"), _backward(factor, inner)[..., 0])


def _ridged(S: Array) -> Array:
    xp = namespace(S)
    mean = xp.linalg.trace(S) / S.shape[-1]
    return add_to_diagonal(S, _RIDGE * xp.where(mean > 0, mean, 1.0)[..., None] * xp.ones_like(S[..., 0]))


def _factor(S: Array) -> tuple[Array, Array]:
    """Return L with L L' = S, (M, T, m, m), and where there is none, (M, 1, 1); S is overwritten."""
    xp = namespace(S)
    S = _ridged(S)
    if is_torch_array(S):
        import torch

        factor, failed = torch.linalg.cholesky_ex(S)
        return factor, torch.any(failed > 0, dim=1)[:, None, None]
    try:
        return xp.linalg.cholesky(S), xp.zeros((S.shape[0], 1, 1), dtype=xp.bool, device=S.device)
    except np.linalg.LinAlgError:  # one of them is indefinite, and spoils them all
        return xp.ones_like(S), xp.ones((S.shape[0], 1, 1), dtype=xp.bool, device=S.device)


def _forward(L: Array, right: Array) -> Array:
    """L⁻¹ right, block by block: a batch of products runs several times faster than a batch of substitutions."""
    xp = namespace(L)
    m = L.shape[-1]
    done: list[Array] = []
    for start in range(0, m, _BLOCK):
        end = min(start + _BLOCK, m)
        rest = right[..., start:end, :]
        if done:
            rest = rest - xp.matmul(L[..., start:end, :start], xp.concat(done, axis=-2))
        done.append(xp.matmul(_inverse(L[..., start:end, start:end]), rest))
    return xp.concat(done, axis=-2)


def _backward(L: Array, right: Array) -> Array:
    """L'⁻¹ right, for few right-hand sides."""
    if is_torch_array(L):
        import torch

        return torch.linalg.solve_triangular(L.mT, right, upper=True)
    xp = namespace(L)
    return xp.linalg.solve(xp.matrix_transpose(L), right)


def _inverse(L: Array) -> Array:
    """The inverse of small lower triangular matrices."""
    xp = namespace(L)
    unit = xp.eye(L.shape[-1], dtype=L.dtype, device=L.device)
    if is_torch_array(L):
        import torch

        return torch.linalg.solve_triangular(L, unit.expand(L.shape), upper=False)
    return xp.linalg.inv(L)
