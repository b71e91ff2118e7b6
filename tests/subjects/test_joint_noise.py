"""Joint fits with noise: the coordinates, the problem that is solved, ``asymmetric``, new subjects, bad input."""

import cvxpy as cp
import joblib
import numpy as np
import pytest
from scipy.linalg import sqrtm
from sklearn.metrics import roc_auc_score

import noise_reference as slow
from cohorts import cohort, stacked
from mixnorm import GroupSVC, MultiTaskGroupSVC, MultiTaskGroupSVCCV, load, save
from mixnorm.core.groups import Groups
from mixnorm.subjects.alignment import alignment
from reference import convex_reference, objective

ALPHA, SIMILARITY = 0.02, 0.3
#: The subjects of most tests differ in everything, so that nothing transfers; tests of its own look for the warning.
pytestmark = pytest.mark.filterwarnings("ignore:.*not above chance level:UserWarning")


def coloured(n_subjects, seed=0, sizes=(40, 25, 60, 31)):
    """Subjects whose 6 sensors × 3 samples are mixed in another way in each: (Xs, ys, groups)."""
    Xs, ys, groups = cohort(n_subjects, seed=seed, sizes=sizes)
    rng = np.random.default_rng(seed)
    mixed = []
    for X in Xs:
        space, time = rng.normal(size=(6, 6)) + np.eye(6), rng.normal(size=(3, 3)) + 2 * np.eye(3)
        mixed.append(np.einsum("ab,nbs,st->nat", space, X.reshape(-1, 6, 3), time).reshape(-1, 18))
    return mixed, ys, groups


def slow_noise(X, y, groups, name="kronecker", weights=None):
    """N by its formula, in the order of the features; y=None: about the mean of all trials."""
    weights = np.ones(len(X)) if weights is None else weights
    order = np.concatenate([np.flatnonzero(groups == g) for g in np.unique(groups)])
    signs = np.ones(len(X)) if y is None else y
    by_sensor = len(X), len(np.unique(groups)), -1
    N = np.empty((X.shape[1], X.shape[1]))
    if name == "evoked":
        N[np.ix_(order, order)] = slow.evoked(X[:, order].reshape(by_sensor), signs, weights)
        return N
    E = slow.residuals(X, signs, weights)[:, order].reshape(by_sensor)
    N[np.ix_(order, order)] = getattr(slow, name)(E, weights / weights.sum())
    return N


def root(N):
    return sqrtm(N).real


def roots(Xs, ys, groups, name="kronecker", weights=None):
    weights = [None] * len(Xs) if weights is None else weights
    return [root(slow_noise(X, y, groups, name, s)) for X, y, s in zip(Xs, ys, weights, strict=True)]


def reference(Xs, ys, groups, R, penalty="l2", q=2.0, alpha=ALPHA, similarity=SIMILARITY, **rest):
    """The problem with noise as keywords of `reference`: with l2 the penalty alpha/2 w'N w is a ridge of R."""
    how = {"similarity": similarity, "groups": groups, "alignment": R, "penalty": penalty, "q": q, **rest}
    return how | ({"alpha": 0.0, "ridge": alpha} if penalty == "l2" else {"alpha": alpha})


def fit(data, noise="kronecker", alpha=ALPHA, similarity=SIMILARITY, **options):
    Xs, ys, groups = data
    X, y, subjects = stacked(Xs, ys)
    model = MultiTaskGroupSVC(alpha, similarity=similarity, groups=groups, noise=noise, tol=1e-9, **options)
    return model.fit(X, y, subjects=subjects)


# --- the problem that is solved ---


@pytest.mark.parametrize("sizes", [(40, 25, 60), (12, 9, 8)], ids=["n > d", "n < d"])
@pytest.mark.parametrize(
    ("penalty", "q", "name"),
    [("l2", 2.0, "structured"), ("l2", 2.0, "kronecker"), ("l2", 2.0, "evoked"), ("group", 2.0, "structured"),
     ("group", 1.5, "kronecker"), ("group", 2.0, "evoked"), ("l1", 2.0, "toeplitz")],
)  # fmt: skip
def test_the_fit_is_the_convex_solvers(penalty, q, name, sizes):
    data = Xs, ys, groups = coloured(3, sizes=sizes)
    model = fit(data, noise=name, penalty=penalty, q=q)
    how = reference(Xs, ys, groups, R := roots(Xs, ys, groups, name), penalty, q)
    optimum = convex_reference(Xs, ys, **how)[0]
    assert objective(Xs, ys, model.coef_, model.intercept_, **how) == pytest.approx(optimum, rel=1e-7)
    assert model.objective_ == pytest.approx(optimum, rel=1e-7)
    assert model.dual_gap_ <= 1e-9
    mean = np.mean([r @ w for r, w in zip(R, model.coef_, strict=True)], axis=0)
    np.testing.assert_allclose(model.mean_white_coef_, mean, atol=1e-9)
    plain = how | ({"alignment": None} if penalty != "l2" else {"alignment": [np.eye(18)] * 3})
    assert convex_reference(Xs, ys, **plain)[0] != pytest.approx(optimum, rel=1e-3)


@pytest.mark.parametrize("penalty", ["l2", "group"])
def test_features_in_any_order_and_weights_of_trials_and_classes(penalty):
    Xs, ys, groups = coloured(2)
    places = np.random.default_rng(2).permutation(18)
    Xs, groups = [X[:, places] for X in Xs], groups[places]
    ys[0][:25], ys[1][:15] = 1.0, 1.0
    weights = np.random.default_rng(0).uniform(0.1, 2, 65)
    weights[3:30:9] = 0.0
    ss = [weights[:40], weights[40:]]
    X, y, subjects = stacked(Xs, ys)
    how = {"groups": groups, "noise": "kronecker", "penalty": penalty, "class_weight": "balanced", "tol": 1e-9}
    model = MultiTaskGroupSVC(ALPHA, similarity=SIMILARITY, **how).fit(X, y, subjects=subjects, sample_weight=weights)
    # the classes count in the loss by their weights, in the noise as they are
    kept = [s > 0 for s in ss]
    R = [root(slow_noise(X[k], y[k], groups, "kronecker", s[k])) for X, y, s, k in zip(Xs, ys, ss, kept, strict=True)]
    balanced = [
        np.where(y > 0, s / s[y > 0].sum(), s / s[y < 0].sum()) * s.sum() / 2 for y, s in zip(ys, ss, strict=True)
    ]
    optimum = convex_reference(Xs, ys, s=balanced, **reference(Xs, ys, groups, R, penalty))[0]
    assert model.objective_ == pytest.approx(optimum, rel=1e-7)


def l2_optimum(Xs, ys, R, covered, allowed):
    """The optimum of the joint l2 problem whose penalty covers some features alone."""
    W, b = [cp.Variable(18) for _ in Xs], [cp.Variable() for _ in Xs]
    loss = sum(cp.sum_squares(cp.pos(1 - cp.multiply(y, X @ w + c))) for X, y, w, c in zip(Xs, ys, W, b, strict=True))
    V = [r @ w for r, w in zip(R, W, strict=True)]
    cost = loss / sum(map(len, ys)) + SIMILARITY * sum(cp.sum_squares(v - sum(V) / len(V)) for v in V)
    cost += ALPHA / 2 * sum(cp.sum_squares(v[np.flatnonzero(covered)]) for v in V)
    held = [w[np.flatnonzero(~allowed)] == 0 for w in W]
    return cp.Problem(cp.Minimize(cost), held).solve(
        solver=cp.CLARABEL, tol_gap_rel=1e-10, tol_gap_abs=1e-11, tol_feas=1e-10
    )


@pytest.mark.parametrize("penalty", ["l2", "group"])
def test_sensors_that_are_kept_or_forbidden(penalty):
    data = Xs, ys, groups = coloured(3, seed=4)
    model = fit(data, noise="structured", penalty=penalty, group_weights={1: 0.0, 4: np.inf})
    assert model.dual_gap_ <= 1e-9
    # forbidden sensors have no part in N; with l2 neither have those of weight 0, which are compared as they are
    covered = groups != 4 if penalty == "group" else (groups != 4) & (groups != 1)
    R = []
    for X, y in zip(Xs, ys, strict=True):
        own = np.eye(18)
        own[np.ix_(covered, covered)] = root(slow_noise(X[:, covered], y, groups[covered], "structured"))
        R.append(own)
    if penalty == "group":
        beta = np.array([1.0, 0.0, 1.0, 1.0, np.inf, 1.0])
        optimum = convex_reference(Xs, ys, beta=beta, **reference(Xs, ys, groups, R, "group"))[0]
    else:
        optimum = l2_optimum(Xs, ys, R, covered, groups != 4)
    assert model.objective_ == pytest.approx(optimum, rel=1e-7)
    assert not model.coef_[:, groups == 4].any()


@pytest.mark.parametrize("noise", ["structured", "evoked"])
def test_one_subject_and_similarity_0_are_the_fits_of_single_subjects(noise):
    data = Xs, ys, groups = coloured(3)
    how = {"penalty": "l2", "noise": noise}
    alone = fit((Xs[:1], ys[:1], groups), **how)
    single = GroupSVC(ALPHA, groups=groups, tol=1e-9, **how).fit(Xs[0], ys[0])
    np.testing.assert_allclose(alone.coef_, single.coef_, atol=1e-6)
    # every subject by itself, at T times alpha (the loss of each counts by its share of the trials)
    apart = fit(data, similarity=0.0, **how)
    for X, y, w in zip(Xs, ys, apart.coef_, strict=True):
        alpha = ALPHA * sum(map(len, ys)) / len(y)
        own = GroupSVC(alpha, groups=groups, tol=1e-9, **how).fit(X, y)
        np.testing.assert_allclose(w, own.coef_[0], atol=1e-5)


def test_a_large_similarity_makes_all_white_classifiers_the_same():
    data = Xs, ys, groups = coloured(3)
    same = fit(data, penalty="l2", similarity=1e4)
    V = [r @ w for r, w in zip(roots(Xs, ys, groups), same.coef_, strict=True)]
    np.testing.assert_allclose(V - np.mean(V, axis=0), 0.0, atol=1e-3 * np.abs(V).max())
    assert np.abs(same.coef_ - same.coef_.mean(axis=0)).max() > 0.1 * np.abs(same.coef_).max()


def test_a_matrix_for_all_and_a_dict_by_subject():
    data = Xs, ys, groups = coloured(3)
    N = [slow_noise(X, y, groups, "structured") for X, y in zip(Xs, ys, strict=True)]
    by_name = fit(data, noise="structured", penalty="l2")
    by_matrix = fit(data, noise={"S0": N[0], "S1": "structured", "S2": N[2]}, penalty="l2")
    np.testing.assert_allclose(by_matrix.coef_, by_name.coef_, atol=1e-8)
    one = fit(data, noise=N[0], penalty="l2")
    optimum = convex_reference(Xs, ys, **reference(Xs, ys, groups, [root(N[0])] * 3))[0]
    assert one.objective_ == pytest.approx(optimum, rel=1e-7)


def test_align_warns_and_is_noise_kronecker():
    data = coloured(3)
    with pytest.warns(FutureWarning, match="align=True is deprecated.*noise='kronecker'"):
        former = fit(data, noise=None, align=True)
    np.testing.assert_array_equal(former.coef_, fit(data).coef_)
    with pytest.raises(ValueError, match="align=True is the former name of noise='kronecker'"):
        fit(data, align=True)


def alike_in_their_responses(rng, n=60, n_subjects=6):
    """The same response in all subjects, behind ongoing activity that is mixed into the sensors differently in each."""
    response = np.outer(np.sin(np.arange(5)), np.hanning(6))
    out = []
    for _ in range(n_subjects):
        mixing = rng.normal(size=(5, 5)) * np.array([3, 1, 1, 0.3, 0.3])
        y = np.tile([0, 1], n // 2)
        out.append((np.einsum("cd,nds->ncs", mixing, rng.normal(size=(n, 5, 6))) + np.multiply.outer(y, response), y))
    return out


def test_subjects_who_differ_in_ongoing_activity_alone_are_learned_better_with_noise():
    rng = np.random.default_rng(0)
    data = alike_in_their_responses(rng, n=200)
    X, y = (np.concatenate([part[i][:40] for part in data]) for i in (0, 1))
    subjects, aucs = np.repeat(np.arange(6), 40), {}
    for how in ({}, {"noise": "kronecker"}, {"penalty": "l2", "noise": "structured"}):
        model = MultiTaskGroupSVCCV(4, similarities=3, cv=3, rehearse=False, tol=1e-3, **how)
        model.fit(X, y, subjects=subjects)
        scores = [model.decision_function(part[0][40:], subjects=t) for t, part in enumerate(data)]
        aucs[len(how)] = np.mean([roc_auc_score(part[1][40:], s) for part, s in zip(data, scores, strict=True)])
    assert aucs[1] > aucs[0] + 0.03
    assert aucs[2] > aucs[0] + 0.03


@pytest.mark.parametrize("seed", [9, 11])
def test_few_steps_where_the_features_of_subjects_are_of_unlike_size(seed):
    rng = np.random.default_rng(seed)
    response, parts = 0.5 * rng.normal(size=(7, 6)), []
    for n, scale in zip((28, 28, 72), (0.2, 1.0, 8.0), strict=True):
        y, mixing = np.tile([0, 1], n // 2), scale * rng.normal(size=(7, 7))
        parts.append(
            (np.einsum("cd,nds->ncs", mixing, rng.normal(size=(n, 7, 6))) + np.multiply.outer(y, response), y)
        )
    X, y = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    channels = Groups.from_channels(list("abcdefg"), 6)
    N = [
        alignment(part[0].reshape(-1, 42), np.ones(len(part[1])), channels).gram(np.arange(42))[0, 0] for part in parts
    ]
    model = MultiTaskGroupSVC(1e-4, similarity=0.3, q=1.2, noise=dict(enumerate(N)))
    model.fit(X, y, subjects=np.repeat([0, 1, 2], (28, 28, 72)))
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
        model = MultiTaskGroupSVC(5e-4, similarity=similarity, noise="kronecker", group_weights={1: 0.0, 2: 0.0})
        assert model.fit(X[used], y[used], subjects=subjects[used]).dual_gap_ <= 1e-6


@pytest.mark.parametrize("how", [{}, {"penalty": "l2"}], ids=["group", "l2"])
def test_the_refit_of_a_cross_validation_is_the_fit_at_what_it_chose(how):
    Xs, ys, groups = coloured(3)
    X, y, subjects = stacked(Xs, ys)
    found = MultiTaskGroupSVCCV(4, similarities=3, groups=groups, noise="structured", rehearse=False, tol=1e-9, **how)
    found.fit(X, y, subjects=subjects)
    if how:
        np.testing.assert_allclose(found.similarities_, np.outer([0.0, 0.3, 100.0], found.alphas_) / 2)
        assert found.alphas_[0] == pytest.approx(1e5 * found.alphas_[-1])
    else:
        np.testing.assert_allclose(found.similarities_, np.array([0.0, 1e-2, 1e2]) * np.mean(X**2) / 3)
    again = fit((Xs, ys, groups), "structured", found.alpha_, found.similarity_, **how)
    np.testing.assert_allclose(found.coef_, again.coef_, atol=1e-6)


@pytest.mark.parametrize(
    ("how", "rule"),
    [
        ({"penalty": "l2", "noise": "structured"}, "best"),
        ({"penalty": "l2"}, "centre"),
        ({"noise": "shrunk"}, "centre"),
    ],
)
def test_the_automatic_rule_is_the_best_score_for_l2_with_noise(how, rule):
    Xs, ys, groups = coloured(2, seed=2)
    X, y, subjects = stacked(Xs, ys)
    auto, named = (
        MultiTaskGroupSVCCV(4, similarities=3, cv=3, groups=groups, rehearse=False, rule=each, tol=1e-3, **how).fit(
            X, y, subjects=subjects
        )
        for each in ("auto", rule)
    )
    assert (auto.alpha_, auto.similarity_) == (named.alpha_, named.similarity_)
    if rule == "best":
        assert auto.scores_.mean(axis=2).max() == pytest.approx(
            auto.scores_.mean(axis=2)[np.isclose(auto.similarities_, auto.similarity_) & (auto.alphas_ == auto.alpha_)]
        )


def test_the_noise_of_a_fold_is_estimated_from_its_training_trials_alone():
    Xs, ys, groups = coloured(2, sizes=(60, 60))
    X, y, subjects = stacked(Xs, ys)
    train = np.arange(120) % 60 < 40
    folds = [(np.flatnonzero(train), np.flatnonzero(~train))]
    how = {"groups": groups, "penalty": "l2", "noise": "structured", "rehearse": False, "tol": 1e-9}
    found = MultiTaskGroupSVCCV([ALPHA], similarities=[SIMILARITY], cv=folds, **how).fit(X, y, subjects=subjects)
    part = fit(([X[:40] for X in Xs], [y[:40] for y in ys], groups), "structured", penalty="l2")
    aucs = [
        roc_auc_score(own[40:], part.decision_function(X[40:], subjects=f"S{t}"))
        for t, (X, own) in enumerate(zip(Xs, ys, strict=True))
    ]
    assert found.scores_[0, 0, 0] == pytest.approx(np.mean(aucs), abs=1e-12)


def test_in_parallel_jobs_and_on_dask_the_same_bits():
    distributed = pytest.importorskip("distributed")
    Xs, ys, groups = coloured(2)
    X, y, subjects = stacked(Xs, ys)
    how = {"groups": groups, "penalty": "l2", "noise": "structured", "rehearse": False}

    def fitted(n_jobs):
        return MultiTaskGroupSVCCV(3, similarities=2, n_jobs=n_jobs, **how).fit(X, y, subjects=subjects)

    expected = fitted(None)
    with joblib.parallel_config("threading"):
        found = [fitted(2)]
    local = {"n_workers": 1, "threads_per_worker": 2, "processes": False, "dashboard_address": None}
    with distributed.Client(**local), joblib.parallel_config("dask"):
        found.append(fitted(-1))
    for model in found:
        np.testing.assert_array_equal(model.coef_, expected.coef_)
        np.testing.assert_array_equal(model.scores_, expected.scores_)


# --- subjects in asymmetric, and new subjects ---


def own_problem(X, y, model, R, strength, alpha, sensors=range(6)):
    """Optimum by cvxpy, and value at the last row, of own loss + strength ‖R w − v̄‖² + the penalty at an alpha."""
    groups = np.asarray(model.groups)
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    cost = cp.sum_squares(cp.pos(1 - cp.multiply(y, X @ w + b))) / len(y)
    cost += strength * cp.sum_squares(R @ w - model.mean_white_coef_)
    if model.penalty == "l2":
        cost += alpha / 2 * cp.sum_squares(R @ w)
    else:
        cost += alpha * sum(cp.norm2(w[np.flatnonzero(groups == g)]) for g in sensors)
    held = [w[np.flatnonzero(~np.isin(groups, sensors))] == 0] if len(sensors) < 6 else []
    optimum = cp.Problem(cp.Minimize(cost), held).solve(
        solver=cp.CLARABEL, tol_gap_rel=1e-9, tol_gap_abs=1e-10, tol_feas=1e-9
    )
    w.value, b.value = model.coef_[-1], model.intercept_[-1]
    return optimum, cost.value


def new_noise(known, X, y, name="kronecker"):
    """N of a new subject: that of its own trials, and two trials' worth of the mean of the known subjects."""
    Xs, ys, groups = known
    if name == "evoked" and y is None:  # noise of its own, and the response that the known subjects have on average
        inverses = [np.linalg.inv(root(slow_noise(*each, groups, "structured"))) for each in zip(Xs, ys, strict=True)]
        penalties = [r @ slow_noise(*each, groups, name) @ r for r, *each in zip(inverses, Xs, ys, strict=True)]
        R = root(new_noise(known, X, None, "structured"))
        return slow.unit(R @ np.mean(penalties, axis=0) @ R)
    mean = np.mean([slow_noise(*each, groups, name) for each in zip(Xs, ys, strict=True)], axis=0)
    return (len(X) * slow_noise(X, y, groups, name) + 2 * mean) / (len(X) + 2)


@pytest.mark.parametrize("penalty", ["l2", "group"])
def test_a_subject_in_asymmetric_is_regularised_in_its_own_coordinates_and_changes_no_other(penalty):
    Xs, ys, groups = coloured(4)
    model = fit((Xs, ys, groups), asymmetric=["S3"], penalty=penalty)
    known = Xs[:3], ys[:3], groups
    np.testing.assert_array_equal(model.coef_[:3], fit(known, penalty=penalty).coef_)
    R = root(new_noise(known, Xs[3], ys[3]))
    optimum, value = own_problem(Xs[3], ys[3], model, R, SIMILARITY, ALPHA)
    assert value == pytest.approx(optimum, rel=1e-7)


@pytest.mark.parametrize(("penalty", "noise"), [("l2", "structured"), ("group", "structured"), ("l2", "evoked")])
def test_a_new_subject_is_regularised_in_its_own_coordinates(penalty, noise):
    (*Xs, X), (*ys, y), groups = coloured(4, seed=1)
    known = Xs, ys, groups
    model = fit(known, noise, penalty=penalty)
    before = model.coef_.copy()
    model.adapt(X, y, subject="new")
    np.testing.assert_array_equal(model.coef_[:3], before)
    assert 0 < model.strength_ < np.inf
    alpha = 3 * ALPHA if penalty == "l2" else ALPHA
    R = root(new_noise(known, X, y, noise))
    optimum, value = own_problem(X, y, model, R, model.strength_, alpha, model.selected_groups_)
    assert value == pytest.approx(optimum, rel=1e-7)


@pytest.mark.parametrize(("penalty", "noise"), [("l2", "kronecker"), ("group", "kronecker"), ("l2", "evoked")])
def test_trials_without_labels_give_the_classifier_nearest_to_the_mean(penalty, noise):
    Xs, ys, groups = coloured(4, seed=1)
    Xs[0], Xs[3] = Xs[0] - 0.5, Xs[3] + 1.0  # not centred, and each in its own way
    known = Xs[:3], ys[:3], groups
    model = fit(known, noise, penalty=penalty)
    R, usable = root(new_noise(known, Xs[3], None, noise)), np.isin(groups, model.selected_groups_)
    nearest = np.linalg.lstsq(R[:, usable], model.mean_white_coef_, rcond=None)[0]
    for y in (None, np.ones(31)):
        model.adapt(Xs[3], y, subject="new")
        np.testing.assert_allclose(model.coef_[-1][usable], nearest, atol=1e-9)
        scores = [np.mean(X @ w + b) for X, w, b in zip(Xs, model.coef_, model.intercept_, strict=True)]
        assert np.mean(Xs[3] @ model.coef_[-1] + model.intercept_[-1]) == pytest.approx(np.mean(scores[:3]))
        assert model.strength_ == np.inf


def test_fit_takes_a_targets_trials_without_labels():
    Xs, ys, groups = coloured(4)
    X, y, subjects = stacked(Xs[:3], ys[:3])
    model = fit((Xs[:3], ys[:3], groups)).adapt(Xs[3], subject="newcomer")
    again = fit((Xs[:3], ys[:3], groups)).fit(X, y, subjects=subjects, X_target_unlabeled=Xs[3])
    np.testing.assert_array_equal(again.coef_, model.coef_)
    plain = fit((Xs[:3], ys[:3], groups), noise=None).fit(X, y, subjects=subjects, X_target_unlabeled=Xs[3])
    assert len(plain.coef_) == 3


def test_without_trials_the_mean_classifier_and_with_one_trial_the_mean_noise():
    Xs, ys, groups = coloured(4)
    model = fit((Xs[:3], ys[:3], groups), penalty="l2")
    model.adapt(subject="new")
    np.testing.assert_array_equal(model.coef_[-1], model.mean_coef_)
    assert model.intercept_[-1] == model.mean_intercept_
    mean = np.mean([slow_noise(X, y, groups) for X, y in zip(Xs[:3], ys[:3], strict=True)], axis=0)
    np.testing.assert_allclose(model.mean_noise_, mean, atol=1e-12)
    for X in (Xs[3][:1], np.tile(Xs[3][0], (6, 1))):  # trials that are all the same say nothing of the noise
        model.adapt(X, subject="new")
        np.testing.assert_allclose(root(mean) @ model.coef_[-1], model.mean_white_coef_, atol=1e-9)


def test_a_model_without_intercept_gives_nobody_one():
    Xs, ys, groups = coloured(4)
    model = fit((Xs, [*ys[:3], np.ones(31)], groups), asymmetric=["S3"], fit_intercept=False)
    model.adapt(Xs[3] + 1.0, subject="new")
    assert not model.intercept_.any()
    assert not np.array_equal(model.coef_[-1], model.mean_coef_)


def test_what_was_fitted_counts_not_what_noise_is_set_to_later():
    Xs, ys, groups = coloured(4)
    for noise, later in ((None, "kronecker"), ("kronecker", None)):
        model = fit((Xs[:3], ys[:3], groups), noise)
        expected = fit((Xs[:3], ys[:3], groups), noise).adapt(Xs[3], ys[3]).coef_
        np.testing.assert_array_equal(model.set_params(noise=later).adapt(Xs[3], ys[3]).coef_, expected)


@pytest.mark.parametrize("noise", ["evoked", "matrix"])
def test_a_loaded_model_adapts_as_the_saved_one(tmp_path, noise):
    Xs, ys, groups = coloured(4)
    noise = slow_noise(Xs[0], ys[0], groups) if noise == "matrix" else noise
    model = fit((Xs[:3], ys[:3], groups), noise, penalty="l2", rehearse=True)
    assert np.isfinite(model.newcomer_gains_).all()
    save(model, tmp_path / "model.mixnorm")
    again = load(tmp_path / "model.mixnorm")
    assert again.transfer_auc_ == model.transfer_auc_
    for y in (ys[3], None):
        np.testing.assert_array_equal(again.adapt(Xs[3], y).coef_, model.adapt(Xs[3], y).coef_)


# --- transfer at chance level ---


def test_transfer_at_chance_between_known_subjects_is_warned_of_with_the_figure():
    data = coloured(3)
    with pytest.warns(UserWarning, match=r"an AUC of 0\.\d{3} ± 0\.\d{3} \(3 subjects\), which is not above chance"):
        model = fit(data, penalty="l2", rehearse=True)
    assert model.transfer_auc_ < 0.55


@pytest.mark.filterwarnings("error")
def test_labelled_trials_that_contradict_the_others_are_warned_of():
    rng = np.random.default_rng(3)
    parts = alike_in_their_responses(rng, n=80, n_subjects=4)
    X, y = (np.concatenate([part[i] for part in parts[:3]]) for i in (0, 1))
    model = MultiTaskGroupSVC(0.1, similarity=1.0, penalty="l2", noise="structured", rehearse=True)
    model.fit(X, y, subjects=np.repeat([0, 1, 2], 80))  # no warning: these transfer
    assert model.transfer_auc_ > 0.6
    own, labels = parts[3]
    model.adapt(own, labels)
    with pytest.warns(UserWarning, match=r"an AUC of 0\.\d{3} on the 80 labelled trials .* not above chance level"):
        model.adapt(own, 1 - labels)
    assert roc_auc_score(1 - labels, model.decision_function(own)) > 0.6  # its own trials decide


# --- bad input ---


def test_a_subject_whose_trials_are_all_the_same_is_refused_by_name():
    Xs, ys, groups = coloured(3)
    Xs[1][:] = Xs[1][0]
    with pytest.raises(ValueError, match="Subject 'S1': The noise cannot be estimated"):
        fit((Xs, ys, groups))


def test_too_few_trials_of_a_class_are_named_with_subject_and_fold():
    Xs, ys, groups = coloured(3)
    ys[1][:] = -1.0
    ys[1][:1] = 1.0
    with pytest.raises(ValueError, match=r"noise='kronecker' .* class 1.0 has 1 of subject 'S1'\."):
        fit((Xs, ys, groups))
    ys[1][:2] = 1.0
    X, y, subjects = stacked(Xs, ys)
    with pytest.raises(ValueError, match=r"class 1\.0 has 1 of subject 'S1' in the training part of fold 0 of cv"):
        MultiTaskGroupSVCCV(3, noise="kronecker", groups=groups).fit(X, y, subjects=subjects)


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        ("cronecker", "Invalid value for the 'noise' parameter"),
        (np.eye(3), r"noise must be a matrix of shape \(18, 18\)"),
        (-np.eye(18), "Subject 'S0': noise must be positive definite"),
        ({"S0": "structured"}, "noise is a dict without subject 'S1'"),
        ({"S0": "structured", "S1": "structured", "X": "structured"}, "unknown subject 'X'; available: 'S0', 'S1'"),
        ({"S0": "structured", "S1": None}, "noise is None for subject 'S1'"),
    ],
)
def test_bad_noise_is_refused(noise, message):
    with pytest.raises(ValueError, match=message):
        fit(coloured(2), noise, penalty="l2")


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
    groups = np.array(["Fz"] * 7 + ["Pz"] * 6 + ["Oz"] * 5)
    with pytest.raises(ValueError, match="sensor 'Fz' has 7 and sensor 'Oz' has 5"):
        fit((Xs, ys, groups))


def test_trials_without_labels_need_a_model_with_noise():
    Xs, ys, groups = coloured(3)
    with pytest.raises(ValueError, match="fitted with noise"):
        fit((Xs[:2], ys[:2], groups), None).adapt(Xs[2], subject="new")
