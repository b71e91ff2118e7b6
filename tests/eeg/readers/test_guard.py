import io
import struct
import zipfile
import zlib

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.io import savemat

from mixnorm.commands.train import train
from mixnorm.eeg import RecordingError, read_recording, read_recordings
from mixnorm.eeg.readers import isolated, mne_files
from mixnorm.eeg.readers.guard import mat_declared_bytes, require
from mixnorm.eeg.readers.options import ReadOptions


def mat_bomb(path, declared):
    """A MATLAB 5 file whose one compressed variable says that it is ``declared`` bytes long."""
    inner = struct.pack("<II", 14, declared) + b"\0" * 64
    packed = zlib.compress(inner)
    header = b"MATLAB 5.0 MAT-file".ljust(116) + b"\0" * 8 + struct.pack("<H", 0x0100) + b"IM"
    path.write_bytes(header + struct.pack("<II", 15, len(packed)) + packed)
    return path


def npz_with(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in members.items():
            archive.writestr(name, body)
    return path


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@pytest.mark.parametrize("suffix", [".mat", ".set"])
def test_mat_that_expands_a_thousandfold_is_refused_before_loading(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr("scipy.io.loadmat", lambda *_: pytest.fail("loaded"))
    path = mat_bomb(tmp_path / f"bomb{suffix}", 3 * 2**30)
    for isolate in (False, True):
        with pytest.raises(RecordingError, match=rf"^{path}: its \d+ bytes would expand to 3221225472"):
            read_recording(path, isolate=isolate)


def test_npz_that_expands_a_thousandfold_is_refused(tmp_path):
    path = npz_with(tmp_path / "bomb.npz", {"X.npy": b"\0" * (80 * 2**20)})
    assert path.stat().st_size < 2**20
    with pytest.raises(RecordingError, match=rf"^{path}: its \d+ bytes would expand to 83886080"):
        read_recording(path)


def test_absolute_cap_holds_for_incompressible_files_too_and_can_be_raised(tmp_path):
    path, rng = tmp_path / "a.mat", np.random.default_rng(0)
    savemat(path, {"y": rng.standard_normal((500, 20)), "trig": (np.arange(500) % 50 == 5) * 1.0, "fs": 250.0})
    with pytest.raises(RecordingError, match=r"more than the 1e-05 GiB that are allowed; .* allow it with max_gib=1$"):
        read_recording(path, max_gib=1e-5)
    done = CliRunner().invoke(train, [str(path), "-o", str(tmp_path / "m.mixnorm"), "--max-gib", "1e-5"])
    assert "allow it with --max-gib 1" in done.output
    assert read_recording(path, max_gib=1).signal.shape == (20, 500)
    with pytest.raises(ValueError, match="max_gib=-1 must be a positive number"):
        read_recording(path, max_gib=-1)


def test_seventy_five_minutes_of_256_channels_are_refused_until_the_user_allows_them(tmp_path, monkeypatch):
    """4.4 GiB in memory; the file is sparse, so that it takes no space, and no more than its header is read."""
    pytest.importorskip("mne")
    rate, n_times = 512, 75 * 60 * 512
    channels = "".join(f"Ch{i + 1}=E{i + 1},,0.1,µV\n" for i in range(256))
    header = tmp_path / "long.vhdr"
    header.write_text(
        "Brain Vision Data Exchange Header File Version 1.0\n[Common Infos]\nCodepage=UTF-8\nDataFile=long.eeg\n"
        f"DataFormat=BINARY\nDataOrientation=MULTIPLEXED\nNumberOfChannels=256\nSamplingInterval={1e6 / rate}\n"
        f"[Binary Infos]\nBinaryFormat=INT_16\n[Channel Infos]\n{channels}",
        encoding="utf-8",
    )
    with open(tmp_path / "long.eeg", "wb") as signal:
        signal.truncate(2 * 256 * n_times)
    with pytest.raises(RecordingError, match=r"its data take 4\.39 GiB, more than the 4 GiB .* with max_gib=5$"):
        read_recording(header)
    done = CliRunner().invoke(train, [str(header), "-o", str(tmp_path / "m.mixnorm")])
    assert done.exit_code != 0
    assert "allow it with --max-gib 5" in done.output

    asked = ReadOptions(max_gib=5)
    assert isolated._limits(header, asked)["bytes"] > 2 * 8 * 256 * n_times  # also of the process that reads it
    monkeypatch.setattr(mne_files, "from_raw", lambda raw, *_: (len(raw.ch_names), raw.n_times))
    assert mne_files.read_raw(header, asked) == (256, n_times)


@pytest.mark.parametrize("compressed", [True, False])
def test_declared_bytes_are_those_of_the_arrays(tmp_path, compressed):
    arrays = {"a": np.zeros((1000, 30)), "b": np.zeros(77, dtype=np.int16)}
    savemat(tmp_path / "a.mat", arrays, do_compression=compressed)
    expected = sum(array.nbytes for array in arrays.values())
    assert expected <= mat_declared_bytes(tmp_path / "a.mat") < expected + 400


@pytest.mark.parametrize("name", ["../X.npy", "a/../../X.npy", "/X.npy", "..\\X.npy", "C:\\X.npy"])
def test_path_that_leaves_the_archive_is_refused(tmp_path, name):
    path = npz_with(tmp_path / "evil.npz", {name: npy(np.zeros(3))})
    with pytest.raises(RecordingError, match=rf"^{path}: its member .* points outside the archive"):
        read_recording(path)


def test_pickled_members_are_never_unpickled(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("unpickled",))

    body = io.BytesIO()
    np.save(body, np.array([Bomb()], dtype=object), allow_pickle=True)
    path = npz_with(tmp_path / "evil.npz", {"X.npy": body.getvalue()})
    with pytest.raises(RecordingError, match="Object arrays cannot be loaded"):
        read_recording(path)


@pytest.mark.parametrize("name", ["a.mat", "a.npz", "a.dat", "a.edf", "a_raw.fif"])
def test_empty_missing_and_misplaced_files(tmp_path, name):
    path = tmp_path / name
    with pytest.raises(RecordingError, match=rf"^{path}: there is no such file; check the path"):
        read_recording(path)
    path.touch()
    with pytest.raises(RecordingError, match=rf"^{path}: the file is empty"):
        read_recording(path)


@pytest.mark.parametrize("name", ["a.mat", "a.npz"])
def test_wrong_type_and_truncated_files(tmp_path, name):
    path = tmp_path / name
    path.write_text("not what it says\n" * 100)
    with pytest.raises(RecordingError, match=rf"^{path}: it cannot be read as a"):
        read_recording(path)
    if name == "a.mat":
        savemat(path, {"signal": np.random.default_rng(0).standard_normal((500, 4))}, do_compression=True)
    else:
        np.savez(path, X=np.zeros((5, 4)))
    path.write_bytes(path.read_bytes()[:-80])
    with pytest.raises(RecordingError, match=rf"^{path}: it cannot be read as a"):
        read_recording(path)


def test_matlab_7_3_says_how_to_save(tmp_path):
    path = tmp_path / "new.mat"
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + b"\0" * 400)
    with pytest.raises(RecordingError, match=r"this is a MATLAB 7\.3 file; save it again with: save -v7"):
        read_recording(path)


def test_unknown_suffix_and_empty_folder_list_what_is_known(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(RecordingError, match=r"files that end in '.txt' cannot be read; supported: .npz .mat .dat"):
        read_recording(tmp_path / "notes.txt")
    with pytest.raises(RecordingError, match="this folder contains no recordings"):
        read_recordings(tmp_path)


def test_missing_package_names_the_extra():
    with pytest.raises(ImportError, match=r'needs surely_not_there.* pip install "mixnorm\[eeg\]"'):
        require("surely_not_there.module", "eeg")
