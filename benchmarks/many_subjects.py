"""AUC of several subjects learned alone, pooled and together, for a growing number of training trials per subject.

    MIXNORM_DATA=... python benchmarks/many_subjects.py uam-p300 --splits 10 --jobs 8 --keep joint.jsonl

Trials are drawn at random in each subject, channels scaled on the training trials and clipped to ±5 deviations, all
parameters chosen by cross-validation inside them (one division into three folds, one into five), and the classifiers
tested on the other trials: means over subjects and splits, in percent.

    svm              an SVM for each subject
    svm-noise        the same with noise="evoked"
    pooled           one SVM for the trials of all
    mgsvm-2s         the paper's joint fit, group norm and similarity
    joint-structured joint fit, penalty="l2", noise="structured"
    joint-evoked     the same with noise="evoked"
    joint-kronecker  joint fit, group norm, noise="kronecker" (formerly align=True)

One line per (trials, split, method) is added to the file ``--keep``: a run that was stopped goes on where it was.
"""

import argparse
import json
import os
import time
from itertools import product
from pathlib import Path

import numpy as np
from _recordings import load, split
from joblib import Parallel, delayed

from mixnorm import GroupSVCCV, MultiTaskGroupSVCCV, PerSubjectSVC, PooledSVC
from mixnorm.estimators.cross_validation import Divisions, auc
from mixnorm.estimators.settings import SETTINGS

SVM_ALPHAS = np.logspace(-3, 1.5, 8)
TRIALS = {"uam-p300": (50, 100, 200, 500), "ner2015-errp": (30, 60, 120), "bigp3bci-a": (50, 100, 500)}
#: Grids of the joint fit without noise, for features of unit variance (chosen on splits 0 to 9 of uam-p300 and 0 to 2
#: of ner2015-errp); those with noise are automatic.
ALPHAS = np.logspace(-3.5, -1, 6)
SIMILARITIES = (0.0, 1e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0, 10.0)
#: Parameters of the joint fits.
JOINT = {
    "mgsvm-2s": {"alphas": ALPHAS, "similarities": SIMILARITIES},
    "joint-structured": {"penalty": "l2", "noise": "structured"},
    "joint-evoked": {"penalty": "l2", "noise": "evoked"},
    "joint-kronecker": {"noise": "kronecker"},
}
METHODS = ("svm", "svm-noise", "pooled", *JOINT)


def classifiers(method: str, train: tuple, groups: np.ndarray, fold_jobs: int = 1) -> tuple[np.ndarray, list, dict]:
    """Fit a method; return the coefficients (T, d), the subjects of the rows, and what was chosen."""
    X, y, whose = train
    cv = Divisions(min(np.bincount(y[whose == s], minlength=2).min() for s in np.unique(whose)))
    options = {"groups": groups, "tol": 1e-3}
    if method == "svm-noise":
        subjects = list(dict.fromkeys(whose.tolist()))
        models = [GroupSVCCV(20, cv=cv, **options, **SETTINGS["svm-noise"]) for _ in subjects]
        models = [model.fit(X[whose == s], y[whose == s]) for model, s in zip(models, subjects)]
        return np.concatenate([model.coef_ for model in models]), subjects, {}
    if method in ("svm", "pooled"):
        model = (PerSubjectSVC if method == "svm" else PooledSVC)(SVM_ALPHAS, cv=cv, **options)
    else:
        joint = JOINT[method] | {"rehearse": False, "n_jobs": fold_jobs}
        model = MultiTaskGroupSVCCV(**joint, **options)
    model.fit(X, y, subjects=whose)
    chosen = {}
    if method not in ("svm", "pooled"):
        chosen = {"alpha": model.alpha_, "similarity": model.similarity_, "sensors": len(model.selected_groups_)}
    return model.coef_, model.subjects_.tolist(), chosen


def cell(name: str, n_trials: int, seed: int, method: str, fold_jobs: int = 1) -> dict:
    """Return the test AUCs (T,) of one method on one split."""
    recordings, groups = load(name)
    train, (X, y, whose) = split(recordings, n_trials, seed, len(np.unique(groups)))
    start = time.process_time()
    W, subjects, chosen = classifiers(method, train, groups, fold_jobs)
    seconds = round(time.process_time() - start, 1)
    aucs = [float(auc(y[whose == s], X[whose == s] @ w[:, None])[0]) for s, w in zip(subjects, W)]
    found = {"data": name, "trials": n_trials, "split": seed, "method": method, "subjects": subjects}
    return found | {"aucs": np.round(aucs, 5).tolist(), "seconds": seconds} | chosen


def run(options: argparse.Namespace, sizes: list[int], seeds: range) -> dict:
    """Return {(trials, split, method): AUCs}; what ``--keep`` holds is not computed again."""
    lines = options.keep.read_text().splitlines() if options.keep.exists() else []
    known = {(c["data"], c["trials"], c["split"], c["method"]): c for c in map(json.loads, lines)}
    wanted = [(options.data, n, seed, m) for seed, n, m in product(seeds, sizes, options.methods)]
    missing = [key for key in wanted if key not in known]
    work = Parallel(n_jobs=options.jobs, return_as="generator_unordered")(
        delayed(cell)(*key, options.fold_jobs) for key in missing
    )
    for found in work:
        known[found["data"], found["trials"], found["split"], found["method"]] = found
        with options.keep.open("a") as file:
            file.write(json.dumps(found) + "\n")
    return {key[1:]: 100 * np.array(known[key]["aucs"]) for key in wanted}


def lead(one: np.ndarray, other: np.ndarray) -> str:
    """Mean lead over subjects ± its standard error, and how many are ahead, from AUCs (splits, T)."""
    leads = (one - other).mean(axis=0)
    error = leads.std(ddof=1) / np.sqrt(len(leads))
    return f"{leads.mean():+.2f} ± {error:.2f} ({(leads > 0).sum()} of {len(leads)})"


def weak_and_others(alone: np.ndarray, together: np.ndarray) -> str:
    """Mean gain of the weakest third of the subjects and of the others, from AUCs (splits, T).

    Who is weak is told by the even splits and the gain measured in the odd ones, and the other way round: in the same
    splits, whoever had bad luck would count as weak, and gain.
    """
    even, gains = np.arange(len(alone)) % 2 == 0, []
    for told_by in (even, ~even):
        order = np.argsort(alone[told_by].mean(axis=0))
        gain = (together - alone)[~told_by].mean(axis=0)
        third = len(order) // 3
        gains.append([gain[order[:third]].mean(), gain[order[third:]].mean()])
    return "{:+.1f}, {:+.1f}".format(*np.mean(gains, axis=0))


def main() -> None:
    """Print two tables, one row per number of trials: AUCs, and differences over subjects."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", choices=sorted(TRIALS))
    parser.add_argument("--trials", type=int, nargs="+")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="number of the first split, the seed of its draw")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS[:6])
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--fold-jobs", type=int, default=1, help="processes inside a joint fit; then --jobs 1")
    parser.add_argument("--keep", type=Path, default=Path(os.devnull), help="JSON lines, one per result")
    options = parser.parse_args()
    sizes = options.trials or TRIALS[options.data]
    seeds = range(options.first, options.first + options.splits)
    found = run(options, sizes, seeds)
    aucs = {(n, m): np.stack([found[n, s, m] for s in seeds]) for n, m in product(sizes, options.methods)}
    print(f"{options.data}, splits {seeds[0]} to {seeds[-1]}\n\n| trials | " + " | ".join(options.methods) + " |")
    print("| --- " * (1 + len(options.methods)) + "|")
    for n in sizes:
        print(f"| {n} | " + " | ".join(f"{aucs[n, m].mean():.1f}" for m in options.methods) + " |")
    ours, others = options.methods[-1], options.methods[:-1]
    heads = [f"{ours} − {other}" for other in others] + [f"{ours} − {others[0]}: weakest third, others"]
    print("\n| trials | " + " | ".join(heads) + " |\n" + "| --- " * (1 + len(heads)) + "|")
    for n in sizes:
        shown = [lead(aucs[n, ours], aucs[n, other]) for other in others]
        shown.append(weak_and_others(aucs[n, others[0]], aucs[n, ours]) if len(seeds) > 1 else "")
        print(f"| {n} | " + " | ".join(shown) + " |")


if __name__ == "__main__":
    main()
