"""Joint problems of several subjects against a general convex solver, and the linear systems against dense algebra."""

import tracemalloc

import cvxpy as cp
import numpy as np
import pytest

from cohorts import cohort
from mixnorm.core.certificate import certify
from mixnorm.core.groups import Groups
from mixnorm.core.intercept import alpha_max
from mixnorm.core.metric import DenseMetric, KroneckerMetric
from mixnorm.core.penalties import L1, L2, GroupNorm
from mixnorm.core.problem import Stack
from mixnorm.solvers.newton.host.metric_system import DenseMetricBlock, Factors, KroneckerBlock, solve_with_metric
from mixnorm.solvers.newton.host.system import Curvature, DenseBlock, TrialBlock, solve_subjects, solve_together
from reference import convex_reference, objective
from stacks import solve_path

BETA = np.array([1.0, 2.0, 0.5, np.inf, 0.0, 1.0])
METHODS = {"group 2": GroupNorm(2.0), "group 1.5": GroupNorm(1.5), "l1": L1(), "l2": L2()}


def make_stack(Xs, ys, groups, penalty, *, similarity=0.0, beta=None, center=None, metric=None):
    T, n, d = len(Xs), max(map(len, ys)), Xs[0].shape[1]
    X, y, s = np.zeros((1, T, n, d)), np.ones((1, T, n)), np.zeros((1, T, n, 1))
    for t, (X_t, y_t) in enumerate(zip(Xs, ys, strict=True)):
        X[0, t, : len(y_t)], y[0, t, : len(y_t)], s[0, t, : len(y_t)] = X_t, y_t, 1.0
    G = int(groups.max()) + 1
    beta = np.ones(G) if beta is None else beta
    return Stack(
        X,
        y,
        s,
        np.ones((1, 1)),
        beta[None, :, None],
        np.full((1, 1), float(similarity)),
        Groups.from_labels(groups, d),
        penalty,
        center=None if center is None else center[None, None, :, None],
        metric=metric,
    )


def words(name, beta):
    """The words of the reference for a method; ℓ1 and ℓ2 know no graded weights."""
    penalty, _, q = name.partition(" ")
    if beta is not None and penalty != "group":
        beta = np.where(np.isfinite(beta) & (beta > 0), 1.0, beta)
    return {"penalty": penalty, "q": float(q or 2), "beta": np.ones(6) if beta is None else beta}


@pytest.mark.parametrize("solver", ["newton", "fista"])
@pytest.mark.parametrize("beta", [None, BETA], ids=["plain", "weights"])
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("n_subjects", "similarity"), [(2, 0.0), (2, 1.0), (3, 0.01), (4, 100.0), (6, 0.1)])
def test_joint_optimum_is_the_convex_solvers_and_its_certificate_bounds_the_truth(
    n_subjects, similarity, name, beta, solver
):
    Xs, ys, groups = cohort(n_subjects, seed=n_subjects)
    how = words(name, beta)
    stack = make_stack(Xs, ys, groups, METHODS[name], similarity=similarity, beta=how["beta"])
    top = float(alpha_max(make_stack(Xs, ys, groups, GroupNorm(2.0), beta=how["beta"]))[0, 0])
    for alpha in (0.3 * top, 0.01 * top):
        found = solve_path(stack, np.full((1, 1, 1), alpha), solver=solver, tol=1e-8, max_iter=20_000)[0]
        value = objective(
            Xs, ys, found.W[0, :, :, 0], found.b[0, :, 0], alpha=alpha, groups=groups, similarity=similarity, **how
        )
        optimum = convex_reference(Xs, ys, alpha=alpha, groups=groups, similarity=similarity, **how)[0]
        assert value <= (1 + 1e-7) * optimum
        assert found.objective[0, 0] == pytest.approx(value, rel=1e-9)
        assert (value - optimum) / value <= found.gap[0, 0] + 1e-9
        assert found.gap[0, 0] <= 1e-8


def alignments(n_subjects, d, seed=0):
    """One map for each subject, all different and far from the identity; what is nearly free for one is not for all."""
    rng = np.random.default_rng(seed)
    return np.geomspace(2.0, 0.05, d)[:, None] * rng.normal(size=(n_subjects, d, d)) / np.sqrt(d) + 0.3 * np.eye(d)


@pytest.mark.parametrize("solver", ["newton", "fista"])
@pytest.mark.parametrize("beta", [None, BETA], ids=["plain", "weights"])
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("n_subjects", "similarity"), [(2, 1.0), (3, 0.01), (4, 30.0), (6, 0.1)])
def test_aligned_subjects_reach_the_convex_solvers_optimum(n_subjects, similarity, name, beta, solver):
    Xs, ys, groups = cohort(n_subjects, seed=n_subjects)
    how = {**words(name, beta), "groups": groups, "similarity": similarity}
    A = alignments(n_subjects, Xs[0].shape[1])
    stack = make_stack(
        Xs, ys, groups, METHODS[name], similarity=similarity, beta=how["beta"], metric=DenseMetric(A[None])
    )
    for alpha in (0.1, 0.003):
        found = solve_path(stack, np.full((1, 1, 1), alpha), solver=solver, tol=1e-8, max_iter=50_000)[0]
        value = objective(Xs, ys, found.W[0, :, :, 0], found.b[0, :, 0], alpha=alpha, alignment=A, **how)
        optimum = convex_reference(Xs, ys, alpha=alpha, alignment=A, **how)[0]
        assert value <= (1 + 1e-7) * optimum
        assert found.objective[0, 0] == pytest.approx(value, rel=1e-9)
        assert (value - optimum) / value <= found.gap[0, 0] + 1e-9
        assert found.gap[0, 0] <= 1e-8


@pytest.mark.parametrize("similarity", [0.3, 30.0])
def test_aligned_subjects_of_whom_nothing_is_penalised_are_solved_by_the_certificate_alone(similarity):
    Xs, ys, groups = cohort(3, seed=1, sizes=(60, 50, 70))
    A = alignments(3, Xs[0].shape[1])
    stack = make_stack(
        Xs, ys, groups, GroupNorm(2.0), similarity=similarity, beta=np.zeros(6), metric=DenseMetric(A[None])
    )
    found = certify(stack, *stack.start())
    optimum = convex_reference(Xs, ys, groups=groups, similarity=similarity, beta=np.zeros(6), alignment=A)[0]
    assert found.gap[0, 0] <= 1e-9
    assert found.primal[0, 0] == pytest.approx(optimum, rel=1e-8)


@pytest.mark.parametrize("beta", [None, BETA], ids=["plain", "weights"])
def test_certificate_of_any_point_of_aligned_subjects_bounds_the_truth(beta):
    Xs, ys, groups = cohort(3, seed=1)
    how = {"similarity": 0.3, "beta": np.ones(6) if beta is None else beta}
    A = alignments(3, Xs[0].shape[1])
    stack = make_stack(Xs, ys, groups, GroupNorm(2.0), metric=DenseMetric(A[None]), **how).with_alpha(
        np.full((1, 1), 0.05)
    )
    optimum = convex_reference(Xs, ys, alpha=0.05, groups=groups, alignment=A, **how)[0]
    usable = np.isfinite(how["beta"])[groups]
    for seed in range(5):
        W = np.random.default_rng(seed).normal(size=(1, 3, Xs[0].shape[1], 1)) * 0.3 * usable[:, None]
        found = certify(stack, W, np.zeros((1, 3, 1)))
        assert found.dual[0, 0] <= optimum * (1 + 1e-9)
        assert found.primal[0, 0] >= optimum * (1 - 1e-9)


@pytest.mark.parametrize("shape", [(40, 25), (12, 9)], ids=["n > d", "n < d"])
def test_every_step_of_a_path_over_alphas_and_similarities_is_optimal(shape):
    Xs, ys, groups = cohort(2, seed=5, sizes=shape)
    stack = make_stack(Xs, ys, groups, GroupNorm(2.0))
    cells = [(0.1, 0.0), (0.1, 1.0), (0.02, 1.0), (0.02, 0.01), (0.004, 0.0)]
    alphas, similarities = (np.array(values)[:, None, None] for values in zip(*cells, strict=True))
    for found, (alpha, similarity) in zip(
        solve_path(stack, alphas, similarities=similarities, tol=1e-9, max_iter=10_000), cells, strict=True
    ):
        optimum = convex_reference(Xs, ys, alpha=alpha, groups=groups, similarity=similarity)[0]
        assert found.objective[0, 0] <= (1 + 1e-7) * optimum
        assert found.objective[0, 0] >= (1 - 1e-7) * optimum


def centred_reference(X, y, groups, alpha, strength, center, beta, root=1.0, q=2.0):
    """Minimum of mean loss + strength ‖root (w − center)‖² + alpha Σ β ‖w_g‖_q, by cvxpy."""
    w, b, slack = cp.Variable(X.shape[1]), cp.Variable(), cp.Variable(len(y), nonneg=True)
    cost = cp.sum_squares(slack) / len(y) + strength * cp.sum_squares(
        root @ (w - center) if np.ndim(root) else w - center
    )
    held = [slack >= 1 - cp.multiply(y, X @ w + b)]
    for g, weight in enumerate(beta):
        block = w[np.flatnonzero(groups == g)]
        if np.isinf(weight):
            held.append(block == 0)
        elif weight:
            cost += alpha * weight * cp.pnorm(block, q)
    problem = cp.Problem(cp.Minimize(cost), held)
    problem.solve(solver=cp.CLARABEL, tol_gap_rel=1e-9, tol_gap_abs=1e-10, tol_feas=1e-9)
    return problem.value


@pytest.mark.parametrize("solver", ["newton", "fista"])
@pytest.mark.parametrize("beta", [np.ones(6), BETA], ids=["plain", "weights"])
@pytest.mark.parametrize("strength", [0.0, 0.01, 10.0])
@pytest.mark.parametrize("n", [60, 12])
def test_a_subject_drawn_to_a_fixed_centre_reaches_the_convex_solvers_optimum(n, strength, beta, solver):
    (X,), (y,), groups = cohort(1, seed=3, sizes=(n,))
    center = np.random.default_rng(0).normal(size=X.shape[1]) * 0.3
    stack = make_stack([X], [y], groups, GroupNorm(2.0), similarity=strength, beta=beta, center=center)
    found = solve_path(stack, np.full((1, 1, 1), 0.02), solver=solver, tol=1e-8, max_iter=20_000)[0]
    optimum = centred_reference(X, y, groups, 0.02, strength, center, beta)
    assert found.objective[0, 0] == pytest.approx(optimum, rel=1e-7)
    assert found.gap[0, 0] <= 1e-8


@pytest.mark.parametrize("solver", ["newton", "fista"])
@pytest.mark.parametrize("beta", [np.ones(6), BETA], ids=["plain", "weights"])
@pytest.mark.parametrize("strength", [0.01, 1.0])
@pytest.mark.parametrize(("q", "n"), [(2.0, 60), (2.0, 12), (1.5, 60), (1.5, 12)])
def test_a_subject_drawn_to_a_centre_by_a_metric_reaches_the_convex_solvers_optimum(q, n, strength, beta, solver):
    (X,), (y,), groups = cohort(1, seed=3, sizes=(n,))
    center, root = centre_and_root(X.shape[1])
    how = {"similarity": strength, "beta": beta, "center": root @ center, "metric": DenseMetric(root[None, None])}
    stack = make_stack([X], [y], groups, GroupNorm(q), **how)
    found = solve_path(stack, np.full((1, 1, 1), 0.02), solver=solver, tol=1e-8, max_iter=20_000)[0]
    optimum = centred_reference(X, y, groups, 0.02, strength, center, beta, root, q)
    assert found.objective[0, 0] == pytest.approx(optimum, rel=1e-7)
    assert found.gap[0, 0] <= 1e-8


def centre_and_root(d):
    """A centre, and the root of a metric that is far from the identity: some directions are nearly free."""
    rng = np.random.default_rng(0)
    return rng.normal(size=d) * 0.3, np.geomspace(3.0, 0.01, d)[:, None] * rng.normal(size=(d, d)) / np.sqrt(d)


@pytest.mark.parametrize("name", ["l1", "l2"])
def test_a_metric_beside_the_other_penalties(name):
    (X,), (y,), groups = cohort(1, seed=3, sizes=(30,))
    center, root = centre_and_root(X.shape[1])
    stack = make_stack(
        [X], [y], groups, METHODS[name], similarity=0.1, center=root @ center, metric=DenseMetric(root[None, None])
    )
    found = solve_path(stack, np.full((1, 1, 1), 0.02), tol=1e-8, max_iter=20_000)[0]
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    cost = cp.sum_squares(cp.pos(1 - cp.multiply(y, X @ w + b))) / len(y)
    cost += 0.1 * cp.sum_squares(root @ (w - center))
    cost += 0.02 * (cp.norm1(w) if name == "l1" else cp.sum_squares(w) / 2)
    optimum = cp.Problem(cp.Minimize(cost)).solve(
        solver=cp.CLARABEL, tol_gap_rel=1e-9, tol_gap_abs=1e-10, tol_feas=1e-9
    )
    assert found.objective[0, 0] == pytest.approx(optimum, rel=1e-7)
    assert found.gap[0, 0] <= 1e-8


def test_certificate_of_any_point_beside_a_metric_bounds_the_truth():
    (X,), (y,), groups = cohort(1, seed=3)
    center, root = centre_and_root(X.shape[1])
    stack = make_stack(
        [X], [y], groups, GroupNorm(2.0), similarity=0.5, center=root @ center, metric=DenseMetric(root[None, None])
    )
    stack = stack.with_alpha(np.full((1, 1), 0.05))
    optimum = centred_reference(X, y, groups, 0.05, 0.5, center, np.ones(6), root)
    for point in np.random.default_rng(2).normal(size=(5, X.shape[1])) * 0.5:
        found = certify(stack, point[None, None, :, None], np.zeros((1, 1, 1)))
        assert found.dual[0, 0] <= optimum * (1 + 1e-9)
        assert found.primal[0, 0] >= optimum * (1 - 1e-9)


def test_certificate_of_any_point_beside_a_centre_bounds_the_truth():
    (X,), (y,), groups = cohort(1, seed=3)
    rng = np.random.default_rng(1)
    center = rng.normal(size=X.shape[1])
    stack = make_stack([X], [y], groups, GroupNorm(2.0), similarity=0.5, center=center)
    stack = stack.with_alpha(np.full((1, 1), 0.05))
    optimum = centred_reference(X, y, groups, 0.05, 0.5, center, np.ones(6))
    for scale in (0.0, 0.3, 1.0, 3.0):
        point = certify(stack, scale * center[None, None, :, None], np.zeros((1, 1, 1)))
        assert point.dual[0, 0] <= optimum * (1 + 1e-9)
        assert point.primal[0, 0] >= optimum * (1 - 1e-9)


# --- the linear systems of the Newton steps ---


def random_system(similarity, n_inside, seed=0, T=3, m=7, a=3):
    rng = np.random.default_rng(seed)
    group = np.tile(rng.integers(0, a, m), (T, 1))
    direction = rng.normal(size=(T, m))
    for g in range(a):
        direction[group == g] /= np.sqrt(np.sum(direction[group == g] ** 2))
    scale, weight = rng.uniform(0.5, 1.5, (T, m)), rng.uniform(0.1, 1.0, a)
    diagonal = weight[group] + 0.01 + 2 * similarity * scale**2
    curvature = Curvature(scale, diagonal, direction, group, weight, similarity)
    rows = [rng.normal(size=(1 + m, n_inside)) for _ in range(T)]
    return curvature, rows, [rng.uniform(0.1, 1.0, n_inside) for _ in range(T)], rng.normal(size=(T, 1 + m))


def dense_solution(curvature, rows, p, rhs):
    """The whole system as one matrix, by its formula."""
    T, width = rhs.shape
    M = np.zeros((T, width, T, width))
    for t in range(T):
        scale = np.concatenate([[1.0], curvature.scale[t]])
        H = 2 * (rows[t] * p[t]) @ rows[t].T
        M[t, :, t] += scale[:, None] * H * scale + np.diag(np.concatenate([[0.0], curvature.diagonal[t]]))
    features = np.arange(1, width)
    for s in range(T):
        for t in range(T):
            same = curvature.group[s][:, None] == curvature.group[t][None, :]
            outer = np.outer(curvature.direction[s], curvature.direction[t])
            M[s, 1:, t, 1:] -= same * curvature.group_weight[curvature.group[s]][:, None] * outer
            M[s, features, t, features] -= 2 * curvature.similarity / T * curvature.scale[s] * curvature.scale[t]
    return np.linalg.lstsq(M.reshape(T * width, -1), rhs.ravel(), rcond=None)[0].reshape(T, width)


@pytest.mark.parametrize("route", ["dense", "trials", "together"])
@pytest.mark.parametrize("n_inside", [3, 12, 0])
@pytest.mark.parametrize("similarity", [0.0, 0.05, 20.0])
def test_every_route_solves_the_newton_system_of_several_subjects(route, n_inside, similarity):
    if route == "together" and similarity == 0:
        pytest.skip("without similarity the subjects' trials are not coupled")
    curvature, rows, p, rhs = random_system(similarity, n_inside or 3)
    if n_inside == 0:  # one subject has no trial inside the margin, and so nothing that pulls at its intercept
        rows[1], p[1], rhs[1, 0] = rows[1][:, :0], p[1][:0], 0.0
    own = list(zip(rows, p, curvature.scale, curvature.diagonal, strict=True))
    if route == "together":
        solved = solve_together(rows, p, curvature, rhs)
    elif route == "trials":
        solved = solve_subjects([TrialBlock(*mine) for mine in own], curvature, rhs)
    else:
        blocks = [DenseBlock(2 * (r * w) @ r.T, scale, diagonal) for r, w, scale, diagonal in own]
        solved = solve_subjects(blocks, curvature, rhs)
    np.testing.assert_allclose(solved, dense_solution(curvature, rows, p, rhs), rtol=1e-8, atol=1e-8)


def aligned_dense_solution(curvature, rows, p, A, rhs):
    """The whole system of aligned subjects as one matrix: `dense_solution` with A_t'A_s in the place of the identity."""
    T, width = rhs.shape
    M = np.zeros((T, width, T, width))
    for t in range(T):
        M[t, :, t] += 2 * (rows[t] * p[t]) @ rows[t].T + np.diag(np.concatenate([[0.0], curvature.diagonal[t]]))
        M[t, 1:, t, 1:] += 2 * curvature.similarity * A[t].T @ A[t]
        for s in range(T):
            same = curvature.group[s][:, None] == curvature.group[t][None, :]
            outer = np.outer(curvature.direction[s], curvature.direction[t])
            M[s, 1:, t, 1:] -= same * curvature.group_weight[curvature.group[s]][:, None] * outer
            M[s, 1:, t, 1:] -= 2 * curvature.similarity / T * A[s].T @ A[t]
    return np.linalg.lstsq(M.reshape(T * width, -1), rhs.ravel(), rcond=None)[0].reshape(T, width)


@pytest.mark.parametrize("active", [[0, 1, 2, 3], [2, 0]], ids=["all sensors", "some"])
@pytest.mark.parametrize("n_inside", [3, 20, 0])
@pytest.mark.parametrize("similarity", [0.0, 0.05, 20.0])
def test_every_route_solves_the_newton_system_of_aligned_subjects(active, n_inside, similarity):
    rng, T, C, r = np.random.default_rng(0), 3, 4, 3
    a = len(active)
    m = a * r
    group = np.tile(np.repeat(np.arange(a), r), (T, 1))
    direction = rng.normal(size=(T, m))
    for g in range(a):
        direction[group == g] /= np.sqrt(np.sum(direction[group == g] ** 2))
    weight = rng.uniform(0.1, 1.0, a)
    diagonal = weight[group] + 0.01 * rng.uniform(1, 2, (T, a))[np.arange(T)[:, None], group]
    curvature = Curvature(np.ones((T, m)), diagonal, direction, group, weight, similarity)
    rows, p = [rng.normal(size=(1 + m, n_inside or 3)) for _ in range(T)], [rng.uniform(0.1, 1.0, n_inside or 3)] * T
    rhs = rng.normal(size=(T, 1 + m))
    if n_inside == 0:  # one subject has no trial inside the margin, and so nothing that pulls at its intercept
        rows[1], p[1], rhs[1, 0] = rows[1][:, :0], p[1][:0], 0.0
    sensors, samples = rng.normal(size=(T, C, C)), rng.normal(size=(T, r, r))
    whole = np.stack([np.kron(*pair) for pair in zip(sensors, samples, strict=True)])
    factors = Factors.of(KroneckerMetric(np.arange(C * r).reshape(C, r), sensors[None], samples[None]))
    features = (np.array(active)[:, None] * r + np.arange(r)).ravel()
    A = whole[:, :, features]
    right = aligned_dense_solution(curvature, rows, p, A, rhs)
    dense, structured = [], []
    for t in range(T):
        H = 2 * (rows[t] * p[t]) @ rows[t].T
        H[1:, 1:] += 2 * similarity * A[t].T @ A[t]
        dense.append(DenseMetricBlock(H, curvature.scale[t], diagonal[t], A[t]))
        own = factors.of_subject(t, np.array(active))
        structured.append(KroneckerBlock(own, diagonal[t, ::r], 2 * similarity, rows[t], 2 * p[t]))
    for blocks in (dense, structured):
        np.testing.assert_allclose(solve_with_metric(blocks, curvature, rhs, (C, r)), right, rtol=1e-7, atol=1e-8)


# --- memory ---


def peak_of_a_certificate(n_subjects):
    Xs, ys, groups = cohort(n_subjects, seed=1, sizes=(100,) * n_subjects)
    stack = make_stack(Xs, ys, groups, GroupNorm(2.0), similarity=0.1, beta=BETA)
    tracemalloc.start()
    certify(stack, *stack.start())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_memory_of_unpenalised_groups_is_linear_in_subjects():
    assert peak_of_a_certificate(32) < 1.5 * 8 * peak_of_a_certificate(4)


@pytest.mark.parametrize("similarity", [0.0, 0.1])
def test_an_unpenalised_sensor_beside_l2_with_few_trials(similarity):
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(10), 5)
    ys = [np.tile([-1.0, 1.0], 15) for _ in range(2)]
    Xs = [rng.standard_normal((30, 50)) + 0.3 * y[:, None] for y in ys]
    beta = np.where(np.arange(10) == 0, 0.0, 1.0)
    stack = make_stack(Xs, ys, groups, L2(), similarity=similarity, beta=beta)
    alphas = np.full((1, 1, 1), 0.05)
    newton, fista = (
        solve_path(stack, alphas, solver=name, tol=1e-7, max_iter=20_000)[0] for name in ("newton", "fista")
    )
    assert newton.gap.max() <= 1e-7
    np.testing.assert_allclose(newton.objective, fista.objective, rtol=1e-6)
