"""``mixnorm select``, killed at any moment, continues where it stopped and gives the same bits."""

import json
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner

from mixnorm import load
from mixnorm.commands.select import select
from mixnorm.eeg import simulated_recording, to_raw

pytest.importorskip("mne")

#: Run the command; count the parts it computes in the file COUNT, and kill the process after so many (0: never).
RUN = """
import os, signal, sys
import mixnorm.montage.checkpoint as checkpoint
count, last = sys.argv[1], int(sys.argv[2])
keep, done = checkpoint._keep_result, []
def keep_and_count(path, call):
    result = keep(path, call)
    done.append(path.name)
    with open(count, "w") as file:
        file.write(str(len(done)))
    if len(done) == last:
        os.kill(os.getpid(), signal.SIGKILL)
    return result
checkpoint._keep_result = keep_and_count
sys.argv[1:] = sys.argv[3:]
from mixnorm.commands.main import main
main()
"""


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    path = tmp_path_factory.mktemp("recordings") / "sub-A_ses-1_raw.fif"
    to_raw(simulated_recording(240, n_channels=5, n_informative=3, amplitude=8.0, seed=1)).save(path, verbose="error")
    return path


def run(tmp_path, recording, folder, last=0):
    arguments = [tmp_path / "count", last, "select", recording, "--out", tmp_path / folder, "--no-figures"]
    arguments += ["--resamplings", "3", "--json"]
    command = [sys.executable, "-c", RUN, *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return result, int((tmp_path / "count").read_text())


def test_killed_and_started_again_it_ends_in_the_same_bits(recording, tmp_path):
    whole, in_all = run(tmp_path, recording, "whole")
    assert whole.returncode == 0, whole.stderr
    # two folds and all trials, by our order, four others and on the path; stability
    assert in_all == 6 * 3 + 1
    killed, before = run(tmp_path, recording, "again", 9)
    assert killed.returncode == -signal.SIGKILL
    assert before == 9
    assert not (tmp_path / "again" / "selection.json").exists()
    resumed, rest = run(tmp_path, recording, "again")
    assert resumed.returncode == 0, resumed.stderr
    assert rest == in_all - 9
    assert resumed.stdout == whole.stdout
    names = sorted(file.name for file in (tmp_path / "whole").iterdir())
    assert names == sorted(file.name for file in (tmp_path / "again").iterdir())
    assert ".parts" not in names
    for name in set(names) - {"montage.mixnorm"}:
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name
    ours, theirs = (load(tmp_path / folder / "montage.mixnorm").classifier for folder in ("whole", "again"))
    assert ours.coef_.tobytes() == theirs.coef_.tobytes()
    assert f"montages: 3 of 3 parts taken from {tmp_path / 'again' / '.parts'}" in resumed.stderr
    assert "SNR ranking: 2 of 3 parts taken from" in resumed.stderr
    assert "taken from" not in whole.stderr


def test_parts_of_other_constraints_are_not_used_and_are_removed_at_the_end(recording, tmp_path, monkeypatch):
    arguments = [recording, "--out", tmp_path / "out", "--no-figures", "--resamplings", 0, "--no-compare"]

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("mixnorm.montage.shown_path._path_without", stop)
        assert CliRunner().invoke(select, [*map(str, arguments)]).exit_code == 130
    assert len(list((tmp_path / "out" / ".parts").iterdir())) == 3
    result = CliRunner().invoke(select, [*map(str, arguments), "--forbid", "Cz"])
    assert result.exit_code == 0, result.output
    assert "taken from" not in result.stderr
    assert "Cz" not in json.loads((tmp_path / "out" / "montage.json").read_text(encoding="utf-8"))["sensors"]
    assert not (tmp_path / "out" / ".parts").exists()


def test_stopped_by_hand_it_says_how_to_go_on(recording, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("mixnorm.commands.select.select_montage", stop)
    result = CliRunner().invoke(select, [str(recording), "--out", str(tmp_path / "out")])
    assert result.exit_code == 130
    assert f"Stopped. Finished results are in {tmp_path / 'out' / '.parts'}; run the same command" in result.stderr
