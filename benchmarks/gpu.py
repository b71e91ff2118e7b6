"""A study's work on one GPU, and whether it chooses what the CPU does.

    python benchmarks/gpu.py path table compare multi compare-multi --json gpu.json

path     8 subjects x 10 splits x (3 folds x 20 alphas + refit) of GSVM-2, n = 1000, 32 x 8: solver and transfers
table    the same by all single-subject methods of the paper, with scoring, choice and test AUC
multi    MGSVM-2s at UAM size: 30 subjects x 310 features, 50 to 1000 training trials, 10 x 10 grid, 3 folds, 10 splits
compare, compare-multi
         some of the fits of table, and of multi, again by the CPU: alpha, CV scores, sensors and test AUC
         side by side
compare-noise
         several subjects with the noise of each: the same cross-validation on both, choices and scores side by side
"""

import argparse
import contextlib
import json
import os
import time
import warnings
from contextlib import nullcontext
from functools import partial

import numpy as np
from _problems import eeg_like
from _sampling import sampled
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold

from mixnorm import GroupSVCCV, MultiTaskGroupSVCCV, use_device
from mixnorm.estimators.cross_validation import auc
from mixnorm.execution.batching import together

QS = (1.0, 1.2, 1.4, 1.6, 1.8, 2.0)
METHODS = {
    "svm": {"penalty": "l2"},
    "svm-1": {"penalty": "l1"},
    "gsvm-2": {},
    "gsvm-q": {"q": QS},
    "gsvm-a": {"adaptive": True},
}
SIZES = (50, 100, 200, 500, 1000)
#: Fits of several subjects with noise, by what they are called in the output.
WITH_NOISE = {
    "l2, structured": {"penalty": "l2", "noise": "structured"},
    "group, kronecker": {"penalty": "group", "noise": "kronecker"},
    "group, structured, ridge": {"penalty": "group", "noise": "structured", "ridge": 1.0},
}
PARTS = ("path", "table", "compare", "multi", "compare-multi", "compare-noise")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="a hundredth of it, to see whether it runs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes of the CPU's side")
    parser.add_argument("--splits", type=int, default=2, help="of every size, for compare-multi")
    parser.add_argument("--json", help="write all figures there")
    parser.add_argument("--profile", action="store_true", help="where the threads are, for each part")
    options = parser.parse_args()
    figures = {"device": device_name(options.device)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # gaps are printed
        if {"path", "table", "compare"} & set(options.parts):
            single(options, figures)
        if "multi" in options.parts:
            multi(options, figures)
        if "compare-multi" in options.parts:
            compare_multi(options, figures)
        if "compare-noise" in options.parts:
            compare_noise(options, figures)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(figures, file, indent=1)


def device_name(device):
    if not device.startswith("cuda"):
        return device
    import torch

    return f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}"


def profiled(options, title, seconds=float("inf")):
    return sampled(title, seconds) if options.profile else contextlib.nullcontext()


# One subject at a time.


def single(options, figures):
    subjects, splits, n, shape = (2, 2, 150, (8, 4)) if options.small else (8, 10, 1000, (32, 8))
    data = [eeg_like(2 * n, *shape, seed) for seed in range(subjects)]
    sets = [halves(*data[s], n, [s, split]) for s in range(subjects) for split in range(splits)]
    with use_device(options.device):
        together([partial(fit_single, sets[0], {})])  # what is set up once per process is not a study's time
        if "path" in options.parts:
            with profiled(options, "path"):
                figures["path"] = solver_alone(sets)
        if "table" in options.parts:
            with profiled(options, "table, its first 3 s", 3.0), profiled(options, "table"):
                table(sets, figures)
    if "compare" in options.parts:
        compare(options, figures, sets)


def table(sets, figures):
    """All methods at once, as a study runs them: what they have in common is solved as one batch."""
    start = time.perf_counter()
    found = together([partial(fit_single, one, method) for method in METHODS.values() for one in sets])
    seconds = time.perf_counter() - start
    worst = max(fit["gap"] for fit in found)
    fits = {name: found[i * len(sets) : (i + 1) * len(sets)] for i, name in enumerate(METHODS)}
    figures["table"] = {"seconds": seconds, "worst_gap": worst, "fits": fits}
    print(f"table    {seconds:6.2f} s for {len(found)} fits, worst gap of a refit {worst:.1e}", flush=True)


def halves(X, y, n, seed):
    """n training trials with the share of targets of all, the others for testing."""
    rng = np.random.default_rng(seed)
    order = np.concatenate([rng.permutation(np.flatnonzero(y == label)) for label in (-1, 1)])
    rank = np.empty(len(y))
    for label in (-1, 1):
        own = order[y[order] == label]
        rank[own] = (np.arange(len(own)) + 0.5) / len(own)
    train = np.sort(np.argsort(rank, kind="stable")[:n])
    test = np.setdiff1d(np.arange(len(y)), train)
    return X[train], y[train], X[test], y[test]


def fit_single(one, method):
    X, y, X_test, y_test = one
    model = GroupSVCCV(20, cv=StratifiedKFold(3), **method).fit(X, y)
    return {
        "alpha": model.alpha_,
        "q": model.q_,
        "gap": model.dual_gap_,
        "scores": model.scores_.mean(axis=-1).ravel().tolist(),
        "alphas": model.alphas_.ravel().tolist(),
        "sensors": model.selected_groups_.tolist(),
        "auc": float(auc(y_test, model.decision_function(X_test)[:, None])[0]),
    }


def solver_alone(sets, repeats=3):
    """From NumPy arrays to NumPy solutions of all alphas, folds and refits; the best of three."""
    from mixnorm.core.groups import Groups
    from mixnorm.core.intercept import alpha_max
    from mixnorm.core.penalties import GroupNorm
    from mixnorm.core.problem import Stack
    from mixnorm.execution import SolverOptions, solve

    X = np.stack([one[0].reshape(len(one[0]), -1) for one in sets])[:, None]
    y = np.stack([one[1] for one in sets])[:, None]
    B, _, n, _ = X.shape
    s = np.ones((B, 1, n, 4))
    for i, one in enumerate(sets):
        for k, (_, test) in enumerate(StratifiedKFold(3).split(one[0], one[1])):
            s[i, 0, test, k] = 0.0
    _, channels, times = sets[0][0].shape
    groups = Groups.from_channels(range(channels), times)
    weights = np.ones((B, channels, 4))
    stack = Stack(X, y, s, np.ones((B, 4)), weights, np.zeros((B, 4)), groups, GroupNorm(2.0))
    top = np.concatenate([alpha_max(stack.take(np.array([i]), np.arange(4)))[:, -1:] for i in range(B)])
    alphas = np.geomspace(1, 1e-3, 20)[:, None, None] * (top[:, :1] * np.ones((1, 4)))
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        solutions = solve(stack, alphas, SolverOptions())
        times.append(time.perf_counter() - start)
    worst = max(float(solution.gap.max()) for solution in solutions)
    steps = int(np.sum([solution.n_iter for solution in solutions], axis=0).max())
    print(
        f"path     {min(times):6.2f} s for {B} x 4 paths of 20 alphas (all: {', '.join(f'{t:.2f}' for t in times)}), "
        f"worst gap {worst:.1e}, most steps of a path {steps}",
        flush=True,
    )
    return {"seconds": times, "worst_gap": worst, "most_steps": steps}


def compare(options, figures, sets):
    """Some of the fits of the table, which must have been asked for too, again on the CPU."""
    some = range(0, len(sets), 1 if options.small else 5)
    figures["compare"] = {}
    for name, fits in figures["table"]["fits"].items():
        mine = [fits[i] for i in some]
        start = time.perf_counter()
        run = Parallel(n_jobs=options.jobs)
        theirs = run(delayed(quiet)(fit_single, sets[i], METHODS[name]) for i in some)
        seconds = time.perf_counter() - start
        figures["compare"][name] = found = differences(mine, theirs)
        print(f"{name:8s} CPU, {len(mine)} fits in {options.jobs} processes, {seconds:.1f} s: {found}", flush=True)


def quiet(function, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return function(*args)


def differences(mine, theirs):
    """How many fits chose the same alpha; the largest difference of CV scores, and of test AUC; same sensors."""
    same = [abs(a["alpha"] / b["alpha"] - 1) < 1e-6 and a["q"] == b["q"] for a, b in zip(mine, theirs)]
    scores = [np.abs(np.subtract(a["scores"], b["scores"])).max() for a, b in zip(mine, theirs)]
    # where another alpha was chosen, what the CPU's own scores say of the difference
    price = [max(b["scores"]) - b["scores"][int(np.argmax(a["scores"]))] for a, b in zip(mine, theirs)]
    return {
        "fits": len(mine),
        "same_alpha_and_q": sum(same),
        "largest_difference_of_cv_scores": float(max(scores)),
        "largest_price_of_another_choice": float(max(price)),
        "same_sensors": sum(a["sensors"] == b["sensors"] for a, b in zip(mine, theirs)),
        "largest_difference_of_test_auc": float(max(abs(a["auc"] - b["auc"]) for a, b in zip(mine, theirs))),
    }


# Many subjects.


def multi_plan(options):
    """Training sizes, number of splits, the grid, and trials of every subject."""
    subjects, splits, shape, sizes = (3, 2, (5, 4), (30,)) if options.small else (30, 10, (10, 31), SIZES)
    data = [eeg_like(max(sizes) + 300, *shape, 1000 + seed) for seed in range(subjects)]
    return sizes, splits, (4, 3) if options.small else (10, 10), data


def multi(options, figures):
    sizes, splits, grid, data = multi_plan(options)
    figures["multi"] = {}
    with use_device(options.device):
        for n in sizes:
            sets = [cohort(data, n, split) for split in range(splits)]
            start = time.perf_counter()
            with profiled(options, f"multi, {n} trials"):
                found = together([partial(fit_multi, one, grid) for one in sets])
            seconds = time.perf_counter() - start
            worst = max(fit["gap"] for fit in found)
            figures["multi"][n] = {"seconds": seconds, "worst_gap": worst, "fits": found}
            print(
                f"multi    {seconds:6.1f} s at {n} trials, {splits} splits, worst gap of a refit {worst:.1e}",
                flush=True,
            )
    total = sum(row["seconds"] for row in figures["multi"].values())
    print(f"multi    {total:6.1f} s in all", flush=True)


def compare_multi(options, figures):
    """The first splits of every size, which must have been asked for too, again on the CPU; a line as each is done."""
    sizes, _, grid, data = multi_plan(options)
    cells = [(n, split) for n in sizes for split in range(options.splits)]
    run = Parallel(n_jobs=options.jobs, return_as="generator_unordered")
    pairs = {n: [] for n in sizes}
    for (n, split), theirs, seconds in run(delayed(fit_cell)(data, cell, grid) for cell in cells):
        pairs[n].append((figures["multi"][n]["fits"][split], theirs))
        found = differences(*zip(*pairs[n]))
        print(f"multi    CPU, split {split} at {n} trials, {seconds:.0f} s; so far at {n}: {found}", flush=True)
    figures["compare-multi"] = {n: differences(*zip(*found)) for n, found in pairs.items()}


def fit_cell(data, cell, grid):
    start = time.process_time()
    found = quiet(fit_multi, cohort(data, *cell), grid)
    return cell, found, time.process_time() - start


def compare_noise(options, figures):
    """Eight subjects with noise, to a gap of 1e-10: what both choose, and the scores of test trials, relative."""
    subjects, n, shape, grid = (3, 40, (4, 3), (3, 3)) if options.small else (8, 100, (10, 14), (5, 4))
    one = cohort([eeg_like(n + 300, *shape, 2000 + seed) for seed in range(subjects)], n, 0)
    figures["compare-noise"] = {}
    for name, method in WITH_NOISE.items():
        seconds, models = [], []
        for where in (options.device, "numpy"):
            start = time.perf_counter()
            models.append(fit_with_noise(one, grid, method, where))
            seconds.append(time.perf_counter() - start)
        mine, theirs = models
        scores = [np.concatenate([m.decision_function(X, subjects=t) for t, X in enumerate(one[3])]) for m in models]
        figures["compare-noise"][name] = found = {
            "same_choice": abs(mine.alpha_ / theirs.alpha_ - 1) < 1e-9
            and abs(mine.similarity_ - theirs.similarity_) <= 1e-9 * theirs.similarity_,
            "largest_difference_of_cv_scores": float(np.abs(mine.scores_ - theirs.scores_).max()),
            "largest_relative_difference_of_scores": float(np.abs(scores[0] - scores[1]).max() / np.ptp(scores[1])),
            "gaps": [mine.dual_gap_, theirs.dual_gap_],
            "seconds": seconds,
        }
        print(f"noise    {name}, {options.device} and CPU: {found}", flush=True)


def fit_with_noise(one, grid, method, where):
    X, y, who, _, _ = one
    how = {"similarities": grid[1], "cv": 3, "rule": "best", "rehearse": False, "tol": 1e-10}
    model = MultiTaskGroupSVCCV(grid[0], **how, **method)
    with nullcontext() if where == "numpy" else use_device(where):
        return model.fit(X, y, subjects=who)


def cohort(data, n, split):
    """n training trials of every subject, 200 others of each for testing."""
    parts = [halves(X, y, n, [t, split]) for t, (X, y) in enumerate(data)]
    X, y, X_test, y_test = ([part[i] for part in parts] for i in range(4))
    who = np.repeat(np.arange(len(data)), n)
    return np.concatenate(X), np.concatenate(y), who, [x[:200] for x in X_test], [labels[:200] for labels in y_test]


def fit_multi(one, grid):
    X, y, who, X_test, y_test = one
    model = MultiTaskGroupSVCCV(grid[0], similarities=grid[1], cv=3, rule="best", rehearse=False).fit(
        X, y, subjects=who
    )
    aucs = [
        auc(labels, model.decision_function(trials, subjects=t)[:, None])[0]
        for t, (trials, labels) in enumerate(zip(X_test, y_test))
    ]
    return {
        "alpha": model.alpha_,
        "q": model.similarity_,
        "gap": model.dual_gap_,
        "scores": model.scores_.mean(axis=-1).ravel().tolist(),
        "sensors": model.selected_groups_.tolist(),
        "auc": float(np.mean(aucs)),
    }


if __name__ == "__main__":
    main()
