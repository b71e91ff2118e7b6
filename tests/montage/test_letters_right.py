"""Letters by number of electrodes and repetitions, against counting them one by one."""

from dataclasses import replace

import numpy as np
import pytest

from mixnorm.eeg import SelectOptions, prepare, select_montage, simulated_recording
from mixnorm.montage.case import Case
from mixnorm.montage.letters_right import letters_of
from mixnorm.montage.result import Letters
from selections import selection, typed


@pytest.fixture(scope="module")
def scored():
    recording = simulated_recording(480, n_channels=3, n_informative=2, amplitude=5.0, seed=3)
    design = prepare(recording)
    case = Case.of(design, SelectOptions(n_resamplings=0, compare=False, n_folds=2), lambda now: None, None)
    return design, case, case.scored(case.subjects)


def spelled_right(design, case, found, size, repetitions):
    """Rows are the codes up to the middle one, columns the others; the flashes of each are added up one by one."""
    right = []
    fold_of = case.subjects[0].fold
    for fold, (held_out,) in enumerate(found.tests):
        trials = np.flatnonzero(fold_of == fold)
        for character in dict.fromkeys(design.character[trials].tolist()):
            sums, seen = {}, {}
            truth = set()
            for trial, score in zip(trials, held_out.scores[:, size], strict=True):
                code = int(design.stimulus[trial])
                if design.character[trial] != character:
                    continue
                if design.y[trial]:
                    truth.add(code)
                seen[code] = seen.get(code, 0) + 1
                if seen[code] <= repetitions:
                    sums[code] = sums.get(code, 0.0) + score
            codes = sorted(sums)
            rows, columns = codes[:6], codes[6:]
            right.append({max(rows, key=sums.get), max(columns, key=sums.get)} == truth)
    return right


def test_letters_are_those_counted_one_by_one(scored):
    design, case, found = scored
    letters = letters_of(design, case.names, case.subjects, found)
    assert letters.n_characters == 4
    assert letters.n_sensors == (1, 2, 3)
    assert {len(row) for row in letters.right} == {10}
    for size in range(3):
        for repetitions in (1, 3, 10):
            right = spelled_right(design, case, found, size, repetitions)
            assert letters.right[size][repetitions - 1] == pytest.approx(np.mean(right))
    assert len({*letters.right[0], *letters.right[2]}) > 2  # not all right, and not all wrong


def test_without_codes_or_with_torn_characters_there_are_no_letters(scored):
    design, case, found = scored
    unknown = replace(design, stimulus=np.full(len(design), -1))
    assert letters_of(unknown, case.names, case.subjects, found) is None
    torn = replace(design, character=np.zeros(len(design), dtype=int))
    assert letters_of(torn, case.names, case.subjects, found) is None


def test_a_selection_has_the_letters_and_reads_them_back():
    recording = simulated_recording(240, n_channels=3, n_informative=2, amplitude=8.0, seed=3)
    found = select_montage(recording, SelectOptions(n_resamplings=0, compare=False))
    assert isinstance(found.letters, Letters)
    again = typed(found.to_json())
    assert again.letters == found.letters
    assert typed(selection(8)).letters is None


def test_rows_that_do_not_fit_are_refused():
    found = selection(8)
    found["letters"] = {"n_characters": 3, "n_sensors": [1, 2], "right": [[0.5, 0.7]]}
    with pytest.raises(ValueError, match=r"letters: right has 1 rows for 2 n_sensors"):
        typed(found)
