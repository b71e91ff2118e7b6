"""Folds that do not flatter: neighbours in time are never on both sides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from mixnorm.eeg.design import Design
from mixnorm.eeg.recording import UNKNOWN


@dataclass(frozen=True)
class Folds:
    """``number`` (n_trials,) says in which fold a trial is tested, ``by`` what the folds were made of."""

    number: NDArray[np.int64] = field(repr=False)
    by: str

    def __len__(self) -> int:
        return int(self.number.max()) + 1


def honest_folds(design: Design, n_folds: int = 5) -> Folds:
    """Sessions if there are several, else characters, else contiguous blocks.

    Each session is a fold of its own; characters and trials are dealt into ``n_folds`` folds in the order of
    recording, so that training and test trials meet at few places only.

    Examples
    --------
    >>> from mixnorm.eeg import prepare, simulated_recording
    >>> folds = honest_folds(prepare(simulated_recording(600)))
    >>> len(folds), folds.by
    (5, 'character')
    """
    sessions = np.unique(
        [f"{who}\n{when}" for who, when in zip(design.subject, design.session)], return_inverse=True
    )[1]
    if sessions.max() > 0:
        return Folds(_in_order(sessions), "session")
    known = np.all(design.character != UNKNOWN)
    units = (
        _in_order(design.character)
        if known and len(np.unique(design.character)) > 1
        else np.arange(len(design))
    )
    count = units.max() + 1
    by = "character" if known and count < len(design) else "block"
    return Folds(units * min(n_folds, count) // count, by)


def cross_validated_auc(
    design: Design,
    make_classifier: Callable[[], Any],
    folds: Folds,
    progress: Callable[[int], None] | None = None,
) -> list[float | None]:
    """Test AUC of each fold; scaling is learned anew on each training set. None where a class is missing."""
    X, y, groups = design.to_sklearn()
    aucs: list[float | None] = []
    for fold in range(len(folds)):
        test = folds.number == fold
        train = ~test
        if len(np.unique(y[test])) < 2 or len(np.unique(y[train])) < 2:
            aucs.append(None)
        else:
            scaler = design.preparation.scaler().fit(X[train])
            model = make_classifier().fit(scaler.transform(X[train]), y[train], groups=groups[train])
            aucs.append(float(roc_auc_score(y[test], model.decision_function(scaler.transform(X[test])))))
        if progress is not None:
            progress(fold)
    return aucs


def _in_order(labels: NDArray) -> NDArray[np.int64]:
    """Labels as 0, 1, 2, … in the order in which they first appear."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]
