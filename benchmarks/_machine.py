"""Where a benchmark ran: processor, cores, commit and versions, of the environment whose interpreter runs this.

python benchmarks/_machine.py
"""

import importlib.metadata
import json
import os
import platform
import subprocess
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("numpy", "scipy", "scikit-learn", "adelie", "skglm", "numba", "sklearn-contrib-lightning", "cvxpy", "scs")


def describe() -> dict:
    """Return the processor, the number of cores, the day, the commit and the versions of what is installed."""
    where = {"cpu": processor(), "cores": os.cpu_count(), "date": date.today().isoformat()}
    return where | {"commit": commit(), "versions": versions()}


def processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def commit() -> str:
    """The commit of the package, and whether it was changed since; "unknown" outside a clone and without Git."""
    asked = [["git", "rev-parse", "--short", "HEAD"], ["git", "status", "--porcelain", "src"]]
    try:
        found = [subprocess.run(one, cwd=ROOT, capture_output=True, text=True, check=True) for one in asked]
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    name, changes = (one.stdout.strip() for one in found)
    return f"{name} with changes" if changes else name


def versions() -> dict:
    installed = {
        name.lower(): v for name, v in ((d.metadata["Name"], d.version) for d in importlib.metadata.distributions())
    }
    return {"python": platform.python_version()} | {p: installed[p] for p in PACKAGES if p in installed}


if __name__ == "__main__":
    print(json.dumps(describe()))
