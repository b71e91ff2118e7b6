"""What subcommands share: reading options, errors as messages, JSON without NaN, progress on stderr."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from tqdm import tqdm

from mixnorm.eeg import RecordingError

_READING = (
    click.option("--target", multiple=True, metavar="NAME", help="Event that is a target; may be repeated."),
    click.option("--nontarget", multiple=True, metavar="NAME", help="Event that is none; may be repeated."),
    click.option("--drop", multiple=True, metavar="CHANNEL", help="Channel to leave out; may be repeated."),
    click.option("--ch-names", metavar="A,B,…", help="Channel names, for files that have none."),
    click.option("--sfreq", type=float, metavar="HZ", help="Sampling rate, for files that have none."),
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")


def reading_options(command: Callable) -> Callable:
    """Add the options about how to read recordings; the command gets them as ``**reading``."""
    for option in reversed(_READING):
        command = option(command)
    return command


def read_options(reading: dict[str, Any]) -> dict[str, Any]:
    """Command-line options as keywords of :func:`mixnorm.eeg.read_recordings`."""
    names = reading.pop("ch_names", None)
    return {**reading, "ch_names": tuple(names.split(",")) if names else ()}


@contextmanager
def messages() -> Iterator[None]:
    """Errors that a user can do something about, as one line on stderr and exit status 1."""
    try:
        yield
    except (RecordingError, ImportError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error


def progress(total: int | None, what: str) -> tqdm:
    """A progress bar on stderr."""
    return tqdm(total=total, desc=what, file=sys.stderr, leave=False)


def print_json(document: dict[str, Any], output: Path | None = None) -> None:
    """One JSON object; what is NaN or infinite does not exist and becomes null."""
    text = json.dumps(_plain(document), allow_nan=False, ensure_ascii=False, indent=2)
    if output is None:
        click.echo(text)
    else:
        output.write_text(text + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
