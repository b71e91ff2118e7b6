import json
import zipfile

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from mixnorm import GroupSVC, GroupSVCCV, SensorSelector, load, save
from mixnorm.eeg import ChannelScaler
from mixnorm.estimators.archive import ModelFileError, write_archive


@pytest.fixture(scope="module")
def trials():
    y = np.tile(["a", "b", "b"], 40)
    X = np.random.default_rng(100).standard_normal((120, 5, 4))
    X[y == "b", 2] += 1
    return X, y


def pipelines():
    yield "epochs", make_pipeline(ChannelScaler(clip=2.0), SensorSelector(2), GroupSVC(alpha=0.05))
    yield "vectors", make_pipeline(StandardScaler(), "passthrough", GroupSVCCV(3, penalty="l2"))
    yield "vectors", make_pipeline(StandardScaler(with_mean=False), GroupSVC(alpha=0.05))
    yield "vectors", make_pipeline(StandardScaler(with_std=False), SensorSelector(3))


@pytest.mark.parametrize(("form", "pipeline"), pipelines())
def test_loaded_pipeline_gives_the_same_bits(trials, tmp_path, form, pipeline):
    X, y = trials
    X = X if form == "epochs" else X.reshape(len(X), -1)
    pipeline.fit(X, y)
    save(pipeline, tmp_path / "p.mixnorm")
    loaded = load(tmp_path / "p.mixnorm")
    assert isinstance(loaded, Pipeline)
    assert [name for name, _ in loaded.steps] == [name for name, _ in pipeline.steps]
    method = "decision_function" if hasattr(pipeline, "decision_function") else "transform"
    assert_array_equal(getattr(loaded, method)(X), getattr(pipeline, method)(X))


def test_vectorizer_of_mne_is_a_step(trials, tmp_path):
    mne = pytest.importorskip("mne")
    if not hasattr(mne.decoding.Vectorizer, "get_params"):
        pytest.skip("the Vectorizer of this version of MNE is no estimator of scikit-learn")
    X, y = trials
    pipeline = make_pipeline(mne.decoding.Vectorizer(), StandardScaler(), GroupSVC(alpha=0.05)).fit(X, y)
    save(pipeline, tmp_path / "p.mixnorm")
    assert_array_equal(load(tmp_path / "p.mixnorm").predict(X), pipeline.predict(X))


def test_other_steps_are_refused_by_name(trials, tmp_path):
    X, y = trials
    pipeline = make_pipeline(MinMaxScaler(), GroupSVC(alpha=0.05)).fit(X.reshape(len(X), -1), y)
    with pytest.raises(
        TypeError, match="Step 'minmaxscaler' of the pipeline is a MinMaxScaler, which cannot be saved"
    ):
        save(pipeline, tmp_path / "p.mixnorm")
    assert not (tmp_path / "p.mixnorm").exists()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda model, arrays: model.update(steps=[]), "a pipeline must have 1 to 20 steps, but has 0"),
        (lambda model, arrays: model["steps"][0].update({"class": "Pipeline"}), "'Pipeline' cannot be a step"),
        (lambda model, arrays: model["steps"][0]["model"]["params"].update(clip="x"), "'clip' must be"),
        (lambda model, arrays: model["steps"][0]["model"]["fitted"].update(fit=1), "'fit' is unknown"),
        (lambda model, arrays: arrays.update({"step0/scale_": np.ones(7)}), "'scale_' must have the axes"),
        (lambda model, arrays: arrays.update({"step9/scale_": np.ones(7)}), "'step9/scale_' is unknown"),
    ],
)
def test_altered_files_are_refused(trials, tmp_path, change, problem):
    X, y = trials
    path = tmp_path / "p.mixnorm"
    save(make_pipeline(ChannelScaler(), GroupSVC(alpha=0.05)).fit(X, y), path)
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("header.json"))
        arrays = {name: np.load(archive.open(f"{name}.npy")) for name in header["arrays"]}
    change(header["model"], arrays)
    write_archive(path, {key: header[key] for key in ("class", "versions", "model")}, arrays)
    with pytest.raises(ModelFileError, match=problem):
        load(path)
