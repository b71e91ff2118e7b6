"""Decoders of a chosen montage: one for each subject, and one of all subjects for a new subject."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from mixnorm.eeg.decoder import Decoder
from mixnorm.eeg.design import Design
from mixnorm.eeg.evidence import flash_correlation
from mixnorm.estimators.fixed_alpha import with_held_out_scores
from mixnorm.estimators.svc import GroupSVC
from mixnorm.estimators.svc_cv import GroupSVCCV
from mixnorm.montage.refits import montage_classifier
from mixnorm.montage.result import Montage

DECODERS_FOLDER = "decoders"
"""Folder of the decoders of every montage, in the results folder."""


@dataclass(frozen=True, eq=False)
class HeldOutSubject:
    """Scores of a subject's trials (n,) by decoders of other trials, NaN where there is none, and AUCs (folds,)."""

    scores: NDArray[np.float64]
    aucs: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HeldOutTrials:
    """Held-out scores of one montage size, by subject.

    Attributes
    ----------
    own : dict of str to HeldOutSubject
        By decoders of the same subject, whose electrodes and alpha were chosen without the trials that they score.
    by_others : dict of str to HeldOutSubject
        With several subjects, by a decoder of all others, with the electrodes that were chosen on all trials.
    """

    own: Mapping[str, HeldOutSubject]
    by_others: Mapping[str, HeldOutSubject]


@dataclass(frozen=True, eq=False)
class MontageDecoders:
    """The decoders of one montage.

    Attributes
    ----------
    pooled : Decoder
        Fitted on the trials of all subjects.
    by_subject : dict of str to Decoder
        With several subjects one for each; otherwise empty.
    """

    pooled: Decoder
    by_subject: dict[str, Decoder]

    @classmethod
    def fit(
        cls,
        design: Design,
        sensors: Sequence[str],
        alphas: Mapping[str, float],
        recordings: Sequence[Any],
        held_out: HeldOutTrials,
    ) -> MontageDecoders:
        """Fit on all trials of a design, each subject at its own alpha, and calibrate by the held-out scores.

        With several subjects, the decoder of all of them is for somebody new: it is calibrated by the scores that each
        subject has by a decoder of the others.
        """
        # fitted on all trials, with nothing held out: its scores of them would be too good to calibrate by
        pooled = pooled_decoder(design, sensors, alphas, recordings)
        if len(alphas) == 1:
            (own,) = held_out.own.values()
            return cls(calibrated(pooled, design, own), {})
        by_subject = {}
        for name, decoder in decoders_by_subject(design, sensors, alphas, recordings).items():
            by_subject[name] = calibrated(decoder, trials_of(design, design.subject == name), held_out.own[name])
        # Trials keep their place in the design, whatever the order of the subjects.
        scores = np.full(len(design.y), np.nan)
        for name, others in held_out.by_others.items():
            scores[design.subject == name] = others.scores
        aucs = np.concatenate([others.aucs for others in held_out.by_others.values()])
        return cls(calibrated(pooled, design, HeldOutSubject(scores, aucs)), by_subject)


def calibrated(decoder: Decoder, design: Design, held_out: HeldOutSubject) -> Decoder:
    """Calibrate a decoder by scores of its training trials that had no part in the choice of electrodes and alpha."""
    if not np.isfinite(held_out.scores).any():  # no fold could be scored: a decoder without probabilities
        return decoder
    classifier = with_held_out_scores(decoder.classifier, design.y, held_out.scores, held_out.aucs)
    correlation = flash_correlation(held_out.scores, design.y, design.stimulus, design.character)
    return replace(decoder, classifier=classifier, flash_correlation=correlation)


def decoder_file(n_sensors: int, chosen: bool) -> str:
    """Name of the file with the decoder of a montage; the montage put forward has one in the results folder itself."""
    return "montage.mixnorm" if chosen else f"{DECODERS_FOLDER}/montage-{n_sensors}.mixnorm"


def with_decoder_files(
    montages: Iterable[Montage], n_chosen: int, by_size: Mapping[int, MontageDecoders]
) -> tuple[Montage, ...]:
    """The montages with the names of their decoder files, where there are decoders."""
    return tuple(
        replace(one, decoder=decoder_file(one.n_sensors, one.n_sensors == n_chosen))
        if one.n_sensors == n_chosen or one.n_sensors in by_size
        else one
        for one in montages
    )


def pooled_decoder(
    design: Design, sensors: Sequence[str], alphas: Mapping[str, float], recordings: Sequence[Any]
) -> Decoder:
    """One classifier trained on the trials of all subjects, at the median of the subjects' alphas."""
    # not the mean: alphas differ by powers of ten, and a subject with few trials may have chosen an extreme one
    return decoder_on(design, sensors, montage_classifier(float(np.median(list(alphas.values())))), recordings)


def decoders_by_subject(
    design: Design, sensors: Sequence[str], alphas: Mapping[str, float], recordings: Sequence[Any]
) -> dict[str, Decoder]:
    """One decoder for each subject, trained on the subject's trials at the subject's alpha."""
    return {
        name: decoder_on(
            trials_of(design, design.subject == name), sensors, montage_classifier(float(alpha)), recordings
        )
        for name, alpha in alphas.items()
    }


def scores_by_others(design: Design, sensors: Sequence[str], alphas: Mapping[str, float]) -> dict[str, HeldOutSubject]:
    """Each subject's trials, scored by the classifier that is trained on the pooled trials of all other subjects.

    The classifier has not seen these trials; the choice of the electrodes has. Empty for a single subject.
    """
    if len(alphas) == 1:
        return {}
    part = _with_sensors(design, sensors)
    found = {}
    for name in alphas:
        own = part.subject == name
        # without this subject's own alpha, which was chosen on the trials that are scored here
        alpha = float(np.median([alpha for other, alpha in alphas.items() if other != name]))
        scaler = part.preparation.scaler().fit(part.X[~own])
        # trials beyond the peak-to-peak limit are not learned from, but all trials of the new subject are scored
        known = ~own
        known[known] = scaler.accepted(part.X[known], part.y[known])
        model = montage_classifier(alpha).fit(scaler.transform(part.X[known]), part.y[known])
        scores = model.decision_function(scaler.transform(part.X[own]))
        found[name] = HeldOutSubject(scores, np.array([roc_auc_score(part.y[own], scores)]))
    return found


def trials_of(design: Design, mask: NDArray[np.bool_]) -> Design:
    """Some of the trials of a design."""
    names = ("X", "y", "subject", "session", "character", "stimulus", "onset", "run")
    return replace(design, **{name: getattr(design, name)[mask] for name in names})


def decoder_on(
    design: Design, sensors: Sequence[str], classifier: GroupSVC | GroupSVCCV, recordings: Sequence[Any]
) -> Decoder:
    """Fit a classifier on some electrodes; the decoder requires no others, except those of the reference."""
    reference = design.preparation.reference
    if reference == "average":  # the average is over all electrodes, so that the decoder requires all of them
        beta = {i: np.inf for i, name in enumerate(design.ch_names) if name not in sensors}
        own = clone(classifier).set_params(group_weights=beta)
        return Decoder.from_design(design, recordings[0].ch_names if recordings else None, own)
    part = _with_sensors(design, sensors)
    return Decoder.from_design(part, (*sensors, *(reference or ())), clone(classifier))


def _with_sensors(design: Design, sensors: Sequence[str]) -> Design:
    order = [design.ch_names.index(name) for name in sensors]
    return replace(design, X=design.X[:, order], ch_names=tuple(sensors), positions=design.positions[order])
