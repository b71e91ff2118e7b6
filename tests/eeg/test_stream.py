import itertools

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mixnorm.eeg import Decoder, Preparation, StreamDecoder


def streamed(decoder, recording, lengths, ch_names=None):
    """Scores by onset, pushing chunks of the given lengths over and over."""
    stream = StreamDecoder(decoder, ch_names)
    n_samples, at, scores = recording.signal.shape[1], 0, {}
    for length in itertools.cycle(lengths):
        if at >= n_samples:
            return scores
        onset = recording.events.onset
        events = onset[(onset >= at) & (onset < at + length)] - at
        scores |= dict(stream.push(recording.signal[:, at : at + length], events))
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
    from dataclasses import replace

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
