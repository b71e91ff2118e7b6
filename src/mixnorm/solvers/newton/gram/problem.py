r"""One problem of one subject, its loss given by the Gram matrix of the trials inside the margin.

With a row (1, x_i, y_i) for every trial, v = (b, w, −1), and the trials inside the margin fixed, the loss is

    Σ p_i (1 − y_i (x_i·w + b))²  =  ½ v'K v,        K = Σ 2 p_i (1, x_i, y_i)'(1, x_i, y_i),

where both sums are over these trials. K v is the gradient in b and w, and its last entry is −Σ a_i with a_i = 2 p_i
max(0, 1 − m_i). So a Newton step needs O(d²) and a factorisation, and nothing of size n d, until trials cross the
margin. Then their rows are added to K or subtracted from it.
"""

import numpy as np
from scipy.linalg.blas import dsymv, dsyrk

from mixnorm.core.arrays import to_numpy
from mixnorm.core.problem import Stack
from mixnorm.solvers.newton.gram.coordinates import Coordinates
from mixnorm.solvers.newton.tuning import HOST


_ROUNDINGS = 16 * 2.0**-24


def _columns(X, used, features):
    is_whole = len(features) == X.shape[1] and bool((features[1:] > features[:-1]).all())
    columns = X if is_whole else X.take(features, axis=1)
    return columns if len(used) == len(X) else columns.take(used, axis=0)


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
    trace, gamma : ndarrays of shape (G,)
        Trace of the Hessian over each group with all trials inside the margin, and γ of the normal map.
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
        self._X = _columns(to_numpy(stack.X)[i, 0], used, self.features)
        D = self.free + len(self.features) + 1
        #: all rows, in single precision: half the memory to read in every check
        self._rows = self._joined(np.empty((len(used), D), dtype=np.float32), self._X, self.y)
        self._longest = float(np.sqrt(np.vecdot(self._rows, self._rows).max(initial=0.0)))
        self.groups = Coordinates(np.arange(len(kept)), stack.groups.sizes[kept], self.free)
        self._known: dict[bytes, Coordinates] = {}
        self._inside = np.ones(len(used), dtype=bool)
        self.gram = self._first_gram()
        diagonal = np.einsum("ii->i", self.gram)[self.free : -1]
        self.trace = np.maximum(self.groups.sums(diagonal), 1e-300)
        self.gamma = HOST.gamma / self.trace
        diagonal += self.ridge

    def _first_gram(self) -> np.ndarray:
        """Return K of all trials."""
        D, twice = self.free + len(self.features) + 1, 2 * self.p
        border = np.ones((D - len(self.features), len(twice)))
        border[-1] = self.y
        gram, inner, outer = np.empty((D, D)), slice(self.free, -1), [*range(self.free), D - 1]
        is_even = float(np.ptp(twice)) <= 1e-15 * float(twice[0])
        scaled = self._X if is_even else self._X * np.sqrt(twice)[:, None]
        gram[inner, inner] = dsyrk(float(twice[0]) if is_even else 1.0, scaled.T, lower=1).T
        gram[outer, inner] = gram[inner, outer].T
        across = (border * twice) @ self._X
        own = (border * twice) @ border.T
        gram[0, inner] = across[0]
        gram[inner, -1] = across[-1]
        gram[0, -1], gram[0,0], gram[-1,-1] = own[0,-1], own[0,0], own[-1,-1]
        return gram

    def _joined(self, out: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the rows (1, x, y) of some trials, (n, D)."""
        out[:, : self.free] = 1.0
        out[:, self.free : -1] = X
        out[:, -1] = y
        return out

    def zero(self) -> np.ndarray:
        """Return v of the zero model; its best intercept leaves all trials inside the margin."""
        v = np.zeros(len(self.gram))
        v[: self.free] = self.p @ self.y / self.p.sum()
        v[-1] = -1.0
        return v

    def times(self, v: np.ndarray) -> np.ndarray:
        """Return K v."""
        return dsymv(1.0, self.gram.T, v, lower=1)  # BLAS takes the transpose, in Fortran order, without a copy

    def shortfalls(self, vectors: np.ndarray) -> np.ndarray:
        """Return −y times the product of every trial's row with vectors like v, (D,) or (D, 2): 1 − m for v.

        In single precision, but where that leaves the sign of the first open.
        """
        y = -self.y if vectors.ndim == 1 else -self.y[:, None]
        short = (self._rows @ vectors.astype(np.float32)) * y
        first, v = (short, vectors) if vectors.ndim == 1 else (short[:, 0], vectors[:, 0])
        error = _ROUNDINGS * self._longest * float(np.sqrt(v @ v))
        near = (np.abs(first) <= error).nonzero()[0]
        if len(near):
            first[near] = -self.y[near] * (self._exact_rows(near) @ v)
        return short

    def _exact_rows(self, trials: np.ndarray) -> np.ndarray:
        X = self._X.take(trials, axis=0)
        return self._joined(np.empty((len(trials), len(self.gram))), X, self.y.take(trials))

    def move_to(self, inside: np.ndarray) -> int:
        """Let K count the trials that are ``inside`` the margin; return how many have crossed it."""
        crossed = (inside != self._inside).nonzero()[0]
        if len(crossed):
            came = inside.take(crossed)
            self._add(1.0, crossed[came])
            self._add(-1.0, crossed[~came])
            self._inside = inside
        return len(crossed)

    def _add(self, sign: float, trials: np.ndarray) -> None:
        if len(trials):
            rows = self._exact_rows(trials)
            rows *= np.sqrt(2 * self.p.take(trials))[:, None]
            dsyrk(sign, rows.T, beta=1.0, c=self.gram.T, lower=1, overwrite_c=1)

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
