"""What ``mixnorm train`` and ``mixnorm predict`` do with models of several subjects."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from sklearn.metrics import roc_auc_score

from mixnorm import save
from mixnorm.commands.bars import progress
from mixnorm.commands.common import check_writable, describe, preparation_of
from mixnorm.eeg import CohortDecoder, Decoder, Design, prepare, read_recordings
from mixnorm.eeg.events import UNKNOWN
from mixnorm.eeg.sources import as_recordings
from mixnorm.eeg.splitting import N_FOLDS, dealt
from mixnorm.estimators.persistence import check_model_path
from mixnorm.report.safe_text import for_terminal

#: Name of the joint method, as in a study.
JOINT = "msvm-noise"
#: Fields of a `Design` that hold one value per trial.
_BY_TRIAL = ("X", "y", "subject", "session", "character", "stimulus", "onset", "run")


def train_cohort(
    recordings: tuple[str, ...],
    output: Path,
    prepared: dict[str, Any],
    n_folds: int | None,
    reading: dict[str, Any],
    adapt: str | None = None,
) -> dict[str, Any]:
    """Train a decoder of several subjects, save it and return the report.

    With ``adapt``, the calibration recording of a new subject, the decoder of the new subject is saved in its place.
    """
    check_model_path(output)
    check_writable(output, "-o")
    runs = read_recordings(*recordings, **reading)
    # `--subjects` names those of the training recordings, one for each of them
    calibration = [] if adapt is None else read_recordings(adapt, **{**reading, "subjects": ()})
    describe([*runs, *calibration])
    runs = as_recordings(runs)
    design = prepare(runs, preparation_of(prepared, runs))
    # Within each subject: a joint fit needs trials of all of them in every training set.
    number = _folds_within_subjects(design, n_folds or N_FOLDS)
    # the folds, and the fit on all trials with the adaptation
    with progress(number.max() + 2, "fits") as bar:
        # in the order of the recordings, which the report keeps
        aucs = {name: [] for name in dict.fromkeys(design.subject.tolist())}
        for fold in range(number.max() + 1):
            for name, auc in _held_out_aucs(design, number == fold).items():
                aucs[name].append(auc)
            bar.update()
        decoder = CohortDecoder.from_design(design, runs[0].ch_names)
        adapted = decoder.adapted(calibration) if calibration else None
        bar.update()
    save(decoder if adapted is None else adapted, output)
    by_subject = {name: _mean(values) for name, values in aucs.items()}
    return {
        "auc": _mean(list(by_subject.values())),
        "auc_by_subject": by_subject,
        "transfer_auc": decoder.classifier.transfer_auc_,
        "adapted_to": None if adapted is None else _about_new_subject(adapted, calibration, adapt),
        "folds_by": "character or block of each subject",
        "n_trials": len(design),
        "n_targets": int(design.y.sum()),
        "n_channels": len(design.ch_names),
        "subjects": list(decoder.subjects),
        "electrodes": list(decoder.selected),
        "alpha": decoder.classifier.alpha_,
        "similarity": decoder.classifier.similarity_,
        "times": decoder.times.tolist(),
        "preparation": decoder.preparation.to_dict(),
        "model": str(output),
        "recordings": list(recordings),
    }


def cohort_text(report: dict[str, Any]) -> str:
    """The report of `train_cohort` in words."""

    def shown(auc: float | None) -> str:
        return "–" if auc is None else f"{auc:.3f}"

    own = ", ".join(f"{name} {shown(auc)}" for name, auc in report["auc_by_subject"].items())
    lines = [
        f"{report['n_trials']} trials of {len(report['subjects'])} subjects, {report['n_targets']} of them targets",
        f"AUC {shown(report['auc'])} on held-out trials ({own})",
    ]
    if report["transfer_auc"] is not None:
        lines.append(f"AUC {shown(report['transfer_auc'])} on a subject that was left out, before calibration")
    if (new := report["adapted_to"]) is not None:
        labelled = f"{new['n_labelled']} of {new['n_trials']} trials have labels"
        own = f"AUC {shown(new['auc'])} on its trials, each held out" if new["auc"] is not None else "AUC unknown"
        lines.append(f"adapted to the subject of {new['recording']} ({labelled}); {own}")
    lines.append(f"model saved as {report['model']}")
    return for_terminal("\n".join(lines), keep="\n")


def _about_new_subject(decoder: Decoder, calibration: list[Any], recording: str | None) -> dict[str, Any]:
    """What the report says of a new subject: trials, labels, and the AUC of labelled trials that were held out."""
    y = np.concatenate([prepare([run], decoder.preparation).y for run in as_recordings(calibration)])
    scores, known = getattr(decoder.classifier, "out_of_fold_scores_", None), y != UNKNOWN
    # `adapted` scores labelled trials only, so that their number is that of the known labels.
    auc = None if scores is None else float(roc_auc_score(y[known], scores))
    return {"recording": recording, "n_trials": len(y), "n_labelled": int(known.sum()), "auc": auc}


def note_pooled(design: Design) -> None:
    """Say on stderr that a method for one subject makes one classifier for the trials of several."""
    names = np.unique(design.subject)
    if len(names) > 1:
        click.echo(
            f"Note: the trials of {len(names)} subjects are pooled in one classifier; --method {JOINT} trains one for "
            "each subject.",
            err=True,
        )


@dataclass(frozen=True)
class SubjectOptions:
    """Whose decoder of a model of several subjects is used: `subject`, or a new one calibrated on `adapt`."""

    subject: str | None
    adapt: str | None
    save_adapted: Path | None


def decoder_for(model: Any, whose: SubjectOptions, recording: str, reading: dict[str, Any]) -> Any:
    """Return the decoder of one subject where a model has several; other models are returned as they are."""
    given = {"--subject": whose.subject, "--adapt": whose.adapt, "--save-adapted": whose.save_adapted}
    # An option that has no effect is an error: the user would believe the scores to be those of another subject.
    if not isinstance(model, CohortDecoder):
        for option, value in given.items():
            if value is not None:
                raise ValueError(f"{option} is for a model of several subjects; this is one of a single subject.")
        return model
    if whose.save_adapted is not None:
        if whose.adapt is None and whose.subject is None:
            raise ValueError(
                "--save-adapted needs --adapt RECORDING, the calibration of a new subject, or --subject NAME."
            )
        # before the adaptation, which can take minutes
        check_model_path(whose.save_adapted)
        check_writable(whose.save_adapted, "--save-adapted")
    if whose.adapt is not None:
        if whose.subject is not None:
            raise ValueError(
                "--subject and --adapt cannot be used together: --subject names a subject of the model, --adapt "
                "calibrates a new one."
            )
        decoder = model.adapted(read_recordings(whose.adapt, **reading))
    else:
        decoder = _known_or_uncalibrated(model, whose.subject, recording, reading)
    if whose.save_adapted is not None:
        save(decoder, whose.save_adapted)
    return decoder


def _known_or_uncalibrated(
    model: CohortDecoder, subject: str | None, recording: str, reading: dict[str, Any]
) -> Decoder:
    """The decoder of a known subject; for an unknown one, that of the others, adapted to its trials without labels."""
    if subject is not None:
        if subject not in model.subjects:
            raise ValueError(f"unknown --subject {subject!r}; the model has {', '.join(model.subjects)}")
        return model.of_subject(subject)
    # read here for the name of its subject, which says whose decoder is used
    runs = read_recordings(recording, **reading)
    names = {str(name) for run in runs for name in np.unique(np.asarray(run.subject))}
    # Recordings of several subjects have no decoder of their own.
    if len(names) == 1 and (name := names.pop()) in model.subjects:
        return model.of_subject(name)
    click.echo(
        f"Note: {recording}: its subject is not one of the model ({', '.join(model.subjects)}). It is scored by what "
        "these have in common, adapted to its trials without their labels; calibrate with --adapt RECORDING, or name "
        "a subject with --subject.",
        err=True,
    )
    return model.adapted(runs, labels=False)


def _folds_within_subjects(design: Design, n_folds: int) -> np.ndarray:
    """Fold (n_trials,) in which a trial is held out: characters or blocks of each subject, in order of recording."""
    number, groups = np.empty(len(design), dtype=np.int64), design.trial_groups()
    for name in np.unique(design.subject):
        mine = design.subject == name
        number[mine] = dealt(groups[mine], n_folds)
    return number


def _held_out_aucs(design: Design, test: np.ndarray) -> dict[str, float | None]:
    """AUC of every subject on the trials of a fold, by decoders of the other trials; None where a class is missing."""
    train, held_out = (_taken(design, rows) for rows in (~test, test))
    model = CohortDecoder.from_design(train)
    found: dict[str, float | None] = {}
    for name in dict.fromkeys(design.subject.tolist()):
        mine = held_out.subject == name
        # an AUC needs both classes; the mean over folds leaves such a fold out
        if len(np.unique(held_out.y[mine])) < 2:
            found[name] = None
            continue
        # by the scaler of the subject's own training trials: amplitudes differ between subjects
        scaled = model.scalers[name].transform(held_out.X[mine])
        scores = model.classifier.decision_function(scaled, subjects=name)
        found[name] = float(roc_auc_score(held_out.y[mine], scores))
    return found


def _taken(design: Design, rows: np.ndarray) -> Design:
    return replace(design, **{name: getattr(design, name)[rows] for name in _BY_TRIAL})


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
