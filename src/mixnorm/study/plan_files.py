"""Plans by name: those that come with the package, TOML files, and plans made for a recording."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from mixnorm.core.files import open_regular
from mixnorm.eeg.readers import SUFFIXES
from mixnorm.eeg.readers.moabb_sets import PREFIX
from mixnorm.study.canonical import known
from mixnorm.study.methods import METHODS
from mixnorm.study.plan import NOT_IN_NAMES, DatasetPlan, Plan, PlanError
from mixnorm.study.plan_schema import MOST_BYTES


def load_plan(name: str) -> Plan:
    """Return a plan: a built-in one by its name, one from a TOML file, or one made for a recording.

    Parameters
    ----------
    name : str
        One of `BUILT_IN`, the path of a TOML file, or a recording, a folder of recordings or a "moabb:" name.

    Returns
    -------
    Plan
        Change single fields with `Plan.with_`.

    See Also
    --------
    run_study : Computes the plan.

    Examples
    --------
    >>> from mixnorm.study import load_plan
    >>> load_plan("simulated").methods
    ('svm', 'svm-1', 'gsvm-2', 'gsvm-q', 'gsvm-a')
    """
    if name in BUILT_IN:
        return Plan.from_dict(tomllib.loads(_built_in_file(name).read_text(encoding="utf-8")))
    path = Path(name)
    if path.suffix == ".toml":
        return _from_file(path)
    if name.startswith(PREFIX) or path.is_dir() or path.name.endswith(SUFFIXES):
        return _around(name)
    known(name, BUILT_IN, "plan")
    raise AssertionError("unreachable")  # pragma: no cover


def _from_file(path: Path) -> Plan:
    if not path.is_file():
        raise PlanError(f"{path}: this plan file does not exist.")
    try:
        # one byte more than allowed, to notice a file that is too long without reading all of it
        with open_regular(path) as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise PlanError(f"a plan file has at most {MOST_BYTES} bytes; this is another kind of file.")
        description = tomllib.loads(content.decode("utf-8"))
        description.setdefault("name", path.stem)
        plan = Plan.from_dict(description)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PlanError(f"{path}: not a TOML file ({error}).") from error
    except (ValueError, OSError) as error:
        raise PlanError(f"{path}: {error}") from error
    # A plan and its data can be moved together, whatever the working directory is.
    beside = [replace(d, source=str(p)) if (p := path.parent / d.source).exists() else d for d in plan.datasets]
    return replace(plan, datasets=tuple(beside))


def _around(source: str) -> Plan:
    """The single-subject protocol on any source."""
    name = source.removeprefix(PREFIX) if source.startswith(PREFIX) else Path(source).resolve().stem
    name = NOT_IN_NAMES.sub("-", name)
    # the paper's single-subject methods, which need no other subjects and no optional package
    single = tuple(method for method in BUILT_IN_METHODS if method in METHODS)
    return Plan(name=name, datasets=(DatasetPlan(name, source),), methods=single)


#: The methods of the paper's Tables 1 and 2.
BUILT_IN_METHODS = ("svm", "svm-1", "gsvm-2", "gsvm-q", "gsvm-a")

#: Plans that come with the package.
BUILT_IN = ("simulated", "cohort", "epfl", "uam", "errp", "epfl-mtl", "uam-mtl")


def _built_in_file(name: str) -> Any:
    return files("mixnorm.study") / "plans" / f"{name}.toml"
