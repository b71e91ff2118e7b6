import json
import math

import click
import pytest
from click.testing import CliRunner

from mixnorm.commands.common import messages, print_json, progress, read_options, reading_options
from mixnorm.eeg import RecordingError


def test_json_has_null_for_what_does_not_exist(tmp_path, capsys):
    document = {"a": math.nan, "b": [1.5, math.inf, None], "c": {"d": (-math.inf, "µV")}, "e": 0}
    print_json(document)
    expected = {"a": None, "b": [1.5, None, None], "c": {"d": [None, "µV"]}, "e": 0}
    assert json.loads(capsys.readouterr().out) == expected
    print_json(document, tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text(encoding="utf-8")) == expected
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("error", [RecordingError("a", "b", "c"), ImportError("x"), OSError("y"), ValueError("z")])
def test_errors_of_users_become_messages(error):
    def fail():
        with messages():
            raise error

    with pytest.raises(click.ClickException, match=str(error)):
        fail()


def test_errors_of_ours_stay_errors():
    def fail():
        with messages():
            raise KeyError("bug")

    with pytest.raises(KeyError, match="bug"):
        fail()


def test_progress_goes_to_stderr(capsys):
    with progress(2, "fits") as bar:
        bar.update()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "fits" in captured.err


def test_options_about_reading_reach_the_reader():
    @click.command()
    @reading_options
    def command(**reading):
        click.echo(json.dumps(read_options(reading)))

    arguments = ["--target", "a", "--target", "b", "--drop", "Fp1", "--ch-names", "Fz,Cz", "--sfreq", "250"]
    found = json.loads(CliRunner().invoke(command, arguments).output)
    expected = {
        "target": ["a", "b"],
        "nontarget": [],
        "drop": ["Fp1"],
        "ch_names": ["Fz", "Cz"],
        "sfreq": 250.0,
    }
    assert found == expected
