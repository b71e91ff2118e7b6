"""What is paid before any large matrix is touched: a tiny fit, the import, cross-validation and a path beside others.

    python benchmarks/small_costs.py [--only fit,import,cv,gram] [--repeats 10]

Seconds of CPU on one thread, the least of ``--repeats``; what a ratio compares is measured in turns.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

import numpy as np
from _problems import eeg_like

SOURCES = Path(__file__).parents[1] / "src"
sys.path.insert(0, str(SOURCES))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(QUESTIONS))
    parser.add_argument("--repeats", type=int, default=10)
    options = parser.parse_args()
    print("| cost | measured | wanted |\n| --- | --- | --- |")
    for name in options.only:
        print(QUESTIONS[name](options.repeats), flush=True)


def tiny_fit(repeats: int) -> str:
    """GroupSVC().fit on 100 × 16, everything included."""
    from mixnorm import GroupSVC

    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((100, 16)), np.arange(100) % 2
    X[y == 1, :4] += 0.5
    seconds = least(lambda: GroupSVC().fit(X, y), 5 * repeats)
    return f"| `GroupSVC().fit` on 100 × 16 | {1e3 * seconds:.2f} ms | < 2 ms |"


def imports(repeats: int) -> str:
    """`import mixnorm` and `import sklearn.svm`, each in a fresh process, in turns."""
    seconds = {"mixnorm": [], "sklearn.svm": []}
    for _ in range(repeats):
        for name, found in seconds.items():
            found.append(import_seconds(name))
    ours, theirs = (min(found) for found in seconds.values())
    told = f"{ours:.3f} s, {ours / theirs:.2f} times `import sklearn.svm` ({theirs:.3f} s)"
    return f"| `import mixnorm`, least of {repeats} | {told} | < 1.3 times |"


def import_seconds(name: str) -> float:
    script = f"import time; t = time.process_time(); import {name}; print(time.process_time() - t)"
    environment = os.environ | {"PYTHONPATH": str(SOURCES)}
    return float(subprocess.check_output([sys.executable, "-c", script], env=environment))


def cross_validation(repeats: int) -> str:
    """GroupSVCCV, three folds of 20 alphas and the refit, beside one path on all trials, in turns."""
    from mixnorm import GroupSVCCV, group_svc_path

    X, y = eeg_like(1000, 32, 8, seed=0)
    path, cv = [], []
    for _ in range(repeats):
        path.append(least(lambda: group_svc_path(X, y), 1))
        cv.append(least(lambda: GroupSVCCV().fit(X, y), 1))
    told = f"{min(cv):.3f} s, {min(cv) / min(path):.2f} paths ({min(path):.3f} s)"
    return f"| `GroupSVCCV` (3 folds × 20 alphas + refit), n = 1000, 32 × 8 | {told} | ≤ 4 paths |"


def gram(repeats: int) -> str:
    """A path of 20 alphas to a relative gap of 1e-6 and one Gram matrix, five of each in turns."""
    from mixnorm import group_svc_path

    X, y = eeg_like(1000, 32, 8, seed=0)
    flat = X.reshape(len(X), -1)
    path, product = [], []
    for _ in range(5):
        path.append(least(lambda: group_svc_path(X, y), 1))
        product.append(least(lambda: flat.T @ flat, 1))
    told = f"{min(path):.4f} s, {min(path) / min(product):.0f} Gram matrices ({1e3 * min(product):.2f} ms)"
    return f"| path to a gap of 1e-6, n = 1000, 32 × 8, best of five | {told} | ≤ 30 |"


def least(call, repeats: int) -> float:
    """The least seconds of CPU of some calls."""
    found = []
    for _ in range(repeats):
        begin = time.process_time()
        call()
        found.append(time.process_time() - begin)
    return min(found)


QUESTIONS = {"fit": tiny_fit, "import": imports, "cv": cross_validation, "gram": gram}

if __name__ == "__main__":
    main()
