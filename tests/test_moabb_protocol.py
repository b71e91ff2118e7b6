"""Our pipelines in MOABB's WithinSessionEvaluation, from YAML files and in Python, on its fake data set; offline."""

from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
pytestmark = [
    pytest.mark.skipif(not BENCHMARKS.exists(), reason="benchmarks are not part of the source distribution"),
    pytest.mark.filterwarnings("default"),  # MOABB, pandas and h5py warn of their own affairs
]


@pytest.fixture
def protocol(monkeypatch):
    pytest.importorskip("moabb", reason="MOABB is not installed: the extra `moabb`", minversion="1.6")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import moabb_p300

    return moabb_p300


def settings(pipeline):
    return [(type(step).__name__, step.get_params()) for _, step in pipeline.steps]


def test_files_and_python_describe_the_same_pipelines(protocol):
    files, python = protocol.from_yaml(), protocol.in_python()
    assert set(files) == set(python) == {"mixnorm SVM", "mixnorm GSVM-2", "mixnorm SVM, noise"}
    for name, pipeline in python.items():
        assert settings(files[name]) == settings(pipeline)


@pytest.mark.slow
def test_moabb_evaluates_them_on_its_fake_data_set(protocol, tmp_path, monkeypatch):
    monkeypatch.setenv("MNE_DATA", str(tmp_path))
    scores = []
    for kind, pipelines in (("files", protocol.from_yaml()), ("python", protocol.in_python())):
        few = {name: pipelines[name] for name in ("mixnorm SVM", "mixnorm SVM, noise")}
        # a folder each: MOABB knows pipelines by what they are, and would read the results of the first again
        found = protocol.evaluate([protocol.fake()], few, tmp_path / kind)
        scores.append(found.pivot(index="subject", columns="pipeline", values="score").astype(float))
    files, python = scores
    assert files.shape == (2, 2)
    assert files.equals(python)
    assert files.to_numpy().min() > 0.2  # the data are noise
    assert files.to_numpy().max() < 0.8
