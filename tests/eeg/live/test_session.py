from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mixnorm import GroupSVC
from mixnorm.eeg import Decoder
from mixnorm.eeg.live import LiveSession, Marker
from mixnorm.eeg.live.clock import SampleClock
from mixnorm.eeg.live.log import SessionLog, replay

SFREQ, START = 256.0, 1234.5


@pytest.fixture(scope="module")
def decoder(recording):
    return Decoder.fit(recording, classifier=GroupSVC(alpha=0.2))


def times_of(recording):
    return START + np.arange(recording.signal.shape[1]) / SFREQ


def markers_of(recording):
    return [Marker(START + onset / SFREQ, f"s{number}") for number, onset in enumerate(recording.events.onset)]


def played(session, recording, times, markers, length=50, marker_shift=0.0, log=None, arrivals=None):
    """Push everything; a marker arrives `marker_shift` seconds after its sample (before it where negative)."""
    if arrivals is None:
        arrivals = [np.searchsorted(times, one.time + marker_shift) for one in markers]
    scores = []
    for at in range(0, len(times), length):
        block, stamps = recording.signal[:, at : at + length].T, times[at : at + length]
        now = [one for one, arrival in zip(markers, arrivals, strict=True) if at <= arrival < at + length]
        if log is not None:
            log.pushed(block, stamps, now)
        scores += session.push(block, stamps, now)
    return scores


@pytest.mark.parametrize("marker_shift", [0.0, 0.4, -0.3])
def test_scores_are_those_of_the_file_wherever_markers_arrive(recording, decoder, marker_shift):
    session = LiveSession(decoder, recording.ch_names)
    scores = played(session, recording, times_of(recording), markers_of(recording), marker_shift=marker_shift)
    scores += session.end()
    expected = decoder.predict(recording).score
    by_name = {one.name: one.score for one in scores}
    found = np.array([by_name[f"s{number}"] for number in range(len(expected))])
    if marker_shift > 0:  # the last marker had not arrived
        expected = expected[np.isfinite(found)]
        found = found[np.isfinite(found)]
    assert_array_equal(found, expected)
    assert session.n_lost == 0


def test_a_gap_in_the_time_stamps_is_lost_samples(recording, decoder):
    session, times = LiveSession(decoder, recording.ch_names), times_of(recording)
    keep = np.ones(len(times), dtype=bool)
    keep[3000:3007] = False  # in the middle of a block
    shorter = replace(recording, signal=recording.signal[:, keep])
    scores = played(session, shorter, times[keep], markers_of(recording))
    expected, grid = decoder.predict(recording), decoder.preparation.grid(SFREQ)
    onset = recording.events.onset
    hit = (onset + grid.start < 3007) & (onset + grid.stop > 3000)
    assert session.n_lost == 7
    found = np.array([one.score for one in scores])
    assert_array_equal(np.isnan(found), hit[: len(found)])
    before = onset + grid.stop <= 3000
    assert_array_equal(found[before[: len(found)]], expected.score[before])
    assert {one.reason for one in scores if np.isnan(one.score)} == {
        f"7 samples lost in {', '.join(decoder.selected)}"
    }


def test_jitter_of_the_time_stamps_loses_nothing(recording, decoder):
    rng = np.random.default_rng(100)
    blocks = np.repeat(rng.uniform(-0.01, 0.01, len(times_of(recording)) // 50 + 1), 50)
    times = times_of(recording) + blocks[: recording.signal.shape[1]]
    session = LiveSession(decoder, recording.ch_names)
    scores = played(session, recording, times, markers_of(recording))
    assert session.n_lost == 0
    # a marker lies within the jitter of its sample
    assert max(abs(one.onset - recording.events.onset[int(one.name[1:])]) for one in scores) <= 0.01 * SFREQ + 1


def test_clock_set_back_or_forward_breaks_windows_but_not_the_stream(recording, decoder):
    for jump in (-500.0, 3600.0):
        times = times_of(recording)
        times[4000:] += jump
        markers = [
            one if one.time < START + 4000 / SFREQ else one._replace(time=one.time + jump)
            for one in markers_of(recording)
        ]
        session = LiveSession(decoder, recording.ch_names)
        scores = played(session, recording, times, markers, arrivals=recording.events.onset)
        found = {one.name: one for one in scores}
        onset, grid = recording.events.onset, decoder.preparation.grid(SFREQ)
        for number, at in enumerate(onset):
            across = at < 4000 < at + grid.stop
            if f"s{number}" in found and not across:
                assert np.isfinite(found[f"s{number}"].score)
            elif f"s{number}" in found:
                assert "lost" in found[f"s{number}"].reason
        assert session.n_lost == (1 if jump < 0 else round(jump * SFREQ))


def test_two_markers_on_one_sample_both_get_its_score(recording, decoder):
    session, times = LiveSession(decoder, recording.ch_names), times_of(recording)
    at = START + 1000 / SFREQ
    scores = played(session, recording, times, [Marker(at, "row"), Marker(at + 1e-4, "column")])
    assert [one.name for one in scores] == ["row", "column"]
    assert scores[0].score == scores[1].score


def test_marker_delay_moves_the_onset(recording, decoder):
    session = LiveSession(decoder, recording.ch_names, marker_delay=2 / SFREQ)
    (score,) = played(session, recording, times_of(recording), [Marker(START + 998 / SFREQ, "x")])
    assert score.onset == 1000


def test_end_returns_what_is_left_with_a_reason(recording, decoder):
    session = LiveSession(decoder, recording.ch_names)
    session.push(
        recording.signal[:, :300].T, times_of(recording)[:300], [Marker(START + 1.0, "a"), Marker(START + 9, "b")]
    )
    left = session.end()
    assert [one.name for one in left] == ["a", "b"]
    assert {one.reason for one in left} == {"the session ended before the window was complete"}


def test_log_replays_to_the_same_bits_even_cut_short(recording, decoder, tmp_path):
    path = tmp_path / "session.jsonl"
    with path.open("w", encoding="utf-8") as file:
        log, session = SessionLog(file), LiveSession(decoder, recording.ch_names)
        log.connected(recording.ch_names, "µV", SFREQ, 0.0, "me.mixnorm")
        scores = played(session, recording, times_of(recording), markers_of(recording), log=log)
        log.scored(scores)
        log.noted("over")
    again = list(replay(path, decoder))
    assert again[: len(scores)] == scores
    assert all(np.isnan(one.score) for one in again[len(scores) :])
    text = path.read_text(encoding="utf-8")
    path.write_text(text[: len(text) // 2], encoding="utf-8")  # killed in the middle of a line
    part = [one for one in replay(path, decoder) if np.isfinite(one.score)]
    assert part == scores[: len(part)]
    assert len(part) > 10


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("no log\n", "line 1 is not JSON; is this a log of mixnorm stream"),
        ("[]\n", "line 1 is not one of a log of mixnorm stream"),
        ('{"kind": "pushed"}\n', "line 1 is not one of a log of mixnorm stream"),
        ("", "it names no EEG stream"),
    ],
)
def test_other_files_are_no_logs(decoder, tmp_path, text, problem):
    (tmp_path / "x.jsonl").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=problem):
        list(replay(tmp_path / "x.jsonl", decoder))


def test_clock_follows_a_drift_of_a_hundred_parts_per_million():
    clock, true = SampleClock(250.0), 250.0 * (1 - 1e-4)
    times = np.arange(250 * 1200) / true
    pieces = [piece for at in range(0, len(times), 25) for piece in clock.pieces(times[at : at + 25])]
    assert sum(piece.lost for piece in pieces) == 0
    assert abs(clock.sample_of(times[-1]) - (len(times) - 1)) <= 1
