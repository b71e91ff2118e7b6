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
SHOWN = (1, 2, 5, 10, 15)
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


# ---- statistics over subjects


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
    return np.percentile([draw for draw in draws if draw is not None], [2.5, 97.5], axis=0)


def mean_and_interval(values):
    """Mean over subjects of their means, and its interval; values: {subject: array}."""
    means = {who: own.mean(axis=0) for who, own in values.items() if len(own)}
    names = np.array(sorted(means))
    low, high = bootstrap(names, lambda drawn: np.mean([means[who] for who in drawn], axis=0))
    return np.mean([means[who] for who in names], axis=0), low, high


def letters_right(units):
    """Rows (how symbols are chosen, by what, its number, percent right, low, high)."""
    rows = []
    for kind in ("summed", "posterior"):
        for key, by, numbers in ((kind, "repetitions", None), (f"partial_{kind}", "flashes", PARTIAL)):
            found = mean_and_interval(by_subject(units, lambda one, key=key: one[key]))
            numbers = numbers or range(1, len(found[0]) + 1)
            rows += [(kind, by, n, *(round(100 * v, 1) for v in own)) for n, own in zip(numbers, zip(*found))]
    return rows


@dataclass(frozen=True)
class Stopped:
    """Stopping at a threshold: share of letters stopped, right among these (interval), flashes, right of all."""

    threshold: float
    stopped: float
    right_if_stopped: float
    low: float
    high: float
    flashes: float
    right: float


def stopping(units, which):
    rows = []
    for place, threshold in enumerate(THRESHOLDS):
        found = by_subject(units, lambda one, place=place: one[which][place])
        sums = {who: np.array([own[:, 1].sum(), (own[:, 1] * own[:, 2]).sum()]) for who, own in found.items()}

        def share(drawn, sums=sums):
            stopped, right = sum(sums[who] for who in drawn)
            return right / stopped if stopped else None

        names = np.array(sorted(found))
        flashes, stopped, right = np.concatenate(list(found.values())).mean(axis=0)
        low, high = bootstrap(names, share) if stopped else (np.nan, np.nan)
        rows.append(Stopped(threshold, stopped, share(names) if stopped else np.nan, low, high, flashes, right))
    return rows


@dataclass(frozen=True)
class Gain:
    """Letters per minute over those of a fixed number of equal accuracy (interval); flashes needed and used."""

    ratio: float
    low: float
    high: float
    accuracy: float
    needed: float
    used: float


def gain(units, threshold, interval, pause):
    place = THRESHOLDS.index(threshold)
    right = by_subject(units, lambda one: one["posterior"])
    stops = by_subject(units, lambda one: one["stops"][place])
    names = np.array(sorted(right))

    def ratio(drawn):
        curve = np.mean([right[who].mean(axis=0) for who in drawn], axis=0)
        curve = np.maximum.accumulate(curve) + 1e-9 * np.arange(len(curve))
        reached = np.mean([stops[who][:, 2].mean() for who in drawn])
        used = np.mean([stops[who][:, 0].mean() for who in drawn])
        # where no fixed number is as good, all flashes are counted, which favours the fixed number
        needed = 12 * np.interp(reached, curve, np.arange(1, len(curve) + 1))
        return (needed * interval + pause) / (used * interval + pause), reached, needed, used

    low, high = bootstrap(names, lambda drawn: ratio(drawn)[0])
    found, reached, needed, used = ratio(names)
    return Gain(found, low, high, reached, needed, used)


def expected_calibration_error(bins):
    n, p, y = bins
    return float(np.sum(np.abs(p - y)) / n.sum())


def letter_bins(units):
    """Counts, probabilities and right letters in bins of the probability, over all numbers of repetitions; Brier."""
    p = np.array([q for unit in units for one in unit["letters"] for q in one["probability"]])
    right = np.array([q for unit in units for one in unit["letters"] for q in one["posterior"]], dtype=float)
    place = np.minimum((p * BINS).astype(int), BINS - 1)
    bins = np.array([np.bincount(place, part, BINS) for part in (np.ones(len(p)), p, right)])
    return bins, float(np.mean((p - right) ** 2))


# ---- tables, as Markdown


def table(title, heads, rows):
    print(f"\n{title}\n\n| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def named(units, methods=METHODS):
    """(name, units) for every number of training characters and method."""
    for size in SIZES:
        for method in methods:
            own = [unit for unit in units if unit["method"] == method and unit["size"] == size]
            if own:
                yield f"{size}, `{method}`", size, method, own


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
    rows, right, partial = [], [], []
    for name, size, method, own in named(units):
        found = letters_right(own)
        rows += [(method, size, *row) for row in found]
        cells = {row[:3]: row[3:] for row in found}
        shown = [cells["posterior", "repetitions", k] for k in SHOWN]
        right.append((name, *(f"{mean:.0f} [{low:.0f}, {high:.0f}]" for mean, low, high in shown)))
        same = all(cells["summed", "repetitions", k] == cells["posterior", "repetitions", k] for k in range(1, 16))
        pairs = [(cells["summed", "flashes", n][0], cells["posterior", "flashes", n][0]) for n in PARTIAL]
        gains = zip(*mean_and_interval(by_subject(own, posterior_less_sum)))
        shown = [
            f"{a:.0f} / {b:.0f} ({100 * mean:+.1f} [{100 * low:.1f}, {100 * high:.1f}])"
            for (a, b), (mean, low, high) in zip(pairs, gains)
        ]
        partial.append((name, *shown, "yes" if same else "no"))
    table("Letters right by repetitions (percent)", ("training, method", *map(str, SHOWN)), right)
    heads = ("training, method", *(f"{n} flashes" for n in PARTIAL), "equal after complete repetitions")
    table("Within repetitions: summed scores / posterior (difference)", heads, partial)
    differences(units)
    calibration_table(units)
    stopping_tables(units)
    write(rows)
    draw(units)


def differences(units):
    parts = {(size, method): own for _, size, method, own in named(units)}
    rows = []
    for size in SIZES:
        base, ours = (by_subject(parts[size, method], lambda one: one["posterior"]) for method in ("svm", "svm-noise"))
        mean, low, high = mean_and_interval({who: ours[who] - base[who] for who in base})
        cells = [f"{100 * mean[k - 1]:.1f} [{100 * low[k - 1]:.1f}, {100 * high[k - 1]:.1f}]" for k in SHOWN]
        rows.append((str(size), *cells))
    table("`svm-noise` less `svm` (points)", ("training", *map(str, SHOWN)), rows)


def calibration_table(units):
    rows = []
    for name, _, _, own in named(units):
        bins, brier = letter_bins(own)
        flashes = expected_calibration_error(sum(unit["bins"] for unit in own))
        cells = flashes, np.mean([unit["brier"] for unit in own]), expected_calibration_error(bins), brier
        rows.append((name, *(f"{value:.3f}" for value in cells), f"{np.mean([u['correlation'] for u in own]):.2f}"))
    heads = ("training, method", "flashes: ECE", "Brier", "letters: ECE", "Brier", "ρ")
    table("Calibration on held-out characters", heads, rows)


def stopping_tables(units):
    rows, gains = [], []
    for name, _, method, own in named(units):
        independent = {one.threshold: one for one in stopping(own, "independent_stops")}
        for one in stopping(own, "stops"):
            plain = independent[one.threshold].right_if_stopped
            share = f"{one.right_if_stopped:.3f} [{one.low:.3f}, {one.high:.3f}]"
            if one.threshold == 0.95 or method == "svm-noise":
                where = f"{name}, {one.threshold}"
                rows.append((where, f"{one.stopped:.2f}", share, f"{one.flashes:.0f}", f"{plain:.3f}"))
        for pause in (0.0, PAUSE):
            one = gain(own, 0.95, INTERVAL, pause)
            share, span = f"{100 * one.accuracy:.0f} %", f"{one.ratio:.2f} [{one.low:.2f}, {one.high:.2f}]"
            gains.append((f"{name}, pause {pause} s", share, f"{one.needed:.0f}", f"{one.used:.0f}", span))
    heads = ("training, method, threshold", "stopped", "right of these", "flashes", "right, independent flashes")
    table("Stopping", heads, rows)
    heads = (
        "training, method",
        "letters right",
        "flashes, fixed",
        "flashes, stopped at 0.95",
        "letters per minute, ratio",
    )
    table(f"Stopping at 0.95 against a fixed number of equal accuracy, flash interval {INTERVAL} s", heads, gains)


def write(rows):
    with (ROOT / "benchmarks" / "data" / "letters.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            ["method", "training_characters", "chosen_by", "after", "number", "right_percent", "low", "high"]
        )
        writer.writerows(rows)


def draw(units):
    """Reliability of flash probabilities and of letter probabilities, svm-noise, by training characters."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("\nno figure: matplotlib is not installed")
        return
    figure = Figure(figsize=(8, 4), layout="constrained")
    for axes, title in zip(figure.subplots(1, 2), ("Flashes", "Letters, after 1 to 15 repetitions")):
        axes.plot([0, 1], [0, 1], color="#bbbbbb", linewidth=1)
        for (_, size, _, own), color in zip(
            named(units, ("svm-noise",)), ("#E69F00", "#56B4E9", "#009E73", "#000000")
        ):
            n, p, y = sum(unit["bins"] for unit in own) if title == "Flashes" else letter_bins(own)[0]
            used = n > 20
            label = f"{size} training character{'s' * (size > 1)}"
            axes.plot(p[used] / n[used], y[used] / n[used], "o-", color=color, markersize=4, label=label)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("probability given", fontsize=9)
        axes.set_ylabel("share that is a target" if title == "Flashes" else "share that is right", fontsize=9)
        axes.legend(frameon=False, fontsize=8)
    figure.savefig(ROOT / "docs" / "letters-calibration.png", dpi=110)


def permuted(options):
    """Permuted labels: a posterior that keeps its promises reaches P in at most chance/P of the characters."""
    methods = ("svm", "svm-noise")
    units = run_units(load_uam(), options.seeds, methods, SIZES, options.jobs, permuted=True)
    rows = []
    for name, _, _, own in named(units, methods):
        right = np.mean([one["posterior"][-1] for unit in own for one in unit["letters"]])
        reached = [f"{one.stopped:.4f}" for one in stopping(own, "stops")]
        rows.append((name, f"{right:.3f}", *reached))
    rows.append(("at most", f"{1 / 36:.3f}", *(f"{1 / 36 / threshold:.4f}" for threshold in THRESHOLDS)))
    heads = ("training, method", "right", *(f"reached {threshold}" for threshold in THRESHOLDS))
    table("Permuted training labels", heads, rows)


def words(options):
    """Each run of BCI Competition II, data set IIb, spelled by a decoder of the other two."""
    folder = Path(os.environ["MIXNORM_DATA"]) / "bcicomp2-iib"
    runs = read_recordings(*(folder / f"{name}.mat" for name in RUNS))
    speller, rows, speeds = MATRICES["6x6"], [], []
    for method in ("svm", "gsvm-2", "svm-noise"):
        everything, texts = [], []
        for place in range(len(RUNS)):
            others = [run for k, run in enumerate(runs) if k != place]
            found = spell(Decoder.fit(others, classifier=default_classifier(method)), [runs[place]], speller)
            everything += found
            texts.append("".join(one.symbol for one in found))
        counts = [round(9 * share) for share in accuracy_by_repetition(everything, speller)]
        rows.append((f"`{method}`", *texts, " ".join(map(str, counts))))
        timing = Timing.of([one.flashes for one in everything])
        for threshold in THRESHOLDS:
            one = rates(everything, speller, Stopping(threshold), timing)
            cells = f"{9 * one.right:.0f}", f"{one.n_flashes:.0f}", f"{one.letters_per_minute:.2f}"
            speeds.append((f"`{method}`, {threshold}", *cells))
    table("Words", ("method", *RUNS, "right of 9 after 1 … 15 repetitions"), rows)
    table("Stopping", ("method, threshold", "right of 9", "flashes", "letters per minute"), speeds)


def simulated_unit(seed, amplitude):
    """Four characters to train on and twenty to spell, of the simulated speller; 10 repetitions, 250 ms."""
    shape = {"n_channels": 8, "n_informative": 4, "amplitude": amplitude}
    decoder = Decoder.fit(simulated_recording(480, seed=2 * seed, **shape))
    spelled = spell(decoder, [simulated_recording(2400, seed=2 * seed + 1, **shape)], MATRICES["6x6"])
    return {"subject": seed, "letters": [letter(one.flashes, MATRICES["6x6"], decoder.evidence) for one in spelled]}


def simulated(options):
    curves, rows = [], []
    for amplitude in (4.0, 6.0, 8.0):
        units = Parallel(n_jobs=options.jobs)(delayed(simulated_unit)(seed, amplitude) for seed in range(20))
        curve = mean_and_interval(by_subject(units, lambda one: one["posterior"]))[0]
        curves.append((f"{amplitude:g} µV", *(f"{100 * curve[k - 1]:.0f}" for k in (1, 2, 3, 5, 10))))
        for one in stopping(units, "stops"):
            share = f"{one.right_if_stopped:.3f} [{one.low:.3f}, {one.high:.3f}]"
            faster = gain(units, one.threshold, 0.25, 2.0)
            ratio = f"{faster.ratio:.2f} [{faster.low:.2f}, {faster.high:.2f}]"
            where = f"{amplitude:g} µV, {one.threshold}"
            rows.append((where, f"{one.stopped:.2f}", share, f"{one.flashes:.0f}", f"{faster.needed:.0f}", ratio))
    table("Simulated speller: letters right (percent)", ("amplitude", *("1", "2", "3", "5", "10")), curves)
    heads = (
        "amplitude, threshold",
        "stopped",
        "right of these",
        "flashes",
        "fixed number",
        "letters per minute, ratio",
    )
    table("Stopping, flash interval 0.25 s, pause 2 s", heads, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["uam", "permuted", "words", "simulated"])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(10)))
    options = parser.parse_args()
    {"uam": uam, "permuted": permuted, "words": words, "simulated": simulated}[options.what](options)


if __name__ == "__main__":
    main()
