"""Which features belong to which sensor: a validated, immutable partition."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mixnorm.core.arrays import Array, like, namespace


@dataclass(frozen=True, eq=False)
class Groups:
    """A partition of ``n_features`` features into ``n_groups`` labelled groups.

    Build it with `from_labels` or `from_channels`.

    Attributes
    ----------
    labels : ndarray of shape (n_groups,)
        The label of every group.
    index : ndarray of shape (n_features,)
        The position in ``labels`` of the group of every feature.

    Examples
    --------
    >>> groups = Groups.from_labels(["Pz", "Cz", "Pz"], n_features=3)
    >>> groups.labels, groups.index, groups.sizes
    (array(['Cz', 'Pz'], dtype='<U2'), array([1, 0, 1]), array([1, 2]))
    """

    labels: np.ndarray
    index: np.ndarray

    def __post_init__(self):
        # Cached properties below depend on both; an estimator that hands its labels out makes a copy.
        self.labels.flags.writeable = False
        self.index.flags.writeable = False

    @classmethod
    def from_labels(cls, labels: Sequence | None, n_features: int) -> "Groups":
        """Group features by one label each; the groups are in sorted order. None: each feature its own group."""
        if labels is None:
            return cls(np.arange(n_features), np.arange(n_features))
        given = np.asarray(labels)
        if given.ndim != 1:
            raise ValueError(f"groups must hold one label per feature, but its shape is {given.shape}.")
        if len(given) < n_features:
            raise ValueError(
                f"groups must hold one label per feature: X has {n_features} features, groups only "
                f"{len(given)} labels; feature {len(given)} is the first without one."
            )
        if len(given) > n_features:
            raise ValueError(
                f"groups must hold one label per feature: X has {n_features} features, but groups has "
                f"{len(given)} labels; label {given.tolist()[n_features]!r} is for feature {n_features}, "
                "which is not there."
            )
        # before np.unique, which would make a group of missing labels
        for feature, label in enumerate(given):
            if label is None or (isinstance(label, float | np.floating) and not np.isfinite(label)):
                raise ValueError(
                    f"groups must hold a label for every feature, but that of feature {feature} is {label}."
                )
        try:
            unique, index = np.unique(given, return_inverse=True)
        except TypeError as error:
            raise ValueError(
                "groups mixes labels that cannot be put in order (strings and numbers?); use one type."
            ) from error
        return cls(unique, index.astype(np.intp))

    @classmethod
    def from_channels(cls, names: Sequence, n_times: int) -> "Groups":
        """Group the features of (n, channels, times) arrays flattened channel-major: one group per channel."""
        return cls(np.array(names), np.repeat(np.arange(len(names)), n_times))

    @property
    def n_groups(self) -> int:
        """Number of groups, G."""
        return len(self.labels)

    @property
    def n_features(self) -> int:
        """Number of features, d."""
        return len(self.index)

    @cached_property
    def sizes(self) -> np.ndarray:
        """Number of features of every group, (G,)."""
        return np.bincount(self.index, minlength=self.n_groups)

    @cached_property
    def members(self) -> list[np.ndarray]:
        """The features of every group, in order."""
        # stable, so that the features of a group keep their order, which is that of time
        order = np.argsort(self.index, kind="stable")
        return np.split(order, np.cumsum(self.sizes)[:-1])

    @cached_property
    def layout(self) -> np.ndarray | None:
        """The features of every group in order, (G, r); None where groups are of unequal size."""
        return None if (self.sizes != self.sizes[0]).any() else np.stack(self.members)

    def only(self, kept: np.ndarray) -> "Groups":
        """Return the partition of the features of some groups, a mask (G,), alone."""
        place = np.cumsum(kept) - 1
        return Groups(self.labels[kept], place[self.index[kept[self.index]]])

    # Blocks: the coefficients of W (..., T, d, K) laid out as (..., G, T r, K), r the size of the largest group,
    # shorter groups padded with zeros, so that every norm and prox is one vectorised reduction over one axis.

    @cached_property
    def is_reshape(self) -> bool:
        """Whether the features stand in the order of the blocks, none of which needs padding."""
        return bool(np.all(self.sizes == self.sizes[0]) and np.all(np.diff(self.index) >= 0))

    @cached_property
    def _slots(self) -> np.ndarray:
        """Slot of every feature in the padded (G, r) layout."""
        # Place of a feature within its group; a group's features need not be adjacent.
        rank = np.empty(self.n_features, dtype=np.intp)
        for features in self.members:
            rank[features] = np.arange(len(features))
        return self.index * int(self.sizes.max()) + rank

    @cached_property
    def sources(self) -> np.ndarray:
        """Feature in every slot; empty slots point one past the last feature, where a zero is put."""
        sources = np.full(self.n_groups * int(self.sizes.max()), self.n_features, dtype=np.intp)
        sources[self._slots] = np.arange(self.n_features)
        return sources

    def to_blocks(self, W: Array) -> Array:
        """Lay W (..., T, d, K) out as blocks (..., G, T r, K)."""
        xp = namespace(W)
        *lead, T, _, K = W.shape
        if not self.is_reshape:
            W = xp.concat([W, xp.zeros_like(W[..., :1, :])], axis=-2)
            W = xp.take(W, like(W, self.sources, dtype=xp.int64), axis=-2)
        blocks = xp.reshape(W, (*lead, T, self.n_groups, -1, K))
        if T > 1:
            blocks = xp.moveaxis(blocks, -4, -3)
        return xp.reshape(blocks, (*lead, self.n_groups, -1, K))

    def from_blocks(self, blocks: Array, n_subjects: int = 1) -> Array:
        """Return W (..., T, d, K) from its blocks (..., G, T r, K)."""
        xp = namespace(blocks)
        *lead, G, _, K = blocks.shape
        W = xp.reshape(blocks, (*lead, G, n_subjects, -1, K))
        if n_subjects > 1:
            W = xp.moveaxis(W, -3, -4)
        W = xp.reshape(W, (*lead, n_subjects, -1, K))
        if not self.is_reshape:
            W = xp.take(W, like(W, self._slots, dtype=xp.int64), axis=-2)
        return W
