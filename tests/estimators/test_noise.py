"""Fits with a noise covariance and with a ridge: against a convex solver, against whitening by hand, in folds."""

import warnings
from functools import partial

import cvxpy as cp
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from mixnorm import (
    GroupSVC,
    GroupSVCCV,
    MultiTaskGroupSVC,
    SensorSelector,
    group_svc_path,
    load,
    save,
    stability_selection,
)
from mixnorm.estimators import quadratic
from mixnorm.estimators.quadratic import Quadratic
from mixnorm.execution import SolverOptions, solve, together
from mixnorm.noise import covariance
from reference import alpha_max_reference, lq_norm, random_problem
from stacks import make_stack

NAMES = ("structured", "kronecker", "toeplitz", "shrunk")
#: (penalty, q, ridge)
KINDS = [("l2", 2.0, 0.0), ("l1", 1.0, 0.3), *(("group", q, 0.3) for q in (1.2, 1.5, 2.0))]
SHAPES = {"n > d": (60, 6, 3), "n < d": (24, 8, 4)}
BETA = {"plain": None, "kept and forbidden": [1.0, np.inf, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0]}


def value(w, b, problem):
    """The objective by its formula; with ℓ2, N is that of the sensors of weight 1 alone."""
    X, y, s, alpha = (problem[name] for name in ("X", "y", "s", "alpha"))
    loss = np.sum(s * np.maximum(0, 1 - y * (X @ w + b)) ** 2) / np.sum(s)
    if problem["penalty"] == "l2":
        free = problem["beta"][problem["groups"]] == 0
        v = np.where(free, 0.0, w)
        return loss + alpha * v @ problem["N"] @ v / 2
    q = 1.0 if problem["penalty"] == "l1" else problem["q"]
    blocks = [w[problem["groups"] == g] for g in range(len(problem["beta"]))]
    norms = sum(beta * lq_norm(block, q) for beta, block in zip(problem["beta"], blocks, strict=True) if block.any())
    return loss + alpha * norms + problem["ridge"] * w @ problem["N"] @ w / 2


def convex(problem, fit_intercept=True):
    """The optimum by a general convex solver, as the formula's value at its point."""
    X, y, s, alpha = (problem[name] for name in ("X", "y", "s", "alpha"))
    beta = problem["beta"][problem["groups"]]
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    slack = cp.pos(1 - cp.multiply(y, X @ w + b))
    cost = cp.sum(cp.multiply(s / s.sum(), cp.square(slack)))
    constraints = [] if fit_intercept else [b == 0]
    if np.isinf(beta).any():
        constraints.append(w[np.flatnonzero(np.isinf(beta))] == 0)
    root = np.linalg.cholesky(problem["N"]).T
    if problem["penalty"] == "l2":
        pen = np.flatnonzero(np.isfinite(beta) & (beta > 0))
        own = np.linalg.cholesky(problem["N"][np.ix_(pen, pen)]).T
        cost += alpha / 2 * cp.sum_squares(own @ w[pen])
    else:
        cost += problem["ridge"] / 2 * cp.sum_squares(root @ w)
        for g, weight in enumerate(problem["beta"]):
            if 0 < weight < np.inf:
                q = 1.0 if problem["penalty"] == "l1" else problem["q"]
                block = w[np.flatnonzero(problem["groups"] == g)]
                cost += alpha * weight * (cp.norm2(block) if q == 2 else cp.pnorm(block, q))
    task = cp.Problem(cp.Minimize(cost), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # an inaccurate solution is a warning; its value is an upper bound all the same
        for tol in (1e-10, 1e-8):
            limits = {"tol_gap_rel": tol, "tol_gap_abs": 0.01 * tol, "tol_feas": tol, "max_iter": 500}
            task.solve(solver=cp.CLARABEL, **limits)
            if task.status == cp.OPTIMAL:
                break
    assert task.status == cp.OPTIMAL
    w_found = np.where(np.isinf(beta), 0.0, w.value)
    return value(w_found, float(b.value), problem), w_found


def make(shape, weights, penalty, q, ridge, fraction):
    n, n_groups, size = SHAPES[shape]
    rng = np.random.default_rng(3)
    X, y, groups = random_problem(rng, n, n_groups, size)
    A = rng.standard_normal((X.shape[1], 2 * X.shape[1]))
    N = A @ A.T / X.shape[1]
    beta = np.ones(n_groups) if BETA[weights] is None else np.array(BETA[weights][:n_groups])
    s = rng.uniform(0.2, 3.0, n) if BETA[weights] else np.ones(n)
    top = alpha_max_reference(X, y, s, penalty, q, groups, beta)
    return {
        "X": X, "y": y, "s": s, "groups": groups, "beta": beta, "penalty": penalty, "q": q, "ridge": ridge, "N": N,
        "alpha": fraction * top,
    }  # fmt: skip


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("fraction", [0.5, 0.05])
@pytest.mark.parametrize("weights", BETA)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("penalty, q, ridge", KINDS)
def test_fits_with_given_noise_agree_with_a_convex_solver(penalty, q, ridge, shape, weights, fraction, fit_intercept):
    problem = make(shape, weights, penalty, q, ridge, fraction)
    model = GroupSVC(
        problem["alpha"], penalty=penalty, q=q, ridge=ridge, noise=problem["N"], groups=problem["groups"],
        group_weights=problem["beta"], fit_intercept=fit_intercept, tol=1e-9,
    ).fit(problem["X"], problem["y"], sample_weight=problem["s"])  # fmt: skip
    reached = value(model.coef_[0], float(model.intercept_[0]), problem)
    best, w = convex(problem, fit_intercept)
    assert reached == pytest.approx(model.objective_, rel=1e-9)
    assert reached <= best * (1 + 1e-7)
    assert model.dual_gap_ <= 1e-9
    assert model.objective_ * (1 - model.dual_gap_) <= best * (1 + 1e-12)  # the certificate is true
    np.testing.assert_allclose(model.coef_[0], w, atol=2e-4 * np.abs(w).max())


@pytest.mark.parametrize("penalty, q, ridge", KINDS[1:])
def test_elastic_net_is_a_ridge_without_noise(penalty, q, ridge):
    problem = {**make("n < d", "plain", penalty, q, ridge, 0.1), "N": np.eye(32)}
    model = GroupSVC(problem["alpha"], penalty=penalty, q=q, ridge=ridge, groups=problem["groups"], tol=1e-9)
    model.fit(problem["X"], problem["y"])
    assert model.objective_ == pytest.approx(convex(problem)[0], rel=1e-7)


def test_ridge_without_noise_adds_to_the_alpha_of_l2():
    # estimators refuse the combination, so that the quadratic part is asked directly
    stack, options = make_stack("l2", B=1, beta=False), SolverOptions(tol=1e-12)
    (found,) = Quadratic(None, 0.3).solve(stack, np.full((1, 1, 3), 0.2), options)
    (expected,) = solve(stack, np.full((1, 1, 3), 0.5), options)
    np.testing.assert_allclose(found.W, expected.W, atol=1e-6)
    np.testing.assert_allclose(found.objective, expected.objective, rtol=1e-10)


@pytest.mark.parametrize("noise", NAMES)
def test_l2_with_noise_is_l2_on_trials_whitened_by_hand(noise):
    X, y, groups = random_problem(np.random.default_rng(4), 50, 5, 4)
    N = covariance(noise, X, y, np.ones(50), np.arange(20).reshape(5, 4))
    L = np.linalg.cholesky(N)
    white = GroupSVC(0.02, penalty="l2", tol=1e-10).fit(np.linalg.solve(L, X.T).T, y)
    model = GroupSVC(0.02, penalty="l2", noise=noise, groups=groups, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.coef_[0], np.linalg.solve(L.T, white.coef_[0]), atol=1e-7)
    assert model.objective_ == pytest.approx(white.objective_, rel=1e-9)
    np.testing.assert_allclose(model.noise_, N, atol=1e-12)
    assert np.diag(model.noise_).mean() == pytest.approx(1)


def test_noise_none_and_ridge_zero_change_nothing():
    X, y, groups = random_problem(np.random.default_rng(5), 60, 5, 3)
    for penalty in ("group", "l1", "l2"):
        plain = GroupSVC(0.05, penalty=penalty, groups=groups).fit(X, y)
        named = GroupSVC(0.05, penalty=penalty, groups=groups, noise=None, ridge=0.0).fit(X, y)
        np.testing.assert_array_equal(plain.coef_, named.coef_)
        assert not hasattr(plain, "noise_")


@pytest.mark.parametrize(
    "settings",
    [
        {"penalty": "l2", "noise": "structured"},
        {"noise": "kronecker", "ridge": 0.5},
        {"noise": "shrunk", "ridge": 2.0},
    ],
    ids=str,
)
def test_each_fold_estimates_the_noise_from_its_own_training_trials(settings):
    X, y, groups = random_problem(np.random.default_rng(6), 72, 5, 3)
    folds = list(StratifiedKFold(3).split(X, y))
    alphas = [0.3, 0.03]
    weights = np.random.default_rng(0).uniform(0.5, 2, 72)
    model = GroupSVCCV(alphas, groups=groups, cv=folds, tol=1e-9, **settings).fit(X, y, sample_weight=weights)
    for k, (train, test) in enumerate(folds):
        for a, alpha in enumerate(alphas):
            own = GroupSVC(alpha, groups=groups, tol=1e-9, **settings).fit(X[train], y[train], weights[train])
            scores = own.decision_function(X[test])
            order = np.subtract.outer(scores[y[test] > 0], scores[y[test] < 0])
            pair_weights = np.multiply.outer(weights[test][y[test] > 0], weights[test][y[test] < 0])
            auc = np.sum(pair_weights * ((order > 0) + 0.5 * (order == 0))) / pair_weights.sum()
            assert model.scores_[a, k] == pytest.approx(auc, abs=1e-9)
    refit = GroupSVC(model.alpha_, groups=groups, tol=1e-9, **settings).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(model.coef_, refit.coef_, atol=1e-6)
    np.testing.assert_allclose(model.noise_, refit.noise_, atol=1e-12)


def test_class_weights_have_no_part_in_the_noise():
    X, y, groups = random_problem(np.random.default_rng(7), 60, 4, 3)
    settings = {"penalty": "l2", "noise": "structured", "groups": groups}
    plain = GroupSVC(0.05, **settings).fit(X, y)
    balanced = GroupSVC(0.05, class_weight={-1.0: 1.0, 1.0: 5.0}, **settings).fit(X, y)
    np.testing.assert_array_equal(plain.noise_, balanced.noise_)
    assert not np.allclose(plain.coef_, balanced.coef_)


def test_forbidden_and_constant_sensors_have_no_part_in_the_noise():
    X, y, groups = random_problem(np.random.default_rng(8), 60, 5, 3)
    X[:, groups == 3] = 7.0
    kept = np.isin(groups, [0, 2, 4])
    settings = {"penalty": "l2", "noise": "structured", "tol": 1e-10}
    whole = GroupSVC(0.05, groups=groups, group_weights={1: np.inf}, **settings).fit(X, y)
    part = GroupSVC(0.05, groups=groups[kept], **settings).fit(X[:, kept], y)
    np.testing.assert_allclose(whole.coef_[0, kept], part.coef_[0], atol=1e-12)
    assert not whole.coef_[0, ~kept].any()
    np.testing.assert_array_equal(whole.noise_[np.ix_(kept, kept)], part.noise_)
    assert not whole.noise_[~kept].any()


def test_l2_grid_with_noise_spans_five_decades_around_alpha_max():
    X, y, groups = random_problem(np.random.default_rng(9), 60, 4, 3)
    top = alpha_max_reference(X, y, groups=groups)
    model = GroupSVCCV(6, penalty="l2", noise="structured", groups=groups).fit(X, y)
    np.testing.assert_allclose(model.alphas_, np.geomspace(100 * top, 1e-3 * top, 6), rtol=1e-6)
    path = group_svc_path(X, y, groups=groups, alphas=6, penalty="l2", noise="structured")
    np.testing.assert_allclose(path.alphas, model.alphas_, rtol=1e-9)
    np.testing.assert_allclose(path.coefs, model.path_coefs_, atol=1e-5 * np.abs(path.coefs).max())
    beside = GroupSVCCV(6, noise="structured", ridge=0.1, groups=groups).fit(X, y)
    np.testing.assert_allclose(beside.alphas_, np.geomspace(top, 1e-3 * top, 6), rtol=1e-6)


def test_large_alpha_tends_to_the_noise_weighted_difference_of_means():
    X, y, groups = random_problem(np.random.default_rng(10), 80, 4, 3)
    model = GroupSVC(1e6, penalty="l2", noise="kronecker", groups=groups, tol=1e-12).fit(X, y)
    difference = X[y > 0].mean(axis=0) - X[y < 0].mean(axis=0)
    w = np.linalg.solve(model.noise_, difference)
    cosine = model.coef_[0] @ w / np.linalg.norm(model.coef_[0]) / np.linalg.norm(w)
    assert cosine == pytest.approx(1, abs=1e-6)


def test_several_ridges_add_a_leading_axis_and_the_best_is_chosen():
    X, y, groups = random_problem(np.random.default_rng(11), 60, 4, 3)
    ridges, qs = [0.01, 1.0, 100.0], [1.5, 2.0]
    model = GroupSVCCV(4, ridge=ridges, q=qs, noise="structured", groups=groups).fit(X, y)
    assert model.alphas_.shape == model.n_selected_.shape == (3, 2, 4)
    assert model.scores_.shape == (3, 2, 4, 3)
    for r, ridge in enumerate(ridges):
        alone = GroupSVCCV(4, ridge=ridge, q=1.5, noise="structured", groups=groups).fit(X, y)
        np.testing.assert_allclose(model.scores_[r, 0], alone.scores_, atol=1e-12)
    best = model.scores_.mean(axis=-1).max()
    chosen = ridges.index(model.ridge_), qs.index(model.q_)
    assert model.scores_[chosen].mean(axis=-1).max() == pytest.approx(best, abs=1e-12)
    assert GroupSVCCV(4, ridge=ridges, groups=groups).fit(X, y).scores_.shape == (3, 4, 3)


def test_parallel_jobs_give_the_same_bits():
    X, y, groups = random_problem(np.random.default_rng(12), 60, 4, 3)
    for settings in ({"penalty": "l2", "noise": "structured"}, {"noise": "kronecker", "ridge": 0.2}):
        one, two = (GroupSVCCV(4, groups=groups, n_jobs=jobs, **settings).fit(X, y) for jobs in (1, 2))
        np.testing.assert_array_equal(one.coef_, two.coef_)
        np.testing.assert_array_equal(one.scores_, two.scores_)


def test_adaptive_weights_beside_a_ridge_are_two_fits():
    X, y, groups = random_problem(np.random.default_rng(13), 60, 5, 3)
    settings = {"groups": groups, "noise": "structured", "ridge": 0.2, "tol": 1e-9}
    first = GroupSVC(0.1, **settings).fit(X, y)
    norms = first.group_norms_
    alive = norms > 0
    beta = np.full(5, np.inf)
    beta[alive] = (1 / norms[alive]) / np.exp(np.mean(np.log(1 / norms[alive])))
    N = first.noise_  # that of all sensors, in both stages
    second = GroupSVC(0.1, groups=groups, noise=N, ridge=0.2, tol=1e-9, group_weights=beta).fit(X, y)
    model = GroupSVC(0.1, adaptive=True, **settings).fit(X, y)
    np.testing.assert_allclose(model.coef_, second.coef_, atol=1e-6)


def test_selector_and_stability_take_noise_and_ridge():
    X, y, groups = random_problem(np.random.default_rng(14), 80, 6, 3)
    settings = {"noise": "structured", "ridge": 1.0}
    selector = SensorSelector(3, groups=groups, **settings, strategy="path").fit(X, y)
    path = group_svc_path(X, y, groups=groups, alphas=[selector.alpha_], **settings)
    on_path = np.flatnonzero([path.coefs[0][groups == g].any() for g in range(6)])
    np.testing.assert_array_equal(selector.selected_groups_, on_path)
    found = stability_selection(X, y, groups=groups, n_resamplings=4, n_sensors=2, strategy="path", **settings)
    assert found.frequencies.shape == (6,)
    assert found.frequencies[:3].sum() > found.frequencies[3:].sum()  # the first three carry the effect


def test_saved_models_predict_the_same_and_carry_no_noise_matrix(tmp_path):
    X, y, groups = random_problem(np.random.default_rng(15), 60, 4, 3)
    for model in (
        GroupSVC(0.05, penalty="l2", noise="structured", groups=groups),
        GroupSVCCV(4, noise="shrunk", ridge=1.0),
    ):
        model.fit(X, y)
        save(model, tmp_path / "m.mixnorm")
        again = load(tmp_path / "m.mixnorm")
        np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
        assert again.noise == model.noise
        with pytest.raises(AttributeError, match="has no noise_: it was not fitted with noise, or was loaded"):
            again.noise_  # noqa: B018


BAD_MATRIX = np.diag([1.0, 2.0, -0.25, 1, 1, 1, 1, 1, 1, 1, 1, 1])
LOPSIDED = np.eye(12)
LOPSIDED[0, 1] = 0.5


@pytest.mark.parametrize(
    "settings, words",
    [
        (
            {"penalty": "l2", "noise": BAD_MATRIX},
            "positive definite, but its smallest eigenvalue is -0.25 and its largest 2",
        ),
        (
            {"penalty": "l2", "noise": LOPSIDED},
            r"symmetric, but its entry \(0, 1\) is 0.5 and its entry \(1, 0\) is 0: they differ by 0.5",
        ),
        (
            {"penalty": "l2", "noise": np.eye(5)},
            r"shape \(12, 12\), one row and column per feature, but its shape is \(5",
        ),
        (
            {"penalty": "l2", "noise": np.full((12, 12), np.nan)},
            r"noise must be finite, but its entry \(0, 0\) is nan",
        ),
        ({"penalty": "l2", "noise": "white"}, "Allowed are None, 'structured'.* and a matrix, but got 'white'"),
        ({"noise": "structured"}, "noise has no effect with penalty='group' and ridge=0: set ridge > 0"),
        ({"penalty": "l1", "noise": np.eye(12)}, "noise has no effect with penalty='l1' and ridge=0"),
        ({"penalty": "l2", "ridge": 0.1}, "ridge=0.1 cannot be used with penalty='l2'"),
        ({"ridge": -1.0}, "'ridge' parameter. Allowed are finite values from 0, but got -1.0"),
        ({"ridge": "much"}, "'ridge' parameter. Allowed are finite values from 0, but got 'much'"),
    ],
)
def test_bad_noise_and_ridge_are_refused(settings, words):
    X, y, groups = random_problem(np.random.default_rng(16), 40, 4, 3)
    for estimator in (GroupSVC(0.1), GroupSVCCV(3)):
        with pytest.raises(ValueError, match=words):
            estimator.set_params(groups=groups, **settings).fit(X, y)


def test_sensors_of_unequal_size_are_refused_but_for_the_shrunk_estimate():
    X, y, groups = random_problem(np.random.default_rng(17), 40, 3, [2, 3, 2])
    with pytest.raises(ValueError, match=r"sensor 0 has 2 and sensor 1 has 3\. Use noise='shrunk'"):
        GroupSVC(0.1, penalty="l2", noise="structured", groups=groups).fit(X, y)
    model = GroupSVC(0.1, penalty="l2", noise="shrunk", groups=groups).fit(X, y)
    assert model.dual_gap_ <= 1e-6


def test_too_few_trials_of_a_class_are_named():
    X, _, groups = random_problem(np.random.default_rng(18), 40, 3, 3, flipped=0.0)
    labels = np.where(np.arange(40) < 1, "target", "other")
    settings = {"penalty": "l2", "noise": "structured", "groups": groups}
    with pytest.raises(ValueError, match="at least two trials of each class, but class 'target' has 1"):
        GroupSVC(0.1, **settings).fit(X, labels)
    labels[1] = "target"
    folds = [(np.r_[0, 2:20], np.r_[1, 20:40]), (np.r_[1, 20:40], np.r_[0, 2:20])]
    with pytest.raises(ValueError, match="class 'target' has 1 in the training part of fold 0 of cv"):
        GroupSVCCV(3, cv=folds, **settings).fit(X, labels)


def test_noise_as_a_matrix_serves_epochs_channel_by_channel():
    X, y, groups = random_problem(np.random.default_rng(19), 60, 4, 3)
    N = covariance("structured", X, y, np.ones(60), np.arange(12).reshape(4, 3))
    flat = GroupSVC(0.1, penalty="l2", noise=N, groups=groups).fit(X, y)
    epochs = GroupSVC(0.1, penalty="l2", noise="structured").fit(X.reshape(60, 4, 3), y)
    np.testing.assert_allclose(epochs.coef_, flat.coef_, atol=1e-9)


def test_a_singular_matrix_is_refused_whatever_rounding_makes_of_it():
    """The covariance of average-referenced channels has an eigenvalue that is 0 to rounding."""
    X, y, groups = random_problem(np.random.default_rng(20), 40, 4, 3)
    for seed in range(20):
        A = np.random.default_rng(seed).standard_normal((12, 11))
        with pytest.raises(ValueError, match="noise must be positive definite, but its smallest eigenvalue is"):
            GroupSVC(0.1, penalty="l2", noise=A @ A.T, groups=groups).fit(X, y)
    nearly = np.diag(np.geomspace(1e-12, 1, 12))
    assert GroupSVC(0.1, penalty="l2", noise=nearly, groups=groups).fit(X, y).dual_gap_ <= 1e-6


def test_noise_of_a_fit_can_be_given_back():
    X, y, groups = random_problem(np.random.default_rng(21), 50, 4, 3)
    settings = {"penalty": "l2", "groups": groups, "group_weights": {1: np.inf}, "tol": 1e-10}
    model = GroupSVC(0.1, noise="structured", **settings).fit(X, y)
    again = GroupSVC(0.1, noise=model.noise_, **settings).fit(X, y)
    np.testing.assert_allclose(again.coef_, model.coef_, atol=1e-9)


def test_sensor_that_varies_in_trials_of_weight_zero_alone_has_no_part_in_the_noise():
    X, y, groups = random_problem(np.random.default_rng(22), 60, 4, 3)
    X[:, groups == 2] = np.where(np.arange(60) < 7, 1.0, 0.0)[:, None]
    weights = np.where(np.arange(60) < 7, 0.0, 1.0)
    settings = {"penalty": "l2", "noise": "structured", "groups": groups, "tol": 1e-10}
    weighted = GroupSVC(0.1, **settings).fit(X, y, weights)
    without = GroupSVC(0.1, **settings).fit(X[7:], y[7:])
    np.testing.assert_allclose(weighted.coef_, without.coef_, atol=1e-9)


@pytest.mark.parametrize("noise", [None, "structured", "matrix"])
def test_fits_that_differ_in_the_ridge_alone_are_not_taken_for_one(noise):
    """Solved together, each fit gets the solution of its own ridge."""
    X, y, groups = random_problem(np.random.default_rng(23), 50, 4, 3)
    given = np.diag(np.linspace(0.5, 1.5, 12)) if noise == "matrix" else noise
    fits = [GroupSVC(0.05, ridge=ridge, noise=given, groups=groups) for ridge in (0.01, 100.0)]
    alone = [model.fit(X, y).coef_ for model in fits]
    joint = together([partial(clone(model).fit, X, y) for model in fits])
    for one, other in zip(alone, joint, strict=True):
        np.testing.assert_allclose(other.coef_, one, atol=1e-12)
    assert not np.allclose(alone[0], alone[1])


def test_noise_is_estimated_once_for_each_problem(monkeypatch):
    counted = []
    plain = quadratic.estimate
    monkeypatch.setattr(quadratic, "estimate", lambda *args: counted.append(args[0]) or plain(*args))
    X, y, groups = random_problem(np.random.default_rng(24), 60, 5, 3)
    settings = {"noise": "structured", "groups": groups, "group_weights": {0: 0.0}}
    GroupSVCCV(4, ridge=(0.1, 1.0), adaptive=True, **settings).fit(X, y)
    assert len(counted) == 4  # three folds and the refit


def test_a_name_that_is_no_estimate_is_refused_before_trials_are_counted():
    X, _, groups = random_problem(np.random.default_rng(25), 20, 3, 3)
    y = np.where(np.arange(20) < 1, 1, 0)
    with pytest.raises(ValueError, match="but got 'strctured' instead"):
        GroupSVC(0.1, penalty="l2", noise="strctured", groups=groups).fit(X, y)
    with pytest.raises(ValueError, match="noise must be None, a name or a numeric matrix, but got"):
        GroupSVC(0.1, penalty="l2", noise={"a": 1}, groups=groups).fit(X, y)


def test_objectives_are_true_beside_a_large_offset():
    """The span of trials with an offset has too few digits; the certificate must be that of the trials themselves."""
    rng = np.random.default_rng(6)
    y = np.arange(100) % 2
    X = rng.standard_normal((100, 32, 16)) + 0.5 * y[:, None, None]
    near, far = (GroupSVC(1e-5, penalty="l2", noise="shrunk", tol=1e-9).fit(X + offset, y) for offset in (0.0, 3e4))
    assert far.objective_ == pytest.approx(near.objective_, rel=1e-8, abs=0)


def test_coordinates_of_the_span_change_nothing(monkeypatch):
    """Few trials of many features: the same coefficients, whether or not the trials are replaced by their span."""
    rng = np.random.default_rng(5)
    y = np.arange(40) % 2
    X = rng.standard_normal((40, 8, 10)) + 0.5 * y[:, None, None]
    found = []
    for least in (0, 10**9):
        monkeypatch.setattr("mixnorm.estimators.quadratic._LEAST_FOR_SPAN", least)
        found.append(GroupSVCCV(penalty="l2", noise="structured", tol=1e-10).fit(X, y))
    assert found[0].alpha_ == found[1].alpha_
    np.testing.assert_allclose(found[0].coef_, found[1].coef_, rtol=0, atol=1e-6 * np.abs(found[1].coef_).max())
    np.testing.assert_allclose(found[0].objective_, found[1].objective_, rtol=1e-9)


def light_trials():
    """40 trials whose weights sum to 1."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    return rng.standard_normal((40, 3, 4)) + 0.5 * y[:, None, None], y, np.full(40, 1 / 40)


@pytest.mark.parametrize(
    "fit",
    [
        lambda X, y, s, noise: GroupSVC(0.1, penalty="l2", noise=noise).fit(X, y, sample_weight=s).coef_,
        lambda X, y, s, noise: GroupSVCCV([0.1], penalty="l2", noise=noise).fit(X, y, sample_weight=s).coef_,
        lambda X, y, s, noise: group_svc_path(X, y, alphas=[0.1], penalty="l2", noise=noise, sample_weight=s).coefs,
        lambda X, y, s, noise: (
            MultiTaskGroupSVC(0.1, penalty="l2", noise=noise, rehearse=False)
            .fit(X, y, subjects=np.repeat(["a", "b"], 20), sample_weight=s)
            .coef_
        ),
    ],
    ids=["GroupSVC", "GroupSVCCV", "group_svc_path", "MultiTaskGroupSVC"],
)
def test_weights_that_leave_evoked_no_trials_are_told_once(fit):
    X, y, s = light_trials()
    with pytest.warns(UserWarning, match=r"sample weights .*sum to .*is the same as noise='structured'") as told:
        coefs = fit(X, y, s, "evoked")
    assert [one.filename for one in told] == [__file__]
    np.testing.assert_allclose(coefs, fit(X, y, s, "structured"), rtol=1e-6, atol=1e-9)
    assert np.abs(fit(X, y, 40 * s, "evoked") - coefs).max() > 1e-3


def test_light_weights_are_told_of_the_subject_whose_noise_is_evoked():
    X, y, s = light_trials()
    s = s * np.repeat([0.5, 1.5], 20)  # the lighter subject has another noise
    model = MultiTaskGroupSVC(0.1, penalty="l2", noise={"a": "structured", "b": "evoked"}, rehearse=False)
    with pytest.warns(UserWarning, match="The sample weights of subject 'b' sum to 0.75"):
        model.fit(X, y, subjects=np.repeat(["a", "b"], 20), sample_weight=s)
