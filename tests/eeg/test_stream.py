import itertools
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.signal import sosfilt

from mixnorm import GroupSVC
from mixnorm.eeg import Decoder, Preparation, StreamDecoder, simulated_recording


def streamed(decoder, recording, lengths, ch_names=None):
    """Scores by onset, pushing chunks of the given lengths over and over."""
    stream = StreamDecoder(decoder, ch_names)
    n_samples, at, scores = recording.signal.shape[1], 0, {}
    for length in itertools.cycle(lengths):
        if at >= n_samples:
            return scores
        onset = recording.events.onset
        events = onset[(onset >= at) & (onset < at + length)] - at
        scores |= {one.onset: one.score for one in stream.push(recording.signal[:, at : at + length], events)}
        at += length
    return None


@pytest.mark.parametrize(
    "preparation",
    [
        Preparation(),
        Preparation(reference="average", baseline=(-0.1, 0.0)),
        Preparation(reference=("Cz",), window=(0.1, 0.6), reduce="pick"),
        Preparation(band=None, n_samples=None, decimation=8, reduce="mean"),
        Preparation.preset("errp"),
        Preparation.preset("uam"),
    ],
)
@pytest.mark.parametrize("lengths", [[1, 7, 64, 300, 2], [100_000], [33]])
def test_stream_gives_the_bits_of_the_file(recording, lda, preparation, lengths):
    decoder = Decoder.fit(recording, preparation, lda)
    scores = streamed(decoder, recording, lengths)
    assert_array_equal(list(scores), recording.events.onset)
    assert_array_equal(list(scores.values()), decoder.predict(recording).score)


def test_random_chunks_and_shuffled_channels_give_the_bits_of_the_file(recording, lda):
    rng = np.random.default_rng(5)
    decoder = Decoder.fit(recording, Preparation(reference="average"), lda)
    order = rng.permutation(6)
    shuffled = replace(recording, signal=recording.signal[order])
    names = [recording.ch_names[channel] for channel in order]
    scores = streamed(decoder, shuffled, rng.integers(0, 200, 50) + 1, names)
    assert_array_equal(list(scores.values()), decoder.predict(recording).score)


def test_score_comes_with_the_sample_that_completes_the_window(recording, lda):
    decoder = Decoder.fit(recording, Preparation(window=(0.0, 0.5), n_samples=4, reduce="mean"), lda)
    stream = StreamDecoder(decoder)
    assert stream.push(recording.signal[:, :10], [3]) == []
    assert stream.push(recording.signal[:, 10 : 3 + 127]) == []
    (score,) = stream.push(recording.signal[:, 3 + 127 : 3 + 128])
    assert score.onset == 3
    assert np.isfinite(score.score)


def test_memory_stays_bounded(recording, lda):
    stream = StreamDecoder(Decoder.fit(recording, Preparation(baseline=(-0.2, 0.0)), lda))
    for at in range(0, 6000, 50):
        stream.push(recording.signal[:, at : at + 50], [0])
    assert stream.n_samples == 6000
    assert stream._buffer.shape[1] < 256 * 1.3


def test_event_whose_baseline_lies_before_the_stream_has_no_score(recording, lda):
    stream = StreamDecoder(Decoder.fit(recording, Preparation(baseline=(-0.2, 0.0)), lda))
    first, second = stream.push(recording.signal[:, :1000], [10, 100])
    assert np.isnan(first.score)
    assert np.isfinite(second.score)


def test_what_a_stream_cannot_do_is_refused(recording, lda):
    with pytest.raises(ValueError, match="A zero-phase filter cannot run on a stream"):
        StreamDecoder(Decoder.fit(recording, Preparation(phase="zero"), lda))
    decoder = Decoder.fit(recording, Preparation(), lda)
    with pytest.raises(ValueError, match="The stream has no channel Oz, which the model needs"):
        StreamDecoder(decoder, ["Fz", "Cz", "Pz", "P3", "P4"])
    stream = StreamDecoder(decoder)
    with pytest.raises(ValueError, match=r"A chunk must be \(6, n_samples\), but got shape \(5, 10\)"):
        stream.push(recording.signal[:5, :10])
    with pytest.raises(ValueError, match=r"Events must lie in 0 … 9, but got \[10\]"):
        stream.push(recording.signal[:, :10], [10])


@pytest.fixture(scope="module")
def sparse(recording):
    """A decoder that uses some of the channels only."""
    decoder = Decoder.fit(recording, classifier=GroupSVC(alpha=0.5))
    assert 0 < len(decoder.selected) < len(recording.ch_names)
    return decoder


def pushed(stream, signal, onsets, length=37, lost=None):
    """Every score of a signal pushed in chunks; `lost` maps the first sample of a chunk to a number lost before it."""
    scores, at = [], 0
    while at < signal.shape[1]:
        inside = onsets[(onsets >= at) & (onsets < at + length)] - at
        scores += stream.push(signal[:, at : at + length], inside, (lost or {}).get(at, 0))
        at += length
    return scores


def test_only_used_channels_are_read_and_the_bits_are_those_of_the_file(recording, sparse):
    signal = recording.signal.copy()
    signal[[name not in sparse.selected for name in recording.ch_names]] = np.nan
    scores = pushed(StreamDecoder(sparse), signal, recording.events.onset)
    assert_array_equal([one.score for one in scores], sparse.predict(recording).score)
    assert {one.reason for one in scores} == {None}
    stream = StreamDecoder(sparse, sparse.selected)
    chosen = [recording.ch_names.index(name) for name in sparse.selected]
    scores = pushed(stream, recording.signal[chosen], recording.events.onset)
    assert_array_equal([one.score for one in scores], sparse.predict(recording).score)


@pytest.mark.parametrize("preparation", [Preparation(), Preparation(reference="average", baseline=(-0.1, 0.0))])
@pytest.mark.parametrize("gap", [1, 60, 1000, 6000])
def test_scores_before_a_fault_keep_their_bits_and_after_ten_seconds_agree(lda, preparation, gap):
    recording = simulated_recording(400, n_channels=3, n_informative=2, seed=3)
    decoder = Decoder.fit(recording, preparation, lda)
    whole, onsets = decoder.predict(recording).score, recording.events.onset
    begin = 5000
    signal = recording.signal + 5000.0  # the offset of a DC amplifier
    whole = decoder.predict(replace(recording, signal=signal)).score
    damaged = signal.copy()
    damaged[1, begin : begin + gap] = np.nan
    stream = StreamDecoder(decoder)
    scores = pushed(stream, damaged, onsets)
    assert_array_equal([one.onset for one in scores], onsets)
    found, grid = np.array([one.score for one in scores]), preparation.grid(256.0)
    hit = (onsets + grid.stop > begin) & (onsets + grid.start < begin + gap)
    assert_array_equal(np.isnan(found), hit)
    before = onsets + grid.stop <= begin
    assert_array_equal(found[before], whole[before])
    settled = onsets >= begin + gap + 256 * min(10.0, stream.settling_s)
    assert settled.sum() > 20
    assert np.abs(found - whole)[settled].max() < 1e-8 * whole.std()
    # Bridging matters: the deviation right after the fault is small, and the test sees it
    soon = (onsets + grid.start >= begin + gap) & ~settled
    assert 1e-8 < np.abs(found - whole)[soon].max() / whole.std() < 3


def test_lost_packets_are_nan_samples_that_nobody_sent(recording, sparse):
    """`lost` counts on; what it leaves out is, to the bit, a run of NaN."""
    onsets, gap = recording.events.onset, 370
    with_nan = recording.signal.copy()
    with_nan[:, 1110 : 1110 + gap] = np.nan
    expected = pushed(StreamDecoder(sparse), with_nan, onsets)
    there = np.ones(recording.signal.shape[1], dtype=bool)
    there[1110 : 1110 + gap] = False
    outside = onsets[(onsets < 1110) | (onsets >= 1110 + gap)]
    shortened = np.where(outside < 1110, outside, outside - gap)
    scores = pushed(StreamDecoder(sparse), recording.signal[:, there], shortened, lost={1110: gap})
    expected = [one for one in expected if one.onset in outside]
    for field in ("onset", "score", "reason"):
        assert_array_equal([getattr(one, field) for one in scores], [getattr(one, field) for one in expected])


def test_a_jump_of_the_clock_by_years_costs_no_memory(recording, sparse):
    stream, years = StreamDecoder(sparse), 10**11
    assert stream.push(recording.signal[:, :500], [450]) == []
    (first,) = stream.push(recording.signal[:, 500:600], [50], lost=years)
    assert first.onset == 450
    assert np.isnan(first.score)
    assert first.reason == f"{450 + 179 - 500} samples lost in {', '.join(sparse.selected)}"
    assert stream.n_samples == 600 + years
    assert stream._buffer.nbytes < 1e5
    (second,) = stream.push(recording.signal[:, 600:1000])
    assert second.onset == 550 + years
    assert np.isfinite(second.score)


def test_values_that_no_amplifier_gives_count_as_lost(recording, sparse):
    signal = recording.signal.copy()
    channel = recording.ch_names.index(sparse.selected[0])
    signal[channel, [700, 1400, 2100]] = np.inf, 1e300, -1e12
    scores = pushed(StreamDecoder(sparse), signal, recording.events.onset)
    reasons = {one.reason for one in scores if one.reason}
    assert reasons == {f"1 sample lost in {sparse.selected[0]}"}
    assert np.isfinite(scores[-1].score)


def test_events_that_arrive_late_are_scored_while_their_signal_is_kept(recording, sparse):
    onset = int(recording.events.onset[20])
    (expected,) = StreamDecoder(sparse).push(recording.signal[:, : onset + 400], [onset])
    stream = StreamDecoder(sparse, late_s=1.0)
    stream.push(recording.signal[:, : onset + 200])
    assert stream.push(recording.signal[:, onset + 200 : onset + 210], [-200]) == [expected]
    stream = StreamDecoder(sparse)
    stream.push(recording.signal[:, : onset + 200])
    (late,) = stream.push(recording.signal[:, onset + 200 : onset + 210], [-200])
    assert np.isnan(late.score)
    assert late.reason == "the event arrived 0.82 s after its sample, when its signal was no longer kept"


def test_volts_give_the_scores_of_microvolts_or_a_remark(recording, sparse):
    onset, microvolts = recording.events.onset, sparse.predict(recording).score
    scores = pushed(StreamDecoder(sparse, unit="V"), recording.signal * 1e-6, onset)
    np.testing.assert_allclose([one.score for one in scores], microvolts, rtol=1e-9)
    assert {one.reason for one in scores} == {None}
    scores = pushed(StreamDecoder(sparse), recording.signal * 1e-6, onset)
    assert np.isfinite([one.score for one in scores]).all()
    assert all(one.reason.endswith("check the unit of the stream") for one in scores)
    flat = pushed(StreamDecoder(sparse), np.zeros_like(recording.signal), onset)
    assert {one.reason for one in flat} == {"the signal is constant"}


def test_reset_returns_unfinished_events_and_starts_again(recording, sparse):
    stream = StreamDecoder(sparse)
    first = stream.push(recording.signal[:, :1000], recording.events.onset[:5])
    stream.push(np.empty((6, 0)))
    stream.push(recording.signal[:, 1000:1010], [3])
    (unfinished,) = stream.reset()
    assert unfinished.onset == 1003
    assert np.isnan(unfinished.score)
    assert unfinished.reason == "the stream was reset before the window was complete"
    assert stream.n_samples == 0
    assert stream.push(recording.signal[:, :1000], recording.events.onset[:5]) == first


def test_channels_may_come_back_in_another_order(recording, sparse):
    stream, order = StreamDecoder(sparse), [3, 1, 5, 0, 2, 4]
    expected = StreamDecoder(sparse).push(recording.signal[:, :2000], [300, 1200])
    scores = stream.push(recording.signal[:, :1000], [300])
    stream.reorder([recording.ch_names[channel] for channel in order])
    assert scores + stream.push(recording.signal[order, 1000:2000], [200]) == expected
    with pytest.raises(ValueError, match=f"The stream has no channel {sparse.selected[0]}, which the model needs"):
        stream.reorder([name for name in recording.ch_names if name != sparse.selected[0]])
    with pytest.raises(ValueError, match=f"The stream has more than one channel {sparse.selected[0]}"):
        stream.reorder([*recording.ch_names, sparse.selected[0]])


def test_a_refused_chunk_leaves_the_stream_as_it_was(recording, sparse):
    expected = StreamDecoder(sparse).push(recording.signal[:, :1000], [300])
    stream = StreamDecoder(sparse)
    stream.push(recording.signal[:, :400], [300])
    with pytest.raises(ValueError, match="Events must lie in 0 … 9, but got"):
        stream.push(recording.signal[:, :10], [5, 10])
    with pytest.raises(ValueError, match="must not be negative, but got -1"):
        stream.push(recording.signal[:, :10], lost=-1)
    with pytest.raises(ValueError, match="Invalid value for the 'unit' parameter"):
        StreamDecoder(sparse, unit="volt")
    assert stream.push(recording.signal[:, 400:1000]) == expected


def test_settling_time_is_that_of_the_filter(lda, recording):
    """By brute force: the response to the worst past input, the sign of the impulse response."""
    preparation = Preparation.preset("errp")
    stream = StreamDecoder(Decoder.fit(recording, preparation, lda))
    sos = preparation.sos(256.0)
    impulse = np.zeros(10_000)
    impulse[0] = 1.0
    response = np.abs(sosfilt(sos, impulse))
    settled = next(n for n in range(10_000) if response[n:].sum() <= 1e-9 * response.sum())
    assert stream.settling_s == settled / 256.0
    assert StreamDecoder(Decoder.fit(recording, Preparation(band=None), lda)).settling_s == 0


def test_a_short_soak_scores_every_undisturbed_event(monkeypatch):
    benchmarks = Path(__file__).parents[2] / "benchmarks"
    if not benchmarks.exists():
        pytest.skip("benchmarks are not part of the source distribution")
    monkeypatch.syspath_prepend(str(benchmarks))
    from stream_soak import soak

    tracemalloc.start()
    try:
        counts, _ = soak(3000, seed=1, memory=lambda: tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert counts["chunks"] == 3000
    assert counts["wrong"] == 0
    assert counts["scored"] > 500
    assert counts["without_score"] > 50
    assert counts["growth_bytes"] < 200_000
