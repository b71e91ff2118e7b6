"""Newton's method on one problem with sensors and windows, from the zero model or from the solution before."""

import numpy as np

from mixnorm.core.crossed_groups import shrink
from mixnorm.solvers.newton.rules import is_given_up, is_progress, next_alpha, number_to_enter, stiffness
from mixnorm.solvers.newton.tuning import ASKING, HOST, INNER_STEPS, CoarsePath
from mixnorm.solvers.newton.windows.problem import Look, Point, Problem
from mixnorm.solvers.newton.windows.step import newton_step

#: Lengths that are tried for a step by which sensors and windows enter, and the share of the best that will do.
_LENGTHS, _NEAR_ENOUGH = 20, 0.8


def approach(problem: Problem, point: Point, max_iter: int, path: CoarsePath = HOST.coarse) -> tuple[Point, int]:
    """From the zero model go down a coarse path to near alpha; return the point and the steps."""
    if point.w.any():
        return point, 0
    alpha, problem.alpha = problem.alpha, 1.0
    top = problem.look(point).excess  # at alpha = 1 the dual norm of z is alpha_max
    steps, current = 0, next_alpha(np, alpha, top, path.ratio)
    while current > alpha and steps < max_iter:
        problem.alpha = float(current)
        point, taken = solve(problem, point, path.gap, max_iter - steps)
        steps += taken
        current = next_alpha(np, alpha, current, path.ratio)
    problem.alpha = alpha
    return point, steps


def solve(problem: Problem, point: Point, tol: float, max_iter: int) -> tuple[Point, int]:
    """Descend until the estimated relative gap is at most tol; return the point and the number of steps."""
    steps, looks, waited, least_gap, best = 0, 0, 0, np.inf, (np.inf, point)
    while True:
        seen = problem.look(point)
        point = seen.point
        waited = 0 if is_progress(seen.gap, least_gap, seen.value, best[0], True) else waited + 1
        least_gap = min(least_gap, seen.gap)
        best = min(best, (seen.value, point), key=lambda pair: pair[0])
        asks = seen.excess > 1 + ASKING
        # a zero model is only taken where nothing asks to enter, however little it would bring
        if seen.gap <= tol and (looks > 0 or not asks):
            return point, steps
        if steps >= max_iter or is_given_up(waited, True, HOST):
            return best[1], steps
        value = seen.value
        if asks and (looks > 0 or not point.w.any()):
            point, value = _enter(problem, seen)
        taken, point = _inner(problem, point, value, max(0.1 * tol, 0.05 * seen.gap), max_iter - steps)
        steps += max(taken, 1)
        looks += 1


def _inner(problem: Problem, point: Point, value: float, tol: float, max_iter: int) -> tuple[int, Point]:
    """Newton steps on what is present until the predicted decrease is below tol of the value."""
    most = min(INNER_STEPS, max_iter)
    for step in range(most):
        if not point.w.any():
            return step, point
        moved = newton_step(problem, point, value)
        if moved is None:
            return step, point
        point, value = moved.point, moved.value
        if moved.decrease <= tol * value:
            return step + 1, point
    return most, point


def _enter(problem: Problem, seen: Look) -> tuple[Point, float]:
    """Proximal step of all sensors and windows, of which only a few may enter; return the point and its value.

    The step minimises the model ½ Σ_s ω_s ‖w_s − w_s⁰‖² − ⟨z, w⟩ + Ω(w), ω_s a share of the trace of the Hessian; its
    direction is one of descent, and its length is searched for.
    """
    point, penalty = seen.point, problem.penalty
    omega = np.maximum(problem.trace, 1e-300) / HOST.gamma
    omega = omega * stiffness(problem.ridge / 2, problem.metric_trace, np.maximum(problem.trace, 1e-300))
    forward = omega[problem.row] * point.w + seen.descent
    m = penalty.cell_norms(forward)
    m, kept = _few_at_once(problem, m, penalty.cell_norms(point.w), omega[:, None])
    return _along(problem, point, penalty.scaled(forward, m, kept) - point.w)


def _few_at_once(
    problem: Problem, m: np.ndarray, before: np.ndarray, omega: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Shrink cells m (S, K), but let only a few absent sensors enter; return the cells that took part, and the result.

    Many that enter together must mostly leave again. As many more are let in as it takes for anything to enter at all:
    a window may need several sensors.
    """
    rows, columns = problem.penalty.divided(problem.threshold)
    kept = shrink(m, rows, columns, omega)
    present = before.any(axis=1) | (rows == 0)
    new = np.flatnonzero(kept.any(axis=1) & ~present)
    new = new[np.argsort(-np.sqrt(np.sum(kept[new] ** 2, axis=1)) * omega[new, 0], kind="stable")]
    most = int(number_to_enter(np, HOST.entry_limit(len(problem.y) / problem.Z.shape[1]), present.sum()))
    while len(new) > most:
        fewer = m.copy()
        fewer[new[most:]] = 0.0
        shrunk = shrink(fewer, rows, columns, omega)
        entered = (shrunk.any(axis=1) & ~present).any() or (shrunk.any(axis=0) & ~before.any(axis=0)).any()
        if entered:
            return fewer, shrunk
        most *= 2
    return m, kept


def _along(problem: Problem, point: Point, direction: np.ndarray) -> tuple[Point, float]:
    """The lowest point along a direction of descent, nearly, and its value.

    By slopes, not by values: what asks to enter by a share of 1e-6 lowers the value by less than its rounding.
    """
    change = problem.Z @ direction

    def at(length: float) -> Point:
        return Point(point.w + length * direction, point.b, point.Zw + length * change)

    length, low, high = 1.0, 0.0, np.inf
    for _ in range(_LENGTHS):
        if problem.slope(at(length), direction, change) > 0:
            high = length
        else:
            low = length
        if low > _NEAR_ENOUGH * high:
            break
        length = 2 * length if np.isinf(high) else (low + high) / 2
    moved = at(low if low > 0 else length)
    return moved, problem.value(moved)
