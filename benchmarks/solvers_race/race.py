"""Every solver on every data set: seconds of CPU on one thread against the worst relative suboptimality on the path.

    python benchmarks/solvers_race/race.py [--datasets small,large] [--solvers mixnorm,adelie] [--tasks path,fit]

The layout is benchopt's (one objective, one file per data set and per solver, the harness computing how good a point
is), but not benchopt itself: it times by the wall clock, which on a shared machine measures the neighbours, and in one
environment, while adelie needs NumPy 1 and mixnorm NumPy 2. Here every solver runs in a process of its own, with this
interpreter if that can import what it needs, else with that of the peers (benchmarks/README.md says how to make it).
Results go to results/<task>-<data set>.json, one file per run so that what is compared was measured side by side;
results.md and race.png are made from all of them.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
os.environ |= ONE_THREAD  # before NumPy is imported

import numpy as np  # noqa: E402

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1] / "src")]

from _machine import describe  # noqa: E402
from _report import write_report  # noqa: E402
from _worker import load_class  # noqa: E402
from objective import REFERENCE_TOL, TASKS, Objective  # noqa: E402

#: A shared machine may give a solver so small a share: seconds of the clock for one of CPU.
SLACK = 20
PEERS = HERE.parent / ".venv-peers" / "bin" / "python"


def main():
    options = read_options()
    for task in options.tasks:
        for dataset in options.datasets:
            race(task, dataset, options)
            write_report(HERE)


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", type=_names("datasets"), default=["small", "large"])
    parser.add_argument("--solvers", type=_names("solvers"), default=_available("solvers"))
    parser.add_argument("--tasks", type=lambda text: text.split(","), default=list(TASKS))
    parser.add_argument("--repeats", type=int, default=3, help="the best of so many runs counts")
    parser.add_argument("--budget", type=float, default=300.0, help="seconds of CPU for one solver on one data set")
    parser.add_argument("--peers-python", type=Path, default=PEERS)
    return parser.parse_args()


def _names(kind):
    def split(text):
        names = text.split(",")
        unknown = sorted(set(names) - set(_available(kind)))
        if unknown:
            raise argparse.ArgumentTypeError(
                f"unknown {kind}: {', '.join(unknown)}; there are {', '.join(_available(kind))}"
            )
        return names

    return split


def _available(kind):
    return sorted(path.stem for path in (HERE / kind).glob("*.py"))


def race(task, dataset, options):
    """Run the solvers one after the other and write what they reached."""
    X, y = load_class(HERE / "datasets" / f"{dataset}.py", "Dataset")().get_data()
    objective = Objective(X, y, task)
    print(f"{task} on {dataset}: n = {len(X)}, {X.shape[1]} x {X.shape[2]}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        np.savez(data, X=X, y=y, alphas=objective.alphas)
        runs = {solver: run_solver(solver, data, objective, options) for solver in options.solvers}
    record = {"task": task, "dataset": dataset, "shape": X.shape, "command": command(task, dataset, options)}
    record |= {"machine": machine(options.peers_python), "reference": reference(runs, objective), "solvers": runs}
    grade(record)
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / f"{task}-{dataset}.json").write_text(json.dumps(record, indent=1) + "\n")


def command(task, dataset, options):
    """Return the options that repeat this part of the run."""
    solvers = "" if options.solvers == _available("solvers") else f" --solvers {','.join(options.solvers)}"
    return f"--tasks {task} --datasets {dataset}{solvers} --repeats {options.repeats} --budget {options.budget:g}"


def run_solver(solver, data, objective, options):
    """Return the points of one solver, loosest tolerance first: tol, seconds, objectives, gaps."""
    path = HERE / "solvers" / f"{solver}.py"
    python = Path(interpreter(path, options.peers_python))
    if not python.exists():
        print(f"  {solver}: not installed here, and there is no {python}", flush=True)
        return []
    with tempfile.TemporaryDirectory() as out:
        arguments = [python, HERE / "_worker.py", path, data, out]
        arguments += ["--repeats", options.repeats, "--budget", options.budget]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path[:3])}
        try:
            done = subprocess.run(
                list(map(str, arguments)),
                env=environment,
                timeout=options.budget * SLACK + 300,
                check=False,
                stderr=subprocess.PIPE,
                text=True,
            )
            if done.returncode:
                why = done.stderr.strip().splitlines() or [f"ended with {done.returncode}"]
                print(f"  {solver}: {why[-1]}", flush=True)
        except subprocess.TimeoutExpired:
            print(f"  {solver}: stopped by the clock", flush=True)
        points = [read_point(file, objective) for file in sorted(Path(out).glob("[0-9]*.npz"))]
    for point in points:
        print(f"  {solver}: {point['seconds']:.3f} s, worst gap {max(point['gaps']):.1e}", flush=True)
    return points


def interpreter(path, peers):
    """Return this interpreter if it can import what the solver's file imports, else that of the peers."""
    try:
        load_class(path, "Solver")
    except ImportError:
        return peers
    return sys.executable


def read_point(file, objective):
    with np.load(file) as found:
        numbers = {name: float(found[name]) for name in ("tol", "seconds", "gram")}
        return numbers | objective.evaluate(found["coefs"], found["intercepts"])


def reference(runs, objective):
    """Return objectives and gaps of mixnorm at tol 1e-12: as measured, or else solved for now."""
    points = [point for point in runs.get("mixnorm", []) if point["tol"] <= REFERENCE_TOL]
    return {name: points[0][name] for name in ("objectives", "gaps")} if points else objective.reference()


def grade(record):
    """Add the worst relative suboptimality of every point, against the lowest objective anyone found."""
    points = [point for points in record["solvers"].values() for point in points]
    ours = np.array(record["reference"]["objectives"])
    best = np.min([ours] + [point["objectives"] for point in points], axis=0)
    record["reference_above_best"] = float(np.max((ours - best) / best))
    for point in points:
        point["suboptimality"] = float(np.max((np.array(point["objectives"]) - best) / best))


def machine(peers):
    """Describe the processor and both environments."""
    command = [str(peers), str(HERE.parent / "_machine.py")]
    theirs = json.loads(subprocess.check_output(command))["versions"] if Path(peers).exists() else {}
    return describe() | {"versions of the peers": theirs}


if __name__ == "__main__":
    main()
