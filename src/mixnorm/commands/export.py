"""``mixnorm export MODEL --to onnx|bci2000``: a decoder for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from mixnorm.commands.common import (
    check_writable,
    json_option,
    load_decoder,
    messages,
    print_json,
    read_options,
    reading_options,
)
from mixnorm.core.files import whole_file, write_text
from mixnorm.eeg import Decoder, read_recordings
from mixnorm.eeg.export import ExportError, to_bci2000, to_onnx
from mixnorm.eeg.export.parameters import clips, score_change

SUFFIXES = {"onnx": ".onnx", "bci2000": ".prm"}


@click.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--to", "program", type=click.Choice(list(SUFFIXES)), required=True, help="Format to write.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Output file [default: MODEL with .onnx or .prm].",
)
@click.option("--without-clipping", is_flag=True, help="For bci2000: leave out the clipping of amplitudes.")
@click.option(
    "--check", metavar="RECORDING", help="For bci2000: print how much the scores of this recording would change."
)
@reading_options
@json_option
def export(
    model: Path,
    program: str,
    output: Path | None,
    without_clipping: bool,
    check: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Write MODEL for another program; nothing is written where that program would compute other scores."""
    output = output or model.with_suffix(SUFFIXES[program])
    with messages():
        check_writable(output, "-o")
        decoder = load_decoder(model)
        # Before the export: where BCI2000 cannot compute the model, the error says by how much the scores would
        # differ.
        change = _change(decoder, check, options) if check else None
        report = {"model": str(model), "to": program, "output": str(output), "constant": None, "notes": []}
        if program == "onnx":
            _write_onnx(decoder, output)
        else:
            report |= _write_bci2000(decoder, output, without_clipping, change)
    if as_json:
        print_json(report | {"change": change})
        return
    for note in report["notes"]:
        click.echo(note, err=True)
    click.echo(str(output))


def _write_onnx(decoder: Decoder, output: Path) -> None:
    # first the content, then the file: an error of the conversion leaves no file
    content = to_onnx(decoder).SerializeToString()
    with whole_file(output) as file:
        file.write(content)


def _write_bci2000(
    decoder: Decoder, output: Path, without_clipping: bool, change: dict[str, Any] | None
) -> dict[str, Any]:
    said = _said(change) if change else None
    try:
        exported = to_bci2000(decoder, without_clipping=without_clipping)
    except ExportError as error:
        raise ValueError(f"{error}; {said or '--check RECORDING says how much the scores would change'}.") from error
    write_text(output, exported.text)
    # A model that does not clip loses nothing without it, and needs no note.
    left_out = [f"Clipping is left out: {said or 'scores of trials with large amplitudes change'}."]
    notes = [*exported.notes, *(left_out if clips(decoder) else [])]
    return {"constant": exported.constant, "notes": notes}


def _change(decoder: Decoder, check: str, options: dict[str, Any]) -> dict[str, Any]:
    """How much scores of a recording change in BCI2000."""
    found = [score_change(decoder, run) for run in read_recordings(check, **read_options(options))]
    share, median, _ = np.mean(found, axis=0).tolist()
    # not a mean: one run in which a score changes much would be hidden by the others
    largest = max(one.largest for one in found)
    return {"recording": check, "share_of_trials": share, "median_change_sd": median, "largest_change_sd": largest}


def _said(change: dict[str, Any]) -> str:
    return (
        f"on {change['recording']}, BCI2000 would change the scores of {100 * change['share_of_trials']:.1f} % of the "
        f"trials, by at most {change['largest_change_sd']:.2g} of their standard deviation (median "
        f"{change['median_change_sd']:.2g})"
    )
