"""Newton against restarted FISTA, to the same relative gap of 1e-6, where the race of the solvers does not go.

    python benchmarks/against_fista.py [--only errp,uam,bigp3bci,q,subjects] [--repeats 3]

Paths of 20 alphas on the shapes of three data sets and, at q = 1.5, on the small problem: ``solver="newton"`` against
``solver="fista"`` and, for q = 2, against FISTA written for that alone in NumPy (solvers_race/solvers/numpy_fista.py).

Many subjects: 13 × 500 trials × 140 features, the UAM recordings where $MIXNORM_DATA has them, else simulated;
`MultiTaskGroupSVCCV` on 10 alphas × 10 similarities, 3 folds and the refit, against FISTA cell by cell. FISTA is
measured on a sample of 10 cells (every alpha and every similarity once) of the refit, each from the solution of the
cell before it, which it is given for nothing; its total is their mean × 100 cells × 3, as the three folds have two
thirds of the trials each. Seconds of CPU on one thread.
"""

import argparse
import os
import sys
import time
import warnings
from pathlib import Path

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "solvers_race"), str(HERE.parent / "src")]

import numpy as np  # noqa: E402
from _problems import eeg_like  # noqa: E402
from _recordings import load, split  # noqa: E402
from _worker import cpu_seconds, load_class  # noqa: E402

from mixnorm import MultiTaskGroupSVCCV, group_svc_path  # noqa: E402
from mixnorm.estimators.inputs import read_fit  # noqa: E402
from mixnorm.estimators.objective import Objective  # noqa: E402
from mixnorm.execution import SolverOptions, solve  # noqa: E402
from mixnorm.solvers import Fista  # noqa: E402
from mixnorm.subjects.joint import Subjects, joint_stack  # noqa: E402
from mixnorm.subjects.similarity_grid import grid_order  # noqa: E402

QUESTIONS = ["errp", "uam", "bigp3bci", "q", "subjects"]
TOL = 1e-6
MOST = 100_000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), default=QUESTIONS)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print("| problem | ours (s) | FISTA (s) | ratio | NumPy FISTA (s) | ratio |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name in options.only:
        seconds = many_subjects() if name == "subjects" else single_path(name, options.repeats)
        print(row(name, *seconds), flush=True)


def row(name, ours, fista, numpy_fista=None):
    cells = f"{ours:.3g} | {fista:.3g} | {fista / ours:.1f}"
    theirs = "– | –" if numpy_fista is None else f"{numpy_fista:.3g} | {numpy_fista / ours:.1f}"
    return f"| {name} | {cells} | {theirs} |"


def single_path(name, repeats):
    """Seconds of Newton, FISTA and, for q = 2, NumPy FISTA on one path, the least of the repeats, in turns."""
    dataset, q = ("small", 1.5) if name == "q" else (name, 2.0)
    X, y = load_class(HERE / "solvers_race" / "datasets" / f"{dataset}.py", "Dataset")().get_data()
    alphas = group_svc_path(X, y, q=q, tol=1e-2).alphas
    calls = [lambda solver=solver: path(X, y, q, solver) for solver in ("newton", "fista")]
    if q == 2:
        peer = load_class(HERE / "solvers_race" / "solvers" / "numpy_fista.py", "Solver")()
        peer.set_objective(X, y, alphas)
        calls.append(lambda: peer.run(TOL))
    return np.min([[cpu_seconds(call) for call in calls] for _ in range(repeats)], axis=0)


def path(X, y, q, solver):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a path that misses the gap does not count
        return group_svc_path(X, y, q=q, solver=solver, tol=TOL, max_iter=MOST)


def many_subjects():
    """Seconds of the whole grid with its folds, and what FISTA would take for it."""
    X, y, subjects = uam()
    model = MultiTaskGroupSVCCV(10, similarities=10, cv=3, rehearse=False, tol=TOL)
    ours = cpu_seconds(lambda: model.fit(X, y, subjects=subjects))
    print(f"<!-- grid of ours: {ours:.1f} s, worst chosen gap {model.dual_gap_:.1e} -->", flush=True)
    seconds = sampled_cells(X, y, subjects, model)
    return ours, float(np.mean(seconds)) * model.alphas_.size * model.similarities_.size * 3


def uam():
    """13 subjects × 500 trials × 10 channels × 14 samples."""
    if "MIXNORM_DATA" in os.environ:
        recordings, channels = load("uam-p300")
        (X, y, subjects), _ = split(recordings, 500, seed=0, n_channels=len(np.unique(channels)))
        kept = np.isin(subjects, list(recordings)[:13])
        return X[kept].reshape(kept.sum(), 10, 14), y[kept], subjects[kept]
    X, y = eeg_like(13 * 500, 10, 14, seed=0)
    return X, (y > 0).astype(int), np.repeat(np.arange(13), 500)


def sampled_cells(X, y, subjects, model):
    """Seconds of FISTA on a Latin sample of cells, each started where the cell before it ends."""
    objective = Objective.of(model, model.q)
    trials, _ = read_fit(model, X, y)
    labels = Subjects.of(subjects.tolist())
    stack = joint_stack(objective, trials, np.where(y > 0, 1.0, -1.0), np.ones((len(y), 1)), labels)
    cells = grid_order(model.alphas_, len(model.similarities_))
    values = (model.alphas_, model.similarities_)
    grids = [values[axis][[cell[axis] for cell in cells]][:, None, None] for axis in (0, 1)]
    solutions = solve(stack, grids[0], SolverOptions("auto", TOL, MOST), grids[1])
    sample = np.random.default_rng(0).permutation(len(model.similarities_)).tolist()
    seconds = []
    for alpha, similarity in enumerate(sample):
        place = cells.index((alpha, similarity))
        start = (solutions[place - 1].W, solutions[place - 1].b) if place else None
        cell = stack.with_alpha(grids[0][place], grids[1][place])
        begin = time.process_time()
        found = Fista().solve(cell, TOL, MOST, start)
        seconds.append(time.process_time() - begin)
        told = f"alpha {alpha}, similarity {similarity}: {seconds[-1]:.2f} s, {found.n_iter.item()} iterations"
        print(f"<!-- FISTA, {told}, gap {found.gap.item():.1e} -->", flush=True)
    return seconds


if __name__ == "__main__":
    main()
