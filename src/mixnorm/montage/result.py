"""The result of electrode selection: typed records, from which JSON, tables, figures, page and text are made.

Every record checks its fields against each other when it is built, whether by `select_montage` or from a file. What
the fields mean is described in ``docs/electrodes.md``. Sentences are not stored: `sentences` makes them from the
fields, and `SelectionResult.to_json` adds them to the document for programs that only show them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from mixnorm.montage import sentences
from mixnorm.montage.plain import to_plain
from mixnorm.montage.verdict_records import FewTrials, Recommendation, Trace
from mixnorm.montage.window_records import Window, WindowScores, check_together

FORMAT, VERSION = "mixnorm-selection", 2
CLASSES = ("nontarget", "target")
FoldKind = Literal["session", "run", "character", "block"]


@dataclass(frozen=True)
class FoldsUsed:
    """Outer folds: how many were scored, and what they are made of, by subject."""

    count: int
    by_subject: Mapping[str, FoldKind]

    @property
    def kinds(self) -> tuple[FoldKind, ...]:
        """What the folds are made of, each kind once."""
        return tuple(dict.fromkeys(self.by_subject.values()))


@dataclass(frozen=True)
class Source:
    """Where the trials come from.

    ``unnamed``: several recordings that do not name their subject and are therefore treated as one subject's.
    """

    recordings: tuple[str, ...]
    subjects: tuple[str, ...]
    n_trials: int
    n_targets: int
    classes: tuple[str, ...]
    preparation: str
    unit: str
    folds: FoldsUsed
    unnamed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.classes != CLASSES:
            raise ValueError(f"classes: expected {list(CLASSES)}, but got {list(self.classes)}.")
        _check_same(self.folds.by_subject, self.subjects, "folds.by_subject")


@dataclass(frozen=True)
class SensorInfo:
    """One sensor: its place on a head seen from above (nose up, radius 1), constraints, cost and stability."""

    name: str
    x: float | None
    y: float | None
    keep: bool
    forbid: bool
    cost: float
    stability: float | None


@dataclass(frozen=True)
class Drop:
    """The least important sensor of a montage, and the change in AUC when it is removed.

    ``standard_error`` is that of the change, paired over folds; None where there is only one fold.
    """

    sensor: str
    auc_change: float | None
    standard_error: float | None = None


@dataclass(frozen=True)
class Montage:
    """The best montage of one size.

    Attributes
    ----------
    auc, low, high : float or None
        Mean AUC over the outer folds, and the ends of its 95 % interval.
    cost : float or None
    drop : Drop or None
    below_all, below_all_error : float or None
        AUC of the largest montage minus that of this one, and its standard error, paired over folds.
    decoder : str or None
        File with the decoder of this montage in the results folder, where one was made.
    """

    n_sensors: int
    sensors: tuple[str, ...]
    auc: float | None
    low: float | None
    high: float | None
    cost: float | None
    drop: Drop | None
    weights: Mapping[str, Trace] = field(repr=False)
    patterns: Mapping[str, Trace] = field(repr=False)
    below_all: float | None = None
    below_all_error: float | None = None
    decoder: str | None = None

    def __post_init__(self) -> None:
        if len(self.sensors) != self.n_sensors:
            raise ValueError(f"n_sensors is {self.n_sensors}, but {len(self.sensors)} sensors are named.")
        _check_same(self.weights, self.sensors, "weights")
        _check_same(self.patterns, self.sensors, "patterns")


@dataclass(frozen=True)
class Curve:
    """AUC of one method against the number of sensors, with 95 % intervals where they are known."""

    method: str
    n_sensors: tuple[int, ...]
    auc: Trace
    low: Trace | None
    high: Trace | None

    def __post_init__(self) -> None:
        for name in ("auc", "low", "high"):
            values = getattr(self, name)
            if values is not None and len(values) != len(self.n_sensors):
                raise ValueError(
                    f"{name} of {self.method!r} has {len(values)} values for {len(self.n_sensors)} n_sensors."
                )


@dataclass(frozen=True)
class Stability:
    """Stability selection: sensors that were often among the first ``n_first`` of half of the trials.

    ``by``: how the sensors of a half are ordered, by the elimination that also orders all trials, or, in files of
    earlier versions, by their entry on the mixed-norm path.
    """

    n_resamplings: int
    n_first: int | None
    threshold: float
    error_bound: float
    selected: tuple[str, ...]
    by: Literal["elimination", "path"] = "path"


@dataclass(frozen=True)
class Path:
    """The mixed-norm path: alphas, number of selected sensors, AUC on the held-out trials."""

    alphas: tuple[float, ...]
    n_selected: tuple[int, ...]
    auc: Trace

    def __post_init__(self) -> None:
        if not len(self.alphas) == len(self.n_selected) == len(self.auc):
            raise ValueError("alphas, n_selected and auc differ in length.")


@dataclass(frozen=True)
class Evoked:
    """Mean responses of both classes, by sensor."""

    nontarget: Mapping[str, Trace] = field(repr=False)
    target: Mapping[str, Trace] = field(repr=False)


@dataclass(frozen=True)
class Letters:
    """Shares of the held-out characters that are spelled right, by number of sensors and repetitions.

    ``right[i][r - 1]``: with ``n_sensors[i]`` sensors, after r repetitions, the flash scores simply added up.
    """

    n_characters: int
    n_sensors: tuple[int, ...]
    right: tuple[Trace, ...]

    def __post_init__(self) -> None:
        if len(self.right) != len(self.n_sensors):
            raise ValueError(f"right has {len(self.right)} rows for {len(self.n_sensors)} n_sensors.")
        if len({len(row) for row in self.right}) > 1:
            raise ValueError("The rows of right differ in length.")


@dataclass(frozen=True)
class SubjectRow:
    """One of several subjects: its own montage, and the AUCs of its own, the common and the pooled decoder."""

    subject: str
    n_sensors: int
    sensors: tuple[str, ...]
    auc: float | None
    common_auc: float | None
    new_subject_auc: float | None
    few_trials: FewTrials | None


@dataclass(frozen=True, eq=False)
class SelectionResult:
    """The montages of a recording, one for every number of sensors, with all that is needed to choose among them.

    Attributes
    ----------
    source : Source
    sensors : tuple of SensorInfo
        All sensors, in recording order.
    montages : tuple of Montage
        Ascending in size.
    recommended : Recommendation
    curves : tuple of Curve
        That of this package first.
    stability : Stability or None
    path : Path or None
    times : tuple of float
        Seconds.
    evoked : Evoked or None
    by_subject : tuple of SubjectRow, or None for a single subject
    letters : Letters or None
        Where characters and flash codes are known.
    arguments : tuple of str, or None
        The recordings and options of the command that made it, as typed, without those about what is written.
    windows : tuple of Window, or None
        Windows of time in order, where they were asked for.
    window_share : float or None
        Weight of the norms of windows against those of sensors, chosen by cross-validation.
    window_scores : WindowScores or None
        Held-out AUC with windows chosen, and with all of them.
    """

    source: Source
    sensors: tuple[SensorInfo, ...] = field(repr=False)
    montages: tuple[Montage, ...] = field(repr=False)
    recommended: Recommendation
    curves: tuple[Curve, ...] = field(repr=False)
    stability: Stability | None = field(repr=False)
    path: Path | None = field(repr=False)
    times: tuple[float, ...] = field(repr=False)
    evoked: Evoked | None = field(repr=False)
    by_subject: tuple[SubjectRow, ...] | None = field(repr=False)
    letters: Letters | None = field(default=None, repr=False)
    arguments: tuple[str, ...] | None = field(default=None, repr=False)
    windows: tuple[Window, ...] | None = field(default=None, repr=False)
    window_share: float | None = field(default=None, repr=False)
    window_scores: WindowScores | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        names = [sensor.name for sensor in self.sensors]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated or not names:
            raise ValueError(f"sensors: {', '.join(repeated)} named twice." if repeated else "sensors: empty.")
        self._check_montages(set(names))
        check_together(self.windows, self.window_share, self.window_scores, names)
        for key, traces in (vars(self.evoked) if self.evoked else {}).items():
            _check_same(traces, names, f"evoked.{key}")
            _check_lengths(traces, len(self.times), f"evoked.{key}")

    def _check_montages(self, names: set[str]) -> None:
        before = 0
        for index, montage in enumerate(self.montages):
            where = f"montages[{index}]"
            if montage.n_sensors <= before:
                raise ValueError(f"{where}: {montage.n_sensors} sensors after {before}; montages must ascend in size.")
            before = montage.n_sensors
            unknown = [name for name in montage.sensors if name not in names]
            if unknown:
                raise ValueError(f"{where}.sensors: {unknown[0]!r} is not among the sensors.")
            for key in ("weights", "patterns"):
                _check_lengths(getattr(montage, key), len(self.times), f"{where}.{key}")
        sizes = {montage.n_sensors for montage in self.montages}
        for key in ("n_sensors", "best_n_sensors"):
            if getattr(self.recommended, key) not in sizes:
                raise ValueError(f"recommended.{key}: no montage has {getattr(self.recommended, key)} sensors.")

    @property
    def chosen(self) -> Montage:
        """The montage put forward, with the number of sensors that ``recommended`` says."""
        return next(one for one in self.montages if one.n_sensors == self.recommended.n_sensors)

    @property
    def montage(self) -> tuple[str, ...]:
        """Names of its electrodes, the most important one first."""
        return self.chosen.sensors

    def to_json(self) -> dict[str, Any]:
        """The document ``selection.json``: strings, numbers, lists, dicts and None, with the sentences added.

        Returns
        -------
        dict
            As the file holds it.
        """
        own = {one.name: to_plain(getattr(self, one.name)) for one in fields(SelectionResult)}
        own["source"] |= {
            "optimistic": sentences.optimistic(self.source.folds),
            "one_subject": sentences.one_subject(self.source.unnamed),
        }
        own["source"]["folds"] |= {"by": " and ".join(self.source.folds.kinds)}
        own["recommended"] |= {
            "reason": sentences.reason(self.recommended),
            "caution": sentences.caution(self.recommended),
            "trade": sentences.trade(self),
        }
        own["command"] = None if self.arguments is None else sentences.command(self.arguments)
        if self.stability:
            own["stability"] |= {"statement": sentences.stability(self.stability)}
        if self.window_scores:
            own["window_scores"] |= {"statement": sentences.windows(self)}
        for row, subject in zip(own["by_subject"] or (), self.by_subject or (), strict=True):
            row |= {"caution": subject.few_trials and sentences.few_trials(subject.few_trials)}
        return {"format": FORMAT, "version": VERSION, **own}


def _check_same(found: Mapping[str, Any], names: Iterable[str], where: str) -> None:
    """Raise ValueError unless the keys are these names."""
    names = set(names)
    for name in sorted(names - set(found)):
        raise ValueError(f"{where}: {name!r} is missing.")
    for name in sorted(set(found) - names):
        raise ValueError(f"{where}: {name!r} is unknown.")


def _check_lengths(traces: Mapping[str, Trace], n_times: int, where: str) -> None:
    for name, trace in traces.items():
        if len(trace) != n_times:
            raise ValueError(f"{where}.{name}: {len(trace)} values for {n_times} times.")
