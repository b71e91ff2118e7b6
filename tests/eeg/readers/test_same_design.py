"""One recording in every format: the same design, to the precision of the format."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.io import savemat

from mixnorm.eeg import Preparation, prepare, read_recordings, to_raw
from xdf_files import recording_as_xdf

mne = pytest.importorskip("mne")


def by_mne(name):
    def write(folder, recording):
        path = folder / name
        raw = to_raw(recording)
        raw.save(path, fmt="double", verbose="error") if name.endswith("fif") else mne.export.export_raw(
            path, raw, verbose="error"
        )
        return path, {}

    return write


def bids(folder, recording):
    mne_bids = pytest.importorskip("mne_bids")
    path = mne_bids.BIDSPath(subject="01", task="speller", root=folder, datatype="eeg")
    raw = to_raw(recording)
    raw.info["line_freq"] = 50
    mne_bids.write_raw_bids(raw, path, format="BrainVision", allow_preload=True, verbose="error")
    return folder, {}


def xdf(folder, recording):
    pytest.importorskip("pyxdf")
    return recording_as_xdf(folder / "a.xdf", recording), {}


def mat(folder, recording):
    events = recording.events
    variables = {
        "eeg": recording.signal.T,
        "at": events.onset + 1,
        "is_target": events.target,
        "code": events.stimulus,
        "letter": events.character,
        "fs": recording.sfreq,
        "labels": np.array(recording.ch_names, dtype=object),
    }
    savemat(folder / "a.mat", variables)
    recipe = "signal=eeg,onsets=at,labels=is_target,codes=code,characters=letter,rate=fs,names=labels"
    return folder / "a.mat", {"recipe": recipe}


@pytest.mark.filterwarnings("ignore:Encountered unsupported non-voltage units:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:Converting data files to BrainVision format:RuntimeWarning")
@pytest.mark.parametrize(
    ("write", "rounding"),
    [
        # doubles, in volts: rounded twice to 1e-16 of some 100 µV, which the recursion of a 0.5 Hz filter adds up
        (by_mne("a_raw.fif"), 1e-10),
        # 16 bits over the range of a channel, and a band-pass filter that passes most of the rounding
        (by_mne("a.edf"), 0.02),
        # floats of 32 bits, of some tens of µV
        (by_mne("a.set"), 1e-5),
        (by_mne("a.vhdr"), 1e-5),
        (bids, 1e-5),
        (xdf, 1e-5),
        (mat, 0.0),
    ],
    ids=["fif", "edf", "set", "brainvision", "bids", "xdf", "mat with a recipe"],
)
def test_the_same_recording_gives_the_same_design(tmp_path, recording, write, rounding):
    path, options = write(tmp_path, recording)
    [back] = read_recordings(path, **options)
    ours, theirs = prepare(recording, Preparation()), prepare(back, Preparation())
    assert_allclose(theirs.X, ours.X, rtol=0, atol=rounding)
    assert 1 < np.std(ours.X) < 100  # µV, so that the roundings above mean something
    assert theirs.ch_names == ours.ch_names
    assert_array_equal(theirs.y, ours.y)
    assert_array_equal(theirs.character, ours.character)
    assert_array_equal(theirs.times, ours.times)
