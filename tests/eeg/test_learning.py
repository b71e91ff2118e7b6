"""Learning while spelling: the EM step against enumeration, the stream against the file, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.metrics import roc_auc_score

from mixnorm import GroupSVC, MultiTaskGroupSVCCV
from mixnorm.eeg import (
    MATRICES,
    CohortDecoder,
    Decoder,
    FlashEvidence,
    InOrder,
    LetterLearner,
    LetterPrior,
    Preparation,
    RecordingError,
    SelectOptions,
    Speller,
    Stopping,
    StreamSpeller,
    default_classifier,
    prepare,
    select_montage,
    spell,
)
from mixnorm.eeg.learning import Calibrating, SpelledFlashes, fit_with_probabilities
from mixnorm.estimators.calibration import fit_sigmoid
from spellers import easy_recording, push_in_chunks, with_events

SPELLER = MATRICES["6x6"]
TWO = Speller.of_matrix(["AB", "CD"], rows=[1, 2], columns=[3, 4])
#: Weak responses: after learning, scores differ.
WEAK = {"amplitude": 4.0}


@pytest.fixture(scope="module")
def calibration():
    return easy_recording(0, 120, **WEAK)


@pytest.fixture(scope="module")
def decoder(calibration):
    return Decoder.fit(calibration)


@pytest.fixture(scope="module")
def new():
    """Six characters without a pause between the halves of the three that were recorded."""
    recording = easy_recording(1, 360, **WEAK)
    return with_events(recording, character=np.arange(360) // 60)


class Fixed:
    """A decoder whose scores are the first values of the trials."""

    def __init__(self, evidence):
        self.classifier, self.evidence = self, evidence

    def decision_function(self, X):
        return X[:, 0, 0]


def enumerated(codes, scores, evidence, prior):
    """P(target) of every flash of a 2 × 2 speller, symbol by symbol and flash by flash."""
    lights = {1: "AB", 2: "CD", 3: "AC", 4: "BD"}
    likelihood = {}
    for symbol, before in zip("ABCD", prior, strict=True):
        total = np.log(before)
        for code, lit in lights.items():
            own = [s for c, s in zip(codes, scores, strict=True) if c == code]
            if symbol in lit:
                ratio = sum(evidence.slope * s + evidence.offset for s in own)
                total += ratio / (1 + max(len(own) - 1, 0) * evidence.correlation)
        likelihood[symbol] = np.exp(total)
    share = {symbol: value / sum(likelihood.values()) for symbol, value in likelihood.items()}
    return [sum(share[symbol] for symbol in lights[code]) for code in codes]


@pytest.mark.parametrize("prior", [None, [0.1, 0.2, 0.3, 0.4]])
def test_probabilities_of_targets_are_those_of_enumeration(prior):
    rng = np.random.default_rng(0)
    codes = np.array([1, 3, 2, 4, 4, 1, 3, 3])  # repeated codes, an incomplete repetition
    scores, evidence = rng.standard_normal(8), FlashEvidence(0.9, -0.2, 0.15)
    own = SpelledFlashes(scores[:, None, None], codes, TWO, None if prior is None else np.array(prior))
    found = own.target_probabilities(Fixed(evidence), evidence)
    expected = enumerated(codes.tolist(), scores.tolist(), evidence, prior or [0.25] * 4)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    # one row and one column are targets
    assert found[0] + found[2] == pytest.approx(1) == found[1] + found[3]


def trials(n, seed=0, shift=0.8):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 4 // 3
    X = rng.standard_normal((n, 3, 2))
    X[y == 1, 1] += shift
    return X, y


@pytest.fixture(scope="module")
def svm():
    X, y = trials(40)
    return X, y, default_classifier("svm").fit(X, y, groups=np.arange(40) // 8)


def test_the_fit_minimises_the_expected_loss(svm):
    X, y, like = svm
    spelled, _ = trials(24, seed=1)
    q = np.random.default_rng(2).random(24)
    alpha = like.alpha_ * 40 / 64
    found = fit_with_probabilities(like, alpha, Calibrating(X, y, np.arange(40) // 8), spelled, q)
    flat, more, signs = X.reshape(40, -1), spelled.reshape(24, -1), np.where(y == 1, 1, -1)

    def objective(point):
        w, b = point[:-1], point[-1]
        labelled = np.sum(np.maximum(0, 1 - signs * (flat @ w + b)) ** 2)
        score = more @ w + b
        # the expectation of the loss over the label of every spelled flash
        expected = q @ np.maximum(0, 1 - score) ** 2 + (1 - q) @ np.maximum(0, 1 + score) ** 2
        return (labelled + expected) / 64 + alpha / 2 * w @ w

    best = minimize(objective, np.zeros(7), method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose([*found.coef_[0], *found.intercept_], best.x, atol=1e-4)
    assert objective(np.append(found.coef_, found.intercept_)) <= best.fun * (1 + 1e-6)


@pytest.mark.parametrize("method", ["svm", "svm-noise", "gsvm-2"])
def test_sure_letters_are_labels(method):
    X, y = trials(48, shift=1.5)
    like = default_classifier(method).fit(X[:24], y[:24], groups=np.arange(24) // 4)
    calibrating = Calibrating(X[:24], y[:24], np.arange(24) // 4)
    found = fit_with_probabilities(like, like.alpha_ / 2, calibrating, X[24:], y[24:].astype(float))
    settings = {"svm": {"penalty": "l2"}, "svm-noise": {"penalty": "l2", "noise": "evoked"}, "gsvm-2": {}}[method]
    labelled = GroupSVC(like.alpha_ / 2, **settings).fit(X, y, sample_weight=np.ones(48))
    np.testing.assert_allclose(found.coef_, labelled.coef_, rtol=1e-4, atol=1e-6)


def learned_twice(decoder, calibration, spelled, codes):
    learner = LetterLearner(decoder, calibration)
    for part in (slice(0, 24), slice(24, 48)):
        learner.add(spelled[part], codes, TWO)
        _ = learner.decoder
    return learner.decoder.classifier


def test_held_out_scores_do_not_know_the_labels_of_their_fold(decoder, calibration):
    codes, spelled = np.tile([1, 3, 2, 4], 6), decoder.trials(easy_recording(3, 48, **WEAK))
    plain = learned_twice(decoder, calibration, spelled, codes).out_of_fold_scores_
    for _, test in InOrder().split(np.zeros(120), groups=prepare(calibration, decoder.preparation).trial_groups()):
        target = calibration.events.target.copy()
        target[test] = np.roll(target[test], 1)
        other = replace(calibration, events=replace(calibration.events, target=target))
        found = learned_twice(decoder, other, spelled, codes)
        np.testing.assert_array_equal(found.out_of_fold_scores_[test], plain[test])
        others = np.setdiff1d(np.arange(120), test)
        assert np.abs(found.out_of_fold_scores_[others] - plain[others]).max() > 0.1 * plain.std()


def test_the_sigmoid_is_that_of_held_out_scores(decoder, calibration):
    codes, spelled = np.tile([1, 3, 2, 4], 6), decoder.trials(easy_recording(3, 48, **WEAK))
    found, y = learned_twice(decoder, calibration, spelled, codes), calibration.events.target
    expected = fit_sigmoid(found.out_of_fold_scores_, np.where(y == 1, 1.0, -1.0), np.ones(120))
    assert found.calibration().slope == pytest.approx(expected.slope)


def test_wrong_letters_make_the_probabilities_flat(decoder, calibration, new):
    slopes = []
    codes, trials = new.events.stimulus, decoder.trials(new)
    for shift in (0, 1):
        learner = LetterLearner(decoder, calibration)
        # a prior that leaves no doubt: of the true symbol, or of one in another row and column
        for part in (slice(k, k + 60) for k in range(0, 360, 60)):
            q = new.events.target[part]
            prior = np.full(36, 1e-9)
            lit = {int(c): bool(q[codes[part] == c][0]) for c in np.unique(codes[part])}
            prior[(SPELLER.symbols.index(SPELLER.symbol_of(lit)) + 15 * shift) % 36] = 1.0
            learner.add(trials[part], codes[part], SPELLER, prior / prior.sum())
        slopes.append(learner.decoder.evidence.slope)
    assert slopes[1] < 0.5 * slopes[0]


def test_a_step_is_expectation_and_maximisation(decoder, calibration):
    codes = np.tile([1, 3, 2, 4], 6)
    spelled = decoder.trials(easy_recording(3, 48, **WEAK))
    learner = LetterLearner(decoder, calibration)
    X, scaled = (decoder.scaler.transform(own) for own in (decoder.trials(calibration), spelled))
    y, current = calibration.events.target, decoder
    for n in (24, 48):
        learner.add(spelled[n - 24 : n], codes, TWO)
        parts = [scaled[k : k + 24] for k in range(0, n, 24)]
        scores = [current.classifier.decision_function(part) for part in parts]
        q = np.concatenate([enumerated(codes, own, current.evidence, [0.25] * 4) for own in scores])
        own = np.concatenate(parts)
        alpha = decoder.classifier.alpha_ * 120 / (120 + n)
        expected = GroupSVC(alpha, penalty="l2", noise="evoked").fit(
            np.concatenate([X, own, own]),
            np.concatenate([y, np.ones(n), np.zeros(n)]),
            sample_weight=np.concatenate([np.ones(120), q, 1 - q]),
        )
        current = learner.decoder
        # labels of a probability below LEAST_WEIGHT are left out there
        largest = np.abs(expected.coef_).max()
        np.testing.assert_allclose(current.classifier.coef_, expected.coef_, atol=2e-3 * largest)
        assert current.flash_correlation == decoder.flash_correlation
        assert current.n_characters == decoder.n_characters == 1
    assert learner.n_learned == 2


def test_a_character_has_no_part_in_its_own_symbol(decoder, calibration, new):
    plain = spell(decoder, [new], SPELLER)
    learner = LetterLearner(decoder, calibration)
    found = spell(decoder, [new], SPELLER, learner=learner)
    np.testing.assert_array_equal(found[0].flashes.score, plain[0].flashes.score)
    assert not np.array_equal(found[1].flashes.score, plain[1].flashes.score)
    assert learner.n_learned == 5  # the last one is not needed
    # the first three characters are the same without the later ones
    short = with_events(new, slice(0, 180))
    again = spell(decoder, [short], SPELLER, learner=LetterLearner(decoder, calibration))
    assert [one.probability for one in again] == [one.probability for one in found[:3]]


def test_only_the_flashes_that_were_used_are_learned_from(decoder, calibration, new):
    learner = LetterLearner(decoder, calibration)
    found = spell(decoder, [new], SPELLER, Stopping(max_repetitions=2), learner=learner)
    # as if the others had not been recorded
    first = with_events(new, np.arange(360) % 60 < 24)
    again = spell(decoder, [first], SPELLER, learner=LetterLearner(decoder, calibration))
    assert [one.n_flashes for one in found] == [24] * 6
    assert [one.probability for one in again] == [one.probability for one in found]


def test_the_truth_is_not_looked_at(decoder, calibration, new):
    found = [
        spell(decoder, [one], SPELLER, Stopping(0.9), learner=LetterLearner(decoder, calibration))
        for one in (
            new,
            with_events(new, target=1 - new.events.target),
            with_events(new, target=np.full(360, -1)),
        )
    ]
    assert len({tuple(one.probability for one in spelled) for spelled in found}) == 1
    assert [one.true_symbol for one in found[2]] == [None] * 6


def test_learning_goes_on_from_one_recording_to_the_next(decoder, calibration, new):
    learner = LetterLearner(decoder, calibration)
    together = spell(decoder, [new, new], SPELLER, learner=LetterLearner(decoder, calibration))
    apart = [one for run in (new, new) for one in spell(decoder, [run], SPELLER, learner=learner)]
    assert [one.probability for one in together] == [one.probability for one in apart]
    assert learner.n_learned == 11


def test_later_characters_are_scored_better():
    better = []
    for seed in range(3):
        train, test = (easy_recording(10 * seed + k, n, amplitude=4.0) for k, n in ((1, 120), (2, 720)))
        decoder = Decoder.fit(train)
        late = test.events.character >= 3
        aucs = []
        for learner in (None, LetterLearner(decoder, train)):
            found = spell(decoder, [test], SPELLER, learner=learner)
            score = np.concatenate([one.flashes.score for one in found])
            aucs.append(roc_auc_score(test.events.target[late], score[late]))
        better.append(aucs[1] - aucs[0])
    assert min(better) > 0.005


def test_channels_that_the_decoder_does_not_use_stay_unused(calibration, new):
    sparse = Decoder.fit(calibration, classifier=default_classifier("gsvm-2", max_sensors=2))
    assert len(sparse.used) == 2
    learner = LetterLearner(sparse, calibration)
    spell(sparse, [new], SPELLER, learner=learner)
    assert set(learner.decoder.used) <= set(sparse.used)


def test_trials_beyond_the_limit_are_not_learned_from(calibration, new):
    preparation = Preparation(reject=150.0)
    decoder = Decoder.fit(calibration, preparation)
    learner, without = (LetterLearner(decoder, calibration) for _ in range(2))
    trials = decoder.trials(new)[:24]
    loud = trials.copy()
    loud[5, 0] += np.linspace(0, 500, trials.shape[2])
    lost = trials.copy()
    lost[5] = np.nan
    codes = new.events.stimulus[:24]
    learner.add(loud, codes, SPELLER)
    without.add(lost, codes, SPELLER)
    np.testing.assert_array_equal(learner.decoder.classifier.coef_, without.decoder.classifier.coef_)
    nothing = LetterLearner(decoder, calibration)
    nothing.add(np.full_like(trials, np.nan), codes, SPELLER)
    assert nothing.decoder is decoder


# On a stream


@pytest.mark.parametrize(
    ("size", "stopping", "text"),
    [(37, Stopping(0.8), None), (256, Stopping(0.8), "THE HAT"), (5000, Stopping(), None)],
)
def test_a_stream_learns_the_bits_of_the_file(decoder, calibration, new, size, stopping, text):
    prior = None if text is None else LetterPrior(text, SPELLER.symbols)
    whole = spell(decoder, [new], SPELLER, stopping, prior, LetterLearner(decoder, calibration))
    learner = LetterLearner(decoder, calibration)
    stream = StreamSpeller(decoder, SPELLER, stopping, prior, learner=learner)
    items = push_in_chunks(stream, new, size)
    expected = []
    for one in whole:
        n = one.n_flashes
        expected += [(SPELLER.symbols[one.trace.first[k]], one.trace.probability[k]) for k in range(n)]
        expected += [(one.symbol, one.probability)] * (len(one.flashes) - n)
    assert [(item.symbol, item.probability) for item in items] == expected
    assert stream.text == [one.symbol for one in whole]
    assert learner.n_learned == 5
    # flashes of the next character were pushed before the windows of the last one were complete
    window = decoder.preparation.window[1] * decoder.sfreq
    assert np.diff(new.events.onset)[59] < window
    plain = spell(decoder, [new], SPELLER, stopping, prior)
    assert [one.probability for one in plain] != [one.probability for one in whole]


def test_a_stream_goes_on_with_what_was_learned_before(decoder, calibration, new):
    whole = spell(decoder, [new, new], SPELLER, Stopping(), learner=LetterLearner(decoder, calibration))
    learner = LetterLearner(decoder, calibration)
    spell(decoder, [new], SPELLER, Stopping(), learner=learner)
    items = push_in_chunks(StreamSpeller(decoder, SPELLER, Stopping(), learner=learner), new)
    assert [item.probability for item in items[59::60]] == [one.probability for one in whole[6:]]


def test_a_sparse_decoder_learns_the_same_on_a_stream(calibration, new):
    sparse = Decoder.fit(calibration, classifier=default_classifier("gsvm-2", max_sensors=2))
    whole = spell(sparse, [new], SPELLER, Stopping(), learner=LetterLearner(sparse, calibration))
    stream = StreamSpeller(sparse, SPELLER, Stopping(), learner=LetterLearner(sparse, calibration))
    items = push_in_chunks(stream, new, 1000)
    assert [item.probability for item in items[59::60]] == [one.probability for one in whole]


def test_lost_samples_are_not_learned_from(decoder, calibration, new):
    holes = new.signal.copy()
    holes[:, int(new.events.onset[10]) + 60] = np.nan
    learner = LetterLearner(decoder, calibration)
    items = push_in_chunks(StreamSpeller(decoder, SPELLER, Stopping(), learner=learner), replace(new, signal=holes))
    assert learner.n_learned == 5
    assert np.isfinite([item.probability for item in items]).all()


# Refused


def test_calibration_that_does_not_fit_the_model_is_named(decoder, calibration, new):
    none = with_events(calibration, target=np.full(120, -1))
    some = calibration.events.target.copy()
    some[7] = -1
    only = with_events(calibration, calibration.events.target == 0)
    other = replace(calibration, source="other.edf", ch_names=("Fz", "Cz", "Pz", "Xx"))
    fast = replace(calibration, source="fast.edf", sfreq=512.0)
    for recordings, problem in (
        (none, r"simulated: 120 of its 120 flashes have no label \('target'\)"),
        ([calibration, with_events(calibration, target=some)], "1 of its 120 flashes have no label"),
        (only, "simulated: calibration needs targets and non-targets"),
        (other, "other.edf: channels that the model needs are missing: "),
        (fast, "fast.edf: its rate is 512 Hz, that of the model 256 Hz"),
    ):
        with pytest.raises(RecordingError, match=problem):
            LetterLearner(decoder, recordings)
    with pytest.raises(ValueError, match="There is no calibration recording to learn with"):
        LetterLearner(decoder, [])


def test_a_decoder_without_calibration_cannot_learn(calibration):
    plain = Decoder.fit(calibration, classifier=GroupSVC(0.01, penalty="l2"))
    with pytest.raises(ValueError, match=r"This decoder has no calibration: .* Train one with `mixnorm train`"):
        LetterLearner(plain, calibration)


def test_a_learner_belongs_to_its_decoder(decoder, calibration, new):
    learner = LetterLearner(replace(decoder), calibration)
    for spelling in (
        lambda: spell(decoder, [new], SPELLER, learner=learner),
        lambda: StreamSpeller(decoder, SPELLER, learner=learner),
    ):
        with pytest.raises(ValueError, match="The learner was made for another decoder"):
            spelling()


def test_a_decoder_of_several_subjects_cannot_learn():
    recordings = [replace(easy_recording(seed, 120), subject=name) for seed, name in enumerate("AB")]
    design = prepare(recordings)
    joint = CohortDecoder.from_design(
        design, classifier=MultiTaskGroupSVCCV(alphas=2, similarities=[0.1], cv=InOrder(2))
    )
    with pytest.raises(ValueError, match=r"fitted together with those of other subjects\. Train one on"):
        LetterLearner(joint.of_subject("A"), recordings[0])


def test_a_decoder_of_select_can_learn():
    recording = easy_recording(0, 240, **WEAK)
    found = select_montage(recording, SelectOptions(sensors=2, n_resamplings=0, compare=False)).decoder
    assert LetterLearner(found, recording).decoder is found
