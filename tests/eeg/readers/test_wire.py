import io
import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mixnorm.eeg import EpochedRecording, Events, simulated_recording
from mixnorm.eeg.readers.wire import WireError, receive, send


def through(value, max_bytes=1e9):
    stream = io.BytesIO()
    send(stream, value)
    stream.seek(0)
    back = receive(stream, max_bytes)
    assert stream.read() == b""
    return back


def test_a_recording_comes_back_bit_for_bit(recording):
    [back] = through([recording])
    assert_array_equal(back.signal.view(np.int64), recording.signal.view(np.int64))
    for name in ("onset", "target", "stimulus", "character"):
        assert_array_equal(getattr(back.events, name), getattr(recording.events, name))
    assert (back.ch_names, back.sfreq, back.notes) == (recording.ch_names, recording.sfreq, recording.notes)
    assert back.describe() == recording.describe()


def test_epochs_with_labels_of_text_and_arrays_in_any_order_come_back():
    X = np.asfortranarray(np.random.default_rng(0).standard_normal((4, 2, 3)))
    epochs = EpochedRecording(
        X,
        ("Fz", "Cz"),
        np.arange(3) / 10,
        Events.of(np.arange(4)),
        np.array(["Ä", "b"] * 2),
        np.full(4, "1"),
        "x",
        X[0],
    )
    back = through(epochs)
    assert_array_equal(back.X, X)
    assert_array_equal(back.subject, epochs.subject)
    assert through({"a": (1, None, "µ", [2.5]), "empty": np.empty((0, 3))})["a"] == (1, None, "µ", [2.5])


@pytest.mark.parametrize(
    "head",
    [
        {"value": {"array": 0}, "arrays": [["O", [1]]]},  # objects would be unpickled
        {"value": {"array": 0}, "arrays": [["<f8", [-1]]]},
        {"value": {"array": 3}, "arrays": []},
        {"value": {"class": "RecordingError", "fields": {}}, "arrays": []},
        {"value": {"class": "__loader__", "fields": {}}, "arrays": []},
        {"value": {"array": 0}, "arrays": [["<f8", [10**15]]]},
        {"value": {"array": 0}, "arrays": [["<f8", [8]]]},  # the bytes are missing
        {"value": 1},
        [],
    ],
)
def test_nothing_but_records_arrays_and_plain_values_is_accepted(head):
    with pytest.raises(WireError):
        receive(io.BytesIO(json.dumps(head).encode() + b"\n"), 1e6)


def test_a_message_that_ends_early_is_refused():
    stream = io.BytesIO()
    send(stream, simulated_recording(12))
    whole = stream.getvalue()
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        with pytest.raises(WireError):
            receive(io.BytesIO(whole[:length]), 1e9)
