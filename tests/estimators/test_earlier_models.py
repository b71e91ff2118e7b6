"""Model files that version 0.1.0 wrote: they load, and give the scores that they gave there.

`tests/data/models-0.1.0/scores.npz` holds what each model of version 0.1.0 said about the trials below. A trial has one
feature that is not zero, so that a score is a sum of one product and zeros: the same bits on every machine.
"""

from pathlib import Path

import numpy as np
import pytest

import mixnorm
from mixnorm.eeg import simulated_recording

FOLDER = Path(__file__).parents[1] / "data" / "models-0.1.0"
TRIALS = np.concatenate([np.eye(12), -0.5 * np.eye(12)]).reshape(24, 4, 3)
SUBJECTS = np.resize(["A", "B", "C"], 24)
APPLY = {
    "GroupSVC": lambda model: model.decision_function(TRIALS),
    "GroupSVC-l1": lambda model: model.decision_function(TRIALS.reshape(24, -1)),
    "GroupSVCCV": lambda model: model.decision_function(TRIALS),
    "MultiTaskGroupSVC": lambda model: model.decision_function(TRIALS, subjects=SUBJECTS),
    "MultiTaskGroupSVCCV": lambda model: model.decision_function(TRIALS, subjects=SUBJECTS),
    "PerSubjectSVC": lambda model: model.decision_function(TRIALS, subjects=SUBJECTS),
    "PooledSVC": lambda model: model.decision_function(TRIALS),
    "SensorSelector": lambda model: model.transform(TRIALS),
}


@pytest.fixture(scope="module")
def scores():
    with np.load(FOLDER / "scores.npz", allow_pickle=False) as found:
        return dict(found)


def loaded(name):
    return mixnorm.load(FOLDER / f"{name}.mixnorm")


def test_every_stored_model_is_tested():
    assert {path.stem for path in FOLDER.glob("*.mixnorm")} == {*APPLY, "Decoder"}


@pytest.mark.parametrize("name", APPLY)
def test_a_model_gives_the_same_bits(name, scores):
    model = loaded(name)
    assert type(model).__name__ == name.split("-")[0]
    np.testing.assert_array_equal(APPLY[name](model), scores[name])
    assert len(np.unique(scores[name])) > 2, "a model that says the same of every trial shows nothing"


def test_a_decoder_gives_the_same_bits_and_scores_a_recording_alike(scores):
    decoder = loaded("Decoder")
    np.testing.assert_array_equal(
        decoder.classifier.decision_function(np.eye(48).reshape(48, 4, 12)), scores["Decoder-unit"]
    )
    recording = simulated_recording(96, n_channels=4, n_informative=2, amplitude=8.0, seed=3)
    found = decoder.predict(recording).score
    # the filter adds thousands of products, in an order that depends on the machine
    np.testing.assert_allclose(found, scores["Decoder"], rtol=1e-9, atol=1e-9)


def test_names_and_choices_are_kept():
    model = loaded("GroupSVCCV")
    assert list(model.groups_) == ["Fz", "Cz", "Pz", "Oz"]
    assert "Cz" in model.selected_groups_
    assert list(loaded("GroupSVC-l1").classes_) == ["no", "yes"]
    assert list(loaded("MultiTaskGroupSVCCV").subjects_) == ["A", "B", "C"]
    assert loaded("Decoder").ch_names == ("Fz", "Cz", "Pz", "Oz")


def test_an_earlier_model_can_still_be_adapted():
    model = loaded("MultiTaskGroupSVCCV")
    rng = np.random.default_rng(1)
    y = np.arange(20) % 2
    X = rng.standard_normal((20, 4, 3))
    X[:, 1] += 2.0 * y[:, None]
    model.adapt(X, y, subject="D")
    assert list(model.subjects_) == ["A", "B", "C", "D"]
    found = model.decision_function(X)
    assert found[y == 1].mean() > found[y == 0].mean()
