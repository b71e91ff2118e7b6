"""Similarity computed after whitening: the maps, the joint fit, subjects in ``asymmetric``, and new subjects."""

import cvxpy as cp
import numpy as np
import pytest
from scipy.linalg import sqrtm
from sklearn.metrics import roc_auc_score

from cohorts import cohort, stacked
from mixnorm import GroupSVC, MultiTaskGroupSVC, MultiTaskGroupSVCCV, load, save
from mixnorm.core.groups import Groups
from mixnorm.subjects import alignment as module
from mixnorm.subjects.alignment import alignment
from reference import convex_reference, objective

ALPHA, SIMILARITY = 0.02, 0.3


def coloured(n_subjects, seed=0, sizes=(40, 25, 60, 31)):
    """Subjects whose 6 sensors × 3 samples are mixed in another way in each: (Xs, ys, groups)."""
    Xs, ys, groups = cohort(n_subjects, seed=seed, sizes=sizes)
    rng = np.random.default_rng(seed)
    mixed = []
    for X in Xs:
        space, time = rng.normal(size=(6, 6)) + np.eye(6), rng.normal(size=(3, 3)) + 2 * np.eye(3)
        mixed.append(np.einsum("ab,nbs,st->nat", space, X.reshape(-1, 6, 3), time).reshape(-1, 18))
    return mixed, ys, groups


def slow_alignment(X, groups, weights=None):
    """A by its formula, number by number: R over trials and samples, S over trials and white sensors, 3 % noise."""
    weights = np.ones(len(X)) if weights is None else weights
    p = weights / weights.sum()
    features = [np.flatnonzero(groups == g) for g in np.unique(groups)]
    C, r = len(features), len(features[0])
    trials = [np.array([x[own] for own in features]) for x in X - p @ X]
    R = sum(p_i * x @ x.T for p_i, x in zip(p, trials)) / r
    R = 0.97 * R + 0.03 * np.trace(R) / C * np.eye(C)
    inverse = np.linalg.inv(sqrtm(R).real)
    S = sum(p_i * (inverse @ x).T @ (inverse @ x) for p_i, x in zip(p, trials)) / C
    S = 0.97 * S + 0.03 * np.trace(S) / r * np.eye(r)
    root_R, root_S = sqrtm(R).real, sqrtm(S).real
    A = np.zeros((X.shape[1], X.shape[1]))
    for a, own in enumerate(features):
        for b, other in enumerate(features):
            A[np.ix_(own, other)] = root_R[a, b] * root_S
    return A


def fit(data, align=True, alpha=ALPHA, similarity=SIMILARITY, **options):
    Xs, ys, groups = data
    X, y, subjects = stacked(Xs, ys)
    model = MultiTaskGroupSVC(alpha, similarity=similarity, groups=groups, align=align, tol=1e-9, **options)
    return model.fit(X, y, subjects=subjects)


# --- the maps ---


@pytest.mark.parametrize("order", ["in order", "mixed"])
def test_the_map_is_the_root_of_covariances_over_sensors_and_over_samples(order):
    (X,), _, groups = coloured(1)
    weights = np.random.default_rng(1).uniform(0, 1, len(X))
    weights[::5] = 0.0
    if order == "mixed":
        places = np.random.default_rng(2).permutation(18)
        X, groups = X[:, places], groups[places]
    found = alignment(X, weights, Groups.from_labels(groups, 18)).roots()[0, 0]
    np.testing.assert_allclose(found, slow_alignment(X, groups, weights), atol=1e-10)


def test_trials_are_white_in_its_coordinates(monkeypatch):
    monkeypatch.setattr(module, "WHITE_SHARE", 1e-9)
    rng = np.random.default_rng(0)
    space, time = rng.normal(size=(6, 6)), rng.normal(size=(3, 3))
    X = np.einsum("ab,nbs,st->nat", space, rng.normal(size=(100_000, 6, 3)), time).reshape(-1, 18)
    groups = Groups.from_channels(list("abcdef"), 3)
    white = np.linalg.solve(alignment(X, np.ones(len(X)), groups).roots()[0, 0], X.T)
    np.testing.assert_allclose(np.cov(white), np.eye(18), atol=0.02)


def test_a_dead_sensor_has_a_map_too():
    (X,), _, groups = coloured(1)
    X[:, groups == 2] = 0.0
    A = alignment(X, np.ones(len(X)), Groups.from_labels(groups, 18)).roots()[0, 0]
    assert np.linalg.eigvalsh(A).min() > 1e-3


def test_trials_that_are_all_the_same_have_none():
    (X,), _, groups = coloured(1)
    for trial in (X[0], 1e6 * X[1], np.ones(18), np.zeros(18)):
        assert alignment(np.tile(trial, (7, 1)), np.ones(7), Groups.from_labels(groups, 18)) is None


def test_classes_have_no_part_in_the_maps_whatever_they_weigh():
    Xs, ys, groups = coloured(2)
    ys[0][:25], ys[1][:15] = 1.0, 1.0
    model = fit((Xs, ys, groups), class_weight="balanced")
    A = [slow_alignment(X, groups) for X in Xs]
    s = [np.where(y > 0, len(y) / 2 / np.sum(y > 0), len(y) / 2 / np.sum(y < 0)) for y in ys]
    how = {"alpha": ALPHA, "similarity": SIMILARITY, "groups": groups, "alignment": A}
    assert model.objective_ == pytest.approx(convex_reference(Xs, ys, s=s, **how)[0], rel=1e-7)


# --- the joint fit ---


@pytest.mark.parametrize("sizes", [(40, 25, 60), (12, 9, 8)], ids=["n > d", "n < d"])
@pytest.mark.parametrize(("penalty", "q"), [("group", 2.0), ("group", 1.5), ("l1", 2.0), ("l2", 2.0)])
def test_the_fit_is_the_convex_solvers_of_aligned_subjects(penalty, q, sizes):
    data = Xs, ys, groups = coloured(3, sizes=sizes)
    model = fit(data, penalty=penalty, q=q)
    A = [slow_alignment(X, groups) for X in Xs]
    how = {"alpha": ALPHA, "similarity": SIMILARITY, "penalty": penalty, "q": q, "groups": groups, "alignment": A}
    optimum = convex_reference(Xs, ys, **how)[0]
    assert objective(Xs, ys, model.coef_, model.intercept_, **how) == pytest.approx(optimum, rel=1e-7)
    assert model.objective_ == pytest.approx(optimum, rel=1e-7)
    assert model.dual_gap_ <= 1e-9
    np.testing.assert_allclose(model.mean_aligned_coef_, np.mean([a @ w for a, w in zip(A, model.coef_)], axis=0))
    assert convex_reference(Xs, ys, **{**how, "alignment": None})[0] != pytest.approx(optimum, rel=1e-3)


def test_weights_of_trials_count_in_the_maps_too():
    Xs, ys, groups = coloured(2)
    weights = np.random.default_rng(0).uniform(0.1, 2, 65)
    X, y, subjects = stacked(Xs, ys)
    model = MultiTaskGroupSVC(ALPHA, similarity=SIMILARITY, groups=groups, align=True, tol=1e-9)
    model.fit(X, y, subjects=subjects, sample_weight=weights)
    ss = [weights[:40], weights[40:]]
    A = [slow_alignment(X, groups, s) for X, s in zip(Xs, ss)]
    how = {"alpha": ALPHA, "similarity": SIMILARITY, "groups": groups, "alignment": A}
    assert model.objective_ == pytest.approx(convex_reference(Xs, ys, s=ss, **how)[0], rel=1e-7)


def test_limits():
    data = Xs, ys, groups = coloured(3)
    np.testing.assert_allclose(
        fit(data, similarity=0.0).coef_, fit(data, align=False, similarity=0.0).coef_, atol=1e-6
    )
    alone = fit((Xs[:1], ys[:1], groups))
    single = GroupSVC(ALPHA, groups=groups, tol=1e-9).fit(Xs[0], ys[0])
    np.testing.assert_allclose(alone.coef_, single.coef_, atol=1e-6)
    same = fit(data, penalty="l2", similarity=1e4)
    V = [slow_alignment(X, groups) @ w for X, w in zip(Xs, same.coef_)]
    np.testing.assert_allclose(V - np.mean(V, axis=0), 0.0, atol=1e-3 * np.abs(V).max())
    assert np.abs(same.coef_ - same.coef_.mean(axis=0)).max() > 0.1 * np.abs(same.coef_).max()


def alike_in_their_responses(rng, n=60, n_subjects=6):
    """The same response in all subjects, behind ongoing activity that is mixed into the sensors differently in each."""
    response = np.outer(np.sin(np.arange(5)), np.hanning(6))
    out = []
    for _ in range(n_subjects):
        mixing = rng.normal(size=(5, 5)) * np.array([3, 1, 1, 0.3, 0.3])
        y = np.tile([0, 1], n // 2)
        out.append((np.einsum("cd,nds->ncs", mixing, rng.normal(size=(n, 5, 6))) + np.multiply.outer(y, response), y))
    return out


def test_subjects_who_differ_in_ongoing_activity_alone_are_learned_better_aligned():
    rng = np.random.default_rng(0)
    data = alike_in_their_responses(rng, n=200)
    X, y = (np.concatenate([part[i][:40] for part in data]) for i in (0, 1))
    subjects, aucs = np.repeat(np.arange(6), 40), {}
    for align in (False, True):
        model = MultiTaskGroupSVCCV(5, similarities=5, align=align, rehearse=False, tol=1e-4)
        model.fit(X, y, subjects=subjects)
        scores = [model.decision_function(part[0][40:], subjects=t) for t, part in enumerate(data)]
        aucs[align] = np.mean([roc_auc_score(part[1][40:], s) for part, s in zip(data, scores)])
    assert aucs[True] > aucs[False] + 0.03


@pytest.mark.parametrize("seed", [9, 11])
def test_few_steps_where_the_features_of_subjects_are_of_unlike_size(seed):
    rng = np.random.default_rng(seed)
    response, parts = 0.5 * rng.normal(size=(7, 6)), []
    for n, scale in zip((28, 28, 72), (0.2, 1.0, 8.0)):
        y, mixing = np.tile([0, 1], n // 2), scale * rng.normal(size=(7, 7))
        parts.append(
            (np.einsum("cd,nds->ncs", mixing, rng.normal(size=(n, 7, 6))) + np.multiply.outer(y, response), y)
        )
    X, y = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    model = MultiTaskGroupSVC(1e-4, similarity=0.3, q=1.2, align=True).fit(
        X, y, subjects=np.repeat([0, 1, 2], (28, 28, 72))
    )
    assert model.dual_gap_ <= 1e-6
    assert model.n_iter_ < 100


@pytest.mark.parametrize("similarity", [25.0, 100.0])
def test_sensors_always_kept_are_certified_with_a_large_similarity(similarity):
    """The deviation from the mean is then a small difference of large numbers, and its rounding not that of itself."""
    for seed in range(8):
        rng, parts = np.random.default_rng(seed), []
        for _ in range(4):
            y, trials = np.tile([0, 1], 20), rng.normal(size=(40, 6, 5))
            X = np.einsum("cd,nds->ncs", 0.5 * rng.normal(size=(6, 6)) + np.eye(6), trials)
            X[y == 1, 2] += 0.7
            parts.append((X, y))
        X, y = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        used, subjects = np.arange(160) % 3 != 1, np.repeat(np.arange(4), 40)
        model = MultiTaskGroupSVC(5e-4, similarity=similarity, align=True, group_weights={1: 0.0, 2: 0.0})
        assert model.fit(X[used], y[used], subjects=subjects[used]).dual_gap_ <= 1e-6


def test_the_refit_of_a_cross_validation_is_the_fit_at_what_it_chose():
    Xs, ys, groups = coloured(3)
    X, y, subjects = stacked(Xs, ys)
    found = MultiTaskGroupSVCCV(4, similarities=3, groups=groups, align=True, rehearse=False, tol=1e-9)
    found.fit(X, y, subjects=subjects)
    np.testing.assert_allclose(found.similarities_, np.array([0.0, 1e-2, 1e2]) / 3)  # of white features
    again = fit((Xs, ys, groups), alpha=found.alpha_, similarity=found.similarity_)
    np.testing.assert_allclose(found.coef_, again.coef_, atol=1e-6)


# --- subjects in asymmetric, and new subjects ---


def regularised_problem(X, y, model, root, target, strength, sensors):
    """Optimum by cvxpy, and value at the last row, of a subject's own loss + strength ‖root w − target‖² + the norm."""
    groups = np.asarray(model.groups)
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    cost = cp.sum_squares(cp.pos(1 - cp.multiply(y, X @ w + b))) / len(y)
    cost += strength * cp.sum_squares(root @ w - target)
    cost += model.alpha * sum(cp.norm2(w[np.flatnonzero(groups == g)]) for g in sensors)
    held = [w[np.flatnonzero(~np.isin(groups, sensors))] == 0] if len(sensors) < 6 else []
    optimum = cp.Problem(cp.Minimize(cost), held).solve(
        solver=cp.CLARABEL, tol_gap_rel=1e-9, tol_gap_abs=1e-10, tol_feas=1e-9
    )
    w.value, b.value = model.coef_[-1], model.intercept_[-1]
    return optimum, cost.value


def test_a_subject_in_asymmetric_is_regularised_in_its_own_coordinates_and_changes_no_other():
    Xs, ys, groups = coloured(4)
    model = fit((Xs, ys, groups), asymmetric=["S3"])
    others = fit((Xs[:3], ys[:3], groups))
    np.testing.assert_array_equal(model.coef_[:3], others.coef_)
    root = slow_alignment(Xs[3], groups)
    optimum, value = regularised_problem(Xs[3], ys[3], model, root, others.mean_aligned_coef_, SIMILARITY, range(6))
    assert value == pytest.approx(optimum, rel=1e-7)


def test_a_new_subject_is_regularised_in_its_own_coordinates_on_the_selected_sensors():
    Xs, ys, groups = coloured(4, seed=1)
    model = fit((Xs[:3], ys[:3], groups), group_weights={0: np.inf, 3: np.inf})
    before = model.coef_.copy()
    model.adapt(Xs[3], ys[3], subject="new")
    np.testing.assert_array_equal(model.coef_[:3], before)
    assert 0 < model.strength_ < np.inf
    sensors = model.selected_groups_
    assert not {0, 3} & set(sensors.tolist())
    root, usable = slow_alignment(Xs[3], groups), np.isin(groups, sensors)
    size = np.mean(np.sum(root[:, usable] ** 2, axis=0))
    optimum, value = regularised_problem(
        Xs[3], ys[3], model, root, model.mean_aligned_coef_, model.strength_ / size, sensors
    )
    assert value == pytest.approx(optimum, rel=1e-7)


def test_trials_without_labels_give_the_classifier_nearest_to_the_mean():
    Xs, ys, groups = coloured(4, seed=1)
    Xs[0], Xs[3] = Xs[0] - 0.5, Xs[3] + 1.0  # not centred, and each in its own way
    model = fit((Xs[:3], ys[:3], groups), group_weights={0: np.inf})
    usable = np.isin(groups, model.selected_groups_)
    root = slow_alignment(Xs[3], groups)
    nearest = np.linalg.lstsq(root[:, usable], model.mean_aligned_coef_, rcond=None)[0]
    for y in (None, np.ones(31)):
        model.adapt(Xs[3], y, subject="new")
        np.testing.assert_allclose(model.coef_[-1][usable], nearest, atol=1e-9)
        assert not model.coef_[-1][~usable].any()
        scores = [np.mean(X @ w + b) for X, w, b in zip(Xs, model.coef_, model.intercept_)]
        assert np.mean(Xs[3] @ model.coef_[-1] + model.intercept_[-1]) == pytest.approx(np.mean(scores[:3]))
        assert model.strength_ == np.inf


def test_fit_takes_a_targets_trials_without_labels():
    Xs, ys, groups = coloured(4)
    X, y, subjects = stacked(Xs[:3], ys[:3])
    model = fit((Xs[:3], ys[:3], groups)).adapt(Xs[3], subject="newcomer")
    again = fit((Xs[:3], ys[:3], groups)).fit(X, y, subjects=subjects, X_target_unlabeled=Xs[3])
    np.testing.assert_array_equal(again.coef_, model.coef_)
    plain = fit((Xs[:3], ys[:3], groups), align=False).fit(X, y, subjects=subjects, X_target_unlabeled=Xs[3])
    assert len(plain.coef_) == 3


def test_with_too_few_trials_or_all_the_same_the_new_subject_gets_the_mean_classifier():
    Xs, ys, groups = coloured(4)
    model = fit((Xs[:3], ys[:3], groups))
    few, same = Xs[3][:4], np.tile(Xs[3][0], (6, 1))
    for X, y in ((None, None), (few[:1], None), (few, None), (few, np.ones(4)), (same, None)):
        model.adapt(X, y, subject="new")
        np.testing.assert_array_equal(model.coef_[-1], model.mean_coef_)
        assert model.intercept_[-1] == model.mean_intercept_


def test_a_model_without_intercept_gives_nobody_one():
    Xs, ys, groups = coloured(4)
    model = fit((Xs, [*ys[:3], np.ones(31)], groups), asymmetric=["S3"], fit_intercept=False)
    model.adapt(Xs[3] + 1.0, subject="new")
    assert not model.intercept_.any()
    assert not np.array_equal(model.coef_[-1], model.mean_coef_)


def test_a_subject_in_asymmetric_with_few_trials_is_regularised_towards_the_plain_mean():
    Xs, ys, groups = coloured(4)
    X, y = Xs[3][:4], np.array([1.0, -1, 1, -1])
    model = fit(([*Xs[:3], X], [*ys[:3], y], groups), asymmetric=["S3"])
    optimum, value = regularised_problem(X, y, model, np.eye(18), model.mean_coef_, SIMILARITY, range(6))
    assert value == pytest.approx(optimum, rel=1e-7)
    model = fit(([*Xs[:3], X], [*ys[:3], np.ones(4)], groups), asymmetric=["S3"])
    np.testing.assert_array_equal(model.coef_[-1], model.mean_coef_)


def test_what_was_fitted_counts_not_what_align_is_set_to_later():
    Xs, ys, groups = coloured(4)
    for align in (False, True):
        model = fit((Xs[:3], ys[:3], groups), align=align)
        expected = fit((Xs[:3], ys[:3], groups), align=align).adapt(Xs[3], ys[3]).coef_
        np.testing.assert_array_equal(model.set_params(align=not align).adapt(Xs[3], ys[3]).coef_, expected)


def test_one_who_leans_with_one_class_gets_the_classifier_nearest_to_the_mean():
    Xs, ys, groups = coloured(4)
    model = fit((Xs, [*ys[:3], np.ones(31)], groups), asymmetric=["S3"])
    by_hand = fit((Xs[:3], ys[:3], groups)).adapt(Xs[3], subject="S3")
    usable = np.isin(groups, by_hand.selected_groups_)
    assert usable.all()  # else adapt keeps to the selected sensors, and a subject in asymmetric may use others
    np.testing.assert_allclose(model.coef_[-1], by_hand.coef_[-1], atol=1e-12)
    np.testing.assert_allclose(model.intercept_[-1], by_hand.intercept_[-1], atol=1e-12)


def test_a_loaded_model_adapts_as_the_saved_one(tmp_path):
    Xs, ys, groups = coloured(4)
    model = fit((Xs[:3], ys[:3], groups), rehearse=True)
    assert np.isfinite(model.newcomer_gains_).all()
    save(model, tmp_path / "model.mixnorm")
    again = load(tmp_path / "model.mixnorm").adapt(Xs[3], ys[3])
    np.testing.assert_array_equal(again.coef_, model.adapt(Xs[3], ys[3]).coef_)


# --- bad input ---


def test_a_subject_whose_trials_are_all_the_same_is_refused_by_name():
    Xs, ys, groups = coloured(3)
    Xs[1][:] = Xs[1][0]
    with pytest.raises(ValueError, match="Subject 'S1': all trials are the same"):
        fit((Xs, ys, groups))


def test_trials_of_a_target_come_with_labels_or_without():
    Xs, ys, groups = coloured(4)
    X, y, subjects = stacked(Xs[:3], ys[:3])
    model = fit((Xs[:3], ys[:3], groups))
    with pytest.raises(ValueError, match="X_target_labeled was given without y_target_labeled"):
        model.fit(X, y, subjects=subjects, X_target_labeled=Xs[3])
    nothing = {"X_target_labeled": Xs[3][:0], "y_target_labeled": ys[3][:0]}
    model.fit(X, y, subjects=subjects, X_target_unlabeled=Xs[3], **nothing)
    expected = fit((Xs[:3], ys[:3], groups)).adapt(Xs[3]).coef_
    np.testing.assert_array_equal(model.coef_, expected)


def test_sensors_of_unequal_size_are_named():
    Xs, ys, _ = coloured(2)
    groups = ["Fz"] * 7 + ["Pz"] * 6 + ["Oz"] * 5
    with pytest.raises(ValueError, match="sensor 'Fz' has 7 features and sensor 'Oz' has 5"):
        fit((Xs, ys, groups))


def test_trials_without_labels_need_an_aligned_model():
    Xs, ys, groups = coloured(3)
    with pytest.raises(ValueError, match="align=True"):
        fit((Xs[:2], ys[:2], groups), align=False).adapt(Xs[2], subject="new")
