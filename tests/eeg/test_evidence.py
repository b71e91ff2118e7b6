"""Posteriors against the enumeration of all symbols with densities of all scores, for every kind of code set."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from mixnorm.eeg import MATRICES, FlashEvidence, LetterPrior, Posterior, Speller
from mixnorm.eeg.evidence import USUAL_CHARACTERS, USUAL_CORRELATION, flash_correlation
from mixnorm.estimators.calibration import Calibration, fit_sigmoid

MEANS, SIGMA = (-0.9, 0.4), 0.8


def evidence(correlation, sigma=SIGMA):
    """Of normal scores with known means and variance, by the formula in the module."""
    low, high = MEANS
    slope = (high - low) / sigma**2
    return FlashEvidence(slope, -slope * (low + high) / 2, correlation)


def enumerated(speller, codes, scores, correlation, prior):
    """P(symbol) from the joint normal density of all scores under each symbol; lost scores (NaN) do not exist."""
    codes, scores = np.array(codes), np.array(scores, dtype=float)
    kept = np.isfinite(scores)
    codes, scores = codes[kept], scores[kept]
    if not len(codes):
        return np.array(prior)
    same = codes[:, None] == codes[None]
    cov = SIGMA**2 * (correlation * same + (1 - correlation) * np.eye(len(codes)))
    lit = {code: set(own) for code, own in zip(speller.codes, speller.sets, strict=True)}
    joint = []
    for symbol, before in zip(speller.symbols, prior, strict=True):
        mean = [MEANS[symbol in lit[code]] for code in codes.tolist()]
        joint.append(before * multivariate_normal(mean, cov).pdf(scores))
    return np.array(joint) / np.sum(joint)


SPELLERS = {
    "2x2": Speller.of_matrix(["AB", "CD"], rows=[1, 2], columns=[3, 4]),
    "single": Speller.of_codes({5: "A", 6: "B", 9: "C"}),
    "checkerboard": Speller.of_codes({1: "AD", 2: "BC", 3: "AB", 4: "CD", 5: "ABC"}),
    "one symbol never lit": Speller.of_codes({1: "A", 2: "B"}, symbols="ABC"),
}


@pytest.mark.parametrize("speller", SPELLERS.values(), ids=SPELLERS)
@pytest.mark.parametrize("correlation", [0.0, 0.3])
def test_posteriors_are_those_of_enumeration(speller, correlation):
    rng = np.random.default_rng(3)
    n = len(speller.codes)
    sequences = {
        "complete": list(speller.codes) * 2,
        "incomplete": (list(speller.codes) * 2)[: n + 1],
        "repeated": [speller.codes[0]] * 3 + [speller.codes[1]],
        "missing": list(speller.codes[1:]) * 2,
        "none": [],
    }
    for codes in sequences.values():
        scores = rng.standard_normal(len(codes)).tolist()
        if len(codes) > 2:
            scores[1] = np.nan
        for prior in (None, rng.dirichlet(np.ones(len(speller.symbols)))):
            posterior = Posterior(speller, evidence(correlation), prior)
            for code, score in zip(codes, scores, strict=True):
                posterior.add(code, score)
            full = np.full(len(speller.symbols), 1 / len(speller.symbols)) if prior is None else prior
            expected = enumerated(speller, codes, scores, correlation, full)
            assert posterior.probabilities == pytest.approx(expected, abs=1e-12)


def test_repetitions_are_complete_when_every_code_was_shown():
    posterior = Posterior(SPELLERS["2x2"], evidence(0.0))
    counts = []
    for code in (1, 2, 3, 3, 4, 2, 1, 4):
        posterior.add(code, 0.0)
        counts.append(posterior.repetitions())
    assert counts == [0, 0, 0, 0, 1, 1, 1, 2]
    assert posterior.repetitions(frozenset({3, 1})) == 2


def test_extreme_scores_do_not_overflow():
    posterior = Posterior(SPELLERS["2x2"], FlashEvidence(1e3, 0.0))
    for code, score in ((1, 50.0), (3, -50.0), (4, 50.0)):
        posterior.add(code, score)
    assert posterior.probabilities.tolist() == [0.0, 1.0, 0.0, 0.0]


def test_the_sigmoid_of_normal_scores_is_their_ratio():
    # P(target | s) = sigmoid(slope s + intercept): the ratio is its odds over the odds of the classes
    calibration = Calibration(slope=2.0, intercept=-1.0, slope_error=0.0, log_odds=-1.5)
    found = FlashEvidence.of(calibration, 0.1)
    odds = np.exp(2.0 * 0.7 - 1.0)
    assert found.log_ratio(0.7) == pytest.approx(np.log(odds / np.exp(-1.5)))
    assert found.correlation == 0.1


def test_an_uncertain_slope_counts_less_and_a_chance_slope_nothing():
    sure, unsure = (FlashEvidence.of(Calibration(2.0, -1.0, error, -1.5), 0.0) for error in (0.0, 1.0))
    assert unsure.slope == pytest.approx(0.75 * sure.slope)
    assert unsure.offset == pytest.approx(0.75 * sure.offset)
    for slope in (1.0, -3.0):
        chance = FlashEvidence.of(Calibration(slope, 0.3, 1.2, -1.5), 0.0)
        assert chance.slope == pytest.approx(0.05 * 1.2)
    assert FlashEvidence.of(Calibration(0.0, 0.3, np.inf, -1.5), 0.0) == FlashEvidence(0.0, 0.0, 0.0)


def test_few_characters_count_less_than_their_flashes():
    calibration = Calibration(2.0, -1.0, 0.0, -1.5)
    many, one, four = (FlashEvidence.of(calibration, 0.0, n) for n in (None, 1, 4))
    assert one.slope == pytest.approx(many.slope / 1.5)
    assert four.offset == pytest.approx(many.offset * 4 / 4.5)


def grouped_scores(rho, n_characters, rng, repetitions=15):
    code = np.tile(np.arange(1, 13), repetitions * n_characters)
    character = np.repeat(np.arange(n_characters), 12 * repetitions)
    target = np.isin(code, (2, 9)).astype(int)
    shared = rng.standard_normal((n_characters, 13))[character, code]
    scores = 1.2 * target + np.sqrt(rho) * shared + np.sqrt(1 - rho) * rng.standard_normal(len(code))
    return scores, target, code, character


@pytest.mark.parametrize("rho", [0.0, 0.15])
def test_the_correlation_of_flashes_is_recovered(rho):
    rng = np.random.default_rng(0)
    n = 60
    scores, target, code, character = grouped_scores(rho, n, rng)
    found = flash_correlation(scores, target, code, character)
    shrunk = (n * rho + USUAL_CHARACTERS * USUAL_CORRELATION) / (n + USUAL_CHARACTERS)
    assert found == pytest.approx(shrunk, abs=0.02)
    # one character: mostly the usual value
    one = flash_correlation(*(part[:180] for part in (scores, target, code, character)))
    assert 0 <= one < 0.25


def test_the_correlation_is_that_of_a_table_of_sums_of_squares():
    rng = np.random.default_rng(1)
    scores, target, code, character = grouped_scores(0.4, 2, rng, repetitions=2)
    kept = np.arange(len(scores)) != 5  # groups of different sizes
    scores, target, code, character = (part[kept] for part in (scores, target, code, character))
    centred = [s - scores[target == t].mean() for s, t in zip(scores, target, strict=True)]
    groups = {}
    for s, c, k in zip(centred, code, character, strict=True):
        groups.setdefault((k, c), []).append(s)
    n, k = len(scores), len(groups)
    between = sum(len(own) * np.mean(own) ** 2 for own in groups.values()) / (k - 2)
    within = sum(sum((s - np.mean(own)) ** 2 for s in own) for own in groups.values()) / (n - k)
    size = (n - sum(len(own) ** 2 for own in groups.values()) / n) / (k - 1)
    share = (between - within) / (between + (size - 1) * within)
    expected = (2 * share + USUAL_CHARACTERS * USUAL_CORRELATION) / (2 + USUAL_CHARACTERS)
    assert flash_correlation(scores, target, code, character) == pytest.approx(expected)


def test_a_threshold_is_honest_when_flashes_are_correlated():
    """Scores drawn from the model itself, with ρ = 0.2: the share right among letters stopped at 0.9 is 0.9 or more."""
    rng, sigma = np.random.default_rng(4), 2.0
    speller, rho = Speller.of_matrix(["ABC", "DEF", "GHI"], rows=[1, 2, 3], columns=[4, 5, 6]), 0.2
    members = speller.members
    right = {0.0: [], rho: []}
    for _ in range(300):
        true = rng.integers(9)
        shared = np.sqrt(rho) * rng.standard_normal(6)
        order = np.concatenate([rng.permutation(6) for _ in range(15)])
        means = np.where(members[order, true], MEANS[1], MEANS[0])
        scores = means + sigma * (shared[order] + np.sqrt(1 - rho) * rng.standard_normal(len(order)))
        for assumed, found in right.items():
            posterior = Posterior(speller, evidence(assumed, sigma))
            for place, score in zip(order.tolist(), scores, strict=True):
                posterior.add(speller.codes[place], score)
                shares = posterior.probabilities
                if shares.max() >= 0.9:
                    found.append(shares.argmax() == true)
                    break
    error = np.sqrt(0.9 * 0.1 / len(right[rho]))
    assert np.mean(right[rho]) > 0.9 - 2 * error
    assert np.mean(right[0.0]) < 0.9 - 2 * error  # independent flashes promise too much


def test_scores_without_information_hardly_ever_make_a_symbol_probable():
    rng = np.random.default_rng(2)
    speller, reached = MATRICES["6x6"], 0
    codes = [int(code) for _ in range(15) for code in rng.permutation(12) + 1]
    signs = np.where(np.isin(codes, (2, 9)), 1.0, -1.0)
    n_draws = 150
    for _ in range(n_draws):
        calibration = fit_sigmoid(rng.standard_normal(180), signs, np.ones(180))
        posterior = Posterior(speller, FlashEvidence.of(calibration, 0.0))
        for code, score in zip(codes, rng.standard_normal(180), strict=True):
            posterior.add(code, score)
            if posterior.probabilities.max() >= 0.95:
                reached += 1
                break
    # a posterior that keeps its promises reaches P in at most chance/P of the characters
    assert reached / n_draws <= 1 / 36 / 0.95


def test_the_usual_correlation_where_there_is_nothing_to_estimate_from():
    scores, target = np.zeros(6), np.array([0, 1, 0, 0, 1, 0])
    unknown = np.full(6, -1)
    assert flash_correlation(scores, target, unknown, unknown) == USUAL_CORRELATION
    assert flash_correlation(scores, target, np.arange(6), np.zeros(6, dtype=int)) == USUAL_CORRELATION


def test_letter_probabilities_are_witten_and_bells():
    prior = LetterPrior("abab ac", "ABC_", order=2)
    # followers of A: B twice, C once (2 kinds of 3); of all: a 3, b 2, c 1, space 1 (4 kinds of 7)
    uniform = np.full(4, 0.25)
    single = (np.array([3, 2, 1, 1]) + 4 * uniform) / (7 + 4)
    assert prior.probabilities([]) == pytest.approx(single)
    assert prior.probabilities(["B", "A"]) == pytest.approx((np.array([0, 2, 1, 0]) + 2 * single) / (3 + 2))
    assert prior.probabilities(["C"]) == pytest.approx(single)  # C was always the last
    for before in ([], ["A"], ["_"], ["C", "C"]):
        assert prior.probabilities(before).sum() == pytest.approx(1)
        assert (prior.probabilities(before) > 0).all()
