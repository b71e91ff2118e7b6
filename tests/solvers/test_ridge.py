"""One subject with a similarity term towards zero, which is a ridge penalty by a metric: ridge · ½ w'N w."""

from dataclasses import replace
from functools import cache

import array_api_strict
import numpy as np
import pytest

from cohorts import cohort
from mixnorm.core.arrays import to_numpy
from mixnorm.core.certificate import certify
from mixnorm.core.groups import Groups
from mixnorm.core.metric import DenseMetric, KroneckerMetric, join_metrics
from mixnorm.core.penalties import L1, L2, GroupNorm
from mixnorm.core.problem import Stack
from mixnorm.solvers import Fista, Newton, StackedNewton
from mixnorm.solvers.newton.batched import solver as batched
from mixnorm.solvers.newton.host import routes
from reference import convex_reference, objective
from stacks import converted

SENSORS, SAMPLES = 6, 3
D = SENSORS * SAMPLES
RIDGE = 0.3
ALPHAS = (0.1, 0.005)
#: penalty, and how the reference calls it
PENALTIES = {
    "l1": (L1(), "l1", 1.0),
    "l2": (L2(), "l2", 2.0),
    "q=1.2": (GroupNorm(1.2), "group", 1.2),
    "q=1.5": (GroupNorm(1.5), "group", 1.5),
    "q=2": (GroupNorm(2.0), "group", 2.0),
}
SOLVERS = {"host": Newton, "batched": StackedNewton, "first order": Fista}
WEIGHTS = {"plain": np.ones(SENSORS), "kept and forbidden": np.array([1.0, 1.0, 0.0, np.inf, 1.0, 1.0])}
every_penalty = pytest.mark.parametrize("penalty", PENALTIES)
every_weight = pytest.mark.parametrize("weights", WEIGHTS)
every_metric = pytest.mark.parametrize("kind", ["dense", "kronecker"])


def make_metric(kind, seed, order):
    """A metric of condition number above 1000; features in the order of sensors, or any other."""
    rng = np.random.default_rng(seed)
    if kind == "dense":
        root = np.geomspace(3.0, 0.05, D)[:, None] * rng.normal(size=(D, D)) / np.sqrt(D)
        return DenseMetric(root[None, None])
    sensors, samples = (rng.normal(size=(size, size)) + np.eye(size) for size in (SENSORS, SAMPLES))
    return KroneckerMetric(order.reshape(SENSORS, SAMPLES), *((0.5 * C @ C.T)[None, None] for C in (sensors, samples)))


def make_problem(kind, penalty, weights, n=40, seed=3, scrambled=False):
    """A stack of one problem, and the words of the reference for it."""
    (X,), (y,), groups = cohort(1, seed=seed, sizes=(n,))
    order = np.random.default_rng(1).permutation(D) if scrambled else np.arange(D)
    place = np.argsort(order)  # feature order[i] is what was feature i
    X, groups = X[:, place], groups[place]
    metric, beta = make_metric(kind, seed, order), WEIGHTS[weights]
    method, name, q = PENALTIES[penalty]
    stack = Stack.single(
        X,
        y,
        sample_weight=np.ones((n, 1)),
        group_weights=beta[:, None],
        groups=Groups.from_labels(groups, D),
        penalty=method,
    )
    stack = replace(stack, metric=metric, center=np.zeros((1, 1, D, 1)), similarity=np.full((1, 1), RIDGE / 2))
    how = {"groups": groups, "beta": beta, "penalty": name, "q": q, "alignment": metric.roots()[0], "ridge": RIDGE}
    return stack, (X, y), how


@cache  # solvers share the references
def optimum_of(kind, penalty, weights, n=40, seed=3, alpha=0.02):
    _, trials, how = make_problem(kind, penalty, weights, n, seed)
    return convex_reference(*trials, alpha=alpha, **how)[0]


def solve(solver, stack, alphas=ALPHAS, tol=1e-8):
    grid = np.array(alphas)[:, None, None] * np.ones(stack.alpha.shape)
    return SOLVERS[solver]().path(stack, grid, tol, 50_000)


@every_metric
@every_weight
@every_penalty
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("n", [40, 14], ids=["n > d", "n < d"])
def test_the_optimum_is_the_convex_solvers_and_certified(kind, weights, penalty, solver, n, monkeypatch):
    monkeypatch.setattr(batched, "Fista", None)  # Newton alone must get there
    stack, trials, how = make_problem(kind, penalty, weights, n)
    for alpha, found in zip(ALPHAS, solve(solver, stack), strict=True):
        optimum = optimum_of(kind, penalty, weights, n, alpha=alpha)
        value = objective(*trials, found.W[0, 0, :, 0], found.b[0, 0, 0], alpha=alpha, **how)
        assert found.objective[0, 0] == pytest.approx(value, rel=1e-10)
        assert value == pytest.approx(optimum, rel=1e-7)
        assert (value - optimum) / value <= found.gap[0, 0] + 1e-9
        assert found.gap[0, 0] <= 1e-8


@every_metric
def test_the_ridge_makes_a_difference(kind):
    _, trials, how = make_problem(kind, "q=2", "plain")
    optima = [convex_reference(*trials, alpha=0.005, **{**how, **other})[0] for other in ({}, {"alignment": None})]
    optima.append(convex_reference(*trials, alpha=0.005, **{**how, "ridge": 0.0})[0])
    assert np.min(np.abs(np.subtract.outer(optima, optima))[np.triu_indices(3, 1)]) > 1e-3


@every_penalty
@pytest.mark.parametrize("solver", SOLVERS)
def test_features_in_any_order(penalty, solver):
    stack, trials, how = make_problem("kronecker", penalty, "kept and forbidden", scrambled=True)
    optimum = convex_reference(*trials, alpha=ALPHAS[1], **how)[0]
    assert solve(solver, stack)[1].objective[0, 0] == pytest.approx(optimum, rel=1e-7)


@every_weight
@pytest.mark.parametrize("penalty", ["q=2", "l2"])
def test_systems_solved_by_the_factors_of_the_metric(penalty, weights, monkeypatch):
    used = []
    plain = routes._solve_by_factors
    monkeypatch.setattr(routes, "THROUGH_FACTORS", 0.0)
    monkeypatch.setattr(routes, "_solve_by_factors", lambda *args: used.append(1) or plain(*args))
    stack, _, _ = make_problem("kronecker", penalty, weights)
    by_factors = solve("host", stack)
    assert used
    monkeypatch.setattr(routes, "THROUGH_FACTORS", np.inf)
    for found, dense in zip(by_factors, solve("host", stack), strict=True):
        np.testing.assert_allclose(found.W, dense.W, atol=1e-6)
        assert found.n_iter == dense.n_iter  # a system that is a little wrong needs more steps to the same answer


@every_metric
@every_weight
def test_certificate_of_any_point_bounds_the_truth(kind, weights):
    stack, trials, how = make_problem(kind, "q=2", weights)
    stack = stack.with_alpha(np.full((1, 1), 0.05))
    optimum = convex_reference(*trials, alpha=0.05, **how)[0]
    usable = np.isfinite(how["beta"])[how["groups"]]
    for point in 0.3 * np.random.default_rng(2).normal(size=(5, D)) * usable:
        found = certify(stack, point[None, None, :, None], np.zeros((1, 1, 1)))
        assert found.dual[0, 0] <= optimum * (1 + 1e-9)
        assert found.primal[0, 0] >= optimum * (1 - 1e-9)


@every_metric
@every_weight
@every_penalty
@pytest.mark.parametrize("solver", ["host", "batched", "first order", "array-api-strict"])
def test_several_data_sets_with_a_metric_each(kind, weights, penalty, solver):
    """As the folds of a cross-validation, each of which estimates its own noise covariance."""
    seeds = (3, 4, 5)
    stacks = [make_problem(kind, penalty, weights, seed=seed)[0] for seed in seeds]
    names = ("X", "y", "sample_weight", "alpha", "group_weights", "similarity", "center")
    joined = {name: np.concatenate([getattr(stack, name) for stack in stacks]) for name in names}
    whole = replace(stacks[0], metric=join_metrics([stack.metric for stack in stacks]), **joined)
    if solver == "array-api-strict":
        asarray = array_api_strict.asarray
        found = StackedNewton().path(converted(whole, asarray), asarray(np.full((1, 3, 1), 0.02)), 1e-8, 1000)[0]
    else:
        found = solve(solver, whole, [0.02])[0]
    for i, seed in enumerate(seeds):
        optimum = optimum_of(kind, penalty, weights, seed=seed)
        assert to_numpy(found.objective)[i, 0] == pytest.approx(optimum, rel=1e-7)
        assert to_numpy(found.gap)[i, 0] <= 1e-8
