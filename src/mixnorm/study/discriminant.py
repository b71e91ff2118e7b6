"""Linear discriminant analysis with shrunk and with block-Toeplitz covariances, for two classes.

Both are w = Σ⁻¹(μ₁ − μ₀), b = −½ (μ₁ + μ₀)'w + log(n₁/n₀) and differ in Σ. They take trials (n, channels, times) or,
the first, (n, features) and are scikit-learn classifiers, so that searches and pipelines can hold them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import StandardScaler

from mixnorm.noise.residuals import residuals
from mixnorm.noise.shrunk import shrinkage as ledoit_wolf_share
from mixnorm.noise.toeplitz import from_lags, lag_covariances


class _LinearDiscriminant(ClassifierMixin, BaseEstimator):
    """What both have in common; a subclass solves Σ w = v."""

    def fit(self, X: NDArray, y: NDArray) -> _LinearDiscriminant:
        """Estimate means and covariance of training trials X with two kinds of labels y (n,)."""
        X = np.asarray(X, dtype=np.float64)
        self.classes_, side = np.unique(y, return_inverse=True)
        if len(self.classes_) != 2:
            raise ValueError(
                f"LDA is fitted to two classes, but y has {len(self.classes_)}: {self.classes_.tolist()}."
            )
        # Trials may be epochs or vectors: means and weights are those of the flattened features.
        low, high = (X[side == k].mean(axis=0).ravel() for k in (0, 1))
        w = self._solve(X, side, high - low)
        counts = np.bincount(side)
        self.coef_ = w[None]
        self.intercept_ = np.array([np.log(counts[1] / counts[0]) - 0.5 * (low + high) @ w])
        return self

    def decision_function(self, X: NDArray) -> NDArray[np.float64]:
        """Return x·w + b of every trial, (n,)."""
        return np.asarray(X).reshape(len(X), -1) @ self.coef_[0] + self.intercept_[0]

    def predict(self, X: NDArray) -> NDArray:
        """Return the label of the more likely class of every trial, (n,)."""
        return self.classes_[(self.decision_function(X) > 0).astype(int)]

    def _solve(self, X: NDArray[np.float64], side: NDArray[np.intp], v: NDArray[np.float64]) -> NDArray[np.float64]:
        raise NotImplementedError


class ShrinkageLDA(_LinearDiscriminant):
    r"""LDA whose Σ is the mean over trials of the shrunk covariances of both classes.

    The result is that of scikit-learn's ``LinearDiscriminantAnalysis(solver="lsqr", shrinkage=…)``. There Σ is built
    and a least-squares problem of d equations is solved by singular values; but Σ is a diagonal matrix plus the
    residual trials Z_c of both classes,

    .. math:: \Sigma = \sum_c \frac1n (1 - \lambda_c) Z_c' Z_c + \frac{n_c}{n} \lambda_c \mu_c \,
              \operatorname{diag}(\sigma_c^2) = A'A + D,

    so that one Cholesky factor of the smaller of n and d is enough.

    Parameters
    ----------
    shrinkage : "auto" or float in (0, 1]
        λ. "auto": the one of Ledoit and Wolf for each class, with features scaled by their standard deviation σ_c in
        it (σ_c = 1 for a number, and for a constant feature).
    """

    def __init__(self, shrinkage: str | float = "auto"):
        self.shrinkage = shrinkage

    def _solve(self, X: NDArray[np.float64], side: NDArray[np.intp], v: NDArray[np.float64]) -> NDArray[np.float64]:
        X = X.reshape(len(X), -1)
        parts = [_shrunk_class(X[side == k], self.shrinkage) for k in (0, 1)]
        # Both classes in one matrix of rows: A'A is then the sum over classes of the docstring.
        rows = np.concatenate([part.rows for part in parts]) / np.sqrt(len(X))
        diagonal = sum(part.diagonal * np.mean(side == k) for k, part in enumerate(parts))
        # λ is 0 for two trials of a class, and the variance is 0 for equal ones: then Σ is singular.
        if not diagonal.min() > 0:
            raise ValueError(
                "The covariance of the trials cannot be shrunk: the trials of each class are all the same, or "
                "two at most. Use more trials of each class, or a number for the shrinkage."
            )
        return solve_diagonal_plus_rows(diagonal, rows, v)


@dataclass(frozen=True)
class _ShrunkClass:
    """The covariance of a class of n trials, rows' rows / n + diag(diagonal); rows (n, d), diagonal (d,)."""

    rows: NDArray[np.float64] = field(repr=False)
    diagonal: NDArray[np.float64] = field(repr=False)


def _shrunk_class(X: NDArray[np.float64], shrinkage: str | float) -> _ShrunkClass:
    centred = X - X.mean(axis=0)
    # scikit-learn's own scaler says which features are constant, and so which features are scaled
    scale = StandardScaler().fit(X).scale_ if shrinkage == "auto" else np.ones(X.shape[1])
    standard = centred / scale
    share = _share(standard) if shrinkage == "auto" else float(shrinkage)
    variance = np.vdot(standard, standard) / standard.size
    return _ShrunkClass(np.sqrt(1 - share) * centred, share * variance * scale**2)


def _share(rows: NDArray[np.float64]) -> float:
    """Ledoit and Wolf's share for centred trials (n, d), through the smaller of n × n and d × d products."""
    n, d = rows.shape
    # Z Z' and Z'Z have the same Frobenius norm, and the smaller of them costs less.
    products = rows @ rows.T if n < d else rows.T @ rows
    frobenius = float(np.vdot(products, products)) / n**2
    return max(0.0, ledoit_wolf_share(np.einsum("ij,ij->i", rows, rows), np.full(n, 1 / n), frobenius, d))


def solve_diagonal_plus_rows(
    diagonal: NDArray[np.float64], rows: NDArray[np.float64], v: NDArray[np.float64]
) -> NDArray[np.float64]:
    r"""Solve (D + A'A) w = v for a diagonal D (d,) > 0 and rows A (n, d); where n < d by Woodbury's identity.

    With :math:`B = A D^{-1/2}` and :math:`u = D^{-1/2} v`,

    .. math:: w = D^{-1/2} \big(u - B'(I + BB')^{-1} B u\big).
    """
    n, d = rows.shape
    root = np.sqrt(diagonal)
    B, u = rows / root, v / root
    # With D divided out both systems are I plus a product, and well conditioned where λ is not tiny.
    if n >= d:
        return _solve_definite(B.T @ B, u) / root
    return (u - B.T @ _solve_definite(B @ B.T, B @ u)) / root


def _solve_definite(products: NDArray[np.float64], v: NDArray[np.float64]) -> NDArray[np.float64]:
    """Solve (I + products) w = v; products are overwritten."""
    products.flat[:: len(products) + 1] += 1
    return cho_solve(cho_factor(products, overwrite_a=True, check_finite=False), v, check_finite=False)


class ToeplitzLDA(_LinearDiscriminant):
    r"""LDA with a block-Toeplitz covariance, after Sosulski and Tangermann [1]_; trials (n, channels, times).

    The residuals about the class means are pooled and their covariance is shrunk by Ledoit and Wolf's share λ, with
    features scaled by their standard deviation σ in it. Then the blocks of one lag are averaged and multiplied by
    1 − lag/times. Both steps are linear, so that the average is taken of the trials (`lag_covariances`) and the
    covariance of all features is never built:

    .. math:: B_0 \leftarrow (1 - \lambda) B_0 + \lambda \mu \operatorname{diag}(\overline{\sigma^2}), \qquad
              B_l \leftarrow (1 - \lambda) B_l,

    with the mean of σ² over the samples of each channel and μ the share of features that are not constant.

    References
    ----------
    .. [1] J. Sosulski, M. Tangermann: Introducing block-Toeplitz covariance matrices to remaster linear discriminant
       analysis for event-related potential brain–computer interfaces. J. Neural Eng. 19, 066001, 2022.
    """

    def _solve(self, X: NDArray[np.float64], side: NDArray[np.intp], v: NDArray[np.float64]) -> NDArray[np.float64]:
        n = len(X)
        noise = residuals(X.reshape(n, -1), 2 * side - 1, np.ones(n))
        scale = StandardScaler().fit(noise.trials).scale_
        standard = noise.trials / scale
        share = _share(standard)
        lags = (1 - share) * lag_covariances(noise.trials.reshape(X.shape), noise.weights)
        white = share * np.vdot(standard, standard) / standard.size
        lags[0] += white * np.diag(np.mean(scale.reshape(X.shape[1:]) ** 2, axis=1))
        factor = cho_factor(from_lags(lags), overwrite_a=True, check_finite=False)
        return cho_solve(factor, v, check_finite=False)
