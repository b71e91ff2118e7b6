"""``mixnorm predict MODEL RECORDING``: a score for every event, as CSV or JSON."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import click
import numpy as np
from sklearn.metrics import roc_auc_score

from mixnorm.commands.common import (
    check_writable,
    json_option,
    load_decoder,
    messages,
    print_json,
    read_options,
    reading_options,
)
from mixnorm.core.files import write_text
from mixnorm.eeg import Scores, read_recordings
from mixnorm.eeg.recording import UNKNOWN
from mixnorm.report.safe_text import for_spreadsheet, for_terminal

COLUMNS = ("recording", "onset", "stimulus", "character", "target", "score")


@click.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("recording")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Output file [standard output].",
)
@click.option("--unlabelled", is_flag=True, help="Score every stimulus, with or without a label.")
@reading_options
@json_option
def predict(model: Path, recording: str, output: Path | None, as_json: bool, **options: Any) -> None:
    """Score every event of RECORDING with MODEL; positive scores indicate a target."""
    with messages():
        if output is not None:
            check_writable(output, "-o")
        decoder = load_decoder(model)
        rows = []
        for run in read_recordings(recording, **read_options(options)):
            rows += _rows(run.source, decoder.predict(run))
        if as_json:
            print_json({"model": str(model), "recording": recording, "auc": _auc(rows), "scores": rows}, output)
        else:
            _write_csv(rows, output)


def _rows(source: str, scores: Scores) -> list[dict[str, Any]]:
    """One row per event; None for missing values."""
    columns = zip(
        scores.onset.tolist(),
        scores.stimulus.tolist(),
        scores.character.tolist(),
        scores.target.tolist(),
        scores.score.tolist(),
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
        }
        for onset, stimulus, character, target, score in columns
    ]


def _auc(rows: list[dict[str, Any]]) -> float | None:
    scored = [(row["target"], row["score"]) for row in rows if None not in (row["target"], row["score"])]
    if len({target for target, _ in scored}) < 2:
        return None
    return float(roc_auc_score(*zip(*scored, strict=True)))


def _write_csv(rows: list[dict[str, Any]], output: Path | None) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS)
    writer.writeheader()
    writer.writerows({**row, "recording": for_spreadsheet(for_terminal(row["recording"]))} for row in rows)
    if output is None:
        click.echo(text.getvalue(), nl=False)
    else:
        write_text(output, text.getvalue())
