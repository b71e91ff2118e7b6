import itertools
import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mixnorm.eeg import PRESETS, Preparation


@pytest.mark.parametrize("name", PRESETS)
def test_presets_survive_json(name):
    preset = Preparation.preset(name)
    assert Preparation.from_dict(json.loads(json.dumps(preset.to_dict()))) == preset


def test_epfl_preset_is_hoffmanns():
    preset = Preparation.preset("epfl")
    assert (preset.family, preset.order, preset.band, preset.phase) == ("butterworth", 3, (1.0, 8.0), "zero")
    assert preset.reference == ("MA1", "MA2")
    assert (preset.scaling, preset.clip) == ("windsor", 10.0)
    grid = preset.grid(2048.0)
    assert_array_equal(grid.first, 256 * np.arange(8))
    assert_array_equal(grid.length, np.ones(8))


def test_uam_preset_takes_every_fifth_sample_at_256_hz():
    preset = Preparation.preset("uam")
    assert (preset.family, preset.order, preset.band, preset.ripple) == ("chebyshev1", 5, (2.0, 20.0), 0.5)
    assert_array_equal(preset.grid(256.0).first, 5 * np.arange(31))
    assert_allclose(preset.times(256.0), 5 * np.arange(31) / 256, rtol=1e-15)
    # and 31 is all that fits into 0–600 ms
    assert preset.with_(n_samples=None).times(256.0).shape == (31,)


def test_errp_preset_has_sixteen_samples_in_one_second():
    preset = Preparation.preset("errp")
    assert (preset.family, preset.order, preset.band) == ("butterworth", 4, (1.0, 10.0))
    assert_allclose(preset.times(512.0), np.arange(16) / 16, rtol=1e-15)


@pytest.mark.parametrize("sfreq", [240.0, 250.0, 256.0, 511.7, 2048.0])
def test_sample_times_are_those_of_real_samples(sfreq):
    times = Preparation(reduce="pick", n_samples=11, window=(-0.1, 0.73)).times(sfreq)
    assert_allclose(times * sfreq, np.rint(times * sfreq), atol=1e-9)
    assert_allclose(times, -0.1 + np.arange(11) * 0.83 / 11, atol=0.5 / sfreq + 1e-12)


def test_means_average_every_sample_of_the_window_once():
    grid = Preparation(window=(0.0, 0.8), n_samples=7, reduce="mean").grid(250.0)
    signal = np.random.default_rng(0).standard_normal((2, 200))
    trial = grid.reduce(signal)
    edges = np.rint(np.linspace(0, 0.8, 8) * 250).astype(int)
    expected = np.stack([signal[:, a:b].mean(axis=1) for a, b in itertools.pairwise(edges)], axis=1)
    assert_allclose(trial, expected, atol=1e-14)
    assert_allclose(grid.times, [(a + b - 1) / 2 / 250 for a, b in itertools.pairwise(edges)])


@pytest.mark.parametrize("reduction", ["pick", "mean"])
def test_baseline_before_the_stimulus_is_subtracted(reduction):
    preparation = Preparation(window=(0.1, 0.3), n_samples=4, baseline=(-0.2, 0.0), reduce=reduction)
    grid = preparation.grid(100.0)
    assert (grid.start, grid.stop) == (-20, 30 if reduction == "mean" else 26)
    signal = np.random.default_rng(0).standard_normal((3, grid.stop - grid.start))
    plain = preparation.with_(baseline=None).grid(100.0).reduce(signal[:, 30:])
    assert_allclose(grid.reduce(signal), plain - signal[:, :20].mean(axis=1, keepdims=True), atol=1e-14)


def test_decimation_alone_takes_what_fits():
    assert_array_equal(
        Preparation(window=(0.0, 0.1), n_samples=None, decimation=4, reduce="pick").grid(100.0).first,
        [0, 4, 8],
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"family": "bessel"},
            "'family' parameter. Allowed values are 'butterworth', 'chebyshev1', 'butterworth-pair', but got 'bessel'",
        ),
        ({"phase": "minimum"}, "'phase' parameter"),
        ({"reduce": "median"}, "'reduce' parameter"),
        ({"scaling": "max"}, "'scaling' parameter"),
        ({"band": (8.0, 1.0)}, "'band': it must increase"),
        ({"band": (0.0, 8.0)}, "'band': edges must be above 0 Hz"),
        ({"band": (None, None)}, "'band': edges must be above 0 Hz"),
        ({"window": (0.5, 0.5)}, "'window': it must increase"),
        ({"n_samples": 0}, "'n_samples': it must be an integer above 0"),
        ({"order": 2.5}, "'order': it must be an integer above 0"),
        ({"order": 10**9}, "'order': it must be at most 50, but got 1000000000"),
        ({"decimation": -1}, "'decimation': it must be an integer above 0"),
    ],
)
def test_impossible_preparations_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        Preparation(**changes)


def test_unknown_words_are_refused():
    with pytest.raises(ValueError, match="Unknown field of a preparation: colour"):
        Preparation.from_dict({"colour": "red"})
    with pytest.raises(ValueError, match=r"Unknown preset 'bnci'; there are 'default', 'epfl', 'uam', 'errp'"):
        Preparation.preset("bnci")


@pytest.mark.parametrize(
    ("preparation", "sfreq", "message"),
    [
        (Preparation(), 20.0, "the sampling rate of 20 Hz is too low for a filter up to 10 Hz"),
        (Preparation(n_samples=50, band=None), 30.0, "50 samples do not fit into 0.6 s at 30 Hz"),
        (Preparation.preset("uam"), 200.0, "every 5 samples at 200 Hz give 24 in the window, not 31"),
        (Preparation.preset("epochs"), 200.0, "a continuous recording needs a window"),
    ],
)
def test_rates_that_do_not_fit_are_refused(preparation, sfreq, message):
    def use():
        preparation.sos(sfreq)
        preparation.grid(sfreq)

    with pytest.raises(ValueError, match=message):
        use()


def test_one_reference_channel_may_be_named_alone():
    assert Preparation(reference="Cz").reference == ("Cz",)
    assert Preparation(reference="average").reference == "average"
    assert Preparation(reference=["A1", "A2"]).reference == ("A1", "A2")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"order": "2"}, "'order' must be an integer from 1 to 50, but it is '2'"),
        ({"order": 10**9}, "'order' must be an integer from 1 to 50"),
        ({"window": 5}, "'window' must be"),
        ({"window": [0.1]}, "'window' must be"),
        ({"band": ["a", 2]}, "'band' has an item 0 that must be"),
        ({"clip": float("nan")}, "'clip' must be"),
        ({"reference": [5]}, "'reference' has an item 0 that must be text"),
        ({"n_samples": 10**12}, "'n_samples' must be"),
    ],
)
def test_descriptions_from_files_are_checked(fields, message):
    with pytest.raises(ValueError, match=f"Invalid preparation: {message}"):
        Preparation.from_dict(fields)


def test_whole_numbers_given_as_floats_are_written_as_integers():
    assert Preparation(order=3.0).to_dict()["order"] == 3
    assert Preparation.from_dict(Preparation(order=3.0, n_samples=np.int64(5)).to_dict()).n_samples == 5
