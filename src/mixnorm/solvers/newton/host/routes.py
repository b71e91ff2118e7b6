"""The Newton step of one problem from its linear system, by whichever route is cheapest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mixnorm.solvers.newton.host.kept import Kept
from mixnorm.solvers.newton.host.metric_system import DenseMetricBlock, KroneckerBlock, solve_with_metric
from mixnorm.solvers.newton.host.single_system import SingleBlock, SingleTrialBlock
from mixnorm.solvers.newton.host.state import Active
from mixnorm.solvers.newton.host.system import (
    Bend,
    Curvature,
    DenseBlock,
    TrialBlock,
    solve_subjects,
    solve_together,
)
from mixnorm.solvers.newton.tuning import (
    KEPT_FROM,
    KEPT_NEAR,
    THROUGH_FACTORS,
    THROUGH_TRIALS,
    THROUGH_TRIALS_OF_SUBJECTS,
)

if TYPE_CHECKING:
    from mixnorm.solvers.newton.host.descent import Problem


def direction(
    problem: Problem, active: Active, inside: np.ndarray, bend: Bend, residual: np.ndarray, value: float
) -> tuple[np.ndarray, float]:
    """The Newton step (T, free + m), and the decrease that it predicts."""
    kept = problem.kept
    if kept is not None and kept.serves(active, bend.tau, inside):
        found = kept.again(inside, problem.p, residual)
        if found is not None:
            step, problem.kept = found
            return step, problem.kept.decrease
    curvature, problem.kept = bend.curvature, None
    block = _block(problem, active, inside, curvature) if len(residual) == 1 else None
    if curvature.scale is active.unscaled and active.is_full:
        step = -_solve(problem, active, inside, curvature, block, residual)
    else:
        scale = np.concatenate([np.ones((len(residual), problem.hessian.n_free)), curvature.scale], axis=1)
        step = -scale * _solve(problem, active, inside, curvature, block, scale * residual)
    decrease = -float(np.vdot(residual, step))
    # For 1 < q < 2 the matrix is that of scaled coordinates, and the scale changes from step to step.
    is_worth = residual.size >= KEPT_FROM or decrease <= KEPT_NEAR * value
    is_kept = (is_worth or problem.enters_precisely) and problem.q in (1.0, 2.0) and problem.metric is None
    if block is not None and is_kept:
        problem.kept = Kept(block, active, inside, bend.tau, decrease, is_worth)
    return step, decrease


def _block(problem: Problem, active: Active, inside, curvature: Curvature) -> SingleBlock | SingleTrialBlock | None:
    """One subject's Newton matrix, factorised by whichever route is cheaper; None: by the factors of its metric."""
    m, trials = len(active.features) + problem.hessian.n_free, inside[0]
    n, has_metric = np.count_nonzero(trials), problem.metric is not None and problem.own_curvature > 0
    if not has_metric and m > THROUGH_TRIALS * n and problem.q > 1:
        return SingleTrialBlock(active.trials(0, trials), problem.p[0, trials], curvature)
    if has_metric and problem.factors is not None and m > THROUGH_FACTORS * n:
        return None
    return SingleBlock(lambda: _hessians(problem, active, inside)[0], curvature, active.pairs)


def _solve(problem: Problem, active: Active, inside, curvature: Curvature, block, rhs: np.ndarray) -> np.ndarray:
    """Solve the Newton system by whichever route is cheapest; ``block``: its matrix, where that is factorised."""
    if block is not None:
        return block.solve(rhs.T).T
    if len(rhs) > 1:
        return _solve_coupled(problem, active, inside, curvature, rhs)
    return _solve_by_factors(problem, active, inside, curvature, rhs)


def _hessians(problem: Problem, active: Active, inside) -> np.ndarray:
    """Hessians of the loss, plus (2 similarity + ridge) N_t where there is a metric, (T, free + m, free + m).

    Without what is below the diagonal.
    """
    H, free = problem.hessian.upper(inside, active.columns), problem.hessian.n_free
    if problem.metric is not None and problem.own_curvature:
        H[:, free:, free:] += problem.own_curvature * problem.metric.gram(active.features)[0]
    return H


def _solve_coupled(problem: Problem, active: Active, inside, curvature: Curvature, rhs: np.ndarray) -> np.ndarray:
    """Solve the Newton system of several subjects by whichever route is cheapest."""
    own = list(zip(curvature.scale, curvature.diagonal, strict=True))
    m = rhs.shape[1]
    N, n = inside.sum(), inside.sum(axis=1).max()
    if problem.metric is not None:
        return _solve_with_metric(problem, active, inside, curvature, rhs)
    by_features = m > THROUGH_TRIALS_OF_SUBJECTS * n and problem.q > 1
    if not by_features:
        dense = [DenseBlock(H, *mine) for H, mine in zip(_hessians(problem, active, inside), own, strict=True)]
        return solve_subjects(dense, curvature, rhs)
    rows = [active.trials(t, used) for t, used in enumerate(inside)]
    weights = [p[used] for p, used in zip(problem.p, inside, strict=True)]
    # Through all trials at once N² m + N³/3; subject by subject 4 N m² and m³/3 for what couples them.
    if curvature.similarity > 0 and N * N * (m + N / 3) < m * m * (4 * N + m / 3):
        return solve_together(rows, weights, curvature, rhs)
    blocks = [TrialBlock(*trials, *mine) for trials, mine in zip(zip(rows, weights, strict=True), own, strict=True)]
    return solve_subjects(blocks, curvature, rhs)


def _solve_with_metric(problem: Problem, active: Active, inside, curvature: Curvature, rhs: np.ndarray) -> np.ndarray:
    """Solve the Newton system of several subjects compared by a metric, by whichever route is cheaper."""
    d, m, n = problem.X.shape[2], rhs.shape[1], inside.sum(axis=1).max()
    if problem.factors is not None and n * (n * (m + d) + d * d) < m * (m * m / 3 + m * d + d * d):
        return _solve_by_factors(problem, active, inside, curvature, rhs)
    assert problem.metric is not None  # the caller has looked
    parts = zip(
        _hessians(problem, active, inside),
        curvature.scale,
        curvature.diagonal,
        problem.metric.columns(active.features)[0],
        strict=True,
    )
    return solve_with_metric([DenseMetricBlock(*part) for part in parts], curvature, rhs, (d, 1))


def _solve_by_factors(problem: Problem, active: Active, inside, curvature: Curvature, rhs: np.ndarray) -> np.ndarray:
    """Solve the Newton system by the factors of the metric, coordinates put in order sensor by sensor."""
    assert problem.factors is not None  # the caller has looked
    free, layout = problem.hessian.n_free, problem.factors.layout
    places = np.empty(layout.size, dtype=int)
    places[active.features] = np.arange(len(active.features))
    order = places[layout[active.which]].ravel()
    whole = np.concatenate([np.arange(free), free + order])
    names = ("scale", "diagonal", "direction", "group")
    ordered = curvature._replace(**{name: getattr(curvature, name)[:, order] for name in names})
    blocks = []
    for t, used in enumerate(inside):
        factors = problem.factors.of_subject(t, active.which)
        rows, p = active.trials(t, used)[whole], problem.p[t, used]
        own = ordered.diagonal[t, :: layout.shape[1]]
        blocks.append(KroneckerBlock(factors, own, problem.own_curvature, rows, 2 * p))
    solved = np.empty_like(rhs)
    if curvature.similarity > 0:
        solved[:, whole] = solve_with_metric(blocks, ordered, rhs[:, whole], layout.shape)
    else:  # no mean couples the subjects
        solved[:, whole] = solve_subjects(blocks, ordered, rhs[:, whole])
    return solved
