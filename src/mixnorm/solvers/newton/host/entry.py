r"""Where groups that enter begin: at the minimum of the quadratic model over them alone, group by group.

With v minus the gradient and H the Hessian of the loss, the groups that enter minimise

    ½ w'H w − v'w + Σ_g τ_g ‖w_g‖

with all others held, by a few sweeps over the groups. One group's minimum is 0 where what the others leave of v_g is
inside its ball, ‖v_g‖ ≤ τ_g; else w_g = (H_gg + τ_g/ρ)⁻¹ v_g, whose norm ρ solves one equation in one unknown.

A proximal gradient step goes along v_g, where H is largest and the least can be gained. After it, Newton's method
takes several steps to turn a small group, and of many that enter together most leave again; here they do not even
enter.
"""

import numpy as np

#: Sweeps over the groups, and iterations for the norm of one: more save no Newton step.
_SWEEPS, _ITERATIONS = 2, 3


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
