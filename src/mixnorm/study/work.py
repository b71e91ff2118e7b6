"""Compute one unit, from trials to scores, in any process; the result is plain JSON."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from mixnorm.eeg import Design
from mixnorm.eeg.events import UNKNOWN
from mixnorm.execution.batching import together
from mixnorm.study.data import Data, Part
from mixnorm.study.methods import METHODS, Outcome, Training
from mixnorm.study.scores import auc_percent, characters_percent, f_measure_percent
from mixnorm.study.splits import Split, SplitRule, split_trials
from mixnorm.study.units import Unit


def run_unit(unit: Unit, data: Data) -> dict[str, Any]:
    """The result of a unit: one record per tested subject, or the reason why there is none."""
    with _as_studies_run():
        return _result(unit, data)


def run_together(units: Sequence[tuple[Unit, Data]]) -> list[dict[str, Any]]:
    """The results of several units, whose fits a device solves as one batch."""
    with _as_studies_run():
        return together([partial(_result, unit, data) for unit, data in units])


@contextmanager
def _as_studies_run() -> Iterator[None]:
    """Limit BLAS to one thread: the number of threads changes the last bits, and processes share the cores."""
    with threadpool_limits(1), warnings.catch_warnings():
        # A grid may include useless values, which the inner folds reject: no warnings about them.
        warnings.filterwarnings("ignore", "The first stage of the adaptive norm chose no sensor", UserWarning)
        # The table says it: no sensor selected, and an AUC of 50 %.
        warnings.filterwarnings("ignore", ".*selects no sensor", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def _result(unit: Unit, data: Data) -> dict[str, Any]:
    # An error in one unit must not end the others. A `ValueError` means that the data cannot be used; any other error
    # may be temporary (memory, a missing file), so that the next run tries the unit again.
    try:
        records, reason, retry = _records(unit, data.part(unit.split)), None, False
    except ValueError as error:
        records, reason, retry = [], str(error), False
    except Exception as error:
        records, reason, retry = [], f"{type(error).__name__}: {error}", True
    return {"unit": unit.to_dict(), "failed": reason, "retry": retry, "records": records}


def scaled(design: Design, split: Split, rule: SplitRule) -> tuple[Training, NDArray[np.float64]]:
    """Training and test trials, scaled by statistics of the training trials.

    Each subject by its own trials; where a subject is held out and has none, all subjects by those of the others.
    """
    X, accepted = np.empty_like(design.X), np.ones(len(design), dtype=bool)
    whose = np.unique(design.subject) if rule.by != "subject" else [None]
    for who in whose:
        # A new subject has no training trials to learn a scale from.
        mine = slice(None) if who is None else design.subject == who
        learn = split.train if who is None else split.train[design.subject[split.train] == who]
        scaler = design.preparation.scaler().fit(design.X[learn])
        X[mine], accepted[learn] = scaler.transform(design.X[mine]), scaler.accepted(design.X[learn], design.y[learn])
    # test trials are scored whatever their amplitude
    rows = split.train[accepted[split.train]]
    train = Training(X[rows], design.y[rows], design.subject[rows], design.trial_groups()[rows])
    return train, X[split.test]


def _records(unit: Unit, part: Part) -> list[dict[str, Any]]:
    design, rule = part.design, unit.rule()
    split = split_trials(design, rule)
    _check_classes(design, split)
    train, X = scaled(design, split, rule)
    outcome = METHODS[unit.method].fit(train, X, design.subject[split.test], unit.settings())
    whose = design.subject[split.test]
    return [_record(part, split, whose == who, str(who), outcome) for who in dict.fromkeys(whose.tolist())]


def _check_classes(design: Design, split: Split) -> None:
    for what, where in (("training", split.train), ("test", split.test)):
        for who in np.unique(design.subject[where]):
            mine = where[design.subject[where] == who]
            if len(np.unique(design.y[mine])) < 2:
                kind = "targets" if design.y[mine[0]] == 1 else "non-targets"
                raise ValueError(f"subject {who}: all {len(mine)} {what} trials are {kind}; two classes are needed")


def _record(part: Part, split: Split, mine: NDArray[np.bool_], who: str, outcome: Outcome) -> dict[str, Any]:
    """Scores of one tested subject; AUC and F-measure in percent."""
    design, test = part.design, split.test[mine]
    selected = [name for name, chosen in zip(design.ch_names, outcome.selected, strict=True) if chosen]
    y, scores = design.y[test], outcome.scores[mine]
    truth = (part.truth or {}).get(who)
    # A character can be spelled only where all its trials are held out.
    # random splits are shuffled, and repetitions count in the order of recording
    order = np.argsort(test)
    codes, numbers = design.stimulus[test][order], design.character[test][order]
    torn = np.isin(numbers[numbers != UNKNOWN], design.character[split.train]).any()
    spelled = None if torn else characters_percent(scores[order], y[order], codes, numbers)
    return {
        "subject": who,
        # of a held-out subject there are none: then the trials of all others
        "n_train": int(np.sum(design.subject[split.train] == who)) or len(split.train),
        "n_test": len(test),
        "n_channels": len(design.ch_names),
        "auc": auc_percent(y, scores[:, None])[0],
        "selected": selected,
        "f_measure": None if truth is None else f_measure_percent(selected, truth),
        "characters": spelled,
        "no_letters": None if spelled else "split" if torn else "codes",
        "chosen": dict(outcome.chosen),
        "path": _path(outcome, y, mine),
    }


def _path(outcome: Outcome, y: NDArray[np.int64], mine: NDArray[np.bool_]) -> list[dict[str, Any]] | None:
    if outcome.path_scores is None:
        return None
    aucs = auc_percent(y, outcome.path_scores[:, mine].T)
    points = zip(outcome.path_selected, aucs, strict=True)
    return [{"n_selected": int(selected.sum()), "auc": auc} for selected, auc in points]
