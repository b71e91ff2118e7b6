"""A decoder of several subjects who were learned together, and of new ones: scalers and classifiers by subject."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixnorm.core.schema import Many, SchemaError, Text, check
from mixnorm.eeg.decoder import Decoder
from mixnorm.eeg.decoder_schema import NESTED, check_decoder, nested_classifier, scaler_arrays, scaler_from
from mixnorm.eeg.design import Design, prepare
from mixnorm.eeg.events import UNKNOWN
from mixnorm.eeg.evidence import flash_correlation
from mixnorm.eeg.preparation import Preparation
from mixnorm.eeg.recording import EpochedRecording, Recording
from mixnorm.eeg.scaling import ChannelScaler
from mixnorm.eeg.splitting import InOrder
from mixnorm.estimators.calibration import fit_sigmoid, plain
from mixnorm.subjects.multitask_cv import MultiTaskGroupSVCCV
from mixnorm.subjects.single import single_classifier

#: Keys of the header that are not those of the decoder of one subject.
_OF_COHORT = ("classifier", "classifier_class", "subjects")
#: Smallest number of trials of each class on which the probabilities of a new subject are calibrated: two in each of
#: three folds.
_FEWEST_TO_CALIBRATE = 6


def default_joint_classifier(**options: Any) -> MultiTaskGroupSVCCV:
    """Return `MultiTaskGroupSVCCV` with ``noise="evoked"`` of each subject and inner folds of whole characters."""
    return MultiTaskGroupSVCCV(**({"penalty": "l2", "noise": "evoked", "cv": InOrder()} | options))


@dataclass(frozen=True)
class CohortDecoder:
    """From recordings of several subjects to a decoder for each of them, and for new subjects.

    Attributes
    ----------
    preparation : Preparation
        How recordings are prepared.
    sfreq : float
        Sampling rate in Hz of the training recordings, and of those it can be applied to.
    ch_names : tuple of str
        All channels of the training recordings, in order, including those of the reference.
    feature_names : tuple of str
        The channels that remain after re-referencing: the groups of the classifier.
    times : (n_times,) array
        Exact sample times in seconds.
    scalers : dict of ChannelScaler
        By subject: every subject's channels are scaled by its own trials.
    classifier : MultiTaskGroupSVCCV
        The fitted joint classifier.

    See Also
    --------
    Decoder : The decoder of one subject.
    mixnorm.MultiTaskGroupSVCCV : The joint classifier.
    mixnorm.save : Writes it to a file.

    Examples
    --------
    >>> from mixnorm import MultiTaskGroupSVCCV
    >>> from mixnorm.eeg import CohortDecoder, InOrder, Preparation, prepare, simulated_cohort
    >>> recordings = simulated_cohort(2, 60).to_recordings()
    >>> design = prepare(recordings, Preparation(band=None, window=(0, 1), n_samples=8))
    >>> joint = MultiTaskGroupSVCCV(alphas=3, similarities=2, cv=InOrder(3), rehearse=False)
    >>> cohort = CohortDecoder.from_design(design, classifier=joint)
    >>> cohort.subjects
    ('S1', 'S2')
    >>> len(cohort.of_subject("S1").predict(recordings[0]))
    60
    """

    preparation: Preparation
    sfreq: float
    ch_names: tuple[str, ...]
    feature_names: tuple[str, ...]
    times: NDArray[np.float64] = field(repr=False)
    scalers: dict[str, ChannelScaler] = field(repr=False)
    classifier: MultiTaskGroupSVCCV = field(repr=False)

    @classmethod
    def from_design(
        cls, design: Design, ch_names: Sequence[str] | None = None, classifier: MultiTaskGroupSVCCV | None = None
    ) -> CohortDecoder:
        """Fit on a design of at least two subjects.

        Parameters
        ----------
        design : Design
            The prepared trials of all subjects.
        ch_names : sequence of str, optional
            All channels of the recordings, where a reference was taken out; by default those of the design.
        classifier : MultiTaskGroupSVCCV, optional
            By default with ``noise="evoked"`` of each subject and inner folds of whole characters.

        Returns
        -------
        CohortDecoder
            With a decoder for every subject of the design.
        """
        X, y, groups = design.to_sklearn()
        # in the order of the recordings, unlike np.unique
        names = list(dict.fromkeys(design.subject.tolist()))
        if len(names) < 2:
            raise ValueError(
                f"A joint fit needs recordings of at least two subjects, but all are of {names[0]!r}. Name the "
                "subject of each recording with subjects=…, or use a method for one subject."
            )
        scalers, scaled = {}, np.empty_like(X)
        for name in names:
            mine = design.subject == name
            # Amplitudes differ between people and caps: each subject has a scale of its own before subjects are
            # compared.
            scalers[name] = design.preparation.scaler().fit(X[mine])
            scaled[mine] = scalers[name].transform(X[mine])
        model = default_joint_classifier() if classifier is None else classifier
        model.fit(scaled, y, subjects=design.subject, groups=groups)
        needed = tuple(ch_names or design.ch_names)
        return cls(design.preparation, design.sfreq, needed, design.ch_names, design.times, scalers, model)

    @property
    def subjects(self) -> tuple[str, ...]:
        """The subjects that have a decoder, new ones last."""
        return tuple(self.classifier.subjects_.tolist())

    @property
    def selected(self) -> tuple[str, ...]:
        """Names of the electrodes the classifiers use."""
        return tuple(self.feature_names[int(group)] for group in self.classifier.selected_groups_)

    def of_subject(self, subject: str) -> Decoder:
        """Return the decoder of one subject.

        Parameters
        ----------
        subject : str
            One of `subjects`.

        Returns
        -------
        Decoder
            It can be used and saved by itself.
        """
        return self._decoder(self.scalers.get(subject), single_classifier(self.classifier, subject))

    def adapted(self, recordings: Sequence[Recording | EpochedRecording], labels: bool = True) -> Decoder:
        """Return the decoder of a new subject, from calibration recordings; this object does not change.

        Parameters
        ----------
        recordings : sequence of Recording or EpochedRecording
            Those of the new subject, with or without labels. Trials without a label set the scale and the noise only.
        labels : bool
            Whether to use labels where the recordings have them.

        Returns
        -------
        Decoder
            On the electrodes of the joint fit, with the scale of the new subject. Its probabilities are calibrated on
            the scores of labelled trials that were held out in turn; where these are fewer than six of a class, on
            the held-out scores of the known subjects.
        """
        # All channels: `adapt` takes trials of the shape of the joint fit, whatever its classifiers use of them.
        matched = [self._plain().matched(recording, self.ch_names) for recording in recordings]
        design = prepare(matched, self.preparation)
        # Trials without a label help here too: a scale needs none.
        scaler = self.preparation.scaler().fit(design.X)
        known = (design.y != UNKNOWN) & labels
        model = MultiTaskGroupSVCCV._from_archive(*self.classifier._to_archive())  # a copy that `adapt` may change
        if not known.any():
            model.adapt(scaler.transform(design.X), subject="new")
            return self._decoder(scaler, single_classifier(model, "new"))
        X, y = design.X[known], design.y[known]
        model.adapt(scaler.transform(X), y, subject="new")
        scores = self._held_out_scores(model, X, y, design.trial_groups()[known])
        single, of_flashes = single_classifier(model, "new"), {}
        if scores is not None:
            single.out_of_fold_scores_ = scores
            single.calibration_ = plain(fit_sigmoid(scores, np.where(y == 1, 1.0, -1.0), np.ones(len(y))))
            correlation = flash_correlation(scores, y, design.stimulus[known], design.character[known])
            of_flashes = {"flash_correlation": correlation, "n_characters": design.n_characters}
        return replace(self._decoder(scaler, single), **of_flashes)

    def _held_out_scores(
        self, model: MultiTaskGroupSVCCV, X: NDArray[np.float64], y: NDArray[np.int64], groups: NDArray[np.int64]
    ) -> NDArray[np.float64] | None:
        """Score every calibration trial by an adaptation to the others; None where a class has too few trials."""
        if np.bincount(y, minlength=2).min() < _FEWEST_TO_CALIBRATE:
            return None
        scores = np.empty(len(y))
        # The scaler is learned without the held-out trials as well, as it will be for new ones.
        for train, test in InOrder().split(X, groups=groups):
            scaler = self.preparation.scaler().fit(X[train])
            scores[test] = model._adapted_scores(scaler.transform(X[train]), y[train], scaler.transform(X[test]))
        return scores

    def _plain(self) -> Decoder:
        return self._decoder(None, None)

    def _decoder(self, scaler: ChannelScaler | None, classifier: Any) -> Decoder:
        about = self.preparation, self.sfreq, self.ch_names, self.feature_names, self.times
        return Decoder(*about, scaler, classifier)

    def _to_archive(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        """Header (plain JSON) and arrays for `mixnorm.save`: those of a decoder, and a scaler for each subject."""
        # Any of the scalers will do here; those of all subjects are stored below.
        header, arrays = replace(
            self._plain(), scaler=next(iter(self.scalers.values())), classifier=self.classifier
        )._to_archive()
        arrays = {name: array for name, array in arrays.items() if not name.startswith("scaler/")}
        for place, scaler in enumerate(self.scalers.values()):
            arrays |= scaler_arrays(scaler, f"scaler-{place}/")
        return header | {"subjects": list(self.scalers)}, arrays

    @classmethod
    def _from_archive(cls, header: dict[str, Any], arrays: dict[str, NDArray]) -> CohortDecoder:
        """The decoder that `_to_archive` described; everything is checked before it is used, subject by subject."""
        nested = {name.removeprefix(NESTED): array for name, array in arrays.items() if name.startswith(NESTED)}
        classifier = nested_classifier(header, nested, {"MultiTaskGroupSVCCV": MultiTaskGroupSVCCV})
        check(Many(Text(), least=1, most=100_000), subjects := header.get("subjects"), "'subjects'")
        others = {key: value for key, value in header.items() if key not in _OF_COHORT}
        own = {name: array for name, array in arrays.items() if not name.startswith(NESTED)}
        scalers = {}
        for place, subject in enumerate(subjects):
            prefix = f"scaler-{place}/"
            # Taken out one by one, so that an array that belongs to no subject is noticed at the end.
            learned = {name.removeprefix(prefix): own.pop(name) for name in list(own) if name.startswith(prefix)}
            values = others | {f"scaler/{name}": array for name, array in learned.items()}
            check_decoder(values | {"times": arrays.get("times")}, classifier)
            preparation = Preparation.from_dict(header["preparation"])
            scalers[subject] = scaler_from(preparation, learned, "")
        if len(scalers) < len(subjects) or set(own) != {"times"}:
            raise SchemaError("'subjects' must be names that differ, each with one scaler.")
        return cls(
            preparation=preparation,
            sfreq=np.nan if header["sfreq"] is None else float(header["sfreq"]),
            ch_names=tuple(header["ch_names"]),
            feature_names=tuple(header["feature_names"]),
            times=arrays["times"],
            scalers=scalers,
            classifier=classifier,
        )
