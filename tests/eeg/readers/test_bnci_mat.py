"""Files in the layouts of BNCI Horizon, read here and by MOABB's own converters."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.io import loadmat, savemat

from mixnorm.eeg import RecordingError, read_recording, read_recordings

CHANNELS = {3: ["Fz", "Cz", "Pz"], 16: [f"{row}{place}" for row in ("F", "C", "P", "O") for place in "1234"]}


def cells(values):
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def flashes(n_channels=3, seed=0, start=200):
    """A run of 008-2014: labels and codes for each sample, ten samples long."""
    rng, label, code = np.random.default_rng(seed), np.zeros(4000, dtype=np.uint8), np.zeros(4000, dtype=np.uint8)
    for flash, at in enumerate(range(start, 3800, 100)):
        label[at : at + 10], code[at : at + 10] = 2 if flash % 6 == 0 else 1, flash % 12 + 1
    return {
        "X": rng.standard_normal((4000, n_channels)),
        "y": label[:, None],
        "y_stim": code[:, None],
        "trial": np.array([[101, 2001]]),
        "channels": cells(CHANNELS[n_channels]),
        "classes": cells(["NonTarget", "Target"]),
        "classes_stim": cells([f"code {number}" for number in range(1, 13)]),
    }


def squeezed(path):
    return loadmat(path, struct_as_record=False, squeeze_me=True)


def events_of_moabb(raw, code_channel):
    """Onsets, labels (2: target) and codes as MNE finds them in the trigger channels that MOABB makes."""
    mne = pytest.importorskip("mne")
    label_channel = raw.ch_names[-2]
    found = mne.find_events(raw, stim_channel=label_channel, shortest_event=0, verbose="error")
    codes = raw.get_data(code_channel)[0, found[:, 0]]
    return found[:, 0], found[:, 2], codes - 2  # MOABB adds 2 to the codes


def test_008_2014_is_read_as_moabb_does(tmp_path):
    bnci = pytest.importorskip("moabb.datasets.bnci.base")
    savemat(tmp_path / "A01.mat", {"data": flashes()})
    back = read_recording(tmp_path / "A01.mat")
    raw, _ = bnci._convert_run_p300_sl(squeezed(tmp_path / "A01.mat")["data"], verbose="error")
    onset, label, code = events_of_moabb(raw, "Flash stim")
    assert_allclose(back.signal, raw.get_data("eeg") * 1e6, rtol=1e-12)
    assert back.ch_names == tuple(raw.ch_names[:3])
    assert back.sfreq == raw.info["sfreq"]
    assert_array_equal(back.events.onset, onset)
    assert_array_equal(back.events.target, label == 2)
    assert_array_equal(back.events.stimulus, code)
    assert_array_equal(back.events.character, np.repeat([0, 1], 18))
    assert any("256 Hz, as in BNCI Horizon" in note for note in back.notes)


def test_009_2014_has_three_sessions_in_a_tenth_of_the_unit(tmp_path):
    runs = [flashes(16, seed, start=200 + seed) for seed in range(3)]
    savemat(tmp_path / "A01S.mat", {"data": cells(runs)})
    found = read_recordings(tmp_path / "A01S.mat")
    assert [one.session for one in found] == ["A01S/1", "A01S/2", "A01S/3"]
    for seed, (one, run) in enumerate(zip(found, runs, strict=True)):
        assert_allclose(one.signal, run["X"].T / 10)  # as in MOABB: raw._data[:16] /= 10
        assert one.events.onset[0] == 200 + seed
        assert "amplitudes divided by 10, as MOABB does for 009-2014" in one.notes


@pytest.mark.parametrize("n_runs", [1, 2])
def test_runs_with_one_label_for_each_event_are_read_as_moabb_does(tmp_path, n_runs):
    bnci = pytest.importorskip("moabb.datasets.bnci.base")
    rng = np.random.default_rng(0)
    runs = [
        {
            "X": rng.standard_normal((3000, 3)),
            "fs": 100.0,
            "channels": cells(CHANNELS[3]),
            "trial": np.arange(100, 2900, 70) + 1,
            "y": np.where(np.arange(40) % 6 == run, 1, 2),
            "y_stim": np.arange(40) % 6 + 1,
            "classes": cells(["Target", "NonTarget"]),
        }
        for run in range(n_runs)
    ]
    path = tmp_path / "VPfat.mat"
    savemat(path, {"data": cells(runs)})
    found = read_recordings(path)
    loaded = np.atleast_1d(squeezed(path)["data"])
    assert len(found) == n_runs
    for one, run in zip(found, loaded, strict=True):
        raw, _ = bnci._convert_run_bbci(run, verbose="error")
        onset, label, code = events_of_moabb(raw, "Flash")
        assert_allclose(one.signal, raw.get_data(one.ch_names) * 1e6, rtol=1e-12)
        assert one.sfreq == 100.0
        assert_array_equal(one.events.onset, onset)
        assert_array_equal(one.events.target, label == 1)  # the first class is called Target
        assert_array_equal(one.events.stimulus, code)


def test_003_2015_has_a_run_to_train_and_one_to_test(tmp_path):
    rng = np.random.default_rng(0)

    def part(shift):
        rows = np.vstack([np.arange(3000) / 256, rng.standard_normal((8, 3000)), np.zeros((2, 3000))])
        for flash, at in enumerate(range(100 + shift, 2900, 60)):
            rows[9, at : at + 8], rows[10, at : at + 8] = flash % 12 + 1, flash % 6 == 0
        return rows

    train, test = part(0), part(7)
    savemat(tmp_path / "s3.mat", {"s3": {"train": train, "test": test}})
    found = read_recordings(tmp_path / "s3.mat")
    assert [one.source.rsplit("/", 1)[1] for one in found] == ["train", "test"]
    for one, rows, shift in zip(found, (train, test), (0, 7), strict=True):
        onset = np.arange(100 + shift, 2900, 60)
        assert_array_equal(one.signal, rows[1:9])  # MOABB: run[1:-2]
        assert one.ch_names == ("Fz", "Cz", "P3", "Pz", "P4", "PO7", "Oz", "PO8")
        assert_array_equal(one.events.onset, onset)
        assert_array_equal(one.events.target, np.arange(len(onset)) % 6 == 0)
        assert_array_equal(one.events.stimulus, np.arange(len(onset)) % 12 + 1)


def test_013_2015_errors_are_the_targets(tmp_path):
    bnci = pytest.importorskip("moabb.datasets.bnci.base")
    mne = pytest.importorskip("mne")
    kinds = np.array([1, 5, 9, 10, 6, 5, 4])
    header = {
        "SampleRate": 512.0,
        "Label": cells([*CHANNELS[3], "Status"]),
        "EVENT": {"TYP": kinds, "POS": np.arange(7) * 300 + 200},
    }
    run = {"eeg": np.random.default_rng(0).standard_normal((3000, 3)), "header": header}
    savemat(tmp_path / "Subject01_s1.mat", {"run": cells([run, run])})
    found = read_recordings(tmp_path / "Subject01_s1.mat")
    raw, _ = bnci._convert_run_epfl(squeezed(tmp_path / "Subject01_s1.mat")["run"][0], verbose="error")
    events = mne.find_events(raw, shortest_event=0, verbose="error")
    assert len(found) == 2
    assert_allclose(found[0].signal, raw.get_data("eeg") * 1e6, rtol=1e-12)
    assert (found[0].ch_names, found[0].sfreq) == (tuple(CHANNELS[3]), 512.0)
    assert_array_equal(found[0].events.onset, events[:, 0])
    assert_array_equal(found[0].events.target, events[:, 2] == 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": np.zeros((50, 1))}, "y has 50 values for 4000 samples|y_stim has 4000 values, y 50"),
        ({"y": flashes()["y"] * 2}, r"y has the values 1 \(30\), 3 \(6\), and it is not known"),
        ({"y": np.full((4000, 1), np.nan)}, "'y' has values that are not whole numbers"),
        ({"X": np.zeros((3, 4000))}, r"the signal has shape \(3, 4000\), not \(samples, channels\)"),
        ({"X": "text"}, "'X' is not numeric"),
        ({"y_stim": np.zeros((7, 1))}, "y_stim has 7 values, y 4000"),
    ],
)
def test_parts_that_do_not_fit_are_refused(tmp_path, changes, message):
    savemat(tmp_path / "A01.mat", {"data": flashes() | changes})
    with pytest.raises(RecordingError, match=rf"A01\.mat: .*({message})"):
        read_recording(tmp_path / "A01.mat")
