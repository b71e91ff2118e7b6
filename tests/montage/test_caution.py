"""What is said of a recommendation that is worth little."""

import numpy as np
import pytest

from mixnorm.montage import scoring as montages
from mixnorm.montage.caution import _interval_over_trials, caution_of, few_trials


def subject(n_targets, n_others):
    signs = np.repeat([1.0, -1.0], [n_targets, n_others])
    return montages.Subject(
        np.zeros((len(signs), 1, 1)), signs, np.zeros(len(signs), dtype=int), np.arange(len(signs))
    )


def scored(shifts, *, n=60, J=5, seed=0):
    """Montages of 1, 2, … sensors whose targets' scores are shifted so much, in J folds of n trials each."""
    rng = np.random.default_rng(seed)
    sizes = np.arange(1, len(shifts) + 1)
    signs = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    tests = [
        [montages.Tested(signs, rng.standard_normal((n, len(shifts))) + np.outer(signs > 0, shifts))] for _ in range(J)
    ]
    model = montages.Models(sizes - 1, sizes, np.ones(len(sizes)), np.zeros((len(sizes), len(sizes), 1)), sizes * 0.0)
    return montages.Montages([model], tests, 1 / (J - 1) if J > 1 else 1.0, [model.order] * J)


def test_enough_trials_that_are_told_apart_need_no_word():
    assert caution_of(scored([1.0, 2.0]), 1, [subject(30, 100)]) == (None, False)


@pytest.mark.parametrize(
    "counts, said",
    [
        ((19, 100), "There are only 19 targets:"),
        ((100, 7), "There are only 7 nontargets:"),
        ((3, 4), "There are only 3 targets and 4 nontargets:"),
        ((20, 20), None),
    ],
)
def test_few_trials_of_a_class_are_counted(counts, said):
    found, unsure = caution_of(scored([2.0]), 0, [subject(*counts)])
    assert unsure is (said is not None)
    assert found is None if said is None else found.startswith(said)


def test_trials_of_all_subjects_count_together():
    assert few_trials([subject(15, 50), subject(5, 50)]) is None
    assert few_trials([subject(15, 50), subject(4, 50)]) == (
        "There are only 19 targets: too few to tell electrodes apart; record more."
    )


def test_an_interval_that_holds_one_half_is_said_with_its_ends():
    found = scored([0.0, 0.0, 0.0])
    best = int(np.argmax(found.mean))
    low, high = found.interval()
    said, unsure = caution_of(found, best, [subject(100, 200)])
    assert unsure
    assert low[best] <= 0.5
    assert said == (
        f"The interval of the best montage ({low[best]:.3f} … {high[best]:.3f}) holds 0.5: these trials do not show "
        "that any electrode helps; record more."
    )


def test_a_smaller_montage_that_could_be_chance_is_not_covered_by_the_best_one():
    found = scored([0.0, 2.0])
    assert caution_of(found, 1, [subject(100, 200)]) == (None, False)
    said, unsure = caution_of(found, 0, [subject(100, 200)])
    assert unsure
    assert said.startswith("The interval of the recommended montage (")
    assert said.endswith(
        "these trials do not show that it does better than chance; record more, or take more electrodes."
    )


@pytest.mark.parametrize("J", [1, 2])
def test_with_one_or_two_folds_the_trials_are_asked(J):
    """The interval over two folds holds 0.5 whatever happens; sixty trials a fold know better."""
    said, unsure = caution_of(scored([0.3, 2.0], J=J), 1, [subject(100, 200)])
    assert not unsure
    assert said.startswith(f"Only {J} fold")
    assert "say next to nothing about another session" in said
    assert "nan" not in said
    said, unsure = caution_of(scored([0.0, 0.0], J=J), 1, [subject(100, 200)])
    assert unsure
    assert "these trials do not show that any electrode helps" in said


def test_the_interval_over_trials_is_delongs():
    """By the placements of DeLong et al. (1988), counted pair by pair."""
    found = scored([0.8], J=2)
    variances, aucs = [], []
    for (one,) in found.tests:
        targets, others = one.scores[one.signs > 0, 0], one.scores[one.signs < 0, 0]
        wins = (targets[:, None] > others) + 0.5 * (targets[:, None] == others)
        variances.append(wins.mean(1).var(ddof=1) / len(targets) + wins.mean(0).var(ddof=1) / len(others))
        aucs.append(wins.mean())
    error = np.sqrt((1 / 2 + found.ratio) * np.mean(variances))
    wanted = np.mean(aucs) + 1.959963985 * error * np.array([-1, 1])
    assert _interval_over_trials(found, 0) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("J", [2, 5])
def test_chance_is_called_chance(J):
    """Of 200 draws in which nothing helps, with the best of three montages taken, at most one in twenty passes."""
    passed = 0
    for seed in range(200):
        found = scored([0.0, 0.0, 0.0], J=J, seed=seed)
        place, _, _ = found.smallest_near_best()
        passed += not caution_of(found, place, [subject(100, 200)])[1]
    assert passed <= 10
