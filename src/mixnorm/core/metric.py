r"""Metrics: positive definite matrices N_t = R_t'R_t of every subject, by which classifiers are measured.

Subjects may be compared, and penalised, in coordinates of their own, v_t = R_t w_t, so that ‖v_t‖² = w_t'N_t w_t. A
metric holds the roots R_t, dense or as Kronecker products of a matrix over sensors and one over samples, and knows how
to apply them; no product of factors is ever formed unless somebody asks for the dense root. Every metric of a stack
has one root for each data set and subject; a fold that needs a metric of its own is a data set of its own. None stands
for the identity.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Protocol

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

    def gram(self, features: np.ndarray) -> np.ndarray:
        """N_t on some features, (B, T, m, m), in NumPy."""

    def roots(self) -> Array:
        """R as dense matrices, (B, T, D, d)."""

    def take(self, rows: Array) -> "Metric":
        """Return the metric of some of the data sets."""

    def map(self, function: Callable[[Array], Array]) -> "Metric":
        """Return the metric with a function applied to its arrays (that sends them to a device, say)."""

    def arrays(self) -> list[Array]:
        """The arrays that define the metric: equal arrays, equal metrics."""


class _Arrays:
    """What both kinds of metric do with the arrays that they hold."""

    def map(self, function: Callable[[Array], Array]) -> "Metric":
        """Return the metric with a function applied to its arrays."""
        names = [f.name for f in fields(self) if f.name != "layout"]
        return replace(self, **{name: function(getattr(self, name)) for name in names})

    def take(self, rows: Array) -> "Metric":
        """Return the metric of some of the data sets."""
        return self.map(lambda array: namespace(array).take(array, rows, axis=0))

    def arrays(self) -> list[Array]:
        """The arrays that define the metric."""
        return [getattr(self, f.name) for f in fields(self)]


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
        return cls(np.linalg.cholesky(covariance).T[None, None])

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

    def gram(self, features: np.ndarray) -> np.ndarray:
        """N_t on some features, (B, T, m, m), in NumPy."""
        own = to_numpy(self.root)[..., features]
        return np.matmul(own.swapaxes(-1, -2), own)

    def roots(self) -> Array:
        """R as dense matrices, (B, T, D, d)."""
        return self.root

    def whiten(self, X: np.ndarray) -> np.ndarray:
        """Return trials z = R⁻'x of the first data set and subject, (n, d): then x·w = z·(R w). R is triangular."""
        return solve_triangular(self.root[0, 0], X.T, trans="T", check_finite=False).T

    def unwhiten(self, V: np.ndarray) -> np.ndarray:
        """Return coefficients w = R⁻¹v (d, K) of whitened ones, (d, K). R is triangular."""
        return solve_triangular(self.root[0, 0], V, check_finite=False)


@dataclass(frozen=True, eq=False)
class KroneckerMetric(_Arrays):
    """Roots R_t = P_t ⊗ Q_t of a matrix over C sensors and one over r samples, both symmetric.

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
        """R_t w_t, sensor by sensor: (B, T, d, K) → (B, T, d, K)."""
        return self._both(self._by_sensor(W), self.sensors, self.samples)

    def adjoint(self, V: Array) -> Array:
        """R_t'v_t of what `apply` returns: (B, T, d, K) → (B, T, d, K)."""
        xp = namespace(V)
        transposed = xp.matrix_transpose(self.sensors), xp.matrix_transpose(self.samples)
        out = self._both(V, *transposed)
        return xp.take(out, like(V, np.argsort(self.layout.ravel()), dtype=xp.int64), axis=-2)

    def gram(self, features: np.ndarray) -> np.ndarray:
        """N_t on some features, (B, T, m, m), in NumPy: one factor times the other, feature by feature."""
        place = np.empty(self.layout.size, dtype=int)
        place[self.layout.ravel()] = np.arange(self.layout.size)
        sensor, sample = np.divmod(place[features], self.layout.shape[1])
        squares = [np.matmul(part.swapaxes(-1, -2), part) for part in map(to_numpy, (self.sensors, self.samples))]
        return squares[0][..., sensor[:, None], sensor] * squares[1][..., sample[:, None], sample]

    def roots(self) -> Array:
        """R as dense matrices, (B, T, d, d); rows sensor by sensor, columns in the order of the features."""
        xp = namespace(self.sensors)
        B, T, *_ = self.sensors.shape
        d = self.layout.size
        product = self.sensors[:, :, :, None, :, None] * self.samples[:, :, None, :, None, :]
        columns = like(self.sensors, np.argsort(self.layout.ravel()), dtype=xp.int64)
        return xp.take(xp.reshape(product, (B, T, d, d)), columns, axis=-1)

    def whiten(self, X: np.ndarray) -> np.ndarray:
        """Return trials z = R⁻'x of the first data set and subject, (n, d): then x·w = z·(R w)."""
        shape = X.shape[0], *self.layout.shape
        inner = np.linalg.solve(self.sensors[0, 0].T, X[:, self.layout.ravel()].reshape(shape))
        return np.matmul(inner, np.linalg.inv(self.samples[0, 0])).reshape(X.shape)

    def unwhiten(self, V: np.ndarray) -> np.ndarray:
        """Return coefficients w = R⁻¹v (d, K) of whitened ones, (d, K)."""
        C, r = self.layout.shape
        inner = np.linalg.solve(self.sensors[0, 0], V.reshape(C, -1)).reshape(C, r, -1)
        out = np.empty_like(V)
        out[self.layout.ravel()] = np.matmul(np.linalg.inv(self.samples[0, 0]), inner).reshape(V.shape)
        return out

    def _by_sensor(self, W: Array) -> Array:
        xp = namespace(W)
        return xp.take(W, like(W, self.layout.ravel(), dtype=xp.int64), axis=-2)

    def _both(self, V: Array, sensors: Array, samples: Array) -> Array:
        """(P ⊗ Q) v for v (B, T, C r, K) sensor by sensor."""
        xp = namespace(V)
        B, T, _, K = V.shape
        C, r = self.layout.shape
        inner = xp.reshape(xp.matmul(sensors, xp.reshape(V, (B, T, C, r * K))), (B, T, C, r, K))
        return xp.reshape(xp.matmul(samples[:, :, None, ...], inner), (B, T, C * r, K))


def join_metrics(metrics: Sequence[Metric]) -> Metric:
    """Return the metric of several stacks of one data set each, put below each other."""
    first = metrics[0]
    names = [f.name for f in fields(first) if f.name != "layout"]
    return replace(first, **{n: np.concatenate([getattr(metric, n) for metric in metrics]) for n in names})
