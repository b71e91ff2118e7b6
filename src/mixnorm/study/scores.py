"""Scores of one subject in one split: AUC, F-measure of the selected sensors, characters spelled."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.characters import characters_right
from mixnorm.estimators.cross_validation import auc


def auc_percent(y: NDArray[np.int64], scores: NDArray[np.float64]) -> list[float]:
    """Area under the ROC curve of every column of scores (n, k), in percent."""
    return (100 * auc(y, scores)).tolist()


def f_measure_percent(selected: Collection[str], informative: Collection[str]) -> float:
    r"""How well the selected sensors match the informative ones, in percent.

    .. math:: F = 2 |C \cap C^*| / (|C| + |C^*|)

    Examples
    --------
    >>> f_measure_percent(["Cz", "Pz", "Fz"], ["Cz"])
    50.0
    """
    common = set(selected) & set(informative)
    total = len(set(selected)) + len(set(informative))
    return 100 * 2 * len(common) / total if total else 100.0


def characters_percent(
    scores: NDArray[np.float64],
    y: NDArray[np.int64],
    stimulus: NDArray[np.int64],
    character: NDArray[np.int64],
) -> list[float] | None:
    """Share of characters spelled right, in percent, by number of repetitions 1, 2, ….

    As `characters_right` counts them. None where codes or characters are not known.
    """
    right = characters_right(scores[:, None], y, stimulus, character)
    if not right:
        return None
    # Shares for a number of repetitions that some characters lack would be shares of other characters.
    length = min(len(flags) for flags in right)
    return (100 * np.mean([flags[:length, 0] for flags in right], axis=0)).tolist()
