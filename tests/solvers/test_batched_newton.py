"""Newton's method on whole stacks: the answers of the one-problem-at-a-time Newton, in every array library."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixnorm.core.arrays import to_numpy
from mixnorm.core.certificate import certify
from mixnorm.core.groups import Groups
from mixnorm.core.intercept import alpha_max
from mixnorm.core.lq_prox import prox_lq_in_steps
from mixnorm.core.metric import DenseMetric
from mixnorm.core.penalties import L1, GroupNorm
from mixnorm.core.problem import Solution, Stack
from mixnorm.solvers import Newton
from mixnorm.solvers.newton.batched import assess, run, step, system
from mixnorm.solvers.newton.batched import solver as stacked_newton
from mixnorm.solvers.newton.batched.line import least_along
from mixnorm.solvers.newton.batched.predictor import expected_change, predicted
from mixnorm.solvers.newton.batched.problems import Point
from mixnorm.solvers.newton.batched.solver import StackedNewton
from mixnorm.solvers.newton.batched.state import Aim, Kept, Step, Tangent
from mixnorm.solvers.newton.batched.step import prepare
from mixnorm.solvers.newton.batched.system import Load, Systems, _Size, padded_places, solve_padded
from mixnorm.solvers.newton.certifying import Limits
from mixnorm.solvers.newton.tuning import CUT_SHORT
from stacks import LIBRARIES, converted, every_library, every_penalty, make_stack, needs_torch, solve_path, torch

FACTORS = np.array([1.0, 0.3, 0.05])
GROUPS_OF_ONE = Groups.from_labels(None, 4)


def both(stack, asarray, tol=1e-8, factors=FACTORS, similarities=None):
    """Solutions of a path by the one-at-a-time Newton, and by the stacked one in another library."""
    alphas = factors[:, None, None] * stack.alpha
    more = {} if similarities is None else {"similarities": similarities}
    plain = Newton().path(stack, alphas, tol, 10_000, **more)
    more = {} if similarities is None else {"similarities": asarray(similarities)}
    return plain, StackedNewton().path(converted(stack, asarray), asarray(alphas), tol, 1000, **more)


def assert_same(plain, stacked, tol=1e-8):
    for mine, theirs in zip(plain, stacked, strict=True):
        assert to_numpy(theirs.gap).max() <= tol
        # both are within tol of the optimum, by their certificates
        np.testing.assert_allclose(to_numpy(theirs.objective), mine.objective, rtol=tol)


@every_library
@every_penalty
@pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "without"])
def test_folds_weights_kept_and_forbidden_groups(name, asarray, fit_intercept):
    stack = make_stack(name, fit_intercept=fit_intercept)
    plain, stacked = both(stack, asarray)
    assert_same(plain, stacked)
    features = stack.groups.index
    for found in stacked:
        W, b = to_numpy(found.W), to_numpy(found.b)
        assert not W[0, :, features == 3, 0].any()
        assert not W[:, :, features == 3, 2].any()
        assert fit_intercept or not b.any()


@pytest.mark.parametrize("q", [1.0, 1.2, 1.5, 1.8, 2.0])
def test_every_q(q):
    stack = replace(make_stack("q=2", beta=False), penalty=GroupNorm(q))
    assert_same(*both(stack, np.array))


@pytest.mark.parametrize("asarray", [LIBRARIES[0], LIBRARIES[2]])
@every_penalty
def test_three_subjects_along_alphas_and_similarities(name, asarray):
    stack = make_stack(name, B=1, T=3, beta=False)
    alphas, similarities = np.repeat([1.0, 0.2], 3), np.tile([0.0, 0.3, 30.0], 2)
    grid = similarities[:, None, None] * np.ones_like(stack.alpha)
    assert_same(*both(stack, asarray, factors=alphas, similarities=grid))


@every_penalty
def test_one_subject_drawn_to_a_centre(name):
    stack = make_stack(name, beta=False)
    center = np.random.default_rng(0).standard_normal((2, 1, stack.shape[3], 3))
    stack = replace(stack, center=center, similarity=np.full((2, 3), 0.4))
    assert_same(*both(stack, np.array))


@every_library
@every_penalty
@pytest.mark.parametrize("beta", [False, True], ids=["plain", "weights"])
def test_one_subject_drawn_to_a_centre_by_a_metric(name, beta, asarray, monkeypatch):
    monkeypatch.setattr(stacked_newton, "Fista", None)  # Newton alone must get there
    stack = make_stack(name, beta=beta)
    rng, d = np.random.default_rng(0), stack.shape[3]
    root = np.geomspace(3.0, 0.1, d)[:, None] * rng.standard_normal((2, d, d))
    center = rng.standard_normal((2, 1, d, 3))
    stack = replace(stack, center=center, metric=DenseMetric(root[:, None]), similarity=np.full((2, 3), 0.4))
    assert_same(*both(stack, asarray))


@every_library
@every_penalty
@pytest.mark.parametrize("beta", [False, True], ids=["plain", "weights"])
def test_three_aligned_subjects_along_alphas_and_similarities(name, beta, asarray, monkeypatch):
    monkeypatch.setattr(stacked_newton, "Fista", None)  # Newton alone must get there
    stack = make_stack(name, T=3, beta=beta)
    rng, d = np.random.default_rng(0), stack.shape[3]
    root = np.geomspace(2.0, 0.1, d)[:, None] * rng.standard_normal((2, 3, d, d))
    stack = replace(stack, metric=DenseMetric(root))
    alphas, similarities = np.repeat([1.0, 0.2], 3), np.tile([0.0, 0.3, 30.0], 2)
    grid = similarities[:, None, None] * np.ones_like(stack.alpha)
    assert_same(*both(stack, asarray, factors=alphas, similarities=grid))


@every_penalty
def test_a_stack_in_chunks_is_the_stack_as_a_whole(name, monkeypatch):
    stack = make_stack(name, B=3)
    alphas = FACTORS[:, None, None] * stack.alpha
    whole = StackedNewton().path(stack, alphas, 1e-8, 1000)
    monkeypatch.setattr(
        "mixnorm.solvers.newton.batched.memory.HOST_BYTES", 1
    )  # one problem, and one system, at a time
    sizes = []
    plain = stacked_newton.StackedProblems
    monkeypatch.setattr(stacked_newton, "StackedProblems", lambda part: sizes.append(part.alpha.shape) or plain(part))
    parts = StackedNewton().path(stack, alphas, 1e-8, 1000)
    assert sizes == [(1, 1)] * 9
    for one, other in zip(whole, parts, strict=True):
        assert other.gap.max() <= 1e-8
        np.testing.assert_allclose(other.objective, one.objective, rtol=1e-8)
        np.testing.assert_allclose(other.W, one.W, atol=1e-3)


def test_what_newton_leaves_open_goes_to_the_first_order_method(monkeypatch):
    """Systems whose solutions are useless: no step is ever taken, and yet the certificate is reached, and honest."""
    monkeypatch.setattr("mixnorm.solvers.newton.batched.system.solve_posdef", lambda S, right: right * float("nan"))
    stack = make_stack("q=2", beta=False)
    best = Newton().path(stack, stack.alpha[None], 1e-8, 1000)[0]
    found = StackedNewton().path(stack, stack.alpha[None], 1e-6, 20_000)[0]
    assert found.gap.max() <= 1e-6
    np.testing.assert_allclose(found.objective, best.objective, rtol=1e-6)


@pytest.mark.parametrize("max_iter", [1, 3])
@every_penalty
def test_max_iter_is_respected_and_the_certificate_honest(name, max_iter):
    stack = make_stack(name, beta=False)
    found = StackedNewton().path(stack, stack.alpha[None], 1e-14, max_iter)[0]
    assert np.all(found.n_iter <= max_iter)
    best = Newton().path(stack, stack.alpha[None], 1e-10, 1000)[0].objective
    assert np.all((found.objective - best) / found.objective <= found.gap + 1e-12)
    again = certify(stack, found.W, found.b)
    np.testing.assert_allclose(again.gap, found.gap, atol=1e-12)


@needs_torch
def test_it_is_the_solver_of_other_libraries_by_default():
    stack = converted(make_stack("q=2", beta=False), torch.tensor)
    by_default = solve_path(stack, stack.alpha[None], tol=1e-6, max_iter=1000)[0]
    by_name = StackedNewton().path(stack, stack.alpha[None], 1e-6, 1000)[0]
    assert isinstance(by_default.W, torch.Tensor)
    assert torch.equal(by_default.W, by_name.W)


@every_penalty
def test_problems_of_a_stack_do_not_touch_each_other(name):
    stack = make_stack(name)
    together = StackedNewton().path(stack, stack.alpha[None], 1e-9, 1000)[0]
    for i, k in np.ndindex(stack.alpha.shape):
        alone = stack.take(np.array([i]), np.array([k]))
        found = StackedNewton().path(alone, alone.alpha[None], 1e-9, 1000)[0]
        assert found.objective[0, 0] == pytest.approx(together.objective[i, k], rel=2e-9)


@pytest.mark.parametrize("q", [1.1, 1.2, 1.5, 1.9])
@pytest.mark.parametrize("share", [1e-6, 0.1, 0.7, 0.99, 1.5])
def test_prox_in_a_fixed_number_of_steps_is_the_prox(q, share):
    rng = np.random.default_rng(3)
    blocks = rng.standard_normal((500, 6, 1)) ** 3
    blocks[:20, 3:] = 0.0
    penalty = GroupNorm(q)
    threshold = share * penalty.dual_norm(blocks)
    found, exact = prox_lq_in_steps(blocks, threshold, q), penalty.prox(blocks, threshold)
    error = np.abs(found - exact).max(axis=(1, 2)) / np.abs(blocks).max(axis=(1, 2))
    assert np.quantile(error, 0.98) <= 1e-13
    assert error.max() <= 1e-4
    np.testing.assert_array_equal(found == 0, exact == 0)
    np.testing.assert_array_equal(prox_lq_in_steps(blocks, 0 * threshold, q), blocks)


def test_padded_systems_are_the_systems():
    """What is recorded on a GPU: more problems and groups than are asked for, and the same solutions."""
    stack = make_stack("q=1.4", B=3, beta=False)
    problems = stacked_newton.StackedProblems(stack)
    rng = np.random.default_rng(1)
    W = rng.standard_normal((problems.P, problems.G, 1, problems.r)) * (
        rng.random((problems.P, problems.G, 1, 1)) < 0.5
    )
    point = Point(W, rng.standard_normal((problems.P, 1)), problems.scores(W[:, None])[:, 0])
    look, one = problems.look(point), np.ones(problems.P)
    aim = Aim(0, 0.1 * one, 0 * one, one, one > 0, one > 0, 0, one, 0 * one)
    prepared = prepare(problems, point, look, aim, 1e-6 * one)
    ids = np.array([1, 2, 5, 6])
    counts = np.maximum((look.norms > 0).sum(axis=1), 1)
    load = Load(np.isin(np.arange(problems.P), ids), counts, np.zeros(problems.P, dtype=bool))
    plain = Systems(problems, 2**30).plan(load)(prepared)
    padded = solve_padded(problems, _Size(7, problems.G, False), prepared, *padded_places(ids, problems.P, 7))
    for mine, theirs in zip((*plain[:3], *plain.tangent), (*padded[:3], *padded.tangent), strict=True):
        assert mine[ids].any()
        assert not mine[~load.running].any()
        np.testing.assert_allclose(theirs, mine, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("worth", [30_000_000, 1], ids=["one batch", "several batches"])
@pytest.mark.parametrize("subjects", [1, 3])
@every_penalty
def test_the_way_of_a_gpu_leads_to_the_same_solutions(name, subjects, worth, monkeypatch):
    """Steps prepared ahead, and systems of a few rounded sizes: as on a GPU, but here nothing is recorded."""
    sizes = []
    solve = solve_padded
    monkeypatch.setattr(system, "solve_padded", lambda *args: sizes.append(args[1]) or solve(*args))
    for module in (system, run):
        monkeypatch.setattr(module, "is_on_gpu", lambda array: True)
    monkeypatch.setattr(system, "_WORTH", worth)
    stack = make_stack(name, B=2, T=subjects)
    similarities = None
    if subjects > 1:
        similarities = np.broadcast_to(np.array([0.0, 0.3, 0.3])[:, None, None], (3, *stack.alpha.shape)).copy()
        stack = replace(stack, similarity=similarities[0] + 0.3)
    plain, stacked = both(stack, np.array, similarities=similarities)
    assert_same(plain, stacked)
    assert sizes or worth == 1


def correlated(seed, T, penalty, G, r):
    """Features that share six sources, four problems of 100 trials, and a path of 15 alphas."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((T, 100, 6)) @ rng.standard_normal((6, G * r)) + 0.4 * rng.standard_normal((T, 100, G * r))
    y = np.where(rng.random((T, 100)) < 0.3, 1.0, -1.0)
    X[:, :, :8] += 0.5 * y[..., None]
    weights = np.ones((1, T, 100, 4))
    for k in range(3):
        weights[:, :, k::3, k] = 0.0
    groups = Groups.from_labels(np.repeat(np.arange(G), r), G * r)
    similarity = np.full((1, 4), 0.1 if T > 1 else 0.0)
    stack = Stack(X[None], y[None], weights, np.ones((1, 4)), np.ones((1, G, 4)), similarity, groups, penalty, True)
    return stack, np.geomspace(1, 0.01, 15)[:, None, None] * alpha_max(stack)


def test_several_coefficients_enter_at_a_time():
    """One at a time takes 182 to 288 steps."""
    for seed in range(3):
        found = StackedNewton().path(*correlated(seed, 5, L1(), 40, 4), 1e-6, 10_000)
        assert sum(solution.n_iter for solution in found).max() <= 130
        assert max(solution.gap.max() for solution in found) <= 1e-6


def test_of_the_lengths_that_are_accepted_the_best_is_taken(monkeypatch):
    seen = []

    def is_accepted(reached, value, length, decrease):
        seen.append((reached, accepted(reached, value, length, decrease) & (decrease >= 0)))
        return accepted(reached, value, length, decrease)

    def chosen(problems, point, tried, best, any_accepted):
        reached, taken = seen[-1]
        for p in np.flatnonzero(any_accepted):
            assert taken[p, best[p]]
            assert reached[p, best[p]] == reached[p, taken[p]].min()
        return choose(problems, point, tried, best, any_accepted)

    accepted, choose = step.is_accepted, step._chosen
    monkeypatch.setattr(step, "is_accepted", is_accepted)
    monkeypatch.setattr(step, "_chosen", chosen)
    StackedNewton().path(*correlated(0, 1, GroupNorm(2.0), 20, 6), 1e-6, 10_000)
    shorter = [taken[p, 0] and reached[p, 0] > reached[p].min() for reached, taken in seen for p in range(len(taken))]
    assert any(shorter)  # the longest one was accepted, and not the best


def state_at(problems, rng, alpha=0.05, share=0.5):
    """Random points with some atoms at zero, all aiming at one alpha."""
    shape = (problems.P, problems.G, problems.T, problems.r)
    W = rng.standard_normal(shape) * (rng.random((*shape[:2], 1, 1)) < share)
    W = np.where(problems.of_atoms(problems.penalised | problems.free) & problems.real, W, 0.0)
    point = Point(W, rng.standard_normal((problems.P, problems.T)), problems.scores(W[:, None])[:, 0])
    one = np.ones(problems.P)
    similarity = 0.2 * one if problems.similar else 0 * one
    return point, Aim(0, alpha * one, similarity, one, one > 0, one > 0, 0, one, 0 * one)


@pytest.mark.parametrize(("name", "subjects"), [("l2", 1), ("l1", 1), ("q=2", 1), ("q=1.4", 1), ("q=2", 3)])
def test_the_tangent_is_the_derivative_of_the_solution(name, subjects):
    """Of two solutions at nearly the same alpha, and of the system at the first of them."""
    check_tangent(name, subjects, share=np.array([1e-4, 0.0]))


@pytest.mark.parametrize("name", ["l2", "q=2"])
def test_the_tangent_knows_that_the_similarity_changes(name):
    check_tangent(name, 3, share=np.array([0.0, 1e-4]))
    check_tangent(name, 3, share=np.array([1e-4, -1e-4]))


def check_tangent(name, subjects, share):
    """Alpha falls and the similarity rises by some shares."""
    stack = make_stack(name, B=1, T=subjects, beta=False, similarity=0.1 if subjects > 1 else 0.0)
    alpha = 0.3 * alpha_max(stack) if stack.penalty.is_norm else 0.1 * stack.alpha
    alphas, similarities = (
        np.stack([own, own * (1 + by)]) for own, by in ((alpha, -share[0]), (stack.similarity, share[1]))
    )
    first, second = StackedNewton().path(stack, alphas, 1e-13, 1000, similarities=similarities)
    problems = stacked_newton.StackedProblems(replace(stack, alpha=alpha))
    W, moved = (problems.slots(one.W) for one in (first, second))
    b, moved_b = (one.b.transpose(0, 2, 1).reshape(problems.P, problems.T) for one in (first, second))
    point, one = Point(W, b, problems.scores(W[:, None])[:, 0]), np.ones(problems.P)
    similarity = stack.similarity.ravel()
    aim = Aim(0, alpha.ravel(), similarity, one, one > 0, one > 0, 0, share[0] * one, share[1] * similarity)
    look = problems.look(point)
    load = Load(one > 0, np.full(problems.P, problems.G), np.full(problems.P, subjects > 1))
    tangent = Systems(problems, 2**30).plan(load)(prepare(problems, point, look, aim, 1e-10 * one)).tangent
    assert np.abs(tangent.W).max() > 1e-8  # far more than the solutions are wrong by
    np.testing.assert_allclose(tangent.W, moved - W, rtol=0.02, atol=1e-3 * np.abs(tangent.W).max())
    np.testing.assert_allclose(tangent.b, moved_b - b, rtol=0.02, atol=1e-3 * np.abs(tangent.b).max())


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3), st.floats(0.0, 1e3))
def test_deviations_are_not_expected_to_change_too_far(similarity, after, own):
    """Deviations 1/(own + σ), as of one coefficient with a curvature of its own."""
    deviation, there = 1 / (own + similarity), 1 / (own + after)
    expected = deviation - deviation**2 * float(expected_change(np, np.array(similarity), np.array(after)))
    low, high = sorted((deviation, there))
    assert low - 1e-12 * high <= expected <= high * (1 + 1e-12)  # the difference is rounded at the larger of both


def test_from_no_similarity_nothing_is_expected():
    assert not expected_change(np, np.zeros(2), np.array([0.0, 3.0])).any()


@pytest.mark.parametrize("name", ["l1", "q=2"])
def test_no_atom_is_predicted_across_its_zero_and_no_value_rises(name):
    problems = stacked_newton.StackedProblems(make_stack(name, beta=False))
    rng = np.random.default_rng(0)
    point, aim = state_at(problems, rng)
    look, onward = problems.look(point), aim._replace(alpha=0.7 * aim.alpha)
    # down the gradient of the value at the next alpha, and up it in the last problem
    tangent = Tangent(0.015 * (look.pull - 0.7 * 0.05 * np.sign(point.W)) * (point.W != 0), 0 * point.b)
    tangent.W[0] = -2 * point.W[0] * (rng.random((problems.G, 1, 1)) < 0.5)  # would pass zero
    tangent.W[-1] *= -1
    tangent.W[1] = np.nan
    there, seen = predicted(problems, point, look, tangent, aim, onward)
    assert (problems.blocks(there.W * point.W).sum(axis=-1) >= 0).all()
    np.testing.assert_array_equal(there.W[[0, 1, -1]], point.W[[0, 1, -1]])
    assert (there.W[2:-1] != point.W[2:-1]).any(axis=(1, 2, 3)).all()
    value, before = (
        problems.value(Point(*(part[:, None] for part in at)), onward.alpha, onward.similarity)
        for at in (there, point)
    )
    assert (value <= before).all()
    for mine, theirs in zip(seen, problems.look(there), strict=True):
        np.testing.assert_allclose(mine, theirs)
    # those that have not stopped stay where they are
    other, _ = predicted(problems, point, look, tangent, onward, onward)
    np.testing.assert_array_equal(other.W, point.W)


@pytest.mark.parametrize("penalty", [GroupNorm(2.0), GroupNorm(1.4), L1()], ids=["q=2", "q=1.4", "l1"])
def test_the_tangent_saves_a_step_at_most_alphas(penalty, monkeypatch):
    """Without it the first step at every alpha is a Newton step from the last solution."""
    stack, alphas = correlated(0, 1, penalty, 20, 6)
    with_it = sum(one.n_iter for one in StackedNewton().path(stack, alphas, 1e-6, 10_000))
    monkeypatch.setattr(assess, "predicted", lambda problems, point, look, *rest: (point, look))
    without = sum(one.n_iter for one in StackedNewton().path(stack, alphas, 1e-6, 10_000))
    assert with_it.mean() <= without.mean() - 0.5 * len(alphas)


def test_the_tangent_saves_steps_along_similarities(monkeypatch):
    def steps():
        found = StackedNewton().path(stack, alphas, 1e-6, 10_000, similarities=similarities)
        assert max(one.gap.max() for one in found) <= 1e-6
        return sum(one.n_iter for one in found).mean(), [one.objective for one in found]

    stack = make_stack("q=2", B=2, T=3, beta=False, similarity=0.1)
    alphas = np.repeat(np.array([0.3, 0.1])[:, None, None] * alpha_max(stack), 6, axis=0)
    grid = np.geomspace(1e-3, 10, 6)
    similarities = np.concatenate([grid, grid[::-1]])[:, None, None] * np.ones_like(stack.alpha)
    with_it, objectives = steps()
    monkeypatch.setattr(assess, "expected_change", lambda xp, similarity, after: 0 * similarity)
    without, expected = steps()
    np.testing.assert_allclose(objectives, expected, rtol=2e-6)
    assert with_it < 0.95 * without


@pytest.mark.parametrize("subjects", [1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_the_minimum_along_a_line_is_exact(seed, subjects):
    """At trials that cross the margin, at coefficients that pass zero, or between them."""
    stack = make_stack("l1", T=subjects, beta=False, similarity=0.2 if subjects > 1 else 0.0)
    problems = stacked_newton.StackedProblems(stack)
    rng = np.random.default_rng(seed)
    point, aim = state_at(problems, rng, share=0.8)
    # to a little beyond the zero of every coefficient, and of the intercepts
    dw = -point.W * rng.uniform(0.5, 2.0, point.W.shape) + 0.1 * rng.standard_normal(point.W.shape) * problems.real
    moves = Step(dw, dw, -2 * point.b, Tangent(dw, point.b))
    found, length = least_along(problems, point, moves, aim)
    grid = np.linspace(0, 1, 2001)
    W = point.W[:, None] + grid[:, None, None, None] * dw[:, None]
    tried = Point(W, point.b[:, None] + grid[:, None] * moves.db[:, None], problems.scores(W))
    values = problems.value(tried, aim.alpha, aim.similarity)
    reached = problems.value(Point(*(part[:, None] for part in found)), aim.alpha, aim.similarity)[:, 0]
    assert (reached <= values.min(axis=1) * (1 + 1e-12)).all()
    np.testing.assert_allclose(length, grid[values.argmin(axis=1)], atol=2e-3)
    np.testing.assert_allclose(found.Zw, problems.scores(found.W[:, None])[:, 0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.W, point.W + length[:, None, None, None] * dw, atol=1e-14)


def test_a_coefficient_at_whose_zero_the_minimum_lies_is_exactly_zero():
    problems = stacked_newton.StackedProblems(make_stack("l1", beta=False))
    point, aim = state_at(problems, np.random.default_rng(0), alpha=1e3, share=1.0)  # the penalty is all that counts
    dw, times = np.zeros_like(point.W), np.random.default_rng(1).uniform(1.1, 3.0, problems.P)
    dw[:, 0] = -times[:, None, None] * point.W[:, 0]
    assert (point.W[:, 0] + (1 / times)[:, None, None] * dw[:, 0]).any()  # by rounding
    found, length = least_along(problems, point, Step(dw, dw, 0 * point.b, Tangent(dw, point.b)), aim)
    np.testing.assert_allclose(length, 1 / times)
    assert not found.W[:, 0].any()
    np.testing.assert_array_equal(found.W[:, 1:], point.W[:, 1:])


def test_atoms_wait_after_a_step_that_was_cut_short(monkeypatch):
    """With ℓ1 and few trials those that enter at once must often leave again."""
    steps = []
    for factor in (CUT_SHORT, 1.0):
        monkeypatch.setattr(step, "CUT_SHORT", factor)
        found = [StackedNewton().path(*correlated(seed, 1, L1(), 20, 6), 1e-6, 10_000) for seed in range(3)]
        steps.append(np.mean([sum(one.n_iter for one in path) for path in found]))
    assert steps[0] < 0.9 * steps[1]


def test_attempts_and_the_first_order_method_share_the_budget(monkeypatch):
    monkeypatch.setattr("mixnorm.solvers.newton.batched.system.solve_posdef", lambda S, right: right * float("nan"))
    stack = make_stack("q=2", beta=False)
    found = StackedNewton().path(stack, stack.alpha[None], 1e-12, 150)[0]
    assert found.gap.max() > 1e-12
    assert found.n_iter.max() == 150


def test_coefficients_that_resemble_each_other_do_not_enter_together():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1, 1, 60, 4))
    X[..., 2] = X[..., 0] + 0.01 * rng.standard_normal((1, 1, 60))  # nearly a copy
    ones = np.ones((1, 1, 60))
    stack = Stack(X, ones, ones[..., None], np.ones((1, 1)), np.ones((1, 4, 1)), np.zeros((1, 1)), GROUPS_OF_ONE, L1())
    problems = stacked_newton.StackedProblems(stack)
    asking = np.array([[True, True, True, False]])
    # the larger of the two that are alike enters, whichever that is
    np.testing.assert_array_equal(
        assess._unlike(problems, asking, np.array([[3.0, 1.0, 2.0, 0.0]])), [[True, True, False, False]]
    )
    np.testing.assert_array_equal(
        assess._unlike(problems, asking, np.array([[1.0, 2.0, 3.0, 0.0]])), [[False, True, True, False]]
    )


def test_solutions_are_copies_of_what_a_run_keeps():
    """The next run with as many steps writes into the same arrays."""
    problems = stacked_newton.StackedProblems(make_stack("q=2", beta=False))
    kept = Kept.of(problems, 2)
    reached = stacked_newton._collect(problems, kept.found(problems, np.zeros((2, problems.P), dtype=np.int64)))
    for own, theirs in ((reached.W, kept.W), (reached.b, kept.b)):
        assert not np.shares_memory(own, theirs)


def test_the_steps_left_to_the_first_order_method_do_not_depend_on_other_problems():
    """Of a problem that has almost no steps left, and of those beside it that have all."""
    stack = make_stack("q=2", B=1, beta=False)
    W, b = stack.start()
    point = certify(stack, W, b)
    for steps in (0, 998):
        n_iter = np.array([[0, steps, 0]])
        solution = Solution(point.W, point.b, point.primal, point.gap, n_iter)
        found = stacked_newton._first_order(stack, solution, Limits(1e-8, 1000))
        assert found.gap[0, [0, 2]].max() <= 1e-8
        assert (found.gap[0, 1] <= 1e-8) == (steps == 0)
        assert found.n_iter.max() <= 1000
