"""Nested montages: refits, held-out scores and their intervals."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student
from sklearn.metrics import roc_auc_score

import noise_reference as reference
from mixnorm import GroupSVC, GroupSVCCV
from mixnorm.eeg import InOrder, simulated_p300
from mixnorm.estimators.cross_validation import Fold
from mixnorm.estimators.inputs import Trials
from mixnorm.estimators.objective import Objective
from mixnorm.execution import SolverOptions, solve
from mixnorm.montage.constraints import Constraints
from mixnorm.montage.intervals import corrected_interval, paired_variance
from mixnorm.montage.orders import EliminationOrder
from mixnorm.montage.refits import Ranking, refit, sizes_up_to
from mixnorm.montage.scoring import score_montages
from mixnorm.montage.separation import precision, separation
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


def penalty_of(X, signs, sensors):
    """M of some sensors from the noise and the response of all, by the definition."""
    N, Q = reference.noise_and_response(X, signs, np.ones(len(X)))
    unit = np.mean(np.diag(N @ np.linalg.inv(Q) @ N))
    part = np.ix_(*2 * [(X.shape[2] * sensors[:, None] + np.arange(X.shape[2])).ravel()])
    return N[part] @ np.linalg.inv(Q[part]) @ N[part] / unit


def mean_auc(X, signs, sensors, alpha, folds):
    found = []
    for fold in folds:
        train = fold.train > 0
        M = penalty_of(X[train], signs[train], sensors)
        model = GroupSVC(alpha, penalty="l2", noise=M).fit(X[train][:, sensors], signs[train])
        found.append(roc_auc_score(signs[fold.test], model.decision_function(X[fold.test][:, sensors])))
    return np.mean(found)


def test_refits_are_the_svm_with_the_penalty_that_all_sensors_show(small):
    X, signs = small
    order = np.array([1, 4, 0, 3, 2])
    training = Training(X, signs, in_blocks(120, 3))
    models = refit(training, Ranking(order, np.arange(1, 6)))
    for K, alpha, coef, intercept in zip(models.sizes, models.alphas, models.coefs, models.intercepts, strict=True):
        sensors = np.sort(order[:K])
        alone = GroupSVC(alpha, penalty="l2", noise=penalty_of(X, signs, sensors)).fit(X[:, sensors], signs)
        np.testing.assert_allclose(coef[sensors].ravel(), alone.coef_[0], rtol=1e-9, atol=1e-12)
        assert not coef[order[K:]].any()
        np.testing.assert_allclose(intercept, alone.intercept_[0], rtol=1e-9, atol=1e-12)
        # at all of these sizes alpha is chosen; the grid is that of the estimator
        grid = GroupSVCCV(penalty="l2", noise="structured", cv=3).fit(X[:, sensors], signs).alphas_
        values = [mean_auc(X, signs, sensors, one, training.folds) for one in grid] if K in (2, 5) else []
        if values:
            assert alpha == pytest.approx(grid[int(np.argmax(np.round(values, 12)))])
    scores = models.scores(X[:7])
    np.testing.assert_allclose(scores[:, 2], X[:7].reshape(7, -1) @ models.coefs[2].ravel() + models.intercepts[2])


def test_alpha_is_interpolated_between_the_sizes_at_which_it_is_chosen():
    rng = np.random.default_rng(2)
    signs = np.tile([1.0, -1.0], 40)
    X = rng.standard_normal((80, 7, 2)) + 0.3 * (signs > 0)[:, None, None]
    training = Training(X, signs, in_blocks(80, 3))
    assert sizes_up_to(7).tolist() == [1, 2, 3, 4, 6, 7]
    every = refit(training, Ranking(np.arange(7), np.arange(1, 8)))
    at = dict(zip(every.sizes.tolist(), np.log(every.alphas), strict=True))
    share = np.log(5 / 4) / np.log(6 / 4)
    assert at[5] == pytest.approx((1 - share) * at[4] + share * at[6])


def test_the_same_sensors_have_the_same_decoder_in_whatever_order_they_were_found(small):
    X, signs = small
    training = Training(X, signs, in_blocks(120, 3))
    first = refit(training, Ranking(np.array([1, 4, 0, 3, 2]), np.array([2, 5])))
    other = refit(training, Ranking(np.array([4, 1, 2, 3, 0]), np.array([1, 2, 4, 5])))
    for place, there in ((0, 1), (1, 3)):
        np.testing.assert_allclose(first.coefs[place], other.coefs[there], rtol=1e-11, atol=1e-14)
        assert first.intercepts[place] == pytest.approx(other.intercepts[there], rel=1e-11, abs=1e-14)


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
    with pytest.raises(ValueError, match="Only 1 training trial of one class; electrodes cannot be chosen from fewer"):
        inner_folds(InOrder(2), np.r_[1.0, -np.ones(9)], np.arange(10))
    with pytest.raises(ValueError, match="Only 2 training trials of one class"):
        inner_folds(InOrder(2), np.r_[np.ones(2), -np.ones(9)], np.arange(11))
    for fold in inner_folds(InOrder(2), np.r_[np.ones(3), -np.ones(9)], np.arange(12)):
        assert np.sum(fold.train[:3]) == 2


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
