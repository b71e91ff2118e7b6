"""``mixnorm train RECORDING… -o MODEL.mixnorm``: from recordings to a model and its electrodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from click.core import ParameterSource
from numpy.typing import NDArray
from sklearn.base import clone

from mixnorm import save
from mixnorm.commands.bars import progress
from mixnorm.commands.cohort import JOINT, cohort_text, note_pooled, train_cohort
from mixnorm.commands.common import (
    ABOUT_PREPARATION,
    check_writable,
    describe,
    folds_option,
    json_option,
    messages,
    preparation_of,
    print_json,
    read_options,
    reading_options,
    reject_option,
    samples_options,
    subjects_option,
)
from mixnorm.eeg import (
    PRESETS,
    Decoder,
    Design,
    default_classifier,
    honest_folds,
    prepare,
    read_recordings,
)
from mixnorm.eeg.events import UNKNOWN
from mixnorm.eeg.sources import as_recordings
from mixnorm.eeg.splitting import HeldOutScores, auc_by_fold, held_out_scores
from mixnorm.eeg.training import Training, calibration_bins
from mixnorm.estimators.persistence import check_model_path
from mixnorm.estimators.settings import N_WINDOWS, SETTINGS
from mixnorm.estimators.svc_cv import GroupSVCCV
from mixnorm.estimators.windows import window_of_samples
from mixnorm.montage.assembly import window_ends
from mixnorm.montage.caution import CHANCE, FEWEST_FOLDS
from mixnorm.montage.decoders import decoder_on
from mixnorm.montage.intervals import corrected_interval, mean_known
from mixnorm.montage.preselection import PreselectedSVC, calibrated
from mixnorm.montage.scored_windows import check_windows
from mixnorm.montage.sentences import covered
from mixnorm.report.safe_text import for_terminal

_ONE_CHARACTER = (
    "Caution: all trials are of one character, so that the targets are always the same flash codes, and the folds are "
    "neighbouring parts of one segment of EEG. AUC and probabilities may be too high; spell known letters to check."
)

_COULD_BE_CHANCE = (
    "Caution: the interval includes chance level (0.5), so that this model may have learned nothing. Check the event "
    "names and the window, or record more trials."
)
_BELOW_CHANCE = (
    "Caution: the AUC is below chance level (0.5). Check whether the event names of targets and non-targets are "
    "exchanged in some of the recordings."
)

#: The method that chooses windows of time, too.
WHEN = "gsvm-2-when"


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
    help="Preparation [default: by file type].",
)
@reject_option
@samples_options
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
@click.option(
    "--adapt",
    metavar="RECORDING",
    help=f"Calibration recording of a new subject, with labels or without: save its decoder, trained with those of "
    f"RECORDINGS (--method {JOINT}).",
)
@click.option(
    "--windows",
    type=click.IntRange(1),
    metavar="N",
    help=f"Number of windows of time [default: {N_WINDOWS}], for --method {WHEN} only.",
)
@subjects_option
@reading_options
@json_option
def train(
    recordings: tuple[str, ...],
    output: Path,
    n_folds: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Train a decoder on RECORDINGS; print its held-out AUC and the electrodes that it uses."""
    n_sensors, method, rule = options.pop("max_sensors"), options.pop("method"), options.pop("rule")
    adapt = options.pop("adapt")
    prepared = {name: options.pop(name) for name in ABOUT_PREPARATION}
    windows = options.pop("windows")
    if windows is not None and method != WHEN:
        raise click.UsageError(f"--windows is for --method {WHEN}, but the method is {method}.")
    with messages():
        method = _method(method, adapt)
        if method == JOINT:
            if n_sensors is not None:
                raise ValueError(f"--max-sensors cannot be used with --method {JOINT}, which uses all electrodes.")
            report = train_cohort(recordings, output, prepared, n_folds, read_options(options), adapt)
            print_json(report) if as_json else click.echo(cohort_text(report))
            return
        # Names are checked before recordings are read, which can take minutes.
        classifier = default_classifier(method, rule=rule)
        check_model_path(output)
        check_writable(output, "-o")
        runs = read_recordings(*recordings, **read_options(options))
        describe(runs)
        runs = as_recordings(runs)
        design = prepare(runs, preparation_of(prepared, runs))
        note_pooled(design)
        if method == WHEN:
            classifier.set_params(windows=_n_windows(windows, len(design.times)))
        folds = honest_folds(design, n_folds)
        # With as many electrodes as there are, nothing needs to be chosen first.
        chosen = n_sensors is not None and n_sensors < len(design.ch_names)
        model = PreselectedSVC(n_sensors, classifier) if chosen else classifier
        with progress(len(folds) + 1, "fits") as bar:
            # Electrodes are chosen again without each fold: choosing them on all trials would make the AUC too high.
            held_out = held_out_scores(design, lambda: clone(model), folds, lambda _: bar.update())
            aucs = auc_by_fold(design, held_out.score, folds)
            decoder = _decoder(design, runs, model)
            decoder = replace(decoder, training=_training(design, runs, method, folds.by, aucs, held_out))
            bar.update()
        save(decoder, output)
    report = _report(decoder, design, folds.by, aucs) | {
        "excluded_channels": {name: why for run in runs for name, why in run.excluded.items()},
        "model": str(output),
        "recordings": list(recordings),
    }
    if as_json:
        print_json(report)
    else:
        click.echo(for_terminal(_text(report), keep="\n"))


def _method(asked: str, adapt: str | None) -> str:
    """The method that was asked for; with --adapt, the one for several subjects."""
    if adapt is None:
        return asked
    # The default method is not an answer to --adapt; one that was typed contradicts it.
    typed = click.get_current_context().get_parameter_source("method") is ParameterSource.COMMANDLINE
    if typed and asked != JOINT:
        raise ValueError(f"--adapt cannot be used with --method {asked}; use --method {JOINT}.")
    return JOINT


def _decoder(design: Design, runs: list[Any], model: GroupSVCCV | PreselectedSVC) -> Decoder:
    """Fit on all trials; of electrodes that were chosen first, the decoder requires no others."""
    if not isinstance(model, PreselectedSVC):
        return Decoder.from_design(design, runs[0].ch_names, model)
    X, y, groups = design.to_sklearn()
    scaler = design.preparation.scaler().fit(X)
    kept = scaler.accepted(X, y)
    order = model.fit(scaler.transform(X[kept]), y[kept], groups[kept]).order_
    chosen = [design.ch_names[i] for i in order[: model.n_sensors]]
    return calibrated(decoder_on(design, chosen, model.classifier, runs), design, model)


def _training(
    design: Design, runs: list[Any], method: str, by: str, aucs: list[float | None], held_out: HeldOutScores
) -> Training:
    """What the model file keeps of the training."""
    # NaN for a fold with one class only, which the mean and the interval leave out
    known = np.array([[np.nan if auc is None else auc for auc in aucs]])
    # the ratio of test to training trials of a fold, 1 : (folds − 1)
    low, high = corrected_interval(known, 1 / max(len(aucs) - 1, 1))
    return Training(
        recordings=tuple(Path(run.source).name for run in runs),
        subjects=tuple(np.unique(design.subject).tolist()),
        sessions=tuple(np.unique(design.session).tolist()),
        n_trials=len(design),
        n_targets=int(design.y.sum()),
        method=method,
        folds_by=by,
        auc_by_fold=tuple(aucs),
        auc=_known(mean_known(known, axis=1)),
        auc_low=_known(low),
        auc_high=_known(high),
        calibrated=held_out.calibrated,
        calibration=calibration_bins(held_out.probability, design.y),
    )


def _known(value: NDArray[np.float64]) -> float | None:
    return float(value[0]) if np.isfinite(value[0]) else None


def _report(decoder: Decoder, design: Design, by: str, aucs: list[float | None]) -> dict[str, Any]:
    known = [auc for auc in aucs if auc is not None]
    return {
        "auc": float(np.mean(known)) if known else None,
        "auc_low": None if decoder.training is None else decoder.training.auc_low,
        "auc_high": None if decoder.training is None else decoder.training.auc_high,
        "auc_by_fold": aucs,
        "folds_by": by,
        "n_trials": len(design),
        "n_targets": int(design.y.sum()),
        "left_out": design.left_out.counts(),
        "rejected_in_training": design.rejected().counts(),
        "n_channels": len(design.ch_names),
        "n_characters": _n_characters(design),
        "electrodes": list(decoder.selected),
        "alpha": float(decoder.classifier.alpha_),
        "windows": _windows(decoder),
        "window_share": decoder.classifier.window_share_ if hasattr(decoder.classifier, "windows_") else None,
        "times": decoder.times.tolist(),
        "preparation": decoder.preparation.to_dict(),
    }


def _n_windows(asked: int | None, n_samples: int) -> int:
    """The number of windows: that asked for, or the usual one, but not more than there are samples."""
    if asked is None:
        return min(N_WINDOWS, n_samples)
    check_windows(asked, n_samples)
    return asked


def _windows(decoder: Decoder) -> list[dict[str, Any]] | None:
    """The windows of time in order; None for a method that has none."""
    model = decoder.classifier
    if not hasattr(model, "windows_"):
        return None
    ends = window_ends(decoder.times, window_of_samples(model, len(decoder.times)))
    norms = model.window_norms_.tolist()
    return [
        {"start": start, "stop": stop, "norm": norm, "selected": norm > 0}
        for (start, stop), norm in zip(ends, norms, strict=True)
    ]


def _n_characters(design: Design) -> int | None:
    """Number of characters; None where the recordings do not say which trials belong to one."""
    known = design.character != UNKNOWN
    if known.all():
        return len(np.unique(design.character))
    # A speller's recording without pauses: one character, if every code is either a target or not.
    labels = {(int(code), int(label)) for code, label in zip(design.stimulus, design.y, strict=True)}
    codes = {code for code, _ in labels}
    return 1 if UNKNOWN not in codes and len(labels) == len(codes) else None


def _text(report: dict[str, Any]) -> str:
    folds = ", ".join("–" if auc is None else f"{auc:.3f}" for auc in report["auc_by_fold"])
    chosen = report["electrodes"]
    auc = "–" if report["auc"] is None else f"{report['auc']:.3f}"
    low, high = report["auc_low"], report["auc_high"]
    interval = "" if low is None else f" (95 % interval {low:.3f} to {high:.3f})"
    one = report["n_characters"] == 1
    return "\n".join(
        [
            f"{report['n_trials']} trials, {report['n_targets']} of them targets{_fewer(report)}",
            f"AUC {auc}{interval}, leaving out one {report['folds_by']} fold at a time ({folds})",
            *_about_chance(report),
            f"{len(chosen)} of {report['n_channels']} electrodes: {', '.join(chosen)}",
            *([_windows_text(report["windows"])] if report["windows"] else []),
            f"model saved as {report['model']}",
            *([_ONE_CHARACTER] if one else []),
        ]
    )


def _about_chance(report: dict[str, Any]) -> list[str]:
    """Cautions if the AUC is not above chance level."""
    # with fewer folds, the interval over folds nearly always includes chance level
    n_folds = sum(auc is not None for auc in report["auc_by_fold"])
    if n_folds < FEWEST_FOLDS or report["auc_low"] is None or report["auc_low"] > CHANCE:
        return []
    return [_BELOW_CHANCE if report["auc_high"] < CHANCE else _COULD_BE_CHANCE]


def _windows_text(windows: list[dict[str, Any]]) -> str:
    chosen = [(one["start"], one["stop"]) for one in windows if one["selected"]]
    return f"{len(chosen)} of {len(windows)} windows: {', '.join(covered(chosen)) or 'none'}"


def _fewer(report: dict[str, Any]) -> str:
    """How many trials were left out; the warnings have said why."""
    left_out, rejected = report["left_out"]["n_trials"], report["rejected_in_training"]["n_trials"]
    parts = [f"{left_out} left out"] if left_out else []
    if rejected:
        parts.append(f"{rejected} beyond the limit, not used in training")
    return f" ({'; '.join(parts)})" if parts else ""
