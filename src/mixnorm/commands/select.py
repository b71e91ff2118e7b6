"""``mixnorm select RECORDING…``: from recordings to a montage, its honest score, and a page to decide from."""

from __future__ import annotations

import sys
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from mixnorm.commands.common import (
    as_options,
    describe,
    folds_option,
    jobs_option,
    json_option,
    listed,
    messages,
    print_json,
    progress,
    read_options,
    reading_options,
    stoppable,
    subjects_option,
)
from mixnorm.eeg import (
    PRESETS,
    Parts,
    Preparation,
    Selection,
    SelectOptions,
    read_costs,
    read_recordings,
    select_montage,
)
from mixnorm.report.page import standing
from mixnorm.report.selection_files import write_decoders, write_selection
from mixnorm.study.units import code_version

POOLED = (
    "montage-SUBJECT.mixnorm is a subject's own decoder, scored in the first column; montage.mixnorm is one of "
    "all subjects' trials, for a newcomer, scored in the last: trained on the others alone, electrodes chosen by all."
)
_SHOWN = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


@click.command()
@click.argument("recordings", nargs=-1, required=True)
@click.option("--sensors", type=click.IntRange(1), metavar="K", help="Recommend so many electrodes.")
@click.option("--keep", metavar="A,B,…", help="Electrodes that are in every montage.")
@click.option("--forbid", metavar="A,B,…", help="Electrodes that are in none.")
@click.option(
    "--cost",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File of what electrodes cost: lines of NAME COST, or JSON; others cost 1.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder of results [mixnorm-results/select-NAME].")
@click.option("--preset", type=click.Choice(list(PRESETS)), help="Preparation; by default one that fits the kind.")
@folds_option
@click.option("--resamplings", default=50, show_default=True, type=click.IntRange(0), help="Pairs of halves; 0: none.")
@click.option("--compare/--no-compare", default=True, show_default=True, help="Score the orders people use elsewhere.")
@click.option("--figures/--no-figures", default=True, show_default=True, help="Draw figures as PNG and SVG.")
@jobs_option
@subjects_option
@reading_options
@json_option
def select(recordings: tuple[str, ...], out: Path | None, figures: bool, as_json: bool, **options: Any) -> None:
    """Say which electrodes of RECORDINGS are needed, what each buys and what leaving the rest off costs.

    Stopped at any moment, the same command continues where it was.
    """
    with messages():
        asked = _asked(options)
        folder = out or Path("mixnorm-results") / f"select-{Path(recordings[0]).stem}"
        _check_writable(folder)
        runs = read_recordings(*recordings, **read_options(options))
        describe(runs, (*asked.keep, *asked.forbid), forbid=True)
        parts = Parts(folder / ".parts", repr(code_version()))
        with stoppable(parts.folder):
            found = _selected(runs, asked, parts)
        files = write_selection(found.to_json(), folder, figures)
        files += write_decoders(found, folder)
        parts.remove()
    by = found.source["folds"]["by"]
    if asked.n_folds and by in ("session", "run"):
        click.echo(f"Note: the folds are the {by}s; --folds counts only where there is one session.", err=True)
    if as_json:
        print_json(found.to_json())
    else:
        click.echo(text(found.to_json()))
    for path in files:
        click.echo(str(path), err=True)


def _check_writable(folder: Path) -> None:
    """Find out before the work whether its results can be written; make nothing yet."""
    nearest = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        message = f"{folder}: nothing can be written there ({error.strerror}); give another --out."
        raise click.ClickException(message) from None


def _asked(options: dict[str, Any]) -> SelectOptions:
    """Take the options of the selection out of those of the command; the rest is about reading."""
    preset, cost = options.pop("preset"), options.pop("cost")
    return SelectOptions(
        sensors=options.pop("sensors"),
        keep=listed(options.pop("keep")),
        forbid=listed(options.pop("forbid")),
        cost=read_costs(cost) if cost else None,
        n_folds=options.pop("n_folds"),
        n_resamplings=options.pop("resamplings"),
        compare=options.pop("compare"),
        n_jobs=options.pop("jobs"),
        preparation=Preparation.preset(preset) if preset else None,
    )


def _selected(runs: list, asked: SelectOptions, parts: Parts) -> Selection:
    with progress(None, "select") as bar, warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: _say(bar, f"Warning: {as_options(str(message))}")

        def tell(what: str) -> None:
            bar.update()
            bar.set_description(what)

        return select_montage(runs, asked, tell, replace(parts, tell=lambda what: _say(bar, what)))


def _say(bar: Any, what: str) -> None:
    bar.write(what, file=sys.stderr)


def text(found: dict[str, Any]) -> str:
    """A selection (as JSON) in words."""
    source, recommended, montages = found["source"], found["recommended"], found["montages"]
    chosen = next(row for row in montages if row["n_sensors"] == recommended["n_sensors"])
    lines = [
        f"{source['n_trials']} trials, {source['n_targets']} of them targets; "
        f"{source['folds']['count']} folds by {source['folds']['by']}",
        "",
        *_table(montages, recommended["n_sensors"], standing(found)),
        "",
        f"{len(chosen['sensors'])} of {len(found['sensors'])} electrodes: {', '.join(chosen['sensors'])}",
        recommended["reason"],
        recommended["caution"],
        *_by_subject(found["by_subject"]),
        (found["stability"] or {}).get("statement"),
        source["optimistic"],
    ]
    return "\n".join(line for line in lines if line is not None)


def _table(montages: list[dict[str, Any]], chosen: int, called: str) -> list[str]:
    """Some of the montages, among them the recommended one, the best and the largest."""
    best = max(montages, key=lambda row: -1.0 if row["auc"] is None else row["auc"])["n_sensors"]
    lines = ["electrodes  AUC    95 % interval   the last one in"]
    for row in montages:
        if row["n_sensors"] in (*_SHOWN, chosen, best, montages[-1]["n_sensors"]):
            span = "–" if row["low"] is None else f"{row['low']:.3f} … {row['high']:.3f}"
            marks = [word for word, n in ((called, chosen), ("best", best)) if n == row["n_sensors"]]
            mark = f"  ← {', '.join(marks)}" if marks else ""
            auc = "–" if row["auc"] is None else f"{row['auc']:.3f}"
            lines.append(f"{row['n_sensors']:10d}  {auc:5s}  {span:15s} {row['sensors'][-1]}{mark}")
    return lines


def _by_subject(rows: list[dict[str, Any]] | None) -> list[str]:
    """What each subject's decoder scores with the common montage, and the pooled one on a subject it has not seen."""
    if not rows:
        return []
    width = max(10, *(len(row["subject"]) for row in rows))
    lines = ["", f"{'subject':{width}s}  AUC    own montage's  as a newcomer"]
    for row in rows:
        numbers = ("–" if row[name] is None else f"{row[name]:.3f}" for name in ("common_auc", "auc", "newcomer_auc"))
        few = f"  ({row['caution']})" if row["caution"] else ""
        lines.append("{:{width}s}  {:5s}  {:13s}  {:5s}".format(row["subject"], *numbers, width=width) + few)
    return [*lines, POOLED, ""]
