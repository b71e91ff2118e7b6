r"""Groups of weight zero: their coefficients and the intercepts, solved to machine precision, for primal and dual.

Unpenalised groups turn a dual inequality into the equality X_g'(a∘y) = 0, which no scaling restores. So the smooth
problem in these few coordinates is solved first (Newton's method), and a is then projected onto the equalities.
The systems are small and dense; they are solved one problem at a time on the host, one block per subject.
"""

from dataclasses import dataclass

import numpy as np

from mixnorm.core.arrays import Array, like, namespace, to_numpy
from mixnorm.core.problem import Stack

_MAX_NEWTON = 100
_MAX_PROJECTIONS = 20
_ROUNDING = 1e-12
#: A residual beyond this share of its terms is no rounding: the point is not optimal in the unpenalised coordinates.
_SMALL = 1e-8


@dataclass(frozen=True, eq=False)
class _FreeCoordinates:
    """The unpenalised coordinates θ (T, p) of one problem: margins of subject t = offset_t + E_t θ_t.

    E (T, n, p) has one column per unpenalised feature (signed by y), then one for the intercept. The similarity term
    is similarity Σ_t ‖v_t − v̄‖² of v_t = maps_t θ_t[:m] + held_t, or similarity Σ_t ‖v_t − c_t‖² with a fixed
    centre c (T, D), and the ridge term ridge ½ Σ_t ‖v_t‖²; maps (T, D, m) is the identity, or the free columns of the
    metric's roots.
    """

    E: np.ndarray
    weight: np.ndarray
    features: np.ndarray
    similarity: float
    maps: np.ndarray
    held: np.ndarray
    center: np.ndarray | None
    aligned: bool
    ridge: float

    @property
    def to_mean(self) -> bool:
        """Whether the mean over subjects stands in the place of a centre."""
        return self.center is None

    @property
    def coefficients(self) -> slice:
        """Which of the p coordinates are coefficients; the other is the intercept."""
        return slice(len(self.features))

    def scores(self, theta: np.ndarray) -> np.ndarray:
        """E_t θ_t of every subject, (T, n)."""
        return np.matmul(self.E, theta[..., None])[..., 0]

    def sums(self, v: np.ndarray) -> np.ndarray:
        """E_t'v_t of every subject, (T, p)."""
        return np.matmul(self.E.transpose(0, 2, 1), v[..., None])[..., 0]

    def mapped(self, theta: np.ndarray) -> np.ndarray:
        """v_t, (T, D)."""
        return np.matmul(self.maps, theta[:, self.coefficients, None])[..., 0] + self.held

    def pull(self, theta: np.ndarray) -> np.ndarray:
        """√similarity (v_t − v̄), (T, D): its squares are the similarity term."""
        v = self.mapped(theta)
        return np.sqrt(self.similarity) * (v - (v.mean(axis=0) if self.center is None else self.center))

    def quadratic(self, theta: np.ndarray) -> float:
        """Similarity and ridge term."""
        value = float(np.sum(self.pull(theta) ** 2))
        return value + self.ridge / 2 * float(np.sum(self.mapped(theta) ** 2)) if self.ridge else value

    def gradient(self, theta: np.ndarray, a: np.ndarray) -> np.ndarray:
        """Of the loss plus the similarity and the ridge term, a (T, n) being the dual variable at θ."""
        out = -self.sums(a)
        slope = 2 * np.sqrt(self.similarity) * self.pull(theta)
        if self.ridge:
            slope = slope + self.ridge * self.mapped(theta)
        out[:, self.coefficients] += np.matmul(slope[:, None], self.maps)[:, 0]
        return out

    def newton_step(self, curvature: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Solve (H + the similarity term's Hessian) step = −gradient, H_t = E_t' diag(curvature_t) E_t; least squares.

        H_t contains the ridge term as well. With D_t = H_t + 2 similarity J_t'J_t, J_t being maps_t on the
        coefficients, and z the mean of the J_t step_t,

            step_t = D_t⁺ (2 similarity J_t'z − gradient_t),
            (I − 2 similarity mean_t(J_t D_t⁺ J_t')) z = −mean_t(J_t D_t⁺ gradient_t).

        With a fixed centre, or nobody else, z = 0.
        """
        J, (T, _, p) = self.coefficients, self.E.shape
        H = np.matmul(self.E.transpose(0, 2, 1) * curvature[:, None, :], self.E)
        square = np.matmul(self.maps.transpose(0, 2, 1), self.maps)
        if self.ridge:
            H[:, J, J] += self.ridge * square
        D = H.copy()
        if T > 1 or not self.to_mean:
            D[:, J, J] += 2 * self.similarity * square
        # Features may be collinear, and trials beyond the margin leave no curvature: the step of least norm is taken.
        inverse = np.linalg.pinv(D, rcond=p * np.finfo(float).eps, hermitian=True)
        right = -gradient
        if self.to_mean and T > 1 and self.similarity > 0:
            own = np.matmul(self.maps, np.matmul(inverse, right[..., None])[:, J])[..., 0]
            z = np.linalg.lstsq(self._coupling(inverse, H), own.mean(axis=0), rcond=None)[0]
            right[:, J] += 2 * self.similarity * z @ self.maps
        return np.matmul(inverse, right[..., None])[..., 0]

    def _coupling(self, inverse: np.ndarray, H: np.ndarray) -> np.ndarray:
        """I − 2 similarity mean_t(J_t D_t⁺ J_t'), (D, D); for the identity as J D⁺ H J', in which nothing cancels.

        H contains the ridge term here, D the similarity term as well.
        """
        J = self.coefficients
        if not self.aligned:
            return np.matmul(inverse[:, J], H[:, :, J]).mean(axis=0)
        through = np.matmul(np.matmul(self.maps, inverse[:, J, J]), self.maps.transpose(0, 2, 1)).mean(axis=0)
        return np.eye(len(through)) - 2 * self.similarity * through


def solve_unpenalised(stack: Stack, W: Array, b: Array) -> tuple[Array, Array]:
    """Minimise over the intercepts and the coefficients of weight zero, everything else held."""
    xp = namespace(W)
    W_new, b_new = np.array(to_numpy(W)), np.array(to_numpy(b))
    X, y = to_numpy(stack.X), to_numpy(stack.y)
    for i in range(W.shape[0]):
        for k in range(W.shape[-1]):
            free = _free_coordinates(stack, W_new, i, k)
            if not free.E.shape[2]:  # this problem has none, though another of the stack has
                continue
            w, c = W_new[i, :, :, k], b_new[i, :, k]
            theta = np.concatenate([w[:, free.features], c[:, None]], axis=1)[:, : free.E.shape[2]]
            margins = y[i] * (np.einsum("tnd,td->tn", X[i], w) + c[:, None])
            theta = _newton(free, stack.loss, margins - free.scores(theta), theta)
            w[:, free.features] = theta[:, free.coefficients]
            if stack.fit_intercept:
                c[:] = theta[:, -1]
    return like(W, W_new, dtype=xp.float64), like(b, b_new, dtype=xp.float64)


def equality_residual(stack: Stack, W: Array, b: Array, a: Array) -> tuple[Array, Array, Array]:
    """Project a onto the equalities of the unpenalised coordinates; return it, and what a and it lack of them, (B, K).

    What rounding leaves of an equality, times the coefficient of the optimum, is how wrong a dual value may be; twice
    the coefficient at the point stands for it. Infinite where more than rounding is left. Where the columns are nearly
    collinear, or fewer trials are inside the margin than there are equalities, a itself may lack less than what it is
    projected to.

    Where subjects are compared by their coefficients as they are, the certificate may take any deviations that add up
    to zero, and with those of `mixnorm.core.certificate` the equalities of the subjects are reduced to that of their
    sum: what a large similarity leaves of the difference between subjects has no part in it.
    """
    a_new = np.array(to_numpy(a))
    slope, size = to_numpy(stack.quadratic_gradient(W)), to_numpy(_size_of_terms(stack, W))
    lacks, w, c = np.zeros((2, a.shape[0], a.shape[-1])), to_numpy(W), to_numpy(b)
    for i in range(a.shape[0]):
        for k in range(a.shape[-1]):
            free = _free_coordinates(stack, W, i, k)
            target = np.zeros((a.shape[1], free.E.shape[2]))
            target[:, free.coefficients] = slope[i][:, free.features, k]
            terms = np.zeros_like(target)
            terms[:, free.coefficients] = (2 * free.similarity + free.ridge) * size[i][:, free.features, k]
            theta = np.concatenate([w[i][:, free.features, k], c[i, :, k, None]], axis=1)[:, : free.E.shape[2]]
            before = a_new[i, :, :, k].copy()
            if stack.compares_coefficients and free.similarity > 0:
                after = _project_together(free, before)
                lacks[:, i, k] = [_lack_together(free, dual, theta) for dual in (before, after)]
            else:
                own = zip(free.E, before, target, terms, strict=True)
                after = np.stack([_project(*parts) for parts in own])
                lacks[:, i, k] = [_lack_apart(free, dual, target, terms, theta) for dual in (before, after)]
            a_new[i, :, :, k] = after
    return like(a, a_new), like(a, lacks[0]), like(a, lacks[1])


def _lack_apart(free: _FreeCoordinates, a: np.ndarray, target: np.ndarray, terms: np.ndarray, theta) -> float:
    """What a (T, n) lacks of the equalities E_t'a_t = target_t of every subject.

    Beside a ridge r without a metric, the dual variable c = r θ of its term may be any vector. With c + ρ in its
    place, where ρ is what is left of an equality, the equality holds, and the dual value is lower by θ·ρ + ρ²/(2 r).
    This is small even where ρ is no rounding of its terms: those of a feature that is zero in all trials are zero.
    """
    scale = np.matmul(np.abs(free.E).transpose(0, 2, 1), a[..., None])[..., 0] + terms
    residual = free.sums(a) - target
    if not free.ridge or free.aligned:
        return _lack(residual, scale, theta)
    m = len(free.features)
    left = residual[:, :m]
    of_ridge = float(2 * np.sum(np.abs(left * theta[:, :m]) + left**2 / (2 * free.ridge)))
    return of_ridge + _lack(residual[:, m:], scale[:, m:], theta[:, m:])


def _lack_together(free: _FreeCoordinates, a: np.ndarray, theta: np.ndarray) -> float:
    """What a (T, n) lacks of the equalities of the mean coefficients and of the intercepts."""
    J, own = free.coefficients, free.sums(a)
    size = np.matmul(np.abs(free.E).transpose(0, 2, 1), a[..., None])[..., 0]
    of_mean = _lack(own[:, J].sum(axis=0), size[:, J].sum(axis=0), theta[:, J].mean(axis=0))
    m = len(free.features)
    return of_mean + _lack(own[:, m:], size[:, m:], theta[:, m:])


def _lack(residual: np.ndarray, scale: np.ndarray, theta: np.ndarray) -> float:
    """Twice Σ |residual| |θ|; infinite where a residual is more than rounding of its terms, of size ``scale``."""
    residual = np.abs(residual)
    return float(2 * np.sum(residual * np.abs(theta))) if np.all(residual <= _SMALL * scale) else np.inf


def _size_of_terms(stack: Stack, W: Array) -> Array:
    """The size of what is added up in R_t'(R_t w_t − v̄), (B, T, d, K): its rounding is in proportion to it.

    Subjects with a large similarity are nearly alike, and the deviation is a small difference of large numbers.
    """
    xp = namespace(W)
    sizes = None if stack.metric is None else stack.metric.map(xp.abs)
    V = xp.abs(W) if sizes is None else sizes.apply(xp.abs(W))
    V = V + (xp.mean(V, axis=1, keepdims=True) if stack.center is None else xp.abs(stack.center))
    return V if sizes is None else sizes.adjoint(V)


def _free_coordinates(stack: Stack, W: Array, i: int, k: int) -> _FreeCoordinates:
    """Those of one problem at a point; of W only what is held counts, where there is a metric."""
    X, y = to_numpy(stack.X)[i], to_numpy(stack.y)[i]
    weights = to_numpy(stack.group_weights)[i, :, k]
    features = np.flatnonzero(weights[stack.groups.index] == 0)
    signed = y[:, :, None] * X[:, :, features]
    if stack.fit_intercept:
        signed = np.concatenate([signed, y[:, :, None]], axis=-1)
    similarity, weight = float(to_numpy(stack.similarity)[i, k]), to_numpy(stack.trial_weight)[i, :, :, k]
    maps, held = _maps_and_held(stack, to_numpy(W)[i, :, :, k], features, i)
    center = None if stack.center is None else to_numpy(stack.center)[i, :, :, k]
    if center is not None and stack.metric is None:
        center = center[:, features]
    ridge = 0.0 if stack.ridge is None else float(to_numpy(stack.ridge)[i, k])
    return _FreeCoordinates(signed, weight, features, similarity, maps, held, center, stack.metric is not None, ridge)


def _maps_and_held(stack: Stack, W: np.ndarray, features: np.ndarray, i: int) -> tuple[np.ndarray, np.ndarray]:
    """What makes v_t of the free coefficients, and what the held ones among W (T, d) make of it."""
    T, m = len(W), len(features)
    if stack.metric is None:
        return np.broadcast_to(np.eye(m), (T, m, m)), np.zeros((T, m))
    metric, rest = stack.metric.data_set(i), W.copy()
    rest[:, features] = 0.0
    return metric.columns(features)[0], metric.apply(rest[None, ..., None])[0, ..., 0]


def _newton(free: _FreeCoordinates, loss, offset: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Minimise Σ p ℓ(offset + E θ) + the similarity term by Newton's method with halving."""

    def value(theta):
        return np.sum(free.weight * loss.value(offset + free.scores(theta))) + free.quadratic(theta)

    def gradient_at(theta):
        return free.gradient(theta, loss.dual_variable(offset + free.scores(theta), free.weight))

    # The loss is piecewise quadratic: once the right trials are inside the margin, one full step ends it.
    current = value(theta)
    for _ in range(_MAX_NEWTON):
        gradient = gradient_at(theta)
        curvature = free.weight * loss.curvature(offset + free.scores(theta))
        step = free.newton_step(curvature, gradient)
        length = 1.0
        while (reached := value(theta + length * step)) > current and length > 1e-10:
            length /= 2
        if reached >= current:  # no further decrease in floating point
            # one last full step: the gradient is still reduced where the value no longer can be
            better = np.abs(gradient_at(theta + step)).max() < np.abs(gradient).max()
            return theta + step if better else theta
        theta, current = theta + length * step, reached
    return theta


def _project(E: np.ndarray, a: np.ndarray, target: np.ndarray, terms: np.ndarray) -> np.ndarray:
    """Move the a of one subject, within its support, onto E'a = target, as far as that can be.

    ``terms``: the size of what the target was added up from.
    """
    size = np.abs(E).T
    for _ in range(_MAX_PROJECTIONS):
        residual = E.T @ a - target
        # beside what a is now: where the trials can be separated, nothing but rounding is left of it
        if np.all(np.abs(residual) <= _ROUNDING * (size @ a + terms)):
            break
        support = a > 0
        correction = np.linalg.lstsq(E[support].T, residual, rcond=None)[0]
        a = a.copy()
        a[support] = np.clip(a[support] - correction, 0, None)
    return a


def _project_together(free: _FreeCoordinates, a: np.ndarray) -> np.ndarray:
    """Move a (T, n), within its support, onto Σ_t E_t'a_t = 0 for the coefficients, and E_t'a_t = 0 for intercepts.

    The columns of the intercepts are orthogonal to each other, so that the least correction is one along them and one
    along the other columns, centred by them.
    """
    F, m = free.E[:, :, free.coefficients], len(free.features)
    y = free.E[:, :, m] if free.E.shape[2] > m else np.zeros(a.shape)
    for _ in range(_MAX_PROJECTIONS):
        residual, tilt = np.einsum("tnm,tn->m", F, a), np.vecdot(y, a)
        size = np.einsum("tnm,tn->m", np.abs(F), a)
        if np.all(np.abs(residual) <= _ROUNDING * size) and np.all(np.abs(tilt) <= _ROUNDING * a.sum(axis=1)):
            break
        support = a > 0
        along = y * support / np.maximum(support.sum(axis=1, keepdims=True), 1)
        correction = along * tilt[:, None]
        centred = F - y[:, :, None] * np.einsum("tn,tnm->tm", along, F)[:, None, :]
        rest = residual - np.einsum("tnm,tn->m", F, correction)
        correction[support] += np.linalg.lstsq(centred[support].T, rest, rcond=None)[0]
        a = np.where(support, np.clip(a - correction, 0, None), a)
    return a
