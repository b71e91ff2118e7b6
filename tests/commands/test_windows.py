"""Windows of time on the command line: ``mixnorm select --windows`` and ``mixnorm train --method gsvm-2-when``."""

import json

import pytest
from click.testing import CliRunner

from mixnorm import load
from mixnorm.commands.report import report
from mixnorm.commands.select import select
from mixnorm.commands.train import train
from mixnorm.eeg import simulated_recording, to_raw

pytest.importorskip("mne")

QUICK = ("--resamplings", "0", "--no-compare", "--no-figures", "--samples", "3")
WHEN = ("--method", "gsvm-2-when", "--samples", "3")


def run(command, *arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    path = tmp_path_factory.mktemp("recordings") / "sub-A_ses-1_raw.fif"
    simulated = simulated_recording(240, n_channels=3, n_informative=2, amplitude=8.0, seed=1)
    to_raw(simulated).save(path, verbose="error")
    return path


def test_select_writes_windows_as_json_table_text_and_page(recording, tmp_path):
    result = run(select, recording, "--windows", 3, "--out", tmp_path, *QUICK, "--json")
    assert result.exit_code == 0, result.output
    shown = json.loads(result.stdout)
    assert len(shown["windows"]) == 3
    assert {"start", "stop", "norm", "frequency", "selected"} <= set(shown["windows"][0])
    assert 0 < shown["window_share"] <= 1
    assert 0.5 < shown["window_scores"]["auc"] <= 1
    # the command of another number of electrodes asks for windows, too
    assert "--windows 3" in shown["command"]
    lines = (tmp_path / "windows.tsv").read_text(encoding="utf-8").splitlines()
    assert [line.split("\t")[:2] for line in lines[1:]] == [
        [str(one["start"]), str(one["stop"])] for one in shown["windows"]
    ]
    assert shown["window_scores"]["statement"] in (tmp_path / "index.html").read_text(encoding="utf-8")
    # the same in words, from the file
    (tmp_path / "windows.tsv").unlink()
    again = run(report, tmp_path)
    assert again.exit_code == 0, again.output
    assert (tmp_path / "windows.tsv").exists()


def test_select_says_the_windows_in_words():
    from mixnorm.commands.select import text
    from selections import selection, typed, with_windows

    lines = text(typed(with_windows(selection(8)))).splitlines()
    head = next(place for place, line in enumerate(lines) if line.startswith("window of time"))
    assert lines[head].endswith("(window share 0.5; 6 windows)")
    assert lines[head + 1].split() == ["-17–117", "ms", "0", "1", "of", "5", "folds"]
    assert lines[head + 2].endswith("5 of 5 folds  ← chosen")
    assert lines[head + 7].startswith("4 of 6 windows were chosen: 117–650 ms.")
    assert "window" not in text(typed(selection(8)))


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (0, "Invalid value for '--windows': 0 is not in the range x>=1."),
        (7, "7 windows were asked for, but the trials have 3 samples each; ask for at most 3 windows, or prepare the"),
        ("six", "Invalid value for '--windows': 'six' is not a valid integer range."),
    ],
)
def test_windows_that_cannot_be_are_one_error_and_no_file(recording, tmp_path, number, message):
    for command, rest in (
        (select, ("--out", tmp_path / "out", *QUICK)),
        (train, ("-o", tmp_path / "m.mixnorm", *WHEN)),
    ):
        result = run(command, recording, "--windows", number, *rest)
        assert result.exit_code != 0
        assert message in result.stderr
        assert result.stderr.count("Error") == 1
    assert not list(tmp_path.iterdir())


def test_train_chooses_windows_with_its_method_only(recording, tmp_path):
    done = run(train, recording, "-o", tmp_path / "m.mixnorm", *WHEN, "--windows", 3, "--json")
    assert done.exit_code == 0, done.output
    shown = json.loads(done.stdout)
    assert len(shown["windows"]) == 3
    assert shown["window_share"] in (0.2, 0.5, 0.8)
    classifier = load(tmp_path / "m.mixnorm").classifier
    assert classifier.windows == 3
    assert [one["norm"] for one in shown["windows"]] == pytest.approx(classifier.window_norms_.tolist())
    refused = run(train, recording, "-o", tmp_path / "n.mixnorm", "--windows", 3)
    assert refused.exit_code == 2
    assert "--windows is for --method gsvm-2-when, but the method is svm-noise." in refused.stderr
