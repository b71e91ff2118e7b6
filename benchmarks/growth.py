"""Time and peak memory of a path as trials, sensors, samples and alphas are doubled one at a time, and on HD-EEG.

    python benchmarks/growth.py [--directions trials,sensors,samples,alphas,hd] [--repeats 3] [--tol 1e-6]

Every size runs in a process of its own, on one thread: seconds of CPU, the least of the repeats, and the peak of its
resident memory beyond what the interpreter and the trials take. From 1000 trials of 32 sensors × 8 samples and 20
alphas. The exponents, log2 of the growth since the row before, stand beside the most that theory allows: with d_A the
features of the chosen sensors, a Hessian costs O(n d_A²), its factorisation O(d_A³) (O(n³) where n < d_A), a product
with the trials O(n d), and memory holds the trials, a Hessian and its factor, and the path.
``hd``: 4000 trials, 256 sensors × 64 samples, at ``--tol`` 1e-4 unless given: its memory must stay under 4 GB, the
trials and the interpreter included.
"""

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

import numpy as np  # noqa: E402
from _problems import eeg_like  # noqa: E402

#: (trials, sensors, samples, alphas); each direction doubles one of them.
BASE = (1000, 32, 8, 20)
DOUBLINGS = {"trials": 4, "sensors": 2, "samples": 2, "alphas": 3}
#: Most that time and memory may grow with each, as exponents.
THEORY = {"trials": (1, 1), "sensors": (3, 2), "samples": (3, 2), "alphas": (1, 1)}
HD = (4000, 256, 64, 20)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directions", type=lambda text: text.split(","), default=[*DOUBLINGS, "hd"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tol", type=float)
    parser.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure_here(**options.child)))
    for direction in [] if options.child else options.directions:
        table(direction, options) if direction != "hd" else high_density(options)


def exponent(now, before, doublings=1):
    """Growth from one size to its double, or over several; nothing where one was too small to be told."""
    return f"{np.log2(now / before) / doublings:.2f}" if before > 0 and now > 0 else ""


def table(direction, options):
    """Print one direction, each row with the exponents of the growth since the row before."""
    time_limit, memory_limit = THEORY[direction]
    limits = f"s | exponent (theory: ≤ {time_limit}) | MB | exponent (theory: ≤ {memory_limit})"
    print(f"\n| {direction} | {limits} | steps |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    place, before, first = list(DOUBLINGS).index(direction), None, None
    for k in range(DOUBLINGS[direction] + 1):
        size = [value * 2**k if i == place else value for i, value in enumerate(BASE)]
        now = measure(size, options.tol or 1e-6, options.repeats)
        growth = ["", ""] if before is None else [exponent(now[m], before[m]) for m in ("seconds", "MB")]
        cells = f"{now['seconds']:.3f} | {growth[0]} | {now['MB']:.0f} | {growth[1]} | {now['steps']}"
        print(f"| {size[place]} | {cells} |", flush=True)
        before, first = now, first or now
    whole = [exponent(now[m], first[m], DOUBLINGS[direction]) for m in ("seconds", "MB")]
    print(f"| from first to last | | {whole[0]} | | {whole[1]} | |", flush=True)


def high_density(options):
    found = measure(HD, options.tol or 1e-4, 1)
    print(
        "\n| HD-EEG | s | peak GB in all | GB of it trials | worst gap | sensors at the end |\n" + "| --- " * 6 + "|"
    )
    trials = HD[0] * HD[1] * HD[2] * 8 / 1e9
    cells = f"{found['seconds']:.0f} | {found['peak GB']:.2f} | {trials:.2f} | {found['gap']:.0e} | {found['sensors']}"
    print(f"| {HD[0]} trials, {HD[1]} × {HD[2]}, {HD[3]} alphas | {cells} |", flush=True)


def measure(size, tol, repeats):
    """Measure one path in a process of its own, which reads the trials from a file."""
    *shape, n_alphas = size
    with tempfile.TemporaryDirectory() as folder:
        X, y = eeg_like(*shape, seed=0)
        np.savez(Path(folder) / "trials.npz", X=X, y=y)
        del X
        task = {"trials": str(Path(folder) / "trials.npz"), "n_alphas": n_alphas, "tol": tol, "repeats": repeats}
        return json.loads(subprocess.check_output([sys.executable, __file__, "--child", json.dumps(task)]))


def measure_here(trials, n_alphas, tol, repeats):
    from mixnorm import group_svc_path

    with np.load(trials) as data:
        X, y = data["X"], data["y"]
    warm_up = eeg_like(60, 4, 4, seed=1)
    group_svc_path(*warm_up, alphas=2)
    forget_peak()
    before, seconds = peak_bytes(), []
    for _ in range(repeats):
        begin = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a path that misses its gap does not count
            path = group_svc_path(X, y, alphas=n_alphas, tol=tol)
        seconds.append(time.process_time() - begin)
    peak = peak_bytes()
    sensors = int(path.coefs[-1].reshape(X.shape[1:]).any(axis=1).sum())
    found = {"seconds": min(seconds), "MB": (peak - before) / 1e6, "peak GB": peak / 1e9}
    return found | {"steps": int(path.n_iters.sum()), "gap": float(path.dual_gaps.max()), "sensors": sensors}


def forget_peak():
    """Let the peak count from now on, where the system can: reading the trials took more for a moment."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes():
    """Most resident memory that this process has had."""
    status = Path("/proc/self/status")
    if status.exists():
        return 1024 * int(status.read_text().split("VmHWM:")[1].split()[0])
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


if __name__ == "__main__":
    main()
