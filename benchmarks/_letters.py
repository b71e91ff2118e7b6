"""Letters of one subject of uam-p300: a method trained on some characters spells the others."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mixnorm import GroupSVCCV
from mixnorm.eeg import MATRICES, ChannelScaler, InOrder, Stopping
from mixnorm.eeg.evidence import FlashEvidence, flash_correlation
from mixnorm.eeg.flashes import Flashes, true_symbol
from mixnorm.eeg.spelling import follow
from mixnorm.estimators.calibration import fit_sigmoid
from mixnorm.estimators.settings import SETTINGS
from mixnorm.study.peers import lda, toeplitz_lda

THRESHOLDS = (0.8, 0.9, 0.95, 0.99)
#: Flashes within repetitions, where symbols were lit by different numbers of flashes.
PARTIAL = (6, 18, 30)
#: Bins of the probabilities, for their calibration.
BINS = 10


@dataclass(frozen=True)
class Trained:
    """Scores of test trials, and the calibration from held-out training trials."""

    score: np.ndarray
    evidence: FlashEvidence
    probability: np.ndarray


def load_uam():
    with np.load(Path(os.environ["MIXNORM_DATA"]) / "uam-p300.npz", allow_pickle=False) as bundle:
        names = ("X", "y", "subject", "character", "letter", "stimulus")
        return {name: bundle[name] for name in names}


def held_out(make, X, y, groups):
    """Scores of every trial by a fit that did not see it, on the folds that `GroupSVCCV` uses here."""
    scores = np.empty(len(y))
    for train, test in InOrder().split(X, groups=groups):
        scores[test] = make().fit(X[train], y[train]).decision_function(X[test])
    return scores


def train(method, X, y, groups, codes, tested):
    """Fit a method on training trials; peers are calibrated on the same folds as our own models."""
    if method in SETTINGS:
        model = GroupSVCCV(cv=InOrder(), **SETTINGS[method]).fit(X, y, groups=groups)
        scores, calibration = model.out_of_fold_scores_, model.calibration()
    else:
        folds = list(InOrder().split(X, groups=groups))
        model = (lda if method == "lda" else toeplitz_lda)(folds).fit(X, y)
        best = getattr(model, "best_estimator_", model)
        scores = held_out(lambda: type(best)(**best.get_params()), X, y, groups)
        calibration = fit_sigmoid(scores, np.where(y == 1, 1.0, -1.0), np.ones(len(y)))
    evidence = FlashEvidence.of(calibration, flash_correlation(scores, y, codes, groups), len(np.unique(groups)))
    score = model.decision_function(tested)
    return Trained(score, evidence, calibration.probability(score))


def summed(flashes, speller, count):
    """The symbol with the largest sum of the raw scores of the flashes that lit it."""
    members = speller.members.astype(float)
    places = [speller.codes.index(code) for code in flashes.code[:count].tolist()]
    return speller.symbols[int(np.argmax(flashes.score[:count] @ members[places]))]


def uam_unit(data, subject, seed, size, method, permuted=False):
    """One subject, split, number of training characters and method: results of every spelled character."""
    rng = np.random.default_rng([seed, int.from_bytes(str(subject).encode(), "little")])
    mine = np.flatnonzero(data["subject"] == subject)
    order = rng.permutation(list(dict.fromkeys(data["character"][mine].tolist())))
    half = len(order) // 2
    if size > half:
        return None
    learn, test = (mine[np.isin(data["character"][mine], part)] for part in (order[:size], order[half:]))
    y, codes, groups = (data[name][learn].astype(int) for name in ("y", "stimulus", "character"))
    if permuted:
        y = rng.permutation(y)
    scaler = ChannelScaler().fit(data["X"][learn])
    X, tested = (scaler.transform(data["X"][part]) for part in (learn, test))
    trained = train(method, X, y, groups, codes, tested)
    speller = MATRICES["6x6-rows-first"]
    letters = []
    for character in dict.fromkeys(data["character"][test].tolist()):
        own = data["character"][test] == character
        part = test[own]
        flashes = Flashes(
            data["stimulus"][part].astype(int),
            trained.score[own],
            data["y"][part].astype(int),
            None,
            str(data["letter"][part][0]),
            f"{subject}, {character}",
        )
        letters.append(letter(flashes, speller, trained.evidence))
    truth = data["y"][test].astype(float)
    place = np.minimum((trained.probability * BINS).astype(int), BINS - 1)
    bins = [np.bincount(place, part, BINS) for part in (np.ones(len(test)), trained.probability, truth)]
    return {
        "subject": str(subject),
        "seed": seed,
        "size": size,
        "method": method,
        "letters": letters,
        "bins": np.array(bins),
        "brier": float(np.mean((trained.probability - truth) ** 2)),
        "correlation": trained.evidence.correlation,
    }


def letter(flashes, speller, evidence):
    """What is kept of one spelled character."""
    trace, truth = follow(flashes, speller, evidence), true_symbol(flashes, speller)
    ends = [trace.after(k) for k in range(1, int(trace.repetitions[-1]) + 1)]
    independent = follow(flashes, speller, FlashEvidence(evidence.slope, evidence.offset, 0.0))
    return {
        "posterior": [speller.symbols[trace.first[end]] == truth for end in ends],
        "summed": [summed(flashes, speller, end + 1) == truth for end in ends],
        "probability": [float(trace.probability[end]) for end in ends],
        "partial_posterior": [speller.symbols[trace.first[count - 1]] == truth for count in PARTIAL],
        "partial_summed": [summed(flashes, speller, count) == truth for count in PARTIAL],
        "stops": [stop(trace, speller, truth, threshold) for threshold in THRESHOLDS],
        "independent_stops": [stop(independent, speller, truth, threshold) for threshold in THRESHOLDS],
    }


def posterior_less_sum(one):
    """1 where only the posterior is right, −1 where only the summed scores are, at the numbers in `PARTIAL`."""
    return np.subtract(one["partial_posterior"], one["partial_summed"], dtype=float)


def stop(trace, speller, truth, threshold):
    end, stopped = trace.end(Stopping(threshold))
    return end + 1, bool(stopped), speller.symbols[trace.first[end]] == truth
