"""Print the lowest versions that pyproject.toml promises, as constraints for pip."""

import re
import tomllib
from pathlib import Path

# What the tests of core, solvers and estimators import beside the required packages.
EXTRAS = ("cli", "eeg", "report")

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
extras = [line for name in EXTRAS for line in project["optional-dependencies"][name]]
for line in [*project["dependencies"], *extras]:
    if found := re.fullmatch(r"([\w-]+)>=([\d.]+)", line):
        print(f"{found[1]}=={found[2]}")
