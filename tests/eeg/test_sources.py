"""Files, MNE objects and arrays with names are taken alike."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mixnorm.eeg import (
    Decoder,
    EpochedRecording,
    Preparation,
    RecordingError,
    SelectOptions,
    prepare,
    read_recording,
    read_recordings,
    select_montage,
    simulated_recording,
    to_raw,
)

mne = pytest.importorskip("mne")


@pytest.fixture(scope="module")
def recording():
    return simulated_recording(240, n_channels=6, n_informative=4, seed=11)


@pytest.fixture
def raw(recording):
    return to_raw(recording)


def as_mapping(recording):
    events = recording.events
    columns = {name: getattr(events, name) for name in ("onset", "target", "stimulus", "character")}
    return {"signal": recording.signal, "ch_names": recording.ch_names, "sfreq": recording.sfreq, **columns}


def same_design(one, other, atol=0.0):
    assert one.ch_names == other.ch_names
    for name in ("y", "stimulus", "character", "onset", "run"):
        assert_array_equal(getattr(one, name), getattr(other, name))
    assert_allclose(one.X, other.X, rtol=0, atol=atol)


def test_file_raw_and_arrays_give_the_same_design(recording, raw, tmp_path):
    raw.save(tmp_path / "sub-A_ses-2_raw.fif", fmt="double", verbose="error")
    file = read_recording(tmp_path / "sub-A_ses-2_raw.fif")
    reread = mne.io.read_raw(tmp_path / "sub-A_ses-2_raw.fif", verbose="error")
    from_file = prepare(file)
    same_design(prepare(reread), from_file)
    same_design(prepare(raw), from_file, atol=1e-9)
    same_design(prepare(as_mapping(recording)), from_file, atol=1e-9)
    same_design(prepare(tmp_path / "sub-A_ses-2_raw.fif"), from_file)
    # an object that was read from a file has the name, the subject and the session of the file
    assert_array_equal(prepare(reread).session, from_file.session)
    assert (read_recording(reread).source, read_recording(reread).subject) == (file.source, "A")


def cut(raw):
    return mne.Epochs(raw, tmin=0.0, tmax=0.6, baseline=None, preload=True, verbose="error")


def test_epochs_in_memory_and_in_a_file_and_their_arrays_give_the_same_design(raw, tmp_path):
    epochs = cut(raw)
    epochs.save(tmp_path / "a-epo.fif", fmt="double", verbose="error")
    from_file = prepare(read_recording(tmp_path / "a-epo.fif"))
    same_design(prepare(epochs), from_file, atol=1e-9)
    read = read_recording(epochs)
    arrays = {"X": read.X, "y": read.events.target, "ch_names": read.ch_names, "times": read.times}
    found = prepare(arrays)
    assert_array_equal(found.X, prepare(epochs).X)
    assert_array_equal(found.y, from_file.y)
    # the trials of the continuous recording, cut here
    plain = Preparation(band=None, window=(0.0, 0.6), n_samples=None, reduce="pick")
    whole = prepare(raw, plain)
    assert_allclose(found.X[:, :, : whole.X.shape[2]], whole.X, atol=1e-9)


def test_lists_are_several_sessions(recording, raw):
    other = to_raw(simulated_recording(240, n_channels=6, n_informative=4, seed=12))
    design = prepare([raw, other])
    assert len(design) == 480
    assert list(np.unique(design.session)) == ["1", "2"]
    mixed = prepare([raw, as_mapping(recording)])
    assert len(mixed) == 480
    with pytest.raises(ValueError, match="One object is given twice among the recordings"):
        prepare([raw, raw])


def test_decoder_and_selection_take_raw(raw, lda):
    decoder = Decoder.fit(raw, classifier=lda)
    from_recording = Decoder.fit(read_recording(raw), classifier=lda)
    assert_array_equal(decoder.predict(raw).score, from_recording.predict(read_recording(raw)).score)
    options = SelectOptions(sensors=2, n_resamplings=0, compare=False, n_folds=2)
    found, expected = (select_montage(source, options) for source in (raw, read_recording(raw)))
    assert found.to_json() == expected.to_json()


def test_subject_known_to_mne_is_used(raw):
    raw.info["subject_info"] = {"his_id": "P07"}
    assert read_recording(raw).subject == "P07"
    assert read_recordings(raw, subjects=["Ann"])[0].subject == "Ann"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            np.zeros((4, 3, 2)),
            r"mapping of arrays with names, but got ndarray of shape \(4, 3, 2\)\. For arrays, pass",
        ),
        (17, "but got int"),
    ],
)
def test_other_objects_are_refused_with_what_to_pass(source, message):
    with pytest.raises(TypeError, match=message):
        read_recording(source)


def test_arrays_without_names_are_refused(recording):
    given = as_mapping(recording)
    with pytest.raises(
        RecordingError, match=r"^arrays 1: no ch_names, onset in it \(found: signal, sfreq\); give signal"
    ):
        read_recording({"signal": given["signal"], "sfreq": 256.0})
    with pytest.raises(RecordingError, match=r"signal has shape \(6, \d+\) for 5 channel names; give \(channels"):
        read_recording({**given, "ch_names": given["ch_names"][:5]})


# Channels


def test_bad_channels_are_left_out_and_named(raw):
    raw.info["bads"] = ["Cz", "P4"]
    read = read_recording(raw)
    assert read.ch_names == ("Fz", "Pz", "Oz", "P3")
    assert "channels marked as bad are left out: Cz, P4; use_bads=True uses them" in read.notes
    assert read_recording(raw, drop="Cz").ch_names == read.ch_names  # naming it as well is no error
    everything = read_recording(raw, use_bads=True)
    assert everything.ch_names == ("Fz", "Cz", "Pz", "Oz", "P3", "P4")
    assert "channels marked as bad are used, as asked: Cz, P4" in everything.notes
    with pytest.warns(RuntimeWarning, match=r"^raw 1: Cz \(marked as bad\), P4 \(marked as bad\) are left out"):
        assert prepare(raw).ch_names == read.ch_names
    epochs = cut(raw)
    assert read_recording(epochs).ch_names == read.ch_names


def test_all_channels_bad_is_refused(raw):
    raw.info["bads"] = list(raw.ch_names)
    with pytest.raises(
        RecordingError,
        match=r"^raw 1: all EEG channels are marked as bad \(Fz, Cz, .*; to use them, give use_bads=True$",
    ):
        read_recording(raw)


def test_channel_bad_in_one_recording_is_left_out_of_all(recording, raw):
    raw.info["bads"] = ["Oz"]
    with pytest.warns(RuntimeWarning, match=r"Oz \(marked as bad in raw 1\) is left out of this recording too"):
        design = prepare([read_recording(raw), recording])
    assert design.ch_names == ("Fz", "Cz", "Pz", "P3", "P4")
    assert len(design) == 480


def test_channel_types_reference_and_projections_are_said(recording):
    names = [*recording.ch_names, "HEOG", "STI"]
    info = mne.create_info(names, 256.0, ["eeg"] * 6 + ["eog", "stim"])
    data = np.vstack([recording.signal * 1e-6, np.zeros((2, recording.signal.shape[1]))])
    raw = mne.io.RawArray(data, info, verbose="error").set_annotations(to_raw(recording).annotations)
    plain = read_recording(raw)
    assert plain.ch_names == recording.ch_names
    assert "channels of other types are left out: HEOG (eog), STI (stim)" in plain.notes
    waiting = raw.copy().set_eeg_reference("average", projection=True, verbose="error")
    read = read_recording(waiting)
    assert any(note.startswith("projections that are not applied: Average EEG reference") for note in read.notes)
    assert_allclose(read.signal, plain.signal)
    applied = read_recording(waiting.copy().apply_proj(verbose="error"))
    assert not any("projections" in note for note in applied.notes)
    assert_allclose(applied.signal.mean(axis=0), 0, atol=1e-9)
    referenced = raw.copy().set_eeg_reference(["Cz"], verbose="error")
    assert any("re-referenced before it was saved" in note for note in read_recording(referenced).notes)


def test_epochs_that_mne_dropped_are_counted(raw):
    raw.annotations.append(10.0, 0.5, "BAD_blink")
    epochs = cut(raw)
    dropped = 240 - len(epochs)
    assert dropped > 0
    assert f"{dropped} epochs were dropped in MNE: BAD_blink {dropped}" in read_recording(epochs).notes
    kept = mne.Epochs(
        raw, tmin=0.0, tmax=0.6, baseline=None, preload=True, reject_by_annotation=False, verbose="error"
    )
    with pytest.warns(RuntimeWarning, match=r"of 240 trials are left out: \d overlapping an annotation \(BAD_blink"):
        design = prepare(kept)
    assert len(design) < 240


# Units


def test_recordings_in_different_units_are_asked_about(recording):
    volts = replace(recording, signal=recording.signal * 1e-6, source="b.edf")
    text = (
        r"^b\.edf: its amplitudes \(.* µV\) are 1e-06 times those of simulated \(.* µV\)\. Is it in volts\?; all rec"
    )
    for order in ([recording, volts], [volts, recording]):
        with pytest.raises(RecordingError, match=text):
            prepare(order)
    louder = replace(recording, signal=recording.signal * 20)
    assert len(prepare([recording, louder])) == 480


def test_recording_in_another_unit_than_the_training_is_asked_about(recording, lda):
    decoder = Decoder.fit(recording, classifier=lda)
    volts = replace(recording, signal=recording.signal * 1e-6)
    with pytest.raises(RecordingError, match=r"1e-06 times those of the training recordings .* Is it in volts\?"):
        decoder.predict(volts)
    with pytest.raises(RecordingError, match=r"1e\+03 times those of the training .* Is it in nanovolts\?"):
        decoder.predict(replace(recording, signal=recording.signal * 1e3))


# Annotations


def test_annotation_outside_the_recording_is_refused(recording, tmp_path):
    path = tmp_path / "a.vhdr"
    mne.export.export_raw(path, to_raw(recording), verbose="error")
    marks = path.with_suffix(".vmrk")
    text = marks.read_text(encoding="utf-8").rstrip("\n")
    last = int(text.splitlines()[-1].split("=")[0].removeprefix("Mk"))
    marks.write_text(f"{text}\nMk{last + 1}=Comment,Target,99999999,1,0\n", encoding="utf-8")
    with pytest.raises(RecordingError, match=rf"^{path}: .*outside.*recording.*; copy it again, or correct its annot"):
        read_recording(path)


def test_names_of_subjects_reach_recordings_in_memory():
    pair = [simulated_recording(24, seed=seed) for seed in (0, 1)]
    named = read_recordings(*pair, subjects=["ann", "bob"])
    assert [one.subject for one in named] == ["ann", "bob"]
    assert [one.session for one in named] == [one.session for one in read_recordings(*pair)]
    design = prepare(pair[0])
    epochs = EpochedRecording(
        X=design.X,
        ch_names=design.ch_names,
        times=design.times,
        events=pair[0].events,
        subject=design.subject,
        session=design.session,
        source="memory",
        positions=design.positions,
    )
    assert set(read_recordings(epochs, subjects=["eve"])[0].subject) == {"eve"}
