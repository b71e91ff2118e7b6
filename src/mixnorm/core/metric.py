r"""Metrics: positive definite matrices N_t = R_t'R_t of every subject, by which classifiers are measured.

Subjects may be compared, and penalised, in coordinates of their own, v_t = R_t w_t, so that ‖v_t‖² = w_t'N_t w_t. A
metric holds the roots R_t, dense or as Kronecker products of a matrix over sensors and one over samples, and knows how
to apply them; no product of factors is formed unless the dense root is asked for. Every metric of a stack
has one root for each data set and subject; a fold that needs a metric of its own is a data set of its own. None stands
for the identity.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Protocol, Self

import numpy as np
from scipy.linalg import solve_triangular

from mixnorm.core.arrays import Array, like, matmul_transposed, namespace, to_numpy


class Metric(Protocol):
    """Roots R (B, T, D, d) of the metrics N = R'R of B data sets of T subjects."""

    @property
    def n_features(self) -> int:
        """Number of features, d."""

    def apply(self, W: Array) -> Array:
        """R_t w_t: (B, T, d, K) → (B, T, D, K)."""

    def adjoint(self, V: Array) -> Array:
        """R_t'v_t: (B, T, D, K) → (B, T, d, K)."""

    def nearest(self, V: np.ndarray) -> np.ndarray:
        """Return w_t with the least ‖R_t w_t − v_t‖, in NumPy: (B, T, D, K) → (B, T, d, K)."""

    def gram(self, features: np.ndarray) -> np.ndarray:
        """N_t on some features, (B, T, m, m), in NumPy."""

    def diagonal(self) -> np.ndarray:
        """The diagonal of N_t, (B, T, d), in NumPy."""

    def bound(self) -> Array:
        """The Frobenius norm of N_t, (B, T), which is at least its largest eigenvalue."""

    def columns(self, features: np.ndarray) -> np.ndarray:
        """Columns of R_t, (B, T, D, m), in NumPy."""

    def roots(self) -> Array:
        """R as dense matrices, (B, T, D, d)."""

    def take(self, rows: Array) -> "Metric":
        """Return the metric of some of the data sets."""

    def data_set(self, i: int) -> "Metric":
        """Return the metric of one data set, in NumPy: the same object every time."""

    def map(self, function: Callable[[Array], Array]) -> "Metric":
        """Return the metric with a function applied to its arrays (that sends them to a device, say)."""

    def arrays(self) -> list[Array]:
        """The arrays that define the metric: equal arrays, equal metrics."""

    def kind(self) -> tuple:
        """What metrics must share so that `join_metrics` takes them; hashable."""

    def join(self, others: Sequence["Metric"], axis: int) -> "Metric":
        """Return one metric of this one and others of its kind, their arrays put together along an axis."""

    def whiten(self, X: np.ndarray) -> np.ndarray:
        """Return trials z = R⁻'x of the first data set and subject, (n, d): then x·w = z·(R w)."""

    def unwhiten(self, V: np.ndarray) -> np.ndarray:
        """Return coefficients w = R⁻¹v (d, K) of whitened ones, (d, K)."""


@dataclass(frozen=True, eq=False)
class _Arrays:
    """What both kinds of metric do with the arrays that they hold, one entry per data set each; ``layout`` apart."""

    def map(self, function: Callable[[Array], Array]) -> Self:
        """Return the metric with a function applied to its arrays."""
        return replace(self, **{name: function(getattr(self, name)) for name in self._names})

    def take(self, rows: Array) -> Self:
        """Return the metric of some of the data sets."""
        return self.map(lambda array: namespace(array).take(array, rows, axis=0))

    def data_set(self, i: int) -> Self:
        """Return the metric of one data set, in NumPy: the same object every time."""
        return self._data_sets[i]

    def arrays(self) -> list[Array]:
        """The arrays that define the metric."""
        return [getattr(self, f.name) for f in fields(self)]

    def join(self, others: Sequence[Metric], axis: int) -> Self:
        """Return one metric of this one and others of its kind, their arrays put together along an axis."""
        parts = (self, *others)
        joined = {name: np.concatenate([getattr(part, name) for part in parts], axis=axis) for name in self._names}
        return replace(self, **joined)

    @property
    def _names(self) -> list[str]:
        return [f.name for f in fields(self) if f.name != "layout"]

    @cached_property
    def _data_sets(self) -> list[Self]:
        # Kept, so that a Gram matrix is computed once for all problems of a data set.
        number = getattr(self, self._names[0]).shape[0]
        return [self._alone(i) for i in range(number)]

    def _alone(self, i: int) -> Self:
        return self.map(lambda array: to_numpy(array)[i : i + 1])


@dataclass(frozen=True, eq=False)
class DenseMetric(_Arrays):
    """Roots as they are.

    Attributes
    ----------
    root : array of shape (B, T, D, d)
    """

    root: Array

    @classmethod
    def of_covariance(cls, covariance: np.ndarray) -> "DenseMetric":
        """Return the metric N = covariance (d, d) of one subject; R is its upper Cholesky factor."""
        return cls(np.ascontiguousarray(np.linalg.cholesky(covariance).T)[None, None])

    @property
    def n_features(self) -> int:
        """Number of features, d."""
        return self.root.shape[-1]

    def apply(self, W: Array) -> Array:
        """R_t w_t: (B, T, d, K) → (B, T, D, K)."""
        return namespace(W).matmul(self.root, W)

    def adjoint(self, V: Array) -> Array:
        """R_t'v_t: (B, T, D, K) → (B, T, d, K)."""
        return matmul_transposed(self.root, V)

    def nearest(self, V: np.ndarray) -> np.ndarray:
        """Return w_t with the least ‖R_t w_t − v_t‖: (B, T, D, K) → (B, T, d, K)."""
        out = np.empty((*V.shape[:2], self.n_features, V.shape[-1]))
        # Least squares, because a dense root may have more rows than columns (`Stack.only` leaves columns out).
        for place in np.ndindex(V.shape[:2]):
            out[place] = np.linalg.lstsq(self.root[place], V[place], rcond=None)[0]
        return out

    def gram(self, features: np.ndarray) -> np.ndarray:
        """N_t on some features, (B, T, m, m), in NumPy."""
        return self._square[..., features[:, None], features]

    def diagonal(self) -> np.ndarray:
        """The diagonal of N_t, (B, T, d), in NumPy."""
        # Σ_i R_ij², without forming N
        return np.sum(to_numpy(self.root) ** 2, axis=2)

    def bound(self) -> Array:
        """The Frobenius norm of N_t, (B, T)."""
        # The largest eigenvalue itself would need an iteration; a step length only needs a bound.
        return _frobenius(matmul_transposed(self.root, self.root))

    def columns(self, features: np.ndarray) -> np.ndarray:
        """Columns of R_t, (B, T, D, m), in NumPy."""
        return to_numpy(self.root)[..., features]

    def roots(self) -> Array:
        """R as dense matrices, (B, T, D, d)."""
        return self.root

    def kind(self) -> tuple:
        """What metrics must share so that `join_metrics` takes them."""
        return "dense", self.root.shape[1:]

    def whiten(self, X: np.ndarray) -> np.ndarray:
        """Return trials z = R⁻'x of the first data set and subject, (n, d): then x·w = z·(R w). R is triangular."""
        return solve_triangular(self.root[0, 0], X.T, trans="T", check_finite=False).T

    def unwhiten(self, V: np.ndarray) -> np.ndarray:
        """Return coefficients w = R⁻¹v (d, K) of whitened ones, (d, K). R is triangular."""
        return solve_triangular(self.root[0, 0], V, check_finite=False)

    @cached_property
    def _square(self) -> np.ndarray:
        root = to_numpy(self.root)
        return np.matmul(root.swapaxes(-1, -2), root)


@dataclass(frozen=True, eq=False)
class SymmetricMetric(DenseMetric):
    """Dense roots that are symmetric, R = N^½, so that the coordinates R_t w_t of different subjects can be compared.

    Any other root is U R with an orthogonal U, which would differ between subjects for no reason of the data.
    """

    @classmethod
    def of_covariance(cls, covariance: np.ndarray) -> "SymmetricMetric":
        """Return the metric N = covariance (d, d) of one subject."""
        values, vectors = np.linalg.eigh(covariance)
        return cls(((vectors * np.sqrt(values)) @ vectors.T)[None, None])

    def whiten(self, X: np.ndarray) -> np.ndarray:
        """Return trials z = R⁻¹x of the first data set and subject, (n, d): then x·w = z·(R w)."""
        return np.linalg.solve(self.root[0, 0], X.T).T

    def unwhiten(self, V: np.ndarray) -> np.ndarray:
        """Return coefficients w = R⁻¹v (d, K) of whitened ones, (d, K)."""
        return np.linalg.solve(self.root[0, 0], V)


@dataclass(frozen=True, eq=False)
class KroneckerMetric(_Arrays):
    """Roots R_t = P_t ⊗ Q_t of a matrix over C sensors and one over r samples.

    Rows and columns of R are in the order of the features: R is symmetric if P and Q are.

    Attributes
    ----------
    layout : ndarray of shape (C, r)
        The feature of every sensor and sample.
    sensors : array of shape (B, T, C, C)
        P.
    samples : array of shape (B, T, r, r)
        Q.
    """

    layout: np.ndarray
    sensors: Array
    samples: Array

    @property
    def n_features(self) -> int:
        """Number of features, d."""
        return self.layout.size

    def apply(self, W: Array) -> Array:
        """R_t w_t: (B, T, d, K) → (B, T, d, K)."""
        return self._product(self.sensors, self.samples, W)

    def adjoint(self, V: Array) -> Array:
        """R_t'v_t: (B, T, d, K) → (B, T, d, K)."""
        xp = namespace(V)
        return self._product(xp.matrix_transpose(self.sensors), xp.matrix_transpose(self.samples), V)

    def nearest(self, V: np.ndarray) -> np.ndarray:
        """Return w_t with R_t w_t = v_t: (B, T, d, K) → (B, T, d, K)."""
        return self._product(np.linalg.inv(self.sensors), np.linalg.inv(self.samples), V)

    def gram(self, features: np.ndarray) -> np.ndarray:
        """N_t on some features, (B, T, m, m), in NumPy: one factor times the other, feature by feature."""
        sensor, sample = self._sensor_and_sample(features)
        over_sensors, over_samples = self._squares
        return over_sensors[..., sensor[:, None], sensor] * over_samples[..., sample[:, None], sample]

    def diagonal(self) -> np.ndarray:
        """The diagonal of N_t, (B, T, d), in NumPy."""
        sensor, sample = self._sensor_and_sample(np.arange(self.n_features))
        over_sensors, over_samples = (np.einsum("btii->bti", square) for square in self._squares)
        return over_sensors[..., sensor] * over_samples[..., sample]

    def bound(self) -> Array:
        """The Frobenius norm of N_t, (B, T): that of a Kronecker product is the product of its factors'."""
        over_sensors, over_samples = (matmul_transposed(part, part) for part in (self.sensors, self.samples))
        return _frobenius(over_sensors) * _frobenius(over_samples)

    def columns(self, features: np.ndarray) -> np.ndarray:
        """Columns of R_t, (B, T, d, m), in NumPy."""
        sensor, sample = self._sensor_and_sample(features)
        sensors, samples = to_numpy(self.sensors)[..., sensor], to_numpy(self.samples)[..., sample]
        out = np.empty((*sensors.shape[:2], self.n_features, len(features)))
        # Column (c, s) of P ⊗ Q is the outer product of column c of P and column s of Q.
        product = sensors[:, :, :, None, :] * samples[:, :, None, :, :]
        out[:, :, self.layout.ravel()] = product.reshape(out.shape)
        return out

    def roots(self) -> Array:
        """R as dense matrices, (B, T, d, d)."""
        xp = namespace(self.sensors)
        (B, T), d = self.sensors.shape[:2], self.n_features
        product = self.sensors[:, :, :, None, :, None] * self.samples[:, :, None, :, None, :]
        dense = xp.reshape(product, (B, T, d, d))
        return self._by_feature(xp.matrix_transpose(self._by_feature(xp.matrix_transpose(dense))))

    def kind(self) -> tuple:
        """What metrics must share so that `join_metrics` takes them."""
        return "kronecker", self.layout.shape, self.layout.tobytes(), self.sensors.shape[1]

    def only(self, sensors: np.ndarray) -> "KroneckerMetric":
        """Return the metric of the features of some sensors alone, in their order; its P is a Cholesky factor."""
        features = self.layout[sensors]
        # the order of the features that are left, counted from 0
        place = np.argsort(np.argsort(features.ravel())).reshape(features.shape)
        # Rows and columns of P'P and not of P: a root of a part is not a part of the root.
        P = np.linalg.cholesky(self._squares[0][..., sensors[:, None], sensors]).swapaxes(-1, -2)
        return KroneckerMetric(place, P, self.samples)

    def inverse_times(self, W: np.ndarray) -> np.ndarray:
        """N_t⁻¹ w_t: (B, T, d, K) → (B, T, d, K)."""
        # N⁻¹ = R⁻¹ R⁻'.
        return self.nearest(self.map(lambda factor: factor.swapaxes(-1, -2)).nearest(W))

    def whiten(self, X: np.ndarray) -> np.ndarray:
        """Return trials z = R⁻'x of the first data set and subject, (n, d): then x·w = z·(R w)."""
        transposed = self.map(lambda factor: factor[:1, :1].swapaxes(-1, -2))
        return transposed.nearest(X.T[None, None])[0, 0].T

    def unwhiten(self, V: np.ndarray) -> np.ndarray:
        """Return coefficients w = R⁻¹v (d, K) of whitened ones, (d, K)."""
        return self.map(lambda factor: factor[:1, :1]).nearest(V[None, None])[0, 0]

    def _product(self, sensors: Array, samples: Array, V: Array) -> Array:
        """(P ⊗ Q) v in the order of the features, (B, T, d, K)."""
        xp = namespace(V)
        B, T, _, K = V.shape
        C, r = self.layout.shape
        # P over the sensors, then Q over the samples: O(d (C + r)) operations per column instead of O(d²).
        inner = xp.matmul(sensors, xp.reshape(self._by_sensor(V), (B, T, C, r * K)))
        both = xp.matmul(samples[:, :, None, ...], xp.reshape(inner, (B, T, C, r, K)))
        return self._by_feature(xp.reshape(both, (B, T, C * r, K)))

    def _by_sensor(self, V: Array) -> Array:
        """Put rows (..., d, K) in the order of the features in that of the layout."""
        if self._in_order:
            return V
        xp = namespace(V)
        return xp.take(V, like(V, self.layout.ravel(), dtype=xp.int64), axis=-2)

    def _by_feature(self, V: Array) -> Array:
        """Put rows (..., d, K) in the order of the layout in that of the features."""
        if self._in_order:
            return V
        xp = namespace(V)
        return xp.take(V, like(V, self._place, dtype=xp.int64), axis=-2)

    def _sensor_and_sample(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.divmod(self._place[features], self.layout.shape[1])

    @cached_property
    def _place(self) -> np.ndarray:
        """Where every feature stands in the layout, (d,)."""
        return np.argsort(self.layout.ravel())

    @cached_property
    def _in_order(self) -> bool:
        return bool((self._place == np.arange(self.n_features)).all())

    @cached_property
    def _squares(self) -> list[np.ndarray]:
        """P'P and Q'Q."""
        return [np.matmul(part.swapaxes(-1, -2), part) for part in map(to_numpy, (self.sensors, self.samples))]


def join_metrics(metrics: Sequence[Metric], axis: int = 0) -> Metric:
    """Return one metric of several of one `Metric.kind`: of all their data sets, or with ``axis=1`` subjects."""
    return metrics[0].join(metrics[1:], axis)


def _frobenius(matrices: Array) -> Array:
    xp = namespace(matrices)
    return xp.sqrt(xp.sum(matrices**2, axis=(-2, -1)))
