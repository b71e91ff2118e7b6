r"""Two families of disjoint groups that cross, rows and columns of a small matrix of cells: prox and dual norm.

A *cell* is what a row (a sensor) and a column (a window) share. For Ω(w) = Σ_s λ_s ‖w_s‖ + Σ_k μ_k ‖w^(k)‖ only the
norm m_sk ≥ 0 of each cell of a vector matters: the solutions below are multiples of the vector, cell by cell. With
λ‖w‖ = min over x > 0 of ½ (λ²‖w‖²/x + x), both problems become smooth in x_s, y_k ≥ 0, one for each row and column:

    shrink:          min_w ½ Σ ω w² − ⟨m, w⟩ + Ω(w)   = ½ min_{x,y ≥ 0}  Σ x + Σ y − Σ m²/(ω + λ²/x + μ²/y)
    smallest scale:  Ω°(m)² = min {t² : m = u + v, ‖u_s‖ ≤ t λ_s, ‖v^(k)‖ ≤ t μ_k}
                            = max over x, y ≥ 0 with Σ x + Σ y = 1 of Σ m²/(λ²/x + μ²/y)

with w = m/(ω + λ²/x + μ²/y), u = λ²/x · w and v = μ²/y · w. The derivative of each sum by x_s is ‖u_s‖²/λ_s², by y_k
‖v^(k)‖²/μ_k². Both are solved by a primal-dual interior-point method in as many variables as there are rows and
columns; its number of steps hardly depends on the data (10 to 25). A row of weight λ = 0 has u = 0, and drops out.
"""

from typing import NamedTuple

import numpy as np

#: Mean of z s at which the method for `shrink` ends: z of 1e-12, a sensor that is barely in, is then told from s. And
#: the lack of s = slack that is rounding.
_LEAST, _ROUNDING = 1e-26, 1e-13
#: Relative difference between both bounds of t² that is rounding.
_EQUAL = 1e-15
# three times what the method needs on any data seen so far
_MOST_STEPS = 80
#: Least factor by which z s falls in one step, and its least value in units of the lack of s = slack.
_FASTEST, _HOLD = 1e-3, 0.01
#: Longest relative change upwards, and in logarithms downwards.
_UP, _DOWN = 2.0, 8.0


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
    # Rows and columns of zeros have x = 0 or y = 0 at the solution, where the method of the interior has no points.
    live = (rows > 0) & m.any(axis=1)
    used = m.any(axis=0)
    # m and the weights are brought to about 1, so that the limits for rounding below mean the same in any unit.
    unit = float(max(rows.max(initial=0.0), columns.max()))
    cells = _Cells.of(m[live][:, used] / largest, rows[live] / unit, columns[used] / unit, 0.0)
    # rows of weight 0 leave all of theirs to the columns
    given = np.sum((m[(rows == 0)][:, used] / largest) ** 2, axis=0) / cells.B
    # without rows the sum is linear in y, and its maximum over the simplex is at a corner
    z = _balance(cells, given) if len(cells.A) else (given == given.max()).astype(float)
    u = np.zeros_like(m)
    u[np.ix_(live, used)] = m[live][:, used] * cells.share_of_rows(z)
    v = m - u
    # From the decomposition that was found, and not from the objective: then t is never too small, which a certificate
    # needs.
    scale = largest_ratio(u, v, rows, columns)
    slopes = cells.slopes(z) + np.concatenate([np.zeros(len(cells.A)), given])
    # The sum is homogeneous of degree 1, so that its value is the slopes times z.
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

    def bends(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Minus the second derivatives: the diagonal (S + K,), and those by x_s and y_k, (S, K)."""
        x, y, D = self.parts(z)
        core = 2 * self.square / D**3
        by_x = self.A * np.sum(core * y**2 * (self.omega * y + self.B), axis=1)
        by_y = self.B * np.sum(core * x**2 * (self.omega * x + self.A[:, None]), axis=0)
        return np.concatenate([by_x, by_y]), -core * x * y * self.A[:, None] * self.B


class _State(NamedTuple):
    """A point of the interior-point method.

    Attributes
    ----------
    z, s : ndarrays of shape (S + K,)
        (x, y) > 0, and s > 0 that tends to the slack of the slopes; s = 0 where there is no variable.
    top : float
        Bound t² of the slopes.
    """

    z: np.ndarray
    s: np.ndarray
    top: float

    @property
    def center(self) -> float:
        """The mean of z s, which is 0 at the solution."""
        return float(self.z @ self.s) / len(self.z)


def _balance(cells: _Cells, given: np.ndarray) -> np.ndarray:
    """Maximise Σ m²/(A/x + B/y) + Σ given y over the simplex; return (x, y)."""
    S, K = cells.square.shape
    extra = np.concatenate([np.zeros(S), given])
    z = np.full(S + K, 1.0 / (S + K))
    slopes = cells.slopes(z) + extra
    # above all slopes, so that every slack is positive at the start
    top = 1.5 * float(slopes.max())
    state, best = _State(z, top - slopes, top), (np.inf, z)
    for _ in range(_MOST_STEPS):
        z = state.z
        slopes = cells.slopes(z) + extra
        excess = float(slopes.max() - slopes @ z / z.sum())
        # Near the end rounding can make a step worse than the one before.
        best = min(best, (excess, z), key=lambda pair: pair[0])
        if excess <= _EQUAL * state.top:
            break
        state = _interior_step(cells, state, state.top - slopes, on_simplex=True)
    return best[1]


def _shrunk(m: np.ndarray, rows: np.ndarray, columns: np.ndarray, omega: np.ndarray) -> np.ndarray:
    """The interior-point method for `shrink`."""
    cells = _Cells.of(m, rows, columns, omega)
    limited = np.concatenate([rows, columns]) > 0
    # the solution for each row and column alone, whose slopes are all below 1
    alone = (m / omega) ** 2
    z = np.concatenate([rows * np.sqrt(np.sum(alone, axis=1)), columns * np.sqrt(np.sum(alone, axis=0))])
    z[~limited] = 1.0  # a row of weight 0 has no x: any positive number will do
    state, size = _State(z, np.where(limited, 1 - cells.slopes(z), 0.0), 0.0), z
    for _ in range(_MOST_STEPS):
        slack = np.where(limited, 1 - cells.slopes(state.z), 0.0)
        if state.center < _LEAST and np.abs(slack - state.s).max() < _ROUNDING:
            break
        state = _interior_step(cells, state, slack, on_simplex=False)
    # z s = 0 at the solution, so that one of both is zero: the smaller one, z in units of its size at the start.
    return m * cells.factor(np.where(state.z > size * state.s, state.z, 0.0))


def _interior_step(cells: _Cells, state: _State, slack: np.ndarray, on_simplex: bool) -> _State:
    """One step towards z s = 0 and s = ``slack``, that of the slopes at z.

    A predictor says how far z s can fall; it falls no faster than the lack of s = slack. On the simplex the bound t²
    of the slopes changes too, and Σ z stays 1. Where s = 0 there is no such variable.
    """
    z, s, top = state
    live, center, system = s > 0, state.center, _System(*cells.bends(z), s, z)
    total = 1.0 - float(z.sum()) if on_simplex else None
    # Mehrotra's predictor: a step towards z s = 0, of which only its length and its effect are used.
    dz, _ = system.solve(-slack, total)
    ds = -s - (s / z) * dz
    length = min(1.0, _longest(z, dz), _longest(s, ds))
    after = float((z + length * dz) @ (s + length * ds)) / len(z)
    # the third power is Mehrotra's rule for how much to centre
    aim = min(max((after / center) ** 3, _FASTEST), 1.0) * center
    lack = float(z @ np.maximum(np.abs(slack - s) - _ROUNDING * max(top, 1.0), 0.0)) / len(z)
    aim = max(aim, min(center, _HOLD * lack), 1e-3 * _LEAST)
    # the equation log z + log s = log aim, in relative changes of z and s
    ask = np.log(aim / np.where(live, z * s, aim))
    dz, dtop = system.solve(s * (1 + ask) - slack, total)
    of_z = dz / z
    of_s = np.where(live, ask - of_z, 0.0)
    up, down = max(of_z.max(), of_s.max(), 1e-300), -min(of_z.min(), of_s.min(), -1e-300)
    # Changes are relative, so that all values stay positive, and a step need not end at the boundary.
    length = min(1.0, _UP / up, _DOWN / down)
    return _State(_changed(z, length * of_z), _changed(s, length * of_s), top + length * dtop)


def _changed(values: np.ndarray, change: np.ndarray) -> np.ndarray:
    """Change positive values by relative changes, downwards in logarithms.

    Variables that go to zero then do so alike: on their ratios the slopes depend.
    """
    return values * np.where(change < 0, np.exp(np.minimum(change, 0.0)), 1 + change)


class _System:
    """The matrix [diag, off; off', diag] of a step, whose larger family is eliminated: its block is diagonal."""

    def __init__(self, diagonal: np.ndarray, off: np.ndarray, s: np.ndarray, z: np.ndarray):
        S, K = off.shape
        pivot = diagonal + s / z
        inverse = np.divide(1.0, pivot, out=np.zeros_like(pivot), where=s > 0)
        # Mostly there are more sensors than windows: the system that is left has the size of the smaller family.
        self.first = slice(0, S) if S >= K else slice(S, S + K)
        self.second = slice(S, S + K) if S >= K else slice(0, S)
        off = off if S >= K else off.T
        self.inverse, self.off = inverse[self.first], off
        self.carried = off.T * self.inverse
        inner = np.where(s[self.second] > 0, pivot[self.second], 1.0)
        self.small = np.diag(inner) - self.carried @ off
        self.fixed = s[self.second] == 0

    def solve(self, right: np.ndarray, total: float | None) -> tuple[np.ndarray, float]:
        """Solve for dz; with a total also for the multiplier t of Σ dz = total: matrix dz + t = right."""
        first, second = right[self.first], right[self.second]
        # Schur complement: the larger family is eliminated, the smaller one solved for, and the larger one follows.
        reduced = np.where(self.fixed, 0.0, second - self.carried @ first)
        dtop = 0.0
        if total is None:
            inner = np.linalg.solve(self._small(), reduced)
        else:
            # the border is what is left of the row of ones after the elimination
            edge = 1.0 - self.carried.sum(axis=1)
            n = len(edge)
            bordered = np.empty((n + 1, n + 1))
            bordered[:n, :n], bordered[:n, n], bordered[n, :n] = self._small(), edge, edge
            bordered[n, n] = -self.inverse.sum()
            found = np.linalg.solve(bordered, np.append(reduced, total - self.inverse @ first))
            inner, dtop = found[:n], float(found[n])
        out = np.empty_like(right)
        out[self.second] = inner
        out[self.first] = self.inverse * (first - self.off @ inner - dtop)
        return out, dtop

    def _small(self) -> np.ndarray:
        if not self.fixed.any():
            return self.small
        free = ~self.fixed
        # A row and column of the identity leave a fixed variable as it is.
        return np.where(np.outer(free, free), self.small, np.eye(len(free)))


def _longest(values: np.ndarray, change: np.ndarray) -> float:
    """The longest step that keeps the values at or above zero."""
    down = change < 0
    return float(np.min(values[down] / -change[down], initial=np.inf))
