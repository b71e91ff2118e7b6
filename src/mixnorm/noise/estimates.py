"""The estimates by name, as matrices and as metrics."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mixnorm.core.groups import Groups
from mixnorm.core.metric import DenseMetric, KroneckerMetric
from mixnorm.noise.evoked import evoked
from mixnorm.noise.kronecker import kronecker
from mixnorm.noise.residuals import Residuals, residuals
from mixnorm.noise.shrunk import shrunk
from mixnorm.noise.structured import structured
from mixnorm.noise.toeplitz import toeplitz

_BY_SENSOR: dict[str, Callable[[NDArray, NDArray], NDArray[np.float64]]] = {
    "structured": structured,
    "kronecker": lambda trials, weights: kronecker(trials, weights).dense(),
    "toeplitz": toeplitz,
}
#: Names of the estimates; all but "shrunk" need the same samples of every sensor.
NOISES = (*_BY_SENSOR, "evoked", "shrunk")


def estimate(
    name: str, X: NDArray, signs: NDArray, weights: NDArray, layout: NDArray[np.intp] | None
) -> DenseMetric | KroneckerMetric:
    """Estimate the noise from training trials, as a metric w'N w = ‖R w‖² of mean diagonal 1.

    Parameters
    ----------
    name : {"structured", "kronecker", "toeplitz", "evoked", "shrunk"}
    X : ndarray of shape (n, d)
        Training trials.
    signs : ndarray of shape (n,)
        Class of every trial, −1 or 1; at least two trials of each.
    weights : ndarray of shape (n,)
        Sample weights, without class weights.
    layout : ndarray of shape (C, r) or None
        The features of every sensor in order of time (`layout_for`); "shrunk" does without.

    Returns
    -------
    KroneckerMetric or DenseMetric
        With symmetric roots of both factors for "kronecker", with a Cholesky factor for the others.
    """
    noise = residuals(X, signs, weights)
    if name != "kronecker":
        return DenseMetric.of_covariance(_dense(name, noise, layout))
    layout = _given(name, layout)
    factors = kronecker(noise.by_sensor(layout), noise.weights)
    # Symmetric roots do not depend on the order of the sensors and samples, as Cholesky factors would.
    return KroneckerMetric(layout, _root(factors.sensors)[None, None], _root(factors.samples)[None, None])


def covariance(
    name: str, X: NDArray, signs: NDArray, weights: NDArray, layout: NDArray[np.intp] | None
) -> NDArray[np.float64]:
    """Estimate the noise as a matrix N (d, d) in the order of the features; parameters as in `estimate`."""
    return _dense(name, residuals(X, signs, weights), layout)


def layout_for(name: str, groups: Groups) -> NDArray[np.intp] | None:
    """Return the layout (C, r) that an estimate needs, or None where it needs none; refuse sensors of unequal size."""
    # Where sensors are of equal size, "shrunk" gets a layout too, and does not use it.
    if name == "shrunk" or groups.layout is not None:
        return groups.layout
    labels, sizes = groups.labels.tolist(), groups.sizes
    other = int(np.flatnonzero(sizes != sizes[0])[0])
    raise ValueError(
        f"noise={name!r} needs the same samples of every sensor, but sensor {labels[0]!r} has {sizes[0]} and sensor "
        f"{labels[other]!r} has {sizes[other]}. Use noise='shrunk', which does not, or the same samples of each."
    )


def _dense(name: str, noise: Residuals, layout: NDArray[np.intp] | None) -> NDArray[np.float64]:
    if name == "shrunk":
        return shrunk(noise.trials, noise.weights)
    layout = _given(name, layout)
    trials = noise.by_sensor(layout)
    if name == "evoked":
        N = evoked(trials, noise.weights, noise.difference[layout], noise.n_difference)
    else:
        N = _BY_SENSOR[name](trials, noise.weights)
    return _in_order_of_features(N, layout)


def _given(name: str, layout: NDArray[np.intp] | None) -> NDArray[np.intp]:
    if name not in NOISES:
        raise ValueError(f"Invalid value for the 'noise' parameter. Allowed values are {NOISES}, but got {name!r}.")
    if layout is None:
        raise ValueError(f"noise={name!r} needs the same samples of every sensor. Use noise='shrunk', which does not.")
    return layout


def _in_order_of_features(N: NDArray[np.float64], layout: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return N, given sensor by sensor, with rows and columns in the order of the features."""
    place = np.argsort(layout, axis=None)
    return N if (np.diff(place) == 1).all() else N[np.ix_(place, place)]


def _root(factor: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the symmetric square root of a positive definite matrix."""
    values, vectors = np.linalg.eigh(factor)
    return (vectors * np.sqrt(values)) @ vectors.T
