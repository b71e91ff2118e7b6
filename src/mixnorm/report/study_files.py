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
    """Files of a report.

    Attributes
    ----------
    tables : tuple of Path
        The tables, one file for each format.
    figures : tuple of Path
        The figures, as PNG and SVG.

    See Also
    --------
    write_report : Returns it.

    Examples
    --------
    >>> from pathlib import Path
    >>> from mixnorm.report import Written
    >>> Written(tables=(Path("table.csv"),), figures=()).tables[0].name
    'table.csv'
    """

    tables: tuple[Path, ...]
    figures: tuple[Path, ...]


def write_report(results: Results, folder: str | Path, figures: bool = True) -> Written:
    """Write tables, and figures as PNG and SVG, into a folder.

    Parameters
    ----------
    results : Results
        What `mixnorm.study.read_results` read.
    folder : path
        Created where it does not exist.
    figures : bool
        Whether to draw; needs matplotlib (the extra `report`).

    Returns
    -------
    Written
        The files that were written.

    See Also
    --------
    table : One table as text.
    mixnorm.study.read_results : The results.

    Examples
    --------
    >>> import tempfile
    >>> from mixnorm.report import write_report
    >>> from mixnorm.study import DatasetPlan, Plan, read_results, run_study
    >>> data = DatasetPlan("toy", "simulated", options={"n_trials": 110, "n_channels": 4, "n_informative": 2})
    >>> plan = Plan("mine", (data,), methods=("svm", "gsvm-2"), splits=2, n_train=(60,), alphas=(0.01, 0.1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = run_study(plan, folder)
    ...     written = write_report(read_results(folder), f"{folder}/report", figures=False)
    >>> sorted(file.name for file in written.tables)
    ['table.csv', 'table.md', 'table.tex', 'table.txt']
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
        # imported only here: tables need no matplotlib
        draw: Callable = _draw()
        drawn = draw(results, folder)
    return Written(tuple(tables), tuple(drawn))


def _draw() -> Callable[[Results, Path], list[Path]]:
    from mixnorm.report.figures import draw_all

    return draw_all


def _write(path: Path, text: str) -> Path:
    return write_text(path, text + "\n")
