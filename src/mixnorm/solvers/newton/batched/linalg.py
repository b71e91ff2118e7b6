"""Batches of positive definite systems, in any array library."""

import numpy as np

from mixnorm.core.arrays import Array, is_torch_array, namespace

_BLOCK = 64
#: Added to the diagonal of a Schur complement I − U'S⁻¹U, so that rounding does not make it indefinite.
_RIDGE = 1e-14


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
        import torch

        factor = torch.linalg.cholesky_ex(S)[0]
        half = torch.linalg.solve_triangular(factor, right, upper=False)
        return torch.linalg.solve_triangular(factor.mT, half, upper=True)
    try:
        return xp.linalg.solve(S, right)
    except np.linalg.LinAlgError:  # one of them is singular: none of the batch is solved
        return xp.full_like(right, float("nan"))


def solve_coupled(S: Array, columns: list[Array], right: Array) -> Array:
    """Solve (blockdiag_t(S_t) − U U') z = right for T coupled blocks.

    S (M, T, m, m), U (M, T, m, c), right and z (M, T, m, k).
    (S − U U')⁻¹ r = S⁻¹(r + U λ) with (I − U'S⁻¹U) λ = U'S⁻¹r, summed over the blocks.
    """
    xp = namespace(S)
    M, T, m, k = right.shape
    if not columns:
        return solve_posdef(S, right)
    everything = xp.concat([right, *columns], axis=-1)
    factor = _factor(S)
    # With S = L L' and Y = L⁻¹[r, U], all that is needed of U'S⁻¹[r, U] is Y'Y, one product over all blocks.
    half = xp.reshape(_forward(factor, everything), (M, T * m, -1))
    square = xp.matmul(xp.matrix_transpose(half), half)
    schur = add_to_diagonal(xp.asarray(-square[:, k:, k:], copy=True), (1 + _RIDGE) * xp.ones_like(square[:, 0, k:]))
    price = solve_posdef(schur, square[:, k:, :k])
    inner = xp.reshape(half[..., :k] + xp.matmul(half[..., k:], price), (M, T, m, k))
    return _backward(factor, inner)


def _factor(S: Array) -> Array:
    """Return L with L L' = S, (M, T, m, m); arbitrary where S is not positive definite."""
    xp = namespace(S)
    if is_torch_array(S):
        import torch

        return torch.linalg.cholesky_ex(S)[0]
    try:
        return xp.linalg.cholesky(S)
    except np.linalg.LinAlgError:  # one of them is indefinite: none of the batch is factorised
        return xp.full_like(S, float("nan"))


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
