"""Any ``.mat`` file, with a recipe that says which variable is what.

    signal=EEG.data,labels=trig,rate=fs

A name is a variable, a field of a structure after a dot, or an element of a cell array by its number ("data.1.X",
counted from 1 as MATLAB does).

- `signal`: (samples, channels) or the other way round; there are more samples than channels.
- `labels`: 1 target, 0 or −1 non-target, one for each sample or each event. Other values need `target=`.
- `codes`: what was shown, one for each sample or each event.
- `onsets`: the sample of each event, counted from 1. Without it an event begins where `codes`, or else `labels`,
  leaves 0 or changes.
- `characters`: the number of the character, one for each sample or each event.
- `rate`: the sampling rate, a variable or a number; `names`: the channel names; `unit`: µV (the default), mV, V or nV.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.events import UNKNOWN, Events
from mixnorm.eeg.readers.guard import numeric, whole_numbers
from mixnorm.eeg.readers.matlab import leaves, texts
from mixnorm.eeg.readers.options import (
    UNLABELLED,
    Labels,
    ReadOptions,
    characters_from_pauses,
    who_from_path,
)
from mixnorm.eeg.readers.recipe import nearest, parsed
from mixnorm.eeg.readers.triggers import rises, trigger_labels
from mixnorm.eeg.recording import Recording, RecordingError, positions_or_ideal

KEYS = ("signal", "labels", "codes", "onsets", "characters", "rate", "names", "unit")
UNITS = {"µV": 1.0, "uV": 1.0, "mV": 1e3, "V": 1e6, "nV": 1e-3}


def read_with_recipe(path: Path, variables: dict[str, Any], options: ReadOptions) -> Recording:
    """The recording that the recipe describes."""
    told = _Told(path, leaves(variables), parsed(options.recipe or "", KEYS, path))
    told.check_names()
    signal = told.signal()
    events, notes = _events(told, signal.shape[1], options)
    ch_names, named = told.names(len(signal), options)
    subject, session, who = who_from_path(path, options)
    unit = told.recipe.get("unit")
    return Recording(
        signal=signal,
        ch_names=ch_names,
        sfreq=told.rate(options),
        events=events,
        subject=subject,
        session=session,
        source=str(path),
        positions=positions_or_ideal(ch_names),
        notes=("read with a recipe", *([] if unit else ["the recipe has no unit: µV assumed"]), *named, *notes, *who),
    )


@dataclass(frozen=True)
class _Told:
    """The variables of a file and what the recipe says of them."""

    path: Path
    found: dict[str, Any]
    recipe: dict[str, str]

    def check_names(self) -> None:
        """Refuse a recipe that names what is not there, offering the nearest name."""
        if "signal" not in self.recipe:
            raise RecordingError(self.path, "the recipe does not name the signal", "add signal=NAME")
        for key, name in self.recipe.items():
            literal = key == "unit" or (key == "rate" and _number(name) is not None)
            if not literal and name not in self.found:
                raise RecordingError(
                    self.path,
                    f"the recipe says {key}={name}, but there is no variable {name!r}{nearest(name, self.found)}",
                    f"found: {_listing(self.found)}",
                )

    def signal(self) -> NDArray[np.float64]:
        """The signal in µV, channels first."""
        name, unit = self.recipe["signal"], self.recipe.get("unit", "µV")
        if unit not in UNITS:
            raise RecordingError(self.path, f"the recipe has the unit {unit!r}", f"possible: {', '.join(UNITS)}")
        signal = numeric(self.found, name, self.path)
        if signal.ndim != 2 or min(signal.shape) < 1:
            raise RecordingError(
                self.path,
                f"{name} has the shape {signal.shape}, not (samples, channels)",
                f"name another variable; found: {_listing(self.found)}",
            )
        # A recording has many times more samples than channels, so that its shape says which is which.
        first = signal if signal.shape[0] < signal.shape[1] else signal.T
        return np.ascontiguousarray(first, dtype=np.float64) * UNITS[unit]

    def numbers(self, key: str) -> NDArray[np.int64] | None:
        """The whole numbers of a variable that the recipe may name."""
        if key not in self.recipe:
            return None
        return whole_numbers(numeric(self.found, self.recipe[key], self.path), self.recipe[key], self.path).ravel()

    def rate(self, options: ReadOptions) -> float:
        """The sampling rate: a number, a variable, or `sfreq=`."""
        name = self.recipe.get("rate")
        if name is None:
            if options.sfreq is None:
                raise RecordingError(
                    self.path, "the recipe does not name the sampling rate", "add rate=256, or its name"
                )
            return options.sfreq
        value = _number(name)
        if value is not None:
            return value
        values = numeric(self.found, name, self.path).ravel()
        if len(values) != 1:
            raise RecordingError(self.path, f"rate={name} has {len(values)} values", "name a variable with one number")
        return float(values[0])

    def names(self, n_channels: int, options: ReadOptions) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Channel names from a variable, or as `ch_names=` says."""
        if "names" not in self.recipe:
            return options.names_for(n_channels, str(self.path))
        found = texts(self.found[self.recipe["names"]])
        if len(found) != n_channels:
            raise RecordingError(
                self.path,
                f"names={self.recipe['names']} has {len(found)} names for {n_channels} channels",
                "name another variable, or check that the signal is the right one",
            )
        return tuple(found), ()


def _events(told: _Told, n_samples: int, options: ReadOptions) -> tuple[Events, tuple[str, ...]]:
    onset, labels, codes, characters = (told.numbers(key) for key in ("onsets", "labels", "codes", "characters"))
    if onset is None:
        # Codes first: flashes of the same label follow each other more often than flashes of the same code, and
        # without a 0 between them they would be one event.
        course = codes if codes is not None else labels
        if course is None:
            raise RecordingError(
                told.path, "the recipe does not say where the events are", "add labels=NAME, codes=NAME or onsets=NAME"
            )
        if len(course) != n_samples:
            raise RecordingError(
                told.path,
                f"{len(course)} codes or labels for {n_samples} samples, and the recipe names no onsets",
                "add onsets=NAME, the sample of each event counted from 1",
            )
        onset = rises(course)
    else:
        onset = onset - 1  # MATLAB counts from 1
    at = {"labels": labels, "codes": codes, "characters": characters}
    values = {key: _at_onsets(told, key, course, onset, n_samples) for key, course in at.items()}
    known = _labels(told, values, len(onset), options)
    character, notes = values["characters"], ()
    if character is None:
        character, notes = characters_from_pauses(onset)
    code = np.full(len(onset), UNKNOWN) if values["codes"] is None else values["codes"]
    keep = known.chosen
    return Events.of(onset[keep], known.target, code[keep], character[keep]), (known.note, *notes)


def _labels(told: _Told, values: dict[str, Any], n_events: int, options: ReadOptions) -> Labels:
    """From `labels`; without them from `codes`, where the user names the codes that are targets."""
    course, name = values["labels"], told.recipe.get("labels", "")
    # codes can say which events are targets only together with `target=`
    if course is None and options.target:
        course, name = values["codes"], told.recipe.get("codes", "")
    if course is not None:
        return trigger_labels(course, name, options, told.path)
    if options.unlabelled:
        return Labels(np.ones(n_events, dtype=bool), np.full(n_events, UNKNOWN), "all events taken, unlabelled")
    raise RecordingError(
        told.path,
        "the recipe does not say which events are targets",
        f"add labels=NAME, or give target=…; {UNLABELLED}",
    )


def _at_onsets(
    told: _Told, key: str, course: NDArray[np.int64] | None, onset: NDArray[np.int64], n_samples: int
) -> NDArray[np.int64] | None:
    """The values at the events, of a variable with one value for each event or each sample."""
    # per event first: a recording of one sample per event does not exist
    if course is None or len(course) == len(onset):
        return course
    if len(course) != n_samples:
        raise RecordingError(
            told.path,
            f"{key}={told.recipe[key]} has {len(course)} values for {len(onset)} events and {n_samples} samples",
            "name another variable",
        )
    if np.any((onset < 0) | (onset >= n_samples)):
        raise RecordingError(
            told.path, f"onsets={told.recipe['onsets']} lie outside the {n_samples} samples", "count samples from 1"
        )
    return course[onset]


def unknown_layout(path: Path, variables: dict[str, Any]) -> RecordingError:
    """An error that shows what was found, and a recipe that is filled in as far as the variables tell."""
    found = leaves(variables)
    return RecordingError(
        path,
        f"its variables ({_listing(found)}) match no known layout",
        f"say what they mean with recipe='{suggested(found)}', where ? is to be filled in (see docs/eeg.md)",
    )


def suggested(found: dict[str, Any]) -> str:
    """A recipe for these variables; "?" where none of them fits."""
    arrays = {
        name: value for name, value in found.items() if isinstance(value, np.ndarray) and value.dtype.kind in "iufb"
    }
    signals = {name: value for name, value in arrays.items() if value.ndim == 2 and min(value.shape) > 1}
    signal = max(signals, key=lambda name: signals[name].size, default="?")
    n_samples = max(signals[signal].shape) if signal != "?" else -1
    courses = [name for name, value in arrays.items() if value.size == n_samples]
    scalars = [name for name, value in arrays.items() if value.size == 1 and 1 < float(value.ravel()[0]) < 1e6]
    codes = _fitting(courses, ("code", "stim", "flash", "marker"))
    labels = _fitting([name for name in courses if name != codes], ("label", "type", "target", "trig", "class", "y"))
    rest = [name for name in courses if name not in (codes, labels)]
    # Better a guess that the user can correct than a question mark.
    labels = labels or (rest[0] if rest else "?")
    rate = _fitting(scalars, ("rate", "fs", "freq", "hz")) or (scalars[0] if len(scalars) == 1 else "?")
    parts = [("signal", signal), ("labels", labels), ("codes", codes), ("rate", rate)]
    return ",".join(f"{key}={name}" for key, name in parts if name)


def _fitting(names: list[str], words: tuple[str, ...]) -> str | None:
    return next((name for word in words for name in names if word in name.lower()), None)


def _listing(found: dict[str, Any]) -> str:
    shown = [f"{name} {' × '.join(map(str, np.shape(value)))}" for name, value in list(found.items())[:20]]
    return ", ".join(shown) + (", …" if len(found) > 20 else "") if shown else "none"


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
