"""The metric of a new subject's regularisation: from the known subjects' trials, in `adapt` and in model files."""

import cvxpy as cp
import numpy as np
import pytest

from cohorts import cohort, correlated, stacked, within_subject_metric
from mixnorm import MultiTaskGroupSVC, load, save
from mixnorm.subjects.new_subject_metric import PLAIN_SHARE, new_subject_metric

ALPHA = 0.05


def known_and_new(seed=3, n=30):
    """Three known subjects and one unlike them, whose features are correlated: (Xs, ys, groups), (X, y)."""
    Xs, ys, groups = cohort(4, seed=seed, sizes=(40, 25, 60, n))
    Xs = correlated(Xs)
    return (Xs[:3], ys[:3], groups), (Xs[3], np.where(Xs[3] @ np.cos(np.arange(18)) > 0, 1.0, -1.0))


def fit(known, **options):
    Xs, ys, groups = known
    model = MultiTaskGroupSVC(ALPHA, similarity=0.1, groups=groups, tol=1e-9, **options)
    return model.fit(*stacked(Xs, ys)[:2], subjects=stacked(Xs, ys)[2])


def new_subjects_problem(model, X, y, metric, q=2.0):
    """Optimum by cvxpy and value at the fitted coefficients of the new subject's problem on the selected sensors."""
    groups = np.asarray(model.groups)
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    root = np.linalg.cholesky(metric).T
    cost = cp.sum_squares(cp.pos(1 - cp.multiply(y, X @ w + b))) / len(y)
    cost += model.strength_ * cp.sum_squares(root @ (w - model.mean_coef_))
    cost += ALPHA * sum(cp.pnorm(w[np.flatnonzero(groups == g)], q) for g in model.selected_groups_)
    problem = cp.Problem(cp.Minimize(cost), [w[np.flatnonzero(~np.isin(groups, model.selected_groups_))] == 0])
    optimum = problem.solve(solver=cp.CLARABEL, tol_gap_rel=1e-9, tol_gap_abs=1e-10, tol_feas=1e-9)
    w.value, b.value = model.coef_[-1], model.intercept_[-1]
    return optimum, cost.value


@pytest.mark.parametrize("q", [2.0, 1.5])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weights"])
def test_adapt_draws_by_the_covariance_within_known_subjects(q, weighted):
    known, (X, y) = known_and_new()
    weights = np.random.default_rng(0).uniform(0.1, 2.0, 125) if weighted else np.ones(125)
    Xs, ys, groups = known
    model = MultiTaskGroupSVC(ALPHA, similarity=0.1, groups=groups, q=q, tol=1e-9)
    model.fit(*stacked(Xs, ys)[:2], subjects=stacked(Xs, ys)[2], sample_weight=weights).adapt(X, y)
    assert 0 < model.strength_ < np.inf
    metric = within_subject_metric(Xs, np.split(weights, [40, 65]), np.isin(groups, model.selected_groups_))
    optimum, value = new_subjects_problem(model, X, y, metric, q)
    assert value == pytest.approx(optimum, rel=1e-7)
    assert new_subjects_problem(model, X, y, np.eye(18), q)[0] != pytest.approx(optimum, rel=1e-3)


def test_on_selected_sensors_alone():
    known, (X, y) = known_and_new(seed=1, n=80)
    model = fit(known, group_weights={0: np.inf, 3: np.inf}).adapt(X, y)
    assert 0 < model.strength_ < np.inf
    assert not {0, 3} & set(model.selected_groups_.tolist())
    usable = np.isin(known[2], model.selected_groups_)
    assert model.newcomer_covariance_.shape == (usable.sum(), usable.sum())
    metric = within_subject_metric(known[0], [np.ones(len(y)) for y in known[1]], usable)
    optimum, value = new_subjects_problem(model, X, y, metric)
    assert value == pytest.approx(optimum, rel=1e-7)


def test_a_model_of_an_earlier_version_draws_equally_in_every_direction(tmp_path):
    known, (X, y) = known_and_new()
    model = fit(known)
    del model.newcomer_covariance_, model._covariance_features
    save(model, tmp_path / "old.mixnorm")
    model = load(tmp_path / "old.mixnorm").adapt(X, y)
    assert 0 < model.strength_ < np.inf
    optimum, value = new_subjects_problem(model, X, y, np.eye(18))
    assert value == pytest.approx(optimum, rel=1e-7)


def test_the_covariance_is_kept_in_the_model_file(tmp_path):
    known, new = known_and_new()
    model = fit(known)
    save(model, tmp_path / "model.mixnorm")
    loaded = load(tmp_path / "model.mixnorm")
    np.testing.assert_array_equal(loaded.adapt(*new).coef_, model.adapt(*new).coef_)
    assert 0 < model.strength_ < np.inf


def test_subjects_who_lean_keep_the_plain_distance():
    (Xs, ys, groups), (X, y) = known_and_new()
    data = stacked([*Xs, X], [*ys, y])
    model = MultiTaskGroupSVC(ALPHA, similarity=0.1, groups=groups, asymmetric=["S3"], tol=1e-9)
    model.fit(*data[:2], subjects=data[2])
    model.strength_ = 0.1
    optimum, value = new_subjects_problem(model, X, y, np.eye(18))
    assert value == pytest.approx(optimum, rel=1e-7)


def test_a_metric_means_the_same_strength_in_every_unit_and_the_plain_distance_for_white_features():
    root = np.random.default_rng(0).normal(size=(30, 5))
    metric = matrix(new_subject_metric(root.T @ root))
    assert np.trace(metric) == pytest.approx(5)
    assert np.linalg.eigvalsh(metric).min() >= PLAIN_SHARE
    np.testing.assert_allclose(matrix(new_subject_metric(1e-12 * root.T @ root)), metric, rtol=1e-12)
    np.testing.assert_allclose(matrix(new_subject_metric(3 * np.eye(5))), np.eye(5), atol=1e-15)


def matrix(metric):
    """M of a metric of one subject."""
    return metric.gram(np.arange(metric.n_features))[0, 0]


def test_trials_that_are_all_alike_leave_the_plain_distance():
    assert new_subject_metric(np.zeros((3, 3))) is None
    assert new_subject_metric(np.zeros((0, 0))) is None


def test_a_model_without_sensors_takes_new_subjects():
    known, (X, y) = known_and_new()
    with pytest.warns(UserWarning, match="alpha_max"):
        model = fit(known).set_params(alpha=10.0).fit(*stacked(*known[:2])[:2], subjects=stacked(*known[:2])[2])
    assert not model.adapt(X, y).coef_.any()
