"""Sensors and windows chosen together: against a convex solver, at its ends, under symmetries, and bad input."""

import warnings
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import mixnorm
from mixnorm import GroupSVC, GroupSVCCV, group_svc_path
from reference import correlations, random_problem
from windows_reference import dual_norm, objective, optimum

SHARES = (0.2, 0.5, 0.8)
SHAPES = {"n > d": (90, 8, 6), "n < d": (30, 8, 6)}
N_WINDOWS = 3
SETTINGS = ("plain", "weights", "ridge", "noise", "all")


@dataclass(frozen=True)
class Case:
    """One problem: shape, what it has beside the plain one, τ, and alpha as a fraction of alpha_max."""

    shape: str
    setting: str
    share: float
    fraction: float
    fit_intercept: bool = True

    def __repr__(self):
        return f"{self.share}-{self.fraction}-{self.shape}-{self.setting}-{'b' if self.fit_intercept else 'b=0'}"

    @property
    def problem(self):
        """What the reference takes, but for alpha and the intercept."""
        X, y, sensors, windows = trials(self.shape)
        rng = np.random.default_rng(11)
        s, beta = np.ones(len(y)), np.ones(sensors.max() + 1)
        if self.setting in ("weights", "all"):
            s, beta = rng.uniform(0.2, 3.0, len(y)), rng.uniform(0.5, 2.0, len(beta))
            beta[6], beta[1] = 0.0, np.inf
        ridge = 0.05 if self.setting in ("ridge", "noise", "all") else 0.0
        N = covariance(X.shape[1]) if self.setting in ("noise", "all") else None
        own = {"X": X, "y": y, "s": s, "sensors": sensors, "windows": windows, "beta": beta, "ridge": ridge, "N": N}
        return {**own, "share": self.share}


CASES = [
    *(Case(shape, setting, share, 0.1) for share in SHARES for shape in SHAPES for setting in SETTINGS),
    *(Case(shape, setting, 0.5, f) for f in (0.9, 0.5, 0.01) for shape in SHAPES for setting in ("plain", "all")),
    Case("n > d", "plain", 0.5, 0.1, fit_intercept=False),
]


@cache
def trials(shape):
    n, n_sensors, n_samples = SHAPES[shape]
    X, y, sensors = random_problem(np.random.default_rng(1), n, n_sensors, n_samples)
    return X, y, sensors, np.tile(np.repeat(np.arange(N_WINDOWS), n_samples // N_WINDOWS), n_sensors)


def covariance(d):
    """A fixed positive definite matrix: neighbours are correlated."""
    place = np.arange(d)
    return 0.7 ** np.abs(place[:, None] - place) + 0.3 * np.eye(d)


@cache
def alpha_max(case):
    """By its definition: the dual norm of the gradient of the zero model, which has its best intercept."""
    p = case.problem
    kept = np.isfinite(p["beta"])
    b = 0.0
    if case.fit_intercept:
        above, below = (p["s"][p["y"] == sign].sum() for sign in (1, -1))
        b = (above - below) / (above + below)  # where the derivative of Σ s (1 − y b)² vanishes
    z = correlations(p["X"], p["y"], np.zeros(p["X"].shape[1]), b, p["s"])[0]
    cells = np.array(
        [
            [np.linalg.norm(z[(p["sensors"] == s) & (p["windows"] == k)]) for k in range(N_WINDOWS)]
            for s in np.flatnonzero(kept)
        ]
    )
    return dual_norm(cells, (1 - case.share) * p["beta"][kept], np.full(N_WINDOWS, case.share))


@cache
def reference(case):
    return optimum(**case.problem, alpha=case.fraction * alpha_max(case), fit_intercept=case.fit_intercept)


def estimator(case, **options):
    p = case.problem
    return GroupSVC(
        **{
            "alpha": case.fraction * alpha_max(case),
            "groups": p["sensors"],
            "windows": p["windows"],
            "window_share": case.share,
            "group_weights": p["beta"],
            "ridge": p["ridge"],
            "noise": p["N"],
            "fit_intercept": case.fit_intercept,
            "tol": 1e-9,
            **options,
        }
    )


@cache
def fitted(case, solver="auto"):
    p = case.problem
    return estimator(case, solver=solver).fit(p["X"], p["y"], p["s"])


def value_of(case, model):
    own = {name: part for name, part in case.problem.items() if name not in ("X", "y", "s")}
    p = case.problem
    return objective(p["X"], p["y"], model.coef_[0], model.intercept_[0], p["s"], model.alpha, **own)


# --- against a convex solver --------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_objective_is_that_of_a_convex_solver(case):
    best, model = reference(case)[0], fitted(case)
    assert value_of(case, model) == pytest.approx(model.objective_, rel=1e-12)
    assert model.objective_ <= best * (1 + 1e-7)
    assert model.objective_ * (1 - model.dual_gap_) <= best  # the certificate is true
    assert model.dual_gap_ <= 1e-9


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_zeros_are_exact_and_those_of_the_reference(case):
    w, model = reference(case)[1], fitted(case)
    p = case.problem
    for labels, selected in ((p["sensors"], model.selected_groups_), (p["windows"], model.selected_windows_)):
        norms = np.array([np.linalg.norm(w[labels == g]) for g in range(labels.max() + 1)])
        clear = (norms > 1e-4 * norms.max()) | (norms < 1e-7 * norms.max())  # the solver's own doubt apart
        chosen = np.isin(np.arange(len(norms)), selected)
        np.testing.assert_array_equal(chosen[clear], norms[clear] > 1e-4 * norms.max())
    # a coefficient is zero unless its sensor and its window are chosen
    allowed = np.isin(p["sensors"], model.selected_groups_) & np.isin(p["windows"], model.selected_windows_)
    assert not model.coef_[0][~allowed].any()


@pytest.mark.parametrize("case", [c for c in CASES if c.setting in ("plain", "all")], ids=repr)
def test_first_order_finds_the_same_optimum(case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # at alphas this small it may need more iterations than it has
        model = fitted(case, "fista")
    assert model.objective_ * (1 - model.dual_gap_) <= reference(case)[0]
    assert abs(model.objective_ - fitted(case).objective_) <= (model.dual_gap_ + 1e-9) * model.objective_


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("setting", ["plain", "all"])
def test_alpha_max_is_exact(share, setting):
    case = Case("n > d", setting, share, 1.0)
    p, top = case.problem, alpha_max(case)
    above = estimator(case, alpha=top * (1 + 1e-7))
    with pytest.warns(UserWarning, match="alpha_max"):
        assert not above.fit(p["X"], p["y"], p["s"]).coef_.any()
    assert estimator(case, alpha=top * (1 - 1e-6)).fit(p["X"], p["y"], p["s"]).coef_.any()


def test_path_is_certified_everywhere_and_starts_with_the_zero_model():
    X, y, sensors, windows = trials("n < d")
    path = group_svc_path(X, y, groups=sensors, windows=windows, window_share=0.5, alphas=30)
    assert not path.coefs[0].any()
    assert path.coefs[1:].any(axis=1).all()
    assert path.dual_gaps.max() <= 1e-6


# --- the ends -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"ridge": 0.1}, {"ridge": 0.1, "noise": "structured"}], ids=repr)
def test_share_0_is_gsvm_2_to_the_bit(options):
    X, y, _, _ = trials("n > d")
    X = X.reshape(len(y), 8, 6)
    plain = GroupSVC(0.05, **options).fit(X, y)
    model = GroupSVC(0.05, windows=3, window_share=0.0, **options).fit(X, y)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    assert not hasattr(plain, "windows_")
    norms = np.linalg.norm(model.coef_.reshape(8, 3, 2), axis=(0, 2))
    np.testing.assert_allclose(model.window_norms_, norms, rtol=1e-14)


def test_share_1_is_gsvm_2_with_windows_as_groups_to_the_bit():
    X, y, sensors, windows = trials("n > d")
    plain = GroupSVC(0.05, groups=windows).fit(X, y)
    model = GroupSVC(0.05, groups=sensors, windows=windows, window_share=1.0).fit(X, y)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    np.testing.assert_array_equal(model.selected_windows_, plain.selected_groups_)


def test_share_1_leaves_out_a_forbidden_sensor():
    X, y, sensors, windows = trials("n > d")
    forbidden = sensors == 2
    plain = GroupSVC(0.05, groups=windows[~forbidden]).fit(X[:, ~forbidden], y)
    options = {"windows": windows, "window_share": 1.0, "group_weights": {2: np.inf}}
    model = GroupSVC(0.05, groups=sensors, **options).fit(X, y)
    np.testing.assert_array_equal(model.coef_[:, ~forbidden], plain.coef_)
    assert not model.coef_[:, forbidden].any()


@pytest.mark.parametrize("end", [0.0, 1.0])
def test_the_ends_are_limits(end):
    """Nothing jumps where another solver takes over."""
    X, y, sensors, windows = trials("n > d")
    options = {"groups": sensors, "windows": windows, "tol": 1e-10}
    near, at = (GroupSVC(0.05, window_share=abs(end - eps), **options).fit(X, y) for eps in (1e-6, 0.0))
    assert near.objective_ == pytest.approx(at.objective_, rel=1e-5)
    np.testing.assert_allclose(near.coef_, at.coef_, atol=1e-3 * np.abs(at.coef_).max())


# --- symmetries -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def epochs():
    X, y, _, _ = trials("n > d")
    return X.reshape(len(y), 8, 6), y


WINDOWS = np.array(["early", "early", "mid", "mid", "late", "late"])


def when(**options):
    return GroupSVC(**{"alpha": 0.08, "windows": WINDOWS, "window_share": 0.4, "tol": 1e-11, **options})


def test_sensors_and_samples_may_be_permuted(epochs):
    X, y = epochs
    model = when().fit(X, y)
    sensors, samples = np.random.default_rng(0).permutation(8), np.array([4, 5, 0, 1, 3, 2])
    moved = when(windows=WINDOWS[samples]).fit(X[:, sensors][:, :, samples], y)
    expected = model.coef_.reshape(8, 6)[sensors][:, samples].ravel()
    np.testing.assert_allclose(moved.coef_[0], expected, atol=1e-8)
    assert moved.windows_.tolist() == ["late", "early", "mid"]  # in order of time
    np.testing.assert_allclose(
        dict(zip(moved.windows_, moved.window_norms_, strict=True))["mid"],
        dict(zip(model.windows_, model.window_norms_, strict=True))["mid"],
        rtol=1e-6,
    )
    assert set(moved.selected_windows_) == set(model.selected_windows_)


@pytest.mark.parametrize("unit", [1e-6, 8.0, 3e5])
def test_units_change_nothing_but_the_unit(epochs, unit):
    X, y = epochs
    model, other = when().fit(X, y), when(alpha=0.08 * unit).fit(unit * X, y)
    np.testing.assert_allclose(other.coef_ * unit, model.coef_, atol=1e-8)
    assert other.objective_ == pytest.approx(model.objective_, rel=1e-9)


def test_sample_weights_are_repeated_trials(epochs):
    X, y = epochs
    count = np.random.default_rng(3).integers(0, 3, len(y))
    weighted = when().fit(X, y, sample_weight=count)
    repeated = when().fit(np.repeat(X, count, axis=0), np.repeat(y, count))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-8)


def test_matrix_and_epochs_give_the_same(epochs):
    X, y = epochs
    flat = when(groups=np.repeat(np.arange(8), 6), windows=np.tile(WINDOWS, 8)).fit(X.reshape(len(y), -1), y)
    model = when().fit(X, y)
    np.testing.assert_array_equal(flat.coef_, model.coef_)
    by_number = when(windows=3).fit(X, y)
    np.testing.assert_array_equal(by_number.coef_, model.coef_)
    flat_number = when(groups=np.repeat(np.arange(8), 6), windows=3).fit(X.reshape(len(y), -1), y)
    np.testing.assert_array_equal(flat_number.coef_, model.coef_)
    assert by_number.windows_.tolist() == [0, 1, 2]


def test_equal_windows_differ_by_one_sample_at_most(epochs):
    X, y = epochs
    model = GroupSVC(0.01, windows=4).fit(X, y)
    sizes = [np.count_nonzero(np.arange(6) * 4 // 6 == k) for k in range(4)]
    assert max(sizes) - min(sizes) == 1
    norms = [np.linalg.norm(model.coef_.reshape(8, 6)[:, np.arange(6) * 4 // 6 == k]) for k in range(4)]
    np.testing.assert_allclose(model.window_norms_, norms)


def test_cells_may_be_of_unequal_size_or_empty():
    X, y, sensors, _ = trials("n > d")
    windows = np.random.default_rng(5).integers(0, 4, len(sensors))
    windows[sensors == 3] = 0
    case = (np.ones(len(y)), 0.05, sensors, windows, 0.5, np.ones(8))
    model = GroupSVC(0.05, groups=sensors, windows=windows, window_share=0.5, tol=1e-9).fit(X, y)
    best = optimum(X, y, *case)[0]
    assert objective(X, y, model.coef_[0], model.intercept_[0], *case) <= best * (1 + 1e-7)
    assert model.objective_ * (1 - model.dual_gap_) <= best


# --- cross-validation -----------------------------------------------------------------------------------------


def test_cross_validation_chooses_a_share(epochs):
    X, y = epochs
    model = GroupSVCCV(6, windows=3, window_share=[0.0, 0.5, 1.0], ridge=[0.0, 0.1]).fit(X, y)
    assert model.scores_.shape == (3, 2, 6, 3)
    assert model.alphas_.shape == model.n_selected_.shape == (3, 2, 6)
    place = [0.0, 0.5, 1.0].index(model.window_share_), [0.0, 0.1].index(model.ridge_)
    alone = GroupSVCCV(6, windows=3, window_share=model.window_share_, ridge=model.ridge_).fit(X, y)
    np.testing.assert_array_equal(alone.scores_, model.scores_[place])
    np.testing.assert_array_equal(alone.coef_, model.coef_)
    again = GroupSVC(model.alpha_, windows=3, window_share=model.window_share_, ridge=model.ridge_).fit(X, y)
    np.testing.assert_allclose(again.coef_, model.coef_, atol=1e-3 * np.abs(model.coef_).max())
    first = GroupSVCCV(6, ridge=[0.0, 0.1]).fit(X, y)
    np.testing.assert_array_equal(model.scores_[0], first.scores_)


@pytest.mark.parametrize("noise", ["structured", "shrunk"])
def test_noise_is_estimated_and_forbidden_sensors_stay_out(epochs, noise):
    X, y = epochs
    model = GroupSVCCV(5, windows=3, window_share=[0.3, 1.0], ridge=1.0, noise=noise, group_weights={0: np.inf, 1: 0})
    model.fit(X, y)
    assert not model.coef_.reshape(8, 6)[0].any()
    assert model.dual_gap_ <= 1e-6
    assert model.noise_.shape == (48, 48)


def test_jobs_and_batches_do_not_change_the_answer(epochs):
    X, y = epochs
    one, two = (GroupSVCCV(4, windows=3, window_share=0.5, n_jobs=n).fit(X, y) for n in (None, 2))
    np.testing.assert_array_equal(one.coef_, two.coef_)


# --- scikit-learn, files ----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*alpha_max", "ignore:.*selects no sensor")
@pytest.mark.parametrize(
    "estimator", [GroupSVC(windows=1, window_share=0.5), GroupSVCCV(5, windows=1, window_share=0.5)]
)
def test_all_estimator_checks_pass(estimator):
    results = check_estimator(estimator, on_skip=None, on_fail=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] not in ("passed", "skipped")}
    assert not failed
    assert len([r for r in results if r["status"] == "passed"]) > 50


@pytest.mark.parametrize("windows", [3, WINDOWS, WINDOWS.tolist()], ids=["number", "array", "list"])
def test_files_keep_the_windows(epochs, tmp_path, windows):
    X, y = epochs
    for model in (when(windows=windows), GroupSVCCV(3, windows=windows, window_share=[0.0, 0.5])):
        model = clone(model).fit(X, y)
        mixnorm.save(model, tmp_path / "model.mixnorm")
        again = mixnorm.load(tmp_path / "model.mixnorm")
        for name in ("windows_", "window_norms_", "selected_windows_", "coef_"):
            np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
        assert getattr(again, "window_share_", None) == getattr(model, "window_share_", None)
        np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_a_fit_without_windows_forgets_those_before(epochs):
    X, y = epochs
    model = when().fit(X, y).set_params(windows=None, window_share=0.0).fit(X, y)
    assert not [name for name in vars(model) if "window" in name and name.endswith("_")]


# --- bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window_share": -0.1}, "from 0 to 1, but got -0.1"),
        ({"window_share": 1.5}, "from 0 to 1, but got 1.5"),
        ({"window_share": np.nan}, "from 0 to 1"),
        ({"window_share": "half"}, "from 0 to 1, but got 'half'"),
        ({"windows": None}, "needs windows"),
        ({"windows": 0}, "from 1 to the number of samples, 6, but got 0"),
        ({"windows": 7}, "from 1 to the number of samples, 6, but got 7"),
        ({"windows": 2.5}, "whole number"),
        ({"windows": WINDOWS[:5]}, "6 samples, but windows has 5 labels"),
        ({"windows": np.tile(WINDOWS, 8)}, "6 samples, but windows has 48 labels"),
        ({"windows": [0, 0, 1, 1, None, 2]}, "sample 4 is None"),
        ({"windows": [0, 0, 1, 1, np.nan, 2]}, "sample 4 is nan"),
        ({"windows": np.array([0, 0, 1, 1, "late", 2], dtype=object)}, "cannot be put in order"),
        ({"windows": WINDOWS[None]}, "one label per sample"),
        ({"penalty": "l1"}, "penalty='group' with q=2"),
        ({"penalty": "l2"}, "penalty='group' with q=2"),
        ({"q": 1.5}, "penalty='group' with q=2, but got penalty='group' and q=1.5"),
        ({"adaptive": True}, "adaptive=True"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_bad_input_is_refused(epochs, options, message):
    X, y = epochs
    with pytest.raises(ValueError, match=message):
        when(**options).fit(X, y)
    with pytest.raises(ValueError, match=message):
        GroupSVCCV(3, **{"windows": 3, "window_share": 0.4, **options}).fit(X, y)
    if "adaptive" not in options:
        with pytest.raises(ValueError, match=message):
            group_svc_path(X, y, alphas=3, **{"windows": WINDOWS, "window_share": 0.4, **options})


def test_windows_of_a_matrix_need_one_label_per_column_or_equal_sensors(epochs):
    X, y = epochs
    flat, sensors = X.reshape(len(y), -1), np.repeat(np.arange(8), 6)
    with pytest.raises(ValueError, match="48 columns, but windows has 6 labels"):
        when(groups=sensors).fit(flat, y)
    with pytest.raises(ValueError, match="needs the same number of samples for every sensor, but 7 has 5 and 0 has 6"):
        when(groups=sensors[:-1], windows=3).fit(flat[:, :-1], y)


def test_a_sequence_of_shares_is_for_cross_validation(epochs):
    X, y = epochs
    with pytest.raises(ValueError, match="from 0 to 1"):
        when(window_share=[0.1, 0.2]).fit(X, y)
    with pytest.raises(ValueError, match="window_share must hold at least one value"):
        GroupSVCCV(3, windows=3, window_share=[]).fit(X, y)
