"""What is said of recordings beside what they say themselves."""

import numpy as np
import pytest

from mixnorm.eeg import RecordingError, read_recording, read_recordings, simulated_recording, to_raw


def bundle(path, **changes):
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {"X": np.random.default_rng(0).standard_normal((6, 2, 3)), "y": [0, 1] * 3}
    np.savez(path, **(arrays | {"ch_names": ["Fz", "Cz"], "times": [0.0, 0.1, 0.2]} | changes))
    return path


def sessions(found):
    return [str(recording.session[0]) for recording in found]


def test_subjects_are_named_one_for_each_source(tmp_path):
    paths = [bundle(tmp_path / f"{name}.npz") for name in "abc"]
    found = read_recordings(*paths, subjects=["Ann", "Bob", "Ann"])
    assert [set(recording.subject) for recording in found] == [{"Ann"}, {"Bob"}, {"Ann"}]
    assert [set(recording.subject) for recording in read_recordings(*paths)] == [{"unknown"}] * 3


def test_a_folder_is_one_source(tmp_path):
    for name in ("x/1", "x/2", "y/1"):
        bundle(tmp_path / f"{name}.npz")
    found = read_recordings(tmp_path / "x", tmp_path / "y", subjects=("X", "Y"))
    assert [str(recording.subject[0]) for recording in found] == ["X", "X", "Y"]


@pytest.mark.parametrize("subjects", ["Ann", ["Ann"], ["Ann", "Bob", "Eve"]])
def test_another_number_of_subjects_is_refused(tmp_path, subjects):
    paths = [bundle(tmp_path / f"{name}.npz") for name in "ab"]
    with pytest.raises(
        ValueError, match=r"subjects=… gives \d names \(Ann.*\) for 2 recordings; give one name for each"
    ):
        read_recordings(*paths, subjects=subjects)


def test_files_of_one_name_are_sessions_of_their_own(tmp_path):
    paths = [bundle(tmp_path / "data" / day / "eeg.npz") for day in ("monday", "tuesday")]
    assert sessions(read_recordings(*paths)) == ["monday/eeg", "tuesday/eeg"]
    assert sessions(read_recordings(paths[0])) == ["eeg"]
    assert sessions(read_recordings(*paths, subjects=("A", "B"))) == ["eeg", "eeg"]
    other = bundle(tmp_path / "data" / "rest.npz")
    assert sessions(read_recordings(paths[1], other, paths[0])) == ["tuesday/eeg", "rest", "monday/eeg"]


def test_as_much_of_the_path_is_taken_as_differs(tmp_path):
    paths = [bundle(tmp_path / day / "raw" / "eeg.npz") for day in ("monday", "tuesday")]
    assert sessions(read_recordings(*paths)) == ["monday/raw/eeg", "tuesday/raw/eeg"]


def test_continuous_recordings_too_and_what_they_describe(tmp_path):
    pytest.importorskip("mne")
    recording = simulated_recording(24, n_channels=3, n_informative=1)
    paths = []
    for day in ("monday", "tuesday"):
        (tmp_path / day).mkdir()
        paths.append(tmp_path / day / "one_raw.fif")
        to_raw(recording).save(paths[-1], verbose="error")
    found = read_recordings(*paths)
    assert [run.session for run in found] == ["monday/one_raw", "tuesday/one_raw"]
    assert "session tuesday/one_raw from the path" in found[1].describe()


def test_runs_of_a_session_that_the_path_tells_stay_together(tmp_path):
    paths = [
        bundle(tmp_path / "a" / "eeg.npz", session=["1"] * 6),
        bundle(tmp_path / "b" / "eeg.npz", session=["1"] * 6),
    ]
    assert sessions(read_recordings(*paths)) == ["1", "1"]


def test_one_name_with_two_suffixes(tmp_path):
    pytest.importorskip("mne")
    bundle(tmp_path / "eeg.npz", ch_names=["Fz", "Cz"])
    to_raw(simulated_recording(24, n_channels=2, n_informative=1)).save(
        tmp_path / "eeg.fif", verbose="error", fmt="double"
    )
    found = read_recordings(tmp_path / "eeg.npz", tmp_path / "eeg.fif")
    assert str(found[0].session[0]) == str(tmp_path / "eeg.npz")
    assert found[1].session == str(tmp_path / "eeg.fif")


def test_another_rate_than_the_files_own_is_refused(tmp_path):
    path = bundle(tmp_path / "a.npz")
    assert read_recording(path, sfreq=10).sfreq == pytest.approx(10)
    with pytest.raises(RecordingError, match=r"a\.npz: its sampling rate is 10 Hz, but sfreq=… says 250 Hz; leave"):
        read_recording(path, sfreq=250)


def test_the_rate_in_a_matlab_file_counts(tmp_path):
    io = pytest.importorskip("scipy.io")
    trigger = np.zeros((2000, 1), dtype=np.int16)
    trigger[100:1900:40, 0] = np.where(np.arange(45) % 5 == 0, 1, -1)
    y = np.random.default_rng(0).standard_normal((2000, 2))
    io.savemat(tmp_path / "own.mat", {"y": y, "trig": trigger, "fs": 250})
    assert read_recording(tmp_path / "own.mat", sfreq=250).sfreq == 250
    with pytest.raises(RecordingError, match=r"own\.mat: its sampling rate is 250 Hz, but sfreq=… says 500 Hz"):
        read_recording(tmp_path / "own.mat", sfreq=500)
    io.savemat(tmp_path / "none.mat", {"y": y, "trig": trigger})
    assert read_recording(tmp_path / "none.mat", sfreq=500).sfreq == 500


def test_the_rate_in_a_bci2000_file_counts(tmp_path, write_bci2000, speller_states):
    stored = np.random.default_rng(0).integers(-99, 99, (speller_states["n_samples"], 2)).astype(np.int16)
    path = write_bci2000(tmp_path / "AS001R01.dat", stored, speller_states["states"], names=["Fz", "Cz"])
    assert read_recording(path, sfreq=256).sfreq == 256
    with pytest.raises(RecordingError, match="its sampling rate is 256 Hz, but sfreq=… says 250 Hz"):
        read_recording(path, sfreq=250)


def test_the_rate_in_an_mne_file_counts(tmp_path):
    pytest.importorskip("mne")
    to_raw(simulated_recording(24, n_channels=2, n_informative=1)).save(tmp_path / "a_raw.fif", verbose="error")
    assert read_recording(tmp_path / "a_raw.fif", sfreq=256).sfreq == 256
    with pytest.raises(RecordingError, match=r"a_raw\.fif: its sampling rate is 256 Hz, but sfreq=… says 512 Hz"):
        read_recording(tmp_path / "a_raw.fif", sfreq=512)


def test_names_for_channels_that_have_others_are_refused(tmp_path):
    path = bundle(tmp_path / "a.npz")
    assert read_recording(path, ch_names=["Fz", "Cz"]).ch_names == ("Fz", "Cz")
    with pytest.raises(RecordingError, match=r"its channel names \(Fz, Cz\) differ from those in ch_"):
        read_recording(path, ch_names=["Pz", "Oz"])
