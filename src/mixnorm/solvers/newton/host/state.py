"""Where Newton's method stands in one problem: a point, a look at it, and the coordinates that are active there."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mixnorm.solvers.newton.host.atoms import Atoms
from mixnorm.solvers.newton.host.system import PairsWithin


class Point(NamedTuple):
    """A point of one problem and its scores without intercept, signed by the labels: Z w, (T, n)."""

    W: np.ndarray
    b: np.ndarray
    Zw: np.ndarray

    @classmethod
    def zero(cls, T: int, n: int, d: int) -> "Point":
        """All coefficients zero, for T subjects, n trials and d features."""
        return cls(np.zeros((T, d)), np.zeros(T), np.zeros((T, n)))


class Look(NamedTuple):
    """The whole problem at a point with exact intercepts.

    Attributes
    ----------
    point : Point
    a : ndarray of shape (T, n)
        The dual variable of every trial.
    descent : ndarray of shape (T, d)
        Minus the gradient of the smooth part.
    dual_norms : ndarray over atoms
        ‖·‖_q* of the descent.
    """

    point: Point
    a: np.ndarray
    descent: np.ndarray
    dual_norms: np.ndarray


class Position(NamedTuple):
    """A point, and what is known of the problem there.

    Attributes
    ----------
    point : Point
    value : float
    a : ndarray of shape (T, n)
        The dual variable of every trial.
    look : Look or None
        A look at the whole problem, where there was one since the last step.
    """

    point: Point
    value: float
    a: np.ndarray
    look: Look | None


class Level(NamedTuple):
    """What alpha and similarity make of every atom: its threshold alpha β, and γ of the normal map."""

    tau: np.ndarray
    gamma: np.ndarray


@dataclass(frozen=True, eq=False)
class Active:
    """The coordinates of the active atoms: m features of every subject.

    Attributes
    ----------
    which : ndarray of shape (a,)
        The active atoms, among all of the problem's.
    atoms : Atoms
        The same on the active coordinates (T, m); masked where a feature is active for another subject only (ℓ1).
    features : ndarray of shape (m,)
    columns : ndarray of shape (m,)
        Places in the working Hessian.
    rows : ndarray of shape (T, R, n)
        The intercept's and the features' columns of Z, maybe among others.
    places : ndarray of shape (free + m,), or None
        Which of the rows are the intercept and the active features; None: all of them, in order.
    bend : ndarray of shape (T, m)
        Diagonal of the Hessian with all trials inside the margin.
    trace : ndarray of shape (a,)
        Its sum over each atom.
    """

    which: np.ndarray
    atoms: Atoms
    features: np.ndarray
    columns: np.ndarray
    rows: np.ndarray
    places: np.ndarray | None
    bend: np.ndarray
    trace: np.ndarray

    def forward(self, step: np.ndarray) -> np.ndarray:
        """Z times a step in the intercept and the active coordinates: (T, free + m) → (T, n)."""
        if self.places is not None:
            inner, step = step, np.zeros(self.rows.shape[:2])
            step[:, self.places] = inner
        return times(step, self.rows)

    def forward_without_intercept(self, w: np.ndarray) -> np.ndarray:
        """Z times active coefficients: (T, m) → (T, n)."""
        free = self.rows.shape[1] - w.shape[1] if self.places is None else len(self.places) - w.shape[1]
        if self.places is None:
            return times(w, self.rows[:, free:])
        step = np.zeros(self.rows.shape[:2])
        step[:, self.places[free:]] = w
        return times(step, self.rows)

    def backward(self, a: np.ndarray) -> np.ndarray:
        """Z' times one number per trial: (T, n) → (T, free + m)."""
        out = times(a, self.rows.transpose(0, 2, 1))
        return out if self.places is None else out[:, self.places]

    def trials(self, t: int, which: np.ndarray) -> np.ndarray:
        """Some trials of a subject, (free + m, trials)."""
        own = self.rows[t].take(which.nonzero()[0], axis=1)
        return own if self.places is None else own[self.places]

    @cached_property
    def unscaled(self) -> np.ndarray:
        """R of the penalty's curvature where it is the identity, (T, m): 1, and 0 where a coordinate is masked."""
        return self.atoms.mask.astype(float)

    @cached_property
    def is_full(self) -> bool:
        """Whether every active feature is active for all subjects."""
        return bool(self.atoms.mask.all())

    @cached_property
    def pairs(self) -> PairsWithin:
        """All pairs of the first subject's coordinates that share an atom."""
        return PairsWithin(self.atoms.label[0])


def times(vectors: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    """Row vector times matrix, subject by subject: (T, a), (T, a, b) → (T, b); plain BLAS, unlike a batched matmul."""
    if len(vectors) == 1:
        return (vectors[0] @ matrices[0])[None]
    return np.stack([vector @ matrix for vector, matrix in zip(vectors, matrices, strict=True)])
