import json
import os
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from mixnorm.commands.report import report
from mixnorm.commands.study import study

PLAN = """
name = "tiny"
methods = ["svm", "gsvm-2"]
splits = 2
n_train = 90
alphas = [0.01, 0.1]

[[dataset]]
name = "tiny"
source = "simulated"
options = { n_trials = 260, n_channels = 5, n_informative = 2, noise = 0.1 }
"""
KEYS = ["dataset", "method", "n_train", "auc", "sel", "f_measure", "p_value", "n_subjects", "n_splits"]


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "tiny.toml"
    path.write_text(PLAN, encoding="utf-8")
    return path


def call(command, *arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def test_json_is_one_object_alone_on_stdout(plan, tmp_path):
    done = call(study, plan, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert list(found) == ["plan", "complete", "units_done", "units_total", "rows"]
    assert (found["plan"], found["complete"], found["units_done"], found["units_total"]) == ("tiny", True, 4, 4)
    assert [list(row) for row in found["rows"]] == [KEYS, KEYS]
    assert found["rows"][0]["p_value"] is None
    assert 50 < found["rows"][0]["auc"] <= 100
    assert "units" in done.stderr
    assert (tmp_path / "mixnorm-results" / "tiny" / "study.json").is_file()


def test_the_table_and_the_places_of_the_figures_are_said(plan, tmp_path):
    done = call(study, plan, "--out", "here", "--splits", 1, "--jobs", 1)
    assert done.exit_code == 0, done.output
    assert "SVM     " in done.stdout
    assert "GSVM-2" in done.stdout
    figures = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("Figure")]
    assert figures
    for path in figures:
        assert (tmp_path / path).is_file()
        assert (tmp_path / path.replace(".png", ".svg")).is_file()


def test_options_override_the_plan(plan):
    rows = json.loads(call(study, plan, "--methods", "svm, gsvm-a", "--splits", 3, "--json").stdout)["rows"]
    assert [(row["method"], row["n_splits"]) for row in rows] == [("svm", 3), ("gsvm-a", 3)]
    other = json.loads(call(study, plan, "--methods", "svm", "--seed", 5, "--out", "b", "--json").stdout)["rows"]
    assert other[0]["auc"] != rows[0]["auc"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulatd"], "Unknown plan 'simulatd': did you mean 'simulated'?"),
        (["tiny.toml", "--methods", "gvsm-2"], "Unknown method 'gvsm-2': did you mean 'gsvm-2'?"),
        (["none.npz"], "The data set 'none' has no 'none.npz' here"),
        (["tiny.toml", "--backend", "dask"], "needs the address of a scheduler"),
        (["epfl"], "Get subject1.zip"),
    ],
)
def test_errors_are_one_line_and_stdout_stays_empty(plan, monkeypatch, arguments, message):
    monkeypatch.delenv("MIXNORM_DATA", raising=False)
    done = call(study, *arguments, "--json")
    assert (done.exit_code, done.stdout) == (1, "")
    assert message in done.stderr


def test_another_plan_in_the_same_folder_is_refused(plan):
    assert call(study, plan, "--out", "here", "--json").exit_code == 0
    done = call(study, plan, "--out", "here", "--seed", 1, "--json")
    assert done.exit_code == 1
    assert "holds another study ('tiny', seed 0), whose plan differs" in done.stderr


def test_a_report_in_every_format(plan):
    call(study, plan, "--out", "here", "--json")
    for form, mark in (
        ("text", "──"),
        ("csv", "dataset,method"),
        ("markdown", "| ---"),
        ("latex", r"\begin{tabular}"),
    ):
        done = call(report, "here", "--format", form, "--no-figures")
        assert done.exit_code == 0, done.output
        assert mark in done.stdout
    assert json.loads(call(report, "here", "--json", "--no-figures").stdout)["complete"] is True


def test_an_incomplete_study_has_no_table_without_partial(plan, tmp_path):
    call(study, plan, "--out", "here", "--json")
    next((tmp_path / "here" / "results").iterdir()).unlink()
    done = call(report, "here", "--no-figures")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "not complete, 1 of 4 units are missing" in done.stderr
    done = call(report, "here", "--partial", "--no-figures")
    assert done.exit_code == 0
    assert "NOT COMPLETE: 3 of 4 units done; missing: tiny, subject S1" in done.stdout
    found = json.loads(call(report, "here", "--partial", "--no-figures", "--json").stdout)
    assert (found["complete"], found["units_done"]) == (False, 3)


def test_ctrl_c_ends_cleanly_and_the_same_command_continues(plan, tmp_path):
    plan.write_text(PLAN.replace("splits = 2", "splits = 400"), encoding="utf-8")
    command = [sys.executable, "-m", "mixnorm.commands.main", "study", str(plan), "--out", "here"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    results = tmp_path / "here" / "results"
    deadline = time.monotonic() + 60
    while not (results.is_dir() and len(list(results.glob("*.json"))) >= 3):
        assert time.monotonic() < deadline, "the study did not begin"
        time.sleep(0.05)
    os.kill(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert child.returncode == 130
    assert out == ""
    assert "Stopped. What was done is in here; the same command continues from there." in err
    assert "Traceback" not in err
    done = call(study, plan, "--out", "here", "--splits", 2, "--json")
    assert json.loads(done.stdout)["complete"] is True
