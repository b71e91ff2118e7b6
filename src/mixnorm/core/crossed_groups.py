r"""Two families of disjoint groups that cross, rows and columns of a small matrix of cells: prox and dual norm.

A *cell* is what a row (a sensor) and a column (a window) share. For Ω(w) = Σ_s λ_s ‖w_s‖ + Σ_k μ_k ‖w^(k)‖ only the
norm m_sk ≥ 0 of each cell of a vector matters: the solutions below are multiples of the vector, cell by cell. With
λ‖w‖ = min over x > 0 of ½ (λ²‖w‖²/x + x), both problems become smooth in x_s, y_k ≥ 0, one for each row and column:

    shrink:          min_w ½ Σ ω w² − ⟨m, w⟩ + Ω(w)   = ½ min_{x,y ≥ 0}  Σ x + Σ y − Σ m²/(ω + λ²/x + μ²/y)
    smallest scale:  Ω°(m)² = min {t² : m = u + v, ‖u_s‖ ≤ t λ_s, ‖v^(k)‖ ≤ t μ_k}
                            = max over x, y ≥ 0 with Σ x + Σ y = 1 of Σ m²/(λ²/x + μ²/y)

with w = m/(ω + λ²/x + μ²/y), u = λ²/x · w and v = μ²/y · w. The derivative of each sum by x_s is ‖u_s‖²/λ_s², by y_k
‖v^(k)‖²/μ_k². Both are solved by a primal-dual interior-point method in as many variables as there are rows and
columns; its number of steps hardly depends on the data (10 to 20). A row of weight λ = 0 has u = 0, and drops out.
"""

from typing import NamedTuple

import numpy as np

#: Complementarity x s at which the interior-point method ends, in units of its normalised data.
_LEAST = 1e-17
_MOST_STEPS = 80
#: How far a step may go towards the boundary.
_FRACTION = 0.99


class Split(NamedTuple):
    """m = u + v by cells, and the smallest t found with ‖u_s‖ ≤ t λ_s, ‖v^(k)‖ ≤ t μ_k; no t below ``least`` would do.

    Attributes
    ----------
    scale, least : float
    u, v : ndarrays of shape (S, K)
    """

    scale: float
    least: float
    u: np.ndarray
    v: np.ndarray


def smallest_scale(m: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> Split:
    """Return the dual norm of Ω at cells of norm m (S, K), with its decomposition; λ (S,) ≥ 0, μ (K,) > 0."""
    largest = float(m.max(initial=0.0))
    if largest == 0:
        return Split(0.0, 0.0, np.zeros_like(m), np.zeros_like(m))
    live = (rows > 0) & m.any(axis=1)
    used = m.any(axis=0)
    unit = float(max(rows.max(initial=0.0), columns.max()))
    cells = _Cells.of(m[live][:, used] / largest, rows[live] / unit, columns[used] / unit, 0.0)
    # rows of weight 0 leave all of theirs to the columns
    given = np.sum((m[(rows == 0)][:, used] / largest) ** 2, axis=0) / cells.B
    z = _balance(cells, given) if len(cells.A) else (given == given.max()).astype(float)
    u = np.zeros_like(m)
    u[np.ix_(live, used)] = m[live][:, used] * cells.share_of_rows(z)
    v = m - u
    scale = largest_ratio(u, v, rows, columns)
    slopes = cells.slopes(z) + np.concatenate([np.zeros(len(cells.A)), given])
    least = np.sqrt(max(float(slopes @ z) / z.sum(), 0.0)) * largest / unit
    return Split(scale, min(least, scale), u, v)


def largest_ratio(u: np.ndarray, v: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> float:
    """The smallest t with ‖u_s‖ ≤ t λ_s and ‖v^(k)‖ ≤ t μ_k; u is 0 where λ is."""
    size = max(float(u.max(initial=0.0)), float(v.max(initial=0.0)))
    if size == 0:
        return 0.0
    by_row, by_column = (np.sqrt(np.sum((part / size) ** 2, axis=axis)) for part, axis in ((u, 1), (v, 0)))
    limited = rows > 0
    return size * float(max(np.max(by_row[limited] / rows[limited], initial=0.0), np.max(by_column / columns)))


def shrink(m: np.ndarray, rows: np.ndarray, columns: np.ndarray, bend: np.ndarray | float = 1.0) -> np.ndarray:
    """Return argmin_w ½ Σ ω w² − ⟨m, w⟩ + Ω(w) over matrices of cells: the prox of Ω for ω = ``bend`` = 1.

    Rows and columns that are zero are exactly so.
    """
    largest = float(m.max(initial=0.0))
    out = np.zeros_like(m)
    bend = np.broadcast_to(np.asarray(bend, dtype=float), m.shape)
    rest_rows, rest_columns = m.any(axis=1), m.any(axis=0)
    if largest == 0 or not np.isfinite(largest):
        return out
    live = np.ix_(rest_rows, rest_columns)
    own, lam, mu = m[live] / largest, rows[rest_rows] / largest, columns[rest_columns] / largest
    # out at once what is out for sure: a row that is below its threshold even if the columns take nothing
    kept = _kept(own, lam, mu)
    if not kept[0].any() or not kept[1].any():
        return out
    inner = np.ix_(*kept)
    own, lam, mu, omega = own[inner], lam[kept[0]], mu[kept[1]], bend[live][inner]
    w = np.zeros((int(rest_rows.sum()), int(rest_columns.sum())))
    w[inner] = _shrunk(own, lam, mu, omega)
    out[live] = w
    return out * largest


def _kept(m: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns that may be present: those that exceed their threshold on what is kept of the others."""
    row, column = np.ones(len(rows), dtype=bool), np.ones(len(columns), dtype=bool)
    while True:
        before = row.sum() + column.sum()
        row &= np.sqrt(np.sum(m[:, column] ** 2, axis=1)) > rows
        column &= np.sqrt(np.sum(m[row] ** 2, axis=0)) > columns
        if row.sum() + column.sum() == before:
            return row, column


class _Cells(NamedTuple):
    """The sums of the module's docstring: m² (S, K), A = λ² (S,), B = μ² (K,), ω (S, K)."""

    square: np.ndarray
    A: np.ndarray
    B: np.ndarray
    omega: np.ndarray

    @classmethod
    def of(cls, m: np.ndarray, rows: np.ndarray, columns: np.ndarray, omega) -> "_Cells":
        return cls(m**2, rows**2, columns**2, np.broadcast_to(np.asarray(omega, dtype=float), m.shape))

    def parts(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The columns x (S, 1), y (1, K), and ω x y + A y + B x, (S, K)."""
        x, y = z[: len(self.A), None], z[None, len(self.A) :]
        return x, y, self.omega * x * y + self.A[:, None] * y + self.B[None] * x

    def slopes(self, z: np.ndarray) -> np.ndarray:
        """Derivatives of Σ m²/(ω + A/x + B/y) by x, then y."""
        x, y, D = self.parts(z)
        by_x = self.A * np.sum(self.square * (y / D) ** 2, axis=1)
        return np.concatenate([by_x, self.B * np.sum(self.square * (x / D) ** 2, axis=0)])

    def share_of_rows(self, z: np.ndarray) -> np.ndarray:
        """u/m for ω = 0, (S, K)."""
        _, y, D = self.parts(z)
        return self.A[:, None] * y / D

    def factor(self, z: np.ndarray) -> np.ndarray:
        """1/(ω + A/x + B/y), (S, K): 0 where x or y is."""
        x, y, D = self.parts(z)
        return np.divide(x * y, D, out=np.zeros_like(D), where=D > 0)

    def bends(self, z: np.ndarray) -> np.ndarray:
        """Minus the second derivatives, (S + K, S + K); positive semidefinite."""
        S = len(self.A)
        x, y, D = self.parts(z)
        core = 2 * self.square / D**3
        out = np.empty((len(z), len(z)))
        out[:S, :S] = np.diag(self.A * np.sum(core * y**2 * (self.omega * y + self.B[None]), axis=1))
        out[S:, S:] = np.diag(self.B * np.sum(core * x**2 * (self.omega * x + self.A[:, None]), axis=0))
        out[:S, S:] = -core * x * y * self.A[:, None] * self.B[None]
        out[S:, :S] = out[:S, S:].T
        return out


def _balance(cells: _Cells, given: np.ndarray) -> np.ndarray:
    """Maximise Σ m²/(A/x + B/y) + Σ given y over the simplex; return (x, y)."""
    S, K = cells.square.shape
    extra = np.concatenate([np.zeros(S), given])
    z = np.full(S + K, 1.0 / (S + K))
    slopes = cells.slopes(z) + extra
    top = 1.5 * float(slopes.max())
    s = top - slopes
    system = np.ones((S + K + 1, S + K + 1))
    system[-1, -1] = 0.0
    best = (np.inf, z)
    for _ in range(_MOST_STEPS):
        slopes = cells.slopes(z) + extra
        lower, upper = float(slopes @ z) / z.sum(), float(slopes.max())
        best = min(best, (upper - lower, z), key=lambda pair: pair[0])
        center = float(z @ s) / len(z)
        if upper - lower <= 1e-15 * upper or center < _LEAST * top:
            break
        system[:-1, :-1] = cells.bends(z) + np.diag(s / z)
        z, s, top = _interior_step(system, z, s, top - slopes, top, bordered=True)
    return best[1]


def _shrunk(m: np.ndarray, rows: np.ndarray, columns: np.ndarray, omega: np.ndarray) -> np.ndarray:
    """The interior-point method for `shrink`, then Newton's method on what is present."""
    cells = _Cells.of(m, rows, columns, omega)
    alone = (m / omega) ** 2
    z = np.concatenate([rows * np.sqrt(np.sum(alone, axis=1)), columns * np.sqrt(np.sum(alone, axis=0))])
    limited = np.concatenate([rows > 0, columns > 0])
    z[~limited] = 1.0  # a row of weight 0 has no x: any positive number
    x, s = z[limited], np.ones(limited.sum())
    system = np.ix_(limited, limited)
    for _ in range(_MOST_STEPS):
        z[limited] = x
        residual = 1 - cells.slopes(z)[limited]
        if float(x @ s) / len(x) < _LEAST and np.abs(residual - s).max() < 1e-13:
            break
        x, s, _ = _interior_step(cells.bends(z)[system] + np.diag(s / x), x, s, residual, 0.0, bordered=False)
    z[limited] = np.where(x > s, x, 0.0)
    return m * cells.factor(z)


def _interior_step(system, z, s, residual, top, bordered):
    """One predictor and corrector step for z s = 0, s = ``residual`` (+ a change of the top, if bordered)."""
    center = float(z @ s) / len(z)

    def direction(target):
        right = target / z - residual
        solution = np.linalg.solve(system, np.append(right, 1.0 - z.sum()) if bordered else right)
        dz = solution[: len(z)]
        return dz, target / z - s - (s / z) * dz, float(solution[-1]) if bordered else 0.0

    dz, ds, _ = direction(np.zeros_like(z))
    length = min(1.0, _longest(z, dz), _longest(s, ds))
    after = float((z + length * dz) @ (s + length * ds)) / len(z)
    sigma = min(max((after / center) ** 3, 1e-8), 1.0)
    dz, ds, dtop = direction(sigma * center - dz * ds * (length > 0.1))
    length = min(1.0, _FRACTION * _longest(z, dz), _FRACTION * _longest(s, ds))
    return z + length * dz, s + length * ds, top + length * dtop


def _longest(values: np.ndarray, change: np.ndarray) -> float:
    """The longest step that keeps the values at or above zero."""
    down = change < 0
    return float(np.min(values[down] / -change[down], initial=np.inf))
