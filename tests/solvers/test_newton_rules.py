"""The rules that the Newton engines share, against their formulas; the table of constants; taking up again."""

from dataclasses import fields, replace

import array_api_strict
import numpy as np
import pytest

from mixnorm.core.arrays import to_numpy
from mixnorm.core.certificate import certify
from mixnorm.core.problem import Solution
from mixnorm.solvers import Newton
from mixnorm.solvers.newton.batched import assess
from mixnorm.solvers.newton.batched.problems import Point, StackedProblems
from mixnorm.solvers.newton.batched.state import Aim, slopes_of
from mixnorm.solvers.newton.certifying import Limits, Reached, better, certified, closed
from mixnorm.solvers.newton.host.descent import Problem
from mixnorm.solvers.newton.rules import (
    AtomValues,
    asks_to_enter,
    gap_estimate,
    is_accepted,
    is_given_up,
    is_progress,
    next_alpha,
    normal_map_step,
    number_to_enter,
    penalty_curvature,
    stiffness,
)
from mixnorm.solvers.newton.tuning import BATCHED, HOST, LONGEST, LOST, PROGRESS, STIFFEST, EntryLimit
from reference import lq_norm
from stacks import every_penalty, make_stack

# Every rule takes NumPy arrays on the host, and arrays of another library with its own namespace in the batched engine.
NAMESPACES = [
    pytest.param(np, np.asarray, id="numpy"),
    pytest.param(array_api_strict, array_api_strict.asarray, id="strict"),
]
every_namespace = pytest.mark.parametrize(("xp", "asarray"), NAMESPACES)
GROUP = np.array([0, 1, 1, 1, 2, 2])
W = np.array([0.7, 0.5, -1.2, 0.1, 0.0, 0.0])
TAU = np.array([0.3, 0.2, 0.4])


def norms(w, q):
    return np.array([lq_norm(w[g == GROUP], q) for g in range(3)])


def atom_values(xp, asarray, q, w=W, tau=TAU):
    place = asarray(GROUP.astype(np.int64))
    expand = (lambda values: values[GROUP]) if xp is np else lambda values: xp.take(values, place)
    return AtomValues(asarray(norms(w, q)), asarray(tau), asarray(np.full(3, 2.0)), expand)


def gradient_by_differences(w, q, step=1e-6):
    """The gradient of Σ_g tau_g ‖w_g‖_q."""

    def value(w):
        return TAU @ norms(w, q)

    return np.array([(value(w + step * e) - value(w - step * e)) / (2 * step) for e in np.eye(len(w))])


@every_namespace
@pytest.mark.parametrize("q", [1.2, 1.5, 2.0])
def test_gradient_and_curvature_of_a_norm_are_its_derivatives(q, xp, asarray):
    found = penalty_curvature(xp, q, asarray(W), atom_values(xp, asarray, q))
    slope, direction, weight = (to_numpy(part) for part in (found.slope, found.direction, found.weight))
    scale = np.ones(6) if found.scale is None else to_numpy(found.scale)
    used = np.flatnonzero(W)  # a group that is zero has no derivative
    np.testing.assert_allclose(slope[used], gradient_by_differences(W, q)[used], atol=1e-8)
    same = GROUP[:, None] == GROUP
    curvature = weight[GROUP][:, None] * same * (np.eye(6) - np.outer(direction, direction)) / np.outer(scale, scale)
    by_differences = np.array(
        [
            (gradient_by_differences(W + 1e-4 * e, q) - gradient_by_differences(W - 1e-4 * e, q)) / 2e-4
            for e in np.eye(6)
        ]
    )
    np.testing.assert_allclose(curvature[np.ix_(used, used)], by_differences[np.ix_(used, used)], atol=1e-3)
    assert not slope[GROUP == 2].any()
    assert weight[2] == 0
    np.testing.assert_array_equal(to_numpy(found.bent), [True, True, False])


@every_namespace
def test_single_coefficients_have_the_slope_of_their_sign_and_no_curvature(xp, asarray):
    tau = np.linspace(0.1, 0.6, 6)
    values = AtomValues(asarray(np.abs(W)), asarray(tau), asarray(np.ones(6)), lambda of_atoms: of_atoms)
    found = penalty_curvature(xp, 1.0, asarray(W), values)
    np.testing.assert_array_equal(to_numpy(found.slope), tau * np.sign(W))
    assert not to_numpy(found.weight).any()


@every_namespace
def test_atoms_without_weight_have_no_slope_and_tiny_ones_bounded_curvature(xp, asarray):
    w = np.array([1e-12, 0.5, -1.2, 0.1, 0.3, 0.3])
    values = atom_values(xp, asarray, 2.0, w, np.array([0.3, 0.2, 0.0]))
    found = penalty_curvature(xp, 2.0, asarray(w), values)
    assert to_numpy(found.weight)[0] == STIFFEST * 2.0
    assert to_numpy(found.weight)[2] == 0
    assert not to_numpy(found.slope)[4:].any()


@every_namespace
def test_steps_of_the_normal_map_are_longer_for_small_coefficients_within_bounds(xp, asarray):
    gamma, softness = asarray(np.full(3, 0.01)), asarray(np.array([1.0, 5.0, 1.0]))
    for q in (1.0, 2.0):
        found = normal_map_step(xp, q, gamma, atom_values(xp, asarray, q), softness)
        np.testing.assert_array_equal(to_numpy(found), [0.01, 0.01, 0.0])
    values = atom_values(xp, asarray, 1.5)
    expected = norms(W, 1.5) / TAU / to_numpy(softness)  # where γ is that, u has twice the size of w
    found = to_numpy(normal_map_step(xp, 1.5, gamma, values, softness))
    np.testing.assert_allclose(found[:2], expected[:2])
    assert found[2] == 0
    short, long = (to_numpy(normal_map_step(xp, 1.5, scale * gamma, values, softness)) for scale in (1e-6, 1e6))
    np.testing.assert_allclose(short[:2], LONGEST * 1e-8)
    np.testing.assert_allclose(long[:2], 1e4)


def test_stiffness_is_the_share_of_the_similarity_term_in_the_curvature():
    np.testing.assert_allclose(stiffness(0.5, np.array([2.0, 6.0]), np.array([1.0, 3.0])), [3.0, 3.0])
    np.testing.assert_array_equal(stiffness(0.0, np.array([2.0]), np.array([1.0])), [1.0])


@every_namespace
def test_gap_estimate_is_the_best_dual_value_on_the_ray(xp, asarray):
    rng = np.random.default_rng(0)
    S1, S2, ratio = rng.uniform(0.1, 2, (3, 50))
    ratio[::5], S1[7] = 0.0, -0.3
    value, lack = S2 + rng.uniform(0, 1, 50), rng.uniform(0, 0.1, 50)
    found = to_numpy(gap_estimate(xp, *map(asarray, (value, S1, S2, ratio, lack))))
    for i in range(50):
        kappa = np.linspace(0, min(1 / ratio[i] if ratio[i] else 100, 100), 400_001)
        dual = np.max(kappa * S1[i] - kappa**2 * S2[i])
        assert found[i] == pytest.approx((abs(value[i] - dual) + lack[i]) / value[i], abs=1e-5)
    nothing = asarray(np.zeros(1))
    assert to_numpy(gap_estimate(xp, nothing, nothing, nothing, nothing, nothing)) == 0
    rounding, error = asarray(np.full(1, 1e-26)), asarray(np.full(1, 1e-20))
    assert to_numpy(gap_estimate(xp, rounding, nothing, rounding, nothing, error)) == 0


def gap_with_deviations_of_the_point(stack, W, b):
    """(P − D)/P of an ℓ2 problem, D = max over κ of κ S₁ − κ² S₂ with w_t − w̄ as it is."""
    X, y, p = stack.X[0], stack.y[0], stack.trial_weight[0, :, :, 0]
    alpha, similarity, deviation = stack.alpha[0, 0], stack.similarity[0, 0], W - W.mean(axis=0)
    lack = np.maximum(0, 1 - y * (np.einsum("tnd,td->tn", X, W) + b[:, None]))
    v = np.einsum("tnd,tn->td", X, 2 * p * lack * y) - 2 * similarity * deviation
    loss, spread = np.sum(p * lack**2), similarity * np.sum(deviation**2)
    dual = np.sum(2 * p * lack) ** 2 / (4 * (loss + spread + np.sum(v**2) / (2 * alpha)))
    return 1 - dual / (loss + spread + alpha / 2 * np.sum(W**2))


@every_penalty
@pytest.mark.parametrize("T", [1, 2])
def test_both_engines_estimate_the_gap_that_the_certificate_gives(name, T):
    """At a point whose intercepts are exact, where nothing is unpenalised, the estimate is the certificate's gap.

    With ℓ2 and several subjects the certificate takes deviations that are better than those of the point.
    """
    stack = make_stack(name, B=1, K=1, T=T, beta=False, similarity=0.2)
    best = Newton().path(stack, stack.alpha[None], 1e-6, 1000)[0]
    found = certify(stack, 0.7 * best.W, best.b)
    assert 1e-6 < found.gap[0, 0] < 1
    expected = found.gap[0, 0]
    if name == "l2" and T > 1:
        expected = gap_with_deviations_of_the_point(stack, found.W[0, :, :, 0], found.b[0, :, 0])
        assert found.gap[0, 0] < expected
    problem = Problem(stack, 0, 0)
    problem.similarity = 0.2 if T > 1 else 0.0
    look = problem.look_at(problem.point(found.W[0, :, :, 0], found.b[0, :, 0]))
    value, gap = problem.value_and_gap(look, stack.alpha[0, 0] * problem.beta)
    assert value == pytest.approx(found.primal[0, 0], rel=1e-12)
    assert gap == pytest.approx(expected, rel=1e-9)
    problems = StackedProblems(stack)
    slots = problems.slots(found.W)
    point = Point(slots, found.b[:, :, 0], problems.scores(slots[:, None])[:, 0])
    seen, one, similarity = problems.look(point), np.ones(1), stack.similarity[0] * (T > 1)
    aim = Aim(0, stack.alpha[0], similarity, one, one > 0, one > 0, 0, one, 0 * one)
    estimate = assess._gap(problems, seen, point, slopes_of(problems, seen, similarity), aim)
    assert estimate[0] == pytest.approx(expected, rel=1e-6)


def test_atoms_ask_to_enter_beyond_their_threshold_but_not_by_rounding():
    asking = asks_to_enter(np.array([0.99, 1.0, 1 + 1e-12, 1 + 1e-9]), np.ones(4))
    np.testing.assert_array_equal(asking, [False, False, False, True])


@every_namespace
def test_how_many_may_enter(xp, asarray):
    counts = np.array([0.0, 2.0, 10.0, 11.0, 15.0, 35.0, 52.0])
    found = to_numpy(number_to_enter(xp, EntryLimit(0.0, 2, 0.2), asarray(counts)))
    np.testing.assert_array_equal(found, [2, 2, 2, 2, 3, 7, 10])


@every_namespace
def test_coarse_path_goes_down_by_its_ratio_and_ends_at_the_target(xp, asarray):
    target, alpha, alphas = asarray(np.array(0.05)), asarray(np.array(1.0)), []
    for _ in range(4):
        alpha = next_alpha(xp, target, alpha, 0.3)
        alphas.append(float(alpha))
    np.testing.assert_allclose(alphas, [0.3, 0.09, 0.05, 0.05])


def test_progress_is_by_gap_or_by_value():
    gap, value = np.array([0.5, 0.95, 0.95, 0.95]), np.array([1.0, 1.0, 0.9, 1 - 1e-15])
    np.testing.assert_array_equal(is_progress(gap, 1.0, value, 1.0, True), [True, False, True, False])


def test_with_l2_a_decrease_counts_only_beside_what_is_left():
    gap = np.array([0.5, 0.5, 1e-6, 1e-6, 1e-10])
    value = 1 - np.array([0.4, 2.0, 0.4, 2.0, 0.0]) * PROGRESS * gap
    np.testing.assert_array_equal(is_progress(gap, gap, value, 1.0, False), [False, True, False, True, False])
    np.testing.assert_array_equal(is_progress(gap, gap, value, 1.0, True), [True, True, True, True, False])
    assert not is_progress(np.array(1e-12), np.array(1e-12), np.array(1 - 1e-14), 1.0, False)  # that is rounding


@pytest.mark.parametrize("tuning", [HOST, BATCHED], ids=["host", "batched"])
def test_a_problem_is_given_up_later_where_atoms_still_ask_to_enter(tuning):
    short, long = tuning.patience, tuning.most_patience
    waited = np.array([0, short, short + 1, long, long + 1])
    np.testing.assert_array_equal(
        is_given_up(waited, np.ones(5, dtype=bool), tuning), [False, False, True, True, True]
    )
    np.testing.assert_array_equal(is_given_up(waited, np.zeros(5, dtype=bool), tuning), [False] * 4 + [True])


def test_a_step_is_accepted_by_sufficient_decrease_or_where_rounding_hides_it():
    reached = np.array([0.9, 1.0, 1.0 - 1e-7, 1.1])
    np.testing.assert_array_equal(is_accepted(reached, 1.0, 1.0, 0.1), [True, False, False, False])
    hidden = np.array([1.0, 1.0 + 1e-15, 1.0 + 1e-13])
    np.testing.assert_array_equal(is_accepted(hidden, 1.0, 1.0, 1e-10), [True, True, False])


@pytest.mark.parametrize("tuning", [HOST, BATCHED], ids=["host", "batched"])
def test_the_table_is_consistent(tuning):
    assert len(tuning.lengths) == len(tuning.damping_factors)
    for values in (tuning.lengths, tuning.goals, [limit.trials for limit in tuning.entry_limits]):
        assert list(values) == sorted(values, reverse=True)
    assert list(tuning.damping_factors) == sorted(tuning.damping_factors)
    assert tuning.entry_limits[-1].trials == 0  # one of them always applies
    assert tuning.entry_limit(2.0) == next(limit for limit in tuning.entry_limits if limit.trials <= 2)


# --- certifying ---


def solved(stack, tol):
    found = Newton().path(stack, stack.alpha[None], tol, 1000)[0]
    return Reached(*(getattr(found, name)[None] for name in ("W", "b", "n_iter")))


def test_cells_certified_together_are_those_certified_alone():
    stack = make_stack("q=2")
    cells = [stack.with_alpha(factor * stack.alpha) for factor in (1.0, 0.5, 0.2)]
    points = [solved(cell, 1e-2) for cell in cells]
    reached = Reached(*(np.concatenate(parts) for parts in zip(*points, strict=True)))
    together = list(certified(cells, reached, 2))
    for cell, point, found in zip(cells, points, together, strict=True):
        alone = certify(cell, point.W[0], point.b[0])
        np.testing.assert_allclose(found.gap, alone.gap, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.W, alone.W, rtol=1e-12, atol=1e-14)
        np.testing.assert_array_equal(found.n_iter, point.n_iter[0])


def test_open_problems_are_taken_up_again_to_smaller_goals_and_the_better_point_is_kept():
    stack = make_stack("q=2", beta=False)
    good, poor = solved(stack, 1e-9), solved(stack, 1e-1)
    (start,) = certified([stack], poor, 1)
    assert (start.gap > 1e-6).any()
    asked = []

    def resume(attempt, solution):
        asked.append((attempt.place, attempt.goal, attempt.open_.sum()))
        point = good if len(asked) == 2 else poor._replace(W=0 * poor.W)
        return point._replace(n_iter=solution.n_iter[None] + 5)

    (found,) = closed([stack], [start], resume, (0.1, 0.01, 0.001), Limits(1e-6, 1000))
    n_open = (start.gap > 1e-6).sum()
    assert asked == [(0, pytest.approx(1e-7), n_open), (0, pytest.approx(1e-8), n_open)]  # the first was worse
    assert found.gap.max() <= 1e-6
    np.testing.assert_array_equal(found.n_iter, start.n_iter + 10)
    asked.clear()
    (spent,) = closed([stack], [start], resume, (0.1,), Limits(1e-6, int(start.n_iter.min())))
    assert not asked
    assert all(getattr(spent, f.name) is getattr(start, f.name) for f in fields(Solution))


def test_of_two_solutions_the_lower_value_is_kept_with_the_better_bound():
    """Values 1 and 2, bounds 0.3 and 0.8, gaps 0.7 and 0.6: the lower point is certified by the larger bound."""

    def solution(objective, bound, mark):
        objective, bound = np.array([objective]), np.array([bound])
        return Solution(
            np.full((1, 1, 2, 2), mark),
            np.full((1, 1, 2), mark),
            objective,
            1 - bound / objective,
            np.array([[mark] * 2]),
        )

    first, second = solution([2.0, 1.0], [0.8, 0.3], 1.0), solution([1.0, 2.0], [0.3, 0.8], 2.0)
    found = better(first, second)
    np.testing.assert_array_equal(found.W[0, 0], [[2.0, 1.0]] * 2)
    np.testing.assert_array_equal(found.b[0, 0], [2.0, 1.0])
    np.testing.assert_array_equal(found.objective, [[1.0, 1.0]])
    np.testing.assert_allclose(found.gap, [[0.2, 0.2]], rtol=1e-12)
    np.testing.assert_array_equal(found.n_iter, second.n_iter)
    broken = replace(first, objective=np.full((1, 2), np.nan), gap=np.full((1, 2), np.inf))
    for pair in ((broken, second), (second, broken)):
        found = better(*pair)
        np.testing.assert_array_equal(found.objective, second.objective)
        np.testing.assert_allclose(found.gap, second.gap, rtol=1e-12)


def test_problems_far_above_tol_are_lost_at_the_first_attempt_alone():
    stack, tol = make_stack("q=2", beta=False), 1e-7
    reached = solved(stack, 1e-9)
    reached.W[...] *= 0.99999
    reached.W[0, 0, ..., 0] = 0.0
    (start,) = certified([stack], reached, 1)
    far = start.gap > LOST * tol
    assert far[0, 0]
    assert ((start.gap > tol) & ~far).any()
    asked = []

    def resume(attempt, solution):
        asked.append((attempt.open_, attempt.lost))
        return Reached(solution.W[None], solution.b[None], solution.n_iter[None])

    closed([stack], [start], resume, (0.1, 0.01), Limits(tol, int(start.n_iter.max())))
    (_, lost), (_, later) = asked
    np.testing.assert_array_equal(lost, far & (start.n_iter < start.n_iter.max()))  # the others may take no step
    assert lost.any()
    assert not later.any()


def test_kept_sensors_alone_are_tried_before_anything_is_taken_up_again():
    """Where they separate the trials the zero model of the others is the optimum."""
    stack = make_stack("q=2", B=1, K=3).last()
    X = stack.X.copy()
    X[0, 0, :, 0] = 10 * stack.y[0, 0]
    stack = replace(stack, X=X)
    assert stack.has_unpenalised
    W, b = stack.start()
    W = W + np.isfinite(stack.group_weights[:, stack.groups.index])
    (start,) = certified([stack], Reached(W[None], b[None], b), 1)
    assert start.gap[0, 0] > 0.5
    (found,) = closed([stack], [start], None, (), Limits(1e-6, 10))
    assert found.gap[0, 0] == 0
