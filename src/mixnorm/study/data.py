"""The trials of a study: simulated for each split, or read once."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from mixnorm.eeg import (
    Cohort,
    Design,
    Preparation,
    ReadOptions,
    Simulated,
    electrode_positions,
    prepare,
    read_recordings,
    simulated_cohort,
    simulated_p300,
)
from mixnorm.eeg.events import UNKNOWN
from mixnorm.eeg.readers.moabb_sets import PREFIX
from mixnorm.study.canonical import canonical, known, sha256
from mixnorm.study.plan import DatasetPlan, PlanError

#: Split k of seed s is draw ``s · 10000 + k``, so that no two seeds share a draw.
DRAWS_PER_SEED = 10_000

# Simulated trials are used as they are, as in the paper.
_RAW = Preparation(band=None, window=None, n_samples=None, reduce="pick", scaling="none", clip=None)


@dataclass(frozen=True)
class Part:
    """The trials of a unit and, for simulated subjects, the informative channels."""

    design: Design
    truth: dict[str, tuple[str, ...]] | None = None


class Data(Protocol):
    """A data set of a study: its subjects and their trials."""

    subjects: tuple[str, ...]
    hash: str

    def part(self, split: int) -> Part:
        """The trials that a split divides."""

    def of(self, subject: str | None) -> Data:
        """The same for one subject only; None: all of them."""

    def first(self) -> Design:
        """Trials that show channels, times and numbers of trials."""


@dataclass(frozen=True)
class Drawn:
    """Simulated subjects; every split draws new trials."""

    source: str
    options: dict[str, Any]
    seed: int
    subjects: tuple[str, ...]
    only: str | None = None

    @classmethod
    def from_plan(cls, plan: DatasetPlan, seed: int) -> Drawn:
        """Check the options against the parameters of the simulation."""
        function = simulated_p300 if plan.source == "simulated" else simulated_cohort
        # The seed of a draw is that of the plan and the split; as an option it would make all draws equal.
        allowed = [name for name in inspect.signature(function).parameters if name != "seed"]
        options = dict(plan.options or {})
        for name in options:
            known(name, allowed, f"option of the data set {plan.name!r}")
        count = 1 if plan.source == "simulated" else options.get("n_subjects", 8)
        return cls(plan.source, options, seed, tuple(f"S{number + 1}" for number in range(count)))

    @property
    def hash(self) -> str:
        """Simulated trials depend on these and on the code, which is part of the key of every unit."""
        return sha256(canonical([self.source, self.options, self.seed]))

    def part(self, split: int) -> Part:
        """The trials of draw `split`."""
        whole = _draw(self.source, canonical(self.options), DRAWS_PER_SEED * self.seed + split)
        if self.only is None:
            return whole
        return replace(whole, design=_only(whole.design, whole.design.subject == self.only))

    def of(self, subject: str | None) -> Drawn:
        """One subject of every draw."""
        return replace(self, only=subject)

    def first(self) -> Design:
        """The first draw."""
        return self.part(0).design


@dataclass(frozen=True)
class Read:
    """Recorded subjects; the same trials for every split."""

    design: Design = field(repr=False)
    hash: str
    subjects: tuple[str, ...]

    @classmethod
    def from_plan(cls, plan: DatasetPlan) -> Read:
        """Read, prepare, and keep the subjects and sessions that the plan asks for."""
        options = dict(plan.options or {})
        for name in options:
            known(name, [field.name for field in fields(ReadOptions)], f"option of the data set {plan.name!r}")
        preparation = Preparation.from_dict(plan.preparation) if plan.preparation else None
        design = prepare(read_recordings(located(plan), **options), preparation)
        # Trials without a label can be neither trained on nor scored.
        design = _chosen(_only(design, design.y != UNKNOWN), plan)
        return cls(design, design_hash(design), tuple(np.unique(design.subject).tolist()))

    def part(self, _split: int) -> Part:
        """All trials."""
        return Part(self.design)

    def of(self, subject: str | None) -> Read:
        """The trials of one subject."""
        if subject is None:
            return self
        return replace(self, design=_only(self.design, self.design.subject == subject))

    def first(self) -> Design:
        """All trials."""
        return self.design


@lru_cache(maxsize=2)
def _draw(source: str, options: str, seed: int) -> Part:
    """Simulated trials; the methods of a split come one after the other and share them."""
    if source == "simulated":
        one = simulated_p300(**json.loads(options), seed=seed)
        return Part(_as_design(one, np.full(len(one.y), "S1")), {"S1": one.informative})
    cohort = simulated_cohort(**json.loads(options), seed=seed)
    truth = {who: cohort.common + own for who, own in cohort.own.items()}
    return Part(_as_design(cohort, cohort.subject), truth)


def _as_design(drawn: Simulated | Cohort, subject: np.ndarray) -> Design:
    unknown = np.full(len(drawn.y), UNKNOWN)
    return Design(
        X=drawn.X,
        y=drawn.y,
        subject=subject,
        session=np.full(len(drawn.y), "1"),
        # simulated trials are independent: there are no characters to keep together
        character=unknown,
        stimulus=unknown,
        onset=np.arange(len(drawn.y), dtype=float),
        run=np.unique(subject, return_inverse=True)[1],
        ch_names=drawn.ch_names,
        positions=electrode_positions(drawn.ch_names),
        times=drawn.times,
        sfreq=8.0,
        preparation=_RAW,
    )


def open_data(plan: DatasetPlan, seed: int) -> Drawn | Read:
    """The data of a data set's plan."""
    return Drawn.from_plan(plan, seed) if plan.drawn else Read.from_plan(plan)


def located(plan: DatasetPlan) -> str:
    """The path of a source: as given, or in $MIXNORM_DATA; an error says where to get it."""
    if plan.source.startswith(PREFIX) or Path(plan.source).exists():
        return plan.source
    folder = os.environ.get("MIXNORM_DATA")
    if folder and (Path(folder) / plan.source).exists():
        return str(Path(folder) / plan.source)
    places = "here" if not folder else f"here or in MIXNORM_DATA={folder}"
    advice = plan.where or "Set MIXNORM_DATA to the folder that holds it, or name a file, a folder or moabb:NAME."
    raise PlanError(f"Data set {plan.name!r}: {plan.source!r} was not found {places}. {advice}")


def design_hash(design: Design) -> str:
    """SHA-256 of everything in the prepared trials that a result depends on."""
    digest = hashlib.sha256()
    for name in ("X", "y", "subject", "session", "character", "stimulus", "onset", "run", "positions", "times"):
        array = np.ascontiguousarray(getattr(design, name))
        # Type and shape too: the same bytes can be another array.
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    digest.update(canonical([list(design.ch_names), design.preparation.to_dict()]).encode())
    return digest.hexdigest()


def _chosen(design: Design, plan: DatasetPlan) -> Design:
    found = np.unique(design.subject).tolist()
    for subject in plan.subjects:
        known(subject, found, f"subject of the data set {plan.name!r}")
    keep = np.isin(design.subject, plan.subjects or found)
    if plan.sessions is not None:
        for subject in found:
            mine = design.subject == subject
            # in the order of the recordings
            early = list(dict.fromkeys(design.session[mine].tolist()))[: plan.sessions]
            keep &= ~mine | np.isin(design.session, early)
    return _only(design, keep)


def _only(design: Design, keep: np.ndarray) -> Design:
    columns = ("X", "y", "subject", "session", "character", "stimulus", "onset", "run")
    return replace(design, **{name: getattr(design, name)[keep] for name in columns})
