import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from mixnorm.eeg import (
    Preparation,
    prepare,
    read_recordings,
    simulated_cohort,
    simulated_p300,
    simulated_recording,
    to_raw,
)
from mixnorm.eeg.simulate import TIMES, p300_wave, scalp_mixing


def test_defaults_are_the_papers_table_1_setting():
    trials = simulated_p300()
    assert trials.X.shape == (1000, 16, 8)
    assert trials.X.dtype == np.float64
    assert len(trials.informative) == 8
    assert trials.y.sum() == 500
    assert set(np.unique(trials.y)) == {0, 1}
    assert_allclose(trials.times, np.arange(8) / 8)
    assert len(set(trials.ch_names)) == 16


def test_wave_has_the_published_shape_and_norm():
    t = np.arange(8) / 8
    raw = np.cos(2 * np.pi * 2.5 * (t - 0.36)) * np.exp(-0.5 * ((t - 0.42) / 0.28) ** 2)
    centred = raw - raw.mean()
    assert_allclose(p300_wave(TIMES), 0.0945 * centred / np.linalg.norm(centred), rtol=1e-13)


def test_class_difference_is_gain_times_wave_on_the_informative_channels_only():
    trials = simulated_p300(200_000, seed=5)
    difference = trials.X[trials.y == 1].mean(axis=0) - trials.X[trials.y == 0].mean(axis=0)
    gains = np.linspace(0.6, 1.4, 8)
    gains /= np.sqrt(np.mean(gains**2))
    expected = np.vstack([np.outer(gains, p300_wave(TIMES)), np.zeros((8, 8))])
    # standard error of the difference of two means over 1e5 trials each: 0.2 * sqrt(2e-5) = 9e-4
    assert_allclose(difference, expected, atol=5 * 9e-4)


def test_oracle_auc_is_that_of_the_formula():
    # The best linear score along the pattern p has d' = ‖p‖/σ and AUC = Φ(d'/√2).
    trials = simulated_p300(40_000, seed=1)
    pattern = np.zeros((16, 8))
    gains = np.linspace(0.6, 1.4, 8)
    pattern[:8] = np.outer(gains / np.sqrt(np.mean(gains**2)), p300_wave(TIMES))
    scores = np.tensordot(trials.X, pattern, 2)
    targets, rest = scores[trials.y == 1], scores[trials.y == 0]
    ranks = np.searchsorted(np.sort(rest), targets)
    assert_allclose(ranks.mean() / len(rest), norm.cdf(np.linalg.norm(pattern) / 0.2 / np.sqrt(2)), atol=0.01)


def test_same_seed_same_trials_and_another_seed_others():
    first, again, other = simulated_p300(50, seed=7), simulated_p300(50, seed=7), simulated_p300(50, seed=8)
    assert_array_equal(first.X, again.X)
    assert_array_equal(first.y, again.y)
    assert not np.array_equal(first.X, other.X)


def test_noise_correlation_over_the_scalp_follows_the_formula():
    trials = simulated_p300(60_000, n_channels=6, n_informative=0, noise_correlation=0.8, seed=2)
    empirical = np.corrcoef(trials.X.transpose(1, 0, 2).reshape(6, -1))
    mixing = scalp_mixing(trials.ch_names, 0.8)
    assert_allclose(empirical, mixing @ mixing.T, atol=0.01)
    assert empirical[0, 1] > 0.1


@pytest.mark.parametrize("fraction", [0.1, 1 / 6, 0.5])
def test_target_fraction_is_met_to_the_trial(fraction):
    assert simulated_p300(301, target_fraction=fraction).y.sum() == round(301 * fraction)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_channels": 65}, "'n_channels': 1 to 64 are known, but got 65"),
        ({"n_informative": 17}, "17 informative electrodes asked for, but there are 16"),
        ({"target_fraction": 1.0}, "'target_fraction': it must lie in"),
        ({"noise_correlation": 1.0}, "'noise_correlation': it must lie in"),
    ],
)
def test_impossible_simulations_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        simulated_p300(10, **arguments)


def test_cohort_names_common_and_own_electrodes_truly():
    cohort = simulated_cohort(3, 60_000, n_common=4, n_own=2, difference=0.5, seed=4)
    assert len(cohort.own) == 3
    for subject, own in cohort.own.items():
        mine = cohort.subject == subject
        X, y = cohort.X[mine], cohort.y[mine]
        power = np.linalg.norm(X[y == 1].mean(axis=0) - X[y == 0].mean(axis=0), axis=1)
        found = {cohort.ch_names[channel] for channel in np.flatnonzero(power > 0.02)}
        assert found == set(cohort.common) | set(own)


def test_cohort_knob_goes_from_equal_to_different_subjects():
    def spread(difference):
        cohort = simulated_cohort(4, 20_000, n_own=0, difference=difference, seed=3)
        means = [
            cohort.X[(cohort.subject == s) & (cohort.y == 1)].mean(axis=0).ravel() for s in np.unique(cohort.subject)
        ]
        return np.var(means, axis=0).sum()

    sampling_error = 128 * 0.2**2 / 10_000
    assert spread(0.0) < 1.5 * sampling_error
    assert spread(0.3) > 3 * spread(0.0)
    assert spread(1.0) > 3 * spread(0.3)


def test_cohort_refuses_a_knob_outside_its_range():
    with pytest.raises(ValueError, match=r"'difference': it must lie in \[0, 1\], but got 2"):
        simulated_cohort(difference=2)


def test_recording_is_a_speller_with_two_targets_a_round():
    recording = simulated_recording(600, seed=1)
    events = recording.events
    assert len(events) == 600
    for start in range(0, 600, 12):
        round_ = slice(start, start + 12)
        assert sorted(events.stimulus[round_]) == list(range(1, 13))
        assert events.target[round_].sum() == 2
    # one row (1–6) and one column (7–12), the same for all rounds of a character
    for character in range(5):
        mine = events.character == character
        attended = np.unique(events.stimulus[mine & (events.target == 1)])
        assert len(attended) == 2
        assert (attended <= 6).sum() == 1


@pytest.mark.parametrize("sfreq", [128.0, 256.0, 512.0])
def test_recording_has_eight_microvolts_of_noise_whatever_the_rate(sfreq):
    recording = simulated_recording(240, sfreq=sfreq, amplitude=0.0, seed=1)
    assert_allclose(recording.signal.std(), 8.0, rtol=0.05)
    assert_allclose(np.diff(recording.events.onset[:50]) / sfreq, 0.25)


def test_response_has_its_amplitude_in_microvolts():
    recordings = [simulated_recording(240, amplitude=amplitude, seed=1) for amplitude in (0.0, 6.0)]
    added = recordings[1].signal - recordings[0].signal
    first = recordings[0].events.onset[recordings[0].events.target == 1][0]
    gains = np.linspace(0.6, 1.4, 8)
    gains /= np.sqrt(np.mean(gains**2))
    alone = added[:8, first : first + 64]
    assert_allclose(np.abs(alone).max(axis=1) / np.abs(alone).max(), gains / gains.max(), rtol=1e-9)
    assert_array_equal(added[8:], 0.0)


TRIALS_AS_THEY_ARE = Preparation(band=None, window=(0.0, 1.0), n_samples=8, reduce="pick")


def test_trials_as_a_recording_and_back_are_the_same():
    trials = simulated_p300(60, seed=4)
    design = prepare(trials.to_recording(), TRIALS_AS_THEY_ARE)
    assert_array_equal(design.X, trials.X)
    assert_array_equal(design.y, trials.y)
    assert_array_equal(design.times, trials.times)


def test_cohort_as_raws_and_back_is_the_same(tmp_path):
    pytest.importorskip("mne")
    cohort = simulated_cohort(3, 40, seed=4)
    paths = [tmp_path / f"sub-{recording.subject}_raw.fif" for recording in cohort.to_recordings()]
    for path, recording in zip(paths, cohort.to_recordings(), strict=True):
        to_raw(recording).save(path, fmt="double", verbose="error")
    design = prepare(read_recordings(*paths), TRIALS_AS_THEY_ARE)
    assert_allclose(design.X, cohort.X, rtol=1e-12, atol=1e-15)
    assert_array_equal(design.y, cohort.y)
    assert_array_equal(design.subject, cohort.subject)
