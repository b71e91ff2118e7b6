import gzip
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mixnorm.eeg import RecordingError, read_recording, read_recordings
from xdf_files import marker_stream, names_of, recording_as_xdf, signal_stream, write_xdf

pytest.importorskip("pyxdf")


def same_events(back, recording, but=()):
    for field in ("onset", "target", "stimulus", "character"):
        if field not in but:
            assert_array_equal(getattr(back.events, field), getattr(recording.events, field))


@pytest.mark.parametrize("clock", [0.0, 12.5, -3000.25])
def test_signal_and_events_come_back_whatever_the_clocks(tmp_path, recording, clock):
    back = read_recording(recording_as_xdf(tmp_path / "a.xdf", recording, clock=clock))
    assert_array_equal(back.signal, recording.signal.astype("<f4"))
    assert (back.ch_names, back.sfreq) == (recording.ch_names, recording.sfreq)
    same_events(back, recording)


def test_compressed_files_are_the_same(tmp_path, recording):
    path = recording_as_xdf(tmp_path / "a.xdf", recording)
    (tmp_path / "b.xdfz").write_bytes(gzip.compress(path.read_bytes()))
    assert_array_equal(read_recording(tmp_path / "b.xdfz").signal, read_recording(path).signal)


def test_units_and_types_of_channels_are_obeyed(tmp_path, recording):
    channels = [{"label": name, "type": "EEG", "unit": "volts"} for name in recording.ch_names]
    channels[2]["type"] = "TRIG"
    in_volts = replace(recording, signal=recording.signal * 1e-6)
    back = read_recording(recording_as_xdf(tmp_path / "a.xdf", in_volts, channels=channels))
    assert back.ch_names == tuple(name for name in recording.ch_names if name != recording.ch_names[2])
    assert_allclose(back.signal[0], recording.signal[0], rtol=1e-6)
    channels[0]["unit"] = "furlongs"
    with pytest.raises(RecordingError, match=r"a\.xdf: its channels have the unit furlongs; correct it"):
        read_recording(recording_as_xdf(tmp_path / "a.xdf", in_volts, channels=channels))


def test_streams_without_descriptions_need_names_and_say_so(tmp_path, recording):
    path = recording_as_xdf(tmp_path / "a.xdf", recording, channels=())
    back = read_recording(path)
    assert back.ch_names[0] == "ch1"
    assert any("the stream has no unit: µV assumed" in note for note in back.notes)
    assert read_recording(path, ch_names=recording.ch_names).ch_names == recording.ch_names


def test_several_signals_and_strange_markers_are_named_by_a_recipe(tmp_path, recording):
    values, times = recording.signal.T.astype("<f4"), 100.0 + recording.events.onset / recording.sfreq
    path = write_xdf(
        tmp_path / "a.xdf",
        signal_stream(1, values, recording.sfreq, name="Amp"),
        signal_stream(2, -values, recording.sfreq, name="Other amp"),
        marker_stream(3, times, names_of(recording.events), name="Speller", kind="Stimuli"),
    )
    with pytest.raises(
        RecordingError,
        match=r"2 of its streams are of the type EEG \(found: Amp \(eeg\), Other amp \(eeg\), Speller \(stimuli\)\); "
        r"name the stream with recipe='signal=Amp'",
    ):
        read_recording(path)
    with pytest.raises(RecordingError, match=r"none of its streams is of the type Markers .*recipe='events=NAME'"):
        read_recording(path, recipe="signal=Amp")
    back = read_recording(path, recipe="signal=Other amp,events=Speller")
    assert_array_equal(back.signal, -values.T.astype(np.float64))
    same_events(back, recording)
    with pytest.raises(RecordingError, match=r"are called 'Othr amp' \(did you mean 'Other amp'\?\)"):
        read_recording(path, recipe="signal=Othr amp")
    with pytest.raises(RecordingError, match=r"the recipe has the key 'signl' \(did you mean 'signal'\?\); possible:"):
        read_recording(path, recipe="signl=Amp")


def test_a_gap_divides_the_recording(tmp_path, recording):
    n_samples = recording.signal.shape[1]
    lost = (n_samples // 2, n_samples // 2 + 800)
    path = recording_as_xdf(tmp_path / "a.xdf", recording, missing=[lost])
    first, second = read_recordings(path)
    assert_array_equal(first.signal, recording.signal[:, : lost[0]].astype("<f4"))
    assert_array_equal(second.signal, recording.signal[:, lost[1] :].astype("<f4"))
    onset = recording.events.onset
    assert_array_equal(first.events.onset, onset[onset < lost[0]])
    assert_array_equal(second.events.onset, onset[onset >= lost[1]] - lost[1])
    assert "divided at 1 gaps" in first.notes


def test_a_rate_that_was_not_kept_is_refused(tmp_path, recording):
    values = recording.signal.T.astype("<f4")
    slow = signal_stream(1, values, recording.sfreq).replace(b"<nominal_srate>256.0", b"<nominal_srate>300.0")
    times = 100.0 + recording.events.onset / recording.sfreq
    path = write_xdf(tmp_path / "a.xdf", slow, marker_stream(2, times, names_of(recording.events)))
    with pytest.raises(RecordingError, match=r"was sampled at 2\d\d\.\d\d Hz, but the stream declares 300 Hz"):
        read_recording(path)


def test_truncated_damaged_and_false_files_are_refused(tmp_path, recording):
    path = recording_as_xdf(tmp_path / "a.xdf", recording)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RecordingError, match=rf"^{path}: "):
        read_recording(path)
    times = 100.0 + recording.events.onset / recording.sfreq
    signal = signal_stream(1, recording.signal.T.astype("<f4"), recording.sfreq)
    write_xdf(path, marker_stream(2, times, names_of(recording.events)), signal)
    assert len(read_recording(path).events) == len(recording.events)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(RecordingError, match=rf"^{path}: it is incomplete \("):
        read_recording(path)
    path.write_text("not XDF\n" * 100)
    with pytest.raises(RecordingError, match=rf"^{path}: it cannot be read as an XDF file"):
        read_recording(path)
    path.write_bytes(whole)
    with pytest.raises(RecordingError, match="more than the 1e-05 GiB that are allowed"):
        read_recording(path, max_gib=1e-5)
