import numpy as np
import pytest

from mixnorm.eeg import MATRICES, Decoder, Stopping, default_classifier, simulated_recording, spell
from mixnorm.eeg.live import LiveScore, LiveSession, Marker
from mixnorm.eeg.live.live_speller import LiveSpeller


@pytest.fixture(scope="module")
def spelled():
    """A decoder, another recording, and what `spell` makes of it with all flashes."""
    decoder = Decoder.fit(
        simulated_recording(480, n_channels=4, n_informative=3, amplitude=9.0, seed=1),
        None,
        default_classifier("svm", alphas=3),
    )
    recording = simulated_recording(480, n_channels=4, n_informative=3, amplitude=9.0, seed=2)
    letters = spell(decoder, [recording], MATRICES["6x6"])
    return decoder, recording, letters


def played(decoder, recording, names, speller):
    """Letters of a session in which the recording arrives in blocks."""
    session, times = LiveSession(decoder, recording.ch_names), 10.0 + np.arange(recording.signal.shape[1]) / 256.0
    onset, letters = recording.events.onset, []
    for at in range(0, len(times), 64):
        markers = [
            Marker(float(times[one]), name) for one, name in zip(onset, names, strict=True) if at <= one < at + 64
        ]
        for score in session.push(recording.signal[:, at : at + 64].T, times[at : at + 64], markers):
            letters += speller.take(score)
    for score in session.end():
        letters += speller.take(score)
    return letters + speller.end()


def test_letters_of_a_session_are_those_of_the_file(spelled):
    decoder, recording, letters = spelled
    events = recording.events
    names = [
        f"stimulus {code}/character {character}"
        for code, character in zip(events.stimulus, events.character, strict=True)
    ]
    never = Stopping(threshold=1 - 1e-12)
    found = played(decoder, recording, names, LiveSpeller(decoder, MATRICES["6x6"], never))
    assert [one.symbol for one in found] == [one.symbol for one in letters]
    np.testing.assert_allclose([one.probability for one in found], [one.probability for one in letters], rtol=1e-12)
    assert [one.number for one in found] == list(range(len(letters)))


def test_pauses_divide_characters_and_a_probable_letter_comes_early(spelled):
    decoder, recording, letters = spelled
    codes = [str(code) for code in recording.events.stimulus]
    pause = 0.3 * np.diff(recording.events.onset).max() / 256 + 0.7 * 0.25
    found = played(decoder, recording, codes, LiveSpeller(decoder, MATRICES["6x6"], Stopping(threshold=0.9), pause))
    assert [one.number for one in found] == list(range(len(letters)))
    assert all(one.probability >= 0.9 or one is found[-1] for one in found)


def test_other_markers_and_lost_flashes_change_nothing(spelled):
    decoder, _, _ = spelled
    speller = LiveSpeller(decoder, MATRICES["6x6"])
    assert speller.take(LiveScore(0.0, "pause", 0, 1.0, None)) == []
    assert speller.take(LiveScore(0.0, "99", 0, 1.0, None)) == []
    assert speller.end() == []
    assert speller.take(LiveScore(0.0, "3", 0, float("nan"), "lost")) == []
    (letter,) = speller.end()
    assert letter.probability == pytest.approx(1 / 36)
    assert speller.end() == []
