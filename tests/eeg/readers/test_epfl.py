import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.io import savemat

from mixnorm.eeg import Preparation, RecordingError, prepare, read_recording, read_recordings
from mixnorm.eeg.readers.epfl import CH_NAMES


def epfl_run(path, *, n_flashes=30, target=4, zeros=500, seed=0, **changes):
    """A run of the published layout: flashes every 400 ms from 0.4 s on, over midnight, zeros at the end."""
    rng = np.random.default_rng(seed)
    n_samples = int((0.4 * n_flashes + 2.0) * 2048)
    data = 10 * rng.standard_normal((34, n_samples)) + rng.standard_normal((1, n_samples)) * 40
    data[:, n_samples - zeros :] = 0
    seconds = 86399.0 + 0.4 * np.arange(n_flashes)
    late = seconds >= 86400
    clock = seconds - 86400 * late
    day = np.where(late, 20, 19)
    hours, minutes = clock // 3600, clock % 3600 // 60
    events = np.c_[np.full(n_flashes, 2006), np.full(n_flashes, 5), day, hours, minutes, clock % 60]
    stimuli = np.concatenate([rng.permutation(6) + 1 for _ in range(n_flashes // 6)])
    path.parent.mkdir(parents=True, exist_ok=True)
    variables = {
        "data": data,
        "events": events,
        "stimuli": stimuli[None],
        "target": np.array([[target]]),
        "targets_counted": np.array([[5]]),
    } | changes
    savemat(path, {name: value for name, value in variables.items() if value is not None}, do_compression=True)
    return data, stimuli


def test_run_is_read_with_names_onsets_and_labels(tmp_path):
    path = tmp_path / "subject3" / "session2" / "eeg_200605191428_epochs.mat"
    data, stimuli = epfl_run(path)
    back = read_recording(path)
    assert back.ch_names == CH_NAMES
    assert (back.subject, back.session, back.sfreq) == ("3", "2", 2048.0)
    assert_array_equal(back.signal, data[:, :-500])
    assert_array_equal(back.events.onset, np.rint((0.4 + 0.4 * np.arange(30)) * 2048))
    assert_array_equal(back.events.target, stimuli == 4)
    assert_array_equal(back.events.stimulus, stimuli)
    assert "500 zero samples at the end left out" in back.notes


def test_preset_gives_32_channels_and_8_samples_of_mastoid_referenced_signal(tmp_path):
    path = tmp_path / "subject1" / "session1" / "a.mat"
    data, _ = epfl_run(path)
    design = prepare(read_recording(path), Preparation.preset("epfl"))
    assert design.X.shape == (30, 32, 8)
    assert design.ch_names == CH_NAMES[:32]
    assert np.isfinite(design.positions).all()
    from scipy import signal as sps

    referenced = data[:32, :-500] - data[32:, :-500].mean(axis=0)
    sos = sps.butter(3, [1, 8], "bandpass", fs=2048, output="sos")
    filtered = sps.sosfiltfilt(sos, referenced, axis=1)
    onset = round((0.4 + 0.4 * 7) * 2048)
    assert_allclose(design.X[7], filtered[:, onset + 256 * np.arange(8)], atol=1e-8)


def test_folder_of_a_subject_gives_runs_in_sessions(tmp_path):
    for session in (1, 2):
        for run in range(2):
            epfl_run(tmp_path / f"subject6/session{session}/run{run}.mat", target=run + 1, seed=run, n_flashes=12)
    runs = read_recordings(tmp_path / "subject6")
    assert [run.session for run in runs] == ["1", "1", "2", "2"]
    design = prepare(runs, Preparation.preset("epfl"))
    assert design.X.shape == (48, 32, 8)
    assert_array_equal(np.unique(design.character), np.arange(4))
    assert set(design.subject) == {"6"}


def clock(**changes):
    """Clock times of 30 flashes, one every 0.4 s, with a change to the first."""
    rows = np.tile([2005.0, 7, 19, 13, 2, 0], (30, 1))
    rows[:, 5] = 0.4 * np.arange(30)
    for name, value in changes.items():
        rows[0, ("year", "month", "day", "hour", "minute", "second").index(name)] = value
    return rows


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": np.zeros((20, 100))}, r"data has shape \(20, 100\), not \(34, samples\)"),
        ({"events": np.zeros((3, 6))}, r"\(3, 6\) clock times for 30 stimuli"),
        ({"target": "lamp"}, "'target' is not numeric"),
        ({"target": np.empty((0, 0))}, "target has 0 values, not one"),
        ({"target": np.array([1, 2])}, "target has 2 values, not one"),
        ({"target": np.nan}, r"'target' has values that are not whole numbers \(nan\)"),
        ({"stimuli": "text"}, "'stimuli' is not numeric"),
        ({"events": "text"}, "'events' is not numeric"),
        ({"events": clock(month=13)}, "events has a date that does not exist"),
        ({"events": clock(year=1e9)}, "events has a date that does not exist"),
        ({"events": clock(day=np.nan)}, "'events' has values that are not whole numbers"),
        ({"events": clock(second=1e300)}, "events has times of day that do not exist"),
        ({"events": clock()[::-1]}, "events has clock times that do not increase"),
        ({"events": clock()[:1].repeat(30, axis=0)}, "events has clock times that do not increase"),
        ({"stimuli": None}, "match no known layout"),
    ],
)
def test_other_layouts_are_refused(tmp_path, changes, message):
    path = tmp_path / "odd.mat"
    epfl_run(path, **changes)
    with pytest.raises(RecordingError, match=rf"^{path}: .*{message}"):
        read_recording(path)
