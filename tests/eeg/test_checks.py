from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mixnorm.eeg import Events, Preparation, RecordingError, prepare
from mixnorm.eeg.checks import checked


def spoilt(recording, channel, samples, value):
    signal = recording.signal.copy()
    signal[channel, samples] = value
    return replace(recording, signal=signal)


def at(recording, onset):
    return replace(recording, events=Events.of(onset, np.arange(len(onset)) % 2))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_channels_with_nan_or_inf_nearly_throughout_are_left_out(recording, value):
    n_samples = recording.signal.shape[1]
    broken = spoilt(spoilt(recording, 2, slice(0, n_samples // 2 + 2), value), 4, slice(0, n_samples // 2), value)
    found = checked(broken)
    assert found.ch_names == ("Fz", "Cz", "Oz", "P3", "P4")  # P3 is good in half of the recording
    assert found.excluded == {"Pz": "NaN in 50 % of the recording"}
    assert "channels left out because they hold no signal: Pz: NaN in 50 % of the recording" in found.notes


def test_flat_channels_are_left_out_and_named(recording):
    found = checked(spoilt(recording, 1, slice(None), 12.5))
    assert found.ch_names == ("Fz", "Pz", "Oz", "P3", "P4")
    assert_array_equal(found.signal, recording.without(["Cz"]).signal)
    assert found.excluded == {"Cz": "flat in 100 % of the recording"}


def test_recording_without_a_usable_channel_is_refused(recording):
    flat = replace(recording, signal=np.zeros_like(recording.signal))
    with pytest.raises(
        RecordingError, match=r"^simulated: no channel can be used \(Fz: flat in 100 % .*; record again"
    ):
        checked(flat)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"signal": np.empty((6, 0))}, "it contains no signal"),
        ({"events": Events.of([])}, "no events were found; check that the triggers were recorded"),
        ({"ch_names": ("Fz", "Cz", "Cz", "Oz", "Fz", "P4")}, "several channels have the name Cz, Fz"),
        ({"sfreq": 0.0}, "the sampling rate is 0"),
        ({"sfreq": np.nan}, "the sampling rate is nan"),
    ],
)
def test_what_makes_no_recording_is_refused(recording, change, message):
    with pytest.raises(RecordingError, match=rf"^simulated: {message}"):
        checked(replace(recording, **change))


@pytest.mark.parametrize("stray", [0, -1], ids=["one past the end", "one before the start"])
def test_events_outside_the_recording_are_refused(recording, stray):
    onset = [100, recording.signal.shape[1] if stray == 0 else stray]
    with pytest.raises(RecordingError, match=r"1 of 2 events are outside the recording \(sample -?\d+ of \d+\)"):
        checked(at(recording, onset))


def test_events_at_the_same_sample_are_refused(recording):
    with pytest.raises(RecordingError, match=r"2 events have the same onset .* \(first at sample 500\); remove"):
        checked(at(recording, [400, 500, 500, 600, 600]))


def test_window_longer_than_the_recording_is_refused(recording):
    short = replace(at(recording, [0, 50]), signal=recording.signal[:, :128])
    with pytest.raises(RecordingError, match=r"the window of 0\.59.* s is longer than the recording \(0\.5 s\)"):
        prepare(short)


def test_rate_too_low_for_the_filter_is_refused(recording):
    with pytest.raises(
        RecordingError, match=r"^simulated: the sampling rate of 256 Hz is too low for a filter up to 200 Hz"
    ):
        prepare(recording, Preparation(band=(1, 200)))


def test_window_that_the_end_cuts_off_is_left_out_with_a_warning(recording):
    last = recording.signal.shape[1] - 1
    with pytest.warns(
        RuntimeWarning,
        match="simulated: 1 of 3 trials are left out: 1 with a window that is not wholly inside the recording; 1 non",
    ):
        design = prepare(at(recording, [1000, 2000, last]))
    assert len(design) == 2
    with pytest.raises(RecordingError, match="no event has its whole window inside the recording"):
        prepare(at(recording, [last - 1, last]))
