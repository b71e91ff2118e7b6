"""Time and memory of a joint fit for 2 to 64 simulated subjects, for more trials, and for more features.

python benchmarks/growth_in_subjects.py [--align]
"""

import argparse
import time
import tracemalloc

import numpy as np

from mixnorm import MultiTaskGroupSVC


def simulate(n_subjects: int, n_trials: int, n_channels: int, seed: int = 0) -> tuple:
    """Return trials (n, channels, 8) of subjects whose effect is common and in a quarter of the channels."""
    rng = np.random.default_rng(seed)
    y = rng.permuted(np.tile(np.arange(n_trials) % 2, (n_subjects, 1)), axis=1).ravel()
    X = rng.standard_normal((n_subjects * n_trials, n_channels, 8))
    X[y == 1, : n_channels // 4] += 0.2
    return X, y, np.repeat(np.arange(n_subjects), n_trials)


def measure(
    n_subjects: int, n_trials: int, n_channels: int, always: tuple = (), *, align: bool
) -> tuple[float, float, int]:
    """Return seconds (best of three), peak MB and steps of one fit; ``always``: channels of weight 0."""
    X, y, subjects = simulate(n_subjects, n_trials, n_channels)
    weights = dict.fromkeys(always, 0.0) or None
    options = {"similarity": 1 / n_subjects, "group_weights": weights, "align": align}
    model = MultiTaskGroupSVC(0.05 / np.sqrt(n_subjects), tol=1e-4, **options)
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        model.fit(X, y, subjects=subjects)
        seconds.append(time.perf_counter() - start)
    tracemalloc.start()
    model.fit(X, y, subjects=subjects)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return min(seconds), peak, model.n_iter_


def main() -> None:
    """Print one table for each direction, each row with the exponent of the growth since the last."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--align", action="store_true", help="subjects compared where everybody's trials are white")
    options = parser.parse_args()
    counts = (2, 4, 8, 16, 32, 64)
    directions = {
        "subjects (100 trials, 16 channels × 8)": [(T, 100, 16) for T in counts],
        "trials per subject (8 subjects, 16 channels × 8)": [(8, n, 16) for n in (100, 200, 400, 800, 1600)],
        "channels × 8 samples (8 subjects, 400 trials)": [(8, 400, c) for c in (8, 16, 32, 64)],
        "subjects (as above), one channel of weight 0": [(T, 100, 16, (0,)) for T in counts],
    }
    for place, (title, sizes) in zip((0, 1, 2, 0), directions.items()):
        print(f"\n| {title} | s | MB | steps | s per step | growth of s per step | growth of MB |")
        print("| --- " * 7 + "|")
        before = None
        for size in sizes:
            seconds, peak, steps = measure(*size, align=options.align)
            now = np.array([size[place], seconds / steps, peak])
            growth = [np.nan] * 3 if before is None else np.log(now / before) / np.log(now[0] / before[0])
            cells = f"{seconds:.3f} | {peak:.0f} | {steps} | {seconds / steps:.4f}"
            print(f"| {size[place]} | {cells} | {growth[1]:.2f} | {growth[2]:.2f} |", flush=True)
            before = now


if __name__ == "__main__":
    main()
