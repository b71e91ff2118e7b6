"""Spelling of recordings: characters, truth, repetitions, stopping, and the stream against the file."""

from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mixnorm import GroupSVC, load, save
from mixnorm.eeg import (
    MATRICES,
    Decoder,
    EpochedRecording,
    Events,
    LetterPrior,
    RecordingError,
    Speller,
    SpellerError,
    Stopping,
    StreamSpeller,
    prepare,
    read_recordings,
    spell,
)
from mixnorm.eeg.evidence import USUAL_CORRELATION, FlashEvidence
from mixnorm.eeg.flashes import Flashes, speller_of, true_symbol
from mixnorm.eeg.spelling import Spelled, Trace, follow, spell_character
from mixnorm.eeg.spelling_rates import Timing, accuracy_by_repetition, rates
from spellers import easy_recording, push_in_chunks, spelling_of, with_events

SPELLER = MATRICES["6x6"]
TWO = Speller.of_matrix(["AB", "CD"], rows=[1, 2], columns=[3, 4])


@pytest.fixture(scope="module")
def decoder():
    return Decoder.fit(easy_recording(0, 360))


@pytest.fixture(scope="module")
def new():
    return easy_recording(1, 360)


def text_of(spelled):
    return "".join(one.symbol for one in spelled)


def flashes(codes, scores, target=None, letter=None, onset=None):
    target = np.full(len(codes), -1) if target is None else np.array(target)
    return Flashes(np.array(codes), np.array(scores, dtype=float), target, onset, letter, "here")


def test_a_recording_is_spelled(decoder, new):
    found = spell(decoder, [new, new], SPELLER)
    assert text_of(found) == 2 * spelling_of(new)
    assert [one.true_symbol for one in found] == list(text_of(found))
    assert all(one.n_flashes == 120 and one.n_repetitions == 10 and not one.stopped for one in found)
    assert all(one.probability > one.runner_up_probability and one.runner_up != one.symbol for one in found)


def test_codes_before_the_end_of_the_recording_are_enough(decoder, new):
    # the window of the last flashes is cut off: they have no score, and the others spell
    end = int(new.events.onset[-1]) + 10
    cut = replace(new, signal=new.signal[:, :end])
    assert np.isnan(decoder.predict(cut).score).any()
    assert text_of(spell(decoder, [cut], SPELLER)) == spelling_of(new)


def test_flashes_that_were_lost_are_made_up_for_by_others(decoder, new):
    keep = np.random.default_rng(0).random(len(new.events)) < 0.7
    found = spell(decoder, [with_events(new, keep)], SPELLER)
    assert text_of(found) == spelling_of(new)
    assert all(one.n_repetitions < 10 for one in found)


def test_stopping_uses_the_first_flash_that_passes(decoder, new):
    free = spell(decoder, [new], SPELLER)
    stopped = spell(decoder, [new], SPELLER, Stopping(0.9))
    for one, whole in zip(stopped, free, strict=True):
        passed = np.flatnonzero((whole.trace.probability >= 0.9) & (whole.trace.repetitions >= 1))
        assert one.stopped
        assert one.n_flashes == passed[0] + 1 < 120
    late = spell(decoder, [new], SPELLER, Stopping(0.9, min_repetitions=4, max_repetitions=5))
    assert all(4 <= one.n_repetitions <= 5 for one in late)
    fixed = spell(decoder, [new], SPELLER, Stopping(max_repetitions=2))
    assert [one.n_flashes for one in fixed] == [24, 24, 24]
    assert not any(one.stopped for one in fixed)


def test_limits_of_stopping_are_checked():
    for options, problem in (
        ({"threshold": 1.0}, "between 0 and 1, but got 1"),
        ({"min_repetitions": 0}, "min_repetitions must be at least 1, but got 0"),
        ({"threshold": 0.9, "min_repetitions": 3, "max_repetitions": 2}, "At most 2 repetitions are fewer than"),
    ):
        with pytest.raises(ValueError, match=problem):
            Stopping(**options)


def test_accuracy_counts_complete_repetitions_without_stopping():
    evidence = FlashEvidence(1.0, 0.0)
    # A is attended; the first repetition misleads to D, the second corrects it
    codes, scores = [1, 2, 3, 4] * 2, [-1, 1, -1, 1, 3, -3, 3, -3]
    target = [1, 0, 1, 0] * 2
    right = flashes([2, 3, 1, 4] * 2, [-1, 1, 1, -1] * 2, target=[0, 1, 1, 0] * 2)
    both = [spell_character(one, TWO, evidence, Stopping(0.9)) for one in (flashes(codes, scores, target), right)]
    assert accuracy_by_repetition(both, TWO) == [0.5, 1.0]
    # for as many repetitions as every character has
    short = spell_character(flashes(codes[:7], scores[:7], target[:7]), TWO, evidence, Stopping())
    assert accuracy_by_repetition([both[1], short], TWO) == [0.5]
    unknown = spell_character(flashes(codes, scores), TWO, evidence, Stopping())
    assert accuracy_by_repetition([both[0], unknown], TWO) is None
    assert rates([unknown], TWO, Stopping(), None) is None


def test_a_repetition_with_a_missing_flash_ends_when_its_code_comes():
    trace = follow(flashes([1, 2, 3, 1, 2, 3, 4, 1, 2, 3, 4], [0] * 11), TWO, FlashEvidence(1.0, 0.0))
    assert trace.repetitions.tolist() == [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2]
    assert (trace.after(1), trace.after(2), trace.after(3)) == (6, 10, None)
    without = follow(flashes([1, 3, 4] * 2, [0] * 6), TWO, FlashEvidence(1.0, 0.0))  # code 2 never flashes
    assert without.repetitions.tolist() == [0, 0, 1, 1, 1, 2]


def test_the_truth_is_the_letter_or_follows_from_the_labels():
    codes = [1, 2, 3, 4]
    assert true_symbol(flashes(codes, [0] * 4, letter="b"), TWO) == "B"
    assert true_symbol(flashes(codes, [0] * 4, letter="z"), TWO) is None
    assert true_symbol(flashes(codes, [0] * 4, target=[0, 1, 1, 0]), TWO) == "C"
    assert true_symbol(flashes(codes, [0] * 4, target=[0, 1, -1, 0]), TWO) is None
    assert true_symbol(flashes(codes, [0] * 4, target=[1, 1, 1, 0]), TWO) is None
    assert true_symbol(flashes([1, 1, 2, 3, 4], [0] * 5, target=[1, 0, 0, 1, 0]), TWO) is None


def test_rates_follow_from_accuracy_and_time():
    ones = np.ones(4)
    trace = Trace(
        np.array([0, 1, 0, 0]),
        np.array([1, 0, 1, 1]),
        np.array([0.5, 0.6, 0.95, 0.99]),
        0.01 * ones,
        np.array([0, 1, 1, 2]),
    )
    one = Spelled("A", 0.99, "B", 0.01, 4, 2, False, "A", flashes([1, 2, 3, 4], [0] * 4), trace)
    found = rates([one, replace(one, true_symbol="B")], TWO, Stopping(0.9), Timing(0.5, 1.5))
    assert (found.right, found.stopped, found.right_if_stopped, found.n_flashes) == (0.5, 1.0, 0.5, 3.0)
    assert found.letters_per_minute == pytest.approx(60 / (3 * 0.5 + 1.5))
    bits = np.log2(4) + 0.5 * np.log2(0.5) + 0.5 * np.log2(0.5 / 3)
    assert found.bits_per_minute == pytest.approx(bits * 20)


def test_times_are_those_of_the_recording(new, decoder):
    timing = Timing.of([one.flashes for one in spell(decoder, [new], SPELLER)])
    # flashes every 250 ms, 2 s more between characters
    assert (timing.interval, timing.pause) == pytest.approx((0.25, 2.0), abs=0.005)


def test_letters_of_a_bundle_say_which_codes_come_first():
    for speller in MATRICES.values():
        codes = np.tile(np.arange(1, 13), 2)
        lit = [
            {code for code, own in zip(speller.codes, speller.sets, strict=True) if letter in own} for letter in "HJ"
        ]
        target = np.array([code in lit[k // 12] for k, code in enumerate(codes)]).astype(int)
        events = Events.of(np.arange(24), target, codes, np.repeat([0, 1], 12))
        who = np.full(24, "A")
        letter = np.repeat(["H", "J"], 12)
        bundle = EpochedRecording(
            np.zeros((24, 1, 1)), ("Cz",), np.zeros(1), events, who, who, "b", np.zeros((1, 3)), (), letter
        )
        assert speller_of(bundle) is speller
        assert speller_of(replace(bundle, letter=None)) is None
        assert speller_of(replace(bundle, letter=letter[::-1])) is None


def test_characters_of_different_subjects_are_not_mixed(decoder, new):
    design = prepare(new, decoder.preparation)
    n = len(design)
    who = np.where(np.arange(n) < 120, "A", "B")
    events = Events.of(np.arange(n), design.y, design.stimulus, design.character % 2)  # B begins with character 1
    epochs = EpochedRecording(design.X, design.ch_names, design.times, events, who, who, "b", design.positions)
    own = replace(decoder, sfreq=epochs.sfreq, preparation=decoder.preparation.preset("epochs"))
    found = spell(own, [epochs], SPELLER)
    assert text_of(found) == spelling_of(new)
    assert Timing.of([one.flashes for one in found]) is None


def test_a_recording_without_codes_says_what_is_needed(decoder, new):
    none = with_events(new, stimulus=np.full(len(new.events), -1))
    with pytest.raises(RecordingError, match=r"no flash codes.*StimulusCode in BCI2000, 'stimulus' in a bundle"):
        spell(decoder, [none], SPELLER)
    some = new.events.stimulus.copy()
    some[7] = -1
    with pytest.raises(RecordingError, match=r"1 of 360 flashes have no code \(the first: event 7\)"):
        spell(decoder, [with_events(new, stimulus=some)], SPELLER)


def test_codes_that_the_matrix_does_not_have_are_named(decoder, new):
    with pytest.raises(RecordingError, match=r"simulated: the matrix matrix does not have its flash codes 5, 6, 7, 8"):
        spell(decoder, [new], TWO)


def test_a_character_without_a_flash_that_can_be_scored_is_named(decoder, new):
    third = int(new.events.onset[240])
    cut = replace(new, signal=new.signal[:, : third + 5])
    cut = with_events(cut, new.events.onset < third + 5)
    with pytest.raises(RecordingError, match=r"character 3: the character has no flash that can be scored \(1 flash"):
        spell(decoder, [cut], SPELLER)


def test_a_decoder_without_calibration_says_how_to_get_one(new):
    plain = Decoder.fit(easy_recording(0), classifier=GroupSVC(0.01, penalty="l2"))
    with pytest.raises(ValueError, match=r"This decoder has no calibration: .* Train one with `mixnorm train`"):
        spell(plain, [new], SPELLER)
    old = load(Path(__file__).parents[1] / "data" / "models-0.1.0" / "Decoder.mixnorm")
    assert old.flash_correlation == USUAL_CORRELATION
    assert old.n_characters is None  # the probabilities of that version
    with pytest.raises(ValueError, match="by an earlier version of mixnorm"):
        _ = old.evidence


def test_a_file_spells_the_same_bits(decoder, new, tmp_path):
    save(decoder, tmp_path / "d.mixnorm")
    loaded = load(tmp_path / "d.mixnorm")
    assert loaded.evidence == decoder.evidence
    first, second = (spell(one, [new], SPELLER) for one in (decoder, loaded))
    assert [one.probability for one in first] == [one.probability for one in second]


def test_one_character_is_enough_to_train_on(new):
    one = easy_recording(5, 120)
    assert len(np.unique(one.events.character)) == 1
    assert text_of(spell(Decoder.fit(one), [new], SPELLER)) == spelling_of(new)


def test_a_prior_decides_where_flashes_do_not(decoder, new):
    weak = replace(decoder, classifier=replace_calibration(decoder.classifier, slope=1e-6))
    text = "".join(dict.fromkeys(spelling_of(new)))
    prior = LetterPrior((text + " ") * 50, SPELLER.symbols)
    found = spell(weak, [new], SPELLER, prior=prior)
    assert [one.symbol for one in found][: len(text)] == list(text)
    assert found[0].probability < 0.9 < found[1].probability or len(text) < 2


def replace_calibration(classifier, **changes):
    changed = copy(classifier)
    changed.calibration_ = classifier.calibration_ | changes
    return changed


# On a stream


@pytest.mark.parametrize("size", [37, 256, 5000])
def test_a_stream_gives_the_bits_of_the_file(decoder, new, size):
    stopping = Stopping(0.9)
    whole = spell(decoder, [new], SPELLER, stopping)
    stream = StreamSpeller(decoder, SPELLER, stopping)
    items = push_in_chunks(stream, new, size)
    assert len(items) == len(new.events)
    expected = []
    for one in whole:
        n = one.n_flashes
        expected += [(SPELLER.symbols[one.trace.first[k]], one.trace.probability[k]) for k in range(n)]
        expected += [(one.symbol, one.probability)] * (len(one.flashes) - n)
    assert [(item.symbol, item.probability) for item in items] == expected
    assert "".join(stream.text) == text_of(whole)
    symbol, probability, stopped = items[-1]
    assert stopped
    assert stream.latest == (symbol, probability, stopped)


def test_a_stream_refuses_what_cannot_be_spelled(decoder, new):
    stream = StreamSpeller(decoder, SPELLER)
    with pytest.raises(SpellerError, match="character 1 has no flash yet"):
        stream.next_character()
    with pytest.raises(SpellerError, match="no flash code 40"):
        stream.push(new.signal[:, :100], [(3, 40)])
    with pytest.raises(SpellerError, match="two flashes begin at sample 3"):
        stream.push(new.signal[:, :100], [(3, 1), (3, 2)])
    assert stream.push(new.signal[:, :100], [(3, 1)]) == []  # the refused chunks left nothing behind


# Real recordings


def test_words_of_the_competition(data):
    runs = read_recordings(*(data / "bcicomp2-iib" / f"{name}.mat" for name in ("AAS010R01", "AAS011R01")))
    keep = ("Fz", "Cz", "Pz", "Oz", "P3", "P4", "PO7", "PO8")
    runs = [run.without([name for name in run.ch_names if name not in keep]) for run in runs]
    found = spell(Decoder.fit(runs[0]), [runs[1]], SPELLER)
    assert "".join(one.true_symbol for one in found) == "HAT"
    assert sum(one.symbol == one.true_symbol for one in found) >= 2
