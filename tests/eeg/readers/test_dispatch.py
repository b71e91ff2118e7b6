import numpy as np
import pytest

from mixnorm.eeg import RecordingError, read_recording, read_recordings
from mixnorm.eeg.readers import SUFFIXES


def bundle(path, **changes):
    arrays = {"X": np.random.default_rng(0).standard_normal((6, 2, 3)), "y": [0, 1] * 3}
    np.savez(path, **(arrays | {"ch_names": ["Fz", "Cz"], "times": [0.0, 0.1, 0.2]} | changes))
    return path


def test_every_named_format_has_a_suffix():
    assert {".fif", ".edf", ".bdf", ".gdf", ".set", ".vhdr", ".cnt", ".npz", ".dat", ".mat"} <= set(SUFFIXES)


def test_folder_gives_its_recordings_in_the_order_of_their_paths(tmp_path):
    (tmp_path / "b").mkdir()
    for name in ("b/z.npz", "b/a.npz", "c.npz"):
        bundle(tmp_path / name)
    (tmp_path / "readme.txt").write_text("not a recording")
    found = read_recordings(tmp_path)
    assert [recording.source.rsplit("/", 1)[1] for recording in found] == ["a.npz", "z.npz", "c.npz"]


def test_several_sources_are_one_list(tmp_path):
    first, second = bundle(tmp_path / "1.npz"), bundle(tmp_path / "2.npz")
    assert [recording.source for recording in read_recordings(second, first)] == [str(second), str(first)]


def test_one_recording_is_asked_for_but_there_are_two(tmp_path):
    bundle(tmp_path / "1.npz")
    bundle(tmp_path / "2.npz")
    with pytest.raises(RecordingError, match="it contains 2 recordings; read it with read_recordings"):
        read_recording(tmp_path)


def test_upper_case_suffixes_are_the_same(tmp_path):
    path = bundle(tmp_path / "a.npz")
    shouting = path.rename(tmp_path / "A.NPZ")
    assert read_recording(shouting).X.shape == (6, 2, 3)


def test_every_recording_passes_the_checks(tmp_path):
    X = np.random.default_rng(0).standard_normal((6, 2, 3))
    X[4, 1, 2] = np.nan
    path = bundle(tmp_path / "a.npz", X=X)
    assert read_recording(path).ch_names == ("Fz", "Cz")
    X[:, 1] = np.nan
    assert read_recording(bundle(path, X=X)).excluded == {"Cz": "NaN in 100 % of the recording"}
    assert read_recording(path, drop="Cz").ch_names == ("Fz",)
    with pytest.raises(RecordingError, match="unknown channel Pz, which should be excluded; available: Fz, Cz"):
        read_recording(path, drop="Pz")


def test_unknown_options_are_refused(tmp_path):
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        read_recording(bundle(tmp_path / "a.npz"), colour="red")
