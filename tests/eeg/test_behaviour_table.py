"""Every row of the table "What is left out" in docs/eeg.md has a test."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "eeg.md"
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="docs are not part of the source distribution")

#: First words of a row, and the test that keeps it.
ROWS = {
    "channels in MNE's": "eeg/test_sources.py::test_bad_channels_are_left_out_and_named",
    "an annotation whose name begins": "eeg/test_faults.py::"
    "test_trials_that_overlap_a_bad_annotation_are_those_that_mne_drops",
    "`GroupSVC.fit(epochs)` with channels": "estimators/test_by_name.py::"
    "test_bad_channels_of_epochs_are_left_out_with_a_warning",
    "`GroupSVC.fit(epochs)` with epochs": "estimators/test_by_name.py::"
    "test_epochs_under_a_bad_annotation_are_left_out_and_counted",
    "epochs that MNE has dropped": "eeg/test_sources.py::test_epochs_that_mne_dropped_are_counted",
    "channels of other types": "eeg/test_sources.py::test_channel_types_reference_and_projections_are_said",
    "projections and re-referencing": "eeg/test_sources.py::test_channel_types_reference_and_projections_are_said",
    "NaN or infinite samples": "eeg/test_faults.py::test_trials_with_lost_samples_are_left_out_and_no_others",
    "a channel that stays on one value": "eeg/test_faults.py::test_trials_with_a_flat_stretch_are_left_out",
    "a channel that is flat or NaN": "eeg/test_checks.py::test_flat_channels_are_left_out_and_named",
    "a channel that costs more": "eeg/test_faults.py::test_channel_that_spoils_many_trials_is_named_with_what_to_do",
    "trials with large amplitudes": "eeg/test_rejection.py::test_rejected_trials_are_not_trained_on_but_scored",
    "a window that begins before": "eeg/test_checks.py::test_window_that_the_end_cuts_off_is_left_out_with_a_warning",
    "a channel that the model does not use": "eeg/test_decoder.py::"
    "test_decoder_needs_the_channels_it_uses_and_those_of_its_reference",
    "a channel that the model needs": "commands/test_faulty_recordings.py::"
    "test_missing_channel_is_named_with_the_reason",
    "amplitudes that are 100 times": "eeg/test_sources.py::test_recordings_in_different_units_are_asked_about",
    "an annotation outside the recording": "eeg/test_sources.py::test_annotation_outside_the_recording_is_refused",
    "all channels or all trials": "eeg/test_rejection.py::"
    "test_when_all_are_rejected_the_error_says_which_limit_would_do",
}


def test_every_row_of_the_table_has_a_test_that_exists():
    section = PAGE.read_text(encoding="utf-8").split("## What is left out")[1].split("\n## ")[0]
    cells = re.findall(r"^\| ([^|]+) \|", section, flags=re.MULTILINE)[2:]
    assert [cell for cell, begin in zip(cells, ROWS, strict=True) if not cell.startswith(begin)] == []
    for place in ROWS.values():
        file, test = place.split("::")
        assert f"def {test}(" in (TESTS / file).read_text(encoding="utf-8"), place
