"""Constraints by name: electrodes to keep, to forbid, and costs."""

import numpy as np
import pytest

from mixnorm.eeg import read_costs
from mixnorm.montage.constraints import Constraints, channel_index

NAMES = ("Fz", "Cz", "Pz", "PO7", "T7")


def test_names_are_looked_up_in_the_recording():
    constraints = Constraints.by_name(NAMES, keep=["Cz"], forbid=["T7", "Fz"], cost={"Pz": 3, "PO7": 0.5})
    assert constraints.keep.tolist() == [False, True, False, False, False]
    assert constraints.forbid.tolist() == [True, False, False, False, True]
    assert constraints.cost.tolist() == [1, 1, 3, 0.5, 1]
    np.testing.assert_allclose(constraints.group_weights, [np.inf, 0, 3 / 1.75, 0.5 / 1.75, np.inf])


def test_other_spellings_are_accepted():
    assert channel_index("cz", NAMES, "keep") == 1
    assert channel_index("EEG Pz-REF", NAMES, "keep") == 2
    assert channel_index("T3", NAMES, "keep") == 4  # the old name of T7


@pytest.mark.parametrize(
    "asked, message",
    [
        (
            {"keep": ["PO8"]},
            r"keep: unknown channel 'PO8'; did you mean PO7\? available: Fz, Cz, Pz, PO7, T7",
        ),
        ({"forbid": ["Cz", "XYZ1"]}, "forbid: unknown channel 'XYZ1'; available: Fz"),
        ({"cost": {"P7": 2.0}}, "cost: unknown channel 'P7'; did you mean PO7"),
        ({"forbid": NAMES}, "All 5 electrodes are forbidden; allow at least one"),
        ({"keep": ["Cz"], "forbid": ["Cz"]}, "Cz: cannot be both kept and forbidden"),
        (
            {"cost": {"Cz": 0}},
            "The cost of 'Cz' must be a number above 0, but got 0. To exclude the electrode, forbid it",
        ),
        ({"cost": {"Cz": "dear"}}, "The cost of 'Cz' must be a number above 0, but got 'dear'"),
    ],
)
def test_constraints_that_cannot_be_met_are_refused(asked, message):
    with pytest.raises(ValueError, match=message):
        Constraints.by_name(NAMES, **asked)


def test_costs_are_read_from_lines_and_from_json(tmp_path):
    table = tmp_path / "cost.tsv"
    table.write_text("sensor\tcost\n# dry ones are dear\nCz\t2.5\nEEG Pz, 3\n\n")
    assert read_costs(table) == {"Cz": 2.5, "EEG Pz": 3.0}
    (tmp_path / "cost.json").write_text('{"Cz": 2.5}')
    assert read_costs(tmp_path / "cost.json") == {"Cz": 2.5}


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("cost.tsv", "Cz 2\nPz much\n", r"cost.tsv, line 2: expected a name and a number, but got 'Pz much'"),
        ("cost.tsv", "Cz 2\n3\n", r"cost.tsv, line 2: expected a name and a number, but got '3'"),
        ("cost.json", "[1, 2]", r"cost.json: expected one JSON object"),
        ("cost.json", "{", r"cost.json: not valid JSON"),
    ],
)
def test_files_that_are_not_costs_are_refused(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_costs(path)


@pytest.mark.parametrize(
    "text, message",
    [
        ("Cz two\n", "line 1: expected a name and a number, but got 'Cz two'"),
        ("", "no cost found"),
        ("Cz 1\nCz 2\n", "line 2: Cz already has a cost"),
        ("[1, 2]", "expected one JSON object"),
    ],
)
def test_incomplete_files_of_costs_are_refused(tmp_path, text, message):
    path = tmp_path / "costs.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_costs(path)
