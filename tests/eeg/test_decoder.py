import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.metrics import roc_auc_score

from mixnorm import GroupSVC, load, save
from mixnorm.eeg import (
    Decoder,
    EpochedRecording,
    Events,
    InOrder,
    Preparation,
    RecordingError,
    default_classifier,
    prepare,
    simulated_recording,
)


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
        RecordingError,
        match=r"^simulated: channels that the model needs are missing: Pz, P4; the average reference of the model is over "
        r"all its 6 channels; it has Fz",
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


def epochs(recording, stop=0.6):
    design = prepare(
        recording, Preparation(band=(1, 10), window=(0.0, stop), n_samples=None, decimation=8, reduce="pick")
    )
    return EpochedRecording(
        design.X,
        design.ch_names,
        design.times,
        Events.of(np.arange(len(design)), design.y),
        design.subject,
        design.session,
        "epochs",
        design.positions,
    )


def test_epochs_are_scored_as_they_are(recording, lda):
    trials = epochs(recording)
    decoder = Decoder.fit(trials, classifier=lda)
    assert decoder.preparation == Preparation.preset("epochs")
    expected = decoder.classifier.decision_function(decoder.scaler.transform(trials.X))
    np.testing.assert_allclose(decoder.predict(trials).score, expected, rtol=1e-10)


def test_other_sample_times_and_continuous_recordings_are_refused(recording, lda):
    decoder = Decoder.fit(epochs(recording), classifier=lda)
    with pytest.raises(RecordingError, match=r"^epochs: its 16 sample times are not the 20 of the model; cut it as"):
        decoder.predict(epochs(recording, stop=0.5))
    rate = replace(recording, sfreq=decoder.sfreq)
    with pytest.raises(RecordingError, match=r"^simulated: it is continuous, but the model was trained on epochs"):
        decoder.predict(rate)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    recording = simulated_recording(480, n_channels=6, n_informative=3, amplitude=8.0, seed=3)
    decoder = Decoder.fit(recording, Preparation(reference="average"))
    path = tmp_path_factory.mktemp("models") / "me.mixnorm"
    save(decoder, path)
    return recording, decoder, path


def test_saved_and_loaded_decoder_gives_the_same_bits(saved):
    recording, decoder, path = saved
    loaded = load(path)
    assert_array_equal(loaded.predict(recording).score, decoder.predict(recording).score)
    assert loaded.preparation == decoder.preparation
    assert loaded.selected == decoder.selected
    assert (loaded.ch_names, loaded.feature_names, loaded.sfreq) == (recording.ch_names, recording.ch_names, 256.0)
    assert_array_equal(loaded.times, decoder.times)


def test_model_file_says_what_a_user_would_ask(saved):
    header = json.loads(zipfile.ZipFile(saved[2]).read("header.json"))["model"]
    assert header["ch_names"] == ["Fz", "Cz", "Pz", "Oz", "P3", "P4"]
    assert (header["sfreq"], header["unit"]) == (256.0, "µV")
    assert header["preparation"]["band"] == [0.5, 10.0]
    assert header["preparation"]["window"] == [0.1, 0.7]


def test_model_file_cannot_choose_another_class(saved):
    header, arrays = saved[1]._to_archive()
    with pytest.raises(ValueError, match="A decoder holds one of GroupSVC, GroupSVCCV, but this one holds 'Popen'"):
        Decoder._from_archive(header | {"classifier_class": "Popen"}, arrays)


def test_method_that_chooses_electrodes_finds_the_informative_ones():
    recording = simulated_recording(960, n_channels=10, n_informative=3, amplitude=8.0, seed=3)
    selected = Decoder.fit(recording, classifier=default_classifier("gsvm-2", rule="1se")).selected
    assert {"Fz", "Cz", "Pz"} <= set(selected)
    assert len(selected) < 10


def test_default_classifier_has_the_noise_covariance_and_folds_of_whole_characters():
    classifier = default_classifier(rule="1se")
    assert (classifier.penalty, classifier.noise, classifier.rule) == ("l2", "evoked", "1se")
    assert isinstance(classifier.cv, InOrder)
    assert default_classifier("gsvm-a").adaptive
    with pytest.raises(ValueError, match=r"Allowed values are 'svm', .*'gsvm-2-noise', but got 'lda' instead"):
        default_classifier("lda")


def test_dead_sensor_is_never_selected(recording):
    design = prepare(recording)
    X = design.X.copy()
    X[:, 1] = 0.0
    decoder = Decoder.from_design(replace(design, X=X))
    assert "Cz" not in decoder.selected
    assert decoder.selected


def test_decoder_needs_the_channels_it_uses_and_those_of_its_reference(recording):
    sparse = GroupSVC(0.01, group_weights=[1.0, np.inf, 1.0, np.inf, 1.0])
    decoder = Decoder.fit(recording, Preparation(reference=("Oz",)), sparse)
    assert decoder.selected == ("Fz", "Pz", "P4")
    assert set(decoder.needed) == {*decoder.selected, "Oz"}
    expected = decoder.predict(recording).score
    whole = decoder.scaler.transform(prepare(recording, decoder.preparation).X)
    np.testing.assert_allclose(expected, decoder.classifier.decision_function(whole), rtol=1e-10)
    own = recording.picked(decoder.needed[::-1])
    assert_array_equal(decoder.predict(own).score, expected)
    others = [name for name in recording.ch_names if name not in decoder.needed]
    lost = recording.signal.copy()
    lost[[recording.ch_names.index(name) for name in others]] = np.nan
    assert_array_equal(decoder.predict(replace(recording, signal=lost)).score, expected)
    gone = decoder.selected[0]
    with pytest.raises(RecordingError, match=f"channels that the model needs are missing: {gone}; it has"):
        decoder.predict(recording.without([gone]))
    average = Decoder.fit(recording, Preparation(reference="average"), GroupSVC(0.1))
    assert average.needed == recording.ch_names


def test_channel_that_the_model_needs_but_holds_no_signal_is_named(recording, decoder):
    flat = recording.signal.copy()
    flat[2] = 7.0
    with pytest.raises(RecordingError, match=r"needs are missing: Pz \(flat in 100 % of the recording\)"):
        decoder.predict(replace(recording, signal=flat))
