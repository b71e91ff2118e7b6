"""From whatever holds recordings (files, MNE objects, arrays with names) to recordings that can be used together."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mixnorm.eeg.readers.dispatch import read_recordings
from mixnorm.eeg.recording import EpochedRecording, Recording, excluding


def as_recordings(source: Any) -> list[Recording | EpochedRecording]:
    """The recordings of one source or of several, checked, with the channels that can be used in all of them.

    Parameters
    ----------
    source : recording, path, `mne.io.Raw`, `mne.Epochs`, mapping of arrays with names, or a sequence of these
        As in `read_recordings`.

    Returns
    -------
    list of Recording and EpochedRecording
        A channel that is left out of one recording (because it is marked as bad, or holds no signal) is left out of
        all. A warning names the channels that were left out here, and that no note of a recording has named before.
    """
    given = [source] if _is_one(source) else list(source)
    found = read_recordings(*given)
    for recording in found:
        _say_what_is_new(recording, given)
    return _with_common_channels(found)


def _is_one(source: Any) -> bool:
    if isinstance(source, str | Path | Mapping | Recording | EpochedRecording) or hasattr(source, "info"):
        return True
    return not isinstance(source, Sequence)


def _say_what_is_new(recording: Recording | EpochedRecording, given: Sequence[Any]) -> None:
    """Warn of channels that were left out just now: the notes of a recording that was made here were not shown yet."""
    # A recording that the user read before has notes, and has shown them; a second warning would repeat them.
    read = [one for one in given if isinstance(one, Recording | EpochedRecording) and one.source == recording.source]
    known = {name for one in read for name in one.excluded}
    new = {name: why for name, why in recording.excluded.items() if name not in known}
    if new:
        _warn(f"{recording.source}: {_named(new)} left out")


def _with_common_channels(recordings: Sequence[Recording | EpochedRecording]) -> list[Recording | EpochedRecording]:
    excluded = {name: f"{why} in {one.source}" for one in recordings for name, why in one.excluded.items()}
    together = []
    for recording in recordings:
        out = {name: excluded[name] for name in recording.ch_names if name in excluded}
        if out:
            _warn(f"{recording.source}: {_named(out)} left out of this recording too")
        together.append(excluding(recording, out) if out else recording)
    return together


def _named(excluded: Mapping[str, str]) -> str:
    names = ", ".join(f"{name} ({why})" for name, why in excluded.items())
    return f"{names} {'is' if len(excluded) == 1 else 'are'}"


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=5)
