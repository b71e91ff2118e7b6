"""When a recommendation is not reliable: too few trials, too few folds, intervals that include chance level."""

import numpy as np
import pytest

from mixnorm.montage.caution import chance_level, few_folds, few_trials, interval_over_trials
from mixnorm.montage.recommendation import Choice, choose, recommend, smallest_near_best
from mixnorm.montage.refits import HeldOutScores, Models
from mixnorm.montage.scoring import ScoredMontages
from mixnorm.montage.trials import SubjectTrials
from mixnorm.montage.verdict_records import FewTrials


def subject(n_targets, n_others):
    signs = np.repeat([1.0, -1.0], [n_targets, n_others])
    n = len(signs)
    return SubjectTrials(np.zeros((n, 1, 1)), signs, np.zeros(n, dtype=int), np.arange(n))


def scored(shifts, *, n=60, J=5, seed=0):
    """Montages of 1, 2, … sensors whose target scores are shifted by this much, in J folds of n trials each."""
    rng = np.random.default_rng(seed)
    sizes = np.arange(1, len(shifts) + 1)
    signs = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    tests = [
        [HeldOutScores(signs, rng.standard_normal((n, len(shifts))) + np.outer(signs > 0, shifts))] for _ in range(J)
    ]
    model = Models(sizes - 1, sizes, np.ones(len(sizes)), np.zeros((len(sizes), len(sizes), 1)), sizes * 0.0)
    return ScoredMontages([model], tests, 1 / (J - 1) if J > 1 else 1.0, [model.order] * J)


def recommended(found, asked=None, counts=(100, 200)):
    return recommend(found, choose(found, asked), asked, [subject(*counts)])


def test_enough_trials_and_separated_classes_need_no_caution():
    found = recommended(scored([1.0, 2.0]))
    assert found.verdict == "recommended"
    assert (found.few_trials, found.chance_level, found.few_folds) == (None, None, None)


@pytest.mark.parametrize(
    "counts, few",
    [((19, 100), FewTrials(19, None)), ((100, 7), FewTrials(None, 7)), ((3, 4), FewTrials(3, 4)), ((20, 20), None)],
)
def test_classes_with_few_trials_are_counted(counts, few):
    found = recommended(scored([2.0]), counts=counts)
    assert found.few_trials == few
    assert found.verdict == ("recommended" if few is None else "unsure")


def test_trials_of_all_subjects_count_together():
    assert few_trials([subject(15, 50), subject(5, 50)]) is None
    assert few_trials([subject(15, 50), subject(4, 50)]) == FewTrials(19, None)


def test_a_best_montage_whose_interval_includes_chance_level_is_unsure():
    found = scored([0.0, 0.0, 0.0])
    best = int(np.argmax(found.mean))
    low, high = found.interval()
    assert low[best] <= 0.5
    chance = chance_level(found, best)
    assert chance.montage == "best"
    assert (chance.low, chance.high) == pytest.approx((low[best], high[best]), abs=1e-5)
    assert recommended(found).verdict == "unsure"


def test_a_chosen_montage_can_be_chance_although_the_best_is_not():
    found = scored([0.0, 2.0])
    assert chance_level(found, 1) is None
    low, high = found.interval()
    chance = chance_level(found, 0)
    assert chance.montage == "chosen"
    assert (chance.low, chance.high) == pytest.approx((low[0], high[0]), abs=1e-5)
    asked = recommended(found, asked=1)
    assert (asked.verdict, asked.n_asked, asked.n_sensors, asked.best_n_sensors) == ("unsure", 1, 1, 2)


def test_a_number_that_was_asked_for_is_neither_recommended_nor_unsure():
    found = scored([1.5, 2.0, 2.1])
    asked = recommended(found, asked=1)
    assert (asked.verdict, asked.n_sensors) == ("asked", 1)
    assert asked.below_best == pytest.approx(found.mean.max() - found.mean[0], abs=1e-5)


@pytest.mark.parametrize("J", [1, 2])
def test_with_one_or_two_folds_the_interval_is_taken_over_trials(J):
    """The interval over two folds includes 0.5 in any case; one over sixty trials a fold does not."""
    clear = scored([0.3, 2.0], J=J)
    assert few_folds(clear).count == J
    low = clear.interval()[0][1]
    assert (few_folds(clear).low is None) == (not np.isfinite(low))
    found = recommend(clear, Choice(1, 1, 0.0), None, [subject(100, 200)])
    assert found.verdict == "recommended"
    assert found.few_folds == few_folds(clear)
    noise = recommend(scored([0.0, 0.0], J=J), Choice(1, 1, 0.0), None, [subject(100, 200)])
    assert noise.verdict == "unsure"
    assert noise.chance_level.montage == "best"
    assert noise.few_folds is None
    assert few_folds(scored([2.0], J=3)) is None


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
    assert interval_over_trials(found, 0) == pytest.approx(wanted, abs=1e-9)


def test_the_smallest_montage_within_one_standard_error_is_chosen():
    found = scored([1.2, 1.9, 2.0, 2.05], n=300)
    choice = smallest_near_best(found)
    error = found.error_of_difference(choice.best)
    below = found.mean[choice.best] - found.mean
    assert choice.best == np.argmax(found.mean)
    assert below[choice.chosen] <= error[choice.chosen]
    assert np.all(below[: choice.chosen] > error[: choice.chosen])
    assert choice.standard_error == error[choice.chosen]
    assert choice.chosen >= 1


@pytest.mark.parametrize("J", [2, 5])
def test_noise_is_rarely_recommended(J):
    """Of 200 draws without any effect, with the best of three montages taken, at most one in twenty passes."""
    draws = (scored([0.0, 0.0, 0.0], J=J, seed=seed) for seed in range(200))
    assert sum(recommended(found).verdict == "recommended" for found in draws) <= 10
