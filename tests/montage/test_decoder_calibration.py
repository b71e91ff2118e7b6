"""Decoders of `select_montage` have probabilities, calibrated on trials that had no part in the choice."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from mixnorm import GroupSVC, load, save
from mixnorm.eeg import MATRICES, SelectOptions, honest_folds, prepare, select_montage, spell
from mixnorm.estimators.calibration import fit_sigmoid
from mixnorm.montage.decoders import CapTrials, HeldOutSubject, calibrated, trials_of
from mixnorm.montage.refits import MontagePenalties
from mixnorm.noise import subsets
from spellers import easy_recording, spelling_of

QUICK = SelectOptions(sensors=2, n_resamplings=0, compare=False)


@pytest.fixture(scope="module")
def one():
    design = prepare(easy_recording(3, 240, n_channels=5, n_informative=2, amplitude=2.0))
    return design, select_montage(design, QUICK)


def fitted(design, sensors, alpha):
    return CapTrials(design, np.ones(len(design.y), dtype=bool)).decoder(sensors, alpha, ())


def aucs_by_fold(design, scores):
    folds = honest_folds(design).number
    return [roc_auc_score(design.y[folds == fold], scores[folds == fold]) for fold in np.unique(folds)]


def test_scores_are_those_of_the_nested_folds(one):
    design, found = one
    model = found.decoder.classifier
    aucs = aucs_by_fold(design, model.out_of_fold_scores_)
    assert np.mean(aucs) == pytest.approx(found.chosen.auc, abs=1e-6)
    np.testing.assert_allclose(model.scores_[0], aucs)
    expected = fit_sigmoid(model.out_of_fold_scores_, np.where(design.y == 1, 1.0, -1.0), np.ones(len(design.y)))
    assert model.calibration() == expected


def test_the_classifier_is_that_of_a_plain_fit(one):
    design, found = one
    scale = fitted(design, found.montage, 1.0).classifier.alpha  # alpha 1 in the units of a penalty of mean diagonal 1
    alone = fitted(design, found.montage, found.decoder.classifier.alpha_ / scale)
    np.testing.assert_allclose(found.decoder.classifier.coef_, alone.classifier.coef_)
    X = found.decoder.scaler.transform(design.X[:, [design.ch_names.index(name) for name in found.montage]])
    assert found.decoder.classifier.predict_proba(X).shape == (len(X), 2)
    np.testing.assert_allclose(found.decoder.classifier.patterns_, alone.classifier.patterns_)


def test_a_saved_decoder_spells(tmp_path):
    training, new = (easy_recording(seed, 240, n_channels=5, n_informative=2) for seed in (3, 4))
    found = select_montage(training, QUICK)
    save(found.decoder, tmp_path / "montage.mixnorm")
    there = load(tmp_path / "montage.mixnorm")
    assert there.evidence == found.decoder.evidence
    assert there.evidence.slope > 0
    assert "".join(one.symbol for one in spell(there, [new], MATRICES["6x6"])) == spelling_of(new)


def test_of_several_subjects_the_common_decoder_is_calibrated_by_subjects_it_did_not_see():
    weak = {"n_channels": 3, "n_informative": 2, "amplitude": 1.5}
    design = prepare([replace(easy_recording(seed, 180, **weak), subject=name) for seed, name in ((1, "a"), (2, "b"))])
    found = select_montage(design, replace(QUICK, decoders=True))
    pooled = found.decoder.classifier.out_of_fold_scores_
    for row in found.by_subject:
        own = design.subject == row.subject
        assert roc_auc_score(design.y[own], pooled[own]) == pytest.approx(row.new_subject_auc, abs=1e-6)
        scores = found.decoders[row.subject].classifier.out_of_fold_scores_
        assert np.mean(aucs_by_fold(trials_of(design, own), scores)) == pytest.approx(row.common_auc, abs=1e-6)
    for decoders in found.decoders_by_size.values():
        assert decoders.pooled.evidence.slope != 0
        assert all(decoder.classifier.calibration_ for decoder in decoders.by_subject.values())


def test_trials_that_no_fold_held_out_have_no_part(one):
    design, found = one
    scores = found.decoder.classifier.out_of_fold_scores_.copy()
    scores[:40] = np.nan
    plain = fitted(design, found.montage, 0.1)
    known = calibrated(plain, design, HeldOutSubject(scores, np.array([0.7])))
    signs = np.where(design.y == 1, 1.0, -1.0)
    assert known.classifier.calibration() == fit_sigmoid(scores[40:], signs[40:], np.ones(len(signs) - 40))
    without = calibrated(plain, design, HeldOutSubject(np.full(len(signs), np.nan), np.array([])))
    with pytest.raises(ValueError, match="This decoder has no calibration"):
        _ = without.evidence


def test_a_trial_that_any_electrode_rejects_is_not_learned_from(one):
    design, _ = one
    limited = replace(design, preparation=design.preparation.with_(reject=1e4), X=design.X.copy())
    limited.X[7, 4, 3] += 1e6  # an artefact at an electrode that the decoder does not have
    sensors = design.ch_names[:2]
    kept = np.arange(len(design.y)) != 7
    found, expected = fitted(limited, sensors, 0.1), fitted(trials_of(design, kept), sensors, 0.1)
    np.testing.assert_allclose(found.classifier.coef_, expected.classifier.coef_, rtol=1e-8)
    np.testing.assert_array_equal(found.scaler.scale_, expected.scaler.scale_)
    # the data can tell the difference
    everything = fitted(design, sensors, 0.1)
    assert np.abs(found.classifier.coef_ - everything.classifier.coef_).max() > 1e-5


def test_with_an_average_reference_the_decoder_is_that_of_its_electrodes(one):
    design, _ = one
    averaged = replace(design, preparation=design.preparation.with_(reference="average"))
    sensors = design.ch_names[3], design.ch_names[0]
    found, alone = fitted(averaged, sensors, 0.1), fitted(design, sensors, 0.1)
    assert found.feature_names == design.ch_names
    assert set(found.selected) == set(sensors)
    coefs = found.classifier.coef_.reshape(len(design.ch_names), -1)
    np.testing.assert_allclose(coefs[[3, 0]].ravel(), alone.classifier.coef_[0], rtol=1e-7, atol=1e-10)
    assert not coefs[[1, 2, 4]].any()


@pytest.mark.parametrize("n_sensors", [1, 2, 5])
def test_alpha_belongs_to_a_penalty_of_mean_diagonal_1(one, n_sensors):
    design, _ = one
    sensors = list(range(n_sensors))
    trials = CapTrials(design, np.ones(len(design.y), dtype=bool))
    found = trials.classifier([design.ch_names[i] for i in sensors], 0.1, [design.ch_names[i] for i in sensors])
    X, y = trials.scaled()
    M = MontagePenalties.of(X, np.where(y == 1, 1.0, -1.0)).matrix(np.array(sensors))
    plain = GroupSVC(0.1, penalty="l2", noise=M).fit(X[:, sensors], y)
    np.testing.assert_allclose(found.coef_, plain.coef_, rtol=1e-5, atol=1e-8)
    # a named noise has a mean diagonal of 1, so that fitting again by it has the same strength
    assert found.alpha == pytest.approx(0.1 * np.trace(M) / len(M))
    assert found.noise == "evoked"
    # the data can tell the difference, except with all electrodes
    assert (abs(np.trace(M) / len(M) - 1) > 0.01) == (n_sensors < 5)


def test_a_montage_of_constant_electrodes_has_a_decoder_with_many_features(one, monkeypatch):
    design, _ = one
    monkeypatch.setattr(subsets, "MOST_FEATURES", 10)
    constant = replace(design, X=design.X.copy())
    constant.X[:, 2] = 3.0
    found = fitted(constant, [design.ch_names[2]], 0.1)
    assert not found.classifier.coef_.any()
    both = fitted(constant, [design.ch_names[0], design.ch_names[2]], 0.1).classifier.coef_.reshape(2, -1)
    assert both[0].any()
    assert not both[1].any()
