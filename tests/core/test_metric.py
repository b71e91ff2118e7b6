"""Metrics against dense matrices made with np.kron, features in any order."""

import array_api_strict
import numpy as np
import pytest

from mixnorm.core.arrays import to_numpy
from mixnorm.core.metric import DenseMetric, KroneckerMetric, join_metrics

B, T, C, R, K = 2, 3, 4, 3, 2
D = C * R
LIBRARIES = [pytest.param(np.array, id="numpy"), pytest.param(array_api_strict.asarray, id="array-api-strict")]
every_library = pytest.mark.parametrize("asarray", LIBRARIES)
LAYOUTS = {"in order": np.arange(D), "scrambled": np.random.default_rng(7).permutation(D)}
every_layout = pytest.mark.parametrize("order", LAYOUTS)


def factors(seed=0):
    """P (B, T, C, C) and Q (B, T, r, r), neither symmetric."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(B, T, C, C)), rng.normal(size=(B, T, R, R))


def kronecker(order, seed=0):
    """A Kronecker metric and its roots by np.kron, rows and columns put in the order of the features."""
    sensors, samples = factors(seed)
    feature = LAYOUTS[order]
    roots = np.empty((B, T, D, D))
    for place in np.ndindex(B, T):
        roots[place][np.ix_(feature, feature)] = np.kron(sensors[place], samples[place])
    return KroneckerMetric(feature.reshape(C, R), sensors, samples), roots


def dense(seed=0):
    """A dense metric whose roots are not square."""
    roots = np.random.default_rng(seed).normal(size=(B, T, D + 2, D))
    return DenseMetric(roots), roots


METRICS = {
    "dense": dense,
    **{f"kronecker {order}": lambda order=order, **how: kronecker(order, **how) for order in LAYOUTS},
}
every_metric = pytest.mark.parametrize("name", METRICS)


@every_library
@every_metric
def test_apply_and_adjoint_are_products_with_the_dense_roots(name, asarray):
    metric, roots = METRICS[name]()
    rng = np.random.default_rng(1)
    W, V = rng.normal(size=(B, T, D, K)), rng.normal(size=(B, T, roots.shape[2], K))
    there = metric.map(asarray)
    np.testing.assert_allclose(to_numpy(there.apply(asarray(W))), roots @ W, atol=1e-12)
    np.testing.assert_allclose(to_numpy(there.adjoint(asarray(V))), roots.swapaxes(-1, -2) @ V, atol=1e-12)
    np.testing.assert_allclose(to_numpy(there.roots()), roots, atol=1e-13)
    assert metric.n_features == D


@every_library
@every_metric
def test_gram_matrix_diagonal_columns_and_bound(name, asarray):
    metric, roots = METRICS[name]()
    N = roots.swapaxes(-1, -2) @ roots
    there, some = metric.map(asarray), np.array([5, 0, 11])
    np.testing.assert_allclose(there.gram(some), N[..., some[:, None], some], atol=1e-12)
    np.testing.assert_allclose(there.diagonal(), np.einsum("btii->bti", N), atol=1e-12)
    np.testing.assert_allclose(there.columns(some), roots[..., some], atol=1e-13)
    bound = to_numpy(there.bound())
    np.testing.assert_allclose(bound, np.linalg.norm(N, axis=(-2, -1)), rtol=1e-12)
    assert np.all(bound >= np.linalg.eigvalsh(N)[..., -1])


@every_metric
def test_nearest_is_the_least_squares_solution(name):
    metric, roots = METRICS[name]()
    V = np.random.default_rng(2).normal(size=(B, T, roots.shape[2], K))
    found = metric.nearest(V)
    np.testing.assert_allclose(found, np.linalg.pinv(roots) @ V, rtol=1e-8, atol=1e-8)


@every_metric
def test_data_sets_are_taken_joined_and_kept(name):
    metric, roots = METRICS[name]()
    np.testing.assert_allclose(metric.take(np.array([1])).roots(), roots[1:], atol=1e-13)
    assert metric.data_set(1) is metric.data_set(1)
    np.testing.assert_allclose(metric.data_set(1).roots(), roots[1:], atol=1e-13)
    other, other_roots = METRICS[name](seed=3)
    assert metric.kind() == other.kind()
    np.testing.assert_allclose(join_metrics([metric, other]).roots(), np.concatenate([roots, other_roots]), atol=1e-13)
    joined = join_metrics([metric, other], axis=1)
    np.testing.assert_allclose(joined.roots(), np.concatenate([roots, other_roots], axis=1), atol=1e-13)


def test_metrics_that_cannot_be_joined_are_of_different_kinds():
    kinds = [METRICS[name]()[0].kind() for name in METRICS]
    one_subject = [METRICS[name]()[0].map(lambda array: array[:, :1]).kind() for name in METRICS]
    assert len({*kinds, *one_subject}) == 2 * len(METRICS)


@every_metric
def test_equal_arrays_mean_equal_metrics(name):
    metric, same, other = METRICS[name]()[0], METRICS[name]()[0], METRICS[name](seed=3)[0]
    content = [[np.asarray(array).tobytes() for array in one.arrays()] for one in (metric, same, other)]
    assert content[0] == content[1] != content[2]


@every_layout
def test_the_metric_of_some_sensors_alone(order):
    metric, roots = kronecker(order)
    sensors = np.array([0, 2, 3])
    features = np.sort(LAYOUTS[order].reshape(C, R)[sensors].ravel())
    N = (roots.swapaxes(-1, -2) @ roots)[..., features[:, None], features]
    own = metric.only(sensors)
    found = own.roots()
    np.testing.assert_allclose(found.swapaxes(-1, -2) @ found, N, atol=1e-11)
    W = np.random.default_rng(5).normal(size=(B, T, len(features), K))
    np.testing.assert_allclose(own.inverse_times(N @ W), W, rtol=1e-6, atol=1e-6)


@every_layout
def test_scores_of_whitened_trials_are_the_scores(order):
    rng = np.random.default_rng(4)
    metric, roots = kronecker(order)
    covariance = roots[0, 0].T @ roots[0, 0]
    X, W = rng.normal(size=(5, D)), rng.normal(size=(D, K))
    for one in (metric, DenseMetric.of_covariance(covariance)):
        V = one.roots()[0, 0] @ W
        np.testing.assert_allclose(V.T @ V, W.T @ covariance @ W, rtol=1e-9)
        np.testing.assert_allclose(one.whiten(X) @ V, X @ W, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(one.unwhiten(V), W, rtol=1e-7, atol=1e-9)
