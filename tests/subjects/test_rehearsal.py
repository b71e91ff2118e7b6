"""Leave-one-subject-out trial of adaptation on the known subjects: its table, and how `adapt` uses it."""

import cvxpy as cp
import numpy as np
import pytest
from scipy.linalg import sqrtm
from scipy.stats import mannwhitneyu

import noise_reference as slow
from cohorts import cohort, correlated, stacked, within_subject_metric
from mixnorm import GroupSVC, MultiTaskGroupSVC, MultiTaskGroupSVCCV, load, save
from mixnorm.subjects import rehearsal
from mixnorm.subjects.adaptation import STRENGTHS
from mixnorm.subjects.rehearsal import expected_gains

#: Some subjects differ on purpose; test_joint_noise.py looks for the warning.
pytestmark = pytest.mark.filterwarnings("ignore:.*not above chance level:UserWarning")


def alike(n_subjects, own=0.0, n=60, seed=0, d=12):
    """Subjects whose true weights are a common part of norm 1 plus one of norm ``own`` of each: (X, y, subjects)."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=d) / np.sqrt(d)
    Xs, ys = [], []
    for _ in range(n_subjects):
        w, X = common + own * rng.normal(size=d) / np.sqrt(d), rng.normal(size=(n, d))
        Xs.append(X)
        ys.append(np.where(X @ w + 0.7 * rng.normal(size=n) > 0, 1.0, -1.0))
    return stacked(Xs, ys)


def regularised_fit(X, y, groups, center, alpha, strength, metric):
    """The new subject's problem by a general convex solver."""
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    cost = cp.sum_squares(cp.pos(1 - cp.multiply(y, X @ w + b))) / len(y)
    cost += strength * cp.sum_squares(np.linalg.cholesky(metric).T @ (w - center))
    cost += alpha * sum(cp.norm2(w[np.flatnonzero(groups == g)]) for g in np.unique(groups))
    cp.Problem(cp.Minimize(cost)).solve(solver=cp.CLARABEL)
    return w.value


def area(y, scores):
    return mannwhitneyu(scores[y > 0], scores[y < 0]).statistic / np.sum(y > 0) / np.sum(y < 0)


def test_gains_are_those_of_subjects_left_out_and_adapted_with_a_few_trials(monkeypatch):
    monkeypatch.setattr(rehearsal, "_TOL", 1e-9)
    monkeypatch.setattr(rehearsal, "_DRAWS", 1)
    Xs, ys, groups = cohort(3, seed=1)
    Xs = correlated(Xs)
    X, y, subjects = stacked(Xs, ys)
    options = {"similarity": 0.1, "groups": groups, "tol": 1e-9}
    model = MultiTaskGroupSVC(0.02, rehearse=True, **options).fit(X, y, subjects=subjects)
    size = model.newcomer_trials_[-1]
    assert size == pytest.approx(2 / 3 * 40)  # the median of 40, 25 and 60 trials
    gains, places = [], (5, 9)  # the smaller strength is one that `adapt` seldom tries
    for t in (0, 2):  # two thirds of the median is more than subject 1 can spare
        others = subjects != f"S{t}"
        left = MultiTaskGroupSVC(0.02, **options).fit(X[others], y[others], subjects=subjects[others])
        center, usable = left.mean_coef_, np.isin(groups, left.selected_groups_)
        known = [s for s in range(3) if s != t]
        metric = within_subject_metric([Xs[s] for s in known], [np.ones(len(ys[s])) for s in known], usable)
        rng, drawn = np.random.default_rng(0), np.zeros(len(ys[t]), dtype=bool)
        for sign in (-1, 1):
            members = np.flatnonzero(ys[t] == sign)
            drawn[rng.permutation(members)[: round(size * len(members) / len(ys[t]))]] = True
        rest, own = (Xs[t][~drawn], ys[t][~drawn]), []
        for strength in STRENGTHS[list(places)] * np.mean(Xs[t][:, usable] ** 2):
            w = regularised_fit(Xs[t][drawn] * usable, ys[t][drawn], groups, center, 0.02, strength, metric)
            own.append(area(rest[1], rest[0] @ w) - area(rest[1], rest[0] @ center))
        gains.append(own)
    expected = np.mean(gains, axis=0)
    assert len({0.0, *expected}) == 3
    np.testing.assert_allclose(model.newcomer_gains_[-1, list(places)], expected, atol=1e-12)
    np.testing.assert_array_equal(model.newcomer_gains_[:, 0], 0.0)


def test_alike_subjects_teach_to_stay_with_the_mean_and_unlike_ones_to_leave_it():
    X, y, subjects = alike(8)
    close = MultiTaskGroupSVC(0.01, similarity=0.1, rehearse=True).fit(X, y, subjects=subjects)
    X, y, subjects = alike(8, own=4.0)
    far = MultiTaskGroupSVC(0.01, similarity=0.001, rehearse=True).fit(X, y, subjects=subjects)
    assert np.all(close.newcomer_gains_[0, 5:] < -0.02)  # strengths from 1 down, at the fewest trials
    assert np.all(far.newcomer_gains_[-1, 5:] > 0.05)


def test_a_few_trials_leave_the_word_to_the_known_subjects():
    X, y, subjects = alike(8)
    heeding, alone = (
        MultiTaskGroupSVC(0.01, similarity=0.1, rehearse=rehearse).fit(X, y, subjects=subjects)
        for rehearse in (True, False)
    )
    X, y, _ = alike(1, seed=1)  # unlike them
    strengths = [model.adapt(X[:40], y[:40]).strength_ for model in (heeding, alone)]
    assert strengths[0] > strengths[1]


def test_many_trials_take_the_word_from_the_known_subjects():
    X, y, subjects = alike(8)
    model = MultiTaskGroupSVC(0.01, similarity=0.1, rehearse=True).fit(X, y, subjects=subjects)
    X, y, _ = alike(1, n=4000, seed=1)
    model.adapt(X, y, subject="new")
    forbidden = dict.fromkeys(set(range(12)) - set(model.selected_groups_.tolist()), np.inf)
    own = GroupSVC(0.01, group_weights=forbidden).fit(X, y)
    assert np.linalg.norm(model.coef_[-1] - own.coef_[0]) < 0.05 * np.linalg.norm(own.coef_[0])


def test_the_table_is_read_between_its_numbers_of_trials():
    gains = np.stack([-np.arange(13.0), np.arange(13.0)])
    for n, factor in ((10, -1), (20, 0), (40, 1)):
        np.testing.assert_allclose(expected_gains(np.array([10, 40]), gains, n), factor * gains[1], atol=1e-12)


@pytest.mark.parametrize(("n", "places"), [(1000, 4), (10, 0), (1, -2)])
def test_beyond_the_table_strength_times_trials_counts(n, places):
    # two places of the grid are a factor of 10; places above the largest finite strength have the gain of ∞, 0 here
    gains = np.concatenate([[0.0], np.arange(10.0, 21.0), [30.0]])
    found = expected_gains(np.array([10]), gains[None], n)
    moved = {j: gains[min(j - places, 11)] for j in range(1, 12) if j - places >= 1}
    np.testing.assert_allclose(found[list(moved)], list(moved.values()), atol=1e-12)
    assert found[0] == 0.0
    assert found[12] == 30.0
    if places == 4:
        np.testing.assert_allclose(found[1:5], [0.0, 0.0, 0.0, 5.0], atol=1e-12)  # ∞ a decade above the largest


def noisy(n_subjects, differ, seed=0, n=60, n_sensors=5, n_samples=3):
    """Subjects with one response, in ongoing activity that differs between them or not: (Xs, ys, groups)."""
    rng = np.random.default_rng(seed)
    d, response = n_sensors * n_samples, rng.normal(size=n_sensors * n_samples)
    common = np.linalg.qr(rng.normal(size=(n_sensors, n_sensors)))[0]
    Xs, ys = [], []
    for _ in range(n_subjects):
        own = np.linalg.qr(rng.normal(size=(n_sensors, n_sensors)))[0] if differ else common
        mixing = np.kron(own * np.geomspace(4.0, 0.25, n_sensors), np.eye(n_samples))
        y = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
        Xs.append(rng.normal(size=(n, d)) @ mixing.T + 0.3 * np.outer(y > 0, response))
        ys.append(y)
    return Xs, ys, np.repeat(np.arange(n_sensors), n_samples)


def kronecker(X, y, groups):
    """N of trials by its formula, features sensor by sensor."""
    weights = np.ones(len(X))
    E = slow.residuals(X, y, weights).reshape(len(X), len(np.unique(groups)), -1)
    return slow.kronecker(E, weights / len(X))


def transferred(model, Xs, ys, groups, t, n0):
    """AUCs of the others' classifier on subject t, in the noise of 6, 12 and 36 of its trials drawn to the mean."""
    N = [kronecker(X, y, groups) for X, y in zip(Xs, ys, strict=True)]
    known = [s for s in range(len(Xs)) if s != t]
    target = np.mean([sqrtm(N[s]).real @ w for s, w in zip(known, model.coef_, strict=True)], axis=0)
    mean, aucs = np.mean([N[s] for s in known], axis=0), []
    for size in (6, 12, 36):
        rng = np.random.default_rng(0)
        for _ in range(2):
            drawn = np.zeros(len(ys[t]), dtype=bool)
            for sign in (-1, 1):
                members = np.flatnonzero(ys[t] == sign)
                drawn[rng.permutation(members)[: max(2, round(size * len(members) / len(ys[t])))]] = True
            n = drawn.sum()
            own = (n * kronecker(Xs[t][drawn], ys[t][drawn], groups) + n0 * mean) / (n + n0)
            scores = Xs[t][~drawn] @ np.linalg.solve(sqrtm(own).real, target)
            aucs.append(area(ys[t][~drawn], scores))
    return aucs


@pytest.mark.parametrize(("differ", "chosen"), [(True, 2.0), (False, 20.0)])
def test_the_known_subjects_say_how_far_the_noise_of_another_is_drawn_to_their_mean(differ, chosen, monkeypatch):
    monkeypatch.setattr(rehearsal, "_TOL", 1e-9)
    Xs, ys, groups = noisy(4, differ)
    X, y, subjects = stacked(Xs, ys)
    how = {"similarity": 0.1, "penalty": "l2", "noise": "kronecker", "groups": groups, "tol": 1e-9}
    means = []
    for n0 in (2.0, 20.0):
        found = []
        for t in range(4):
            others = subjects != f"S{t}"
            model = MultiTaskGroupSVC(0.1, **how).fit(X[others], y[others], subjects=subjects[others])
            found += transferred(model, Xs, ys, groups, t, n0)
        means.append(np.mean(found))
    assert (2.0, 20.0)[int(np.argmax(means))] == chosen
    assert abs(means[0] - means[1]) > 1e-4
    model = MultiTaskGroupSVC(0.1, rehearse=True, **how).fit(X, y, subjects=subjects)
    (new,), _, _ = noisy(1, True, seed=1)
    model.adapt(new[:10], subject="new")
    mean = np.mean([kronecker(X, y, groups) for X, y in zip(Xs, ys, strict=True)], axis=0)
    N = (10 * kronecker(new[:10], np.ones(10), groups) + chosen * mean) / (10 + chosen)
    np.testing.assert_allclose(model.coef_[-1], np.linalg.solve(sqrtm(N).real, model.mean_white_coef_), atol=1e-8)


def test_without_a_rehearsal_the_mean_noise_counts_for_two_trials():
    Xs, ys, groups = noisy(4, False)
    X, y, subjects = stacked(Xs, ys)
    how = {"similarity": 0.1, "penalty": "l2", "noise": "kronecker", "groups": groups}
    rehearsed, plain = (MultiTaskGroupSVC(0.1, rehearse=r, **how).fit(X, y, subjects=subjects) for r in (True, False))
    assert (rehearsed._trials_of_mean, plain._trials_of_mean) == (20.0, 2.0)


def test_rehearsing_changes_no_classifier():
    X, y, subjects = alike(4)
    plain, rehearsed = (
        MultiTaskGroupSVC(0.01, similarity=0.1, rehearse=r).fit(X, y, subjects=subjects) for r in (False, True)
    )
    np.testing.assert_array_equal(plain.coef_, rehearsed.coef_)
    np.testing.assert_array_equal(plain.mean_coef_, rehearsed.mean_coef_)


@pytest.mark.parametrize(("n_subjects", "n"), [(2, 40), (4, 7)], ids=["two subjects", "few trials"])
def test_without_rehearsal_the_new_subject_chooses_by_its_own_trials(n_subjects, n):
    X, y, subjects = alike(n_subjects, n=n, seed=3)
    model = MultiTaskGroupSVC(0.01, similarity=0.1, rehearse=True).fit(X, y, subjects=subjects)
    assert model.newcomer_gains_ is None
    alone = MultiTaskGroupSVC(0.01, similarity=0.1).fit(X, y, subjects=subjects)
    X, y, _ = alike(1, seed=1)
    np.testing.assert_array_equal(model.adapt(X, y).coef_[-1], alone.adapt(X, y).coef_[-1])


def test_the_table_is_kept_in_the_model_file(tmp_path):
    X, y, subjects = alike(4)
    model = MultiTaskGroupSVCCV([0.01, 0.03], similarities=[0.1]).fit(X, y, subjects=subjects)
    assert model.newcomer_gains_.shape == (len(model.newcomer_trials_), len(STRENGTHS))
    save(model, tmp_path / "model.mixnorm")
    loaded = load(tmp_path / "model.mixnorm")
    X, y, _ = alike(1, seed=1)
    np.testing.assert_array_equal(loaded.adapt(X[:30], y[:30]).coef_, model.adapt(X[:30], y[:30]).coef_)


def test_a_second_fit_gives_the_same_numbers():
    """What a rehearsal chose belongs to its fit: the next one starts anew."""
    rng = np.random.default_rng(0)
    T, n, C, r = 5, 60, 6, 5
    root = np.linalg.cholesky(0.9 * np.ones((C * r, C * r)) + 0.1 * np.eye(C * r))
    X, y = (rng.standard_normal((T * n, C * r)) @ root.T).reshape(-1, C, r), np.arange(T * n) % 2
    X[y == 1, 1:3] += 0.3
    subjects = np.repeat(np.arange(T), n)
    few = (subjects == 4) & (np.arange(T * n) % n > 8)
    model = MultiTaskGroupSVC(0.3, similarity=0.3, penalty="l2", noise="structured", asymmetric=[4], rehearse=True)
    model._trials_of_mean = 20.0  # as if an earlier rehearsal had chosen it
    first = model.fit(X[~few], y[~few], subjects=subjects[~few]).coef_.copy()
    fresh = MultiTaskGroupSVC(**model.get_params()).fit(X[~few], y[~few], subjects=subjects[~few])
    np.testing.assert_array_equal(first, fresh.coef_)
