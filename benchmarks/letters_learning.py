"""Letters of a decoder that learns while it spells, against the same decoder without learning.

    MIXNORM_DATA=... python benchmarks/letters_learning.py --jobs 16
    MIXNORM_DATA=... python benchmarks/letters_learning.py --jobs 16 --seeds 0 1 --permuted  # training labels permuted

The splits of letters.py: the decoder is trained on 1, 2, 4 or 8 characters of a subject of uam-p300, and spells the
second half of the characters in the order of the recording. Methods:

    svm                  an SVM without learning
    svm-noise            the default of `mixnorm train` without learning
    svm-noise, learning  the same with `LetterLearner`

With learning, a result after k repetitions is that of a run of its own, which spells every character with k
repetitions and learns from these alone. So is the result of stopping at 0.95. Constants were chosen on splits 100 to
107. Brackets are 95 % percentile intervals of 2000 bootstrap samples of subjects. It needs NumPy, SciPy, scikit-learn
and joblib, and writes benchmarks/data/letters_learning.csv.
"""

import argparse
import csv
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
from _letters_statistics import bootstrap, mean_and_interval, table
from joblib import Parallel, delayed
from letters import ROOT

from mixnorm.eeg import (
    MATRICES,
    Decoder,
    Events,
    LetterLearner,
    Preparation,
    Stopping,
    default_classifier,
    read_recording,
    spell,
)

METHODS = ("svm", "svm-noise", "svm-noise, learning")
SIZES = (1, 2, 4, 8)
SHOWN = (1, 2, 5, 10, 15)
THRESHOLD = 0.95
SPELLER = MATRICES["6x6-rows-first"]


def part(recording, keep):
    """Some trials of epochs."""
    events = recording.events
    columns = {name: getattr(events, name)[keep] for name in ("target", "stimulus", "character")}
    about = {name: getattr(recording, name)[keep] for name in ("X", "subject", "session", "letter")}
    return replace(recording, events=Events(np.arange(len(keep)), **columns), **about)


def split(recording, subject, seed, size):
    """Training and test characters of a subject, as in letters.py; None where the subject has too few."""
    rng = np.random.default_rng([seed, int.from_bytes(str(subject).encode(), "little")])
    mine, character = np.flatnonzero(recording.subject == subject), recording.events.character
    order = rng.permutation(list(dict.fromkeys(character[mine].tolist())))
    half = len(order) // 2
    if size > half:
        return None
    return [part(recording, mine[np.isin(character[mine], own)]) for own in (order[:size], order[half:])]


def first_repetitions(recording, count):
    """The first flashes of every code in every character, so many of each."""
    events, seen, keep = recording.events, {}, []
    for place, which in enumerate(zip(events.character.tolist(), events.stimulus.tolist(), strict=True)):
        seen[which] = seen.get(which, 0) + 1
        if seen[which] <= count:
            keep.append(place)
    return part(recording, np.array(keep))


def right_after(spelled):
    """Whether every character is right after so many repetitions, (characters, len(SHOWN)), from one run."""
    return [
        [SPELLER.symbols[one.trace.first[one.trace.after(count)]] == one.true_symbol for count in SHOWN]
        for one in spelled
    ]


def unit(recording, subject, seed, size, permuted=False):
    """Results of all methods for one subject, split and number of training characters, character by character."""
    parts = split(recording, subject, seed, size)
    if parts is None:
        return []
    train, test = parts
    if permuted:
        target = np.random.default_rng(seed).permutation(train.events.target)
        train = replace(train, events=replace(train.events, target=target))
    return [{**run(train, test, method), "subject": str(subject), "size": size} for method in METHODS]


def run(train, test, method):
    """Train on some characters and spell others."""
    classifier = default_classifier(method.removesuffix(", learning"))
    decoder = Decoder.fit(train, Preparation.preset("epochs"), classifier)
    if method.endswith("learning"):

        def spelled(own, stopping):
            return spell(decoder, [own], SPELLER, stopping, learner=LetterLearner(decoder, train))

        runs = [spelled(first_repetitions(test, count), Stopping()) for count in SHOWN]
        right = np.array([[one.symbol == one.true_symbol for one in own] for own in runs]).T
        stops = spelled(test, Stopping(THRESHOLD))
    else:
        stops = spell(decoder, [test], SPELLER, Stopping(THRESHOLD))
        right = right_after(stops)
    return {
        "method": method,
        "right": np.array(right, dtype=float),
        "stops": np.array([(one.n_flashes, one.stopped, one.symbol == one.true_symbol) for one in stops]),
    }


def by_subject(units, key):
    """{subject: results of all its characters}."""
    names = sorted({one["subject"] for one in units})
    return {name: np.concatenate([one[key] for one in units if one["subject"] == name]) for name in names}


def percent(values, digits=0):
    """Cells "mean [low, high]" in percent, one for each number of repetitions."""
    found = zip(*mean_and_interval(values), strict=True)
    return [" [".join((f"{100 * m:.{digits}f}", f"{100 * a:.{digits}f}, {100 * b:.{digits}f}]")) for m, a, b in found]


def stopped(units):
    """Cells: share of letters stopped, right among these with its interval, flashes, right of all."""
    found = by_subject(units, "stops")
    sums = {who: np.array([own[:, 1].sum(), (own[:, 1] * own[:, 2]).sum()]) for who, own in found.items()}

    def share(drawn):
        count, right = sum(sums[who] for who in drawn)
        return right / count if count else None

    names = np.array(sorted(found))
    flashes, stops, right = np.concatenate(list(found.values())).mean(axis=0)
    of_these = "–"
    if stops:
        low, high = bootstrap(names, share)
        of_these = f"{share(names):.3f} [{low:.3f}, {high:.3f}]"
    return f"{stops:.2f}", of_these, f"{flashes:.0f}", f"{100 * right:.0f}"


def by_place(units, base):
    """Cells: letters right after 5 repetitions, less those of base, of test characters 1 and 2, 3 and 4, …"""
    at = SHOWN.index(5)
    pairs = [(one["right"][:, at] - other["right"][:, at]) for one, other in zip(units, base, strict=True)]
    whole = np.array([own for own in pairs if len(own) == 8])
    return [f"{100 * whole[:, k : k + 2].mean():+.1f}" for k in range(0, 8, 2)]


def tables(units):
    """Print all tables; return the rows of the CSV file."""
    parts = {
        (size, method): [one for one in units if one["size"] == size and one["method"] == method]
        for size in SIZES
        for method in METHODS
    }
    parts = {key: own for key, own in parts.items() if own}
    heads = ("training, method", *map(str, SHOWN))
    rows = [(f"{size}, `{method}`", *percent(by_subject(own, "right"))) for (size, method), own in parts.items()]
    table("Letters right by repetitions (percent)", heads, rows)
    rows, places = [], []
    for size in sorted({size for size, _ in parts}):
        ours = by_subject(parts[size, METHODS[-1]], "right")
        for method in METHODS[:-1]:
            base = by_subject(parts[size, method], "right")
            less = {who: ours[who] - base[who] for who in base}
            rows.append((f"{size}, less `{method}`", *percent(less, digits=1)))
        places.append((str(size), *by_place(parts[size, METHODS[-1]], parts[size, METHODS[1]])))
    table("`svm-noise, learning` less others (points)", ("training", *map(str, SHOWN)), rows)
    heads = ("training", "characters 1, 2", "3, 4", "5, 6", "7, 8")
    table("`svm-noise, learning` less `svm-noise` after 5 repetitions, by place in the text", heads, places)
    heads = ("training, method", "stopped", "right of these", "flashes", "right of all, percent")
    rows = [(f"{size}, `{method}`", *stopped(own)) for (size, method), own in parts.items()]
    table(f"Stopping at {THRESHOLD}", heads, rows)
    return [
        (method, size, count, *(round(100 * value, 1) for value in found))
        for (size, method), own in parts.items()
        for count, found in zip(SHOWN, zip(*mean_and_interval(by_subject(own, "right")), strict=True), strict=True)
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(10)))
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--permuted", action="store_true", help="permute the training labels")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "data" / "letters_learning.csv")
    options = parser.parse_args()
    recording = read_recording(Path(os.environ["MIXNORM_DATA"]) / "uam-p300.npz")
    tasks = [
        delayed(unit)(recording, subject, seed, size, options.permuted)
        for size in options.sizes
        for seed in options.seeds
        for subject in np.unique(recording.subject)
    ]
    found = Parallel(n_jobs=options.jobs, verbose=1, max_nbytes="1M")(tasks)
    rows = tables([one for own in found for one in own])
    if options.permuted:
        return
    with options.out.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["method", "training_characters", "repetitions", "right_percent", "low", "high"])
        writer.writerows(rows)


if __name__ == "__main__":
    main()
