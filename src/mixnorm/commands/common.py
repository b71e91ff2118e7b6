"""Code that subcommands share: options for reading, error messages, JSON without NaN, progress on stderr."""

from __future__ import annotations

import ast
import json
import math
import re
import shlex
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np
from tqdm import tqdm

from mixnorm.core.files import write_text
from mixnorm.eeg import EpochedRecording, Recording, RecordingError
from mixnorm.eeg.positions import no_electrodes
from mixnorm.eeg.readers.options import NOBODY
from mixnorm.report.safe_text import for_terminal

_READING = (
    click.option("--target", multiple=True, metavar="NAME", help="Name of a target event; may be repeated."),
    click.option("--nontarget", multiple=True, metavar="NAME", help="Name of a non-target event; may be repeated."),
    click.option("--drop", multiple=True, metavar="CHANNEL", help="Channel to exclude; may be repeated."),
    click.option("--ch-names", metavar="A,B,…", help="Channel names, for files that have none."),
    click.option("--sfreq", type=float, metavar="HZ", help="Sampling rate, for files that have none."),
)

subjects_option = click.option("--subjects", metavar="A,B,…", help="Name of the subject of each recording, in order.")
folds_option = click.option(
    "--folds",
    "n_folds",
    type=click.IntRange(2),
    help="Number of folds of characters or blocks [5, or fewer where there are fewer characters].",
)
jobs_option = click.option(
    "--jobs",
    default=1,
    show_default=True,
    callback=lambda *given: _some(given[2]),
    help="Number of processes; -1: one per core.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print only one JSON object on standard output.")


def _span(_context: click.Context, _parameter: click.Parameter, given: str | None) -> tuple[float, float] | None:
    """The two times of "A,B"."""
    if given is None:
        return None
    try:
        start, stop = (float(edge) for edge in given.split(","))
    except ValueError:
        raise click.BadParameter(f"expected two times in seconds, such as 0,0.6, but got {given!r}.") from None
    if not (math.isfinite(start) and math.isfinite(stop) and start < stop):
        raise click.BadParameter(f"the second time must be later than the first, but got {given!r}.")
    return start, stop


_SAMPLES = (
    click.option(
        "--window",
        callback=_span,
        metavar="A,B",
        help="Seconds after the stimulus that are used [default: by preset].",
    ),
    click.option(
        "--samples",
        "n_samples",
        type=click.IntRange(1),
        metavar="N",
        help="Number of means over time per electrode [default: one for every 50 to 60 ms].",
    ),
)


def samples_options(command: Callable) -> Callable:
    """Add the options about the window and the samples; the command gets ``window`` and ``n_samples``."""
    for option in reversed(_SAMPLES):
        command = option(command)
    return command


def _some(jobs: int) -> int:
    if jobs == 0:
        raise click.BadParameter("the number of processes must be at least 1, or -1 for one per core.")
    return jobs


def reading_options(command: Callable) -> Callable:
    """Add the options about how to read recordings; the command gets them as ``**reading``."""
    for option in reversed(_READING):
        command = option(command)
    return command


def read_options(reading: dict[str, Any]) -> dict[str, Any]:
    """Command-line options as keywords of `mixnorm.eeg.read_recordings`."""
    lists = {name: listed(reading[name]) for name in ("ch_names", "subjects") if name in reading}
    return {**reading, **lists}


def listed(given: str | None) -> tuple[str, ...]:
    """The names in "A, B, C"."""
    return tuple(name.strip() for name in given.split(",") if name.strip()) if given else ()


def _shown(message: Warning | str | Exception) -> str:
    """The text of a warning or an error, with the command line's names of options and safe for a terminal."""
    return for_terminal(as_options(str(message)), keep="\n")


@contextmanager
def messages() -> Iterator[None]:
    """Show errors that a user can correct as one line on stderr, with exit status 1; warnings likewise."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: click.echo("Warning: " + _shown(message), err=True)
        try:
            yield
        except BrokenPipeError:
            raise  # the program that reads our output has ended (`| head`): click exits without a message
        except (RecordingError, ImportError, OSError, ValueError) as error:
            raise click.ClickException(_shown(error)) from error


class _Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP arrived: everything is cleaned up as after Ctrl+C."""


@contextmanager
def stoppable(folder: Path) -> Iterator[None]:
    """Stop with a message on Ctrl+C, SIGTERM or a closed terminal; for commands that continue where they stopped.

    Without a handler, SIGTERM ends this process at once and leaves its worker processes running.
    """
    former = _handle_termination()
    try:
        yield
    except KeyboardInterrupt as stop:
        click.echo(f"\nStopped. Finished results are in {folder}; run the same command again to continue.", err=True)
        sys.exit(143 if isinstance(stop, _Terminated) else 130)
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _handle_termination() -> dict[int, Any]:
    """Raise `_Terminated` on the signals that ask a process to end; return the handlers that were there before."""

    def stop(_number: int, _frame: Any) -> None:
        raise _Terminated

    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        return {}
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    # What is ignored (`nohup`) stays ignored.
    return {n: signal.signal(n, stop) for n in numbers if signal.getsignal(n) == signal.SIG_DFL}


#: Advice that names Python arguments, and the same advice for the command line.
_PHRASES = {
    "use the preset 'epochs' or a preparation with band=None": "use --preset epochs",
    "set window=(start, stop); choose another preparation": "use another --preset",
}
_PYTHON = re.compile(r"\b(target|nontarget|drop|ch_names|sfreq|subjects)=(…|\[(?:'[^']*'|\"[^\"]*\"|, )+\])")


def as_options(text: str) -> str:
    """Replace Python keywords in a message by the options of the command line.

    Examples
    --------
    >>> as_options("give it with sfreq=… (Hz)"), as_options("exclude them with drop=['Fp1', 'my EOG']")
    ('give it with --sfreq … (Hz)', "exclude them with --drop Fp1 --drop 'my EOG'")
    """

    def option(found: re.Match) -> str:
        name = f"--{found[1].replace('_', '-')}"
        values = ["…"] if found[2] == "…" else [shlex.quote(value) for value in ast.literal_eval(found[2])]
        return " ".join(f"{name} {value}" for value in values)

    for python, ours in _PHRASES.items():
        text = text.replace(python, ours)
    return _PYTHON.sub(option, text)


def describe(runs: list[Recording | EpochedRecording], named: Collection[str] = (), forbid: bool = False) -> None:
    """Print on stderr what was read, and warnings about it.

    `named`: channels that need no warning; `forbid`: whether the command has that option.
    """
    for run in runs:
        click.echo(for_terminal(as_options(run.describe()), keep="\n"), err=True)
    odd = [name for name in no_electrodes(runs[0].ch_names) if name.lower() not in {one.lower() for one in named}]
    if odd:
        drop = as_options(f"drop={odd}")
        message = (
            f"Warning: {', '.join(odd)}: by their names not EEG electrodes, but the recording marks them as EEG, so "
            f"that they may be selected; exclude them with {drop}{' or --forbid' if forbid else ''}"
        )
        click.echo(for_terminal(message), err=True)
    unnamed = [Path(run.source).name for run in runs if np.all(np.asarray(run.subject) == NOBODY)]
    if len(unnamed) > 1:
        names = ", ".join(unnamed[:3]) + (", …" if len(unnamed) > 3 else "")
        click.echo(
            f"Note: {len(unnamed)} recordings do not name their subject ({names}) and are "
            "treated as recordings of one subject; name the subject of each with --subjects A,B,…",
            err=True,
        )


def check_writable(path: Path, option: str) -> None:
    """Raise an error, before any long computation, where a file could not be written."""
    if path.exists() and not path.is_file():
        if path.is_dir():
            raise ValueError(f"{path}: this is a folder, not a file; give another {option}.")
        return  # a device or a pipe
    if not path.absolute().parent.is_dir():
        raise ValueError(f"{path}: the folder {path.parent} does not exist; create it or give another {option}.")
    try:
        with tempfile.TemporaryFile(dir=path.absolute().parent):
            pass
    except OSError as error:
        raise ValueError(f"{path}: no file can be written there ({error.strerror}); give another {option}.") from error


def progress(total: int | None, what: str) -> tqdm:
    """A progress bar on stderr."""
    return tqdm(total=total, desc=what, file=sys.stderr, leave=False)


def print_json(document: dict[str, Any], output: Path | None = None) -> None:
    """Print one JSON object; NaN and infinite values become null."""
    text = json.dumps(_plain(document), allow_nan=False, ensure_ascii=False, indent=2)
    if output is None:
        click.echo(text)
    else:
        write_text(output, text + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
