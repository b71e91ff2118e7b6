"""Where a benchmark ran: processor, cores and versions, of the environment whose interpreter runs this.

python benchmarks/_machine.py
"""

import importlib.metadata
import json
import os
import platform
from datetime import date
from pathlib import Path

PACKAGES = ("numpy", "scipy", "scikit-learn", "adelie", "skglm", "numba", "sklearn-contrib-lightning", "cvxpy", "scs")


def describe() -> dict:
    """Return the processor, the number of cores, the day and the versions of what is installed."""
    return {"cpu": processor(), "cores": os.cpu_count(), "date": date.today().isoformat(), "versions": versions()}


def processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def versions() -> dict:
    installed = {
        name.lower(): v for name, v in ((d.metadata["Name"], d.version) for d in importlib.metadata.distributions())
    }
    return {"python": platform.python_version()} | {p: installed[p] for p in PACKAGES if p in installed}


if __name__ == "__main__":
    print(json.dumps(describe()))
