"""Time and memory of a joint fit for 2 to 64 simulated subjects, for more trials, and for more features.

    python benchmarks/growth_in_subjects.py [--noise kronecker]
    python benchmarks/growth_in_subjects.py --hundreds

``--hundreds``: 10 to 300 subjects of 200 trials and 10 channels × 14 samples, with noise and ``penalty="l2"``: a joint
fit, the same with one channel of weight 0, and a new subject with 50 calibration trials.
"""

import argparse
import time
import tracemalloc
from functools import partial

import numpy as np

from mixnorm import MultiTaskGroupSVC, MultiTaskGroupSVCCV


def simulate(n_subjects: int, n_trials: int, n_channels: int, seed: int = 0, n_samples: int = 8) -> tuple:
    """Return trials (n, channels, samples) of subjects whose effect is common and in a quarter of the channels."""
    rng = np.random.default_rng(seed)
    y = rng.permuted(np.tile(np.arange(n_trials) % 2, (n_subjects, 1)), axis=1).ravel()
    X = rng.standard_normal((n_subjects * n_trials, n_channels, n_samples))
    X[y == 1, : n_channels // 4] += 0.2
    return X, y, np.repeat(np.arange(n_subjects), n_trials)


def measure(
    n_subjects: int, n_trials: int, n_channels: int, always: tuple = (), *, noise: str | None
) -> tuple[float, float, int]:
    """Return seconds (best of three), peak MB and steps of one fit; ``always``: channels of weight 0."""
    X, y, subjects = simulate(n_subjects, n_trials, n_channels)
    weights = dict.fromkeys(always, 0.0) or None
    options = {"similarity": 1 / n_subjects, "group_weights": weights, "noise": noise}
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


def traced(task) -> tuple[float, float]:
    """Return the CPU seconds of a task, and the peak MB of a second run of it."""
    start = time.process_time()
    task()
    seconds = time.process_time() - start
    tracemalloc.start()
    task()
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return seconds, peak


def hundreds(counts: list[int]) -> None:
    """Print CPU seconds and peak MB of a joint fit, of its grid, and of a new subject, for many subjects."""
    heads = ["X (MB)", "joint fit", "with a channel of weight 0", "4 × 4 grid in 3 folds", "new subject, 50 trials"]
    print("| subjects | " + " | ".join(heads) + " |\n" + "| --- " * (1 + len(heads)) + "|")
    for T in counts:
        X, y, subjects = simulate(T + 1, 200, 10, n_samples=14)
        known = subjects < T
        joint = {"penalty": "l2", "noise": "structured", "tol": 1e-4}
        plain = MultiTaskGroupSVC(1 / T, similarity=5 / T, **joint)
        kept = MultiTaskGroupSVC(1 / T, similarity=5 / T, group_weights={0: 0.0}, **joint)
        grid = MultiTaskGroupSVCCV(4, similarities=4, cv=3, rehearse=False, **joint)
        train = {"X": X[known], "y": y[known], "subjects": subjects[known]}
        costs = [traced(partial(model.fit, **train)) for model in (plain, kept, grid)]
        costs.append(traced(partial(plain.adapt, X[~known][:50], y[~known][:50], subject="new")))
        shown = [f"{seconds:.2f} s, {peak:.0f} MB" for seconds, peak in costs]
        print(f"| {T} | {X[known].nbytes / 1e6:.0f} | " + " | ".join(shown) + " |", flush=True)


def main() -> None:
    """Print one table for each direction, each row with the exponent of the growth since the last."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--noise", help="name of an estimate, beside the group norm")
    parser.add_argument("--hundreds", action="store_true", help="10 to 300 subjects, penalty='l2' with noise")
    parser.add_argument("--subjects", type=int, nargs="+", default=[10, 30, 100, 300], help="for --hundreds")
    options = parser.parse_args()
    if options.hundreds:
        hundreds(options.subjects)
        return
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
            seconds, peak, steps = measure(*size, noise=options.noise)
            now = np.array([size[place], seconds / steps, peak])
            growth = [np.nan] * 3 if before is None else np.log(now / before) / np.log(now[0] / before[0])
            cells = f"{seconds:.3f} | {peak:.0f} | {steps} | {seconds / steps:.4f}"
            print(f"| {size[place]} | {cells} | {growth[1]:.2f} | {growth[2]:.2f} |", flush=True)
            before = now


if __name__ == "__main__":
    main()
