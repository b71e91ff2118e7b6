"""From recordings to a montage: the selection, its constraints, and its JSON."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from mixnorm import GroupSVC, SensorSelector
from mixnorm.eeg import (
    Checkpoint,
    Preparation,
    SelectOptions,
    default_classifier,
    honest_folds,
    prepare,
    select_montage,
    simulated_cohort,
    simulated_recording,
)
from mixnorm.eeg.splitting import fitted
from mixnorm.montage.decoders import trials_of
from mixnorm.montage.reading import selection_from_json
from mixnorm.montage.verdict_records import FewTrials
from mixnorm.noise import subset_penalties

QUICK = SelectOptions(n_resamplings=2, compare=False)
KEYS = {
    "format": str,
    "version": int,
    "source": dict,
    "sensors": list,
    "montages": list,
    "recommended": dict,
    "curves": list,
    "path": dict,
    "times": list,
    "evoked": dict,
}


@pytest.fixture(scope="module")
def design():
    return prepare(simulated_recording(240, n_channels=6, n_informative=3, amplitude=8.0, seed=1))


@pytest.fixture(scope="module")
def found(design):
    return select_montage(design, QUICK)


def test_json_has_the_documented_fields(found, design):
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    for key, kind in KEYS.items():
        assert isinstance(document[key], kind), key
    assert document["format"] == "mixnorm-selection"
    assert document["version"] == 2
    assert document["recommended"]["verdict"] == "recommended"
    assert selection_from_json(document).to_json() == document
    assert [m["n_sensors"] for m in document["montages"]] == [1, 2, 3, 4, 5, 6]
    assert [s["name"] for s in document["sensors"]] == list(design.ch_names)
    n_times = len(document["times"])
    for montage in document["montages"]:
        chosen = montage["sensors"]
        assert len(chosen) == len(set(chosen)) == montage["n_sensors"]
        assert 0 <= montage["low"] <= montage["auc"] <= montage["high"] <= 1
        assert list(montage["weights"]) == list(montage["patterns"]) == chosen
        assert {len(row) for row in montage["weights"].values()} == {n_times}
    assert document["montages"][0]["drop"] is None
    for smaller, larger in pairwise(document["montages"]):
        assert larger["drop"]["sensor"] == larger["sensors"][-1]
        assert larger["drop"]["auc_change"] == pytest.approx(smaller["auc"] - larger["auc"], abs=2e-5)
    assert set(document["evoked"]) == set(document["source"]["classes"])
    assert document["curves"][0]["method"] == "mixnorm"
    assert document["curves"][0]["auc"] == [m["auc"] for m in document["montages"]]
    assert document["path"]["alphas"] == sorted(document["path"]["alphas"], reverse=True)
    assert document["by_subject"] is None


def test_evoked_responses_and_patterns_are_those_of_their_formulas(found, design):
    X, y = design.X, design.y
    name = design.ch_names[2]
    np.testing.assert_allclose(found.evoked.target[name], X[y == 1, 2].mean(axis=0), rtol=2e-3, atol=1e-3)
    montage = found.montages[3]
    scaler = design.preparation.scaler().fit(X)
    chosen = [design.ch_names.index(sensor) for sensor in montage.sensors]
    flat = scaler.transform(X)[:, chosen].reshape(len(X), -1)
    w = np.concatenate([montage.weights[sensor] for sensor in montage.sensors])
    pattern = np.cov(flat.T, bias=True) @ w / np.var(flat @ w)
    expected = pattern.reshape(4, -1) * scaler.scale_[chosen, None]
    shown = np.array([montage.patterns[sensor] for sensor in montage.sensors])
    np.testing.assert_allclose(shown, expected, atol=0.01 * np.abs(expected).max())


def test_the_truth_is_recommended_and_the_decoder_needs_no_more(found):
    assert set(found.montage) <= {"Fz", "Cz", "Pz", "Oz"}
    assert found.decoder.ch_names == found.montage
    assert found.recommended.n_sensors == len(found.montage)
    assert (found.recommended.verdict, found.recommended.n_asked) == ("recommended", None)
    means = [montage.auc for montage in found.montages]
    assert found.recommended.best_n_sensors == int(np.argmax(means)) + 1
    assert found.recommended.below_best <= found.recommended.standard_error


def test_keep_forbid_and_number_are_obeyed(design):
    options = replace(QUICK, sensors=3, keep=("Oz",), forbid=("Cz", "Pz"), n_resamplings=0)
    got = select_montage(design, options)
    for montage in got.montages:
        assert "Oz" in montage.sensors
        assert not {"Cz", "Pz"} & set(montage.sensors)
    assert [m.n_sensors for m in got.montages] == [1, 2, 3, 4]
    assert len(got.montage) == 3
    assert (got.recommended.verdict, got.recommended.n_asked) == ("asked", 3)
    assert got.stability is None
    assert {s.name: (s.keep, s.forbid) for s in got.sensors}["Oz"] == (True, False)


def test_forbidden_electrodes_have_no_part_in_scores_and_decoders(design):
    # a trigger channel shows the labels; forbidden, it must be as if it were not there
    trigger = design.y[:, None, None] + 0.1 * np.random.default_rng(0).standard_normal(
        (len(design.y), 1, len(design.times))
    )
    X, names = np.concatenate([trigger, design.X], axis=1), ("STI", *design.ch_names)
    positions = np.concatenate([np.full((1, *design.positions.shape[1:]), np.nan), design.positions])
    more = replace(design, X=X, ch_names=names, positions=positions)
    options = replace(QUICK, n_resamplings=0, compare=True, decoders=True)
    got, expected = select_montage(more, replace(options, forbid=("STI",))), select_montage(design, options)
    assert [(m.sensors, m.auc, m.low) for m in got.montages] == [(m.sensors, m.auc, m.low) for m in expected.montages]
    assert got.curves == expected.curves
    for size, decoders in expected.decoders_by_size.items():
        own = got.decoders_by_size[size].pooled.classifier.coef_
        np.testing.assert_allclose(own, decoders.pooled.classifier.coef_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"keep": ("Ozz",)}, "keep: unknown channel 'Ozz'; did you mean Oz"),
        ({"sensors": 9}, "9 electrodes were asked for, but only 6 are available"),
        ({"sensors": 6, "forbid": ("Fz",)}, r"6 electrodes were asked for, but only 5 are available \(1 forbidden\)"),
        (
            {"sensors": 1, "keep": ("Fz", "Cz")},
            "1 electrodes were asked for, but 2 are to be kept; ask for at least 2",
        ),
        ({"sensors": 0}, "0 electrodes were asked for; a montage has at least one"),
    ],
)
def test_what_cannot_be_had_is_refused(design, change, message):
    with pytest.raises(ValueError, match=message):
        select_montage(design, replace(QUICK, **change))


def test_scores_of_one_session_may_be_optimistic(found):
    assert found.source.folds.kinds == ("character",)
    assert found.to_json()["source"]["optimistic"].startswith("Only one session")


def test_several_sessions_are_the_folds(design):
    half = np.arange(len(design)) < len(design) // 2
    two = replace(design, session=np.where(half, "1", "2"))
    assert honest_folds(two).by == "session"
    got = select_montage(two, replace(QUICK, n_resamplings=0))
    assert (got.source.folds.kinds, got.source.folds.count) == (("session",), 2)
    assert got.to_json()["source"]["optimistic"] is None
    runs = replace(two, run=np.where(half, 0, np.arange(len(design)) * 8 // len(design)))
    got = select_montage(runs, replace(QUICK, n_resamplings=0))
    assert got.source.folds.kinds == ("run",)
    assert got.to_json()["source"]["optimistic"].startswith("Only two sessions, whose runs are the folds")


def test_folds_of_several_subjects_are_listed_for_each(design):
    """One has two sessions, the other one: the folds of the first do not describe both."""
    first = np.arange(len(design)) < len(design) // 2
    session = np.where(first, np.where(np.arange(len(design)) % 240 < 60, "1", "2"), "3")
    both = replace(design, subject=np.where(first, "A", "B"), session=session, character=np.full(len(design), -1))
    source = select_montage(both, replace(QUICK, n_resamplings=0)).source
    assert source.folds.by_subject == {"A": "session", "B": "block"}
    assert source.folds.count == 5


def test_unknown_positions_are_null(design):
    names = ("Fz", "Cz", "Pz", "Oz", "left", "right")
    places = design.positions.copy()
    places[4:] = np.nan
    got = select_montage(replace(design, ch_names=names, positions=places), replace(QUICK, n_resamplings=0))
    shown = {s.name: (s.x, s.y) for s in got.sensors}
    assert shown["left"] == shown["right"] == (None, None)
    assert shown["Cz"] == pytest.approx((0, 0), abs=1e-9)
    assert len(got.sensors) == 6


def test_unlabelled_or_one_sided_trials_are_refused(design):
    unknown = design.y.copy()
    unknown[0] = -1
    with pytest.raises(ValueError, match="1 trials have no label"):
        select_montage(replace(design, y=unknown), QUICK)
    with pytest.raises(ValueError, match="Subject 'S1' has trials of one class only"):
        select_montage(replace(design, y=np.zeros_like(design.y), subject=np.full(len(design), "S1")), QUICK)


def test_several_subjects_have_a_common_montage_and_their_own():
    cohort = simulated_cohort(2, 120, n_common=3, n_own=1, seed=0)
    plain = Preparation.preset("epochs").with_(window=(0.0, 1.0), scaling="standard", clip=None)
    design = prepare(cohort.to_recordings(), plain)
    got = select_montage(design, replace(QUICK, n_resamplings=0, sensors=4, forbid=design.ch_names[8:]))
    assert [row.subject for row in got.by_subject] == ["S1", "S2"]
    for row in got.by_subject:
        assert row.n_sensors == len(row.sensors) == 4
        assert 0 <= row.common_auc <= 1
    common = got.chosen.auc
    assert np.mean([row.common_auc for row in got.by_subject]) == pytest.approx(common, abs=1e-4)
    assert len(set(got.montage) & set(cohort.common)) >= 2
    # each subject's decoder is the classifier that was scored; shown are the means of their weights
    assert list(got.decoders) == ["S1", "S2"]
    weights = np.mean([decoder.classifier.coef_.reshape(4, -1) for decoder in got.decoders.values()], axis=0)
    shown = got.chosen.weights
    np.testing.assert_allclose(weights, [shown[name] for name in got.montage], rtol=1e-3, atol=1e-4 * weights.max())
    for name, decoder in got.decoders.items():
        own = design.subject == name
        np.testing.assert_allclose(decoder.scaler.center_, design.X[own][:, places(got)].mean(axis=(0, 2)))


def places(found):
    names = [sensor.name for sensor in found.sensors]
    return [names.index(name) for name in found.montage]


def test_shuffled_labels_recommend_nothing_with_confidence(design):
    shuffled = replace(design, y=np.random.default_rng(3).permutation(design.y), character=np.full(len(design), -1))
    got = select_montage(shuffled, replace(QUICK, n_resamplings=0))
    assert got.recommended.verdict == "unsure"
    assert got.recommended.chance_level.montage == "best"
    assert got.recommended.chance_level.low <= 0.5
    assert (got.source.folds.kinds, got.source.folds.count) == (("block",), 5)


def test_few_targets_recommend_nothing_with_confidence(design):
    targets = np.flatnonzero(design.y == 1)
    kept = np.setdiff1d(np.arange(len(design)), np.setdiff1d(targets, targets[::4]))
    small = replace(trials_of(design, kept), character=np.full(len(kept), -1))
    got = select_montage(small, replace(QUICK, n_resamplings=0, n_folds=2))
    assert got.recommended.verdict == "unsure"
    assert got.recommended.few_trials == FewTrials(10, None)


def test_enough_trials_need_no_caution(design):
    got = select_montage(replace(design, character=np.full(len(design), -1)), replace(QUICK, n_resamplings=0))
    assert got.recommended.verdict == "recommended"
    assert got.to_json()["recommended"]["caution"] is None


def test_more_folds_than_can_be_tested_are_refused(design):
    with pytest.raises(
        ValueError, match="3 folds were asked for, but subject S1 has 2 characters and 40 trials of the sm"
    ):
        select_montage(design, replace(QUICK, n_folds=3))
    blocks = replace(design, character=np.full(len(design), -1))
    with pytest.raises(
        ValueError, match=r"41 folds .* 240 trials and 40 trials of the smaller class; take at most 40 f"
    ):
        select_montage(blocks, replace(QUICK, n_folds=41))
    assert len(honest_folds(blocks, 40)) == 40
    two = replace(blocks, subject=np.repeat(["A", "B"], [200, 40]))
    with pytest.raises(ValueError, match="10 folds were asked for, but subject B has"):
        select_montage(two, replace(QUICK, n_folds=10))
    assert len(honest_folds(design)) == 2


def test_parts_are_used_for_the_same_trials_constraints_and_names_only(design, tmp_path):
    messages = []
    checkpoint = Checkpoint(tmp_path / "parts", "1", messages.append)
    quick = replace(QUICK, n_resamplings=0)
    first = select_montage(design, quick, checkpoint=checkpoint).to_json()
    assert messages == []
    assert select_montage(design, replace(quick, n_jobs=2), checkpoint=checkpoint).to_json() == first
    assert [what.split(" parts")[0] for what in messages] == [
        "montages: 3 of 3",
        "path: 1 of 1",
        "path in folds: 2 of 2",
    ]
    messages.clear()
    louder = replace(design, X=2 * design.X)
    renamed = replace(design, ch_names=("F1", *design.ch_names[1:]))
    select_montage(louder, quick, checkpoint=checkpoint)
    select_montage(renamed, quick, checkpoint=checkpoint)
    select_montage(design, replace(quick, cost={"Cz": 2.0}), checkpoint=checkpoint)
    assert messages == []


def test_parts_of_one_subject_are_not_those_of_several(design, tmp_path):
    """The first subject alone and all subjects together begin with the same trials."""
    two = replace(trials_of(design, np.arange(240) < 180), subject=np.repeat(["A", "B"], 90))
    quick = replace(QUICK, n_resamplings=0, n_folds=2, sensors=2)
    wanted = select_montage(two, quick).to_json()
    checkpoint = Checkpoint(tmp_path / "parts", "1")
    assert select_montage(two, quick, checkpoint=checkpoint).to_json() == wanted
    assert select_montage(two, quick, checkpoint=checkpoint).to_json() == wanted


def test_curves_that_end_at_the_same_electrodes_end_at_the_same_auc(design):
    """Also where a subject has no targets in one of the folds: every curve is a mean over the same folds."""
    session = np.repeat(["1", "2", "3", "4"], 60)
    two = replace(design, subject=np.tile(["A", "B"], 120), session=session, character=np.full(240, -1))
    none = (two.subject == "A") & (session == "1")
    two = replace(two, y=np.where(none, 0, two.y))
    got = select_montage(two, replace(QUICK, n_resamplings=0, compare=True))
    ours, *others = got.curves
    ends = [one for one in others if one.n_sensors[-1] == 6]
    assert len(ends) >= 2
    for one in ends:
        assert one.auc[-1] == ours.auc[-1], one.method
        assert (one.low[-1], one.high[-1]) == (ours.low[-1], ours.high[-1])
    # the six electrodes all belong to the standard cap, whose decoder is fitted by itself
    assert any(one.method.startswith("standard") for one in ends)


def test_the_selector_keeps_the_electrodes_of_the_selection(design, found):
    scaled = design.preparation.scaler().fit(design.X).transform(design.X)
    for k in (1, 3, 5):
        kept = SensorSelector(k).fit(scaled, design.y).selected_groups_
        assert {design.ch_names[i] for i in kept} == set(found.montages[k - 1].sensors)


def test_decoder_is_that_of_its_electrodes_with_the_penalty_that_all_show(design, found):
    part = np.array([design.ch_names.index(name) for name in found.montage])
    X = design.preparation.scaler().fit(design.X).transform(design.X)
    penalty = subset_penalties(X, np.where(design.y == 1, 1.0, -1.0), np.ones(len(X))).matrix(part)
    model = found.decoder.classifier
    penalty /= np.mean(np.diag(penalty))  # alpha is that of a penalty with a mean diagonal of 1
    own = GroupSVC(model.alpha_, penalty="l2", noise=penalty).fit(X[:, part], design.y)
    np.testing.assert_allclose(model.coef_, own.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(model.noise_, penalty)
    # fitted again, as while spelling, it knows only its own electrodes
    assert model.noise == "evoked"


def test_decoder_of_all_electrodes_is_that_of_training(design):
    """`mixnorm train` on all electrodes: the same alpha, noise and coefficients."""
    everything = SelectOptions(sensors=len(design.ch_names), n_resamplings=0, compare=False)
    whole = select_montage(design, everything)
    model, order = whole.decoder.classifier, [design.ch_names.index(name) for name in whole.montage]
    X = design.preparation.scaler().fit(design.X).transform(design.X)
    own = fitted(default_classifier(), X, design.y, design.trial_groups())
    np.testing.assert_allclose(model.alpha_, own.alpha_, rtol=1e-6)
    expected = own.coef_.reshape(len(order), -1)[order].ravel()
    np.testing.assert_allclose(model.coef_[0], expected, rtol=1e-3, atol=1e-5)
