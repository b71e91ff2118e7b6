r"""Groups of weight zero: their coefficients and the intercepts, solved to machine precision, for primal and dual.

Unpenalised groups turn a dual inequality into the equality X_g'(a∘y) = 0, which no scaling restores. So the smooth
problem in these few coordinates is solved first (Newton's method), and a is then projected onto the equalities.
The systems are small and dense; they are solved one problem at a time on the host.
"""

from dataclasses import dataclass

import numpy as np

from ._arrays import Array, like, namespace, to_numpy
from .stack import Stack

_MAX_NEWTON = 100
_MAX_PROJECTIONS = 20
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class _FreeCoordinates:
    """The unpenalised coordinates θ of one problem: margins = offset + E θ, with the similarity term ½ θ'Qθ + c'θ.

    E (T n, m) has one column per subject and unpenalised feature (signed by y), then one per intercept.
    """

    E: np.ndarray
    weight: np.ndarray
    features: np.ndarray
    n_subjects: int
    similarity: float
    center: np.ndarray | None

    @property
    def n_coefficients(self) -> int:
        """How many of the coordinates are coefficients; the others are intercepts."""
        return self.n_subjects * len(self.features)

    def similarity_hessian(self) -> np.ndarray:
        """Q = 2 similarity (I − 11'/T) on the coefficients (I alone for a fixed centre), 0 on the intercepts."""
        Q = np.zeros((self.E.shape[1],) * 2)
        centre = np.eye(self.n_subjects) - (1 / self.n_subjects if self.center is None else 0)
        Q[: self.n_coefficients, : self.n_coefficients] = np.kron(
            2 * self.similarity * centre, np.eye(len(self.features))
        )
        return Q

    def similarity_slope(self) -> np.ndarray:
        """C = −2 similarity × the centre on the coefficients, 0 elsewhere and where the mean is the centre."""
        c = np.zeros(self.E.shape[1])
        if self.center is not None:
            c[: self.n_coefficients] = -2 * self.similarity * self.center.ravel()
        return c


def solve_unpenalised(stack: Stack, W: Array, b: Array) -> tuple[Array, Array]:
    """Minimise over the intercepts and the coefficients of weight zero, everything else held."""
    xp = namespace(W)
    W_new, b_new = np.array(to_numpy(W)), np.array(to_numpy(b))
    for i in range(W.shape[0]):
        for k in range(W.shape[-1]):
            free = _free_coordinates(stack, i, k)
            if not free.E.shape[1]:  # this problem has none, though another of the stack has
                continue
            w, c = W_new[i, :, :, k], b_new[i, :, k]
            theta = np.concatenate([w[:, free.features].ravel(), c if stack.fit_intercept else []])
            X, y = to_numpy(stack.X)[i], to_numpy(stack.y)[i]
            margins = (y * (np.einsum("tnd,td->tn", X, w) + c[:, None])).ravel()
            theta = _newton(free, stack.loss, margins - free.E @ theta, theta)
            w[:, free.features] = theta[: free.n_coefficients].reshape(free.n_subjects, -1)
            if stack.fit_intercept:
                c[:] = theta[free.n_coefficients :]
    return like(W, W_new, dtype=xp.float64), like(b, b_new, dtype=xp.float64)


def equality_residual(stack: Stack, W: Array, a: Array) -> tuple[Array, Array]:
    """Project a onto the equalities of the unpenalised coordinates; also return where they then hold, (B, K)."""
    a_new = np.array(to_numpy(a))
    deviation = to_numpy(stack.deviation(W))
    feasible = np.ones((a.shape[0], a.shape[-1]), dtype=bool)
    for i in range(a.shape[0]):
        for k in range(a.shape[-1]):
            free = _free_coordinates(stack, i, k)
            target = np.zeros(free.E.shape[1])
            target[: free.n_coefficients] = 2 * free.similarity * deviation[i][:, free.features, k].ravel()
            flat, feasible[i, k] = _project(free, a_new[i, :, :, k].ravel(), target)
            a_new[i, :, :, k] = flat.reshape(a.shape[1:3])
    return like(a, a_new), like(a, feasible, dtype=namespace(a).bool)


def _free_coordinates(stack: Stack, i: int, k: int) -> _FreeCoordinates:
    X, y = to_numpy(stack.X)[i], to_numpy(stack.y)[i]
    weights = to_numpy(stack.group_weights)[i, :, k]
    features = np.flatnonzero(weights[stack.groups.index] == 0)
    T, n, _ = X.shape
    signed = y[:, :, None] * X[:, :, features]
    if stack.fit_intercept:
        signed = np.concatenate([signed, y[:, :, None]], axis=-1)
    # One block of rows per subject; coefficients of all subjects first, then the intercepts.
    E = np.zeros((T, n, T, signed.shape[-1]))
    E[np.arange(T), :, np.arange(T)] = signed
    E = E.reshape(T * n, T, -1)
    E = np.concatenate(
        [E[:, :, : len(features)].reshape(T * n, -1), E[:, :, len(features) :].reshape(T * n, -1)], axis=1
    )
    return _FreeCoordinates(
        E,
        to_numpy(stack.trial_weight)[i, :, :, k].ravel(),
        features,
        T,
        float(to_numpy(stack.similarity)[i, k]),
        None if stack.center is None else to_numpy(stack.center)[i][:, features, k],
    )


def _newton(free: _FreeCoordinates, loss, offset: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Minimise Σ p ℓ(offset + E θ) + the similarity term by Newton's method with halving."""
    Q, c = free.similarity_hessian(), free.similarity_slope()

    def value(theta):
        return free.weight @ loss.value(offset + free.E @ theta) + theta @ Q @ theta / 2 + c @ theta

    current = value(theta)
    for _ in range(_MAX_NEWTON):
        margins = offset + free.E @ theta
        gradient = Q @ theta + c - free.E.T @ loss.dual_variable(margins, free.weight)
        curvature = free.weight * loss.curvature(margins)
        hessian = (free.E.T * curvature) @ free.E + Q
        step = np.linalg.lstsq(hessian, -gradient, rcond=None)[0]
        length = 1.0
        while (reached := value(theta + length * step)) > current and length > 1e-10:
            length /= 2
        if reached >= current:  # no further decrease in floating point
            # one last full step: the gradient is still reduced where the value no longer can be
            margins = offset + free.E @ (theta + step)
            better = Q @ (theta + step) + c - free.E.T @ loss.dual_variable(margins, free.weight)
            return theta + step if np.abs(better).max() < np.abs(gradient).max() else theta
        theta, current = theta + length * step, reached
    return theta


def _project(free: _FreeCoordinates, a: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, bool]:
    """Move a, within its support, onto E'a = target; say whether that holds to rounding."""
    scale = np.abs(free.E).T @ a + np.abs(target) + np.finfo(float).tiny
    for _ in range(_MAX_PROJECTIONS):
        residual = free.E.T @ a - target
        if np.all(np.abs(residual) <= _ROUNDING * scale):
            return a, True
        support = a > 0
        correction = np.linalg.lstsq(free.E[support].T, residual, rcond=None)[0]
        a = a.copy()
        a[support] = np.clip(a[support] - correction, 0, None)
    residual = free.E.T @ a - target
    return a, bool(np.all(np.abs(residual) <= _ROUNDING * scale))
