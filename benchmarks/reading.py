"""Reading and preparing a 10-minute, 64-channel, 512 Hz recording: time, the filter's share, peak memory.

    python benchmarks/reading.py [--minutes 10] [--json]
    python benchmarks/reading.py --isolation

The recording is simulated, written as fif to a temporary folder, and read and prepared in a process of its
own, so that the peak is that of a user's process, interpreter and MNE included.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path


def measure(path: str, phase: str) -> dict[str, float | str]:
    """Seconds of reading, filtering and the rest, and peak resident memory in MB, of read + prepare."""
    import resource
    import time

    import mne  # noqa: F401 - its import is not the reader's time

    from mixnorm.eeg import Preparation, cutting, prepare, read_recording

    spent = 0.0

    def timed(function):
        def wrapped(*arguments):
            nonlocal spent
            begin = time.perf_counter()
            out = function(*arguments)
            spent += time.perf_counter() - begin
            return out

        return wrapped

    cutting.BridgingFilter.push_channel = timed(cutting.BridgingFilter.push_channel)
    cutting.zero_phase = timed(cutting.zero_phase)
    begin = time.perf_counter()
    recording = read_recording(path)
    read = time.perf_counter() - begin
    design = prepare(recording, Preparation.preset("errp").with_(phase=phase))
    total = time.perf_counter() - begin
    return {
        "phase": phase,
        "trials": len(design),
        "read_s": read,
        "filter_s": spent,
        "rest_s": total - read - spent,
        "total_s": total,
        "filter_share": spent / total,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def cost(path: str, isolate: bool) -> float:
    """CPU seconds of reading a file in this process, or in one of its own that is started for it."""
    import resource

    from mixnorm.eeg import read_recording
    from mixnorm.eeg.readers import isolated

    def spent() -> float:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(one.ru_utime + one.ru_stime for one in used)

    begin = spent()
    read_recording(path, isolate=isolate)
    isolated._end()  # children are counted when they have ended
    return spent() - begin


def isolation(minutes: float) -> None:
    """Print what a process of its own costs, for a short recording and a long one: medians of five."""
    from statistics import median

    from mixnorm.eeg import simulated_recording, to_raw

    with tempfile.TemporaryDirectory() as folder:
        for name, n_trials, settings in (
            ("7000 samples of 8 channels", 100, {"n_channels": 8}),
            (f"{minutes:g} min of 64 channels at 512 Hz", round(minutes * 225), {"n_channels": 64, "sfreq": 512.0}),
        ):
            path = Path(folder) / f"{n_trials}_raw.fif"
            to_raw(simulated_recording(n_trials, **settings)).save(path, verbose="error")
            found = {}
            for isolate in ("", "yes"):
                command = [sys.executable, __file__, "--cost", str(path), isolate]
                runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(5)]
                found[isolate] = median(float(run.stdout) for run in runs)
            print(f"{name}: {found['']:.2f} s in this process, {found['yes']:.2f} s in one of its own (CPU)")


def measured_apart(path: Path, phase: str) -> dict:
    """:func:`measure` in a process of its own."""
    command = [sys.executable, __file__, "--measure", str(path), phase]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--isolation", action="store_true", help="what a process of its own costs, and nothing else")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--cost", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cost:
        print(cost(arguments.cost[0], bool(arguments.cost[1])))
        return
    if arguments.isolation:
        isolation(arguments.minutes)
        return
    if arguments.measure:
        print(json.dumps(measure(*arguments.measure)))
        return
    from mixnorm.eeg import simulated_recording, to_raw

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long_raw.fif"
        n_trials = round(arguments.minutes * 60 / 0.2667)  # a flash every 250 ms and 2 s between characters
        to_raw(simulated_recording(n_trials, n_channels=64, sfreq=512.0)).save(path, verbose="error")
        found = [measured_apart(path, phase) for phase in ("causal", "zero")]
    if arguments.json:
        print(json.dumps(found))
        return
    print(f"{arguments.minutes:g} min × 64 channels × 512 Hz, {found[0]['trials']} trials")
    for row in found:
        print(
            f"{row['phase']:>6}: read {row['read_s']:.2f} s, filter {row['filter_s']:.2f} s,"
            f" rest {row['rest_s']:.2f} s; filter {row['filter_share']:.0%}, peak {row['peak_mb']:.0f} MB"
        )


if __name__ == "__main__":
    main()
