import io
import json
import math
import re
import time
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

from mixnorm.commands.bars import progress, show_progress, work_bar
from mixnorm.commands.common import (
    _READING,
    as_options,
    describe,
    jobs_option,
    messages,
    print_json,
    read_options,
    reading_options,
    reject_option,
    subjects_option,
    typed_arguments,
)
from mixnorm.eeg import EpochedRecording, Events, Preparation, RecordingError, prepare, simulated_recording
from mixnorm.montage.progress import Progress


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


def test_a_bar_over_all_steps_shows_the_share_and_the_time_left(capsys, monkeypatch):
    """A quarter of the work was restored; the next quarter took ten seconds, so that the rest takes twenty more."""
    now = [1000.0]
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    with work_bar("select") as bar:
        show_progress(bar, Progress("preparing", 0, 0, 0.0, 0.0))
        show_progress(bar, Progress("montages", 1, 3, 0.25, 0.25))
        now[0] += 10
        show_progress(bar, Progress("stability\x1b[31m", 2, 3, 0.5, 0.25))
    captured = capsys.readouterr()
    assert captured.out == ""
    shown = [part.strip() for part in captured.err.split("\r") if part.strip()]
    assert shown[0].startswith("select:   0 %")
    assert shown[1].startswith("preparing:   0 %")
    assert shown[2].startswith("step 1 of 3, montages:  25 %")
    assert shown[2].endswith("00:00, about ? left")
    assert shown[3].startswith(r"step 2 of 3, stability\x1b[31m:  50 %")
    assert shown[3].endswith("00:10, about 00:20 left")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_finished_bar_ends_its_line_in_a_file_and_leaves_a_terminal(monkeypatch, is_terminal):
    stream = io.StringIO()
    stream.isatty = lambda: is_terminal
    monkeypatch.setattr("sys.stderr", stream)
    with work_bar("select"):
        pass
    assert stream.getvalue().endswith("\r" if is_terminal else "\n")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_time_goes_on_while_nothing_is_finished(monkeypatch, is_terminal):
    class Terminal(io.StringIO):
        drawn = 0

        def isatty(self):
            return is_terminal

        def write(self, text):
            self.drawn += "about" in text
            return super().write(text)

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("mixnorm.commands.bars.LONGEST_SILENCE", 0.01)
    with work_bar("select", seconds=0.01):
        for _ in range(2000):  # until it was drawn again
            if terminal.drawn > 2:
                break
            time.sleep(0.01)
    assert terminal.drawn > 2


def test_short_parts_of_a_step_do_not_fill_a_log(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr("mixnorm.commands.bars.time.monotonic", lambda: now[0])
    with work_bar("select") as bar:
        for part in range(100):
            now[0] += 0.1
            show_progress(bar, Progress("montages", 1, 1, part / 100, 0.0))
    shown = capsys.readouterr().err.count("step 1 of 1")
    assert 10 <= shown <= 25


def test_arguments_are_given_back_as_typed_without_those_left_out():
    @click.command()
    @click.argument("recordings", nargs=-1)
    @click.option("--keep")
    @click.option("--out", default="there")
    @click.option("--folds", "n_folds", type=int)
    @reading_options
    def command(**_):
        click.echo(json.dumps(typed_arguments(("out",))))

    given = ["--target", "a b", "my file.edf", "--out", "here", "--target", "c", "x.edf", "--folds", "3"]
    found = json.loads(CliRunner().invoke(command, given).output)
    assert found == ["my file.edf", "x.edf", "--folds", "3", "--target", "a b", "--target", "c"]


def test_options_about_reading_reach_the_reader():
    @click.command()
    @reading_options
    def command(**reading):
        click.echo(json.dumps(read_options(reading)))

    arguments = ["--target", "a", "--target", "b", "--drop", "Fp1", "--ch-names", "Fz, Cz", "--sfreq", "250"]
    arguments += ["--recipe", "signal=eeg", "--max-gib", "8"]
    found = json.loads(CliRunner().invoke(command, arguments).output)
    expected = {
        "target": ["a", "b"],
        "nontarget": [],
        "drop": ["Fp1"],
        "ch_names": ["Fz", "Cz"],
        "sfreq": 250.0,
        "use_bads": False,
        "recipe": "signal=eeg",
        "max_gib": 8.0,
    }
    assert found == expected
    assert json.loads(CliRunner().invoke(command, ["--use-bads"]).output)["use_bads"]


def test_names_of_subjects_reach_the_reader():
    @click.command()
    @subjects_option
    @reading_options
    def command(**reading):
        click.echo(json.dumps(read_options(reading)))

    for given, names in ((["--subjects", "Ann, Bob"], ["Ann", "Bob"]), ([], [])):
        assert json.loads(CliRunner().invoke(command, given).output)["subjects"] == names


@pytest.mark.parametrize(
    ("python", "option"),
    [
        ("give it with sfreq=… (Hz)", "give it with --sfreq … (Hz)"),
        ("name them with ch_names=…", "name them with --ch-names …"),
        ("with target=… and nontarget=…", "with --target … and --nontarget …"),
        ("exclude them with drop=['Fz']", "exclude them with --drop Fz"),
        (
            "exclude them with drop=['Fz', 'left eye', 'C z']",
            "exclude them with --drop Fz --drop 'left eye' --drop 'C z'",
        ),
        (f"exclude them with drop={['a]b', chr(39)]}", "exclude them with --drop 'a]b' --drop ''\"'\"''"),
        ("subjects=… names 1 (Ann) for 2", "--subjects … names 1 (Ann) for 2"),
        ("a higher limit reject=…; use_bads=True uses them", "a higher limit --reject …; --use-bads uses them"),
        ("a file called sfreq=1.mat; alpha=… is no option", "a file called sfreq=1.mat; alpha=… is no option"),
    ],
)
def test_keywords_of_python_become_options(python, option):
    assert as_options(python) == option
    with pytest.raises(click.ClickException) as caught, messages():
        raise ValueError(python)
    assert str(caught.value) == option


def test_every_keyword_in_a_message_of_the_readers_has_an_option():
    import mixnorm.eeg

    sources = Path(mixnorm.eeg.__file__).parent.rglob("*.py")
    found = {word for path in sources for word in re.findall(r"(\w+)=(?:…|\{\[)", path.read_text(encoding="utf-8"))}
    command = click.command()(reading_options(subjects_option(reject_option(lambda: None))))
    options = {parameter.name for parameter in command.params}
    assert len(_READING) == 8
    assert {"sfreq", "ch_names", "target", "drop", "subjects"} <= found <= options
    for word in found:
        assert as_options(f"{word}=…").startswith("--")


def test_zero_processes_are_refused():
    command = click.command()(jobs_option(lambda jobs: click.echo(jobs)))
    result = CliRunner().invoke(command, ["--jobs", "0"])
    assert result.exit_code == 2
    assert "the number of processes must be at least 1, or -1 for one per core" in result.output
    assert CliRunner().invoke(command, ["--jobs", "-1"]).output == "-1\n"
    assert CliRunner().invoke(command, []).output == "1\n"


def epochs(source, subject):
    events = Events.of(np.arange(4), [0, 1, 0, 1])
    labels = {"subject": np.full(4, subject), "session": np.full(4, source)}
    return EpochedRecording(
        np.zeros((4, 1, 2)), ("Cz",), np.array([0, 0.1]), events, **labels, source=source, positions=np.zeros((1, 3))
    )


def test_recordings_of_nobody_are_said_to_be_taken_for_one_persons(capsys):
    describe([epochs("a", "unknown"), epochs("b", "unknown")])
    said = capsys.readouterr()
    assert said.out == ""
    assert "Note: 2 recordings do not name their subject (a, b) and" in said.err
    assert "with --subjects A,B,…" in said.err
    describe([epochs("a", "unknown"), epochs("b", "Bob")])
    assert "Note: " not in capsys.readouterr().err


def test_channels_that_are_no_electrodes_are_warned_of_by_name(capsys):
    recording = replace(simulated_recording(24, n_channels=3, n_informative=1), ch_names=("Fz", "EOG left", "M1"))
    describe([recording], forbid=True)
    said = capsys.readouterr().err
    assert "Warning: EOG left: by their names not EEG electrodes" in said
    assert said.rstrip().endswith("exclude them with --drop 'EOG left' or --forbid")
    assert "drop=" not in said
    describe([recording], named=("EOG left",))
    assert "Warning" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("recording", "preset", "remedy"),
    [
        (simulated_recording(24, n_channels=2, n_informative=1), "epochs", "needs a window; use another --preset"),
        (epochs("a", "A"), "default", "which cannot be filtered; use --preset epochs"),
    ],
    ids=["continuous", "epochs"],
)
def test_a_preset_that_does_not_fit_is_said_with_the_option(recording, preset, remedy):
    if isinstance(recording, EpochedRecording):
        recording = replace(recording, X=np.random.default_rng(0).standard_normal((4, 1, 2)))
    with pytest.raises(click.ClickException, match=f"{remedy}$"), messages():
        prepare(recording, Preparation.preset(preset))
