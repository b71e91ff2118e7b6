import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mixnorm.eeg import Preparation, RecordingError, prepare, read_recording
from mixnorm.eeg.readers.bci2000 import State, read_header, state_values

NAMES = ["Fz", "C4", "Cz", "C3", "P4"]


@pytest.fixture
def stored(speller_states):
    values = np.random.default_rng(0).integers(-30_000, 30_000, (speller_states["n_samples"], 5))
    return lambda dtype: (values * (1000 if dtype == "int32" else 0.25 if dtype == "float32" else 1)).astype(dtype)


@pytest.mark.parametrize("dtype", ["int16", "int32", "float32"])
def test_every_sample_type_is_read_back_exactly(tmp_path, write_bci2000, stored, speller_states, dtype):
    path = write_bci2000(tmp_path / "ACSS001R02.dat", stored(dtype), speller_states["states"], names=NAMES)
    back = read_recording(path)
    assert_array_equal(back.signal, stored(dtype).T.astype(np.float64))
    assert back.ch_names == tuple(NAMES)
    assert back.sfreq == 256.0
    assert (back.subject, back.session) == ("ACS", "001")
    assert_array_equal(back.events.onset, speller_states["onsets"])
    states = speller_states["states"]
    assert_array_equal(back.events.stimulus, states["StimulusCode"][1][speller_states["onsets"]])
    assert_array_equal(back.events.target, states["StimulusType"][1][speller_states["onsets"]])
    assert_array_equal(back.events.character, np.repeat([0, 1, 2], 24))


def test_mne_reads_the_same_samples_and_states(tmp_path, write_bci2000, stored, speller_states):
    mne = pytest.importorskip("mne")
    if not hasattr(mne.io, "read_raw_bci2k"):
        pytest.skip("this MNE has no BCI2000 reader")
    path = write_bci2000(tmp_path / "a.dat", stored("int16"), speller_states["states"], names=NAMES)
    raw = mne.io.read_raw_bci2k(path, preload=True, verbose="error")
    ours = read_recording(path)
    theirs = raw.get_data(picks="eeg")
    scale = ours.signal[0, 0] / theirs[0, 0]
    assert_allclose(ours.signal, theirs * scale, rtol=1e-9)
    assert raw.info["sfreq"] == ours.sfreq


def test_version_1_0_without_a_type_means_int16(tmp_path, write_bci2000, stored, speller_states):
    path = write_bci2000(tmp_path / "old.dat", stored("int16"), speller_states["states"], names=NAMES, version="1.0")
    assert read_header(path).sample_type == "int16"
    assert_array_equal(read_recording(path).signal, stored("int16").T)


def test_gains_and_offsets_make_microvolts(tmp_path, write_bci2000, stored, speller_states):
    path = write_bci2000(
        tmp_path / "gain.dat",
        stored("int16"),
        speller_states["states"],
        names=NAMES,
        SourceChGain="floatlist SourceChGain= 5 0.1muV 0.2 0.3 1e-1 0.001mV // g",
        SourceChOffset="floatlist SourceChOffset= 5 10 0 -5 0 0 // o",
    )
    expected = (stored("int16") - np.array([10, 0, -5, 0, 0.0])) * [0.1, 0.2, 0.3, 0.1, 1.0]
    assert_allclose(read_recording(path).signal, expected.T, rtol=1e-12, atol=1e-12)


def test_escaped_and_missing_channel_names(tmp_path, write_bci2000, stored, speller_states):
    states = speller_states["states"]
    path = write_bci2000(tmp_path / "n.dat", stored("int16"), states, names=["Left%20ear", *NAMES[1:]])
    assert read_recording(path).ch_names[0] == "Left ear"
    path = write_bci2000(
        tmp_path / "m.dat", stored("int16"), states, names=NAMES, ChannelNames="list ChannelNames= 0 // none"
    )
    numbered = read_recording(path)
    assert numbered.ch_names == ("ch1", "ch2", "ch3", "ch4", "ch5")
    assert any("the file has no channel names" in note for note in numbered.notes)
    assert read_recording(path, ch_names=NAMES).ch_names == tuple(NAMES)
    with pytest.raises(RecordingError, match="2 channel names for 5 channels"):
        read_recording(path, ch_names=["a", "b"])


@pytest.mark.parametrize(("length", "byte", "bit"), [(1, 0, 0), (1, 2, 7), (5, 0, 6), (16, 1, 3), (12, 2, 0)])
def test_bits_of_a_state_are_those_of_the_little_endian_integer(length, byte, bit):
    packed = np.random.default_rng(length).integers(0, 256, (40, 5), dtype=np.uint8)
    whole = [int.from_bytes(row.tobytes(), "little") for row in packed]
    expected = [(value >> (8 * byte + bit)) & ((1 << length) - 1) for value in whole]
    assert_array_equal(state_values(packed, State(length, byte, bit)), expected)


def test_flashes_without_a_flashing_state_come_from_the_code(tmp_path, write_bci2000, stored, speller_states):
    states = {k: v for k, v in speller_states["states"].items() if k not in ("Flashing", "PhaseInSequence")}
    back = read_recording(write_bci2000(tmp_path / "c.dat", stored("int16"), states, names=NAMES))
    assert_array_equal(back.events.onset, speller_states["onsets"])
    assert_array_equal(back.events.character, np.repeat([0, 1, 2], 24))
    assert any("onsets from StimulusCode" in note for note in back.notes)
    assert any("inferred from the pauses" in note for note in back.notes)


def test_uam_preset_gives_31_samples_of_every_channel(tmp_path, write_bci2000, stored, speller_states):
    path = write_bci2000(tmp_path / "ACSS001R02.dat", stored("int16"), speller_states["states"], names=NAMES)
    design = prepare(read_recording(path), Preparation.preset("uam"))
    assert design.X.shape == (72, 5, 31)
    assert_allclose(design.times, 5 * np.arange(31) / 256)
    assert_array_equal(design.character, np.repeat([0, 1, 2], 24))


def test_broken_files_are_refused(tmp_path, write_bci2000, stored, speller_states):
    states = speller_states["states"]
    path = write_bci2000(tmp_path / "t.dat", stored("int16"), states, names=NAMES)
    whole = path.read_bytes()
    for keep, message in (
        (len(whole) - 3, "are not a whole number of 14-byte samples: truncated"),
        (200, "the header has .* bytes, the file 200: truncated"),
        (0, "the file is empty"),
    ):
        path.write_bytes(whole[:keep])
        with pytest.raises(RecordingError, match=rf"^{path}: .*{message}"):
            read_recording(path)
    path.write_bytes(b"some other kind of data file\n" * 40)
    with pytest.raises(RecordingError, match="its first line is not that of a BCI2000 file"):
        read_recording(path)
    path.write_bytes(whole.replace(b"DataFormat= int16", b"DataFormat= int64"))
    with pytest.raises(RecordingError, match="samples of type int64; supported: int16, int32, float32"):
        read_recording(path)


def test_run_of_another_application_is_refused(tmp_path, write_bci2000, stored, speller_states):
    only = {"Running": speller_states["states"]["Running"]}
    path = write_bci2000(tmp_path / "r.dat", stored("int16"), only, names=NAMES)
    with pytest.raises(RecordingError, match=r"no state StimulusCode \(found: Running\)"):
        read_recording(path)
    silent = {"StimulusCode": (5, np.zeros(speller_states["n_samples"], dtype=np.int64))}
    path = write_bci2000(tmp_path / "s.dat", stored("int16"), silent, names=NAMES)
    with pytest.raises(RecordingError, match="its states contain no flashes"):
        read_recording(path)


def test_free_spelling_has_no_labels(tmp_path, write_bci2000, stored, speller_states):
    states = {name: state for name, state in speller_states["states"].items() if name != "StimulusType"}
    back = read_recording(write_bci2000(tmp_path / "f.dat", stored("int16"), states, names=NAMES))
    assert_array_equal(back.events.target, -1)
    assert "72 unlabelled" in back.describe()
