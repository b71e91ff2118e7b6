"""The public EPFL P300 files (Hoffmann 2008): one ``.mat`` per run, 34 channels at 2048 Hz.

`data` (34, n) in µV, `events` (m, 6) the clock times of the flashes, `stimuli` (m,) which of the
six images flashed, `target` the image attended to. The first flash comes 0.4 s after the first sample.
Channels are the 32 of the Biosemi cap and the mastoids MA1 and MA2, whose mean the preset `epfl` takes
as reference.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.events import Events
from mixnorm.eeg.readers.guard import numeric, whole_numbers
from mixnorm.eeg.readers.options import ReadOptions, who_from_path
from mixnorm.eeg.recording import Recording, RecordingError, positions_or_ideal

SFREQ = 2048.0
#: Seconds from the first sample to the first flash.
FIRST_FLASH = 0.4

# fmt: off
CH_NAMES = (
    "Fp1", "AF3", "F7", "F3", "FC1", "FC5", "T7", "C3", "CP1", "CP5", "P7", "P3", "Pz", "PO3", "O1", "Oz",
    "O2", "PO4", "P4", "P8", "CP6", "CP2", "C4", "T8", "FC6", "FC2", "F4", "F8", "AF4", "Fp2", "Fz", "Cz",
    "MA1", "MA2",
)
# fmt: on


def is_epfl(variables: dict[str, Any]) -> bool:
    """Whether these are the variables of an EPFL run."""
    return {"data", "events", "stimuli", "target"} <= set(variables)


def read_epfl(path: Path, variables: dict[str, Any], options: ReadOptions) -> Recording:
    """One run; all its flashes belong to one character, the image attended to."""
    signal = numeric(variables, "data", path).astype(np.float64)
    stimuli = whole_numbers(numeric(variables, "stimuli", path), "stimuli", path).ravel()
    attended = whole_numbers(numeric(variables, "target", path), "target", path).ravel()
    # one image is attended to in a whole run
    if len(attended) == 0 or len(set(attended.tolist())) > 1:
        raise RecordingError(path, f"target has {len(attended)} values, not one", "is this an EPFL file?")
    if signal.ndim != 2 or len(signal) != len(CH_NAMES):
        raise RecordingError(path, f"data has shape {signal.shape}, not (34, samples)", "is this an EPFL file?")
    onset = _onsets(numeric(variables, "events", path), len(stimuli), path)
    signal, notes = _trimmed(signal)
    subject, session, told = who_from_path(path, options)
    return Recording(
        signal=signal,
        ch_names=CH_NAMES,
        sfreq=SFREQ,
        events=Events.of(onset, stimuli == attended[0], stimuli, np.zeros(len(stimuli))),
        subject=subject,
        session=session,
        source=str(path),
        positions=positions_or_ideal(CH_NAMES),
        notes=("channel names and rate from the description of the data set", *told, *notes),
    )


def _onsets(clock: NDArray[np.float64], n_stimuli: int, path: Path) -> NDArray[np.int64]:
    """Samples of the flashes from their clock times (year, month, day, hour, minute, second)."""
    if clock.shape != (n_stimuli, 6) or n_stimuli == 0:
        raise RecordingError(path, f"{clock.shape} clock times for {n_stimuli} stimuli", "is this an EPFL file?")
    whole = whole_numbers(clock[:, :3], "events", path)
    try:
        # A session may pass midnight.
        days = np.array([date(*(int(part) for part in day)).toordinal() for day in whole])
    except (ValueError, OverflowError) as error:
        raise RecordingError(
            path, f"events has a date that does not exist ({error})", "is this an EPFL file?"
        ) from None
    if not np.isfinite(clock[:, 3:]).all() or np.abs(clock[:, 3:]).max() > 60:
        raise RecordingError(path, "events has times of day that do not exist", "is this an EPFL file?")
    seconds = (days - days[0]) * 86400.0 + clock[:, 3:] @ [3600.0, 60.0, 1.0]
    if np.any(np.diff(seconds) <= 0):
        raise RecordingError(path, "events has clock times that do not increase", "is this an EPFL file?")
    # Clock times say when flashes came relative to each other; only the description says when the first one came.
    return np.rint((seconds - seconds[0] + FIRST_FLASH) * SFREQ).astype(np.int64)


def _trimmed(signal: NDArray[np.float64]) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """The signal without the zeros at the end of a run, whose step would cause a transient of the filter."""
    used = np.flatnonzero(signal.any(axis=0))
    length = used[-1] + 1 if len(used) else 0
    if length == signal.shape[1]:
        return signal, ()
    return signal[:, :length], (f"{signal.shape[1] - length} zero samples at the end left out",)
