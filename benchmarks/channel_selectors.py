"""Electrodes chosen by the selectors of aeon-neuro and bci-essentials, their own code, beside ``mixnorm select``.

    python3.11 -m venv benchmarks/.venv-selectors
    benchmarks/.venv-selectors/bin/pip install -r benchmarks/requirements-selectors.txt .
    benchmarks/.venv-selectors/bin/pip install --no-deps aeon-neuro==0.1.0 bci-essentials==0.3.2
    MIXNORM_DATA=... benchmarks/.venv-selectors/bin/python benchmarks/channel_selectors.py br41n-p300 uam-p300:100

Trials, folds and data sets are those of ``electrodes.py``. Every selector gets the scaled training trials of a fold
and is asked for K electrodes; the decoder of the package is trained on them and scored on the held-out trials, so that
selectors differ in nothing but their electrodes. Selectors that score subsets with a classifier get shrinkage LDA.
"""

import argparse
import logging
import time
from functools import partial

import numpy as np
from _electrode_data import run_folds
from _electrode_orders import accuracy, by_us, lda
from _electrode_tables import ALL, by_subject, paired
from sklearn.base import BaseEstimator, ClassifierMixin

from mixnorm.estimators.cross_validation import auc
from mixnorm.montage.refits import Ranking, refit

SIZES = (2, 4, 8)
OURS = "mixnorm select"
#: Backward search and particle swarms start from, or try, hundreds of electrodes; on larger caps they are left out.
SMALL_CAP = 16


class FlatLDA(ClassifierMixin, BaseEstimator):
    """Shrinkage LDA on flattened trials, which have three dimensions for aeon-neuro."""

    def fit(self, X, y):
        self.classes_, self.model_ = np.unique(y), lda().fit(X.reshape(len(X), -1), y)
        return self

    def predict(self, X):
        return self.model_.predict(X.reshape(len(X), -1))


def share(size, G):
    """The proportion that aeon-neuro's selectors round up to this number of channels."""
    return (size - 0.5) / G


def aeon_neuro(name, X, y, size, **options):
    """The channels that a selector of aeon-neuro keeps."""
    from aeon_neuro.transformations.collection import channel_selection

    if not name.startswith("CLeVer"):
        options["proportion"] = share(size, X.shape[1])
    else:
        options["n_channels"] = size
    return list(getattr(channel_selection, name)(**options).fit(X, y).channels_selected_)


def bci_essentials(method, X, y, size):
    """The channels of a sequential search of bci-essentials that goes on until it has this number."""
    from bci_essentials.channel_selection import channel_selection_by_method
    from bci_essentials.classification.generic_classifier import KernelResults

    def kernel(X, y):
        return KernelResults(None, np.zeros(len(y)), accuracy(X, y), 0.0, 0.0)

    limits = {"SFS": {"max_channels": size}, "SBS": {"min_channels": size}}[method]
    names = [str(channel) for channel in range(X.shape[1])]
    # a negative limit of progress: the search ends by the number of channels alone
    found = channel_selection_by_method(kernel, X, y, names, method, performance_delta=-2.0, max_time=1e9, **limits)
    return [int(name) for name in found.results_df["Channel Subset"].iloc[-1]]


SELECTORS = {
    "aeon-neuro ChannelFilter, class_mean": partial(aeon_neuro, "ChannelFilter", score_channel="class_mean"),
    "aeon-neuro ChannelFilter, class_mean, correlation": partial(
        aeon_neuro, "ChannelFilter", score_channel="class_mean", redundancy_method="correlation"
    ),
    "aeon-neuro ChannelFilter, mutual_information": partial(
        aeon_neuro, "ChannelFilter", score_channel="mutual_information", score_params={"random_state": 0}
    ),
    "aeon-neuro Riemannian": partial(aeon_neuro, "Riemannian", estimator="lwf"),
    "aeon-neuro CLeVerRank": partial(aeon_neuro, "CLeVerRank"),
    "aeon-neuro CLeVerHybrid": partial(aeon_neuro, "CLeVerHybrid", random_state=0),
    "aeon-neuro BPSO": partial(aeon_neuro, "BPSO", estimator=FlatLDA(), random_state=0),
    "bci-essentials SFS": partial(bci_essentials, "SFS"),
    "bci-essentials SBS": partial(bci_essentials, "SBS"),
}
LARGE_SEARCHES = ("aeon-neuro BPSO", "bci-essentials SBS")


def score_fold(person, fold, options):
    """AUC of the held-out trials for every selector and number of electrodes on one fold of one person."""
    logging.disable(logging.INFO)  # bci-essentials prints every step of its searches
    training, X, signs = person.split(fold)
    G, y = X.shape[1], (training.signs > 0).astype(int)
    rows = []

    def note(name, channels, k, took):
        order = np.array([*channels, *(g for g in range(G) if g not in channels)])
        models = refit(training, Ranking(order, np.array([len(channels)])))
        value = float(auc(signs, models.scores(X))[0])
        who = {"data": person.data, "subject": person.who, "fold": fold}
        rows.append({**who, "order": name, "refit": "ours", "k": k, "auc": value, "seconds": took})

    note(ALL, list(range(G)), ALL, 0.0)
    start = time.process_time()
    ours = by_us(training)
    our_time = time.process_time() - start
    for size in (size for size in SIZES if size < G):
        note(OURS, ours[:size].tolist(), size, our_time)
        for name, select in SELECTORS.items():
            if G > SMALL_CAP and name in LARGE_SEARCHES:
                continue
            start = time.process_time()
            channels = [int(channel) for channel in select(training.X, y, size)]
            took = time.process_time() - start
            if len(channels) != size:
                raise RuntimeError(f"{name} returned {len(channels)} channels instead of {size}.")
            note(name, channels, size, took)
    return rows


def show(data, rows):
    """One table: mean AUC over subjects, ours minus the selector, and the time of a fold."""
    people = {row["subject"] for row in rows}
    whole = np.mean(list(by_subject(rows, ALL, "ours", ALL).values()))
    print(f"\n## {data}: {len(people)} subjects, {len({(r['subject'], r['fold']) for r in rows})} folds")
    print(f"All electrodes: {whole:.1f}\n")
    print("| selector | K = 2 | K = 4 | K = 8 | ours − selector, all K | CPU s |\n|" + " --- |" * 6)
    for name in dict.fromkeys(row["order"] for row in rows if row["order"] != ALL):
        found = [by_subject(rows, name, "ours", k) for k in SIZES]
        cells = [f"{np.mean(list(one.values())):.1f}" if one else "–" for one in found]
        own = [row for row in rows if row["order"] == name]
        gain, error = paired(over_sizes(rows, OURS), over_sizes(rows, name))
        difference = "" if name == OURS else f"{gain:+.1f} ± {error:.1f}"
        cells += [difference, f"{np.mean([row['seconds'] for row in own]):.3f}"]
        print(f"| {name} | " + " | ".join(cells) + " |")


def over_sizes(rows, name):
    """Subject, or fold of few subjects → mean AUC in percent over all K."""
    few = len({row["subject"] for row in rows}) <= 3
    found = {}
    for row in rows:
        if row["order"] == name:
            found.setdefault((row["subject"], row["fold"] if few else None), []).append(100 * row["auc"])
    return {unit: np.mean(values) for unit, values in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="*", default=["br41n-p300", "uam-p300:100", "ner2015-errp"])
    parser.add_argument("--subjects", type=int, help="the first subjects of every data set; default: all")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", help="CSV file of the rows")
    options = parser.parse_args()
    options.seeds = None
    rows = run_folds(score_fold, options)
    for data in options.data:
        show(data, [row for row in rows if row["data"] == data])


if __name__ == "__main__":
    main()
