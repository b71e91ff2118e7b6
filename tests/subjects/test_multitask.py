"""The joint fit: its limits, who gets which classifier, new subjects, subjects in ``asymmetric``, bad input."""

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from cohorts import cohort, stacked
from mixnorm import (
    GroupSVC,
    MultiTaskGroupSVC,
    MultiTaskGroupSVCCV,
    PerSubjectSVC,
    PooledSVC,
    load,
    save,
)
from mixnorm.subjects import new_subject_metric as metric_module
from mixnorm.subjects.adaptation import SPREAD, STRENGTHS, best_strength, n_worth_trying
from mixnorm.subjects.joint import Subjects
from reference import convex_reference, objective

PENALTIES = [("group", 2.0), ("group", 1.5), ("l1", 2.0), ("l2", 2.0)]


@pytest.mark.filterwarnings("ignore:alpha=.* is at or above alpha_max")
@pytest.mark.filterwarnings("ignore:fit was called without subjects:UserWarning", "ignore:.*selects no sensor")
@parametrize_with_checks(
    [
        MultiTaskGroupSVC(),
        MultiTaskGroupSVC(similarity=1.0, penalty="l2", noise="structured"),
        MultiTaskGroupSVCCV(alphas=4, similarities=3),
        PerSubjectSVC(),
        PooledSVC(),
    ]
)
def test_scikit_learns_checks_pass_without_subjects(estimator, check):
    check(estimator)


@pytest.fixture
def data():
    Xs, ys, groups = cohort(3, seed=1)
    return (*stacked(Xs, ys, seed=4), groups)


def fit(data, alpha=0.02, similarity=0.1, **options):
    X, y, subjects, groups = data
    return MultiTaskGroupSVC(alpha, similarity=similarity, groups=groups, **options).fit(X, y, subjects=subjects)


# --- the problem that is solved ---


@pytest.mark.parametrize(("penalty", "q"), PENALTIES)
def test_objective_is_the_convex_solvers_for_shuffled_subjects_of_unequal_size(penalty, q):
    Xs, ys, groups = cohort(3, seed=1)
    model = fit((*stacked(Xs, ys, seed=4), groups), penalty=penalty, q=q, tol=1e-8)
    order = [model.subjects_.tolist().index(f"S{t}") for t in range(3)]
    how = {"alpha": 0.02, "similarity": 0.1, "penalty": penalty, "q": q, "groups": groups}
    value = objective(Xs, ys, model.coef_[order], model.intercept_[order], **how)
    assert value <= (1 + 1e-7) * convex_reference(Xs, ys, **how)[0]
    assert model.objective_ == pytest.approx(value, rel=1e-9)


def test_weights_of_trials_and_classes_within_each_subject():
    Xs, ys, groups = cohort(2, seed=2)
    rng = np.random.default_rng(0)
    s = [rng.uniform(0.2, 2.0, len(y)) for y in ys]
    X, y, subjects = stacked(Xs, ys)
    model = MultiTaskGroupSVC(0.02, similarity=0.1, groups=groups, class_weight="balanced", tol=1e-8)
    model.fit(X, y, subjects=subjects, sample_weight=np.concatenate(s))
    balanced = [
        s_t * s_t.sum() / 2 / np.where(y_t > 0, s_t[y_t > 0].sum(), s_t[y_t < 0].sum())
        for s_t, y_t in zip(s, ys, strict=True)
    ]
    how = {"s": balanced, "alpha": 0.02, "similarity": 0.1, "groups": groups}
    value = objective(Xs, ys, model.coef_, model.intercept_, **how)
    assert value <= (1 + 1e-7) * convex_reference(Xs, ys, **how)[0]


def test_adaptive_weights_are_of_the_norms_over_all_subjects():
    Xs, ys, groups = cohort(3, seed=1)
    data = (*stacked(Xs, ys), groups)
    first, second = fit(data, 0.05, tol=1e-9), fit(data, 0.05, adaptive=True, tol=1e-8)
    norms = np.array([np.linalg.norm(first.coef_[:, groups == g]) for g in range(6)])
    alive = norms > 0
    beta = np.full(6, np.inf)
    beta[alive] = 1 / norms[alive] / np.exp(np.mean(np.log(1 / norms[alive])))
    how = {"alpha": 0.05, "similarity": 0.1, "groups": groups, "beta": beta}
    value = objective(Xs, ys, second.coef_, second.intercept_, **how)
    assert value == pytest.approx(convex_reference(Xs, ys, **how)[0], rel=1e-6)


def test_group_norms_are_over_all_subjects(data):
    model, groups = fit(data, 0.3), data[3]
    norms = [np.linalg.norm(model.coef_[:, groups == g]) for g in range(6)]
    np.testing.assert_allclose(model.group_norms_, norms, rtol=1e-12)
    assert 0 < len(model.selected_groups_) < 6
    np.testing.assert_array_equal(model.selected_groups_, np.flatnonzero(norms))


# --- limits ---


@pytest.mark.parametrize(("penalty", "q"), PENALTIES)
def test_one_subject_is_the_single_subject_fit(penalty, q):
    (X,), (y,), groups = cohort(1)
    options = {"penalty": penalty, "q": q, "groups": groups}
    one = MultiTaskGroupSVC(0.02, similarity=3.0, **options).fit(X, y, subjects=["me"] * len(y))
    single = GroupSVC(0.02, **options).fit(X, y)
    np.testing.assert_array_equal(one.coef_, single.coef_)
    np.testing.assert_array_equal(one.intercept_, single.intercept_)


@pytest.mark.parametrize(("penalty", "q"), PENALTIES)
def test_infinite_similarity_is_the_pooled_fit_with_an_intercept_per_subject(penalty, q):
    Xs, ys, groups = cohort(3, seed=1)
    T = 3
    model = fit((*stacked(Xs, ys), groups), similarity=1e5, penalty=penalty, q=q, tol=1e-9)
    # one intercept per subject: unpenalised indicator columns in the pooled problem
    whose = np.repeat(np.arange(T), [len(y) for y in ys])
    pooled = np.column_stack([np.concatenate(Xs), np.eye(T)[whose]])
    beta = np.append(np.ones(6), 0.0)
    alpha = 0.02 * (T ** (1 / q) if penalty == "group" else T)
    _, w, _ = convex_reference(
        pooled,
        np.concatenate(ys),
        alpha=alpha,
        penalty=penalty,
        q=q,
        groups=np.append(groups, [6] * T),
        beta=beta,
        fit_intercept=False,
    )
    np.testing.assert_allclose(model.coef_, np.tile(w[0, :-T], (T, 1)), atol=2e-4)
    np.testing.assert_allclose(model.intercept_, w[0, -T:], atol=2e-4)


def test_without_similarity_l2_is_each_subjects_own_svm():
    Xs, ys, groups = cohort(3, seed=1)
    model = fit((*stacked(Xs, ys), groups), similarity=0.0, penalty="l2", tol=1e-10)
    N = sum(map(len, ys))
    for t, (X, y) in enumerate(zip(Xs, ys, strict=True)):
        own = GroupSVC(0.02 * N / len(y), penalty="l2", groups=groups, tol=1e-10).fit(X, y)
        np.testing.assert_allclose(model.coef_[t], own.coef_[0], atol=1e-6)
        np.testing.assert_allclose(model.intercept_[t], own.intercept_[0], atol=1e-6)


# --- whose classifier ---


def test_rows_are_in_order_of_first_appearance_and_predict_takes_the_subjects_own(data):
    X, _, subjects, _ = data
    model = fit(data)
    assert model.subjects_.tolist() == list(dict.fromkeys(subjects.tolist()))
    scores = model.decision_function(X, subjects=subjects)
    rows = [model.subjects_.tolist().index(s) for s in subjects]
    np.testing.assert_allclose(scores, np.sum(X * model.coef_[rows], axis=1) + model.intercept_[rows], atol=1e-12)
    np.testing.assert_array_equal(model.predict(X, subjects=subjects), np.where(scores > 0, 1, -1))
    one = model.decision_function(X[:5], subjects="S1")
    row = model.subjects_.tolist().index("S1")
    np.testing.assert_allclose(one, X[:5] @ model.coef_[row] + model.intercept_[row], atol=1e-12)


def test_unknown_and_unnamed_subjects_get_the_mean_classifier(data):
    X, model = data[0], fit(data)
    mean = X @ model.coef_.mean(axis=0) + model.intercept_.mean()
    np.testing.assert_allclose(model.decision_function(X), mean, atol=1e-12)
    np.testing.assert_allclose(model.decision_function(X, subjects="nobody"), mean, atol=1e-12)


@pytest.mark.parametrize(
    "names", [[3, 1, 2], [("a", 1), ("a", 2), ("b", 1)], ["x", 7, ("y", 0)], [1.5, 2.5, 0.5]], ids=str
)
def test_any_hashable_labels(names, tmp_path):
    Xs, ys, groups = cohort(3, seed=1)
    subjects = [name for name, y in zip(names, ys, strict=True) for _ in y]
    X, y = np.concatenate(Xs), np.concatenate(ys)
    model = MultiTaskGroupSVC(0.02, groups=groups).fit(X, y, subjects=subjects)
    assert model.subjects_.tolist() == names
    np.testing.assert_allclose(
        model.decision_function(Xs[1], subjects=names[1]), Xs[1] @ model.coef_[1] + model.intercept_[1], atol=1e-12
    )
    save(model, tmp_path / "m.mixnorm")
    assert load(tmp_path / "m.mixnorm").subjects_.tolist() == names


# --- new subjects ---


def new_subject(n, seed=9):
    Xs, ys, _ = cohort(1, seed=seed, sizes=(n,))
    return Xs[0], ys[0]


def test_adapt_leaves_all_other_subjects_as_they_were(data):
    model = fit(data)
    coef, intercept, mean = model.coef_.copy(), model.intercept_.copy(), model.mean_coef_.copy()
    assert model.adapt(*new_subject(30), subject="new") is model
    np.testing.assert_array_equal(model.coef_[:3], coef)
    np.testing.assert_array_equal(model.intercept_[:3], intercept)
    np.testing.assert_array_equal(model.mean_coef_, mean)
    assert model.subjects_.tolist()[3] == "new"
    again = model.adapt(*new_subject(40, seed=10), subject="new")
    assert again.coef_.shape == (4, 18)
    np.testing.assert_array_equal(again.coef_[:3], coef)


def test_without_trials_the_new_subject_gets_the_mean_classifier(data):
    X = data[0]
    model = fit(data)
    mean = model.decision_function(X)
    for nothing in ((None, None), (np.empty((0, 18)), np.empty(0)), (X[:4], np.ones(4))):
        np.testing.assert_array_equal(model.adapt(*nothing, subject="new").decision_function(X, subjects="new"), mean)
    assert model.strength_ == np.inf


def test_unnamed_trials_belong_to_the_latest_new_subject(data):
    model = fit(data).adapt(*new_subject(30), subject="a").adapt(*new_subject(40, seed=10), subject="b")
    X = data[0]
    np.testing.assert_array_equal(model.decision_function(X), model.decision_function(X, subjects="b"))
    assert np.any(model.decision_function(X) != model.decision_function(X, subjects="a"))


def test_adapt_keeps_to_the_selected_sensors(data):
    model = fit(data, 0.3).adapt(*new_subject(60))
    out = np.setdiff1d(np.arange(6), model.selected_groups_)
    assert len(out)
    assert not model.coef_[3][np.isin(data[3], out)].any()


def test_with_many_trials_adapt_tends_to_the_new_subjects_own_fit():
    Xs, ys, groups = cohort(3, seed=1)
    model = fit((*stacked(Xs, ys), groups), 0.01)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 18))
    y = np.where(X @ rng.normal(size=18) + rng.normal(size=4000) > 0, 1.0, -1.0)  # unlike anybody else
    model.adapt(X, y, subject="new")
    forbidden = dict.fromkeys(set(range(6)) - set(model.selected_groups_.tolist()), np.inf)
    own = GroupSVC(0.01, groups=groups, group_weights=forbidden).fit(X, y)
    assert np.linalg.norm(model.coef_[3] - own.coef_[0]) < 0.05 * np.linalg.norm(own.coef_[0])


@pytest.mark.parametrize("seed", range(6))
def test_a_subject_without_intercept_that_loses_all_sensors(seed):
    """It begins at the centre, all sensors leave, and nothing is left that could move."""
    rng = np.random.default_rng(seed)
    y, X, subjects = np.tile([0, 1], 75), rng.normal(size=(150, 4, 3)), np.repeat(list("abcde"), 30)
    X[:120, 2] += (2 * y[:120] - 1)[:, None]
    model = MultiTaskGroupSVC(0.5, similarity=0.1, fit_intercept=False, asymmetric=["e"]).fit(X, y, subjects=subjects)
    assert np.isfinite(model.coef_).all()
    assert model.dual_gap_ <= 1e-6


def test_with_very_many_features_a_new_subject_is_regularised_by_the_plain_distance(monkeypatch, data, tmp_path):
    monkeypatch.setattr(metric_module, "MOST_FEATURES", 5)
    model = fit(data)
    assert model.newcomer_covariance_ is None
    save(model, tmp_path / "model.mixnorm")
    X, y = new_subject(30)
    again = load(tmp_path / "model.mixnorm").adapt(X, y)
    np.testing.assert_array_equal(model.adapt(X, y).coef_, again.coef_)


@pytest.mark.filterwarnings("ignore:.*not above chance level:UserWarning")
@pytest.mark.parametrize(("sign", "weaker"), [(1.0, False), (-1.0, True)])
def test_a_strength_too_small_for_so_few_trials_is_tried_only_if_the_next_larger_is_best(sign, weaker):
    Xs, ys, groups = cohort(3, seed=1)
    model = MultiTaskGroupSVC(1e-3, similarity=1.0, groups=groups).fit(
        np.concatenate(Xs), np.concatenate(ys), subjects=np.repeat([0, 1, 2], [len(y) for y in ys])
    )
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 18))
    y = np.where(
        sign * X @ model.mean_coef_ + 0.1 * rng.normal(size=60) > 0, 1.0, -1.0
    )  # like the mean, or its opposite
    model.adapt(X, y)
    least = STRENGTHS[n_worth_trying(60) - 1] * np.mean(X**2)
    assert (model.strength_ < 0.999 * least) == weaker


def test_one_trial_of_a_class_keeps_the_mean_weights_with_an_intercept_of_its_own(data):
    X, y = new_subject(12)
    rows = np.append(np.flatnonzero(y < 0), np.flatnonzero(y > 0)[0])
    model = fit(data).adapt(X[rows], y[rows])
    assert model.strength_ == np.inf
    np.testing.assert_array_equal(model.coef_[3], model.mean_coef_)
    assert model.intercept_[3] != model.mean_intercept_


@pytest.mark.parametrize(("steady", "place"), [(True, 1), (False, 0)])
def test_the_mean_stays_unless_another_strength_is_better_by_more_than_a_standard_error(steady, place):
    other = [1.0, 1.0, 1.0] if steady else [1.0, 0.25, 0.0]  # above ∞ by 3/4, or by 3/4, 0 and −1/4
    scores = np.column_stack([np.full(3, 0.25), other])
    assert best_strength(np.tile(scores, (5, 1))) == place


def test_strength_is_the_best_of_own_trials_and_known_subjects_each_by_its_precision():
    # leads of 0.03 and 0.01 in the mean of three folds, drawn five times; known subjects gained −0.04 and 0.02
    def place(e):
        deviations = np.array([e, 0.0, -e])[:, None]
        scores = 0.7 + np.array([0.0, 0.03, 0.01]) + deviations * np.array([0.0, 1.2, np.sqrt(0.56)])
        return best_strength(np.tile(scores, (5, 1)), np.array([0.0, -0.04, 0.02]))

    # σ̄² = e² · 10/14 / 3, as the squares of the deviations are 1.44 e² and 0.56 e²; with s = τ²/(τ² + σ̄²) the two are
    # 0.03 s − 0.04 (1 − s) and 0.01 s + 0.02 (1 − s), equal where s = 3/4, σ̄² = τ²/3, e = τ √(14/10)
    equal = SPREAD * np.sqrt(14 / 10)
    assert place(0.99 * equal) == 1
    assert place(1.01 * equal) == 2


def test_adapt_does_not_depend_on_the_unit_of_the_features():
    Xs, ys, groups = cohort(3, seed=1)
    X, y = new_subject(40)
    models = []
    for unit in (1.0, 1e-6):
        model = fit((*stacked([unit * X_t for X_t in Xs], ys), groups), 0.02 * unit, 0.1 * unit**2)
        models.append(model.adapt(unit * X, y))
    assert models[1].strength_ == pytest.approx(1e-12 * models[0].strength_)
    np.testing.assert_allclose(1e-6 * models[1].coef_[3], models[0].coef_[3], atol=1e-3)


# --- subjects in asymmetric ---


def test_asymmetric_subjects_do_not_move_the_others():
    Xs, ys, groups = cohort(4, seed=1)
    X, y, subjects = stacked(Xs, ys, seed=3)
    model = MultiTaskGroupSVC(0.02, similarity=0.1, groups=groups, asymmetric=["S1"]).fit(X, y, subjects=subjects)
    rest = subjects != "S1"
    without = MultiTaskGroupSVC(0.02, similarity=0.1, groups=groups).fit(X[rest], y[rest], subjects=subjects[rest])
    others = [model.subjects_.tolist().index(s) for s in without.subjects_]
    np.testing.assert_array_equal(model.coef_[others], without.coef_)
    np.testing.assert_array_equal(model.intercept_[others], without.intercept_)
    assert model.subjects_.tolist() == list(dict.fromkeys(subjects.tolist()))


def test_an_asymmetric_subject_minimises_its_own_loss_beside_the_fixed_mean():
    import cvxpy as cp

    Xs, ys, groups = cohort(3, seed=1)
    data = (*stacked(Xs, ys), groups)
    model = fit(data, asymmetric=["S1"], tol=1e-9)
    center = model.coef_[[0, 2]].mean(axis=0)
    w, b = cp.Variable(18), cp.Variable()
    cost = cp.sum_squares(cp.pos(1 - cp.multiply(ys[1], Xs[1] @ w + b))) / len(ys[1])
    cost += 0.1 * cp.sum_squares(w - center) + 0.02 * sum(cp.norm2(w[np.flatnonzero(groups == g)]) for g in range(6))
    cp.Problem(cp.Minimize(cost)).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(model.coef_[1], w.value, atol=1e-4)
    np.testing.assert_array_equal(model.mean_coef_, center)


def test_an_asymmetric_subject_with_one_class_gets_the_mean_classifier():
    Xs, ys, groups = cohort(3, seed=1)
    ys[1] = np.ones_like(ys[1])
    X, y, subjects = stacked(Xs, ys)
    model = MultiTaskGroupSVC(0.02, groups=groups, asymmetric=["S1"]).fit(X, y, subjects=subjects)
    np.testing.assert_array_equal(model.coef_[1], model.mean_coef_)
    assert model.intercept_[1] == model.mean_intercept_


# --- metadata and files ---


def test_fit_with_calibration_trials_is_fit_then_adapt(data):
    X, y, subjects, groups = data
    X_new, y_new = new_subject(30)
    model = MultiTaskGroupSVC(0.02, similarity=0.1, groups=groups)
    model.fit(X, y, subjects=subjects, X_target_labeled=X_new, y_target_labeled=y_new, X_target_unlabeled=X_new)
    expected = fit(data).adapt(X_new, y_new)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    with pytest.raises(ValueError, match="y_target_labeled was given without X_target_labeled"):
        model.fit(X, y, subjects=subjects, y_target_labeled=y_new)


@pytest.mark.parametrize("name", ["fixed", "cv", "alone", "pooled"])
def test_a_saved_model_scores_the_same_when_loaded(name, data, tmp_path):
    X, y, subjects, groups = data
    model = {
        "fixed": MultiTaskGroupSVC(0.02, similarity=0.1, groups=groups),
        "cv": MultiTaskGroupSVCCV(4, similarities=2, groups=groups),
        "alone": PerSubjectSVC(4, groups=groups),
        "pooled": PooledSVC(4, groups=groups),
    }[name].fit(X, y, subjects=subjects)
    if name in ("fixed", "cv"):
        model.adapt(*new_subject(30))
    save(model, tmp_path / "m.mixnorm")
    loaded = load(tmp_path / "m.mixnorm")
    for whose in (subjects, None, "nobody"):
        np.testing.assert_array_equal(
            loaded.decision_function(X, subjects=whose), model.decision_function(X, subjects=whose)
        )
    if name in ("fixed", "cv"):
        again = [m.adapt(*new_subject(40, seed=11), subject="b").coef_ for m in (model, loaded)]
        np.testing.assert_array_equal(*again)


# --- bad input ---


def test_a_subject_with_one_class_is_refused_by_name():
    Xs, ys, groups = cohort(3, seed=1)
    ys[2] = -np.ones_like(ys[2])
    with pytest.raises(ValueError, match=r"Subject 'S2' has 60 trials and none of class .*1\.0.*asymmetric"):
        fit((*stacked(Xs, ys), groups))


def test_a_subject_with_one_trial_is_refused_by_name(data):
    X, y, subjects, groups = data
    subjects = subjects.copy()
    subjects[7] = "XX"
    with pytest.raises(ValueError, match="Subject 'XX' has 1 trial and none of class"):
        fit((X, y, subjects, groups))


def test_a_value_that_is_not_finite_is_named_with_its_subject_trial_and_channel(data):
    X, y, subjects, _ = data
    epochs = X.reshape(len(X), 6, 3).copy()
    epochs[11, 4, 1] = np.nan
    with pytest.raises(ValueError, match=rf"NaN: subject '{subjects[11]}', trial 11, channel 4, sample 1"):
        MultiTaskGroupSVC().fit(epochs, y, subjects=subjects)
    model = MultiTaskGroupSVC().fit(X.reshape(len(X), 6, 3), y, subjects=subjects)
    with pytest.raises(ValueError, match=r"Subject 'new': Input X contains NaN: trial 11, channel 4, sample 1"):
        model.adapt(epochs, y, subject="new")


def test_other_channels_are_refused_with_the_new_subjects_name(data):
    X, y, subjects, _ = data
    model = MultiTaskGroupSVC().fit(X.reshape(len(X), 6, 3), y, subjects=subjects)
    with pytest.raises(ValueError, match=r"Subject 'new': X has 5 channels x 3 samples.*fitted on 6 channels"):
        model.adapt(X.reshape(len(X), 6, 3)[:, :5], y, subject="new")


@pytest.mark.parametrize("similarity", [-0.1, np.nan, np.inf, "much", None])
def test_similarity_must_be_finite_and_not_negative(similarity, data):
    with pytest.raises(ValueError, match="Invalid value for the 'similarity' parameter"):
        fit(data, similarity=similarity)


@pytest.mark.parametrize(
    ("subjects", "message"),
    [
        (["a", "b"], "X has 125 trials, but subjects has 2 labels"),
        (np.zeros((125, 1)), "subjects must hold one label per trial, but its shape"),
        ([None] * 125, "that of trial 0 is None"),
        ([1.0, np.nan] * 62 + [1.0], "that of trial 1 is nan"),
        ([["a"]] * 125, r"must be hashable, but that of trial 0 is \['a'\]"),
    ],
)
def test_labels_of_subjects_are_checked(subjects, message, data):
    X, y, _, groups = data
    with pytest.raises(ValueError, match=message):
        MultiTaskGroupSVC(groups=groups).fit(X, y, subjects=subjects)


@pytest.mark.parametrize(
    ("asymmetric", "message"),
    [
        (["S9"], r"asymmetric contains the unknown subject 'S9'; available: 'S[012]', 'S[012]', 'S[012]'\."),
        (["S0", "S1", "S2"], "asymmetric contains every subject; leave out at least one"),
        ("S0", "asymmetric must be a list of subjects, but got 'S0'"),
    ],
)
def test_asymmetric_names_some_of_the_subjects(asymmetric, message, data):
    with pytest.raises(ValueError, match=message):
        fit(data, asymmetric=asymmetric)


@pytest.mark.parametrize("subject", [None, [1], {}, float("nan")])
def test_a_new_subject_needs_a_label_that_can_be_one(subject, data):
    model = fit(data)
    with pytest.raises(ValueError, match="subject must be one hashable label"):
        model.adapt(*new_subject(30), subject=subject)
    assert len(model.coef_) == 3


def test_adapt_checks_the_labels(data):
    model = fit(data)
    X, y = new_subject(12)
    with pytest.raises(ValueError, match=r"Subject 'new': y holds the unknown label 'maybe' \(trial 0\); the classes"):
        model.adapt(X, ["maybe"] * 12, subject="new")
    with pytest.raises(ValueError, match=r"Subject 'new': X has 12 trials, but the shape of y is \(11,\)"):
        model.adapt(X, y[:11], subject="new")
    with pytest.raises(ValueError, match="X has 12 trials, but subjects has 3 labels"):
        model.predict(X, subjects=["S0", "S1", "S2"])


def test_a_zero_model_comes_with_a_warning(data):
    with pytest.warns(UserWarning, match="alpha_max"):
        model = fit(data, 100.0)
    assert len(model.selected_groups_) == 0


# --- labels of subjects that are missing ---


@pytest.mark.parametrize(
    "estimator", [MultiTaskGroupSVC(0.05), MultiTaskGroupSVCCV(3, similarities=2), PerSubjectSVC()]
)
def test_a_fit_without_subjects_says_so(estimator, data):
    X, y, _, groups = data
    with pytest.warns(UserWarning, match="fit was called without subjects.*one label per trial"):
        estimator.set_params(groups=groups).fit(X, y)
    assert len(estimator.coef_) == 1


def test_score_takes_subjects_and_says_if_they_are_missing(data):
    X, y, subjects, _ = data
    model = fit(data)
    right = [model.predict(X[[i]], subjects=subjects[i])[0] == y[i] for i in range(len(y))]
    assert model.score(X, y, subjects=subjects) == pytest.approx(np.mean(right), abs=1e-12)
    weights = np.arange(len(y), dtype=float)
    assert model.score(X, y, weights, subjects=subjects) == pytest.approx(np.average(right, weights=weights))
    with pytest.warns(UserWarning, match="mean classifier of 3 subjects scores all trials"):
        assert model.score(X, y) == np.mean(model.predict(X) == y)
    model.adapt(X[subjects == "S0"], y[subjects == "S0"], subject="new")
    model.score(X, y)  # the classifier of the new subject: what was asked for


def test_subjects_reach_score_by_metadata_routing(data):
    X, y, subjects, groups = data
    model = MultiTaskGroupSVC(0.02, similarity=0.1, groups=groups)
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(model.set_score_request(subjects=True), {"alpha": [0.02]}, cv=2)
        search.fit(X, y, subjects=subjects)
    assert search.best_score_ > 0.5


@pytest.mark.parametrize("labels", [[0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 2, 2], [0, 0, 0, 1, 1, 2]])
def test_trials_are_arranged_by_subject_and_copied_only_where_they_must_be(labels):
    subjects = Subjects.of(labels)
    values = np.arange(12.0).reshape(6, 2)
    found = subjects.pad(values, -1.0)
    for t, rows in enumerate(subjects.rows):
        np.testing.assert_array_equal(found[t, : len(rows)], values[rows])
        assert np.all(found[t, len(rows) :] == -1.0)
    assert np.shares_memory(found, values) == (labels == [0, 0, 1, 1, 2, 2])
    some = subjects.only([0, 1])
    for t, rows in enumerate(some.rows):
        np.testing.assert_array_equal(some.pad(values)[t, : len(rows)], values[rows])
