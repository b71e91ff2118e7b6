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
from pathlib import Path

import numpy as np
from _letters import PARTIAL, THRESHOLDS, letter, load_uam, posterior_less_sum, uam_unit
from _letters_statistics import (
    by_subject,
    expected_calibration_error,
    gain,
    letter_bins,
    letters_right,
    mean_and_interval,
    stopping,
    table,
)
from joblib import Parallel, delayed

from mixnorm.eeg import (
    MATRICES,
    Decoder,
    Stopping,
    default_classifier,
    read_recordings,
    simulated_recording,
    spell,
)
from mixnorm.eeg.spelling_rates import Timing, accuracy_by_repetition, rates

ROOT = Path(__file__).parents[1]
METHODS = ("svm", "gsvm-2", "svm-noise", "lda", "toeplitz-lda")
SIZES = (1, 2, 4, 8)
SHOWN = (1, 2, 5, 10, 15)
#: Seconds between flashes and between characters that speeds are stated for; the bundle has no times.
INTERVAL, PAUSE = 0.175, 2.5
RUNS = ("AAS010R01", "AAS011R01", "AAS011R02")


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
