"""Atoms: what is zero or not as a whole, a group over all subjects or with ℓ1 a single coefficient."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mixnorm.core.penalties import Penalty, vector_norm


@dataclass(frozen=True, eq=False)
class Atoms:
    """Coordinates that belong to atoms, with the penalty's norms on them.

    For q = 2 and ℓ1, sums over a label do all the work; they are many times faster than the penalty's own functions of
    padded blocks, which serve the other q.

    Attributes
    ----------
    label : integer ndarray of any shape
        The atom of each coordinate; coordinates that belong to none must be zero in whatever is handed in.
    mask : boolean ndarray of that shape
        False where a coordinate belongs to none.
    count : int
        Number of atoms.
    penalty : Penalty
    q : float
        1 where atoms are single coefficients, 2 for the ℓ2 penalty.
    """

    label: np.ndarray
    mask: np.ndarray
    count: int
    penalty: Penalty
    q: float

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Sum coordinates over each atom, (count,)."""
        return np.bincount(self._flat, weights=values.ravel(), minlength=self.count)

    def norms(self, values: np.ndarray) -> np.ndarray:
        """ℓq norm of each atom, (count,)."""
        if self.q == 2:
            return np.sqrt(self.sums(values * values))
        return self.sums(np.abs(values)) if self.q == 1 else vector_norm(self._blocks(values), self.q)[:, 0]

    def dual_norms(self, values: np.ndarray) -> np.ndarray:
        """ℓq* norm of each atom, (count,)."""
        return self.norms(values) if self.q in (1, 2) else self.penalty.dual_norm(self._blocks(values))[:, 0]

    def value(self, values: np.ndarray, weight: np.ndarray) -> float:
        """Penalty, with one weight per atom; an infinite weight costs nothing where an atom is zero."""
        norms = self.norms(values)
        return self.value_of(norms, np.where(norms > 0, weight, 0.0))

    def value_of(self, norms: np.ndarray, weight: np.ndarray) -> float:
        """Penalty from the norms of the atoms, with finite weights."""
        return float(np.vdot(weight, norms) if self.penalty.is_norm else np.vdot(weight, norms**2) / 2)

    def gradient(self, values: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Gradient of the penalty, with one weight per atom; 0 where an atom is zero."""
        paid = weight[self.label]
        if not self.penalty.is_norm:
            return paid * values
        norms = self.norms(values)
        unit = values / np.where(norms > 0, norms, 1.0)[self.label]
        return paid * (unit if self.q == 2 else np.sign(unit) * np.abs(unit) ** (self.q - 1))

    def prox(self, values: np.ndarray, threshold: np.ndarray) -> np.ndarray:
        """Prox of the norms, with one threshold per atom."""
        if self.q == 1:
            return np.copysign(np.maximum(np.abs(values) - threshold[self.label], 0.0), values) * self.mask
        if self.q == 2:
            norms = self.norms(values)
            return values * (np.maximum(norms - threshold, 0.0) / np.where(norms > 0, norms, 1.0))[self.label]
        shrunk = self.penalty.prox(self._blocks(values), threshold[:, None])[..., 0]
        out = np.zeros(values.size + 1)
        out[self._slots] = shrunk
        return out[:-1].reshape(values.shape)

    @cached_property
    def _flat(self) -> np.ndarray:
        return self.label.ravel()

    @cached_property
    def _slots(self) -> np.ndarray:
        """Flat places of the coordinates of each atom as rows, padded with one past the last."""
        return padded_members(np.where(self.mask, self.label, -1).ravel(), self.count)

    def _blocks(self, values: np.ndarray) -> np.ndarray:
        return np.append(values.ravel(), 0.0)[self._slots][..., None]


def are_equal(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two vectors are the same; faster than `numpy.array_equal`."""
    return len(one) == len(other) and not np.count_nonzero(one != other)


def padded_members(label: np.ndarray, n_labels: int) -> np.ndarray:
    """Positions of every label 0 … n_labels − 1 as rows, padded with len(label); label −1 is left out."""
    order = np.argsort(label, kind="stable")
    order = order[np.searchsorted(label[order], 0) :]
    sizes = np.bincount(label[order], minlength=n_labels)
    members = np.full((n_labels, max(int(sizes.max(initial=0)), 1)), len(label))
    within = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    members[label[order], within] = order
    return members
