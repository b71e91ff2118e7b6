"""Characters of a speller from flash scores: which ones are right after so many repetitions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.events import UNKNOWN


def characters_right(
    scores: NDArray[np.float64],
    y: NDArray[np.int64],
    stimulus: NDArray[np.int64],
    character: NDArray[np.int64],
) -> list[NDArray[np.bool_]] | None:
    """For every character, whether it is spelled right after 1, 2, … repetitions by each column of scores (n, k).

    The scores of the first r flashes of every stimulus are added up. Where two stimuli of a character are targets,
    one in the lower and one in the upper half of the codes (rows and columns of a matrix), the best of each half are
    taken; otherwise the best of all. Trials come in the order of recording.

    Returns
    -------
    list of arrays of shape (repetitions, k)
        Characters without a target, or without a non-target, are left out. None where codes or characters are not
        known.
    """
    if not len(y) or np.any(stimulus == UNKNOWN) or np.any(character == UNKNOWN):
        return None
    members = (character == number for number in np.unique(character))
    right = [_right_by_repetition(scores[mine], y[mine], stimulus[mine]) for mine in members]
    return [flags for flags in right if len(flags)]


def _right_by_repetition(
    scores: NDArray[np.float64], y: NDArray[np.int64], stimulus: NDArray[np.int64]
) -> NDArray[np.bool_]:
    codes = np.unique(stimulus)
    is_target = np.array([bool(y[stimulus == code].any()) for code in codes])
    if not is_target.any() or is_target.all():
        return np.zeros((0, scores.shape[1]), dtype=bool)
    flashes = [scores[stimulus == code] for code in codes]
    # Flashes that are left out because of a fault are missing here; every code is given as many as the code with the
    # fewest.
    repetitions = min(len(own) for own in flashes)
    sums = np.array([np.cumsum(own[:repetitions], axis=0) for own in flashes])
    return np.all(_picked(sums, is_target) == is_target[:, None, None], axis=0)


def _picked(sums: NDArray[np.float64], is_target: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which codes are taken for the targets, of the shape of the sums (codes, repetitions, k)."""
    half, count = len(sums) // 2, int(is_target.sum())
    picked = np.zeros(sums.shape, dtype=bool)
    # A symbol of a row-column speller is one row and one column; the two best codes of all could be two rows.
    if count == 2 and is_target[:half].sum() == 1:
        for part in (slice(None, half), slice(half, None)):
            np.put_along_axis(picked[part], np.argmax(sums[part], axis=0)[None], True, axis=0)
        return picked
    # stable: of equal sums, such as those of a zero model, the first code is taken in every repetition
    best = np.argsort(-sums, axis=0, kind="stable")[:count]
    np.put_along_axis(picked, best, True, axis=0)
    return picked
