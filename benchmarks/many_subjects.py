"""AUC of SVM, SVM-Full, MGSVM-2, MGSVM-2s and aligned MGSVM-2s for a growing number of training trials per subject.

    MIXNORM_DATA=... python benchmarks/many_subjects.py uam-p300 --splits 10 --keep uam.jsonl

Trials are drawn at random in each subject, features standardised on the training trials and clipped to ±5, parameters
chosen by cross-validation inside them, tested on the other trials: means over subjects and splits, in percent.

The whole grid is scored in every fold and every refit is tested, and one line per (trials, split, aligned or not) is
added to the file ``--keep``: a run that was stopped goes on where it was, and rules are compared without solving
anything again.
"""

import argparse
import json
import os
import time
from itertools import product
from pathlib import Path

import numpy as np
from _recordings import load, split

from mixnorm import MultiTaskGroupSVCCV, PerSubjectSVC, PooledSVC
from mixnorm.estimators.choice import Choice, choose
from mixnorm.estimators.folds import Divisions, auc

SVM_ALPHAS = np.logspace(-3, 1.5, 8)
TRIALS = {"uam-p300": (50, 100, 200, 500), "ner2015-errp": (30, 60, 120)}
ALPHAS = {"uam-p300": np.logspace(-3.5, -1.5, 5), "ner2015-errp": np.logspace(-3, -1, 5)}
SIMILARITIES = {
    "uam-p300": (0.0, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 1.0, 10.0),
    "ner2015-errp": (0.0, 1e-2, 3e-2, 1e-1, 3e-1, 1.0, 10.0),
}
#: Where subjects are aligned: in units of white features, whatever the data.
ALIGNED_SIMILARITIES = (0.0, 1e-2, 3e-2, 1e-1, 3e-1, 1.0, 10.0)


class WholeGrid(MultiTaskGroupSVCCV):
    """Keeps every refit of the grid, ``refits_``: W (S, A, T, d) and b (S, A, T)."""

    def _choose(self, candidates: list[Choice]) -> tuple[Choice, int]:
        W, b = (
            np.array([[getattr(s, name)[0, ..., -1] for s in c.solutions] for c in candidates]) for name in ("W", "b")
        )
        self.refits_ = W, b
        return super()._choose(candidates)


def test_aucs(W: np.ndarray, b: np.ndarray, test: tuple, subjects: np.ndarray) -> np.ndarray:
    """Return the AUC (..., T) on the test trials of classifiers W (..., T, d), b (..., T) of the subjects."""
    X, y, whose = test
    out = np.empty(b.shape)
    for t, subject in enumerate(subjects):
        own, flat = whose == subject, W[..., t, :].reshape(-1, W.shape[-1])
        out[..., t] = auc(y[own], X[own] @ flat.T).reshape(b.shape[:-1])
    return out


def baselines(train: tuple, test: tuple, groups: np.ndarray) -> dict[str, list[float]]:
    """Return the test AUCs (T,) of SVM and SVM-Full, alpha by the same folds as the grid."""
    (X, y, whose), found = train, {}
    cv = Divisions(min(np.bincount(y[whose == s], minlength=2).min() for s in np.unique(whose)))
    for label, baseline in (("SVM", PerSubjectSVC), ("SVM-Full", PooledSVC)):
        model = baseline(SVM_ALPHAS, groups=groups, cv=cv, tol=1e-3).fit(X, y, subjects=whose)
        found[label] = test_aucs(model.coef_, model.intercept_, test, model.subjects_).round(5).tolist()
    return found


def cell(recordings: dict, groups: np.ndarray, name: str, n_trials: int, seed: int, align: bool) -> dict:
    """Solve one (trials, split): the scores of the grid in every fold, and the test AUCs of all that was fitted."""
    train, test = split(recordings, n_trials, seed)
    X, y, whose = train
    start = time.process_time()
    similarities = ALIGNED_SIMILARITIES if align else SIMILARITIES[name]
    grid = WholeGrid(ALPHAS[name], similarities=similarities, groups=groups, align=align, rehearse=False, tol=1e-3)
    grid.fit(X, y, subjects=whose)
    return {
        "data": name,
        "trials": n_trials,
        "split": seed,
        "align": align,
        "scores": grid.scores_.round(5).tolist(),
        "n_selected": grid.n_selected_.tolist(),
        "grid": test_aucs(*grid.refits_, test, grid.subjects_).round(5).tolist(),
        **({} if align else baselines(train, test, groups)),
        "seconds": round(time.process_time() - start, 1),
    }


def run(name: str, sizes: list[int], seeds: range, keep: Path) -> list[dict]:
    """Return the cells of all sizes and splits, each with its aligned one; what ``keep`` holds is not solved again."""
    lines = keep.read_text().splitlines() if keep.exists() else []
    known = {(c["data"], c["trials"], c["split"], c.get("align", False)): c for c in map(json.loads, lines)}
    recordings, groups = load(name)
    for seed, n_trials, align in product(seeds, sizes, (False, True)):
        if (name, n_trials, seed, align) in known:
            continue
        known[name, n_trials, seed, align] = found = cell(recordings, groups, name, n_trials, seed, align)
        with keep.open("a") as file:
            file.write(json.dumps(found) + "\n")
    return [
        known[name, n_trials, seed, False] | {"aligned": known[name, n_trials, seed, True]}
        for n_trials, seed in product(sizes, seeds)
    ]


def chosen(
    found: dict, name: str, rule: str = "centre", folds: slice = slice(None), alone: bool = False
) -> np.ndarray:
    """Return the test AUCs (T,) of the cell that a rule takes by the scores of some folds; alone: of similarity 0."""
    scores, sensors, grid = (np.array(found[key]) for key in ("scores", "n_selected", "grid"))
    rows = [0] if alone else range(len(scores))[::-1]  # from the largest similarity down, as the estimator goes
    candidates = [Choice(None, ALPHAS[name], [], scores[s][:, folds], sensors[s]) for s in rows]
    s, a = choose(candidates, rule, None)
    return grid[rows[s], a]


def methods(found: dict, name: str) -> dict[str, np.ndarray]:
    """Return the test AUCs (T,) of every column of the table."""
    return {
        "SVM": np.array(found["SVM"]),
        "SVM-Full": np.array(found["SVM-Full"]),
        "MGSVM-2": chosen(found, name, alone=True),
        "MGSVM-2s": chosen(found, name),
        "2s, best": chosen(found, name, "best"),
        "2s, best of 3 folds": chosen(found, name, "best", folds=slice(3)),
        "2s, aligned": chosen(found["aligned"], name),
    }


def gain_of_the_weak(alone: np.ndarray, shared: np.ndarray, told_by: np.ndarray, gained_in: np.ndarray) -> np.ndarray:
    """Mean gain (2,) of the weakest third and of the others, from AUCs (splits, T).

    Who is weak is told by some splits, what they gain by some.
    """
    order = np.argsort(alone[told_by].mean(axis=0))
    gain = (shared - alone)[gained_in].mean(axis=0)
    third = len(order) // 3
    return np.array([gain[order[:third]].mean(), gain[order[third:]].mean()])


def gains(alone: np.ndarray, shared: np.ndarray) -> np.ndarray:
    """`gain_of_the_weak`, told by the splits of one half and gained in the other, and the other way round."""
    even = np.arange(len(alone)) % 2 == 0
    return (gain_of_the_weak(alone, shared, even, ~even) + gain_of_the_weak(alone, shared, ~even, even)) / 2


def gains_in_the_same_draw(alone: np.ndarray, shared: np.ndarray) -> np.ndarray:
    """`gain_of_the_weak` in each split by itself, averaged: whoever had bad luck counts as weak, and gains."""
    draws = np.eye(len(alone), dtype=bool)
    return np.mean([gain_of_the_weak(alone, shared, draw, draw) for draw in draws], axis=0)


def lead(one: np.ndarray, other: np.ndarray) -> str:
    """Mean lead over subjects ± its standard error, and how many are ahead, from AUCs (splits, T)."""
    leads = (one - other).mean(axis=0)
    error = leads.std(ddof=1) / np.sqrt(len(leads))
    return f"{leads.mean():+.2f} ± {error:.2f} ({(leads > 0).sum()} of {len(leads)})"


def row(name: str, cells: list[dict]) -> str:
    """Return one row of the table, for one number of trials."""
    columns = [methods(found, name) for found in cells]
    aucs = {label: 100 * np.stack([c[label] for c in columns]) for label in columns[0]}
    better = max(("SVM", "SVM-Full"), key=lambda label: aucs[label].mean())
    shown = [f"{values.mean():.1f}" for values in aucs.values()]
    shown.append(lead(aucs["MGSVM-2s"], aucs[better]))
    shown.append(lead(aucs["2s, aligned"], aucs["MGSVM-2s"]))
    if len(cells) > 1:
        most = 100 * np.stack([np.max(found["grid"], axis=(0, 1)) for found in cells])
        plain, aligned = aucs["MGSVM-2s"], aucs["2s, aligned"]
        for how, shared in (
            (gains, plain),
            (gains, most),
            (gains_in_the_same_draw, plain),
            (gains, aligned),
            (gains_in_the_same_draw, aligned),
        ):
            weak, others = how(aucs["SVM"], shared)
            shown.append(f"{weak:+.1f}, {others:+.1f}")
    return f"| {cells[0]['trials']} | " + " | ".join(shown) + " |"


def main() -> None:
    """Print the table, one row per number of trials."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", choices=sorted(TRIALS))
    parser.add_argument("--trials", type=int, nargs="+")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="number of the first split, the seed of its draw")
    parser.add_argument("--keep", type=Path, default=Path(os.devnull), help="JSON lines, one per (trials, split)")
    options = parser.parse_args()
    sizes = options.trials or TRIALS[options.data]
    cells = run(options.data, sizes, range(options.first, options.first + options.splits), options.keep)
    last = options.first + options.splits - 1
    print(f"{options.data}, splits {options.first} to {last}\n")
    weak = ["weakest third, others: 2s − SVM", "at most", "in the same draws", "aligned − SVM", "in the same draws"]
    heads = [*methods(cells[0], options.data), "2s above the better", "aligned above 2s", *weak]
    print("| trials | " + " | ".join(heads) + " |\n" + "| --- " * (1 + len(heads)) + "|")
    for n_trials in sizes:
        print(row(options.data, [c for c in cells if c["trials"] == n_trials]))


if __name__ == "__main__":
    main()
