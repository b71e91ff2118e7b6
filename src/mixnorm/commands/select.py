"""``mixnorm select RECORDING…``: from recordings to a montage, its honest score, and a page to decide from."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import click

from mixnorm import save
from mixnorm.commands.common import json_option, messages, print_json, progress, read_options, reading_options
from mixnorm.eeg import PRESETS, Preparation, Selection, SelectOptions, read_costs, read_recordings, select_montage
from mixnorm.eeg.recording import UNKNOWN
from mixnorm.report.selection import write_selection

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
@click.option("--folds", default=5, show_default=True, type=click.IntRange(2), help="Folds by character or block.")
@click.option("--resamplings", default=50, show_default=True, type=click.IntRange(0), help="Pairs of halves; 0: none.")
@click.option("--compare/--no-compare", default=True, show_default=True, help="Score the orders people use elsewhere.")
@click.option("--figures/--no-figures", default=True, show_default=True, help="Draw figures as PNG and SVG.")
@click.option("--jobs", default=1, show_default=True, help="Processes; -1: one per core.")
@reading_options
@json_option
def select(recordings: tuple[str, ...], out: Path | None, figures: bool, as_json: bool, **options: Any) -> None:
    """Say which electrodes of RECORDINGS are needed, what each buys and what leaving the rest off costs."""
    with messages():
        asked = _asked(options)
        folder = out or Path("mixnorm-results") / f"select-{Path(recordings[0]).stem}"
        _check_writable(folder)
        runs = read_recordings(*recordings, **read_options(options))
        for run in runs:
            click.echo(run.describe(), err=True)
        _warn_of_unknown_subjects(runs)
        found = _selected(runs, asked)
        files = write_selection(found.to_json(), folder, figures)
        save(found.decoder, folder / "montage.mixnorm")
    if as_json:
        print_json(found.to_json())
    else:
        click.echo(_text(found))
    for path in (*files, folder / "montage.mixnorm"):
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


def _warn_of_unknown_subjects(runs: list) -> None:
    if len(runs) > 1 and all(run.subject == UNKNOWN for run in runs):
        click.echo(
            "Note: the files do not say whose they are and are taken for one person; put those of several people "
            "into folders sub-01, sub-02, …",
            err=True,
        )


def _asked(options: dict[str, Any]) -> SelectOptions:
    """Take the options of the selection out of those of the command; the rest is about reading."""
    preset, cost = options.pop("preset"), options.pop("cost")
    return SelectOptions(
        sensors=options.pop("sensors"),
        keep=_names(options.pop("keep")),
        forbid=_names(options.pop("forbid")),
        cost=read_costs(cost) if cost else None,
        n_folds=options.pop("folds"),
        n_resamplings=options.pop("resamplings"),
        compare=options.pop("compare"),
        n_jobs=options.pop("jobs"),
        preparation=Preparation.preset(preset) if preset else None,
    )


def _names(given: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in given.split(",") if name.strip()) if given else ()


def _selected(runs: list, asked: SelectOptions) -> Selection:
    with progress(None, "select") as bar, warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: bar.write(f"Warning: {message}")

        def tell(what: str) -> None:
            bar.update()
            bar.set_description(what)

        return select_montage(runs, asked, tell)


def _text(found: Selection) -> str:
    source, best = found.source, found.montage
    lines = [
        f"{source['n_trials']} trials, {source['n_targets']} of them targets; "
        f"{source['folds']['count']} folds by {source['folds']['by']}",
        "",
        "electrodes  AUC    95 % interval   the last one in",
    ]
    chosen = found.recommended["n_sensors"]
    for row in found.montages:
        if row["n_sensors"] in (*_SHOWN, chosen, len(found.montages)):
            span = "–" if row["low"] is None else f"{row['low']:.3f} … {row['high']:.3f}"
            mark = "  ← recommended" if row["n_sensors"] == chosen else ""
            lines.append(f"{row['n_sensors']:10d}  {row['auc']:.3f}  {span:15s} {row['sensors'][-1]}{mark}")
    lines += ["", f"{len(best)} of {len(found.sensors)} electrodes: {', '.join(best)}", found.recommended["reason"]]
    lines += [found.stability["statement"]] if found.stability else []
    lines += [source["optimistic"]] if source["optimistic"] else []
    return "\n".join(lines)
