import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from mixnorm.commands.report import report
from mixnorm.commands.study import study
from mixnorm.study import METHODS

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
KEYS += ["auc_se", "sel_se", "f_measure_se", "windows_kept"]


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
    assert list(found) == ["plan", "complete", "units_done", "units_total", "failed", "above_tol", "rows", "letters"]
    assert (found["failed"], found["above_tol"]) == ([], [])
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
        (["none.npz"], "Data set 'none': 'none.npz' was not found here"),
        (["tiny.toml", "--backend", "dask"], "needs the address of a scheduler"),
        (["epfl"], "Get subject1.zip"),
    ],
)
def test_errors_are_one_line_and_stdout_stays_empty(plan, monkeypatch, arguments, message):
    monkeypatch.delenv("MIXNORM_DATA", raising=False)
    done = call(study, *arguments, "--json")
    assert (done.exit_code, done.stdout) == (1, "")
    assert message in done.stderr


def test_nothing_is_started_where_the_backend_cannot_be_used(plan, tmp_path):
    done = call(study, plan, "--backend", "dask")
    assert (done.exit_code, done.stdout) == (1, "")
    assert not (tmp_path / "mixnorm-results").exists()


def test_a_plan_whose_every_unit_fails_is_not_complete(plan, tmp_path):
    rng = np.random.default_rng(0)
    arrays = {"X": rng.standard_normal((40, 2, 3)), "y": np.zeros(40, dtype=int)}
    np.savez(tmp_path / "one-class.npz", **arrays, ch_names=["Cz", "Pz"], times=[0.0, 0.1, 0.2])
    done = call(study, "one-class.npz", "--methods", "svm,gsvm-2", "--splits", 6, "--json")
    found = json.loads(done.stdout)
    assert done.exit_code == 3
    assert (found["complete"], found["units_done"], found["units_total"]) == (False, 12, 12)
    assert [row["auc"] for row in found["rows"]] == [None, None]
    reason = "subject unknown: all 32 training trials are non-targets; two classes are needed"
    assert [failed["reason"] for failed in found["failed"]] == [reason] * 12
    assert found["failed"][0]["unit"] == "one-class, subject unknown, split 0, svm"
    lines = [line for line in done.stderr.splitlines() if line.startswith(("Failed", "and"))]
    assert lines[0] == f"Failed: one-class, subject unknown, split 0, svm: {reason}"
    assert (len(lines), lines[-1]) == (11, "and 2 more")
    done = call(study, "one-class.npz", "--methods", "svm,gsvm-2", "--splits", 6)
    assert done.exit_code == 3
    assert "FAILED, and not in the means: 12 of 12 units: one-class, subject unknown" in done.stdout


def test_fits_that_did_not_converge_are_said_and_in_the_exit_status(plan, monkeypatch):
    def unconverged(*arguments):
        outcome = METHODS["svm"].fit(*arguments)
        return replace(outcome, chosen={**outcome.chosen, "dual_gap": 3e-5})

    monkeypatch.setitem(METHODS, "gsvm-2", replace(METHODS["gsvm-2"], fit=unconverged))
    done = call(study, plan, "--splits", 1, "--json")
    found = json.loads(done.stdout)
    assert (done.exit_code, found["complete"]) == (3, True)
    unit = "tiny, subject S1, split 0, 90 training trials, gsvm-2"
    assert found["above_tol"] == [{"unit": unit, "dual_gap": 3e-5}]
    assert f"Not converged: {unit}: relative duality gap 3.0e-05" in done.stderr


def test_another_plan_in_the_same_folder_is_refused(plan):
    assert call(study, plan, "--out", "here", "--json").exit_code == 0
    done = call(study, plan, "--out", "here", "--seed", 1, "--json")
    assert done.exit_code == 1
    assert "contains results of another plan ('tiny', seed 0)" in done.stderr


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


@pytest.fixture
def started(plan, tmp_path):
    """Starts a long study in a process of its own, and waits until some of its units are done."""
    children = []

    def start(*options):
        children.append(_started(plan, tmp_path, *options))
        return children[0]

    yield start
    for child in children:
        child.kill()
        child.communicate()


def _started(plan, tmp_path, *options):
    plan.write_text(PLAN.replace("splits = 2", "splits = 4000"), encoding="utf-8")
    command = [sys.executable, "-m", "mixnorm.commands.main", "study", str(plan), "--out", "here", *options]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    results = tmp_path / "here" / "results"
    deadline = time.monotonic() + 300
    while not (results.is_dir() and len(list(results.glob("*.json"))) >= 3):
        assert time.monotonic() < deadline, "the study did not begin"
        assert child.poll() is None, "the study has ended"
        time.sleep(0.05)
    return child


def alive(processes):
    """Processes that run; one that has ended and waits for its parent does not."""
    states = {}
    for number in processes:
        try:
            states[number] = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
    return [number for number, state in states.items() if state != "Z"]


def descendants(number):
    """The processes that a process started, and those that they started."""
    children = Path(f"/proc/{number}/task/{number}/children").read_text().split()
    return [found for child in children for found in (int(child), *descendants(int(child)))]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux lists the children of a process")
def test_a_terminated_study_leaves_no_worker_alive(started):
    child = started("--jobs", "2")
    workers = descendants(child.pid)
    assert len(workers) >= 2
    child.terminate()
    _, err = child.communicate(timeout=300)
    assert child.returncode == 143
    assert "Stopped. Finished results are in here; run the same command again to continue." in err
    assert "Traceback" not in err
    deadline = time.monotonic() + 120
    while alive(workers) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert alive(workers) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends Ctrl+C to all processes of a console")
def test_ctrl_c_ends_cleanly_and_the_same_command_continues(plan, started):
    child = started()
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=300)
    assert child.returncode == 130
    assert out == ""
    assert "Stopped. Finished results are in here; run the same command again to continue." in err
    assert "Traceback" not in err
    done = call(study, plan, "--out", "here", "--splits", 2, "--json")
    assert json.loads(done.stdout)["complete"] is True
