"""Paths of small problems in the Gram matrix of their trials: every part against its formula, the whole against others."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from mixnorm import GroupSVCCV, group_svc_path
from mixnorm.core.groups import Groups
from mixnorm.core.metric import DenseMetric
from mixnorm.core.penalties import L1, L2, GroupNorm
from mixnorm.core.problem import Stack
from mixnorm.solvers.newton.certifying import Limits, Reached
from mixnorm.solvers.newton.gram import descent, path
from mixnorm.solvers.newton.gram.coordinates import Coordinates
from mixnorm.solvers.newton.gram.descent import Descent
from mixnorm.solvers.newton.gram.path import is_small
from mixnorm.solvers.newton.gram.problem import GramProblem
from mixnorm.solvers.newton.gram.step import Moved, Place, _Move, _straight, entered, newton_step
from mixnorm.solvers.newton.gram.system import Factor, NormCurvature
from mixnorm.solvers.newton.host import solver as host_solver
from mixnorm.solvers.newton.tuning import DAMPING, GRAM, HOST
from reference import convex_reference, objective

SIZES = [3, 1, 4, 2]
G, D = len(SIZES), sum(SIZES)


def make_stack(seed=0, n=40, weighted=True, in_order=False, fit_intercept=True, ridge=0.0, beta=(1.0, 0.7, 1.3, 1.0)):
    """One subject: groups of unlike sizes in mixed order, a trial without weight, correlated features."""
    rng = np.random.default_rng(seed)
    label = np.repeat(np.arange(G), SIZES)
    label = label if in_order else rng.permutation(label)
    X = rng.standard_normal((n, D)) @ (np.eye(D) + 0.3 * rng.standard_normal((D, D)))
    y = np.where(X @ rng.standard_normal(D) + 2 * rng.standard_normal(n) > 0.5, 1.0, -1.0)
    s = rng.uniform(0.3, 2.0, (n, 1)) if weighted else np.ones((n, 1))
    s[3] = 0.0
    groups = Groups.from_labels(label, D)
    stack = Stack.single(
        X,
        y,
        sample_weight=s,
        group_weights=np.array(beta)[:, None],
        groups=groups,
        penalty=GroupNorm(2.0),
        fit_intercept=fit_intercept,
    )
    return replace(stack, ridge=np.array([[ridge]])) if ridge else stack


def in_words_of_the_reference(stack, alpha):
    return {
        "X": stack.X[0, 0],
        "y": stack.y[0, 0],
        "s": stack.sample_weight[0, 0, :, 0],
        "alpha": alpha,
        "groups": stack.groups.index,
        "beta": stack.group_weights[0, :, 0],
        "ridge": 0.0 if stack.ridge is None else float(stack.ridge[0, 0]),
    }


def model_of(problem, v):
    """(w, b) of the features in their own order."""
    w = np.zeros(D)
    w[problem.features] = v[problem.free : -1]
    return w, v[0] if problem.free else 0.0


def random_v(problem, rng, scale=0.3):
    v = np.append(scale * rng.standard_normal(problem.free + len(problem.features)), -1.0)
    problem.move_to(problem.shortfalls(v) > 0)
    return v


def norms_at(problem, v):
    return problem.groups.norms(v[problem.free : -1])


def place_at(problem, v, tau):
    return Place.of(v, problem.times(v), norms_at(problem, v), tau)


every_kind = pytest.mark.parametrize("kind", [{}, {"weighted": False, "in_order": True}, {"fit_intercept": False}])


# --- the Gram matrix ---


@every_kind
@pytest.mark.parametrize("ridge", [0.0, 0.4])
def test_value_and_gradient_follow_from_the_gram_matrix(kind, ridge):
    stack, rng = make_stack(ridge=ridge, **kind), np.random.default_rng(1)
    problem = GramProblem(stack, 0, 0)
    for _ in range(5):  # the matrix follows the trials that cross the margin between these points
        v = random_v(problem, rng)
        (w, b), tau = model_of(problem, v), 0.2 * problem.beta
        known = in_words_of_the_reference(stack, 0.2)
        place = place_at(problem, v, tau)
        assert place.value == pytest.approx(objective(w=w, b=b, **known), rel=1e-12)
        p = known["s"] / known["s"].sum()
        a = 2 * p * np.maximum(0, 1 - known["y"] * (known["X"] @ w + b))
        gradient = ridge * w - known["X"].T @ (a * known["y"])
        assert place.slope[problem.free : -1] == pytest.approx(gradient[problem.features], abs=1e-12)
        assert -place.slope[-1] == pytest.approx(a.sum(), rel=1e-12)
        if problem.free:
            assert place.slope[0] == pytest.approx(-a @ known["y"], abs=1e-12)


def exact_shortfalls(stack, problem, v):
    """1 − m of the trials in use, in double precision."""
    (w, b), used = model_of(problem, v), stack.trial_weight[0, 0, :, 0] > 0
    return (1 - stack.y[0, 0] * (stack.X[0, 0] @ w + b))[used]


@every_kind
def test_shortfalls_are_those_of_the_margins_but_for_single_precision(kind):
    stack, rng = make_stack(**kind), np.random.default_rng(2)
    problem = GramProblem(stack, 0, 0)
    one, other = (random_v(problem, rng) for _ in range(2))
    before, after = (exact_shortfalls(stack, problem, v) for v in (one, other))
    assert problem.shortfalls(one) == pytest.approx(before, abs=1e-5)
    assert problem.derivative(other - one) == pytest.approx(after - before, abs=1e-5)


def test_single_precision_takes_no_trial_to_the_wrong_side_of_the_margin():
    stack, rng = make_stack(n=200), np.random.default_rng(9)
    problem = GramProblem(stack, 0, 0)
    trials, wrong = problem._rows_of(np.arange(199)), 0
    for _ in range(50):
        v = random_v(problem, rng)
        # the margins of all trials with w at hand are known: each in turn is brought close to 1 by the intercept
        short = -problem.y * (trials @ v)
        for i in range(0, 199, 20):
            near = v.copy()
            near[0] += problem.y[i] * (short[i] + rng.uniform(-1e-7, 1e-7))
            exact = -problem.y * (trials @ near)
            assert ((problem.shortfalls(near) > 0) == (exact > 0)).all()
            wrong += np.count_nonzero((problem.derivative(near) > 0) != (exact > 0))
    assert wrong > 50  # single precision alone does not tell


@pytest.mark.parametrize("unlike", [False, True])
def test_weights_that_differ_a_little_are_not_taken_as_equal(unlike):
    stack = make_stack(weighted=False)
    stack.sample_weight[0, 0, ::2] *= 1.0005 if unlike else 1.0
    problem = GramProblem(stack, 0, 0)
    inside = np.arange(len(problem.y)) % 3 > 0
    problem.move_to(inside)
    rows = problem._rows_of(inside.nonzero()[0])
    expected = 2 * (rows.T * problem.p[inside]) @ rows
    assert np.triu(problem.gram) == pytest.approx(np.triu(expected), abs=1e-13)


@every_kind
def test_the_gram_matrix_of_all_trials_is_the_sum_over_their_rows(kind):
    stack = make_stack(**kind)
    problem = GramProblem(stack, 0, 0)
    p, expected = stack.trial_weight[0, 0, :, 0], np.zeros_like(problem.gram)
    for x, y, own in zip(stack.X[0, 0], stack.y[0, 0], p, strict=True):
        row = np.concatenate([np.ones(problem.free), x[problem.features], [y]])
        expected += 2 * own * np.outer(row, row)
    assert np.triu(problem.gram) == pytest.approx(np.triu(expected), abs=1e-12)
    assert problem.diagonal == pytest.approx(np.diag(expected), rel=1e-9)


def test_the_gram_matrix_after_many_crossings_is_that_of_a_fresh_start():
    problem, rng = GramProblem(make_stack(), 0, 0), np.random.default_rng(3)
    for _ in range(200):
        v = random_v(problem, rng, scale=1.0)
    fresh = GramProblem(make_stack(), 0, 0)
    fresh.move_to(fresh.shortfalls(v) > 0)
    assert np.triu(problem.gram) == pytest.approx(np.triu(fresh.gram), abs=1e-13)


@pytest.mark.parametrize("ridge", [0.0, 0.4])
def test_the_gram_matrix_is_computed_anew_where_a_large_trial_has_left(ridge):
    stack = make_stack(n=80, ridge=ridge)
    stack.X[0, 0, 5] *= 1e7
    problem = GramProblem(stack, 0, 0)
    inside = np.ones(len(problem.y), dtype=bool)
    assert not problem.refresh()
    inside[4] = False  # trial 3 has no weight
    problem.move_to(inside)
    left = replace(stack, sample_weight=stack.sample_weight * (np.arange(80) != 5)[:, None])
    expected = np.triu(GramProblem(left, 0, 0).gram)
    share = left.sample_weight.sum() / stack.sample_weight.sum()
    ridge_of = np.diag(np.r_[0.0, np.full(D, ridge), 0.0])
    expected = (expected - ridge_of) * share + ridge_of
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    error = np.abs(np.triu(problem.gram) - expected) / scale
    assert error.max() > 1e-6  # what is left of the large trial
    assert problem.refresh()
    assert (np.abs(np.triu(problem.gram) - expected) <= 1e-12 * scale).all()
    assert not problem.refresh()
    # the trial comes back, and leaves again
    inside = inside.copy()
    inside[4] = True
    problem.move_to(inside)
    assert not problem.refresh()
    inside = inside.copy()
    inside[4] = False
    problem.move_to(inside)
    assert problem.refresh()
    assert (np.abs(np.triu(problem.gram) - expected) <= 1e-12 * scale).all()


@pytest.mark.parametrize("size", [1e20, 1e40])
def test_trials_beyond_single_precision_are_read_in_double_precision(size):
    stack = make_stack()
    stack.X[0, 0, 7] *= size
    stack.sample_weight[0, 0, 7] = size**-2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        problem = GramProblem(stack, 0, 0)
        v = np.append(np.random.default_rng(0).standard_normal(1 + D), -1.0)
        assert (problem.shortfalls(v) > 0).tolist() == (exact_shortfalls(stack, problem, v) > 0).tolist()


def test_groups_of_infinite_weight_have_no_coordinates():
    stack = make_stack(beta=(1.0, np.inf, 1.0, np.inf))
    problem = GramProblem(stack, 0, 0)
    assert sorted(problem.features) == np.flatnonzero(np.isin(stack.groups.index, [0, 2])).tolist()
    assert problem.beta.tolist() == [1.0, 1.0]


@given(st.lists(st.booleans(), min_size=G, max_size=G).filter(any))
def test_coordinates_of_some_groups(present):
    which = np.flatnonzero(present)
    own, values = Coordinates(which, np.array(SIZES), 1), np.arange(1.0, D + 2)
    v = np.append(values, -1.0)
    label = np.repeat(np.arange(G), SIZES)
    expected = np.concatenate([values[:1], *(values[1:][label == g] for g in which)])
    assert own.of(v).tolist() == expected.tolist()
    assert own.sums(expected[1:]).tolist() == [values[1:][label == g].sum() for g in which]
    back = own.to(expected, v, 7.0)
    assert own.of(back).tolist() == expected.tolist()
    assert np.count_nonzero(back) == len(expected) + 1
    assert back[-1] == 7.0
    assert own.to_groups(own.of_groups(np.arange(G))).tolist() == np.where(present, np.arange(G), 0).tolist()


@pytest.mark.parametrize("free", [0, 1])
@pytest.mark.parametrize("absent", [[], [0], [5, 21], [29]])
def test_the_triangle_of_some_groups_has_their_blocks(monkeypatch, free, absent):
    # no number that was in memory before may stand where something is added to it later
    monkeypatch.setattr("numpy.empty", np.zeros)
    sizes, rng = np.resize([5, 9, 3], 30), np.random.default_rng(1)
    gram = rng.uniform(1, 2, (free + sizes.sum() + 1,) * 2)
    own = Coordinates(np.setdiff1d(np.arange(30), absent), sizes, free)
    found, expected = own.triangle(gram), gram[np.ix_(own.places, own.places)]
    assert len(found) > 2 * 64  # several blocks of rows
    is_known = np.zeros(found.shape, dtype=bool)
    is_known[free:, free:] = own.label[:, None] == own.label
    is_known |= np.triu(np.ones(found.shape, dtype=bool))
    assert (found[is_known] == expected[is_known]).all()
    assert (found == 0).any()


# --- steps ---


def newton_matrix(problem, place, tau):
    """M of the present groups, written out group by group."""
    own = problem.coordinates(place.norms > 0)
    symmetric = np.triu(problem.gram) + np.triu(problem.gram, 1).T
    M = symmetric[np.ix_(own.places, own.places)]
    w = place.v[own.places][problem.free :]
    for g in range(len(own.which)):
        inner = np.flatnonzero(own.label == g)
        norm = np.linalg.norm(w[inner])
        unit = w[inner] / norm
        at = np.ix_(problem.free + inner, problem.free + inner)
        M[at] += tau[own.which[g]] / norm * (np.eye(len(inner)) - np.outer(unit, unit))
    return M + problem.damping * np.diag(own.of(problem.diagonal)), own, w


@every_kind
@pytest.mark.parametrize("absent", [[], [2]])
def test_a_factor_solves_with_the_hessian_of_the_problem(kind, absent):
    problem, rng = GramProblem(make_stack(**kind), 0, 0), np.random.default_rng(4)
    problem.damping = 0.1  # so large that no solution without it agrees
    v, tau = random_v(problem, rng), 0.2 * problem.beta
    v[problem.free : -1][np.isin(problem.groups.label, absent)] = 0.0
    place = place_at(problem, v, tau)
    M, own, w = newton_matrix(problem, place, tau)
    weight = own.of_groups(tau) / own.of_groups(place.norms)
    curvature = NormCurvature(weight, weight[own.label], w / own.of_groups(place.norms)[own.label])
    right = rng.standard_normal(len(M))
    expected = np.linalg.solve(M, right)
    assert Factor(problem, own, curvature).solve(right) == pytest.approx(expected, rel=1e-8)
    # conjugate gradients with the factor of another point
    elsewhere = NormCurvature(1.1 * weight, 1.1 * weight[own.label], curvature.unit)
    found = Factor(problem, own, elsewhere).iterate(problem, curvature, right)
    error = found - expected
    assert error @ M @ error <= 1e-4 * expected @ M @ expected


def test_a_factor_is_near_for_the_same_groups_few_crossings_and_small_steps():
    stack = make_wide_stack(GRAM.least_size)
    problem = GramProblem(stack, 0, 0)
    every, some = (problem.coordinates(np.arange(stack.groups.n_groups) >= first) for first in (0, 1))
    c = np.ones(stack.groups.n_groups)
    factor = Factor(problem, every, NormCurvature(c, c[every.label], np.zeros(len(every.label))))
    assert factor.is_near(every, GRAM.near)
    assert not factor.is_near(some, GRAM.near)
    assert not factor.is_near(every, 1.01 * GRAM.near)
    factor.crossed = GRAM.most_crossed
    assert factor.is_near(every, GRAM.near)
    factor.crossed += 1
    assert not factor.is_near(every, GRAM.near)
    small = GramProblem(make_wide_stack(GRAM.least_size - 8), 0, 0)
    c = c[: len(small.beta)]
    factor = Factor(small, small.groups, NormCurvature(c, c[small.groups.label], np.zeros(len(small.features))))
    assert not factor.is_near(small.groups, GRAM.near)


def make_wide_stack(d, n=300):
    """Groups of four correlated features."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(n) % 5 == 0, 1.0, -1.0)
    X = np.cumsum(rng.standard_normal((n, d)), axis=1) / np.sqrt(d) + 0.3 * y[:, None]
    groups, ones = Groups.from_labels(np.arange(d) // 4, d), np.ones
    return Stack.single(
        X, y, sample_weight=ones((n, 1)), group_weights=ones((d // 4, 1)), groups=groups, penalty=GroupNorm(2.0)
    )


def test_trials_that_cross_are_counted_for_the_factor():
    problem = GramProblem(make_stack(n=200), 0, 0)
    follower = Descent(problem)
    follower.solve(0.02, 1e-8, 1000)
    before, inside = follower._factor.crossed, problem._inside.copy()
    inside[[3, 10, 50]] ^= True
    assert follower._count(inside) == 3
    assert follower._factor.crossed == before + 3


def test_conjugate_gradients_that_take_too_long_are_given_up():
    problem, rng = GramProblem(make_stack(), 0, 0), np.random.default_rng(5)
    v, tau = random_v(problem, rng), 0.2 * problem.beta
    own = problem.groups
    norms = norms_at(problem, v)
    unit = v[problem.free : -1] / norms[own.label]
    near, far = (NormCurvature(c, c[own.label], unit) for c in (tau / norms, 10.0 ** rng.uniform(-6, 3, G)))
    assert Factor(problem, own, far).iterate(problem, near, rng.standard_normal(1 + D)) is None


def test_a_step_near_the_solution_converges_quadratically():
    problem = GramProblem(make_stack(n=200), 0, 0)
    follower = Descent(problem)
    tau = 0.01 * problem.beta
    follower.solve(0.01, 1e-12, 1000)
    best = follower.place
    rng, errors = np.random.default_rng(6), []
    v = best.v + 1e-3 * np.append(rng.standard_normal(1 + D), 0.0) * (best.v != 0)
    place = place_at(problem, v, tau)
    for _ in range(2):
        errors.append(np.linalg.norm(place.v - best.v))
        place = newton_step(problem, place, tau, None, np.inf).place
    assert np.linalg.norm(place.v - best.v) < 1e-3 * errors[1] < 1e-6 * errors[0] ** 0.5


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.floats(0.01, 0.6))
def test_no_step_raises_the_value(seed, alpha):
    problem, rng = GramProblem(make_stack(seed % 7), 0, 0), np.random.default_rng(seed)
    tau = alpha * problem.beta
    place = place_at(problem, random_v(problem, rng, scale=3.0), tau)
    moved = newton_step(problem, place, tau, None, np.inf)
    assert moved.place.value < place.value
    assert moved.place.norms == pytest.approx(norms_at(problem, moved.place.v), abs=1e-12)
    assert moved.place.slope == pytest.approx(problem.times(moved.place.v), abs=1e-12)


def test_the_damping_falls_after_whole_steps_and_rises_after_others():
    problem, rng = GramProblem(make_stack(), 0, 0), np.random.default_rng(8)
    problem.damping = start = DAMPING / GRAM.damping_factor
    place, near = place_at(problem, random_v(problem, rng), 0.01 * problem.beta), 0.01 * problem.beta
    newton_step(problem, place, near, None, np.inf)
    assert problem.damping == pytest.approx(start / GRAM.damping_factor)
    problem.damping = start
    far = 5.0 * problem.beta  # all groups must leave: the whole step is too long
    newton_step(problem, place_at(problem, place.v, far), far, None, np.inf)
    assert problem.damping == pytest.approx(DAMPING)
    newton_step(problem, place_at(problem, place.v, far), far, None, np.inf)
    assert problem.damping == pytest.approx(DAMPING)  # no higher


def test_groups_whose_zero_a_long_step_passes_leave():
    # from far away with a large alpha all groups must leave, and a straight step of full length would not let them
    problem, rng = GramProblem(make_stack(), 0, 0), np.random.default_rng(8)
    place, tau = None, 5.0 * problem.beta
    place = place_at(problem, random_v(problem, rng), tau)
    for _ in range(4):
        if place.norms.any():
            place = newton_step(problem, place, tau, None, np.inf).place
    assert not place.norms.any()


def test_all_groups_whose_zeros_a_step_passes_may_leave_together():
    problem, rng = GramProblem(make_stack(), 0, 0), np.random.default_rng(8)
    tau, own = 5.0 * problem.beta, problem.groups
    place = place_at(problem, random_v(problem, rng), tau)
    x = own.of(place.v)
    dx = np.append(0.0, -np.array([1.2, 1.5, 2.0, 3.0])[own.label] * x[1:])  # zeros at 1/1.2 … 1/3 of the step
    found = _straight(problem, place, own, _Move(x, dx, x[1:], dx[1:], tau), tau)
    assert not found.norms.any()
    assert found.value < place.value
    assert found.value == pytest.approx(place_at(problem, found.v, tau).value, rel=1e-12)


def test_groups_enter_by_the_best_common_length():
    problem = GramProblem(make_stack(), 0, 0)
    follower = Descent(problem)
    place = follower.place
    dual_norms = problem.groups.norms(place.slope[problem.free : -1])
    tau = 0.5 * dual_norms.max() * problem.beta / problem.beta.max()
    entering = np.flatnonzero(dual_norms > tau)
    found = entered(problem, place, entering, dual_norms, tau)
    direction = found.v - place.v

    def value(s):
        return place_at(problem, place.v + s * direction, tau).value

    assert np.flatnonzero(found.norms).tolist() == entering.tolist()
    assert found.value == pytest.approx(value(1.0), rel=1e-12)
    best = minimize_scalar(value, bounds=(0, 4), method="bounded", options={"xatol": 1e-9})
    assert best.x == pytest.approx(1.0, abs=1e-4)
    assert found.value < place.value


# --- the path ---


def test_the_tangent_is_the_derivative_of_the_path():
    problem = GramProblem(make_stack(n=200), 0, 0)
    solutions = []
    for alpha in (0.02, 0.02 * (1 - 1e-5)):
        follower = Descent(problem)
        follower.solve(alpha, 1e-12, 1000)
        solutions.append(follower.place.v)
        if len(solutions) == 1:
            tangent = follower._tangent()
            problem = GramProblem(make_stack(n=200), 0, 0)
    slope = (solutions[1] - solutions[0]) / (0.02 * 1e-5)
    assert tangent == pytest.approx(slope, abs=1e-3 * np.abs(slope).max())


def predict(follower, alpha, tau, tangent):
    follower._tangent = lambda: tangent
    return follower._predict(alpha, tau)


def test_a_predicted_group_does_not_pass_its_zero():
    problem = GramProblem(make_stack(n=200), 0, 0)
    follower, tau = Descent(problem), 0.01 * problem.beta
    follower.solve(0.02, 1e-10, 1000)
    before, first = follower.place.v, np.r_[False, problem.groups.label == 0, False]
    change = np.where(first, -1.5 * before, 0.1 * before)
    change[-1] = 0.0
    assert predict(follower, 0.01, tau, change / 0.01)
    expected = np.where(first, before, before + change)
    assert follower.place.v == pytest.approx(expected, rel=1e-12)
    assert follower.place.norms == pytest.approx(norms_at(problem, expected), rel=1e-12)
    assert follower.place.slope == pytest.approx(problem.times(expected), rel=1e-12)
    # every trial inside the margin there is counted, and no other that was not inside before
    inside, was_inside = (problem.shortfalls(v) > 0 for v in (expected, before))
    assert (problem._inside >= inside).all()
    assert (problem._inside <= (inside | was_inside)).all()


def test_two_points_in_turn_are_given_up(monkeypatch):
    problem = GramProblem(make_stack(n=60), 0, 0)
    follower, tau = Descent(problem), 0.02 * problem.beta
    follower.solve(0.02, 1e-8, 1000)
    better, worse = (place_at(problem, size * follower.place.v, tau) for size in (1.0, 1 + 1e-5))
    factor = follower._factor
    points = [better, worse] * 500
    monkeypatch.setattr(descent, "newton_step", lambda *_: Moved(points.pop(), factor, 1e-12))
    monkeypatch.setattr(follower, "_check", lambda *_: None)
    follower._alpha = 0.02  # without a prediction
    assert worse.value > better.value
    assert follower._descend(0.02, 0.0, 1000) <= 2 * HOST.patience


@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_a_check_that_finds_a_higher_value_steps_back(ridge):
    stack = make_stack(n=60, ridge=ridge)
    problem = GramProblem(stack, 0, 0)
    follower, tau = Descent(problem), 0.02 * problem.beta
    follower.solve(0.02, 1e-8, 1000)
    before = Place.of(*follower.place[:3], tau)
    towards = np.append(0.1 * np.random.default_rng(0).standard_normal(1 + D), 0.0)
    start = before.v - towards  # from here the best point on the line is near the middle
    known = in_words_of_the_reference(stack, 0.02)

    def value(length):
        w, b = model_of(problem, start + length * towards)
        return objective(w=w, b=b, **known)

    follower.place = place_at(problem, start, tau)
    follower._check(follower.place._replace(value=np.inf), tau)
    first, follower.place = follower.place, place_at(problem, start + 40 * towards, tau)
    follower._check(first, tau)
    best = minimize_scalar(value, bounds=(0, 40), method="bounded", options={"xatol": 1e-9})
    length = (follower.place.v - start) @ towards / (towards @ towards)
    assert length == pytest.approx(best.x, abs=1e-4)
    assert follower.place.v == pytest.approx(start + length * towards, abs=1e-12)
    assert follower.place.value == pytest.approx(best.fun, rel=1e-9)
    assert (follower._short == problem.shortfalls(follower.place.v)).all()  # in double precision near the margin


@pytest.mark.parametrize("size", [0.5, 0.9, 1.0, 1.3])
def test_the_gap_is_no_better_than_the_intercept(size):
    """Without regard for the intercept, the gradients of both add up to a gap of zero at some points."""
    problem = GramProblem(make_stack(n=200), 0, 0)
    follower, tau = Descent(problem), 0.2 * problem.beta
    follower.solve(0.2, 1e-10, 1000)
    best = follower.place
    for shift in np.linspace(-0.5, 0.5, 201):
        v = np.r_[best.v[0] + shift, size * best.v[1:-1], -1.0]
        problem.move_to(problem.shortfalls(v) > 0)
        follower.place = place_at(problem, v, tau)
        assert follower._gap(tau, follower._dual_norms()) >= 1 - best.value / follower.place.value - 1e-9


def test_groups_enter_where_they_gain_enough_or_the_present_ones_have_settled():
    problem = GramProblem(make_stack(n=200), 0, 0)
    follower = Descent(problem)
    follower.solve(0.3, 1e-10, 1000)
    dual_norms, absent = follower._dual_norms(), follower.place.norms == 0
    (one,) = np.flatnonzero(absent)[:1]
    for excess in (0.5, 1e-3, 1e-8):
        tau = np.where(np.arange(G) == one, (1 - excess) * dual_norms, dual_norms)
        follower.place = place_at(problem, follower.place.v, tau)
        # what its proximal step of length 1/trace gains at least, as a share of the value
        gain = 0.5 * (excess * dual_norms[one]) ** 2 / problem.trace[one] / follower.place.value
        for decrease in (0.9 * GRAM.entry * gain, 1.1 * GRAM.entry * gain, 0.9 * GRAM.settled, 1.1 * GRAM.settled):
            enters = decrease <= max(GRAM.entry * gain, GRAM.settled)
            assert follower._entering(dual_norms, tau, decrease).tolist() == ([one] if enters else [])


def nothing_yet(A):
    return Reached(np.zeros((A, 1, 1, D, 1)), np.zeros((A, 1, 1, 1)), np.zeros((A, 1, 1), dtype=np.int64))


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("ridge", [0.0, 0.1])
@pytest.mark.parametrize("beta", [(1.0, 0.7, 1.3, 1.0), (1.0, np.inf, 0.5, 1.0)])
def test_paths_agree_with_the_convex_solver(fit_intercept, ridge, beta):
    stack = make_stack(3, fit_intercept=fit_intercept, ridge=ridge, beta=beta)
    alphas = np.geomspace(0.5, 0.002, 6)
    reached = nothing_yet(6)
    assert path.follow(stack, (0, 0), alphas, Limits(1e-10, 1000), reached) == 6
    for place, alpha in enumerate(alphas):
        known = in_words_of_the_reference(stack, alpha)
        found = objective(w=reached.W[place, 0, 0, :, 0], b=reached.b[place, 0, 0, 0], **known)
        best, _, _ = convex_reference(**known, fit_intercept=fit_intercept)
        assert found <= best * (1 + 1e-7)


def eeg_like(seed, n=150, sensors=6, samples=4):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 5 == 0, 1.0, -1.0)
    X = np.cumsum(rng.standard_normal((n, sensors, samples)), axis=2) + 0.7 * rng.standard_normal((n, 1, samples))
    X[y > 0, :3] += 0.8
    return X, y


def on_the_host(monkeypatch, call):
    """The result with the host engine alone."""
    with monkeypatch.context() as patch:
        patch.setattr(host_solver, "is_small", lambda *_: False)
        return call()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([1e-4, 1e-6, 1e-9]), st.booleans(), st.sampled_from([0.0, 1e-3]))
def test_both_engines_find_the_same_path(seed, tol, weighted, ridge):
    X, y = eeg_like(seed, n=60 + seed % 100)
    weight = np.random.default_rng(seed).choice([0.0, 1.0, 2.5], len(y)) if weighted else None

    def call():
        return group_svc_path(X, y, tol=tol, sample_weight=weight, ridge=ridge, alphas=8)

    with pytest.MonkeyPatch.context() as patch:
        other = on_the_host(patch, call)
    found = call()
    assert found.dual_gaps.max() <= tol
    assert found.objectives == pytest.approx(other.objectives, rel=2 * tol)


def test_a_path_that_begins_far_from_alpha_max(monkeypatch):
    X, y = eeg_like(1)
    top = group_svc_path(X, y, alphas=1).alphas[0]

    def call():
        return group_svc_path(X, y, alphas=top * np.array([1e-3, 3e-4, 1e-4, 3e-5, 1e-5]))

    found, other = call(), on_the_host(monkeypatch, call)
    assert found.dual_gaps.max() <= 1e-6
    assert found.objectives == pytest.approx(other.objectives, rel=2e-6)


@pytest.mark.parametrize("seed", [0, 3])
def test_few_trials_inside_the_margin_take_as_many_steps_as_on_the_host(monkeypatch, seed):
    """They took five times as many: of the groups that entered at once, most had to leave again."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(150) % 6 == 0, 1.0, -1.0)
    sources, sensors = np.linspace(0, 1, 200)[:, None], np.linspace(0, 1, 64)
    background = rng.standard_normal((2, 150, 200)) @ np.exp(-(((sources - sensors) / 0.1) ** 2)) / 4
    X = (background + 0.3 * rng.standard_normal((2, 150, 64))).transpose(1, 2, 0)
    X[y > 0, :8] += 0.4
    found = group_svc_path(X, y)
    other = on_the_host(monkeypatch, lambda: group_svc_path(X, y))
    assert found.n_iters.sum() <= 1.5 * other.n_iters.sum()
    assert found.dual_gaps.max() <= 1e-6


@pytest.mark.parametrize("seed", [1, 4])
def test_a_large_artefact_that_leaves_the_margin_costs_no_digits(monkeypatch, seed):
    """K kept its rounding errors, so that the host engine had to solve later alphas again."""
    X, y = eeg_like(seed, n=400, sensors=8)
    X[7] *= 1e5
    top = group_svc_path(X, y, alphas=1).alphas[0]
    again = []
    monkeypatch.setattr(host_solver, "_resume", lambda *args: again.append(args))
    found = group_svc_path(X, y, alphas=top * np.geomspace(1, 1e-6, 10), tol=1e-7)
    assert not again
    assert found.dual_gaps.max() <= 1e-7


def test_alphas_of_no_sensor_and_equal_alphas():
    X, y = eeg_like(2)
    top = group_svc_path(X, y, alphas=1).alphas[0]
    found = group_svc_path(X, y, alphas=top * np.array([3.0, 1.0, 1.0, 0.1, 0.1, 2.0]))
    assert not found.coefs[[0, 1, 2, 5]].any()
    assert found.coefs[3].any()
    assert found.dual_gaps.max() <= 1e-6


def count_calls(monkeypatch, owner, name):
    """The list of arguments of every call of a function."""
    called, function = [], getattr(owner, name)

    def counting(*args):
        called.append(args)
        return function(*args)

    monkeypatch.setattr(owner, name, counting)
    return called


def stall_at(monkeypatch, number):
    """Let the engine stop after one step, far from the solution, from the alpha of this number on."""
    solve, n_before = Descent.solve, []

    def stalling(self, alpha, tol, max_iter):
        n_before.append(alpha)
        return solve(self, alpha, tol, max_iter if len(n_before) <= number else 1)

    monkeypatch.setattr(Descent, "solve", stalling)


@pytest.mark.parametrize("number", [0, 3, 12])
def test_the_host_goes_on_from_the_first_alpha_that_is_not_solved(monkeypatch, number):
    X, y = eeg_like(3)
    top = group_svc_path(X, y, alphas=1).alphas[0]
    alphas = 0.9 * top * np.geomspace(1, 1e-3, 20)
    expected = on_the_host(monkeypatch, lambda: group_svc_path(X, y, alphas=alphas))
    stall_at(monkeypatch, number)
    gone_on, again = (count_calls(monkeypatch, host_solver, name) for name in ("_go_on", "_resume"))
    starts = count_calls(monkeypatch, host_solver.Problem, "approach")
    found = group_svc_path(X, y, alphas=alphas)
    assert [args[3] for args in gone_on] == [number]
    before = found.coefs[number - 1] if number else np.zeros(X[0].size)  # the last solution, or the zero model
    assert starts[0][2].W[0] == pytest.approx(before, rel=1e-9, abs=1e-12)
    assert starts[0][2].b[0] == pytest.approx(found.intercepts[number - 1] if number else 0.0, rel=1e-6)
    assert not again  # one path, not one fit for every alpha
    assert found.dual_gaps.max() <= 1e-6
    assert found.objectives == pytest.approx(expected.objectives, rel=2e-6)
    assert found.n_iters[number] > 1  # the step in vain, and those of the host
    assert found.n_iters.sum() <= 1.3 * expected.n_iters.sum()


def test_only_the_problems_that_are_not_solved_go_on(monkeypatch):
    """Of two folds of two data sets, one that is left after three alphas changes nothing about the others."""
    stack, alphas = two_folds_of_two_sets(), np.geomspace(0.3, 1e-3, 8)[:, None, None] * np.ones((2, 2))
    expected = host_solver.Newton().path(stack, alphas, 1e-6, 1000)
    alone = on_the_host(monkeypatch, lambda: host_solver.Newton().path(stack, alphas, 1e-6, 1000))
    follow, left = host_solver.follow, (1, 0)

    def leaving(stack, key, alphas, *rest):
        return follow(stack, key, alphas[:3] if key == left else alphas, *rest)

    monkeypatch.setattr(host_solver, "follow", leaving)
    gone_on = count_calls(monkeypatch, host_solver, "_go_on")
    starts = count_calls(monkeypatch, host_solver.Problem, "approach")
    found = host_solver.Newton().path(stack, alphas, 1e-6, 1000)
    assert [(args[2], args[3]) for args in gone_on] == [(left, 3)]
    assert expected[2].W[1, 0, :, 0].any()
    assert starts[0][2].W[0] == pytest.approx(expected[2].W[1, 0, :, 0], rel=1e-9, abs=1e-12)
    for place, (one, other, third) in enumerate(zip(found, expected, alone, strict=True)):
        for i, k in np.ndindex(2, 2):
            if (i, k) != left or place < 3:
                assert (one.W[i, ..., k] == other.W[i, ..., k]).all()
                assert one.n_iter[i, k] == other.n_iter[i, k]
        assert one.objective == pytest.approx(third.objective, rel=2e-6)
        assert one.gap.max() <= 1e-6


def two_folds_of_two_sets():
    sets = [eeg_like(seed) for seed in (3, 4)]
    X, y = (np.stack(parts)[:, None] for parts in zip(*sets, strict=True))
    s = np.ones((2, 1, X.shape[2], 2))
    s[..., ::2, 0] = s[..., 1::2, 1] = 0.0
    sensors, times = X.shape[3:]
    ones, zeros, weights = np.ones((2, 2)), np.zeros((2, 2)), np.ones((2, sensors, 2))
    groups = Groups.from_channels(range(sensors), times)
    return Stack(X.reshape(*X.shape[:3], -1), y, s, ones, weights, zeros, groups, GroupNorm(2.0))


@pytest.mark.parametrize("share", [1e-4, 1e-5, 1e-6, 1e-7])
def test_a_class_of_little_weight_takes_about_as_many_steps_as_on_the_host(monkeypatch, share):
    """Small values have few digits in the Gram matrix: every alpha was solved in vain, then again from zero."""
    X, y = eeg_like(0, n=300, sensors=12)
    weight = np.where(y > 0, share, 1.0)

    def call():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return group_svc_path(X, y, sample_weight=weight)

    other = on_the_host(monkeypatch, call)
    again = count_calls(monkeypatch, host_solver, "_resume")
    found = call()
    assert found.n_iters.sum() <= 1.3 * other.n_iters.sum()
    assert len(again) <= 1 or other.dual_gaps.max() > 1e-6
    assert found.dual_gaps.max() <= max(1e-6, 1.1 * other.dual_gaps.max())


def test_rounding_is_that_of_the_largest_matrix_since_it_was_computed():
    problem = GramProblem(make_stack(), 0, 0)
    with_all = problem.rounding
    assert with_all == pytest.approx(2.0**-47 * 2)  # twice the sum of the relative weights
    problem.move_to(np.arange(len(problem.y)) < 5)
    assert problem.gram[-1, -1] < 1
    assert problem.rounding == with_all


def test_the_gap_is_that_of_the_last_place(monkeypatch):
    """Also where the last step was not followed by a check."""
    follower = Descent(GramProblem(make_stack(n=200), 0, 0))
    follower.solve(0.3, 1e-8, 1000)
    assert 0 < np.count_nonzero(follower.place.norms) < G
    # others enter, and then no step is possible
    monkeypatch.setattr(descent, "newton_step", lambda problem, place, *_: Moved(place, follower._factor, 1.0))
    follower._factor = None  # no tangent
    follower.solve(0.01, 1e-8, 1000)
    assert follower.gap == follower._gap(0.01 * follower._problem.beta, follower._dual_norms())


@pytest.mark.parametrize("value, is_left", [(5e-10, True), (5e-8, True), (5e-7, False)])
def test_values_with_too_few_digits_are_left_to_the_host_at_once(value, is_left):
    """Rounding is 1.4e-14 of the terms that add up to the value; a tenth of the gap to reach is the limit."""
    stack = make_stack()
    positive, s = stack.y[0, 0] > 0, stack.sample_weight[0, 0, :, 0]
    s[positive] *= value / 4 * s[~positive].sum() / s[positive].sum()  # the zero model has the value 4 p₊ p₋
    reached = nothing_yet(3)
    solved = path.follow(stack, (0, 0), value * np.array([0.1, 0.01, 0.001]), Limits(1e-6, 1000), reached)
    assert bool(reached.n_iter.any()) is not is_left
    assert not (is_left and solved)


@pytest.mark.parametrize("tol, share", [(1e-11, 1.0), (1e-6, 1e-4), (1e-6, 1e-5)])
def test_steps_within_rounding_are_taken(monkeypatch, tol, share):
    """Values say nothing where the tolerance is strict or the value is small, but the steps are right."""
    X, y = eeg_like(0, n=600, sensors=16)
    gone_on = count_calls(monkeypatch, host_solver, "_go_on")
    assert group_svc_path(X, y, tol=tol, sample_weight=np.where(y > 0, share, 1.0)).dual_gaps.max() <= tol
    assert not gone_on


@pytest.mark.parametrize(
    "seed, why",
    [
        (17591, "all trials that were expected inside have left"),
        (20586, "all trials that were expected inside have left"),
        (14182, "the intercept takes trials across the margin"),
        (32371, "two points in turn, of nearly the same value"),
    ],
)
def test_few_trials_in_two_copies_take_few_steps(monkeypatch, seed, why):
    """They ended in an error, or took hundreds of steps."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(6, 17))
    n = int(max(10, d * rng.choice([0.5, 0.7, 1])))
    X, y, rows = np.cumsum(rng.standard_normal((n, d)), 1), rng.choice([-1, 1], n), rng.integers(0, n, n)
    groups = np.arange(d) // 2 if seed % 2 else np.r_[0, np.arange(d - 1)]

    def call():
        return group_svc_path(X[rows], y[rows], groups=groups, alphas=5)

    found, other = call(), on_the_host(monkeypatch, call)
    assert found.n_iters.sum() <= 1.5 * other.n_iters.sum()
    assert found.dual_gaps.max() <= 1e-6
    assert found.objectives == pytest.approx(other.objectives, rel=2e-6)


def test_max_iter_limits_the_steps(monkeypatch):
    X, y = eeg_like(3)
    gone_on = count_calls(monkeypatch, host_solver, "_go_on")
    with pytest.warns(match="max_iter"):
        found = group_svc_path(X, y, max_iter=2)
    assert found.n_iters.max() == 2
    assert not gone_on  # the host would have no steps left
    stall_at(monkeypatch, 3)
    with pytest.warns(match="max_iter"):
        found = group_svc_path(X, y, max_iter=2)
    assert gone_on
    assert found.n_iters.max() == 2  # of both engines together


def test_sensors_without_signal_are_never_selected():
    X, y = eeg_like(4)
    X[:, 5] = 0.0
    found = group_svc_path(X, y)
    assert not found.coefs.reshape(20, 6, 4)[:, 5].any()
    assert found.dual_gaps.max() <= 1e-6


def test_cross_validation_makes_the_same_choices(monkeypatch):
    X, y = eeg_like(5, n=240)

    def call():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return GroupSVCCV(adaptive=True).fit(X, y)

    found, other = call(), on_the_host(monkeypatch, call)
    assert found.alpha_ == pytest.approx(other.alpha_, rel=1e-4)  # the grid follows from the first stage
    assert found.selected_groups_.tolist() == other.selected_groups_.tolist()
    assert found.scores_ == pytest.approx(other.scores_, abs=2e-3)


# --- which paths are solved here ---


def test_paths_of_small_problems_begin_here(monkeypatch):
    called = count_calls(monkeypatch, host_solver, "follow")
    X, y = eeg_like(6)
    group_svc_path(X, y)
    assert len(called) == 1


def test_which_problems_are_small():
    stack = make_stack()
    assert is_small(stack, 20)
    assert not is_small(stack, 1)
    single = replace(stack, groups=Groups.from_labels(np.arange(D), D), group_weights=np.ones((1, D, 1)))
    assert not is_small(single, 20)
    assert not is_small(replace(stack, penalty=L2()), 20)
    assert not is_small(replace(stack, penalty=L1()), 20)
    assert not is_small(replace(stack, penalty=GroupNorm(1.5)), 20)
    assert not is_small(make_stack(beta=(0.0, 1.0, 1.0, 1.0)), 20)
    assert not is_small(make_stack(beta=(np.inf,) * G), 20)
    assert not is_small(replace(stack, center=np.zeros((1, 1, D, 1))), 20)
    assert not is_small(replace(stack, metric=DenseMetric(np.eye(D)[None, None])), 20)
    two = [np.concatenate([array, array], axis=1) for array in (stack.X, stack.y, stack.sample_weight)]
    assert not is_small(replace(stack, X=two[0], y=two[1], sample_weight=two[2]), 20)
    few = [array[:, :, :4] for array in (stack.X, stack.y, stack.sample_weight)]
    assert not is_small(replace(stack, X=few[0], y=few[1], sample_weight=few[2]), 20)
