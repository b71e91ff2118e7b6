"""Epochs bundles: ``.npz`` files with `X`, `y`, `ch_names`, `times` and optional arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mixnorm.eeg.events import Events
from mixnorm.eeg.readers.guard import load_npz, whole_numbers
from mixnorm.eeg.readers.options import NOBODY, ReadOptions, subject_of
from mixnorm.eeg.recording import EpochedRecording, RecordingError, positions_or_ideal

_REQUIRED = ("X", "y", "ch_names", "times")
_LAYOUT = (*_REQUIRED, "subject", "session", "stimulus", "character")
_NUMBERS = ("y", "stimulus", "character")


def read_bundle(path: Path, options: ReadOptions) -> EpochedRecording:
    """Read an epochs bundle; the unit is that of the file."""
    return from_arrays(load_npz(path, options), path, path.stem, options)


def from_arrays(
    arrays: dict[str, np.ndarray], path: Path | str, session: str, options: ReadOptions
) -> EpochedRecording:
    """Epochs from the arrays of a bundle; `session` is used where neither arrays nor options name one."""
    _check(arrays, path)
    n_trials = len(arrays["y"])
    ch_names = tuple(str(name) for name in arrays["ch_names"])
    notes = ["unit as in the file"]
    if "subject" not in arrays and options.subject is None:
        notes.append("no subject in the file: treated as one subject")
    whose = np.unique(arrays.get("subject", ()))
    # One name for trials of several people would make one subject of them.
    if options.subject is not None and len(whose) > 1:
        raise RecordingError(
            path,
            f"it contains {len(whose)} subjects ({', '.join(map(str, whose[:5]))}), but subjects=… gives one name",
            "leave subjects=… out",
        )
    asked = subject_of(path, str(whose[0]), options) if len(whose) == 1 else options.subject
    return EpochedRecording(
        X=arrays["X"].astype(np.float64),
        ch_names=ch_names,
        times=arrays["times"].astype(np.float64),
        events=Events.of(np.arange(n_trials), *(_numbers(arrays, name, path) for name in _NUMBERS)),
        subject=_labels(arrays.get("subject"), asked, NOBODY, n_trials),
        session=_labels(arrays.get("session"), options.session, session, n_trials),
        source=str(path),
        positions=positions_or_ideal(ch_names),
        notes=tuple(notes),
        letter=arrays["letter"].astype(str) if "letter" in arrays else None,
    )


def _labels(found: np.ndarray | None, asked: str | None, otherwise: str, n_trials: int) -> np.ndarray:
    if asked is not None or found is None:
        return np.full(n_trials, asked or otherwise)
    return found.astype(str)


def _check(arrays: dict[str, np.ndarray], path: Path | str) -> None:
    missing = [name for name in _REQUIRED if name not in arrays]
    if missing:
        raise RecordingError(
            path,
            f"no {', '.join(missing)} in it (found: {', '.join(arrays) or 'nothing'})",
            "see docs/eeg.md for the layout",
        )
    for name, array in arrays.items():
        n_axes = 3 if name == "X" else 1
        # Arrays of other names are left alone: a bundle may hold more than is used.
        if name in _LAYOUT and array.ndim != n_axes:
            raise RecordingError(
                path, f"{name} has the shape {array.shape}, but must have {n_axes} axes", "write it again"
            )
        if name in ("X", "times") and array.dtype.kind not in "fiu":
            raise RecordingError(path, f"{name} is not numeric ({array.dtype})", "write it again")
    shape = tuple(len(arrays[name]) for name in ("y", "ch_names", "times"))
    if arrays["X"].shape != shape:
        raise RecordingError(
            path,
            f"X has shape {arrays['X'].shape}, but the lengths of y, ch_names and times are {shape}",
            "write it again",
        )
    for name in ("subject", "session", "stimulus", "character", "letter"):
        if name in arrays and len(arrays[name]) != shape[0]:
            raise RecordingError(
                path, f"{name} has {len(arrays[name])} entries for {shape[0]} trials", "write it again"
            )
    # Which of 1 and 2, say, is the target cannot be guessed.
    if not set(_numbers(arrays, "y", path).tolist()) <= {0, 1, -1}:
        raise RecordingError(
            path, "y contains other values than 1 (target) and 0 (non-target)", "change them to 1 and 0"
        )
    _check_times(arrays["times"].astype(np.float64), path)


def _check_times(times: np.ndarray, path: Path) -> None:
    """Refuse times that are constant, go backwards or are not numbers."""
    # The sampling rate is computed from them, and a step of 0 would make it infinite.
    steps = np.diff(times)
    if not np.isfinite(times).all():
        raise RecordingError(
            path, "times contains NaN or infinite values", "write the time of each sample, in seconds"
        )
    if np.any(steps <= 0):
        first = int(np.flatnonzero(steps <= 0)[0])
        raise RecordingError(
            path,
            f"times does not increase: {times[first]:g} s is followed by {times[first + 1]:g} s",
            "write the time of each sample, in seconds and in order",
        )


def _numbers(arrays: dict[str, np.ndarray], name: str, path: Path) -> np.ndarray | None:
    return whole_numbers(arrays[name], name, path) if name in arrays else None
