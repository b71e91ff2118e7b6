"""``mixnorm select RECORDING…``: from recordings to a montage, its held-out score, and a page to decide from."""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm

from mixnorm import use_device
from mixnorm.commands.bars import show_progress, work_bar
from mixnorm.commands.common import (
    ABOUT_PREPARATION,
    as_options,
    describe,
    folds_option,
    jobs_option,
    json_option,
    listed,
    messages,
    preparation_of,
    print_json,
    read_options,
    reading_options,
    reject_option,
    samples_options,
    stoppable,
    subjects_option,
    typed_arguments,
)
from mixnorm.eeg import (
    PRESETS,
    Checkpoint,
    Selection,
    SelectOptions,
    read_costs,
    read_recordings,
    select_montage,
)
from mixnorm.montage import sentences
from mixnorm.montage.decoders import DECODERS_FOLDER
from mixnorm.montage.result import Montage, SelectionResult, SubjectRow
from mixnorm.montage.steps import PREPARING
from mixnorm.report.safe_text import for_terminal

#: Options that do not change which electrodes are chosen; the page shows the command without them.
_ABOUT_OUTPUT = ("sensors", "out", "resamplings", "compare", "figures", "decoders", "jobs", "device", "as_json")


@click.command()
@click.argument("recordings", nargs=-1, required=True)
@click.option(
    "--sensors",
    type=click.IntRange(1),
    metavar="K",
    help="Number of electrodes [default: the smallest montage whose AUC is near the best].",
)
@click.option("--keep", metavar="A,B,…", help="Electrodes to include in every montage.")
@click.option("--forbid", metavar="A,B,…", help="Electrodes to exclude.")
@click.option(
    "--cost",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the costs of electrodes: lines of NAME COST, or JSON. Other electrodes cost 1.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Output folder [default: mixnorm-results/select-NAME].")
@click.option("--preset", type=click.Choice(list(PRESETS)), help="Preparation [default: by file type].")
@reject_option
@samples_options
@folds_option
@click.option(
    "--resamplings",
    default=50,
    show_default=True,
    type=click.IntRange(0),
    help="Number of half-sample pairs for stability selection (0 turns it off).",
)
@click.option(
    "--compare/--no-compare",
    default=True,
    show_default=True,
    help="Also score other ways to choose electrodes on the same folds.",
)
@click.option(
    "--windows",
    type=click.IntRange(1),
    metavar="N",
    help="Divide the time into N windows, and find which of them carry the response.",
)
@click.option("--figures/--no-figures", default=True, show_default=True, help="Draw figures as PNG and SVG.")
@click.option(
    "--decoders", is_flag=True, help="Write a decoder for every number of electrodes, not only the chosen one."
)
@jobs_option
@click.option("--device", metavar="cuda", help="Fit all folds and sizes at once on a GPU; needs PyTorch or CuPy.")
@subjects_option
@reading_options
@json_option
def select(
    recordings: tuple[str, ...],
    out: Path | None,
    figures: bool,
    device: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Choose the electrodes of RECORDINGS that are needed.

    For every number of electrodes: the best montage, its AUC on held-out trials, and the contribution of each
    electrode. If the command is stopped, run it again to continue.
    """
    # The device from the start: if it is missing, the error must not come after the recordings were read.
    with messages(), use_device(device):
        asked = _asked(options)
        # Named after the first recording, so that the same command finds its folder again and continues.
        folder = out or Path("mixnorm-results") / f"select-{Path(recordings[0]).stem}"
        _check_writable(folder)
        prepared = {name: options.pop(name) for name in ABOUT_PREPARATION}
        click.echo(f"Reading {_names(recordings)} …", err=True)  # some formats take long
        with _bar("reading"):
            runs = read_recordings(*recordings, **read_options(options))
        describe(runs, (*asked.keep, *asked.forbid), forbid=True)
        asked = replace(asked, preparation=preparation_of(prepared, runs))
        # imported only now: the first bar should not wait for it
        from mixnorm.study.units import code_version

        # Parts of another version of the code are not used: their numbers may differ.
        checkpoint = Checkpoint(folder / ".parts", repr(code_version()))
        with stoppable(checkpoint.folder):
            found = _selected(runs, asked, checkpoint)
        # imported only now: the first step should not wait for it
        from mixnorm.report.selection_files import write_decoders, write_selection

        found = replace(found, arguments=typed_arguments(_ABOUT_OUTPUT))
        # decoders first: they cannot be made from selection.json again
        files = [*write_decoders(found, folder), *write_selection(found, folder, figures)]
        # only after everything is written: until then an interrupted command can continue
        checkpoint.remove()
    kinds = found.source.folds.kinds
    if asked.n_folds and len(kinds) == 1 and kinds[0] in ("session", "run"):
        click.echo(f"Note: the folds are the {kinds[0]}s; --folds is used only with a single session.", err=True)
    if as_json:
        print_json(found.to_json())
    else:
        click.echo(text(found))
    for path in files:
        # decoders of every size are dozens of files, which one line below sums up
        if path.parent == folder:
            click.echo(str(path), err=True)
    if asked.decoders:
        click.echo(f"{folder / DECODERS_FOLDER}: decoders of every montage", err=True)


def _check_writable(folder: Path) -> None:
    """Check before the computation that results can be written; create nothing yet."""
    # The folder itself may not exist yet; it is created in the nearest one that does.
    nearest = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        message = f"{folder}: no file can be written there ({error.strerror}); give another --out."
        raise click.ClickException(message) from None


def _asked(options: dict[str, Any]) -> SelectOptions:
    """Take the options of the selection out of those of the command; the remaining ones are about reading."""
    cost = options.pop("cost")
    return SelectOptions(
        sensors=options.pop("sensors"),
        keep=listed(options.pop("keep")),
        forbid=listed(options.pop("forbid")),
        cost=read_costs(cost) if cost else None,
        n_folds=options.pop("n_folds"),
        n_resamplings=options.pop("resamplings"),
        compare=options.pop("compare"),
        n_jobs=options.pop("jobs"),
        decoders=options.pop("decoders"),
        windows=options.pop("windows"),
    )


def _selected(runs: list, asked: SelectOptions, checkpoint: Checkpoint) -> Selection:
    with _bar(PREPARING) as (bar, show):
        return select_montage(runs, asked, lambda now: show_progress(bar, now), replace(checkpoint, progress=show))


@contextmanager
def _bar(what: str) -> Iterator[tuple[tqdm, Callable[[str], None]]]:
    """A bar, and a function that writes a line above it; warnings are written there, too."""
    with work_bar(what) as bar, warnings.catch_warnings():

        def show(message: str) -> None:
            bar.write(for_terminal(message), file=sys.stderr)

        # through the bar, which would otherwise be drawn over the warning
        warnings.showwarning = lambda message, *_: show(f"Warning: {as_options(str(message))}")
        yield bar, show


def text(found: SelectionResult) -> str:
    """A selection in words."""
    source, recommended = found.source, found.recommended
    lines = [
        f"{sentences.count(source.n_trials, 'trial')}, {source.n_targets} of them targets; "
        f"{sentences.count(source.folds.count, 'fold')} by {' and '.join(source.folds.kinds)}",
        "",
        *_table(found),
        "",
        # None leaves a line out; "" is an empty line.
        f"{sentences.headline(recommended)}." if sentences.headline(recommended) else None,
        f"{sentences.few_of(recommended, len(found.sensors))}: {_names(found.montage)}",
        sentences.reason(recommended),
        _shown(sentences.trade(found)),
        _shown(sentences.caution(recommended)),
        _shown(sentences.one_subject(source.unnamed)),
        *_by_subject(found.by_subject or ()),
        *_windows(found),
        sentences.stability(found.stability) if found.stability else None,
        sentences.optimistic(source.folds),
    ]
    return "\n".join(line for line in lines if line is not None)


def _shown(sentence: str | None) -> str | None:
    """A sentence that may contain names from a recording."""
    return None if sentence is None else for_terminal(sentence)


def _names(names: Iterable[str]) -> str:
    return ", ".join(for_terminal(name) for name in names)


def _table(found: SelectionResult) -> list[str]:
    """All montages, as on the page."""
    recommended = found.recommended
    # One montage can be both.
    marked = {sentences.label(recommended): recommended.n_sensors, "best": recommended.best_n_sensors}
    head = "electrodes  AUC    95 % interval   gain ± std. error  added electrode"
    return [head, *(_row(one, marked) for one in found.montages)]


def _row(montage: Montage, marked: dict[str, int]) -> str:
    known = montage.low is not None and montage.high is not None
    span = f"{montage.low:.3f} … {montage.high:.3f}" if known else "–"
    marks = [word for word, n_sensors in marked.items() if n_sensors == montage.n_sensors]
    mark = f"  ← {', '.join(marks)}" if marks else ""
    drop = montage.drop
    gain = sentences.change(-drop.auc_change, drop.standard_error) if drop and drop.auc_change is not None else "–"
    added = _names(montage.sensors[-1:])
    return f"{montage.n_sensors:10d}  {_auc(montage.auc):5s}  {span:15s} {gain:17s}  {added}{mark}"


def _by_subject(rows: Sequence[SubjectRow]) -> list[str]:
    """AUC of each subject's decoder with the common and the own montage, and of a decoder of the other subjects."""
    if not rows:
        return []
    width = max(10, *(len(for_terminal(row.subject)) for row in rows))
    lines = ["", f"{'subject':{width}s}  common montage  own montage  as new subject"]
    for row in rows:
        common, own, new = (_auc(value) for value in (row.common_auc, row.auc, row.new_subject_auc))
        few = f"  ({sentences.few_trials(row.few_trials)})" if row.few_trials else ""
        lines.append(f"{for_terminal(row.subject):{width}s}  {common:14s}  {own:11s}  {new:14s}{few}".rstrip())
    return [*lines, sentences.NEW_SUBJECT, ""]


def _windows(found: SelectionResult) -> list[str]:
    """The windows of time, one a line, and what choosing them is worth."""
    if not found.windows:
        return []
    share = f"window share {found.window_share:g}"
    lines = ["", f"window of time      norm  chosen in  ({share}; {sentences.count(len(found.windows), 'window')})"]
    for one in found.windows:
        mark = "  ← chosen" if one.selected else ""
        name, folds = sentences.span_name(one.start, one.stop), sentences.chosen_in(one, found.window_scores)
        lines.append(f"{name:14s}  {one.norm:8.3g}  {folds}{mark}")
    return [*lines, sentences.windows(found), ""]


def _auc(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
