"""Code that subcommands share: options for reading, error messages, JSON without NaN."""

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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from mixnorm import load
from mixnorm.core.files import write_text
from mixnorm.eeg import CohortDecoder, Decoder, EpochedRecording, Preparation, Recording, RecordingError
from mixnorm.eeg.design import default_preparation
from mixnorm.eeg.positions import no_electrodes
from mixnorm.eeg.readers.labels import unnamed_recordings
from mixnorm.eeg.rejection import check_reject
from mixnorm.montage.sentences import one_subject
from mixnorm.report.safe_text import for_json, for_terminal

AnyRun = Recording | EpochedRecording

#: In the order of the help.
_READING = (
    click.option("--target", multiple=True, metavar="NAME", help="Name of a target event; may be repeated."),
    click.option("--nontarget", multiple=True, metavar="NAME", help="Name of a non-target event; may be repeated."),
    click.option("--drop", multiple=True, metavar="CHANNEL", help="Channel to exclude; may be repeated."),
    click.option("--ch-names", metavar="A,B,…", help="Channel names, for files that have none."),
    click.option("--sfreq", type=float, metavar="HZ", help="Sampling rate, for files that have none."),
    click.option(
        "--recipe",
        metavar="KEY=NAME,…",
        help="Names of the variables of a .mat file (signal=…, labels=…), or of the streams of an XDF file.",
    ),
    click.option(
        "--max-gib", type=float, default=4.0, show_default=True, help="Largest size of the data of one file, in GiB."
    ),
    click.option("--use-bads", is_flag=True, help="Use channels and segments that the file marks as bad."),
)

reject_option = click.option(
    "--reject",
    metavar="µV|auto",
    callback=lambda *given: _limit(given[2]),  # click gives the context, the parameter and the value
    help="Leave out training trials whose peak-to-peak value is beyond this limit [default: no limit].",
)

subjects_option = click.option("--subjects", metavar="A,B,…", help="Name of the subject of each recording, in order.")
folds_option = click.option(
    "--folds",
    "n_folds",
    type=click.IntRange(2),
    help="Number of folds of characters or blocks [default: 5, or fewer if there are fewer characters].",
)
jobs_option = click.option(
    "--jobs",
    default=1,
    show_default=True,
    callback=lambda *given: _some(given[2]),
    help="Number of processes; -1: one per core.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print only one JSON object on standard output.")


def _limit(given: str | None) -> float | str | None:
    if given is None or given == "auto":
        return given
    try:
        limit = float(given)
        check_reject(limit)
    except ValueError:
        raise click.BadParameter(f"{given!r} is neither a limit in µV above 0 nor auto.") from None
    return limit


#: Names of the options about the preparation.
ABOUT_PREPARATION = ("preset", "reject", "window", "n_samples")


def preparation_of(options: Mapping[str, Any], runs: Sequence[AnyRun]) -> Preparation:
    """The preparation that was asked for by the options `ABOUT_PREPARATION`, by default that of these recordings."""
    base = Preparation.preset(options["preset"]) if options["preset"] else None
    found = default_preparation(runs, base, options["window"], options["n_samples"])
    return found if options["reject"] is None else found.with_(reject=options["reject"])


def _span(_context: click.Context, _parameter: click.Parameter, given: str | None) -> tuple[float, float] | None:
    """The two times of "A,B"."""
    if given is None:
        return None
    try:
        start, stop = (float(edge) for edge in given.split(","))
    except ValueError:
        raise click.BadParameter(f"expected two times in seconds, such as 0,0.6, but got {given!r}.") from None
    # `float` also reads "nan" and "inf"
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
    # Decorators are applied from the last to the first: reversed, the help lists the options in this order.
    for option in reversed(_SAMPLES):
        command = option(command)
    return command


def _some(jobs: int) -> int:
    # joblib refuses it too, but only when the first fit starts
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


def typed_arguments(leave_out: Collection[str]) -> tuple[str, ...]:
    """The arguments of the command that is running, as they were typed, without some of its options."""
    context = click.get_current_context()
    given: list[str] = []
    # arguments first, then options, as people write commands
    for parameter in sorted(context.command.params, key=lambda one: isinstance(one, click.Option)):
        # Defaults are left out: a later version may have others, and the page shows what was asked for.
        typed = context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
        if not typed or parameter.name in leave_out:
            continue
        value = context.params[parameter.name]
        for one in value if isinstance(value, tuple) else (value,):
            given += [parameter.opts[0], str(one)] if isinstance(parameter, click.Option) else [str(one)]
    return tuple(given)


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
        # Python would print the line of code that warned, which says nothing to a user of the command.
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
        # 128 + the number of the signal, as shells do
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


#: Advice that names Python arguments, and the same advice for the command line. Recordings are read and checked by the
#: package, whose messages name its arguments; a user of the command line knows options.
_PHRASES = {
    "use the preset 'epochs' or a preparation with band=None": "use --preset epochs",
    "set window=(start, stop); choose another preparation": "use another --preset",
    "to score it without labels, give unlabelled=True": "to score it without labels, use mixnorm predict --unlabelled",
    "recipe='": "--recipe '",
    "max_gib=": "--max-gib ",
    "use_bads=True": "--use-bads",
    "n_samples=…": "--samples …",
}
_PYTHON = re.compile(r"\b(target|nontarget|drop|ch_names|sfreq|subjects|reject)=(…|\[(?:'[^']*'|\"[^\"]*\"|, )+\])")


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


def describe(runs: Sequence[AnyRun], named: Collection[str] = (), forbid: bool = False) -> None:
    """Print on stderr what was read, and warnings about it.

    `named`: channels that need no warning; `forbid`: whether the command has that option.
    """
    for run in runs:
        click.echo(for_terminal(as_options(run.describe()), keep="\n"), err=True)
    # Many files mark every channel as EEG. Channels that the user names with --keep or --forbid need no warning.
    # The first recording is enough: all that are used together must have the same channels.
    odd = [name for name in no_electrodes(runs[0].ch_names) if name.lower() not in {one.lower() for one in named}]
    if odd:
        drop = as_options(f"drop={odd}")
        message = (
            f"Warning: {', '.join(odd)}: by their names not EEG electrodes, but the recording marks them as EEG, so "
            f"that they may be selected; exclude them with {drop}{' or --forbid' if forbid else ''}"
        )
        click.echo(for_terminal(message), err=True)
    unnamed = one_subject(unnamed_recordings(runs))
    if unnamed:
        click.echo(for_terminal(f"Note: {unnamed}"), err=True)


def check_writable(path: Path, option: str) -> None:
    """Raise an error, before any long computation, where a file could not be written."""
    if path.exists() and not path.is_file():
        if path.is_dir():
            raise ValueError(f"{path}: this is a folder, not a file; give another {option}.")
        return  # a device or a pipe, such as /dev/stdout
    if not path.absolute().parent.is_dir():
        raise ValueError(f"{path}: the folder {path.parent} does not exist; create it or give another {option}.")
    try:
        # A real attempt: permissions, quotas and read-only file systems cannot be told from the mode alone.
        with tempfile.TemporaryFile(dir=path.absolute().parent):
            pass
    except OSError as error:
        raise ValueError(f"{path}: no file can be written there ({error.strerror}); give another {option}.") from error


def load_decoder(path: Path) -> Decoder:
    """Load a model file, which must contain a decoder."""
    decoder = load(path)
    if isinstance(decoder, CohortDecoder):
        raise ValueError(
            f"{path}: this is a model of several subjects. Save the decoder of one with `mixnorm predict MODEL "
            "RECORDING --save-adapted FILE` and --subject NAME, or --adapt RECORDING for a new subject."
        )
    if not isinstance(decoder, Decoder):
        raise ValueError(f"{path}: this is a {type(decoder).__name__}, not a decoder; train one with `mixnorm train`")
    return decoder


def print_json(document: dict[str, Any], output: Path | None = None) -> None:
    """Print one JSON object; NaN and infinite values become null."""
    # `allow_nan=False` would find what `_plain` forgot: NaN is not JSON, and other programs refuse it.
    text = json.dumps(_plain(document), allow_nan=False, ensure_ascii=False, indent=2)
    if output is None:
        click.echo(for_json(text))
    else:
        write_text(output, text + "\n")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
