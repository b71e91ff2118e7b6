r"""The symmetric root of a positive definite matrix.

On the host it follows from an eigendecomposition. On a device that takes many times as long as products of matrices of
the same order, and the coupled iteration of Newton and Schulz is used,

.. math::

    Y \leftarrow \tfrac12 Y (3 I - Z Y), \qquad Z \leftarrow \tfrac12 (3 I - Z Y) Z, \qquad Y_0 = N/c, \; Z_0 = I,

with c at least the largest eigenvalue of N [1]_. Y tends to (N/c)^{1/2} and Z to its inverse: an eigenvalue of Z Y
that is far below 1 grows 9/4-fold in an iteration, and then its distance from 1 is squared in each.

References
----------
.. [1] N. J. Higham: Functions of Matrices: Theory and Computation. SIAM, 2008, section 6.7.
"""

import numpy as np

from mixnorm.core.arrays import Array, is_numpy_array, namespace

#: Eigenvalues of a matrix below this share of the largest are rounding.
_ROUNDING = 1e-12
#: Iterations of Newton and Schulz. The logarithm of the condition to base 9/4 and a few more are needed: 40 for 1e12.
_MOST_ITERATIONS = 45
#: Norm of I − Z Y from which one more iteration reaches the limits of rounding.
_NEARLY = 1e-8


def symmetric_root(N: Array, right: Array) -> tuple[Array, Array]:
    """Return N^{1/2} and N^{−1/2} right, for a positive definite N (d, d) and right (d,)."""
    found = None if is_numpy_array(N) else _by_iteration(N, right)
    return _by_eigenvectors(N, right) if found is None else found


def _by_eigenvectors(N: Array, right: Array) -> tuple[Array, Array]:
    xp = namespace(N)
    values, vectors = xp.linalg.eigh(N)
    # this only keeps rounding from giving a negative eigenvalue
    values = xp.sqrt(xp.clip(values, min=_ROUNDING * float(values[-1])))
    transposed = xp.matrix_transpose(vectors)
    half = vectors * xp.sqrt(values)
    # NumPy computes half of the product of a matrix with its own transpose
    return half @ xp.matrix_transpose(half), vectors @ ((transposed @ right) / values)


def _by_iteration(N: Array, right: Array) -> tuple[Array, Array] | None:
    """The same by the iteration of Newton and Schulz; None if it does not converge."""
    xp = namespace(N)
    scale = float(xp.max(xp.sum(xp.abs(N), axis=0)))
    unit = xp.eye(N.shape[0], dtype=N.dtype, device=N.device)
    Y, Z = N / scale, unit
    for _ in range(_MOST_ITERATIONS):
        rest = unit - Z @ Y
        left = float(xp.linalg.matrix_norm(rest))
        step = unit + rest / 2
        Y, Z = Y @ step, step @ Z
        if left < _NEARLY:
            Y = (Y + xp.matrix_transpose(Y)) / 2
            return Y * scale**0.5, (Z @ right) / scale**0.5
        if not np.isfinite(left):
            break
    return None
