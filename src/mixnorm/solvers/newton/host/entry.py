r"""Which atoms enter, and where they begin: by a proximal step or, on large problems, at a minimum.

With v minus the gradient and H the Hessian of the loss, the groups that enter minimise

    ½ w'H w − v'w + Σ_g τ_g ‖w_g‖

by a few sweeps over the groups. One group's minimum is 0 where what the others leave of v_g is inside its ball,
‖v_g‖ ≤ τ_g; else w_g = (H_gg + τ_g/ρ)⁻¹ v_g, whose norm ρ solves one equation in one unknown.

The groups that are present adapt meanwhile, if their last Newton matrix M is at hand. With r their gradient they move
by −M⁻¹(r + H₁₂ w), and v + H₂₁ M⁻¹ r and H₂ − H₂₁ M⁻¹ H₁₂ take the place of v and H. Else they are held.

A proximal gradient step goes along v_g, where H is largest and the least can be gained. After it, Newton's method
takes several steps to turn a small group, and of many that enter together most leave again; here they do not even
enter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mixnorm.solvers.newton.host.kept import Kept
from mixnorm.solvers.newton.host.line import least_ahead
from mixnorm.solvers.newton.host.single_system import Beside, SingleTrialBlock
from mixnorm.solvers.newton.host.state import Level, Look, Point, Position
from mixnorm.solvers.newton.rules import asks_to_enter, number_to_enter
from mixnorm.solvers.newton.tuning import ALIKE, HOST

if TYPE_CHECKING:
    from mixnorm.solvers.newton.host.descent import Problem

#: Sweeps over the groups, and iterations for the norm of one: more save no Newton step.
_SWEEPS, _ITERATIONS = 2, 3
#: Lengths of a joint step of entering and present groups that are tried: where none will do, a proximal step will.
_LENGTHS = (1.0, 0.5, 0.25)


def entering_atoms(problem: Problem, present: np.ndarray, dual_norms: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """Return the absent atoms that enter: of those whose gradient asks for it a few, the largest first.

    Many that enter together must mostly leave again, the more so the fewer trials there are; with ℓ1, where nothing
    ties neighbours together, only those may enter that do not resemble each other.
    """
    if not problem.penalty.is_norm:
        return np.empty(0, dtype=int)
    outside = np.flatnonzero(~present & asks_to_enter(dual_norms, tau))
    if not len(outside):
        return outside
    asking = outside[np.argsort(-dual_norms[outside] / tau[outside], kind="stable")]
    if problem.q > 1:
        limit = HOST.entry_limit(problem.X.shape[1] / problem.X.shape[2])
        return asking[: int(number_to_enter(np, limit, present.sum()))]
    return _unlike(problem, asking if problem.is_tiny else asking[: HOST.coefficients_at_once])


def _unlike(problem: Problem, coefficients: np.ndarray) -> np.ndarray:
    """Those of some coefficients, in order, that resemble none before them: columns of low correlation."""
    subject, feature = np.divmod(coefficients, problem.X.shape[2])
    columns = problem.X[subject, :, feature] * np.sqrt(problem.p[subject])
    columns /= np.maximum(np.linalg.norm(columns, axis=1, keepdims=True), 1e-300)
    alike = (np.abs(columns @ columns.T) > ALIKE).tolist()
    kept: list[int] = []
    for place, own in enumerate(alike):
        if not any(own[other] for other in kept):
            kept.append(place)
    return coefficients[kept]


def enter(problem: Problem, look: Look, entering: np.ndarray, level: Level) -> Position:
    """Move the entering atoms away from zero: together with the present ones, or by the best common length."""
    point, (tau, gamma) = look.point, level
    chosen = np.zeros(len(tau), dtype=bool)
    chosen[entering] = True
    _, n, d = problem.X.shape
    if problem.enters_precisely:
        found = _with_present(problem, look, chosen, tau)
        if found is not None:
            return found
    # With fewer trials than coefficients the Hessian of all that enter costs more than the steps it saves.
    if problem.enters_precisely and n >= d:
        direction = _minimum(problem, look, chosen, tau)
    else:
        forward = np.where(chosen[problem.atom_of], gamma[problem.atom_of] * look.descent, 0.0)
        direction = problem.atoms.prox(forward, gamma * tau)
    active = problem.activate(problem.present(Point(point.W + direction, point.b, point.Zw)))
    change = active.forward_without_intercept(direction[:, active.features])
    length = least_ahead(problem.line(point, direction, change), problem.atoms.value(direction, tau))
    return problem.position(Point(point.W + length * direction, point.b, point.Zw + length * change), tau)


def _with_present(problem: Problem, look: Look, chosen: np.ndarray, tau: np.ndarray) -> Position | None:
    """Let groups of one subject enter while the present ones adapt; None where that does not lower the value."""
    kept, point = problem.kept, look.point
    if kept is None or not kept.is_of(problem.present(point)):
        return None
    active, free, (features, ends) = kept.active, problem.hessian.n_free, _in_groups(problem, chosen)
    beside, residual = _beside(problem, kept, features), np.empty(free + len(kept.active.features))
    residual[:free] = -np.vecdot(look.a, problem.y)[:free]
    residual[free:] = active.atoms.gradient(point.W[:, active.features], tau[active.which])[0]
    residual[free:] -= look.descent[0, active.features]
    v = look.descent[0, features] + beside.felt_back(kept.block.solve(residual[:, None])[:, 0])
    entering = block_minimum(beside.hessian, v, tau[chosen], ends)
    own = -kept.block.solve((residual + beside.felt(entering))[:, None])[:, 0]
    W, b = np.zeros_like(point.W), np.zeros_like(point.b)
    W[0, features], W[0, active.features], b[:free] = entering, own[free:], own[:free]
    change = problem.point(W, b).Zw
    value, _ = problem.value_and_gap(look, tau)
    for length in _LENGTHS:
        there = Point(point.W + length * W, point.b + length * b, point.Zw + length * change)
        position = problem.position(there, tau)
        if position.value < value:
            return position
    return None


def _beside(problem: Problem, kept: Kept, features: np.ndarray) -> Beside:
    """Some absent features beside the coordinates of a kept matrix, with the trials inside for which it was made."""
    if isinstance(kept.block, SingleTrialBlock):
        inside = kept.inside[0]
        beside = kept.block.beside(problem.X[0][inside].take(features, axis=1).T * problem.y[0, inside])
    else:
        columns = problem.hessian.columns(features)
        beside = kept.block.beside(*problem.hessian.beside(kept.inside, kept.active.columns, columns))
    if problem.own_curvature:
        np.einsum("ii->i", beside.hessian)[:] += problem.own_curvature
    return beside


def _in_groups(problem: Problem, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The features of some groups of one subject, group by group, and where each group ends."""
    group = problem.atom_of[0]
    features = np.flatnonzero(chosen[group])
    features = features[np.argsort(group[features], kind="stable")]
    return features, np.searchsorted(group[features], np.flatnonzero(chosen), side="right")


def _minimum(problem: Problem, look: Look, chosen: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """The coefficients (1, d) of some groups of one subject at the minimum over them, the present ones held."""
    free, (features, ends) = problem.hessian.n_free, _in_groups(problem, chosen)
    H = problem.hessian.at(look.a > 0, problem.hessian.columns(features))[0, free:, free:]
    out = np.zeros_like(look.descent)
    out[0, features] = block_minimum(H, look.descent[0, features], tau[chosen], ends)
    return out


def block_minimum(H: np.ndarray, v: np.ndarray, tau: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Minimise over groups that lie one after the other, ``ends`` being where each ends; return w like v."""
    w, slices = np.zeros_like(v), [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    spectra, norms = _spectra(H, slices), [0.0] * len(slices)
    rest = v.copy()  # v − H w
    for _ in range(_SWEEPS):
        for place, (own, limit, (values, vectors)) in enumerate(zip(slices, tau.tolist(), spectra, strict=True)):
            was, along = w[own], rest[own] @ vectors
            if norms[place] > 0:
                along += values * (was @ vectors)
            elif along @ along <= limit * limit:  # it is zero, and stays so
                continue
            now, norms[place] = _shrunk(along, values, limit, norms[place])
            now = vectors @ now
            rest -= (now - was) @ H[own]
            w[own] = now
    return w


def _spectra(H: np.ndarray, slices: list[slice]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Eigenvalues and eigenvectors of every group's matrix, positive semidefinite but for rounding."""
    blocks = [H[own, own] for own in slices]
    is_even = len({len(block) for block in blocks}) == 1  # then all at once
    pairs = zip(*np.linalg.eigh(np.stack(blocks)), strict=True) if is_even else map(np.linalg.eigh, blocks)
    return [(np.maximum(values, 1e-12 * np.abs(values[-1]) + 1e-300), vectors) for values, vectors in pairs]


def _shrunk(v: np.ndarray, values: np.ndarray, tau: float, norm: float) -> tuple[np.ndarray, float]:
    """Minimise ½ w'diag(values)w − v'w + τ‖w‖, beginning with a guess of the norm; return w and its norm.

    ρ = ‖w‖ solves Σ v_i²/(values_i ρ + τ)² = 1. Newton's method for the square root of the inverse of that sum, which
    is concave in ρ and nearly linear, converges from below.
    """
    if float(v @ v) <= tau * tau:
        return np.zeros_like(v), 0.0
    for _ in range(_ITERATIONS):
        below = 1 / (values * norm + tau)
        part = (v * below) ** 2
        total = float(part.sum())
        norm = max(0.0, norm + (total**0.5 - 1) * total / float(part @ (values * below)))
    return v * (norm / (values * norm + tau)), norm
