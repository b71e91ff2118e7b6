import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mixnorm.eeg import Events, RecordingError, simulated_recording
from mixnorm.eeg.recording import positions_or_ideal


def test_events_are_sorted_and_the_unsaid_is_unknown():
    events = Events.of([30, 10, 20], [1, 0, 0])
    assert_array_equal(events.onset, [10, 20, 30])
    assert_array_equal(events.target, [0, 0, 1])
    assert_array_equal(events.stimulus, [-1, -1, -1])
    assert len(events) == 3


def test_error_begins_with_the_path_and_ends_with_the_remedy():
    error = RecordingError("/x/y.edf", "the file is empty", "record again")
    assert str(error) == "/x/y.edf: the file is empty; record again"
    assert (error.source, error.problem, error.remedy) == ("/x/y.edf", "the file is empty", "record again")
    assert isinstance(error, ValueError)


def test_channels_are_dropped_by_name(recording):
    fewer = recording.without(["Cz", "P3"])
    assert fewer.ch_names == ("Fz", "Pz", "Oz", "P4")
    assert_array_equal(fewer.signal, recording.signal[[0, 2, 3, 5]])
    assert_array_equal(fewer.positions, recording.positions[[0, 2, 3, 5]])
    with pytest.raises(
        RecordingError, match=r"^simulated: unknown channel Q1, Q2, which should be excluded; available: Fz, Cz"
    ):
        recording.without(["Q1", "Fz", "Q2"])


def test_description_shortens_long_lists_and_names_strangers():
    text = simulated_recording(24, n_channels=20).describe()
    assert "20 channels (Fz, Cz, Pz, Oz, P3, P4, PO7, PO8, C3, C4, … O2) at 256 Hz" in text
    assert "10–10" not in text


def test_known_positions_win_over_ideal_ones():
    known = np.array([[0.01, 0.02, 0.09], [np.nan] * 3])
    places = positions_or_ideal(["Cz", "Pz"], known)
    assert_array_equal(places[0], known[0])
    assert np.isfinite(places[1]).all()
