"""The Hessian of the loss on the columns ever active, kept up to date by the trials that cross the margin."""

import numpy as np


class WorkingHessian:
    """2 Z' diag(p·[m < 1]) Z of every subject on a growing set of known columns.

    Z holds the trials times their labels. The first known column is the intercept's (the labels themselves) where
    there is one. Adding columns costs O(n · new · known), a trial that crosses the margin O(known²), so that
    along a path the Hessian is never computed twice.

    Parameters
    ----------
    Z : ndarray of shape (T, n, d)
    y, p : ndarrays of shape (T, n)
        Labels and relative weights.
    fit_intercept : bool
    """

    def __init__(self, Z: np.ndarray, y: np.ndarray, p: np.ndarray, fit_intercept: bool):
        T, n, d = Z.shape
        self._Z, self._p = Z, p
        self._inside = np.zeros((T, n), dtype=bool)
        self._n_known = self._n_valued = 0
        self._place = np.full(d, -1)
        # Known columns as rows of a (T, columns, n) array: contiguous, so that products with it are plain BLAS calls.
        self._rows = np.empty((T, 0, n))
        self._values = np.empty((T, 0, 0))
        self.n_free = int(fit_intercept)
        if fit_intercept:
            self._append(y[:, None, :])

    def columns(self, features: np.ndarray) -> np.ndarray:
        """Return the places of some features among the known columns, adding those that are new."""
        new = features[self._place[features] < 0]
        if len(new):
            self._place[new] = self._n_known + np.arange(len(new))
            self._append(self._Z[:, :, new].transpose(0, 2, 1))
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
        self._cross(inside)
        self._complete()
        if self._all_in_order(columns):
            return self._values[:, : self._n_known, : self._n_known].copy()
        return _principal(self._values, self._with_free(columns))

    def _all_in_order(self, columns: np.ndarray) -> bool:
        full = len(columns) + self.n_free == self._n_known
        return full and bool((columns[1:] > columns[:-1]).all())

    def _with_free(self, columns: np.ndarray) -> np.ndarray:
        return np.concatenate([np.arange(self.n_free), columns])

    def _append(self, rows: np.ndarray) -> None:
        known, total = self._n_known, self._n_known + rows.shape[1]
        if total > self._rows.shape[1]:
            self._grow(total)
        self._rows[:, known:total] = rows
        self._n_known = total

    def _complete(self) -> None:
        """Compute the values of columns that were added since the last time: not before they are asked for."""
        old, known = self._n_valued, self._n_known
        for t in range(len(self._rows) if old < known else 0):
            inside = self._inside[t].nonzero()[0]
            root = np.sqrt(2 * self._p[t, inside])
            new = self._rows[t, old:known][:, inside]
            new *= root
            self._values[t, old:known, old:known] = new @ new.T  # of one array: BLAS computes one triangle
            if old:
                new *= root
                cross = self._rows[t, :old][:, inside] @ new.T
                self._values[t, :old, old:known] = cross
                self._values[t, old:known, :old] = cross.T
        self._n_valued = known

    def _grow(self, total: int) -> None:
        """Make room for at least ``total`` columns, doubling so that growth costs little over a path."""
        T, _, n = self._rows.shape
        size = min(max(total, 2 * self._rows.shape[1]), self._Z.shape[2] + self.n_free)
        known, valued = self._n_known, self._n_valued
        rows, values = np.empty((T, size, n)), np.zeros((T, size, size))
        rows[:, :known] = self._rows[:, :known]
        values[:, :valued, :valued] = self._values[:, :valued, :valued]  # zeros that are never touched take no memory
        self._rows, self._values = rows, values

    def _cross(self, inside: np.ndarray) -> None:
        """Add the trials that came inside the margin, take out those that left it."""
        known = self._n_valued
        for t in range(len(inside)):
            crossed = (inside[t] != self._inside[t]).nonzero()[0]
            if not len(crossed):
                continue
            view = self._values[t, :known, :known]
            if 2 * len(crossed) > inside[t].sum():  # then a fresh start is cheaper
                crossed = inside[t].nonzero()[0]
                view[:] = 0
                sign: float | np.ndarray = 1.0
            else:
                sign = np.where(inside[t, crossed], 1.0, -1.0)
            part = self._rows[t, :known][:, crossed]
            view += (part * (2 * sign * self._p[t, crossed])) @ part.T
        self._inside = inside.copy()


def _principal(values: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return values[:, index, index] as a new array, run by run: groups are runs, and whole runs are quick to copy."""
    cuts = (np.diff(index) != 1).nonzero()[0] + 1
    if len(cuts) > 32:
        return values[:, index[:, None], index[None, :]]
    ends = [*cuts, len(index)]
    runs = [(slice(a, b), slice(index[a], index[a] + b - a)) for a, b in zip([0, *cuts], ends, strict=True)]
    out = np.empty((len(values), len(index), len(index)))
    for to_row, row in runs:
        for to_column, column in runs:
            out[:, to_row, to_column] = values[:, row, column]
    return out
