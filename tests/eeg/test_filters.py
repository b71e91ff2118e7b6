import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import signal as sps

from mixnorm.eeg.bridging import BridgingFilter
from mixnorm.eeg.filters import design_sos, zero_phase


@pytest.fixture
def noise():
    return 30 * np.random.default_rng(3).standard_normal((3, 2000)) + [[5000.0], [-200.0], [0.0]]


@pytest.mark.parametrize(("family", "order"), [("butterworth", 3), ("butterworth", 4), ("chebyshev1", 5)])
def test_causal_filter_equals_scipys_transfer_function(noise, family, order):
    # Independent of the sections: numerator and denominator polynomials, steady state on the first sample.
    make = {
        "butterworth": lambda: sps.butter(order, [10, 60], "bandpass", fs=250.0),
        "chebyshev1": lambda: sps.cheby1(order, 0.5, [10, 60], "bandpass", fs=250.0),
    }[family]
    b, a = make()
    expected = [sps.lfilter(b, a, row, zi=sps.lfilter_zi(b, a) * row[0])[0] for row in noise]
    ours = BridgingFilter(design_sos((10.0, 60.0), 250.0, family, order, 0.5), 3).push(noise)
    assert_allclose(ours, expected, rtol=0, atol=1e-10 * 5000)


def test_causal_filter_equals_sosfilt_of_the_same_design(noise):
    sos = sps.butter(3, [1, 8], "bandpass", fs=2048.0, output="sos")
    expected = [sps.sosfilt(sos, row, zi=sps.sosfilt_zi(sos) * row[0])[0] for row in noise]
    ours = BridgingFilter(design_sos((1.0, 8.0), 2048.0, "butterworth", 3, 0), 3).push(noise)
    assert_allclose(ours, expected, atol=1e-10)


def test_zero_phase_filter_equals_sosfiltfilt(noise):
    sos = sps.butter(3, [1, 8], "bandpass", fs=256.0, output="sos")
    ours = zero_phase(design_sos((1.0, 8.0), 256.0, "butterworth", 3, 0), noise)
    assert_allclose(ours, sps.sosfiltfilt(sos, noise, axis=1), atol=1e-10)


@pytest.mark.parametrize(("band", "kind", "edge"), [((None, 20.0), "lowpass", 20.0), ((0.5, None), "highpass", 0.5)])
def test_half_open_bands_are_low_and_high_passes(band, kind, edge):
    assert_array_equal(design_sos(band, 256.0, "butterworth", 2, 0), sps.butter(2, edge, kind, fs=256.0, output="sos"))


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 400), max_size=12))
def test_chunks_of_any_length_give_the_bits_of_the_whole(cuts):
    x = np.random.default_rng(1).standard_normal((2, 400)) * 100 + 1000
    sos = design_sos((0.5, 12.0), 250.0, "butterworth", 2, 0)
    filt = BridgingFilter(sos, 2)
    edges = [0, *sorted(cuts), 400]
    chunked = np.hstack([filt.push(x[:, a:b]) for a, b in itertools.pairwise(edges)])
    assert_array_equal(chunked, BridgingFilter(sos, 2).push(x))


def test_causal_output_for_a_prefix_does_not_depend_on_what_follows(noise):
    sos = design_sos((1.0, 10.0), 250.0, "butterworth", 4, 0)
    changed = noise.copy()
    changed[:, 1200:] = 1e6
    first, second = (BridgingFilter(sos, 3).push(signal) for signal in (noise, changed))
    assert_array_equal(first[:, :1200], second[:, :1200])
    assert not np.allclose(zero_phase(sos, noise)[:, :1200], zero_phase(sos, changed)[:, :1200])


def test_offset_of_an_amplifier_makes_no_transient():
    constant = np.full((1, 500), 4e5)
    sos = design_sos((1.0, 10.0), 250.0, "butterworth", 3, 0)
    assert np.abs(BridgingFilter(sos, 1).push(constant)).max() < 1e-3


def test_a_pair_is_a_high_pass_and_a_low_pass_one_after_the_other():
    sos = design_sos((0.5, 10.0), 256.0, "butterworth-pair", 2, 0.0)
    frequencies, response = sps.sosfreqz(sos, 500, fs=256.0)
    parts = [sps.butter(2, 0.5, "highpass", fs=256.0), sps.butter(2, 10.0, "lowpass", fs=256.0)]
    expected = np.prod([sps.freqz(*part, worN=frequencies, fs=256.0)[1] for part in parts], axis=0)
    np.testing.assert_allclose(response, expected, atol=1e-9)
    one_sided = design_sos((None, 10.0), 256.0, "butterworth-pair", 2, 0.0)
    np.testing.assert_array_equal(one_sided, design_sos((None, 10.0), 256.0, "butterworth", 2, 0.0))
