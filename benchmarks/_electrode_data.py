"""The recordings of the benchmarks of electrodes: subjects with their trials and splits, and work over all splits."""

import csv
import multiprocessing
import os
import sys
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from mixnorm.eeg import InOrder, Preparation, default_preparation, honest_folds, prepare, read_recordings
from mixnorm.montage.decoders import trials_of
from mixnorm.montage.trials import Training, inner_folds

SETS = ("ner2015-errp", "bcicomp2-iib", "uam-p300", "uam-p300:100", "uam-p300:200", "bigp3bci-a", "br41n-p300")
DEVELOPMENT = ("uam-p300:100", "uam-p300:200", "br41n-p300", "bcicomp2-iib", "bigp3bci-a:500", "ner2015-errp")
RUNS = ("AAS010R01", "AAS011R01", "AAS011R02")
FLAT = {"bigp3bci-a": ("Fp1", "Fp2")}
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
