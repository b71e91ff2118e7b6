import json

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose

import bci2000_module
from mixnorm import GroupSVC, save
from mixnorm.commands.export import export
from mixnorm.eeg import Decoder, Preparation, prepare, simulated_recording, to_raw

pytest.importorskip("mne")


@pytest.fixture(scope="module")
def recording():
    return simulated_recording(120, n_channels=4, n_informative=2, seed=4)


@pytest.fixture
def saved(tmp_path, recording):
    def make(**changes):
        preparation = Preparation.preset("bci2000").with_(**changes)
        decoder = Decoder.fit(recording, preparation, GroupSVC(alpha=0.1))
        save(decoder, tmp_path / "me.mixnorm")
        return decoder, tmp_path / "me.mixnorm"

    return make


def run(*arguments):
    return CliRunner().invoke(export, [str(argument) for argument in arguments])


def test_parameter_file_reproduces_the_scores(saved, recording, tmp_path):
    decoder, path = saved()
    done = run(path, "--to", "bci2000", "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    text = (tmp_path / "me.prm").read_text(encoding="latin-1")
    theirs = bci2000_module.run(text, recording) + report["constant"]
    assert_allclose(theirs[-40:], decoder.predict(recording).score[-40:], atol=1e-6)
    assert "BCI2000's output lacks a constant" in report["notes"][0]
    assert "must contain IIRBandpass" in report["notes"][1]


def test_onnx_file_gives_the_scores(saved, recording, tmp_path):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install mixnorm[onnx]")
    decoder, path = saved(clip=3.0)
    done = run(path, "--to", "onnx", "-o", tmp_path / "other.onnx")
    assert done.exit_code == 0, done.output
    assert done.stdout.strip() == str(tmp_path / "other.onnx")
    session = runtime.InferenceSession(str(tmp_path / "other.onnx"), providers=["CPUExecutionProvider"])
    score, _ = session.run(None, {"epochs": prepare(recording, decoder.preparation).X})
    assert_allclose(score, decoder.predict(recording).score, atol=1e-6)


def test_an_export_that_would_change_scores_says_how_much_and_writes_nothing(saved, recording, tmp_path):
    _, path = saved(clip=2.0)
    done = run(path, "--to", "bci2000")
    assert done.exit_code == 1
    assert "the model limits amplitudes (clip=2), which BCI2000 cannot" in done.output
    assert "--check RECORDING says how much" in done.output
    to_raw(recording).save(tmp_path / "s_raw.fif", verbose="error")
    done = run(path, "--to", "bci2000", "--check", tmp_path / "s_raw.fif")
    assert done.exit_code == 1
    assert "BCI2000 would change the scores of" in done.output
    assert not (tmp_path / "me.prm").exists()
    done = run(path, "--to", "bci2000", "--check", tmp_path / "s_raw.fif", "--without-clipping", "--json")
    report = json.loads(done.stdout)
    assert 0 < report["change"]["share_of_trials"] < 1
    assert report["change"]["largest_change_sd"] > 0
    assert report["notes"][-1].startswith("Clipping is left out: on ")
    assert (tmp_path / "me.prm").exists()


def test_files_that_hold_no_decoder_are_named(tmp_path):
    y = np.tile([0, 1], 20)
    save(GroupSVC(alpha=0.01).fit(np.random.default_rng(0).standard_normal((40, 3)), y), tmp_path / "m.mixnorm")
    done = run(tmp_path / "m.mixnorm", "--to", "onnx")
    assert done.exit_code == 1
    assert "this is a GroupSVC, not a decoder; train one with `mixnorm train`" in done.output
    assert not (tmp_path / "m.onnx").exists()
