"""A decoder: preparation, scaler and classifier, fitted, saved, loaded and applied together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.cutting import windows_inside
from mixnorm.eeg.design import Design, prepare
from mixnorm.eeg.preparation import Preparation
from mixnorm.eeg.recording import EpochedRecording, Events, Recording, RecordingError
from mixnorm.eeg.scaling import ChannelScaler
from mixnorm.eeg.splitting import InOrder, fitted
from mixnorm.estimators.settings import SETTINGS
from mixnorm.estimators.svc import GroupSVC
from mixnorm.estimators.svc_cv import GroupSVCCV

_LEARNED = ("lower_", "upper_", "center_", "scale_")
# A model file can name only these classes: loading must not execute what the file chooses.
_CLASSIFIERS = {"GroupSVC": GroupSVC, "GroupSVCCV": GroupSVCCV}


def default_classifier(method: str = "svm-noise", **options: Any) -> GroupSVCCV:
    """Return `GroupSVCCV` with inner folds that keep the trials of a character together (`InOrder`).

    Parameters
    ----------
    method : str
        One of `mixnorm.estimators.settings.SETTINGS`. The default, an SVM with the structured noise covariance,
        decodes best from few trials; it uses all electrodes.
    **options : dict
        Other parameters of `GroupSVCCV`.
    """
    if method not in SETTINGS:
        raise ValueError(
            f"Invalid value for the 'method' parameter. Allowed values are {', '.join(map(repr, SETTINGS))}, but got "
            f"{method!r} instead."
        )
    return GroupSVCCV(**({"cv": InOrder()} | SETTINGS[method] | options))


@dataclass(frozen=True)
class Scores:
    """One score per event of a recording, in the order of the events.

    `score` is NaN where the recording ends before the window does. Positive scores indicate a target;
    `onset` is in seconds (for epochs: the number of the trial), the rest as in
    `Events`.
    """

    onset: NDArray[np.float64]
    score: NDArray[np.float64]
    target: NDArray[np.int64]
    stimulus: NDArray[np.int64]
    character: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.score)


@dataclass(frozen=True)
class Decoder:
    """From a recording to scores.

    Attributes
    ----------
    preparation : Preparation
    sfreq : float
        Sampling rate in Hz of the training recordings, and of those it can be applied to.
    ch_names : tuple of str
        All channels that are needed, in order, including those of the reference.
    feature_names : tuple of str
        The channels that remain after re-referencing: the groups of the classifier.
    times : (n_times,) array
        Exact sample times in seconds.
    scaler : ChannelScaler
    classifier : fitted estimator
        Has a `decision_function` of trials (n, channels, times).
    """

    preparation: Preparation
    sfreq: float
    ch_names: tuple[str, ...]
    feature_names: tuple[str, ...]
    times: NDArray[np.float64] = field(repr=False)
    scaler: ChannelScaler = field(repr=False)
    classifier: Any = field(repr=False)

    @classmethod
    def fit(
        cls,
        recordings: Recording | EpochedRecording | Sequence[Recording | EpochedRecording],
        preparation: Preparation | None = None,
        classifier: Any = None,
    ) -> Decoder:
        """Prepare recordings and fit scaler and classifier on all their trials.

        Parameters
        ----------
        recordings : one or several recordings
            With labels.
        preparation : Preparation, optional
            As in `prepare`.
        classifier : estimator, optional
            `default_classifier` by default.
        """
        first = recordings if isinstance(recordings, Recording | EpochedRecording) else recordings[0]
        return cls.from_design(prepare(recordings, preparation), first.ch_names, classifier)

    @classmethod
    def from_design(cls, design: Design, ch_names: Sequence[str] | None = None, classifier: Any = None) -> Decoder:
        """Fit on a design; `ch_names`: all channels of the recording, where a reference was taken out."""
        X, y, groups = design.to_sklearn()
        scaler = design.preparation.scaler().fit(X)
        if classifier is None:
            classifier = default_classifier()
        model = fitted(classifier, scaler.transform(X), y, groups)
        needed = tuple(ch_names or design.ch_names)
        return cls(design.preparation, design.sfreq, needed, design.ch_names, design.times, scaler, model)

    @property
    def selected(self) -> tuple[str, ...]:
        """Names of the electrodes the classifier uses."""
        return tuple(self.feature_names[int(group)] for group in self.classifier.selected_groups_)

    def matched(self, recording: Recording | EpochedRecording) -> Recording | EpochedRecording:
        """The recording with the channels of the decoder, in their order; an error where one is missing."""
        missing = [name for name in self.ch_names if name not in recording.ch_names]
        if missing:
            raise RecordingError(
                recording.source,
                f"channels that the model needs are missing: {', '.join(missing)}",
                f"it has {', '.join(recording.ch_names)}; record them, or train a model on the channels available",
            )
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
        order = [recording.ch_names.index(name) for name in self.ch_names]
        part = {"ch_names": self.ch_names, "positions": recording.positions[order]}
        if isinstance(recording, Recording):
            return replace(recording, signal=recording.signal[order], **part)
        return replace(recording, X=recording.X[:, order], **part)

    def predict(self, recording: Recording | EpochedRecording) -> Scores:
        """Score every event of a recording."""
        recording = self.matched(recording)
        events = recording.events
        inside = np.ones(len(events), dtype=bool)
        per_second = 1.0
        if isinstance(recording, Recording):
            per_second = recording.sfreq
            inside = windows_inside(recording, self.preparation.grid(recording.sfreq))
            kept = Events(*(getattr(events, name)[inside] for name in ("onset", "target", "stimulus", "character")))
            recording = replace(recording, events=kept) if inside.any() else recording
        design = prepare(recording, self.preparation)
        if len(design.times) != len(self.times) or not np.allclose(design.times, self.times, atol=1e-9):
            raise RecordingError(
                recording.source,
                f"its {len(design.times)} sample times are not the {len(self.times)} of the model",
                "cut it as the training trials were",
            )
        score = np.full(len(events), np.nan)
        score[inside] = [self.score_trial(trial) for trial in design.X]
        return Scores(events.onset / per_second, score, events.target, events.stimulus, events.character)

    def score_trial(self, trial: NDArray[np.float64]) -> float:
        """Score of one prepared trial (n_channels, n_times).

        Trials are scored one at a time, in files and in streams: the last bit of a matrix product depends
        on the number of its rows.
        """
        return float(self.classifier.decision_function(self.scaler.transform(trial[None]))[0])

    def _to_archive(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        """Header (plain JSON) and arrays for `mixnorm.save`; the classifier's own are nested."""
        inner, arrays = self.classifier._to_archive()
        header = {
            "preparation": self.preparation.to_dict(),
            "sfreq": None if np.isnan(self.sfreq) else self.sfreq,  # an epoch of one sample has no rate
            "ch_names": list(self.ch_names),
            "feature_names": list(self.feature_names),
            "unit": "µV",
            "classifier_class": type(self.classifier).__name__,
            "classifier": inner,
        }
        own = {"times": self.times, **{f"scaler/{name}": array for name, array in scaler_arrays(self.scaler).items()}}
        return header, own | {f"classifier/{name}": array for name, array in arrays.items()}

    @classmethod
    def _from_archive(cls, header: dict[str, Any], arrays: dict[str, NDArray]) -> Decoder:
        """The decoder that `_to_archive` described."""
        name = header["classifier_class"]
        if name not in _CLASSIFIERS:
            raise ValueError(f"A decoder holds one of {', '.join(_CLASSIFIERS)}, but this one holds {name!r}.")
        prefix = "classifier/"
        nested = {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}
        preparation = Preparation.from_dict(header["preparation"])
        scaler = scaler_from(preparation, {name: arrays[f"scaler/{name}"] for name in _LEARNED})
        return cls(
            preparation=preparation,
            sfreq=np.nan if header["sfreq"] is None else float(header["sfreq"]),
            ch_names=tuple(header["ch_names"]),
            feature_names=tuple(header["feature_names"]),
            times=arrays["times"],
            scaler=scaler,
            classifier=_CLASSIFIERS[name]._from_archive(header["classifier"], nested),
        )


def scaler_arrays(scaler: ChannelScaler) -> dict[str, NDArray]:
    """What a scaler learned, by name."""
    return {name: getattr(scaler, name) for name in _LEARNED}


def scaler_from(preparation: Preparation, arrays: dict[str, NDArray]) -> ChannelScaler:
    """Return the scaler of a preparation with what `scaler_arrays` gave."""
    scaler = preparation.scaler()
    for name in _LEARNED:
        setattr(scaler, name, arrays[name])
    scaler.n_channels_in_ = len(scaler.scale_)
    return scaler
