"""Scores of one subject in one split: AUC, F-measure of the selected sensors, characters spelled."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.recording import UNKNOWN
from mixnorm.estimators.folds import auc


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

    The scores of the first r flashes of every stimulus are added up. Where two stimuli of a character are targets,
    one in the lower and one in the upper half of the codes (rows and columns of a matrix), the best of each half are
    taken; otherwise the best of all. Trials come in the order of recording. None where codes or characters are not
    known.
    """
    if not len(y) or np.any(stimulus == UNKNOWN) or np.any(character == UNKNOWN):
        return None
    right = [
        _right_by_repetition(scores[mine], y[mine], stimulus[mine])
        for mine in (character == number for number in np.unique(character))
    ]
    right = [flags for flags in right if flags]
    if not right:
        return None
    # Shares for a number of repetitions that some characters lack would be shares of other characters.
    length = min(len(flags) for flags in right)
    return [100 * float(np.mean([flags[r] for flags in right])) for r in range(length)]


def _right_by_repetition(scores: NDArray[np.float64], y: NDArray[np.int64], stimulus: NDArray[np.int64]) -> list[bool]:
    codes = np.unique(stimulus)
    target = {int(code) for code in codes if y[stimulus == code].any()}
    flashes = [scores[stimulus == code] for code in codes]
    repetitions = min(len(own) for own in flashes)
    if not target or len(target) == len(codes):
        return []
    sums = np.array([np.cumsum(own[:repetitions]) for own in flashes])
    return [_picked(codes, sums[:, r], target) == target for r in range(repetitions)]


def _picked(codes: NDArray[np.int64], sums: NDArray[np.float64], target: set[int]) -> set[int]:
    half = len(codes) // 2
    low, high = codes[:half], codes[half:]
    if len(target) == 2 and len(target & set(low.tolist())) == 1:
        return {int(low[np.argmax(sums[:half])]), int(high[np.argmax(sums[half:])])}
    return {int(code) for code in codes[np.argsort(-sums, kind="stable")[: len(target)]]}
