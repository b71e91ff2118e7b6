from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import signal as sps

from mixnorm.eeg import Preparation, RecordingError, prepare, simulated_recording


def test_trials_are_those_of_the_formula(recording):
    design = prepare(recording, Preparation(band=(1, 10), order=3, n_samples=5, window=(0.0, 0.5), reduce="pick"))
    sos = sps.butter(3, [1, 10], "bandpass", fs=256, output="sos")
    for trial in (0, 17, 239):
        onset = recording.events.onset[trial]
        for channel in (0, 5):
            row = recording.signal[channel]
            filtered = sps.sosfilt(sos, row, zi=sps.sosfilt_zi(sos) * row[0])[0]
            offsets = np.rint(np.arange(5) * 0.1 * 256).astype(int)
            assert_allclose(design.X[trial, channel], filtered[onset + offsets], atol=1e-10)
    assert_allclose(design.onset, recording.events.onset / 256)


def test_filter_comes_before_the_cut(recording):
    # the first trial of a prefix is the first trial of the whole
    prefix = replace(
        recording,
        signal=recording.signal[:, :2000],
        events=type(recording.events).of(recording.events.onset[:5], recording.events.target[:5]),
    )
    assert_array_equal(prepare(prefix).X, prepare(recording).X[:5])


@pytest.mark.parametrize("reference", ["average", ("Cz", "Oz")])
def test_reference_is_subtracted_and_named_ones_leave(recording, reference):
    plain = Preparation(band=None, reduce="pick", n_samples=None)
    referenced = prepare(recording, plain.with_(reference=reference))
    X = prepare(recording, plain).X
    if reference == "average":
        assert referenced.ch_names == recording.ch_names
        assert_allclose(referenced.X, X - X.mean(axis=1, keepdims=True), atol=1e-10)
    else:
        assert referenced.ch_names == ("Fz", "Pz", "P3", "P4")
        assert_allclose(referenced.X, X[:, [0, 2, 4, 5]] - X[:, [1, 3]].mean(axis=1, keepdims=True), atol=1e-10)
        assert len(referenced.positions) == 4


def test_unknown_reference_is_refused(recording):
    with pytest.raises(RecordingError, match=r"^simulated: unknown reference channel MA1, MA2; available: Fz"):
        prepare(recording, Preparation.preset("epfl"))


def test_runs_are_stacked_in_the_channel_order_of_the_first(recording):
    other = replace(
        recording,
        signal=recording.signal[::-1],
        ch_names=recording.ch_names[::-1],
        positions=recording.positions[::-1],
        session="2",
    )
    design = prepare([recording, other])
    assert_array_equal(design.X[:240], design.X[240:])
    assert list(design.session[[0, 300]]) == ["1", "2"]
    assert_array_equal(design.run, np.repeat([0, 1], 240))
    assert len(np.unique(design.character)) == 4


def test_recordings_that_do_not_fit_together_are_refused(recording):
    with pytest.raises(RecordingError, match="its channels are not those of the first recording: Cz; drop those"):
        prepare([recording, recording.without(["Cz"])])
    with pytest.raises(RecordingError, match="its sample times, at 250 Hz, are not those of the first one, at 256 Hz"):
        prepare([recording, replace(recording, sfreq=250.0)])
    with pytest.raises(ValueError, match="There are no recordings to prepare"):
        prepare([])


def test_to_sklearn_gives_groups_that_keep_characters_together(recording):
    X, y, groups = prepare(recording).to_sklearn()
    assert X.shape == (240, 6, 12)
    assert set(y) == {0, 1}
    assert_array_equal(groups, np.repeat([0, 1], 120))


def test_without_characters_the_groups_are_blocks_in_time(recording):
    events = type(recording.events).of(recording.events.onset, recording.events.target)
    bare = replace(recording, events=events)
    groups = prepare([bare, bare]).trial_groups(n_blocks=4)
    assert_array_equal(np.unique(groups, return_counts=True)[1], [60] * 8)
    for block in np.split(groups, 8):
        assert len(set(block)) == 1


def test_trials_without_labels_are_for_scoring_only(recording):
    unlabelled = replace(recording, events=type(recording.events).of(recording.events.onset))
    with pytest.raises(ValueError, match="240 trials have no label; they can be scored, but not used for training"):
        prepare(unlabelled).to_sklearn()


def test_target_responses_are_found_where_they_were_put():
    design = prepare(simulated_recording(1200, seed=5), Preparation(band=(0.5, 12), order=1))
    difference = design.X[design.y == 1].mean(axis=0) - design.X[design.y == 0].mean(axis=0)
    power = np.linalg.norm(difference, axis=1)
    assert power[:8].min() > power[8:].max()
