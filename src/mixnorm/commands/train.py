"""``mixnorm train RECORDING… -o MODEL.mixnorm``: from recordings to a model and its electrodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
from sklearn.base import clone

from mixnorm import save
from mixnorm.commands.cohort import JOINT, cohort_text, note_pooled, train_cohort
from mixnorm.commands.common import (
    check_writable,
    describe,
    folds_option,
    json_option,
    messages,
    print_json,
    progress,
    read_options,
    reading_options,
    subjects_option,
)
from mixnorm.eeg import (
    PRESETS,
    Decoder,
    Design,
    Preparation,
    default_classifier,
    honest_folds,
    prepare,
    read_recordings,
)
from mixnorm.eeg.splitting import cross_validated_auc
from mixnorm.estimators.persistence import check_model_path
from mixnorm.estimators.settings import SETTINGS
from mixnorm.estimators.svc_cv import GroupSVCCV
from mixnorm.montage.decoders import decoder_on
from mixnorm.montage.preselection import PreselectedSVC


@click.command()
@click.argument("recordings", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Model file to write (.mixnorm).",
)
@click.option(
    "--preset",
    type=click.Choice(list(PRESETS)),
    help="Preparation [default for continuous recordings, epochs for epochs].",
)
@folds_option
@click.option(
    "--rule",
    type=click.Choice(["best", "1se"]),
    default="best",
    show_default=True,
    help="How to choose alpha: best AUC, or largest within one standard error.",
)
@click.option(
    "--method",
    type=click.Choice([*SETTINGS, JOINT]),
    default="svm-noise",
    show_default=True,
    help=f"Classifier, by its name in a study; {JOINT}: several subjects together, a classifier for each.",
)
@click.option(
    "--max-sensors", type=click.IntRange(1), help="First choose this many electrodes, as mixnorm select does."
)
@subjects_option
@reading_options
@json_option
def train(
    recordings: tuple[str, ...],
    output: Path,
    preset: str | None,
    n_folds: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Train a decoder on RECORDINGS; print its held-out AUC and the electrodes that it uses."""
    n_sensors, method, rule = options.pop("max_sensors"), options.pop("method"), options.pop("rule")
    with messages():
        if method == JOINT:
            report = train_cohort(recordings, output, preset, n_folds, n_sensors, read_options(options))
            print_json(report) if as_json else click.echo(cohort_text(report))
            return
        classifier = default_classifier(method, rule=rule)
        check_model_path(output)
        check_writable(output, "-o")
        runs = read_recordings(*recordings, **read_options(options))
        describe(runs)
        design = prepare(runs, Preparation.preset(preset) if preset else None)
        note_pooled(design)
        folds = honest_folds(design, n_folds)
        chosen = n_sensors is not None and n_sensors < len(design.ch_names)
        model = PreselectedSVC(n_sensors, classifier) if chosen else classifier
        with progress(len(folds) + 1, "fits") as bar:
            aucs = cross_validated_auc(design, lambda: clone(model), folds, lambda _: bar.update())
            decoder = _decoder(design, runs, model)
            bar.update()
        save(decoder, output)
    report = _report(decoder, design, folds.by, aucs) | {"model": str(output), "recordings": list(recordings)}
    if as_json:
        print_json(report)
    else:
        click.echo(_text(report))


def _decoder(design: Design, runs: list[Any], model: GroupSVCCV | PreselectedSVC) -> Decoder:
    """Fit on all trials; of electrodes that were chosen first, the decoder requires no others."""
    if not isinstance(model, PreselectedSVC):
        return Decoder.from_design(design, runs[0].ch_names, model)
    X, y, groups = design.to_sklearn()
    order = model.fit(design.preparation.scaler().fit(X).transform(X), y, groups).order_
    return decoder_on(design, [design.ch_names[i] for i in order[: model.n_sensors]], model.classifier, runs)


def _report(decoder: Decoder, design: Design, by: str, aucs: list[float | None]) -> dict[str, Any]:
    known = [auc for auc in aucs if auc is not None]
    return {
        "auc": float(np.mean(known)) if known else None,
        "auc_by_fold": aucs,
        "folds_by": by,
        "n_trials": len(design),
        "n_targets": int(design.y.sum()),
        "n_channels": len(design.ch_names),
        "electrodes": list(decoder.selected),
        "alpha": float(decoder.classifier.alpha_),
        "times": decoder.times.tolist(),
        "preparation": decoder.preparation.to_dict(),
    }


def _text(report: dict[str, Any]) -> str:
    folds = ", ".join("–" if auc is None else f"{auc:.3f}" for auc in report["auc_by_fold"])
    chosen = report["electrodes"]
    auc = "–" if report["auc"] is None else f"{report['auc']:.3f}"
    return "\n".join(
        [
            f"{report['n_trials']} trials, {report['n_targets']} of them targets",
            f"AUC {auc}, leaving out one {report['folds_by']} fold at a time ({folds})",
            f"{len(chosen)} of {report['n_channels']} electrodes: {', '.join(chosen)}",
            f"model saved as {report['model']}",
        ]
    )
