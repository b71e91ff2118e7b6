"""Probabilities: the sigmoid against a general optimiser, and scores that are really out of fold."""

from dataclasses import asdict

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import KFold, RepeatedKFold, StratifiedKFold

from mixnorm import GroupSVC, GroupSVCCV, MultiTaskGroupSVC, MultiTaskGroupSVCCV, load, save
from mixnorm.estimators.calibration import HeldOut, fit_sigmoid, held_out_scores
from mixnorm.estimators.cross_validation import Fold


def platt(scores, positive, weights=None):
    """Slope and intercept by a general optimiser, from the formula in Platt's paper."""
    weights = np.ones(len(scores)) if weights is None else weights
    n_pos, n_neg = weights[positive].sum(), weights[~positive].sum()
    targets = np.where(positive, (n_pos + 1) / (n_pos + 2), 1 / (n_neg + 2))

    def loss(p):
        v = p[0] * scores + p[1]
        return -np.sum(weights * (targets * np.log(expit(v)) + (1 - targets) * np.log(expit(-v))))

    return minimize(loss, [1.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 9999}).x


def unbalanced(n=150, d=6, shift=0.8, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.2).astype(int)
    return rng.standard_normal((n, d)) + shift * y[:, None] / np.sqrt(d), y


def test_the_sigmoid_is_that_of_maximum_likelihood():
    rng = np.random.default_rng(1)
    for scale, shift in ((1.0, 0.0), (1e3, -2e3), (1e-3, 5e-3)):
        positive = rng.random(200) < 0.25
        scores = shift + scale * (rng.standard_normal(200) + 1.3 * positive)
        weights = rng.integers(0, 3, 200).astype(float)
        found = fit_sigmoid(scores, np.where(positive, 1.0, -1.0), weights)
        slope, intercept = platt((scores - shift) / scale, positive, weights)
        assert found.slope * scale == pytest.approx(slope, rel=1e-5)
        assert found.intercept + found.slope * shift == pytest.approx(intercept, rel=1e-4, abs=1e-5)


def test_a_weight_of_two_is_two_trials_and_zero_is_none():
    X, y = unbalanced(60)
    scores, signs = X.sum(axis=1), np.where(y == 1, 1.0, -1.0)
    weights = np.tile([0.0, 1.0, 2.0], 20)
    rows = np.repeat(np.arange(60), weights.astype(int))
    weighted, repeated = (
        fit_sigmoid(scores, signs, weights),
        fit_sigmoid(scores[rows], signs[rows], np.ones(len(rows))),
    )
    assert asdict(weighted) == pytest.approx(asdict(repeated), rel=1e-9)


def test_separable_and_constant_scores_have_finite_probabilities():
    signs = np.repeat([-1.0, 1.0], 10)
    apart = fit_sigmoid(np.linspace(-1, 1, 20), signs, np.ones(20))
    assert (apart.slope, apart.intercept) == pytest.approx(platt(np.linspace(-1, 1, 20), signs > 0), abs=1e-5)
    equal = fit_sigmoid(np.full(20, 0.3), np.where(np.arange(20) < 5, 1.0, -1.0), np.ones(20))
    assert equal.slope == 0
    assert equal.probability(np.zeros(1))[0] == pytest.approx((5 * 6 / 7 + 15 / 17) / 20)


def test_an_intercept_below_its_error_is_left_out_for_equal_classes():
    scores, signs = np.array([-2.0, -1.0, -0.5, 0.4, 1.0, 2.1] * 5), np.tile([-1.0, -1.0, 1.0, -1.0, 1.0, 1.0], 5)
    assert fit_sigmoid(scores, signs, np.ones(30)).intercept == 0
    assert fit_sigmoid(scores + 1, signs, np.ones(30)).intercept < 0
    assert fit_sigmoid(scores, signs, np.where(signs > 0, 1.0, 3.0)).intercept < 0


@pytest.mark.parametrize(
    "options",
    [
        {"penalty": "l2", "noise": "shrunk"},
        {"penalty": "group", "q": (1.0, 2.0), "ridge": (0.1, 1.0), "noise": "shrunk"},
        {"penalty": "l1", "class_weight": "balanced"},
    ],
    ids=["noise", "grid", "l1"],
)
def test_scores_are_those_of_refits_that_never_saw_the_trial(options):
    X, y = unbalanced()
    cv, weights = KFold(3), np.random.default_rng(3).integers(1, 3, len(y)).astype(float)
    model = GroupSVCCV(5, cv=cv, tol=1e-9, **options).fit(X, y, sample_weight=weights)
    single = {**options, "q": model.q_, "ridge": model.ridge_}
    scores = np.empty(len(y))
    for train, test in cv.split(X):
        fold = GroupSVC(model.alpha_, tol=1e-9, **single).fit(X[train], y[train], sample_weight=weights[train])
        scores[test] = fold.decision_function(X[test])
    assert model.out_of_fold_scores_ == pytest.approx(scores, abs=2e-4)
    slope, intercept = platt(scores, y == 1, weights)
    expected = expit(slope * model.decision_function(X) + intercept)
    assert model.calibration_["intercept"] != 0
    assert model.predict_proba(X) == pytest.approx(np.column_stack([1 - expected, expected]), abs=1e-3)
    assert np.array_equal(model.predict(X), (model.decision_function(X) > 0).astype(int))


def test_a_trial_in_both_parts_of_a_fold_calibrates_nothing():
    train, test = np.array([1, 1, 0, 2]), np.array([False, True, True, True])
    found = held_out_scores(np.eye(4), [Fold(train, test)], (np.arange(4.0)[:, None], np.zeros(1)))
    assert found.trial.tolist() == [2]
    assert np.isnan(found.mean(4)[[0, 1, 3]]).all()
    X, y = unbalanced(40)
    everything = [(np.arange(40), np.arange(40))] * 2
    model = GroupSVCCV(3, cv=everything).fit(X, y)
    with pytest.raises(ValueError, match=r"GroupSVCCV has no calibration: .* Fit it again, with folds that hold out"):
        model.predict_proba(X)


def test_trials_held_out_several_times_count_once():
    X, y = unbalanced(80)
    signs = np.where(y == 1, 1.0, -1.0)
    once = HeldOut(np.arange(80), X.sum(axis=1)).calibration(signs, np.ones(80))
    twice = HeldOut(np.tile(np.arange(80), 2), np.tile(X.sum(axis=1), 2)).calibration(signs, np.ones(80))
    assert asdict(twice) == pytest.approx(asdict(once), rel=1e-9)
    model = GroupSVCCV(3, cv=RepeatedKFold(n_splits=3, n_repeats=2, random_state=0)).fit(X, y)
    assert np.isfinite(model.out_of_fold_scores_).all()


def test_probabilities_are_calibrated_on_trials_of_another_draw():
    X, y = unbalanced(9000, d=12, shift=1.5, seed=4)
    model = GroupSVCCV(5, penalty="l2", cv=StratifiedKFold(3)).fit(X[:3000], y[:3000])
    found, y = model.predict_proba(X[3000:])[:, 1], y[3000:]
    for low, high in ((0.0, 0.1), (0.1, 0.3), (0.3, 1.0)):
        part = (found >= low) & (found < high)
        error = np.sqrt(found[part].mean() * (1 - found[part].mean()) / part.sum())
        # the parameters of the sigmoid come from half as many trials, so that their error is of the same size
        assert abs(y[part].mean() - found[part].mean()) < 3 * np.sqrt(3) * error


def test_a_file_keeps_the_calibration(tmp_path):
    X, y = unbalanced(60)
    model = GroupSVCCV(3).fit(X, y)
    save(model, tmp_path / "a.mixnorm")
    found = load(tmp_path / "a.mixnorm")
    assert found.calibration_ == model.calibration_
    assert np.array_equal(found.predict_proba(X), model.predict_proba(X))


def test_a_single_fit_points_to_other_classes():
    X, y = unbalanced(60)
    model = GroupSVC(0.01).fit(X, y)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match=r"Use GroupSVCCV, or sklearn.calibration.CalibratedClassifierCV"):
        model.predict_proba(X)
    assert CalibratedClassifierCV(GroupSVC(0.01), cv=3).fit(X, y).predict_proba(X).shape == (60, 2)


def test_every_subject_has_its_own_sigmoid_and_others_the_common_one(tmp_path):
    rng = np.random.default_rng(6)
    subjects, y = np.repeat(["A", "B"], 90), (rng.random(180) < 0.3).astype(int)
    X = rng.standard_normal((180, 4, 2))
    X[:, 1] += y[:, None] * np.where(subjects == "A", 2.5, 0.5)[:, None]
    cv = KFold(3)
    model = MultiTaskGroupSVCCV(4, similarities=(0.0, 0.1), cv=cv, rehearse=False).fit(X, y, subjects=subjects)
    scores = np.empty(180)
    # fold k of each subject is held out together
    folds = [np.concatenate([test, 90 + test]) for _, test in cv.split(X[:90])]
    for test in folds:
        train = np.setdiff1d(np.arange(180), test)
        one = MultiTaskGroupSVC(model.alpha_, similarity=model.similarity_, rehearse=False)
        one.fit(X[train], y[train], subjects=subjects[train])
        scores[test] = one.decision_function(X[test], subjects=subjects[test])
    for who, mine in (("A", subjects == "A"), ("B", subjects == "B"), ("new", slice(None))):
        slope, intercept = platt(scores[mine], y[mine] == 1)
        expected = expit(slope * model.decision_function(X, subjects=who) + intercept)
        assert model.predict_proba(X, subjects=who)[:, 1] == pytest.approx(expected, abs=2e-3)
    assert model.calibrations_["A"]["slope"] > 1.5 * model.calibrations_["B"]["slope"]
    save(model, tmp_path / "a.mixnorm")
    mixed = model.predict_proba(X, subjects=subjects)
    assert np.array_equal(load(tmp_path / "a.mixnorm").predict_proba(X, subjects=subjects), mixed)
    assert np.array_equal(mixed[:90], model.predict_proba(X[:90], subjects="A"))
    common = model.calibrations_[None]
    model.adapt(X[:90], y[:90], subject="A")  # another classifier: its scores are not those that were held out
    expected = expit(common["slope"] * model.decision_function(X, subjects="A") + common["intercept"])
    assert model.predict_proba(X, subjects="A")[:, 1] == pytest.approx(expected)
