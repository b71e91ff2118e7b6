"""Letters: how many are right, how honest their probabilities are, and what stopping early gains.

    MIXNORM_DATA=... python benchmarks/letters.py uam --jobs 16          # training on 1, 2, 4 and 8 characters
    MIXNORM_DATA=... python benchmarks/letters.py permuted --jobs 16     # the same with permuted training labels
    MIXNORM_DATA=... python benchmarks/letters.py words                  # BCI Competition II, data set IIb
    python benchmarks/letters.py simulated --jobs 16                     # a simulated speller

A split of uam-p300 divides the characters of a subject into two halves: training characters are drawn from the first,
and all of the second are spelled. Scaling, classifier, calibration and correlation of flashes see training characters
only. Constants were chosen on splits 100 to 107; the default splits, 0 to 9, had no part in it. Intervals are 95 %
percentile intervals of 2000 bootstrap samples of subjects. `uam` writes benchmarks/data/letters.csv and, with
matplotlib, docs/letters-calibration.png.
"""

import argparse
import csv
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from mixnorm import GroupSVCCV
from mixnorm.eeg import (
    MATRICES,
    ChannelScaler,
    Decoder,
    InOrder,
    Stopping,
    default_classifier,
    read_recordings,
    simulated_recording,
    spell,
)
from mixnorm.eeg.evidence import FlashEvidence, flash_correlation
from mixnorm.eeg.spelling import Flashes, follow, true_symbol
from mixnorm.eeg.spelling_rates import Timing, accuracy_by_repetition, rates
from mixnorm.estimators.calibration import fit_sigmoid
from mixnorm.estimators.settings import SETTINGS
from mixnorm.study.peers import lda, toeplitz_lda

ROOT = Path(__file__).parents[1]
METHODS = ("svm", "gsvm-2", "svm-noise", "lda", "toeplitz-lda")
SIZES = (1, 2, 4, 8)
THRESHOLDS = (0.8, 0.9, 0.95, 0.99)
#: Flashes within repetitions, where symbols were lit by different numbers of flashes.
PARTIAL = (6, 18, 30)
BINS = 10
#: Seconds between flashes and between characters that speeds are stated for; the bundle has no times.
INTERVAL, PAUSE = 0.175, 2.5
RUNS = ("AAS010R01", "AAS011R01", "AAS011R02")


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
    evidence = FlashEvidence.of(calibration, flash_correlation(scores, y, codes, groups))
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


def stop(trace, speller, truth, threshold):
    end, stopped = trace.end(Stopping(threshold))
    return end + 1, bool(stopped), speller.symbols[trace.first[end]] == truth


# ---- tables


def by_subject(units, value):
    """{subject: values of all its letters}."""
    found = {}
    for unit in units:
        found.setdefault(unit["subject"], []).extend(value(one) for one in unit["letters"])
    return {who: np.array(values, dtype=float) for who, values in found.items()}


def bootstrap(subjects, statistic, count=2000):
    """95 % interval of a statistic of a list of subjects, which are drawn with replacement."""
    rng = np.random.default_rng(0)
    draws = [statistic(rng.choice(subjects, len(subjects))) for _ in range(count)]
    draws = np.array([draw for draw in draws if draw is not None and np.all(np.isfinite(draw))])
    return np.percentile(draws, [2.5, 97.5], axis=0)


def mean_and_interval(values):
    """Mean over subjects of their means, and its interval; values: {subject: array}."""
    means = {who: own.mean(axis=0) for who, own in values.items() if len(own)}
    names = np.array(sorted(means))
    low, high = bootstrap(names, lambda drawn: np.mean([means[who] for who in drawn], axis=0))
    return np.mean([means[who] for who in names], axis=0), low, high


def repetition_rows(units):
    rows = []
    for kind in ("summed", "posterior"):
        mean, low, high = mean_and_interval(by_subject(units, lambda one, kind=kind: one[kind]))
        rows += [(kind, k + 1, *np.round(100 * np.array(v), 2)) for k, v in enumerate(zip(mean, low, high))]
        part = f"partial_{kind}"
        mean, low, high = mean_and_interval(by_subject(units, lambda one, part=part: one[part]))
        rows += [
            (f"{kind}, flashes", n, *np.round(100 * np.array(v), 2)) for n, v in zip(PARTIAL, zip(mean, low, high))
        ]
    return rows


def stop_rows(units, which):
    """For every threshold: share stopped, right among these with its interval, mean flashes, right of all."""
    rows = []
    for place, threshold in enumerate(THRESHOLDS):
        found = by_subject(units, lambda one, place=place: one[which][place])
        names = np.array(sorted(found))

        sums = {who: np.array([own[:, 1].sum(), (own[:, 1] * own[:, 2]).sum()]) for who, own in found.items()}

        def share(drawn, sums=sums):
            stopped, right = sum(sums[who] for who in drawn)
            return right / stopped if stopped else None

        everything = np.concatenate(list(found.values()))
        flashes, stopped, right = everything.mean(axis=0)
        low, high = bootstrap(names, share) if stopped else (np.nan, np.nan)
        rows.append((threshold, stopped, share(names) if stopped else np.nan, low, high, flashes, right))
    return rows


def gain(units, threshold, pause):
    """Letters per minute of stopping at a threshold, over those of the fixed number of equal accuracy; interval."""
    place = THRESHOLDS.index(threshold)
    right = by_subject(units, lambda one: one["posterior"])
    stops = by_subject(units, lambda one: one["stops"][place])
    names = np.array(sorted(right))

    def ratio(drawn):
        curve = np.mean([right[who].mean(axis=0) for who in drawn], axis=0)
        curve = np.maximum.accumulate(curve) + 1e-9 * np.arange(len(curve))
        reached = np.mean([stops[who][:, 2].mean() for who in drawn])
        flashes = np.mean([stops[who][:, 0].mean() for who in drawn])
        if reached > curve[-1]:
            needed = 12.0 * len(curve)  # no fixed number is as good: all flashes, which favours the fixed number
        else:
            needed = 12 * np.interp(reached, curve, np.arange(1, len(curve) + 1))
        return (needed * INTERVAL + pause) / (flashes * INTERVAL + pause), reached, needed, flashes

    low, high = bootstrap(names, lambda drawn: ratio(drawn)[0])
    return (*ratio(names), low, high)


def expected_calibration_error(bins):
    n, p, y = bins
    used = n > 0
    return float(np.sum(np.abs(p[used] - y[used])) / n.sum())


def letter_bins(units):
    """Counts, probabilities and right letters in bins of the probability, over all numbers of repetitions."""
    p = np.array([q for unit in units for one in unit["letters"] for q in one["probability"]])
    right = np.array([q for unit in units for one in unit["letters"] for q in one["posterior"]], dtype=float)
    place = np.minimum((p * BINS).astype(int), BINS - 1)
    bins = np.array([np.bincount(place, part, BINS) for part in (np.ones(len(p)), p, right)])
    return bins, float(np.mean((p - right) ** 2))


def select(units, method, size):
    return [unit for unit in units if unit["method"] == method and unit["size"] == size]


def run_units(data, seeds, methods, sizes, jobs, permuted=False):
    tasks = [
        delayed(uam_unit)(data, subject, seed, size, method, permuted)
        for seed in seeds
        for subject in np.unique(data["subject"])
        for size in sizes
        for method in methods
    ]
    return [unit for unit in Parallel(n_jobs=jobs, verbose=1, max_nbytes="1M")(tasks) if unit is not None]


def uam(options):
    units = run_units(load_uam(), options.seeds, METHODS, SIZES, options.jobs)
    rows = []
    for size in SIZES:
        print(f"\n== trained on {size} characters: letters right in percent after 1, 2, 3, 5, 10, 15 repetitions")
        for method in METHODS:
            own = select(units, method, size)
            found = repetition_rows(own)
            rows += [(method, size, *row) for row in found]
            for kind in ("summed", "posterior"):
                table = {row[1]: row for row in found if row[0] == kind}
                print(
                    f"{method:13s} {kind:10s}",
                    *(f"{table[k][2]:5.1f} [{table[k][3]:.1f}, {table[k][4]:.1f}]" for k in (1, 2, 3, 5, 10, 15)),
                )
            table = {(row[0], row[1]): row for row in found}
            print(
                " " * 13,
                "after 6, 18, 30 flashes: summed",
                *(table["summed, flashes", n][2] for n in PARTIAL),
                "posterior",
                *(table["posterior, flashes", n][2] for n in PARTIAL),
            )
        base, ours = (
            by_subject(select(units, name, size), lambda one: one["posterior"][4]) for name in ("svm", "svm-noise")
        )
        mean, low, high = mean_and_interval({who: ours[who] - base[who] for who in base})
        print(f"svm-noise − svm after 5 repetitions: {100 * mean:.1f} points [{100 * low:.1f}, {100 * high:.1f}]")
    for method in METHODS:
        for size in SIZES:
            own = select(units, method, size)
            bins, brier = letter_bins(own)
            flashes = sum(unit["bins"] for unit in own)
            print(
                f"\n== {method}, {size} characters: flash ECE {expected_calibration_error(flashes):.4f} Brier {np.mean([u['brier'] for u in own]):.4f}; letter ECE {expected_calibration_error(bins):.4f} Brier {brier:.4f}; correlation {np.mean([u['correlation'] for u in own]):.3f}"
            )
            for which in ("stops", "independent_stops"):
                for row in stop_rows(own, which):
                    print(
                        f"   {which:17s} {row[0]:.2f}: stopped {row[1]:.3f}, right among them {row[2]:.3f} [{row[3]:.3f}, {row[4]:.3f}], flashes {row[5]:.1f}, right of all {row[6]:.3f}"
                    )
            for threshold in (0.9, 0.95):
                for pause in (0.0, PAUSE):
                    ratio, reached, needed, used, low, high = gain(own, threshold, pause)
                    print(
                        f"   letters per minute, stop at {threshold}, interval {INTERVAL} s, pause {pause} s: {ratio:.2f} [{low:.2f}, {high:.2f}] times a fixed number of equal accuracy ({100 * reached:.1f} %: {needed:.0f} flashes, stopped after {used:.0f})"
                    )
    write(rows, units)


def write(rows, units):
    path = ROOT / "benchmarks" / "data" / "letters.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["method", "training_characters", "by", "number", "right_percent", "low", "high"])
        writer.writerows(rows)
    try:
        draw(units)
    except ImportError:
        print("no figure: matplotlib is not installed")


def draw(units):
    """Reliability of flash probabilities and of letter probabilities, svm-noise, by training characters."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    for axes, title in zip(figure.subplots(1, 2), ("Flashes", "Letters, after 1 to 15 repetitions")):
        axes.plot([0, 1], [0, 1], color="#bbbbbb", linewidth=1)
        for size, color in zip(SIZES, ("#E69F00", "#56B4E9", "#009E73", "#000000")):
            own = select(units, "svm-noise", size)
            n, p, y = sum(unit["bins"] for unit in own) if title == "Flashes" else letter_bins(own)[0]
            used = n > 20
            axes.plot(
                p[used] / n[used],
                y[used] / n[used],
                "o-",
                color=color,
                markersize=4,
                label=f"{size} training characters",
            )
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("probability given", fontsize=9)
        axes.set_ylabel("share that is a target" if title == "Flashes" else "share that is right", fontsize=9)
        axes.legend(frameon=False, fontsize=8)
    figure.savefig(ROOT / "docs" / "letters-calibration.png", dpi=110)


def permuted(options):
    """Permuted labels: a symbol reaches a probability P in at most chance/P of the characters, at any one time."""
    units = run_units(load_uam(), options.seeds, ("svm", "svm-noise"), SIZES, options.jobs, permuted=True)
    for method in ("svm", "svm-noise"):
        for size in SIZES:
            own = select(units, method, size)
            count = sum(len(unit["letters"]) for unit in own)
            parts = [f"{row[0]:.2f}: {row[1]:.4f} (at most {1 / 36 / row[0]:.4f})" for row in stop_rows(own, "stops")]
            print(
                f"{method:10s} {size} characters, {count} letters: right {np.mean([l['posterior'][-1] for u in own for l in u['letters']]):.3f}, reached",
                *parts,
            )


def words(options):
    """Each run of BCI Competition II, data set IIb, spelled by a decoder of the other two."""
    folder = Path(os.environ["MIXNORM_DATA"]) / "bcicomp2-iib"
    runs = read_recordings(*(folder / f"{name}.mat" for name in RUNS))
    speller = MATRICES["6x6"]
    for method in ("svm", "gsvm-2", "svm-noise"):
        everything = []
        for place, name in enumerate(RUNS):
            decoder = Decoder.fit(
                [run for k, run in enumerate(runs) if k != place], classifier=default_classifier(method)
            )
            found = spell(decoder, [runs[place]], speller)
            everything += found
            print(
                f"{method:10s} {name} {''.join(one.symbol for one in found)} (true {''.join(one.true_symbol for one in found)})",
                [round(one.probability, 3) for one in found],
            )
        print(
            f"{method:10s} right of 9 by repetitions",
            [round(9 * share) for share in accuracy_by_repetition(everything, speller)],
        )
        timing = Timing.of([one.flashes for one in everything])
        for threshold in THRESHOLDS:
            one = rates(everything, speller, Stopping(threshold), timing)
            print(
                f"   stop at {threshold}: right {9 * one.right:.0f} of 9, flashes {one.n_flashes:.0f}, letters per minute {one.letters_per_minute:.2f}"
            )


def simulated_unit(seed, amplitude):
    """Four characters to train on and twenty to spell, of the simulated speller; 10 repetitions, 250 ms."""
    first, second = (
        simulated_recording(n, n_channels=8, n_informative=4, amplitude=amplitude, seed=s)
        for n, s in ((480, 2 * seed), (2400, 2 * seed + 1))
    )
    decoder = Decoder.fit(first)
    speller = MATRICES["6x6"]
    letters = []
    for one in spell(decoder, [second], speller):
        letters.append(letter(one.flashes, speller, decoder.evidence))
    return {"subject": seed, "letters": letters}


def simulated(options):
    global INTERVAL
    INTERVAL = 0.25
    for amplitude in (4.0, 6.0, 8.0):
        units = Parallel(n_jobs=options.jobs)(delayed(simulated_unit)(seed, amplitude) for seed in range(20))
        curve = mean_and_interval(by_subject(units, lambda one: one["posterior"]))[0]
        print(
            f"amplitude {amplitude} µV: right after 1, 2, 3, 5, 10 repetitions",
            [round(100 * curve[k - 1], 1) for k in (1, 2, 3, 5, 10)],
        )
        for row in stop_rows(units, "stops"):
            print(
                f"   stop at {row[0]:.2f}: stopped {row[1]:.3f}, right among them {row[2]:.3f} [{row[3]:.3f}, {row[4]:.3f}], flashes {row[5]:.1f}"
            )
        for threshold in (0.9, 0.95):
            ratio, reached, needed, used, low, high = gain(units, threshold, 2.0)
            print(
                f"   letters per minute, stop at {threshold}, interval 0.25 s, pause 2 s: {ratio:.2f} [{low:.2f}, {high:.2f}] times a fixed number ({100 * reached:.1f} %: {needed:.0f} flashes, stopped after {used:.0f})"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["uam", "permuted", "words", "simulated"])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(10)))
    options = parser.parse_args()
    {"uam": uam, "permuted": permuted, "words": words, "simulated": simulated}[options.what](options)


if __name__ == "__main__":
    main()
