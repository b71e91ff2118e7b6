r"""A stack of problems and their loss: what every solver takes, and what it gives back.

A study needs many fits on the same few matrices: alphas × folds × resamplings × data sets.
A stack holds B independent data sets, T coupled subjects each, and K problems on the same trials:

    minimise over W, b   Σ_{t,i} p_ti ℓ(y_ti (x_ti·w_t + b_t)) + similarity Σ_t ‖v_t − v̄‖² + alpha Σ_g β_g ‖W_g‖_q

for every one of the B × K problems, p = s / Σ s. A fold is a 0/1 column of s, a bootstrap an integer one, the
adaptive norm a column of β; subjects with fewer trials are padded with trials of weight zero. v_t = R_t w_t are the
coordinates in which subjects are compared (`mixnorm.core.metric`); without a metric v_t = w_t. A new subject is
regularised towards others whose classifiers are fixed: then a given centre c stands in the place of the mean v̄. A
ridge penalty ridge · ½ Σ_t ‖v_t‖² = ridge · ½ Σ_t w_t'N_t w_t can stand beside all this.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import numpy as np

from mixnorm.core.arrays import (
    Array,
    by_columns,
    is_numpy_array,
    like,
    matmul_by_columns,
    matmul_transposed,
    namespace,
    positive_part,
    without_repeats,
)
from mixnorm.core.groups import Groups
from mixnorm.core.metric import DenseMetric, Metric
from mixnorm.core.penalties import Penalty

#: A mean loss this small (a zero model has 1) is the square of rounding: P = 0.
NOTHING = 1e-24


class SquaredHinge:
    r"""ℓ(m) = max(0, 1 − m)², m = y (x·w + b) being the margin of a trial: the loss of the paper's equation 2.

    A trial of relative weight p (Σ p = 1) brings to the dual problem, for a ≥ 0,

        −(p ℓ)*(−a) = a − a² / (4 p),        attained at a = 2 p max(0, 1 − m).
    """

    def value(self, margins: Array) -> Array:
        """Loss of every trial."""
        return self._shortfall(margins) ** 2

    def dual_variable(self, margins: Array, weight: Array) -> Array:
        """The a of every trial at which the primal and the dual term meet: −p ℓ'(m)."""
        return 2 * weight * self._shortfall(margins)

    def curvature(self, margins: Array) -> Array:
        """Second derivative of the loss of every trial (an element of its generalised derivative at m = 1)."""
        xp = namespace(margins)
        # 2 below the margin, 0 beyond: the loss has no second derivative at m = 1, and either value will do there.
        return 2 * xp.astype(margins < 1, margins.dtype)

    #: ℓ' is Lipschitz with this constant
    lipschitz = 2.0

    def dual_terms(self, dual_variable: Array, weight: Array) -> tuple[Array, Array]:
        """Return the linear part a and the quadratic part a²/(4p) of the dual value; trials of weight 0 have none."""
        xp = namespace(dual_variable)
        # a is 0 for trials of weight 0, and 0/0 would be NaN
        safe = xp.where(weight > 0, weight, xp.ones_like(weight))
        return dual_variable, dual_variable**2 / (4 * safe)

    @staticmethod
    def _shortfall(margins: Array) -> Array:
        return positive_part(1 - margins)


@dataclass(frozen=True, eq=False)
class Stack:
    """B × K problems of T subjects, n trials and d features; see the module's docstring.

    Attributes
    ----------
    X : array of shape (B, T, n, d)
    y : array of shape (B, T, n)
        −1 or +1.
    sample_weight : array of shape (B, T, n, K)
        s ≥ 0; trials of weight zero have no influence at all.
    alpha : array of shape (B, K)
    group_weights : array of shape (B, G, K)
        β ≥ 0; 0: unpenalised, ∞: out.
    similarity : array of shape (B, K)
    groups : Groups
        Partition of the d features.
    penalty : Penalty
    fit_intercept : bool
    loss : SquaredHinge
    center : array of shape (B, T, d, K), or None
        What every v_t is regularised towards, (B, T, D, K) with a metric; None: their mean v̄.
    metric : Metric or None
        R_t of v_t = R_t w_t; None: the identity.
    ridge : array of shape (B, K), or None
        Strength of ½ Σ_t ‖v_t‖²; None: 0.
    """

    X: Array
    y: Array
    sample_weight: Array
    alpha: Array
    group_weights: Array
    similarity: Array
    groups: Groups
    penalty: Penalty
    fit_intercept: bool = True
    loss: SquaredHinge = field(default_factory=SquaredHinge)
    center: Array | None = None
    metric: Metric | None = None
    ridge: Array | None = None

    @classmethod
    def single(cls, X: Array, y: Array, *, sample_weight: Array, group_weights: Array, **rest) -> "Stack":
        """K problems on one data set of one subject: X (n, d), y (n,), s (n, K), β (G, K); alpha is set later."""
        xp = namespace(X)
        K = sample_weight.shape[-1]
        return cls(
            X[None, None],
            y[None, None],
            sample_weight[None, None],
            # placeholder alphas, (1, K)
            xp.ones_like(sample_weight[None, 0]),
            group_weights[None],
            like(X, [[0.0] * K]),
            **rest,
        )

    @property
    def shape(self) -> tuple[int, int, int, int, int]:
        """(B, T, n, d, K)."""
        return (*self.X.shape, self.sample_weight.shape[-1])

    @cached_property
    def trial_weight(self) -> Array:
        """P = s / Σ s over all trials of all subjects, (B, T, n, K)."""
        xp = namespace(self.sample_weight)
        largest = xp.max(self.sample_weight, axis=(1, 2), keepdims=True)
        one = xp.ones_like(largest)
        # weights so large that their sum overflows, or so small that it has few digits; a power of two rounds nothing
        factor = xp.where(largest > 2.0**900, 2.0**-200 * one, xp.where(largest < 2.0**-900, 2.0**200 * one, one))
        weight = self.sample_weight * factor
        return by_columns(weight / xp.sum(weight, axis=(1, 2), keepdims=True))

    @cached_property
    def shares(self) -> Array:
        """`trial_weight` as it enters products: (B, T, n, 1) where it is known that all problems have the same."""
        return without_repeats(self.trial_weight)

    @cached_property
    def total_weight(self) -> Array:
        """Weight of every trial in all problems together, to a factor, (B, T, n)."""
        return namespace(self.shares).sum(self.shares, axis=-1)

    @cached_property
    def first_moment(self) -> Array:
        """Σ_i ω_i x_i with the ω of `total_weight`, (B, T, d)."""
        return namespace(self.X).matmul(self.total_weight[:, :, None, :], self.X)[:, :, 0, :]

    @cached_property
    def second_moment(self) -> Array:
        """Σ_i ω_i x_i², (B, T, d); no array of the size of X is made for NumPy."""
        weight, X = self.total_weight, self.X
        if is_numpy_array(X):
            # The matrix product of the other branch needs X * X, a copy of all trials.
            if (weight == weight[:1, :1, :1]).all():  # the usual case, in half the time
                return weight[:, :1, :1] * np.einsum("btnd,btnd->btd", X, X)
            return np.einsum("btn,btnd,btnd->btd", weight, X, X)
        return namespace(X).matmul(weight[:, :, None, :], X * X)[:, :, 0, :]

    @cached_property
    def square_length(self) -> Array:
        """Σ_{t,i} p_ti ‖x_ti‖², (B, K), or (B, 1) where all problems share one column of weights."""
        xp = namespace(self.X)
        if self.shares.shape[-1] == 1:
            return xp.sum(self.second_moment, axis=(1, 2))[:, None]
        squares = np.vecdot(self.X, self.X) if is_numpy_array(self.X) else xp.sum(self.X * self.X, axis=-1)
        return xp.sum(self.shares * squares[..., None], axis=(1, 2))

    @cached_property
    def threshold(self) -> Array:
        """Alpha β_g, (B, G, K)."""
        return self.alpha[:, None, :] * self.group_weights

    @cached_property
    def penalised(self) -> Array:
        """Groups with 0 < β < ∞, (B, G, K)."""
        xp = namespace(self.group_weights)
        return (self.group_weights > 0) & xp.isfinite(self.group_weights)

    @cached_property
    def has_unpenalised(self) -> bool:
        """Whether any group of any problem has β = 0, and no other group of the penalty covers it."""
        return self.penalty.is_separable and bool(namespace(self.group_weights).any(self.group_weights == 0))

    @property
    def has_similarity(self) -> bool:
        """Whether there is anything to be similar to: other subjects, or a centre."""
        return self.X.shape[1] > 1 or self.center is not None

    @property
    def compares_coefficients(self) -> bool:
        """Whether subjects are compared with each other by their coefficients as they are."""
        return self.X.shape[1] > 1 and self.center is None and self.metric is None and self.ridge is None

    @property
    def has_quadratic(self) -> bool:
        """Whether there is a similarity or a ridge term."""
        return self.has_similarity or self.ridge is not None

    def with_alpha(self, alpha: Array, similarity: Array | None = None) -> "Stack":
        """Return the same stack at other alphas, and at other similarities if given, (B, K)."""
        found = replace(self, alpha=alpha, similarity=self.similarity if similarity is None else similarity)
        # of cached properties: the same, and not computed again
        vars(found)["trial_weight"] = self.trial_weight
        if "second_moment" in vars(self):
            vars(found)["second_moment"] = self.second_moment
        return found

    def take(self, rows: Array, columns: Array) -> "Stack":
        """Return the sub-stack of some data sets (rows) and some problems (columns)."""
        xp = namespace(self.X)

        def rectangle(array):
            return xp.take(xp.take(array, rows, axis=0), columns, axis=array.ndim - 1)

        return replace(
            self,
            X=xp.take(self.X, rows, axis=0),
            y=xp.take(self.y, rows, axis=0),
            sample_weight=rectangle(self.sample_weight),
            alpha=rectangle(self.alpha),
            group_weights=rectangle(self.group_weights),
            similarity=rectangle(self.similarity),
            center=None if self.center is None else rectangle(self.center),
            metric=None if self.metric is None else self.metric.take(rows),
            ridge=None if self.ridge is None else rectangle(self.ridge),
            penalty=self.penalty.take(rows, columns),
        )

    def only(self, kept: np.ndarray) -> "Stack":
        """Return the stack of the features of some groups, a mask (G,), alone.

        Weights of a penalty's other groups, which stand behind those of the G groups, are kept.
        """
        # A centre with a metric is in the coordinates v = R w, which do not lose features; without one it is in those
        # of w.
        features = np.flatnonzero(kept[self.groups.index])
        weights = np.concatenate([kept, np.ones(self.group_weights.shape[1] - len(kept), dtype=bool)])
        return replace(
            self,
            X=self.X[..., features],
            groups=self.groups.only(kept),
            group_weights=self.group_weights[:, weights],
            penalty=self.penalty.only(kept),
            center=self.center if self.center is None or self.metric is not None else self.center[:, :, features],
            metric=None if self.metric is None else DenseMetric(self.metric.columns(features)),
        )

    def last(self) -> "Stack":
        """Return the stack of the last problem of every data set alone."""
        if self.sample_weight.shape[-1] == 1:
            return self  # with what it has computed of its trials
        # X and y have no axis of problems, and the metric is that of a data set.
        names = ["sample_weight", "alpha", "group_weights", "similarity"]
        names += [name for name in ("center", "ridge") if getattr(self, name) is not None]
        return replace(self, **{name: getattr(self, name)[..., -1:] for name in names})

    def start(self) -> tuple[Array, Array]:
        """W (B, T, d, K) and b (B, T, K), all zero."""
        xp = namespace(self.X)
        B, T, _, d, K = self.shape
        W = xp.zeros((B, T, d, K), dtype=self.X.dtype, device=self.X.device)
        return W, xp.zeros_like(W[:, :, 0, :])

    def scores(self, W: Array, b: Array) -> Array:
        """x·w_t + b_t of every trial, (B, T, n, K)."""
        return matmul_by_columns(self.X, W) + b[:, :, None, :]

    def dual_variable(self, scores: Array) -> Array:
        """The a of every trial, −p ℓ'(margin), (B, T, n, K)."""
        return self.loss.dual_variable(self.y[..., None] * scores, self.shares)

    def deviation(self, W: Array) -> Array:
        """v_t − v̄, or v_t − the centre, (B, T, D, K)."""
        xp, V = namespace(W), self.mapped(W)
        if self.center is not None:
            return V - self.center
        deviation = V - xp.mean(V, axis=1, keepdims=True)
        # once more: what rounding left of the mean would count similarity times, and deviations must add up to zero
        return deviation - xp.mean(deviation, axis=1, keepdims=True)

    def mapped(self, W: Array) -> Array:
        """v_t = R_t w_t, (B, T, D, K)."""
        return W if self.metric is None else self.metric.apply(W)

    def mapped_back(self, deviation: Array) -> Array:
        """R_t' times a deviation, (B, T, d, K): half the gradient of its square."""
        return deviation if self.metric is None else self.metric.adjoint(deviation)

    def descent(self, W: Array, a: Array) -> Array:
        """Minus the gradient of the smooth part, X_t'(a_t∘y_t) less that of `quadratic`, (B, T, d, K)."""
        # without similarity or ridge the second term would cost as much as the first and be zero
        v = matmul_transposed(self.X, a * self.y[..., None])
        if self.has_quadratic:
            v = v - self.quadratic_gradient(W)
        return v

    def quadratic(self, W: Array) -> Array:
        """Similarity Σ_t ‖v_t − v̄‖² + ridge ½ Σ_t ‖v_t‖², (B, K)."""
        xp = namespace(W)
        value = self.similarity * xp.sum(self.deviation(W) ** 2, axis=(1, 2))
        if self.ridge is not None:
            value = value + self.ridge / 2 * xp.sum(self.mapped(W) ** 2, axis=(1, 2))
        return value

    def quadratic_gradient(self, W: Array) -> Array:
        """2 similarity R_t'(v_t − v̄) + ridge R_t'v_t, (B, T, d, K)."""
        gradient = 2 * self.similarity[:, None, None, :] * self.mapped_back(self.deviation(W))
        if self.ridge is not None:
            gradient = gradient + self.ridge[:, None, None, :] * self.mapped_back(self.mapped(W))
        return gradient

    def mean_loss(self, scores: Array) -> Array:
        """Σ_{t,i} p_ti ℓ(margin), (B, K)."""
        return namespace(scores).sum(self.shares * self.loss.value(self.y[..., None] * scores), axis=(1, 2))

    def smooth(self, W: Array, scores: Array) -> Array:
        """Mean loss plus similarity and ridge terms, (B, K)."""
        return self._smooth(W, self.mean_loss(scores))

    def objective(self, W: Array, scores: Array) -> Array:
        """Value of every problem, (B, K)."""
        return self.objective_of(W, self.mean_loss(scores))

    def objective_of(self, W: Array, mean_loss: Array) -> Array:
        """Value of every problem, (B, K), from its mean loss."""
        return self._smooth(W, mean_loss) + self.penalty.value(self.groups.to_blocks(W), self.threshold)

    def _smooth(self, W: Array, mean_loss: Array) -> Array:
        return mean_loss + self.quadratic(W) if self.has_quadratic else mean_loss


@dataclass(frozen=True, eq=False)
class Solution:
    """What a solver returns for a stack: coefficients and their certificate.

    Attributes
    ----------
    W : array of shape (B, T, d, K)
    b : array of shape (B, T, K)
    objective : array of shape (B, K)
    gap : array of shape (B, K)
        Relative duality gap (P − D)/P.
    n_iter : array of shape (B, K)
    """

    W: Array
    b: Array
    objective: Array
    gap: Array
    n_iter: Array

    @classmethod
    def join(cls, parts: Sequence["Solution"], axis: int = -1) -> "Solution":
        """Put solutions side by side: columns, or with ``axis=0`` data sets."""
        xp = namespace(parts[0].W)
        return cls(*(xp.concat([getattr(part, f.name) for part in parts], axis=axis) for f in fields(cls)))
