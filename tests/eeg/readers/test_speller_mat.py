import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.io import savemat

from mixnorm.eeg import RecordingError, read_recording
from mixnorm.eeg.readers.speller_mat import COMPETITION_NAMES


@pytest.fixture
def flat(speller_states):
    """The variables of an exported BCI2000 run, for any number of channels."""

    def make(n_channels=64):
        signal = np.random.default_rng(0).integers(-500, 500, (speller_states["n_samples"], n_channels))
        states = {name: values[:, None].astype(np.uint8) for name, (_, values) in speller_states["states"].items()}
        return {"signal": signal.astype(np.int16), **states}

    return make


def save(path, variables):
    savemat(path, variables, do_compression=True)
    return path


def test_exported_run_has_the_competition_channels_and_says_so(tmp_path, flat, speller_states):
    back = read_recording(save(tmp_path / "AAS010R01.mat", flat()))
    assert back.ch_names == COMPETITION_NAMES
    assert back.sfreq == 240.0
    assert (back.subject, back.session) == ("AA", "010")
    assert_array_equal(back.signal, flat()["signal"].T)
    assert_array_equal(back.events.onset, speller_states["onsets"])
    assert_array_equal(back.events.character, np.repeat([0, 1, 2], 24))
    assert any("240 Hz assumed, as in BCI Competition II IIb" in note for note in back.notes)
    assert any("those of BCI Competition II IIb" in note for note in back.notes)


def test_other_numbers_of_channels_need_a_rate_and_may_be_named(tmp_path, flat):
    path = save(tmp_path / "uam.mat", flat(4))
    with pytest.raises(RecordingError, match=r"the file has no sampling rate; give it with sfreq"):
        read_recording(path)
    back = read_recording(path, sfreq=256, ch_names=["Fz", "Cz", "Pz", "Oz"])
    assert (back.sfreq, back.ch_names) == (256.0, ("Fz", "Cz", "Pz", "Oz"))


def test_saved_load_bcidat_has_states_and_parameters_as_structs(tmp_path, flat):
    variables = flat(4)
    signal = variables.pop("signal")
    rate = {"SamplingRate": {"Value": "256", "NumericValue": 256.0}}
    path = save(tmp_path / "uam.mat", {"signal": signal, "states": variables, "parameters": rate})
    back = read_recording(path)
    assert back.sfreq == 256.0
    assert len(back.events) == 72


def test_trigger_layout(tmp_path):
    trigger = np.zeros((5000, 1), dtype=np.int16)
    onset = np.concatenate([np.arange(500, 1500, 40), np.arange(2500, 3500, 40)])
    trigger[onset, 0] = np.where(np.arange(len(onset)) % 8 == 0, 1, -1)
    y = np.random.default_rng(0).standard_normal((5000, 8))
    back = read_recording(save(tmp_path / "S1.mat", {"y": y, "trig": trigger, "fs": np.uint8(250)}))
    assert back.sfreq == 250.0
    assert_array_equal(back.signal, y.T)
    assert_array_equal(back.events.onset, onset)
    assert_array_equal(back.events.target, np.arange(len(onset)) % 8 == 0)
    assert_array_equal(back.events.character, np.repeat([0, 1], 25))
    assert "channels that are not electrodes of the 10–10 system: ch1" in back.describe()


def test_struct_layout_with_trial_starts(tmp_path):
    labels = np.zeros(4000, dtype=np.uint8)
    stimulus = np.zeros(4000, dtype=np.uint8)
    for flash, at in enumerate(range(200, 3800, 100)):
        labels[at : at + 10] = 2 if flash % 6 == 0 else 1
        stimulus[at : at + 10] = flash % 12 + 1
    signal = np.random.default_rng(0).standard_normal((4000, 3))
    data = {"X": signal, "y": labels[:, None], "y_stim": stimulus[:, None], "trial": np.array([[101, 2001]])}
    back = read_recording(save(tmp_path / "A01.mat", {"data": data}), sfreq=256)
    assert_array_equal(back.events.onset, np.arange(200, 3800, 100))
    assert_array_equal(back.events.target, np.arange(36) % 6 == 0)
    assert_array_equal(back.events.stimulus, np.arange(36) % 12 + 1)
    assert_array_equal(back.events.character, np.repeat([0, 1], 18))


def test_layouts_that_do_not_fit_together_are_refused(tmp_path, flat):
    short = flat(4)
    short["StimulusCode"] = short["StimulusCode"][:100]
    for variables, message in (
        (short, "StimulusCode has 100 samples, signal"),
        ({**flat(4), "signal": flat(4)["signal"].T}, r"not \(samples, channels\); transpose it"),
        ({"y": np.ones((100, 2)), "trig": np.ones((50, 1)), "fs": 250}, "trig has 50 samples, y 100"),
        ({"y": np.ones((100, 2)), "trig": np.ones((100, 1))}, "the file has no sampling rate; give it"),
        ({"signal": "text", "StimulusCode": np.ones((3, 1))}, "'signal' is not numeric"),
        ({"weights": np.ones(3)}, r"its variables \(weights 1 × 3\) match no known layout"),
    ):
        path = save(tmp_path / "odd.mat", variables)
        with pytest.raises(RecordingError, match=rf"^{path}: .*{message}"):
            read_recording(path, sfreq=None)


def test_real_speller_files_are_described(data):
    back = read_recording(data / "bcicomp2-iib" / "AAS011R02.mat")
    assert back.signal.shape == (64, 26328)
    text = back.describe()
    assert "540 events: 90 target, 450 non-target; 12 stimulus codes, 3 characters" in text
    gtec = read_recording(data / "br41n-p300" / "S2.mat")
    assert "1200 events: 150 target, 1050 non-target" in gtec.describe()
    assert any("the file has no channel names" in note for note in gtec.notes)
