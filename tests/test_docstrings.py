"""Every public name has a complete docstring by numpydoc's validation, and stands in the API reference.

Public are the names in the ``__all__`` of `MODULES`; of classes also the methods and properties that this package
defines. That the examples run is checked by pytest itself (``--doctest-modules``).
"""

import inspect
import re
from functools import cached_property
from importlib import import_module
from pathlib import Path

import pytest

from mixnorm.eeg import Stopping

MODULES = ("mixnorm", "mixnorm.eeg", "mixnorm.eeg.export", "mixnorm.study", "mixnorm.report")
API = Path(__file__).parents[1] / "docs" / "api.rst"

#: Codes that no docstring has to keep, and why.
EXCEPTED = {
    "ES01": "an extended summary is written only where there is more to say",
}
#: Codes that methods and properties do not have to keep: the class has the examples and the cross-references.
EXCEPTED_FOR_METHODS = {"EX01", "SA01"}


def public_names():
    """Pairs (module, name), with the constants."""
    return [(module, name) for module in MODULES for name in import_module(module).__all__]


def methods_of(kind):
    """Names of the public methods and properties of a class that this package defines."""
    own = [base for base in kind.__mro__ if base.__module__.startswith("mixnorm")]
    found = {name: value for base in reversed(own) for name, value in vars(base).items() if not name.startswith("_")}
    described = (property, cached_property, classmethod, staticmethod)
    fields = fields_of(kind)
    return [
        name
        for name, value in found.items()
        if name not in fields and (inspect.isfunction(value) or isinstance(value, described))
    ]


def fields_of(kind):
    """Names of the fields of a dataclass or a named tuple, which are its parameters; nothing for other classes."""
    return set(getattr(kind, "__dataclass_fields__", None) or getattr(kind, "_fields", ()))


def documented():
    """Full names of everything that needs a docstring."""
    for module, name in public_names():
        thing = getattr(import_module(module), name)
        if callable(thing):
            yield f"{module}.{name}"
        if inspect.isclass(thing):
            yield from (f"{module}.{name}.{method}" for method in methods_of(thing))


def thing_of(full_name):
    module, _, name = full_name.rpartition(".")
    return getattr(import_module(module), name)


def is_method(full_name):
    return full_name.rpartition(".")[0] not in MODULES


def problems(full_name):
    """What numpydoc finds, without what is excepted; a field of a class may be documented as its attribute."""
    validate = pytest.importorskip("numpydoc.validate", reason="numpydoc is not installed: pip install mixnorm[test]")
    found = validate.validate(full_name)
    excepted = set(EXCEPTED)
    if is_method(full_name):
        excepted |= EXCEPTED_FOR_METHODS
    elif has_described_fields(thing_of(full_name)):
        excepted.add("PR01")
    return [(code, message) for code, message in found["errors"] if code not in excepted]


def has_described_fields(thing):
    """Whether a class has fields, all of them in its sections Parameters or Attributes."""
    from numpydoc.docscrape import ClassDoc

    fields = fields_of(thing)
    if not fields:
        return False
    doc = ClassDoc(thing, config={"show_class_members": False})  # which would add fields with a default by itself
    return fields <= names_in(doc["Parameters"]) | names_in(doc["Attributes"])


def names_in(section):
    """Names of a section; several may share a description, as in "alpha_, q_ : float"."""
    return {name for one in section for name in re.split(r",\s*", one.name)}


@pytest.mark.parametrize("full_name", documented())
def test_docstring_is_complete(full_name):
    assert problems(full_name) == []


def test_a_field_that_is_not_documented_is_found(monkeypatch):
    shorter = re.sub(r"threshold : float.*?never\.\s*", "", Stopping.__doc__, flags=re.DOTALL)
    monkeypatch.setattr(Stopping, "__doc__", shorter)
    assert [code for code, _ in problems("mixnorm.eeg.Stopping")] == ["PR01"]


def test_parameters_are_described_and_not_only_referred_to():
    docscrape = pytest.importorskip(
        "numpydoc.docscrape", reason="numpydoc is not installed: pip install mixnorm[test]"
    )
    only_a_reference = re.compile(r"(As (in|for)|See) `[\w.]+`\.?")
    found = []
    for module, name in public_names():
        thing = getattr(import_module(module), name)
        if callable(thing):
            found += [
                f"{module}.{name}: {one.name}"
                for one in docscrape.get_doc_object(thing)["Parameters"]
                if only_a_reference.fullmatch(" ".join(one.desc).strip())
            ]
    assert found == []


@pytest.mark.skipif(not API.exists(), reason="docs are not part of the source distribution")
@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_in_the_api_reference(module):
    assert sorted(set(import_module(module).__all__) - names_in_reference()[module]) == []


@pytest.mark.skipif(not API.exists(), reason="docs are not part of the source distribution")
def test_the_api_reference_has_no_other_names():
    listed = {(module, name) for module, names in names_in_reference().items() for name in names}
    assert sorted(listed - set(public_names())) == []


def names_in_reference():
    """Module → names that docs/api.rst lists under it, in an autosummary or as ``py:data``."""
    names, module = {one: set() for one in MODULES}, None
    for line in API.read_text(encoding="utf-8").splitlines():
        if found := re.fullmatch(r"\.\. currentmodule:: (\S+)", line):
            module = found[1]
        elif found := re.fullmatch(r"\.\. py:data:: (\w+)|   ([A-Za-z_]\w*)", line):
            names[module].add(found[1] or found[2])
    return names
