import csv
import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from mixnorm import load
from mixnorm.commands.predict import predict
from mixnorm.commands.train import _about_chance, train
from mixnorm.eeg import StreamDecoder, read_recording, simulated_recording, to_raw
from mixnorm.montage.caution import FEWEST_FOLDS

pytest.importorskip("mne")


def mixnorm(*arguments):
    command = [sys.executable, "-m", "mixnorm.commands.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two sessions of a simulated speller as fif files."""
    folder = tmp_path_factory.mktemp("recordings")
    paths = []
    for session in (1, 2):
        recording = simulated_recording(480, n_channels=6, n_informative=3, amplitude=8.0, seed=session)
        paths.append(folder / f"sub-A_ses-{session}_raw.fif")
        to_raw(recording).save(paths[-1], verbose="error")
    return paths


@pytest.fixture(scope="module")
def model(files):
    path = files[0].parent / "me.mixnorm"
    done = mixnorm("train", *files, "-o", path, "--json")
    assert done.returncode == 0, done.stderr
    return path, done


def test_train_prints_one_json_object_with_auc_and_electrodes(model, files):
    path, done = model
    report = json.loads(done.stdout)
    assert path.exists()
    assert report["folds_by"] == "session"
    assert len(report["auc_by_fold"]) == 2
    assert report["auc"] == pytest.approx(np.mean(report["auc_by_fold"]))
    assert report["auc"] > 0.75
    assert {"Fz", "Cz", "Pz"} & set(report["electrodes"])
    assert report["n_trials"] == 960
    assert report["preparation"]["phase"] == "causal"
    assert "480 events: 80 target" in done.stderr


def test_train_says_the_same_in_words(files, tmp_path):
    done = mixnorm("train", files[0], "-o", tmp_path / "one.mixnorm", "--max-sensors", 2)
    assert done.returncode == 0, done.stderr
    assert "480 trials, 80 of them targets" in done.stdout
    assert "leaving out one character fold at a time" in done.stdout
    assert "(95 % interval 0." in done.stdout
    assert "chance level" not in done.stdout
    assert "of 6 electrodes: " in done.stdout
    chosen = done.stdout.split("electrodes: ")[1].splitlines()[0].split(", ")
    assert len(chosen) == 2
    assert set(load(tmp_path / "one.mixnorm").ch_names) == set(chosen)  # it requires no other electrode


def test_train_says_if_the_auc_could_be_chance(tmp_path):
    rng = np.random.default_rng(3)
    names, times = np.array(["Fz", "Cz", "Pz"]), 0.05 * np.arange(12)
    y, path = (rng.uniform(size=150) < 0.3).astype(int), tmp_path / "noise.npz"
    np.savez(path, X=rng.standard_normal((150, 3, 12)), y=y, ch_names=names, times=times)
    done = mixnorm("train", path, "-o", tmp_path / "noise.mixnorm", "--json")
    report = json.loads(done.stdout)
    assert report["auc_low"] <= 0.5 <= report["auc_high"]
    assert report["auc_low"] < report["auc"] < report["auc_high"]
    done = mixnorm("train", path, "-o", tmp_path / "noise.mixnorm")
    assert "Caution: the interval includes chance level (0.5)" in done.stdout


@pytest.mark.parametrize(
    "low, high, n_folds, cautions",
    [
        (0.45, 0.62, FEWEST_FOLDS, ["Caution: the interval includes chance level"]),
        (0.28, 0.42, FEWEST_FOLDS, ["Caution: the AUC is below chance level"]),
        (0.55, 0.62, FEWEST_FOLDS, []),
        (0.45, 0.62, FEWEST_FOLDS - 1, []),  # the interval of few folds is wide, whatever was learned
        (None, None, FEWEST_FOLDS, []),
    ],
)
def test_cautions_about_chance_say_what_the_interval_says(low, high, n_folds, cautions):
    said = _about_chance({"auc_low": low, "auc_high": high, "auc_by_fold": [None, *[0.5] * n_folds]})
    assert [text[: len(start)] for text, start in zip(said, cautions, strict=True)] == cautions


def test_train_takes_a_method_by_its_name_in_a_study(files, tmp_path):
    done = mixnorm("train", files[0], "-o", tmp_path / "one.mixnorm", "--method", "gsvm-a", "--json")
    assert done.returncode == 0, done.stderr
    assert load(tmp_path / "one.mixnorm").classifier.adaptive
    refused = mixnorm("train", files[0], "-o", tmp_path / "two.mixnorm", "--method", "lda")
    assert refused.returncode == 2
    assert "'lda' is not one of 'svm', 'svm-1'" in refused.stderr


def test_file_and_stream_give_the_same_bits_after_saving(model, files):
    path, _ = model
    done = mixnorm("predict", path, files[1], "--json")
    assert done.returncode == 0, done.stderr
    printed = [row["score"] for row in json.loads(done.stdout)["scores"]]
    recording = read_recording(files[1])
    stream, at, scores = StreamDecoder(load(path)), 0, []
    rng = np.random.default_rng(0)
    while at < recording.signal.shape[1]:
        length = int(rng.integers(1, 400))
        onset = recording.events.onset
        events = onset[(onset >= at) & (onset < at + length)] - at
        scores += [one.score for one in stream.push(recording.signal[:, at : at + length], events)]
        at += length
    assert scores == printed


def test_predict_writes_csv_with_a_row_per_event(model, files, tmp_path):
    path, _ = model
    done = mixnorm("predict", path, files[1])
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(rows) == 480
    assert list(rows[0]) == ["recording", "onset", "stimulus", "character", "target", "score", "reason"]
    assert float(rows[0]["onset"]) == pytest.approx(2.0)
    assert {row["target"] for row in rows} == {"0", "1"}
    mixnorm("predict", path, files[1], "-o", tmp_path / "scores.csv")
    assert (tmp_path / "scores.csv").read_text().splitlines() == done.stdout.splitlines()


def test_output_that_nobody_reads_to_its_end_is_no_error(model, files):
    path, _ = model
    command = [sys.executable, "-m", "mixnorm.commands.main", "predict", str(path), str(files[1])]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    child.stdout.close()  # as `head` does when it has its lines
    err = child.stderr.read()
    child.stderr.close()
    child.wait(timeout=300)
    assert "Broken pipe" not in err
    assert "Traceback" not in err


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["csv", "json"])
def test_scores_that_cannot_be_written_leave_the_former_file(options, model, files, tmp_path, monkeypatch):
    def full(_handle):
        raise OSError(28, "No space left on device")

    path, _ = model
    former = tmp_path / "scores"
    former.write_text("former")
    monkeypatch.setattr("os.fsync", full)
    done = CliRunner().invoke(predict, [str(path), str(files[1]), "-o", str(former), *options])
    assert done.exit_code == 1
    assert "No space left on device" in done.stderr
    assert former.read_text() == "former"
    assert [entry.name for entry in tmp_path.iterdir()] == ["scores"]


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("nowhere/m.mixnorm", "the folder nowhere does not exist; create it or give another -o."),
        ("m.model", "m.model: the name of a model file must end in .mixnorm."),
        ("file/m.mixnorm", "the folder file does not exist"),
    ],
)
def test_a_wrong_place_for_the_model_is_found_before_anything_is_read(output, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    done = CliRunner().invoke(train, ["recording-that-is-not-there.fif", "-o", output])
    assert (done.exit_code, done.stdout) == (1, "")
    assert message in done.stderr
    assert "recording-that-is-not-there" not in done.stderr


def test_a_folder_that_may_not_be_written_to_is_found_before_anything_is_read(tmp_path, monkeypatch):
    def refused(**_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refused)
    done = CliRunner().invoke(train, ["not-there.fif", "-o", str(tmp_path / "m.mixnorm")])
    assert done.exit_code == 1
    assert "m.mixnorm: no file can be written there (Permission denied); give another -o." in done.stderr


def test_predict_finds_a_wrong_place_before_it_reads(model, tmp_path):
    path, _ = model
    done = CliRunner().invoke(predict, [str(path), "not-there.fif", "-o", str(tmp_path / "no" / "scores.csv")])
    assert done.exit_code == 1
    assert "no does not exist; create it or give another -o." in done.stderr


def test_no_electrodes_at_all_are_refused(files, tmp_path):
    done = CliRunner().invoke(train, [str(files[0]), "-o", str(tmp_path / "m.mixnorm"), "--max-sensors", "0"])
    assert done.exit_code == 2
    assert "--max-sensors" in done.stderr
    assert "0 is not in the range x>=1" in done.stderr
    assert not (tmp_path / "m.mixnorm").exists()


def test_a_subject_other_than_the_one_in_the_path_is_warned_of(files, tmp_path):
    done = mixnorm("train", files[0], "-o", tmp_path / "m.mixnorm", "--subjects", "Ann")
    assert done.returncode == 0, done.stderr
    assert f"Warning: {files[0]}: the source names subject A, but --subjects … names Ann, which is used" in done.stderr
    done = mixnorm("train", files[0], "-o", tmp_path / "m.mixnorm", "--subjects", "A")
    assert "the source names subject" not in done.stderr


def test_what_does_not_exist_is_null(model, tmp_path):
    path, _ = model
    recording = simulated_recording(24, n_channels=6, n_informative=3, seed=5)
    raw = to_raw(recording)
    raw.crop(tmax=recording.events.onset[-1] / 256 + 0.1, verbose="error")
    raw.save(tmp_path / "short_raw.fif", verbose="error")
    done = mixnorm("predict", path, tmp_path / "short_raw.fif", "--json")
    assert "NaN" not in done.stdout
    scores = [row["score"] for row in json.loads(done.stdout)["scores"]]
    assert scores[-1] is None
    assert all(score is not None for score in scores[:20])


def test_errors_are_one_line_on_stderr(model, tmp_path, files):
    path, _ = model
    empty = tmp_path / "empty.edf"
    empty.touch()
    done = mixnorm("train", empty, "-o", tmp_path / "m.mixnorm", "--json")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.strip() == f"Error: {empty}: the file is empty; copy or record it again"
    done = mixnorm("predict", path, files[1], "--drop", "Fz")
    assert done.returncode == 1
    assert "channels that the model needs are missing: Fz" in done.stderr
    done = mixnorm("predict", path, files[1], "--sfreq", 512)
    assert done.returncode == 1
    assert "its sampling rate is 256 Hz, but --sfreq … says 512 Hz" in done.stderr


def test_train_takes_names_of_subjects_and_warns_as_select_does(files, tmp_path):
    done = mixnorm("train", *files, "-o", tmp_path / "m.mixnorm", "--subjects", "Ann")
    assert (done.returncode, done.stdout) == (1, "")
    assert "--subjects … gives 1 names (Ann) for 2 recordings" in done.stderr
    recording = simulated_recording(240, n_channels=3, n_informative=2, amplitude=8.0, seed=1)
    to_raw(replace(recording, ch_names=("Fz", "Cz", "HEOG"))).save(tmp_path / "one_raw.fif", verbose="error")
    done = mixnorm("train", tmp_path / "one_raw.fif", "-o", tmp_path / "m.mixnorm", "--subjects", "Ann")
    assert done.returncode == 0, done.stderr
    assert "subject Ann, session one_raw" in done.stderr
    assert "Warning: HEOG: by their names not EEG electrodes" in done.stderr
    assert "--forbid" not in done.stderr


def test_train_refuses_folds_that_cannot_be_and_another_rate(files, tmp_path):
    done = mixnorm("train", files[0], "-o", tmp_path / "m.mixnorm", "--folds", 500)
    assert done.returncode == 1
    assert "500 folds were asked for, but subject A has 4 characters and 80 trials of the smaller class" in done.stderr
    done = mixnorm("train", files[0], "-o", tmp_path / "m.mixnorm", "--sfreq", 128)
    assert done.returncode == 1
    assert "its sampling rate is 256 Hz, but --sfreq … says 128 Hz; leave --sfreq … out" in done.stderr
    assert not (tmp_path / "m.mixnorm").exists()


def test_help_lists_the_commands_without_importing_them():
    code = (
        "import sys\nfrom mixnorm.commands.main import main\nsys.argv = ['mixnorm', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    print([m for m in sys.modules if m.startswith('mixnorm.eeg')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert "train" in done.stdout
    assert "predict" in done.stdout
    assert done.stdout.strip().endswith("[]")


def test_version_and_unknown_commands():
    assert mixnorm("--version").stdout.startswith("mixnorm 0.")
    assert mixnorm("nosuch").returncode == 2


def test_a_long_command_says_that_it_has_started_before_it_imports_anything_large():
    code = (
        "import sys\nsys.modules['sklearn'] = sys.modules['scipy'] = sys.modules['numpy'] = None\n"
        "from mixnorm.commands.main import main\nsys.argv = ['mixnorm', 'select', 'nosuch.edf']\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stderr.startswith("Starting mixnorm select …\n")
    assert "starting:   0 %|" in done.stderr
    assert done.stderr.index("starting:") < done.stderr.index("Error")
    assert mixnorm("select", "--help").stderr == ""


def test_without_click_the_command_names_the_extra():
    code = "import sys; sys.modules['click'] = None\nfrom mixnorm.commands.main import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert 'pip install "mixnorm[cli]"' in done.stderr


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    rng = np.random.default_rng(0)
    y = np.tile([0, 0, 1], 40)
    X = rng.standard_normal((120, 3, 36)) + 2.0 * (y == 1)[:, None, None]
    path = tmp_path_factory.mktemp("bundle") / "epochs.npz"
    np.savez(path, X=X, y=y, ch_names=["Fz", "Cz", "Pz"], times=np.arange(-5, 31) / 50)
    return path


@pytest.mark.parametrize(
    ("options", "times"),
    [
        ([], 0.02 + 0.06 * np.arange(10)),
        (["--samples", "5"], 0.05 + 0.12 * np.arange(5)),
        (["--window", "-0.1,0.26"], -0.08 + 0.06 * np.arange(6)),
        (["--window", "0,0.4", "--samples", "4"], 0.04 + 0.1 * np.arange(4)),
        (["--preset", "epochs"], np.arange(-5, 31) / 50),
    ],
)
def test_train_takes_means_of_epochs_unless_told_otherwise(bundle, tmp_path, options, times):
    arguments = [str(bundle), "-o", str(tmp_path / "m.mixnorm"), "--method", "svm", "--json", *options]
    done = CliRunner().invoke(train, arguments)
    assert done.exit_code == 0, done.output
    np.testing.assert_allclose(json.loads(done.stdout)["times"], times, atol=1e-9)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("0.6", "expected two times in seconds, such as 0,0.6, but got '0.6'"),
        ("a,b", "expected two times in seconds"),
        ("0.6,0.1", "the second time must be later than the first"),
    ],
)
def test_a_window_that_is_none_is_refused(bundle, tmp_path, given, message):
    done = CliRunner().invoke(train, [str(bundle), "-o", str(tmp_path / "m.mixnorm"), "--window", given])
    assert done.exit_code == 2
    assert message in " ".join(done.output.replace("│", " ").split())
    assert not (tmp_path / "m.mixnorm").exists()
