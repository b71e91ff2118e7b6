"""Units of work (one data set, subject or cohort, split and method) and the keys of their results."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import mixnorm
from mixnorm.eeg import Design
from mixnorm.study.canonical import canonical, sha256
from mixnorm.study.data import Data, open_data
from mixnorm.study.methods import METHODS, Settings
from mixnorm.study.plan import Plan
from mixnorm.study.splits import SplitRule, check_enough, rules


@dataclass(frozen=True)
class Unit:
    """The smallest piece of work of a study.

    Attributes
    ----------
    dataset, method : str
    subject : str or None
        None: all subjects together.
    split : int
    n_train : int or None
        As in the plan; None where it gives none.
    spec : str
        Canonical JSON of everything the result depends on.
    """

    dataset: str
    method: str
    subject: str | None
    split: int
    n_train: int | None
    spec: str = field(repr=False)

    @property
    def key(self) -> str:
        """Full SHA-256 of the specification: the name of the result on disk."""
        return sha256(self.spec)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON, with the key instead of the specification."""
        return {**{k: v for k, v in asdict(self).items() if k != "spec"}, "key": self.key}

    def rule(self) -> SplitRule:
        """The split, as it stands in the specification."""
        return SplitRule(**json.loads(self.spec)["split"])

    def settings(self) -> Settings:
        """The inner cross-validation; grids that the method does not use are empty."""
        spec = json.loads(self.spec)
        grids = {name: tuple(spec["grids"].get(name, ())) for name in ("alphas", "qs", "similarities")}
        return Settings(**grids, folds=spec["folds"], honest=self.rule().honest)


@dataclass(frozen=True)
class Work:
    """A plan, its data, and all its units."""

    plan: Plan
    data: dict[str, Data] = field(repr=False)
    units: tuple[Unit, ...] = field(repr=False)

    def data_of(self, unit: Unit) -> Data:
        """The data of a unit: of one subject or, where a subject is held out, of all."""
        whole = self.plan.split_by == "subject"
        return self.data[unit.dataset].of(None if whole else unit.subject)


def expand(plan: Plan) -> Work:
    """Open the data of a plan and list its units; an invalid plan is refused here."""
    for method in plan.methods:
        # before data are read: a missing package should not be noticed after minutes
        METHODS[method].check()
    data, units = {}, []
    for dataset in plan.datasets:
        opened = data[dataset.name] = open_data(dataset, plan.seed)
        design = opened.first()
        check_enough(plan, design, dataset.name)
        units += [
            _unit(plan, dataset.name, method, rule, subject, opened.hash)
            for subject, method, rule in _parts(plan, opened, design)
        ]
    # Split by split: methods can be compared early, and consecutive units share simulated trials.
    return Work(plan, data, tuple(sorted(units, key=lambda unit: unit.split)))


def _parts(plan: Plan, data: Data, design: Design) -> Iterator[tuple[str | None, str, SplitRule]]:
    alone = plan.split_by == "subject"
    for method in plan.methods:
        # Where a subject is held out, every method learns from the others, so that a unit belongs to the one left out.
        whose = data.subjects if alone or not METHODS[method].cohort else (None,)
        for subject in whose:
            for rule in rules(plan, design, subject):
                yield subject, method, rule


def _unit(plan: Plan, dataset: str, method: str, rule: SplitRule, subject: str | None, data_hash: str) -> Unit:
    spec = {
        "dataset": dataset,
        "data": data_hash,
        "subject": subject,
        "split": asdict(rule),
        "method": method,
        # Only what the method depends on: another grid of q leaves the results of the other methods valid.
        "grids": {name: list(getattr(plan, name)) for name in METHODS[method].uses},
        "folds": plan.folds,
        "code": code_version(),
    }
    return Unit(dataset, method, subject, rule.number, rule.n_train, canonical(spec))


@cache
def code_version() -> dict[str, str]:
    """Versions of the packages that results depend on, and the SHA-256 of the source of this package.

    Reports and commands only show results: changes there leave results valid.
    """
    root = Path(mixnorm.__file__).parent
    own = sorted(file for file in root.rglob("*.py") if file.relative_to(root).parts[0] not in ("report", "commands"))
    source = "".join(f"{file.relative_to(root).as_posix()} {sha256(file.read_bytes())}\n" for file in own)
    names = ("numpy", "scipy", "scikit-learn")
    return {
        "mixnorm": f"{mixnorm.__version__} {sha256(source)}",
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in names},
    }
