"""What is wrong with a recording is left out, counted and said; what is right is used as if nothing had happened."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mixnorm.eeg import (
    Decoder,
    EpochedRecording,
    Events,
    Preparation,
    RecordingError,
    prepare,
    read_recording,
    simulated_recording,
    to_raw,
)
from mixnorm.eeg.bridging import settling_samples
from mixnorm.eeg.faults import faults_of
from mixnorm.eeg.recording import BadSpan

GRID = Preparation().grid(256.0)
PAGE = Path(__file__).parents[2] / "docs" / "eeg.md"


def spoilt(recording, channel, samples, value):
    signal = recording.signal.copy()
    signal[channel, samples] = value
    return replace(recording, signal=signal)


def overlapping(recording, begin, end):
    """The events whose windows share a sample with begin … end − 1, by looking at each sample."""
    samples = set(range(begin, end))
    return [
        any(sample in samples for sample in range(onset + GRID.start, onset + GRID.stop))
        for onset in recording.events.onset.tolist()
    ]


# Trials


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_trials_with_lost_samples_are_left_out_and_no_others(recording, value):
    broken = spoilt(spoilt(recording, 2, slice(5000, 5040), value), 4, 9000, value)
    with pytest.warns(
        RuntimeWarning, match=r"^simulated: \d+ of 240 trials are left out: \d+ with NaN \(Pz \d+, P3 "
    ) as warned:
        design = prepare(broken)
    # the warning points at the line that asked for it
    assert [one.filename for one in warned] == [__file__]
    lost = np.array(overlapping(recording, 5000, 5040)) | overlapping(recording, 9000, 9001)
    assert_array_equal(design.onset, recording.events.onset[~lost] / 256)
    assert lost.sum() == len(design.left_out) > 4
    counts = design.left_out.counts()
    assert counts["by_reason"] == {"lost": lost.sum()}
    assert counts["by_channel"]["Pz"] == sum(overlapping(recording, 5000, 5040))
    assert counts["by_class"].get("target", 0) == recording.events.target[lost].sum()


def test_trials_with_a_flat_stretch_are_left_out(recording):
    # 100 ms at 256 Hz are 26 samples
    broken = spoilt(spoilt(recording, 1, slice(5000, 5060), -3276.7), 3, slice(9000, 9020), 3.0)
    faults = faults_of(broken, GRID)
    shared = [
        len(set(range(5000, 5060)) & set(range(onset + GRID.start, onset + GRID.stop))) >= 26
        for onset in recording.events.onset.tolist()
    ]
    assert_array_equal(faults.kind == "flat", shared)
    assert sum(shared) > 2
    assert {names for names in faults.because if names} == {("Cz",)}


def test_trials_that_overlap_a_bad_annotation_are_those_that_mne_drops(recording):
    mne = pytest.importorskip("mne")
    raw = to_raw(recording)
    raw.annotations.append([10.0, 20.0, 30.0, 40.3], [0.5, 0.0, 0.05, 1.0], ["BAD_a", "bad b", "Bad", "not bad"])
    read = read_recording(raw)
    with pytest.warns(RuntimeWarning, match=r"overlapping an annotation \(BAD_a \d+, bad b \d+, Bad \d+\)"):
        design = prepare(read)
    stimuli = np.column_stack([recording.events.onset, np.zeros(240, int), np.ones(240, int)])
    cut = mne.Epochs(
        raw,
        stimuli,
        tmin=GRID.start / 256,
        tmax=(GRID.stop - 1) / 256,
        baseline=None,
        preload=True,
        verbose="error",
    )
    assert_array_equal(design.onset, cut.events[:, 0] / 256)
    assert len(design) < 240
    assert len(prepare(read_recording(raw, use_bads=True))) == 240


def test_annotations_of_a_cropped_recording_stay_where_they_are(recording):
    mne = pytest.importorskip("mne")
    raw = to_raw(recording).set_meas_date(1_600_000_000)
    marks = raw.annotations
    raw.set_annotations(
        mne.Annotations(
            [*marks.onset, 12.0],
            [*marks.duration, 0.25],
            [*marks.description, "BAD_x"],
            raw.info["meas_date"],
        )
    )
    (span,) = read_recording(raw).bad_spans
    (cropped,) = read_recording(raw.copy().crop(tmin=4.0)).bad_spans
    assert (span.start, span.stop) == (12.0 * 256, 12.25 * 256)
    assert cropped.start == pytest.approx(8.0 * 256)


def test_events_that_begin_with_bad_are_stimuli_when_they_are_named(recording):
    mne = pytest.importorskip("mne")
    raw = to_raw(recording)
    words = ["bad" if text.startswith("Target") else "good" for text in raw.annotations.description]
    raw.set_annotations(mne.Annotations(raw.annotations.onset, 0.0, words))
    named = read_recording(raw, target="bad", nontarget="good")
    assert named.bad_spans == ()
    assert_array_equal(named.events.target, recording.events.target)


def test_trial_with_several_faults_counts_once_as_the_most_serious(recording):
    broken = spoilt(recording, 2, slice(5000, 5040), np.nan)
    broken = replace(broken, bad_spans=(BadSpan(4990, 5100, "BAD_cough"),))
    faults = faults_of(broken, GRID)
    assert set(faults.kind) == {"", "marked"}
    assert "overlaps BAD_cough" in faults.reasons()


def test_channel_that_spoils_many_trials_is_named_with_what_to_do(recording):
    signal = recording.signal.copy()
    signal[2, ::1000] = np.nan
    with pytest.warns(
        RuntimeWarning, match=r"channels that cost many trials: Pz \(\d+ %\): exclude them with drop=\['Pz'\]"
    ):
        prepare(replace(recording, signal=signal))


def test_when_no_trial_remains_the_error_says_why(recording):
    everywhere = replace(recording, bad_spans=(BadSpan(0, recording.signal.shape[1], "BAD_all"),))
    text = (
        r"^simulated: no trial remains: 240 of 240 trials are left out: 240 overlapping an annotation \(BAD_all 240\)"
    )
    with pytest.raises(RecordingError, match=text + ".*; use_bads=True uses what is marked as bad"):
        prepare(everywhere)
    signal = recording.signal.copy()
    signal[3, ::100] = np.nan
    with pytest.raises(RecordingError, match=r"no trial remains: .*with NaN \(Oz 240\).*; exclude the channels named"):
        prepare(replace(recording, signal=signal))


def epochs(X, **options):
    names = ("Fz", "Cz", "Pz")[: X.shape[1]]
    n = len(X)
    who = np.full(n, "S"), np.full(n, "1")
    events = Events.of(np.arange(n), np.arange(n) % 2)
    return EpochedRecording(X, names, np.arange(X.shape[2]) / 50, events, *who, "epochs", np.zeros((3, 3)), **options)


def test_epochs_with_faults_are_left_out_one_by_one():
    X = np.random.default_rng(0).standard_normal((20, 3, 6))
    X[4, 1, 2], X[7, 2] = np.nan, 5.0
    bad = np.full(20, "")
    bad = np.where(np.arange(20) == 11, "BAD_move", bad)
    with pytest.warns(RuntimeWarning, match="3 of 20 trials are left out"):
        design = prepare(epochs(X, bad=bad))
    assert_array_equal(design.onset, [i for i in range(20) if i not in (4, 7, 11)])
    assert design.left_out.counts()["by_reason"] == {"lost": 1, "flat": 1, "marked": 1}


def test_epochs_of_few_samples_are_not_flat_by_chance():
    X = np.random.default_rng(0).integers(0, 2, (20, 3, 3)).astype(float)
    assert len(prepare(epochs(X))) == 20
    X[:, 1] = 1.0
    with pytest.warns(RuntimeWarning, match=r"epochs: Cz \(flat in 100 % of the recording\) is left out"):
        assert prepare(epochs(X)).ch_names == ("Fz", "Pz")


# Scores


@pytest.fixture(scope="module")
def long():
    return simulated_recording(480, n_channels=6, n_informative=4, amplitude=8.0, seed=7)


@pytest.fixture(scope="module")
def decoder(long):
    return Decoder.fit(simulated_recording(480, n_channels=6, n_informative=4, amplitude=8.0, seed=8))


def test_scores_before_a_fault_have_the_bits_of_the_clean_file_and_soon_after_nearly(long, decoder):
    clean = decoder.predict(long).score
    begin, end = 12_800, 12_900  # at 50 s of two minutes
    broken = decoder.predict(spoilt(long, 2, slice(begin, end), np.nan))
    onset = long.events.onset
    before, after = onset + GRID.stop <= begin, onset + GRID.start >= end + 10 * 256
    assert before.sum() > 100
    assert after.sum() > 100
    assert_array_equal(broken.score[before], clean[before])
    assert np.abs(broken.score[after] - clean[after]).max() <= 1e-8 * clean.std()
    hit = np.array(overlapping(long, begin, end))
    assert_array_equal(np.isnan(broken.score), hit)
    assert set(broken.reason[hit]) == {"NaN in Pz"}
    assert set(broken.reason[~hit]) == {""}
    assert broken.left_out.counts()["n_trials"] == hit.sum()


@pytest.mark.skipif(not PAGE.exists(), reason="docs are not part of the source distribution")
def test_settling_of_the_presets_is_what_the_page_says():
    rates = {"default": 256.0, "errp": 512.0, "uam": 256.0, "epfl": 2048.0}
    settled = {name: settling_samples(Preparation.preset(name).sos(rate)) / rate for name, rate in rates.items()}
    page = PAGE.read_text(encoding="utf-8")
    sentence = ", ".join(f"{value:.0f} s with `{name}`" for name, value in settled.items())
    assert settled["default"] < 10
    assert sentence in " ".join(page.split())


def test_lost_samples_under_a_zero_phase_filter_are_bridged_by_a_line(long):
    preparation = Preparation(phase="zero")
    design = prepare(long, preparation)
    broken = spoilt(long, 2, slice(12_800, 12_900), np.nan)
    with pytest.warns(RuntimeWarning, match="with NaN"):
        found = prepare(broken, preparation)
    line = spoilt(
        long,
        2,
        slice(12_800, 12_900),
        np.interp(np.arange(12_800, 12_900), [12_799, 12_900], long.signal[2, [12_799, 12_900]]),
    )
    kept = ~np.array(overlapping(long, 12_800, 12_900))
    assert_allclose(found.X, prepare(line, preparation).X[kept], atol=1e-9)
    assert np.abs(found.X - design.X[kept]).max() > 1e-3


def test_other_channels_are_not_touched_by_lost_samples(long):
    with pytest.warns(RuntimeWarning, match="with NaN"):
        found = prepare(spoilt(long, 2, slice(12_800, 12_900), np.nan))
    kept = ~np.array(overlapping(long, 12_800, 12_900))
    assert_array_equal(np.delete(found.X, 2, axis=1), np.delete(prepare(long).X[kept], 2, axis=1))
