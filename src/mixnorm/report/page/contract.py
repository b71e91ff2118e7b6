"""What a selection must hold before a page can show it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mixnorm.montage.caution import NOT_SURE

FORMAT, VERSION = "mixnorm-selection", 1
SELECTION_NAME = "selection.json"
"""What a selection is called in a folder of results."""

_TOP = (
    *("source", "sensors", "montages", "recommended", "curves"),
    *("stability", "path", "times", "evoked", "by_subject"),
)
_SOURCE = ("recordings", "subjects", "n_trials", "n_targets", "classes", "preparation", "unit", "folds", "optimistic")
_SENSOR = ("name", "x", "y", "keep", "forbid", "cost", "stability")
_MONTAGE = ("n_sensors", "sensors", "auc", "low", "high", "cost", "drop", "weights", "patterns")
_CURVE = ("method", "n_sensors", "auc", "low", "high")
_STABILITY = ("n_resamplings", "threshold", "error_bound", "selected", "statement")
_SUBJECT = ("subject", "n_sensors", "sensors", "auc", "common_auc", "newcomer_auc", "caution")


def read_selection(path: str | Path) -> dict[str, Any]:
    """The selection in a file; ValueError, naming the file and the key, where it is none."""
    try:
        selection = json.loads(Path(path).read_text(encoding="utf-8"))
        check_selection(selection)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return selection


def check_selection(selection: dict[str, Any]) -> None:
    """Raise ValueError, naming the key, where a selection lacks something or contradicts itself.

    Keys that are not known here are let through, so that a selection may carry more than the page shows.
    """
    if not isinstance(selection, dict) or selection.get("format") != FORMAT:
        raise ValueError(f'selection: not a selection, which says "format": "{FORMAT}".')
    if selection.get("version") != VERSION:
        raise ValueError(f"selection: version {selection.get('version')!r}; this mixnorm shows version {VERSION}.")
    _need(selection, _TOP, "selection")
    _need(selection["source"], _SOURCE, "source")
    _need(selection["source"]["folds"], ("by", "count"), "source.folds")
    names = _check_sensors(selection["sensors"])
    _check_montages(selection["montages"], names, len(selection["times"]))
    _check_recommended(selection["recommended"], selection["montages"])
    _check_curves(selection["curves"])
    _check_rest(selection, names)
    _check_values(selection, "selection")


def headline(selection: dict[str, Any]) -> str:
    """What is said before all else where nothing can be recommended with confidence; else nothing."""
    return NOT_SURE if selection["recommended"]["reason"].startswith(NOT_SURE) else ""


def standing(selection: dict[str, Any]) -> str:
    """What the montage put forward is: the recommended one only where that can be said with confidence."""
    if not headline(selection):
        return "recommended"
    return "asked for" if "asked for" in selection["recommended"]["reason"] else "smallest near the best"


def _check_sensors(sensors: Sequence[dict[str, Any]]) -> set[str]:
    for index, sensor in enumerate(sensors):
        _need(sensor, _SENSOR, f"sensors[{index}]")
    names = [sensor["name"] for sensor in sensors]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not names:
        raise ValueError(f"sensors: {', '.join(twice)} named twice." if twice else "sensors: there are none.")
    return set(names)


def _check_montages(montages: Sequence[dict[str, Any]], names: set[str], n_times: int) -> None:
    if not montages:
        raise ValueError("montages: there are none.")
    before = 0
    for index, montage in enumerate(montages):
        where = f"montages[{index}]"
        _need(montage, _MONTAGE, where)
        _check_names(montage["sensors"], names, f"{where}.sensors")
        if len(montage["sensors"]) != montage["n_sensors"] or montage["n_sensors"] <= before:
            raise ValueError(
                f"{where}: n_sensors is {montage['n_sensors']} with {len(montage['sensors'])} names, after {before}; "
                "montages ascend, and each names as many sensors as it has."
            )
        before = montage["n_sensors"]
        if montage["drop"] is not None:
            _need(montage["drop"], ("sensor", "auc_change"), f"{where}.drop")
        for key in ("weights", "patterns"):
            _need(montage[key], montage["sensors"], f"{where}.{key}")
            _check_traces(montage[key], n_times, f"{where}.{key}")


def _check_recommended(recommended: dict[str, Any], montages: Sequence[dict[str, Any]]) -> None:
    _need(recommended, ("n_sensors", "reason", "caution"), "recommended")
    if recommended["n_sensors"] not in {montage["n_sensors"] for montage in montages}:
        raise ValueError(f"recommended.n_sensors: no montage has {recommended['n_sensors']} sensors.")


def _check_curves(curves: Sequence[dict[str, Any]]) -> None:
    for index, curve in enumerate(curves):
        _need(curve, _CURVE, f"curves[{index}]")
        for key in ("auc", "low", "high"):
            if (curve[key] is not None or key == "auc") and len(curve[key] or ()) != len(curve["n_sensors"]):
                raise ValueError(f"curves[{index}].{key} ({curve['method']}): not as long as its n_sensors.")


def _check_rest(selection: dict[str, Any], names: set[str]) -> None:
    if selection["stability"] is not None:
        _need(selection["stability"], _STABILITY, "stability")
    if selection["path"] is not None:
        _need(selection["path"], ("alphas", "n_selected", "auc"), "path")
    if selection["evoked"] is not None:
        _need(selection["evoked"], selection["source"]["classes"], "evoked")
        for label, traces in selection["evoked"].items():
            _need(traces, sorted(names), f"evoked.{label}")
            _check_traces(traces, len(selection["times"]), f"evoked.{label}")
    for index, row in enumerate(selection["by_subject"] or ()):
        _need(row, _SUBJECT, f"by_subject[{index}]")


def _need(found: Any, keys: Iterable[str], where: str) -> None:
    if not isinstance(found, dict):
        raise ValueError(f"{where}: should be an object, is {found!r:.40}.")
    for key in keys:
        if key not in found:
            raise ValueError(f"{where}: {key!r} is missing.")


def _check_names(found: Iterable[str], names: set[str], where: str) -> None:
    unknown = [name for name in found if name not in names]
    if unknown:
        raise ValueError(f"{where}: {unknown[0]!r} is not among the sensors.")


def _check_traces(traces: dict[str, Sequence[float]], n_times: int, where: str) -> None:
    for name, trace in traces.items():
        if len(trace) != n_times:
            raise ValueError(f"{where}.{name}: {len(trace)} values for {n_times} times.")


def _check_values(value: Any, where: str) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _check_values(inner, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            _check_values(inner, f"{where}[{index}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where}: {value}; what does not exist is null.")
    elif not isinstance(value, str | int | float | None):
        raise ValueError(f"{where}: {value!r:.40} is a {type(value).__name__}, which JSON does not know.")
