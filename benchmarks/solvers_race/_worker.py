"""One solver on one data set, in a process and an environment of its own: its points and its seconds of CPU.

    python _worker.py solvers/adelie.py data.npz OUT [--repeats 3] [--budget 300]

Writes OUT/<place>.npz for every tolerance as soon as it is done, loosest first, until ``--budget`` seconds are spent.
"""

import argparse
import importlib.util
import os
import time
from pathlib import Path

import numpy as np


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("solver", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--budget", type=float, default=300.0)
    options = parser.parse_args()
    with np.load(options.data) as data:
        X, y, alphas = data["X"], data["y"], data["alphas"]
    solver = load_class(options.solver, "Solver")()
    if X.size > getattr(solver, "largest", np.inf):
        raise SystemExit(f"X has {X.size} numbers, too many for this solver")
    solver.set_objective(X, y, alphas)
    if hasattr(solver, "warm_up"):
        solver.warm_up()
    gram, spent = best_gram(X.reshape(len(X), -1)), 0.0
    for place, tol in enumerate(solver.tolerances):
        seconds = [cpu_seconds(solver.run, tol)]
        while len(seconds) < options.repeats and spent + sum(seconds) + seconds[0] < options.budget:
            seconds.append(cpu_seconds(solver.run, tol))
        coefs, intercepts = solver.get_result()
        point = {"tol": tol, "seconds": min(seconds), "coefs": coefs, "intercepts": intercepts, "gram": gram}
        np.savez(options.out / "part.npz", **point)
        os.replace(options.out / "part.npz", options.out / f"{place:02d}.npz")
        spent += sum(seconds)
        if spent + 2 * seconds[0] > options.budget:
            break


def cpu_seconds(call, *args) -> float:
    """Seconds of CPU of one call."""
    begin = time.process_time()
    call(*args)
    return time.process_time() - begin


def best_gram(X: np.ndarray) -> float:
    """Seconds of one Gram matrix X'X, the best of five; not for X so wide that it would take minutes."""
    return min(cpu_seconds(np.matmul, X.T, X) for _ in range(5)) if X.shape[1] <= 4096 else np.nan


def load_class(path: Path, name: str):
    """Return a class of a file that need not be importable by name: solvers are called what their packages are."""
    spec = importlib.util.spec_from_file_location(f"race_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


if __name__ == "__main__":
    main()
