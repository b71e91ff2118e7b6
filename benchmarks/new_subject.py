"""New subjects with few calibration trials or none: adapted with and without labels, against alone, pooled, peers.

    MIXNORM_DATA=... python benchmarks/new_subject.py uam-p300 --seeds 0 1 --jobs 8 --keep new.jsonl
    MIXNORM_DATA=... python benchmarks/new_subject.py ner2015-errp --left-out 4 --jobs 4 --keep new.jsonl

Every subject is left out in turn. The others are fitted together on ``--trials`` trials each with noise
(``penalty="l2"``, ``--noise``), and adapted to calibration trials of the new subject, drawn at random; the table has
the AUC on all its other trials, in percent. Channels are scaled subject by subject; those of a new subject on its
calibration trials, without any on all its trials, which needs no labels.

    own          an SVM on the calibration trials    own-noise    the same with noise="evoked"
    pooled       one SVM, others and calibration     mean         the mean classifier of the others as it is
    no-labels    adapted to trials without labels (0 calibration trials: all trials of the new subject)
    adapt        adapted with labels
    riemann, riemann-no-labels    the same two by Xdawn covariances, re-centred for every subject, tangent space and
                 logistic regression (needs pyRiemann; _riemann.py)

``--left-out K``: subjects are left out in K groups, the others fitted on all their trials, no calibration: ``mean``,
``no-labels`` and ``riemann-no-labels`` alone. One line per new subject and part of the methods is added to the file
``--keep``; a run that was stopped goes on.
"""

import argparse
import json
import os
from itertools import product
from pathlib import Path

import numpy as np
from _recordings import draw, load, split, standardise
from joblib import Parallel, delayed
from sklearn.metrics import roc_auc_score

from mixnorm import GroupSVCCV, MultiTaskGroupSVCCV, PooledSVC
from mixnorm.estimators.settings import SETTINGS

SVM_ALPHAS = np.logspace(-3, 1.5, 8)
#: Methods that are computed together.
PARTS = (("own", "own-noise"), ("pooled",), ("mean", "no-labels", "adapt"), ("riemann-no-labels", "riemann"))
METHODS = tuple(method for part in PARTS for method in part)
#: Methods that work without calibration trials, for ``--left-out``.
UNCALIBRATED = ("mean", "no-labels", "riemann-no-labels")
#: Trials of every other subject.
OTHERS = {"uam-p300": 100, "ner2015-errp": 120, "bigp3bci-a": 100}
#: Where a grid point takes long (``--left-out``, with all trials of the others, and ``--small``).
SMALL_GRID = {"alphas": 4, "similarities": 4, "cv": 3}


def calibrate(recording, n_trials: int, seed: int, n_channels: int) -> tuple:
    """Return the calibration and the test trials of a new subject, ((X, y), (X, y)), scaled."""
    if n_trials == 0:
        (X,) = standardise(recording.X, n_channels=n_channels)
        return (X[:0], recording.y[:0]), (X, recording.y)
    train, test = draw(recording, n_trials, np.random.default_rng(seed))
    X, X_test = standardise(recording.X[train], recording.X[test], n_channels=n_channels)
    return (X, recording.y[train]), (X_test, recording.y[test])


def joint_fit(train: tuple, groups: np.ndarray, noise: str, **options) -> MultiTaskGroupSVCCV:
    """Fit the known subjects together."""
    X, y, subjects = train
    model = MultiTaskGroupSVCCV(penalty="l2", noise=noise, groups=groups, tol=1e-3, **options)
    return model.fit(X, y, subjects=subjects)


def prepared(part: tuple[str, ...], train: tuple, groups: np.ndarray, options: argparse.Namespace, seed: int):
    """Return what the methods of a part have in common: the fitted known subjects, or None."""
    if "adapt" in part:
        small = options.small or options.left_out
        return joint_fit(train, groups, options.noise, rehearse=not options.left_out, **(SMALL_GRID if small else {}))
    if "riemann" in part:
        from _riemann import RiemannTransfer  # pyRiemann is needed for this part alone

        return RiemannTransfer(train, len(np.unique(groups)), options.calibration, seed)
    return None


def scores_of(method: str, model, train: tuple, own: tuple, X_test: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return the scores of the test trials of a new subject by one method."""
    (X, y, _), (X_new, y_new) = train, own
    if method.startswith("own"):
        if not len(y_new):
            return np.zeros(len(X_test))
        how = SETTINGS["svm-noise"] if method == "own-noise" else {"alphas": SVM_ALPHAS, "penalty": "l2"}
        return GroupSVCCV(groups=groups, tol=1e-3, **how).fit(X_new, y_new).decision_function(X_test)
    if method == "pooled":
        everybody = np.concatenate([X, X_new]), np.concatenate([y, y_new])
        return PooledSVC(SVM_ALPHAS, groups=groups, tol=1e-3).fit(*everybody).decision_function(X_test)
    if method.startswith("riemann"):
        return model.scores(X_new, y_new, X_test, labels=method == "riemann")
    if method == "mean":
        return X_test @ model.mean_coef_
    trials = (X_new if len(y_new) else X_test, None) if method == "no-labels" else (X_new, y_new)
    return model.adapt(*trials, subject="new").decision_function(X_test)


def leave_out(options: argparse.Namespace, seed: int, subject: str, part: tuple[str, ...]) -> dict:
    """Return the AUCs of one new subject, {method: one for every number of calibration trials}."""
    recordings, groups = load(options.data)
    n_channels = len(np.unique(groups))
    others = {s: r for s, r in recordings.items() if s != subject}
    train, _ = split(others, options.trials or OTHERS[options.data], seed, n_channels)
    model = prepared(part, train, groups, options, seed)
    aucs = {method: [] for method in part}
    for n_trials in options.calibration:
        own, (X_test, y_test) = calibrate(recordings[subject], n_trials, seed, n_channels)
        for method in part:
            score = scores_of(method, model, train, own, X_test, groups)
            aucs[method].append(round(100 * roc_auc_score(y_test, score), 3))
    return {"seed": seed, "subject": subject, "part": part[-1], "aucs": aucs}


def leave_out_several(options: argparse.Namespace, seed: int, subjects: str, part: tuple[str, ...]) -> dict:
    """Return the AUCs of some subjects that are left out together without calibration, {method: {subject: AUC}}."""
    recordings, groups = load(options.data)
    n_channels = len(np.unique(groups))
    parts = [(s, *standardise(r.X, n_channels=n_channels), r.y) for s, r in recordings.items()]
    left_out = subjects.split("+")
    known = [(X, y, np.repeat(s, len(y))) for s, X, y in parts if s not in left_out]
    train = tuple(np.concatenate(columns) for columns in zip(*known))
    model = prepared(part, train, groups, options, seed)
    aucs = {method: {} for method in part if method in UNCALIBRATED}
    for (subject, X, y), method in product(parts, aucs):
        if subject in left_out:
            score = scores_of(method, model, train, (X[:0], y[:0]), X, groups)
            aucs[method][subject] = round(100 * roc_auc_score(y, score), 3)
    return {"seed": seed, "subject": subjects, "part": part[-1], "aucs": aucs}


def run(options: argparse.Namespace) -> list[dict]:
    """Return the results of all units; what ``--keep`` holds is not computed again."""
    wanted = {"data": options.data, "others": options.trials, "calibration": options.calibration}
    wanted |= {"left_out": options.left_out, "small": options.small}
    lines = [json.loads(line) for line in options.keep.read_text().splitlines()] if options.keep.exists() else []
    known = {_key(c): c for c in lines if wanted.items() <= c.items()}
    names, parts = list(load(options.data)[0]), [part for part in PARTS if set(part) & set(options.methods)]
    do, groups = leave_out, names
    if options.left_out:
        do, groups = leave_out_several, ["+".join(names[k :: options.left_out]) for k in range(options.left_out)]
    units = {
        (seed, who, part[-1], _noise(part[-1], options)): part
        for part in parts
        for seed, who in product(options.seeds, groups)
    }
    work = Parallel(n_jobs=options.jobs, return_as="generator_unordered")(
        delayed(do)(options, *key[:2], part) for key, part in units.items() if key not in known
    )
    for found in work:
        line = {**wanted, "noise": _noise(found["part"], options), **found}
        known[_key(line)] = line
        with options.keep.open("a") as file:
            file.write(json.dumps(line) + "\n")
    return [known[key] for key in units]


def _noise(part: str, options: argparse.Namespace) -> str | None:
    """Return the noise of the joint fit; it makes no difference to the other methods."""
    return options.noise if part == "adapt" else None


def _key(line: dict) -> tuple:
    return line["seed"], line["subject"], line["part"], line["noise"]


def table(results: list[dict], options: argparse.Namespace) -> dict[str, np.ndarray]:
    """Return the AUCs (new subjects, calibrations) of every method, as a mean over the draws of a subject."""
    found: dict[str, dict[str, list]] = {}
    for line in results:
        for method in (m for m in line["aucs"] if m in options.methods):
            found.setdefault(method, {}).setdefault(line["subject"], []).append(line["aucs"][method])
    return {m: np.array([np.mean(draws, axis=0) for draws in by.values()]) for m, by in found.items()}


def lead(one: np.ndarray, other: np.ndarray) -> str:
    """Mean lead over subjects ± its standard error."""
    leads = one - other
    return f"{leads.mean():+.1f} ± {leads.std(ddof=1) / np.sqrt(len(leads)):.1f}"


def print_table(head: list[str], rows: list[list[str]]) -> None:
    """Print a table in Markdown."""
    for row in (head, ["---"] * len(head), *rows):
        print("| " + " | ".join(row) + " |")
    print()


def main() -> None:
    """Print the AUCs, and the lead of ``adapt`` and ``no-labels`` over the others."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", choices=sorted(OTHERS))
    parser.add_argument("--calibration", type=int, nargs="+", default=[0, 5, 20, 50, 100])
    parser.add_argument("--trials", type=int, help="trials of every other subject [100; ner2015-errp: 120]")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS[:6])
    parser.add_argument("--noise", choices=("structured", "evoked"), default="evoked", help="of the joint fit")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="of the draws of all trials")
    parser.add_argument("--left-out", type=int, default=0, help="leave subjects out in so many groups, no calibration")
    parser.add_argument("--small", action="store_true", help="a smaller grid of the joint fit, in three folds")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--keep", type=Path, default=Path(os.devnull), help="JSON lines, one per result")
    options = parser.parse_args()
    if options.left_out:
        options.calibration, options.seeds = [0], [0]
        options.methods = [method for method in options.methods if method in UNCALIBRATED]
    results = run(options)
    print(f"{options.data}, seeds {options.seeds}, noise of the joint fit: {options.noise}\n")
    if options.left_out:
        aucs = {m: {} for m in options.methods}
        for line, method in product(results, options.methods):
            aucs[method] |= line["aucs"].get(method, {})
        by_subject = {m: np.array([values[s] for s in sorted(values)]) for m, values in aucs.items()}
        print_table(list(by_subject), [[f"{values.mean():.1f}" for values in by_subject.values()]])
        return
    aucs = table(results, options)
    print_table(
        ["calibration trials", *aucs],
        [[str(n), *(f"{aucs[m][:, i].mean():.1f}" for m in aucs)] for i, n in enumerate(options.calibration)],
    )
    for ours in ("no-labels", "adapt"):
        others = [m for m in aucs if m not in ("own", "no-labels", "adapt")]
        if ours in aucs and others:
            rows = [
                [str(n), *(lead(aucs[ours][:, i], aucs[m][:, i]) for m in others)]
                for i, n in enumerate(options.calibration)
            ]
            print_table(["calibration trials", *(f"{ours} − {m}" for m in others)], rows)


if __name__ == "__main__":
    main()
