"""The files that `mixnorm select` writes into a folder: the selection, the montage, the page, the figures."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

from mixnorm.core.files import write_text
from mixnorm.eeg.decoder import Decoder
from mixnorm.estimators.persistence import save
from mixnorm.montage import sentences
from mixnorm.montage.decoders import DECODERS_FOLDER, MontageDecoders
from mixnorm.montage.reading import SELECTION_NAME
from mixnorm.montage.result import SelectionResult
from mixnorm.montage.selection import Selection
from mixnorm.report.figures import save_figure
from mixnorm.report.page import PAGE_NAME, write_page
from mixnorm.report.plots.selection_plots import CURVE_SIZE, montage_size, plot_auc_curve, plot_montage
from mixnorm.report.plots.window_plots import plot_windows, windows_size
from mixnorm.report.safe_text import for_spreadsheet
from mixnorm.report.styles import figure_for_file

WINDOWS_NAME = "windows.tsv"
"""File name of the table of windows in a folder of results."""


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
    # First: everything else can be made from it again.
    document = write_text(folder / SELECTION_NAME, _json(selection.to_json()) + "\n")
    return [document, *write_views(selection, folder, figures)]


def write_views(selection: SelectionResult, folder: str | Path, figures: bool = True) -> list[Path]:
    """Write montage.json, montage.tsv, index.html, and the figures as PNG and SVG into a folder that exists.

    Where windows of time were chosen, there are also windows.tsv and a figure of them.
    """
    folder = Path(folder)
    files = [
        write_text(folder / "montage.json", _json(montage_json(selection)) + "\n"),
        write_text(folder / "montage.tsv", _tsv(selection) + "\n"),
        write_page(selection, folder / PAGE_NAME),
    ]
    if selection.windows:
        files.append(write_text(folder / WINDOWS_NAME, _windows_tsv(selection) + "\n"))
    # Figures last: a missing matplotlib leaves a folder with everything else.
    drawn = _drawn(selection) if figures else {}
    for name, axes in drawn.items():
        files += save_figure(axes.figure, folder / name)
    _remove_old(folder, drawn, bool(selection.windows))
    return files


def _drawn(selection: SelectionResult) -> dict[str, Any]:
    """The figures by file name."""
    drawn = {
        "montage": plot_montage(selection, figure_for_file(montage_size(selection))),
        "auc-sensors": plot_auc_curve(selection, figure_for_file(CURVE_SIZE)),
    }
    if selection.windows:
        drawn["windows"] = plot_windows(selection, figure_for_file(windows_size(selection)))
    return drawn


def _remove_old(folder: Path, drawn: Iterable[str], has_windows: bool) -> None:
    """Remove what was not written: files of an earlier selection would show another montage, or other windows."""
    for name in {"montage", "auc-sensors", "windows"} - set(drawn):
        for suffix in (".png", ".svg"):
            (folder / name).with_suffix(suffix).unlink(missing_ok=True)
    if not has_windows:
        (folder / WINDOWS_NAME).unlink(missing_ok=True)


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
        # A subject may be called "A/B", or as long as its recording says; file systems allow 255 bytes.
        plain = re.sub(r"[^\w-]+", "_", subject)[:80]
        others = {name.lower() for name in names}
        # "ann" and "Ann" would be one file on macOS and Windows.
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


def _windows_tsv(selection: SelectionResult) -> str:
    """Windows of time in order, with the electrodes that are chosen in each, the largest norm first."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter="\t", lineterminator="\n")
    writer.writerow(("start", "stop", "norm", "frequency", "selected", "sensors"))
    for one in selection.windows or ():
        chosen = sorted((name for name, norm in one.norms.items() if norm), key=lambda name: -one.norms[name])
        selected = str(one.selected).lower()
        writer.writerow((one.start, one.stop, one.norm, one.frequency, selected, for_spreadsheet(", ".join(chosen))))
    return text.getvalue().removesuffix("\n")


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, allow_nan=False, ensure_ascii=False, indent=1)
