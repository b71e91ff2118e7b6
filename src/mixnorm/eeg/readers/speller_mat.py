"""Speller recordings in ``.mat`` files, in three layouts that are recognised by their variables.

- BCI2000 exported: `signal` (samples, channels), `StimulusCode`, `StimulusType`, `Flashing` and other
  states, each (samples, 1); BCI Competition II, data set IIb, and UAM files are of this kind;
- BCI2000's `load_bcidat` saved: `signal`, a struct `states` and a struct `parameters` (or `parms`);
- `y` (samples, channels), `trig` (+1 target, −1 non-target at the onset), `fs`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.events import Events
from mixnorm.eeg.readers.guard import numeric, whole_numbers
from mixnorm.eeg.readers.matlab import channels_first, struct
from mixnorm.eeg.readers.options import ReadOptions, characters_from_pauses, who_from_path
from mixnorm.eeg.readers.triggers import rises, trigger_labels
from mixnorm.eeg.recording import Recording, RecordingError, positions_or_ideal

#: Channel order of the BCI Competition speller data sets, which is not in their files.
# fmt: off
COMPETITION_NAMES = (
    "FC5", "FC3", "FC1", "FCz", "FC2", "FC4", "FC6", "C5", "C3", "C1", "Cz", "C2", "C4", "C6", "CP5", "CP3",
    "CP1", "CPz", "CP2", "CP4", "CP6", "Fp1", "Fpz", "Fp2", "AF7", "AF3", "AFz", "AF4", "AF8", "F7", "F5",
    "F3", "F1", "Fz", "F2", "F4", "F6", "F8", "FT7", "FT8", "T7", "T8", "T9", "T10", "TP7", "TP8", "P7", "P5",
    "P3", "P1", "Pz", "P2", "P4", "P6", "P8", "PO7", "PO3", "POz", "PO4", "PO8", "O1", "Oz", "O2", "Iz",
)
# fmt: on

COMPETITION_SFREQ = 240.0


def is_speller(variables: dict[str, Any]) -> bool:
    """Whether the variables have one of the three layouts."""
    names = set(variables)
    return {"signal", "StimulusCode"} <= names or {"signal", "states"} <= names or {"y", "trig"} <= names


def read_speller(path: Path, variables: dict[str, Any], options: ReadOptions) -> Recording:
    """A speller recording in any of the layouts above."""
    return (_read_trig if "trig" in variables else _read_bci2000)(path, variables, options)


def speller_events(
    states: dict[str, NDArray[np.int64]], source: object, options: ReadOptions
) -> tuple[Events, tuple[str, ...]]:
    """Events from BCI2000's states, one value per sample.

    A flash begins where `Flashing` rises (where it is missing: where `StimulusCode` leaves 0 or
    changes). A character begins where `PhaseInSequence` becomes 2 (where it is missing: after a pause).
    """
    code = states["StimulusCode"]
    lit = states.get("Flashing")
    # `Flashing` is better where it exists: the code of a repeated flash need not return to 0 in between.
    onset = rises(code) if lit is None else rises((lit > 0).astype(np.int64))
    if len(onset) == 0:
        raise RecordingError(source, "its states contain no flashes", "check that the speller was running")
    notes: tuple[str, ...] = ("onsets from StimulusCode, as there is no Flashing",) if lit is None else ()
    target = states.get("StimulusType")
    if target is None:
        notes += ("no StimulusType in it: which flashes were targets is unknown",)
    character, told = _characters(states.get("PhaseInSequence"), onset)
    if target is None:
        return Events.of(onset, None, code[onset], character), notes + told
    known = trigger_labels(target[onset], "StimulusType", options, source)
    keep = known.chosen
    return Events.of(onset[keep], known.target, code[onset][keep], character[keep]), notes + told


def _characters(
    phase: NDArray[np.int64] | None, onset: NDArray[np.int64]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    if phase is None or not np.any(phase == 2):
        return characters_from_pauses(onset)
    # phase 1 is the pause before a character, 2 its flashes, 3 the pause after it
    begun = np.cumsum((phase == 2) & (np.concatenate([[0], phase[:-1]]) != 2))
    return begun[onset] - 1, ()


def _read_bci2000(path: Path, variables: dict[str, Any], options: ReadOptions) -> Recording:
    if "states" in variables:
        variables = {**variables, **struct(variables, "states")}
    signal = channels_first(path, numeric(variables, "signal", path))
    names = ("StimulusCode", "StimulusType", "Flashing", "PhaseInSequence")
    found = [name for name in names if name in variables]
    states = {name: whole_numbers(numeric(variables, name, path), name, path).ravel() for name in found}
    if "StimulusCode" not in states:
        raise RecordingError(path, "its states contain no StimulusCode", "check the layout")
    for name, values in states.items():
        if len(values) != signal.shape[1]:
            raise RecordingError(path, f"{name} has {len(values)} samples, signal {signal.shape[1]}", "export again")
    events, notes = speller_events(states, path, options)
    ch_names, sfreq, told = _names_and_rate(path, variables, len(signal), options)
    return _recording(path, signal, (ch_names, sfreq), events, options, (*told, *notes))


def _names_and_rate(
    path: Path, variables: dict[str, Any], n_channels: int, options: ReadOptions
) -> tuple[tuple[str, ...], float, tuple[str, ...]]:
    """From the parameters where the file has them, else from the description of a known data set."""
    # 64 channels without names are those of the competition; a note says that this was assumed.
    competition = n_channels == len(COMPETITION_NAMES)
    notes: tuple[str, ...] = ("the file has no unit: µV assumed",)
    sfreq = _parameter_rate(variables) or options.sfreq
    if sfreq is None and not competition:
        sfreq = _said_rate(path, options)
    if sfreq is None:
        sfreq, notes = (
            COMPETITION_SFREQ,
            (*notes, "the file has no sampling rate: 240 Hz assumed, as in BCI Competition II IIb"),
        )
    if competition and not options.ch_names:
        return (
            COMPETITION_NAMES,
            sfreq,
            (*notes, "the file has no channel names: those of BCI Competition II IIb assumed"),
        )
    ch_names, told = options.names_for(n_channels, str(path))
    return ch_names, sfreq, (*notes, *told)


def _parameter_rate(variables: dict[str, Any]) -> float | None:
    for name in ("parameters", "parms"):
        rate = struct(variables, name).get("SamplingRate") if name in variables else None
        # Depending on the version, the rate is a number, a cell with a number, or a structure with NumericValue.
        while isinstance(rate, np.ndarray) and rate.dtype.kind in "OV" and rate.size == 1:
            rate = struct({"rate": rate}, "rate").get("NumericValue") if rate.dtype.names else rate.item()
        if isinstance(rate, np.ndarray) and rate.dtype.kind in "iuf" and rate.size:
            return float(rate.ravel()[0])
    return None


def _read_trig(path: Path, variables: dict[str, Any], options: ReadOptions) -> Recording:
    signal = channels_first(path, numeric(variables, "y", path))
    trigger = whole_numbers(numeric(variables, "trig", path), "trig", path).ravel()
    if len(trigger) != signal.shape[1]:
        raise RecordingError(path, f"trig has {len(trigger)} samples, y {signal.shape[1]}", "export again")
    onset = np.flatnonzero((trigger != 0) & (np.concatenate([[0], trigger[:-1]]) == 0))
    character, told = characters_from_pauses(onset)
    ch_names, named = options.names_for(len(signal), str(path))
    rate = numeric(variables, "fs", path).ravel() if "fs" in variables else np.empty(0)
    sfreq = float(rate[0]) if len(rate) else _said_rate(path, options)
    known = trigger_labels(trigger[onset], "trig", options, path)
    keep = known.chosen
    events = Events.of(onset[keep], known.target, None, character[keep])
    return _recording(
        path, signal, (ch_names, sfreq), events, options, ("the file has no unit: µV assumed", *named, *told)
    )


def _said_rate(path: Path, options: ReadOptions) -> float:
    if options.sfreq is None:
        raise RecordingError(path, "the file has no sampling rate", "give it with sfreq=… (Hz)")
    return options.sfreq


def _recording(
    path: Path,
    signal: NDArray[np.float64],
    axes: tuple[tuple[str, ...], float],
    events: Events,
    options: ReadOptions,
    notes: tuple[str, ...],
) -> Recording:
    subject, session, told = who_from_path(path, options)
    ch_names, sfreq = axes
    return Recording(
        signal,
        ch_names,
        sfreq,
        events,
        subject,
        session,
        str(path),
        positions_or_ideal(ch_names),
        (*notes, *told),
    )
