"""Where Newton's method stands in one problem: a point, and the coordinates that are active there."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ._newton_system import pairs_within


@dataclass(frozen=True, eq=False)
class Point:
    """A point of one problem and its scores without intercept, signed by the labels: Z w, (T, n)."""

    W: np.ndarray
    b: np.ndarray
    Zw: np.ndarray

    @classmethod
    def zero(cls, T: int, n: int, d: int) -> "Point":
        """All coefficients zero, for T subjects, n trials and d features."""
        return cls(np.zeros((T, d)), np.zeros(T), np.zeros((T, n)))


@dataclass(frozen=True, eq=False)
class Active:
    """The coordinates of the active atoms: m features of every subject.

    Attributes
    ----------
    atoms : ndarray of shape (a,)
    features : ndarray of shape (m,)
    columns : ndarray of shape (m,)
        Places in the working Hessian.
    group : ndarray of shape (T, m)
        Position in ``atoms``.
    mask : ndarray of shape (T, m)
        False where a feature is active for another subject only (ℓ1).
    slots : ndarray of shape (a, r)
        Flat positions in (T, m) of the coordinates of each atom, T m where there is none.
    rows : ndarray of shape (T, free + m, n)
    """

    atoms: np.ndarray
    features: np.ndarray
    columns: np.ndarray
    group: np.ndarray
    mask: np.ndarray
    slots: np.ndarray
    rows: np.ndarray

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """All pairs of the first subject's coordinates that share an atom."""
        return pairs_within(self.group[0])

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Sum coordinates (T, m) over each atom, (a,)."""
        return np.bincount(self.group.ravel(), weights=values.ravel(), minlength=len(self.atoms))

    def prox(self, penalty, values: np.ndarray, threshold: np.ndarray) -> np.ndarray:
        """Prox of coordinates (T, m) with one threshold per atom."""
        blocks = np.append(values.ravel(), 0.0)[self.slots]
        shrunk = penalty.prox(blocks[..., None], threshold[:, None])[..., 0]
        out = np.zeros(values.size + 1)
        out[self.slots] = shrunk
        return out[:-1].reshape(values.shape)


def times(vectors: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    """Row vector times matrix, subject by subject: (T, a), (T, a, b) → (T, b); plain BLAS, unlike a batched matmul."""
    return np.stack([vector @ matrix for vector, matrix in zip(vectors, matrices)])


def padded_members(label: np.ndarray, n_labels: int) -> np.ndarray:
    """Positions of every label 0 … n_labels − 1 as rows, padded with len(label); label −1 is left out."""
    order = np.argsort(label, kind="stable")
    order = order[np.searchsorted(label[order], 0) :]
    sizes = np.bincount(label[order], minlength=n_labels)
    members = np.full((n_labels, max(int(sizes.max(initial=0)), 1)), len(label))
    within = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    members[label[order], within] = order
    return members
