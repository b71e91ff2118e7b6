import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import signal as sps

from mixnorm.eeg.bridging import LONGEST, BridgingFilter, settling_samples
from mixnorm.eeg.filters import design_sos

SOS = design_sos((0.5, 10.0), 128.0, "butterworth", 2, 0.0)


def filtered(signal):
    """SciPy's filter, channel by channel, in the state of a constant signal at the first sample."""
    return np.stack([sps.sosfilt(SOS, row, zi=sps.sosfilt_zi(SOS) * row[0])[0] for row in signal])


def test_without_lost_samples_the_bits_are_those_of_scipy():
    signal = np.random.default_rng(100).standard_normal((3, 700)) + 1e4
    filt = BridgingFilter(SOS, 3)
    parts = [filt.push(part) for part in np.array_split(signal, [1, 1, 40, 333], axis=1)]
    assert_array_equal(np.hstack(parts), filtered(signal))


@pytest.mark.parametrize("gap", [1, 100, 1000])
def test_a_straight_line_is_bridged_exactly(gap):
    """A drift of the amplifier goes on through a gap: after it, the output is that of the unbroken signal."""
    line = np.stack([np.linspace(1000.0, 3000.0, 4000), np.linspace(0.0, -50.0, 4000)])
    whole, broken = filtered(line), line.copy()
    broken[0, 1500 : 1500 + gap] = np.nan
    out = BridgingFilter(SOS, 2).push(broken)
    assert np.isnan(out[0, 1500 : 1500 + gap]).all()
    there = np.isfinite(out[0])
    assert there.sum() == 4000 - gap
    assert_allclose(out[0, there], whole[0, there], atol=1e-7)
    assert_array_equal(out[1], whole[1])


def test_a_gap_may_lie_across_chunks_and_be_announced():
    signal = np.random.default_rng(101).standard_normal((2, 900))
    signal[:, 300:420] = np.nan
    at_once = BridgingFilter(SOS, 2).push(signal)
    filt = BridgingFilter(SOS, 2)
    parts = [filt.push(part) for part in np.array_split(signal, [290, 310, 350, 425], axis=1)]
    assert_array_equal(np.hstack(parts), at_once)
    filt = BridgingFilter(SOS, 2)
    before = filt.push(signal[:, :300])
    filt.skip(120)
    assert_array_equal(np.hstack([before, filt.push(signal[:, 420:])]), np.delete(at_once, range(300, 420), axis=1))


def test_after_a_gap_longer_than_its_memory_the_filter_starts_again():
    signal = np.random.default_rng(102).standard_normal((1, 400)) + 300.0
    filt = BridgingFilter(SOS, 1)
    filt.push(signal[:, :100] - 1e5)
    filt.skip(settling_samples(SOS) + 1)
    assert_array_equal(filt.push(signal), filtered(signal))


def test_nothing_to_filter_means_nothing_to_bridge():
    chunk = np.array([[1.0, np.nan, 3.0]])
    assert_array_equal(BridgingFilter(None, 1).push(chunk), chunk)
    assert settling_samples(None) == 0


@pytest.mark.parametrize("low", [1e-4, 1e-6])
def test_a_filter_from_almost_zero_hertz_takes_no_more_memory_than_hours_of_signal(low):
    """Once 18 GiB for 1e-6 Hz, which a model file may ask for."""
    sos = design_sos((low, 10.0), 100.0, "butterworth", 2, 0.0)
    tracemalloc.start()
    assert settling_samples(sos) <= LONGEST
    assert tracemalloc.get_traced_memory()[1] < 400 << 20
    tracemalloc.stop()
    out = BridgingFilter(sos, 1).push(np.random.default_rng(103).standard_normal((1, 50)))
    assert np.isfinite(out).all()


def test_the_longest_memory_is_that_of_no_filter_for_responses():
    sos = design_sos((0.01, 10.0), 512.0, "butterworth", 4, 0.0)
    assert settling_samples(sos) < LONGEST / 4
