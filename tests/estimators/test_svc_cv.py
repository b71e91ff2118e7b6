"""GroupSVCCV against slow loops over GroupSVC: grids, scores, choice, the adaptive norm, any splitter and scorer.

Scores compared are areas under ROC curves, or accuracies: ranks and signs. Two fits whose scores differ by less than
the distance between trials give the same ones, so that tight fits (tol 1e-10) agree to rounding.
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import accuracy_score, average_precision_score, make_scorer, roc_auc_score
from sklearn.model_selection import (
    KFold,
    LeaveOneOut,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
)

from mixnorm import GroupSVC, GroupSVCCV, group_svc_path
from mixnorm.core.problem import Solution
from mixnorm.estimators.cross_validation import scored_grids
from reference import alpha_max_reference, lq_norm, random_problem
from stacks import make_stack

TOL = 1e-10
SAME_SCORE = {"rtol": 0, "atol": 1e-12}
N_GROUPS = 5


@pytest.fixture(scope="module")
def trials():
    return random_problem(np.random.default_rng(8), 75, N_GROUPS, [3, 2, 3, 1, 2])


@pytest.fixture(scope="module")
def weights():
    return np.random.default_rng(9).uniform(0.2, 3.0, 75)


def auc(y, scores, sample_weight=None):
    return roc_auc_score(y, scores, sample_weight=sample_weight)


def slow_scores(trials, alphas, splits, metric=auc, sample_weight=None, group_weights=None, **options):
    """The score of a GroupSVC of its own for every alpha and split; group_weights: one set per split."""
    X, y, groups = trials
    out = np.empty((len(alphas), len(splits)))
    for i, alpha in enumerate(alphas):
        for k, (train, test) in enumerate(splits):
            given = [{}, {}] if sample_weight is None else [{"sample_weight": sample_weight[p]} for p in (train, test)]
            beta = None if group_weights is None else group_weights[k]
            model = GroupSVC(alpha, groups=groups, group_weights=beta, tol=TOL, **options)
            model.fit(X[train], y[train], **given[0])
            out[i, k] = metric(y[test], model.decision_function(X[test]), **given[1])
    return out


# --- grids and shapes ---


@pytest.mark.parametrize(("penalty", "q"), [("group", 2.0), ("group", 1.3), ("group", 1.0), ("l1", 2.0), ("l2", 2.0)])
def test_integer_grid_starts_at_alpha_max_of_all_training_data(trials, weights, penalty, q):
    X, y, groups = trials
    model = GroupSVCCV(4, penalty=penalty, q=q, groups=groups).fit(X, y, sample_weight=weights)
    top = alpha_max_reference(X, y, weights, penalty=penalty, q=q, groups=groups)
    np.testing.assert_allclose(model.alphas_, top * np.array([1, 0.1, 0.01, 0.001]), rtol=1e-6)


def test_each_q_has_its_own_grid(trials):
    X, y, groups = trials
    qs = (1.0, 1.5, 2.0)
    model = GroupSVCCV(2, q=qs, groups=groups).fit(X, y)
    tops = [alpha_max_reference(X, y, q=q, groups=groups) for q in qs]
    np.testing.assert_allclose(model.alphas_, np.outer(tops, [1, 1e-3]), rtol=1e-6)


def test_array_grid_is_taken_as_given_in_any_order(trials):
    X, y, groups = trials
    alphas = [0.02, 0.5, 0.001, 0.1]
    model = GroupSVCCV(alphas, groups=groups, tol=TOL).fit(X, y)
    np.testing.assert_array_equal(model.alphas_, alphas)
    ordered = GroupSVCCV(sorted(alphas), groups=groups, tol=TOL).fit(X, y)
    np.testing.assert_allclose(model.scores_[np.argsort(alphas)], ordered.scores_, **SAME_SCORE)
    assert model.alpha_ == ordered.alpha_
    np.testing.assert_array_equal(model.n_selected_[np.argsort(alphas)], ordered.n_selected_)


def test_shapes_for_one_and_for_several_q(trials):
    X, y, groups = trials
    one = GroupSVCCV(6, cv=4, groups=groups).fit(X, y)
    assert (one.alphas_.shape, one.scores_.shape, one.n_selected_.shape) == ((6,), (6, 4), (6,))
    several = GroupSVCCV(6, q=[1.5, 2.0], cv=4, groups=groups).fit(X, y)
    assert several.alphas_.shape == several.n_selected_.shape == (2, 6)
    assert several.scores_.shape == (2, 6, 4)
    listed = GroupSVCCV(6, q=[2.0], cv=4, groups=groups).fit(X, y)
    np.testing.assert_array_equal(listed.scores_, one.scores_[None])
    np.testing.assert_array_equal(several.scores_[1], one.scores_)


def test_one_alpha_is_alpha_max(trials):
    X, y, groups = trials
    with pytest.warns(UserWarning, match="selects no sensor"):
        model = GroupSVCCV(1, groups=groups).fit(X, y)
    np.testing.assert_allclose(model.alphas_, [alpha_max_reference(X, y, groups=groups)], rtol=1e-6)


# --- scores ---

ALPHAS = [0.3, 0.1, 0.02]


@pytest.mark.parametrize("class_weight", [None, "balanced", {-1.0: 1.0, 1.0: 4.0}], ids=str)
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weights"])
def test_scores_are_those_of_a_loop(trials, weights, class_weight, weighted):
    X, y, groups = trials
    s = weights if weighted else None
    model = GroupSVCCV(ALPHAS, groups=groups, class_weight=class_weight, tol=TOL).fit(X, y, sample_weight=s)
    splits = list(StratifiedKFold(3).split(X, y))
    expected = slow_scores(trials, ALPHAS, splits, sample_weight=s, class_weight=class_weight)
    np.testing.assert_allclose(model.scores_, expected, **SAME_SCORE)


@pytest.mark.parametrize(("penalty", "q"), [("l1", 2.0), ("l2", 2.0), ("group", 1.4)])
def test_scores_of_other_penalties_are_those_of_a_loop(trials, penalty, q):
    X, y, groups = trials
    model = GroupSVCCV(ALPHAS, groups=groups, penalty=penalty, q=q, tol=TOL, fit_intercept=False).fit(X, y)
    splits = list(StratifiedKFold(3).split(X, y))
    expected = slow_scores(trials, ALPHAS, splits, penalty=penalty, q=q, fit_intercept=False)
    np.testing.assert_allclose(model.scores_, expected, **SAME_SCORE)


def accuracy(y, scores, sample_weight=None):
    return accuracy_score(y > 0, scores > 0, sample_weight=sample_weight)


def precision(y, scores, sample_weight=None):
    return average_precision_score(y, scores, sample_weight=sample_weight)


def flipped_auc(y_true, y_score, sample_weight=None):
    return 1 - roc_auc_score(y_true, y_score, sample_weight=sample_weight)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weights"])
@pytest.mark.parametrize(
    ("scoring", "metric"),
    [
        ("accuracy", accuracy),
        (None, accuracy),
        ("average_precision", precision),
        (make_scorer(flipped_auc, response_method="decision_function"), flipped_auc),
    ],
    ids=["accuracy", "None", "average_precision", "callable"],
)
def test_scores_of_another_scorer_are_those_of_a_loop(trials, weights, weighted, scoring, metric):
    X, y, groups = trials
    s = weights if weighted else None
    model = GroupSVCCV(ALPHAS, groups=groups, scoring=scoring, tol=TOL).fit(X, y, sample_weight=s)
    expected = slow_scores(trials, ALPHAS, list(StratifiedKFold(3).split(X, y)), metric, sample_weight=s)
    np.testing.assert_allclose(model.scores_, expected, **SAME_SCORE)


def with_replacement(n, rng):
    """Bootstrap splits: training trials drawn with replacement, the others are the test."""
    for _ in range(2):
        train = rng.integers(n, size=n)
        yield train, np.setdiff1d(np.arange(n), train)


SPLITTERS = {
    "ShuffleSplit": ShuffleSplit(4, train_size=30, test_size=25, random_state=0),
    "StratifiedShuffleSplit": StratifiedShuffleSplit(2, train_size=0.5, random_state=1),
    "KFold": KFold(4, shuffle=True, random_state=0),
    "repeated": RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=3),
    "list of indices": [(np.arange(0, 50), np.arange(50, 75)), (np.arange(25, 75), np.arange(25))],
    "list of masks": [(np.arange(75) % 3 > 0, np.arange(75) % 3 == 0)],
    "with replacement": list(with_replacement(75, np.random.default_rng(4))),
}


@pytest.mark.parametrize("name", SPLITTERS)
def test_any_splitter(trials, weights, name):
    X, y, groups = trials
    cv = SPLITTERS[name]
    splits = cv if isinstance(cv, list) else list(cv.split(X, y))
    model = GroupSVCCV(ALPHAS, groups=groups, cv=cv, tol=TOL).fit(X, y, sample_weight=weights)
    expected = slow_scores(trials, ALPHAS, splits, sample_weight=weights)
    np.testing.assert_allclose(model.scores_, expected, **SAME_SCORE)


def test_leaving_one_out_is_for_scores_that_need_no_second_class(trials):
    X, y, groups = (part[:20] if len(part) == 75 else part for part in trials)
    model = GroupSVCCV([0.1], groups=groups, cv=LeaveOneOut(), scoring="accuracy", tol=TOL).fit(X, y)
    expected = slow_scores((X, y, groups), [0.1], list(LeaveOneOut().split(X)), accuracy)
    np.testing.assert_array_equal(model.scores_, expected)
    with pytest.raises(ValueError, match="test part of fold 0 of cv holds trials of one class only"):
        GroupSVCCV([0.1], groups=groups, cv=LeaveOneOut()).fit(X, y)


def test_two_processes_give_the_same_numbers(trials, weights):
    X, y, groups = trials
    options = {"alphas": 5, "groups": groups, "adaptive": True, "tol": TOL}
    one = GroupSVCCV(**options).fit(X, y, sample_weight=weights)
    two = GroupSVCCV(**options, n_jobs=2).fit(X, y, sample_weight=weights)
    # sums over one column and over several round differently, and the weights of the second stage inherit that
    for name in ("scores_", "n_selected_", "selected_groups_"):
        np.testing.assert_array_equal(getattr(two, name), getattr(one, name), err_msg=name)
    for name in ("alphas_", "alpha_", "objective_"):
        np.testing.assert_allclose(getattr(two, name), getattr(one, name), rtol=1e-9, err_msg=name)
    np.testing.assert_allclose(two.coef_, one.coef_, atol=1e-6)


# --- the refit ---


@pytest.mark.parametrize("q", [2.0, [1.2, 1.6, 2.0]], ids=str)
def test_refit_is_the_plain_fit_at_the_choice(trials, weights, q):
    X, y, groups = trials
    model = GroupSVCCV(5, q=q, groups=groups, class_weight="balanced", tol=TOL).fit(X, y, sample_weight=weights)
    options = {"q": model.q_, "groups": groups, "class_weight": "balanced", "tol": TOL}
    plain = GroupSVC(model.alpha_, **options).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-5)  # two fits, each within 1e-10 of the optimum
    assert model.objective_ == pytest.approx(plain.objective_, rel=2 * TOL)
    assert model.dual_gap_ <= TOL
    assert model.selected_groups_.tolist() == plain.selected_groups_.tolist()


def test_n_selected_counts_along_the_refit_path(trials):
    X, y, groups = trials
    model = GroupSVCCV(8, groups=groups, tol=TOL).fit(X, y)
    path = group_svc_path(X, y, groups=groups, alphas=model.alphas_, tol=TOL)
    expected = [len(np.unique(groups[coef != 0])) for coef in path.coefs]
    np.testing.assert_array_equal(model.n_selected_, expected)
    assert model.n_selected_[0] == 0
    assert 0 < model.n_selected_[1:].min() < model.n_selected_[-1] == N_GROUPS


# --- the choice, re-implemented ---


def chosen_by_hand(alphas, scores, sensors, rule="best", max_sensors=None, by_folds=None):
    """[(q index, alpha index), …] by the words of the specification, from arrays (Q, A), (Q, A, folds), (Q, A).

    ``by_folds`` (Q, A): whether any model of a fold selects a sensor. Several places where the words leave a choice: as
    many sensors with another q.
    """
    rows = [
        {"place": (i, j), "alpha": alphas[i, j], "mean": np.mean(scores[i, j]), "sensors": sensors[i, j]}
        for i, j in np.ndindex(*alphas.shape)
        if max_sensors is None or sensors[i, j] <= max_sensors
    ]
    if by_folds is not None:
        rows = [row for row in rows if row["sensors"] or not by_folds[row["place"]]] or rows
    best = max(rows, key=lambda row: row["mean"])
    error = 0.0
    if rule == "1se":
        folds = scores[best["place"]]
        error = np.std(folds, ddof=1) / np.sqrt(len(folds))
    eligible = [row for row in rows if row["mean"] >= best["mean"] - error - 1e-12]
    if rule == "1se":
        tops = {
            i: max(row["alpha"] for row in eligible if row["place"][0] == i) for i in {r["place"][0] for r in eligible}
        }
        eligible = [row for row in eligible if row["alpha"] == tops[row["place"][0]]]
    fewest = min(row["sensors"] for row in eligible)
    return [row["place"] for row in eligible if row["sensors"] == fewest]


def selected_by_folds(trials, alpha, n_folds, **options):
    """Whether the GroupSVC of any fold selects a sensor at an alpha."""
    X, y, groups = trials
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # alpha is above alpha_max of some folds
        return any(
            GroupSVC(alpha, groups=groups, **options).fit(X[train], y[train]).coef_.any()
            for train, _ in StratifiedKFold(n_folds).split(X, y)
        )


@pytest.mark.parametrize("rule", ["best", "1se"])
@pytest.mark.parametrize(("max_sensors", "seed"), [(None, 0), (None, 1), (None, 2), (0, 0), (1, 1), (3, 2)])
def test_choice_follows_the_rules(rule, max_sensors, seed):
    X, y, groups = random_problem(np.random.default_rng(seed), 60, N_GROUPS, 2, flipped=0.3)
    model = GroupSVCCV(10, q=[1.3, 2.0], groups=groups, rule=rule, max_sensors=max_sensors, cv=4)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(X, y)
    assert [("selects no sensor" in str(one.message)) for one in told] == [True] * (not model.coef_.any())
    by_folds = np.array(
        [
            [selected_by_folds((X, y, groups), alpha, 4, q=q) for alpha in alphas]
            for q, alphas in zip([1.3, 2.0], model.alphas_, strict=True)
        ]
    )
    places = chosen_by_hand(model.alphas_, model.scores_, model.n_selected_, rule, max_sensors, by_folds)
    assert (model.q_, model.alpha_) in [([1.3, 2.0][i], model.alphas_[i, j]) for i, j in places]
    assert len(model.selected_groups_) == model.n_selected_[places[0]]
    assert max_sensors is None or len(model.selected_groups_) <= max_sensors


@pytest.mark.filterwarnings("ignore:.*selects no sensor")  # of one of the three, with scores below chance
def test_one_standard_error_is_never_denser_than_the_best_and_often_sparser():
    numbers = []
    for seed in range(3):
        X, y, groups = random_problem(np.random.default_rng(seed), 60, N_GROUPS, 2, flipped=0.3)
        fits = [GroupSVCCV(10, groups=groups, rule=rule).fit(X, y) for rule in ("best", "1se")]
        assert fits[1].alpha_ >= fits[0].alpha_
        numbers.append([len(fit.selected_groups_) for fit in fits])
    dense, sparse = np.transpose(numbers)
    assert np.all(sparse <= dense)
    assert np.any(sparse < dense)


@pytest.mark.parametrize(("sparse_score", "chosen"), [(0.61, 0.5), (0.59, 0.001)])
def test_standard_error_is_that_of_the_mean_over_folds(trials, sparse_score, chosen):
    """The best model scores 0.8 and 0.6: mean 0.7, standard deviation 0.1·√2, standard error of two folds 0.1."""
    X, y, groups = trials
    splits = [(np.arange(45), np.arange(45, 75)), (np.arange(25, 75), np.arange(25))]

    def scoring(model, X, y):
        dense = np.std(model.decision_function(X)) > 0.4
        return (0.8 if len(y) == 30 else 0.6) if dense else sparse_score

    model = GroupSVCCV([0.5, 0.001], groups=groups, cv=splits, scoring=scoring, rule="1se").fit(X, y)
    np.testing.assert_allclose(model.scores_, [[sparse_score] * 2, [0.8, 0.6]])
    assert model.alpha_ == chosen


def test_on_equal_scores_the_sparser_model_wins_then_the_larger_alpha(trials):
    X, y, groups = trials
    alphas = [0.001, 0.4, 0.399, 0.1]
    model = GroupSVCCV(alphas, groups=groups, scoring=lambda model, X, y: 0.7).fit(X, y)
    assert model.n_selected_[1] == model.n_selected_[2] < model.n_selected_[3] <= model.n_selected_[0]
    assert model.alpha_ == 0.4


def test_scores_within_rounding_are_equal_and_beyond_are_not(trials):
    """A scorer that adds 1e-13, or 1e-11, for denser models: the first is a tie, the second is not."""
    X, y, groups = trials

    def scoring(bonus):
        def score(model, X, y):
            return 0.75 + bonus * (np.std(model.decision_function(X)) > 0.5)

        return score

    options = {"alphas": [0.5, 0.001], "groups": groups}
    tie, better = (GroupSVCCV(**options, scoring=scoring(bonus)).fit(X, y) for bonus in (1e-13, 1e-11))
    assert tie.scores_[1].mean() > tie.scores_[0].mean()
    assert tie.n_selected_[0] < tie.n_selected_[1]
    assert (tie.alpha_, better.alpha_) == (0.5, 0.001)


def test_zero_model_is_chosen_where_nothing_is_better_than_chance():
    """Each trial once with either label: no score can differ from one half, and the zero model is the sparsest."""
    half = np.random.default_rng(2).standard_normal((20, 6))
    X, y = np.vstack([half, half]), np.repeat(["a", "b"], 20)
    splits = [(np.r_[0:10, 20:30], np.r_[10:20, 30:40]), (np.r_[10:20, 30:40], np.r_[0:10, 20:30])]
    with pytest.warns(UserWarning, match=r"selects no sensor.*score of every trial is the same.*0\.5"):
        model = GroupSVCCV(5, cv=splits).fit(X, y)
    np.testing.assert_allclose(model.scores_, 0.5)
    assert not model.coef_.any()
    assert len(model.selected_groups_) == 0
    assert model.alpha_ == model.alphas_.max()
    assert model.dual_gap_ <= 1e-6


@pytest.mark.parametrize("rule", ["best", "1se"])
def test_alpha_at_which_the_refit_is_zero_is_not_chosen_by_the_scores_of_folds_that_select(trials, rule):
    """The scorer prefers small models, but not zero: at alpha_max of all trials folds select sensors and the refit none."""
    X, y, groups = trials

    def smallest(model, X, y):
        spread = np.std(model.decision_function(X))
        return -spread if spread > 1e-9 else -0.8

    model = GroupSVCCV(5, groups=groups, scoring=smallest, rule=rule).fit(X, y)
    means = model.scores_.mean(axis=1)
    assert np.argmax(means) == 0
    assert model.n_selected_[0] == 0
    assert selected_by_folds(trials, model.alphas_[0], 3)
    assert model.alpha_ == model.alphas_[1]
    assert model.coef_.any()


@pytest.mark.parametrize("rule", ["best", "1se"])
@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc"])
def test_zero_model_is_chosen_where_it_is_clearly_better_than_every_other(scoring, rule):
    """Trials of pure noise, twice as many of one class: of these the majority is the best guess."""
    chosen = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((45, 12)), np.arange(45) % 3 == 0
        cv = StratifiedKFold(3)
        zero = {"accuracy": 2 / 3, "roc_auc": 0.5}[scoring]
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model = GroupSVCCV(8, groups=np.arange(12) // 3, scoring=scoring, rule=rule, cv=cv).fit(X, y)
        means = model.scores_.mean(axis=1)
        best = np.argmax(np.where(model.n_selected_ > 0, means, -np.inf))
        reached = means[best] + model.scores_[best].std(ddof=1) / np.sqrt(3)
        chosen.append(not model.coef_.any())
        assert chosen[-1] == (reached < zero - 1e-12)
        assert chosen[-1] == any("selects no sensor" in str(one.message) for one in told)
    assert 0 < sum(chosen) < 12


def test_zero_model_is_chosen_where_those_of_all_folds_are_zero_too(trials):
    X, y, groups = trials
    prefers_small = GroupSVCCV(
        [5.0, 0.1], groups=groups, scoring=lambda model, X, y: -np.std(model.decision_function(X))
    )
    assert not selected_by_folds(trials, 5.0, 3)
    with pytest.warns(UserWarning, match=r"alpha=5.*selects no sensor") as found:
        prefers_small.fit(X, y)
    assert len(found) == 1
    assert found[0].filename == __file__
    assert prefers_small.alpha_ == 5.0
    assert not prefers_small.coef_.any()


def test_zero_model_is_kept_where_it_is_all_that_there_is(trials):
    X, y, groups = trials
    for only in ({"alphas": 1}, {"alphas": 4, "max_sensors": 0}):
        with pytest.warns(UserWarning, match="selects no sensor"):
            model = GroupSVCCV(groups=groups, **only).fit(X, y)
        assert not model.coef_.any()


def test_max_sensors_that_no_alpha_allows_says_what_to_do(trials):
    X, y, groups = trials
    with pytest.raises(ValueError, match=r"No model of the grid has at most max_sensors=0 sensors.*add larger alphas"):
        GroupSVCCV([0.001], groups=groups, max_sensors=0).fit(X, y)


# --- the adaptive norm ---


def adaptive_weights_by_hand(coef, groups, q, beta):
    """1/‖w_g‖_q over its geometric mean over the survivors, times β; out where the first stage is zero."""
    norms = np.array([lq_norm(coef[groups == g], q) for g in range(len(beta))])
    alive = [g for g in range(len(beta)) if norms[g] > 0 and 0 < beta[g] < np.inf]
    mean = np.prod([1 / norms[g] for g in alive]) ** (1 / len(alive))
    weights = np.where(beta == 0, 0.0, np.inf)
    for g in alive:
        weights[g] = beta[g] / norms[g] / mean
    return weights


@pytest.mark.parametrize("beta", [None, [1.0, 2.0, 0.0, 0.5, np.inf]], ids=["plain", "weighted"])
@pytest.mark.parametrize("q", [2.0, 1.4, 1.0])
def test_adaptive_fit_is_two_fits(trials, q, beta):
    X, y, groups = trials
    alpha, given = 0.25, np.ones(N_GROUPS) if beta is None else np.array(beta)
    first = GroupSVC(alpha, q=q, groups=groups, group_weights=beta, tol=TOL).fit(X, y)
    weights = adaptive_weights_by_hand(first.coef_[0], groups, q, given)
    second = GroupSVC(alpha, q=q, groups=groups, group_weights=weights, tol=TOL).fit(X, y)
    model = GroupSVC(alpha, q=q, groups=groups, group_weights=beta, adaptive=True, tol=TOL).fit(X, y)
    assert np.isinf(weights).any()
    np.testing.assert_allclose(model.coef_, second.coef_, atol=1e-5)
    assert model.objective_ == pytest.approx(second.objective_, rel=1e-8)


@pytest.mark.parametrize(
    ("q", "rule", "beta"),
    [(2.0, "best", None), (2.0, "1se", None), (2.0, "best", [1.0, 2.0, 0.0, 0.5, np.inf]), (1.4, "best", None)],
)
def test_adaptive_cross_validation_is_two_stages_of_loops(trials, q, beta, rule):
    X, y, groups = trials
    alphas = [0.25, 0.1, 0.04, 0.01]
    given = np.ones(N_GROUPS) if beta is None else np.array(beta)
    splits = list(StratifiedKFold(3).split(X, y))
    everywhere = [given] * 3

    def sensors(group_weights):
        fits = [GroupSVC(a, q=q, groups=groups, group_weights=group_weights, tol=TOL).fit(X, y) for a in alphas]
        return np.array([len(fit.selected_groups_) for fit in fits])

    plain = slow_scores(trials, alphas, splits, group_weights=everywhere, q=q)
    [(_, j)] = chosen_by_hand(np.array([alphas]), plain[None], sensors(given)[None])
    first_stage = [
        GroupSVC(alphas[j], q=q, groups=groups, group_weights=given, tol=TOL).fit(X[rows], y[rows]).coef_[0]
        for rows in (*(train for train, _ in splits), np.arange(len(y)))
    ]
    *per_fold, full = (adaptive_weights_by_hand(coef, groups, q, given) for coef in first_stage)
    scores = slow_scores(trials, alphas, splits, group_weights=per_fold, q=q)
    n_selected = sensors(full)
    [(_, chosen)] = chosen_by_hand(np.array([alphas]), scores[None], n_selected[None], rule)
    refit = GroupSVC(alphas[chosen], q=q, groups=groups, group_weights=full, tol=TOL).fit(X, y)

    options = {"q": q, "groups": groups, "group_weights": beta, "adaptive": True, "rule": rule, "tol": TOL}
    model = GroupSVCCV(alphas, **options).fit(X, y)
    np.testing.assert_allclose(model.scores_, scores, **SAME_SCORE)
    np.testing.assert_array_equal(model.n_selected_, n_selected)
    assert model.alpha_ == alphas[chosen]
    np.testing.assert_allclose(model.coef_, refit.coef_, atol=1e-5)


def test_adaptive_grid_starts_where_the_second_stage_is_empty(trials):
    X, y, groups = trials
    model = GroupSVCCV(3, groups=groups, adaptive=True, tol=TOL).fit(X, y)
    assert model.n_selected_[0] == 0
    first = GroupSVCCV(3, groups=groups, tol=TOL).fit(X, y)
    weights = adaptive_weights_by_hand(first.coef_[0], groups, 2.0, np.ones(N_GROUPS))
    top = alpha_max_reference(X, y, groups=groups, beta=weights)
    np.testing.assert_allclose(model.alphas_, top * np.array([1, 10**-1.5, 1e-3]), rtol=1e-4)


# --- errors ---


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"alphas": 0}, "'alphas' parameter. Allowed are numbers from 1, but got 0"),
        ({"alphas": []}, "alphas must be a number or a non-empty sequence"),
        ({"alphas": [[0.1]]}, "alphas must be a number or a non-empty sequence"),
        ({"alphas": 0.1}, "alphas must be a number or a non-empty sequence"),
        ({"q": []}, "q must hold at least one value"),
        ({"q": [1.5, 2.5]}, "'q' parameter.*but got 2.5"),
        ({"rule": "2se"}, "'rule' parameter.*but got '2se'"),
        ({"max_sensors": -1}, "max_sensors must be a whole number from 0, or None, but got -1"),
        ({"max_sensors": 1.5}, "max_sensors must be a whole number from 0, or None, but got 1.5"),
        ({"scoring": "beauty"}, "'scoring' parameter"),
        ({"cv": 1}, "k-fold cross-validation requires at least one train/test split"),
        ({"cv": []}, "cv gave no fold"),
        ({"cv": [(np.arange(40), np.array([0]))]}, "test part of fold 0 of cv holds trials of one class only"),
    ],
    ids=str,
)
def test_bad_settings_are_named(trials, options, text):
    X, y, groups = trials
    model = clone(GroupSVCCV(3, groups=groups)).set_params(**options)
    with pytest.raises(ValueError, match=text):
        model.fit(X, y)


def test_fold_without_a_class_is_named(trials):
    X, y, groups = trials
    ordered = np.argsort(y, kind="stable")
    with pytest.raises(ValueError, match=r"(training|test) part of fold 0 of cv holds trials of one class only"):
        GroupSVCCV(3, groups=groups, cv=KFold(2)).fit(X[ordered], y[ordered])


def test_fold_whose_training_weights_miss_a_class_is_refused(trials):
    X, y, groups = trials
    train = np.arange(40)
    weights = np.where((y > 0) & np.isin(np.arange(75), train), 0.0, 1.0)
    with pytest.raises(
        ValueError, match=r"All trials of class 1\.0 in the training part of fold 0 of cv have weight zero"
    ):
        GroupSVCCV(3, groups=groups, cv=[(train, np.arange(40, 75))]).fit(X, y, sample_weight=weights)


def test_score_that_is_not_finite_is_named_by_fold(trials):
    X, y, groups = trials
    model = GroupSVCCV(3, groups=groups, scoring=lambda model, X, y: np.nan)
    with pytest.raises(ValueError, match="not finite on the test part of fold 0"):
        model.fit(X, y)


def test_the_zero_model_is_scored_once_for_all_grids_of_a_stack():
    stack, calls = make_stack("q=2", B=1, beta=False), []
    W = np.ones((1, 1, stack.shape[3], 3))
    W[..., -1] = 0.0  # the refit selects nothing, the models of both folds do
    solution = Solution(W, np.zeros((1, 1, 3)), *np.zeros((3, 1, 3)))

    def score(solutions):
        calls.append(len(solutions))
        return np.full((len(solutions), 2), 0.1 * len(calls))

    found = scored_grids([stack] * 3, [np.array([0.1, 0.2])] * 3, [[solution] * 2] * 3, score)
    assert calls == [6, 1]
    assert [one.zero_score for one in found] == pytest.approx([0.2] * 3)
    assert len(scored_grids([stack, replace(stack)], [np.array([0.1])] * 2, [[solution]] * 2, score)) == 2
    assert calls == [6, 1, 2, 1, 1]  # once for each stack
