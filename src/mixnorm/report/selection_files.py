"""What `mixnorm select` leaves in a folder: the selection, the montage, the page, the figures."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from mixnorm.core.files import write_text
from mixnorm.eeg import Selection
from mixnorm.eeg.readers.guard import require
from mixnorm.estimators.persistence import save
from mixnorm.report.figures import save_figure
from mixnorm.report.heads import draw_montage, unknown_below
from mixnorm.report.page import PAGE_NAME, SELECTION_NAME, headline, standing, write_page

# Okabe and Ito's colours, told apart by people who see colours differently
_COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#000000")
_MARKERS = "os^Dv"


def write_selection(selection: Mapping[str, Any], folder: str | Path, figures: bool = True) -> list[Path]:
    """Write a selection (as its ``to_json`` gives it) and all that shows it; each file appears whole or not at all.

    Parameters
    ----------
    selection : dict
    folder : path
        Made if need be.
    figures : bool
        Whether to draw; needs matplotlib (the extra ``report``).

    Returns
    -------
    list of Path
        selection.json, montage.json, montage.tsv, index.html, and figures as PNG and SVG.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = [
        write_text(folder / SELECTION_NAME, _json(selection) + "\n"),
        write_text(folder / "montage.json", _json(montage(selection)) + "\n"),
        write_text(folder / "montage.tsv", _tsv(selection) + "\n"),
    ]
    files.append(write_page(dict(selection), folder / PAGE_NAME))
    if not figures:  # those of an earlier selection would show another montage
        for name in ("montage", "auc-sensors"):
            for suffix in (".png", ".svg"):
                (folder / name).with_suffix(suffix).unlink(missing_ok=True)
        return files
    files += save_figure(draw_recommended(selection), folder / "montage")
    files += save_figure(draw_curves(selection), folder / "auc-sensors")
    return files


def write_decoders(selection: Selection, folder: str | Path) -> list[Path]:
    """Write the decoder of the recommended montage (montage.mixnorm), of several subjects also each one's own."""
    folder = Path(folder)
    names = _file_names(selection.decoders)
    files = {folder / "montage.mixnorm": selection.decoder}
    files |= {folder / name: decoder for name, decoder in zip(names, selection.decoders.values(), strict=True)}
    for path, decoder in files.items():
        save(decoder, path)
    return list(files)


def _file_names(subjects: Iterable[str]) -> list[str]:
    """Names that every file system takes, one for each subject, no two alike where capitals do not count."""
    names: list[str] = []
    for subject in subjects:
        plain = re.sub(r"[^\w-]+", "_", subject)[:80]
        others = {name.lower() for name in names}
        ends = ("" if number == 1 else f"-{number}" for number in count(1))
        names.append(next(f"{plain}{end}" for end in ends if f"{plain}{end}".lower() not in others))
    return [f"montage-{name}.mixnorm" for name in names]


def recommended(selection: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of the recommended montage."""
    return next(m for m in selection["montages"] if m["n_sensors"] == selection["recommended"]["n_sensors"])


def montage(selection: Mapping[str, Any]) -> dict[str, Any]:
    """The recommended montage alone."""
    chosen = recommended(selection)
    return {
        "format": "mixnorm-montage",
        "version": 1,
        "sensors": chosen["sensors"],
        **{name: chosen[name] for name in ("auc", "low", "high", "cost")},
        **{name: selection["recommended"][name] for name in ("reason", "caution")},
    }


def draw_recommended(selection: Mapping[str, Any]) -> Any:
    """The recommended montage on a head: its sensors filled, as large as their weights, all others hollow."""
    chosen = recommended(selection)
    weights = {name: float(np.linalg.norm(chosen["weights"][name])) for name in chosen["sensors"]}
    spots = unknown_below([None if s["x"] is None else (s["x"], s["y"]) for s in selection["sensors"]])
    figure = require("matplotlib.figure", "report").Figure(figsize=(5.0, 5.2), layout="constrained")
    axes = figure.subplots()
    draw_montage(axes, [s["name"] for s in selection["sensors"]], spots, weights, 72 * 5.0 / 2.7)
    all_ = len(selection["sensors"])
    few = f"{chosen['n_sensors']} of {all_} electrode{'s' if all_ > 1 else ''}, AUC {chosen['auc']:.3f}"
    lines = [headline(selection), f"{standing(selection).capitalize()}: {few}" if headline(selection) else few]
    axes.set_title("\n".join(line for line in (*lines, _caution(selection, 62)) if line), fontsize=10)
    figure.supxlabel("Filled: chosen, as large as its weights. Hollow: not chosen.", fontsize=8)
    return figure


def draw_curves(selection: Mapping[str, Any]) -> Any:
    """AUC against the number of sensors: ours with its interval, the compared orders, the recommended montage."""
    figure = require("matplotlib.figure", "report").Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for place, curve in reversed(list(enumerate(selection["curves"]))):
        style = {"color": _COLOURS[place % len(_COLOURS)], "marker": _MARKERS[place % len(_MARKERS)]}
        axes.plot(
            curve["n_sensors"], _floats(curve["auc"]), markersize=3, linewidth=1.2, label=curve["method"], **style
        )
        if place == 0 and curve["low"] and curve["high"]:
            band = (_floats(curve["low"]), _floats(curve["high"]))
            axes.fill_between(curve["n_sensors"], *band, color=style["color"], alpha=0.15, linewidth=0)
    chosen = recommended(selection)
    mark = {"marker": "o", "markersize": 11, "markerfacecolor": "none", "color": _COLOURS[0], "linestyle": ""}
    axes.plot([chosen["n_sensors"]], [chosen["auc"]], label=standing(selection), **mark)
    axes.set_xlabel("Electrodes")
    axes.set_ylabel("AUC on test trials (band: 95 % interval)")
    axes.grid(color="#e5e5e5", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    title = [line for line in (headline(selection), _caution(selection, 80)) if line]
    axes.set_title("\n".join(title), fontsize=10)
    _draw_chance(axes)
    axes.legend(frameon=False, fontsize=8)
    return figure


def _caution(selection: Mapping[str, Any], width: int) -> str:
    """What must be known before the montage is trusted, in lines of so many letters."""
    return textwrap.fill(selection["recommended"]["caution"] or "", width)


def _draw_chance(axes: Any) -> None:
    """A line at 0.5 where the axis of AUCs, kept within 0 and 1, has it."""
    low, high = axes.get_ylim()
    low, high = max(low, 0.0), min(high, 1.0)
    axes.set_ylim(low, high)
    if low <= 0.5 <= high:
        axes.axhline(0.5, color="#777777", linewidth=0.8, zorder=1)
        place = {"xycoords": ("axes fraction", "data"), "xytext": (0, 2), "textcoords": "offset points"}
        axes.annotate("chance", (1, 0.5), **place, ha="right", va="bottom", fontsize=8, color="#555555")


def _floats(values: list[float | None]) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in values])


def _tsv(selection: Mapping[str, Any]) -> str:
    """Names in order of importance, with place on the head, cost and stability; n/a for what is not known."""
    about = {sensor["name"]: sensor for sensor in selection["sensors"]}
    columns = ("name", "x", "y", "cost", "stability")
    rows = [[about[name][column] for column in columns] for name in recommended(selection)["sensors"]]
    lines = ["\t".join("n/a" if value is None else str(value) for value in row) for row in rows]
    return "\n".join(["\t".join(columns), *lines])


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, allow_nan=False, ensure_ascii=False, indent=1)
