"""Cross-validation over alpha and similarity: folds within subjects, scores, choice; and the baselines."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold

from cohorts import cohort, stacked
from mixnorm import GroupSVC, GroupSVCCV, MultiTaskGroupSVC, MultiTaskGroupSVCCV, PerSubjectSVC, PooledSVC
from mixnorm.estimators.cross_validation import Choice, choose

ALPHAS, SIMILARITIES = [0.1, 0.01, 0.03], [0.0, 1.0, 0.05]


@pytest.fixture(scope="module")
def data():
    Xs, ys, groups = cohort(3, seed=1)
    return (*stacked(Xs, ys, seed=4), groups)


@pytest.fixture(scope="module")
def model(data):
    X, y, subjects, groups = data
    model = MultiTaskGroupSVCCV(ALPHAS, similarities=SIMILARITIES, groups=groups, cv=3, rule="best", tol=1e-8)
    return model.fit(X, y, subjects=subjects)


def own_folds(y, subjects, n_splits=3):
    """Three stratified folds of each subject's trials, by hand: (train, test) masks."""
    masks = np.zeros((n_splits, len(y)), dtype=bool)
    for subject in np.unique(subjects):
        rows = np.flatnonzero(subjects == subject)
        for k, (_, test) in enumerate(StratifiedKFold(n_splits).split(rows, y[rows])):
            masks[k, rows[test]] = True
    return [(~mask, mask) for mask in masks]


def mean_auc(model, X, y, subjects):
    scores = model.decision_function(X, subjects=subjects)
    return np.mean([roc_auc_score(y[subjects == s], scores[subjects == s]) for s in np.unique(subjects)])


def test_scores_are_the_mean_aucs_over_subjects_of_fits_on_folds_within_subjects(model, data):
    X, y, subjects, groups = data
    assert model.scores_.shape == (3, 3, 3)
    for s, similarity in enumerate(SIMILARITIES):
        for a, alpha in enumerate(ALPHAS):
            for k, (train, test) in enumerate(own_folds(y, subjects)):
                fold = MultiTaskGroupSVC(alpha, similarity=similarity, groups=groups, tol=1e-8)
                fold.fit(X[train], y[train], subjects=subjects[train])
                expected = mean_auc(fold, X[test], y[test], subjects[test])
                # a tolerance of 1e-8 may still swap two trials of nearly equal score
                assert model.scores_[s, a, k] == pytest.approx(expected, abs=0.01)


def test_the_best_cell_is_chosen_and_refitted_on_all_trials(model, data):
    X, y, subjects, groups = data
    means = model.scores_.mean(axis=2)
    s, a = SIMILARITIES.index(model.similarity_), ALPHAS.index(model.alpha_)
    assert means[s, a] == means.max()
    refit = MultiTaskGroupSVC(model.alpha_, similarity=model.similarity_, groups=groups, tol=1e-8)
    refit.fit(X, y, subjects=subjects)
    np.testing.assert_allclose(model.coef_, refit.coef_, atol=1e-5)
    assert model.n_selected_[s, a] == len(model.selected_groups_)


def test_among_equal_scores_the_larger_similarity_wins():
    rng = np.random.default_rng(0)
    y, subjects = np.tile([0, 1], 30), np.repeat([1, 2], 30)
    X = rng.normal(size=(60, 2)) * 0.01 + y[:, None]  # everything scores 1
    model = MultiTaskGroupSVCCV([1e-3], similarities=[0.1, 10.0, 1.0], groups=[0, 0], rule="best")
    model.fit(X, y, subjects=subjects)
    assert np.all(model.scores_ == 1)
    assert model.similarity_ == 10.0


def grid_of(means, folds=3, spread=0.01):
    """Candidates with given mean scores (S, A), the folds a spread apart: a standard error of spread / √folds."""
    offsets = spread * np.linspace(-1, 1, folds)
    alphas = np.logspace(-1, -3, means.shape[1])
    return [Choice(None, alphas, [], row[:, None] + offsets, np.arange(1, means.shape[1] + 1)) for row in means]


def test_the_centre_of_a_plateau_is_chosen_and_not_the_edge_that_noise_favours():
    means = np.full((5, 7), 0.6)
    means[1:4, 2:7] = 0.8  # the plateau, its middle at (2, 4)
    means[3, 6] = 0.8001
    assert choose(grid_of(means), "best", None) == (3, 6)
    assert choose(grid_of(means), "centre", None) == (2, 4)
    means[3, 6] = 0.9  # more than a standard error above: no plateau but a peak
    assert choose(grid_of(means), "centre", None) == (3, 6)
    assert choose(grid_of(means), "centre", max_sensors=5)[1] < 5


def test_the_middle_is_by_the_size_of_the_alphas_and_not_by_their_order():
    scores = np.array([0.8, 0.8, 0.8, 0.5])[:, None] + 0.01 * np.linspace(-1, 1, 3)
    found = choose([Choice(None, np.array([0.03, 0.1, 0.01, 0.001]), [], scores, np.arange(4))], "centre", None)
    assert found == (0, 0)  # 0.03, between 0.1 and 0.01


def test_the_centre_is_what_is_chosen_unless_told_otherwise(model, data):
    X, y, subjects, groups = data
    plain = MultiTaskGroupSVCCV(ALPHAS, similarities=SIMILARITIES, groups=groups, cv=3, tol=1e-8)
    plain.fit(X, y, subjects=subjects)
    order = np.argsort(-plain.similarities_)
    candidates = [Choice(None, plain.alphas_, [], plain.scores_[s], plain.n_selected_[s]) for s in order]
    s, a = choose(candidates, "centre", None)
    assert (plain.similarity_, plain.alpha_) == (plain.similarities_[order[s]], plain.alphas_[a])
    assert (plain.similarity_, plain.alpha_) != (model.similarity_, model.alpha_)


@pytest.mark.parametrize("rule", ["best", "1se", "centre"])
def test_a_joint_refit_without_sensors_is_not_chosen_for_the_scores_of_folds_with_sensors(data, rule):
    """The scorer prefers small models, but not zero: at alpha_max of all trials folds still select sensors."""
    X, y, subjects, groups = data

    def smallest(model, X, y):
        spread = np.std(model.decision_function(X))
        return -spread if spread > 1e-9 else -0.7

    how = {"groups": groups, "rehearse": False, "scoring": smallest, "cv": 3, "rule": rule}
    plain = MultiTaskGroupSVCCV(5, similarities=[0.1], **how)
    plain.fit(X, y, subjects=subjects)
    (means,) = plain.scores_.mean(axis=2)
    assert np.argmax(means) == 0
    assert means[0] < 0  # so that the model of a fold is not zero
    assert plain.n_selected_[0, 0] == 0
    assert plain.alpha_ < plain.alphas_[0]
    assert plain.coef_.any()


def test_a_joint_model_without_sensors_is_told(data):
    X, y, subjects, groups = data
    with pytest.warns(UserWarning, match=r"alpha=50, selects no sensor") as told:
        MultiTaskGroupSVCCV([50.0], similarities=[0.1], groups=groups, rehearse=False).fit(X, y, subjects=subjects)
    assert [one.filename for one in told] == [__file__]


def test_the_rule_is_checked(data):
    X, y, subjects, groups = data
    with pytest.raises(ValueError, match="Allowed values are 'auto', 'best', '1se' and 'centre', but got 'worst'"):
        MultiTaskGroupSVCCV(3, rule="worst", groups=groups).fit(X, y, subjects=subjects)
    with pytest.raises(ValueError, match="Allowed values are 'best' and '1se', but got 'centre'"):
        PooledSVC(3, rule="centre", groups=groups).fit(X, y, subjects=subjects)


def test_automatic_grids_do_not_depend_on_the_unit(data):
    X, y, subjects, groups = data
    models = [
        MultiTaskGroupSVCCV(4, similarities=3, groups=groups).fit(unit * X, y, subjects=subjects)
        for unit in (1.0, 1e-6)
    ]
    assert models[0].similarities_[0] == 0
    unit = np.mean(X**2) / 3
    np.testing.assert_allclose(models[0].similarities_[1:], unit * np.array([1e-2, 1e2]), rtol=1e-12)
    np.testing.assert_allclose(models[1].similarities_, 1e-12 * models[0].similarities_, rtol=1e-9)
    np.testing.assert_allclose(models[1].alphas_, 1e-6 * models[0].alphas_, rtol=1e-6)
    assert models[1].similarity_ == pytest.approx(1e-12 * models[0].similarity_)


def test_one_subject_chooses_what_the_single_subject_cv_chooses():
    (X,), (y,), groups = cohort(1, seed=2)
    many = MultiTaskGroupSVCCV(6, similarities=[0.0], groups=groups, cv=3, rule="best")
    many.fit(X, y, subjects=["A"] * len(y))
    single = GroupSVCCV(6, groups=groups).fit(X, y)
    np.testing.assert_array_equal(many.scores_[0], single.scores_)
    np.testing.assert_array_equal(many.coef_, single.coef_)


def test_folds_in_parallel_give_the_same(model, data):
    X, y, subjects, groups = data
    parallel = MultiTaskGroupSVCCV(ALPHAS, similarities=SIMILARITIES, groups=groups, cv=3, tol=1e-8, n_jobs=2)
    parallel.fit(X, y, subjects=subjects)
    np.testing.assert_allclose(parallel.scores_, model.scores_, atol=1e-12)


def test_asymmetric_subjects_have_no_say_in_the_choice(data):
    X, y, subjects, groups = data
    options = {"similarities": SIMILARITIES, "groups": groups}
    listed = MultiTaskGroupSVCCV(ALPHAS, asymmetric=["S1"], **options).fit(X, y, subjects=subjects)
    rest = subjects != "S1"
    without = MultiTaskGroupSVCCV(ALPHAS, **options).fit(X[rest], y[rest], subjects=subjects[rest])
    np.testing.assert_array_equal(listed.scores_, without.scores_)
    np.testing.assert_array_equal(listed.coef_[listed.subjects_ != "S1"], without.coef_)


def test_adaptive_norm_takes_its_weights_from_the_first_stage(data):
    X, y, subjects, groups = data
    adaptive = MultiTaskGroupSVCCV(ALPHAS, similarities=[0.05], groups=groups, adaptive=True).fit(
        X, y, subjects=subjects
    )
    assert adaptive.scores_.shape == (1, 3, 8)
    assert adaptive.dual_gap_ < 1e-6


def test_splitters_get_their_groups_subject_by_subject(data):
    X, y, subjects, groups = data
    blocks = np.arange(len(y)) % 3
    model = MultiTaskGroupSVCCV([0.03], similarities=[0.1], groups=groups, cv=GroupKFold(3))
    assert model.fit(X, y, subjects=subjects, groups=blocks).scores_.shape == (1, 1, 3)


def test_an_iterable_of_splits_divides_all_trials_at_once(data):
    X, y, subjects, groups = data
    splits = [(np.flatnonzero(train), np.flatnonzero(test)) for train, test in own_folds(y, subjects)]
    given = MultiTaskGroupSVCCV([0.03], similarities=[0.1], groups=groups, cv=splits).fit(X, y, subjects=subjects)
    own = MultiTaskGroupSVCCV([0.03], similarities=[0.1], groups=groups, cv=3).fit(X, y, subjects=subjects)
    np.testing.assert_array_equal(given.scores_, own.scores_)


@pytest.mark.parametrize(("n_targets", "n_folds"), [(9, (3, 5)), (4, (3, 4)), (2, (2, 2))])
def test_folds_are_of_two_divisions_as_fine_as_the_fewest_trials_of_a_class_allow(n_targets, n_folds, data):
    X, y, subjects, groups = data
    spared = np.flatnonzero((subjects == "S1") & (y > 0))[n_targets:]
    kept = np.isin(np.arange(len(y)), spared, invert=True)
    X, y, subjects = X[kept], y[kept], subjects[kept]
    in_order, shuffled = StratifiedKFold(n_folds[0]), StratifiedKFold(n_folds[1], shuffle=True, random_state=0)
    both, *each = (
        MultiTaskGroupSVCCV([0.03], similarities=[0.1], groups=groups, cv=cv).fit(X, y, subjects=subjects)
        for cv in (None, in_order, shuffled)
    )
    np.testing.assert_array_equal(both.scores_, np.concatenate([one.scores_ for one in each], axis=2))


def test_a_fold_that_leaves_a_subject_one_class_is_refused_by_name():
    rng = np.random.default_rng(0)
    y, subjects = np.repeat([0, 1, 0, 1], 15), np.repeat(["a", "b"], 30)
    splits = [(np.r_[0:20, 30:45], np.r_[20:30, 45:60])]
    model = MultiTaskGroupSVCCV([0.1], similarities=[0.1], cv=splits)
    with pytest.raises(ValueError, match="The test part of fold 0 of cv holds trials of one class only"):
        model.fit(rng.normal(size=(60, 3)), y, subjects=subjects)
    model = MultiTaskGroupSVCCV([0.1], similarities=[0.1], cv=[(np.r_[0:20, 30:50], np.r_[5:25, 50:60])])
    with pytest.raises(
        ValueError, match="The test part of fold 0 of cv holds trials of subject 'b' of one class only"
    ):
        model.fit(rng.normal(size=(60, 3)), y, subjects=subjects)
    with pytest.raises(ValueError, match="holds trials of subject 'a' of one class only"):
        MultiTaskGroupSVCCV([0.1], cv=KFold(2)).fit(rng.normal(size=(60, 3)), y, subjects=subjects)


@pytest.mark.parametrize(
    ("similarities", "message"),
    [
        (0, "Invalid value for the 'similarities' parameter"),
        ([], "similarities must be a number or a non-empty sequence"),
        ([0.1, -1.0], "Invalid value for the 'similarity' parameter"),
        ([np.inf], "Invalid value for the 'similarity' parameter"),
    ],
)
def test_similarities_are_checked(similarities, message, data):
    X, y, subjects, groups = data
    with pytest.raises(ValueError, match=message):
        MultiTaskGroupSVCCV(3, similarities=similarities, groups=groups).fit(X, y, subjects=subjects)


# --- baselines ---


def test_one_svm_per_subject_is_the_single_subject_cv_of_each(data):
    X, y, subjects, groups = data
    model = PerSubjectSVC([0.01, 0.1, 1.0], groups=groups).fit(X, y, subjects=subjects)
    assert len(model.subjects_) == len(np.unique(subjects)) > 1
    for t, subject in enumerate(model.subjects_):
        rows = subjects == subject
        own = GroupSVCCV([0.01, 0.1, 1.0], penalty="l2", groups=groups).fit(X[rows], y[rows])
        assert model.alpha_[t] == own.alpha_
        np.testing.assert_array_equal(model.coef_[t], own.coef_[0])
        np.testing.assert_array_equal(model.scores_[t], own.scores_)


def test_the_pooled_svm_is_one_fit_scored_subject_by_subject(data):
    X, y, subjects, groups = data
    model = PooledSVC([0.01, 1.0], groups=groups, tol=1e-8).fit(X, y, subjects=subjects)
    own = GroupSVC(float(model.alpha_[0]), penalty="l2", groups=groups, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(model.coef_, np.repeat(own.coef_, 3, axis=0), atol=1e-9)
    np.testing.assert_allclose(model.decision_function(X, subjects="nobody"), own.decision_function(X), atol=1e-9)
    for k, (train, test) in enumerate(own_folds(y, subjects)):
        fold = PooledSVC([0.01], groups=groups, tol=1e-8).fit(X[train], y[train], subjects=subjects[train])
        expected = mean_auc(fold, X[test], y[test], subjects[test])
        assert model.scores_[0, 0, k] == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("baseline", [PerSubjectSVC, PooledSVC])
def test_baselines_refuse_a_subject_with_one_class_by_name(baseline, data):
    X, y, subjects, groups = data
    y = np.where(subjects == "S1", 1.0, y)
    with pytest.raises(ValueError, match="Subject 'S1' has 25 trials and none of class"):
        baseline(groups=groups).fit(X, y, subjects=subjects)


@pytest.mark.parametrize(
    "model",
    [MultiTaskGroupSVCCV([0.02], similarities=[0.1]), PerSubjectSVC([0.1]), PooledSVC([0.1])],
    ids=lambda model: type(model).__name__,
)
def test_score_that_is_not_finite_is_named_by_fold_and_subject(model):
    Xs, ys, _ = cohort(3, seed=1)
    X, y, subjects = stacked(Xs, ys)

    def silent_on_some(model, X, y):
        return np.nan if len(y) == len(ys[1]) // 5 else 0.5

    model = clone(model).set_params(cv=5, scoring=silent_on_some)
    with pytest.raises(ValueError, match=r"not finite on the test part of fold 0 of cv, for subject 'S1'"):
        model.fit(X, y, subjects=subjects)


def test_fold_whose_training_weights_miss_a_class_is_named_with_its_subject():
    Xs, ys, _ = cohort(3, seed=1)
    X, y, subjects = stacked(Xs, ys)
    half = np.arange(len(y)) % 2 == 0
    cv = [(np.flatnonzero(half), np.flatnonzero(~half)), (np.flatnonzero(~half), np.flatnonzero(half))]
    weights = np.where((y > 0) & ~half & (subjects == "S1"), 0.0, 1.0)
    model = MultiTaskGroupSVCCV([0.02], similarities=[0.1], cv=cv)
    message = r"All trials of class 1\.0 of subject 'S1' in the training part of fold 1 of cv have weight zero"
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, subjects=subjects, sample_weight=weights)
