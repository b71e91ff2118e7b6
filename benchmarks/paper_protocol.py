"""The paper's single-subject protocol on two real data sets: AUC and share of sensors of every method.

    MIXNORM_DATA=… python benchmarks/paper_protocol.py [--splits 3] [--data uam-p300 ner2015-errp]

Random splits (1000 training trials on uam-p300, 80 % of the trials on ner2015-errp), shuffled stratified 3-fold
cross-validation on the grid logspace(-3, 1, 9), every feature standardised on the training trials and clipped to ±5.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, train_test_split

from mixnorm import GroupSVCCV

METHODS = {
    "svm": {"penalty": "l2"},
    "svm-1": {"penalty": "l1"},
    "gsvm-2": {},
    "gsvm-a": {"adaptive": True},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--data", nargs="+", default=["uam-p300", "ner2015-errp"])
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    options = parser.parse_args()
    for name in options.data:
        print_table(name, options.splits, options.methods)


def print_table(name, n_splits, methods):
    subjects = list(load(name))
    print(f"\n{name}: {len(subjects)} subjects, {n_splits} splits")
    print(f"{'method':8} {'AUC %':>7} {'Sel %':>7} {'above svm':>10} {'seconds':>8}")
    baseline = None
    for method in methods:
        start = time.perf_counter()
        results = np.array([[run(X, y, split, name, method) for split in range(n_splits)] for X, y in subjects])
        auc, share = results.mean(axis=1).T
        baseline = auc if baseline is None else baseline
        above = f"{(auc > baseline).sum()}/{len(subjects)}" if method != methods[0] else "-"
        seconds = time.perf_counter() - start
        print(f"{method:8} {100 * auc.mean():7.2f} {100 * share.mean():7.1f} {above:>10} {seconds:8.1f}", flush=True)


def load(name):
    bundle = np.load(Path(os.environ["MIXNORM_DATA"]) / f"{name}.npz")
    X = bundle["X"].astype(float)
    if name == "ner2015-errp":
        X = X[:, :, bundle["times"] >= 0][:, :, ::2]
    for subject in np.unique(bundle["subject"]):
        mask = bundle["subject"] == subject
        yield X[mask], bundle["y"][mask]


def run(X, y, split, name, method):
    size = 1000 if name == "uam-p300" else 0.8
    train, test = train_test_split(np.arange(len(y)), train_size=size, stratify=y, random_state=split)
    X = standardise(X, train)
    folds = StratifiedKFold(3, shuffle=True, random_state=split)
    model = GroupSVCCV(np.logspace(-3, 1, 9), cv=folds, **METHODS[method]).fit(X[train], y[train])
    return roc_auc_score(y[test], model.decision_function(X[test])), len(model.selected_groups_) / X.shape[1]


def standardise(X, train):
    flat = X.reshape(len(X), -1)
    mean, scale = flat[train].mean(axis=0), flat[train].std(axis=0)
    return np.clip((flat - mean) / np.where(scale > 0, scale, 1), -5, 5).reshape(X.shape)


if __name__ == "__main__":
    main()
