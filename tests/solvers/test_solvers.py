"""Solvers of stacks: all agree, with each other and with the convex reference; their parts against plain formulas."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from threadpoolctl import threadpool_info, threadpool_limits

from mixnorm import GroupSVC, group_svc_path
from mixnorm.core.certificate import certify
from mixnorm.core.groups import Groups
from mixnorm.core.intercept import alpha_max, solve_intercept
from mixnorm.core.penalties import L1, GroupNorm
from mixnorm.core.problem import SquaredHinge, Stack
from mixnorm.solvers import Fista, ForwardBackward, Newton
from mixnorm.solvers.first_order.lipschitz import intercept_scale, paper_constant, power_estimate
from mixnorm.solvers.newton.host.hessian import WorkingHessian
from mixnorm.solvers.newton.host.single_system import SingleBlock, SingleTrialBlock
from mixnorm.solvers.newton.host.system import Curvature, PairsWithin
from reference import alpha_max_reference, convex_reference, objective, random_problem
from stacks import PENALTIES, D, N, converted, every_penalty, make_stack, solve_path


def problem_of(stack, name, i, k):
    """One problem of a stack, in the words of the reference."""
    subjects = range(stack.X.shape[1])
    parts = [[array[i, t] for t in subjects] for array in (stack.X, stack.y, stack.sample_weight[..., k])]
    _, penalty, q = PENALTIES[name]
    return {
        **dict(zip(("X", "y", "s"), parts, strict=True)),
        "alpha": stack.alpha[i, k],
        "penalty": penalty,
        "q": q,
        "groups": stack.groups.index,
        "beta": stack.group_weights[i, :, k],
        "similarity": stack.similarity[i, k],
    }


def solve(stack, solver, tol=1e-9, max_iter=200_000):
    return solve_path(stack, stack.alpha[None, ...], solver=solver, tol=tol, max_iter=max_iter)[0]


def every_problem(stack):
    return np.ndindex(stack.alpha.shape)


# --- all solvers, all problems of a stack ---


@every_penalty
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("solver", ["newton", "fista"])
def test_every_problem_of_a_stack_is_solved_as_the_convex_solver_does(name, solver, fit_intercept):
    stack = make_stack(name, fit_intercept=fit_intercept)
    found = solve(stack, solver)
    assert np.all(found.gap <= 1e-9)
    for i, k in every_problem(stack):
        problem = problem_of(stack, name, i, k)
        optimum = convex_reference(**problem, fit_intercept=fit_intercept)[0]
        value = objective(**problem, w=found.W[i, :, :, k], b=found.b[i, :, k])
        assert found.objective[i, k] == pytest.approx(value, rel=1e-12)
        assert value <= (1 + 1e-7) * optimum
        assert fit_intercept or not found.b.any()


@every_penalty
def test_forward_backward_agrees_with_newton(name):
    stack = make_stack(name, beta=False)
    slow, fast = solve(stack, "forward-backward", tol=1e-5), solve(stack, "newton")
    assert np.all(slow.gap <= 1e-5)
    np.testing.assert_allclose(slow.objective, fast.objective, rtol=1e-5)
    np.testing.assert_array_equal(slow.n_iter, slow.n_iter.max())


@every_penalty
def test_zeros_and_infinities_of_the_group_weights_are_obeyed(name):
    stack = make_stack(name)
    features = stack.groups.index
    for solver in ("newton", "fista"):
        W = solve(stack, solver).W
        assert not W[0, :, features == 3, 0].any()
        assert not W[:, :, features == 3, 2].any()
        assert np.all(W[:, :, features == 0, 2] != 0)


@every_penalty
def test_problems_of_a_stack_do_not_touch_each_other(name):
    stack = make_stack(name)
    for solver in ("newton", "fista"):
        together = solve(stack, solver)
        for i, k in every_problem(stack):
            alone = solve(stack.take(np.array([i]), np.array([k])), solver)
            assert alone.objective[0, 0] == pytest.approx(together.objective[i, k], rel=1e-9)
            # a gap of 1e-9 leaves √(2e-9·P/μ) for the coefficients, the curvature μ being some 0.1 here
            np.testing.assert_allclose(alone.W[0, :, :, 0], together.W[i, :, :, k], atol=1e-4)


@every_penalty
@pytest.mark.parametrize("similarity", [0.0, 0.3])
def test_two_subjects(name, similarity):
    stack = make_stack(name, B=1, T=2, beta=False, similarity=similarity)
    for solver in ("newton", "fista"):
        found = solve(stack, solver, tol=1e-8)
        for i, k in every_problem(stack):
            problem = problem_of(stack, name, i, k)
            value = objective(**problem, w=found.W[i, :, :, k], b=found.b[i, :, k])
            assert value <= (1 + 1e-7) * convex_reference(**problem)[0]


# --- paths ---


@pytest.mark.parametrize("solver", ["newton", "fista", "forward-backward"])
def test_path_is_in_the_order_asked_for_and_each_step_is_its_own(solver):
    stack = make_stack("q=2", B=1, beta=False)
    factors = [0.3, 1.0, 0.1, 0.6]
    alphas = np.array(factors)[:, None, None] * stack.alpha
    tol = 1e-5 if solver == "forward-backward" else 1e-7  # it is the slow one
    options = {"solver": solver, "tol": tol, "max_iter": 100_000}
    path = solve_path(stack, alphas, **options)
    for alpha, found in zip(alphas, path, strict=True):
        alone = solve_path(stack.with_alpha(alpha), alpha[None], **options)[0]
        np.testing.assert_allclose(found.objective, alone.objective, rtol=2 * tol)
        at_point = certify(stack.with_alpha(alpha), found.W, found.b)
        np.testing.assert_allclose(at_point.gap, found.gap, atol=1e-12)
        np.testing.assert_allclose(at_point.primal, found.objective, rtol=1e-12)


@pytest.mark.parametrize("solver", ["newton", "fista", "forward-backward"])
def test_path_of_arrays_is_that_of_single_fits(solver):
    X, y, groups = random_problem(np.random.default_rng(0), 50, 5, 2)
    options = {"groups": groups, "solver": solver, "tol": 1e-7, "max_iter": 100_000}
    alphas = [0.05, 0.3, 0.1]
    path = group_svc_path(X, y, alphas=alphas, **options)
    for alpha, coef, value in zip(alphas, path.coefs, path.objectives, strict=True):
        model = GroupSVC(alpha, **options).fit(X, y)
        assert value == pytest.approx(model.objective_, rel=2e-7)
        np.testing.assert_array_equal(np.unique(groups[coef != 0]), model.selected_groups_)
        assert objective(X, y, coef, path.intercepts[list(alphas).index(alpha)], None, alpha, groups=groups) == (
            pytest.approx(value, rel=1e-12)
        )


def test_unknown_solver_is_named():
    stack = make_stack("q=2", B=1)
    with pytest.raises(
        ValueError, match=r"'solver' parameter.*'newton', 'fista', 'forward-backward', but got 'lbfgs'"
    ):
        solve(stack, "lbfgs")


# --- budgets ---


@pytest.mark.parametrize("solver", [Newton, Fista, ForwardBackward])
@pytest.mark.parametrize("max_iter", [1, 3, 25])
def test_max_iter_is_respected_and_the_certificate_honest(solver, max_iter):
    stack = make_stack("q=1.4", beta=False)
    found = solver().path(stack, stack.alpha[None], 1e-14, max_iter)[0]
    assert np.all(found.n_iter <= max_iter)
    assert np.any(found.n_iter > 0)
    best = solve(stack, "newton", tol=1e-10).objective
    assert np.all((found.objective - best) / found.objective <= found.gap + 1e-12)


def test_more_iterations_are_never_worse():
    stack = make_stack("q=2", beta=False)
    gaps = [Fista().path(stack, stack.alpha[None], 1e-12, m)[0].gap for m in (20, 100, 500)]
    assert np.all(gaps[1] <= gaps[0])
    assert np.all(gaps[2] <= gaps[1])
    assert np.any(gaps[2] < gaps[0])


def test_problems_that_converged_leave_the_stack(monkeypatch):
    """An easy problem (alpha above alpha_max) and a hard one: the easy one is not iterated on."""
    stack = make_stack("q=2", B=2, K=3, beta=False)
    easy = np.full_like(stack.alpha, 10.0)
    easy[1, 2] = 1e-3
    sizes = []
    import mixnorm.solvers.first_order.fista as module

    plain = module._iterate
    monkeypatch.setattr(
        module, "_iterate", lambda running, *rest: sizes.append(running.alpha.shape) or plain(running, *rest)
    )
    found = Fista().path(stack, easy[None], 1e-8, 100_000)[0]
    assert set(sizes) == {(1, 1)}
    assert np.all(found.gap <= 1e-8)
    assert found.n_iter[1, 2] == len(sizes) > 0
    assert found.n_iter.sum() == found.n_iter[1, 2]
    assert not found.W[0].any()
    assert found.W[1, :, :, 2].any()


def test_start_is_not_written_to():
    stack = make_stack("q=2", beta=False)
    first = Fista().solve(stack, 1e-3, 1000)
    kept = first.W.copy(), first.b.copy()
    Fista().solve(stack.with_alpha(0.1 * stack.alpha), 1e-6, 10_000, (first.W, first.b))
    np.testing.assert_array_equal(first.W, kept[0])
    np.testing.assert_array_equal(first.b, kept[1])


# --- other array namespaces ---


def in_strict(stack):
    return converted(stack, array_api_strict.asarray)


@every_penalty
@pytest.mark.parametrize("beta", [False, True], ids=["plain", "kept and forbidden"])
def test_fista_gives_the_same_numbers_on_another_array_namespace(name, beta):
    stack = make_stack(name, beta=beta)
    strict = in_strict(stack)
    alphas = np.stack([stack.alpha, 0.3 * stack.alpha])
    plain = solve_path(stack, alphas, solver="fista", tol=1e-3, max_iter=1000)
    other = solve_path(strict, array_api_strict.asarray(alphas), solver="fista", tol=1e-3, max_iter=1000)
    for mine, theirs in zip(plain, other, strict=True):
        assert isinstance(theirs.W, type(strict.X))
        np.testing.assert_array_equal(np.asarray(theirs.n_iter), mine.n_iter)
        # the same operations in the same order; reductions may still round differently
        np.testing.assert_allclose(np.asarray(theirs.W), mine.W, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(np.asarray(theirs.objective), mine.objective, rtol=1e-12)


def test_several_subjects_run_on_another_array_namespace():
    stack = make_stack("q=1.4", B=1, T=2, beta=False, similarity=0.2)
    plain, other = (solve(given, "fista", tol=1e-4) for given in (stack, in_strict(stack)))
    np.testing.assert_allclose(np.asarray(other.objective), plain.objective, rtol=1e-12)


def test_certificate_and_alpha_max_on_another_array_namespace():
    stack = make_stack("q=1.4")
    np.testing.assert_allclose(np.asarray(alpha_max(in_strict(stack))), alpha_max(stack), rtol=1e-12)
    plain, other = (certify(given, *given.start()) for given in (stack, in_strict(stack)))
    np.testing.assert_allclose(np.asarray(other.gap), plain.gap, rtol=1e-12)


# --- the certificate ---


@every_penalty
@pytest.mark.parametrize("similarity", [0.0, 0.5])
def test_certificate_of_any_point_is_valid(name, similarity):
    """Its lower bound is never above the optimum, its value is the formula's, and its gap is their difference."""
    T = 2 if similarity else 1
    stack = make_stack(name, B=1, T=T, beta=not similarity, similarity=similarity)
    rng = np.random.default_rng(0)
    optima = [convex_reference(**problem_of(stack, name, 0, k))[0] for k in range(3)]
    solved = solve(stack, "newton", tol=1e-6)
    starts = [stack.start(), (solved.W, solved.b)]
    for scale in (1e-3, 0.1, 1.0):
        W = scale * rng.standard_normal((1, T, D, 3))
        W[:, :, np.isin(stack.groups.index, 3)] = 0.0  # a group of infinite weight must be out for a finite value
        starts.append((W, rng.standard_normal((1, T, 3))))
        starts.append((solved.W * (1 + scale), solved.b))
    for W, b in starts:
        found = certify(stack, W, b)
        for k, optimum in enumerate(optima):
            value = objective(**problem_of(stack, name, 0, k), w=found.W[0, :, :, k], b=found.b[0, :, k])
            given = objective(**problem_of(stack, name, 0, k), w=W[0, :, :, k], b=b[0, :, k])
            assert found.primal[0, k] == pytest.approx(value, rel=1e-12)
            assert value <= given * (1 + 1e-12)  # polishing never climbs
            # the reference is an upper bound of the optimum, by 1e-8 at worst
            assert found.dual[0, k] <= optimum * (1 + 1e-12)
            assert found.gap[0, k] == pytest.approx((value - found.dual[0, k]) / value, abs=1e-12)


@every_penalty
def test_gap_closes_at_the_optimum_and_not_before(name):
    stack = make_stack(name)
    found = solve(stack, "newton", tol=1e-11)
    assert np.all(certify(stack, found.W, found.b).gap <= 1e-9)
    off = certify(stack, 0.9 * found.W, found.b)
    assert np.all(off.gap[found.W.any(axis=(1, 2))] > 1e-6)


def test_gap_of_a_perfect_fit_is_zero():
    """Without a penalty to pay (β = 0) and all margins met P = 0, and the gap is 0 by definition."""
    y = np.array([-1.0, 1.0, -1.0, 1.0])
    stack = Stack.single(
        3 * y[:, None],
        y,
        sample_weight=np.ones((4, 1)),
        group_weights=np.zeros((1, 1)),
        groups=Groups.from_labels(None, 1),
        penalty=GroupNorm(2.0),
    )
    found = certify(stack, np.ones((1, 1, 1, 1)), np.zeros((1, 1, 1)))
    assert (found.primal, found.gap) == (0.0, 0.0)


@pytest.mark.parametrize("name", ["l1", "q=2", "q=1.4"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_alpha_max_of_every_problem_of_a_stack(name, fit_intercept):
    stack = make_stack(name, fit_intercept=fit_intercept)
    found = alpha_max(stack)
    for i, k in every_problem(stack):
        problem = {key: value for key, value in problem_of(stack, name, i, k).items() if key != "alpha"}
        expected = alpha_max_reference(**problem, fit_intercept=fit_intercept)
        assert found[i, k] == pytest.approx(expected, rel=1e-6)  # the reference solves to 1e-8


def test_alpha_max_is_zero_where_no_trial_speaks_for_a_class():
    X = np.random.default_rng(0).standard_normal((10, D))
    stack = make_stack("q=2", B=1, K=1, beta=False)
    both = replace(
        stack,
        X=np.concatenate([X, X])[None, None],
        y=np.repeat([-1.0, 1.0], 10)[None, None],
        sample_weight=np.ones((1, 1, 20, 1)),
    )
    assert alpha_max(both)[0, 0] == 0.0
    small = replace(both, X=both.X + 1e-9 * both.y[..., None])  # a real, if tiny, difference counts
    assert alpha_max(small)[0, 0] > 0.0


# --- the intercept ---


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(2, 30), st.sampled_from([1e-3, 1.0, 1e3]))
def test_intercept_is_the_minimum_over_one_variable(seed, n, scale):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    scores = scale * rng.standard_normal((n, 3))
    weight = rng.uniform(0, 1, (n, 3)) * (rng.random((n, 3)) < 0.8)
    weight[:2] += 0.1  # both classes
    weight /= weight.sum(axis=0)
    b = solve_intercept(SquaredHinge(), scores, y[:, None], weight, 5 * rng.standard_normal(3))
    for k in range(3):

        def loss(c, k=k):
            return float(weight[:, k] @ np.maximum(0, 1 - y * (scores[:, k] + c)) ** 2)

        edge = np.abs(scores[:, k]).max() + 2
        best = minimize_scalar(loss, bounds=(-edge, edge), method="bounded", options={"xatol": 1e-12}).fun
        assert loss(b[k]) <= best + 1e-12 * max(best, 1)
        slack = weight[:, k] * np.maximum(0, 1 - y * (scores[:, k] + b[k]))
        assert abs(np.sum(slack * y)) <= 1e-13 * max(np.sum(slack), 1e-300) + 1e-15


# --- step sizes ---


@pytest.mark.parametrize("T", [1, 2])
def test_lipschitz_constants_are_bounds_of_the_hessian(T):
    stack = make_stack("q=2", T=T, beta=False, similarity=0.4 if T > 1 else 0.0)
    c = np.sqrt(intercept_scale(stack))
    for i, k in every_problem(stack):
        largest = 0.0
        for t in range(T):
            columns = np.column_stack([stack.X[i, t], np.full(N, c[i, 0])])
            rows = np.sqrt(stack.trial_weight[i, t, :, k])[:, None] * columns
            largest = max(largest, 2 * np.linalg.norm(rows, 2) ** 2)
        exact = largest + 2 * stack.similarity[i, k]
        assert paper_constant(stack)[i, k] >= exact
        assert 0.7 * exact <= power_estimate(stack)[i, k] <= exact * (1 + 1e-12)


# --- the working Hessian ---


def hessian_by_formula(Z, y, p, fit_intercept, inside, features):
    blocks = []
    for t in range(len(Z)):
        columns = [y[t][:, None]] if fit_intercept else []
        A = np.column_stack([*columns, Z[t][:, features]])
        blocks.append(2 * (A * (p[t] * inside[t])[:, None]).T @ A)
    return np.array(blocks)


steps = st.lists(
    st.tuples(st.lists(st.integers(0, 6), min_size=1, max_size=7, unique=True), st.floats(0, 1)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60)
@given(steps, st.booleans(), st.integers(1, 2), st.integers(0, 1000))
def test_working_hessian_is_the_formula_whatever_came_before(sequence, fit_intercept, T, seed):
    rng = np.random.default_rng(seed)
    n, d = 15, 7
    y = np.where(rng.random((T, n)) < 0.5, -1.0, 1.0)
    Z, p = rng.standard_normal((T, n, d)) * y[..., None], rng.uniform(0, 1, (T, n))
    hessian = WorkingHessian(Z * y[..., None], y, p, fit_intercept)
    inside = np.zeros((T, n), dtype=bool)
    for features, share in sequence:
        features = np.array(features)
        inside = inside ^ (rng.random((T, n)) < share)  # few trials cross, or many
        columns = hessian.columns(features)
        expected = hessian_by_formula(Z, y, p, fit_intercept, inside, features)
        # updates add and subtract a few dozen terms of size one
        np.testing.assert_allclose(hessian.at(inside, columns), expected, atol=1e-12)
        sorted_ = hessian.at(inside, np.sort(columns))
        np.testing.assert_array_equal(np.triu(hessian.upper(inside, np.sort(columns))), np.triu(sorted_))
        rows, places = hessian.rows(columns)
        rows = rows if places is None else rows[:, places]
        np.testing.assert_array_equal(rows[:, int(fit_intercept) :], Z[:, :, features].transpose(0, 2, 1))
        if fit_intercept:
            np.testing.assert_array_equal(rows[:, 0], y)


# --- the Newton system ---


def random_system(rng, m, free, n, bare):
    """Rows, weights, a curvature with unit vectors per group, and a right-hand side, of one subject."""
    group = np.sort(rng.integers(0, 3, m))
    direction = rng.standard_normal(m)
    direction /= np.sqrt(np.bincount(group, direction**2))[group]
    weight = rng.uniform(0.5, 2, group.max() + 1)
    diagonal = weight[group] + 1e-3
    if bare:  # an unpenalised group: no curvature, no direction
        diagonal[group == group[0]], direction[group == group[0]], weight[group[0]] = 0.0, 0.0, 0.0
    curvature = Curvature(rng.uniform(0.3, 1, (1, m)), diagonal[None], direction[None], group[None], weight, 0.0)
    return rng.standard_normal((free + m, n)), rng.uniform(0.01, 0.1, n), curvature, rng.standard_normal(free + m)


def dense_system(rows, p, curvature, free):
    """R H R + diag(c) − Σ_g c_g k_g k_g', entry by entry."""
    R = np.concatenate([np.ones(free), curvature.scale[0]])
    M = np.outer(R, R) * (2 * (rows * p) @ rows.T)
    for i, group in enumerate(curvature.group[0]):
        M[free + i, free + i] += curvature.diagonal[0, i]
        for j in np.flatnonzero(curvature.group[0] == group):
            M[free + i, free + j] -= (
                curvature.group_weight[group] * curvature.direction[0, i] * curvature.direction[0, j]
            )
    return M


@pytest.mark.parametrize(
    "group", [[0, 0, 1, 1, 2, 2], [2, 2, 0, 0, 1, 1], [0, 0, 1, 1, 1, 2], [1, 0, 2, 0, 1, 2], [0, 1, 2]]
)
def test_pairs_within_groups_are_subtracted(group):
    rng = np.random.default_rng(0)
    k, whole = rng.standard_normal(len(group)), rng.standard_normal((len(group) + 1,) * 2)
    alike = np.equal.outer(group, group)
    expected = whole[1:, 1:] - np.where(alike, np.outer(k, k), 0.0)
    first = whole[0].copy()
    PairsWithin(np.array(group)).subtract(whole, k)
    np.testing.assert_allclose(whole[1:, 1:], expected, rtol=1e-15)
    np.testing.assert_array_equal(whole[0], first)  # an intercept, which belongs to no group


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(0, 1), st.booleans())
def test_single_subject_system_is_solved(seed, m, free, bare):
    rows, p, curvature, rhs = random_system(np.random.default_rng(seed), m, free, 25, bare)
    H = 2 * (rows * p) @ rows.T
    expected = np.linalg.solve(dense_system(rows, p, curvature, free), rhs)
    # condition numbers of some hundreds, a ridge of 1e-14
    block = SingleBlock(lambda: np.triu(H), curvature, PairsWithin(curvature.group[0]))
    np.testing.assert_allclose(block.solve(rhs[:, None])[:, 0], expected, rtol=1e-8, atol=1e-9)
    block = SingleTrialBlock(rows, p, curvature)
    np.testing.assert_allclose(block.solve(rhs[:, None])[:, 0], expected, rtol=1e-7, atol=1e-8)


# --- what went wrong once ---


def test_what_is_not_a_number_is_certified_to_nothing():
    rng = np.random.default_rng(0)
    stack = Stack.single(
        rng.standard_normal((10, 3)),
        np.tile([-1.0, 1.0], 5),
        sample_weight=np.ones((10, 1)),
        group_weights=np.ones((3, 1)),
        groups=Groups.from_channels(range(3), 1),
        penalty=L1(),
    )
    assert certify(stack, np.full((1, 1, 3, 1), np.nan), np.zeros((1, 1, 1))).gap[0, 0] == np.inf


@pytest.mark.parametrize("q", [1.001, 1.01, 1.1])
def test_q_near_one_with_fewer_trials_than_features(q):
    rng = np.random.default_rng(0)
    y = np.tile([-1.0, 1.0], 10)
    X = rng.standard_normal((20, 24)) + 0.3 * y[:, None]
    stack = Stack.single(
        X,
        y,
        sample_weight=np.ones((20, 1)),
        group_weights=np.ones((6, 1)),
        groups=Groups.from_channels(range(6), 4),
        penalty=GroupNorm(q),
    )
    (found,) = solve_path(stack, np.full((1, 1, 1), 1e-3), tol=1e-6, max_iter=300)
    assert found.gap[0, 0] <= 1e-6


def test_fits_in_several_threads_leave_the_number_of_blas_threads_as_it_was():
    def fit(seed):
        rng = np.random.default_rng(seed)
        return GroupSVC().fit(rng.standard_normal((60, 8)), np.arange(60) % 2).n_iter_

    def threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    with threadpool_limits(2, user_api="blas"):
        before = threads()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(fit, range(12)))
        assert threads() == before


@pytest.mark.parametrize("solver", ["newton", "fista", "forward-backward"])
@pytest.mark.parametrize("seed", [0, 6, 11])
def test_kept_sensors_that_separate_the_trials_alone_are_the_whole_model(solver, seed):
    """The optimum is 0: no certificate may speak of less, and none is given for more."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(12) < 0.5, 1, 0)
    y[:2] = 0, 1
    X = rng.normal(size=(12, 8))
    X[:, :4] += (2 * y - 1)[:, None] * 3
    path = group_svc_path(
        X, y, groups=np.repeat([0, 1], 4), group_weights=[0.0, 1.0], alphas=[0.1, 1e-3], solver=solver
    )
    np.testing.assert_allclose(path.objectives, 0.0, atol=1e-20)
    np.testing.assert_array_equal(path.dual_gaps, 0.0)


def test_rounding_in_the_place_of_a_dual_point_certifies_nothing():
    """Kept sensors separate the trials, and the point still uses the others: its value is far above 0, the optimum."""
    rng = np.random.default_rng(6)
    y = np.where(rng.random(12) < 0.5, 1.0, -1.0)
    X = rng.normal(size=(12, 8))
    X[:, :4] += y[:, None] * 3
    for scale in (0.1, 1.0, 10.0):
        stack = Stack.single(
            X,
            y,
            sample_weight=np.ones((12, 1)),
            group_weights=np.array([[0.0], [1.0]]),
            groups=Groups.from_labels(np.repeat([0, 1], 4), 8),
            penalty=GroupNorm(2.0),
        ).with_alpha(np.full((1, 1), 0.1))
        W = np.zeros((1, 1, 8, 1))
        W[0, 0, 4:, 0] = scale * rng.normal(size=4)
        found = certify(stack, W, np.zeros((1, 1, 1)))
        assert found.primal[0, 0] > 1e-3
        assert found.gap[0, 0] == 1.0
