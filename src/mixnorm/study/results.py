"""Results of a study: one record per subject and split, and the rows of the tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mixnorm.eeg.readers.guard import require
from mixnorm.study.plan import Plan
from mixnorm.study.statistics import standard_error, wilcoxon_exact
from mixnorm.study.store import Store, StoreError

#: The method that all others are tested against.
BASELINE = "svm"
#: The relative duality gap that every fit must reach: the default `tol` of the estimators.
TOLERANCE = 1e-6
#: Columns of `load_results`.
COLUMNS = (
    *("dataset", "method", "subject", "split", "n_train", "n_test", "auc", "sel", "f_measure"),
    *("n_channels", "selected", "alpha", "q", "similarity", "dual_gap", "window_share", "windows_kept"),
)


@dataclass(frozen=True)
class Row:
    """A row of the paper's tables: means over splits, then over subjects.

    Attributes
    ----------
    dataset, method : str
        Names of the data set and of the method.
    n_train : int or None
        Training trials per subject; None where subjects differ.
    auc : float or None
        Area under the ROC curve, in percent.
    sel : float or None
        Share of the sensors that are selected, in percent.
    f_measure : float or None
        F-measure of the selected sensors, in percent, where the informative ones are known.
    p_value : float or None
        That of the exact Wilcoxon test of the AUC against `svm`; None: there is none.
    n_subjects, n_splits : int
        How many subjects and splits the means are over.
    auc_se, sel_se, f_measure_se : float or None
        Standard errors of `auc`, `sel` and `f_measure` over subjects, in percentage points; over splits where each
        draws new data. None: there is only one.
    windows_kept : float or None
        Share of the windows of time that are kept, in percent, where the method chooses them.

    See Also
    --------
    Results.rows : Computes them.
    wilcoxon_exact : The test.

    Examples
    --------
    >>> from mixnorm.study import Row
    >>> Row("epfl", "gsvm-2", 1000, 80.53, 78.24, None, 0.5, n_subjects=8, n_splits=10).auc
    80.53
    """

    dataset: str
    method: str
    n_train: int | None
    auc: float | None
    sel: float | None
    f_measure: float | None
    p_value: float | None
    n_subjects: int
    n_splits: int
    auc_se: float | None = None
    sel_se: float | None = None
    f_measure_se: float | None = None
    windows_kept: float | None = None


@dataclass(frozen=True)
class Results:
    """All results of a folder.

    Attributes
    ----------
    plan : Plan
        What was computed.
    datasets : dict
        Subjects, channels and positions of every data set.
    records : list of dict
        One per data set, method, subject, split and number of training trials.
    failed : list of (str, str)
        Units that failed, and why.
    missing : list of str
        Units that have not been computed yet.
    n_units : int
        Number of units of the plan.
    above_tol : list of (str, float)
        Units whose final fit stopped at a duality gap above `TOLERANCE`, and that gap.

    See Also
    --------
    read_results : Reads them from a folder.
    mixnorm.report.write_report : Writes tables and figures.

    Examples
    --------
    >>> import tempfile
    >>> from mixnorm.study import DatasetPlan, Plan, read_results, run_study
    >>> data = DatasetPlan("toy", "simulated", options={"n_trials": 110, "n_channels": 4, "n_informative": 2})
    >>> plan = Plan("mine", (data,), methods=("svm", "gsvm-2"), splits=2, n_train=(60,), alphas=(0.01, 0.1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = run_study(plan, folder)
    ...     results = read_results(folder)
    >>> results.complete, [row.method for row in results.rows()]
    (True, ['svm', 'gsvm-2'])
    """

    plan: Plan
    datasets: dict[str, dict[str, Any]] = field(repr=False)
    records: list[dict[str, Any]] = field(repr=False)
    failed: list[tuple[str, str]]
    missing: list[str]
    n_units: int
    above_tol: list[tuple[str, float]] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether every unit has a result."""
        return not self.missing and not self.failed

    def rows(self) -> list[Row]:
        """The rows of the table, data sets and methods in the order of the plan.

        Returns
        -------
        list of Row
            One for each data set, number of training trials and method.
        """
        drawn = {dataset.name: dataset.drawn for dataset in self.plan.datasets}
        places = [
            (dataset.name, method, n_train)
            for dataset in self.plan.datasets
            for n_train in self.plan.n_train or (None,)
            for method in self.plan.methods
        ]
        return [self._row(place, drawn[place[0]]) for place in places]

    def of(self, dataset: str, method: str, n_train: int | None) -> list[dict[str, Any]]:
        """The records of a row.

        Parameters
        ----------
        dataset : str
            Name of the data set.
        method : str
            Name of the method.
        n_train : int or None
            Number of training trials as the plan has it; None for its default.

        Returns
        -------
        list of dict
            One for each subject and split.
        """
        place = (dataset, method, n_train)
        return [r for r in self.records if (r["dataset"], r["method"], r["n_train_asked"]) == place]

    def to_json(self) -> dict[str, Any]:
        """What ``mixnorm study --json`` prints.

        Returns
        -------
        dict
            Strings, numbers, lists, dicts and None.
        """
        return {
            "plan": self.plan.name,
            "complete": self.complete,
            "units_done": self.n_units - len(self.missing),
            "units_total": self.n_units,
            "failed": [{"unit": unit, "reason": reason} for unit, reason in self.failed],
            "above_tol": [{"unit": unit, "dual_gap": gap} for unit, gap in self.above_tol],
            "rows": [asdict(row) for row in self.rows()],
        }

    def _row(self, place: tuple[str, str, int | None], drawn: bool) -> Row:
        mine = self.of(*place)
        # the baseline has no p-value against itself
        base = self.of(place[0], BASELINE, place[2]) if place[1] != BASELINE else []
        trials = {record["n_train"] for record in mine}
        # Simulated splits are independent draws. Splits of a recording share trials, so that only subjects are
        # independent.
        over = "split" if drawn else "subject"
        return Row(
            dataset=place[0],
            method=place[1],
            n_train=place[2] if place[2] is not None else (trials.pop() if len(trials) == 1 else None),
            auc=mean_over_subjects(mine, "auc"),
            sel=mean_over_subjects(mine, "sel"),
            f_measure=mean_over_subjects(mine, "f_measure"),
            p_value=paired_p_value(mine, base, over),
            n_subjects=len({record["subject"] for record in mine}),
            n_splits=len({record["split"] for record in mine}),
            auc_se=error_of_mean(mine, "auc", over),
            sel_se=error_of_mean(mine, "sel", over),
            f_measure_se=error_of_mean(mine, "f_measure", over),
            windows_kept=mean_over_subjects(mine, "windows_kept"),
        )


def read_results(folder: str | Path, partial: bool = False) -> Results:
    """Read all results of a folder.

    Parameters
    ----------
    folder : path
        What `run_study` wrote.
    partial : bool
        Whether to accept an incomplete study, which is otherwise refused.

    Returns
    -------
    Results
        Also of units that failed.

    See Also
    --------
    load_results : The same as a DataFrame.
    run_study : Writes the folder.

    Examples
    --------
    >>> import tempfile
    >>> from mixnorm.study import DatasetPlan, Plan, read_results, run_study
    >>> data = DatasetPlan("toy", "simulated", options={"n_trials": 110, "n_channels": 4, "n_informative": 2})
    >>> plan = Plan("mine", (data,), methods=("svm", "gsvm-2"), splits=2, n_train=(60,), alphas=(0.01, 0.1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = run_study(plan, folder)
    ...     read_results(folder).n_units
    4
    """
    store = Store(folder)
    study = store.study()
    records, failed, missing, above_tol = [], [], [], []
    for unit in study["units"]:
        result = store.read(unit["key"])
        if result is None:
            missing.append(_describe(unit))
        elif result["failed"] is not None:
            failed.append((_describe(unit), result["failed"]))
        else:
            found = [_record(unit, record) for record in result["records"]]
            # the subjects of a unit share one fit
            gap = max((record["dual_gap"] or 0.0 for record in found), default=0.0)
            above_tol += [(_describe(unit), gap)] if gap > TOLERANCE else []
            records += found
    if missing and not partial:
        raise StoreError(
            f"{store.folder}: the study is not complete, {len(missing)} of {len(study['units'])} units are missing "
            f"(the first: {missing[0]}). Run the study again to continue, or report what there is with --partial."
        )
    plan = Plan.from_dict(study["plan"])
    return Results(plan, study["datasets"], records, failed, missing, len(study["units"]), above_tol)


def load_results(folder: str | Path, partial: bool = False) -> Any:
    """Read subject-wise results as a DataFrame: one row per data set, method, subject, split and training size.

    Parameters
    ----------
    folder : path
        What ``mixnorm study`` wrote.
    partial : bool
        Whether to accept an incomplete study.

    Returns
    -------
    pandas.DataFrame
        Columns ``dataset, method, subject, split, n_train, n_test, auc, sel, f_measure`` (percent), ``n_channels,
        selected`` (names), ``alpha, q, similarity, dual_gap, window_share, windows_kept`` (percent).

    See Also
    --------
    read_results : The same without pandas.
    run_study : Writes the folder.

    Examples
    --------
    >>> import tempfile
    >>> from mixnorm.study import DatasetPlan, Plan, load_results, run_study
    >>> data = DatasetPlan("toy", "simulated", options={"n_trials": 110, "n_channels": 4, "n_informative": 2})
    >>> plan = Plan("mine", (data,), methods=("svm", "gsvm-2"), splits=2, n_train=(60,), alphas=(0.01, 0.1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = run_study(plan, folder)
    ...     table = load_results(folder)
    >>> table.groupby("method")["auc"].count().to_dict()
    {'gsvm-2': 2, 'svm': 2}
    """
    pandas = require("pandas", "report")
    return pandas.DataFrame(read_results(folder, partial).records, columns=COLUMNS)


def mean_over_subjects(records: Iterable[dict[str, Any]], name: str) -> float | None:
    """Mean over the splits of each subject, then over subjects."""
    means = means_by(records, name, "subject")
    return float(np.mean(list(means.values()))) if means else None


def error_of_mean(records: Iterable[dict[str, Any]], name: str, over: str) -> float | None:
    """Standard error of the mean over subjects, or over splits where each draws new data; None for one of them."""
    error = standard_error(list(means_by(records, name, over).values()))
    return None if error is None else float(error)


def paired_p_value(records: Sequence[dict[str, Any]], baseline: Sequence[dict[str, Any]], over: str) -> float | None:
    """Exact Wilcoxon test of the AUC, paired over subjects, or over splits where each draws new data."""
    mine, other = (means_by(part, "auc", over) for part in (records, baseline))
    # Pairs only: units of one of the methods may have failed or be missing.
    common = sorted(set(mine) & set(other), key=str)
    if not common:
        return None
    return wilcoxon_exact([mine[key] for key in common], [other[key] for key in common])


def means_by(records: Iterable[dict[str, Any]], name: str, over: str) -> dict[Any, float]:
    """Subject, or split → mean of its records; what has no value is left out."""
    values: dict[Any, list[float]] = {}
    for record in records:
        if record.get(name) is not None:
            # First the mean of each subject: subjects count alike, however many splits they have.
            values.setdefault(record[over], []).append(record[name])
    return {key: float(np.mean(found)) for key, found in values.items()}


def _record(unit: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    chosen = {
        name: record["chosen"].get(name)
        for name in ("alpha", "q", "similarity", "dual_gap", "window_share", "windows_kept")
    }
    return {
        "dataset": unit["dataset"],
        "method": unit["method"],
        "split": unit["split"],
        "n_train_asked": unit["n_train"],
        "sel": 100 * len(record["selected"]) / record["n_channels"],
        **{name: value for name, value in record.items() if name != "chosen"},
        **chosen,
    }


def _describe(unit: dict[str, Any]) -> str:
    who = "all subjects" if unit["subject"] is None else f"subject {unit['subject']}"
    trials = "" if unit["n_train"] is None else f", {unit['n_train']} training trials"
    return f"{unit['dataset']}, {who}, split {unit['split']}{trials}, {unit['method']}"
