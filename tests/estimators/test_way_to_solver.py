"""A fit with default settings goes the way of docs/architecture.md: what it does not use is not entered."""

import os
import re
import sys
from pathlib import Path

import numpy as np

import mixnorm
from mixnorm import GroupSVCCV

ROOT = Path(mixnorm.__file__).parent
ARCHITECTURE = Path(__file__).parents[2] / "docs" / "architecture.md"
#: Modules for settings that are not the default: epochs of MNE, other array libraries, noise, windows.
OPTIONAL = {"estimators/by_name.py", "estimators/quadratic.py", "estimators/windows.py", "execution/array_api.py"}


def entered_before_solver(fit):
    """The modules of the package that are entered until the first function of a solver is, in order."""
    modules, root, before = [], f"{ROOT}{os.sep}", sys.getprofile()

    def note(frame, event, _argument):
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(root):
            name = path.removeprefix(root).replace(os.sep, "/")
            if name.startswith("solvers/"):
                sys.setprofile(before)
            elif name not in modules:
                modules.append(name)

    sys.setprofile(note)
    try:
        fit()
    finally:
        sys.setprofile(before)
    return modules


def test_default_fit_enters_ten_modules_and_the_core_before_the_solver():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = rng.standard_normal((60, 4, 3)) + y[:, None, None]
    found = entered_before_solver(lambda: GroupSVCCV(3).fit(X, y))
    outside_core = [name for name in found if not name.startswith("core/")]
    assert not OPTIONAL & set(found)
    assert len(outside_core) <= 10, outside_core
    described = set(re.findall(r"`([\w/]+\.py)`", ARCHITECTURE.read_text(encoding="utf-8")))
    assert set(outside_core) <= described


def test_optional_modules_are_entered_where_they_are_asked_for():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = rng.standard_normal((60, 4, 3)) + y[:, None, None]
    found = entered_before_solver(lambda: GroupSVCCV(3, windows=2, window_share=0.5, ridge=0.1).fit(X, y))
    assert {"estimators/quadratic.py", "estimators/windows.py"} <= set(found)
