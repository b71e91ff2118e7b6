"""Small plans and bundles that the tests of the study share."""

import os
from pathlib import Path

import numpy as np
import pytest

from mixnorm.study import DatasetPlan, Plan

SMALL = {"n_trials": 260, "n_channels": 5, "n_informative": 2, "noise": 0.1}


@pytest.fixture
def plan():
    """Nine quick units on simulated data."""
    return Plan(
        name="small",
        datasets=(DatasetPlan("small", "simulated", options=SMALL),),
        methods=("svm", "gsvm-2", "gsvm-a"),
        splits=3,
        n_train=(90,),
        alphas=(0.01, 0.1, 1.0),
    )


@pytest.fixture
def write_bundle(tmp_path):
    """A writer of epochs bundles with a response on channel Pz: a speller of four subjects, two sessions each."""

    def write(name="bundle.npz", n_characters=8, one_class=(), **changes):
        rng = np.random.default_rng(5)
        parts = []
        for subject in ("A", "B", "C", "D"):
            for character in range(n_characters):
                codes = np.concatenate([rng.permutation(4) + 1 for _ in range(6)])
                target = np.isin(codes, [1 + character % 2, 3 + character % 2]) & (subject not in one_class)
                parts.append((np.full(24, subject), np.full(24, character), codes, target))
        subject, character, stimulus, y = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        X = rng.standard_normal((len(y), 3, 4)).astype("f4")
        X[:, 1] += 1.3 * y[:, None]
        session = character // (n_characters // 2)
        arrays = {"X": X, "y": y.astype("i1"), "subject": subject, "session": session, "character": character}
        arrays |= {"stimulus": stimulus, "ch_names": np.array(["Cz", "Pz", "Oz"]), "times": np.arange(4) / 10.0}
        arrays |= changes
        path = tmp_path / name
        np.savez(path, **{key: value for key, value in arrays.items() if value is not None})
        return path

    return write


@pytest.fixture
def around():
    """A quick plan around a bundle."""

    def make(path, **changes):
        settings = {"methods": ("svm", "gsvm-2"), "splits": 2, "alphas": (0.01, 0.1), "n_train": (60,)}
        settings |= changes
        return Plan(name="bundle", datasets=(DatasetPlan("bundle", str(path)),), **settings)

    return make


@pytest.fixture(scope="session")
def data():
    """The folder of real recordings, or a skip that says why there is none."""
    folder = os.environ.get("MIXNORM_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("MIXNORM_DATA names no folder: no real recordings to test on")
    return Path(folder)
