"""The references of `reference.py` against each other: a test is worth no more than what it compares with."""

import cvxpy as cp
import numpy as np
import pytest

from reference import (
    alpha_max_reference,
    conjugate_exponent,
    convex_reference,
    correlations,
    lq_norm,
    objective,
    project_dual_ball,
    prox_reference,
    random_problem,
    separable,
)

EXPONENTS = [1.0, 1 + 1e-9, 1.001, 1.2, 1.5, 1.8, 1.999, 2 - 1e-9, 2.0]
PENALTIES = [("l2", 2.0), ("l1", 1.0), ("group", 1.0), ("group", 1.2), ("group", 1.5), ("group", 2.0)]
BETA = np.array([1.0, 0.5, 0.0, 2.0, np.inf, 1.3])
SIZES = [1, 2, 3, 4, 2, 3]


def small_problem(penalty="group", seed=0, n=40):
    rng = np.random.default_rng(seed)
    X, y, groups = random_problem(rng, n, n_groups=6, group_size=SIZES)
    s = rng.uniform(0.2, 3.0, n)
    s[5] = 0.0
    beta = BETA if penalty == "group" else np.where((BETA == 0) | np.isinf(BETA), BETA, 1.0)
    return {"X": X, "y": y, "s": s, "groups": groups, "beta": beta}


# --- objective ---


def test_objective_of_a_hand_computed_example():
    X, y, s = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]]), np.array([1.0, -1.0]), np.array([1.0, 3.0])
    # margins: 1·(0.5 + 0.1) = 0.6 and −(−0.25 + 0.1) = 0.15; loss (1·0.4² + 3·0.85²)/4
    loss = (0.16 + 3 * 0.7225) / 4
    at = {
        "X": X,
        "y": y,
        "s": s,
        "w": np.array([0.5, -0.25, 0.0]),
        "b": 0.1,
        "alpha": 2.0,
        "groups": np.array([0, 0, 1]),
    }
    assert objective(**at, penalty="l1") == pytest.approx(loss + 2 * 0.75)
    assert objective(**at, penalty="l2") == pytest.approx(loss + 0.3125)
    assert objective(**at, q=2, beta=[3.0, np.inf]) == pytest.approx(loss + 6 * np.sqrt(0.3125))
    assert objective(**at, q=1.5, beta=[0.0, np.inf]) == pytest.approx(loss)
    assert objective(**at, q=2, beta=[np.inf, 1.0]) == np.inf


def test_objective_of_two_subjects_by_hand():
    X, y, s = [np.array([[1.0]]), np.array([[2.0]])], [np.array([1.0]), np.array([-1.0])], None
    W, b = np.array([[0.6], [-0.2]]), np.array([0.0, 0.5])
    # slacks 0.4 and 1 + (−0.4 + 0.5) = 1.1; spread 2·0.4²; the group is (0.6, −0.2)
    expected = (0.16 + 1.21) / 2 + 3.0 * 0.32 + 0.5 * np.sqrt(0.4)
    assert objective(X, y, W, b, s, alpha=0.5, similarity=3.0) == pytest.approx(expected)


def test_correlations_are_minus_the_gradient_of_the_loss():
    problem = small_problem()
    X, y, s = problem["X"], problem["y"], problem["s"]
    w, b, step = np.random.default_rng(1).standard_normal(X.shape[1]) * 0.3, 0.2, 1e-6
    slopes = [
        (objective(X, y, w + step * e, b, s) - objective(X, y, w - step * e, b, s)) / (2 * step)
        for e in np.eye(X.shape[1])
    ]
    np.testing.assert_allclose(-correlations(X, y, w, b, s)[0], slopes, atol=1e-8)  # central differences: 1e-6²


def test_lq_norm_neither_overflows_nor_underflows():
    assert lq_norm([3e-244, 4e-244], 2) == pytest.approx(5e-244)
    assert lq_norm([3e200, -4e200], 2) == pytest.approx(5e200)
    assert lq_norm([0.0, 0.0], 1.5) == 0.0
    assert lq_norm([1.0, -7.0], np.inf) == 7.0


# --- the convex solver's optimum ---


@pytest.mark.parametrize(("penalty", "q"), PENALTIES)
def test_convex_reference_satisfies_the_optimality_conditions(penalty, q):
    problem = small_problem(penalty)
    alpha = 0.3 * alpha_max_reference(**problem, penalty=penalty, q=q)
    _, W, b = convex_reference(**problem, alpha=alpha, penalty=penalty, q=q)
    pulls, w = correlations(problem["X"], problem["y"], W, b, problem["s"])[0], W[0]
    for g, beta_g in enumerate(problem["beta"]):
        pull, block = pulls[problem["groups"] == g], w[problem["groups"] == g]
        if np.isinf(beta_g):
            np.testing.assert_array_equal(block, 0.0)
        elif penalty == "l2":
            np.testing.assert_allclose(pull, alpha * beta_g * block, atol=1e-5)
        else:
            # Fenchel: ‖pull‖_{q*} ≤ αβ and ⟨pull, w⟩ = αβ‖w‖_q; a solver at 1e-8 knows its gradient to about 1e-5
            assert lq_norm(pull, conjugate_exponent(q)) <= alpha * beta_g + 1e-5
            assert pull @ block == pytest.approx(alpha * beta_g * lq_norm(block, q), abs=1e-5)


@pytest.mark.parametrize(("penalty", "q"), PENALTIES)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_convex_reference_is_not_beaten_nearby(penalty, q, fit_intercept):
    problem, rng = small_problem(penalty), np.random.default_rng(2)
    options = {"alpha": 0.05, "penalty": penalty, "q": q}
    best, W, b = convex_reference(**problem, **options, fit_intercept=fit_intercept)
    assert fit_intercept or b == 0
    allowed = np.isfinite(problem["beta"])[problem["groups"]]
    for size in 10.0 ** np.arange(-6, 1):
        w = W[0] + size * rng.standard_normal(W.shape[1]) * allowed
        shifted = b[0] + fit_intercept * size * rng.standard_normal()
        assert objective(**problem, **options, w=w, b=shifted) >= best * (1 - 1e-8)


def test_one_subject_in_a_list_is_the_single_problem():
    problem = small_problem()
    single = convex_reference(**problem, alpha=0.05, q=1.5)
    listed = convex_reference(
        **{key: [value] if key in "Xys" else value for key, value in problem.items()},
        alpha=0.05,
        q=1.5,
        similarity=1.0,
    )
    assert listed[0] == pytest.approx(single[0], rel=1e-8)


def test_three_equal_subjects_share_the_single_optimum():
    problem = small_problem()
    thrice = {key: [value] * 3 if key in "Xys" else value for key, value in problem.items()}
    # ‖W_g‖_q over q-norm copies is 3^(1/q) ‖w_g‖_q
    single, w, _ = convex_reference(**problem, alpha=0.05 * 3 ** (1 / 1.5), q=1.5)
    together, W, _ = convex_reference(**thrice, alpha=0.05, q=1.5, similarity=0.3)
    assert together == pytest.approx(single, rel=1e-8)
    np.testing.assert_allclose(W, np.repeat(w, 3, axis=0), atol=1e-4)


def test_similarity_draws_subjects_together():
    problems = [small_problem(seed=seed) for seed in range(3)]
    stacked = {key: [p[key] for p in problems] for key in "Xys"}
    rest = {key: problems[0][key] for key in ("groups", "beta")}
    spreads = []
    for similarity in (0.0, 0.1, 10.0):
        options = {**stacked, **rest, "alpha": 0.02, "similarity": similarity}
        best, W, b = convex_reference(**options)
        assert best <= objective(**options, w=np.tile(W.mean(axis=0), (3, 1)), b=b) + 1e-8
        spreads.append(np.sum((W - W.mean(axis=0)) ** 2))
    assert spreads[0] > 2 * spreads[1] > 20 * spreads[2]


@pytest.mark.parametrize(("penalty", "q"), PENALTIES[1:])
@pytest.mark.parametrize("n_subjects", [1, 2])
def test_alpha_max_is_where_the_convex_optimum_becomes_zero(penalty, q, n_subjects):
    problems = [small_problem(penalty, seed=seed) for seed in range(n_subjects)]
    problem = {key: [p[key] for p in problems] for key in "Xys"}
    problem |= {key: problems[0][key] for key in ("groups", "beta")} | {"penalty": penalty, "q": q}
    problem["similarity"] = 0.1
    alpha_max = alpha_max_reference(**problem)
    penalised = (problem["beta"] > 0)[problem["groups"]]
    largest = []
    for factor in (1.002, 0.998):
        _, W, _ = convex_reference(**problem, alpha=factor * alpha_max)
        largest.append(np.max(np.abs(W[:, penalised])))
    # below alpha_max coefficients grow in proportion to the distance; above, what is left is the solver's tolerance
    assert largest[0] < 1e-6
    assert largest[1] > 1e-4


def test_more_trials_than_features_are_not_separable_and_fewer_are():
    for seed in range(5):
        X, y, groups = random_problem(np.random.default_rng(seed), 60, 6, SIZES)
        assert X.shape == (60, 15)
        np.testing.assert_array_equal(np.bincount(groups), SIZES)
        assert not separable(X, y)
        X, y, _ = random_problem(np.random.default_rng(seed), 20, 8, 4)
        assert separable(X, y)


# --- prox and projection ---


def vectors():
    rng = np.random.default_rng(3)
    for size in (1, 2, 7, 60):
        for spread in (0, 3, 30):
            yield rng.standard_normal(size) * 10.0 ** (spread * rng.uniform(-1, 1, size))


@pytest.mark.parametrize("q", EXPONENTS)
@pytest.mark.parametrize("fraction", [1e-9, 0.01, 0.5, 0.99, 1 - 1e-9])
def test_prox_and_projection_satisfy_moreau(q, fraction):
    for u in vectors():
        tau = fraction * lq_norm(u, conjugate_exponent(q))
        total = prox_reference(u, tau, q) + project_dual_ball(u, tau, q)
        np.testing.assert_allclose(total, u, rtol=0, atol=1e-13 * np.max(np.abs(u)))


@pytest.mark.parametrize("q", EXPONENTS)
def test_projection_is_feasible_and_nearest(q):
    rng = np.random.default_rng(4)
    for u in vectors():
        exponent, radius = conjugate_exponent(q), 0.4 * lq_norm(u, conjugate_exponent(q))
        z = project_dual_ball(u, radius, q)
        assert lq_norm(z, exponent) <= radius * (1 + 1e-12)
        for _ in range(5):  # the obtuse-angle criterion
            other = rng.standard_normal(u.size)
            other *= radius * rng.uniform() / lq_norm(other, exponent)
            scale = np.max(np.abs(u))
            assert np.dot((u - z) / scale, (other - z) / scale) <= 1e-12 * u.size


@pytest.mark.filterwarnings("ignore:pnorm with p")  # cvxpy recommends another cone
@pytest.mark.parametrize("q", [1.0, 1.2, 1.5, 1.8, 2.0])
@pytest.mark.parametrize("tau", [0.1, 0.7, 1.5])
def test_prox_agrees_with_the_convex_solver(q, tau):
    u = np.array([1.3, -0.8, 0.05, 0.0, 0.6])
    x = cp.Variable(5)
    cp.Problem(cp.Minimize(0.5 * cp.sum_squares(x - u) + tau * cp.pnorm(x, q))).solve(solver=cp.CLARABEL)
    # a solver at its default 1e-8 in a problem of strong convexity 1: √(2e-8)
    np.testing.assert_allclose(prox_reference(u, tau, q), x.value, atol=2e-4)


@pytest.mark.parametrize("q", EXPONENTS)
def test_prox_at_extreme_scales(q):
    u, scales = np.array([0.9, -0.4, 0.1]), 2.0 ** np.array([-990, -800, 800, 1000])
    x = prox_reference(u, 0.3, q)
    assert np.all(x[:1] > 0.4)
    for c in scales:
        np.testing.assert_allclose(prox_reference(c * u, c * 0.3, q) / c, x, rtol=1e-12)
        np.testing.assert_allclose(project_dual_ball(c * u, c * 0.3, q) / c, u - x, rtol=1e-12)


@pytest.mark.parametrize("q", EXPONENTS)
def test_prox_at_the_ends(q):
    u = np.array([0.9, -0.4, 0.1])
    np.testing.assert_array_equal(prox_reference(u, 0.0, q), u)
    np.testing.assert_array_equal(prox_reference(u, np.inf, q), 0.0)
    np.testing.assert_array_equal(prox_reference(0 * u, 0.5, q), 0.0)
    np.testing.assert_array_equal(prox_reference(u, 1.001 * lq_norm(u, conjugate_exponent(q)), q), 0.0)
    np.testing.assert_array_equal(project_dual_ball(u, 0.0, q), 0.0)
