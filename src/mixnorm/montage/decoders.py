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
from mixnorm.estimators.svc import GroupSVC
from mixnorm.estimators.svc_cv import GroupSVCCV
from mixnorm.montage.refits import montage_classifier
from mixnorm.montage.result import Montage

DECODERS_FOLDER = "decoders"
"""Folder of the decoders of every montage, in the results folder."""


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
        cls, design: Design, sensors: Sequence[str], alphas: Mapping[str, float], recordings: Sequence[Any]
    ) -> MontageDecoders:
        """Fit on all trials of a design, each subject at its own alpha."""
        own = decoders_by_subject(design, sensors, alphas, recordings) if len(alphas) > 1 else {}
        return cls(pooled_decoder(design, sensors, alphas, recordings), own)


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


def new_subject_aucs(design: Design, sensors: Sequence[str], alphas: Mapping[str, float]) -> dict[str, float]:
    """AUC on each subject's trials of the classifier trained on the pooled trials of all other subjects.

    The classifier has not seen these trials; the choice of the electrodes has.
    """
    part = _with_sensors(design, sensors)
    found = {}
    for name in alphas:
        own = part.subject == name
        alpha = float(np.median([alpha for other, alpha in alphas.items() if other != name]))
        scaler = part.preparation.scaler().fit(part.X[~own])
        known = ~own
        known[known] = scaler.accepted(part.X[known], part.y[known])
        model = montage_classifier(alpha).fit(scaler.transform(part.X[known]), part.y[known])
        found[name] = float(roc_auc_score(part.y[own], model.decision_function(scaler.transform(part.X[own]))))
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
