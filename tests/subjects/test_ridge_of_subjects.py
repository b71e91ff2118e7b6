"""``ridge`` beside a norm in joint fits: the problem that is solved, one subject, cross-validation, bad input."""

import cvxpy as cp
import numpy as np
import pytest
from scipy.linalg import sqrtm
from sklearn.base import clone

import noise_reference as slow
from cohorts import cohort, stacked
from mixnorm import GroupSVC, GroupSVCCV, MultiTaskGroupSVC, MultiTaskGroupSVCCV, load, save
from mixnorm.execution.device import sending
from reference import convex_reference, objective

ALPHA, SIMILARITY, RIDGE = 0.02, 0.3, 0.2
pytestmark = pytest.mark.filterwarnings("ignore:.*not above chance level:UserWarning")


def noise_root(X, y, groups, name):
    """R of one subject, features sensor by sensor; the identity without noise."""
    if name is None:
        return np.eye(X.shape[1])
    weights = np.ones(len(X))
    E = slow.residuals(X, y, weights).reshape(len(X), len(np.unique(groups)), -1)
    return sqrtm(getattr(slow, name)(E, weights / len(X))).real


def fit(data, **options):
    Xs, ys, groups = data
    X, y, subjects = stacked(Xs, ys)
    how = {"similarity": SIMILARITY, "ridge": RIDGE, "groups": groups, "tol": 1e-9, **options}
    return MultiTaskGroupSVC(ALPHA, **how).fit(X, y, subjects=subjects)


@pytest.mark.parametrize("sizes", [(40, 25, 60), (12, 9, 8)], ids=["n > d", "n < d"])
@pytest.mark.parametrize(
    ("penalty", "q", "noise"), [("group", 2.0, None), ("group", 2.0, "structured"), ("group", 1.5, "kronecker"), ("l1", 2.0, "toeplitz")]
)  # fmt: skip
def test_the_fit_is_the_convex_solvers(penalty, q, noise, sizes):
    data = Xs, ys, groups = cohort(3, seed=3, sizes=sizes)
    model = fit(data, penalty=penalty, q=q, noise=noise)
    R = [noise_root(X, y, groups, noise) for X, y in zip(Xs, ys, strict=True)]
    how = {"similarity": SIMILARITY, "alpha": ALPHA, "groups": groups, "penalty": penalty, "q": q, "alignment": R}
    optimum = convex_reference(Xs, ys, ridge=RIDGE, **how)[0]
    assert objective(Xs, ys, model.coef_, model.intercept_, ridge=RIDGE, **how) == pytest.approx(optimum, rel=1e-7)
    assert model.objective_ == pytest.approx(optimum, rel=1e-7)
    assert model.dual_gap_ <= 1e-9
    assert convex_reference(Xs, ys, **how)[0] != pytest.approx(optimum, rel=1e-3)


@pytest.mark.parametrize("noise", [None, "structured"])
def test_one_subject_is_the_fit_of_one_subject(noise):
    (X,), (y,), groups = cohort(1, seed=2)
    how = {"ridge": RIDGE, "noise": noise, "groups": groups, "tol": 1e-10}
    joint = MultiTaskGroupSVC(ALPHA, similarity=SIMILARITY, **how).fit(X, y, subjects=["S0"] * len(y))
    single = GroupSVC(ALPHA, **how).fit(X, y)
    np.testing.assert_allclose(joint.coef_, single.coef_, atol=1e-9)
    assert joint.objective_ == pytest.approx(single.objective_, rel=1e-12)


@pytest.mark.parametrize("weights", [None, {1: 0.0, 4: np.inf}], ids=["plain", "kept and forbidden"])
@pytest.mark.parametrize("noise", [None, "structured"])
def test_cross_validation_of_one_subject_is_that_of_one_subject(noise, weights):
    (X,), (y,), groups = cohort(1, seed=2)
    how = {"ridge": (0.02, 0.5), "noise": noise, "groups": groups, "group_weights": weights, "tol": 1e-9, "cv": 3}
    joint = MultiTaskGroupSVCCV(4, similarities=[SIMILARITY], rule="best", rehearse=False, **how)
    joint.fit(X, y, subjects=["S0"] * len(y))
    single = GroupSVCCV(4, **how).fit(X, y)
    np.testing.assert_allclose(joint.alphas_, single.alphas_, rtol=1e-9)
    np.testing.assert_allclose(joint.scores_[:, 0], single.scores_, atol=1e-12)
    np.testing.assert_array_equal(joint.n_selected_[:, 0], single.n_selected_)
    assert (joint.ridge_, joint.alpha_) == (single.ridge_, pytest.approx(single.alpha_))
    np.testing.assert_allclose(joint.coef_, single.coef_, atol=1e-6)


def test_the_ridge_with_the_best_score_is_chosen_and_kept_in_the_file(tmp_path):
    data = Xs, ys, groups = cohort(3, seed=5)
    X, y, subjects = stacked(Xs, ys)
    ridges = (0.01, 0.3, 30.0)
    how = {"similarities": 2, "noise": "kronecker", "groups": groups, "tol": 1e-8}
    found = MultiTaskGroupSVCCV(3, ridge=ridges, **how).fit(X, y, subjects=subjects)
    assert (found.scores_.shape, found.n_selected_.shape, found.alphas_.shape) == ((3, 2, 3, 8), (3, 2, 3), (3, 3))
    means = found.scores_.mean(axis=3)
    best = ridges.index(found.ridge_)
    assert means[best].max() == means.max()
    alone = MultiTaskGroupSVCCV(3, ridge=found.ridge_, **how).fit(X, y, subjects=subjects)
    np.testing.assert_array_equal(alone.scores_, found.scores_[best])
    np.testing.assert_array_equal(alone.coef_, found.coef_)
    again = fit(data, similarity=found.similarity_, ridge=found.ridge_, noise="kronecker")
    assert len({found.alpha_, ALPHA}) == 2  # another alpha: the refit below is at the one that was chosen
    again = again.set_params(alpha=found.alpha_).fit(X, y, subjects=subjects)
    np.testing.assert_allclose(found.coef_, again.coef_, atol=1e-5)
    save(found, tmp_path / "model.mixnorm")
    loaded = load(tmp_path / "model.mixnorm")
    assert loaded.ridge_ == found.ridge_
    np.testing.assert_array_equal(loaded.adapt(Xs[0], ys[0]).coef_, found.adapt(Xs[0], ys[0]).coef_)


@pytest.mark.parametrize("noise", [None, "structured"])
def test_a_subject_in_asymmetric_has_the_ridge_too(noise):
    Xs, ys, groups = cohort(3, seed=6)
    model = fit((Xs, ys, groups), asymmetric=["S2"], noise=noise)
    X, y, w, b = Xs[2], ys[2], cp.Variable(18), cp.Variable()
    R, center = np.eye(18), model.coef_[:2].mean(axis=0)
    if noise is not None:
        N = [noise_root(*each, groups, noise) @ noise_root(*each, groups, noise) for each in zip(Xs, ys, strict=True)]
        R = sqrtm((len(y) * N[2] + 2 * (N[0] + N[1]) / 2) / (len(y) + 2)).real
        center = np.linalg.solve(R, model.mean_white_coef_)
    cost = cp.sum_squares(cp.pos(1 - cp.multiply(y, X @ w + b))) / len(y)
    cost += SIMILARITY * cp.sum_squares(R @ (w - center)) + RIDGE / 2 * cp.sum_squares(R @ w)
    cost += ALPHA * sum(cp.norm2(w[np.flatnonzero(groups == g)]) for g in range(6))
    optimum = cp.Problem(cp.Minimize(cost)).solve(solver=cp.CLARABEL, tol_gap_rel=1e-10, tol_feas=1e-10)
    w.value, b.value = model.coef_[2], model.intercept_[2]
    assert cost.value == pytest.approx(optimum, rel=1e-7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ridge": 0.1, "penalty": "l2"}, r"ridge=0\.1 cannot be used with penalty='l2'"),
        ({"ridge": -1.0}, r"Invalid value for the 'ridge' parameter.*got -1\.0"),
        ({"ridge": np.inf}, "Invalid value for the 'ridge' parameter.*got inf"),
        ({"ridge": "much"}, "Invalid value for the 'ridge' parameter.*got 'much'"),
    ],
)
def test_bad_ridges_are_refused(options, message):
    data = cohort(2)
    with pytest.raises(ValueError, match=message):
        fit(data, **options)
    X, y, subjects = stacked(*data[:2])
    with pytest.raises(ValueError, match=message):
        MultiTaskGroupSVCCV(2, similarities=1, **options).fit(X, y, subjects=subjects)


def test_an_empty_sequence_of_ridges_is_refused():
    X, y, subjects = stacked(*cohort(2)[:2])
    with pytest.raises(ValueError, match="ridge must hold at least one value"):
        MultiTaskGroupSVCCV(2, ridge=()).fit(X, y, subjects=subjects)


@pytest.mark.parametrize(
    "how",
    [
        {"penalty": "l2", "noise": "structured"},
        {"noise": "kronecker"},
        {"noise": "structured", "ridge": RIDGE},
        {"ridge": (0.05, RIDGE), "q": 1.5},
    ],
    ids=str,
)
def test_the_engine_of_gpus_chooses_and_scores_as_that_of_the_cpu(how):
    torch = pytest.importorskip("torch")
    Xs, ys, groups = cohort(3, seed=5)
    X, y, subjects = stacked(Xs, ys)
    model = MultiTaskGroupSVCCV(3, similarities=2, groups=groups, cv=3, rehearse=False, tol=1e-10, **how)
    here = clone(model).fit(X, y, subjects=subjects)
    with sending(torch.asarray):
        there = clone(model).fit(X, y, subjects=subjects)
    for name in ("alpha_", "similarity_", "ridge_"):
        assert getattr(there, name) == pytest.approx(getattr(here, name), rel=1e-9)
    np.testing.assert_allclose(there.scores_, here.scores_, atol=1e-12)
    scores = [each.decision_function(X, subjects) for each in (here, there)]
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-6 * np.ptp(scores[0]))
