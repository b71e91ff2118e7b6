"""The files that `mixnorm select` writes into a folder: the selection, the montage, the page, the figures."""

from __future__ import annotations

import csv
import io
import json
import re
import textwrap
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from mixnorm.core.files import write_text
from mixnorm.eeg.decoder import Decoder
from mixnorm.eeg.readers.guard import require
from mixnorm.estimators.persistence import save
from mixnorm.montage import sentences
from mixnorm.montage.decoders import DECODERS_FOLDER, MontageDecoders
from mixnorm.montage.reading import SELECTION_NAME
from mixnorm.montage.result import SelectionResult
from mixnorm.montage.selection import Selection
from mixnorm.report.figures import save_figure
from mixnorm.report.heads import draw_montage, height_range, unknown_below
from mixnorm.report.page import PAGE_NAME, write_page
from mixnorm.report.safe_text import for_figure, for_spreadsheet

# The colours of Okabe and Ito, which people with a colour vision deficiency can tell apart
_COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#000000")
_MARKERS = "os^Dv"
#: Size of the drawn head: inches for its radius.
_INCHES_PER_UNIT = 5.0 / 2.7


def write_selection(selection: SelectionResult, folder: str | Path, figures: bool = True) -> list[Path]:
    """Write selection.json and everything that shows it; each file appears complete or not at all.

    Parameters
    ----------
    selection : SelectionResult
    folder : path
        Created if it does not exist.
    figures : bool
        Whether to draw figures; needs matplotlib (the extra ``report``).

    Returns
    -------
    list of Path
        selection.json and the files of `write_views`.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    document = write_text(folder / SELECTION_NAME, _json(selection.to_json()) + "\n")
    return [document, *write_views(selection, folder, figures)]


def write_views(selection: SelectionResult, folder: str | Path, figures: bool = True) -> list[Path]:
    """Write montage.json, montage.tsv, index.html, and the figures as PNG and SVG into a folder that exists."""
    folder = Path(folder)
    files = [
        write_text(folder / "montage.json", _json(montage_json(selection)) + "\n"),
        write_text(folder / "montage.tsv", _tsv(selection) + "\n"),
        write_page(selection, folder / PAGE_NAME),
    ]
    if not figures:  # figures of an earlier selection would show another montage
        for name in ("montage", "auc-sensors"):
            for suffix in (".png", ".svg"):
                (folder / name).with_suffix(suffix).unlink(missing_ok=True)
        return files
    files += save_figure(draw_recommended(selection), folder / "montage")
    files += save_figure(draw_curves(selection), folder / "auc-sensors")
    return files


def write_decoders(selection: Selection, folder: str | Path) -> list[Path]:
    """Write the decoder of the montage (montage.mixnorm) and, with several subjects, that of each subject.

    Where the selection has decoders of every montage, these are written into the folder ``decoders``.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    files = _decoder_files("montage", MontageDecoders(selection.decoder, selection.decoders))
    for n_sensors, decoders in selection.decoders_by_size.items():
        files |= _decoder_files(f"{DECODERS_FOLDER}/montage-{n_sensors}", decoders)
        (folder / DECODERS_FOLDER).mkdir(exist_ok=True)
    for name, decoder in files.items():
        save(decoder, folder / name)
    # those of an earlier selection would have other electrodes
    for old in set((folder / DECODERS_FOLDER).glob("montage-[0-9]*.mixnorm")) - {folder / name for name in files}:
        old.unlink()
    return [folder / name for name in files]


def _decoder_files(stem: str, decoders: MontageDecoders) -> dict[str, Decoder]:
    """The decoders of one montage by file name."""
    names = [f"{stem}-{name}.mixnorm" for name in _file_names(decoders.by_subject)]
    own = dict(zip(names, decoders.by_subject.values(), strict=True))
    return {f"{stem}.mixnorm": decoders.pooled, **own}


def _file_names(subjects: Iterable[str]) -> list[str]:
    """File names that every file system accepts, one for each subject, distinct also where case does not count."""
    names: list[str] = []
    for subject in subjects:
        plain = re.sub(r"[^\w-]+", "_", subject)[:80]
        others = {name.lower() for name in names}
        ends = ("" if number == 1 else f"-{number}" for number in count(1))
        names.append(next(f"{plain}{end}" for end in ends if f"{plain}{end}".lower() not in others))
    return names


def montage_json(selection: SelectionResult) -> dict[str, Any]:
    """The document ``montage.json``: the montage put forward, without the others."""
    chosen, recommended = selection.chosen, selection.recommended
    return {
        "format": "mixnorm-montage",
        "version": 2,
        "sensors": list(chosen.sensors),
        **{name: getattr(chosen, name) for name in ("auc", "low", "high", "cost")},
        "verdict": recommended.verdict,
        "reason": sentences.reason(recommended),
        "caution": sentences.caution(recommended),
    }


def draw_recommended(selection: SelectionResult) -> Any:
    """The montage put forward on a head: its electrodes filled, their size by weight, all others hollow."""
    chosen, recommended = selection.chosen, selection.recommended
    weights = {name: float(np.linalg.norm(_floats(chosen.weights[name]))) for name in chosen.sensors}
    spots = unknown_below([None if s.x is None or s.y is None else (s.x, s.y) for s in selection.sensors])
    auc = "unknown" if chosen.auc is None else f"{chosen.auc:.3f}"
    few = f"{sentences.few_of(recommended, len(selection.sensors))}, AUC {auc}"
    unsure = recommended.verdict == "unsure"
    title = [
        sentences.headline(recommended),
        f"{sentences.label(recommended).capitalize()}: {few}" if unsure else few,
        _caution(selection, 62),
    ]
    text = "\n".join(line for line in title if line)
    low, high = height_range(spots)
    # with room for the title, so that the head has the same size in every figure
    size = (5.0, 0.4 + 0.16 * text.count("\n") + _INCHES_PER_UNIT * (high - low))
    figure = require("matplotlib.figure", "report").Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    left_out = draw_montage(axes, [s.name for s in selection.sensors], spots, weights, 72 * _INCHES_PER_UNIT)
    axes.set_title(text, fontsize=10)
    names = f" {sentences.count(left_out, 'name')} left out for lack of room." if left_out else ""
    figure.supxlabel(f"Filled: chosen, size by weight. Hollow: not chosen.{names}", fontsize=8)
    return figure


def draw_curves(selection: SelectionResult) -> Any:
    """AUC against the number of electrodes: ours with its interval, the compared orders, the montage put forward."""
    figure = require("matplotlib.figure", "report").Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for place, curve in reversed(list(enumerate(selection.curves))):
        style = {"color": _COLOURS[place % len(_COLOURS)], "marker": _MARKERS[place % len(_MARKERS)]}
        name = for_figure(curve.method)
        axes.plot(curve.n_sensors, _floats(curve.auc), markersize=3, linewidth=1.2, label=name, **style)
        if place == 0 and curve.low and curve.high:
            band = (_floats(curve.low), _floats(curve.high))
            axes.fill_between(curve.n_sensors, *band, color=style["color"], alpha=0.15, linewidth=0)
    chosen = selection.chosen
    mark = {"marker": "o", "markersize": 11, "markerfacecolor": "none", "color": _COLOURS[0], "linestyle": ""}
    axes.plot([chosen.n_sensors], _floats([chosen.auc]), label=sentences.label(selection.recommended), **mark)
    axes.set_xlabel("Electrodes")
    axes.set_ylabel("AUC on held-out trials (band: 95 % interval)")
    axes.grid(color="#e5e5e5", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    title = [line for line in (sentences.headline(selection.recommended), _caution(selection, 80)) if line]
    axes.set_title("\n".join(title), fontsize=10)
    _draw_chance(axes)
    axes.legend(frameon=False, fontsize=8)
    return figure


def _caution(selection: SelectionResult, width: int) -> str:
    """The caution in lines of at most so many characters."""
    return textwrap.fill(sentences.caution(selection.recommended) or "", width)


def _draw_chance(axes: Any) -> None:
    """A line at chance level, if the axis of AUCs, limited to 0 … 1, contains it."""
    low, high = axes.get_ylim()
    low, high = max(low, 0.0), min(high, 1.0)
    axes.set_ylim(low, high)
    if low <= 0.5 <= high:
        axes.axhline(0.5, color="#777777", linewidth=0.8, zorder=1)
        place = {"xycoords": ("axes fraction", "data"), "xytext": (0, 2), "textcoords": "offset points"}
        axes.annotate("chance", (1, 0.5), **place, ha="right", va="bottom", fontsize=8, color="#555555")


def _floats(values: Sequence[float | None]) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in values])


def _tsv(selection: SelectionResult) -> str:
    """Names in order of importance, with position on the head, cost and stability; n/a for what is not known.

    Names that a spreadsheet would read as a formula have an apostrophe in front (`from_spreadsheet` removes it), and
    names with tabs, quotes or line breaks are quoted as in CSV.
    """
    sensors = {sensor.name: sensor for sensor in selection.sensors}
    columns = ("x", "y", "cost", "stability")
    text = io.StringIO()
    writer = csv.writer(text, delimiter="\t", lineterminator="\n")
    writer.writerow(("name", *columns))
    for name in selection.montage:
        values = [getattr(sensors[name], column) for column in columns]
        writer.writerow((for_spreadsheet(name), *("n/a" if value is None else value for value in values)))
    return text.getvalue().removesuffix("\n")


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, allow_nan=False, ensure_ascii=False, indent=1)
