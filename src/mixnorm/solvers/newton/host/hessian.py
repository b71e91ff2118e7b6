"""The Hessian of the loss on the columns ever active, kept up to date by the trials that cross the margin."""

import numpy as np
from scipy.linalg.blas import dsyrk

#: Trials whose columns are copied at a time: a block that stays in the cache is transposed several times faster.
_TRIALS_AT_ONCE = 256


class WorkingHessian:
    """2 Z' diag(p·[m < 1]) Z of every subject on a growing set of known columns.

    Z are the trials times their labels. The first known column is the intercept's (the labels themselves) where
    there is one. Adding columns costs O(n · new · known), a trial that crosses the margin O(known²), so that
    along a path the Hessian is never computed twice. Only the upper triangle is kept: BLAS then does half the work.

    Parameters
    ----------
    X : ndarray of shape (T, n, d)
        The trials.
    y, p : ndarrays of shape (T, n)
        Labels and relative weights.
    fit_intercept : bool
    """

    def __init__(self, X: np.ndarray, y: np.ndarray, p: np.ndarray, fit_intercept: bool):
        T, n, d = X.shape
        self._X, self._root = X, np.sqrt(2 * p)
        self._inside = np.zeros((T, n), dtype=bool)
        self.n_free = self._n_known = int(fit_intercept)
        self._place, self._features = np.full(d, -1), np.empty(0, dtype=int)
        self._y = y
        # Known columns as rows of a (T, columns, n) array: contiguous, so that products with it are plain BLAS calls.
        # There is room for all of them, which takes no memory until they are written.
        self._rows = np.empty((T, d + self.n_free, n))
        self._rows[:, : self.n_free] = y[:, None, :]
        self._values = np.zeros((T, 0, 0))

    def columns(self, features: np.ndarray) -> np.ndarray:
        """Return the places of some features among the known columns, adding those that are new."""
        places = self._place[features]
        new = features[places < 0]
        if not len(new):
            return places
        known = slice(self._n_known, self._n_known + len(new))
        for first in range(0, self._X.shape[1], _TRIALS_AT_ONCE):
            some = slice(first, first + _TRIALS_AT_ONCE)
            columns = self._X[:, some].take(new, axis=2).transpose(0, 2, 1)
            np.multiply(columns, self._y[:, None, some], out=self._rows[:, known, some])
        self._place[new] = np.arange(known.start, known.stop)
        self._features = np.concatenate([self._features, new])
        self._n_known = known.stop
        return self._place[features]

    def rows(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return rows that hold the intercept's and some other known columns, (T, rows, n), and their places there.

        The places are None where all rows are asked for, in order. A view of everything known, unless that is more
        than half in vain: products with a few more rows cost less than a copy.
        """
        if self._all_in_order(columns):
            return self._rows[:, : self._n_known], None
        index = self._with_free(columns)
        if 2 * len(index) > self._n_known:
            return self._rows[:, : self._n_known], index
        return self._rows[:, index], None

    def at(self, inside: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return a copy of the Hessian on the intercept and some known columns, ``inside`` (T, n) being active."""
        order = np.argsort(columns)
        sorted_ = self.upper(inside, columns[order])
        lower = np.tri(sorted_.shape[1], k=-1, dtype=bool)
        for values in sorted_:
            np.copyto(values, values.T, where=lower)
        if (order[1:] > order[:-1]).all():
            return sorted_
        back = np.argsort(self._with_free(columns))
        out = np.empty_like(sorted_)
        out[:, back[:, None], back] = sorted_
        return out

    def upper(self, inside: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the same for columns in order of their places, without what is below the diagonal."""
        self._cross(inside)
        self._complete()
        if self._all_in_order(columns):
            return self._values.copy()
        return _principal(self._values, self._with_free(columns))

    def beside(self, inside: np.ndarray, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return one subject's Hessian on the second columns, and between intercept and first columns and them."""
        self._cross(inside)
        self._complete()
        values = self._values[0]
        above = np.arange(len(values))[:, None] <= second
        columns = np.where(above, values.take(second, axis=1), values.take(second, axis=0).T)
        return columns.take(second, axis=0), columns.take(self._with_free(first), axis=0)

    def _all_in_order(self, columns: np.ndarray) -> bool:
        full = len(columns) + self.n_free == self._n_known
        return full and bool((columns[1:] > columns[:-1]).all())

    def _with_free(self, columns: np.ndarray) -> np.ndarray:
        return np.concatenate([np.arange(self.n_free), columns])

    def _cross(self, inside: np.ndarray) -> None:
        """Add the trials that came inside the margin, take out those that left it."""
        for t in range(len(inside) if self._values.size else 0):
            crossed = (inside[t] != self._inside[t]).nonzero()[0]
            if not len(crossed):
                continue
            is_inside = inside[t].take(crossed)
            came, left = crossed[is_inside], crossed[~is_inside]
            if 2 * len(crossed) > np.count_nonzero(inside[t]):  # then a fresh start is cheaper
                self._values[t] = 0
                came, left = inside[t].nonzero()[0], left[:0]
            for some, sign in ((came, 1.0), (left, -1.0)):
                if len(some):
                    # in Fortran order both matrices are transposed, and the upper triangle is the lower one
                    dsyrk(sign, self._trials(t, some).T, beta=1.0, c=self._values[t].T, lower=1, overwrite_c=1)
        self._inside = inside.copy()

    def _trials(self, t: int, some: np.ndarray) -> np.ndarray:
        """Some trials of a subject times the roots of their weights, (trials, columns whose values are computed).

        Without their labels, whose squares are 1.
        """
        known = self._values.shape[1]
        part = np.empty((len(some), known))
        part[:, : self.n_free] = 1.0
        # whole trials first: numbers that are close in memory are gathered several times faster
        part[:, self.n_free :] = self._X[t].take(some, axis=0).take(self._features[: known - self.n_free], axis=1)
        part *= self._root[t].take(some)[:, None]
        return part

    def _complete(self) -> None:
        """Compute the values of columns that were added since the last time: not before they are asked for."""
        old, known = self._values.shape[1], self._n_known
        if old == known:
            return
        values = np.zeros((len(self._rows), known, known))
        values[:, :old, :old] = self._values
        for rows, root, inside, out in zip(self._rows, self._root, self._inside, values, strict=True):
            before, new = rows[:old], rows[old:known]
            if 2 * inside.sum() < len(inside):
                used = inside.nonzero()[0]
                before, new, root = before.take(used, axis=1), new.take(used, axis=1), root[used]
            else:  # a copy of some trials would take longer than products with all of them
                root = root * inside
            new = new * root
            out[old:, old:] = new @ new.T  # of one array: BLAS computes one triangle
            if old:
                new *= root
                out[:old, old:] = before @ new.T
        self._values = values


def _principal(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return values[:, index, index] as a new array, run by run: groups are runs, and whole runs are quick to copy.

    The index is in order. Below the diagonal there are zeros where whole runs are copied.
    """
    cuts = (np.diff(index) != 1).nonzero()[0] + 1
    if len(cuts) > 32:
        return values[:, index[:, None], index[None, :]]
    ends = [*cuts, len(index)]
    runs = [(slice(a, b), slice(index[a], index[a] + b - a)) for a, b in zip([0, *cuts], ends, strict=True)]
    out = np.zeros((len(values), len(index), len(index)))
    for place, (to_row, row) in enumerate(runs):
        for to_column, column in runs[place:]:
            out[:, to_row, to_column] = values[:, row, column]
    return out
