"""Two versions of the code in turns: one task, each version in a process of its own, seconds of CPU on one thread.

    python benchmarks/in_turns.py path [--before COMMIT] [--turns 20] [--seed 0]
    python benchmarks/in_turns.py path FOLDER FOLDER …

The first compares the working tree with a commit, the second the packages in some folders.
Tasks: ``path`` and ``fit`` (1000 × 32·8, gap 1e-6), ``large-path`` (4000 × 64·32, gap 1e-4), ``large-fit`` (gap 1e-6),
``few-path`` (1500 × 128·32, fewer trials than features, gap 1e-4), ``tiny`` (``GroupSVC().fit`` on 100 × 16). A fit is
at 0.1 alpha_max. One Gram matrix X'X is timed after each run.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
HERE = Path(__file__).parent
TASKS = {"path": 1e-6, "fit": 1e-6, "large-path": 1e-4, "large-fit": 1e-6, "few-path": 1e-4, "tiny": 1e-6}
SIZES = {"large": (4000, 64, 32), "few": (1500, 128, 32)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("sources", nargs="*", type=Path, help="folders that contain the package mixnorm")
    parser.add_argument("--before", default="b5939ab", help="commit that is compared, where no folders are given")
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the trials; tiny has always the same")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.task, options.seed)
    elif options.sources:
        compare(options)
    else:
        with tempfile.TemporaryDirectory() as folder:
            options.sources = [unpacked(options.before, Path(folder)), HERE.parent / "src"]
            compare(options)


def unpacked(commit: str, folder: Path) -> Path:
    """Write the package as it was at a commit to a folder; return where it is."""
    archive = folder / "src.tar"
    subprocess.run(["git", "archive", f"--output={archive}", commit, "src"], cwd=HERE.parent, check=True)
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    return folder / "src"


def compare(options) -> None:
    """Print the median seconds of every version."""
    workers = [start(options, source.resolve()) for source in options.sources]
    found, grams = [[] for _ in workers], []
    for _ in range(options.turns):
        for worker, seconds in zip(workers, found, strict=True):
            worker.stdin.write("go\n")
            worker.stdin.flush()
            own, gram = map(float, worker.stdout.readline().split())
            seconds.append(own)
            grams.append(gram)
    gram = statistics.median(grams)
    for source, seconds, worker in zip(options.sources, found, workers, strict=True):
        worker.stdin.close()
        median = statistics.median(seconds)
        print(f"{source}: median {1e3 * median:.2f} ms, least {1e3 * min(seconds):.2f} ms, {median / gram:.1f} Gram")


def start(options, source: Path) -> subprocess.Popen:
    command = [sys.executable, __file__, options.task, str(source), "--worker", "--seed", str(options.seed)]
    environment = os.environ | {"PYTHONPATH": str(source)}
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def work(task: str, seed: int) -> None:
    """Run the task once for every line of the input."""
    import numpy as np
    from _problems import eeg_like

    from mixnorm import GroupSVC, group_svc_path

    if task == "tiny":
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((100, 16)), np.arange(100) % 2
        X[y == 1, :4] += 0.5
    else:
        X, y = eeg_like(*SIZES.get(task.split("-")[0], (1000, 32, 8)), seed=seed)
    flat, tol = X.reshape(len(X), -1), TASKS[task]
    alpha = 0.01 if task == "tiny" else 0.1 * group_svc_path(X, y, alphas=1).alphas[0]

    def run():
        if task.endswith("path"):
            group_svc_path(X, y, tol=tol)
        else:
            GroupSVC(alpha, tol=tol).fit(X, y)

    for _ in sys.stdin:
        print(seconds_of(run), seconds_of(lambda: flat.T @ flat), flush=True)


def seconds_of(call) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


if __name__ == "__main__":
    main()
