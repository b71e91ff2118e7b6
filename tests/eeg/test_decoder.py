from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.metrics import roc_auc_score

from mixnorm.eeg import Decoder, Events, Preparation, RecordingError, prepare, simulated_recording


@pytest.fixture
def decoder(recording, lda):
    return Decoder.fit(recording, Preparation(reference="average"), lda)


def test_scores_are_those_of_scaler_and_classifier(recording, decoder):
    scores = decoder.predict(recording)
    design = prepare(recording, decoder.preparation)
    expected = decoder.classifier.decision_function(decoder.scaler.transform(design.X))
    np.testing.assert_allclose(scores.score, expected, rtol=1e-10)
    assert_array_equal(scores.target, recording.events.target)
    np.testing.assert_allclose(scores.onset, recording.events.onset / 256)
    assert len(scores) == 240


def test_decoder_generalises_to_another_recording(lda):
    first, second = (
        simulated_recording(720, n_channels=6, n_informative=4, amplitude=8.0, seed=seed) for seed in (1, 2)
    )
    scores = Decoder.fit(first, classifier=lda).predict(second)
    assert roc_auc_score(scores.target, scores.score) > 0.75


def test_channels_are_matched_by_name(recording, decoder):
    order = [3, 1, 5, 0, 2, 4]
    names = [recording.ch_names[channel] for channel in order]
    shuffled = replace(
        recording,
        signal=np.vstack([recording.signal[order], recording.signal[:1]]),
        ch_names=(*names, "extra"),
        positions=recording.positions[[*order, 0]],
    )
    assert_array_equal(decoder.predict(shuffled).score, decoder.predict(recording).score)


def test_missing_channels_and_other_rates_are_refused(recording, decoder):
    with pytest.raises(
        RecordingError, match=r"^simulated: the model needs channels that are not in it: Pz, P4; it has Fz"
    ):
        decoder.predict(recording.without(["Pz", "P4"]))
    with pytest.raises(RecordingError, match="its rate is 512 Hz, that of the model 256 Hz; resample it"):
        decoder.predict(replace(recording, sfreq=512.0))


def test_events_whose_window_is_cut_off_have_no_score(recording, decoder):
    last = recording.signal.shape[1] - 1
    scores = decoder.predict(replace(recording, events=Events.of([1000, 2000, last])))
    assert_array_equal(np.isnan(scores.score), [False, False, True])
    assert_array_equal(scores.target, -1)


def test_reference_channels_stay_needed_but_are_no_features(recording, lda):
    decoder = Decoder.fit(recording, Preparation(reference=("Cz",)), lda)
    assert decoder.ch_names == recording.ch_names
    assert "Cz" not in decoder.feature_names
    assert decoder.selected == ("Fz", "Pz", "Oz", "P3", "P4")
    assert np.isfinite(decoder.predict(recording).score).all()
