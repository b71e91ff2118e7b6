"""scikit-learn's contract: its own checks, pipelines, cloning, grid search, containers, metadata routing."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.metrics import get_scorer, roc_auc_score
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from mixnorm import GroupSVC, GroupSVCCV, SensorSelector
from reference import random_problem

#: What scikit-learn itself skips where an optional package or a device is missing.
MISSING = ("array_api", "is not installed", "not available", "SCIPY_ARRAY_API")


@pytest.fixture(scope="module")
def trials():
    return random_problem(np.random.default_rng(5), 90, 5, 3)


# one check gives a class the weight 1e-4, so that alpha is above alpha_max, which is to be said
@pytest.mark.filterwarnings("ignore:.*alpha_max")
@pytest.mark.parametrize(
    "estimator",
    [
        GroupSVC(),
        GroupSVC(penalty="l2", noise="structured"),
        GroupSVC(ridge=0.1),
        GroupSVC(noise="structured", ridge=0.1),
        GroupSVCCV(),
        GroupSVCCV(penalty="l2", noise="structured"),
        SensorSelector(n_sensors=1),
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore:.*selects no sensor")  # some checks have trials of pure noise
def test_all_estimator_checks_pass_and_none_is_excused(estimator):
    results = check_estimator(estimator, on_skip=None, on_fail=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] not in ("passed", "skipped")}
    assert not failed  # "xfail" is a status too: nothing is expected to fail
    for skipped in (r for r in results if r["status"] == "skipped"):
        assert any(reason in str(skipped["exception"]) for reason in MISSING), skipped
    assert len([r for r in results if r["status"] == "passed"]) > 50


@pytest.mark.parametrize(
    "estimator",
    [
        GroupSVC(0.2, q=1.5, group_weights={0: 2.0}, class_weight="balanced"),
        GroupSVCCV([0.1, 0.2], q=[1.2, 2.0], cv=GroupKFold(2), rule="1se", max_sensors=5),
        SensorSelector(3, q=1.4),
    ],
    ids=lambda e: type(e).__name__,
)
def test_clone_keeps_every_parameter_and_nothing_fitted(estimator, trials):
    X, y, groups = trials
    estimator = clone(estimator).set_params(groups=groups)
    metadata = {"groups": np.arange(len(y)) % 6} if isinstance(estimator, GroupSVCCV) else {}
    before = {key: repr(value) for key, value in estimator.get_params().items()}
    copy = clone(estimator.fit(X, y, **metadata))
    assert {key: repr(value) for key, value in copy.get_params().items()} == before
    assert {key: repr(value) for key, value in estimator.get_params().items()} == before
    assert not [name for name in vars(copy) if name.endswith("_")]


def test_pipeline_of_scaler_selector_and_classifier(trials):
    X, y, groups = trials
    kept = SensorSelector(2, groups=groups).fit(StandardScaler().fit_transform(X), y).get_support()
    steps = make_pipeline(StandardScaler(), SensorSelector(2, groups=groups), GroupSVC(0.05)).fit(X, y)
    by_hand = GroupSVC(0.05).fit(StandardScaler().fit_transform(X)[:, kept], y)
    np.testing.assert_array_equal(steps[-1].coef_, by_hand.coef_)
    assert steps.decision_function(X).shape == (90,)
    assert len(cross_val_score(steps, X, y, cv=3, scoring="roc_auc")) == 3


def test_grid_search_over_q_is_a_loop_over_q(trials):
    X, y, groups = trials
    qs, folds = [1.0, 1.4, 2.0], StratifiedKFold(3)
    search = GridSearchCV(GroupSVC(0.1, groups=groups), {"q": qs}, cv=folds, scoring="roc_auc").fit(X, y)
    means = []
    for q in qs:
        scores = []
        for train, test in folds.split(X, y):
            model = GroupSVC(0.1, groups=groups, q=q).fit(X[train], y[train])
            scores.append(roc_auc_score(y[test], model.decision_function(X[test])))
        means.append(np.mean(scores))
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], means, rtol=1e-12)
    assert search.best_params_["q"] == qs[int(np.argmax(means))]


def test_selector_in_pandas_keeps_names_index_and_values(trials):
    X, y, groups = trials
    frame = pd.DataFrame(X, columns=[f"{'ABCDE'[g]}-{i}" for i, g in enumerate(groups)], index=np.arange(90) + 7)
    selector = SensorSelector(2, groups=groups).set_output(transform="pandas").fit(frame, y)
    out = selector.transform(frame)
    kept = [name for name, g in zip(frame.columns, groups, strict=True) if g in selector.selected_groups_]
    assert list(out.columns) == kept == list(selector.get_feature_names_out())
    pd.testing.assert_frame_equal(out, frame[kept])


# --- metadata ---


@pytest.fixture
def characters():
    """Blocks of nine trials: a group-wise splitter keeps them whole, a stratified one would not."""
    return np.arange(90) // 9


def scores_by_hand(X, y, groups, alphas, splits, weights=None):
    """AUC of GroupSVC per alpha and split; ``weights`` for fit and score, as (for_fit, for_score)."""
    for_fit, for_score = weights or (None, None)
    out = np.empty((len(alphas), len(splits)))
    for i, alpha in enumerate(alphas):
        for k, (train, test) in enumerate(splits):
            part = None if for_fit is None else for_fit[train]
            model = GroupSVC(alpha, groups=groups, tol=1e-9).fit(X[train], y[train], sample_weight=part)
            part = None if for_score is None else for_score[test]
            out[i, k] = roc_auc_score(y[test], model.decision_function(X[test]), sample_weight=part)
    return out


ALPHAS = [0.2, 0.05]
OPTIONS = {"alphas": ALPHAS, "tol": 1e-9}


def test_groups_reach_the_splitter_without_routing(trials, characters):
    X, y, groups = trials
    model = GroupSVCCV(**OPTIONS, groups=groups, cv=GroupKFold(5)).fit(X, y, groups=characters)
    splits = list(GroupKFold(5).split(X, y, characters))
    np.testing.assert_allclose(model.scores_, scores_by_hand(X, y, groups, ALPHAS, splits), atol=1e-9)


def test_group_splitter_without_groups_says_so(trials):
    X, y, _ = trials
    with pytest.raises(ValueError, match="'groups' parameter should not be None"):
        GroupSVCCV(**OPTIONS, cv=GroupKFold(3)).fit(X, y)


def test_unknown_metadata_without_routing_is_named(trials):
    X, y, _ = trials
    with pytest.raises(TypeError, match="unexpected parameters: character, session"):
        GroupSVCCV(**OPTIONS).fit(X, y, session=y, character=y)


def test_routing_sends_groups_to_the_splitter_and_weights_to_fit_and_scorer(trials, characters):
    X, y, groups = trials
    weights = np.random.default_rng(1).uniform(0.2, 3.0, len(y))
    splits = list(GroupKFold(4).split(X, y, characters))
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = get_scorer("roc_auc").set_score_request(sample_weight=True)
        model = GroupSVCCV(**OPTIONS, groups=groups, cv=GroupKFold(4), scoring=scorer)
        model.set_fit_request(sample_weight=True).fit(X, y, sample_weight=weights, groups=characters)
    expected = scores_by_hand(X, y, groups, ALPHAS, splits, (weights, weights))
    np.testing.assert_allclose(model.scores_, expected, atol=1e-9)
    unweighted = scores_by_hand(X, y, groups, ALPHAS, splits, (weights, None))
    assert np.abs(model.scores_ - unweighted).max() > 1e-3  # the data can tell the difference


def test_routing_gives_a_scorer_no_weights_it_did_not_ask_for(trials):
    X, y, groups = trials
    weights = np.random.default_rng(1).uniform(0.2, 3.0, len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = get_scorer("roc_auc").set_score_request(sample_weight=False)
        model = GroupSVCCV(**OPTIONS, groups=groups, scoring=scorer).fit(X, y, sample_weight=weights)
    splits = list(StratifiedKFold(3).split(X, y))
    expected = scores_by_hand(X, y, groups, ALPHAS, splits, (weights, None))
    np.testing.assert_allclose(model.scores_, expected, atol=1e-9)


def test_routing_through_a_pipeline(trials, characters):
    X, y, groups = trials
    direct = GroupSVCCV(**OPTIONS, groups=groups, cv=GroupKFold(4)).fit(X, y, groups=characters)
    with sklearn.config_context(enable_metadata_routing=True):
        inner = GroupSVCCV(**OPTIONS, groups=groups, cv=GroupKFold(4))
        steps = make_pipeline(StandardScaler(with_mean=False, with_std=False), inner).fit(X, y, groups=characters)
    np.testing.assert_array_equal(steps[-1].scores_, direct.scores_)
