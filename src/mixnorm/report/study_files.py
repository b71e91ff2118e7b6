"""The report of a study: every table in every format, every figure that its results allow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mixnorm.core.files import write_text
from mixnorm.report.tables import TABLE_FORMATS, characters_sheet, table
from mixnorm.study import Results

_ENDINGS = {"text": "txt", "csv": "csv", "markdown": "md", "latex": "tex"}


@dataclass(frozen=True)
class Written:
    """Files of a report."""

    tables: tuple[Path, ...]
    figures: tuple[Path, ...]


def write_report(results: Results, folder: str | Path, figures: bool = True) -> Written:
    """Write tables, and figures as PNG and SVG, into a folder.

    Parameters
    ----------
    results : Results
    folder : path
        Created where it does not exist.
    figures : bool
        Whether to draw; needs matplotlib (the extra `report`).
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tables = [_write(folder / f"table.{_ENDINGS[form]}", table(results, form)) for form in TABLE_FORMATS]
    spelled = characters_sheet(results)
    if spelled:
        shown = {form: show for form, show in TABLE_FORMATS.items() if show}
        tables += [_write(folder / f"characters.{_ENDINGS[form]}", show(spelled)) for form, show in shown.items()]
    drawn: list[Path] = []
    if figures:
        draw: Callable = _draw()
        drawn = draw(results, folder)
    return Written(tuple(tables), tuple(drawn))


def _draw() -> Callable[[Results, Path], list[Path]]:
    from mixnorm.report.figures import draw_all

    return draw_all


def _write(path: Path, text: str) -> Path:
    return write_text(path, text + "\n")
