"""Letters spelled right on held-out trials, for every montage and number of repetitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mixnorm.eeg.characters import characters_right
from mixnorm.eeg.design import Design
from mixnorm.montage.plain import numbers
from mixnorm.montage.result import Letters
from mixnorm.montage.scoring import ScoredMontages, usable_folds
from mixnorm.montage.trials import SubjectTrials


def letters_of(
    design: Design, names: Sequence[str], subjects: Sequence[SubjectTrials], found: ScoredMontages
) -> Letters | None:
    """Share of the held-out characters that the added flash scores of every montage spell right.

    None where codes or characters are not known, or where a fold tears a character: its other flashes were then among
    the training trials.
    """
    right = []
    for t, (name, one) in enumerate(zip(names, subjects, strict=True)):
        own = np.flatnonzero(design.subject == name)
        for fold, tests in zip(usable_folds(subjects), found.tests, strict=True):
            held_out, rest = own[one.fold == fold], own[one.fold != fold]
            if tests[t] is None:
                continue
            columns = (design.y[held_out], design.stimulus[held_out], design.character[held_out])
            spelled = characters_right(tests[t].scores, *columns)
            # none at all rather than some: shares over the characters that happen to be whole would look like all
            if spelled is None or np.isin(design.character[held_out], design.character[rest]).any():
                return None
            right += spelled
    if not right:
        return None
    # shares for a number of repetitions that some characters lack would be shares of other characters
    length = min(len(flags) for flags in right)
    share = np.mean([flags[:length] for flags in right], axis=0)
    return Letters(
        n_characters=len(right),
        n_sensors=tuple(int(size) for size in found.sizes),
        right=tuple(numbers(column) for column in share.T),
    )
