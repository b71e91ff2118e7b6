from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import bci2000_module
from mixnorm import GroupSVC
from mixnorm.eeg import (
    Decoder,
    Preparation,
    StreamDecoder,
    default_classifier,
    prepare,
    read_recording,
    read_recordings,
    simulated_recording,
)
from mixnorm.eeg.export import ExportError, to_bci2000
from mixnorm.eeg.export.parameters import score_change
from mixnorm.eeg.recording import Events

BCI2000 = Preparation.preset("bci2000")


def on_blocks(recording, block_size):
    """The recording with its events moved to the next block."""
    onset = -(-recording.events.onset // block_size) * block_size
    return replace(
        recording,
        events=Events(onset, *(getattr(recording.events, name) for name in ("target", "stimulus", "character"))),
    )


def compare(decoder, recording, block_size, seconds=None):
    """Largest difference between BCI2000's scores and ours, after the filter has settled, and the scores' spread."""
    exported = to_bci2000(decoder)
    ours, onset = decoder.predict(recording).score, recording.events.onset
    theirs = bci2000_module.run(exported.text, recording, block_size, seconds) + exported.constant
    ours, onset = ours[: len(theirs)], onset[: len(theirs)]
    # BCI2000 starts its filter from zero, this package from the first sample.
    settled = onset / recording.sfreq > StreamDecoder(decoder).settling_s
    assert settled.sum() > 30
    return np.abs(theirs - ours)[settled].max(), ours.std()


@pytest.mark.parametrize(
    "preparation",
    [
        BCI2000,
        BCI2000.with_(reference="average"),
        BCI2000.with_(reference=("Oz",), band=(None, 8.0), family="butterworth", order=4, reduce="pick"),
        BCI2000.with_(band=(1.0, None), baseline=(0.0, 0.05), window=(0.1, 0.4)),
        BCI2000.with_(band=None, scaling="standard"),
    ],
)
@pytest.mark.parametrize("block_size", [8, 13])
def test_bci2000_gives_our_scores(preparation, block_size):
    recording = on_blocks(simulated_recording(120, n_channels=5, n_informative=3, seed=4), block_size)
    decoder = Decoder.fit(recording, preparation, GroupSVC(alpha=0.1))
    largest, spread = compare(decoder, recording, block_size)
    assert largest < 1e-7 * spread


def test_only_needed_channels_are_transmitted_and_odd_names_survive():
    recording = on_blocks(simulated_recording(120, n_channels=5, n_informative=2, seed=4), 8)
    recording = replace(recording, ch_names=("my Fz", "C%z", "Pz'", "Oz", "P3"))
    decoder = Decoder.fit(recording, BCI2000, GroupSVC(alpha=0.6))
    assert 0 < len(decoder.selected) < 5
    listed = bci2000_module.read_parameters(to_bci2000(decoder).text)
    assert tuple(listed["TransmitChList"]) == decoder.selected
    largest, spread = compare(decoder, recording, 8)
    assert largest < 1e-7 * spread


@pytest.mark.parametrize(
    ("preparation", "problem"),
    [
        (BCI2000.with_(phase="zero"), "BCI2000 has no zero-phase filter; train the model with the preset 'bci2000'"),
        (BCI2000.with_(family="butterworth"), "BCI2000 has no Butterworth band-pass of 0.5–10 Hz, only a Butterworth"),
        (BCI2000.with_(family="chebyshev1"), "BCI2000 has no Chebyshev filter of 0.5–10 Hz, only a Butterworth"),
        (BCI2000.with_(baseline=(-0.1, 0.0)), "an epoch of BCI2000 begins with the stimulus, but the window"),
        (BCI2000.with_(clip=4.0), r"the model limits amplitudes \(clip=4\), which BCI2000 cannot"),
    ],
)
def test_what_would_change_scores_is_refused(recording, preparation, problem):
    decoder = Decoder.fit(recording, preparation, GroupSVC(alpha=0.1))
    with pytest.raises(ExportError, match=problem):
        to_bci2000(decoder)


def test_names_that_parameter_files_cannot_contain_are_refused(recording):
    recording = replace(recording, ch_names=("αz", *recording.ch_names[1:]))
    with pytest.raises(ExportError, match="channel 'αz' has characters that parameter files cannot contain"):
        to_bci2000(Decoder.fit(recording, BCI2000, GroupSVC(alpha=0.1)))


def test_clipping_may_be_left_out_and_the_change_is_measured(recording):
    decoder = Decoder.fit(recording, BCI2000.with_(clip=2.0), GroupSVC(alpha=0.1))
    plain = replace(decoder, scaler=BCI2000.scaler().fit(prepare(recording, BCI2000).X))
    exported = to_bci2000(decoder, without_clipping=True)
    assert exported.text == to_bci2000(plain).text
    change = np.abs(decoder.predict(recording).score - plain.predict(recording).score)
    found, spread = score_change(decoder, recording), decoder.predict(recording).score.std()
    assert found.share == np.mean(change > 1e-9 * spread)
    assert_allclose(found.largest, change.max() / spread, rtol=1e-9)
    assert 0 < found.share < 1


def test_the_change_by_another_filter_is_measured(recording):
    decoder = Decoder.fit(recording, BCI2000.with_(family="butterworth"), GroupSVC(alpha=0.1))
    theirs = replace(decoder, preparation=BCI2000).predict(recording).score
    ours = decoder.predict(recording).score
    found = score_change(decoder, recording)
    assert found.share == 1
    assert_allclose(found.median, np.median(np.abs(ours - theirs)) / ours.std(), rtol=1e-9)
    assert score_change(replace(decoder, preparation=BCI2000), recording).largest == 0


@pytest.mark.slow
def test_br41n_held_out_trials_have_our_scores_in_bci2000(data):
    recording = read_recording(data / "br41n-p300" / "S1.mat")
    half = recording.signal.shape[1] // 2
    first = recording.events.onset < half
    parts = ("onset", "target", "stimulus", "character")
    training = replace(
        recording,
        signal=recording.signal[:, :half],
        events=Events(*(getattr(recording.events, name)[first] for name in parts)),
    )
    late = recording.events.onset >= half
    events = Events(*(getattr(recording.events, name)[late] for name in parts))
    held_out = replace(recording, signal=recording.signal[:, half:], events=replace(events, onset=events.onset - half))
    with pytest.warns(RuntimeWarning, match="trials are left out"):
        decoder = Decoder.fit(training, BCI2000, default_classifier("svm-noise", alphas=3))
    largest, spread = compare(decoder, held_out, 1, seconds=40)
    assert largest < 1e-7 * spread


@pytest.mark.slow
def test_iib_held_out_run_has_our_scores_in_bci2000(data):
    *training, held_out = read_recordings(data / "bcicomp2-iib")
    decoder = Decoder.fit(training, BCI2000, default_classifier("svm-noise", alphas=3))
    largest, spread = compare(decoder, held_out, 1, seconds=40)
    assert largest < 1e-7 * spread
