"""``mixnorm spell``: the text and its JSON, matrices, priors, stopping, and what is refused."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.io import savemat

from mixnorm import GroupSVC, load, save
from mixnorm.commands.spell import spell_command
from mixnorm.commands.train import train
from mixnorm.eeg import MATRICES, Decoder, prepare
from spellers import easy_recording, spelling_of, with_events, write_mat

RATE = ("--sfreq", "256")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, and recordings of three and one characters in the layout of the BCI competition."""
    folder = tmp_path_factory.mktemp("spell")
    for name, seed, n in (("calibration", 0, 360), ("online", 1, 360), ("one", 5, 120)):
        write_mat(folder / f"{name}.mat", easy_recording(seed, n))
    run(train, folder / "calibration.mat", "-o", folder / "me.mixnorm")
    return folder


def run(command, *arguments, code=0):
    done = CliRunner().invoke(command, [*map(str, arguments), *RATE])
    assert done.exit_code == code, done.output
    return done


def test_json_holds_the_promised_fields(folder):
    done = run(spell_command, folder / "me.mixnorm", folder / "online.mat", "--json")
    found, text = json.loads(done.stdout), spelling_of(easy_recording(1, 360))
    assert found["text"] == found["true_text"] == text
    assert found["accuracy_by_repetition"][-1] == 1.0
    assert len(found["accuracy_by_repetition"]) == 10
    first = found["characters"][0]
    assert (first["symbol"], first["true_symbol"], first["n_flashes"], first["stopped"]) == (
        text[0],
        text[0],
        120,
        False,
    )
    assert first["seconds"] == pytest.approx(120 * 0.25, rel=0.01)
    assert 0 < first["runner_up_probability"] < first["probability"] <= 1
    assert [one["repetitions"] for one in found["by_repetition"]] == list(range(1, 11))
    assert found["by_repetition"][-1]["letters_per_minute"] == pytest.approx(60 / (120 * 0.25 + 2), rel=0.01)
    assert {one["threshold"] for one in found["by_threshold"]} >= {0.9, 0.95}
    assert "6x6 is assumed" in done.stderr


def test_text_shows_letters_right_and_speed(folder):
    done = run(spell_command, folder / "me.mixnorm", folder / "online.mat", "--stop", 0.9, "--matrix", "6x6")
    assert "3 of 3 letters right" in done.stdout
    assert "letters/min" in done.stdout
    assert "assumed" not in done.stderr


def test_accuracy_by_repetition_does_not_depend_on_stopping(folder):
    asked = [
        run(spell_command, folder / "me.mixnorm", folder / "online.mat", "--json", *how)
        for how in ((), ("--stop", 0.9), ("--repetitions", 2))
    ]
    found = [json.loads(one.stdout) for one in asked]
    assert (
        found[0]["accuracy_by_repetition"] == found[1]["accuracy_by_repetition"] == found[2]["accuracy_by_repetition"]
    )
    assert all(one["stopped"] and one["n_flashes"] < 120 for one in found[1]["characters"])
    assert [one["n_flashes"] for one in found[2]["characters"]] == [24] * 3


def test_unlabelled_recordings_have_no_truth(folder, tmp_path):
    recording = easy_recording(1, 360)
    design = prepare(recording, load(folder / "me.mixnorm").preparation)
    arrays = {"X": design.X, "y": np.full(len(design), -1), "ch_names": np.array([f"ch{k + 1}" for k in range(4)])}
    arrays |= {"times": design.times, "stimulus": design.stimulus, "character": design.character}
    np.savez(tmp_path / "new.npz", **arrays)
    labelled = {**arrays, "y": design.y, "letter": np.array(list(spelling_of(recording)))[design.character]}
    np.savez(tmp_path / "known.npz", **labelled)
    run_without_rate(train, tmp_path / "known.npz", "-o", tmp_path / "me.mixnorm")
    found = json.loads(run_without_rate(spell_command, tmp_path / "me.mixnorm", tmp_path / "new.npz", "--json").stdout)
    assert found["text"] == spelling_of(recording)
    assert found["true_text"] is found["accuracy_by_repetition"] is found["by_threshold"] is found["interval"] is None
    done = run_without_rate(
        spell_command, tmp_path / "me.mixnorm", tmp_path / "known.npz", "--json", "--interval", 0.2
    )
    found = json.loads(done.stdout)
    assert found["matrix"] == "6x6"  # from the letters
    assert "assumed" not in done.stderr
    assert found["by_repetition"][0]["seconds"] == pytest.approx(12 * 0.2)


def run_without_rate(command, *arguments, code=0):
    done = CliRunner().invoke(command, [str(argument) for argument in arguments])
    assert done.exit_code == code, done.output
    return done


def test_one_character_trains_a_model_with_a_caution(folder, tmp_path):
    done = run(train, folder / "one.mat", "-o", tmp_path / "one.mixnorm")
    assert "Caution: all trials are of one character" in done.stdout
    assert "Caution" not in run(train, folder / "online.mat", "-o", tmp_path / "three.mixnorm").stdout
    report = json.loads(run(train, folder / "one.mat", "-o", tmp_path / "one.mixnorm", "--json").stdout)
    assert (report["n_characters"], report["folds_by"]) == (1, "block")
    found = json.loads(run(spell_command, tmp_path / "one.mixnorm", folder / "online.mat", "--json").stdout)
    assert found["text"] == found["true_text"]


def test_few_electrodes_are_calibrated_on_trials_that_did_not_choose_them(folder, tmp_path):
    run(train, folder / "calibration.mat", "-o", tmp_path / "two.mixnorm", "--max-sensors", 2)
    decoder = load(tmp_path / "two.mixnorm")
    assert len(decoder.ch_names) == 2
    found = json.loads(run(spell_command, tmp_path / "two.mixnorm", folder / "online.mat", "--json").stdout)
    assert found["accuracy_by_repetition"][-1] == 1.0


def test_a_prior_and_a_matrix_file_are_read(folder, tmp_path):
    rows = "\n".join(f'"{row}",' for row in ("ABCDEF", "GHIJKL", "MNOPQR", "STUVWX", "YZ1234", "56789_"))
    matrix = tmp_path / "m.toml"
    matrix.write_text(f"symbols = [\n{rows}\n]\nrows = [7, 8, 9, 10, 11, 12]\ncolumns = [1, 2, 3, 4, 5, 6]\n")
    (tmp_path / "text.txt").write_text("the quick brown fox jumps over the lazy dog", encoding="utf-8")
    options = ("--matrix", matrix, "--prior", tmp_path / "text.txt", "--json")
    found = json.loads(run(spell_command, folder / "me.mixnorm", folder / "online.mat", *options).stdout)
    assert found["text"] == spelling_of(easy_recording(1, 360))
    turned = json.loads(
        run(spell_command, folder / "me.mixnorm", folder / "online.mat", "--json", "--matrix", "6x6-rows-first").stdout
    )
    assert turned["text"] == spelling_of(easy_recording(1, 360), MATRICES["6x6-rows-first"])


def test_a_figure_is_drawn(folder, tmp_path):
    pytest.importorskip("matplotlib")
    run(spell_command, folder / "me.mixnorm", folder / "online.mat", "--figure", tmp_path / "letters.png")
    assert {path.name for path in tmp_path.iterdir()} == {"letters.png", "letters.svg"}


def test_what_cannot_be_spelled_is_refused_in_one_line(folder, tmp_path):
    me, online = folder / "me.mixnorm", folder / "online.mat"
    other = tmp_path / "m.toml"
    other.write_text('symbols = ["AB", "CD"]\nrows = [1, 2]\ncolumns = [3, 4]\n')
    blind = tmp_path / "blind.toml"
    blind.write_text('[codes]\n1 = "AB"\n2 = "CD"\n')
    single = tmp_path / "single.mixnorm"
    save(Decoder.fit(easy_recording(0), classifier=GroupSVC(0.01, penalty="l2")), single)
    estimator = tmp_path / "svc.mixnorm"
    save(load(me).classifier, estimator)
    for arguments, problem in (
        ((me, online, "--matrix", other), "online.mat: the matrix"),
        ((me, online, "--matrix", blind), "cannot tell A, B apart"),
        ((me, online, "--matrix", "7x7"), "Unknown matrix '7x7'"),
        ((single, online), "single.mixnorm: This decoder has no calibration"),
        ((estimator, online), "this is a GroupSVCCV, not a decoder"),
        ((me, online, "--stop", 1.5), "between 0 and 1, but got 1.5"),
        ((me, online, "--interval", -1), "--interval must be a number of seconds from 0"),
        (
            (me, online, "--figure", tmp_path / "nowhere" / "a.png"),
            "does not exist; create it or give another --figure",
        ),
    ):
        done = run(spell_command, *arguments, code=1)
        assert problem in done.stderr
        assert done.stdout == ""
    for options in (("--stop", 0.9, "--repetitions", 3), ("--max-repetitions", 3)):
        run(spell_command, me, online, *options, code=2)


def test_a_recording_without_codes_says_what_is_needed(folder, tmp_path):
    recording = with_events(easy_recording(1), stimulus=np.full(240, 1))
    trigger = np.zeros((recording.signal.shape[1], 1))
    trigger[recording.events.onset, 0] = np.where(recording.events.target, 1, -1)
    savemat(tmp_path / "trig.mat", {"y": recording.signal.T, "trig": trigger, "fs": 256.0})
    done = run_without_rate(spell_command, folder / "me.mixnorm", tmp_path / "trig.mat", code=1)
    assert "it has no flash codes" in done.stderr
    assert "StimulusCode in BCI2000" in done.stderr


def test_learning_needs_the_calibration_again_and_counts_characters(folder):
    asked = folder / "me.mixnorm", folder / "online.mat", "--matrix", "6x6", "--repetitions", 1
    plain = json.loads(run(spell_command, *asked, "--json").stdout)
    assert plain["learned"] is None
    learn = "--learn", folder / "calibration.mat"
    found = json.loads(run(spell_command, *asked, *learn, "--json").stdout)
    assert found["learned"] == 2  # nothing was spelled after the third character
    assert found["text"] == plain["text"]
    first, second = ([one["probability"] for one in report["characters"]] for report in (plain, found))
    assert first[0] == second[0]
    assert first[1:] != second[1:]
    both = json.loads(run(spell_command, *asked[:2], folder / "one.mat", *asked[2:], *learn, "--json").stdout)
    assert both["learned"] == 3
    assert "learned from 2 characters" in run(spell_command, *asked, *learn).stdout
    assert "learned" not in run(spell_command, *asked).stdout


def test_learning_from_two_recordings_and_with_few_electrodes(folder, tmp_path):
    run(train, folder / "calibration.mat", folder / "one.mat", "-o", tmp_path / "two.mixnorm", "--max-sensors", 2)
    learn = "--learn", folder / "calibration.mat", "--learn", folder / "one.mat"
    done = run(spell_command, tmp_path / "two.mixnorm", folder / "online.mat", *learn, "--json")
    found = json.loads(done.stdout)
    assert (found["learned"], found["text"]) == (2, found["true_text"])


def test_calibration_that_does_not_fit_is_named(folder, tmp_path):
    write_mat(tmp_path / "three.mat", easy_recording(3, 120, n_channels=3, n_informative=3))
    asked = folder / "me.mixnorm", folder / "online.mat", "--learn"
    done = run(spell_command, *asked, tmp_path / "three.mat", "--json", code=1)
    assert done.stdout == ""
    assert "three.mat: channels that the model needs are missing: ch4" in done.stderr
    done = run(spell_command, *asked, tmp_path / "none.mat", code=1)
    assert "none.mat" in done.stderr
    fast = CliRunner().invoke(spell_command, [*map(str, (*asked, folder / "one.mat")), "--sfreq", "128"])
    assert fast.exit_code == 1
    assert "one.mat: its rate is 128 Hz, that of the model 256 Hz" in fast.stderr
    design = prepare(easy_recording(0, 120), load(folder / "me.mixnorm").preparation)
    arrays = {"X": design.X, "ch_names": np.array([f"ch{k + 1}" for k in range(4)]), "times": design.times}
    arrays |= {"stimulus": design.stimulus, "character": design.character}
    for name, y in (("known", design.y), ("blind", np.full(len(design), -1))):
        np.savez(tmp_path / f"{name}.npz", y=y, **arrays)
    run_without_rate(train, tmp_path / "known.npz", "-o", tmp_path / "me.mixnorm")
    files = tmp_path / "me.mixnorm", tmp_path / "known.npz", "--learn", tmp_path / "blind.npz"
    done = run_without_rate(spell_command, *files, code=1)
    assert "blind.npz: 120 of its 120 flashes have no label ('target')" in done.stderr
