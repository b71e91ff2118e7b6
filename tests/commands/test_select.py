"""``mixnorm select``: from files to a montage, its page, figures and decoders."""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import pairwise

import pytest
from click.testing import CliRunner
from sklearn.metrics import roc_auc_score

from mixnorm import load
from mixnorm.commands.report import report
from mixnorm.commands.select import select, text
from mixnorm.eeg import read_recording, simulated_recording, to_raw
from mixnorm.report.selection_files import write_selection
from selections import selection, typed
from unsure import HEADLINE, unsure

pytest.importorskip("mne")
pytest.importorskip("matplotlib")

QUICK = ("--resamplings", "2", "--no-compare", "--no-figures")


def run(*arguments):
    return CliRunner().invoke(select, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    path = tmp_path_factory.mktemp("recordings") / "sub-A_ses-1_raw.fif"
    simulated = simulated_recording(240, n_channels=5, n_informative=3, amplitude=8.0, seed=1)
    to_raw(simulated).save(path, verbose="error")
    return path


@pytest.fixture(scope="module")
def done(recording):
    """The whole command once, as a user runs it."""
    folder = recording.parent / "out"
    command = [
        sys.executable,
        "-m",
        "mixnorm.commands.main",
        "select",
        recording,
        "--out",
        folder,
        "--resamplings",
        "3",
        "--json",
    ]
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return folder, result


def test_one_json_object_and_nothing_else_on_stdout(done):
    folder, result = done
    shown = json.loads(result.stdout)
    assert shown == json.loads((folder / "selection.json").read_text(encoding="utf-8"))
    assert shown["source"]["recordings"] == ["sub-A_ses-1_raw.fif"]
    methods = [curve["method"] for curve in shown["curves"]]
    assert methods[:3] == ["mixnorm", "SNR ranking", "backward elimination"]
    assert methods[-1] == "standard 8-channel cap, 5 of its electrodes"
    assert shown["curves"][-1]["n_sensors"] == [5]
    assert shown["stability"]["n_resamplings"] == 3
    assert str(folder / "selection.json") in result.stderr


def test_montage_files_name_the_recommended_electrodes_in_order(done):
    folder, result = done
    shown = json.loads(result.stdout)
    wanted = next(m for m in shown["montages"] if m["n_sensors"] == shown["recommended"]["n_sensors"])
    montage = json.loads((folder / "montage.json").read_text(encoding="utf-8"))
    assert montage["sensors"] == wanted["sensors"]
    assert montage["auc"] == wanted["auc"]
    lines = (folder / "montage.tsv").read_text(encoding="utf-8").splitlines()
    assert lines[0].split("\t")[0] == "name"
    assert [line.split("\t")[0] for line in lines[1:]] == wanted["sensors"]


def test_the_model_of_the_recommended_montage_scores_recordings(done, recording):
    folder, _ = done
    decoder = load(folder / "montage.mixnorm")
    assert list(decoder.ch_names) == json.loads((folder / "montage.json").read_text())["sensors"]
    scores = decoder.predict(read_recording(recording))
    assert len(scores) == 240


def test_figures_draw_the_sensors_and_nothing_between_them(done):
    folder, _ = done
    for name in ("montage", "auc-sensors"):
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        ElementTree.parse(folder / f"{name}.svg")
    assert b"<image" not in (folder / "montage.svg").read_bytes()
    assert not list(folder.glob(".*"))  # nothing half-written stays


def test_in_words(recording, tmp_path):
    result = run(recording, "--out", tmp_path / "out", "--sensors", 2, *QUICK)
    assert result.exit_code == 0, result.output
    assert "240 trials, 40 of them targets; 2 folds by character" in result.stdout
    assert re.search(r"2 of 5 electrodes, as asked for: \w+, \w+", result.stdout)
    assert "2 electrodes were asked for" in result.stdout
    assert "may be optimistic" in result.stdout
    document = json.loads((tmp_path / "out" / "selection.json").read_text(encoding="utf-8"))
    best = max(document["montages"], key=lambda row: row["auc"])
    (row,) = [line for line in result.stdout.splitlines() if "best" in line and "←" in line]
    assert row.split()[:2] == [str(best["n_sensors"]), f"{best['auc']:.3f}"]
    assert "Only 2 folds" in document["recommended"]["caution"]
    assert document["recommended"]["caution"] in result.stdout
    assert document["recommended"]["verdict"] == "asked"
    assert re.search(r"^ +2 .*← asked for", result.stdout, flags=re.MULTILINE)
    # a second run takes the place of the first
    again = run(recording, "--out", tmp_path / "out", "--sensors", 3, *QUICK)
    assert again.exit_code == 0, again.output
    assert len(json.loads((tmp_path / "out" / "montage.json").read_text())["sensors"]) == 3


def test_report_writes_the_files_of_a_selection_again(done, tmp_path):
    folder, _ = done
    (folder / "montage.tsv").rename(tmp_path / "before.tsv")
    result = CliRunner().invoke(report, [str(folder), "--no-figures"])
    assert result.exit_code == 0, result.output
    assert (folder / "montage.tsv").read_bytes() == (tmp_path / "before.tsv").read_bytes()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--keep", "Fzz"), "keep: unknown channel 'Fzz'; did you mean Fz?"),
        (("--forbid", "Fz,Cz,Pz,Oz,P3"), "All 5 electrodes are forbidden"),
        (("--sensors", "6"), "6 electrodes were asked for, but only 5 are available"),
        (
            ("--folds", "500"),
            "500 folds were asked for, but subject A has 2 characters and 40 trials of the smaller class",
        ),
        (
            ("--subjects", "A,B"),
            "--subjects … gives 2 names (A, B) for 1 recordings; give one name for each, in order",
        ),
        (("--sfreq", "250"), "sub-A_ses-1_raw.fif: its sampling rate is 256 Hz, but --sfreq … says 250 Hz"),
        (("--ch-names", "A,B,C,D,E"), "its channel names (Fz, Cz, Pz, Oz, P3)"),
    ],
)
def test_bad_options_are_one_line_and_write_nothing(recording, tmp_path, arguments, message):
    result = run(recording, "--out", tmp_path / "out", *QUICK, *arguments)
    assert result.exit_code == 1
    assert message in result.output
    assert not (tmp_path / "out").exists()


def test_bad_costs_name_the_file(recording, tmp_path):
    path = tmp_path / "cost.tsv"
    path.write_text("Cz 2\nPz much\n")
    result = run(recording, "--out", tmp_path / "out", "--cost", path, *QUICK)
    assert result.exit_code == 1
    assert "cost.tsv, line 2: expected a name and a number" in result.output


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "selection.json").write_text('{"format": "else"}')
    result = CliRunner().invoke(report, [str(tmp_path)])
    assert result.exit_code == 1
    assert "not a selection" in result.output


def test_a_bad_folder_is_an_error_before_the_computation(recording, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    result = run(recording, "--out", tmp_path / "file", *QUICK)
    assert result.exit_code == 1
    assert "no file can be written there" in result.output
    assert "trials" not in result.output


def test_the_same_file_twice_is_refused(recording, tmp_path):
    result = run(recording, recording, "--out", tmp_path / "twice", *QUICK)
    assert result.exit_code == 1
    assert "this file is given twice" in result.output


def test_figures_of_an_earlier_selection_do_not_stay(recording, tmp_path):
    (tmp_path / "montage.png").write_bytes(b"old")
    assert run(recording, "--out", tmp_path, *QUICK).exit_code == 0
    assert not (tmp_path / "montage.png").exists()


def test_no_processes_are_refused(recording, tmp_path):
    result = run(recording, "--out", tmp_path / "out", "--jobs", 0)
    assert result.exit_code == 2
    assert "the number of processes must be at least 1" in result.output


def test_the_table_lists_the_sizes_of_the_page_with_the_gain_of_every_electrode():
    found = selection(64)
    rows = [line.split() for line in text(typed(found)).splitlines() if re.match(r" +\d+  ", line)]
    assert [int(row[0]) for row in rows] == [montage["n_sensors"] for montage in found["montages"]]
    for row, montage in zip(rows[1:], found["montages"][1:], strict=True):
        gain = float(row[5].replace("−", "-"))
        assert gain == pytest.approx(-montage["drop"]["auc_change"], abs=5.1e-4)
        assert row[6:9] == ["±", f"{montage['drop']['standard_error']:.3f}", montage["drop"]["sensor"]]
    assert found["recommended"]["trade"] in text(typed(found))


@pytest.mark.parametrize("best", [1, 5, 7])
def test_the_table_shows_the_best_montage_wherever_it_is(best):
    found = selection(12)
    found["montages"][best - 1]["auc"] = 0.99
    found["recommended"] |= {"n_sensors": 3, "best_n_sensors": best}
    marked = [line for line in text(typed(found)).splitlines() if "best" in line and "←" in line]
    assert [line.split()[:2] for line in marked] == [[str(best), "0.990"]]
    found["recommended"] |= {"n_sensors": best}
    assert "← recommended, best" in text(typed(found))


def test_cautions_and_verdict_are_in_the_text_and_in_montage_json(tmp_path):
    found = selection(8)
    found["recommended"] |= {"verdict": "unsure", "few_trials": {"n_targets": 7, "n_nontargets": None}}
    caution = "Only 7 target trials: too few to compare electrodes; record more."
    lines = text(typed(found)).splitlines()
    assert caution in lines
    assert f"{HEADLINE}." in lines
    assert not any("← recommended" in line for line in lines)
    write_selection(typed(found), tmp_path, figures=False)
    montage = json.loads((tmp_path / "montage.json").read_text(encoding="utf-8"))
    assert (montage["caution"], montage["verdict"]) == (caution, "unsure")
    asked = text(typed(unsure(selection(8), 3)))
    assert f"{HEADLINE}." in asked
    assert "← asked for" in asked


def test_names_cannot_control_the_terminal():
    hostile = "Cz\x1b]0;title\x07\x9b31m\u202e"
    shown = text(typed(selection(names=("Fz", hostile, "Pz"), subjects=("S1", hostile))))
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(shown)
    assert r"Cz\x1b]0;title\x07\x9b31m\u202e" in shown


@pytest.fixture(scope="module")
def two_people(tmp_path_factory):
    """Two files of one name that do not say whose they are."""
    folder = tmp_path_factory.mktemp("people")
    paths = []
    for seed, day in enumerate(("monday", "tuesday")):
        recording = simulated_recording(240, n_channels=5, n_informative=3, amplitude=8.0, seed=seed)
        names = ("Fz", "Cz", "Pz", "Oz", "VEOG")
        (folder / day).mkdir()
        paths.append(folder / day / "rec_raw.fif")
        to_raw(replace(recording, ch_names=names)).save(paths[-1], verbose="error")
    return paths


def test_each_subject_has_a_decoder_and_a_new_subject_the_pooled_one(two_people, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "montage-mine.mixnorm").write_bytes(b"somebody's own")
    result = run(
        *two_people, "--subjects", "A,B/1", "--forbid", "VEOG", "--sensors", 2, "--out", tmp_path / "out", *QUICK
    )
    assert result.exit_code == 0, result.output
    assert "Warning" not in result.stderr
    assert "Note" not in result.stderr
    found = json.loads((tmp_path / "out" / "selection.json").read_text(encoding="utf-8"))
    assert found["source"]["subjects"] == ["A", "B/1"]
    assert {file.name for file in (tmp_path / "out").glob("*.mixnorm")} == {
        *("montage.mixnorm", "montage-A.mixnorm", "montage-B_1.mixnorm", "montage-mine.mixnorm")
    }
    montage = json.loads((tmp_path / "out" / "montage.json").read_text(encoding="utf-8"))["sensors"]
    runs = [read_recording(path) for path in two_people]
    for row, name, mine in zip(found["by_subject"], ("B_1", "A"), runs, strict=True):
        decoder = load(tmp_path / "out" / f"montage-{name}.mixnorm")
        assert list(decoder.ch_names) == montage
        # of two people, the pooled decoder of all but one is that of the other
        assert row["new_subject_auc"] == pytest.approx(
            roc_auc_score(mine.events.target, decoder.predict(mine).score), abs=2e-6
        )
        assert f"{row['new_subject_auc']:.3f}" in result.stdout
    assert "montage.mixnorm is one decoder trained on the trials of all subjects, for a new subject" in result.stdout


def test_files_of_nobody_are_sessions_of_one_person_and_said_to_be(two_people, tmp_path):
    result = run(
        *two_people, "--out", tmp_path / "out", "--resamplings", 0, "--no-compare", "--no-figures", "--folds", 3
    )
    assert result.exit_code == 0, result.output
    assert "Note: 2 recordings do not name their subject (rec_raw.fif, rec_raw.fif) and" in result.stderr
    assert "2 recordings do not name their subject (rec_raw.fif, rec_raw.fif) and" in result.stdout
    assert "Warning: VEOG: by their names not EEG electrodes" in result.stderr
    assert "exclude them with --drop VEOG or --forbid" in result.stderr
    assert "Note: the folds are the sessions; --folds is used only with a single session." in result.stderr
    found = json.loads((tmp_path / "out" / "selection.json").read_text(encoding="utf-8"))
    folds = found["source"]["folds"]
    assert (folds["by"], folds["count"]) == ("session", 2)
    assert found["by_subject"] is None
    assert [file.name for file in (tmp_path / "out").glob("*.mixnorm")] == ["montage.mixnorm"]


def test_names_that_look_like_mathematics_and_formulas_do_not_stop_the_command(tmp_path):
    """Figures were drawn before the decoders were written, and failed at ``$x^{$`` on every run."""
    names = ("$x^{$", "Cz", "=1+1", "Oz", "Cz\x1b[31m")
    recording = simulated_recording(240, n_channels=5, n_informative=3, amplitude=8.0, seed=1)
    path = tmp_path / "rec_raw.fif"
    to_raw(replace(recording, ch_names=names)).save(path, verbose="error")
    options = ("--keep", "$x^{$,=1+1", "--sensors", 3, "--resamplings", 0, "--no-compare")
    result = run(path, "--out", tmp_path / "out", *options)
    assert result.exit_code == 0, result.output
    assert {"montage.mixnorm", "montage.png", "auc-sensors.svg"} <= {
        file.name for file in (tmp_path / "out").iterdir()
    }
    assert "\n'=1+1\t" in (tmp_path / "out" / "montage.tsv").read_text(encoding="utf-8")
    assert "\x1b" not in result.output
    refused = run(path, "--out", tmp_path / "out", "--keep", "Ozz", *QUICK)
    assert refused.exit_code == 1
    assert "\x1b" not in refused.output
    assert r"Cz\x1b[31m" in refused.output


def test_device_reaches_the_selection(recording, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr("mixnorm.execution.device._sender", lambda device: torch.as_tensor)
    asked = (recording, *QUICK, "--json", "--out")
    host, there = run(*asked, tmp_path / "host"), run(*asked, tmp_path / "there", "--device", "cuda")
    assert there.exit_code == 0, there.output
    host, there = json.loads(host.stdout), json.loads(there.stdout)
    assert [one["sensors"] for one in there["montages"]] == [one["sensors"] for one in host["montages"]]
    assert there["recommended"]["n_sensors"] == host["recommended"]["n_sensors"]


def test_missing_device_is_an_error_before_anything_is_read(recording, tmp_path):
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    result = run(recording, *QUICK, "--out", tmp_path / "out", "--device", "cuda")
    assert result.exit_code == 1
    assert "device='cuda': PyTorch finds no GPU here" in result.stderr
    assert "Reading" not in result.stderr
    assert not (tmp_path / "out").exists()


def test_reading_is_announced_first(done):
    _, result = done
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    # A bar is drawn again as time goes on, so that one that begins like the line before counts once.
    begin = [line[:8] for line in lines]
    assert [one for before, one in pairwise(["", *begin]) if one != before][:4] == [
        "Starting",
        "starting",
        "Reading ",
        "reading:",
    ]
