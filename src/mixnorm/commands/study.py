"""``mixnorm study NAME|PLAN.toml``: run the paper's protocol, resume it, show its table."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from mixnorm.commands.bars import progress
from mixnorm.commands.common import jobs_option, json_option, messages, print_json, stoppable
from mixnorm.report import table, write_report
from mixnorm.report.safe_text import for_terminal
from mixnorm.study import BUILT_IN, Plan, Results, Where, load_plan, read_results, run_study
from mixnorm.study.letters import letters_to_json

# not 1 or 2, which click uses for errors and for wrong usage
_NOT_ALL = 3
# The rest is in the table and in the JSON.
_MOST_LINES = 10


@click.command(
    help="Run a study and show its table.\n\nPLAN is one of "
    + ", ".join(BUILT_IN)
    + ", a .toml file, a recording, a folder of recordings, or moabb:NAME. A stopped study continues when the "
    "same command is run again.\n\nExit status: 0 when every unit was computed, 1 on an error, 3 when the study ended "
    "but units failed or fits did not converge."
)
@click.argument("plan")
@click.option("--out", type=click.Path(path_type=Path), help="Output folder [default: mixnorm-results/NAME].")
@click.option("--splits", type=click.IntRange(1), help="Number of splits [default: that of the plan].")
@click.option("--methods", metavar="A,B,…", help="Methods to compare [default: those of the plan].")
@click.option("--seed", type=click.IntRange(0), help="Random seed [default: that of the plan].")
@jobs_option
@click.option(
    "--backend",
    type=click.Choice(["joblib", "dask"]),
    default="joblib",
    show_default=True,
    help="Compute on this machine (joblib) or on a cluster (dask).",
)
@click.option("--address", metavar="tcp://HOST:PORT", help="Address of the scheduler, for --backend dask.")
@click.option("--device", metavar="cuda", help="Fit many units at once on a GPU; needs PyTorch or CuPy.")
@json_option
def study(plan: str, out: Path | None, as_json: bool, **options: Any) -> None:
    """Run a study; the help text above names the built-in plans."""
    where = Where(options.pop("backend"), options.pop("jobs"), options.pop("address"), options.pop("device"))
    with messages():
        asked = _asked(plan, options)
        folder = out or Path("mixnorm-results") / asked.name
        with _bar() as tell, stoppable(folder):
            run_study(asked, folder, where, tell)
        # from the files and not from memory: the table is that of what was written
        results = read_results(folder)
        if as_json:
            print_json(results.to_json() | {"letters": letters_to_json(results)})
        else:
            click.echo(table(results))
            _say_report(results, folder)
    _end(results)


def _end(results: Results) -> None:
    """Print on stderr what failed or did not converge, and exit with a status that scripts can test."""
    lines = [f"Failed: {unit}: {reason}" for unit, reason in results.failed]
    lines += [f"Not converged: {unit}: relative duality gap {gap:.1e}" for unit, gap in results.above_tol]
    for line in lines[:_MOST_LINES]:
        click.echo(for_terminal(line), err=True)
    if len(lines) > _MOST_LINES:
        click.echo(f"and {len(lines) - _MOST_LINES} more", err=True)
    if lines:
        sys.exit(_NOT_ALL)


def _asked(plan: str, options: dict[str, Any]) -> Plan:
    methods = options.pop("methods")
    named = tuple(name.strip() for name in methods.split(",")) if methods else None
    return load_plan(plan).with_(methods=named, **options)


def _say_report(results: Any, folder: Path) -> None:
    try:
        written = write_report(results, folder / "report")
    # matplotlib is an extra; the study itself must not fail without it
    except ImportError as error:
        click.echo(f"No figures: {error}", err=True)
        written = write_report(results, folder / "report", figures=False)
    pngs = [path for path in written.figures if path.suffix == ".png"]
    click.echo(f"\nTables in {for_terminal(str(folder / 'report'))} (text, CSV, Markdown, LaTeX)")
    for path in pngs:
        click.echo(f"Figure {for_terminal(str(path))} (and .svg)")


@contextmanager
def _bar() -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr; warnings are printed above it."""
    with progress(0, "units") as bar, warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: bar.write(f"Warning: {for_terminal(str(message))}", file=sys.stderr)

        def tell(done: int, total: int) -> None:
            if bar.total != total:
                bar.reset(total)
                # results of an earlier run took no time now, and do not count for the speed
                bar.initial = bar.n = done
            bar.update(done - bar.n)

        yield tell
