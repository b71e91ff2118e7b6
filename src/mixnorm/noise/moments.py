"""Structured covariances of many sets of sensors, from one matrix of second moments."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mixnorm.core.arrays import Array, like, namespace
from mixnorm.noise.kronecker import WHITE_SHARE as KRONECKER_SHARE
from mixnorm.noise.residuals import residuals
from mixnorm.noise.toeplitz import WHITE_SHARE as TOEPLITZ_SHARE


@dataclass(frozen=True, eq=False)
class StructuredCovariance:
    r"""N = ½ (R ⊗ S + T), as `structured` estimates it, by its factors and lags: products with N form no matrix.

    Attributes
    ----------
    sensors : array of shape (C, C)
        R.
    samples : array of shape (r, r)
        S.
    sensors_inverse : array of shape (C, C)
        R⁻¹.
    lags : array of shape (r, C, C)
        Covariances between sensors at every lag, in T.
    white : float
        Share of white noise in T.
    """

    sensors: Array = field(repr=False)
    samples: Array = field(repr=False)
    sensors_inverse: Array = field(repr=False)
    lags: Array = field(repr=False)
    white: float

    def dense(self) -> Array:
        """Return N (C r, C r), sensor by sensor."""
        xp, (r, C, _) = namespace(self.lags), self.lags.shape
        N = xp.reshape(_block_toeplitz(self.lags), (C, r, C, r))
        N = xp.reshape((N + self.sensors[:, None, :, None] * self.samples[None, :, None, :]) / 2, (C * r, C * r))
        return N + self.white / 2 * xp.eye(C * r, dtype=N.dtype, device=N.device)

    def add_product(self, matrix: NDArray[np.float64], factor: float) -> None:
        """Add R ⊗ S, times a factor, to a matrix (C r, C r) on the host."""
        C, r = len(self.sensors), len(self.samples)
        matrix.reshape(C, r, C, r)[...] += self.sensors[:, None, :, None] * (factor * self.samples)[:, None, :]

    def times(self, W: Array) -> Array:
        """Return N times coefficients given by sensor and sample, (C, r)."""
        r = len(self.lags)
        product = self.sensors @ (W @ self.samples)
        product += self.white * W
        product += self.lags[0] @ W
        for lag in range(1, r):
            product[:, : r - lag] += self.lags[lag] @ W[:, lag:]
            product[:, lag:] += self.lags[lag].T @ W[:, : r - lag]
        product /= 2
        return product

    def inverse_bound(self, E: NDArray[np.float64]) -> float:
        """Return an upper bound of e'N⁻¹e for a vector given by sensor and sample, (C, r).

        N is at least ½ R ⊗ S, because T is positive definite; so e'N⁻¹e ≤ 2 e'(R ⊗ S)⁻¹e.
        """
        return 2 * float(np.sum((self.sensors_inverse @ E) * np.linalg.solve(self.samples, E.T).T))


class SensorMoments:
    r"""Second moments of the residuals of training trials, from which the noise of any of their sensors follows.

    With :math:`C_{st} = \sum_i p_i e_{is} e_{it}'` (C, C) between the samples s and t, the factors of `kronecker` and
    the lags of `toeplitz` are :math:`R = \frac1r \sum_s C_{ss}`,
    :math:`S_{st} = \frac1K \operatorname{trace}(R^{-1} C_{st})` and :math:`B_l = \frac1r \sum_s C_{s,s+l}`, each on
    the K sensors in question. The moments cost O(n C² r²) once, an estimate then O(K³ + K² r²) instead of
    O(n K² r²). The estimate is that of the K sensors alone: the others have no part in it.

    Parameters
    ----------
    X : array of shape (n, C, r)
        Training trials, on the device on which estimates are computed.
    signs : ndarray of shape (n,)
        Class of every trial, −1 or 1; at least two trials of each.
    weights : ndarray of shape (n,)
        Sample weights.

    Attributes
    ----------
    difference : array of shape (C, r)
        Mean of the second class minus mean of the first.
    n_difference : float
        As in `residuals`: how many times smaller than `variance` the variance of the noise in the difference is.
    """

    def __init__(self, X: Array, signs: NDArray, weights: NDArray) -> None:
        xp, (n, C, r) = namespace(X), X.shape
        found = residuals(xp.reshape(X, (n, C * r)), signs, weights)
        weighted = like(found.trials, np.sqrt(found.weights)[:, None]) * found.trials
        self.difference, self.n_difference = xp.reshape(found.difference, (C, r)), found.n_difference
        moments = xp.reshape(xp.matrix_transpose(weighted) @ weighted, (C, r, C, r))
        # a pair of samples at a time is contiguous, and half of the pairs are enough: S is symmetric
        self._pairs = np.triu_indices(r)
        places = np.zeros((r, r), dtype=np.int64)
        places[self._pairs] = places.T[self._pairs] = np.arange(len(self._pairs[0]))
        self._places = places.ravel()  # the pair of every entry of S
        self._moments = xp.stack([moments[:, s, :, t] for s, t in zip(*self._pairs, strict=True)])
        lag = self._pairs[1] - self._pairs[0]
        self._lags = xp.stack(
            [xp.sum(self._moments[np.flatnonzero(lag == step).tolist()], axis=0) / r for step in range(r)]
        )

    @property
    def variance(self) -> float:
        """Mean square of the residuals, over all sensors and samples."""
        return float(namespace(self._lags).linalg.trace(self._lags[0])) / self._lags.shape[1]

    def in_order(self, sensors: NDArray[np.intp]) -> SensorMoments:
        """Return the moments of some sensors, in the order in which they are given."""
        part = copy.copy(self)
        part._moments, part._lags = _principal(self._moments, sensors), _principal(self._lags, sensors)
        part.difference = _rows(self.difference, sensors)
        return part

    def structured(self, sensors: slice | NDArray[np.intp]) -> StructuredCovariance:
        """Estimate the noise of some sensors, in the order in which they are given."""
        lags, moments = (_principal(part, sensors) for part in (self._lags, self._moments))
        xp, (r, K, _) = namespace(lags), lags.shape
        variance = xp.linalg.trace(lags[0]) / K
        if not float(variance) > 0:
            raise ValueError(
                "The noise of a montage cannot be estimated, because its electrodes are constant in the training "
                "trials of each class. Leave out electrodes that are flat in a part of the recording, or that show "
                "the labels."
            )
        unit = xp.eye(K, dtype=lags.dtype, device=lags.device)
        # the covariance between sensors is the one at lag 0, with white noise as `kronecker` adds it
        R = (1 - KRONECKER_SHARE) / variance * lags[0] + KRONECKER_SHARE * unit
        inverse = xp.linalg.inv(R)
        # S_st = tr(R⁻¹ M_st)/C with M_st the moments between the samples s and t, since R⁻¹ is symmetric; the factor
        # 1/C is lost in the scaling.
        traces = xp.reshape(moments, (moments.shape[0], K * K)) @ xp.reshape(inverse, (K * K,))
        S = xp.reshape(xp.take(traces, like(traces, self._places, dtype=xp.int64)), (r, r))
        # Scaled to a mean diagonal of 1 first; then white noise of a mean diagonal of 1 keeps it.
        S = (1 - KRONECKER_SHARE) * S / (xp.linalg.trace(S) / r)
        S = S + KRONECKER_SHARE * xp.eye(r, dtype=S.dtype, device=S.device)
        return StructuredCovariance(R, S, inverse, (1 - TOEPLITZ_SHARE) / variance * lags, TOEPLITZ_SHARE)

    def lagged(self, sensors: slice | NDArray[np.intp]) -> Array:
        """Return the block-Toeplitz matrix (K r, K r) of the lags of some sensors, sensor by sensor."""
        return _block_toeplitz(_principal(self._lags, sensors))

    def sample(self, sensors: slice | NDArray[np.intp]) -> Array:
        """Return the sample covariance (K r, K r) of some sensors, sensor by sensor."""
        moments = _principal(self._moments, sensors)
        xp, K, r = namespace(moments), moments.shape[1], len(self._lags)
        blocks = xp.zeros((r, r, K, K), dtype=moments.dtype, device=moments.device)
        for pair, (s, t) in enumerate(zip(*self._pairs, strict=True)):
            blocks[s, t], blocks[t, s] = moments[pair], moments[pair].T
        return xp.reshape(xp.permute_dims(blocks, (2, 0, 3, 1)), (K * r, K * r))


def _block_toeplitz(lags: Array) -> Array:
    """The matrix (C r, C r), sensor by sensor, of covariances between sensors at every lag, (r, C, C)."""
    xp, (r, C, _) = namespace(lags), lags.shape
    # B_l for l = 1 − r … r − 1; a negative lag exchanges the sensors
    both = xp.concat([xp.matrix_transpose(xp.flip(lags[1:], axis=0)), lags])
    lag = r - 1 + np.arange(r) - np.arange(r)[:, None]
    blocks = xp.take(both, like(both, lag.ravel(), dtype=xp.int64), axis=0)
    return xp.reshape(xp.permute_dims(xp.reshape(blocks, (r, r, C, C)), (2, 0, 3, 1)), (C * r, C * r))


def _principal(matrices: Array, sensors: slice | NDArray[np.intp]) -> Array:
    """The rows and columns of some sensors of matrices (m, C, C); a slice gives a view."""
    if isinstance(sensors, slice):
        return matrices[:, sensors, sensors]
    xp = namespace(matrices)
    places = like(matrices, sensors, dtype=xp.int64)
    return xp.take(xp.take(matrices, places, axis=1), places, axis=2)


def _rows(matrix: Array, sensors: NDArray[np.intp]) -> Array:
    xp = namespace(matrix)
    return xp.take(matrix, like(matrix, sensors, dtype=xp.int64), axis=0)
