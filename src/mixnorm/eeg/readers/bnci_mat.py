"""The ERP data sets of BNCI Horizon 2020 as MATLAB files, in the four layouts that MOABB reads.

- 008-2014 and 009-2014: a structure `data`, or a cell array of three sessions, with `X` (samples, channels), for each
  sample `y` (2 target, 1 non-target, 0 no flash) and `y_stim`, `trial` (first samples of the characters), `channels`;
- 007-2015 to 012-2015: a cell array `data` of runs with `X`, `fs`, `channels`, `classes`, and for each event `trial`
  (its sample), `y` (number of its class) and `y_stim`;
- 003-2015: a structure `s1` (or another number) with `train` and `test`, both (11, samples): time, eight channels,
  code, target;
- 013-2015: an array `run` of structures with `eeg` and `header`; errors are the targets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.events import Events
from mixnorm.eeg.readers.guard import numeric, whole_numbers
from mixnorm.eeg.readers.matlab import channels_first, struct, structs, texts
from mixnorm.eeg.readers.options import (
    ReadOptions,
    characters_from_pauses,
    labels_of,
    who_from_path,
)
from mixnorm.eeg.readers.triggers import rises, trigger_labels
from mixnorm.eeg.recording import Recording, RecordingError, positions_or_ideal

# that of the data sets whose files do not have it
SFREQ = 256.0
CH_NAMES_2015_003 = ("Fz", "Cz", "P3", "Pz", "P4", "PO7", "Oz", "PO8")
#: Codes of 013-2015.
_ERROR, _CORRECT = (6, 9), (5, 10)


def is_bnci(variables: dict[str, Any]) -> bool:
    """Whether the variables have one of the four layouts."""
    return bool(
        any({"X", "y"} <= set(run) for run in structs(variables.get("data")))
        or _numbered(variables)
        or any({"eeg", "header"} <= set(run) for run in structs(variables.get("run")))
    )


def read_bnci(path: Path, variables: dict[str, Any], options: ReadOptions) -> list[Recording]:
    """The runs of a file, in order."""
    if _numbered(variables):
        runs = [_train_or_test(path, name, part, options) for name, part in _numbered(variables).items()]
    elif "run" in variables:
        runs = [_errors(path, run, options) for run in structs(variables["run"])]
    else:
        found = [run for run in structs(variables["data"]) if {"X", "y"} <= set(run)]
        runs = [_flashes(path, run, options, len(found)) for run in found]
    return [_recording(path, run, options, place if len(runs) > 1 else None) for place, run in enumerate(runs)]


@dataclass(frozen=True)
class _Run:
    """One run in the unit and order that `Recording` has."""

    signal: NDArray[np.float64]
    ch_names: tuple[str, ...]
    sfreq: float
    events: Events
    notes: tuple[str, ...]
    name: str | None = None


def _flashes(path: Path, run: dict[str, Any], options: ReadOptions, n_runs: int) -> _Run:
    """A run whose labels are given for each sample (2014) or for each event (2015)."""
    signal = channels_first(path, numeric(run, "X", path))
    label = whole_numbers(numeric(run, "y", path), "y", path).ravel()
    code = whole_numbers(numeric(run, "y_stim", path), "y_stim", path).ravel() if "y_stim" in run else None
    trial = whole_numbers(numeric(run, "trial", path), "trial", path).ravel() - 1 if "trial" in run else None
    if code is not None and len(code) != len(label):
        raise RecordingError(path, f"y_stim has {len(code)} values, y {len(label)}", "export again")
    ch_names, named = _names(path, run, len(signal), options)
    sfreq, rated = _rate(path, run, options)
    # The layouts of 2014 and 2015 have the same names; only the lengths tell them apart.
    if len(label) == signal.shape[1]:
        events, told = _sampled(path, label, code, trial, options)
        if n_runs > 1 and len(signal) == 16:
            signal /= 10
            told = (*told, "amplitudes divided by 10, as MOABB does for 009-2014")
    elif trial is not None and len(trial) == len(label):
        events, told = _listed(path, trial, (label, code), texts(run.get("classes")), options)
    else:
        raise RecordingError(path, f"y has {len(label)} values for {signal.shape[1]} samples", "export again")
    return _Run(signal, ch_names, sfreq, events, ("the file has no unit: µV assumed", *named, *rated, *told))


def _sampled(
    path: Path, label: NDArray, code: NDArray | None, trial: NDArray | None, options: ReadOptions
) -> tuple[Events, tuple[str, ...]]:
    onset = rises(label)
    character, told = characters_from_pauses(onset)
    if trial is not None:
        character, told = np.searchsorted(trial, onset, side="right") - 1, ()
    # 1 and 2 become 0 and 1, unless the user names them
    known = trigger_labels(label[onset] - (0 if options.target else 1), "y", options, path)
    keep = known.chosen
    codes = None if code is None else code[onset][keep]
    return Events.of(onset[keep], known.target, codes, character[keep]), told


def _listed(
    path: Path, onset: NDArray, at: tuple[NDArray, NDArray | None], classes: list[str], options: ReadOptions
) -> tuple[Events, tuple[str, ...]]:
    label, code = at
    names = [classes[value - 1] if 0 < value <= len(classes) else str(value) for value in label]
    known = labels_of(names, options, str(path))
    keep = known.chosen
    order = np.argsort(onset[keep], kind="stable")
    character, told = characters_from_pauses(onset[keep][order])
    codes = None if code is None else code[keep][order]
    return Events.of(onset[keep][order], known.target[order], codes, character), (known.note, *told)


def _train_or_test(path: Path, name: str, part: Any, options: ReadOptions) -> _Run:
    rows = numeric({name: part}, name, path)
    if rows.ndim != 2 or len(rows) != 11:
        raise RecordingError(path, f"{name} has shape {rows.shape}, not (11, samples)", "check the layout")
    code = whole_numbers(rows[9], f"{name}, row 10", path)
    onset = rises(code)
    known = trigger_labels(whole_numbers(rows[10], f"{name}, row 11", path)[onset], f"{name}, row 11", options, path)
    character, told = characters_from_pauses(onset)
    keep = known.chosen
    notes = ("channel names, rate and unit from the description of BNCI Horizon 003-2015", *told)
    events = Events.of(onset[keep], known.target, code[onset][keep], character[keep])
    return _Run(rows[1:9].astype(np.float64), CH_NAMES_2015_003, SFREQ, events, notes, name)


def _errors(path: Path, run: dict[str, Any], options: ReadOptions) -> _Run:
    header = struct(run, "header")
    event = struct(header, "EVENT")
    signal = channels_first(path, numeric(run, "eeg", path))
    kind = whole_numbers(numeric(event, "TYP", path), "TYP", path).ravel()
    # MATLAB counts from 1.
    onset = whole_numbers(numeric(event, "POS", path), "POS", path).ravel() - 1
    if len(kind) != len(onset):
        raise RecordingError(path, f"{len(kind)} types for {len(onset)} positions of events", "export again")
    keep = np.isin(kind, (*_ERROR, *_CORRECT))
    names = tuple(texts(header.get("Label")))[: len(signal)]
    if len(names) != len(signal):
        names, _ = options.names_for(len(signal), str(path))
    # the sum of no values is 0, which the checks of a recording refuse with the path
    rate = float(numeric(header, "SampleRate", path).ravel()[:1].sum())
    events = Events.of(onset[keep], np.isin(kind[keep], _ERROR))
    return _Run(signal, names, rate, events, ("errors are the targets", "the file has no unit: µV assumed"))


def _numbered(variables: dict[str, Any]) -> dict[str, Any]:
    """`train` and `test` of 003-2015, whose variable is called s1, s2, …"""
    for name in variables:
        fields = struct(variables, name) if re.fullmatch(r"s\d+", name) else {}
        if {"train", "test"} <= set(fields):
            return {part: fields[part] for part in ("train", "test")}
    return {}


def _names(path: Path, run: dict[str, Any], n_channels: int, options: ReadOptions) -> tuple[tuple[str, ...], tuple]:
    found = tuple(texts(run.get("channels")))
    return (found, ()) if len(found) == n_channels else options.names_for(n_channels, str(path))


def _rate(path: Path, run: dict[str, Any], options: ReadOptions) -> tuple[float, tuple[str, ...]]:
    if "fs" in run and numeric(run, "fs", path).size == 1:
        return float(numeric(run, "fs", path).ravel()[0]), ()
    if options.sfreq is not None:
        return options.sfreq, ()
    if "classes_stim" in run:
        return SFREQ, ("the file has no sampling rate: 256 Hz, as in BNCI Horizon 008-2014 and 009-2014",)
    raise RecordingError(path, "the file has no sampling rate", "give it with sfreq=… (Hz)")


def _recording(path: Path, run: _Run, options: ReadOptions, place: int | None) -> Recording:
    subject, session, told = who_from_path(path, options)
    # Runs of one file need names of their own, for messages and so that runs are told apart.
    source = str(path) if place is None else f"{path}/{run.name or place + 1}"
    if place is not None and run.name is None:
        session = f"{session}/{place + 1}"
    return Recording(
        signal=run.signal,
        ch_names=run.ch_names,
        sfreq=run.sfreq,
        events=run.events,
        subject=subject,
        session=session,
        source=source,
        positions=positions_or_ideal(run.ch_names),
        notes=(*run.notes, *told),
    )
