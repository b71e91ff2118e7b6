"""Real recordings: the default settings reach tol along a whole path, for every method, without a warning."""

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from mixnorm import GroupSVC, GroupSVCCV, SensorSelector, group_svc_path

FOLDER = Path(os.environ.get("MIXNORM_DATA", ""))
#: Two subjects of each set, and which trials of them: what a calibration run would have.
SETS = {"uam-p300": 1000, "ner2015-errp": None, "bigp3bci-a": 2000}
#: Some 50 sensors × 18 samples, one by one, take ℓ1 long: one subject of that set.
SUBJECTS = {("ner2015-errp", "l1"): 1}
PATHS = {
    "l2": {"penalty": "l2"},
    "l1": {"penalty": "l1"},
    **{f"q={q}": {"q": q} for q in (1.2, 1.5, 2.0)},
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("MIXNORM_DATA"), reason="MIXNORM_DATA is not set: no real recordings to test on"
    ),
]


@cache
def bundle(name):
    path = FOLDER / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{path} is not there: no real recordings to test on")
    with np.load(path, allow_pickle=False) as file:
        return {key: file[key] for key in ("X", "y", "subject", "ch_names", "times")}


@cache
def trials(name, number):
    """One subject's trials (n, channels, times), every feature standardised and clipped to ±5, and the labels."""
    data = bundle(name)
    mine = data["subject"] == np.unique(data["subject"])[number]
    X, y = data["X"][mine][: SETS[name]].astype(float), data["y"][mine][: SETS[name]]
    if name == "ner2015-errp":
        X = X[:, :, data["times"] >= 0][:, :, ::2]
    spread = X.std(axis=0)
    return np.clip((X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0), -5, 5), y


CASES = [
    (name, method, number) for name in SETS for method in PATHS for number in range(SUBJECTS.get((name, method), 2))
]


@pytest.mark.parametrize(("name", "method", "number"), CASES)
def test_default_settings_reach_tol_along_the_path(name, method, number):
    X, y = trials(name, number)
    path = group_svc_path(X, y, **PATHS[method])  # a warning would be an error
    assert path.alphas.shape == (20,)
    assert path.alphas[-1] == pytest.approx(1e-3 * path.alphas[0])
    assert np.all(path.dual_gaps <= 1e-6)
    assert np.all(np.diff(path.objectives) < 0)
    chosen = (path.coefs.reshape(20, X.shape[1], -1) != 0).any(axis=2)
    if method != "l2":
        assert not chosen[0].any()
    live = X.any(axis=(0, 2))
    assert not chosen[:, ~live].any()
    assert chosen[-1].any()


@pytest.mark.parametrize(
    ("name", "number"), [("uam-p300", 0), ("uam-p300", 1), ("ner2015-errp", 1), ("bigp3bci-a", 0)]
)
def test_default_settings_reach_tol_with_the_adaptive_norm(name, number):
    """Both stages, 20 alphas each, on every fold and on all trials: whatever missed tol would warn, an error here."""
    X, y = trials(name, number)
    model = GroupSVCCV(adaptive=True, cv=2).fit(X, y)
    assert model.dual_gap_ <= 1e-6
    assert model.scores_.shape == (20, 2)
    assert model.scores_.mean(axis=1).max() > 0.6


def test_adaptive_norm_chooses_among_the_sensors_of_the_plain_one():
    X, y = trials("ner2015-errp", 0)
    plain, adaptive = (GroupSVC(0.05, adaptive=adaptive).fit(X, y) for adaptive in (False, True))
    assert adaptive.dual_gap_ <= 1e-6
    assert set(adaptive.selected_groups_) < set(plain.selected_groups_)


@pytest.mark.parametrize("number", range(2))
def test_dead_sensors_are_never_selected(number):
    X, y = trials("bigp3bci-a", number)
    dead = np.flatnonzero(~X.any(axis=(0, 2)))
    names = bundle("bigp3bci-a")["ch_names"]
    assert set(names[dead]) == {"Fp1", "Fp2"}
    usable = X.shape[1] - len(dead)
    models = [
        GroupSVC(1e-3),
        GroupSVC(1e-3, penalty="l2"),
        GroupSVC(1e-3, penalty="l1"),
        GroupSVCCV(5, class_weight="balanced"),
        SensorSelector(3),
        SensorSelector(usable),
    ]
    for model in models:
        model.fit(X[:800], y[:800])
        assert len(model.selected_groups_) > 0
        assert not set(model.selected_groups_) & set(dead)
    with pytest.raises(ValueError, match=f"number of usable sensors, {usable} .*constant"):
        SensorSelector(usable + 1).fit(X[:800], y[:800])
