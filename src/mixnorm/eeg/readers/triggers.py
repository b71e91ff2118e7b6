"""Events from trigger values: where they begin, and which values are targets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.events import UNKNOWN
from mixnorm.eeg.readers.options import UNLABELLED, Labels, ReadOptions
from mixnorm.eeg.recording import RecordingError


def rises(course: NDArray[np.int64]) -> NDArray[np.int64]:
    """The samples where a trigger leaves 0 or changes to another value than 0.

    Examples
    --------
    >>> rises(np.array([0, 3, 3, 0, -1, 2, 0]))
    array([1, 4, 5])
    """
    return np.flatnonzero((course != 0) & (course != np.concatenate([[0], course[:-1]])))


def trigger_labels(values: NDArray[np.int64], name: str, options: ReadOptions, source: object) -> Labels:
    """Targets among the values of a trigger, one value for each event.

    1 is a target, 0 and −1 are non-targets. With other values the user is asked, and answers with `target=` and
    `nontarget=`: then values that are neither are left out, or, without `nontarget`, are non-targets.
    """
    everything = np.ones(len(values), dtype=bool)
    if options.target:
        targets, others = (_values(given, source) for given in (options.target, options.nontarget))
        target = np.isin(values, targets)
        # Values that are neither are left out (practice trials, feedback), unless every event is asked for.
        chosen = target | (np.isin(values, others) if options.nontarget else True) | options.unlabelled
        label = np.where(target, 1, 0 if not options.nontarget else np.where(np.isin(values, others), 0, UNKNOWN))
        return Labels(chosen, label[chosen].astype(np.int64), f"targets are the values {targets} of {name}")
    if np.isin(values, (-1, 0, 1)).all():
        return Labels(everything, (values == 1).astype(np.int64), f"targets are the values 1 of {name}")
    if options.unlabelled:
        return Labels(everything, np.full(len(values), UNKNOWN), "all events taken, unlabelled")
    found, counts = np.unique(values, return_counts=True)
    shown = ", ".join(f"{value} ({count})" for value, count in zip(found[:12], counts[:12], strict=True))
    raise RecordingError(
        source,
        f"{name} has the values {shown}, and it is not known which of them are targets",
        f"name them with target=… and nontarget=…; {UNLABELLED}",
    )


def _values(given: tuple[str, ...], source: object) -> list[int]:
    try:
        return [int(value) for value in given]
    except ValueError as error:
        raise RecordingError(
            source, f"its events have numbers, not names ({error})", "give the numbers with target=… and nontarget=…"
        ) from None
