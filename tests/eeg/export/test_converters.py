import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mixnorm import GroupSVC, GroupSVCCV, SensorSelector
from mixnorm.eeg import ChannelScaler, prepare
from mixnorm.eeg.export import register_converters

skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: pip install mixnorm[onnx]")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install mixnorm[onnx]")


@pytest.fixture(scope="module")
def trials(recording):
    design = prepare(recording)
    return design.X, design.y


def converted(pipeline, X):
    register_converters()
    model = skl2onnx.to_onnx(pipeline, X[:1])
    return runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"X": X})


@pytest.mark.parametrize("labels", [np.array([0, 1]), np.array(["non-target", "target"]), np.array([False, True])])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_pipeline_of_epochs_converts(trials, labels, dtype):
    X, y = trials
    pipeline = make_pipeline(ChannelScaler(), SensorSelector(3), GroupSVC(alpha=0.05)).fit(X, labels[y])
    label, score = converted(pipeline, X.astype(dtype))
    assert_allclose(score[:, 0], pipeline.decision_function(X), atol=1e-10 if dtype is np.float64 else 1e-5)
    assert_array_equal(label, pipeline.predict(X))


def test_pipeline_of_vectors_converts_with_steps_of_scikit_learn(trials):
    X, y = trials
    flat = X.reshape(len(X), -1)
    groups = np.repeat(np.arange(6), 12)
    steps = StandardScaler(), SensorSelector(3, groups=groups), GroupSVCCV(3, penalty="l2")
    pipeline = make_pipeline(*steps).fit(flat, y)
    label, score = converted(pipeline, flat)
    assert_allclose(score[:, 0], pipeline.decision_function(flat), atol=1e-10)
    assert_array_equal(label, pipeline.predict(flat))
