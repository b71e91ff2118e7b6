r"""The linear system of a Newton step of several subjects compared by a metric N_t = R_t'R_t.

M = S − U Λ U' as in `mixnorm.solvers.newton.host.system`, except that S_t contains ω N_t, ω = 2 similarity + ridge,
and that the columns U of the mean are those of R_t' (weights 2 similarity / T). Where R = P ⊗ Q over sensors and
samples, with Q = V₁ diag(σ) V₂' and a curvature E of the penalty that is the same for all samples of a sensor,

    E ⊗ I + ω R'R = Σ_k (E + ω σ_k² P'P) ⊗ v₂k v₂k',

so that its inverse needs matrices over the sensors only, one for every sample, and trials, where they are few, enter
through a matrix of their own size: O(r C³ + C² r³ + n C² r²) instead of O(C³ r³) for C sensors, r samples, n trials.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg.lapack import dpotrs, dtrtrs

from mixnorm.core.metric import KroneckerMetric
from mixnorm.solvers.newton.host.system import Curvature, DenseBlock, cholesky, nonzero, solve_posdef


@dataclass(frozen=True, eq=False)
class SubjectFactors:
    """R_t = P ⊗ Q of one subject on some of its sensors.

    Attributes
    ----------
    sensors : ndarray of shape (C, a)
        P, the columns of the sensors in question.
    samples : ndarray of shape (r, r)
        Q.
    left, values, right : ndarrays of shape (r, r), (r,) and (r, r)
        V₁, σ and V₂' of Q.
    """

    sensors: np.ndarray
    samples: np.ndarray
    left: np.ndarray
    values: np.ndarray
    right: np.ndarray


@dataclass(frozen=True, eq=False)
class Factors:
    """The factors of the metric of one data set, with the singular values of those over samples."""

    metric: KroneckerMetric
    left: np.ndarray
    values: np.ndarray
    right: np.ndarray

    @classmethod
    def of(cls, metric: KroneckerMetric) -> "Factors":
        """Decompose Q of every subject."""
        return cls(metric, *np.linalg.svd(metric.samples[0]))

    @property
    def layout(self) -> np.ndarray:
        """The feature of every sensor and sample, (C, r)."""
        return self.metric.layout

    def of_subject(self, t: int, sensors: np.ndarray) -> SubjectFactors:
        """Return the factors of one subject on some sensors."""
        P, Q = self.metric.sensors[0, t][:, sensors], self.metric.samples[0, t]
        return SubjectFactors(P, Q, self.left[t], self.values[t], self.right[t])

    def evened(self, values: np.ndarray) -> np.ndarray:
        """Give all samples of a sensor the mean of their values, (T, d)."""
        out = np.empty_like(values)
        out[:, self.layout] = values[:, self.layout].mean(axis=2, keepdims=True)
        return out


class _Gram:
    """Σ_t [some_t, R_t']' S_t⁻¹ [some_t, R_t'], of k columns some_t and (C, r) coordinates of the mean, in pieces.

    Large parts are collected and multiplied once: passes over the whole matrix take most of the time.
    """

    def __init__(self, k: int, shape: tuple[int, int]):
        self._k, (self._C, self._r) = k, shape
        size = k + self._C * self._r
        self._whole = np.zeros((size, size))
        self._rows: dict[int, list[np.ndarray]] = {1: [], -1: []}
        self._products: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, rows: np.ndarray, sign: int = 1) -> None:
        """Add rows' rows, (x, k + C r), or subtract it."""
        gathered = self._rows[sign]
        gathered.append(rows)
        if sum(map(len, gathered)) > len(self._whole):
            self._flush(sign)

    def add_some(self, square: np.ndarray, mixed: np.ndarray) -> None:
        """Add the part (k, k) of the columns, and that between them and the mean, (C r, k)."""
        k = self._k
        self._whole[:k, :k] += square
        self._whole[k:, :k] += mixed
        self._whole[:k, k:] += mixed.T

    def add_products(self, sensors: np.ndarray, samples: np.ndarray) -> None:
        """Add Σ_k sensors_k ⊗ samples_k to the mean's part, (x, C, C) and (x, r, r)."""
        self._products.append((sensors.reshape(len(sensors), -1), samples.reshape(len(samples), -1)))

    def matrix(self) -> np.ndarray:
        """The sum of all."""
        for sign in self._rows:
            self._flush(sign)
        if self._products:
            C, r = self._C, self._r
            sensors, samples = (np.concatenate(parts) for parts in zip(*self._products, strict=True))
            both = (sensors.T @ samples).reshape(C, C, r, r).transpose(0, 2, 1, 3)
            self._whole[self._k :, self._k :] += both.reshape(C * r, C * r)
            self._products = []
        return self._whole

    def _flush(self, sign: int) -> None:
        if self._rows[sign]:
            rows = np.concatenate(self._rows[sign])
            self._whole += sign * (rows.T @ rows)  # of one array, so that BLAS computes one triangle only
            self._rows[sign] = []


class _Block(Protocol):
    """One subject's own matrix S_t, and its R_t on the active coordinates."""

    def solve(self, right: np.ndarray) -> np.ndarray:
        """Return S_t⁻¹ right, (free + m, k)."""

    def add_to(self, gram: _Gram, some: np.ndarray) -> None:
        """Add [some, R_t']' S_t⁻¹ [some, R_t'], some being (free + m, k)."""

    def back(self, mean: np.ndarray) -> np.ndarray:
        """Return R_t' times a vector of the mean's coordinates, (free + m,)."""


def solve_with_metric(
    blocks: Sequence[_Block], curvature: Curvature, rhs: np.ndarray, shape: tuple[int, int]
) -> np.ndarray:
    """Solve for T subjects whose mean has (C, r) coordinates; rhs (T, free + m).

    (S − U Λ U')⁻¹ r = S⁻¹(r + U λ) with (Λ⁻¹ − U'S⁻¹U) λ = U'S⁻¹r, summed over subjects.
    """
    T, m = curvature.scale.shape
    free = rhs.shape[1] - m
    has_direction = (curvature.group_weight > 0).nonzero()[0]
    gram, directions = _Gram(1 + len(has_direction), shape), []
    for t, block in enumerate(blocks):
        K = np.zeros((free + m, len(curvature.group_weight)))
        K[free + np.arange(m), curvature.group[t]] = curvature.direction[t]
        directions.append(K[:, has_direction])
        block.add_to(gram, np.column_stack([rhs[t], directions[t]]))
    common = np.full(shape[0] * shape[1] if curvature.similarity > 0 else 0, 2 * curvature.similarity / T)
    weights = np.concatenate([curvature.group_weight[has_direction], common])
    square = gram.matrix()[: 1 + len(weights), : 1 + len(weights)]
    schur = -square[1:, 1:]
    schur[np.diag_indices_from(schur)] += 1 / weights
    own, mean = np.split(solve_posdef(schur, square[1:, :1])[:, 0], [len(has_direction)])
    found = []
    for r, K, block in zip(rhs, directions, blocks, strict=True):
        right = r + K @ own + (block.back(mean) if len(mean) else 0.0)
        found.append(block.solve(right[:, None])[:, 0])
    return np.stack(found)


class DenseMetricBlock(DenseBlock):
    """S_t factorised as it is, O(m³), beside R_t' (m, d) in the scaled variables."""

    def __init__(self, H: np.ndarray, scale: np.ndarray, diagonal: np.ndarray, roots: np.ndarray):
        super().__init__(H, scale, diagonal)
        above = np.zeros((len(H) - len(scale), len(roots)))
        self._columns = np.concatenate([above, (roots * scale).T])

    def add_to(self, gram: _Gram, some: np.ndarray) -> None:
        """Add [some, R_t']' S_t⁻¹ [some, R_t']: with S = L L', the square of L⁻¹ [some, R_t']."""
        gram.add(dtrtrs(self._factor, np.column_stack([some, self._columns]), lower=1)[0])

    def back(self, mean: np.ndarray) -> np.ndarray:
        """Return R_t' times a vector of the mean's coordinates."""
        return self._columns @ mean


class KroneckerBlock:
    """S_t through the factors of R_t and the n trials inside the margin, for more coordinates than trials.

    S = D + Y Y', D being E ⊗ I + ω R'R; for an intercept, which has no curvature of its own, some is added
    to D (``lent``) and subtracted again as a rank-one term.

    Parameters
    ----------
    factors : SubjectFactors
        On the a active sensors.
    curvature : ndarray of shape (a,)
        The diagonal of E.
    omega : float
        ω, 2 similarity + ridge.
    rows : ndarray of shape (free + a r, n)
        The intercept's and the features' columns of the trials, sensor by sensor.
    weights : ndarray of shape (n,)
        2 p.
    """

    def __init__(
        self, factors: SubjectFactors, curvature: np.ndarray, omega: float, rows: np.ndarray, weights: np.ndarray
    ):
        self._P, self._Q = factors.sensors, factors.samples
        self._left, self._values, self._right = factors.left, factors.values, factors.right
        self._m = len(curvature) * len(self._values)
        self._free = len(rows) - self._m
        over_sensors = omega * (self._P.T @ self._P)
        systems = self._values[:, None, None] ** 2 * over_sensors
        index = np.arange(len(curvature))
        systems[:, index, index] += curvature
        self._inverses = np.linalg.inv(systems)
        self._trials = rows * np.sqrt(weights)
        lent = (self._trials[: self._free] ** 2).sum(axis=1)
        self._lent, self._below = lent, nonzero(lent)
        self._through = self._base(self._trials)
        kernel = self._trials.T @ self._through
        kernel[np.diag_indices_from(kernel)] += 1
        self._factor = cholesky(kernel) if len(kernel) else None

    def _base(self, x: np.ndarray) -> np.ndarray:
        """D⁻¹ x, (free + m, k)."""
        inner = np.matmul(self._right, self._by_sample(x))
        inner = np.matmul(self._inverses, inner.transpose(1, 0, 2)).transpose(1, 0, 2)
        inner = np.matmul(self._right.T, inner).reshape(self._m, x.shape[1])
        return np.concatenate([x[: self._free] / self._below[:, None], inner])

    def _mapped(self, x: np.ndarray) -> np.ndarray:
        """R x of the features' part, (C r, k)."""
        inner = np.matmul(self._Q, self._by_sample(x))
        return np.tensordot(self._P, inner, axes=1).reshape(len(self._P) * len(self._values), -1)

    def _by_sample(self, x: np.ndarray) -> np.ndarray:
        """The features' part of columns (free + m, k) as (a, r, k)."""
        return x[self._free :].reshape(self._m // len(self._values), len(self._values), x.shape[1])

    def add_to(self, gram: _Gram, some: np.ndarray) -> None:
        """Add [some, R_t']' S_t⁻¹ [some, R_t'].

        That of D, with R D⁻¹ R' = Σ_k P (E + ω σ_k² P'P)⁻¹ P' ⊗ σ_k² v₁k v₁k'; less the part of the
        trials; and the rank-one term of the intercept.
        """
        unit, k = self._unit(len(some)), some.shape[1]
        base = self._base(np.column_stack([some, unit]))
        mixed = self._mapped(base)
        gram.add_some(some.T @ base[:, :k], mixed[:, :k])
        samples = (self._values**2 * self._left[:, None, :] * self._left[None, :, :]).transpose(2, 0, 1)
        gram.add_products(np.matmul(np.matmul(self._P, self._inverses), self._P.T), samples)
        lean = np.column_stack([base[:1, :k], mixed[:, k:].T]) if unit.size else None
        corner = base[0, k] if unit.size else 0.0
        if self._factor is not None:
            against = np.column_stack([self._trials.T @ base, self._mapped(self._through).T])
            half = dtrtrs(self._factor, against, lower=1)[0]
            of_unit, half = half[:, k : k + unit.shape[1]], np.delete(half, np.s_[k : k + unit.shape[1]], axis=1)
            gram.add(half, -1)
            if lean is not None:
                lean, corner = lean - of_unit.T @ half, corner - np.vdot(of_unit, of_unit)
        if lean is not None:
            gram.add(lean / np.sqrt(self._owed(corner)))

    def _unit(self, size: int) -> np.ndarray:
        """The intercept's unit vector as a column, where some curvature was added to it."""
        return np.eye(size, self._free)[:, self._lent > 0]

    def _owed(self, corner: float) -> float:
        """1 / lent − e'(S + lent e e')⁻¹ e, e being the intercept's unit vector: positive but for rounding."""
        return max(1 / self._lent[0] - corner, 1e-14 / self._lent[0])

    def solve(self, right: np.ndarray) -> np.ndarray:
        """Return S_t⁻¹ right."""
        unit = self._unit(len(right))
        solved = self._lending_solve(np.column_stack([right, unit]))
        solved, lean = solved[:, : right.shape[1]], solved[:, right.shape[1] :]
        if not unit.size:
            return solved
        return solved + lean * (solved[0] / self._owed(lean[0, 0]))

    def _lending_solve(self, right: np.ndarray) -> np.ndarray:
        found = self._base(right)
        if self._factor is None:
            return found
        return found - self._through @ dpotrs(self._factor, self._trials.T @ found, lower=1)[0]

    def back(self, mean: np.ndarray) -> np.ndarray:
        """Return R_t' times a vector of the mean's coordinates."""
        inner = mean.reshape(-1, len(self._values)) @ self._Q
        return np.concatenate([np.zeros(self._free), (self._P.T @ inner).ravel()])
