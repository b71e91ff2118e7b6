from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mixnorm.eeg import (
    Events,
    Preparation,
    RecordingError,
    prepare,
    read_recording,
    simulated_recording,
    to_raw,
)

mne = pytest.importorskip("mne")


def write(raw, path):
    if path.name.endswith(".fif"):
        raw.save(path, fmt="single", verbose="error")
    else:
        mne.export.export_raw(path, raw, verbose="error")
    return path


@pytest.mark.filterwarnings("ignore:Encountered unsupported non-voltage units:RuntimeWarning")
@pytest.mark.parametrize(
    ("name", "rounding"),
    # fif, set and vhdr hold 32-bit floats; EDF has 16 bits over the range of a channel
    [("sim_raw.fif", 1e-5), ("sim.set", 1e-5), ("sim.vhdr", 1e-3), ("sim.edf", 0.02)],
)
def test_round_trip_gives_the_same_design(tmp_path, recording, name, rounding):
    path = write(to_raw(recording), tmp_path / name)
    back = read_recording(path)
    assert back.ch_names == recording.ch_names
    assert back.sfreq == recording.sfreq
    for field in ("onset", "target", "stimulus", "character"):
        assert_array_equal(getattr(back.events, field), getattr(recording.events, field))
    preset = Preparation.preset("errp")
    ours, theirs = prepare(recording, preset), prepare(back, preset)
    assert_allclose(theirs.X, ours.X, atol=rounding)
    assert_array_equal(theirs.y, ours.y)
    assert_array_equal(theirs.character, ours.character)
    assert_allclose(theirs.positions, ours.positions, atol=1e-4)


def test_raw_has_volts_montage_and_named_events(recording):
    raw = to_raw(recording)
    assert_allclose(raw.get_data(), recording.signal * 1e-6, rtol=1e-12)
    assert raw.annotations.description[0].startswith(("Target/stimulus ", "NonTarget/stimulus "))
    places = raw.get_montage().get_positions()["ch_pos"]
    assert_allclose([places[name] for name in recording.ch_names], recording.positions, atol=1e-6)


def test_describe_says_which_events_were_taken_for_targets(tmp_path, recording):
    text = read_recording(write(to_raw(recording), tmp_path / "sim_raw.fif")).describe()
    assert "6 channels (Fz, Cz, Pz, Oz, P3, P4) at 256 Hz" in text
    assert "240 events: 40 target, 200 non-target; 12 stimulus codes, 2 characters" in text
    assert "targets are the events named Target" in text


def stim_raw(recording, codes):
    info = mne.create_info([*recording.ch_names, "STI"], recording.sfreq, ["eeg"] * 6 + ["stim"])
    trigger = np.zeros(recording.signal.shape[1])
    trigger[recording.events.onset] = codes
    return mne.io.RawArray(np.vstack([recording.signal * 1e-6, trigger]), info, verbose="error")


def test_trigger_codes_need_to_be_named_and_then_are_used(tmp_path, recording):
    path = write(stim_raw(recording, 7 + recording.events.target), tmp_path / "stim_raw.fif")
    with pytest.raises(
        RecordingError, match=r"targets and non-targets are not recognised among its events: '7' \(200\), '8' \(40\)"
    ):
        read_recording(path)
    back = read_recording(path, target="8")
    assert_array_equal(back.events.onset, recording.events.onset)
    assert_array_equal(back.events.target, recording.events.target)
    assert "targets are the events named 8; non-targets 7" in back.notes


def test_marks_beside_a_trigger_channel_are_no_events(recording):
    raw = stim_raw(recording, 7 + recording.events.target)
    raw.set_annotations(mne.Annotations([10.0], [0.5], ["BAD_cough"]))
    back = read_recording(raw, target="8")
    assert_array_equal(back.events.onset, recording.events.onset)
    assert [span.description for span in back.bad_spans] == ["BAD_cough"]


def test_marks_of_bad_stretches_are_no_stimuli(tmp_path, recording):
    raw = to_raw(recording)
    raw.annotations.append(1.0, 0.2, "BAD_blink")
    back = read_recording(write(raw, tmp_path / "bad_raw.fif"), target="Target")
    assert len(back.events) == 240


def test_unlabelled_stimuli_can_be_read_for_scoring(tmp_path, recording):
    unlabelled = replace(recording, events=Events.of(recording.events.onset, None, recording.events.stimulus))
    path = write(to_raw(unlabelled), tmp_path / "online_raw.fif")
    with pytest.raises(RecordingError, match="targets and non-targets are not recognised among its events"):
        read_recording(path)
    back = read_recording(path, unlabelled=True)
    assert_array_equal(back.events.onset, recording.events.onset)
    assert_array_equal(back.events.stimulus, recording.events.stimulus)
    assert_array_equal(back.events.target, -1)


def test_no_events_and_no_eeg_are_said(tmp_path, recording):
    raw = to_raw(recording).set_annotations(None)
    with pytest.raises(RecordingError, match="no annotations and no trigger channel"):
        read_recording(write(raw, tmp_path / "none_raw.fif"))
    misc = to_raw(recording).set_channel_types(dict.fromkeys(recording.ch_names, "misc"), verbose="error")
    with pytest.raises(RecordingError, match=r"it has no EEG channels \(found: misc\)"):
        read_recording(write(misc, tmp_path / "misc_raw.fif"))


@pytest.mark.parametrize("name", ["sim_raw.fif", "sim.edf", "sim.set", "sim.vhdr"])
def test_truncated_files_are_refused_with_their_path(tmp_path, recording, name):
    path = write(to_raw(recording), tmp_path / name)
    body = path.with_suffix(".eeg") if name.endswith("vhdr") else path
    body.write_bytes(body.read_bytes()[: body.stat().st_size // 2])
    with pytest.raises(RecordingError, match=rf"^{path}: "):
        read_recording(path)


@pytest.mark.parametrize("suffix", ["_raw.fif", ".edf", ".set", ".bdf", ".gdf", ".vhdr", ".cnt", "-epo.fif"])
def test_text_under_the_name_of_a_recording_is_refused(tmp_path, suffix):
    path = tmp_path / f"fake{suffix}"
    path.write_text("this is a letter, not a recording\n" * 50)
    with pytest.raises(RecordingError, match=rf"^{path}: it cannot be read as an MNE"):
        read_recording(path)


def test_epochs_file_gives_trials_in_microvolts(tmp_path, recording):
    raw = to_raw(recording)
    events, _event_id = mne.events_from_annotations(
        raw, lambda text: 2 if text.startswith("Target") else 1, verbose="error"
    )
    epochs = mne.Epochs(
        raw,
        events,
        {"target": 2, "standard": 1},
        tmin=-0.1,
        tmax=0.5,
        baseline=None,
        preload=True,
        verbose="error",
    )
    epochs.save(tmp_path / "sub-07_ses-2-epo.fif", verbose="error")
    back = read_recording(tmp_path / "sub-07_ses-2-epo.fif")
    assert_allclose(back.X, epochs.get_data(copy=True) * 1e6, atol=1e-4)
    assert_array_equal(back.events.target, recording.events.target)
    assert (back.subject[0], back.session[0]) == ("07", "2")
    assert "epochs, 6 channels" in back.describe()
    assert_allclose(prepare(back).times, epochs.times, atol=1e-9)


def test_real_epochs_file_with_its_own_event_names(data):
    path = data / "ner2015-errp-fif" / "S02_Sess01-epo.fif"
    back = read_recording(path, target="bad", nontarget="good", drop=("EOG",))
    assert back.X.shape == (49, 56, 141)
    assert back.events.target.sum() == 10
    assert (back.subject[0], back.session[0]) == ("S02", "01")
    assert 5 < back.X.std() < 50  # microvolts
    with pytest.raises(
        RecordingError, match=r"targets and non-targets are not recognised among its events: 'bad' \(10\), 'good'"
    ):
        read_recording(path)


def test_simulated_raw_is_deterministic_by_seed():
    first, again, other = (simulated_recording(24, seed=seed) for seed in (1, 1, 2))
    assert_array_equal(first.signal, again.signal)
    assert_array_equal(first.events.stimulus, again.events.stimulus)
    assert not np.array_equal(first.signal, other.signal)
