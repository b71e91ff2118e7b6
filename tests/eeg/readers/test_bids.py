import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mixnorm.eeg import RecordingError, read_recording, read_recordings, to_raw

mne_bids = pytest.importorskip("mne_bids")


@pytest.fixture(scope="module")
def data_set(tmp_path_factory, recording):
    """Two subjects, the second with two sessions, written by mne-bids as BrainVision."""
    root = tmp_path_factory.mktemp("bids")
    for subject, session in (("01", None), ("02", "a"), ("02", "b")):
        path = mne_bids.BIDSPath(subject=subject, session=session, task="speller", root=root, datatype="eeg")
        raw = to_raw(recording)
        raw.info["line_freq"] = 50
        mne_bids.write_raw_bids(raw, path, format="BrainVision", allow_preload=True, verbose="error")
    return root


def test_every_recording_of_a_data_set_is_read_with_its_events(data_set, recording):
    found = read_recordings(data_set)
    assert [(one.subject, one.session) for one in found] == [
        ("01", "sub-01_task-speller_eeg"),
        ("02", "a"),
        ("02", "b"),
    ]
    for one in found:
        assert one.ch_names == recording.ch_names
        for field in ("onset", "target", "stimulus", "character"):
            assert_array_equal(getattr(one.events, field), getattr(recording.events, field))


def test_a_subject_and_a_single_recording_can_be_given(data_set):
    assert [one.session for one in read_recordings(data_set / "sub-02")] == ["a", "b"]
    [path] = (data_set / "sub-01" / "eeg").glob("*.vhdr")
    assert read_recording(path).subject == "01"


def test_the_tables_count_and_not_the_recording(data_set, recording):
    [table] = (data_set / "sub-01" / "eeg").glob("*_events.tsv")
    before = table.read_text()
    head, *rows = before.splitlines()
    column = head.split("\t").index("trial_type")
    swapped = []
    for row in rows:
        cells = row.split("\t")
        cells[column] = {"T": "NonTarget/99", "N": "Target/98"}[cells[column][0]]
        swapped.append("\t".join(cells))
    try:
        table.write_text("\n".join([head, *swapped]) + "\n")
        back = read_recordings(data_set / "sub-01")[0]
    finally:
        table.write_text(before)
    assert_array_equal(back.events.target, 1 - recording.events.target)
    assert set(back.events.stimulus) == {98, 99}


def test_derivatives_and_other_files_are_left_alone(data_set, recording):
    inner = data_set / "derivatives" / "clean"
    inner.mkdir(parents=True, exist_ok=True)
    (inner / "dataset_description.json").write_text(json.dumps({"Name": "clean", "BIDSVersion": "1.8.0"}))
    (inner / "sub-01_task-speller_eeg.edf").write_text("no recording")
    assert len(read_recordings(data_set)) == 3


def test_damaged_tables_are_refused(data_set):
    [table] = (data_set / "sub-01" / "eeg").glob("*_events.tsv")
    before = table.read_bytes()
    rng = np.random.default_rng(0)
    try:
        for damaged in (b"", b"onset\n", bytes(rng.integers(0, 256, 500, dtype=np.uint8))):
            table.write_bytes(damaged)
            with pytest.raises(RecordingError, match=r"sub-01_task-speller_eeg\.vhdr: "):
                read_recordings(data_set / "sub-01")
    finally:
        table.write_bytes(before)


def test_an_empty_data_set_says_so(tmp_path):
    (tmp_path / "dataset_description.json").write_text("{}")
    with pytest.raises(RecordingError, match="this folder contains no recordings"):
        read_recordings(tmp_path)
