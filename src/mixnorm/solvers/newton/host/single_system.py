"""The Newton matrix of one subject, factorised as a whole: as it is, or through the trials inside the margin."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrs

from mixnorm.solvers.newton.host.system import Curvature, PairsWithin, cholesky, diagonal_of


class Beside(NamedTuple):
    """Other coordinates (2) beside those of a matrix M (1), H being the Hessian of both.

    Attributes
    ----------
    hessian : ndarray of shape (k, k)
        H₂ − H₂₁ M⁻¹ H₁₂: what is left where the coordinates of M adapt to the others.
    felt : callable
        w → H₁₂ w, (free + m,).
    felt_back : callable
        x → H₂₁ x, (k,).
    """

    hessian: np.ndarray
    felt: Callable[[np.ndarray], np.ndarray]
    felt_back: Callable[[np.ndarray], np.ndarray]


class SingleBlock:
    """One subject's whole matrix factorised as it is: O(m³) once.

    ``hessian`` returns H at every call, each time as a new array, of which only the upper triangle counts.
    ``pairs`` are all pairs of coordinates that share a group.
    """

    def __init__(self, hessian: Callable[[], np.ndarray], curvature: Curvature, pairs: PairsWithin):
        m, is_scaled = curvature.scale.shape[1], np.count_nonzero(curvature.scale != 1) > 0
        along = None
        if np.count_nonzero(curvature.group_weight):  # with ℓ1 and ℓ2 there is none
            along = curvature.direction[0] * np.sqrt(curvature.group_weight)[curvature.group[0]]

        def matrix() -> np.ndarray:
            M = hessian()
            free = len(M) - m
            if is_scaled:
                scale = np.concatenate([np.ones(free), curvature.scale[0]])
                M *= scale * scale[:, None]
            if along is not None:
                pairs.subtract(M, along)
            diagonal_of(M)[free:] += curvature.diagonal[0]
            return M

        self._factor = cholesky(matrix(), matrix)

    def solve(self, right: np.ndarray) -> np.ndarray:
        """Return M⁻¹ right, (free + m, k)."""
        return dpotrs(self._factor, right, lower=1)[0]

    def beside(self, own: np.ndarray, across: np.ndarray) -> Beside:
        """What other coordinates mean to those of this matrix: their Hessian (k, k), and H₁₂ (free + m, k)."""
        return Beside(own - across.T @ self.solve(across), lambda w: across @ w, lambda x: across.T @ x)


class SingleTrialBlock:
    """One subject's whole matrix through its trials: cheaper where more coordinates than trials are active.

    H = 2 rows diag(p) rows' (rows (free + m, n), only the trials inside the margin). Coordinates without curvature
    of their own (intercept, unpenalised) get one (``lent``), which is subtracted again as a rank-one term each. With D
    the diagonal, Y = √(2p) rows R D^-½ and the columns U of all rank-one terms (weights Λ), V = D^-½ U,

        M = D^½ (I + Y Y' − V Λ V') D^½,        (I + Y Y')⁻¹ = I − Y K⁻¹ Y',   K = I + Y'Y,

    so that the Schur complement is Λ⁻¹ − V'V + (Y'V)' K⁻¹ (Y'V): no matrix of V's size is multiplied with Y but V.
    """

    def __init__(self, rows: np.ndarray, p: np.ndarray, curvature: Curvature):
        free = len(rows) - curvature.scale.shape[1]
        scale = np.concatenate([np.ones(free), curvature.scale[0]])
        diagonal = np.concatenate([np.zeros(free), curvature.diagonal[0]])
        bare = (diagonal == 0).nonzero()[0]
        lent = np.maximum((scale[bare, None] ** 2 * rows[bare] ** 2) @ (2 * p), 1e-300)
        diagonal[bare] = lent
        self._half = np.sqrt(diagonal)[:, None]
        self._Y = rows * (scale[:, None] / self._half)
        self._root = np.sqrt(2 * p)
        self._Y *= self._root
        kernel = self._Y.T @ self._Y  # of one array, so that BLAS computes one triangle only
        kernel[np.diag_indices_from(kernel)] += 1
        self._factor = cholesky(kernel)
        U, weights = _directions(curvature, free, bare)
        self._V = U / self._half
        self._across = self._Y.T @ self._V
        self._solved_across = self._through(self._across)
        schur = np.diag(1 / np.concatenate([weights, lent])) - self._V.T @ self._V
        schur += self._across.T @ self._solved_across
        self._schur = cholesky((schur + schur.T) / 2)

    def _through(self, right: np.ndarray) -> np.ndarray:
        """Return K⁻¹ right, (n, k)."""
        return dpotrs(self._factor, right, lower=1)[0] if len(self._factor) else right

    def solve(self, right: np.ndarray) -> np.ndarray:
        """Return M⁻¹ right, (free + m, k)."""
        right = right / self._half
        through = self._through(self._Y.T @ right)
        if len(self._schur):
            price = dpotrs(self._schur, self._V.T @ right - self._across.T @ through, lower=1)[0]
            through += self._solved_across @ price
            right += self._V @ price
        return (right - self._Y @ through) / self._half

    def beside(self, rows: np.ndarray) -> Beside:
        """What other coordinates, rows (k, n) of the same trials, mean to those of this matrix.

        With R = √(2p) rows', H₂ − H₂₁ M⁻¹ H₁₂ = R'(I − Y'(I + Y Y' − V Λ V')⁻¹ Y) R, which is R'K⁻¹R less what the
        rank-one terms take.
        """
        right = (rows * self._root).T
        along = self._solved_across.T @ right
        own = right.T @ self._through(right)
        own -= along.T @ dpotrs(self._schur, along, lower=1)[0]
        half = self._half[:, 0]
        return Beside(own, lambda w: half * (self._Y @ (right @ w)), lambda x: right.T @ ((half * x) @ self._Y))


def _directions(curvature: Curvature, free: int, bare: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One subject's unit vectors k_g, then those of bare coordinates, as columns; and the weights of the k_g."""
    has_direction = (curvature.group_weight > 0).nonzero()[0]
    group, m = curvature.group[0], curvature.scale.shape[1]
    U = np.zeros((free + m, len(has_direction) + len(bare)))
    place = np.full(len(curvature.group_weight), -1)
    place[has_direction] = np.arange(len(has_direction))
    inside = (place[group] >= 0).nonzero()[0]
    U[free + inside, place[group[inside]]] = curvature.direction[0][inside]
    U[bare, len(has_direction) + np.arange(len(bare))] = 1.0
    return U, curvature.group_weight[has_direction]
