"""Leave one subject out: `adapt` with a few calibration trials against the new subject's own SVM and the pooled SVM.

    MIXNORM_DATA=... python benchmarks/new_subject.py uam-p300 --calibration 0 20 50 100 --keep new-subjects.jsonl

The other subjects are fitted jointly on ``--trials`` trials each (features standardised subject by subject, clipped to
±5). The new subject's features are standardised on its calibration trials; without any, or with ``--unlabelled``, on
all its trials, which needs no labels. "aligned" means adaptation of a joint fit with ``align=True``: once with the
labels of the calibration trials, once without labels (if there are no calibration trials: with all trials).
The table has the AUC on all other trials of the new subject, in percent, as means over subjects and draws. One line
per (draw, subject) is added to the file ``--keep``; a run that was interrupted continues from it.
"""

import argparse
import json
import os
from pathlib import Path

import numpy as np
from _recordings import draw, load, split, standardise
from sklearn.metrics import roc_auc_score

from mixnorm import GroupSVCCV, MultiTaskGroupSVC, MultiTaskGroupSVCCV, PooledSVC

SVM_ALPHAS = np.logspace(-3, 1.5, 8)
ALPHAS = np.logspace(-3.5, -1.5, 5)
SIMILARITIES = (1e-2, 1e-1, 1.0, 10.0)
METHODS = [
    "own SVM",
    "pooled SVM",
    "mean of the others",
    "adapt",
    "all learned again",
    "aligned, no labels",
    "adapt, aligned",
]


def calibrate(recording, n_trials: int, rng: np.random.Generator, unlabelled: bool) -> tuple:
    """Return the calibration and the test trials of a new subject, ((X, y), (X, y)), standardised."""
    if n_trials == 0:
        (X,) = standardise(recording.X)
        return (X[:0], recording.y[:0]), (X, recording.y)
    train, test = draw(recording, n_trials, rng)
    known = recording.X if unlabelled else recording.X[train]
    _, X, X_test = standardise(known, recording.X[train], recording.X[test])
    return (X, recording.y[train]), (X_test, recording.y[test])


def own_svm(X: np.ndarray, y: np.ndarray, groups: np.ndarray, X_test: np.ndarray) -> np.ndarray:
    """Scores of an SVM fitted to the calibration trials only; zeros if there are none."""
    if not len(y):
        return np.zeros(len(X_test))
    return GroupSVCCV(SVM_ALPHAS, penalty="l2", groups=groups, tol=1e-3).fit(X, y).decision_function(X_test)


def learned_again(joint: MultiTaskGroupSVCCV, all_trials: tuple, subject, X_test: np.ndarray) -> np.ndarray:
    """Scores of a joint fit of all subjects and the new one, at the alpha and similarity chosen without it."""
    X, y, subjects = all_trials
    model = MultiTaskGroupSVC(joint.alpha_, similarity=joint.similarity_, groups=joint.groups, tol=1e-3)
    return model.fit(X, y, subjects=subjects).decision_function(X_test, subjects=subject)


def leave_out(recordings: dict, groups: np.ndarray, subject, seed: int, options) -> list[list[float]]:
    """Return the AUCs (calibrations, methods) of one new subject."""
    others = {s: r for s, r in recordings.items() if s != subject}
    (X, y, subjects), _ = split(others, options.trials, seed)
    joint, aligned = (
        MultiTaskGroupSVCCV(ALPHAS, similarities=SIMILARITIES, groups=groups, align=align, tol=1e-3)
        for align in (False, True)
    )
    for model in (joint, aligned):
        model.fit(X, y, subjects=subjects)
    rows = []
    for n_trials in options.calibration:
        rng = np.random.default_rng(seed)
        (X_new, y_new), (X_test, y_test) = calibrate(recordings[subject], n_trials, rng, options.unlabelled)
        new = X_new, y_new, np.repeat(np.array([subject]), len(y_new))
        all_trials = [np.concatenate(pair) for pair in zip((X, y, subjects), new)]
        pooled = PooledSVC(SVM_ALPHAS, groups=groups, tol=1e-3).fit(*all_trials[:2])
        for model in (joint, aligned):
            model.adapt(X_new, y_new, subject=subject)
        aligned.adapt(X_new if n_trials else X_test, subject="no labels")
        scores = (
            own_svm(X_new, y_new, groups, X_test),
            pooled.decision_function(X_test),
            X_test @ joint.mean_coef_,
            joint.decision_function(X_test, subjects=subject),
            learned_again(joint, all_trials, subject, X_test),
            aligned.decision_function(X_test, subjects="no labels"),
            aligned.decision_function(X_test, subjects=subject),
        )
        rows.append([round(100 * roc_auc_score(y_test, score), 3) for score in scores])
    return rows


def run(options) -> np.ndarray:
    """Return the AUCs (new subjects, calibrations, methods) of all draws; results in ``--keep`` are reused."""
    wanted = {"data": options.data, "others": options.trials, "calibration": options.calibration}
    wanted |= {"unlabelled": options.unlabelled, "methods": METHODS}
    lines = [json.loads(line) for line in options.keep.read_text().splitlines()] if options.keep.exists() else []
    known = {(c["seed"], c["subject"]): c["aucs"] for c in lines if wanted.items() <= c.items()}
    recordings, groups = load(options.data)
    for seed in options.seeds:
        for subject in recordings:
            if (seed, subject) not in known:
                aucs = known[seed, subject] = leave_out(recordings, groups, subject, seed, options)
                with options.keep.open("a") as file:
                    file.write(json.dumps({**wanted, "seed": seed, "subject": subject, "aucs": aucs}) + "\n")
    return np.array([known[seed, subject] for seed in options.seeds for subject in recordings])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", choices=["uam-p300", "ner2015-errp"])
    parser.add_argument("--calibration", type=int, nargs="+", default=[0, 20, 50, 100])
    parser.add_argument("--trials", type=int, default=100, help="trials of every other subject")
    parser.add_argument("--unlabelled", action="store_true", help="standardise the new subject on all its trials")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="of the draws of all trials")
    parser.add_argument("--keep", type=Path, default=Path(os.devnull), help="JSON lines, one per (draw, new subject)")
    options = parser.parse_args()
    aucs = run(options)
    print(f"{options.data}, {len(aucs)} new subjects, {options.trials} trials of each of the others\n")
    leads = {f"{METHODS[one]} − {METHODS[other]}": (one, other) for one, other in ((3, 1), (6, 1), (6, 3))}
    print("| calibration trials | " + " | ".join([*METHODS, *leads]) + " | aligned better than own and pooled |")
    print("| --- " * (len(METHODS) + len(leads) + 2) + "|")
    for n_trials, rows in zip(options.calibration, aucs.transpose(1, 0, 2)):
        shown = [f"{value:.1f}" for value in rows.mean(axis=0)]
        for one, other in leads.values():
            lead = rows[:, one] - rows[:, other]
            shown.append(f"{lead.mean():+.2f} ± {lead.std(ddof=1) / np.sqrt(len(lead)):.2f}")
        wins = int(np.sum(rows[:, 6] > rows[:, :2].max(axis=1)))
        print(f"| {n_trials} | " + " | ".join(shown) + f" | {wins} of {len(rows)} |")


if __name__ == "__main__":
    main()
