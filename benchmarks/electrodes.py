"""Which electrodes: our montages against those that other methods choose, on the same folds, and what was promised.

    MIXNORM_DATA=... python benchmarks/electrodes.py orders --jobs 16
    MIXNORM_DATA=... python benchmarks/electrodes.py orders ner2015-errp --seed 100 --splits 3 --candidates
    MIXNORM_DATA=... python benchmarks/electrodes.py refits ner2015-errp uam-p300:100 --seed 100 --splits 8 --jobs 16
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
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
from _electrode_candidates import CANDIDATES
from _electrode_data import DEVELOPMENT, SETS, run_folds
from _electrode_orders import FORMER, ORDERS, OURS, by_us, own_refit
from _electrode_refits import REFITS, penalties_of
from _electrode_tables import ALL, CAP, SIZES, number, paired, rules, show_all_orders, show_recommended
from _electrode_truth import permutations, sequential, simulated, stability, timed

from mixnorm.eeg import InOrder
from mixnorm.eeg.splitting import dealt
from mixnorm.estimators.cross_validation import auc
from mixnorm.montage.constraints import Constraints
from mixnorm.montage.orders import EliminationOrder, standard_cap
from mixnorm.montage.refits import Ranking, refit
from mixnorm.montage.scoring import score_montages
from mixnorm.montage.trials import SubjectTrials


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


def compare(options):
    """Print for every set the AUC at K electrodes, by order and refit, and how far ours is from the others."""
    show_all_orders(run_folds(score_fold, options))


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


def recommended(options):
    """Print what the recommended montage is worth on a fold that had no part in the choice of its size."""
    show_recommended(run_folds(recommend_fold, options))


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


def refits(options):
    """Print what other penalties of montages give, on the order of the package: gains over the first one."""
    rows = run_folds(refit_fold, options)
    for data in dict.fromkeys(row["data"] for row in rows):
        print(f"\n## {data}\n\n| penalty | " + " | ".join(f"K = {k}" for k in SIZES) + " | all |")
        print("| --- |" + " --- |" * (len(SIZES) + 1))
        for name in REFITS:
            cells = [gain_of(rows, data, name, k) for k in (*SIZES, ALL)]
            print(f"| {name} | " + " | ".join(cells) + " |")


def gain_of(rows, data, name, k):
    """The mean AUC of the first penalty, and the gain of another one over it, over subjects."""

    def by_person(which):
        own = [row for row in rows if (row["data"], row["refit"], row["k"]) == (data, which, k)]
        people = dict.fromkeys(row["subject"] for row in own)
        return {who: 100 * np.mean([row["auc"] for row in own if row["subject"] == who]) for who in people}

    first, own = by_person(next(iter(REFITS))), by_person(name)
    if not own:
        return "–"
    gain, error = paired(own, first)
    return f"{np.mean(list(own.values())):.1f}" if name == next(iter(REFITS)) else f"{gain:+.2f} ± {error:.2f}"


def refit_fold(person, fold, options):
    """AUC of every penalty and number of electrodes on one split of one person."""
    training, X, signs = person.split(fold)
    G = X.shape[1]
    ranking = Ranking(by_us(training), np.array([*(size for size in SIZES if size < G), G]))
    rows = []
    for name in REFITS:
        with penalties_of(name):
            models = refit(training, ranking)
        for size, value in zip(models.sizes.tolist(), auc(signs, models.scores(X)), strict=True):
            shared = {"data": person.data, "subject": person.who, "fold": fold, "refit": name}
            rows.append(shared | {"k": ALL if size == G else size, "auc": float(value)})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = partial(parser.add_subparsers(required=True).add_parser)
    for name, run in (("orders", compare), ("refits", refits), ("recommended", recommended)):
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
