from types import SimpleNamespace

import pytest

from mixnorm import GroupSVC
from mixnorm.eeg import Decoder, Preparation
from mixnorm.eeg.live import lsl
from mixnorm.eeg.live.lsl import StreamError, checked_names, checked_unit, find, marker_delay, marker_names


@pytest.fixture(scope="module")
def decoder(recording):
    return Decoder.fit(recording, Preparation(reference=("Oz",)), GroupSVC(alpha=0.6))


def test_streams_that_do_not_fit_are_refused_by_name(decoder):
    used = decoder.selected[0]
    names = [name for name in decoder.ch_names if name not in (used, "Oz")]
    with pytest.raises(StreamError, match=f"Stream 'amp' lacks channels that the model needs: Oz, {used}; it has"):
        checked_names("amp", names, 256.0, decoder)
    with pytest.raises(StreamError, match="Stream 'amp' has a rate of 250 Hz, the model one of 256 Hz"):
        checked_names("amp", decoder.ch_names, 250.0, decoder)
    with pytest.raises(StreamError, match="does not name its channels"):
        checked_names("amp", None, 256.0, decoder)
    assert checked_names("amp", [*decoder.ch_names, "TRIGGER"], 256.0, decoder)[-1] == "TRIGGER"


@pytest.mark.parametrize(
    ("said", "unit"),
    [
        ("µV", "µV"),
        ("uV", "µV"),
        ("μV", "µV"),
        ("microvolts", "µV"),
        ("-6", "µV"),
        ("0", "V"),
        ("V", "V"),
        ("-3", "mV"),
    ],
)
def test_units_are_understood(decoder, said, unit):
    assert checked_unit("amp", decoder.ch_names, [said] * len(decoder.ch_names), decoder) == unit


@pytest.mark.parametrize("said", [None, "", "none", "-7", "Ohm"])
def test_unknown_units_are_refused(decoder, said):
    with pytest.raises(StreamError, match="give it with --unit µV, mV or V"):
        checked_unit("amp", decoder.ch_names, [said] * len(decoder.ch_names), decoder)


def test_mixed_units_matter_only_for_needed_channels(decoder):
    units = ["µV" if name in (*decoder.selected, "Oz") else "none" for name in decoder.ch_names]
    assert checked_unit("amp", decoder.ch_names, units, decoder) == "µV"
    units[decoder.ch_names.index("Oz")] = "V"
    with pytest.raises(StreamError, match="it says 'V', 'µV'"):
        checked_unit("amp", decoder.ch_names, units, decoder)


def test_markers_are_text_codes_or_one_hot():
    assert marker_names(["Target/stimulus 3"], ["description"]) == ["Target/stimulus 3"]
    assert marker_names([""], []) == []
    assert marker_names([12], []) == ["12"]
    assert marker_names([0.0, 2.5, 0.0], ["a", "b", "c"]) == ["b"]
    assert marker_names([1.0, 0.0], []) == ["1"]


def test_player_markers_are_one_sample_early():
    eeg = SimpleNamespace(name="p", source_id="x", inlet=SimpleNamespace(sfreq=200.0))
    assert marker_delay(eeg, SimpleNamespace(name="p-annotations", source_id="x")) == 1 / 200
    assert marker_delay(eeg, SimpleNamespace(name="my markers", source_id="x")) is None


def test_several_streams_must_be_chosen_from(monkeypatch):
    streams = [SimpleNamespace(name=name, stype="EEG", sfreq=256.0) for name in ("a", "b")]
    fake = SimpleNamespace(resolve_streams=lambda timeout: streams)
    monkeypatch.setattr(lsl, "lsl", lambda: fake)
    with pytest.raises(StreamError, match="There are 2 eeg streams, 'a', 'b'; choose one with --eeg NAME"):
        find("eeg", None, 1.0)
    assert find("eeg", "b", 1.0) is streams[1]
    with pytest.raises(StreamError, match="No stream of type Markers was found within 0 s"):
        find("markers", None, 0.0)
