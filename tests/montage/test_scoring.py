"""Nested montages: elimination on held-out trials, refits, held-out scores and their intervals."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student
from sklearn.metrics import roc_auc_score

from mixnorm import GroupSVC
from mixnorm.eeg import InOrder, simulated_p300
from mixnorm.estimators.folds import Fold
from mixnorm.estimators.inputs import Trials
from mixnorm.estimators.objective import Objective
from mixnorm.execution import SolverOptions, solve
from mixnorm.montage.constraints import Constraints
from mixnorm.montage.elimination import (
    SEARCH_ALPHAS,
    HeldOut,
    components,
    eliminate,
    order_sensors,
    precision,
    separation,
)
from mixnorm.montage.intervals import corrected_interval, paired_variance
from mixnorm.montage.orders import EliminationOrder
from mixnorm.montage.refits import Ranking, refit
from mixnorm.montage.scoring import score_montages
from mixnorm.montage.trials import SubjectTrials, Training, inner_folds
from mixnorm.solvers import Newton


def in_blocks(n, k):
    number = np.arange(n) * k // n
    return [Fold((number != j).astype(int), number == j) for j in range(k)]


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(0)
    signs = np.where(rng.uniform(size=120) < 0.4, 1.0, -1.0)
    X = rng.standard_normal((120, 5, 3))
    X[signs > 0, 1] += 0.7
    X[signs > 0, 4] += 0.4
    return X, signs


def least_squares_scores(X, signs, fold, sensors, alpha):
    """Held-out scores of the regularised least-squares classifier on some sensors, by its normal equations."""
    train, y = X[fold.train > 0], signs[fold.train > 0]
    unit = train.reshape(len(train), -1).var(axis=0).mean()
    A = train[:, sensors].reshape(len(train), -1)
    centre = A.mean(axis=0)
    A = A - centre
    w = np.linalg.solve(A.T @ A / len(A) + alpha * unit * np.eye(A.shape[1]), A.T @ (y - y.mean()) / len(A))
    return (X[fold.test][:, sensors].reshape(fold.test.sum(), -1) - centre) @ w


def fitted_separation(X, signs, fold, sensors, alpha):
    """d' on the training trials that a linear classifier with the (regularised) training error would have."""
    train, y = X[fold.train > 0], signs[fold.train > 0]
    unit = train.reshape(len(train), -1).var(axis=0).mean()
    A = train[:, sensors].reshape(len(train), -1)
    A, centred = A - A.mean(axis=0), y - y.mean()
    w = np.linalg.solve(A.T @ A / len(A) + alpha * unit * np.eye(A.shape[1]), A.T @ centred / len(A))
    left = np.mean((centred - A @ w) ** 2) + alpha * unit * w @ w
    explained = 1 - left / np.var(y)
    share = np.mean(y > 0)
    return np.sqrt(explained / (1 - explained) / (share * (1 - share)))


def test_leaving_sensors_out_equals_fitting_without_them(small):
    X, signs = small
    fold = in_blocks(120, 3)[0]
    model = HeldOut.of(X, signs, fold, 0.3)
    np.testing.assert_allclose(model.scores, least_squares_scores(X, signs, fold, [0, 1, 2, 3, 4], 0.3), atol=1e-12)
    model.remove(2)
    model.remove(0)
    np.testing.assert_allclose(model.scores, least_squares_scores(X, signs, fold, [1, 3, 4], 0.3), atol=1e-12)
    expected = [least_squares_scores(X, signs, fold, s, 0.3) for s in ([3, 4], [1, 4], [1, 3])]
    np.testing.assert_allclose(model.without_each(), np.transpose(expected), atol=1e-12)


def test_elimination_is_the_greedy_one(small):
    X, signs = small
    folds = in_blocks(120, 3)
    found = eliminate([HeldOut.of(X, signs, fold, 0.3) for fold in folds], Constraints.none(5))

    def worth(sensors):
        parts, weights = [], precision([signs[fold.test] for fold in folds])
        for fold in folds:
            held_out = separation(signs[fold.test], least_squares_scores(X, signs, fold, sensors, 0.3)[:, None])[0]
            parts.append((held_out + fitted_separation(X, signs, fold, sensors, 0.3)) / 2)
        return weights @ parts

    left, out = [0, 1, 2, 3, 4], []
    while len(left) > 1:
        gone = max(left, key=lambda s: worth([other for other in left if other != s]))
        out.append(gone)
        left.remove(gone)
    assert found.order.tolist() == [*left, *out[::-1]]
    np.testing.assert_allclose(found.scores, [worth(sorted(found.order[: k + 1])) for k in range(5)], atol=1e-12)


def test_the_order_is_that_of_greedy_elimination_over_folds_and_alphas(small):
    X, signs = small
    folds = in_blocks(120, 3)
    weights = np.repeat(precision([signs[fold.test] for fold in folds]), 3) / 3
    alphas = SEARCH_ALPHAS * 15 / 120
    reduced = X @ components(X)
    assert reduced.shape[2] == 3

    def worth(sensors):
        held_out = [
            separation(signs[fold.test], least_squares_scores(reduced, signs, fold, sensors, alpha)[:, None])[0]
            for fold in folds
            for alpha in alphas
        ]
        fitted = [fitted_separation(reduced, signs, fold, sensors, a) for fold in folds for a in alphas]
        return weights @ (np.array(held_out) + fitted) / 2

    left, out = [0, 1, 2, 3, 4], []
    while len(left) > 1:
        out.append(max(left, key=lambda s: worth([other for other in left if other != s])))
        left.remove(out[-1])
    assert order_sensors([Training(X, signs, folds)], Constraints.none(5)).tolist() == [*left, *out[::-1]]


def test_separation_is_the_distance_of_means_in_deviations():
    rng = np.random.default_rng(0)
    signs = np.repeat([1.0, -1.0], [7, 30])
    scores = rng.standard_normal((37, 1)) + 2 * (signs > 0)[:, None]
    there, rest = scores[:7, 0], scores[7:, 0]
    pooled = (7 * there.var() + 30 * rest.var()) / 37
    # as if each class had 20 trials more with the variance within classes
    drawn = [(7 * there.var() + 20 * pooled) / 27, (30 * rest.var() + 20 * pooled) / 50]
    assert separation(signs, scores)[0] == pytest.approx((there.mean() - rest.mean()) / np.sqrt(np.mean(drawn)))
    # one trial has no variance of its own
    assert np.isfinite(separation(np.array([1.0, -1, -1]), np.array([[5.0], [0], [1]]))).all()


def test_folds_are_weighted_by_their_precision():
    weights = precision([np.array([1.0, -1, -1, -1]), np.array([1.0, 1, -1, -1])])
    np.testing.assert_allclose(weights, np.array([3 / 4, 1]) / 1.75)


def test_kept_sensors_are_removed_last_and_forbidden_ones_are_not_in_the_order(small):
    X, signs = small
    constraints = Constraints(np.array([0, 0, 1, 1, 0], bool), np.array([0, 1, 0, 0, 0], bool), np.ones(5))
    order = order_sensors([Training(X, signs, in_blocks(120, 3))], constraints)
    assert set(order[:2].tolist()) == {2, 3}
    assert set(order[2:].tolist()) == {0, 4}
    np.testing.assert_array_equal(constraints.group_weights, [1, np.inf, 0, 0, 1])


def test_of_two_equal_sensors_the_expensive_one_is_removed_first():
    rng = np.random.default_rng(1)
    signs = np.repeat([1.0, -1.0], 100)[rng.permutation(200)]
    X = rng.standard_normal((200, 3, 2))
    X[:, 1] = X[:, 0] + 0.3 * rng.standard_normal((200, 2))
    X[signs > 0, :2] += 1.5
    folds = in_blocks(200, 4)
    for expensive, cheap in ((0, 1), (1, 0)):
        cost = np.ones(3)
        cost[expensive] = 50.0
        constraints = Constraints(np.zeros(3, bool), np.zeros(3, bool), cost)
        order = order_sensors([Training(X, signs, folds)], constraints).tolist()
        assert order.index(cheap) < order.index(expensive)


def test_components_are_orthonormal_and_explain_the_variance():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 3, 4)) @ rng.standard_normal((4, 10))
    V = components(X)
    assert V.shape[0] == 10
    assert V.shape[1] <= 4
    np.testing.assert_allclose(V.T @ V, np.eye(V.shape[1]), atol=1e-12)
    assert np.sum((X @ V) ** 2) >= 0.98 * np.sum(X**2)


def test_refits_are_the_l2_svm_on_each_montage(small):
    X, signs = small
    order = np.array([1, 4, 0, 3, 2])
    models = refit(Training(X, signs, in_blocks(120, 3)), Ranking(order, np.arange(1, 6)))
    for K, alpha, coef, intercept in zip(models.sizes, models.alphas, models.coefs, models.intercepts, strict=True):
        alone = GroupSVC(alpha, penalty="l2", tol=1e-8).fit(X[:, order[:K]], signs)
        # a relative gap of 1e-6 leaves coefficients some 1e-3 from the optimum
        np.testing.assert_allclose(coef[order[:K]].ravel(), alone.coef_[0], atol=3e-3 * np.abs(alone.coef_).max())
        assert not coef[order[K:]].any()
        np.testing.assert_allclose(intercept, alone.intercept_[0], atol=3e-3)
    scores = models.scores(X[:7])
    np.testing.assert_allclose(scores[:, 2], X[:7].reshape(7, -1) @ models.coefs[2].ravel() + models.intercepts[2])


def nested(X, signs, fold):
    subject = SubjectTrials(X, signs, fold, np.arange(len(signs)))
    return score_montages([subject], EliminationOrder(Constraints.none(X.shape[1])), cv=InOrder(3))


def test_nothing_of_the_test_fold_is_used(small):
    X, signs = small
    number = np.arange(120) * 4 // 120
    found = nested(X, signs, number)
    rng = np.random.default_rng(9)
    changed, flipped = X.copy(), signs.copy()
    mine = np.flatnonzero(number == 2)
    changed[mine] = 10 * rng.standard_normal(changed[mine].shape)
    flipped[mine] = flipped[rng.permutation(mine)]
    other = nested(changed, flipped, number)
    assert other.orders[2].tolist() == found.orders[2].tolist()
    # and the scores of fold 2 are those of models that are the same, on trials that are not
    for j in (0, 1, 3):
        assert not np.array_equal(found.tests[j][0].scores, other.tests[j][0].scores)
    assert found.aucs.shape == (5, 4, 1)
    for j in range(4):
        own = found.tests[j][0]
        assert found.aucs[3, j, 0] == pytest.approx(roc_auc_score(signs[number == j] > 0, own.scores[:, 3]))


def test_interval_is_nadeau_and_bengios():
    aucs = np.array([[0.7, 0.8, 0.75, 0.85], [0.5, 0.5, 0.5, 0.5]])
    low, high = corrected_interval(aucs, ratio=1 / 3)
    reach = student.ppf(0.975, 3) * np.sqrt((1 / 4 + 1 / 3) * np.var(aucs[0], ddof=1))
    assert (low[0], high[0]) == pytest.approx((max(0, 0.775 - reach), min(1, 0.775 + reach)))
    assert low[1] == high[1] == 0.5
    assert np.isnan(corrected_interval(aucs[:, :1], 0.2)[0]).all()


def test_paired_variance_is_delongs():
    rng = np.random.default_rng(0)
    signs = np.repeat([1.0, -1.0], [9, 14])
    scores = np.round(rng.standard_normal((23, 3)), 1)  # with ties
    there, rest = scores[signs > 0], scores[signs < 0]
    wins = (there[:, None] > rest[None]) + 0.5 * (there[:, None] == rest[None])
    difference = wins[:, :, 2] - wins[:, :, 1]
    expected = np.var(difference.mean(axis=1), ddof=1) / 9 + np.var(difference.mean(axis=0), ddof=1) / 14
    found = paired_variance(signs, scores, 1)
    assert found[2] == pytest.approx(expected)
    assert found[1] == 0


def test_known_truth_is_found():
    data = simulated_p300(600, n_channels=8, n_informative=3, noise=0.12, seed=0)
    signs = np.where(data.y > 0, 1.0, -1.0)
    found = nested(data.X, signs, np.arange(600) * 4 // 600)
    assert set(found.order[:3].tolist()) == {0, 1, 2}
    best = int(found.sizes[np.argmax(found.mean)])
    assert 3 <= best <= 4
    error = found.error_of_difference(best - 1)
    assert error[best - 1] == 0
    assert np.all(error[: best - 1] > 0)


def test_permuted_labels_score_one_half():
    data = simulated_p300(100, n_channels=3, n_informative=2, seed=0)
    number = np.arange(100) * 5 // 100
    rng = np.random.default_rng(0)
    means, includes = [], []
    for _ in range(12):
        signs = np.where(data.y[rng.permutation(100)] > 0, 1.0, -1.0)
        found = nested(data.X[:, :, ::2], signs, number)
        low, high = found.interval()
        means.append(found.mean)
        includes.append((low <= 0.5) & (high >= 0.5))
    # twelve permutations: the mean over them has a standard error of about 0.02
    assert np.abs(np.mean(means, axis=0) - 0.5).max() < 0.06
    assert np.mean(includes) >= 0.85


def test_several_subjects_share_the_order_and_have_their_own_classifiers(small):
    X, signs = small
    number = np.arange(120) * 3 // 120
    mirrored = X.copy()
    mirrored[:, [0, 3]] *= -1
    subjects = [SubjectTrials(one, signs, number, np.arange(120)) for one in (X, mirrored)]
    order = EliminationOrder(Constraints.none(5))
    found = score_montages(subjects, order, cv=InOrder(3))
    assert found.aucs.shape == (5, 3, 2)
    assert found.models[0].order.tolist() == found.models[1].order.tolist()
    # the second subject is the first one with two signs turned: its classifier is, too
    turned = found.models[0].coefs[-1].copy()
    turned[[0, 3]] *= -1
    np.testing.assert_allclose(found.models[1].coefs[-1], turned, atol=1e-3)
    alone = score_montages(subjects[:1], order, cv=InOrder(3))
    assert alone.order.tolist() == found.order.tolist()


def test_inner_folds_without_both_classes_are_replaced():
    signs = np.r_[np.ones(9), -np.ones(51)]
    folds = inner_folds(InOrder(6), signs, np.arange(60))
    assert len(folds) == 3
    for fold in folds:
        assert len(np.unique(signs[fold.test])) == 2
    with pytest.raises(ValueError, match="Only 1 training trial of one class; electrodes cannot be chosen"):
        inner_folds(InOrder(2), np.r_[1.0, -np.ones(9)], np.arange(10))


def test_folds_of_one_class_cannot_be_scored(small):
    X, signs = small
    with pytest.raises(
        ValueError, match="No fold has both classes among its held-out and its training trials; use fewer folds"
    ):
        nested(X, signs, np.where(signs > 0, 0, 1))


@pytest.mark.parametrize("penalty", ["l2", "group"])
def test_subsets_of_sensors_one_after_another_are_those_solved_alone(small, penalty):
    X, signs = small
    objective = Objective(penalty, 2.0, None, None, True)
    trials = Trials(X.reshape(120, -1), None, (5, 3), X.dtype)
    stack = objective.stack(trials, signs, np.ones((120, 1)))
    beta = np.ones((4, 1, 5, 1))
    beta[0, 0, [0, 2], 0] = np.inf
    beta[1, 0, 3, 0] = np.inf
    beta[2, 0, [1, 4], 0] = np.inf  # the first two to leave are in again
    alphas = np.array([0.05, 0.2, 0.02, 0.1]).reshape(4, 1, 1)
    found = Newton().subsets(stack, alphas, beta, 1e-9, 1000)
    for alpha, weights, solution in zip(alphas, beta, found, strict=True):
        (alone,) = solve(replace(stack, group_weights=weights), alpha[None], SolverOptions("newton", 1e-9, 1000))
        np.testing.assert_allclose(solution.objective, alone.objective, rtol=1e-8)
        np.testing.assert_allclose(solution.W, alone.W, atol=1e-4)
        assert solution.gap.max() <= 1e-9
        assert not solution.W.reshape(5, 3)[np.isinf(weights[0, :, 0])].any()
