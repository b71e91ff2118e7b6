r"""Features that differ by nothing but the rounding of a large offset.

A feature of offset μ is given to eps |μ| alone. Two that are the same but for that leave a difference of rounding
errors. A penalty keeps coefficients away from it; without one, the exact optimum has coefficients of 1/(eps |μ|)
there, which fit the rounding errors and which no double could hold. So such differences are taken out of unpenalised
features, a change within their rounding.
"""

import numpy as np

#: A direction of a size up to so many times the rounding along it is rounding.
_NOISE = 4.0


def without_rounding(X: np.ndarray, rounding: np.ndarray) -> np.ndarray | None:
    """Return features (n, m) without directions that are rounding; None where there is none.

    With D = diag(‖x_j‖) of the features about their means, X D⁻¹ = U S V', and the rounding r_j of a feature, that of
    direction k is (Σ_j V_jk² n r_j² / D_j²)^½. A feature that is nothing but rounding becomes zero: it is constant.

    Parameters
    ----------
    X : ndarray of shape (n, m)
    rounding : ndarray of shape (m,)
        Size of the rounding errors of every feature.
    """
    means = X.mean(axis=0)
    size, noise = np.linalg.norm(X - means, axis=0), np.sqrt(len(X)) * rounding
    varies = size > _NOISE * noise
    scale = np.where(varies, size, 1.0)
    U, S, Vt = np.linalg.svd(np.where(varies, (X - means) / scale, 0.0), full_matrices=False)
    idle = (_NOISE * np.linalg.norm(Vt * np.where(varies, noise / scale, 0.0), axis=1) >= S) & (S > 0)
    if varies.all() and not idle.any():
        return None
    kept = X - (U[:, idle] * S[idle]) @ Vt[idle] * scale
    return np.where(varies, kept, 0.0)
