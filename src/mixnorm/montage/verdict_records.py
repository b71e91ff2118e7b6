"""The records of a selection about the montage put forward, and about reasons to be cautious.

Like all of `mixnorm.montage.result`, they check themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["recommended", "asked", "unsure"]
Trace = tuple[float | None, ...]


@dataclass(frozen=True)
class FewTrials:
    """Numbers of trials of the classes that have too few of them; None for a class that has enough."""

    n_targets: int | None
    n_nontargets: int | None


@dataclass(frozen=True)
class ChanceLevel:
    """A montage, the best or the chosen one, whose 95 % interval includes chance level."""

    montage: Literal["best", "chosen"]
    low: float | None
    high: float | None


@dataclass(frozen=True)
class FewFolds:
    """Too few folds for an interval over folds; ``low`` and ``high`` are that of the best montage."""

    count: int
    low: float | None
    high: float | None


@dataclass(frozen=True)
class NoTransfer:
    """Recordings of supposedly one subject on which decoders of the others are not better than chance.

    ``auc``, ``low`` and ``high``: AUC of the best montage on each of them, with its 95 % interval over trials.
    """

    sessions: tuple[str, ...]
    auc: Trace
    low: Trace
    high: Trace


@dataclass(frozen=True)
class Recommendation:
    """The montage put forward, and what is known about it.

    Attributes
    ----------
    n_sensors : int
    verdict : "recommended", "asked" or "unsure"
        "recommended": the smallest montage within the tolerance of the best. "asked": the number of electrodes
        was given. "unsure": no montage can be recommended with confidence (``few_trials``, ``chance_level`` or
        ``no_transfer``).
    n_asked : int or None
        The number of electrodes that was asked for, if any.
    best_n_sensors, best_auc
        Size and AUC of the montage with the largest AUC.
    below_best : float or None
        The AUC of this montage is lower than the best by this much.
    standard_error : float or None
        Standard error of that difference.
    tolerance : float or None
        How much AUC a smaller montage may lose to be recommended; None in files of earlier versions, which recommended
        the smallest montage within one standard error of the best.
    few_trials, chance_level, few_folds, no_transfer
        Reasons to be cautious; None where they do not apply.
    """

    n_sensors: int
    verdict: Verdict
    n_asked: int | None
    best_n_sensors: int
    best_auc: float | None
    below_best: float | None
    standard_error: float | None
    few_trials: FewTrials | None
    chance_level: ChanceLevel | None
    few_folds: FewFolds | None
    no_transfer: NoTransfer | None = None
    tolerance: float | None = None

    def __post_init__(self) -> None:
        expected = verdict_of(self.n_asked, self.few_trials, self.chance_level, self.no_transfer)
        if self.verdict != expected:
            raise ValueError(f"verdict is {self.verdict!r}, but the other fields mean {expected!r}.")
        if self.n_asked not in (None, self.n_sensors):
            raise ValueError(f"n_sensors is {self.n_sensors}, but n_asked is {self.n_asked}.")


def verdict_of(
    n_asked: int | None,
    few_trials: FewTrials | None,
    chance_level: ChanceLevel | None,
    no_transfer: NoTransfer | None = None,
) -> Verdict:
    """Whether a montage is recommended, was asked for, or is unsure, which takes precedence."""
    if few_trials or chance_level or no_transfer:
        return "unsure"
    return "recommended" if n_asked is None else "asked"
