"""Electrodes to keep, to forbid and to pay for, by name."""

import numpy as np
import pytest

from mixnorm.eeg import read_costs
from mixnorm.montage.constraints import place_of, wishes_by_name

NAMES = ("Fz", "Cz", "Pz", "PO7", "T7")


def test_names_find_their_places():
    wishes = wishes_by_name(NAMES, keep=["Cz"], forbid=["T7", "Fz"], cost={"Pz": 3, "PO7": 0.5})
    assert wishes.keep.tolist() == [False, True, False, False, False]
    assert wishes.forbid.tolist() == [True, False, False, False, True]
    assert wishes.cost.tolist() == [1, 1, 3, 0.5, 1]
    np.testing.assert_allclose(wishes.group_weights, [np.inf, 0, 3 / 1.75, 0.5 / 1.75, np.inf])


def test_other_spellings_are_understood():
    assert place_of("cz", NAMES, "keep") == 1
    assert place_of("EEG Pz-REF", NAMES, "keep") == 2
    assert place_of("T3", NAMES, "keep") == 4  # the old name of T7


@pytest.mark.parametrize(
    "asked, message",
    [
        (
            {"keep": ["PO8"]},
            r"keep names 'PO8', which is no sensor here; did you mean PO7\? There are Fz, Cz, Pz, PO7, T7",
        ),
        ({"forbid": ["Cz", "XYZ1"]}, "forbid names 'XYZ1', which is no sensor here; There are"),
        ({"cost": {"P7": 2.0}}, "cost names 'P7', which is no sensor here; did you mean PO7"),
        ({"forbid": NAMES}, "All 5 sensors are forbidden; there is nothing left to choose from"),
        ({"keep": ["Cz"], "forbid": ["Cz"]}, "Cz: cannot be both kept and forbidden"),
        ({"cost": {"Cz": 0}}, "The cost of 'Cz' must be a number above 0, but it is 0; forbid it instead"),
        ({"cost": {"Cz": "dear"}}, "The cost of 'Cz' must be a number above 0, but it is 'dear'"),
    ],
)
def test_wishes_that_cannot_be_met_are_refused(asked, message):
    with pytest.raises(ValueError, match=message):
        wishes_by_name(NAMES, **asked)


def test_costs_are_read_from_lines_and_from_json(tmp_path):
    table = tmp_path / "cost.tsv"
    table.write_text("sensor\tcost\n# dry ones are dear\nCz\t2.5\nEEG Pz, 3\n\n")
    assert read_costs(table) == {"Cz": 2.5, "EEG Pz": 3.0}
    (tmp_path / "cost.json").write_text('{"Cz": 2.5}')
    assert read_costs(tmp_path / "cost.json") == {"Cz": 2.5}


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("cost.tsv", "Cz 2\nPz much\n", r"cost.tsv, line 2: a name and a number are needed, but it is 'Pz much'"),
        ("cost.tsv", "Cz 2\n3\n", r"cost.tsv, line 2: a name and a number are needed, but it is '3'"),
        ("cost.json", "[1, 2]", r"cost.json: a JSON file of costs holds one object"),
        ("cost.json", "{", r"cost.json: this is no JSON"),
    ],
)
def test_files_of_costs_that_are_none_are_refused(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_costs(path)


@pytest.mark.parametrize(
    "text, message",
    [
        ("Cz two\n", "line 1: a name and a number are needed, but it is 'Cz two'"),
        ("", "there is no cost in it"),
        ("Cz 1\nCz 2\n", "line 2: Cz has a cost already"),
        ("[1, 2]", "a JSON file of costs holds one object"),
    ],
)
def test_a_file_of_costs_that_says_nothing_is_refused(tmp_path, text, message):
    path = tmp_path / "costs.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_costs(path)
