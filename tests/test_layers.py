"""A folder imports only from folders above it, and the core needs NumPy, SciPy and scikit-learn alone.

The order of the folders is the one that ``CONTRIBUTING.md`` shows; which folder a module belongs to is where it lies.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mixnorm

ROOT = Path(mixnorm.__file__).parent
CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"
LAYERS = re.findall(r"^      (\w+)/ ", CONTRIBUTING.read_text(encoding="utf-8"), flags=re.MULTILINE)
#: What the folders up to ``subjects`` may import from outside. joblib and threadpoolctl come with scikit-learn; array
#: libraries are imported only where their arrays came in, or were asked for.
ALLOWED_OUTSIDE = {"numpy", "scipy", "sklearn", "joblib", "threadpoolctl", "torch", "cupy"}
WITHOUT_EXTRAS = LAYERS[: LAYERS.index("subjects") + 1]
#: The numerical folders use nothing of scikit-learn but the array API that it ships.
NUMERICAL = ["core", "solvers"]
SOURCES = sorted(ROOT.rglob("*.py"))


def layer_of(module):
    """The folder of "mixnorm.a.b"; None for the package root, which holds the version and the public names."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in LAYERS else None


def module_of(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path):
    """Full names of the modules that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: imports are absolute throughout the package"
            yield node.module


def test_contributing_lists_every_folder_of_the_package():
    folders = {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()}
    assert set(LAYERS) == folders
    assert len(LAYERS) == len(folders)


def test_package_root_holds_public_names_version_and_command_alone():
    assert {path.name for path in ROOT.glob("*.py")} == {"__init__.py", "__main__.py", "version.py"}


@pytest.mark.parametrize("path", SOURCES, ids=module_of)
def test_folder_imports_only_from_folders_above_it(path):
    own = layer_of(module_of(path))
    if own is None:
        return
    ours = [name for name in imports_of(path) if name.split(".")[0] == "mixnorm"]
    below = [name for name in ours if layer_of(name) and LAYERS.index(layer_of(name)) > LAYERS.index(own)]
    assert not below
    # the public names of the root are built from every folder, so that no folder of the core may ask for them
    assert own not in WITHOUT_EXTRAS or "mixnorm" not in ours


@pytest.mark.parametrize("path", SOURCES, ids=module_of)
def test_core_folders_import_nothing_that_is_optional(path):
    if layer_of(module_of(path)) not in WITHOUT_EXTRAS:
        assert "pickle" not in set(imports_of(path))
        return
    outside = {name.split(".")[0] for name in imports_of(path)} - {"mixnorm"} - sys.stdlib_module_names
    assert outside <= ALLOWED_OUTSIDE


def test_numerical_folders_take_of_scikit_learn_only_the_array_api():
    taken = {
        name
        for path in SOURCES
        if layer_of(module_of(path)) in NUMERICAL
        for name in imports_of(path)
        if name.startswith("sklearn")
    }
    assert taken == {"sklearn.externals.array_api_compat"}


def test_no_two_modules_of_one_name_in_different_folders():
    """Twins that mean the same thing are allowed: the two Newton engines, and a subcommand named after a folder."""
    names = {}
    for path in SOURCES:
        folder = path.parent.relative_to(ROOT).as_posix()
        if path.stem != "__init__" and not folder.startswith(("solvers/newton/", "commands")):
            names.setdefault(path.stem, []).append(folder)
    assert {stem: folders for stem, folders in names.items() if len(folders) > 1} == {}


def test_layers_are_told_apart():
    assert layer_of("mixnorm.solvers.newton.host.step") == "solvers"
    assert layer_of("mixnorm") is None
    assert layer_of("mixnorm.eeg.readers.epfl") == "eeg"
    assert LAYERS.index("core") < LAYERS.index("solvers") < LAYERS.index("execution") < LAYERS.index("estimators")
    assert "mixnorm.solvers.first_order.fista" in set(imports_of(ROOT / "solvers" / "__init__.py"))


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
assert not [name for name in sys.modules if name.startswith(("mixnorm.eeg", "mixnorm.montage", "mixnorm.commands"))]
print("done")
"""


def test_core_works_without_any_optional_package():
    done = subprocess.run([sys.executable, "-c", WITHOUT_OPTIONAL], capture_output=True, text=True, timeout=300)
    assert done.stdout == "done\n", done.stderr


def test_the_study_imports_no_plotting_and_no_click():
    code = "import sys, mixnorm.study\nprint([m for m in ('matplotlib', 'click', 'mne', 'distributed') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "[]", done.stderr
