"""``mixnorm report DIR``: tables and figures of a study, or the page and figures of a selection."""

from __future__ import annotations

from pathlib import Path

import click

from mixnorm.commands.common import json_option, messages, print_json
from mixnorm.montage.reading import SELECTION_NAME, read_selection
from mixnorm.report import TABLE_FORMATS, table, write_report
from mixnorm.report.page import PAGE_NAME
from mixnorm.report.safe_text import for_terminal
from mixnorm.report.selection_files import write_selection, write_views
from mixnorm.study import read_results
from mixnorm.study.letters import letters_to_json


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--partial", is_flag=True, help="Report an incomplete study and list what is missing.")
@click.option(
    "--format",
    "form",
    type=click.Choice(list(TABLE_FORMATS)),
    default="text",
    show_default=True,
    help="Format of the table that is printed.",
)
@click.option("--figures/--no-figures", default=True, show_default=True, help="Draw figures as PNG and SVG.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Output folder [default: FOLDER/report; for a selection, FOLDER]."
)
@json_option
def report(folder: Path, partial: bool, form: str, figures: bool, out: Path | None, as_json: bool) -> None:
    """Show the table of the study in FOLDER, and write all tables and figures.

    Where FOLDER contains a selection of electrodes (selection.json), write its page and its other files again.
    """
    if (folder / SELECTION_NAME).is_file():
        # an error, because these options would be ignored
        if partial or form != "text":
            raise click.UsageError(f"--partial and --format are for studies; {folder} holds a selection.")
        _report_selection(folder, out or folder, figures, as_json)
        return
    with messages():
        results = read_results(folder, partial)
        written = write_report(results, out or folder / "report", figures)
    if as_json:
        print_json(results.to_json() | {"letters": letters_to_json(results)})
        return
    click.echo(table(results, form))
    for path in (*written.tables, *written.figures):
        click.echo(for_terminal(str(path)), err=True)


def _report_selection(folder: Path, out: Path, figures: bool, as_json: bool) -> None:
    with messages():
        selection = read_selection(folder / SELECTION_NAME)
        # what was read stays as it is, also where an earlier version or another program wrote it
        write = write_views if out.resolve() == folder.resolve() else write_selection
        files = write(selection, out, figures)
    page = out / PAGE_NAME
    if as_json:
        print_json({"page": str(page), "recommended": selection.to_json()["recommended"]})
    else:
        click.echo(str(page))
    for path in files:
        click.echo(str(path), err=True)
