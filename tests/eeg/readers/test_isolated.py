"""Files that crash, loop or take all memory end a worker process, not the user's; and no other file is opened."""

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.io import savemat

from hostile_files import inflating, looping_fif, lying_tag, nested_cells, unknown_types
from mixnorm.eeg import RecordingError, read_recording, to_raw
from mixnorm.eeg.readers import isolated

posix = pytest.mark.skipif(os.name == "nt", reason="the limits are those of POSIX systems")


@pytest.fixture
def speller(tmp_path):
    rng = np.random.default_rng(0)
    trigger = np.zeros(2000)
    trigger[100:1900:50] = np.where(np.arange(36) % 6 == 0, 1, -1)
    savemat(tmp_path / "S1.mat", {"y": rng.standard_normal((2000, 4)), "trig": trigger, "fs": 250.0})
    return tmp_path / "S1.mat"


def test_the_same_recording_with_and_without_a_process_of_its_own(speller, tmp_path, recording):
    pytest.importorskip("mne")
    to_raw(recording).save(tmp_path / "a_raw.fif", verbose="error")
    for path in (speller, tmp_path / "a_raw.fif"):
        apart, here = read_recording(path), read_recording(path, isolate=False)
        assert_array_equal(apart.signal, here.signal)
        assert_array_equal(apart.events.onset, here.events.onset)
        assert_array_equal(apart.positions, here.positions)
        assert apart.describe() == here.describe()


@posix
def test_twenty_thousand_nested_cells_end_a_worker_and_the_next_file_is_read(tmp_path, speller):
    path = nested_cells(tmp_path / "nested.mat", 20_000)
    with pytest.raises(RecordingError, match=rf"^{path}: the library that reads such files crashed \(SIG"):
        read_recording(path)
    assert read_recording(speller).signal.shape == (4, 2000)


@posix
def test_a_set_file_with_seven_altered_bytes_ends_a_worker_and_the_next_file_is_read(tmp_path, speller):
    pytest.importorskip("mne")
    labels = ["Fz", "Cz", "Pz", "Oz", "C3", "C4", "P7"]
    chanlocs = np.array([(label,) for label in labels], dtype=[("labels", "O")])
    events = np.array([("target", 20.0), ("nontarget", 80.0)], dtype=[("type", "O"), ("latency", "O")])
    eeg = {"srate": 100.0, "nbchan": 7.0, "pnts": 200.0, "trials": 1.0, "xmin": 0.0, "xmax": 1.99, "setname": "a"}
    eeg |= {"data": np.random.default_rng(0).standard_normal((7, 200)), "chanlocs": chanlocs, "event": events}
    path = tmp_path / "a.set"
    savemat(path, {"EEG": eeg}, appendmat=False)
    whole = path.read_bytes()
    assert read_recording(path).ch_names == tuple(labels)
    unknown_types(path, labels)
    assert sum(one != other for one, other in zip(whole, path.read_bytes(), strict=True)) == 7
    with pytest.raises(RecordingError, match=rf"^{path}: the library that reads such files crashed \(SIG"):
        read_recording(path)
    assert read_recording(speller).signal.shape == (4, 2000)


def test_few_nested_cells_are_no_layout(tmp_path):
    with pytest.raises(RecordingError, match="match no known layout"):
        read_recording(nested_cells(tmp_path / "nested.mat", 20))


def test_a_tag_that_lies_about_its_size_is_refused(tmp_path):
    path = lying_tag(tmp_path / "lying.mat", 1_400_000_000)
    with pytest.raises(RecordingError, match=rf"^{path}: "):
        read_recording(path)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the memory of a process")
def test_one_megabyte_does_not_become_more_than_a_gigabyte(tmp_path):
    path = inflating(tmp_path / "inflating.mat", 1_400_000_000)
    assert path.stat().st_size < 2_000_000
    with pytest.raises(RecordingError, match=r"reading it took more than 0\.5\d GiB of memory, too much for a file"):
        read_recording(path)


@posix
def test_an_endless_loop_ends_after_the_time_that_its_size_deserves(tmp_path, monkeypatch):
    pytest.importorskip("mne")
    monkeypatch.setattr(isolated, "BASE_SECONDS", 1.0)
    path = looping_fif(tmp_path / "loop_raw.fif")
    with pytest.raises(RecordingError, match=rf"^{path}: reading it took longer than 1 s, too long for a file of its"):
        read_recording(path)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux limits the memory of a process")
def test_memory_is_limited_by_the_size_of_the_file(tmp_path, monkeypatch, speller):
    trigger = (np.arange(200_000) % 500 == 5).astype(float)
    savemat(tmp_path / "large.mat", {"y": np.ones((200_000, 32)), "trig": trigger, "fs": 250.0})
    assert (tmp_path / "large.mat").stat().st_size > 50e6
    monkeypatch.setattr(isolated, "BASE_BYTES", 16 * 2**20)
    monkeypatch.setattr(isolated, "BYTES_PER_BYTE", 0)
    assert read_recording(speller).signal.shape == (4, 2000)
    with pytest.raises(RecordingError, match=r"reading it took more than 0\.016 GiB of memory, too much for a file"):
        read_recording(tmp_path / "large.mat")


@pytest.mark.parametrize("named", ["../secret.eeg", "{absolute}", "inner/secret.eeg"])
def test_a_header_that_names_a_file_elsewhere_is_refused(tmp_path, recording, named):
    mne = pytest.importorskip("mne")
    (tmp_path / "a" / "inner").mkdir(parents=True)
    header = tmp_path / "a" / "sim.vhdr"
    mne.export.export_raw(header, to_raw(recording), verbose="error")
    assert read_recording(header).signal.shape == recording.signal.shape
    data = header.with_suffix(".eeg")
    secret = tmp_path / ("a/inner" if "inner" in named else "") / "secret.eeg"
    data.rename(secret)
    header.write_text(header.read_text().replace("DataFile=sim.eeg", f"DataFile={named.format(absolute=secret)}"))
    with pytest.raises(RecordingError, match=rf"^{header}: it leads to .*secret\.eeg, which does not lie beside it"):
        read_recording(header)


def test_a_companion_that_is_a_link_to_elsewhere_is_refused(tmp_path, recording):
    mne = pytest.importorskip("mne")
    (tmp_path / "a").mkdir()
    header = tmp_path / "a" / "sim.vhdr"
    mne.export.export_raw(header, to_raw(recording), verbose="error")
    secret = header.with_suffix(".eeg").rename(tmp_path / "secret.eeg")
    header.with_suffix(".eeg").symlink_to(secret)
    with pytest.raises(RecordingError, match="which does not lie beside it"):
        read_recording(header)
    # a data set in git-annex: the header is a link as well
    header.rename(tmp_path / "real.vhdr")
    header.symlink_to(tmp_path / "real.vhdr")
    (tmp_path / "a" / "sim.vmrk").rename(tmp_path / "sim.vmrk")
    (tmp_path / "a" / "sim.vmrk").symlink_to(tmp_path / "sim.vmrk")
    assert read_recording(header).signal.shape == recording.signal.shape


@posix
def test_a_companion_that_is_a_pipe_is_not_waited_for(tmp_path, recording):
    mne = pytest.importorskip("mne")
    header = tmp_path / "sim.vhdr"
    mne.export.export_raw(header, to_raw(recording), verbose="error")
    header.with_suffix(".vmrk").unlink()
    os.mkfifo(header.with_suffix(".vmrk"))
    with pytest.raises(RecordingError, match=rf"^{header}: "):
        read_recording(header)


def test_a_set_file_whose_data_lie_in_another_file_is_refused(tmp_path):
    h5py = pytest.importorskip("h5py")
    pytest.importorskip("mne")
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["data"] = np.ones((4, 100))
    for link in (h5py.ExternalLink("secret.h5", "/data"), None):
        with h5py.File(tmp_path / "a.set", "w") as file:
            group = file.create_group("EEG")
            if link:
                group["data"] = link
            else:
                layout = h5py.VirtualLayout((4, 100), dtype="f8")
                layout[:] = h5py.VirtualSource(str(tmp_path / "secret.h5"), "data", (4, 100))
                group.create_virtual_dataset("data", layout)
        with pytest.raises(RecordingError, match=r"a\.set: its part 'data' lies in another file; do not trust"):
            read_recording(tmp_path / "a.set")


def test_a_set_file_that_names_a_file_elsewhere_is_refused(tmp_path, recording):
    mne = pytest.importorskip("mne")
    (tmp_path / "a").mkdir()
    path = tmp_path / "a" / "sim.set"
    mne.export.export_raw(path, to_raw(recording), verbose="error")
    (recording.signal.astype("<f4").T.tofile)(tmp_path / "secret.fdt")
    from scipy.io import loadmat

    eeg = {name: value for name, value in loadmat(path).items() if not name.startswith("__")}
    eeg = eeg.get("EEG", eeg)
    eeg = {field: eeg[field][0, 0] for field in eeg.dtype.names} if isinstance(eeg, np.ndarray) else eeg
    savemat(path, {"EEG": {**eeg, "data": "../secret.fdt"}})
    with pytest.raises(RecordingError, match=r"it leads to .*secret\.fdt, which does not lie beside it"):
        read_recording(path)


def test_relative_paths_stay_relative_and_follow_the_folder_of_the_process(tmp_path, monkeypatch, speller):
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        monkeypatch.chdir(tmp_path / place)
        (tmp_path / place / "S1.mat").write_bytes(speller.read_bytes())
        assert read_recording("S1.mat").source == "S1.mat"


def test_warnings_of_the_reader_arrive(speller, tmp_path):
    (tmp_path / "sub-07").mkdir()
    path = speller.rename(tmp_path / "sub-07" / "S1.mat")
    with pytest.warns(RuntimeWarning, match="the source names subject 07, but subjects=… names A"):
        read_recording(path, subjects=["A"])


@posix
def test_a_worker_that_is_gone_is_replaced(speller, monkeypatch):
    isolated._end()
    monkeypatch.setattr(isolated, "IDLE_SECONDS", 0.5)
    read_recording(speller)
    isolated._worker.process.send_signal(signal.SIGTERM)
    assert isolated._worker.process.wait() == -signal.SIGTERM
    with pytest.raises(RecordingError, match="crashed"):  # killed by somebody else: said, not repeated in silence
        read_recording(speller)
    read_recording(speller)
    assert isolated._worker.process.wait() == 0  # it had nothing to do
    assert read_recording(speller).signal.shape == (4, 2000)


def test_threads_take_turns(speller):
    found = []
    threads = [threading.Thread(target=lambda: found.append(read_recording(speller).signal)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(np.array_equal(signal, found[0]) for signal in found)


def test_a_script_without_a_main_guard_can_read_and_leaves_no_process(speller, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from mixnorm.eeg import read_recording\nfrom mixnorm.eeg.readers import isolated\n"
        f"print(read_recording({str(speller)!r}).signal.shape, isolated._worker.process.pid)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("(4, 2000)")
    assert done.stderr == ""
    with pytest.raises(OSError, match="No such process"):
        os.kill(int(done.stdout.split()[-1]), 0)


def test_without_an_interpreter_the_error_says_what_to_do(speller, monkeypatch):
    isolated._end()
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(
        RecordingError, match=r"no process can be started .*; for a file that you trust, isolate=False"
    ):
        read_recording(speller)
    assert read_recording(speller, isolate=False).signal.shape == (4, 2000)
