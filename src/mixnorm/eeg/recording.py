"""The result of reading a source: a continuous recording, or one that is already cut into epochs.

Signals are in microvolts, channel-major; an onset counts samples from the first one. Every problem with a
source is a `RecordingError`, whose text begins with the path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.events import UNKNOWN, BadSpan, Events
from mixnorm.eeg.positions import electrode_positions, standard_name


class RecordingError(ValueError):
    """A recording that cannot be used as it is.

    Parameters
    ----------
    source : str or path
        Path or name of the source; the message begins with it.
    problem : str
        What is wrong.
    remedy : str
        What to do.

    See Also
    --------
    read_recording : Raises it.
    SpellerError : The error of spellers and flash codes.

    Examples
    --------
    >>> from mixnorm.eeg import RecordingError
    >>> print(RecordingError("a.edf", "the file is empty", "record again"))
    a.edf: the file is empty; record again
    """

    def __init__(self, source: object, problem: str, remedy: str) -> None:
        super().__init__(f"{source}: {problem}; {remedy}")
        self.source, self.problem, self.remedy = str(source), problem, remedy


@dataclass(frozen=True)
class Recording:
    """One continuous run of one subject.

    Attributes
    ----------
    signal : (n_channels, n_samples) array
        Microvolts.
    ch_names : tuple of str
        Names of the channels.
    sfreq : float
        Samples per second.
    events : Events
        The stimuli.
    subject, session : str
        From the source, or as given when reading.
    source : str
        Path or name of the source.
    positions : (n_channels, 3) array
        Metres; NaN where not known.
    notes : tuple of str
        What the reader had to infer, and from what.
    bad_spans : tuple of BadSpan
        Segments marked as bad, as by annotations of MNE that begin with BAD. Trials that overlap them are left out.
    excluded : dict of str to str
        Channels of the source that are left out, and why.

    See Also
    --------
    EpochedRecording : A recording that is cut into epochs.
    read_recording : Reads one from a file or an MNE object.
    prepare : Cuts it into trials.

    Examples
    --------
    >>> from mixnorm.eeg import simulated_recording
    >>> recording = simulated_recording(12, n_channels=3, n_informative=1)
    >>> recording.signal.shape, recording.picked(["Pz", "Cz"]).ch_names
    ((3, 1600), ('Pz', 'Cz'))
    """

    signal: NDArray[np.float64] = field(repr=False)
    ch_names: tuple[str, ...]
    sfreq: float
    events: Events = field(repr=False)
    subject: str
    session: str
    source: str
    positions: NDArray[np.float64] = field(repr=False)
    notes: tuple[str, ...] = ()
    bad_spans: tuple[BadSpan, ...] = field(default=(), repr=False)
    excluded: Mapping[str, str] = field(default_factory=dict)

    @property
    def duration(self) -> float:
        """Length in seconds."""
        return self.signal.shape[1] / self.sfreq

    def without(self, names: Sequence[str]) -> Recording:
        """The recording without some channels.

        Parameters
        ----------
        names : sequence of str
            Channels to leave out.

        Returns
        -------
        Recording
            With the other channels, in their order.
        """
        return self.picked(_others(self, names))

    def picked(self, names: Sequence[str]) -> Recording:
        """The recording with some channels only, in this order.

        Parameters
        ----------
        names : sequence of str
            Channels to keep.

        Returns
        -------
        Recording
            With these channels.
        """
        order = [self.ch_names.index(name) for name in names]
        return replace(self, signal=self.signal[order], ch_names=tuple(names), positions=self.positions[order])

    def describe(self) -> str:
        """A description in words.

        Returns
        -------
        str
            Several lines.

        Examples
        --------
        >>> from mixnorm.eeg import simulated_recording
        >>> print(simulated_recording(12, n_channels=3, n_informative=1).describe())
        simulated: continuous, 3 channels (Fz, Cz, Pz) at 256 Hz, 6.2 s
          subject S1, session 1
          12 events: 2 target, 10 non-target; 12 stimulus codes, 1 character
        """
        head = f"continuous, {_channels(self)} at {self.sfreq:g} Hz, {self.duration:.1f} s"
        body = [f"subject {self.subject}, session {self.session}", _events_line(self.events)]
        return _description(self, head, body)


@dataclass(frozen=True)
class EpochedRecording:
    """A recording that is already cut into epochs, possibly of several subjects and sessions.

    Attributes
    ----------
    X : (n_trials, n_channels, n_times) array
        In the unit of the source; microvolts where it is known.
    ch_names : tuple of str
        Names of the channels.
    times : (n_times,) array
        Seconds relative to the stimulus.
    events : Events
        One for each trial; `events.onset` numbers the trials.
    subject, session : (n_trials,) arrays of str
        One label per trial.
    source : str
        Path or name of the source.
    positions : (n_channels, 3) array
        Metres; NaN where not known.
    notes : tuple of str
        What the reader had to infer, and from what.
    letter : (n_trials,) array of str, or None
        The symbol that the subject attended to, where it is known.
    bad : (n_trials,) array of str, or None
        For every trial the annotation that marks it as bad, "" for none; None: no trial is marked.
    excluded : dict of str to str
        Channels of the source that are left out, and why.

    See Also
    --------
    Recording : A continuous recording.
    read_recording : Reads one from a file or an MNE object.

    Examples
    --------
    >>> import numpy as np
    >>> from mixnorm.eeg import read_recording, simulated_p300
    >>> data = simulated_p300(20, n_channels=3, n_informative=2)
    >>> arrays = {"X": data.X, "y": data.y, "ch_names": data.ch_names, "times": data.times}
    >>> epochs = read_recording(arrays)
    >>> type(epochs).__name__, epochs.X.shape, epochs.sfreq
    ('EpochedRecording', (20, 3, 8), 8.0)
    """

    X: NDArray[np.float64] = field(repr=False)
    ch_names: tuple[str, ...]
    times: NDArray[np.float64] = field(repr=False)
    events: Events = field(repr=False)
    subject: NDArray[np.str_] = field(repr=False)
    session: NDArray[np.str_] = field(repr=False)
    source: str
    positions: NDArray[np.float64] = field(repr=False)
    notes: tuple[str, ...] = ()
    letter: NDArray[np.str_] | None = field(default=None, repr=False)
    bad: NDArray[np.str_] | None = field(default=None, repr=False)
    excluded: Mapping[str, str] = field(default_factory=dict)

    @property
    def sfreq(self) -> float:
        """Samples per second within an epoch; NaN for a single sample."""
        # the median, because times read from a file are rounded
        return float(1 / np.median(np.diff(self.times))) if len(self.times) > 1 else float("nan")

    def without(self, names: Sequence[str]) -> EpochedRecording:
        """The trials without some channels.

        Parameters
        ----------
        names : sequence of str
            Channels to leave out.

        Returns
        -------
        EpochedRecording
            With the other channels, in their order.
        """
        return self.picked(_others(self, names))

    def picked(self, names: Sequence[str]) -> EpochedRecording:
        """The trials with some channels only, in this order.

        Parameters
        ----------
        names : sequence of str
            Channels to keep.

        Returns
        -------
        EpochedRecording
            With these channels.
        """
        order = [self.ch_names.index(name) for name in names]
        return replace(self, X=self.X[:, order], ch_names=tuple(names), positions=self.positions[order])

    def describe(self) -> str:
        """A description in words.

        Returns
        -------
        str
            Several lines.
        """
        span = f"{self.times[0]:.3f} to {self.times[-1]:.3f} s" if len(self.times) else "no samples"
        head = f"epochs, {_channels(self)}, {len(self.times)} samples from {span}"
        body = [
            f"{len(np.unique(self.subject))} subjects, {len(np.unique(self.session))} sessions",
            _events_line(self.events),
        ]
        return _description(self, head, body)


AnyRecording = TypeVar("AnyRecording", Recording, EpochedRecording)


def excluding(recording: AnyRecording, reasons: Mapping[str, str]) -> AnyRecording:
    """The recording without some channels; why each of them is left out is kept in `excluded`."""
    return replace(recording.without(list(reasons)), excluded={**recording.excluded, **reasons})


def positions_or_ideal(ch_names: Sequence[str], known: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """The known positions, and those of the spherical head where none is known."""
    ideal = electrode_positions(ch_names)
    return ideal if known is None else np.where(np.isfinite(known), known, ideal)


def _others(recording: Recording | EpochedRecording, names: Sequence[str]) -> list[str]:
    # A channel that is left out already, for example as flat, may be named again.
    missing = [name for name in names if name not in recording.ch_names and name not in recording.excluded]
    if missing:
        raise RecordingError(
            recording.source,
            f"unknown channel {', '.join(missing)}, which should be excluded",
            f"available: {', '.join(recording.ch_names)}",
        )
    return [name for name in recording.ch_names if name not in names]


def _channels(recording: Recording | EpochedRecording) -> str:
    names = recording.ch_names
    shown = ", ".join(names) if len(names) <= 12 else f"{', '.join(names[:10])}, … {names[-1]}"
    return f"{len(names)} channels ({shown})"


def _events_line(events: Events) -> str:
    counts = [(int(np.sum(events.target == value)), text) for value, text in _LABEL_TEXT]
    labels = ", ".join(f"{count} {text}" for count, text in counts if count)
    details = [
        f"{number} {what}{'s' if number > 1 else ''}"
        for values, what in ((events.stimulus, "stimulus code"), (events.character, "character"))
        if (number := len(np.unique(values[values != UNKNOWN])))
    ]
    line = f"{len(events)} events: {labels}" if labels else "no events"
    return f"{line}; {', '.join(details)}" if details else line


_LABEL_TEXT = ((1, "target"), (0, "non-target"), (UNKNOWN, "unlabelled"))


def _description(recording: Recording | EpochedRecording, head: str, body: list[str]) -> str:
    strangers = [name for name in recording.ch_names if standard_name(name) is None]
    if strangers:
        body = [*body, f"channels that are not electrodes of the 10–10 system: {', '.join(strangers)}"]
    lines = [*body, *(f"note: {note}" for note in recording.notes)]
    return "\n".join([f"{recording.source}: {head}", *(f"  {line}" for line in lines)])
