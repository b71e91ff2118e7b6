"""What a peak-to-peak limit on training trials is worth beside clipping: held-out AUC on the same trials.

    python benchmarks/rejection.py [--seed 0] [--splits 4] [--json]

For every subject of the bundles in $MIXNORM_DATA, random splits with few and with many training trials; the held-out
trials are all scored, whatever the limit. Seeds from 100 on are the development splits on which the constant of the
learned limit was chosen. Needs NumPy, SciPy and scikit-learn alone.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from mixnorm import GroupSVCCV
from mixnorm.eeg import Preparation, prepare, read_recording, rejection

#: Bundle, channels to leave out, preparation, numbers of training trials; at most so many subjects.
DATA = {
    "uam-p300": ((), {}, (100, 400)),
    "ner2015-errp": ((), {"window": (0.0, 0.6), "n_samples": 10, "reduce": "mean"}, (60, 120)),
    "bigp3bci-a": (("Fp1", "Fp2"), {}, (100, 500)),
}
RULES = {
    "clip": {"clip": 4.0, "reject": None},
    "clip + 150 µV": {"clip": 4.0, "reject": 150.0},
    "clip + auto": {"clip": 4.0, "reject": "auto"},
    "nothing": {"clip": None, "reject": None},
    "150 µV": {"clip": None, "reject": 150.0},
    "auto": {"clip": None, "reject": "auto"},
}


def measured(name: str, seed: int, n_splits: int, rules: dict, n_subjects: int) -> list[dict]:
    """AUC of every rule, number of training trials and split, mean over subjects, and the share of trials rejected."""
    drop, changes, sizes = DATA[name]
    recording = read_recording(Path(os.environ["MIXNORM_DATA"]) / f"{name}.npz", drop=drop)
    design = prepare(recording, Preparation.preset("epochs").with_(**changes))
    subjects = np.unique(design.subject)[:n_subjects]
    rows = []
    for size in sizes:
        aucs = {rule: [] for rule in rules}
        shares = {rule: [] for rule in rules}
        for who in subjects:
            X, y = design.X[design.subject == who], design.y[design.subject == who]
            for split in range(n_splits):
                rng = np.random.default_rng([seed, split, len(X)])
                order = rng.permutation(len(X))
                train, test = order[: min(size, int(0.8 * len(X)))], order[min(size, int(0.8 * len(X))) :][:2000]
                for rule, options in rules.items():
                    auc, share = scored(X, y, train, test, design.preparation.with_(**options))
                    aucs[rule].append(auc)
                    shares[rule].append(share)
        for rule in rules:
            paired = 100 * (np.array(aucs[rule]) - np.array(aucs["clip"])).reshape(len(subjects), n_splits).mean(1)
            rows.append(
                {
                    "data": name,
                    "n_train": size,
                    "rule": rule,
                    "auc_percent": round(100 * float(np.mean(aucs[rule])), 2),
                    "minus_clip": round(float(paired.mean()), 2),
                    "two_standard_errors": round(2 * float(paired.std(ddof=1)) / len(paired) ** 0.5, 2),
                    "rejected_percent": round(100 * float(np.mean(shares[rule])), 1),
                }
            )
    return rows


def scored(X, y, train, test, preparation: Preparation) -> tuple[float, float]:
    """AUC on the test trials, and the share of training trials that was rejected.

    Where fewer than four trials of a class remain, there is no model, and its AUC counts as 0.5.
    """
    try:
        scaler = preparation.scaler().fit(X[train])
    except ValueError:
        return 0.5, 1.0
    kept = train[scaler.accepted(X[train])]
    if np.bincount(y[kept], minlength=2).min() < 4:
        return 0.5, 1 - len(kept) / len(train)
    model = GroupSVCCV(8, penalty="l2", noise="structured").fit(scaler.transform(X[kept]), y[kept])
    return roc_auc_score(y[test], model.decision_function(scaler.transform(X[test]))), 1 - len(kept) / len(train)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--subjects", type=int, default=99, help="at most so many of each data set")
    parser.add_argument("--data", choices=list(DATA), help="only this data set")
    parser.add_argument("--spreads", type=float, help="another constant of the learned limit")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.spreads:
        rejection.SPREADS = arguments.spreads
    for name in [arguments.data] if arguments.data else DATA:
        for row in measured(name, arguments.seed, arguments.splits, RULES, arguments.subjects):
            print(
                json.dumps(row) if arguments.json else "  ".join(f"{value!s:14}" for value in row.values()), flush=True
            )


if __name__ == "__main__":
    main()
