"""Reading a selection from its JSON document, also from documents of version 1."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mixnorm.montage.caution import FEWEST_FOLDS, FEWEST_TRIALS
from mixnorm.montage.plain import from_plain, to_plain
from mixnorm.montage.result import FORMAT, VERSION, Montage, SelectionResult
from mixnorm.montage.verdict_records import ChanceLevel, FewFolds, FewTrials, Recommendation, verdict_of

SELECTION_NAME = "selection.json"
"""File name of a selection in a folder of results."""


def read_selection(path: str | Path) -> SelectionResult:
    """Read ``selection.json``; ValueError, naming the file and the key, where it is not a selection."""
    try:
        return selection_from_json(json.loads(Path(path).read_text(encoding="utf-8")))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def selection_from_json(document: Any) -> SelectionResult:
    """Build the typed result from a document, as `SelectionResult.to_json` gives it.

    Keys that are not known here, and sentences, are ignored: sentences are made from the fields.
    """
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f'selection: not a selection of electrodes, which has "format": "{FORMAT}".')
    version = document.get("version")
    if version not in (1, VERSION):
        raise ValueError(f"selection: version {version!r} is unknown; this mixnorm reads versions 1 and {VERSION}.")
    return from_plain(SelectionResult, _upgraded(document) if version == 1 else document)


# Version 1 had sentences where version 2 has fields. They are parsed here and nowhere else.

_UNSURE = "No montage can be recommended with confidence"
_ASKED = re.compile(r"(?:^|\. )(?:One sensor was|\d+ sensors were) asked for")
_COUNTS = re.compile(r"(\d+) (targets|nontargets)")
_CONCERNED = re.compile(r"Only (?:one|two) sessions? of (.*?)(?::|, and their runs)")


def _upgraded(old: dict[str, Any]) -> dict[str, Any]:
    """The fields of version 2 from a document of version 1."""
    _need(old, ("source", "montages", "recommended"), "selection")
    _need(old["source"], ("subjects", "n_trials", "n_targets", "folds", "optimistic"), "source")
    _need(old["source"]["folds"], ("by", "count"), "source.folds")
    _need(old["recommended"], ("n_sensors", "reason"), "recommended")
    new = dict(old)
    # keys that both versions have are checked with the others of version 2, by `from_plain`
    new["source"] = {**old["source"], "folds": _folds(old["source"])}
    new["recommended"] = to_plain(_recommendation(old))
    if isinstance(old.get("stability"), dict):
        new["stability"] = {"n_first": None, **old["stability"]}
    if old.get("by_subject"):
        new["by_subject"] = [_subject(row) for row in old["by_subject"]]
    return new


def _folds(source: dict[str, Any]) -> dict[str, Any]:
    """What the folds of each subject are made of: where kinds are mixed, the sentence named those without sessions."""
    kinds = source["folds"]["by"].split(" and ")
    named = _CONCERNED.search(source["optimistic"] or "")
    concerned = set(named[1].split(", ") if named else source["subjects"])
    other = next((kind for kind in kinds if kind != "session"), "session")
    by_subject = {name: other if name in concerned else "session" for name in source["subjects"]}
    return {"count": source["folds"]["count"], "by_subject": by_subject}


def _recommendation(old: dict[str, Any]) -> Recommendation:
    """Facts that version 1 only had in its sentences, from these and from the montages."""
    montages = from_plain(tuple[Montage, ...], old["montages"], "montages")
    if not montages:
        raise ValueError("montages: empty.")
    n_sensors, reason = old["recommended"]["n_sensors"], old["recommended"]["reason"]
    # version 1 did not say which one was best
    best = max(montages, key=lambda one: -1.0 if one.auc is None else one.auc)
    chosen = next((one for one in montages if one.n_sensors == n_sensors), best)
    n_asked = n_sensors if _ASKED.search(reason) else None
    few, chance = _doubts(old["source"], best, chosen) if reason.startswith(_UNSURE) else (None, None)
    n_folds, verdict = old["source"]["folds"]["count"], verdict_of(n_asked, few, chance)
    # as `recommend` does: where nothing is recommended, the number of folds is not the point
    too_few_folds = verdict != "unsure" and n_folds < FEWEST_FOLDS
    return Recommendation(
        n_sensors=n_sensors,
        verdict=verdict,
        n_asked=n_asked,
        best_n_sensors=best.n_sensors,
        best_auc=best.auc,
        below_best=None if best.auc is None or chosen.auc is None else best.auc - chosen.auc,
        standard_error=None,
        few_trials=few,
        chance_level=chance,
        few_folds=FewFolds(n_folds, best.low, best.high) if too_few_folds else None,
    )


def _doubts(source: dict[str, Any], best: Montage, chosen: Montage) -> tuple[FewTrials | None, ChanceLevel | None]:
    """Why a selection of version 1 was unsure; its interval over trials, used with few folds, was not stored."""
    counts = (source["n_targets"], source["n_trials"] - source["n_targets"])
    small = [count if count < FEWEST_TRIALS else None for count in counts]
    few = None if small == [None, None] else FewTrials(*small)
    over_folds = source["folds"]["count"] >= FEWEST_FOLDS
    for name, montage in (("best", best), ("chosen", chosen)):
        if over_folds and montage.low is not None and montage.low <= 0.5:
            return few, ChanceLevel(name, montage.low, montage.high)
    return few, None if few else ChanceLevel("best", None, None)


def _subject(row: dict[str, Any]) -> dict[str, Any]:
    found = {name: int(number) for number, name in _COUNTS.findall(row.get("caution") or "")}
    few = {"n_targets": found.get("targets"), "n_nontargets": found.get("nontargets")}
    return {**row, "new_subject_auc": row.get("newcomer_auc"), "few_trials": few if found else None}


def _need(found: Any, keys: tuple[str, ...], where: str) -> None:
    if not isinstance(found, dict):
        raise ValueError(f"{where}: expected an object, but got {found!r:.60}.")
    for key in keys:
        if key not in found:
            raise ValueError(f"{where}: {key!r} is missing.")
