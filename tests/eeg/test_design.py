import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import signal as sps

from mixnorm import GroupSVC, load, save
from mixnorm.eeg import (
    Decoder,
    EpochedRecording,
    Events,
    Preparation,
    RecordingError,
    default_preparation,
    prepare,
    simulated_recording,
)


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


@pytest.mark.parametrize("reference", [None, "average"])
@pytest.mark.parametrize(
    ("phase", "band"),
    # a causal filter of 0.001 Hz settles for hours; nothing waits for that with a zero-phase one
    [("causal", (0.1, 20.0)), ("zero", (0.1, 20.0)), ("zero", (0.001, 20.0))],
)
def test_preparing_makes_no_copy_of_the_whole_signal(phase, band, reference):
    long = simulated_recording(300, n_channels=40, n_informative=2)
    tracemalloc.start()
    prepare(long, Preparation(phase=phase, band=band, reference=reference))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.7 * long.signal.nbytes


def test_progress_is_told_after_each_recording(recording):
    told = []
    prepare([recording, replace(recording, session="2")], progress=told.append)
    assert told == [1, 2]


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


def epochs(sfreq, first, count):
    times = (first + np.arange(count)) / sfreq
    X = np.random.default_rng(0).standard_normal((6, 2, count))
    kinds = np.full(6, "1")
    events = Events.of(np.arange(6), np.tile([0, 1], 3))
    return EpochedRecording(X, ("Cz", "Pz"), times, events, kinds, kinds, "epochs", np.full((2, 3), np.nan))


@pytest.mark.parametrize(
    ("sfreq", "first", "count", "length", "n_samples"),
    [
        (50.0, -5, 36, 3, 10),  # −0.1 to 0.6 s: ten means of 60 ms
        (256.0, 0, 205, 15, 13),  # 58.6 ms
        (100.0, 10, 70, 6, 11),  # epochs that begin after the stimulus are used from their beginning
        (250.0, -50, 53, 3, 1),  # three samples after the stimulus: one mean of them
    ],
)
def test_epochs_are_reduced_to_means_of_at_most_60_ms_from_the_stimulus_on(sfreq, first, count, length, n_samples):
    recording = epochs(sfreq, first, count)
    design = prepare(recording, default_preparation(recording))
    start = max(-first, 0)
    expected = recording.X[:, :, start : start + length * n_samples].reshape(6, 2, n_samples, length).mean(axis=3)
    assert_allclose(design.X, expected, atol=1e-12)
    middle = recording.times[start] + (np.arange(n_samples) * length + (length - 1) / 2) / sfreq
    assert_allclose(design.times, middle, atol=1e-9)


@pytest.mark.parametrize(
    ("sfreq", "first", "count"),
    [(20.0, 0, 14), (6.7, 0, 4), (50.0, -30, 20)],
    ids=["coarse", "windows of 150 ms", "before the stimulus"],
)
def test_epochs_that_are_coarse_or_end_before_the_stimulus_are_used_as_they_are(sfreq, first, count):
    recording = epochs(sfreq, first, count)
    assert default_preparation(recording) == Preparation.preset("epochs")


def test_unevenly_spaced_samples_are_used_as_they_are():
    recording = replace(epochs(100.0, 0, 5), times=np.array([0.0, 0.01, 0.03, 0.1, 0.3]))
    assert default_preparation(recording) == Preparation.preset("epochs")


def test_window_and_number_of_samples_can_be_given(recording):
    trials = epochs(50.0, -5, 36)
    assert default_preparation(trials, window=(0.1, 0.5)).window == pytest.approx((0.1, 0.46))  # six means of 60 ms
    assert default_preparation(trials, window=(0.1, 0.5), n_samples=4).window == pytest.approx((0.1, 0.5))
    six = prepare(trials, default_preparation(trials, n_samples=6))
    assert_allclose(six.X, trials.X[:, :, 5:35].reshape(6, 2, 6, 5).mean(axis=3), atol=1e-12)
    with pytest.raises(RecordingError, match=r"epochs reach from -0\.1 to 0\.6 s and do not cover the window"):
        prepare(trials, default_preparation(trials, window=(0.0, 0.9)))
    with pytest.raises(RecordingError, match=r"80 samples do not fit into 0\.6 s at 50 Hz"):
        prepare(trials, default_preparation(trials, window=(0.0, 0.6), n_samples=80))
    with pytest.raises(RecordingError, match="do not cover the window"):
        prepare(trials, default_preparation(trials, n_samples=80))
    # a continuous recording keeps the spacing of its preset, 50 ms
    given = default_preparation([recording], window=(0.0, 0.8))
    assert (given.window, given.n_samples, given.band) == ((0.0, 0.8), 16, (0.5, 10.0))
    assert default_preparation(recording) == Preparation()
    # and a preset with a decimation keeps that, unless a number is given
    uam = default_preparation(recording, Preparation.preset("uam"), (0.0, 0.4))
    assert (uam.n_samples, uam.decimation) == (None, 5)
    assert default_preparation(recording, Preparation.preset("uam"), (0.0, 0.4), 8).decimation is None


def test_a_decoder_keeps_the_samples_it_was_trained_with(tmp_path):
    trials = epochs(50.0, -5, 36)
    trials = replace(trials, X=trials.X + 3 * trials.events.target[:, None, None])
    decoder = Decoder.fit(trials, classifier=GroupSVC(0.1, penalty="l2"))
    save(decoder, tmp_path / "d.mixnorm")
    again = load(tmp_path / "d.mixnorm")
    assert again.preparation == default_preparation(trials)
    assert_array_equal(again.predict(trials).score, decoder.predict(trials).score)


def test_runs_without_characters_count_as_one_character_each(recording):
    known, unknown = (
        replace(recording, events=replace(recording.events, character=np.full(240, -1) + number))
        for number in (np.repeat([1, 2, 3, 4], 60), 0)
    )
    assert prepare([known, unknown]).n_characters == 5


def test_characters_without_labels_do_not_count(recording):
    target = np.where(np.arange(240) < 60, recording.events.target, -1)
    part = replace(recording.events, target=target, character=np.repeat([1, 2, 3, 4], 60))
    assert prepare(replace(recording, events=part)).n_characters == 1
