"""A recording as a laboratory has it: bad and dead channels, marked stretches, lost samples. Nothing bad is used."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose, assert_array_equal

from mixnorm import load
from mixnorm.commands.predict import predict
from mixnorm.commands.select import select
from mixnorm.commands.train import train
from mixnorm.eeg import Decoder, StreamDecoder, default_classifier, read_recording, simulated_recording, to_raw

pytest.importorskip("mne")
# the commands print these warnings
pytestmark = pytest.mark.filterwarnings("always:.*left out:RuntimeWarning")

BAD, DEAD, SATURATED = "P4", "Oz", "PO7"
LOST = slice(12_800, 12_900)


def spoil(recording, seed=0):
    """As an MNE Raw: one channel marked as bad, one dead, one between the rails; a mark, and lost samples in Cz."""
    rng = np.random.default_rng(seed)
    signal, names = recording.signal.copy(), recording.ch_names
    signal[names.index(DEAD)] = 0.0
    rails = np.repeat(rng.choice([-3276.7, 3276.7], 1 + signal.shape[1] // 128), 128)[: signal.shape[1]]
    signal[names.index(SATURATED)] = rails
    signal[names.index(BAD)] *= 30
    signal[names.index("Cz"), LOST] = np.nan
    raw = to_raw(replace(recording, signal=signal))
    raw.info["bads"] = [BAD]
    raw.annotations.append(30.0, 0.4, "BAD_cough")
    return raw


def simulated(seed):
    return simulated_recording(480, n_channels=8, n_informative=4, amplitude=8.0, seed=seed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faulty")
    spoil(simulated(1)).save(folder / "sub-A_ses-1_raw.fif", fmt="double", verbose="error")
    spoil(simulated(2)).save(folder / "sub-A_ses-2_raw.fif", fmt="double", verbose="error")
    clean = to_raw(simulated(2).without([BAD, DEAD, SATURATED]))
    clean.save(folder / "clean_raw.fif", fmt="double", verbose="error")
    return folder


@pytest.fixture(scope="module")
def model(folder):
    done = run(train, folder / "sub-A_ses-1_raw.fif", "-o", folder / "m.mixnorm", "--json")
    return folder / "m.mixnorm", done


def run(command, *arguments):
    done = CliRunner().invoke(command, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.stderr
    return done


def windows(recording, begin, end):
    """Events whose windows (0.1 to 0.7 s) share samples begin … end − 1."""
    onset = recording.events.onset
    return (onset + round(0.7 * 256) > begin) & (onset + round(0.1 * 256) < end)


def test_training_leaves_out_and_counts_what_is_bad(model):
    report = json.loads(model[1].stdout)
    assert report["excluded_channels"] == {
        BAD: "marked as bad",
        DEAD: "flat in 100 % of the recording",
        SATURATED: "flat in 100 % of the recording",
    }
    assert not {BAD, DEAD, SATURATED} & set(report["electrodes"])
    recording = simulated(1)
    marked = windows(recording, 30 * 256, round(30.4 * 256))
    lost = windows(recording, LOST.start, LOST.stop) & ~marked
    assert report["left_out"]["by_reason"] == {"marked": marked.sum(), "lost": lost.sum()}
    assert report["left_out"]["by_channel"] == {"BAD_cough": marked.sum(), "Cz": lost.sum()}
    assert report["n_trials"] == 480 - marked.sum() - lost.sum()
    assert f"channels marked as bad are left out: {BAD}; --use-bads uses them" in model[1].stderr
    assert "trials are left out: " in model[1].stderr


def test_bad_channels_are_used_when_asked_for(folder):
    done = run(train, folder / "sub-A_ses-1_raw.fif", "-o", folder / "all.mixnorm", "--use-bads", "--json")
    report = json.loads(done.stdout)
    assert BAD in report["electrodes"]
    assert report["left_out"]["by_reason"].keys() == {"lost"}


def test_selection_recommends_nothing_bad(folder):
    options = ["--out", folder / "selected", "--no-compare", "--resamplings", 0, "--no-figures", "--folds", 2]
    done = run(select, folder / "sub-A_ses-1_raw.fif", *options, "--json")
    montages = json.loads(done.stdout)["montages"]
    assert len(montages) == 5
    assert not {BAD, DEAD, SATURATED} & set(montages[-1]["sensors"])
    assert "trials are left out: " in done.stderr


def test_prediction_equals_that_of_the_clean_file_except_near_the_fault(model, folder):
    out = folder / "scores.csv"
    done = run(predict, model[0], folder / "sub-A_ses-2_raw.fif", "-o", out)
    rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
    clean = json.loads(run(predict, model[0], folder / "clean_raw.fif", "--json").stdout)
    expected = np.array([row["score"] for row in clean["scores"]])
    recording = simulated(2)
    hit = windows(recording, LOST.start, LOST.stop) | windows(recording, 30 * 256, round(30.4 * 256))
    assert_array_equal([row["score"] == "" for row in rows], hit)
    assert {row["reason"] for row in rows} == {"", "overlaps BAD_cough", "NaN in Cz"}
    score = np.array([float(row["score"] or "nan") for row in rows])
    before = ~hit & (recording.events.onset + round(0.7 * 256) <= LOST.start)
    after = recording.events.onset + round(0.1 * 256) >= LOST.stop + 10 * 256
    assert_array_equal(score[before], expected[before])
    assert min(before.sum(), after.sum()) > 100
    assert np.abs(score[after] - expected[after]).max() <= 1e-8 * expected.std()
    assert done.stdout.splitlines()[0] == f"{480 - hit.sum()} of 480 events scored"
    assert f"{hit.sum()} of 480 trials are left out" in done.stdout
    assert f"scores written to {out}" in done.stdout


def test_python_gives_the_scores_of_the_command(model, folder):
    scores = load(model[0]).predict(spoil(simulated(2)))
    rows = json.loads(run(predict, model[0], folder / "sub-A_ses-2_raw.fif", "--json").stdout)["scores"]
    assert_allclose(scores.score, [np.nan if row["score"] is None else row["score"] for row in rows], rtol=1e-9)
    assert [reason or None for reason in scores.reason] == [row["reason"] for row in rows]


def test_stream_gives_the_bits_of_the_file_through_its_faults(model, folder):
    """A stream knows of no marks. Lost samples cost it the trials that they cost the file."""
    decoder, recording = load(model[0]), read_recording(folder / "sub-A_ses-2_raw.fif")
    scores, onset = decoder.predict(recording), recording.events.onset
    stream, found = StreamDecoder(decoder, recording.ch_names), []
    for begin in range(0, recording.signal.shape[1], 128):
        own = onset[(onset >= begin) & (onset < begin + 128)] - begin
        found += stream.push(recording.signal[:, begin : begin + 128], own)
    found += stream.reset()  # events whose windows are not complete
    assert [one.onset for one in found] == onset.tolist()
    streamed, known = np.array([one.score for one in found]), np.isfinite(scores.score)
    assert_array_equal(streamed[known], scores.score[known])
    assert known[onset > LOST.stop].sum() > 50
    lost = np.array([reason.startswith("NaN") for reason in scores.reason])
    assert lost.any()
    assert np.isnan(streamed[lost]).all()


def test_model_of_many_channels_predicts_from_its_own_electrodes_alone(folder):
    recording = simulated_recording(480, n_channels=64, n_informative=4, amplitude=10.0, seed=4)
    decoder = Decoder.fit(recording, classifier=default_classifier("gsvm-2", rule="1se", alphas=6))
    assert 0 < len(decoder.selected) < 32
    assert decoder.needed == decoder.selected
    expected = decoder.predict(recording).score
    own = recording.picked(decoder.selected[::-1])
    assert_array_equal(decoder.predict(own).score, expected)
    from mixnorm import save

    save(decoder, folder / "few.mixnorm")
    to_raw(own).save(folder / "own_raw.fif", fmt="double", verbose="error")
    to_raw(recording).save(folder / "whole_raw.fif", fmt="double", verbose="error")
    first, second = (
        [
            row["score"]
            for row in json.loads(run(predict, folder / "few.mixnorm", folder / name, "--json").stdout)["scores"]
        ]
        for name in ("own_raw.fif", "whole_raw.fif")
    )
    assert first == second


def test_missing_channel_is_named_with_the_reason(model, folder):
    raw = spoil(simulated(2))
    raw.info["bads"] = [BAD, "Fz"]
    raw.save(folder / "fz_raw.fif", verbose="error")
    done = CliRunner().invoke(predict, [str(model[0]), str(folder / "fz_raw.fif")])
    assert done.exit_code == 1
    assert "channels that the model needs are missing: Fz (marked as bad); --use-bads uses channels" in done.stderr


def test_limit_of_training_trials(folder):
    files = folder / "sub-A_ses-1_raw.fif", folder / "sub-A_ses-2_raw.fif"
    done = run(train, *files, "-o", folder / "r.mixnorm", "--reject", "auto", "--json")
    assert json.loads(done.stdout)["preparation"]["reject"] == "auto"
    done = run(train, *files, "-o", folder / "r.mixnorm", "--reject", "35")
    assert "Warning: In training, " in done.stderr
    assert "beyond the limit, not used in training" in done.stdout
    refused = CliRunner().invoke(train, [*map(str, files), "-o", str(folder / "no.mixnorm"), "--reject", "1"])
    assert refused.exit_code == 1
    assert "are beyond the peak-to-peak limit of 1 µV; " in refused.stderr
    assert "use a higher limit --reject …" in refused.stderr
    assert not (folder / "no.mixnorm").exists()
    for wrong in ("0", "-3", "some"):
        refused = CliRunner().invoke(train, [str(files[0]), "-o", str(folder / "no.mixnorm"), "--reject", wrong])
        assert refused.exit_code == 2
        assert f"'{wrong}' is neither a limit in µV above 0 nor auto" in refused.stderr


def test_prediction_without_labels_says_that_there_is_no_auc(model, folder):
    done = run(predict, model[0], folder / "clean_raw.fif")
    assert len(list(csv.DictReader(done.stdout.splitlines()))) == 480
    assert "480 of 480 events scored\nAUC 0." in done.stderr
    assert "scores written to standard output" in done.stderr
    recording = simulated(2)
    unlabelled = replace(recording, events=type(recording.events).of(recording.events.onset))
    to_raw(unlabelled).save(folder / "online_raw.fif", verbose="error")
    done = run(predict, model[0], folder / "online_raw.fif", "--unlabelled", "--drop", BAD)
    assert "AUC unknown: it needs labels of both classes" in done.stderr
