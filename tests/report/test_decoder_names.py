"""Names of the decoders of a selection's subjects."""

from mixnorm.report.selection_files import _file_names


def test_no_two_subjects_share_a_file_and_every_name_can_be_written():
    names = _file_names(["a", "A", "a-2", "../../x/y", "..", "", "participant " * 40, "participant " * 41])
    assert len({name.lower() for name in names}) == len(names)
    assert names[:3] == ["a", "A-2", "a-2-2"]
    assert all(len(name) < 120 and not set(name) & set("/\\ ") for name in names)
