"""What must not change a fit, or must change it in a known way: order, names, duplicates, weights, norms that coincide.

Two fits of the same problem, each with a relative gap of at most TOL, have objectives within TOL of each other. Their
coefficients may differ by √(2·TOL·P/μ) each, μ ≥ 0.01 the curvature of the loss on these data: 1.4e-4·√P at most at
TOL = 1e-10, of which solvers that end superlinearly, or by many small steps, use little.
"""

import numpy as np
import pytest

from mixnorm import GroupSVC
from reference import random_problem

TOL = 1e-10
SAME_OBJECTIVE = {"rel": 2 * TOL}
SAME_COEF = {"rtol": 0, "atol": 1e-5}
SIZES = [1, 2, 3, 4, 2, 3]
PENALTIES = [("l2", 2.0), ("l1", 1.0), ("group", 1.0), ("group", 1.3), ("group", 1.7), ("group", 2.0)]
GROUP_WEIGHTS = {
    "l2": [1, 1, 0, 1, np.inf, 1],
    "l1": [1, 1, 0, 1, np.inf, 1],
    "group": [1, 0.7, 0, 2, np.inf, 1.4],
}

every_penalty = pytest.mark.parametrize(("penalty", "q"), PENALTIES)
every_norm = pytest.mark.parametrize(("penalty", "q"), PENALTIES[1:])
both_intercepts = pytest.mark.parametrize("fit_intercept", [True, False])


@pytest.fixture
def rng():
    return np.random.default_rng(11)


@pytest.fixture
def trials(rng):
    """More trials than features, not separable: the optimum is unique."""
    return random_problem(rng, 80, len(SIZES), SIZES)


@pytest.fixture
def sample_weight(rng):
    return rng.uniform(0.3, 3.0, 80)


def fit(X, y, groups, sample_weight=None, alpha=0.03, **options):
    model = GroupSVC(alpha, groups=groups, tol=TOL, **options).fit(X, y, sample_weight=sample_weight)
    assert np.any(model.coef_ != 0.0)
    return model


def assert_same_fit(first, second):
    assert first.objective_ == pytest.approx(second.objective_, **SAME_OBJECTIVE)
    np.testing.assert_allclose(first.coef_, second.coef_, **SAME_COEF)
    np.testing.assert_allclose(first.intercept_, second.intercept_, **SAME_COEF)


# --- order and names ---


@every_penalty
@both_intercepts
def test_order_of_sensors(trials, sample_weight, rng, penalty, q, fit_intercept):
    X, y, groups = trials
    weights = np.array(GROUP_WEIGHTS[penalty], dtype=float)
    options = {"penalty": penalty, "q": q, "fit_intercept": fit_intercept}
    plain = fit(X, y, groups, sample_weight, group_weights=weights, **options)
    columns, renamed = rng.permutation(X.shape[1]), rng.permutation(len(SIZES))
    moved_weights = np.empty_like(weights)
    moved_weights[renamed] = weights  # group g is now called renamed[g], and sorted there
    moved = fit(X[:, columns], y, renamed[groups][columns], sample_weight, group_weights=moved_weights, **options)
    assert moved.objective_ == pytest.approx(plain.objective_, **SAME_OBJECTIVE)
    np.testing.assert_allclose(moved.coef_, plain.coef_[:, columns], **SAME_COEF)
    np.testing.assert_allclose(moved.group_norms_[renamed], plain.group_norms_, **SAME_COEF)
    assert set(moved.selected_groups_) == set(renamed[plain.selected_groups_])


@every_penalty
@both_intercepts
def test_order_of_trials(trials, sample_weight, rng, penalty, q, fit_intercept):
    X, y, groups = trials
    rows = rng.permutation(len(y))
    options = {"penalty": penalty, "q": q, "fit_intercept": fit_intercept}
    plain = fit(X, y, groups, sample_weight, **options)
    moved = fit(X[rows], y[rows], groups, sample_weight[rows], **options)
    assert_same_fit(moved, plain)


@every_penalty
@both_intercepts
def test_exchanged_labels_change_the_sign(trials, sample_weight, penalty, q, fit_intercept):
    X, y, groups = trials
    options = {"penalty": penalty, "q": q, "fit_intercept": fit_intercept}
    plain, exchanged = (fit(X, labels, groups, sample_weight, **options) for labels in (y, -y))
    assert exchanged.objective_ == pytest.approx(plain.objective_, **SAME_OBJECTIVE)
    np.testing.assert_allclose(exchanged.coef_, -plain.coef_, **SAME_COEF)
    np.testing.assert_allclose(exchanged.intercept_, -np.asarray(plain.intercept_), **SAME_COEF)


@pytest.mark.parametrize("labels", [("nontarget", "target"), (0, 1), (False, True), (3, 17)])
def test_names_of_labels(trials, labels):
    X, y, groups = trials
    named = np.where(y > 0, labels[1], labels[0])
    model = fit(X, named, groups)
    assert_same_fit(model, fit(X, y, groups))
    np.testing.assert_array_equal(model.classes_, labels)
    assert set(model.predict(X)) == set(labels)


def test_channels_of_a_3d_array_are_groups_of_the_flattened_one(rng):
    X, y, groups = random_problem(rng, 60, 5, 3)
    model = GroupSVC(0.03, tol=TOL).fit(X.reshape(60, 5, 3), y)
    assert_same_fit(model, fit(X, y, groups))


# --- duplicates ---


@every_norm
@both_intercepts
@pytest.mark.parametrize("sensor", [0, 1])
def test_duplicated_sensor_shares_the_coefficients_of_the_single_one(trials, penalty, q, fit_intercept, sensor):
    X, y, groups = trials
    copied = groups == sensor
    options = {"penalty": penalty, "q": q, "fit_intercept": fit_intercept}
    single = fit(X, y, groups, **options)
    assert np.any(single.coef_[:, copied] != 0.0)
    twins = np.concatenate([groups, np.full(copied.sum(), len(SIZES))])
    double = fit(np.hstack([X, X[:, copied]]), y, twins, **options)
    assert double.objective_ == pytest.approx(single.objective_, **SAME_OBJECTIVE)
    merged = double.coef_[:, : X.shape[1]].copy()
    merged[:, copied] += double.coef_[:, X.shape[1] :]
    np.testing.assert_allclose(merged, single.coef_, **SAME_COEF)


@every_penalty
@both_intercepts
def test_weight_two_is_the_trial_twice(trials, penalty, q, fit_intercept):
    X, y, groups = trials
    twice = np.r_[np.arange(len(y)), np.arange(0, len(y), 3)]
    options = {"penalty": penalty, "q": q, "fit_intercept": fit_intercept}
    weighted = fit(X, y, groups, np.where(np.arange(len(y)) % 3 == 0, 2.0, 1.0), **options)
    assert_same_fit(weighted, fit(X[twice], y[twice], groups, **options))


@every_penalty
@both_intercepts
def test_weight_zero_is_the_trial_left_out(trials, penalty, q, fit_intercept):
    X, y, groups = trials
    kept = np.arange(len(y)) % 4 > 0
    options = {"penalty": penalty, "q": q, "fit_intercept": fit_intercept}
    wild = np.where(kept[:, None], X, 1e3 * X)  # what has no weight may have any value
    assert_same_fit(fit(wild, y, groups, kept.astype(float), **options), fit(X[kept], y[kept], groups, **options))


@every_penalty
def test_common_factor_of_the_sample_weights_is_nothing(trials, sample_weight, penalty, q):
    X, y, groups = trials
    fits = [fit(X, y, groups, factor * sample_weight, penalty=penalty, q=q) for factor in (1.0, 1e-6, 1e6)]
    assert_same_fit(fits[1], fits[0])
    assert_same_fit(fits[2], fits[0])


@every_penalty
def test_class_weight_is_a_sample_weight(trials, sample_weight, penalty, q):
    X, y, groups = trials
    by_class = fit(X, y, groups, sample_weight, penalty=penalty, q=q, class_weight={-1.0: 0.5, 1.0: 3.0})
    by_trial = fit(X, y, groups, sample_weight * np.where(y > 0, 3.0, 0.5), penalty=penalty, q=q)
    assert_same_fit(by_class, by_trial)


# --- units ---


@every_norm
def test_smaller_units_of_the_features_are_a_smaller_alpha(trials, penalty, q):
    X, y, groups = trials
    microvolts = fit(X, y, groups, alpha=3e-2, penalty=penalty, q=q)
    volts = fit(1e-6 * X, y, groups, alpha=3e-8, penalty=penalty, q=q)
    assert volts.objective_ == pytest.approx(microvolts.objective_, **SAME_OBJECTIVE)
    np.testing.assert_allclose(1e-6 * volts.coef_, microvolts.coef_, **SAME_COEF)


@pytest.mark.parametrize("q", [1.0, 1.3, 2.0])
def test_common_factor_of_the_group_weights_is_a_factor_of_alpha(trials, q):
    X, y, groups = trials
    weights = np.array(GROUP_WEIGHTS["group"], dtype=float)
    first = fit(X, y, groups, alpha=0.03, q=q, group_weights=weights)
    second = fit(X, y, groups, alpha=0.01, q=q, group_weights=3.0 * weights)
    assert_same_fit(first, second)


# --- norms that coincide ---


@both_intercepts
@pytest.mark.parametrize("q", [1.3, 2.0])
def test_one_group_per_feature_is_l1(trials, sample_weight, fit_intercept, q):
    X, y, groups = trials
    l1 = fit(X, y, groups, sample_weight, penalty="l1", fit_intercept=fit_intercept)
    for own_groups in (None, np.arange(X.shape[1])):
        grouped = fit(X, y, own_groups, sample_weight, q=q, fit_intercept=fit_intercept)
        assert_same_fit(grouped, l1)
        np.testing.assert_array_equal(grouped.coef_ != 0.0, l1.coef_ != 0.0)


@both_intercepts
def test_q_1_is_l1(trials, sample_weight, fit_intercept):
    X, y, groups = trials
    options = {"fit_intercept": fit_intercept, "group_weights": GROUP_WEIGHTS["l1"]}
    l1 = fit(X, y, groups, sample_weight, penalty="l1", **options)
    grouped = fit(X, y, groups, sample_weight, q=1.0, **options)
    assert_same_fit(grouped, l1)
    np.testing.assert_array_equal(grouped.coef_ != 0.0, l1.coef_ != 0.0)


def test_infinite_weight_is_the_sensor_removed(trials):
    X, y, groups = trials
    forbidden = fit(X, y, groups, group_weights=[1, 1, 1, np.inf, 1, 1])
    removed = fit(X[:, groups != 3], y, groups[groups != 3])
    assert forbidden.objective_ == pytest.approx(removed.objective_, **SAME_OBJECTIVE)
    np.testing.assert_allclose(forbidden.coef_[:, groups != 3], removed.coef_, **SAME_COEF)
