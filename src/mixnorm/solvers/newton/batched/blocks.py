"""Newton systems of several subjects: a block S_t for each of T subjects, and few columns that couple them.

The blocks are solved either by their factors or, with few trials, through the trials. Arrays are (M, T, ...), for M
problems at a time.
"""

from mixnorm.core.arrays import Array, namespace
from mixnorm.solvers.newton.batched.linalg import add_to_diagonal, inverse_factor, solve_posdef

#: Added to the diagonal of a Schur complement I − C'S⁻¹C, so that rounding does not make it indefinite.
_RIDGE = 1e-14


class FactorisedBlocks:
    """Blocks S_t (M, T, m, m), by their factors: S⁻¹ = V'V, V = L⁻¹."""

    def __init__(self, S: Array):
        self._V = inverse_factor(S)

    def solve(self, right: Array) -> Array:
        """S⁻¹ right, (M, T, m, k)."""
        xp = namespace(right)
        return xp.matmul(xp.matrix_transpose(self._V), xp.matmul(self._V, right))

    def square(self, columns: Array) -> Array:
        """Σ_t C_t'S_t⁻¹C_t, (M, c, c), for columns C (M, T, m, c), or (M, T, m) where they are diagonal."""
        xp = namespace(columns)
        is_diagonal = columns.ndim == 3
        half = self._V * columns[:, :, None, :] if is_diagonal else xp.matmul(self._V, columns)
        half = xp.reshape(half, (half.shape[0], -1, half.shape[-1]))
        return xp.matmul(xp.matrix_transpose(half), half)


class BlocksThroughTrials:
    """Blocks D_t + Z_t Z_t' with few trials: D diagonal, (M, T, m), Z (M, T, m, n).

    By Woodbury's identity S⁻¹ = D⁻¹ − Q'Q, Q = L⁻¹ Z'D⁻¹ (n × m) and L L' = I + Z'D⁻¹Z (n × n). In the directions of
    the trials it loses as many digits as Z'D⁻¹Z is larger than 1, so that D must not be tiny.
    """

    def __init__(self, diagonal: Array, Z: Array):
        xp = namespace(Z)
        self._inverse_diagonal = 1 / diagonal
        by_diagonal = Z * self._inverse_diagonal[..., None]
        kernel = xp.matmul(xp.matrix_transpose(Z), by_diagonal)
        kernel = add_to_diagonal(kernel, xp.ones_like(kernel[..., 0]))
        self._Q = xp.matmul(inverse_factor(kernel), xp.matrix_transpose(by_diagonal))

    def solve(self, right: Array) -> Array:
        """S⁻¹ right, (M, T, m, k)."""
        xp = namespace(right)
        through = xp.matmul(xp.matrix_transpose(self._Q), xp.matmul(self._Q, right))
        return self._inverse_diagonal[..., None] * right - through

    def square(self, columns: Array) -> Array:
        """Σ_t C_t'S_t⁻¹C_t, (M, m, m), for diagonal C, (M, T, m)."""
        xp = namespace(columns)
        half = self._Q * columns[:, :, None, :]
        half = xp.reshape(half, (half.shape[0], -1, half.shape[-1]))
        through = xp.matmul(xp.matrix_transpose(half), half)
        return add_to_diagonal(-through, xp.sum(columns**2 * self._inverse_diagonal, axis=1))


def solve_coupled(
    blocks: FactorisedBlocks | BlocksThroughTrials, directions: Array | None, common: Array | None, right: Array
) -> Array:
    """Solve (blockdiag_t(S_t) − U U' − C C') z = right, (M, T, m, k).

    U (M, T, m, a) are the directions, C (M, T, m, c) the common columns, or (M, T, m) where they are diagonal.
    (S − B B')⁻¹ r = S⁻¹(r + B λ) with B = [U, C] and (I − B'S⁻¹B) λ = B'S⁻¹r, the products summed over the blocks.
    """
    xp = namespace(right)
    k = right.shape[-1]
    if directions is None and common is None:
        return blocks.solve(right)
    thin = right if directions is None else xp.concat([right, directions], axis=-1)
    solved = blocks.solve(thin)
    square = _summed_product(thin, solved)
    if common is not None:
        across, own = _summed_product(common, solved), blocks.square(common)
        above = xp.concat([square, xp.matrix_transpose(across)], axis=-1)
        square = xp.concat([above, xp.concat([across, own], axis=-1)], axis=-2)
    schur = add_to_diagonal(xp.asarray(-square[:, k:, k:], copy=True), (1 + _RIDGE) * xp.ones_like(square[:, 0, k:]))
    price = solve_posdef(schur, square[:, k:, :k])
    a = thin.shape[-1] - k
    found = solved[..., :k] + xp.matmul(solved[..., k:], price[:, None, :a, :])
    return found if common is None else found + blocks.solve(_times(common, price[:, None, a:, :]))


def _summed_product(columns: Array, right: Array) -> Array:
    """Σ_t C_t'right_t, (M, c, k); C is diagonal where it is (M, T, m)."""
    xp = namespace(right)
    if columns.ndim == 3:
        return xp.sum(columns[..., None] * right, axis=1)
    flat = [xp.reshape(part, (part.shape[0], -1, part.shape[-1])) for part in (columns, right)]
    return xp.matmul(xp.matrix_transpose(flat[0]), flat[1])


def _times(columns: Array, right: Array) -> Array:
    """C_t right, (M, T, m, k); C is diagonal where it is (M, T, m)."""
    return columns[..., None] * right if columns.ndim == 3 else namespace(right).matmul(columns, right)
