r"""Which atoms enter, and where they begin: by a proximal step or, on large problems, at a minimum over them alone.

With v minus the gradient and H the Hessian of the loss, the groups that enter minimise

    ½ w'H w − v'w + Σ_g τ_g ‖w_g‖

with all others held, by a few sweeps over the groups. One group's minimum is 0 where what the others leave of v_g is
inside its ball, ‖v_g‖ ≤ τ_g; else w_g = (H_gg + τ_g/ρ)⁻¹ v_g, whose norm ρ solves one equation in one unknown.

A proximal gradient step goes along v_g, where H is largest and the least can be gained. After it, Newton's method
takes several steps to turn a small group, and of many that enter together most leave again; here they do not even
enter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mixnorm.solvers.newton.host.line import least_ahead
from mixnorm.solvers.newton.host.state import Level, Look, Point, Position
from mixnorm.solvers.newton.rules import asks_to_enter, number_to_enter
from mixnorm.solvers.newton.tuning import ALIKE, HOST, PRECISE_ENTRY

if TYPE_CHECKING:
    from mixnorm.solvers.newton.host.descent import Problem

#: Sweeps over the groups, and iterations for the norm of one: more save no Newton step.
_SWEEPS, _ITERATIONS = 2, 3


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
        limit = HOST.entry_limit(problem.Z.shape[1] / problem.Z.shape[2])
        return asking[: int(number_to_enter(np, limit, present.sum()))]
    return _unlike(problem, asking if problem.is_tiny else asking[: HOST.coefficients_at_once])


def _unlike(problem: Problem, coefficients: np.ndarray) -> np.ndarray:
    """Those of some coefficients, in order, that resemble none before them: columns of low correlation."""
    subject, feature = np.divmod(coefficients, problem.Z.shape[2])
    columns = problem.Z[subject, :, feature] * np.sqrt(problem.p[subject])
    columns /= np.maximum(np.linalg.norm(columns, axis=1, keepdims=True), 1e-300)
    alike = (np.abs(columns @ columns.T) > ALIKE).tolist()
    kept: list[int] = []
    for place, own in enumerate(alike):
        if not any(own[other] for other in kept):
            kept.append(place)
    return coefficients[kept]


def enter(problem: Problem, look: Look, entering: np.ndarray, level: Level) -> Position:
    """Move the entering atoms away from zero, by a common length that is chosen by exact line search."""
    point, (tau, gamma) = look.point, level
    chosen = np.zeros(len(tau), dtype=bool)
    chosen[entering] = True
    n_subjects, n, d = problem.Z.shape
    # With fewer trials than coefficients the Hessian of all that enter costs more than the steps it saves.
    if n_subjects == 1 and problem.q == 2 and problem.Z.size >= PRECISE_ENTRY and n >= d:
        direction = _minimum(problem, look, chosen, tau)
    else:
        forward = np.where(chosen[problem.atom_of], gamma[problem.atom_of] * look.descent, 0.0)
        direction = problem.atoms.prox(forward, gamma * tau)
    active = problem.activate(problem.present(Point(point.W + direction, point.b, point.Zw)))
    change = active.forward_without_intercept(direction[:, active.features])
    length = least_ahead(problem.line(point, direction, change), problem.atoms.value(direction, tau))
    return problem.position(Point(point.W + length * direction, point.b, point.Zw + length * change), tau)


def _minimum(problem: Problem, look: Look, chosen: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """The coefficients (1, d) of some groups of one subject at the minimum of the quadratic model over them."""
    group, which, free = problem.atom_of[0], np.flatnonzero(chosen), problem.hessian.n_free
    features = np.flatnonzero(chosen[group])
    features = features[np.argsort(group[features], kind="stable")]
    H = problem.hessian.at(look.a > 0, problem.hessian.columns(features))[0, free:, free:]
    ends = np.searchsorted(group[features], which, side="right")
    out = np.zeros_like(look.descent)
    out[0, features] = block_minimum(H, look.descent[0, features], tau[which], ends)
    return out


def block_minimum(H: np.ndarray, v: np.ndarray, tau: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Minimise over groups that lie one after the other, ``ends`` being where each ends; return w like v."""
    w, slices = np.zeros_like(v), [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    spectra = [np.linalg.eigh(H[own, own]) for own in slices]
    rest = v.copy()  # v − H w
    for _ in range(_SWEEPS):
        for own, limit, (values, vectors) in zip(slices, tau, spectra, strict=True):
            was = w[own]
            along = (rest[own] @ vectors) + values * (was @ vectors)
            now = vectors @ _shrunk(along, values, float(limit), float(np.sqrt(was @ was)))
            change = now - was
            if change.any():
                rest -= change @ H[own]
                w[own] = now
    return w


def _shrunk(v: np.ndarray, values: np.ndarray, tau: float, norm: float) -> np.ndarray:
    """Minimise ½ w'diag(values)w − v'w + τ‖w‖, beginning with a guess of the norm.

    ρ = ‖w‖ solves Σ v_i²/(values_i ρ + τ)² = 1. Newton's method for the square root of the inverse of that sum, which
    is concave in ρ and nearly linear, converges from below.
    """
    size = float(v @ v)
    if size <= tau * tau:
        return np.zeros_like(v)
    for _ in range(_ITERATIONS):
        below = 1 / (values * norm + tau)
        part = (v * below) ** 2
        total = float(part.sum())
        norm = max(0.0, norm + (total**0.5 - 1) * total / float(part @ (values * below)))
    return v * norm / (values * norm + tau)
