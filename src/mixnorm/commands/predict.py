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
from mixnorm.commands.common import check_writable, json_option, messages, print_json, read_options, reading_options
from mixnorm.core.files import write_text
from mixnorm.eeg import Decoder, Scores, read_recordings
from mixnorm.eeg.recording import UNKNOWN

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
@click.option("--subject", help="Subject of a model of several subjects [the subject that RECORDING names].")
@click.option("--adapt", metavar="RECORDING", help="Calibration recording of a new subject, with labels or without.")
@click.option(
    "--save-adapted",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Model file for the decoder of the new subject (.mixnorm).",
)
@click.option("--unlabelled", is_flag=True, help="Score every stimulus, with or without a label.")
@reading_options
@json_option
def predict(model: Path, recording: str, output: Path | None, as_json: bool, **options: Any) -> None:
    """Score every event of RECORDING with MODEL; positive scores indicate a target."""
    whose = SubjectOptions(options.pop("subject"), options.pop("adapt"), options.pop("save_adapted"))
    with messages():
        if output is not None:
            check_writable(output, "-o")
        decoder = decoder_for(load(model), whose, recording, read_options(options))
        if not isinstance(decoder, Decoder):
            raise ValueError(
                f"{model}: this is a {type(decoder).__name__}, not a decoder; train one with `mixnorm train`"
            )
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
    writer.writerows(rows)
    if output is None:
        click.echo(text.getvalue(), nl=False)
    else:
        write_text(output, text.getvalue())
