"""The intercept and the coefficients of some groups, which lie group by group."""

import numpy as np

from mixnorm.solvers.newton.host.system import PairsWithin

#: Rows of a matrix that are copied at once.
_ROWS = 64


class Coordinates:
    """Intercept and coefficients of a groups, m coefficients in all.

    Parameters
    ----------
    which : ndarray of shape (a,)
        The groups, in order.
    sizes : ndarray of shape (G,)
        Number of coefficients of every group of the problem.
    free : int
        1 with an intercept, else 0.

    Attributes
    ----------
    is_all : bool
        Whether these are all groups of the problem. Then nothing needs to be gathered.
    places : ndarray of shape (free + m,)
        Places of the intercept and the coefficients in a vector like v (`mixnorm.solvers.newton.gram.problem`).
    label : ndarray of shape (m,)
        The group of every coefficient, 0 … a − 1.
    pairs : PairsWithin
        All pairs of coefficients that share a group.
    """

    def __init__(self, which: np.ndarray, sizes: np.ndarray, free: int):
        self.which, self.sizes = which, sizes
        self.is_all = len(which) == len(sizes)
        own, first = sizes[which], np.cumsum(sizes) - sizes
        self._starts, self._longest = np.cumsum(own) - own, int(own.max(initial=0))
        self.label = np.repeat(np.arange(len(which)), own)
        within = np.arange(len(self.label)) - self._starts[self.label]
        self.places = np.concatenate([np.arange(free), free + first[which][self.label] + within])
        self.pairs = PairsWithin(self.label)

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Sum coefficients (m,) over each group, (a,)."""
        return np.add.reduceat(values, self._starts) if len(values) else np.zeros(0)

    def norms(self, values: np.ndarray) -> np.ndarray:
        """Return the ℓ2 norm of each group, (m,) → (a,)."""
        return np.sqrt(self.sums(values * values))

    def of_groups(self, values: np.ndarray) -> np.ndarray:
        """Return the values of these groups, (G,) → (a,)."""
        return values if self.is_all else values.take(self.which)

    def to_groups(self, values: np.ndarray) -> np.ndarray:
        """Return values of all groups, 0 for the others, (a,) → (G,)."""
        if self.is_all:
            return values
        out = np.zeros(len(self.sizes))
        out[self.which] = values
        return out

    def of(self, v: np.ndarray) -> np.ndarray:
        """Return intercept and coefficients of a vector like v, (free + m,)."""
        return v[:-1] if self.is_all else v.take(self.places)

    def to(self, values: np.ndarray, like: np.ndarray, last: float) -> np.ndarray:
        """Return a vector ``like`` v from intercept and coefficients, with 0 for the others and a last entry."""
        out = np.empty(len(like))
        if self.is_all:
            out[:-1] = values
        else:
            out.fill(0.0)
            out[self.places] = values
        out[-1] = last
        return out

    def triangle(self, gram: np.ndarray) -> np.ndarray:
        """Return the rows and columns of K of these coordinates: the upper triangle, and the groups' own blocks.

        The rest has no defined values: not to touch it takes a third less memory, so that more stays in the cache.
        """
        size = len(self.places)
        out = np.empty((size, size))
        for first in range(0, size, _ROWS):
            left, end = max(first - self._longest, 0), min(first + _ROWS, size)
            if self.is_all:
                out[first:end, left:] = gram[first:end, left:-1]
            else:  # two steps are several times faster than one with both indices
                out[first:end, left:] = gram.take(self.places[first:end], axis=0).take(self.places[left:], axis=1)
        return out
