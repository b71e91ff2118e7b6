"""A plan: what a study does, as data. Nothing in a plan file is ever executed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from mixnorm.core.schema import shown
from mixnorm.eeg import PRESETS, Preparation
from mixnorm.estimators.settings import PAPER_QS
from mixnorm.study.canonical import canonical, known
from mixnorm.study.methods import METHODS
from mixnorm.study.plan_schema import MOST, check_dataset, check_datasets, check_plan

#: How trials are divided: at random as in the paper, or by session, character or subject, which hold out whole units.
SPLITS_BY = ("random", "session", "character", "subject")

# The range of the paper, 1e-3 to 10. It does not give the number of points; half decades resemble its Table 1 best,
# and the share of selected sensors depends strongly on it.
PAPER_ALPHAS = tuple(float(alpha) for alpha in np.logspace(-3, 1, 9))
# 0 is the paper's MGSVM-2, so that the data may choose it; the others are decades around the range of alphas.
SIMILARITIES = (0.0, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)

#: What some file system refuses in a name, or takes for a separator.
NOT_IN_NAMES = re.compile(r'[/\\:*?"<>|\x00-\x1f]')
_LONGEST_NAME = 200


class PlanError(ValueError):
    """An invalid plan; the message says where and why.

    See Also
    --------
    Plan : Raises it where a value is not allowed.
    load_plan : Raises it for files.

    Examples
    --------
    >>> from mixnorm.study import DatasetPlan, Plan, PlanError
    >>> try:
    ...     Plan("mine", (DatasetPlan("data", "simulated"),), methods=("svm",), splits=0)
    ... except PlanError as error:
    ...     print(error)
    mine: splits must be ...
    """


@dataclass(frozen=True)
class DatasetPlan:
    """Where trials come from and what is done to them before any split.

    Attributes
    ----------
    name : str
        The `dataset` of the rows.
    source : str
        "simulated", "cohort", a file or folder that `mixnorm.eeg` reads (absolute, or relative to the plan file,
        the working directory or $MIXNORM_DATA, whichever has it), or "moabb:NAME".
    preparation : dict
        As `mixnorm.eeg.Preparation.to_dict` writes it; in a file the name of a preset, or a `preset` and the
        fields that differ from it.
    options : dict
        Keywords of the simulation, or of `mixnorm.eeg.read_recordings`.
    subjects : tuple of str
        Only these; empty: all.
    sessions : int or None
        Use only this many first sessions of each subject.
    where : str
        Where to get the files; part of the error where they are missing.

    See Also
    --------
    Plan : Has one or several.

    Examples
    --------
    >>> from mixnorm.study import DatasetPlan
    >>> DatasetPlan("toy", "simulated", options={"n_channels": 8}).drawn
    True
    """

    name: str
    source: str
    preparation: Mapping[str, Any] | None = None
    options: Mapping[str, Any] | None = None
    subjects: tuple[str, ...] = ()
    sessions: int | None = None
    where: str = ""

    @property
    def drawn(self) -> bool:
        """Whether every split draws new data."""
        return self.source in ("simulated", "cohort")


@dataclass(frozen=True)
class Plan:
    """Data, splits, methods, grids and seed of a study.

    Attributes
    ----------
    name, about : str
        Name of the study, and a description.
    datasets : tuple of DatasetPlan
        Where the trials come from.
    methods : tuple of str
        Keys of `METHODS`.
    splits : int
        Random splits (or draws) of every subject; the number of folds for ``split_by="character"``; the most
        sessions left out in turn for ``"session"``.
    split_by : {"random", "session", "character", "subject"}
        What is divided into training and test trials.
    n_train : tuple of int
        Numbers of training trials per subject, each evaluated. Empty: for random splits 1000, or four fifths where a
        subject has fewer trials; otherwise all that are not held out.
    alphas, qs, similarities : tuple of float
        The grids of the inner cross-validation.
    folds : int
        Number of folds of the inner cross-validation.
    scatter_at : int or None
        The number of training trials at which subjects are compared in a scatter plot; None: the largest.
    seed : int
        The same seed gives the same splits.

    See Also
    --------
    load_plan : A plan by name or from a file.
    run_study : Computes it.

    Examples
    --------
    >>> from mixnorm.study import DatasetPlan, Plan
    >>> plan = Plan("mine", (DatasetPlan("toy", "simulated"),), methods=("svm", "gsvm-2"), splits=3)
    >>> plan.with_(splits=5).splits, Plan.from_dict(plan.to_dict()).identity() == plan.identity()
    (5, True)
    """

    name: str
    datasets: tuple[DatasetPlan, ...]
    methods: tuple[str, ...]
    about: str = ""
    splits: int = 10
    split_by: str = "random"
    n_train: tuple[int, ...] = ()
    alphas: tuple[float, ...] = PAPER_ALPHAS
    qs: tuple[float, ...] = PAPER_QS
    similarities: tuple[float, ...] = SIMILARITIES
    folds: int = 3
    scatter_at: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        # A plan can come from a file: everything is checked before data are read.
        for name in (self.name, *(dataset.name for dataset in self.datasets)):
            _check_name(name)
        for method in self.methods:
            known(method, METHODS, "method")
        known(self.split_by, SPLITS_BY, "value of split_by")
        if not self.methods or len(set(self.methods)) < len(self.methods):
            raise PlanError(f"{self.name}: give at least one method, and each method once.")
        names = [dataset.name for dataset in self.datasets]
        if not names or len(set(names)) < len(names):
            raise PlanError(f"{self.name}: give at least one data set, and each a different name.")
        self._check_numbers()

    def _check_numbers(self) -> None:
        for name, least in (("splits", 1), ("folds", 2), ("seed", 0)):
            _check_whole(f"{self.name}: {name}", getattr(self, name), least, MOST[name])
        for number in self.n_train:
            _check_whole(f"{self.name}: n_train", number, 2, MOST["n_train"])
        for name in ("alphas", "qs", "similarities"):
            values = getattr(self, name)
            # similarity 0 is the problem without similarity; alpha and q have no such value
            positive = all(_is_number(value) and (value > 0 or name == "similarities") for value in values)
            if len(values) > MOST["values in a grid"]:
                raise PlanError(
                    f"{self.name}: {name} has {len(values)} values; the most is {MOST['values in a grid']}."
                )
            if not values or not positive or any(value < 0 for value in values):
                raise PlanError(f"{self.name}: {name} must be finite positive numbers, but got {list(values)}.")
        if not all(1 <= q <= 2 for q in self.qs):
            raise PlanError(f"{self.name}: every q must be between 1 and 2, but got {list(self.qs)}.")

    def with_(self, **changes: Any) -> Plan:
        """The same plan with some fields changed; None leaves a field as it is.

        Parameters
        ----------
        **changes : dict
            New values by name.

        Returns
        -------
        Plan
            A new object; this one does not change.
        """
        return replace(self, **{name: value for name, value in changes.items() if value is not None})

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON.

        Returns
        -------
        dict
            One value for each field, by its name.
        """
        return _plain(asdict(self))

    @classmethod
    def from_dict(cls, description: Mapping[str, Any]) -> Plan:
        """The plan that `to_dict` described, or that a TOML file holds under the same keys.

        Parameters
        ----------
        description : mapping
            Values by name; fields that are missing have their defaults.

        Returns
        -------
        Plan
            All values are checked.
        """
        return _plan(dict(description))

    def identity(self) -> str:
        """Canonical text of what runs in one folder must have in common: all but methods, splits and descriptions.

        Returns
        -------
        str
            Equal for plans whose results may be in one folder.
        """
        description = self.to_dict()
        # More splits or methods continue a study. With characters, `splits` is the number of folds, and changes all of
        # them.
        for name in ("splits", "methods", "about", "scatter_at"):
            if name != "splits" or self.split_by != "character":
                del description[name]
        return canonical(description)


def _plan(description: dict[str, Any]) -> Plan:
    datasets = description.pop("dataset", None) or description.pop("datasets", ())
    allowed = [field.name for field in fields(Plan) if field.name != "datasets"]
    for key in description:
        known(key, [*allowed, "dataset"], "plan key")
    check_plan(description)
    check_datasets(datasets)
    values = {key: _tuple(value) for key, value in description.items()}
    for key in ("n_train", "alphas", "qs", "similarities", "methods"):
        # One value may stand without brackets, and a grid as {low, high, count}.
        if key in values and not isinstance(values[key], tuple):
            values[key] = _grid(values[key]) if isinstance(values[key], Mapping) else (values[key],)
    for key in ("name", "methods"):
        if key not in values:
            raise PlanError(f"The plan has no {key!r}.")
    return Plan(**values, datasets=tuple(_dataset(dict(dataset)) for dataset in datasets))


def _dataset(description: dict[str, Any]) -> DatasetPlan:
    for key in description:
        known(key, [field.name for field in fields(DatasetPlan)], "key of a data set")
    if "source" not in description:
        raise PlanError(f"The data set {description.get('name', '')!r} has no 'source'.")
    check_dataset(description)
    description.setdefault("name", Path(description["source"]).stem)
    if description.get("preparation") is not None:
        description["preparation"] = _preparation(description["preparation"])
    return DatasetPlan(**{key: _tuple(value) for key, value in description.items()})


def _preparation(words: str | Mapping[str, Any]) -> dict[str, Any]:
    """A preset by name; or fields, where TOML has them, on top of a `preset` ("default" if none is named)."""
    if isinstance(words, str):
        words = {"preset": words}
    changes = dict(words)
    base = Preparation.preset(known(changes.pop("preset", "default"), PRESETS, "preset")).to_dict()
    for key in changes:
        known(key, base, "key of a preparation")
    return Preparation.from_dict({**base, **changes}).to_dict()


def _grid(span: Mapping[str, Any]) -> tuple[float, ...]:
    """``{low, high, count}``: evenly spaced logarithms."""
    for key in span:
        known(key, ("low", "high", "count"), "key of a grid")
    low, high, count = (span.get(key) for key in ("low", "high", "count"))
    _check_whole("count of a grid", count, 1, MOST["values in a grid"])
    if not (_is_number(low) and _is_number(high) and 0 < low <= high):
        raise PlanError(f"A grid needs 0 < low ≤ high, but got {low!r} and {high!r}.")
    return tuple(float(value) for value in np.geomspace(low, high, count))


def _check_name(name: Any) -> None:
    """Names of plans and data sets become names of folders and files."""
    if not isinstance(name, str) or not name.strip() or name in (".", ".."):
        raise PlanError(f"Invalid name {name!r} of a plan or data set: it must be a text such as 'my-study'.")
    bad = NOT_IN_NAMES.search(name)
    if bad or len(name.encode()) > _LONGEST_NAME:
        why = f"it contains {bad[0]!r}" if bad else f"it is longer than {_LONGEST_NAME} bytes"
        raise PlanError(f"Invalid name {name!r} of a plan or data set: {why}, and files are named after it.")


def _check_whole(what: str, value: Any, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise PlanError(f"{what} must be an integer of at least {least}, but got {shown(value)}.")
    if value > most:
        raise PlanError(f"{what} must be at most {most}, but got {shown(value)}.")


def _is_number(value: Any) -> bool:
    # An integer may be too large for a float.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 1e300


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, tuple | list) else value
