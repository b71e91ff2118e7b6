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

from mixnorm.core.crossed_groups import largest_ratio, shrink, smallest_scale
from mixnorm.core.groups import Groups
from mixnorm.core.penalties import vector_norm

#: Rounds of Dykstra's algorithm before the interior-point method takes over, and the change at which it ends.
_ROUNDS, _CHANGE = 200, 1e-15
#: Rounds of alternating projections for what a point at hand leaves open.
_FEW_ROUNDS = 20
#: A decomposition this close to the best one needs no better one.
_CLOSE = 1e-10


@dataclass(frozen=True, eq=False)
class SensorsAndWindows:
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
        m[out] = 0.0
        return self.scaled(w, m, _prox(m, np.where(out, 0.0, rows), columns))

    def scaled(self, w: np.ndarray, m: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Return w (d,) with its cells of norms m brought to the norms ``target``, (G, windows)."""
        factor = np.divide(target, m, out=np.zeros_like(m), where=m > 0)
        return w * factor.ravel()[self.cells.index]

    def dual_norm(self, blocks: np.ndarray) -> np.ndarray:
        """‖block‖₂ of every sensor alone; the dual norm of Ω is `gauge`."""
        return vector_norm(blocks, 2)

    def gauge(self, blocks: np.ndarray, weight: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
        """Return the smallest t with blocks = u + v, ‖u_s‖ ≤ t λ_s and ‖v^(k)‖ ≤ t μ_k, (..., K): the dual norm of Ω.

        It is never too small: every t that is returned belongs to such a decomposition. ``start``: coefficients, as
        blocks, whose decomposition is taken where it is as good as the best.
        """
        given = self._problems(blocks, weight)
        if start is None:
            return self._filled(((at, self.scale_of(z, own)) for at, z, own in given), blocks)
        pairs = zip(given, self._problems(start, weight), strict=True)
        return self._filled(((at, self.scale_of(z, own, w)) for (at, z, own), (_, w, _) in pairs), blocks)

    def scale_of(self, z: np.ndarray, weight: np.ndarray, w: np.ndarray | None = None) -> float:
        """`gauge` of one problem: z and w (d,)."""
        rows, columns = self.divided(weight)
        finite = np.isfinite(rows)
        m = self.cell_norms(z)[finite]
        if w is not None and w.any():
            at_hand = _decomposition_at(m, rows[finite], columns, self.cell_norms(w)[finite])
            if at_hand is not None:
                return at_hand
        return smallest_scale(m, rows[finite], columns).scale

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
            inside = np.sqrt(np.sum((m - v) ** 2, axis=1)) <= rows * (1 + 1e-14)
            w[inside] = 0.0
            return w
    return shrink(m, rows, columns)


def _decomposition_at(m: np.ndarray, rows: np.ndarray, columns: np.ndarray, w: np.ndarray) -> float | None:
    """The scale of the decomposition that coefficients of norms w (S, K) suggest, if it is as good as the best.

    At the optimum u_s = λ_s w_s/‖w_s‖ for a sensor that is chosen, v^(k) = μ_k w^(k)/‖w^(k)‖ for a chosen window. A
    sensor that is not chosen takes what the chosen windows leave, and the other way round; what is between
    neither is divided by Dykstra's algorithm.
    """
    by_row, by_column = np.sqrt(np.sum(w**2, axis=1)), np.sqrt(np.sum(w**2, axis=0))
    total = rows @ by_row + columns @ by_column
    if not total > 0:
        return None
    least = float(np.sum(m * w)) / total  # ⟨m, w⟩ ≤ t Ω(w)
    chosen_row, chosen_column = (by_row > 0) | (rows == 0), by_column > 0
    a = np.where(chosen_row, rows / np.where(by_row > 0, by_row, 1.0), 1.0)[:, None]
    c = np.where(chosen_column, columns / np.where(chosen_column, by_column, 1.0), 1.0)[None]
    share = a / (a + c)
    share[chosen_row[:, None] & ~chosen_column] = 0.0
    share[~chosen_row[:, None] & chosen_column] = 1.0
    share[rows == 0] = 0.0
    u = share * m
    neither = np.ix_(~chosen_row, ~chosen_column)
    inner = m[neither]
    if inner.size:
        taken = m[~chosen_row][:, chosen_column], m[chosen_row][:, ~chosen_column]
        spent = np.sum(taken[0] ** 2, axis=1), np.sum(taken[1] ** 2, axis=0)
        limits = least * rows[~chosen_row], least * columns[~chosen_column]
        left = [np.sqrt(np.maximum(limit**2 - square, 0.0)) for limit, square in zip(limits, spent, strict=True)]
        u[neither] = _fair_share(inner, *left)
    scale = largest_ratio(u, m - u, rows, columns)
    return scale if scale <= (1 + _CLOSE) * least else None


def _fair_share(m: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Part of m (S, K) for rows with room for so much, by a few rounds of alternating projections."""
    share = rows[:, None] + columns
    v = m * np.divide(columns, share, out=np.zeros_like(m), where=share > 0)
    for _ in range(_FEW_ROUNDS):
        u = _within(m - v, rows[:, None], axis=1)
        v = _within(m - u, columns, axis=0)
        if not (m - u - v).any():
            break
    return m - v


def _within(m: np.ndarray, limits: np.ndarray, axis: int) -> np.ndarray:
    """Project rows (axis 1) or columns (axis 0) onto balls of the given radii."""
    norms = np.sqrt(np.sum(m**2, axis=axis, keepdims=True))
    return m * np.minimum(1.0, limits / np.where(norms > 0, norms, 1.0))
