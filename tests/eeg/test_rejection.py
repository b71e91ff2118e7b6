"""Peak-to-peak limits: fixed ones, limits learned on training trials, and what is said about them."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mixnorm.eeg import (
    ChannelScaler,
    Decoder,
    Preparation,
    SelectOptions,
    honest_folds,
    prepare,
    select_montage,
)
from mixnorm.eeg.rejection import SPREADS, learned_limits
from mixnorm.eeg.splitting import held_out_scores
from mixnorm.study.splits import SplitRule, split_trials
from mixnorm.study.work import scaled


@pytest.fixture
def X():
    return 10 * np.random.default_rng(3).standard_normal((60, 4, 8))


def with_blinks(recording, trials, size=400.0):
    """The recording with a wave of `size` µV in two channels during some trials."""
    signal = recording.signal.copy()
    wave = size * np.sin(np.linspace(0, np.pi, 100))
    for trial in trials:
        onset = recording.events.onset[trial] + 40
        signal[:2, onset : onset + 100] += wave
    return replace(recording, signal=signal)


def test_fixed_limit_rejects_the_trials_that_mne_rejects(X):
    mne = pytest.importorskip("mne")
    info = mne.create_info(["Fz", "Cz", "Pz", "Oz"], 50.0, "eeg")
    kept = mne.EpochsArray(1e-6 * X, info, verbose="error").drop_bad({"eeg": 45e-6}, verbose="error").selection
    scaler = ChannelScaler(reject=45.0).fit(X)
    assert_array_equal(np.flatnonzero(scaler.accepted(X)), kept)
    assert 5 < len(kept) < 55


def test_learned_limit_is_that_of_the_formula(X):
    sizes = np.array([[max(row) - min(row) for row in trial] for trial in X.tolist()])
    usual = [np.median(column) for column in sizes.T]
    worst = np.log([max(row / usual) for row in sizes])
    spread = (np.quantile(worst, 0.75) - np.quantile(worst, 0.25)) / 1.349
    expected = np.array(usual) * np.exp(np.median(worst) + SPREADS * spread)
    assert_allclose(learned_limits(X, "auto"), expected, rtol=1e-12)


def test_learned_limit_finds_the_artefact_and_keeps_the_rest(X):
    X[[5, 17], 2] += np.linspace(0, 900, 8)
    scaler = ChannelScaler(reject="auto").fit(X)
    assert set(np.flatnonzero(~scaler.accepted(X))) >= {5, 17}
    assert scaler.accepted(X).sum() >= 55
    # as many channels again do not lose more trials
    wide = np.concatenate([X[:5], X[6:17], X[18:]])
    twice = np.concatenate([wide, wide + 1e-9], axis=1)
    rejected = [(~ChannelScaler(reject="auto").fit(trials).accepted(trials)).sum() for trials in (wide, twice)]
    assert rejected[0] == rejected[1]


def test_scaling_is_learned_from_accepted_trials(X):
    spoilt = X.copy()
    spoilt[::3, 1] *= 100
    kept = np.arange(60) % 3 != 0
    scaler = ChannelScaler("standard", None, reject=200.0).fit(spoilt)
    assert_array_equal(scaler.accepted(spoilt), kept)
    assert_allclose(scaler.scale_, ChannelScaler("standard", None).fit(X[kept]).scale_)


def test_limit_is_learned_on_training_trials_and_held_out_trials_are_all_scored(recording, lda):
    """Artefacts in the held-out fold change nothing about the model, which scores these trials too."""
    design = prepare(recording)
    folds = honest_folds(design, 2)
    loud = replace(design, X=np.where((folds.number == 0)[:, None, None], 30 * design.X, design.X))
    models = []

    def classifier():
        models.append(type(lda)())
        return models[-1]

    auto = {"preparation": design.preparation.with_(reject="auto")}
    for one in (replace(design, **auto), replace(loud, **auto)):
        held_out_scores(one, classifier, folds)
    # the model of fold 0 is trained without the loud trials, and is the same
    assert_array_equal(models[0].lda_.coef_, models[2].lda_.coef_)
    assert not np.array_equal(models[1].lda_.coef_, models[3].lda_.coef_)


def test_folds_train_on_the_trials_within_the_limit_of_the_fold(recording, lda):
    design = prepare(with_blinks(recording, [3, 40, 200]))
    design, folds = replace(design, preparation=design.preparation.with_(reject="auto")), honest_folds(design, 2)
    models = []

    def classifier():
        models.append(type(lda)())
        return models[-1]

    held_out_scores(design, classifier, folds)
    assert len(models) == 2
    for fold, model in enumerate(models):
        X, y = design.X[folds.number != fold], design.y[folds.number != fold]
        limits = learned_limits(X, "auto")
        kept = np.array([all(np.ptp(trial, axis=1) <= limits) for trial in X])
        assert not kept.all()
        expected = type(lda)().fit(ChannelScaler().fit(X[kept]).transform(X[kept]), y[kept])
        assert_allclose(model.lda_.coef_, expected.lda_.coef_, rtol=1e-9)


def test_rejected_trials_are_not_trained_on_but_scored(recording, lda):
    blinks = [3, 40, 41, 100, 200]
    spoilt = with_blinks(recording, blinks)
    with pytest.warns(
        RuntimeWarning, match=r"^In training, \d+ of 240 trials are left out: \d+ beyond the peak-to-peak"
    ):
        decoder = Decoder.fit(spoilt, Preparation(reject=150.0), lda)
    design = prepare(spoilt)
    within = (design.X.max(axis=2) - design.X.min(axis=2) <= 150).all(axis=1)
    assert not within[blinks].any()
    assert within.sum() > 200
    kept = replace(design, **{name: getattr(design, name)[within] for name in KEPT})
    expected = Decoder.from_design(kept, classifier=type(lda)())
    assert_array_equal(decoder.predict(spoilt).score, expected.predict(spoilt).score)
    assert np.isfinite(decoder.predict(spoilt).score).all()


KEPT = ("X", "y", "subject", "session", "character", "stimulus", "onset", "run")


def test_rejected_trials_are_counted_by_class_session_and_channel(recording):
    first, second = with_blinks(recording, [3, 40]), replace(with_blinks(recording, [100]), session="2")
    with pytest.warns(
        RuntimeWarning, match=r"beyond the peak-to-peak limit \(Fz \d+, Cz \d+\).*session 1: \d+, session 2"
    ):
        design = prepare([first, second], Preparation(reject=150.0))
    counts = design.rejected().counts()
    assert set(counts["by_channel"]) == {"Fz", "Cz"}
    assert sum(counts["by_session"].values()) == counts["n_trials"] == sum(counts["by_class"].values())
    assert counts["of"] == 480
    assert counts["by_session"]["1"] > counts["by_session"]["2"] > 0
    assert len(prepare(first).rejected()) == 0


def test_when_all_are_rejected_the_error_says_which_limit_would_do(X):
    sizes = np.sort((X.max(axis=2) - X.min(axis=2)).max(axis=1))
    with pytest.raises(ValueError, match=r"^all 60 trials are beyond the peak-to-peak limit of 5 µV; ") as refused:
        ChannelScaler(reject=5.0).fit(X)
    text = str(refused.value)
    assert text.endswith("use a higher limit reject=…")
    for part in text.split("; ")[1].split(", "):
        count, limit = int(part.split()[0]), float(part.split(" at ")[1].removesuffix(" µV"))
        assert count == np.sum(sizes <= limit)
    assert " 30 would remain" in text or " 31 would remain" in text
    y = np.repeat([0, 1], 30)
    X[y == 1] *= 100
    with pytest.raises(ValueError, match="all 30 trials of class 1 are beyond the peak-to-peak limit of 200 µV"):
        ChannelScaler(reject=200.0).fit(X).accepted(X, y)


@pytest.mark.parametrize("reject", [0, -5.0, np.nan, "automatic", True, "150"])
def test_other_limits_are_refused(reject):
    with pytest.raises(
        ValueError, match=r"'reject' parameter. Allowed values are a limit in µV above 0, 'auto' and None"
    ):
        Preparation(reject=reject)


def test_limit_is_part_of_the_description_of_a_preparation():
    assert Preparation.from_dict(Preparation(reject="auto").to_dict()) == Preparation(reject="auto")
    assert Preparation.from_dict(
        {key: value for key, value in Preparation().to_dict().items() if key != "reject"}
    ) == (Preparation())


def test_selection_and_studies_train_on_accepted_trials(recording):
    design = prepare(with_blinks(recording, [3, 40, 41, 100, 200]))
    within = (design.X.max(axis=2) - design.X.min(axis=2) <= 150).all(axis=1)
    kept = replace(design, **{name: getattr(design, name)[within] for name in KEPT})
    limited = replace(design, preparation=design.preparation.with_(reject=150.0))
    options = SelectOptions(sensors=2, n_resamplings=0, compare=False, n_folds=2)
    found, expected = (select_montage(one, options).montages[-1].weights for one in (limited, kept))
    assert found == expected
    rule = SplitRule("random", 0, 180, 180, 2, None, 0)
    split = split_trials(limited, rule)
    train, test = scaled(limited, split, rule)
    assert len(train.X) == within[split.train].sum() < len(split.train)
    assert len(test) == len(split.test)
    assert_array_equal(train.y, limited.y[split.train][within[split.train]])
