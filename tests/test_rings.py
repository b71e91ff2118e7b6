"""A ring imports only inwards, and the core needs NumPy, SciPy and scikit-learn alone."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import mixnorm

ROOT = Path(mixnorm.__file__).parent
#: The numbers: no estimator, no validation of a user's data.
NUMBERS = {
    *("_arrays", "_lq", "certificate", "groups", "intercept", "losses", "penalties", "solvers", "stack"),
    "unpenalised",
}
RINGS = ["numbers", "estimators", "eeg", "study", "report", "command line"]
OUTSIDE = {
    # joblib and threadpoolctl come with scikit-learn; array libraries only where their arrays came in, or were asked for
    "numbers": {"numpy", "scipy", "sklearn", "threadpoolctl", "torch", "cupy"},
    "estimators": {"numpy", "scipy", "sklearn", "joblib", "torch", "cupy"},
}
SOURCES = sorted(ROOT.rglob("*.py"))


def ring_of(module):
    """The ring of "mixnorm.a.b": by its first part; whatever is not named elsewhere is an estimator's."""
    first = module.split(".")[1] if "." in module else ""
    if first in NUMBERS:
        return "numbers"
    if first in ("cli", "commands"):
        return "command line"
    return first if first in RINGS else "estimators"


def module_of(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path):
    """Full names of the modules that a file imports, anywhere in it."""
    package = path.relative_to(ROOT.parent).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            tail = [node.module] if node.module else [alias.name for alias in node.names]
            yield from (".".join([*base, name]) for name in tail)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


@pytest.mark.parametrize("path", SOURCES, ids=module_of)
def test_ring_imports_only_inwards(path):
    own = ring_of(module_of(path))
    ours = [name for name in imports_of(path) if name.split(".")[0] == "mixnorm"]
    outwards = [name for name in ours if RINGS.index(ring_of(name)) > RINGS.index(own)]
    # the version, which lives in the package itself, is anyone's
    assert not outwards


@pytest.mark.parametrize("path", SOURCES, ids=module_of)
def test_inner_rings_import_nothing_that_is_optional(path):
    allowed = OUTSIDE.get(ring_of(module_of(path)))
    if allowed is None:
        assert "pickle" not in set(imports_of(path))
        return
    outside = {name.split(".")[0] for name in imports_of(path)} - {"mixnorm"} - sys.stdlib_module_names
    assert outside <= allowed


def test_numbers_take_of_scikit_learn_only_the_array_api():
    taken = {
        name
        for path in SOURCES
        if ring_of(module_of(path)) == "numbers"
        for name in imports_of(path)
        if name.startswith("sklearn")
    }
    assert taken == {"sklearn.externals.array_api_compat"}


def test_rings_are_told_apart():
    assert ring_of("mixnorm.solvers.newton") == "numbers"
    assert ring_of("mixnorm.svc") == ring_of("mixnorm") == "estimators"
    assert ring_of("mixnorm.eeg.readers.epfl") == "eeg"
    assert ring_of("mixnorm.commands.train") == "command line"
    found = {ring_of(module_of(path)) for path in SOURCES}
    assert {"numbers", "estimators", "eeg", "command line"} <= found
    assert "mixnorm.solvers.fista" in set(imports_of(ROOT / "solvers" / "__init__.py"))
    assert "mixnorm._arrays" in set(imports_of(ROOT / "solvers" / "fista.py"))


WITHOUT_OPTIONAL = """
import sys
OPTIONAL = {"mne", "moabb", "pandas", "matplotlib", "click", "tqdm", "torch", "cupy", "dask", "distributed",
            "array_api_strict", "cvxpy", "polars", "h5py"}
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in OPTIONAL:
            raise ModuleNotFoundError(f"No module named {name!r}")
sys.meta_path.insert(0, Missing())
import tempfile, os
import numpy as np
import mixnorm
y = np.tile(["a", "b"], 20)
X = np.random.default_rng(0).standard_normal((40, 4, 3))
X[y == "b", 1] += 1
model = mixnorm.GroupSVCCV(4).fit(X, y)
assert 1 in model.selected_groups_
assert mixnorm.SensorSelector(1).fit(X, y).transform(X).shape == (40, 1, 3)
assert mixnorm.group_svc_path(X, y, alphas=3).coefs.shape == (3, 12)
with tempfile.TemporaryDirectory() as folder:
    mixnorm.save(model, os.path.join(folder, "m.mixnorm"))
    assert (mixnorm.load(os.path.join(folder, "m.mixnorm")).predict(X) == model.predict(X)).all()
assert not OPTIONAL & set(sys.modules), OPTIONAL & set(sys.modules)
assert not [name for name in sys.modules if name.startswith(("mixnorm.eeg", "mixnorm.cli", "mixnorm.commands"))]
print("done")
"""


def test_core_works_without_any_optional_package():
    done = subprocess.run([sys.executable, "-c", WITHOUT_OPTIONAL], capture_output=True, text=True, timeout=120)
    assert done.stdout == "done\n", done.stderr


def test_the_study_imports_no_plotting_and_no_click():
    code = "import sys, mixnorm.study\nprint([m for m in ('matplotlib', 'click', 'mne', 'distributed') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stderr
