"""What an electrode adds, with its paired error; recordings that may be of several people."""

import math
from dataclasses import replace
from statistics import mean, stdev

import numpy as np
import pytest

from mixnorm.eeg import SelectOptions, prepare, select_montage, simulated_recording
from mixnorm.montage import sentences
from mixnorm.montage.assembly import montages_of
from mixnorm.montage.caution import no_transfer
from mixnorm.montage.constraints import Constraints
from mixnorm.montage.orders import compared_orders
from mixnorm.montage.recommendation import choose, recommend
from mixnorm.montage.refits import HeldOutScores, Models
from mixnorm.montage.scoring import ScoredMontages
from mixnorm.montage.trials import SubjectTrials
from selections import selection, typed


def scored(separations, n=60, seed=0):
    """Montages of one and two sensors; each fold separates the classes by so much, with the second sensor by more."""
    rng = np.random.default_rng(seed)
    signs = np.where(np.arange(n) < n // 3, 1.0, -1.0)
    tests = []
    for separation in separations:
        noise = rng.standard_normal((n, 2))
        tests.append([HeldOutScores(signs, noise + np.outer(signs, [separation, 1.3 * separation]) / 2)])
    models = Models(np.array([1, 0]), np.array([1, 2]), np.ones(2), rng.random((2, 2, 3)), np.zeros(2))
    return ScoredMontages([models], tests, 0.25, [np.array([1, 0])] * len(tests))


def trials(n=60):
    rng = np.random.default_rng(1)
    signs = np.where(np.arange(n) < n // 3, 1.0, -1.0)
    return SubjectTrials(rng.standard_normal((n, 2, 3)), signs, np.arange(n) % 4, np.arange(n))


def test_the_gain_of_an_electrode_has_the_error_of_paired_differences_over_folds():
    found = scored([1.0, 2.0, 0.5, 1.5])
    design = prepare(simulated_recording(60, n_channels=2, n_informative=2, seed=0))
    design = replace(design, ch_names=("Cz", "Pz"))
    small, whole = montages_of(design, Constraints.none(2), [trials()], found)
    differences = [float(two - one) for one, two in found.by_fold.T]
    error = math.sqrt(1 / 4 + 0.25) * stdev(differences)
    assert whole.drop.sensor == "Cz"
    assert whole.drop.auc_change == pytest.approx(-mean(differences), abs=1e-5)
    assert whole.drop.standard_error == pytest.approx(error, rel=1e-5)
    assert small.below_all == pytest.approx(mean(differences), abs=1e-5)
    assert small.below_all_error == pytest.approx(error, rel=1e-5)
    assert (whole.below_all, whole.below_all_error, small.drop) == (0.0, 0.0, None)


def test_one_fold_has_no_paired_error():
    found = scored([1.0])
    design = replace(prepare(simulated_recording(60, n_channels=2, n_informative=2)), ch_names=("Cz", "Pz"))
    small, whole = montages_of(design, Constraints.none(2), [trials()], found)
    assert (small.below_all_error, whole.drop.standard_error) == (None, None)


def test_the_trade_says_what_the_next_electrode_and_all_of_them_add():
    found = selection(8)
    found["recommended"] |= {"n_sensors": 3, "best_n_sensors": 8}
    found["montages"][3]["drop"] = {"sensor": "Oz", "auc_change": -0.0123, "standard_error": 0.0044}
    found["montages"][2] |= {"below_all": 0.031, "below_all_error": 0.009}
    assert sentences.trade(typed(found)) == (
        "One more electrode (Oz): AUC +0.012 ± 0.004; all 8 electrodes: AUC +0.031 ± 0.009 "
        "(± standard error of the paired difference over folds)."
    )
    found["montages"][3]["drop"] |= {"auc_change": 0.0123, "standard_error": None}
    found["montages"][2] |= {"below_all_error": None}
    assert sentences.trade(typed(found)) == ("One more electrode (Oz): AUC −0.012; all 8 electrodes: AUC +0.031.")
    found["recommended"]["n_sensors"] = 8
    assert sentences.trade(typed(found)) is None


def test_a_session_that_the_others_do_not_predict_is_named():
    found = scored([3.0, 3.0, 0.0, 3.0, 3.0, 3.0])
    names = list("abcdef")
    doubt = no_transfer(found, names)
    assert doubt.sessions == ("c",)
    assert doubt.auc[0] == pytest.approx(found.by_fold[int(np.argmax(found.mean)), 2], abs=1e-5)
    assert doubt.low[0] <= 0.5 < doubt.high[0]
    assert no_transfer(scored([3.0] * 6), names) is None


def test_transfer_at_or_below_chance_is_reason_enough_to_recommend_nothing():
    found = scored([4.0, 4.0, 0.0, 4.0, 4.0, 4.0, 4.0, 4.0])
    known = recommend(found, choose(found, None), None, [trials()])
    assert (known.verdict, known.chance_level) == ("recommended", None)
    doubt = no_transfer(found, list("abcdefgh"))
    unsure = recommend(found, choose(found, None), None, [trials()], doubt)
    assert (unsure.verdict, unsure.chance_level, unsure.no_transfer) == ("unsure", None, doubt)
    caution = sentences.caution(unsure)
    assert caution.startswith("A decoder of the other recordings is not better than chance on c (AUC 0.")
    assert "may be of different people. Name the subject of each with --subjects" in caution


def of_nobody(seed, amplitude, session):
    found = simulated_recording(240, n_channels=4, n_informative=4, amplitude=amplitude, seed=seed)
    return replace(found, subject="unknown", session=session, source=f"{session}.fif")


def test_files_of_several_people_without_names_are_said_to_be_taken_for_one():
    """The response of the third person has the opposite sign, so that transfer to it is below chance."""
    runs = [of_nobody(0, 12.0, "a"), of_nobody(1, 12.0, "b"), of_nobody(2, -12.0, "c")]
    options = SelectOptions(compare=False, n_resamplings=0)
    found = select_montage(runs, options)
    assert found.source.unnamed == ("a.fif", "b.fif", "c.fif")
    assert found.recommended.verdict == "unsure"
    assert "c" in found.recommended.no_transfer.sessions
    assert found.to_json()["source"]["one_subject"].startswith(
        "3 recordings do not name their subject (a.fif, b.fif, c.fif) and are treated as recordings of one subject; "
        "if they are of several people, name the subject of each"
    )
    # the same files, said to be of one person: a bad session, and no suspicion
    named = select_montage([replace(run, subject="Ann") for run in runs], options)
    assert named.source.unnamed == ()
    assert named.recommended.no_transfer is None
    assert named.to_json()["source"]["one_subject"] is None


def test_a_cap_that_is_there_in_part_says_so():
    whole = ("Fz", "Cz", "Pz", "Oz", "P3", "P4", "PO7", "PO8")
    names = [compared_orders(cap, Constraints.none(len(cap)))[-1].name for cap in (whole, whole[:-1], ("T7", "Cz"))]
    assert names == [
        "standard 8-channel cap",
        "standard 8-channel cap, 7 of its electrodes",
        "standard 8-channel cap, 1 of its electrodes",
    ]
    forbidden = Constraints.by_name(whole, (), ("Oz",), None)
    assert compared_orders(whole, forbidden)[-1].name == "standard 8-channel cap, 7 of its electrodes"
