"""Decoders for other numbers of electrodes: all at once, or by the command that the page shows."""

import json
import shlex

import numpy as np
import pytest
from click.testing import CliRunner

from mixnorm import load
from mixnorm.commands.select import select
from mixnorm.eeg import simulated_recording, to_raw

pytest.importorskip("mne")

QUICK = ("--resamplings", "0", "--no-compare", "--no-figures")


def run(*arguments):
    result = CliRunner().invoke(select, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Two people in files whose names a shell would take apart, with a decoder for every montage."""
    folder = tmp_path_factory.mktemp("it's here")
    paths = []
    for seed, name in enumerate(("ann", "bob")):
        paths.append(folder / f"{name} day 1_raw.fif")
        recording = simulated_recording(120, n_channels=4, n_informative=3, amplitude=8.0, seed=seed)
        to_raw(recording).save(paths[-1], verbose="error")
    options = ("--subjects", "Ann,Bob", "--forbid", "Fz", "--sensors", "1", "--decoders")
    result = run(*paths, *options, "--out", folder / "out", *QUICK)
    return folder, result, json.loads((folder / "out" / "selection.json").read_text(encoding="utf-8"))


def coefficients(path):
    return load(path).classifier.coef_


def test_every_montage_has_a_decoder_that_needs_its_electrodes_only(done):
    folder, result, document = done
    out = folder / "out"
    assert [montage["decoder"] for montage in document["montages"]] == [
        *("montage.mixnorm", "decoders/montage-2.mixnorm", "decoders/montage-3.mixnorm")
    ]
    for montage in document["montages"]:
        n = montage["n_sensors"]
        for name in (f"montage-{n}", f"montage-{n}-Ann", f"montage-{n}-Bob"):
            assert list(load(out / "decoders" / f"{name}.mixnorm").ch_names) == montage["sensors"]
    np.testing.assert_array_equal(
        coefficients(out / "decoders" / "montage-1.mixnorm"), coefficients(out / "montage.mixnorm")
    )
    assert f"{out / 'decoders'}: decoders of every montage" in result.stderr
    assert "montage-2.mixnorm" not in result.stderr


def test_the_command_on_the_page_gives_the_decoder_of_that_montage(done):
    folder, _, document = done
    assert document["command"].startswith("mixnorm select ")
    assert "--sensors" not in document["command"]
    # as the page completes it
    words = shlex.split(f"{document['command']} --sensors 2 --out electrodes-2")
    assert words[:2] == ["mixnorm", "select"]
    words[-1] = str(folder / "electrodes-2")
    run(*words[2:], *QUICK)
    for name in ("", "-Ann", "-Bob"):
        asked = load(folder / "electrodes-2" / f"montage{name}.mixnorm")
        assert list(asked.ch_names) == document["montages"][1]["sensors"]
        ours = load(folder / "out" / "decoders" / f"montage-2{name}.mixnorm")
        np.testing.assert_array_equal(asked.classifier.coef_, ours.classifier.coef_)


def test_decoders_of_an_earlier_selection_do_not_stay(tmp_path):
    (tmp_path / "decoders").mkdir()
    (tmp_path / "decoders" / "montage-7.mixnorm").write_bytes(b"old")
    (tmp_path / "decoders" / "mine.mixnorm").write_bytes(b"somebody's own")
    path = tmp_path / "a_raw.fif"
    to_raw(simulated_recording(120, n_channels=3, n_informative=2, amplitude=8.0)).save(path, verbose="error")
    run(path, "--out", tmp_path, *QUICK)
    assert [file.name for file in (tmp_path / "decoders").iterdir()] == ["mine.mixnorm"]
    document = json.loads((tmp_path / "selection.json").read_text(encoding="utf-8"))
    made = {montage["n_sensors"]: montage["decoder"] for montage in document["montages"] if montage["decoder"]}
    assert made == {document["recommended"]["n_sensors"]: "montage.mixnorm"}
