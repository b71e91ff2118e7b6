"""``mixnorm predict MODEL RECORDING``: a score for every event, as CSV or JSON."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import click
import numpy as np
from sklearn.metrics import roc_auc_score

from mixnorm import load
from mixnorm.commands.cohort import SubjectOptions, decoder_for
from mixnorm.commands.common import (
    as_options,
    check_writable,
    json_option,
    messages,
    print_json,
    read_options,
    reading_options,
)
from mixnorm.core.files import write_text
from mixnorm.eeg import Decoder, Scores, read_recordings
from mixnorm.eeg.events import UNKNOWN
from mixnorm.eeg.left_out import LeftOut
from mixnorm.report.safe_text import for_spreadsheet, for_terminal

COLUMNS = ("recording", "onset", "stimulus", "character", "target", "score", "reason")


@click.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("recording")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Output file [default: standard output].",
)
@click.option("--subject", help="Subject of a model of several subjects [default: the subject that RECORDING names].")
@click.option("--adapt", metavar="RECORDING", help="Calibration recording of a new subject, with labels or without.")
@click.option(
    "--save-adapted",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Model file for the decoder of the new subject, or of --subject (.mixnorm).",
)
@click.option("--unlabelled", is_flag=True, help="Score every stimulus, with or without a label.")
@reading_options
@json_option
def predict(model: Path, recording: str, output: Path | None, as_json: bool, **options: Any) -> None:
    """Score every event of RECORDING with MODEL; positive scores indicate a target."""
    whose = SubjectOptions(options.pop("subject"), options.pop("adapt"), options.pop("save_adapted"))
    with messages():
        # before the recordings are read, which can take minutes
        if output is not None:
            check_writable(output, "-o")
        decoder = decoder_for(load(model), whose, recording, read_options(options))
        if not isinstance(decoder, Decoder):
            raise ValueError(
                f"{model}: this is a {type(decoder).__name__}, not a decoder; train one with `mixnorm train`"
            )
        # A source may be a folder of several runs.
        rows, parts = [], []
        for run in read_recordings(recording, **read_options(options)):
            click.echo(for_terminal(as_options(run.describe()), keep="\n"), err=True)
            scores = decoder.predict(run)
            rows += _rows(run.source, scores)
            parts.append(scores.left_out)
        report = {
            "model": str(model),
            "recording": recording,
            "n_events": len(rows),
            "n_scored": sum(row["score"] is not None for row in rows),
            "left_out": LeftOut.together(parts).counts(),
            "auc": _auc(rows),
            "scores": rows,
        }
        if as_json:
            print_json(report, output)
        else:
            _write_csv(rows, output)
    # Where the scores themselves are printed, the summary must not be among them.
    click.echo(_summary(report, LeftOut.together(parts), output), err=as_json or output is None)


def _rows(source: str, scores: Scores) -> list[dict[str, Any]]:
    """One row per event; None for missing values."""
    # `tolist` gives Python's numbers, which JSON can hold.
    columns = zip(
        scores.onset.tolist(),
        scores.stimulus.tolist(),
        scores.character.tolist(),
        scores.target.tolist(),
        scores.score.tolist(),
        scores.reason.tolist(),
        strict=True,
    )
    return [
        {
            "recording": source,
            "onset": onset,
            "stimulus": None if stimulus == UNKNOWN else stimulus,
            "character": None if character == UNKNOWN else character,
            "target": None if target == UNKNOWN else target,
            "score": None if np.isnan(score) else score,
            "reason": reason or None,
        }
        for onset, stimulus, character, target, score, reason in columns
    ]


def _summary(report: dict[str, Any], left_out: LeftOut, output: Path | None) -> str:
    """How many events, what was left out, the AUC, and where the scores are."""
    lines = [f"{report['n_scored']} of {report['n_events']} events scored"]
    if len(left_out):
        lines.append(for_terminal(as_options(left_out.describe())))
    auc = report["auc"]
    lines.append("AUC unknown: it needs labels of both classes" if auc is None else f"AUC {auc:.3f}")
    lines.append(f"scores written to {output or 'standard output'}")
    return "\n".join(lines)


def _auc(rows: list[dict[str, Any]]) -> float | None:
    scored = [(row["target"], row["score"]) for row in rows if None not in (row["target"], row["score"])]
    # None instead of an error: scoring without labels is the usual case.
    if len({target for target, _ in scored}) < 2:
        return None
    return float(roc_auc_score(*zip(*scored, strict=True)))


def _write_csv(rows: list[dict[str, Any]], output: Path | None) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS)
    writer.writeheader()
    # paths are the only text in the table that comes from outside
    writer.writerows({**row, "recording": for_spreadsheet(for_terminal(row["recording"]))} for row in rows)
    if output is None:
        click.echo(text.getvalue(), nl=False)
    else:
        write_text(output, text.getvalue())
