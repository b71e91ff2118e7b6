"""A fit with default settings goes the way of docs/architecture.md: what it does not use is not entered."""

import os
import re
import sys
from pathlib import Path

import numpy as np

import mixnorm
from mixnorm import GroupSVCCV
from mixnorm.execution import together

ROOT = Path(mixnorm.__file__).parent
ARCHITECTURE = Path(__file__).parents[2] / "docs" / "architecture.md"
#: Modules for settings that are not the default: epochs of MNE, other array libraries, noise, windows, a device, several
#: fits at once.
OPTIONAL = {
    *("estimators/by_name.py", "estimators/quadratic.py", "estimators/windows.py"),
    *("execution/array_api.py", "execution/batching.py", "execution/device.py"),
}
#: A solver's first function, and the module that solves the linear system of a Newton step.
SOLVER, LINEAR_SYSTEM = "solvers/", "solvers/newton/host/system.py"


def entered_before(end, fit):
    """The modules of the package that are entered until one is whose path starts with ``end``, in order."""
    modules, reached, root, before = [], [], f"{ROOT}{os.sep}", sys.getprofile()

    def note(frame, event, _argument):
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(root):
            name = path.removeprefix(root).replace(os.sep, "/")
            if name.startswith(end):
                reached.append(name)
                sys.setprofile(before)
            elif name not in modules:
                modules.append(name)

    sys.setprofile(note)
    try:
        fit()
    finally:
        sys.setprofile(before)
    assert reached
    return modules


def fit_on_epochs(**parameters):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    GroupSVCCV(3, **parameters).fit(rng.standard_normal((60, 4, 3)) + y[:, None, None], y)


def test_default_fit_enters_five_modules_and_six_of_the_core_before_the_solver():
    found = entered_before(SOLVER, fit_on_epochs)
    outside_core = [name for name in found if not name.startswith("core/")]
    assert not OPTIONAL & set(found)
    assert len(outside_core) <= 5, outside_core
    assert len(found) <= 11, found
    described = set(re.findall(r"`([\w/]+\.py)`", ARCHITECTURE.read_text(encoding="utf-8")))
    assert set(outside_core) <= described


def test_only_the_solver_is_entered_between_its_first_function_and_a_linear_system():
    before, until = (set(entered_before(end, fit_on_epochs)) for end in (SOLVER, LINEAR_SYSTEM))
    assert until > before
    assert {name for name in until - before if not name.startswith("solvers/")} == set()


def test_optional_modules_are_entered_where_they_are_asked_for():
    found = entered_before(SOLVER, lambda: fit_on_epochs(windows=2, window_share=0.5, ridge=0.1))
    assert {"estimators/quadratic.py", "estimators/windows.py"} <= set(found)
    found = entered_before(SOLVER, lambda: together([fit_on_epochs]))
    assert found[0] == "execution/batching.py"
