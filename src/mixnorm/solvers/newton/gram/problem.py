r"""One problem of one subject, its loss given by the Gram matrix of the trials inside the margin.

With a row (1, x_i, y_i) for every trial, v = (b, w, −1), and the trials inside the margin fixed, the loss is

    Σ p_i (1 − y_i (x_i·w + b))²  =  ½ v'K v,        K = Σ 2 p_i (1, x_i, y_i)'(1, x_i, y_i),

where both sums are over these trials. K v is the gradient in b and w, and its last entry is −Σ a_i with a_i = 2 p_i
max(0, 1 − m_i). So a Newton step needs O(d²) and a factorisation, and nothing of size n d, until trials cross the
margin. Then their rows are added to K or subtracted from it.
"""

import math

import numpy as np
from scipy.linalg.blas import dsymv, dsyrk

from mixnorm.core.arrays import to_numpy
from mixnorm.core.problem import Stack
from mixnorm.solvers.newton.gram.coordinates import Coordinates
from mixnorm.solvers.newton.tuning import DAMPING, HOST

#: The error of a product in single precision, in units of the lengths of its two vectors: far beyond what roundings of
#: different signs add up to.
_SINGLE_ERROR = 16 * 2.0**-24
#: K is computed anew where less than this share of an entry of its diagonal is left: three digits are lost.
_LEFT = 1e-3
#: Rounding of ½ v'K v, in units of K's last entry, which is that of the zero vector but for −1.
_ROUNDING = 2.0**-47


class GramProblem:
    """One problem of a stack, without the groups of infinite weight.

    The entries of a vector like v are the intercept, where there is one, the coefficients group by group, and −1.

    Attributes
    ----------
    features : ndarray of shape (d,)
        The feature of every coefficient.
    free : int
        1 with an intercept, else 0.
    y, p : ndarrays of shape (n,)
        Labels and relative weights of the trials that have weight.
    beta : ndarray of shape (G,)
        Group weights.
    groups : Coordinates
        Of all groups.
    gram : ndarray of shape (free + d + 1, free + d + 1)
        K, with the ridge on the diagonal of the coefficients; only the upper triangle is valid.
    diagonal : ndarray of shape (free + d + 1,)
        Diagonal of K with all trials inside the margin, without the ridge.
    damping : float
        What a Newton step adds to the diagonal of K, in units of ``diagonal``: K may be singular where few trials are
        inside the margin.
    trace, gamma : ndarrays of shape (G,)
        Trace of the Hessian over each group with all trials inside the margin, and γ of the normal map.
    n_inside : int
        How many trials K counts.
    """

    def __init__(self, stack: Stack, i: int, k: int):
        p = to_numpy(stack.trial_weight)[i, 0, :, k]
        beta = to_numpy(stack.group_weights)[i, :, k]
        used, kept = (p > 0).nonzero()[0], np.isfinite(beta).nonzero()[0]
        order = np.argsort(stack.groups.index, kind="stable")
        self.features = order[np.isfinite(beta)[stack.groups.index[order]]]
        self.free = int(stack.fit_intercept)
        self.p, self.y, self.beta = p[used], to_numpy(stack.y)[i, 0][used], beta[kept]
        self.ridge = 0.0 if stack.ridge is None else float(to_numpy(stack.ridge)[i, k])
        #: the only weight, where trials have no others: then no trial needs to be weighted
        self._even = float(self.p[0]) if np.ptp(self.p) <= 1e-15 * self.p[0] else None
        self._X = self._columns(to_numpy(stack.X)[i, 0], used)
        # −y (1, x, y), in single precision: every check reads all rows, and they take half the time
        self._rows, self._longest = self._signed_rows(np.float32)
        if not np.isfinite(self._longest):
            self._rows, self._longest = self._signed_rows(np.float64)
        self.groups = Coordinates(np.arange(len(kept)), stack.groups.sizes[kept], self.free)
        self._known: dict[bytes, Coordinates] = {}
        self._inside, self.n_inside = np.ones(len(used), dtype=bool), len(used)
        self.gram = self._gram_of_all()
        diagonal = np.einsum("ii->i", self.gram)
        self.diagonal, self.damping = diagonal.copy(), DAMPING
        self.trace = np.maximum(self.groups.sums(diagonal[self.free : -1]), 1e-300)
        self.gamma = HOST.gamma / self.trace
        diagonal[self.free : -1] += self.ridge
        #: the diagonal at its largest since K was computed: rounding errors are in proportion to it
        self._most = diagonal.copy()

    def _columns(self, X: np.ndarray, used: np.ndarray) -> np.ndarray:
        """Return the trials in use with the features in order, (n, d); X itself where these are all of it."""
        is_whole = len(self.features) == X.shape[1] and bool((self.features[1:] > self.features[:-1]).all())
        columns = X if is_whole else X.take(self.features, axis=1)
        return columns if len(used) == len(X) else columns.take(used, axis=0)

    def _joined(self, X: np.ndarray, y: np.ndarray, dtype: type = np.float64) -> np.ndarray:
        """Return the rows (1, x, y) of some trials, (n, free + d + 1)."""
        rows = np.empty((len(X), self.free + X.shape[1] + 1), dtype)
        rows[:, : self.free] = 1.0
        rows[:, self.free : -1] = X
        rows[:, -1] = y
        return rows

    def _signed_rows(self, dtype: type) -> tuple[np.ndarray, float]:
        """Return −y (1, x, y) of all trials, and the length of the longest, which is not finite if one overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            rows = self._joined(self._X, self.y, dtype)
            rows *= -self.y[:, None]
            return rows, float(np.sqrt(np.vecdot(rows, rows).max()))

    def _gram_of_all(self) -> np.ndarray:
        """Return K of all trials."""
        twice, inner = 2 * self.p, slice(self.free, -1)
        ends = np.stack([np.ones_like(self.y), self.y])[-self.free - 1 :]
        trials, scale = (self._X * np.sqrt(twice)[:, None], 1.0) if self._even is None else (self._X, 2 * self._even)
        gram = np.zeros((self.free + self._X.shape[1] + 1,) * 2)
        gram[inner, inner] = dsyrk(scale, trials.T, lower=1).T
        ends_of_weight = ends * twice
        across = ends_of_weight @ self._X
        gram[: self.free, inner], gram[inner, -1] = across[: self.free], across[-1]
        corner = ends_of_weight @ ends.T
        gram[: self.free, : self.free], gram[: self.free, -1] = corner[:-1, :-1], corner[:-1, -1]
        gram[-1, -1] = corner[-1, -1]
        return gram

    @property
    def rounding(self) -> float:
        """Estimate of the rounding of ½ v'K v, from the term of the labels; a small value is a difference of such."""
        return _ROUNDING * float(self._most[-1])

    def zero(self) -> np.ndarray:
        """Return v of the zero model; its best intercept leaves all trials inside the margin."""
        v = np.zeros(len(self.gram))
        v[: self.free] = self.p @ self.y / self.p.sum()
        v[-1] = -1.0
        return v

    def times(self, v: np.ndarray) -> np.ndarray:
        """Return K v."""
        return dsymv(1.0, self.gram.T, v, lower=1)  # BLAS takes the transpose, in Fortran order, without a copy

    def shortfalls(self, v: np.ndarray) -> np.ndarray:
        """Return 1 − m of every trial, (n,), in single precision but where that leaves the sign open."""
        short = self.derivative(v)
        error = _SINGLE_ERROR * self._longest * math.sqrt(v @ v)
        open_ = (np.abs(short) <= np.float32(error)).nonzero()[0]
        if len(open_):
            short[open_] = -self.y[open_] * (self._rows_of(open_) @ v)
        return short

    def derivative(self, direction: np.ndarray) -> np.ndarray:
        """Return the derivative of the shortfalls in a direction like v, (n,), in single precision."""
        return self._rows @ direction.astype(np.float32)

    def _rows_of(self, trials: np.ndarray) -> np.ndarray:
        """Return the rows of some trials in double precision."""
        return self._joined(self._X.take(trials, axis=0), self.y.take(trials))

    def move_to(self, inside: np.ndarray) -> int:
        """Let K count the trials that are ``inside`` the margin; return how many have crossed it."""
        crossed = (inside != self._inside).nonzero()[0]
        if len(crossed):
            came = inside.take(crossed)
            self._add(1.0, crossed[came])
            self._add(-1.0, crossed[~came])
            self._inside, self.n_inside = inside, int(np.count_nonzero(inside))
        return len(crossed)

    def refresh(self) -> bool:
        """Compute K anew if most of an entry of its diagonal was subtracted since; return whether it was.

        Rounding errors of the rows that were added remain when these are subtracted.
        """
        diagonal = np.einsum("ii->i", self.gram)
        if (diagonal >= _LEFT * self._most).all():
            return False
        self.gram[:] = 0.0
        self._most[:] = 0.0
        self._add(1.0, self._inside.nonzero()[0])
        diagonal[self.free : -1] += self.ridge
        return True

    def _add(self, sign: float, trials: np.ndarray) -> None:
        if len(trials):
            rows, scale = self._rows_of(trials), 2.0
            if self._even is None:
                rows *= np.sqrt(self.p.take(trials))[:, None]
            else:
                scale *= self._even
            dsyrk(sign * scale, rows.T, beta=1.0, c=self.gram.T, lower=1, overwrite_c=1)
            if sign > 0:
                np.maximum(self._most, np.einsum("ii->i", self.gram), out=self._most)

    def coordinates(self, present: np.ndarray) -> Coordinates:
        """Return the coordinates of some groups, a mask (G,); the same object whenever the groups are the same."""
        key = present.tobytes()
        found = self._known.get(key)
        if found is None:
            which = present.nonzero()[0]
            is_all = len(which) == len(present)
            found = self.groups if is_all else Coordinates(which, self.groups.sizes, self.free)
            self._known[key] = found
        return found
