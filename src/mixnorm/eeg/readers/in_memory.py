"""Recordings that are already in memory: MNE objects, and arrays with names.

Arrays with names are a mapping. Of epochs, with the names of an epochs bundle (``.npz``): `X` (trials, channels,
times), `y`, `ch_names`, `times`, and perhaps `subject`, `session`, `character`, `stimulus`. Of a continuous
recording: `signal` (channels, samples) in µV, `ch_names`, `sfreq`, `onset` (samples), and perhaps `target`,
`stimulus`, `character`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mixnorm.eeg.events import Events
from mixnorm.eeg.readers.bundle import from_arrays
from mixnorm.eeg.readers.mne_files import from_epochs, from_raw
from mixnorm.eeg.readers.options import NOBODY, ReadOptions, who_from_path
from mixnorm.eeg.recording import EpochedRecording, Recording, RecordingError, positions_or_ideal

_CONTINUOUS = ("signal", "ch_names", "sfreq", "onset")


def is_object(source: Any) -> bool:
    """Whether a source is something else than the name of a file, a folder or a data set."""
    return not isinstance(source, str | Path)


def read_object(source: Any, place: int, options: ReadOptions) -> Recording | EpochedRecording:
    """A recording from an object in memory; `place`: its place among the sources, which names it if nothing else does.

    An MNE object that was read from a file is treated as this file.
    """
    if isinstance(source, Recording | EpochedRecording):
        return _renamed(source, options)
    if isinstance(source, Mapping):
        return _from_mapping(source, f"arrays {place + 1}", str(place + 1), options)
    if not hasattr(source, "info") or not (hasattr(source, "get_data") and hasattr(source, "annotations")):
        raise TypeError(
            f"A recording must be a path, an mne.io.Raw, mne.Epochs, a Recording or a mapping of arrays with names, "
            f"but got {_shown(source)}. For arrays, pass {{'X': …, 'y': …, 'ch_names': …, 'times': …}} or "
            "{'signal': …, 'ch_names': …, 'sfreq': …, 'onset': …, 'target': …}."
        )
    # mne.Epochs have event_id, mne.io.Raw does not
    name, who, notes = _named(source, place, options)
    return (from_epochs if hasattr(source, "event_id") else from_raw)(source, options, name, who, notes)


def _renamed(recording: Recording | EpochedRecording, options: ReadOptions) -> Recording | EpochedRecording:
    """The recording with the subject and the session that the options name, if any."""
    asked = {name: value for name in ("subject", "session") if (value := getattr(options, name)) is not None}
    if isinstance(recording, EpochedRecording):
        return replace(recording, **{name: np.full(len(recording.X), value) for name, value in asked.items()})
    return replace(recording, **asked)


def _named(source: Any, place: int, options: ReadOptions) -> tuple[str, tuple[str, str], tuple[str, ...]]:
    """Name, subject and session of an MNE object: from the path of its file, or from what MNE knows of the subject."""
    # Raw has several files, Epochs one; objects that were made in memory have none.
    files = getattr(source, "filenames", None) or (getattr(source, "filename", None),)
    if files[0] is not None:
        subject, session, notes = who_from_path(Path(files[0]), options)
        return str(files[0]), (subject, session), notes
    told = (source.info["subject_info"] or {}).get("his_id")
    kind = "epochs" if hasattr(source, "event_id") else "raw"
    return f"{kind} {place + 1}", (options.subject or told or NOBODY, options.session or str(place + 1)), ()


def _from_mapping(
    given: Mapping[str, Any], source: str, session: str, options: ReadOptions
) -> Recording | EpochedRecording:
    # epochs and continuous recordings have no name in common but ch_names
    if "X" in given:
        arrays = {name: np.asarray(value) for name, value in given.items()}
        return from_arrays(arrays, source, session, options)
    missing = [name for name in _CONTINUOUS if name not in given]
    if missing:
        raise RecordingError(
            source,
            f"no {', '.join(missing)} in it (found: {', '.join(map(str, given)) or 'nothing'})",
            f"give {', '.join(_CONTINUOUS)} for a continuous recording, or X, y, ch_names, times for epochs",
        )
    signal, ch_names = np.asarray(given["signal"], dtype=np.float64), tuple(str(name) for name in given["ch_names"])
    if signal.ndim != 2 or len(signal) != len(ch_names):
        raise RecordingError(
            source, f"signal has shape {signal.shape} for {len(ch_names)} channel names", "give (channels, samples)"
        )
    return Recording(
        signal=signal,
        ch_names=ch_names,
        sfreq=float(given["sfreq"]),
        events=Events.of(*(given.get(name) for name in ("onset", "target", "stimulus", "character"))),
        subject=options.subject or str(given.get("subject", NOBODY)),
        session=options.session or str(given.get("session", session)),
        source=source,
        positions=positions_or_ideal(ch_names),
    )


def _shown(source: Any) -> str:
    shape = f" of shape {source.shape}" if hasattr(source, "shape") else ""
    return f"{type(source).__name__}{shape}"
