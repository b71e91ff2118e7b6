"""Which electrodes: our montages against those that other methods choose, on the same folds, and what was promised.

    MIXNORM_DATA=... python benchmarks/electrodes.py orders --jobs 16
    MIXNORM_DATA=... python benchmarks/electrodes.py orders ner2015-errp --seed 100 --splits 3 --candidates
    MIXNORM_DATA=... python benchmarks/electrodes.py recommended --jobs 16
    python benchmarks/electrodes.py tables orders.csv recommended.csv
    python benchmarks/electrodes.py simulated --sets 60 --jobs 16
    python benchmarks/electrodes.py permutations --sets 500 --jobs 16
    python benchmarks/electrodes.py stability --sets 200
    python benchmarks/electrodes.py time
    python benchmarks/electrodes.py sequential

`orders` and `recommended` take the names of data sets, by default all of them: ``uam-p300:100`` learns from the first
100 training trials of a fold. Every order is found on the training trials of a fold alone; decoders are fitted on its
first K electrodes and scored on the held-out trials: the decoder of the package ("our refit") and the one that belongs
to the order ("own refit"). The folds are sessions, runs or characters. With ``--seed`` there are random splits
instead, one for each of ``--splits`` seeds, with half of the sessions or characters for training (development: the
order was chosen with seeds from 100). NumPy, SciPy and scikit-learn are enough; pyRiemann is left out where it is not
installed. Rows go to ``--out`` as CSV as soon as a fold is finished, and `tables` prints the tables of such files.
Times are CPU times of one process.
"""

import argparse
import csv
import multiprocessing
import os
import sys
import time
import warnings
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
from _electrode_orders import CANDIDATES, FORMER, ORDERS, OURS, accuracy, own_refit
from joblib import Parallel, delayed

from mixnorm import GroupSVCCV, stability_selection
from mixnorm.eeg import (
    InOrder,
    Preparation,
    SelectOptions,
    default_preparation,
    honest_folds,
    prepare,
    read_recordings,
    select_montage,
    simulated_p300,
)
from mixnorm.eeg.splitting import dealt
from mixnorm.estimators.cross_validation import auc
from mixnorm.montage.caution import chance_level
from mixnorm.montage.constraints import Constraints
from mixnorm.montage.decoders import trials_of
from mixnorm.montage.orders import EliminationOrder, standard_cap
from mixnorm.montage.recommendation import growing, smallest_near_best
from mixnorm.montage.refits import Ranking, refit
from mixnorm.montage.scoring import score_montages
from mixnorm.montage.trials import SubjectTrials, Training, inner_folds

SIZES = (2, 4, 8, 16)
SETS = ("ner2015-errp", "bcicomp2-iib", "uam-p300", "uam-p300:100", "uam-p300:200", "bigp3bci-a", "br41n-p300")
DEVELOPMENT = ("uam-p300:100", "uam-p300:200", "br41n-p300", "bcicomp2-iib", "bigp3bci-a:500", "ner2015-errp")
RUNS = ("AAS010R01", "AAS011R01", "AAS011R02")
FLAT = {"bigp3bci-a": ("Fp1", "Fp2")}
CAP = "standard cap"
ALL = "all electrodes"
FEWEST = 6  # training trials of a class in a random split


@dataclass(frozen=True, eq=False)
class Person:
    """The trials of one subject, prepared as by ``mixnorm select``, the outer fold of each, and the splits scored.

    ``splits``: by name, the indices of the training trials and of the held-out ones.
    """

    data: str
    who: str
    X: np.ndarray
    signs: np.ndarray
    groups: np.ndarray
    number: np.ndarray
    ch_names: tuple
    preparation: Preparation
    splits: dict

    def split(self, name, n_inner=3):
        """Scaled training trials with inner folds, and scaled held-out trials with their signs."""
        train, test = self.splits[name]
        scale = self.preparation.scaler().fit(self.X[train]).transform
        folds = inner_folds(InOrder(n_inner), self.signs[train], self.groups[train])
        return Training(scale(self.X[train]), self.signs[train], folds), scale(self.X[test]), self.signs[test]


def fold_splits(signs, number, most):
    """The outer folds whose held-out trials have both classes; the first ``most`` other trials are for training."""
    return {
        str(fold): (np.flatnonzero(number != fold)[:most], np.flatnonzero(number == fold))
        for fold in np.unique(number)
        if len(np.unique(signs[number == fold])) == 2
    }


def random_splits(signs, units, most, seeds):
    """Half of the units for training, in random order, of which the first ``most`` trials are taken."""
    splits = {}
    for seed in seeds:
        drawn = np.random.default_rng(seed).permutation(np.unique(units))
        half = drawn[: (len(drawn) + 1) // 2]
        train = np.concatenate([np.flatnonzero(units == unit) for unit in half])[:most]
        test = np.flatnonzero(~np.isin(units, half))
        enough = all(np.sum(signs[train] == sign) >= FEWEST and np.any(signs[test] == sign) for sign in (-1, 1))
        if enough:
            splits[f"seed {seed}"] = np.sort(train), test
    return splits


@cache
def people_of(data, seeds=None):
    """All subjects of a data set, with their folds, or with one random split for each seed."""
    name, _, trials = data.partition(":")
    folder = Path(os.environ["MIXNORM_DATA"])
    if name == "bcicomp2-iib":
        sources = [[folder / name / f"{run}.mat" for run in RUNS]]
    elif name == "br41n-p300":
        sources = [[folder / name / f"S{number}.mat"] for number in (1, 2, 3)]
    else:
        sources = [[folder / f"{name}.npz"]]
    people = []
    for paths in sources:
        recordings = read_recordings(*map(str, paths), drop=FLAT.get(name, ()))
        design = prepare(recordings, default_preparation(recordings))
        for who in np.unique(design.subject):
            own = trials_of(design, design.subject == who)
            X, y, groups = own.to_sklearn()
            number = own.run if name == "bcicomp2-iib" else honest_folds(own).number
            label = f"{who} {paths[0].stem}" if len(sources) > 1 else str(who)
            signs, most = np.where(y == 1, 1.0, -1.0), int(trials) if trials else None
            units = number if name == "ner2015-errp" else groups  # sessions differ there
            splits = random_splits(signs, units, most, seeds) if seeds else fold_splits(signs, number, most)
            people.append(Person(data, label, X, signs, groups, number, own.ch_names, own.preparation, splits))
    return people


def run_folds(function, options):
    """Rows of all splits of all subjects; each is also written to the CSV file as soon as it is known."""
    tasks = [
        (function, data, options, place, name)
        for data in options.data
        for place, person in enumerate(people_of(data, options.seeds)[: options.subjects])
        for name in person.splits
    ]
    rows = []
    # fork: the processes have the trials that `people_of` has read
    with multiprocessing.get_context("fork").Pool(options.jobs) as pool, growing_table(options.out) as add:
        for done, part in enumerate(pool.imap_unordered(run_one, tasks), start=1):
            rows += part
            add(part)
            print(f"\r{done} of {len(tasks)} splits", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return rows


def run_one(task):
    function, data, options, place, name = task
    warnings.simplefilter("ignore")
    return function(people_of(data, options.seeds)[place], name, options)


@contextmanager
def growing_table(path):
    """Give a function that appends rows to a CSV file; without a path it does nothing."""
    if not path:
        yield lambda rows: None
        return
    with Path(path).open("w", newline="", encoding="utf-8") as file:

        def add(rows):
            if not rows:
                return
            writer = csv.DictWriter(file, list(rows[0]))
            if not file.tell():
                writer.writeheader()
            writer.writerows(rows)
            file.flush()

        yield add


def tables(options):
    """Print the tables of CSV files."""
    rows = []
    for path in options.files:
        with Path(path).open(newline="", encoding="utf-8") as file:
            rows += [{key: number(value) for key, value in row.items()} for row in csv.DictReader(file)]
    for show, key in ((show_all_orders, "order"), (show_recommended, "rule")):
        own = [row for row in rows if key in row]
        if own:
            show(own)


def number(text):
    """A number where the text is one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def compare(options):
    """Print for every set the AUC at K electrodes, by order and refit, and how far ours is from the others."""
    show_all_orders(run_folds(score_fold, options))


def show_all_orders(rows):
    for data in dict.fromkeys(row["data"] for row in rows):
        show_orders(data, [row for row in rows if row["data"] == data])
    show_summary(rows)


def score_fold(person, fold, options):
    """AUC of every order, refit and number of electrodes on one split of one person."""
    training, X, signs = person.split(fold)
    five = person.split(fold, 5)[0]  # the former order was made for five inner folds
    G = X.shape[1]
    rows = []

    def note(name, kind, models, took):
        for size, value in zip(models.sizes.tolist(), auc(signs, models.scores(X)), strict=True):
            rows.append(
                {
                    "data": person.data,
                    "subject": person.who,
                    "fold": fold,
                    "order": name,
                    "refit": kind,
                    "k": ALL if size == G else size,
                    "auc": float(value),
                    "seconds": took,
                }
            )

    everything = Ranking(np.arange(G), np.array([G]))
    note(ALL, "ours", refit(training, everything), 0.0)
    note(ALL, "own", own_refit(FORMER)(five, everything), 0.0)
    cap = standard_cap(person.ch_names)
    compared = ORDERS | (CANDIDATES if options.candidates else {})
    for name, find in compared.items():
        if options.only and name not in options.only:
            continue
        start = time.process_time()
        try:
            order = find(training if name == OURS else five)
        except ImportError:
            continue
        took = time.process_time() - start
        ranking = Ranking(order, np.array([size for size in SIZES if size < G]))
        note(name, "ours", refit(training, ranking), took)
        if name != OURS and name not in CANDIDATES:
            note(name, "own", own_refit(name)(five, ranking), took)
    if 0 < len(cap) < G:
        ranking = Ranking(cap, np.array([len(cap)]))
        note(CAP, "ours", refit(training, ranking), 0.0)
        note(CAP, "own", own_refit(CAP)(five, ranking), 0.0)
    return rows


def by_subject(rows, order, kind, k):
    """Mean AUC in percent over the folds of every subject; empty where there is none."""
    found = defaultdict(list)
    for row in rows:
        if (row["order"], row["refit"], row["k"]) == (order, kind, k):
            found[row["subject"]].append(row["auc"])
    return {who: 100 * np.mean(values) for who, values in found.items()}


def by_fold(rows, order, kind, k):
    return {
        (row["subject"], row["fold"]): 100 * row["auc"]
        for row in rows
        if (row["order"], row["refit"], row["k"]) == (order, kind, k)
    }


def paired(ours, other):
    """Mean difference and its standard error; units that both have."""
    shared = [unit for unit in ours if unit in other]
    gain = np.array([ours[unit] - other[unit] for unit in shared])
    return gain.mean(), gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan


def show_orders(data, rows):
    """Two tables, one for each refit, and paired differences over subjects (or over folds of few subjects)."""
    subjects = {row["subject"] for row in rows}
    units = by_subject if len(subjects) > 3 else by_fold
    names = list(dict.fromkeys(row["order"] for row in rows))
    folds = len({(row["subject"], row["fold"]) for row in rows})
    print(f"\n## {data}: {len(subjects)} subjects, {folds} folds\n")
    for kind in ("ours", "own"):
        print(f"{'Our' if kind == 'ours' else 'Own'} refit\n")
        print("| order | " + " | ".join(f"K = {k}" for k in SIZES) + " | all |\n| --- |" + " --- |" * (len(SIZES) + 1))
        for name in [name for name in names if name != ALL]:
            cells = []
            for k in (*SIZES, ALL):
                found = by_subject(rows, ALL if k == ALL and name != CAP else name, kind, k)
                cells.append(f"{np.mean(list(found.values())):.1f}" if found else "–")
            cap = [row["k"] for row in rows if row["order"] == CAP]
            note = f" ({cap[0]} electrodes)" if name == CAP and cap else ""
            if name == CAP and cap and cap[0] not in SIZES:
                cells[-1] = f"{np.mean(list(by_subject(rows, CAP, kind, cap[0]).values())):.1f}*"
            if kind == "ours" or (name != OURS and name not in CANDIDATES):
                print(f"| {name}{note} | " + " | ".join(cells) + " |")
        print()
    for k in (*SIZES, ALL):
        mine = units(rows, OURS if k != ALL else ALL, "ours", k)
        for name in names if mine else ():
            for kind in ("ours", "own"):
                other = units(rows, name, kind, k)
                if other and (name, kind) not in ((OURS, "ours"), (ALL, "ours")):
                    gain, error = paired(mine, other)
                    mark = "  BELOW" if gain < -2 * error else ""
                    print(f"K = {k}: ours − {name}, {kind} refit: {gain:+.2f} ± {error:.2f}{mark}")


def show_summary(rows):
    """Mean over data sets and K below all of the AUC of every order that is everywhere."""
    data_sets = list(dict.fromkeys(row["data"] for row in rows))
    print("\n## Mean over data sets and K = 2 … 16\n")
    for kind in ("ours", "own"):
        for name in dict.fromkeys(row["order"] for row in rows if row["order"] not in (ALL, CAP)):
            means = []
            for data in data_sets:
                own = [row for row in rows if row["data"] == data]
                found = [by_subject(own, name, kind, k) for k in SIZES]
                means.append(np.mean([np.mean(list(one.values())) for one in found if one] or [np.nan]))
            if np.isfinite(means).all():
                print(f"{name}, {kind} refit: {np.mean(means):.2f}  ({', '.join(f'{one:.1f}' for one in means)})")


def rules():
    """Ways to choose among the montages: from the nested scores to the index of the chosen one."""

    def within(tolerance, smooth):
        def choose(found):
            best = int(np.argmax(found.mean))
            curve = growing(found.mean[: best + 1]) if smooth else found.mean[: best + 1]
            return int(np.flatnonzero(curve >= curve[-1] - tolerance)[0])

        return choose

    def one_error(found):
        best = int(np.argmax(found.mean))
        return int(np.flatnonzero(found.mean >= found.mean[best] - found.error_of_difference(best))[0])

    return {
        "recommended": lambda found: smallest_near_best(found).chosen,
        "within one standard error (former rule)": one_error,
        **{f"within {t}, smoothed": within(t, True) for t in (0.0, 0.005, 0.01, 0.02)},
        **{f"within {t}, not smoothed": within(t, False) for t in (0.005, 0.01)},
    }


def recommended(options):
    """Print what the recommended montage is worth on a fold that had no part in the choice of its size."""
    show_recommended(run_folds(recommend_fold, options))


def show_recommended(rows):
    """One row for each rule and data set, means over subjects, and one for the mean over data sets."""
    print("\n| rule | data | electrodes | AUC | − all electrodes | − best number on these trials |")
    print("| --- | --- | --- | --- | --- | --- |")
    for rule in rules():
        means = []
        for data in dict.fromkeys(row["data"] for row in rows):
            own = [row for row in rows if (row["rule"], row["data"]) == (rule, data)]
            people = list(dict.fromkeys(row["subject"] for row in own))
            table = np.array(
                [
                    np.mean([[row[c] for c in ("k", "auc", "all", "best")] for row in own if row["subject"] == who], 0)
                    for who in people
                ]
            )
            k, there, whole, best = table.mean(axis=0)
            means.append((k, 100 * there, 100 * (there - whole), 100 * (there - best)))
            print(f"| {rule} | {data} | {k:.1f} | {means[-1][1]:.1f} | {means[-1][2]:+.2f} | {means[-1][3]:+.2f} |")
        k, there, whole, best = np.mean(means, axis=0)
        print(f"| {rule} | mean of sets | {k:.1f} | {there:.1f} | {whole:+.2f} | {best:+.2f} |")


def recommend_fold(person, fold, options):
    """Choose a montage by nested scores on the training trials of a fold; its AUC on the held-out trials."""
    train, test = person.splits[fold]
    number = person.number[train]
    if len(np.unique(number)) < 3:  # two runs are left of three, or one character: folds as for one session
        groups = person.groups[train]
        number = dealt(groups if len(np.unique(groups)) > 2 else np.arange(len(train)), 5)
    trials = SubjectTrials(person.X[train], person.signs[train], number, person.groups[train])
    order = EliminationOrder(Constraints.none(trials.X.shape[1]))
    try:
        found = score_montages([trials], order, cv=InOrder(), scaler=person.preparation.scaler())
    except ValueError as error:  # one subject of NER has 13 errors in all: ``mixnorm select`` refuses then as well
        print(f"\n{person.data}, {person.who}, fold {fold}: {error}", file=sys.stderr)
        return []
    scaler = person.preparation.scaler().fit(trials.X)
    fresh = auc(person.signs[test], found.models[0].scores(scaler.transform(person.X[test])))
    rows = []
    for rule, choose in rules().items():
        at = choose(found)
        shared = {"data": person.data, "subject": person.who, "fold": fold, "rule": rule}
        shared |= {"k": int(found.sizes[at]), "auc": float(fresh[at]), "all": float(fresh[-1])}
        rows.append(shared | {"best": float(fresh[np.argmax(found.mean)])})
    return rows


def simulated(options):
    """Print how well the truth of Table 1's setting is found."""
    rows = np.array(Parallel(options.jobs)(delayed(find_truth)(seed) for seed in range(options.sets)))
    best, chosen, false = rows.T
    print(f"{options.sets} data sets of 1000 trials: F at the best-scoring number {best.mean():.3f} (mean),")
    print(f"of the recommended montage {chosen.mean():.3f} (mean), {np.median(chosen):.3f} (median);")
    print(f"false electrodes in it: median {np.median(false):g}, mean {false.mean():.2f}")


def find_truth(seed):
    data, truth = simulated_p300(1000, seed=seed), set(range(8))
    found = nested(data.X, data.y)
    choice = smallest_near_best(found)
    sizes = [found.sizes[place] for place in (choice.best, choice.chosen)]
    f = [2 * len(truth & set(found.order[:k].tolist())) / (8 + k) for k in sizes]
    return *f, len(set(found.order[: sizes[1]].tolist()) - truth)


def nested(X, y):
    fold = np.arange(len(y)) * 5 // len(y)
    subject = SubjectTrials(X, np.where(y > 0, 1.0, -1.0), fold, np.arange(len(y)))
    return score_montages([subject], EliminationOrder(Constraints.none(X.shape[1])), cv=InOrder())


def stability(options):
    """Print the number of false electrodes that stability selection chose, beside its bound."""
    for n_informative in options.informative:
        false, chosen = [], []
        for seed in range(options.sets):
            data = simulated_p300(1000, n_informative=n_informative, seed=seed)
            found = stability_selection(data.X, data.y, n_resamplings=options.resamplings)
            false.append(int(np.sum(found.selected >= n_informative)))
            chosen.append(len(found.selected))
        print(
            f"{options.sets} data sets, {n_informative} of 16 informative, {options.resamplings} half-sample pairs, "
            f"first {found.n_sensors} of each, threshold {found.threshold:.2f}: {np.mean(chosen):.2f} chosen, "
            f"{np.mean(false):.3f} false (bound {found.error_bound:.2f}, unimodal {found.unimodal_bound:.2f})",
            flush=True,
        )


def permutations(options):
    """Print mean AUC, intervals that include 0.5, and recommendations, over permuted labels."""
    rows = Parallel(options.jobs)(delayed(permuted)(seed) for seed in range(options.sets))
    means, includes, sure = (np.array(column) for column in zip(*rows, strict=True))
    print(f"{options.sets} permutations of 120 trials, 4 electrodes; K = 1 … 4")
    print("mean AUC", means.mean(axis=0).round(4).tolist())
    print("intervals that include 0.5", includes.mean(axis=0).round(3).tolist())
    print(f"montages that would be recommended: {100 * sure.mean():.1f} %")


def permuted(seed):
    data = simulated_p300(120, n_channels=4, n_informative=2, seed=0)
    found = nested(data.X[:, :, ::2], data.y[np.random.default_rng(seed).permutation(120)])
    low, high = found.interval()
    sure = chance_level(found, smallest_near_best(found).chosen) is None
    return found.mean, (low <= 0.5) & (high >= 0.5), sure


def timed(options):
    """Print the CPU time of a whole selection with all its comparisons: 64 electrodes × 12 samples, 1600 trials."""
    data = simulated_p300(1600, n_channels=64, n_informative=16, noise=0.4, noise_correlation=0.8, seed=0)
    rng = np.random.default_rng(0)
    X = np.repeat(data.X, 2, axis=2)[:, :, :12] + 0.2 * rng.standard_normal((1600, 64, 12))
    plain = Preparation.preset("epochs").with_(window=(0.0, 1.0), scaling="standard", clip=None)
    design = replace(prepare(data.to_recording(), plain), X=X, times=0.05 * np.arange(12))
    start = time.process_time()
    GroupSVCCV(20, cv=3).fit(design.X[:1280], design.y[:1280])
    once = time.process_time() - start
    start = time.process_time()
    last = [start]

    def progress(reached):
        now = time.process_time()
        print(f"  {now - last[0]:.1f} s; {reached.step}, {reached.done:.0%}", flush=True)
        last[0] = now

    found = select_montage(design, SelectOptions(), progress)
    whole = time.process_time() - start
    print(f"one GroupSVCCV {once:.1f} s, selection {whole:.1f} s; {found.recommended}")


def sequential(options):
    """Compare our sequential forward selection with that of bci-essentials (needs the package)."""
    from bci_essentials.channel_selection import channel_selection_by_method
    from bci_essentials.classification.generic_classifier import KernelResults

    data = simulated_p300(300, n_channels=8, n_informative=3, noise=0.1, seed=1)
    training = Training(data.X, np.where(data.y > 0, 1.0, -1.0), [])

    def kernel(X, y):
        found = accuracy(X, y)
        return KernelResults(None, np.zeros(len(y)), found, 0.0, 0.0)

    order = ORDERS["sequential selection"](training)
    names = [str(channel) for channel in range(8)]
    steps = channel_selection_by_method(
        kernel, data.X, data.y, names, "SFS", max_channels=5, performance_delta=-1.0
    ).results_df["Channel Subset"]
    for size, subset in enumerate(steps, 1):
        theirs, ours = sorted(map(int, subset)), sorted(order[:size].tolist())
        print(size, ours, theirs, "same" if ours == theirs else "different")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = partial(parser.add_subparsers(required=True).add_parser)
    for name, run in (("orders", compare), ("recommended", recommended)):
        job = add(name)
        job.add_argument("data", nargs="*", help="data sets, such as uam-p300:100")
        job.add_argument("--seed", type=int, help="development: random splits, from this seed on")
        job.add_argument("--splits", type=int, default=1, help="number of random splits (1)")
        job.add_argument("--candidates", action="store_true", help="also the candidates for our order")
        job.add_argument("--only", nargs="+", metavar="ORDER", help="orders to compare; all if left out")
        job.add_argument("--jobs", type=int, default=1)
        job.add_argument("--out", help="CSV file")
        job.add_argument("--subjects", type=int, help="the first subjects of every data set; default: all")
        job.set_defaults(run=run)
    job = add("tables")
    job.add_argument("files", nargs="+", help="CSV files that orders or recommended have written")
    job.set_defaults(run=tables)
    for name, run, sets in (
        ("simulated", simulated, 60),
        ("stability", stability, 200),
        ("permutations", permutations, 500),
        ("time", timed, 1),
        ("sequential", sequential, 1),
    ):
        job = add(name)
        job.add_argument("--sets", type=int, default=sets)
        job.add_argument("--resamplings", type=int, default=10, help="half-sample pairs")
        job.add_argument("--informative", type=int, nargs="+", default=[8, 0], help="informative electrodes of 16")
        job.add_argument("--jobs", type=int, default=1)
        job.set_defaults(run=run)
    options = parser.parse_args()
    seed = getattr(options, "seed", None)
    options.seeds = None if seed is None else tuple(range(seed, seed + options.splits))
    if hasattr(options, "data"):
        options.data = options.data or (SETS if seed is None else DEVELOPMENT)
    options.run(options)


if __name__ == "__main__":
    main()
