"""Damaged and forged model files by the thousand, each campaign in a process with a limit on memory.

    python benchmarks/fuzz_models.py [--count 20000] [--seed 1] [--memory 1024]

Half of the files are *altered* (bytes changed, removed, doubled, inserted, the end cut off): they must be refused or
give the same model. The other half are *forged* (another header or other arrays, with checksums that agree): they must
be refused or give a model that works. `tests/model_mutations.py` makes them, from one file of every class. A process
that ends by a signal, raises any other error, or needs more memory, or ten minutes for 2500 files, is a failure.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "tests" / "model_mutations.py"
PART = 2500


def part(seed: int, count: int, memory: int) -> dict:
    """One process: its counts, its failures and the processor seconds of its slowest file."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, SCRIPT, folder, "--count", count, "--seed", seed, "--memory", memory]
        run = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment)
    if not run.stdout:
        return {"counts": {"crashed": 1}, "failures": [f"seed {seed}: {run.stderr[-500:]}"], "slowest_s": 0.0}
    return json.loads(run.stdout)


def main() -> None:
    """Run the campaigns and print the sums."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=20_000, help="files in all")
    parser.add_argument("--seed", type=int, default=1, help="of the first process; the others count up")
    parser.add_argument("--memory", type=int, default=1024, help="MiB of a process beyond those at its start")
    options = parser.parse_args()
    counts, failures, slowest, start = Counter(), [], 0.0, time.perf_counter()
    for number, first in enumerate(range(0, options.count, PART)):
        found = part(options.seed + number, min(PART, options.count - first), options.memory)
        counts.update(found["counts"])
        failures += found["failures"]
        slowest = max(slowest, found["slowest_s"])
        print(f"{sum(counts.values())} of {options.count} files", file=sys.stderr)
    print(json.dumps(dict(sorted(counts.items())), indent=1))
    print(f"slowest file {slowest:.2f} s of the processor, {time.perf_counter() - start:.0f} s in all")
    print("\n".join(failures) or "no failure")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
