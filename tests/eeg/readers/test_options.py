from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from mixnorm.eeg import ReadOptions, RecordingError
from mixnorm.eeg.readers.options import (
    characters_from_pauses,
    labels_of,
    tagged_numbers,
    who_from_path,
)


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["Target", "NonTarget"], [1, 0]),
        (["target", "non-target"], [1, 0]),
        (["TARGET", "Non Target"], [1, 0]),
        (["oddball", "standard"], [1, 0]),
        (["Comment/deviant", "Comment/standard"], [1, 0]),
        (["error", "correct"], [1, 0]),
        (["Target/stimulus 3", "NonTarget/stimulus 4/character 0"], [1, 0]),
    ],
)
def test_usual_names_are_understood(names, labels):
    found = labels_of(names, ReadOptions(), "x")
    assert_array_equal(found.target, labels)
    assert found.chosen.all()


def test_other_events_are_left_out_when_names_are_usual():
    found = labels_of(["Target", "button", "NonTarget", "boundary"], ReadOptions(), "x")
    assert_array_equal(found.chosen, [True, False, True, False])
    assert_array_equal(found.target, [1, 0])


def test_target_alone_makes_every_other_stimulus_a_nontarget():
    names = ["S 2", "S 1", "S 3", "New Segment/", "BAD_muscle", "EDGE boundary"]
    found = labels_of(names, ReadOptions(target="S 2"), "x")
    assert_array_equal(found.chosen, [True, True, True, False, False, False])
    assert_array_equal(found.target, [1, 0, 0])


def test_target_and_nontarget_leave_the_rest_out():
    found = labels_of(["1", "2", "3"], ReadOptions(target=("1",), nontarget=("3",)), "x")
    assert_array_equal(found.chosen, [True, False, True])
    assert found.note == "targets are the events named 1; non-targets 3"


@pytest.mark.parametrize("names", [["Target", "Target"], ["NonTarget"], ["5", "6"]])
def test_one_class_alone_is_refused_with_what_was_found(names):
    with pytest.raises(
        RecordingError, match=rf"^x: targets and non-targets are not recognised among its events: '{names[0]}'"
    ):
        labels_of(names, ReadOptions(), "x")


def test_no_events_at_all_are_said():
    with pytest.raises(RecordingError, match=r"^x: no events were found; check that the triggers"):
        labels_of([], ReadOptions(), "x")


def test_unlabelled_keeps_the_labels_there_are():
    found = labels_of(["Target", "flash", "BAD_x"], ReadOptions(unlabelled=True), "x")
    assert_array_equal(found.chosen, [True, True, False])
    assert_array_equal(found.target, [1, -1])


def test_numbers_are_found_behind_their_word():
    names = ["Target/stimulus 12/character 3", "NonTarget/stimulus=4", "x"]
    assert_array_equal(tagged_numbers(names, "stimulus"), [12, 4, -1])
    assert_array_equal(tagged_numbers(names, "character"), [3, -1, -1])


@given(st.integers(1, 6), st.integers(3, 30), st.integers(5, 60))
def test_characters_are_told_apart_by_pauses(n_characters, n_flashes, interval):
    onset = np.concatenate(
        [character * interval * (n_flashes + 8) + interval * np.arange(n_flashes) for character in range(n_characters)]
    )
    character, notes = characters_from_pauses(onset)
    if n_characters == 1:
        assert_array_equal(character, -1)
        assert notes == ()
    else:
        assert_array_equal(character, np.repeat(np.arange(n_characters), n_flashes))
        assert notes == (f"{n_characters} characters, inferred from the pauses between them",)


def test_two_flashes_are_no_character():
    assert_array_equal(characters_from_pauses(np.array([0, 1000]))[0], [-1, -1])


@pytest.mark.parametrize(
    ("path", "subject", "session"),
    [
        ("/d/subject8/session4/eeg_200605.mat", "8", "4"),
        ("sub-012_ses-pre_task-p300_eeg.vhdr", "012", "pre"),
        ("S07_Sess03-epo.fif", "S07", "03"),
        ("ACSS001R02.dat", "ACS", "001"),
        ("AAS011R02.mat", "AA", "011"),
        ("monday.edf", "unknown", "monday"),
    ],
)
def test_subject_and_session_are_read_from_usual_paths(path, subject, session):
    found = who_from_path(Path(path), ReadOptions())
    assert found[:2] == (subject, session)
    assert all("from the path" in note for note in found[2])


def test_what_the_user_says_wins_over_the_path():
    path = Path("subject8/session4/a.mat")
    with pytest.warns(
        RuntimeWarning, match=r"a\.mat: the source names subject 8, but subjects=… names me, which is used"
    ):
        found = who_from_path(path, ReadOptions(subject="me", session="today"))
    assert found == ("me", "today", ())
    assert who_from_path(path, ReadOptions(subject="8"))[0] == "8"


def test_one_name_may_stand_alone():
    options = ReadOptions(target="a", drop="Cz", ch_names=["Fz", "Cz"])
    assert (options.target, options.drop, options.ch_names) == (("a",), ("Cz",), ("Fz", "Cz"))
