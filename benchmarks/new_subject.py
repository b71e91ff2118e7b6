"""New subjects with few calibration trials or none: adapted with and without labels, against alone, pooled, peers.

    MIXNORM_DATA=... python benchmarks/new_subject.py uam-p300 --seeds 0 1 --jobs 8 --keep new.jsonl
    MIXNORM_DATA=... python benchmarks/new_subject.py ner2015-errp --left-out 4 --jobs 4

Every subject is left out in turn. The others are fitted together on ``--trials`` trials each with noise
(``penalty="l2", noise="structured"``), and adapted to calibration trials of the new subject, drawn at random; the
table has the AUC on all its other trials, in percent. Channels are scaled subject by subject; those of a new subject
on its calibration trials, without any on all its trials, which needs no labels.

    own          an SVM on the calibration trials    own-noise    the same with the noise covariance
    pooled       one SVM, others and calibration     mean         the mean classifier of the others as it is
    no-labels    adapted to trials without labels (0 calibration trials: all trials of the new subject)
    adapt        adapted with labels
    riemann      Xdawn covariances, re-centred for every subject, tangent space, logistic regression (needs pyRiemann):
                 others and calibration trials; its mean is that of the trials without labels

``--left-out K``: subjects are left out in K groups, the others fitted on all their trials, no calibration: ``mean``,
``no-labels`` and ``riemann`` alone. One line per unit is added to the file ``--keep``; a run that was stopped goes on.
"""

import argparse
import json
import os
from itertools import product
from pathlib import Path

import numpy as np
from _recordings import draw, load, split, standardise
from joblib import Parallel, delayed
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from mixnorm import GroupSVCCV, MultiTaskGroupSVCCV, PooledSVC
from mixnorm.estimators.settings import SETTINGS

SVM_ALPHAS = np.logspace(-3, 1.5, 8)
METHODS = ("own", "own-noise", "pooled", "mean", "no-labels", "adapt", "riemann")
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


def joint_fit(train: tuple, groups: np.ndarray, **options) -> MultiTaskGroupSVCCV:
    """Fit the known subjects together."""
    X, y, subjects = train
    model = MultiTaskGroupSVCCV(penalty="l2", noise="structured", groups=groups, tol=1e-3, **options)
    return model.fit(X, y, subjects=subjects)


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
    if method == "riemann":
        return riemann(train, own, X_test, len(np.unique(groups)))
    if method == "mean":
        return X_test @ model.mean_coef_
    trials = (X_new if len(y_new) else X_test, None) if method == "no-labels" else (X_new, y_new)
    return model.adapt(*trials, subject="new").decision_function(X_test)


def riemann(train: tuple, own: tuple, X_test: np.ndarray, n_channels: int) -> np.ndarray:
    """Scores by pyRiemann: Xdawn covariances of all labelled trials, re-centred by subject, in the tangent space."""
    from pyriemann.estimation import XdawnCovariances
    from pyriemann.tangentspace import TangentSpace
    from pyriemann.utils.base import invsqrtm
    from pyriemann.utils.mean import mean_riemann

    (X, y, subjects), (X_new, y_new) = train, own

    def epochs(matrix):
        return matrix.reshape(len(matrix), n_channels, -1)

    # channels that are constant in every subject have no covariance
    varies = epochs(X).std(axis=(0, 2)) > 0
    filters = XdawnCovariances(nfilter=4, estimator="lwf", xdawn_estimator="lwf")
    labelled = np.concatenate([X, X_new]), np.concatenate([y, y_new])
    filters.fit(epochs(labelled[0])[:, varies], labelled[1])

    def recentred(matrix, by):
        root = invsqrtm(mean_riemann(filters.transform(epochs(by)[:, varies])))
        return root @ filters.transform(epochs(matrix)[:, varies]) @ root

    known = np.concatenate([recentred(X[subjects == s], X[subjects == s]) for s in dict.fromkeys(subjects.tolist())])
    labels = np.concatenate([y[subjects == s] for s in dict.fromkeys(subjects.tolist())])
    by = X_new if len(X_new) else X_test
    covariances = np.concatenate([known, recentred(X_new, by)]) if len(y_new) else known
    space = TangentSpace().fit(covariances)
    classifier = LogisticRegression(max_iter=2000, class_weight="balanced")
    classifier.fit(space.transform(covariances), np.concatenate([labels, y_new]))
    return classifier.decision_function(space.transform(recentred(X_test, by)))


def leave_out(options: argparse.Namespace, seed: int, subject: str) -> dict:
    """Return the AUCs (calibrations, methods) of one new subject."""
    recordings, groups = load(options.data)
    n_channels = len(np.unique(groups))
    others = {s: r for s, r in recordings.items() if s != subject}
    train, _ = split(others, options.trials or OTHERS[options.data], seed, n_channels)
    needs = {"mean", "no-labels", "adapt"} & set(options.methods)
    grid = SMALL_GRID if options.small else {}
    model = joint_fit(train, groups, rehearse="adapt" in needs, **grid) if needs else None
    aucs = []
    for n_trials in options.calibration:
        own, (X_test, y_test) = calibrate(recordings[subject], n_trials, seed, n_channels)
        scores = [scores_of(method, model, train, own, X_test, groups) for method in options.methods]
        aucs.append([round(100 * roc_auc_score(y_test, score), 3) for score in scores])
    return {"seed": seed, "subject": subject, "aucs": aucs, "transfer": getattr(model, "transfer_auc_", None)}


def leave_out_several(options: argparse.Namespace, _seed: int, subjects: tuple[str, ...]) -> dict:
    """Return the AUCs (1, methods), as a mean over some subjects that are left out together without calibration."""
    recordings, groups = load(options.data)
    n_channels = len(np.unique(groups))
    parts = [(s, *standardise(r.X, n_channels=n_channels), r.y) for s, r in recordings.items()]
    known = [(X, y, np.repeat(s, len(y))) for s, X, y in parts if s not in subjects]
    train = tuple(np.concatenate(columns) for columns in zip(*known))
    needs = {"mean", "no-labels"} & set(options.methods)
    model = joint_fit(train, groups, rehearse=False, **SMALL_GRID) if needs else None
    by_subject = {}
    for subject, X, y in parts:
        if subject in subjects:
            scores = [scores_of(m, model, train, (X[:0], y[:0]), X, groups) for m in options.methods]
            by_subject[subject] = [round(100 * roc_auc_score(y, score), 3) for score in scores]
    aucs = [np.mean(list(by_subject.values()), axis=0).round(3).tolist()]
    return {"seed": 0, "subject": "+".join(subjects), "aucs": aucs, "by_subject": by_subject}


def run(options: argparse.Namespace) -> list[dict]:
    """Return the results of all units; what ``--keep`` holds is not computed again."""
    wanted = {"data": options.data, "others": options.trials, "calibration": options.calibration}
    wanted |= {"methods": list(options.methods), "left_out": options.left_out}
    wanted |= {"small": True} if options.small else {}
    lines = [json.loads(line) for line in options.keep.read_text().splitlines()] if options.keep.exists() else []
    known = {(c["seed"], c["subject"]): c for c in lines if wanted.items() <= c.items()}
    names = list(load(options.data)[0])
    units = [(leave_out, seed, name) for seed, name in product(options.seeds, names)]
    if options.left_out:
        units = [(leave_out_several, 0, tuple(names[k :: options.left_out])) for k in range(options.left_out)]
    labels = [(seed, who if isinstance(who, str) else "+".join(who)) for _, seed, who in units]
    tasks = [(do, seed, who) for (do, seed, who), label in zip(units, labels) if label not in known]
    work = Parallel(n_jobs=options.jobs, return_as="generator_unordered")(
        delayed(do)(options, seed, who) for do, seed, who in tasks
    )
    for found in work:
        known[found["seed"], found["subject"]] = found
        with options.keep.open("a") as file:
            file.write(json.dumps({**wanted, **found}) + "\n")
    return [known[label] for label in labels]


def main() -> None:
    """Print the AUCs, and the lead of ``adapt`` over the better of alone with noise and the mean of the others."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", choices=sorted(OTHERS))
    parser.add_argument("--calibration", type=int, nargs="+", default=[0, 5, 20, 50, 100])
    parser.add_argument("--trials", type=int, help="trials of every other subject [100; ner2015-errp: 120]")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS[:6])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="of the draws of all trials")
    parser.add_argument("--left-out", type=int, default=0, help="leave subjects out in so many groups, no calibration")
    parser.add_argument("--small", action="store_true", help="a smaller grid of the joint fit, in three folds")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--keep", type=Path, default=Path(os.devnull), help="JSON lines, one per result")
    options = parser.parse_args()
    if options.left_out:
        options.calibration = [0]
        options.methods = [m for m in options.methods if m in ("mean", "no-labels", "riemann")]
    results = run(options)
    if options.left_out:
        rows = np.array([aucs for found in results for aucs in found["by_subject"].values()])
        print("| " + " | ".join(options.methods) + " |\n" + "| --- " * len(options.methods) + "|")
        print("| " + " | ".join(f"{value:.1f}" for value in rows.mean(axis=0)) + " |")
        return
    aucs = np.array([found["aucs"] for found in results])
    print(f"{options.data}, {len(aucs)} new subjects (seeds {options.seeds})\n")
    print(
        "| calibration trials | " + " | ".join(options.methods) + " |\n" + "| --- " * (len(options.methods) + 1) + "|"
    )
    for n_trials, rows in zip(options.calibration, aucs.transpose(1, 0, 2)):
        print(f"| {n_trials} | " + " | ".join(f"{value:.1f}" for value in rows.mean(axis=0)) + " |")
    if "adapt" not in options.methods:
        return
    place = {method: i for i, method in enumerate(options.methods)}
    others = [m for m in ("own-noise", "mean", "pooled", "riemann") if m in place]
    print(
        "\n| calibration trials | "
        + " | ".join(f"adapt − {m}" for m in others)
        + " |\n"
        + "| --- " * (len(others) + 1)
        + "|"
    )
    for n_trials, rows in zip(options.calibration, aucs.transpose(1, 0, 2)):
        leads = [rows[:, place["adapt"]] - rows[:, place[m]] for m in others]
        shown = [f"{lead.mean():+.2f} ± {lead.std(ddof=1) / np.sqrt(len(lead)):.2f}" for lead in leads]
        print(f"| {n_trials} | " + " | ".join(shown) + " |")


if __name__ == "__main__":
    main()
