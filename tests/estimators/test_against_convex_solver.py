"""Fits against a general convex solver: objective, coefficients, certificate, exact zeros, alpha_max.

The reference's objective is the formula at the solver's point, hence never below the optimum; the fit may exceed it
by 1e-7 (the promise), and its certificate's lower bound may never exceed it at all.
"""

import warnings
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from mixnorm import GroupSVC, group_svc_path
from reference import (
    alpha_max_reference,
    conjugate_exponent,
    convex_reference,
    correlations,
    lq_norm,
    objective,
    random_problem,
)

FRACTIONS = [0.9, 0.5, 0.1, 0.01]
PENALTIES = [("l2", 2.0), ("l1", 1.0), *(("group", q) for q in (1.0, 1.2, 1.5, 1.8, 2.0))]
SPARSE = PENALTIES[1:]
SHAPES = {"n > d": (60, [1, 2, 3, 4, 1, 2, 3, 4]), "n < d": (30, [5, 6, 4, 7, 5, 6, 4, 7])}
SETTINGS = ["plain", "group weights", "sample weights", "class weights", "all weights"]
CLASS_WEIGHT = {-1.0: 1.0, 1.0: 2.5}
ROUNDING = 1e-12


@dataclass(frozen=True)
class Case:
    """One problem: its data set, which weights it has, its penalty, and alpha as a fraction of alpha_max."""

    shape: str
    setting: str
    penalty: str
    q: float
    fit_intercept: bool
    fraction: float

    def __repr__(self):
        intercept = "b" if self.fit_intercept else "b=0"
        return f"{self.penalty}-q{self.q:g}-{self.fraction:g}-{self.shape}-{self.setting}-{intercept}"

    @property
    def data(self):
        return trials(self.shape)

    @property
    def sample_weight(self):
        return random_weights(self.shape)[0] if self.setting in ("sample weights", "all weights") else None

    @property
    def class_weight(self):
        return CLASS_WEIGHT if self.setting in ("class weights", "all weights") else None

    @property
    def group_weights(self):
        if self.setting not in ("group weights", "all weights"):
            return None
        beta = random_weights(self.shape)[1]
        plain = (beta == 0) | np.isinf(beta) | (self.penalty == "group")  # ℓ1 and ℓ2 know 0 and ∞ only
        return np.where(plain, beta, 1.0)

    @property
    def problem(self):
        """What the references take, but for alpha and the intercept."""
        X, y, groups = self.data
        s = np.ones(len(y)) if self.sample_weight is None else self.sample_weight.copy()
        if self.class_weight is not None:
            s *= np.where(y > 0, self.class_weight[1.0], self.class_weight[-1.0])
        beta = np.ones(groups.max() + 1) if self.group_weights is None else self.group_weights
        return {
            "X": X,
            "y": y,
            "s": s,
            "groups": groups,
            "beta": beta,
            "penalty": self.penalty,
            "q": self.q,
        }


CASES = [
    Case(shape, setting, penalty, q, fit_intercept, fraction)
    for penalty, q in PENALTIES
    for shape in SHAPES
    for setting in SETTINGS
    for fit_intercept in (True, False)
    for fraction in FRACTIONS
    # each kind of weight alone once, to tell which of them is wrong; none and all of them everywhere
    if setting in ("plain", "all weights") or (fit_intercept and fraction == 0.1)
]


def each(cases):
    """Run a test on each case; the scope makes pytest run all the tests of one case together, while its fit is cached."""
    return pytest.mark.parametrize("case", cases, ids=repr, scope="module")


@cache
def trials(shape):
    n, sizes = SHAPES[shape]
    return random_problem(np.random.default_rng(1), n, len(sizes), sizes)


@cache
def random_weights(shape):
    """Sample weights, three of them zero, and group weights with a zero (a small group's) and an infinity."""
    n, sizes = SHAPES[shape]
    rng = np.random.default_rng(2)
    s, beta = rng.uniform(0.2, 3.0, n), rng.uniform(0.5, 2.0, len(sizes))
    s[rng.choice(n, 3, replace=False)] = 0.0
    beta[6], beta[1] = 0.0, np.inf
    assert sizes[6] < n / 3
    return s, beta


@cache
def alpha_max(shape, setting, penalty, q, fit_intercept):
    case = Case(shape, setting, penalty, q, fit_intercept, 1.0)
    return alpha_max_reference(**case.problem, fit_intercept=fit_intercept)


def alpha_of(case):
    return case.fraction * alpha_max(case.shape, case.setting, case.penalty, case.q, case.fit_intercept)


@cache
def optimum(case):
    return convex_reference(**case.problem, alpha=alpha_of(case), fit_intercept=case.fit_intercept)


def fit(case, alpha=None, **options):
    X, y, groups = case.data
    model = GroupSVC(
        alpha_of(case) if alpha is None else alpha,
        penalty=case.penalty,
        q=case.q,
        groups=groups,
        group_weights=case.group_weights,
        fit_intercept=case.fit_intercept,
        class_weight=case.class_weight,
        **options,
    )
    return model.fit(X, y, sample_weight=case.sample_weight)


@cache
def tight_fit(case):
    return fit(case, tol=1e-8)


def formula(case, model):
    return objective(**case.problem, w=model.coef_, b=np.ravel(model.intercept_), alpha=alpha_of(case))


def path_options(case):
    X, y, groups = case.data
    return {
        "X": X,
        "y": y,
        "groups": groups,
        "penalty": case.penalty,
        "q": case.q,
        "group_weights": case.group_weights,
        "sample_weight": case.problem["s"],  # a path knows no class weights
        "fit_intercept": case.fit_intercept,
    }


# --- every case, at tol=1e-8 ---


@each(CASES)
def test_objective_is_the_convex_solvers(case):
    assert formula(case, tight_fit(case)) <= (1 + 1e-7) * optimum(case)[0]


@each(CASES)
def test_certificate_bounds_the_true_suboptimality(case):
    model = tight_fit(case)
    assert model.objective_ == pytest.approx(formula(case, model), rel=ROUNDING)
    assert (model.objective_ - optimum(case)[0]) / model.objective_ <= model.dual_gap_ + ROUNDING
    assert -ROUNDING <= model.dual_gap_ <= 1e-8


@each([case for case in CASES if case.shape == "n > d"])
def test_coefficients_are_the_convex_solvers_where_unique(case):
    _, W, b = optimum(case)
    model = tight_fit(case)
    # features of unit variance, coefficients up to about 1
    np.testing.assert_allclose(model.coef_, W, rtol=0, atol=1e-4)
    np.testing.assert_allclose(np.ravel(model.intercept_), b, rtol=0, atol=1e-4)
    if not case.fit_intercept:
        np.testing.assert_array_equal(model.intercept_, 0.0)


@each([case for case in CASES if case.penalty != "l2"])
def test_zeros_are_exact(case):
    problem, (_, W, b), model = case.problem, optimum(case), tight_fit(case)
    groups, beta = problem["groups"], problem["beta"]
    blocks = np.arange(len(groups)) if case.penalty == "l1" else groups
    pulls = correlations(problem["X"], problem["y"], W, b, problem["s"])[0]
    for block in np.unique(blocks):
        members = blocks == block
        bound = alpha_of(case) * beta[groups[members][0]]
        # a gap of 1e-8·P moves the dual point by √(4e-8 P / n) at most: 5 % of these bounds leave ample room
        if lq_norm(pulls[members], conjugate_exponent(case.q)) < 0.95 * bound:
            np.testing.assert_array_equal(model.coef_[0, members], 0.0)


@each([case for case in CASES if case.group_weights is not None])
def test_groups_of_infinite_weight_are_exactly_zero_and_unpenalised_ones_used(case):
    beta, groups, coef = case.group_weights, case.data[2], tight_fit(case).coef_[0]
    np.testing.assert_array_equal(coef[np.isinf(beta)[groups]], 0.0)
    assert np.all(coef[(beta == 0)[groups]] != 0.0)


# --- fits that stopped early carry a certificate as well ---

EARLY = [case for case in CASES if case.fraction in (0.5, 0.01) and case.setting in ("plain", "all weights")]


@each(EARLY)
@pytest.mark.parametrize("options", [{"tol": 1e-2}, {"tol": 1e-8, "max_iter": 1}, {"max_iter": 7}], ids=repr)
def test_certificate_of_an_early_stop_bounds_the_true_suboptimality(case, options):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*gap", category=UserWarning)
        model = fit(case, **options)
    assert model.objective_ == pytest.approx(formula(case, model), rel=ROUNDING)
    assert (model.objective_ - optimum(case)[0]) / model.objective_ <= model.dual_gap_ + ROUNDING


# --- weights in other words ---


@pytest.mark.parametrize(("penalty", "q"), PENALTIES)
def test_balanced_class_weight_gives_both_classes_the_same_total(penalty, q):
    case = Case("n > d", "plain", penalty, q, True, 0.1)
    X, y, groups = case.data
    assert np.sum(y > 0) != np.sum(y < 0)
    s = np.where(y > 0, len(y) / (2 * np.sum(y > 0)), len(y) / (2 * np.sum(y < 0)))
    alpha = alpha_of(case)
    model = GroupSVC(alpha, penalty=penalty, q=q, groups=groups, class_weight="balanced", tol=1e-8).fit(X, y)
    problem = {**case.problem, "s": s, "alpha": alpha}
    reference = convex_reference(**problem)[0]
    assert objective(**problem, w=model.coef_, b=np.ravel(model.intercept_)) <= (1 + 1e-7) * reference


@pytest.mark.parametrize(("penalty", "q"), PENALTIES)
def test_group_weights_by_label(penalty, q):
    case = Case("n > d", "group weights", penalty, q, True, 0.1)
    X, y, groups = case.data
    names = np.array([f"sensor {chr(ord('A') + g)}" for g in groups])
    by_label = {f"sensor {chr(ord('A') + g)}": weight for g, weight in enumerate(case.group_weights)}
    options = {"penalty": penalty, "q": q, "tol": 1e-8}
    model = GroupSVC(alpha_of(case), groups=names, group_weights=by_label, **options).fit(X, y)
    np.testing.assert_allclose(model.coef_, tight_fit(case).coef_, rtol=0, atol=1e-12)


@pytest.mark.parametrize("penalty", ["l1", "l2"])
def test_l1_and_l2_refuse_graded_group_weights(penalty):
    X, y, groups = trials("n > d")
    model = GroupSVC(0.1, penalty=penalty, groups=groups, group_weights=[1.0, 1, 1, 2.0, 1, 1, 1, 1])
    with pytest.raises(ValueError, match="group_weights"):
        model.fit(X, y)


@pytest.mark.parametrize("q", [1.0, 1.5, 2.0])
def test_group_norms_are_the_norms_of_the_coefficients(q):
    case = Case("n > d", "all weights", "group", q, True, 0.1)
    model, groups = tight_fit(case), case.data[2]
    norms = [lq_norm(model.coef_[:, groups == g], q) for g in range(8)]
    np.testing.assert_allclose(model.group_norms_, norms, rtol=1e-12)
    np.testing.assert_array_equal(model.selected_groups_, np.flatnonzero(norms))


# --- alpha_max and paths ---

AT_ALPHA_MAX = [
    Case(shape, setting, penalty, q, fit_intercept, 1.0)
    for penalty, q in SPARSE
    for shape in SHAPES
    for setting in SETTINGS
    for fit_intercept in (True, False)
]


@pytest.mark.filterwarnings("ignore:.*alpha_max")
@each(AT_ALPHA_MAX)
def test_sensors_enter_at_alpha_max(case):
    # at 0.999 alpha_max the zero model is suboptimal by some 1e-7 only, so that tol must be below that
    path = group_svc_path(**path_options(case), alphas=[1.0001 * alpha_of(case), 0.999 * alpha_of(case)], tol=1e-10)
    penalised = (case.problem["beta"] > 0)[case.problem["groups"]]
    np.testing.assert_array_equal(path.coefs[0, penalised], 0.0)
    assert np.any(path.coefs[1, penalised] != 0.0)


@pytest.mark.parametrize(("penalty", "q"), SPARSE)
@pytest.mark.parametrize("setting", ["plain", "sample weights"])
def test_zero_model_above_alpha_max_comes_with_a_warning(penalty, q, setting):
    case = Case("n > d", setting, penalty, q, True, 1.0)
    with pytest.warns(UserWarning, match="alpha_max"):
        model = fit(case, alpha=1.0001 * alpha_of(case))
    np.testing.assert_array_equal(model.coef_, 0.0)
    assert len(model.selected_groups_) == 0


@each(AT_ALPHA_MAX)
def test_grid_of_a_path_starts_at_alpha_max(case):
    path = group_svc_path(**path_options(case), alphas=3, tol=0.1)
    # the reference solves what is unpenalised to 1e-8
    np.testing.assert_allclose(path.alphas, alpha_of(case) * np.array([1, 10**-1.5, 1e-3]), rtol=1e-6)


def test_grid_of_the_l2_path_is_that_of_the_l1_l2_problem():
    borrowed = alpha_of(Case("n > d", "plain", "group", 2.0, True, 1.0))
    path = group_svc_path(**path_options(Case("n > d", "plain", "l2", 2.0, True, 1.0)), alphas=2)
    np.testing.assert_allclose(path.alphas, [borrowed, 1e-3 * borrowed], rtol=1e-6)


@pytest.mark.parametrize(("penalty", "q"), PENALTIES)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_point_of_a_path_is_certified_and_optimal(penalty, q, shape):
    cases = [Case(shape, "all weights", penalty, q, True, fraction) for fraction in FRACTIONS]
    path = group_svc_path(**path_options(cases[0]), alphas=[alpha_of(case) for case in cases], tol=1e-8)
    assert path.coefs.shape == (4, len(cases[0].data[2]))
    assert path.intercepts.shape == path.dual_gaps.shape == path.objectives.shape == path.n_iters.shape == (4,)
    assert np.all(path.dual_gaps <= 1e-8)
    for k, case in enumerate(cases):
        value = objective(**case.problem, w=path.coefs[k], b=path.intercepts[k], alpha=path.alphas[k])
        assert path.alphas[k] == alpha_of(case)
        assert path.objectives[k] == pytest.approx(value, rel=ROUNDING)
        assert value <= (1 + 1e-7) * optimum(case)[0]
