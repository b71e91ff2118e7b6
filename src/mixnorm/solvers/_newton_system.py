r"""The linear system of a Newton step: block diagonal over subjects, minus a few rank-one terms.

In the scaled variables z = R⁻¹ δw (see `newton`) the matrix is, subject by subject,

    S_t = R_t H_t R_t + diag(c_t + 2 similarity R_t²)

and couples subjects only through M = S − U Λ U', whose columns U are the unit vectors k_g of the active groups
(weights c_g) and, where subjects are drawn to their mean, the columns R e_j of every feature (weights 2 similarity / T). So one factorisation
per subject and a Schur complement of size |groups| + |features| solve it.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs


@dataclass(frozen=True, eq=False)
class Curvature:
    """Curvature of the penalty and the similarity term on the active coordinates, intercepts left out.

    Attributes
    ----------
    scale : ndarray of shape (T, m)
        R; 0 masks a coordinate out.
    diagonal : ndarray of shape (T, m)
        c + 2 similarity R².
    direction : ndarray of shape (T, m)
        k, a unit vector within each group, or 0.
    group : ndarray of shape (T, m)
        Which group, 0 … a − 1.
    group_weight : ndarray of shape (a,)
        c_g, the weight of k k'; 0 where a group has none.
    similarity : float
        What couples the subjects through their mean; 0 where each is drawn to a fixed centre.
    """

    scale: np.ndarray
    diagonal: np.ndarray
    direction: np.ndarray
    group: np.ndarray
    group_weight: np.ndarray
    similarity: float


def solve_single(H: np.ndarray, curvature: Curvature, rhs: np.ndarray) -> np.ndarray:
    """Solve for one subject by one Cholesky factorisation of the whole matrix; rhs (free + m,)."""
    free = len(rhs) - curvature.scale.shape[1]
    scale = np.concatenate([np.ones(free), curvature.scale[0]])
    M = H if np.all(scale == 1) else H * scale * scale[:, None]
    if M is H:
        M = H.copy()
    group = curvature.group[0]
    scaled = curvature.direction[0] * np.sqrt(curvature.group_weight[group])
    first, second = _pairs(group)
    M[free + first, free + second] -= scaled[first] * scaled[second]
    index = np.arange(free, len(rhs))
    M[index, index] += curvature.diagonal[0]
    return _solve_posdef(M, rhs[:, None])[:, 0]


def solve_trials(rows: np.ndarray, p: np.ndarray, curvature: Curvature, rhs: np.ndarray) -> np.ndarray:
    """Solve for one subject through its trials: cheaper where more coordinates than trials are active.

    H = 2 rows diag(p) rows' (rows (free + m, n), only the trials inside the margin). Coordinates without curvature
    of their own (intercept, unpenalised) get one, which is taken back as one more rank-one term each.
    """
    free = len(rhs) - curvature.scale.shape[1]
    scale = np.concatenate([np.ones(free), curvature.scale[0]])
    diagonal = np.concatenate([np.zeros(free), curvature.diagonal[0]])
    root = rows * scale[:, None] * np.sqrt(2 * p)
    bare = np.flatnonzero(diagonal == 0)
    lent = np.maximum((root[bare] ** 2).sum(axis=1), 1e-300)
    diagonal[bare] = lent
    has_direction = np.flatnonzero(curvature.group_weight > 0)
    U = np.zeros((len(rhs), len(has_direction) + len(bare)))
    place = np.full(len(curvature.group_weight), -1)
    place[has_direction] = np.arange(len(has_direction))
    inside = np.flatnonzero(place[curvature.group[0]] >= 0)
    U[free + inside, place[curvature.group[0][inside]]] = curvature.direction[0][inside]
    U[bare, len(has_direction) + np.arange(len(bare))] = 1.0
    weights = np.concatenate([curvature.group_weight[has_direction], lent])

    right = np.column_stack([rhs, U]) / diagonal[:, None]
    kernel = (root.T / diagonal) @ root
    kernel[np.diag_indices_from(kernel)] += 1
    solved = right - (root / diagonal[:, None]) @ _solve_posdef(kernel, root.T @ right)
    return _take_back(solved[:, 0], solved[:, 1:], U, weights)


def solve_subjects(H: np.ndarray, curvature: Curvature, rhs: np.ndarray) -> np.ndarray:
    """Solve for T coupled subjects; H (T, free + m, free + m), rhs (T, free + m)."""
    T, m = curvature.scale.shape
    free = rhs.shape[1] - m
    scale = np.concatenate([np.ones((T, free)), curvature.scale], axis=1)
    S = H * scale[:, :, None] * scale[:, None, :]
    index = np.arange(free, free + m)
    S[:, index, index] += curvature.diagonal
    a = len(curvature.group_weight)
    n_common = m if curvature.similarity > 0 else 0
    U = np.zeros((T, free + m, a + n_common))
    subject, feature = np.indices((T, m))
    U[subject, free + feature, curvature.group] = curvature.direction
    if n_common:
        U[:, index, a + np.arange(m)] = curvature.scale
    weights = np.concatenate([curvature.group_weight, np.full(n_common, 2 * curvature.similarity / T)])
    solved = np.stack([_solve_posdef(S[t], np.column_stack([rhs[t], U[t]])) for t in range(T)])
    flat = solved.reshape(T * (free + m), -1)
    return _take_back(flat[:, 0], flat[:, 1:], U.reshape(flat.shape[0], -1), weights).reshape(T, free + m)


def _take_back(solved: np.ndarray, solved_U: np.ndarray, U: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(S − U Λ U')⁻¹ r from S⁻¹ r and S⁻¹ U, by the Schur complement Λ⁻¹ − U' S⁻¹ U."""
    keep = weights > 0
    U, solved_U, weights = U[:, keep], solved_U[:, keep], weights[keep]
    if not len(weights):
        return solved
    schur = np.diag(1 / weights) - U.T @ solved_U
    return solved + solved_U @ _solve_posdef((schur + schur.T) / 2, (U.T @ solved)[:, None])[:, 0]


def _solve_posdef(M: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve with a positive definite matrix, adding as little to its diagonal as lets it be factorised."""
    if not len(M):
        return right
    ridge = 1e-14 * max(np.trace(M) / len(M), 1e-300)
    diagonal = np.diag_indices_from(M)
    while True:
        M[diagonal] += ridge
        factor, failed = dpotrf(M.T, lower=1, clean=0, overwrite_a=0)
        if not failed:
            return dpotrs(factor, right, lower=1)[0]
        ridge *= 100


def _pairs(group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of coordinates that share a group."""
    order = np.argsort(group, kind="stable")
    sizes = np.bincount(group)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes**2)
    width = np.repeat(sizes, sizes**2)
    within = np.arange(len(width)) - np.repeat(np.cumsum(sizes**2) - sizes**2, sizes**2)
    return order[starts + within // np.maximum(width, 1)], order[starts + within % np.maximum(width, 1)]
