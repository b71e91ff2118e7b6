import numpy as np
import pytest
from numpy.testing import assert_allclose

from mixnorm.eeg.positions import HEAD_RADIUS, electrode_positions, standard_name
from mixnorm.eeg.simulate import ELECTRODES


def test_every_electrode_lies_on_the_head():
    assert_allclose(np.linalg.norm(electrode_positions(ELECTRODES), axis=1), HEAD_RADIUS, rtol=1e-12)


def test_left_and_right_mirror_each_other():
    left, right = (
        electrode_positions(["C3", "PO7", "FT9", "O1"]),
        electrode_positions(["C4", "PO8", "FT10", "O2"]),
    )
    assert_allclose(left * [-1, 1, 1], right, atol=1e-15)


def test_positions_agree_with_mne_standard_montage():
    mne = pytest.importorskip("mne")
    reference = mne.channels.make_standard_montage("biosemi64").get_positions()["ch_pos"]
    names = [name for name in ELECTRODES if name in reference]
    assert len(names) > 55
    ours = electrode_positions(names) / HEAD_RADIUS
    theirs = np.array([reference[name] for name in names])
    theirs /= np.linalg.norm(theirs, axis=1, keepdims=True)
    angles = np.rad2deg(np.arccos(np.clip(np.sum(ours * theirs, axis=1), -1, 1)))
    # biosemi caps put the rim 92° below the vertex, the 10–10 system 72°: up to 20° and a bit by construction
    assert angles.max() < 26
    assert np.median(angles) < 16
    assert np.corrcoef(ours.ravel(), theirs.ravel())[0, 1] > 0.95


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("FZ", "Fz"),
        ("fc3..", "FC3"),
        ("EEG Pz", "Pz"),
        ("T3", "T7"),
        ("eeg:CP5", "CP5"),
        ("POZ-Ref", "POz"),
        ("iz", "Iz"),
    ],
)
def test_spellings_of_electrodes(written, meant):
    assert standard_name(written) == meant


@pytest.mark.parametrize("written", ["EOG1", "STI 014", "Q7", "", "C33"])
def test_what_is_no_electrode_has_no_name_and_no_place(written):
    assert standard_name(written) is None
    assert np.isnan(electrode_positions([written])).all()
