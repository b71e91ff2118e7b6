r"""The linear system of a Newton step: block diagonal over subjects, minus a few rank-one terms.

In the scaled variables z = R⁻¹ δw (`mixnorm.solvers.newton.host.solver`) the matrix is, subject by subject,

    S_t = R_t H_t R_t + diag(c_t + (2 similarity + ridge) R_t²)

and couples subjects only through M = S − U Λ U', whose columns U are the unit vectors k_g of the active groups
(weights c_g) and, with a similarity to the mean over subjects, the columns R e_j of every feature (weights
2 similarity / T). So one factorisation per subject and a Schur complement of size |groups| + |features| solve it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from mixnorm.solvers.newton.tuning import RIDGES


class Curvature(NamedTuple):
    """Curvature of the penalty and the similarity term on the active coordinates, intercepts left out.

    Attributes
    ----------
    scale : ndarray of shape (T, m)
        R; 0 for a coordinate that is not active.
    diagonal : ndarray of shape (T, m)
        c + (2 similarity + ridge) R².
    direction : ndarray of shape (T, m)
        k, a unit vector within each group, or 0.
    group : ndarray of shape (T, m)
        Which group, 0 … a − 1.
    group_weight : ndarray of shape (a,)
        c_g, the weight of k k'; 0 where a group has none.
    similarity : float
        What couples the subjects through their mean; 0 with a fixed centre.
    """

    scale: np.ndarray
    diagonal: np.ndarray
    direction: np.ndarray
    group: np.ndarray
    group_weight: np.ndarray
    similarity: float


class Bend(NamedTuple):
    """The penalty on the active coordinates.

    Attributes
    ----------
    curvature : Curvature
    slope : ndarray of shape (T, m)
        Its gradient.
    gamma, tau : ndarrays of shape (a,)
        γ of the normal map and the thresholds alpha β of the groups.
    """

    curvature: Curvature
    slope: np.ndarray
    gamma: np.ndarray
    tau: np.ndarray


def solve_subjects(blocks: Sequence["_Block"], curvature: Curvature, rhs: np.ndarray) -> np.ndarray:
    """Solve for T coupled subjects, whose own matrices S_t can be solved with; rhs (T, free + m).

    (S − U Λ U')⁻¹ r = S⁻¹(r + U λ) with (Λ⁻¹ − U'S⁻¹U) λ = U'S⁻¹r, summed over subjects one at a time, so
    that nothing of size T m² is ever held.
    """
    T, m = curvature.scale.shape
    free = rhs.shape[1] - m
    has_direction = (curvature.group_weight > 0).nonzero()[0]
    common = np.full(m if curvature.similarity > 0 else 0, 2 * curvature.similarity / T)
    schur = np.diag(1 / np.concatenate([curvature.group_weight[has_direction], common]))
    pull = np.zeros(len(schur))
    columns = []
    for t, block in enumerate(blocks):
        K = np.zeros((free + m, len(curvature.group_weight)))
        K[free + np.arange(m), curvature.group[t]] = curvature.direction[t]
        U = _Columns(K[:, has_direction], curvature.scale[t] if len(common) else np.zeros(0), free)
        solved = block.solve(np.column_stack([rhs[t], U.dense()]))
        against = U.transposed_times(solved)
        pull += against[:, 0]
        schur -= against[:, 1:]
        columns.append(U)
    price = solve_posdef((schur + schur.T) / 2, pull[:, None])[:, 0]
    right = [r + U.times(price) for r, U in zip(rhs, columns, strict=True)]
    return np.stack([block.solve(r[:, None])[:, 0] for block, r in zip(blocks, right, strict=True)])


def solve_together(rows: list[np.ndarray], p: list[np.ndarray], curvature: Curvature, rhs: np.ndarray) -> np.ndarray:
    """Solve for T coupled subjects through all their N trials inside the margin at once, O(N² m); rhs (T, free + m).

    Without H and the directions k the matrix is, for each feature, diag(D_t) − (2 similarity / T) r r' over subjects,
    whose inverse is diag(1/D_t) + l l' with l = (r/D) / √(Σ_t (1/(2 similarity) − r_t²/D_t)).
    """
    T, m = curvature.scale.shape
    free = rhs.shape[1] - m
    twice = 2 * curvature.similarity
    rest = np.sum((curvature.diagonal - twice * curvature.scale**2) / (twice * curvature.diagonal), axis=0)
    lean = curvature.scale / curvature.diagonal / np.sqrt(np.maximum(rest, 1e-300))
    scale = np.concatenate([np.ones((T, free)), curvature.scale], axis=1)
    roots = [(r * c[:, None] * np.sqrt(2 * w)).T for r, w, c in zip(rows, p, scale, strict=True)]
    lent = np.array([np.sum(root[:, :free] ** 2, axis=0) for root in roots])
    diagonal = np.concatenate([nonzero(lent), curvature.diagonal], axis=1)

    def base(x):
        out = x / diagonal[..., None]
        out[:, free:] += lean[..., None] * np.einsum("tm,tmk->mk", lean, x[:, free:])
        return out

    ends = np.cumsum([len(root) for root in roots])
    leaning = np.concatenate([root[:, free:] * along for root, along in zip(roots, lean, strict=True)])
    kernel = leaning @ leaning.T
    kernel[np.diag_indices_from(kernel)] += 1
    for root, below, end in zip(roots, diagonal, ends, strict=True):
        own = slice(end - len(root), end)
        kernel[own, own] += (root / below) @ root.T
    U = _all_columns(curvature, free)
    right = base(np.concatenate([rhs[..., None], U], axis=2))
    through = solve_posdef(kernel, np.concatenate([root @ x for root, x in zip(roots, right, strict=True)]))
    back = np.stack([root.T @ part for root, part in zip(roots, np.split(through, ends[:-1]), strict=True)])
    solved = (right - base(back)).reshape(T * (free + m), -1)
    weights = np.concatenate([curvature.group_weight, lent.ravel()])
    return _take_back(solved[:, :1], solved[:, 1:], U.reshape(len(solved), -1), weights).reshape(T, free + m)


def _all_columns(curvature: Curvature, free: int) -> np.ndarray:
    """The directions of the groups, then the intercepts, as (T, free + m, a + T free)."""
    T, m = curvature.scale.shape
    a = len(curvature.group_weight)
    U = np.zeros((T, free + m, a + T * free))
    subject, feature = np.indices((T, m))
    U[subject, free + feature, curvature.group] = curvature.direction
    for t in range(T):
        U[t, :free, a + t * free : a + (t + 1) * free] = np.eye(free)
    return U


@dataclass(frozen=True, eq=False)
class _Columns:
    """One subject's rows of U: some dense columns K (free + m, a), then R e_j of every feature, a diagonal."""

    K: np.ndarray
    scale: np.ndarray
    free: int

    def dense(self) -> np.ndarray:
        below = np.zeros((len(self.K), len(self.scale)))
        np.fill_diagonal(below[self.free :], self.scale)
        return np.column_stack([self.K, below])

    def times(self, price: np.ndarray) -> np.ndarray:
        a = self.K.shape[1]
        out = self.K @ price[:a]
        if len(self.scale):
            out[self.free :] += self.scale * price[a:]
        return out

    def transposed_times(self, A: np.ndarray) -> np.ndarray:
        top = self.K.T @ A
        return np.concatenate([top, self.scale[:, None] * A[self.free :]]) if len(self.scale) else top


class _Block(Protocol):
    """One subject's own matrix S_t = R H R + diag(c), ready to be solved with."""

    def solve(self, right: np.ndarray) -> np.ndarray:
        """Return S_t⁻¹ right, (free + m, k)."""


class DenseBlock:
    """S_t factorised as it is: O(m³) once. Only the upper triangle of H counts."""

    def __init__(self, H: np.ndarray, scale: np.ndarray, diagonal: np.ndarray):
        free = len(H) - len(scale)
        whole_scale = np.concatenate([np.ones(free), scale])

        def matrix() -> np.ndarray:
            S = H * whole_scale * whole_scale[:, None]
            diagonal_of(S)[free:] += diagonal
            return S

        self._factor = cholesky(matrix(), matrix)

    def solve(self, right: np.ndarray) -> np.ndarray:
        """Return S_t⁻¹ right."""
        return dpotrs(self._factor, right, lower=1)[0]


class TrialBlock:
    """S_t through its n trials inside the margin: O(n² m), for more coordinates than trials.

    S = D + Y'Y with Y = √(2p) rows R. An intercept has no curvature of its own in D: some is added (``lent``),
    and subtracted again as a rank-one term.
    """

    def __init__(self, rows: np.ndarray, p: np.ndarray, scale: np.ndarray, diagonal: np.ndarray):
        free = len(rows) - len(scale)
        self._root = (rows * np.concatenate([np.ones(free), scale])[:, None] * np.sqrt(2 * p)).T
        lent = (self._root[:, :free] ** 2).sum(axis=0)
        self._diagonal = np.concatenate([nonzero(lent), diagonal])
        kernel = (self._root / self._diagonal) @ self._root.T
        kernel[np.diag_indices_from(kernel)] += 1
        self._factor = cholesky(kernel) if len(kernel) else kernel
        self._unit = np.eye(len(rows), free)[:, lent > 0]
        self._solved_unit = self._lending_solve(self._unit)
        self._lent = lent[lent > 0]

    def _lending_solve(self, right: np.ndarray) -> np.ndarray:
        right = right / self._diagonal[:, None]
        if not len(self._root):
            return right
        through = dpotrs(self._factor, self._root @ right, lower=1)[0]
        return right - (self._root / self._diagonal).T @ through

    def solve(self, right: np.ndarray) -> np.ndarray:
        """Return S_t⁻¹ right."""
        solved = self._lending_solve(right)
        if not len(self._lent):
            return solved
        rest = np.diag(1 / self._lent) - self._unit.T @ self._solved_unit
        return solved + self._solved_unit @ solve_posdef(rest, self._unit.T @ solved)


def _take_back(solved: np.ndarray, solved_U: np.ndarray, U: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(S − U Λ U')⁻¹ r from S⁻¹ r and S⁻¹ U, by the Schur complement Λ⁻¹ − U' S⁻¹ U."""
    keep = weights > 0
    U, solved_U, weights = U[:, keep], solved_U[:, keep], weights[keep]
    if not len(weights):
        return solved
    schur = np.diag(1 / weights) - U.T @ solved_U
    return solved + solved_U @ solve_posdef((schur + schur.T) / 2, U.T @ solved)


def nonzero(lent: np.ndarray) -> np.ndarray:
    """Curvature added to intercepts; 1 where a subject has no trial inside the margin, so that its intercept stays."""
    return np.where(lent > 0, lent, 1.0)


def solve_posdef(M: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve with a positive definite matrix, adding as little to its diagonal as lets it be factorised."""
    return dpotrs(cholesky(M), right, lower=1)[0] if len(M) else right


def cholesky(M: np.ndarray, again: Callable[[], np.ndarray] | None = None) -> np.ndarray:
    """Factorise M, which is overwritten: its lower triangle in Fortran order, the upper one in C's.

    Where that fails, a share of each entry of the diagonal is added to it: intercepts and features have units of their
    own. ``again`` then returns M anew. Without it M must be symmetric: the other triangle has what was overwritten.
    """
    whole = None if again else diagonal_of(M).copy()
    for share in RIDGES:
        diagonal = diagonal_of(M)
        size = np.maximum(np.abs(diagonal), 1e-300)
        diagonal += share * size
        factor, failed = dpotrf(M.T, lower=1, clean=0, overwrite_a=1)  # M.T: Fortran order without a copy
        if not failed:
            return factor
        if again:
            M = again()
        else:
            np.copyto(M, M.T, where=np.tri(len(M), k=-1, dtype=bool).T)
            diagonal[:] = whole
    return np.diag(np.sqrt(size))  # nothing but numbers that are not finite leads here: any step is refused then


def diagonal_of(M: np.ndarray) -> np.ndarray:
    """The diagonal of a matrix in C order, to be written to."""
    return M.reshape(-1)[:: len(M) + 1]


class PairsWithin:
    """All pairs of coordinates that share a group, given the group (m,) of each."""

    def __init__(self, group: np.ndarray):
        sizes = np.bincount(group)
        self._size = int(sizes[0]) if len(sizes) else 0
        #: groups that are runs of one length, as sensors mostly are: their blocks lie evenly along the diagonal
        self._even = bool((sizes == self._size).all()) and self._are_runs(group, self._size)
        self._pairs = None if self._even else self._list(group, sizes)

    @staticmethod
    def _are_runs(group: np.ndarray, size: int) -> bool:
        return not len(group) or bool((group.reshape(-1, size) == group[::size, None]).all())

    @staticmethod
    def _list(group: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        order = np.argsort(group, kind="stable")
        starts = np.repeat(np.cumsum(sizes) - sizes, sizes**2)
        width = np.repeat(sizes, sizes**2)
        within = np.arange(len(width)) - np.repeat(np.cumsum(sizes**2) - sizes**2, sizes**2)
        return order[starts + within // np.maximum(width, 1)], order[starts + within % np.maximum(width, 1)]

    def subtract(self, M: np.ndarray, k: np.ndarray) -> None:
        """Subtract k_i k_j for every pair from M, in C order, whose last m rows and columns are the coordinates."""
        free = len(M) - len(k)
        if self._pairs is not None:
            first, second = self._pairs
            M[free + first, free + second] -= k[first] * k[second]
        elif len(k):
            r, (down, right) = self._size, M.strides
            shape, strides = (len(k) // r, r, r), ((down + right) * r, down, right)
            # what `as_strided` does, without its cost
            blocks: np.ndarray = np.ndarray(shape, M.dtype, M, free * (down + right), strides)
            k = k.reshape(-1, r)
            blocks -= k[:, :, None] * k[:, None, :]
