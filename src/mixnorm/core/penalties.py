"""The paper's regularisers: ½‖w‖², ‖w‖₁, and Σ_g β_g ‖w_g‖_q for 1 ≤ q ≤ 2.

A penalty acts on *blocks* of shape (..., G, r, K): G groups of r features (zero-padded), K problems. ``weight``
and ``threshold`` have shape (..., G, K): alpha·β_g, times the step for a threshold. Weight 0 leaves a group
unpenalised, weight ∞ keeps it out.
"""

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from mixnorm.core.arrays import Array, is_numpy_array, like, namespace, positive_part, to_numpy
from mixnorm.core.lq_prox import prox_lq


class Penalty(Protocol):
    """What a penalty brings to a solver and to the certificate."""

    #: True where Ω is a norm of each group, whose dual is a constraint; False where it is quadratic.
    is_norm: bool
    #: True where Ω is a sum over the groups of the stack; False where other groups cross them.
    is_separable: bool

    @property
    def q(self) -> Any:
        """Order of the norm of each block; 2 where Ω is quadratic; (B, K) where every problem has its own."""

    def value(self, blocks: Array, weight: Array) -> Array:
        """Penalty of each problem, (..., K)."""

    def prox(self, blocks: Array, threshold: Array) -> Array:
        """argmin_x ½‖x − blocks‖² + value(x, threshold), group by group."""

    def dual_norm(self, blocks: Array) -> Array:
        """Dual norm of each block, (..., G, K)."""

    def only(self, kept: np.ndarray) -> "Penalty":
        """Return the penalty of some of the groups, a mask (G,), alone."""

    def take(self, rows: Array, columns: Array) -> "Penalty":
        """Return the penalty of some data sets (rows) and some problems (columns) of a stack."""

    def repeat(self, times: int) -> "Penalty":
        """Return the penalty of the problems of a stack several times over, side by side."""


class SameForAll:
    """A penalty that is the same for all problems of a stack."""

    def take(self, rows: Array, columns: Array) -> Self:
        """Return the penalty itself."""
        return self

    def repeat(self, times: int) -> Self:
        """Return the penalty itself."""
        return self


@dataclass(frozen=True)
class GroupNorm(SameForAll):
    r"""Ω(w) = Σ_g weight_g ‖w_g‖_q, 1 ≤ q ≤ 2 (equation 5; with weights, equation 6).

    The prox has a closed form for q = 2 (block soft-thresholding) and q = 1 (soft-thresholding); see `prox_lq`
    for the others. The dual norm is ℓ_{q*}, 1/q + 1/q* = 1.
    """

    q: float = 2.0
    is_norm = True
    is_separable = True

    def __post_init__(self):
        if not 1 <= self.q <= 2:
            raise ValueError(
                f"Invalid value for the 'q' parameter. Allowed are values from 1 to 2, but got {self.q!r}."
            )

    def value(self, blocks: Array, weight: Array) -> Array:
        """Σ_g weight_g ‖w_g‖_q; an infinite weight costs nothing where the block is zero."""
        norm = vector_norm(blocks, self.q)
        return _weighted_sum(norm, norm, weight)

    def prox(self, blocks: Array, threshold: Array) -> Array:
        """Shrink every block; exactly zero where its dual norm is at most the threshold."""
        xp = namespace(blocks)
        if self.q == 1:
            # The last + 0.0 turns −0.0 into 0.0, whose sign would otherwise show in files and in comparisons of bits.
            shrunk = positive_part(xp.abs(blocks) - threshold[..., None, :])
            return xp.copysign(shrunk, blocks) + 0.0
        if self.q == 2:
            norm = vector_norm(blocks, 2)
            # `where` computes both branches, so that the division must be harmless where its result is not used.
            factor = xp.where(norm > threshold, 1 - threshold / xp.where(norm > 0, norm, 1.0), 0.0)
            return blocks * factor[..., None, :]
        return _prox_between(blocks, threshold, self.q)

    def dual_norm(self, blocks: Array) -> Array:
        """‖block‖_{q*} of every group."""
        return vector_norm(blocks, float("inf") if self.q == 1 else self.q / (self.q - 1))

    def only(self, kept: np.ndarray) -> "GroupNorm":
        """Return the penalty itself: it does not depend on the groups."""
        return self


@dataclass(frozen=True, eq=False)
class GroupNorms:
    """Ω(w) = Σ_g weight_g ‖w_g‖_q with an order q of its own for every problem of a stack.

    On a device such problems are solved together: see `mixnorm.execution.batching`.

    Attributes
    ----------
    q : ndarray of shape (B, K)
        1 < q < 2, on the host.
    """

    q: np.ndarray
    is_norm = True
    is_separable = True

    def value(self, blocks: Array, weight: Array) -> Array:
        """Σ_g weight_g ‖w_g‖_q, as of `GroupNorm`."""
        norm = vector_norm(blocks, self._orders(blocks))
        return _weighted_sum(norm, norm, weight)

    def prox(self, blocks: Array, threshold: Array) -> Array:
        """Shrink every block; exactly zero where its dual norm is at most the threshold."""
        return _prox_between(blocks, threshold, self._orders(blocks))

    def dual_norm(self, blocks: Array) -> Array:
        """‖block‖_{q*} of every group."""
        q = self._orders(blocks)
        return vector_norm(blocks, q / (q - 1))

    def only(self, kept: np.ndarray) -> "GroupNorms":
        """Return the penalty itself: it does not depend on the groups."""
        return self

    def take(self, rows: Array, columns: Array) -> "GroupNorms":
        """Return the penalty of some data sets (rows) and some problems (columns)."""
        return GroupNorms(self.q[np.ix_(to_numpy(rows), to_numpy(columns))])

    def repeat(self, times: int) -> "GroupNorms":
        """Return the penalty of the problems several times over, side by side."""
        return GroupNorms(np.tile(self.q, times))

    def _orders(self, blocks: Array) -> Array:
        """Return q in a shape that broadcasts with blocks (B, G, r, K)."""
        return like(blocks, self.q[:, None, None, :])


class L1(GroupNorm):
    """Ω(w) = ‖w‖₁ (equation 4): every coefficient for itself, whatever the groups."""

    def __init__(self):
        super().__init__(q=1.0)


@dataclass(frozen=True)
class L2(SameForAll):
    """Ω(w) = ½ Σ_g weight_g ‖w_g‖₂² (equation 3); no group is ever exactly zero, unless its weight is ∞."""

    is_norm = False
    is_separable = True
    q = 2.0

    def value(self, blocks: Array, weight: Array) -> Array:
        """½ Σ_g weight_g ‖w_g‖²."""
        norm = vector_norm(blocks, 2)
        return _weighted_sum(norm**2 / 2, norm, weight)

    def prox(self, blocks: Array, threshold: Array) -> Array:
        """Divide every block by 1 + threshold."""
        return blocks / (1 + threshold[..., None, :])

    def dual_norm(self, blocks: Array) -> Array:
        """‖block‖₂ of every group."""
        return vector_norm(blocks, 2)

    def only(self, kept: np.ndarray) -> "L2":
        """Return the penalty itself: it does not depend on the groups."""
        return self


def is_between(q: float | Array) -> bool:
    """Whether 1 < q < 2; arrays of orders hold only such."""
    return not isinstance(q, int | float) or 1 < q < 2


def vector_norm(blocks: Array, p: float | Array) -> Array:
    """‖·‖_p of every block over its features, safe from overflow and underflow at any scale.

    ``p``: one order for all blocks, or a finite one of every problem, in a shape that broadcasts with the blocks.
    """
    xp = namespace(blocks)
    if is_numpy_array(blocks):  # where K problems lie side by side, NumPy takes all of them at once: half the time
        blocks = np.ascontiguousarray(blocks)
    size = xp.abs(blocks)
    largest = xp.max(size, axis=-2)
    is_number = isinstance(p, int | float)
    if is_number and p == float("inf"):
        return largest
    # Powers of numbers of at most 1 cannot overflow, and the largest of them is 1: their sum does not vanish.
    scale = xp.where(largest > 0, largest, 1.0)
    ratio = size / scale[..., None, :]
    # a product is faster than a power, and exact
    is_euclidean = is_number and p == 2
    power = ratio * ratio if is_euclidean else ratio**p
    total = xp.sum(power, axis=-2)
    if is_euclidean:
        return largest * xp.sqrt(total)
    # the axis of the features is summed up
    return largest * total ** (1 / (p if isinstance(p, int | float) else p[..., 0, :]))


def _prox_between(blocks: Array, threshold: Array, q: float | Array) -> Array:
    """Return the prox of threshold·‖·‖_q for 1 < q < 2, exactly zero where it is zero."""
    xp = namespace(blocks)
    # Zero is decided by the dual norm: the iteration of `prox_lq` need not end exactly at zero.
    keep = vector_norm(blocks, q / (q - 1)) > threshold
    return xp.where(keep[..., None, :], prox_lq(blocks, xp.where(keep, threshold, 0.0), q), 0.0)


def _weighted_sum(amounts: Array, norm: Array, weight: Array) -> Array:
    xp = namespace(amounts)
    # ∞ · 0 is 0 here: a group that is out and stays out costs nothing; one that is in, however little, costs ∞.
    finite = xp.where(xp.isfinite(weight), weight, 0.0) * amounts
    return xp.sum(xp.where((norm > 0) & xp.isinf(weight), weight, finite), axis=-2)
