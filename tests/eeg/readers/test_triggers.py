import numpy as np
import pytest
from click.testing import CliRunner
from numpy.testing import assert_array_equal
from scipy.io import savemat

from mixnorm.commands.train import train
from mixnorm.eeg import RecordingError, read_recording, to_raw
from mixnorm.eeg.readers.options import stimulus_codes


@pytest.fixture
def trig(tmp_path):
    def write(values):
        trigger = np.zeros(3000)
        trigger[100 : 100 + 60 * len(values) : 60] = values
        path = tmp_path / "S1.mat"
        savemat(path, {"y": np.random.default_rng(0).standard_normal((3000, 4)), "trig": trigger, "fs": 250.0})
        return path

    return write


def test_other_trigger_values_are_asked_about_and_not_counted_as_targets(trig):
    path = trig([1, 2, 3, 2, 2, 3])
    with pytest.raises(
        RecordingError, match=r"^.*S1\.mat: trig has the values 1 \(1\), 2 \(3\), 3 \(2\), and it is not known which"
    ):
        read_recording(path)
    assert_array_equal(read_recording(path, target="3").events.target, [0, 0, 1, 0, 0, 1])
    assert_array_equal(read_recording(path, target="3", nontarget="2").events.target, [0, 1, 0, 0, 1])
    assert_array_equal(read_recording(path, unlabelled=True).events.target, -1)
    assert_array_equal(read_recording(trig([1, -1, -1]), target="-1").events.target, [0, 1, 1])


def test_plus_and_minus_one_need_no_question(trig):
    assert_array_equal(read_recording(trig([1, -1, -1])).events.target, [1, 0, 0])


@pytest.mark.parametrize("value", [np.nan, 0.5, 1e300])
def test_values_that_are_not_whole_are_refused(trig, value):
    with pytest.raises(RecordingError, match="'trig' has values that are not whole numbers"):
        read_recording(trig([1, -1, value]))


@pytest.mark.parametrize("kind", [2, 3])
def test_a_stimulus_type_that_is_not_binary_is_asked_about(tmp_path, kind):
    code, target = np.zeros(600), np.zeros(600)
    code[50:550:50], target[50:550:100] = np.arange(10) % 6 + 1, kind
    path = tmp_path / "a.mat"
    savemat(
        path,
        {"signal": np.random.default_rng(0).standard_normal((600, 4)), "StimulusCode": code, "StimulusType": target},
    )
    with pytest.raises(
        RecordingError, match=rf"StimulusType has the values 0 \(5\), {kind} \(5\), and it is not known"
    ):
        read_recording(path, sfreq=250)
    assert_array_equal(read_recording(path, sfreq=250, target=str(kind)).events.target, [1, 0] * 5)


def test_codes_in_event_names_are_kept():
    names = [
        "Target/7",
        "NonTarget/12",
        "stim 7",
        "Stim3",
        "flash_4",
        "Stimulus/S  9",
        "code=5",
        "Target",
        "blink 3x",
        "R 4",
    ]
    assert_array_equal(stimulus_codes(names), [7, 12, 7, 3, 4, 9, 5, -1, -1, -1])
    assert_array_equal(stimulus_codes(["Target/stimulus 3/character 0", "1" * 400]), [3, -1])


def test_codes_survive_a_file_of_mne(tmp_path, recording):
    mne = pytest.importorskip("mne")
    raw = to_raw(recording)
    words = {1: "Target", 0: "NonTarget"}
    pairs = zip(recording.events.target.tolist(), recording.events.stimulus.tolist(), strict=True)
    raw.set_annotations(mne.Annotations(recording.events.onset / 256, 0, [f"{words[t]}/{s}" for t, s in pairs]))
    raw.save(tmp_path / "a_raw.fif", verbose="error")
    assert_array_equal(read_recording(tmp_path / "a_raw.fif").events.stimulus, recording.events.stimulus)


def test_a_file_without_labels_says_how_to_score_it(tmp_path, recording):
    mne = pytest.importorskip("mne")
    raw = to_raw(recording)
    names = [f"stim {code}" for code in recording.events.stimulus]
    raw.set_annotations(mne.Annotations(recording.events.onset / 256, 0, names))
    raw.save(tmp_path / "a_raw.fif", verbose="error")
    with pytest.raises(RecordingError, match="to score it without labels, give unlabelled=True"):
        read_recording(tmp_path / "a_raw.fif")
    back = read_recording(tmp_path / "a_raw.fif", unlabelled=True)
    assert_array_equal(back.events.stimulus, recording.events.stimulus)
    done = CliRunner().invoke(train, [str(tmp_path / "a_raw.fif"), "-o", str(tmp_path / "m.mixnorm")])
    assert "use mixnorm predict --unlabelled" in done.output
