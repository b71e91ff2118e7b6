r"""Penalties of many sets of sensors, from one estimate for all sensors.

A classifier of some sensors K has the penalty alpha · ½ w'M w. The noise N of a trial and the expected response
(`ExpectedResponse`, of covariance Q) are estimated from all sensors, and their rows and columns of K are those of K:

.. math:: M_K = N_K \, Q_K^{-1} \, N_K .

This is the penalty of w = N_K⁻¹ d for a response d of covariance Q_K, so that the classifier of few sensors uses what
all of them show about the noise and about the patterns and courses of the response. With all sensors it is that of
``noise="evoked"``.

The covariance of all features takes an eigendecomposition of order C r. Above `MOST_FEATURES` features the penalty is
the structured noise of the sensors in question by themselves, as of ``noise="structured"``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from mixnorm.core.arrays import Array, like, namespace, to_numpy
from mixnorm.core.triangular import backward, cholesky, forward
from mixnorm.noise.evoked import ExpectedResponse
from mixnorm.noise.moments import SensorMoments

#: Features of all sensors above which the penalty is the structured noise alone. An eigendecomposition for every inner
#: and outer fold takes a minute for 128 sensors × 12 samples, and eight times as long for twice as many sensors.
MOST_FEATURES = 1536


class Penalty(Protocol):
    """A matrix M (K r, K r); vectors are given by sensor and sample, (K, r)."""

    def dense(self) -> Array:
        """Return M."""

    def times(self, W: Array) -> Array:
        """Return M times coefficients."""

    def inverse_bound(self, E: NDArray[np.float64]) -> float:
        """Return an upper bound of e'M⁻¹e."""


class Whitening(Protocol):
    """Coordinates z = T'x, w = T v with T T' = M⁻¹: scores x·w = z·v stay, and the penalty w'M w is ‖v‖²."""

    def trials(self, X: Array) -> Array:
        """Return trials (n, d) in these coordinates."""

    def coefficients(self, V: Array) -> Array:
        """Return coefficients (d, k) of the features from those of these coordinates."""


class NestedPenalties(Protocol):
    """The penalties of the first K sensors of an order, for every K."""

    def first(self, K: int) -> Penalty:
        """Return that of the first K."""


class SubsetPenalties(Protocol):
    """The penalties of any sensors, from one estimate.

    ``noise``: the name of the estimate that takes its place where only the sensors in question are known.
    """

    noise: ClassVar[str]

    def whitening(self, sensors: NDArray[np.intp]) -> Whitening:
        """Return the coordinates of some sensors in which the penalty is the identity."""

    def matrix(self, sensors: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return M of some sensors, on the host."""

    def nested(self, order: NDArray[np.intp]) -> NestedPenalties:
        """Return the penalties of the first sensors of an order, on the host."""


def subset_penalties(X: NDArray, signs: NDArray, weights: NDArray, send=lambda array: array) -> SubsetPenalties:
    """Estimate the penalties from training trials; parameters as in `SensorMoments`."""
    moments = SensorMoments(X, signs, weights, send)
    few = X.shape[1] * X.shape[2] <= MOST_FEATURES
    return EvokedSubsets.of(moments) if few else StructuredSubsets(moments)


@dataclass(frozen=True, eq=False)
class EvokedSubsets:
    """M_K = N_K Q_K⁻¹ N_K.

    Attributes
    ----------
    covariance : array of shape (C r, C r)
        N.
    response : array of shape (C r, C r)
        Q, scaled so that M of all sensors has a mean diagonal of 1.
    n_samples : int
        r.
    """

    noise: ClassVar[str] = "evoked"
    covariance: Array = field(repr=False)
    response: Array = field(repr=False)
    n_samples: int

    @classmethod
    def of(cls, moments: SensorMoments) -> EvokedSubsets:
        """Estimate noise and response of all sensors."""
        C, r = moments.difference.shape
        N = moments.structured(slice(0, C)).dense()
        expected = ExpectedResponse.of(N, moments.difference, moments.n_difference / moments.variance)
        return cls(N, expected.covariance() * expected.mean_penalty, r)

    def whitening(self, sensors: NDArray[np.intp]) -> EvokedWhitening:
        """Return the coordinates with T = N_K⁻¹ G, where G G' = Q_K."""
        return EvokedWhitening(*map(cholesky, self._parts(sensors)))

    def matrix(self, sensors: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return M_K, on the host."""
        N, Q = self._parts(sensors)
        half = forward(cholesky(Q), N)
        return to_numpy(namespace(half).matrix_transpose(half) @ half)

    def nested(self, order: NDArray[np.intp]) -> NestedEvoked:
        """Return the penalties of the first sensors of an order, on the host."""
        N, Q = map(to_numpy, self._parts(order))
        return NestedEvoked.of(N, Q, self.n_samples)

    def _parts(self, sensors: NDArray[np.intp]) -> tuple[Array, Array]:
        xp, r = namespace(self.covariance), self.n_samples
        features = (r * np.asarray(sensors)[:, None] + np.arange(r)).ravel()
        places = like(self.covariance, features, dtype=xp.int64)
        N, Q = (xp.take(xp.take(part, places, axis=0), places, axis=1) for part in (self.covariance, self.response))
        return N, Q


@dataclass(frozen=True, eq=False)
class EvokedWhitening:
    """T = N⁻¹ G, with Cholesky factors of the noise N and of the response, G G' = Q."""

    noise_factor: Array = field(repr=False)
    response_factor: Array = field(repr=False)

    def trials(self, X: Array) -> Array:
        """Return X T, (n, d)."""
        return namespace(X).matrix_transpose(self._in_noise(namespace(X).matrix_transpose(X))) @ self.response_factor

    def coefficients(self, V: Array) -> Array:
        """Return T V, (d, k)."""
        return self._in_noise(self.response_factor @ V)

    def _in_noise(self, right: Array) -> Array:
        return backward(self.noise_factor, forward(self.noise_factor, right))


@dataclass(frozen=True, eq=False)
class EvokedPenalty:
    """M = H'H of some sensors, with what its inverse M⁻¹ = N⁻¹ Q N⁻¹ needs.

    Attributes
    ----------
    half : ndarray of shape (d, d)
        H = G⁻¹ N, where G G' = Q.
    noise_root : ndarray of shape (d, d)
        The lower triangular matrix whose product with its transpose, L'L, is N⁻¹.
    response_root : ndarray of shape (d, d)
        G, lower triangular.
    """

    half: NDArray[np.float64] = field(repr=False)
    noise_root: NDArray[np.float64] = field(repr=False)
    response_root: NDArray[np.float64] = field(repr=False)

    def dense(self) -> NDArray[np.float64]:
        """Return M."""
        return self.half.T @ self.half

    def times(self, W: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return M times coefficients given by sensor and sample, (K, r)."""
        return ((self.half @ W.ravel()) @ self.half).reshape(W.shape)

    def inverse_bound(self, E: NDArray[np.float64]) -> float:
        """Return e'M⁻¹e itself, for a vector given by sensor and sample, (K, r)."""
        in_noise = (self.noise_root @ E.ravel()) @ self.noise_root
        part = in_noise @ self.response_root
        return float(part @ part)


@dataclass(frozen=True, eq=False)
class NestedEvoked:
    """The penalties of the first sensors of an order.

    All three matrices of the first K sensors are the leading blocks of those of all: triangular matrices and their
    inverses have this property, and so has G⁻¹ N, since the first rows of G⁻¹ have no entries in later columns.
    """

    whole: EvokedPenalty
    n_samples: int

    @classmethod
    def of(cls, N: NDArray[np.float64], Q: NDArray[np.float64], n_samples: int) -> NestedEvoked:
        """From noise and response of all sensors, in their order."""
        G = cholesky(Q)
        noise_root = forward(cholesky(N), np.eye(len(N)))
        # row by row in memory, so that products with leading blocks need no copy
        matrices = (np.ascontiguousarray(part) for part in (forward(G, N), noise_root, G))
        return cls(EvokedPenalty(*matrices), n_samples)

    def first(self, K: int) -> EvokedPenalty:
        """Return the penalty of the first K sensors."""
        d, whole = K * self.n_samples, self.whole
        return EvokedPenalty(*(part[:d, :d] for part in (whole.half, whole.noise_root, whole.response_root)))


@dataclass(frozen=True, eq=False)
class StructuredSubsets:
    """The structured noise of the sensors in question by themselves."""

    noise: ClassVar[str] = "structured"
    moments: SensorMoments

    def whitening(self, sensors: NDArray[np.intp]) -> StructuredWhitening:
        """Return the coordinates with T = L'⁻¹, where L L' = N_K."""
        return StructuredWhitening(cholesky(self.moments.structured(sensors).dense()))

    def matrix(self, sensors: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return N_K, on the host."""
        return to_numpy(self.moments.structured(sensors).dense())

    def nested(self, order: NDArray[np.intp]) -> NestedStructured:
        """Return the penalties of the first sensors of an order."""
        return NestedStructured(self.moments.in_order(order))


@dataclass(frozen=True, eq=False)
class StructuredWhitening:
    """T = L'⁻¹, with a Cholesky factor of the noise, L L' = N."""

    noise_factor: Array = field(repr=False)

    def trials(self, X: Array) -> Array:
        """Return X T, (n, d)."""
        xp = namespace(X)
        return xp.matrix_transpose(forward(self.noise_factor, xp.matrix_transpose(X)))

    def coefficients(self, V: Array) -> Array:
        """Return T V, (d, k)."""
        return backward(self.noise_factor, V)


@dataclass(frozen=True, eq=False)
class NestedStructured:
    """The structured noise of the first sensors of an order; products with it form no matrix."""

    moments: SensorMoments

    def first(self, K: int) -> Penalty:
        """Return the noise of the first K sensors."""
        return self.moments.structured(slice(0, K))
