"""A decoder: preparation, scaler and classifier, fitted, saved, loaded and applied together."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.amplitudes import check_unit_of
from mixnorm.eeg.cutting import cut, faults_in
from mixnorm.eeg.decoder_archive import fields_from_archive, to_archive
from mixnorm.eeg.default_classifier import default_classifier
from mixnorm.eeg.design import Design, default_preparation, prepare
from mixnorm.eeg.event_scores import Scores
from mixnorm.eeg.evidence import USUAL_CORRELATION, FlashEvidence, flash_correlation
from mixnorm.eeg.left_out import LeftOut
from mixnorm.eeg.preparation import Preparation
from mixnorm.eeg.readers.dispatch import read_recording
from mixnorm.eeg.recording import EpochedRecording, Recording, RecordingError
from mixnorm.eeg.scaling import ChannelScaler
from mixnorm.eeg.sources import as_recordings
from mixnorm.eeg.splitting import fitted
from mixnorm.eeg.training import Training


@dataclass(frozen=True)
class Decoder:
    """From a recording to scores.

    Attributes
    ----------
    preparation : Preparation
        How recordings are prepared.
    sfreq : float
        Sampling rate in Hz of the training recordings, and of those it can be applied to.
    ch_names : tuple of str
        All channels of the training recordings, in order, including those of the reference. A recording that is
        scored needs only those in `needed`.
    feature_names : tuple of str
        The channels that remain after re-referencing: the groups of the classifier.
    times : (n_times,) array
        Exact sample times in seconds.
    scaler : ChannelScaler
        Fitted on the training trials.
    classifier : fitted estimator
        Has a `decision_function` of trials (n, channels, times).
    training : Training or None
        How it was trained and how well it does on held-out trials, where `mixnorm train` made it.
    flash_correlation : float
        Correlation of the held-out scores of flashes of one code within a character; see `FlashEvidence`.
    n_characters : int or None
        How many characters it was calibrated on; None where this is not known, as in files of earlier versions.

    See Also
    --------
    select_montage : Finds the electrodes, and fits a decoder for them.
    StreamDecoder : Runs a decoder on a stream.
    spell : Letters from the scores.
    CohortDecoder : Decoders of several subjects.
    mixnorm.save : Writes it to a file.

    Examples
    --------
    >>> from mixnorm.eeg import Decoder, simulated_recording
    >>> train, new = (simulated_recording(120, n_channels=3, n_informative=2, seed=seed) for seed in (0, 1))
    >>> decoder = Decoder.fit(train)
    >>> decoder.needed, decoder.preparation.describe()
    (('Fz', 'Cz', 'Pz'), '0.5–10 Hz, 100–700 ms, 12 samples')
    >>> decoder.predict(new).score.shape
    (120,)
    """

    preparation: Preparation
    sfreq: float
    ch_names: tuple[str, ...]
    feature_names: tuple[str, ...]
    times: NDArray[np.float64] = field(repr=False)
    scaler: ChannelScaler = field(repr=False)
    classifier: Any = field(repr=False)
    flash_correlation: float = USUAL_CORRELATION
    training: Training | None = field(default=None, repr=False)
    n_characters: int | None = None

    @classmethod
    def fit(
        cls,
        recordings: Any,
        preparation: Preparation | None = None,
        classifier: Any = None,
    ) -> Decoder:
        """Prepare recordings and fit scaler and classifier on all their trials.

        Parameters
        ----------
        recordings : one or several recordings
            With labels; anything that `prepare` takes.
        preparation : Preparation, optional
            That of `default_preparation` by default, as in `mixnorm train`.
        classifier : estimator, optional
            `default_classifier` by default.

        Returns
        -------
        Decoder
            Fitted on all trials.
        """
        recordings = as_recordings(recordings)
        preparation = default_preparation(recordings, preparation)
        return cls.from_design(prepare(recordings, preparation), recordings[0].ch_names, classifier)

    @classmethod
    def from_design(cls, design: Design, ch_names: Sequence[str] | None = None, classifier: Any = None) -> Decoder:
        """Fit scaler and classifier on a design.

        Parameters
        ----------
        design : Design
            Prepared trials with labels.
        ch_names : sequence of str, optional
            All channels of the recording, where a reference was taken out; by default those of the design.
        classifier : estimator, optional
            `default_classifier` by default.

        Returns
        -------
        Decoder
            Fitted on all trials.
        """
        X, y, groups = design.to_sklearn()
        scaler = design.preparation.scaler().fit(X)
        # Rejected trials are left out of training only; a trial to be scored is always scored.
        kept = scaler.accepted(X, y)
        if classifier is None:
            classifier = default_classifier()
        model = fitted(classifier, scaler.transform(X[kept]), y[kept], groups[kept])
        needed = tuple(ch_names or design.ch_names)
        # `ch_names` has the channels of the reference too, which `design` no longer has: a new recording needs them.
        fields = design.preparation, design.sfreq, needed, design.ch_names, design.times, scaler, model
        return cls(*fields, _correlation(model, design), n_characters=design.n_characters)

    @property
    def evidence(self) -> FlashEvidence:
        """How a score changes the probabilities of symbols; an error for a decoder without calibration."""
        if getattr(self.classifier, "calibration_", None) is None:
            raise ValueError(
                "This decoder has no calibration: its classifier was fitted without cross-validation, or by an "
                "earlier version of mixnorm. Train one with `mixnorm train` (for few electrodes with --max-sensors)."
            )
        return FlashEvidence.of(self.classifier.calibration(), self.flash_correlation, self.n_characters)

    @property
    def selected(self) -> tuple[str, ...]:
        """Names of the electrodes the classifier uses."""
        return tuple(self.feature_names[int(group)] for group in self.classifier.selected_groups_)

    @property
    def filters_(self) -> NDArray[np.float64]:
        """Weights (times, channels) of `feature_names` in 1/µV; clipping is not linear and left out."""
        return self.classifier.filters_ / self.scaler.scale_

    @property
    def patterns_(self) -> NDArray[np.float64]:
        """Patterns (times, channels) of `feature_names` in µV per unit of score, for topographies.

        Plot these and not the weights: weights also cancel noise, and do not show where a signal comes from.
        """
        return self.classifier.patterns_ * self.scaler.scale_

    @property
    def used(self) -> NDArray[np.int64]:
        """Which of `feature_names` the classifier gives a weight, as indices in their order."""
        return np.sort(np.asarray(self.classifier.selected_groups_, dtype=np.int64))

    @property
    def needed(self) -> tuple[str, ...]:
        """The channels that a recording must have: those that the classifier uses, and those of the reference.

        An average reference is taken over all channels of the training recordings, so that all of them are needed.
        """
        reference = self.preparation.reference
        if reference == "average":
            return self.ch_names
        names = {self.feature_names[feature] for feature in self.used} | set(reference or ())
        return tuple(name for name in self.ch_names if name in names)

    def matched(
        self, recording: Recording | EpochedRecording, needed: Sequence[str] | None = None
    ) -> Recording | EpochedRecording:
        """The recording with the channels that are needed, in their order; an error where one is missing.

        Parameters
        ----------
        recording : Recording or EpochedRecording
            With the needed channels, in any order.
        needed : sequence of str, optional
            The channels that are needed; by default those in `needed`.

        Returns
        -------
        Recording or EpochedRecording
            With the needed channels only.
        """
        needed = self.needed if needed is None else needed
        missing = [name for name in needed if name not in recording.ch_names]
        if missing:
            raise self._missing(recording, missing)
        # Amplifiers and files give rates such as 511.9999 Hz; epochs of one sample have no rate.
        if not np.isclose(recording.sfreq, self.sfreq, rtol=1e-6, equal_nan=True):
            raise RecordingError(
                recording.source,
                f"its rate is {recording.sfreq:g} Hz, that of the model {self.sfreq:g} Hz",
                "resample it or train at its rate",
            )
        if isinstance(recording, Recording) and self.preparation.window is None:
            raise RecordingError(
                recording.source,
                "it is continuous, but the model was trained on epochs without a window",
                "train on a continuous recording",
            )
        return recording.picked(needed)

    def _missing(self, recording: Recording | EpochedRecording, missing: Sequence[str]) -> RecordingError:
        named = [f"{name} ({recording.excluded[name]})" if name in recording.excluded else name for name in missing]
        advice = f"it has {', '.join(recording.ch_names)}; record them, or train a model on the channels available"
        if any(recording.excluded.get(name) == "marked as bad" for name in missing):
            advice = f"use_bads=True uses channels that are marked as bad; {advice}"
        if self.preparation.reference == "average":
            advice = f"the average reference of the model is over all its {len(self.ch_names)} channels; {advice}"
        return RecordingError(
            recording.source, f"channels that the model needs are missing: {', '.join(named)}", advice
        )

    def predict(self, recording: Any) -> Scores:
        """Score every event of a recording.

        Parameters
        ----------
        recording : recording, path, `mne.io.Raw`, `mne.Epochs` or mapping of arrays with names
            Needs the channels in `needed`, by name and in any order; others are ignored.

        Returns
        -------
        Scores
            One for each event, also for those that cannot be scored.
        """
        recording = self.matched(read_recording(recording))
        events, faults = recording.events, faults_in(recording, self.preparation)
        X, left_out = self._cut(recording)
        score = np.full(len(events), np.nan)
        score[faults.usable] = [self.score_used(trial) for trial in X]
        per_second = recording.sfreq if isinstance(recording, Recording) else 1.0
        return Scores(
            onset=events.onset / per_second,
            score=score,
            target=events.target,
            stimulus=events.stimulus,
            character=events.character,
            reason=faults.reasons(),
            left_out=left_out,
        )

    def trials(self, recording: Any) -> NDArray[np.float64]:
        """Prepare every event of a recording, as `predict` does, for `score_trial` and `LetterLearner`.

        Parameters
        ----------
        recording : recording, path, `mne.io.Raw`, `mne.Epochs` or mapping of arrays with names
            As in `predict`.

        Returns
        -------
        (n_events, n_channels, n_times) array
            Not yet scaled, channels in the order of `feature_names`; those that the classifier does not use are 0.
            NaN where a trial cannot be used.
        """
        recording = self.matched(read_recording(recording))
        found = np.full((len(recording.events), len(self.feature_names), len(self.times)), np.nan)
        usable = np.flatnonzero(faults_in(recording, self.preparation).usable)
        found[usable] = 0.0
        found[usable[:, None], self.used] = self._cut(recording)[0]
        return found

    def _cut(self, recording: Recording | EpochedRecording) -> tuple[NDArray[np.float64], LeftOut]:
        """Usable trials of the channels in `used`, (n_usable, n_used, n_times), and which trials are left out."""
        with warnings.catch_warnings():
            # `reason` and `left_out` say which events have no score.
            warnings.filterwarnings("ignore", ".*trials are left out", RuntimeWarning)
            part = cut(recording, self.preparation)
        # Epochs are used as they are cut: only their sample times say whether they are those of training.
        if len(part.times) != len(self.times) or not np.allclose(part.times, self.times, atol=1e-9):
            raise RecordingError(
                recording.source,
                f"its {len(part.times)} sample times are not the {len(self.times)} of the model",
                "cut it as the training trials were",
            )
        # A recording may have the channels in any order, and need not have those without a weight.
        rows = [part.ch_names.index(self.feature_names[feature]) for feature in self.used]
        X = part.X[:, rows]
        if self.preparation.scaling != "none":  # which learns no scale to compare with
            check_unit_of(recording.source, X, self.scaler.scale_[self.used])
        return X, part.left_out

    def score_used(self, trial: NDArray[np.float64]) -> float:
        """Score of one prepared trial of the channels in `used` (n_used, n_times).

        The others, whose weights are zero, are taken as zero: the score has the bits of the whole trial.

        Parameters
        ----------
        trial : (n_used, n_times) array
            One prepared trial, not yet scaled.

        Returns
        -------
        float
            The score.
        """
        whole = np.zeros((len(self.feature_names), len(self.times)))
        whole[self.used] = trial
        return self.score_trial(whole)

    def score_trial(self, trial: NDArray[np.float64]) -> float:
        """Score of one prepared trial of all channels, in the order of `feature_names` (n_channels, n_times).

        Trials are scored one at a time, in files and in streams: the last bit of a matrix product depends
        on the number of its rows.

        Parameters
        ----------
        trial : (n_channels, n_times) array
            One prepared trial, not yet scaled.

        Returns
        -------
        float
            The score.
        """
        return float(self.classifier.decision_function(self.scaler.transform(trial[None]))[0])

    def _to_archive(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        """Header (plain JSON) and arrays for `mixnorm.save`; the classifier's own are nested."""
        return to_archive(self)

    @classmethod
    def _from_archive(cls, header: dict[str, Any], arrays: dict[str, NDArray]) -> Decoder:
        """The decoder that `_to_archive` described; everything is checked before it is used."""
        return cls(**fields_from_archive(header, arrays))


def _correlation(model: Any, design: Design) -> float:
    """The correlation of flashes from the held-out scores of a fit; the usual value where there are none."""
    scores = getattr(model, "out_of_fold_scores_", None)
    # Trials that were rejected in training have no held-out score, and the flashes could not be matched.
    if scores is None or len(scores) != len(design):
        return USUAL_CORRELATION
    return flash_correlation(scores, design.y, design.stimulus, design.character)
