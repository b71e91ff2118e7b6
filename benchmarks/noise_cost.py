"""What the noise covariance costs: a 20-alpha ℓ2 path with ``noise="structured"`` beside the plain one.

    python benchmarks/noise_cost.py [--large]

Both run in turns in one process, on one thread; the estimate and the whitening of the trials are included. Seconds of
the processor, the best of five turns (one for the large problem). Memory is the most that one path allocates, in a
process of its own, as tracemalloc counts it.
"""

import argparse
import os
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "src")]

import numpy as np  # noqa: E402
from _problems import eeg_like  # noqa: E402

from mixnorm import group_svc_path  # noqa: E402

SIZES = [(1000, 32, 8), (265, 56, 12)]
LARGE = (4000, 64, 32)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true", help=f"also {LARGE[0]} x {LARGE[1]}·{LARGE[2]}")
    parser.add_argument("--memory", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        print(peak_memory(*options.memory))
        return
    print("| trials × sensors·samples | plain (s) | noise (s) | ratio | one Cholesky (s) | MB, plain / noise |")
    print("| --- | --- | --- | --- | --- | --- |")
    for size in [*SIZES, *([LARGE] if options.large else [])]:
        print(row(*size), flush=True)


def row(n, n_sensors, n_samples):
    X, y = eeg_like(n, n_sensors, n_samples)
    turns = 1 if (n, n_sensors, n_samples) == LARGE else 5
    plain, noisy = [], []
    for _ in range(turns):
        plain.append(seconds(path, X, y, None))
        noisy.append(seconds(path, X, y, "structured"))
    d = n_sensors * n_samples
    gram = np.eye(d) + np.ones((d, d))
    factor = min(seconds(np.linalg.cholesky, gram) for _ in range(turns))
    memory = [measured_memory(noise, n, n_sensors, n_samples) for noise in ("none", "structured")]
    name = f"{n} × {n_sensors}·{n_samples}"
    ratio = min(noisy) / min(plain)
    return f"| {name} | {min(plain):.3f} | {min(noisy):.3f} | {ratio:.2f} | {factor:.3f} | {memory[0]} / {memory[1]} |"


def path(X, y, noise):
    return group_svc_path(X, y, penalty="l2", noise=noise)


def seconds(function, *args):
    start = time.process_time()
    function(*args)
    return time.process_time() - start


def measured_memory(noise, *size):
    command = [sys.executable, __file__, "--memory", noise, *map(str, size)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def peak_memory(noise, n, n_sensors, n_samples):
    """The most that a path allocates, in MB."""
    X, y = eeg_like(int(n), int(n_sensors), int(n_samples))
    tracemalloc.start()
    path(X, y, None if noise == "none" else noise)
    return round(tracemalloc.get_traced_memory()[1] / 2**20)


if __name__ == "__main__":
    main()
