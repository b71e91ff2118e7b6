"""Decoders of a chosen montage: one for each subject, and one of all subjects for a new subject."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from mixnorm.eeg.decoder import Decoder
from mixnorm.eeg.design import Design
from mixnorm.eeg.evidence import flash_correlation
from mixnorm.eeg.scaling import ChannelScaler
from mixnorm.estimators.fixed_alpha import with_held_out_scores
from mixnorm.estimators.svc import GroupSVC
from mixnorm.estimators.svc_cv import GroupSVCCV
from mixnorm.montage.refits import MontagePenalties, with_identity
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


@dataclass(frozen=True, eq=False)
class CapTrials:
    """Trials of a design with all electrodes: the decoders of every montage are fitted on them.

    The scale of the channels and the trials that are rejected are those of all electrodes, and the penalties those of
    all that may be chosen, as where montages are scored.

    Attributes
    ----------
    design : Design
    mask : boolean ndarray of shape (n,)
        The trials of the design that are learned from.
    allowed : ndarray of shape (m,), or None
        The electrodes that may be chosen, from which the penalties are estimated. None: all.
    several : bool
        Whether decoders of several montages are fitted, so that it is worth keeping the penalties. Those of all
        subjects together take much memory.
    """

    design: Design
    mask: NDArray[np.bool_] = field(repr=False)
    allowed: NDArray[np.integer] | None = None
    several: bool = False

    @cached_property
    def scaler(self) -> ChannelScaler:
        """The scaler of all electrodes."""
        return self.design.preparation.scaler().fit(self.design.X[self.mask])

    def scaled(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The scaled trials and their labels, without those beyond the peak-to-peak limit."""
        # not kept: the trials of all other subjects, for each of many subjects, would take much memory
        X, y = self.design.X[self.mask], self.design.y[self.mask]
        accepted = self.scaler.accepted(X, y)
        return self.scaler.transform(X[accepted]), y[accepted]

    @cached_property
    def _kept_penalties(self) -> MontagePenalties:
        return self._penalties(*self.scaled())

    def _penalties(self, X: NDArray[np.float64], y: NDArray[np.int64]) -> MontagePenalties:
        """The penalties of any electrodes, from scaled trials."""
        return MontagePenalties.of(X, np.where(y == 1, 1.0, -1.0), self.allowed)

    def classifier(self, sensors: Sequence[str], alpha: float, among: Sequence[str]) -> GroupSVC:
        """Fit the classifier of some electrodes on trials of the electrodes ``among``; the others get no weight."""
        X, y = self.scaled()
        columns = np.array([self.design.ch_names.index(name) for name in among])
        places = np.array([among.index(name) for name in sensors])
        penalties = self._kept_penalties if self.several else self._penalties(X, y)
        own = penalties.matrix(columns[places])
        # so that alpha means what it means beside a named noise, whose mean diagonal is 1
        scale = float(np.mean(np.diag(own)))
        M = with_identity(own / scale, places, (len(among), X.shape[2]))
        forbidden = {place: np.inf for place, name in enumerate(among) if name not in sensors}
        model = GroupSVC(alpha * scale, penalty="l2", noise=M, group_weights=forbidden or None).fit(X[:, columns], y)
        # Fitted again, as while spelling, it estimates the noise of its own electrodes: the trials of the others are
        # not at hand then, and model files contain no matrix.
        return model.set_params(noise=penalties.noise)

    def decoder(self, sensors: Sequence[str], alpha: float, recordings: Sequence[Any]) -> Decoder:
        """Fit the decoder of some electrodes; it requires no others, except those of the reference."""
        design, reference = trials_of(self.design, self.mask), self.design.preparation.reference
        among, needed = tuple(sensors), (*sensors, *(reference or ()))
        if reference == "average":  # the average is over all electrodes, so that the decoder requires all of them
            among = design.ch_names
            needed = recordings[0].ch_names if recordings else among
        return Decoder(
            design.preparation,
            design.sfreq,
            tuple(needed),
            among,
            design.times,
            self.scaler.picked([design.ch_names.index(name) for name in among]),
            self.classifier(sensors, alpha, among),
            n_characters=design.n_characters,
        )


class DecoderFits:
    """Fits the decoders of montages on all trials of a design; what montages have in common is computed once.

    Parameters
    ----------
    design : Design
    recordings : sequence of recordings
        Those that the design was prepared from; empty if they are not known.
    allowed : ndarray of shape (m,), optional
        The electrodes that may be chosen; by default all.
    several : bool
        Whether decoders of several montages are fitted.
    """

    def __init__(
        self,
        design: Design,
        recordings: Sequence[Any] = (),
        allowed: NDArray[np.integer] | None = None,
        several: bool = False,
    ) -> None:
        self.recordings, subject = recordings, design.subject
        names = list(dict.fromkeys(subject.tolist()))
        trials = partial(CapTrials, design, allowed=allowed, several=several)
        self._design, self._pooled = design, trials(mask=np.ones(len(design.y), dtype=bool))
        self._own = {name: trials(mask=subject == name) for name in names}
        self._others = {name: trials(mask=subject != name) for name in names}

    def scores_by_others(self, sensors: Sequence[str], alphas: Mapping[str, float]) -> dict[str, HeldOutSubject]:
        """Each subject's trials, scored by the classifier trained on the pooled trials of all other subjects.

        The classifier has not seen these trials; the choice of the electrodes has. Empty for a single subject.
        """
        if len(alphas) == 1:
            return {}
        found = {}
        for name in alphas:
            # without this subject's own alpha, which was chosen on the trials that are scored here
            alpha = float(np.median([alpha for other, alpha in alphas.items() if other != name]))
            others, own = self._others[name], self._own[name].mask
            model = others.classifier(sensors, alpha, sensors)
            columns = [self._design.ch_names.index(sensor) for sensor in sensors]
            # all trials of the new subject are scored, also those beyond the peak-to-peak limit
            scores = model.decision_function(others.scaler.transform(self._design.X[own])[:, columns])
            found[name] = HeldOutSubject(scores, np.array([roc_auc_score(self._design.y[own], scores)]))
        return found

    def decoders(
        self, sensors: Sequence[str], alphas: Mapping[str, float], held_out: HeldOutTrials
    ) -> MontageDecoders:
        """Fit on all trials, each subject at its own alpha, and calibrate by the held-out scores.

        With several subjects, the decoder of all of them is for somebody new, at the median of the subjects' alphas:
        it is calibrated by the scores that each subject has by a decoder of the others.
        """
        # not the mean: alphas differ by powers of ten, and a subject with few trials may have chosen an extreme one
        pooled = self._pooled.decoder(sensors, float(np.median(list(alphas.values()))), self.recordings)
        if len(alphas) == 1:
            (own,) = held_out.own.values()
            return MontageDecoders(calibrated(pooled, self._design, own), {})
        by_subject = {}
        for name, alpha in alphas.items():
            decoder = self._own[name].decoder(sensors, alpha, self.recordings)
            by_subject[name] = calibrated(decoder, trials_of(self._design, self._own[name].mask), held_out.own[name])
        # Trials keep their place in the design, whatever the order of the subjects.
        scores = np.full(len(self._design.y), np.nan)
        for name, others in held_out.by_others.items():
            scores[self._own[name].mask] = others.scores
        aucs = np.concatenate([others.aucs for others in held_out.by_others.values()])
        return MontageDecoders(calibrated(pooled, self._design, HeldOutSubject(scores, aucs)), by_subject)


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
