"""AUC of SVM, SVM-Full, MGSVM-2 and MGSVM-2s for a growing number of training trials per subject.

    MIXNORM_DATA=... python benchmarks/many_subjects.py uam-p300 --trials 50 100 200 500 --splits 10

Trials are drawn at random in each subject, features standardised on the training trials and clipped to ±5, parameters
chosen by 3-fold cross-validation inside them, tested on the other trials: means over subjects and splits, in percent.
"""

import argparse
import time
from collections import defaultdict

import numpy as np
from _recordings import load, split
from sklearn.metrics import roc_auc_score

from mixnorm import MultiTaskGroupSVC, MultiTaskGroupSVCCV, PerSubjectSVC, PooledSVC
from mixnorm._choice import Choice, choose

SVM_ALPHAS = np.logspace(-3, 1.5, 8)
ALPHAS = np.logspace(-3, -1, 5)
SIMILARITIES = (0.0, 1e-3, 1e-2, 1e-1, 1.0, 10.0)


def fitted(X: np.ndarray, y: np.ndarray, subjects: np.ndarray, groups: np.ndarray) -> dict:
    """Return the fitted methods of the table by name; those that share come from one solved and scored grid."""
    common, whose = {"groups": groups, "tol": 1e-3}, {"subjects": subjects}
    grid = MultiTaskGroupSVCCV(ALPHAS, similarities=SIMILARITIES, **common).fit(X, y, **whose)
    # From the largest similarity down, as the estimator itself goes through them.
    candidates = [Choice(None, grid.alphas_, [], *row) for row in zip(grid.scores_, grid.n_selected_)][::-1]

    def refit(some: list[Choice], rule: str) -> MultiTaskGroupSVC:
        s, a = choose(some, rule, None)
        similarity = SIMILARITIES[::-1][len(candidates) - len(some) :][s]
        return MultiTaskGroupSVC(ALPHAS[a], similarity=similarity, **common).fit(X, y, **whose)

    return {
        "SVM": PerSubjectSVC(SVM_ALPHAS, **common).fit(X, y, **whose),
        "SVM-Full": PooledSVC(SVM_ALPHAS, **common).fit(X, y, **whose),
        "MGSVM-2": refit(candidates[-1:], "best"),
        "MGSVM-2s": grid,
        "MGSVM-2s, centre": refit(candidates, "centre"),
    }


def test_aucs(model, test: tuple) -> np.ndarray:
    """Return the AUC of every subject, in percent, (T,)."""
    X, y, subjects = test
    scores = model.decision_function(X, subjects=subjects)
    return np.array([100 * roc_auc_score(y[subjects == s], scores[subjects == s]) for s in model.subjects_])


def run(name: str, n_trials: int, seeds: range) -> dict[str, np.ndarray]:
    """Return the AUCs of every method, (splits, T)."""
    recordings, groups = load(name)
    found = defaultdict(list)
    for seed in seeds:
        train, test = split(recordings, n_trials, seed)
        for method, model in fitted(*train, groups).items():
            found[method].append(test_aucs(model, test))
    return {method: np.stack(rows) for method, rows in found.items()}


def main() -> None:
    """Print the table, one row per number of trials, and what the weakest subjects gain."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", choices=["uam-p300", "ner2015-errp"])
    parser.add_argument("--trials", type=int, nargs="+", default=[50, 100, 200, 500])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="number of the first split, the seed of its draw")
    options = parser.parse_args()
    for place, n_trials in enumerate(options.trials):
        start = time.perf_counter()
        found = run(options.data, n_trials, range(options.first, options.first + options.splits))
        if place == 0:
            print(f"{options.data}, {options.splits} splits from number {options.first}\n")
            print("| trials | " + " | ".join(found) + " | weakest third: SVM → 2s | others: SVM → 2s | s |")
            print("| --- " * (len(found) + 4) + "|")
        alone, shared = (found[m].mean(axis=0) for m in ("SVM", "MGSVM-2s"))
        weak = np.argsort(alone)[: len(alone) // 3]
        strong = np.setdiff1d(np.arange(len(alone)), weak)
        gains = [f"{alone[part].mean():.1f} → {shared[part].mean():.1f}" for part in (weak, strong)]
        cells = [f"{aucs.mean():.1f}" for aucs in found.values()]
        seconds = time.perf_counter() - start
        print(f"| {n_trials} | " + " | ".join([*cells, *gains]) + f" | {seconds:.0f} |", flush=True)


if __name__ == "__main__":
    main()
