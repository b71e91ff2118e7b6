"""The names of the package, which are imported when they are used."""

import subprocess
import sys

import pytest

import mixnorm


def test_every_public_name_is_there():
    for name in mixnorm.__all__:
        assert getattr(mixnorm, name) is not None
        assert name in dir(mixnorm)
    listed = {name for names in mixnorm._NAMES.values() for name in names}
    assert listed | {"__version__"} == set(mixnorm.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'mixnorm' has no attribute 'GroupSVM'"):
        _ = mixnorm.GroupSVM
    with pytest.raises(ImportError, match="cannot import name 'GroupSVM'"):
        from mixnorm import GroupSVM  # noqa: F401


def test_the_package_alone_does_not_import_scikit_learn():
    code = "import sys, mixnorm\nprint(mixnorm.__version__, 'sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout == f"{mixnorm.__version__} False\n", done.stderr


def run_module(*args):
    return subprocess.run([sys.executable, "-m", "mixnorm", *args], capture_output=True, text=True, timeout=300)


def test_the_package_runs_as_a_module_like_the_command():
    done = run_module("--version")
    assert (done.stdout, done.stderr, done.returncode) == (f"mixnorm {mixnorm.__version__}\n", "", 0)
    assert run_module("--help").stdout.startswith("Usage: python -m mixnorm [OPTIONS] COMMAND")
    unknown = run_module("elect")
    assert unknown.returncode == 2
    assert "No such command 'elect'" in unknown.stderr


def test_the_version_is_printed_without_scikit_learn():
    code = (
        "import runpy, sys\nsys.argv = ['mixnorm', '--version']\n"
        "try:\n    runpy.run_module('mixnorm', run_name='__main__')\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('numpy', 'scipy', 'sklearn', 'mne') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout == f"mixnorm {mixnorm.__version__}\n[]\n", done.stderr
