import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mixnorm import GroupSVC
from mixnorm.eeg import Decoder, Preparation, default_classifier, prepare, read_recording, read_recordings
from mixnorm.eeg.export import to_onnx

pytest.importorskip("onnx", reason="onnx is not installed: pip install mixnorm[onnx]")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install mixnorm[onnx]")


def run(model, X):
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(["score", "probability"], {"epochs": X})


@pytest.mark.parametrize(
    "preparation",
    [Preparation(), Preparation.preset("errp"), Preparation(reference="average", scaling="windsor", clip=5)],
)
def test_onnx_gives_our_scores_with_scaling_and_clipping_inside(recording, preparation):
    decoder = Decoder.fit(recording, preparation, GroupSVC(alpha=0.2))
    X = 3 * prepare(recording, preparation).X  # large amplitudes, many of which are clipped
    expected = [decoder.score_trial(trial) for trial in X]
    score, probability = run(to_onnx(decoder), X)
    assert_allclose(score, expected, atol=1e-6)
    assert_allclose(probability, np.clip((1 + np.array(expected)) / 2, 0, 1), atol=1e-6)


def test_probability_is_the_calibrated_one_where_there_is_one(recording):
    decoder = Decoder.fit(recording, classifier=default_classifier("svm", alphas=3))
    X = prepare(recording, decoder.preparation).X
    _, probability = run(to_onnx(decoder), X)
    expected = decoder.classifier.predict_proba(decoder.scaler.transform(X))[:, 1]
    assert_allclose(probability, expected, atol=1e-9)
    facts = {one.key: json.loads(one.value) for one in to_onnx(decoder).metadata_props}
    assert facts["probability"] == "calibrated on held-out scores"


def test_metadata_say_how_to_make_the_input(recording):
    decoder = Decoder.fit(recording, classifier=GroupSVC(alpha=0.2))
    facts = {one.key: json.loads(one.value) for one in to_onnx(decoder).metadata_props}
    assert facts["ch_names"] == list(decoder.feature_names)
    assert facts["times_s"] == decoder.times.tolist()
    assert facts["sfreq_hz"] == 256.0
    assert facts["unit"] == "µV"
    assert Preparation.from_dict(facts["preparation"]) == decoder.preparation


def test_probability_is_that_of_the_squared_hinge_loss():
    """Brute force: of all scores f, (1 + f)/2 = p minimises p max(0, 1 − f)² + (1 − p) max(0, 1 + f)²."""
    grid = np.linspace(-1.5, 1.5, 3001)
    for p in (0.0, 0.2, 0.5, 0.9, 1.0):
        risk = p * np.maximum(0, 1 - grid) ** 2 + (1 - p) * np.maximum(0, 1 + grid) ** 2
        assert_allclose(np.clip((1 + grid[np.argmin(risk)]) / 2, 0, 1), p, atol=1e-3)


@pytest.mark.slow
def test_onnx_gives_our_scores_on_held_out_runs_of_iib_and_br41n(data):
    *training, held_out = read_recordings(data / "bcicomp2-iib")
    cases = [
        (training, held_out),
        ([read_recording(data / "br41n-p300" / "S1.mat")], read_recording(data / "br41n-p300" / "S2.mat")),
    ]
    for known, other in cases:
        decoder = Decoder.fit(known, classifier=default_classifier("svm-noise", alphas=3))
        scores = decoder.predict(other).score
        onnx_scores, _ = run(to_onnx(decoder), prepare(other, decoder.preparation).X)
        assert_allclose(onnx_scores, scores[np.isfinite(scores)], atol=1e-6)
