"""What saves steps along a path: the prediction, the entry of groups at their minimum, factors that serve again."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from mixnorm import group_svc_path
from mixnorm.core.groups import Groups
from mixnorm.core.penalties import GroupNorm
from mixnorm.core.problem import Stack
from mixnorm.solvers.newton.host import descent, entry, routes, solver
from mixnorm.solvers.newton.host.descent import Problem
from mixnorm.solvers.newton.host.entry import block_minimum
from mixnorm.solvers.newton.host.hessian import WorkingHessian
from mixnorm.solvers.newton.host.kept import Kept
from mixnorm.solvers.newton.host.predictor import Predictor
from mixnorm.solvers.newton.host.single_system import SingleBlock, SingleTrialBlock
from mixnorm.solvers.newton.host.state import Active, Point
from mixnorm.solvers.newton.host.step import _Move, _straight
from mixnorm.solvers.newton.host.system import Curvature, PairsWithin


@pytest.fixture(autouse=True)
def _on_the_host(monkeypatch):
    """Solve the small paths of these tests with the host engine, which solves larger ones in use."""
    monkeypatch.setattr(solver, "is_small", lambda *_: False)


def eeg_like(rng, n=160, sensors=6, samples=4):
    """Trials whose neighbouring samples and sensors correlate, a fifth of them targets."""
    y = np.where(np.arange(n) % 5 == 0, 1.0, -1.0)
    X = np.cumsum(rng.standard_normal((n, sensors, samples)), axis=2) + 0.7 * rng.standard_normal((n, 1, samples))
    X[y > 0, :3] += 0.8
    return X, y


# --- entry ---


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 6), st.floats(0.05, 3.0))
def test_one_group_enters_at_its_minimum(seed, size, share):
    rng = np.random.default_rng(seed)
    root, v = rng.standard_normal((12, size)), rng.standard_normal(size)
    H, tau = root.T @ root / 12, share * np.linalg.norm(v)

    def value(w):
        return w @ H @ w / 2 - v @ w + tau * np.linalg.norm(w)

    found = block_minimum(H, v, np.array([tau]), np.array([size]))
    if share >= 1:
        assert not found.any()
        return
    values, vectors = np.linalg.eigh(H)
    along = v @ vectors
    norm = brentq(lambda rho: np.sum((along / (values * rho + tau)) ** 2) - 1, 0, 1e12, xtol=1e-14)
    best = vectors @ (along * norm / (values * norm + tau))
    assert value(found) - value(best) <= 0.02 * -value(best)


def test_of_two_equal_groups_only_one_enters_much():
    # the first takes what both ask for; a proximal step would let both in alike
    H, v = np.kron(np.ones((2, 2)), np.diag([1.0, 2.0])), np.array([2.0, 1.0, 2.0, 1.0])
    found = block_minimum(H, v, np.ones(2), np.array([2, 4]))
    assert np.linalg.norm(found[:2]) > 20 * np.linalg.norm(found[2:])


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.booleans())
def test_present_coordinates_adapt_to_others(seed, through_trials):
    rng = np.random.default_rng(seed)
    n, m, k = 12, 6, 4
    rows, p = np.vstack([np.sign(rng.standard_normal(n)), rng.standard_normal((m, n))]), rng.uniform(0.5, 2, n) / n
    others = rng.standard_normal((k, n))
    curvature = random_curvature(rng, m)
    H, across, own = (2 * (one * p) @ other.T for one, other in ((rows, rows), (rows, others), (others, others)))
    M = H + penalty_matrix(curvature)
    if through_trials:
        beside = SingleTrialBlock(rows, p, curvature).beside(others)
    else:
        block = SingleBlock(lambda: np.triu(H), curvature, PairsWithin(curvature.group[0]))
        beside = block.beside(own, across)
    # condition numbers of up to 1e4
    np.testing.assert_allclose(beside.hessian, own - across.T @ np.linalg.solve(M, across), rtol=1e-7, atol=1e-9)
    w, x = rng.standard_normal(k), rng.standard_normal(m + 1)
    np.testing.assert_allclose(beside.felt(w), across @ w, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(beside.felt_back(x), across.T @ x, rtol=1e-10, atol=1e-12)


def random_curvature(rng, m=6):
    """Of two groups of three coordinates."""
    group, k, weight = np.repeat([0, 1], m // 2), rng.standard_normal(m), rng.uniform(0.1, 1, 2)
    k = k / np.sqrt(np.bincount(group, k**2))[group]
    return Curvature(np.ones((1, m)), weight[group][None] + 0.01, k[None], group[None], weight, 0.0)


def penalty_matrix(curvature):
    """The curvature as a matrix, an intercept first."""
    k, group = curvature.direction[0], curvature.group[0]
    own = np.diag(curvature.diagonal[0]) - np.outer(k, k) * curvature.group_weight[group] * (group == group[:, None])
    return np.pad(own, (1, 0))


def test_the_hessian_between_columns_that_were_added_in_any_order():
    rng = np.random.default_rng(0)
    Z, y, p = rng.standard_normal((1, 30, 6)), np.sign(rng.standard_normal((1, 30))), np.full((1, 30), 1 / 30)
    hessian, inside = WorkingHessian(Z * y[..., None], y, p, True), rng.random((1, 30)) < 0.7
    first = hessian.columns(np.array([4, 1]))
    hessian.at(np.ones_like(inside), first)  # computed before the others are known, and with other trials
    second = hessian.columns(np.array([0, 5, 3]))
    both = np.concatenate([y[0][:, None], Z[0]], axis=1)[inside[0]]
    expected = 2 / 30 * both[:, [0, 1, 6, 4]].T @ both[:, [5, 2]]
    own, across = hessian.beside(inside, second, first)  # places before and after the others
    np.testing.assert_allclose(across, expected, rtol=1e-12)
    np.testing.assert_allclose(own, 2 / 30 * both[:, [5, 2]].T @ both[:, [5, 2]], rtol=1e-12)
    _, across = hessian.beside(inside, first, second)
    np.testing.assert_allclose(across[1:], expected[1:].T, rtol=1e-12)


def test_the_trials_are_read_where_they_are_and_not_changed():
    X, y = eeg_like(np.random.default_rng(0))
    X = X.reshape(len(X), -1)
    stack = Stack.single(
        X,
        y,
        sample_weight=np.ones((len(X), 1)),
        group_weights=np.ones((6, 1)),
        groups=Groups.from_channels(list("abcdef"), 4),
        penalty=GroupNorm(2.0),
    )
    X.flags.writeable = False
    problem = Problem(stack, 0, 0)
    assert np.shares_memory(problem.X, X)
    point, _ = problem.solve(0.05, Point.zero(*problem.X.shape), 1e-8, 100)
    assert point.W.any()
    np.testing.assert_allclose(point.Zw, y * (X @ point.W[0])[None], rtol=1e-10, atol=1e-12)


def test_entering_while_present_groups_adapt_saves_steps(monkeypatch):
    def steps():
        paths = [group_svc_path(*spread_eeg(np.random.default_rng(seed)), tol=1e-6) for seed in range(3)]
        return sum(int(path.n_iters.sum()) for path in paths), [path.objectives for path in paths]

    monkeypatch.setattr(descent, "PRECISE_ENTRY", 0)
    monkeypatch.setattr(routes, "KEPT_FROM", 0)
    adapting, objectives = steps()
    monkeypatch.setattr(entry, "_with_present", lambda *arguments: None)
    held, expected = steps()
    np.testing.assert_allclose(objectives, expected, rtol=2e-6)
    assert adapting < 0.95 * held


# --- a factor that serves again ---


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.booleans())
def test_a_kept_factor_accounts_for_trials_that_crossed(seed, through_trials):
    rng = np.random.default_rng(seed)
    n, m = 30, 6
    rows, p = np.vstack([np.sign(rng.standard_normal(n)), rng.standard_normal((m, n))]), rng.uniform(0.5, 2, n) / n
    curvature = random_curvature(rng, m)

    def matrix(inside):
        return 2 * (rows[:, inside] * p[inside]) @ rows[:, inside].T + penalty_matrix(curvature)

    before = rng.random(n) < 0.8
    after = before ^ (np.arange(n) % 11 == 3)
    if through_trials:
        block = SingleTrialBlock(rows[:, before], p[before], curvature)
    else:
        H = 2 * (rows[:, before] * p[before]) @ rows[:, before].T
        block = SingleBlock(lambda: np.triu(H), curvature, PairsWithin(curvature.group[0]))
    active = Active(np.arange(2), None, np.arange(m), np.arange(1, m + 1), rows[None], None, None, None)
    kept = Kept(block, active, before[None], np.ones(2), np.inf, True)
    residual = rng.standard_normal((1, m + 1))
    found, again = kept.again(after[None], p[None], residual)
    np.testing.assert_allclose(found[0], -np.linalg.solve(matrix(after), residual[0]), rtol=1e-6, atol=1e-8)
    assert again.decrease == pytest.approx(-residual[0] @ found[0])


def test_a_kept_factor_serves_no_other_alpha_and_no_other_atoms():
    active, other = (
        Active(np.arange(1), None, np.arange(20), np.arange(20), None, None, None, None) for _ in range(2)
    )
    inside = np.ones((1, 30), dtype=bool)
    kept = Kept(None, active, inside, np.ones(1), 1.0, True)
    assert kept.serves(active, np.ones(1), inside)
    assert not replace(kept, is_near=False).serves(active, np.ones(1), inside)
    assert not kept.serves(other, np.ones(1), inside)
    assert not kept.serves(active, 0.5 * np.ones(1), inside)
    assert not kept.serves(active, np.ones(1), ~inside)


# --- groups that pass their zero ---


def problem_of_sensors(n=40, sensors=3, samples=2):
    """One problem, its groups all of weight 1."""
    X, y = eeg_like(np.random.default_rng(1), n, sensors, samples)
    groups = Groups.from_channels(range(sensors), samples)
    stack = Stack.single(
        X.reshape(n, -1),
        y,
        sample_weight=np.ones((n, 1)),
        group_weights=np.ones((sensors, 1)),
        groups=groups,
        penalty=GroupNorm(2.0),
    )
    return Problem(stack, 0, 0)


def secant(problem, before, here, length):
    """The line through two solutions, whose alphas are 1 and 1/e; the next one is ``length`` times as far in log alpha."""
    predictor = Predictor(problem)
    predictor.add(1.0, before)
    predictor.add(np.exp(-1.0), here)
    return predictor._secant(predictor._last, np.exp(-1 - length))


def test_no_group_is_predicted_across_its_zero():
    problem = problem_of_sensors()
    # the first group shrinks to a quarter, the second has left, the third grows
    before = problem.point(np.array([[2.0, 1.0, 1.0, 0.0, 0.0, 1.0]]), np.zeros(1))
    here = problem.point(np.array([[0.5, 0.25, 0.0, 0.0, 0.0, 3.0]]), np.ones(1))
    line = secant(problem, before, here, 1.0)
    np.testing.assert_allclose(line.W, [[0.0, 0.0, 0.0, 0.0, 0.0, 2.0]], rtol=1e-12)
    there = line.at(here, 0.8)
    np.testing.assert_allclose(there.Zw, problem.point(there.W, there.b).Zw, rtol=1e-13)
    # not so far, and it stays on its side of zero
    line = secant(problem, before, here, 0.3)
    np.testing.assert_allclose(line.W, 0.3 * np.array([[-1.5, -0.75, 0.0, 0.0, 0.0, 2.0]]), rtol=1e-12)


def solved(problem, alpha, start):
    """A solution to many digits, as the predictor remembers it."""
    predictor, (point, _) = Predictor(problem), problem.solve(alpha, start, 1e-13, 100)
    predictor.add(alpha, point)
    return predictor


def test_the_tangent_is_the_derivative_of_the_path():
    problem = problem_of_sensors(n=60)
    alpha, near, zero = 0.05, 0.05 * (1 - 1e-5), problem.point(np.zeros((1, 6)), np.zeros(1))
    here = solved(problem, alpha, zero)
    tangent = here._tangent(here._last, near)
    there = solved(problem_of_sensors(n=60), near, here._last.point)._last.point
    size = np.abs(tangent.W).max()
    assert size > 1e-7  # far more than the solutions are wrong by
    # the matrix is that of the point before the last step
    np.testing.assert_allclose(tangent.W, there.W - here._last.point.W, atol=0.01 * size)
    np.testing.assert_allclose(tangent.b, there.b - here._last.point.b, atol=0.01 * size)
    np.testing.assert_allclose(tangent.Zw, problem.point(tangent.W, tangent.b).Zw, rtol=1e-12)


def test_a_tangent_takes_no_group_across_its_zero():
    problem = problem_of_sensors(n=60)
    here = solved(problem, 0.05, problem.point(np.zeros((1, 6)), np.zeros(1)))
    # so far beyond alpha that the tangent of some group passes zero; the others follow it
    far, step = (here._tangent(here._last, alpha).W for alpha in (20.0, 0.05 * (1 - 1e-5)))
    held = ~far.reshape(3, 2).any(axis=1)
    assert held.any()
    W = here._last.point.W.reshape(3, 2)
    along = (step * (0.05 - 20.0) / (0.05 * 1e-5)).reshape(3, 2)
    np.testing.assert_array_equal(held, np.sum(W * (W + along), axis=1) < 0)


def test_the_tangent_saves_steps(monkeypatch):
    def steps():
        paths = [group_svc_path(*eeg_like(np.random.default_rng(seed), n=400), tol=1e-6) for seed in range(4)]
        return sum(int(path.n_iters.sum()) for path in paths), [path.objectives for path in paths]

    tangents, objectives = steps()
    monkeypatch.setattr(Predictor, "_tangent", lambda self, last, alpha: None)
    secants, expected = steps()
    np.testing.assert_allclose(objectives, expected, rtol=2e-6)
    assert tangents < secants


@pytest.mark.parametrize("alpha", [10.0, 1e-4])
def test_groups_that_a_cut_step_passes_leave_together(alpha):
    problem = problem_of_sensors(sensors=2)
    w = np.array([[0.03, -0.04, 0.05, 0.0]])
    level = problem.level(alpha)
    start = problem.position(problem.point(w, np.zeros(1)), level.tau)
    active = problem.activate(problem.present(start.point))
    # the first group is at its zero after a tenth of the step, the second after half of it
    dw = w * np.array([[-10.0, -10.0, -2.0, -2.0]])
    move = _Move(w, dw, w, dw, np.zeros(1), level.gamma * level.tau)
    moved, length = _straight(problem, start, active, move, level.tau)
    if alpha == 10:  # far above alpha_max, where the zero model is the optimum
        assert length == pytest.approx(0.1, rel=2e-3)
        assert not moved.position.point.W.any()
    without = problem.position(problem.point(0 * w, start.point.b), level.tau)
    # where the loss speaks for them they stay: leaving may not cost more than the step gains
    assert moved.position.value <= start.value
    assert moved.position.point.W.any() == (without.value >= start.value)


def test_with_few_trials_present_groups_move_before_others_enter(monkeypatch):
    entered = []

    def counted(problem, look, entering, level):
        entered.append(len(entering))
        return entry.enter(problem, look, entering, level)

    def paths():
        entered.clear()
        found = [group_svc_path(*spread_eeg(np.random.default_rng(seed)), tol=1e-6) for seed in range(3)]
        return sum(entered), [path.objectives for path in found]

    monkeypatch.setattr(descent, "enter", counted)
    with_rule, objectives = paths()
    monkeypatch.setattr(Predictor, "_goals", lambda self, moved, present, tol: None)
    without, expected = paths()
    np.testing.assert_allclose(objectives, expected, rtol=2e-6)
    assert with_rule < 0.85 * without


def spread_eeg(rng, n=150, sensors=32, samples=8):
    """Fewer trials than coefficients; every source is seen by many neighbouring sensors."""
    y, place = np.where(np.arange(n) % 5 == 0, 1.0, -1.0), np.linspace(0, 1, sensors)
    sources = np.cumsum(rng.standard_normal((n, sensors, samples)), axis=2)
    X = np.einsum("nst,sr->nrt", sources, np.exp(-((place[:, None] - place) ** 2) / 0.02))
    X += 0.7 * rng.standard_normal(X.shape)
    X[y > 0, ::5] += 1.5
    return X, y


# --- the whole path ---


def test_the_prediction_saves_steps_and_changes_no_solution(monkeypatch):
    X, y = eeg_like(np.random.default_rng(0), n=400)
    predicted = group_svc_path(X, y, tol=1e-8)
    monkeypatch.setattr(Predictor, "step", lambda self, alpha, point, tol, max_iter: (point, 0))
    plain = group_svc_path(X, y, tol=1e-8)
    assert predicted.dual_gaps.max() <= 1e-8
    np.testing.assert_allclose(predicted.objectives, plain.objectives, rtol=2e-8)
    assert predicted.n_iters.sum() < 0.95 * plain.n_iters.sum()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n", [16, 40, 160])
def test_what_is_for_large_problems_is_right_on_small_ones(monkeypatch, seed, n):
    X, y = eeg_like(np.random.default_rng(seed), n=n)
    options = {
        "tol": 1e-9,
        "group_weights": np.array([0.0, 1, 2, 1, np.inf, 1]),
        "sample_weight": 1 + np.arange(n) % 3,
    }
    plain = group_svc_path(X, y, alphas=12, **options)
    monkeypatch.setattr(descent, "PRECISE_ENTRY", 0)
    monkeypatch.setattr(routes, "KEPT_FROM", 0)
    found = group_svc_path(X, y, alphas=12, **options)
    assert found.dual_gaps.max() <= 1e-9
    np.testing.assert_allclose(found.objectives, plain.objectives, rtol=2e-9)
