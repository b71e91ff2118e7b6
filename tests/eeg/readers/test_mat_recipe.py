import numpy as np
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose, assert_array_equal
from scipy.io import savemat

from mixnorm.commands.train import train
from mixnorm.eeg import RecordingError, read_recording


@pytest.fixture
def mine(tmp_path, recording):
    """The simulated recording as somebody's own MATLAB file: a structure and vectors with one value for each sample."""
    events, n_samples = recording.events, recording.signal.shape[1]
    flash, kind, letter = (np.zeros(n_samples) for _ in range(3))
    for onset, code, target, character in zip(
        events.onset, events.stimulus, events.target, events.character, strict=True
    ):
        flash[onset : onset + 5], kind[onset : onset + 5] = code, target
        letter[onset] = character
    eeg = {"data": recording.signal, "srate": recording.sfreq, "names": np.array(recording.ch_names, dtype=object)}
    variables = {
        "EEG": eeg,
        "flash": flash,
        "kind": kind,
        "letter": letter,
        "comment": "a text",
        "weights": np.ones(3),
    }
    path = tmp_path / "mine.mat"
    savemat(path, variables)
    return path


RECIPE = "signal=EEG.data,codes=flash,labels=kind,characters=letter,rate=EEG.srate,names=EEG.names"


def test_a_recipe_gives_the_whole_recording(mine, recording):
    back = read_recording(mine, recipe=RECIPE)
    assert_array_equal(back.signal, recording.signal)
    assert (back.ch_names, back.sfreq) == (recording.ch_names, recording.sfreq)
    assert_array_equal(back.events.onset, recording.events.onset)
    assert_array_equal(back.events.target, recording.events.target)
    assert_array_equal(back.events.stimulus, recording.events.stimulus)
    assert_array_equal(back.events.character, recording.events.character)
    as_dict = dict(part.split("=") for part in RECIPE.split(","))
    assert read_recording(mine, recipe=as_dict).describe() == back.describe()


def test_the_error_for_an_unknown_layout_shows_a_recipe_that_works(mine, recording):
    with pytest.raises(RecordingError) as caught:
        read_recording(mine)
    text = str(caught.value)
    assert "its variables (EEG.data 6 × " in text
    assert "match no known layout; say what they mean with recipe='" in text
    recipe = text.split("recipe='")[1].split("'")[0]
    assert recipe == "signal=EEG.data,labels=kind,codes=flash,rate=EEG.srate"
    back = read_recording(mine, recipe=recipe)
    assert_array_equal(back.events.target, recording.events.target)
    assert_array_equal(back.events.onset, recording.events.onset)


def test_the_command_line_shows_its_own_option(mine, tmp_path):
    done = CliRunner().invoke(train, [str(mine), "-o", str(tmp_path / "m.mixnorm")])
    assert done.exit_code == 1
    assert "say what they mean with --recipe 'signal=EEG.data,labels=kind,codes=flash,rate=EEG.srate'" in done.output
    done = CliRunner().invoke(train, [str(mine), "-o", str(tmp_path / "m.mixnorm"), "--recipe", "signal=EEG.dat"])
    assert "there is no variable 'EEG.dat' (did you mean 'EEG.data'?)" in done.output


def test_a_variable_that_is_not_there_offers_the_nearest(mine):
    with pytest.raises(
        RecordingError,
        match=r"the recipe says labels=kinds, but there is no variable 'kinds' \(did you mean 'kind'\?\); found: EEG\.data",
    ):
        read_recording(mine, recipe="signal=EEG.data,labels=kinds,rate=256")


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("labels=kind", "the recipe does not name the signal; add signal=NAME"),
        ("signal=EEG.data,labels=kind", "the recipe does not name the sampling rate; add rate=256"),
        ("signal=EEG.data,rate=256", "does not say where the events are; add labels=NAME, codes=NAME or onsets=NAME"),
        ("signal=EEG.data,codes=flash,rate=256", "does not say which events are targets; add labels=NAME"),
        (
            "signal=EEG.data,labels=weights,rate=256",
            "3 codes or labels for .* samples, and the recipe names no onsets",
        ),
        ("signal=weights,labels=kind,rate=256", "16704 codes or labels for 3 samples"),
        ("signal=comment,labels=kind,rate=256", "'comment' is not numeric"),
        ("signal=EEG.data,labels=kind,rate=kind", "rate=kind has .* values; name a variable with one number"),
        ("signal=EEG.data,labels=kind,rate=256,unit=furlong", "the recipe has the unit 'furlong'; possible: µV"),
        ("signal=EEG.data,labels=?,rate=256", "the recipe does not say what labels is; write labels=NAME"),
        ("signal=EEG.data,label=kind", r"the recipe has the key 'label' \(did you mean 'labels'\?\)"),
        ("EEG.data", "the recipe has 'EEG.data'; write it as KEY=NAME,KEY=NAME"),
        ("signal=EEG.data,labels=kind,rate=256,names=comment", "names=comment has 1 names for 6 channels"),
    ],
)
def test_recipes_that_do_not_fit_are_refused(mine, recipe, message):
    with pytest.raises(RecordingError, match=rf"^{mine}: .*({message})"):
        read_recording(mine, recipe=recipe)


def test_onsets_count_from_one_and_values_may_belong_to_events(tmp_path):
    signal = np.random.default_rng(0).standard_normal((900, 3))
    onset, kind = np.arange(100, 850, 50), np.arange(15) % 5 == 0
    savemat(tmp_path / "a.mat", {"x": signal, "pos": onset + 1, "kind": kind * 1.0, "code": np.arange(15) % 5 + 1})
    back = read_recording(tmp_path / "a.mat", recipe="signal=x,onsets=pos,labels=kind,codes=code,rate=250,unit=V")
    assert_allclose(back.signal, signal.T * 1e6)
    assert_array_equal(back.events.onset, onset)
    assert_array_equal(back.events.target, kind)
    assert_array_equal(back.events.stimulus, np.arange(15) % 5 + 1)


def test_values_that_are_no_labels_are_asked_about_and_then_obeyed(mine, recording):
    wrong = "signal=EEG.data,labels=flash,rate=256"
    with pytest.raises(
        RecordingError,
        match=r"flash has the values 1 \(20\), 2 \(20\).*not known which of them are targets; name them with target=… "
        r"and nontarget=…; to score it without labels, give unlabelled=True",
    ):
        read_recording(mine, recipe=wrong)
    back = read_recording(mine, recipe=wrong, target=("3", "4"))
    assert_array_equal(back.events.target, np.isin(recording.events.stimulus, (3, 4)))
    few = read_recording(mine, recipe=wrong, target="3", nontarget="4")
    assert len(few.events) == np.isin(recording.events.stimulus, (3, 4)).sum()
    assert set(read_recording(mine, recipe=wrong, unlabelled=True).events.target) == {-1}
    with pytest.raises(RecordingError, match="its events have numbers, not names"):
        read_recording(mine, recipe=wrong, target="Target")


def test_a_recipe_reaches_into_cell_arrays(tmp_path):
    signal = np.random.default_rng(0).standard_normal((300, 2))
    runs = np.empty(2, dtype=object)
    for place in range(2):
        runs[place] = {
            "eeg": signal + place,
            "mark": (np.arange(300) % 60 == 30) * (1 - 2.0 * (np.arange(300) % 120 == 30)),
        }
    savemat(tmp_path / "a.mat", {"run": runs})
    back = read_recording(tmp_path / "a.mat", recipe="signal=run.2.eeg,labels=run.2.mark,rate=100")
    assert_array_equal(back.signal, signal.T + 1)
    assert_array_equal(back.events.target, [0, 1, 0, 1, 0])
