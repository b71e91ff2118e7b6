"""Promises of all named estimates: positive definite, equivariant, weights that count, matrix and metric that agree."""

import numpy as np
import pytest

import noise_reference as reference
from mixnorm.core.groups import Groups
from mixnorm.core.metric import DenseMetric, KroneckerMetric
from mixnorm.noise import NOISES, covariance, estimate, layout_for

every_noise = pytest.mark.parametrize("name", NOISES)
SAME = {"rtol": 0, "atol": 1e-12}  # the mean diagonal is 1


def flat(X):
    return X.reshape(len(X), -1), np.arange(X[0].size).reshape(X[0].shape)


def noise_of(name, X, signs, weights):
    X, layout = flat(X)
    return covariance(name, X, signs, weights, layout)


@pytest.mark.parametrize("name", ["structured", "kronecker", "toeplitz"])
def test_matrix_is_that_of_the_definition(name, trials):
    X, signs, weights = trials
    E = reference.residuals(X, signs, weights)
    np.testing.assert_allclose(noise_of(name, *trials), getattr(reference, name)(E, weights), **SAME)


def test_evoked_matrix_is_that_of_the_definition(trials):
    np.testing.assert_allclose(noise_of("evoked", *trials), reference.evoked(*trials), rtol=0, atol=1e-11)
    # a response was found in them, so that it is another matrix than the noise
    assert np.abs(noise_of("evoked", *trials) - noise_of("structured", *trials)).max() > 0.1


def test_evoked_without_a_response_is_the_structured_noise(trials):
    X, signs, weights = trials
    X = reference.residuals(X, signs, weights)
    np.testing.assert_allclose(
        noise_of("evoked", X, signs, weights), noise_of("structured", X, signs, weights), rtol=0, atol=1e-11
    )


def test_evoked_expects_the_response_where_the_classes_differ(rng):
    """A response of one pattern over the sensors: M is smaller along it than across it, in units of the noise."""
    signs = np.tile([1, -1], 100)
    X = rng.standard_normal((200, 5, 6))
    X[signs > 0, 2] += np.sin(np.arange(6))
    N, M = (noise_of(name, X, signs, np.ones(200)) for name in ("structured", "evoked"))
    relative = (np.diag(M) / np.diag(N)).reshape(5, 6).mean(axis=1)
    assert relative[2] < 0.5 * np.delete(relative, 2).min()


@every_noise
def test_mean_diagonal_is_one_and_the_matrix_symmetric(name, trials):
    N = noise_of(name, *trials)
    assert np.mean(np.diag(N)) == pytest.approx(1.0, abs=1e-14)
    np.testing.assert_allclose(N, N.T, rtol=0, atol=1e-15)


@every_noise
def test_metric_and_matrix_agree_in_any_order_of_the_features(name, trials, rng):
    X, signs, weights = trials
    X, layout = flat(X)
    order = rng.permutation(X.shape[1])
    moved = np.argsort(order)[layout]
    N = covariance(name, X[:, order], signs, weights, moved)
    np.testing.assert_allclose(N, covariance(name, X, signs, weights, layout)[np.ix_(order, order)], **SAME)
    metric = estimate(name, X[:, order], signs, weights, moved)
    np.testing.assert_allclose(metric.gram(np.arange(X.shape[1]))[0, 0], N, **SAME)
    assert isinstance(metric, KroneckerMetric if name == "kronecker" else DenseMetric)


def test_kronecker_roots_are_symmetric_and_factored(trials):
    X, signs, weights = trials
    X, layout = flat(X)
    metric = estimate("kronecker", X, signs, weights, layout)
    for root, size in ((metric.sensors, 4), (metric.samples, 3)):
        assert root.shape == (1, 1, size, size)
        np.testing.assert_allclose(root, root.swapaxes(-1, -2), atol=1e-14)


def test_dense_roots_are_triangular(trials):
    X, signs, weights = trials
    X, layout = flat(X)
    root = estimate("structured", X, signs, weights, layout).root[0, 0]
    np.testing.assert_array_equal(root, np.triu(root))


@every_noise
def test_whitened_trials_have_the_same_scores(name, trials, rng):
    X, signs, weights = trials
    X, layout = flat(X)
    metric, w = estimate(name, X, signs, weights, layout), rng.standard_normal((X.shape[1], 1))
    v = metric.apply(w[None, None])[0, 0]
    np.testing.assert_allclose(metric.whiten(X) @ v, X @ w, atol=1e-10)


# --- positive definite, however few the trials ---


@every_noise
@pytest.mark.parametrize("n", [4, 5, 8, 40])
def test_two_trials_of_a_class_are_enough(name, n, rng):
    X, signs = rng.standard_normal((n, 6, 5)), np.where(np.arange(n) % (n // 2) == 0, -1, 1)
    assert (signs < 0).sum() == 2 + n % 2
    assert reference.positive_definite(noise_of(name, X, signs, np.ones(n)))


@every_noise
def test_a_constant_sensor_and_a_constant_sample_leave_it_positive_definite(name, rng):
    X, signs = rng.standard_normal((8, 5, 4)), np.tile([1, -1], 4)
    X[:, 2], X[:, :, 1] = 7.0, -3.0
    N = noise_of(name, X, signs, np.ones(8))
    assert reference.positive_definite(N)
    assert np.diag(N)[2 * 4] < np.median(np.diag(N))  # it is the white noise alone


@every_noise
def test_copied_sensors_leave_it_positive_definite(name, rng):
    X = rng.standard_normal((30, 3, 4)).repeat(2, axis=1)
    assert reference.positive_definite(noise_of(name, X, np.tile([1, -1], 15), np.ones(30)))


# --- what must not change it, or must change it in a known way ---


@every_noise
def test_order_of_trials(name, trials, rng):
    X, signs, weights = trials
    rows = rng.permutation(len(X))
    np.testing.assert_allclose(noise_of(name, X[rows], signs[rows], weights[rows]), noise_of(name, *trials), **SAME)


@every_noise
def test_order_of_sensors(name, trials, rng):
    X, signs, weights = trials
    _, C, r = X.shape
    sensors = rng.permutation(C)
    columns = np.arange(C * r).reshape(C, r)[sensors].ravel()
    N = noise_of(name, *trials)
    np.testing.assert_allclose(noise_of(name, X[:, sensors], signs, weights), N[np.ix_(columns, columns)], **SAME)


def test_order_of_samples_matters_to_stationarity_alone(trials, rng):
    X, signs, weights = trials
    columns = np.arange(12).reshape(4, 3)[:, [1, 0, 2]].ravel()
    far = {}
    for name in NOISES:
        N, moved = noise_of(name, *trials), noise_of(name, X[:, :, [1, 0, 2]], signs, weights)
        far[name] = np.abs(moved - N[np.ix_(columns, columns)]).max()
    assert far["kronecker"] < 1e-12
    assert far["shrunk"] < 1e-12
    assert far["toeplitz"] > 1e-2
    assert far["structured"] > 1e-2


@every_noise
def test_samples_in_reverse_order_reverse_the_matrix(name, trials):
    X, signs, weights = trials
    columns = np.arange(12).reshape(4, 3)[:, ::-1].ravel()
    N = noise_of(name, *trials)
    np.testing.assert_allclose(noise_of(name, X[:, :, ::-1], signs, weights), N[np.ix_(columns, columns)], **SAME)


def test_exchanged_classes_do_not_change_evoked(trials):
    X, signs, weights = trials
    np.testing.assert_allclose(noise_of("evoked", X, -signs, weights), noise_of("evoked", *trials), **SAME)


@pytest.mark.parametrize("name", [name for name in NOISES if name != "evoked"])
def test_exchanged_classes_and_class_means_change_nothing(name, trials, rng):
    X, signs, weights = trials
    means = rng.standard_normal((2, *X.shape[1:]))
    shifted = X + means[(signs > 0).astype(int)]
    np.testing.assert_allclose(noise_of(name, shifted, -signs, weights), noise_of(name, *trials), **SAME)


@every_noise
@pytest.mark.parametrize("unit", [1e-13, 2.0**40])
def test_common_unit_of_all_sensors_changes_nothing(name, trials, unit):
    X, signs, weights = trials
    np.testing.assert_allclose(noise_of(name, unit * X, signs, weights), noise_of(name, *trials), **SAME)


@every_noise
def test_scale_of_one_sensor_is_followed_up_to_the_white_noise(name, rng):
    """D N D is followed exactly where no white noise is mixed in (see each estimate); else to a few percent."""
    X, signs = rng.standard_normal((400, 4, 3)), np.tile([1, -1], 200)
    X[:, 1:] += 0.7 * X[:, :1]
    D = np.repeat([1.0, 2.0, 0.5, 1.0], 3)
    N, other = noise_of(name, X, signs, np.ones(400)), noise_of(name, D.reshape(4, 3) * X, signs, np.ones(400))
    followed = reference.unit(D[:, None] * N * D)
    assert 1e-4 < np.abs(other - followed).max() < 0.1
    assert np.abs(other - N).max() > 0.5


@every_noise
def test_weight_two_is_the_trial_twice(name, trials):
    X, signs, _ = trials
    times = np.where(np.arange(len(X)) % 3 == 0, 2, 1)
    twice = np.repeat(np.arange(len(X)), times)
    np.testing.assert_allclose(
        noise_of(name, X, signs, times.astype(float)),
        noise_of(name, X[twice], signs[twice], np.ones(len(twice))),
        **SAME,
    )


@every_noise
def test_weight_zero_is_the_trial_left_out(name, trials):
    X, signs, weights = trials
    kept = np.arange(len(X)) % 4 > 0
    wild = np.where(kept[:, None, None], X, 1e3 * X)
    np.testing.assert_allclose(
        noise_of(name, wild, signs, np.where(kept, weights, 0.0)),
        noise_of(name, X[kept], signs[kept], weights[kept]),
        **SAME,
    )


def test_sum_of_the_weights_is_the_number_of_trials_for_evoked(trials):
    X, signs, weights = trials
    one, many = (noise_of("evoked", X, signs, factor * weights) for factor in (1, 100))
    assert np.abs(one - many).max() > 0.1  # means of more trials have less noise
    few = noise_of("evoked", X, signs, 1e-6 * weights)
    np.testing.assert_allclose(few, noise_of("structured", *trials), rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", [name for name in NOISES if name != "evoked"])
def test_common_factor_of_the_weights_changes_nothing(name, trials):
    X, signs, weights = trials
    for factor in (1e-6, 1e6):
        np.testing.assert_allclose(noise_of(name, X, signs, factor * weights), noise_of(name, *trials), **SAME)


# --- input that has no estimate ---


@pytest.mark.parametrize("name", ["structured", "kronecker", "toeplitz"])
def test_sensors_of_unequal_size_are_named_and_shrunk_is_offered(name):
    groups = Groups.from_labels(["Cz", "Cz", "Fz", "Fz", "Pz"], 5)
    with pytest.raises(
        ValueError, match=rf"noise='{name}' needs .* 'Cz' has 2 and sensor 'Pz' has 1\. Use noise='shrunk'"
    ):
        layout_for(name, groups)


def test_sensors_of_unequal_size_are_no_matter_to_shrunk(rng):
    groups = Groups.from_labels(["Cz", "Cz", "Fz", "Fz", "Pz"], 5)
    assert layout_for("shrunk", groups) is None
    X, signs = rng.standard_normal((9, 5)), np.array([1, -1, 1] * 3)
    np.testing.assert_allclose(
        covariance("shrunk", X, signs, np.ones(9), None),
        covariance("shrunk", X, signs, np.ones(9), np.arange(5)[:, None]),
    )


def test_equal_sizes_give_the_features_of_every_sensor_in_order():
    groups = Groups.from_labels(["Pz", "Cz", "Pz", "Cz"], 4)
    np.testing.assert_array_equal(layout_for("structured", groups), [[1, 3], [0, 2]])


@pytest.mark.parametrize("make", [estimate, covariance])
def test_estimates_without_a_layout_are_refused(make, trials):
    X, signs, weights = trials
    with pytest.raises(
        ValueError, match=r"noise='toeplitz' needs the same samples of every sensor\. Use noise='shrunk'"
    ):
        make("toeplitz", flat(X)[0], signs, weights, None)


@pytest.mark.parametrize("make", [estimate, covariance])
def test_unknown_name_lists_the_known_ones(make, trials):
    X, signs, weights = trials
    with pytest.raises(ValueError, match=r"Allowed values are \('structured', .*'shrunk'\), but got 'white'"):
        make("white", *flat(X)[:1], signs, weights, flat(X)[1])
