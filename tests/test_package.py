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
