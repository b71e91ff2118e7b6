r"""The penalty that chooses sensors and windows of time together.

    Ω(w) = Σ_s λ_s ‖w_s‖₂ + Σ_k μ_k ‖w^(k)‖₂,

s over sensors (rows), k over windows (columns: sets of samples over all sensors). A coefficient is zero unless its
sensor *and* its window are chosen. Ω is not a sum over disjoint groups; its prox and its dual norm need a
decomposition z = u + v into a part for the sensors and one for the windows, which `mixnorm.core.crossed_groups`
computes from the norms of the *cells*, the coefficients that a sensor and a window share.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mixnorm.core.crossed_groups import shrink, smallest_scale
from mixnorm.core.groups import Groups
from mixnorm.core.penalties import SameForAll, vector_norm

#: Rounds of Dykstra's algorithm before the interior-point method takes over, and the change at which it ends.
_ROUNDS, _CHANGE = 200, 1e-15


@dataclass(frozen=True, eq=False)
class SensorsAndWindows(SameForAll):
    """Ω of the module's docstring, on NumPy blocks of one subject.

    Weights and thresholds are those of the sensors, then those of the windows: (..., G + number of windows, K). A
    sensor of weight 0 is under the norms of the windows alone; a sensor of weight ∞ is out. The weights of windows
    are positive.

    Attributes
    ----------
    groups : Groups
        The sensors.
    windows : Groups
        The windows, a partition of the same features.
    """

    groups: Groups
    windows: Groups
    is_norm = True
    is_separable = False
    q = 2.0

    @cached_property
    def cells(self) -> Groups:
        """The features by sensor and window: cell s·(number of windows) + k; a cell may have no feature."""
        number = self.windows.n_groups
        return Groups(np.arange(self.groups.n_groups * number), self.groups.index * number + self.windows.index)

    def cell_norms(self, w: np.ndarray) -> np.ndarray:
        """Norm of every cell of w (d,), (G, windows)."""
        # Squares of a cell's coefficients may underflow; relative to the largest one they do not where it matters.
        largest = float(np.abs(w).max(initial=0.0)) or 1.0
        square = np.bincount(self.cells.index, weights=(w / largest) ** 2, minlength=self.cells.n_groups)
        return largest * np.sqrt(square).reshape(self.groups.n_groups, -1)

    def divided(self, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights of one problem, (G + windows,), as those of the sensors and those of the windows."""
        return weight[: self.groups.n_groups], weight[self.groups.n_groups :]

    def value(self, blocks: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Ω of every problem, (..., K); an infinite weight costs nothing where the sensor is zero."""
        return self._filled(((at, self.value_of(w, own)) for at, w, own in self._problems(blocks, weight)), blocks)

    def value_of(self, w: np.ndarray, weight: np.ndarray) -> float:
        """Ω(w), w (d,)."""
        m, (rows, columns) = self.cell_norms(w), self.divided(weight)
        by_row, by_column = np.sqrt(np.sum(m**2, axis=1)), np.sqrt(np.sum(m**2, axis=0))
        # Only rows that are present: an infinite weight times 0 would be NaN.
        return float(rows[by_row > 0] @ by_row[by_row > 0] + columns @ by_column)

    def prox(self, blocks: np.ndarray, threshold: np.ndarray) -> np.ndarray:
        """Shrink every cell; sensors and windows that are out are exactly zero."""
        W = np.empty_like(self.groups.from_blocks(blocks))
        for (*place, k), w, own in self._problems(blocks, threshold):
            W[(*place, 0, slice(None), k)] = self.prox_of(w, own)
        return self.groups.to_blocks(W)

    def prox_of(self, w: np.ndarray, threshold: np.ndarray) -> np.ndarray:
        """`prox` of one problem, w (d,)."""
        m, (rows, columns) = self.cell_norms(w), self.divided(threshold)
        out = np.isinf(rows)
        # A forbidden sensor takes no part: left in, it would use up what the windows allow to the others.
        m[out] = 0.0
        return self.scaled(w, m, _prox(m, np.where(out, 0.0, rows), columns))

    def scaled(self, w: np.ndarray, m: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Return w (d,) with its cells of norms m brought to the norms ``target``, (G, windows)."""
        factor = np.divide(target, m, out=np.zeros_like(m), where=m > 0)
        return w * factor.ravel()[self.cells.index]

    def dual_norm(self, blocks: np.ndarray) -> np.ndarray:
        """‖block‖₂ of every sensor alone; the dual norm of Ω is `gauge`."""
        return vector_norm(blocks, 2)

    def gauge(self, blocks: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return the smallest t with blocks = u + v, ‖u_s‖ ≤ t λ_s and ‖v^(k)‖ ≤ t μ_k, (..., K): the dual norm of Ω.

        It is never too small: every t that is returned belongs to such a decomposition.
        """
        return self._filled(((at, self.gauge_of(z, own)) for at, z, own in self._problems(blocks, weight)), blocks)

    def gauge_of(self, z: np.ndarray, weight: np.ndarray) -> float:
        """`gauge` of one problem, z (d,)."""
        rows, columns = self.divided(weight)
        # a forbidden sensor may have any gradient
        finite = np.isfinite(rows)
        return smallest_scale(self.cell_norms(z)[finite], rows[finite], columns).scale

    def only(self, kept: np.ndarray) -> "SensorsAndWindows":
        """Return the penalty of the features of some sensors, a mask (G,), alone; no window is dropped."""
        windows = Groups(self.windows.labels.copy(), self.windows.index[kept[self.groups.index]])
        return replace(self, groups=self.groups.only(kept), windows=windows)

    def _problems(self, blocks: np.ndarray, weight: np.ndarray) -> Iterator[tuple[tuple, np.ndarray, np.ndarray]]:
        """Yield the place, the coefficients (d,) and the weights of every problem."""
        W = self.groups.from_blocks(blocks)[..., 0, :, :]
        for *place, k in np.ndindex(*blocks.shape[:-3], blocks.shape[-1]):
            yield (*place, k), W[(*place, slice(None), k)], weight[(*place, slice(None), k)]

    def _filled(self, numbers: Iterable[tuple[tuple, float]], blocks: np.ndarray) -> np.ndarray:
        """Numbers of problems by their places as an array (..., K)."""
        out = np.zeros((*blocks.shape[:-3], blocks.shape[-1]))
        for place, number in numbers:
            out[place] = number
        return out


def _prox(m: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The prox of Ω at cells of norm m (S, K), by Dykstra's algorithm; where that is slow, by `shrink`.

    u and v are projected in turn, u onto the balls of the rows of m − v, v onto those of the columns of m − u. What
    is inside its ball leaves nothing: such rows and columns are exactly zero.
    """
    v = np.zeros_like(m)
    size = float(m.max(initial=0.0))
    for _ in range(_ROUNDS):
        u = _within(m - v, rows[:, None], axis=1)
        before, v = v, _within(m - u, columns, axis=0)
        if np.abs(v - before).max(initial=0.0) <= _CHANGE * size:
            w = np.maximum(m - u - v, 0.0)
            # m − u − v of such a row is rounding and not exactly zero; sensors that are out must be zero.
            inside = np.sqrt(np.sum((m - v) ** 2, axis=1)) <= rows * (1 + 1e-14)
            w[inside] = 0.0
            return w
    return shrink(m, rows, columns)


def _within(m: np.ndarray, limits: np.ndarray, axis: int) -> np.ndarray:
    """Project rows (axis 1) or columns (axis 0) onto balls of the given radii."""
    norms = np.sqrt(np.sum(m**2, axis=axis, keepdims=True))
    return m * np.minimum(1.0, limits / np.where(norms > 0, norms, 1.0))
