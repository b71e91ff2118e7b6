"""Ways to put sensors in order of importance, each from training trials alone.

An order is an object with a ``name`` and one method, ``rank``, from the training trials of every subject to a
`Ranking`. `EliminationOrder` is the one of this package; the others are those it is compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from mixnorm.core.groups import Groups
from mixnorm.eeg.positions import standard_name
from mixnorm.eeg.readers.guard import require
from mixnorm.estimators.elimination import elimination_order
from mixnorm.estimators.trained import Trained
from mixnorm.montage.constraints import Constraints
from mixnorm.montage.plain_svm import order_by_weights
from mixnorm.montage.refits import Ranking, sizes_up_to
from mixnorm.montage.trials import Training

STANDARD_CAP = ("Fz", "Cz", "Pz", "Oz", "P3", "P4", "PO7", "PO8")
"""The eight electrodes of common P300 speller caps."""


class Order(Protocol):
    """A way to put sensors in order of importance.

    ``ends_with_all``: whether it comes to all allowed channels in the end, beyond the sizes that it ranks.
    """

    ends_with_all: bool

    @property
    def name(self) -> str:
        """Name of the order in curves and progress messages."""

    def rank(self, subjects: Sequence[Training]) -> Ranking:
        """Rank the sensors by the training trials of one or several subjects."""


@dataclass(frozen=True, eq=False)
class EliminationOrder:
    """Backward elimination by the Mahalanobis distance of the classes (`mixnorm.estimators.elimination`).

    It needs no inner folds, so that `SensorSelector` and stability selection use the very same order.
    """

    constraints: Constraints
    name: str = "montages"
    ends_with_all: ClassVar[bool] = False

    def rank(self, subjects: Sequence[Training]) -> Ranking:
        """One order for all subjects, for every number of sensors."""
        _, G, r = subjects[0].X.shape
        trained = [Trained(one.X.reshape(len(one.X), -1), one.signs, np.ones(len(one.X))) for one in subjects]
        order = elimination_order(trained, Groups.from_channels(range(G), r), self.constraints.group_weights)
        return Ranking(order, np.arange(self.constraints.smallest, len(order) + 1), self.constraints.allowed)


@dataclass(frozen=True, eq=False)
class ComparedOrder:
    """An order to compare with: a function of one subject's training trials, applied to the allowed channels."""

    name: str
    function: Callable[[Training], NDArray[np.integer]]
    allowed: NDArray[np.integer]
    ends_with_all: ClassVar[bool] = True

    def rank(self, subjects: Sequence[Training]) -> Ranking:
        """The order of a single subject, scored at a few sizes; all channels together are the same in every order."""
        (training,) = subjects
        part = Training(training.X[:, self.allowed], training.signs, training.folds)
        return Ranking(self.allowed[self.function(part)], sizes_up_to(len(self.allowed))[:-1], self.allowed)


@dataclass(frozen=True, eq=False)
class FixedMontage:
    """A montage that does not depend on the trials, such as a standard cap."""

    name: str
    channels: NDArray[np.integer]
    allowed: NDArray[np.integer]
    ends_with_all: ClassVar[bool] = False

    def rank(self, subjects: Sequence[Training]) -> Ranking:
        """The channels as they are, all of them."""
        return Ranking(self.channels, np.array([len(self.channels)]), self.allowed)


def compared_orders(ch_names: Sequence[str], constraints: Constraints) -> list[Order]:
    """All orders to compare with; the standard cap only where some of its electrodes are allowed.

    A single electrode leaves nothing to compare.
    """
    allowed = constraints.allowed
    if len(allowed) == 1:
        return []
    orders: list[Order] = [
        ComparedOrder("SNR ranking", by_snr, allowed),
        ComparedOrder("backward elimination", by_backward_elimination, allowed),
        ComparedOrder("Riemannian selection (pyRiemann)", by_riemannian_distance, allowed),
    ]
    # without forbidden electrodes, which no montage beside it has either
    cap = np.array([i for i in standard_cap(ch_names) if i in allowed], dtype=np.int64)
    if not len(cap):
        return orders
    part = "" if len(cap) == len(STANDARD_CAP) else f", {len(cap)} of its electrodes"
    return [*orders, FixedMontage(f"standard {len(STANDARD_CAP)}-channel cap{part}", cap, allowed)]


def by_snr(training: Training) -> NDArray[np.intp]:
    """Order by signal-to-noise ratio: power of the difference of the class means over the variance within classes."""
    targets, others = training.X[training.signs > 0], training.X[training.signs < 0]
    signal = np.sum((targets.mean(axis=0) - others.mean(axis=0)) ** 2, axis=1)
    # classes count equally: the many non-targets should not decide alone what the noise is
    noise = np.sum((targets.var(axis=0) + others.var(axis=0)) / 2, axis=1)
    return np.argsort(-signal / np.where(noise > 0, noise, np.inf), kind="stable")


def by_backward_elimination(training: Training) -> NDArray[np.intp]:
    """Order by the weights of an ℓ2 SVM: the channel with the smallest ‖w_g‖ is removed, then the SVM is refitted.

    Its alpha is chosen by the inner folds on all channels.
    """
    return order_by_weights(training)


def by_riemannian_distance(training: Training) -> NDArray[np.intp]:
    """PyRiemann's ``ElectrodeSelection``: backward elimination by the distance of the classes' mean covariances.

    Shrunk covariances of the trials, log-Euclidean means; within each step of sizes (64, 48, 32, … 1) the order is
    that of the channels.
    """
    estimation = require("pyriemann.estimation", "moabb")
    selection = require("pyriemann.channelselection", "moabb")
    X, n_channels = training.X, training.X.shape[1]
    covariances = estimation.Covariances("oas").transform(X)
    # The covariance of a flat trial is singular, and one such trial would stop the whole selection.
    covariances += 1e-6 * np.mean(np.trace(covariances, axis1=1, axis2=2)) / n_channels * np.eye(n_channels)
    metric = {"mean": "logeuclid", "distance": "riemann"}
    means = selection.ElectrodeSelection(n_channels, metric).fit(covariances, training.signs).covmeans_
    left, removed = np.arange(n_channels), []
    for size in sizes_up_to(n_channels)[-2::-1]:
        found = selection.ElectrodeSelection(int(size), metric).fit(means[:, left][:, :, left], np.arange(len(means)))
        stays = np.array(found.subelec_)
        removed.extend(np.delete(left, stays)[::-1])
        left = left[stays]
    return np.array([*left, *removed[::-1]])


def standard_cap(ch_names: Sequence[str]) -> NDArray[np.int64]:
    """Indices of the channels that belong to the standard cap."""
    standard = [standard_name(name) for name in ch_names]
    return np.array([standard.index(name) for name in STANDARD_CAP if name in standard], dtype=np.int64)
