"""Several subjects with a ridge term beside their similarity: similarity Σ‖v_t − v̄‖² + ridge ½ Σ‖v_t‖²."""

from dataclasses import replace
from functools import cache

import array_api_strict
import numpy as np
import pytest

from cohorts import cohort
from mixnorm.core.certificate import certify
from mixnorm.core.groups import Groups
from mixnorm.core.intercept import alpha_max
from mixnorm.core.metric import DenseMetric, KroneckerMetric
from mixnorm.core.penalties import L1, L2, GroupNorm
from mixnorm.core.problem import Stack
from mixnorm.execution.solve import SolverOptions, solve_directly
from mixnorm.solvers import Fista, Newton, StackedNewton
from mixnorm.solvers.newton.batched import solver as batched
from mixnorm.solvers.newton.host import routes
from reference import convex_reference, objective
from stacks import converted

T, SENSORS, SAMPLES = 3, 6, 3
D = SENSORS * SAMPLES
RIDGE, ALPHAS = 0.2, (0.1, 0.005)
PENALTIES = {
    "l1": (L1(), "l1", 1.0),
    "l2": (L2(), "l2", 2.0),
    "q=1.5": (GroupNorm(1.5), "group", 1.5),
    "q=2": (GroupNorm(2.0), "group", 2.0),
}
SOLVERS = {"host": Newton, "batched": StackedNewton, "first order": Fista}
WEIGHTS = {"plain": np.ones(SENSORS), "kept and forbidden": np.array([1.0, 1.0, 0.0, np.inf, 1.0, 1.0])}
SIZES = {"n > d": (40, 25, 33), "n < d": (12, 9, 14)}


def make_metric(kind, seed=7):
    """One metric for each subject, all different; None for the identity."""
    rng = np.random.default_rng(seed)
    if kind == "identity":
        return None
    if kind == "dense":
        return DenseMetric(rng.normal(size=(1, T, D, D)) / np.sqrt(D) + 0.5 * np.eye(D))
    sensors, samples = (rng.normal(size=(1, T, size, size)) / 2 + np.eye(size) for size in (SENSORS, SAMPLES))
    return KroneckerMetric(np.arange(D).reshape(SENSORS, SAMPLES), sensors, samples)


def make_problem(kind, penalty, weights, similarity=0.3, sizes="n > d"):
    """A stack of one problem, its trials, and the words of the reference for it."""
    Xs, ys, groups = cohort(T, seed=2, sizes=SIZES[sizes])
    n = max(map(len, ys))
    X, y, s = np.zeros((1, T, n, D)), np.ones((1, T, n)), np.zeros((1, T, n, 1))
    for t, (X_t, y_t) in enumerate(zip(Xs, ys, strict=True)):
        X[0, t, : len(y_t)], y[0, t, : len(y_t)], s[0, t, : len(y_t)] = X_t, y_t, 1.0
    metric, beta, one = make_metric(kind), WEIGHTS[weights], np.ones((1, 1))
    method, name, q = PENALTIES[penalty]
    terms = {"metric": metric, "ridge": RIDGE * one}
    groups_ = Groups.from_labels(groups, D)
    stack = Stack(X, y, s, one, beta[None, :, None], similarity * one, groups_, method, **terms)
    roots = [np.eye(D)] * T if metric is None else metric.roots()[0]
    how = {"groups": groups, "beta": beta, "penalty": name, "q": q, "similarity": similarity}
    return stack, (Xs, ys), how | {"alignment": roots, "ridge": RIDGE}


@cache  # solvers share the references
def optimum_of(*problem, alpha):
    _, trials, how = make_problem(*problem)
    return convex_reference(*trials, alpha=alpha, **how)[0]


def solve(solver, stack, alphas=ALPHAS, tol=1e-8):
    grid = np.array(alphas)[:, None, None] * np.ones(stack.alpha.shape)
    return SOLVERS[solver]().path(stack, grid, tol, 50_000)


CASES = [
    ("identity", "plain", 0.3, "n > d"),
    ("identity", "kept and forbidden", 0.3, "n < d"),
    ("dense", "kept and forbidden", 0.0, "n > d"),
    ("dense", "plain", 30.0, "n < d"),
    ("kronecker", "plain", 0.0, "n < d"),
    ("kronecker", "kept and forbidden", 30.0, "n > d"),
]


@pytest.mark.parametrize(("kind", "weights", "similarity", "sizes"), CASES)
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_the_optimum_is_the_convex_solvers_and_certified(
    kind, weights, similarity, sizes, penalty, solver, monkeypatch
):
    if solver == "first order" and (similarity > 1 or kind == "kronecker"):
        pytest.skip("takes the first-order method many thousand iterations")
    monkeypatch.setattr(batched, "Fista", None)  # Newton alone must get there
    problem = kind, penalty, weights, similarity, sizes
    stack, trials, how = make_problem(*problem)
    for alpha, found in zip(ALPHAS, solve(solver, stack), strict=True):
        optimum = optimum_of(*problem, alpha=alpha)
        value = objective(*trials, found.W[0, ..., 0], found.b[0, :, 0], alpha=alpha, **how)
        assert found.objective[0, 0] == pytest.approx(value, rel=1e-10)
        assert value == pytest.approx(optimum, rel=1e-7)
        assert (value - optimum) / value <= found.gap[0, 0] + 1e-9
        assert found.gap[0, 0] <= 1e-8


@pytest.mark.parametrize("weights", WEIGHTS)
def test_systems_solved_by_the_factors_of_the_metric(weights, monkeypatch):
    used = []
    plain = routes._solve_by_factors
    monkeypatch.setattr(routes, "_solve_by_factors", lambda *args: used.append(1) or plain(*args))
    stack, _, _ = make_problem("kronecker", "q=2", weights, 0.3, "n < d")
    by_factors = solve("host", stack)
    assert used
    monkeypatch.setattr("mixnorm.solvers.newton.host.metric_system.Factors.of", lambda metric: None)
    for found, dense in zip(by_factors, solve("host", stack), strict=True):
        np.testing.assert_allclose(found.W, dense.W, atol=1e-6)
        assert abs(int(found.n_iter[0, 0]) - int(dense.n_iter[0, 0])) <= 2  # a wrong system needs many more steps


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("kind", ["identity", "dense"])
def test_certificate_of_any_point_bounds_the_truth(kind, weights):
    stack, _, how = make_problem(kind, "q=2", weights)
    stack = stack.with_alpha(np.full((1, 1), 0.05))
    optimum = optimum_of(kind, "q=2", weights, alpha=0.05)
    usable = np.isfinite(how["beta"])[how["groups"]]
    for point in 0.3 * np.random.default_rng(2).normal(size=(5, T, D)) * usable:
        found = certify(stack, point[None, ..., None], np.zeros((1, T, 1)))
        assert found.dual[0, 0] <= optimum * (1 + 1e-9)
        assert found.primal[0, 0] >= optimum * (1 - 1e-9)


@pytest.mark.parametrize("solver", ["host", "batched", "array-api-strict"])
def test_a_path_over_alphas_and_similarities_in_any_unit(solver):
    """Trials in another unit are another name for the same problem; every step of a path has its own optimum."""
    stack, trials, how = make_problem("dense", "q=2", "kept and forbidden")
    unit = 1e-5
    other = replace(stack, X=stack.X * unit, ridge=stack.ridge * unit**2)
    grid = np.array([(0.1, 3.0), (0.1, 0.01), (0.01, 0.0)])
    alphas, similarities = unit * grid[:, :1, None], unit**2 * grid[:, 1:, None]
    if solver == "host":
        found = solve_directly(other, alphas, similarities, SolverOptions(tol=1e-9))
    else:
        asarray = np.asarray if solver == "batched" else array_api_strict.asarray
        stacks = converted(stack, asarray), *(asarray(grid[:, [j], None]) for j in (0, 1))
        found = StackedNewton().path(*stacks[:2], 1e-9, 1000, similarities=stacks[2])
    for (alpha, similarity), one in zip(grid, found, strict=True):
        optimum = convex_reference(*trials, alpha=alpha, **{**how, "similarity": similarity})[0]
        assert float(one.objective[0, 0]) == pytest.approx(optimum, rel=1e-7)


def test_alpha_max_beside_unpenalised_sensors():
    stack, _, how = make_problem("dense", "q=2", "kept and forbidden")
    top = float(alpha_max(stack)[0, 0])
    penalised = (how["beta"] == 1.0)[how["groups"]]
    for share, chosen in ((1.001, False), (0.999, True)):
        found = solve("host", stack, alphas=(share * top,), tol=1e-10)[0]
        assert bool(found.W[0][:, penalised].any()) == chosen
    without = float(alpha_max(replace(stack, ridge=None))[0, 0])
    assert abs(top / without - 1) > 1e-3  # so that the test can tell the difference


def test_the_ridge_makes_a_difference():
    _, trials, how = make_problem("dense", "q=2", "plain")
    changes = ({}, {"ridge": 0.0}, {"alignment": None}, {"similarity": 0.3 + RIDGE / 2, "ridge": 0.0})
    optima = [convex_reference(*trials, alpha=0.005, **{**how, **other})[0] for other in changes]
    assert np.min(np.abs(np.subtract.outer(optima, optima))[np.triu_indices(4, 1)]) > 1e-3
