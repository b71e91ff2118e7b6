"""From recordings to the trials that estimators take."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.amplitudes import check_units
from mixnorm.eeg.cutting import Cut, cut
from mixnorm.eeg.events import UNKNOWN
from mixnorm.eeg.left_out import BEYOND, LeftOut, nothing_left_out
from mixnorm.eeg.preparation import Preparation
from mixnorm.eeg.recording import EpochedRecording, Recording, RecordingError
from mixnorm.eeg.rejection import peak_to_peak
from mixnorm.eeg.sources import as_recordings

LONGEST_MEAN = 0.06
"""Epochs are reduced to means of at most this many seconds by default: slow potentials need no finer samples, and
every sample more is a feature more to learn from the same trials."""


@dataclass(frozen=True)
class Design:
    """Prepared trials, before scaling, with their labels and metadata.

    Attributes
    ----------
    X : (n_trials, n_channels, n_times) array
        Microvolts.
    y : (n_trials,) int array
        1 target, 0 non-target, −1 not known.
    subject, session : (n_trials,) str arrays
        Whose trial it is, and of which session.
    character : (n_trials,) int array
        Number of the character, unique over sources; −1 not known.
    stimulus : (n_trials,) int array
        Code of what was shown; −1 not known.
    onset : (n_trials,) float array
        Seconds from the start of the source; for epochs the number of the trial.
    run : (n_trials,) int array
        Number of the source the trial came from.
    ch_names : tuple of str
        Names of the channels.
    positions : (n_channels, 3) array
        Metres; NaN where not known.
    times : (n_times,) array
        Exact seconds after the stimulus.
    sfreq : float
        Rate of the source in Hz.
    preparation : Preparation
        What was done.
    left_out : LeftOut
        The trials that were left out because of a fault, with their reasons.

    See Also
    --------
    prepare : Makes it from recordings.
    select_montage : Finds electrodes from it.
    Decoder.from_design : Fits a decoder to it.
    honest_folds : Divides it for cross-validation.

    Examples
    --------
    >>> from mixnorm.eeg import prepare, simulated_recording
    >>> design = prepare(simulated_recording(240, n_channels=4, n_informative=2))
    >>> X, y, groups = design.to_sklearn()
    >>> X.shape, len(set(groups.tolist()))  # the groups are the two characters
    ((240, 4, 12), 2)
    """

    X: NDArray[np.float64] = field(repr=False)
    y: NDArray[np.int64] = field(repr=False)
    subject: NDArray[np.str_] = field(repr=False)
    session: NDArray[np.str_] = field(repr=False)
    character: NDArray[np.int64] = field(repr=False)
    stimulus: NDArray[np.int64] = field(repr=False)
    onset: NDArray[np.float64] = field(repr=False)
    run: NDArray[np.int64] = field(repr=False)
    ch_names: tuple[str, ...]
    positions: NDArray[np.float64] = field(repr=False)
    times: NDArray[np.float64] = field(repr=False)
    sfreq: float
    preparation: Preparation
    left_out: LeftOut = field(default_factory=nothing_left_out, repr=False)

    def __len__(self) -> int:
        return len(self.y)

    def to_sklearn(self) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
        """``X, y, groups`` for scikit-learn; trials of one group must not be split between folds.

        The groups are the characters, or blocks of consecutive trials where the source has no characters.

        Returns
        -------
        X : (n_trials, n_channels, n_times) array
            The trials.
        y : (n_trials,) int array
            1 target, 0 non-target.
        groups : (n_trials,) int array
            The group of every trial.
        """
        if np.any(self.y == UNKNOWN):
            raise ValueError(
                f"{np.sum(self.y == UNKNOWN)} trials have no label; they can be scored, but not used for training."
            )
        return self.X, self.y, self.trial_groups()

    def rejected(self) -> LeftOut:
        """The trials that are left out of training because they are beyond the limit `preparation.reject`.

        A limit that is learned is here learned from all trials of the design; in cross-validation it is learned from
        the training trials of every fold.

        Returns
        -------
        LeftOut
            How many they are, and which channels are beyond the limit.
        """
        # the limits are those of the scaler, and so the same as in training
        scaler = self.preparation.scaler().fit(self.X)
        beyond = (peak_to_peak(self.X) > scaler.limits_) & (self.preparation.reject is not None)
        out = beyond.any(axis=1)
        return LeftOut(
            kind=np.full(out.sum(), BEYOND),
            because=tuple(tuple(np.asarray(self.ch_names)[row].tolist()) for row in beyond[out]),
            target=self.y[out],
            subject=self.subject[out],
            session=self.session[out],
            of=len(self),
        )

    @property
    def n_characters(self) -> int:
        """Number of characters of trials with labels; a run without characters is one, as in `spell`."""
        return len(np.unique(np.column_stack([self.run, self.character])[self.y != UNKNOWN], axis=0))

    def trial_groups(self, n_blocks: int = 10) -> NDArray[np.int64]:
        """One integer per trial: its character or, without one, one of `n_blocks` blocks of the run.

        Parameters
        ----------
        n_blocks : int
            Number of blocks of a run without characters.

        Returns
        -------
        (n_trials,) int array
            Trials of the same number belong together.
        """
        groups = np.empty(len(self), dtype=np.int64)
        for run in np.unique(self.run):
            mine = np.flatnonzero(self.run == run)
            # Neighbouring trials are correlated; blocks keep most of them in the same fold where there are no
            # characters.
            blocks = np.arange(len(mine)) * min(n_blocks, len(mine)) // len(mine)
            known = self.character[mine] != UNKNOWN
            # negative numbers, which cannot coincide with those of characters
            groups[mine] = np.where(known, self.character[mine], UNKNOWN - 1 - blocks - n_blocks * run)
        return np.unique(groups, return_inverse=True)[1]


def prepare(
    recordings: Any,
    preparation: Preparation | None = None,
    progress: Callable[[int], None] | None = None,
) -> Design:
    """Re-reference, filter, cut and sample recordings; nothing is estimated from the trials.

    Parameters
    ----------
    recordings : recording, path, `mne.io.Raw`, `mne.Epochs`, mapping of arrays with names, or a sequence of these
        All with the same channels (any order) and rate; the first one's order is kept. A channel that cannot be used
        in one of them is left out of all.
    preparation : Preparation, optional
        By default the preset "default", or "epochs" for trials that are already cut.
    progress : callable, optional
        Called with the number of recordings that are prepared, after each of them.

    Returns
    -------
    Design
        Trials with a fault (a window that is not wholly inside the recording, NaN, a flat channel, an annotation that
        marks them as bad) are left out, with a warning that counts them.

    See Also
    --------
    Preparation : The steps and their settings.
    default_preparation : The settings that ``mixnorm select`` and ``mixnorm train`` use.
    read_recordings : Reads files.

    Examples
    --------
    >>> from mixnorm.eeg import Preparation, prepare, simulated_recording
    >>> design = prepare(simulated_recording(40), Preparation.preset("errp"))
    >>> design.X.shape, design.times[:3]
    ((40, 16, 16), array([0.    , 0.0625, 0.125 ]))
    """
    recordings = as_recordings(recordings)
    if not recordings:
        raise ValueError("There are no recordings to prepare.")
    if preparation is None:
        preparation = Preparation.preset("epochs" if isinstance(recordings[0], EpochedRecording) else "default")
    parts = []
    for recording in recordings:
        parts.append(cut(recording, preparation))
        if progress is not None:
            progress(len(parts))
    # After cutting, because what must agree is the trials: recordings may differ in order of channels and in length.
    for recording, part in zip(recordings, parts, strict=True):
        _check_alike(recording.source, part, parts[0])
    check_units([recording.source for recording in recordings], [part.X for part in parts])
    design = _stacked(recordings, parts, preparation)
    # Only a warning: the trials stay in the design, and each fold rejects by its own training trials.
    if preparation.reject is not None and (rejected := design.rejected()):
        warnings.warn(f"In training, {rejected.describe()}", RuntimeWarning, stacklevel=2)
    return design


def _stacked(
    recordings: Sequence[Recording | EpochedRecording], parts: Sequence[Cut], preparation: Preparation
) -> Design:
    """All trials one after the other, channels in the order of the first source."""
    first = parts[0]
    run = np.repeat(np.arange(len(parts)), [len(part.X) for part in parts])
    subject, session, character, stimulus, y = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("subject", "session", "character", "stimulus", "target")
    )
    return Design(
        # Recordings of one system can have their channels in different orders.
        X=np.concatenate([part.X[:, [part.ch_names.index(name) for name in first.ch_names]] for part in parts]),
        y=y,
        subject=subject,
        session=session,
        character=_unique_characters(run, subject, session, character),
        stimulus=stimulus,
        onset=np.concatenate([part.onset for part in parts]),
        run=run,
        ch_names=first.ch_names,
        positions=first.positions,
        times=first.times,
        sfreq=recordings[0].sfreq,
        preparation=preparation,
        left_out=LeftOut.together([part.left_out for part in parts]),
    )


def default_preparation(
    recordings: Recording | EpochedRecording | Sequence[Recording | EpochedRecording],
    base: Preparation | None = None,
    window: tuple[float, float] | None = None,
    n_samples: int | None = None,
) -> Preparation:
    """The preparation that `mixnorm select` and `mixnorm train` use for these recordings.

    Continuous recordings: the preset "default". Epochs: means of 50 to 60 ms from the stimulus on. A mean is of
    ⌊0.06 s · rate⌋ samples, but at least one, and there are as many as the epochs have room for; samples before the
    stimulus are left out, unless the epochs end there. Epochs that then keep all their samples are used as they are.

    Parameters
    ----------
    recordings : Recording, EpochedRecording or a sequence of them
        The first one decides.
    base : Preparation, optional
        Taken instead of the default.
    window : (start, stop), optional
        Seconds after the stimulus, instead of that of the preparation.
    n_samples : int, optional
        Number of means over the window, instead of that of the preparation.

    Returns
    -------
    Preparation
        With the window and number of samples that were given.

    See Also
    --------
    prepare : Applies a preparation.
    Preparation.preset : The presets by name.

    Examples
    --------
    >>> from mixnorm.eeg import default_preparation, simulated_recording
    >>> default_preparation(simulated_recording(12), window=(0.0, 0.5)).describe()
    '0.5–10 Hz, 0–500 ms, 10 samples'
    """
    first = recordings if isinstance(recordings, Recording | EpochedRecording) else recordings[0]
    if base is None:
        if isinstance(first, EpochedRecording):
            return _means_of_epochs(first, window, n_samples)
        base = Preparation.preset("default")
    # The spacing of the samples is kept, not their number: a longer window has more of them.
    if window is not None:
        base = base.with_(window=window, n_samples=_in_proportion(base, window))
    return base if n_samples is None else base.with_(n_samples=n_samples, decimation=None)


def _means_of_epochs(
    recording: EpochedRecording, window: tuple[float, float] | None, n_samples: int | None
) -> Preparation:
    """Means of `LONGEST_MEAN` at most, in a window or from the stimulus on; all samples where that changes nothing."""
    whole, rate, count = Preparation.preset("epochs"), recording.sfreq, recording.X.shape[2]
    # a single sample has no rate, and there are no equal means of unevenly spaced ones
    if not np.isfinite(rate) or not np.allclose(np.diff(recording.times), 1 / rate, rtol=0.05):
        return whole
    origin = round(recording.times[0] * rate)
    start, stop = (round(edge * rate) for edge in window) if window else (max(origin, 0), origin + count)
    if stop <= start and not window:
        return whole
    # 1e-6: 0.06 s · 50 Hz is 3 samples, but slightly less in floating point for some rates
    length = max(1, min(int(LONGEST_MEAN * rate + 1e-6), stop - start))
    if window is None and n_samples is None and length == 1 and start == origin:
        return whole
    if n_samples is None:
        n_samples = max(1, (stop - start) // length)
        stop = start + n_samples * length
    elif window is None:  # means of equal length
        stop = start + n_samples * max(1, (stop - start) // n_samples)
    return whole.with_(window=(start / rate, stop / rate), n_samples=n_samples, reduce="mean")


def _in_proportion(base: Preparation, window: tuple[float, float]) -> int | None:
    """Number of samples of another window at the spacing of a preparation; None where a decimation sets it."""
    if base.n_samples is None or base.window is None or base.decimation is not None:
        return None
    return max(1, round(base.n_samples * (window[1] - window[0]) / (base.window[1] - base.window[0])))


def _unique_characters(
    run: NDArray[np.int64], subject: NDArray, session: NDArray, character: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Numbers of characters that are unique over sources."""
    # Every source counts its characters from 0; epochs of several sessions in one source do so for each session.
    labels = zip(run.tolist(), subject.tolist(), session.tolist(), character.tolist(), strict=True)
    numbers: dict[tuple, int] = {}
    unique = [numbers.setdefault(label, len(numbers)) if label[-1] != UNKNOWN else UNKNOWN for label in labels]
    return np.array(unique, dtype=np.int64)


def _check_alike(source: str, part: Cut, first: Cut) -> None:
    if set(part.ch_names) != set(first.ch_names):
        odd = sorted(set(part.ch_names) ^ set(first.ch_names))
        raise RecordingError(
            source, f"its channels are not those of the first recording: {', '.join(odd)}", "drop those"
        )
    # Rates may differ where the sample times agree all the same; what the classifier sees are the times.
    if part.X.shape[2] != first.X.shape[2] or not np.allclose(part.times, first.times, rtol=0, atol=1e-9):
        raise RecordingError(
            source,
            f"its sample times, at {part.sfreq:g} Hz, are not those of the first one, at {first.sfreq:g} Hz",
            "prepare recordings of one rate together",
        )
