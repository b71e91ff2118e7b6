r"""ℓ2 classifiers for every number of sensors, from all of them down to few.

For the first K sensors of an order, minimise over w (K r,) and b, with h_i = max(0, 1 − y_i (x_i·w + b)),

    Σ_i h_i² / n + alpha ½ w'M_K w,

where M_K is the penalty of these sensors (`mixnorm.noise.subsets`). From one K to the next the solution changes
little, and so does everything that a Newton step needs, but M_K is not a part of the penalty of more sensors, so that
no factorisation can be updated. The Newton system

    (alpha M_K + (2/n) X_a'X_a) δ = −gradient,        a: the trials with h > 0, centred because b is eliminated,

is therefore solved by conjugate gradients, whose preconditioner is a Cholesky factor of the same matrix at a larger K:
the leading block of a Cholesky factor is the factor of the leading block. One factor serves several sizes. A product
with the matrix costs O(n K r + K² r²), a fit so about as much as twenty products of X with a vector; a factorisation
of its own for every K would cost O(K³ r³).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import get_lapack_funcs

from mixnorm.core.certificate import quadratic_gap
from mixnorm.core.intercept import solve_intercept
from mixnorm.core.problem import SquaredHinge
from mixnorm.noise import NestedPenalties, Penalty

#: Relative duality gap to reach: below the tol of the estimators, because solutions of one set of sensors that was
#: found in two ways should have the same score.
TOL = 1e-8
#: Newton steps of one size before it is given up.
_MOST_STEPS = 60
#: Conjugate gradients: share of the residual that is left (squared), and the largest number of products in one step.
_LEFT, _MOST_PRODUCTS = 1e-2, 60
#: Products per Newton step from which a new factor costs less than going on with the old one.
_TOO_MANY = 12


@dataclass(frozen=True, eq=False)
class NestedFit:
    """The classifier of the first ``size`` sensors: coefficients (size, r), intercept, and relative duality gap."""

    size: int
    coef: NDArray[np.float64]
    intercept: float
    gap: np.float64


def nested_fits(
    X: NDArray[np.float64],
    signs: NDArray[np.float64],
    alphas: Mapping[int, float],
    known: Mapping[int, tuple[NDArray[np.float64], float]],
    penalties: NestedPenalties,
) -> Iterator[NestedFit]:
    """Fit the classifier of the first K sensors for several K, from the largest down.

    Parameters
    ----------
    X : ndarray of shape (n, C, r)
        Training trials, the sensors in order of importance.
    signs : ndarray of shape (n,)
        −1 or +1.
    alphas : mapping of K to alpha
    known : mapping of K to (coefficients (K, r), intercept)
        Solutions at other sizes, from which the next smaller one starts.
    penalties : NestedPenalties
        Those of the sensors in this order.
    """
    walk = _Walk(X, signs, penalties)
    w, b = np.zeros(X.shape[1:]), 0.0
    for K in sorted({*alphas, *known}, reverse=True):
        if K in known:
            w, b = known[K]
            continue
        found = walk.fit(K, alphas[K], w[:K], b)
        w, b = found.coef, found.intercept
        yield found


class _Walk:
    """The trials, the penalty of every size, and the factor in use."""

    def __init__(self, X: NDArray[np.float64], signs: NDArray[np.float64], penalties: NestedPenalties) -> None:
        n, C, r = X.shape
        self.X, self.y, self.r = np.ascontiguousarray(X).reshape(n, C * r), signs, r
        self.penalties = penalties
        self.factor: _Factor | None = None

    def fit(self, K: int, alpha: float, w: NDArray[np.float64], b: float) -> NestedFit:
        """Fit the first K sensors, from coefficients (K, r) and an intercept."""
        at = _Problem(self.X[:, : K * self.r], self.y, alpha, self.penalties.first(K), w, b)
        for _ in range(_MOST_STEPS):
            gap = at.look()
            if gap <= TOL:
                break
            if self.factor is None or self.factor.is_stale:
                self.factor = _Factor.of(at)
            at.step(self.factor)
        return NestedFit(K, at.w.reshape(K, self.r), at.b, np.float64(gap))


class _Problem:
    """One size: the point, and what follows from it.

    Attributes
    ----------
    w, b : the point
    scores, Mw : X w (n,) and M w (d,), updated with w
    inside : boolean (n,)
        The trials with h > 0.
    descent : ndarray of shape (d,)
        Minus the gradient at the best intercept.
    """

    def __init__(self, X: NDArray, y: NDArray, alpha: float, penalty: Penalty, w: NDArray, b: float) -> None:
        self.X, self.y, self.alpha, self.penalty, self.share = X, y, alpha, penalty, 1 / len(y)
        self.shape, self.w, self.b = w.shape, w.ravel().copy(), b
        # both are linear in w: a step updates them without another product with X or M
        self.scores, self.Mw = X @ self.w, self.penalty_times(self.w)

    def penalty_times(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.penalty.times(v.reshape(self.shape)).ravel()

    def look(self) -> float:
        """Solve the intercept; return the relative duality gap."""
        weight = np.full((len(self.y), 1), self.share)
        scores, y = self.scores[:, None], self.y[:, None]
        self.b = float(solve_intercept(SquaredHinge(), scores, y, weight, np.array([self.b]))[0])
        h = np.maximum(0.0, 1 - self.y * (self.scores + self.b))
        self.inside = h > 0
        self.descent = 2 * self.share * ((h * self.y) @ self.X) - self.alpha * self.Mw
        primal = self.share * float(h @ h) + self.alpha / 2 * float(self.w @ self.Mw)
        square = self.penalty.inverse_bound(self.descent.reshape(self.shape))
        return quadratic_gap(primal, self.alpha, square)

    def step(self, factor: _Factor) -> None:
        """One Newton step of the best length."""
        direction = self._newton_direction(factor)
        shift = -float(direction.scores[self.inside].mean()) if self.inside.any() else 0.0
        linear, quadratic = (self.alpha * float(direction.w @ part) for part in (self.Mw, direction.Mw))
        along = direction.scores + shift
        length = _best_length(self.y * (self.scores + self.b), self.y * along, self.share, linear, quadratic)
        self.w += length * direction.w
        self.scores += length * direction.scores
        self.Mw += length * direction.Mw
        self.b += length * shift

    def _newton_direction(self, factor: _Factor) -> _Direction:
        """Solve the Newton system by preconditioned conjugate gradients."""
        found = _Direction(np.zeros_like(self.w), np.zeros_like(self.scores), np.zeros_like(self.w))
        residual = self.descent.copy()
        solved = factor.solve(residual)
        search, square = solved, float(residual @ solved)
        aim = _LEFT * square
        products = 0
        while products < _MOST_PRODUCTS:
            products += 1
            part = _Direction(search, self.X @ search, self.penalty_times(search))
            product = self._hessian_times(part)
            length = square / float(search @ product)
            found.add(length, part)
            residual -= length * product
            solved = factor.solve(residual)
            square, before = float(residual @ solved), square
            if not aim < square < np.inf:
                break
            search = solved + square / before * search
        factor.used(products)
        return found

    def _hessian_times(self, part: _Direction) -> NDArray[np.float64]:
        """(alpha M + (2/n) X_a'X_a) v, the trials a centred."""
        inside = np.where(self.inside, part.scores, 0.0)
        inside[self.inside] -= inside.sum() / max(1, np.count_nonzero(self.inside))
        return 2 * self.share * (inside @ self.X) + self.alpha * part.Mw


@dataclass(eq=False)
class _Direction:
    """A change of w, with X w (n,) and M w (d,) that belong to it."""

    w: NDArray[np.float64]
    scores: NDArray[np.float64]
    Mw: NDArray[np.float64]

    def add(self, length: float, other: _Direction) -> None:
        self.w += length * other.w
        self.scores += length * other.scores
        self.Mw += length * other.Mw


class _Factor:
    """The inverse of a lower Cholesky factor of the Newton system at one size; its leading block serves smaller sizes.

    In single precision where that is enough: it only preconditions, and half the numbers take half the time.
    """

    def __init__(self, inverse: NDArray) -> None:
        self._inverse, self.is_stale = inverse, False

    @classmethod
    def of(cls, at: _Problem) -> _Factor:
        rows = at.X[at.inside]
        rows = (rows - rows.mean(axis=0)) * np.sqrt(2 * at.share) if len(rows) else rows
        matrix = rows.T @ rows + at.alpha * at.penalty.dense()
        for precision in (np.float32, np.float64):
            own = matrix.astype(precision).T
            potrf, trtri = get_lapack_funcs(("potrf", "trtri"), (own,))
            factor, failed = potrf(own, lower=1, clean=1, overwrite_a=1)
            if not failed:
                inverse, failed = trtri(factor, lower=1, overwrite_c=1)
            if not failed and np.isfinite(inverse[-1]).all():
                return cls(np.ascontiguousarray(inverse))
        # only rounding can lead here: any scale then makes conjugate gradients start
        return cls(np.diag(1 / np.sqrt(np.diag(matrix))))

    def solve(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        """Precondition a vector (d,)."""
        own = self._inverse[: len(v), : len(v)]
        return ((own @ v.astype(own.dtype)) @ own).astype(np.float64)

    def used(self, products: int) -> None:
        """Note how many products a step took."""
        self.is_stale = products > _TOO_MANY


def _best_length(margins: NDArray, along: NDArray, share: float, linear: float, quadratic: float) -> float:
    """Minimise share Σ_i max(0, 1 − m_i − s d_i)² + linear s + quadratic s²/2 over s ≥ 0.

    Newton's method on the derivative, which is piecewise linear and increasing, within a bracket.
    """
    low, high, length = 0.0, np.inf, 1.0
    for _ in range(100):
        h = np.maximum(0.0, 1 - margins - length * along)
        inside = along[h > 0]
        slope = -2 * share * float(h @ along) + linear + quadratic * length
        curvature = 2 * share * float(inside @ inside) + quadratic
        low, high = (low, length) if slope > 0 else (length, high)
        following = length - slope / curvature
        # Newton's method may leave the bracket where the slope has a kink
        if not low < following < high:
            following = (low + high) / 2 if np.isfinite(high) else 2 * length
        if abs(following - length) <= 1e-12 * length:
            break
        length = following
    return length
