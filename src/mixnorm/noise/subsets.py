r"""Penalties of many sets of sensors, from one estimate for all sensors.

A classifier of some sensors K has the penalty alpha · ½ w'M w. The noise N of a trial and the expected response
(`ExpectedResponse`, of covariance Q) are estimated from all sensors, and their rows and columns of K are those of K:

.. math:: M_K = N_K \, Q_K^{-1} \, N_K .

This is the penalty of w = N_K⁻¹ d for a response d of covariance Q_K, so that the classifier of few sensors uses what
all of them show about the noise and about the patterns and courses of the response. With all sensors it is that of
``noise="evoked"``.

Montages are the first K sensors of an order. With Cholesky factors N = L L' and Q = G G' of all sensors in this order,

.. math:: M_K^{-1} = T_K T_K', \qquad T_K = (L^{-1})_K' \, (L^{-1} G)_K ,

because products and inverses of lower triangular matrices have those of leading blocks as leading blocks. So two
factorisations serve all K, and the trials X T_K of each K are one product of a part of X L'⁻¹.

The covariance of all features takes an eigendecomposition of order C r. Above `MOST_FEATURES` features the penalty is
the structured noise of the sensors in question by themselves, as of ``noise="structured"``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from mixnorm.core.arrays import Array, like, namespace, to_numpy
from mixnorm.core.triangular import backward, cholesky, forward, inverse, times
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


class NestedTrials(Protocol):
    """Trials of the first K sensors of an order, for every K, in coordinates where their penalty is the identity."""

    @property
    def values(self) -> Array:
        """The trials of all sensors, (n, C r), in other coordinates."""

    def first(self, K: int) -> tuple[Whitening, Array]:
        """Return the coordinates of the first K, and the trials (n, K r) in them."""


class NestedPenalties(Protocol):
    """The penalties of the first K sensors of an order, for every K."""

    def first(self, K: int) -> Penalty:
        """Return that of the first K, on the host."""

    def whitened(self, X: Array) -> NestedTrials:
        """Return trials (n, C, r) of the sensors in this order, to be taken in coordinates of any K."""


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
        """Return the penalties of the first sensors of an order."""


def subset_penalties(X: Array, signs: NDArray, weights: NDArray) -> SubsetPenalties:
    """Estimate the penalties from training trials; parameters as in `SensorMoments`."""
    moments = SensorMoments(X, signs, weights)
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
        L, G = map(cholesky, self._parts(sensors))
        # white noise bounds the condition of N, so that the inverse is accurate
        root = inverse(L)
        return EvokedWhitening(root, times(root, G))

    def matrix(self, sensors: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return M_K, on the host."""
        N, Q = self._parts(sensors)
        half = forward(cholesky(Q), N)
        return to_numpy(namespace(half).matrix_transpose(half) @ half)

    def nested(self, order: NDArray[np.intp]) -> NestedEvoked:
        """Return the penalties of the first sensors of an order."""
        return NestedEvoked(self.whitening(order), self.n_samples)

    def _parts(self, sensors: NDArray[np.intp]) -> tuple[Array, Array]:
        xp, r = namespace(self.covariance), self.n_samples
        features = (r * np.asarray(sensors)[:, None] + np.arange(r)).ravel()
        places = like(self.covariance, features, dtype=xp.int64)
        N, Q = (xp.take(xp.take(part, places, axis=0), places, axis=1) for part in (self.covariance, self.response))
        return N, Q


@dataclass(frozen=True, eq=False)
class EvokedWhitening:
    """T = L'⁻¹ (L⁻¹ G), with Cholesky factors of the noise, L L' = N, and of the response, G G' = Q.

    Attributes
    ----------
    noise_root : array of shape (d, d)
        L⁻¹, lower triangular.
    response_root : array of shape (d, d)
        L⁻¹ G, lower triangular: a root of the response in coordinates where the noise is the identity.
    """

    noise_root: Array = field(repr=False)
    response_root: Array = field(repr=False)

    def trials(self, X: Array) -> Array:
        """Return X T, (n, d)."""
        return times(times(X, self.noise_root, transpose=True), self.response_root)

    def coefficients(self, V: Array) -> Array:
        """Return T V, (d, k)."""
        return namespace(V).matrix_transpose(self.noise_root) @ (self.response_root @ V)

    def first(self, d: int) -> EvokedWhitening:
        """Return the coordinates of the first d features."""
        return EvokedWhitening(self.noise_root[:d, :d], self.response_root[:d, :d])


@dataclass(frozen=True, eq=False)
class EvokedPenalty:
    """M = H'H of some sensors, with T = H⁻¹, for which T T' = M⁻¹.

    Attributes
    ----------
    half : ndarray of shape (d, d)
        H.
    whitening : EvokedWhitening
        T.
    """

    half: NDArray[np.float64] = field(repr=False)
    whitening: EvokedWhitening = field(repr=False)

    def dense(self) -> NDArray[np.float64]:
        """Return M."""
        return self.half.T @ self.half

    def times(self, W: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return M times coefficients given by sensor and sample, (K, r)."""
        return ((self.half @ W.ravel()) @ self.half).reshape(W.shape)

    def inverse_bound(self, E: NDArray[np.float64]) -> float:
        """Return e'M⁻¹e itself, for a vector given by sensor and sample, (K, r)."""
        part = (self.whitening.noise_root @ E.ravel()) @ self.whitening.response_root
        return float(part @ part)


@dataclass(frozen=True, eq=False)
class NestedEvoked:
    """The penalties of the first sensors of an order, from the coordinates of all sensors in this order.

    The matrices of the first K sensors are the leading blocks of those of all: triangular matrices and their inverses
    have this property, and so has H = (L⁻¹ G)⁻¹ L', since the first rows of a lower triangular matrix have no entries
    in later columns, and neither have the later rows of L' in the first columns.
    """

    whole: EvokedWhitening
    n_samples: int

    def first(self, K: int) -> EvokedPenalty:
        """Return the penalty of the first K sensors, on the host."""
        d = K * self.n_samples
        return EvokedPenalty(self._penalty.half[:d, :d], self._penalty.whitening.first(d))

    def whitened(self, X: Array) -> EvokedTrials:
        """Return trials (n, C, r) of the sensors in this order, to be taken in coordinates of any K."""
        return EvokedTrials(times(_flat(X), self.whole.noise_root, transpose=True), self.whole, self.n_samples)

    @cached_property
    def _penalty(self) -> EvokedPenalty:
        """The penalty of all sensors; row by row in memory, so that products with leading blocks need no copy."""
        roots = map(to_numpy, (self.whole.noise_root, self.whole.response_root))
        whole = EvokedWhitening(*map(np.ascontiguousarray, roots))
        half = forward(whole.response_root, inverse(whole.noise_root).T)
        return EvokedPenalty(np.ascontiguousarray(half), whole)


@dataclass(frozen=True, eq=False)
class EvokedTrials:
    """Trials of the first sensors of an order in coordinates in which their penalty is the identity.

    Attributes
    ----------
    values : array of shape (n, C r)
        X L'⁻¹, of which the first K r columns are those of the first K sensors.
    whole : EvokedWhitening
        Coordinates of all sensors.
    n_samples : int
    """

    values: Array = field(repr=False)
    whole: EvokedWhitening
    n_samples: int

    def first(self, K: int) -> tuple[EvokedWhitening, Array]:
        """Return the coordinates of the first K sensors, and the trials (n, K r) in them."""
        own = self.whole.first(K * self.n_samples)
        return own, times(self.values[:, : K * self.n_samples], own.response_root)


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

    def whitened(self, X: Array) -> StructuredTrials:
        """Return trials (n, C, r) of the sensors in this order, to be taken in coordinates of any K."""
        return StructuredTrials(_flat(X), self, X.shape[2])


@dataclass(frozen=True, eq=False)
class StructuredTrials:
    """Trials of the first sensors of an order; the noise is factorised for each K.

    The noise of K sensors is no part of that of more sensors, because it is estimated from the K sensors alone.

    Attributes
    ----------
    values : array of shape (n, C r)
        The trials of all sensors.
    penalties : NestedStructured
    n_samples : int
    """

    values: Array = field(repr=False)
    penalties: NestedStructured
    n_samples: int

    def first(self, K: int) -> tuple[StructuredWhitening, Array]:
        """Return the coordinates of the first K sensors, and the trials (n, K r) in them."""
        whitening = StructuredWhitening(cholesky(self.penalties.first(K).dense()))
        return whitening, whitening.trials(self.values[:, : K * self.n_samples])


def _flat(X: Array) -> Array:
    n, C, r = X.shape
    return namespace(X).reshape(X, (n, C * r))
