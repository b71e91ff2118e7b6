"""Recordings that MNE reads, continuous or in epochs, and the conversion to an MNE Raw."""

from __future__ import annotations

import io
import warnings
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.readers.guard import check_expansion, check_size, mat_declared_bytes, reading, refuse_links, require
from mixnorm.eeg.readers.options import Labels, ReadOptions, labels_of, stimulus_codes, tagged_numbers, who_from_path
from mixnorm.eeg.recording import EpochedRecording, Events, Recording, RecordingError, positions_or_ideal

if TYPE_CHECKING:
    import mne


def read_raw(path: Path, options: ReadOptions) -> Recording:
    """A continuous recording through `mne.io.read_raw`; EEG channels only, in µV."""
    mne = require("mne", "eeg")
    with reading(path, "an MNE recording"):
        if path.suffix == ".set":
            refuse_links(path)
            check_expansion(path, mat_declared_bytes(path), options)
        # MNE also logs its warnings to standard output, where only results may go
        with warnings.catch_warnings(record=True) as caught, redirect_stdout(io.StringIO()):
            warnings.simplefilter("always")
            raw = mne.io.read_raw(path, preload=False, verbose="warning")
        notes = _notes(caught, path)
        check_size(path, 8 * len(raw.ch_names) * raw.n_times, options)
        subject, session, told = who_from_path(path, options)
        return from_raw(raw, options, str(path), (subject, session), (*notes, *told))


def read_epochs(path: Path, options: ReadOptions) -> EpochedRecording:
    """Trials from an MNE epochs file; EEG channels only, in µV."""
    mne = require("mne", "eeg")
    with reading(path, "an MNE epochs file"):
        epochs = mne.read_epochs(path, preload=True, verbose="error")
        names = {code: name for name, code in epochs.event_id.items()}
        events = [names[code] for code in epochs.events[:, 2]]
        labels = labels_of(events, options, str(path))
        picked = epochs.copy().pick("eeg")
        X = picked.get_data(copy=True)[labels.chosen] * 1e6
    subject, session, told = who_from_path(path, options)
    return EpochedRecording(
        X=X,
        ch_names=tuple(picked.ch_names),
        times=np.asarray(picked.times, dtype=np.float64),
        events=labelled_events(np.arange(len(X)), events, labels),
        subject=np.full(len(X), subject),
        session=np.full(len(X), session),
        source=str(path),
        positions=_positions(picked.info),
        notes=(labels.note, *told),
    )


def from_raw(
    raw: mne.io.BaseRaw,
    options: ReadOptions,
    source: str,
    who: tuple[str, str],
    notes: tuple[str, ...] = (),
) -> Recording:
    """A recording from an MNE Raw: its EEG channels in µV, its annotations (or trigger channel) as events."""
    onset, names = _named_events(raw, source)
    labels = labels_of(names, options, source)
    mne = require("mne", "eeg")
    picks = mne.pick_types(raw.info, eeg=True, exclude=())
    if len(picks) == 0:
        found = ", ".join(sorted(set(raw.get_channel_types())))
        raise RecordingError(source, f"it has no EEG channels (found: {found})", "set the channel types")
    signal = raw.get_data(picks=picks)
    signal *= 1e6
    info = mne.pick_info(raw.info, picks)
    return Recording(
        signal=signal,
        ch_names=tuple(info["ch_names"]),
        sfreq=float(info["sfreq"]),
        events=labelled_events(onset, names, labels),
        subject=who[0],
        session=who[1],
        source=source,
        positions=_positions(info),
        notes=(labels.note, *notes),
    )


def to_raw(recording: Recording) -> mne.io.RawArray:
    """An MNE Raw (in volts) with the events as annotations and the positions as montage.

    An event is written as "Target/stimulus 3/character 0", which `read_recording`
    understands.
    """
    mne = require("mne", "eeg")
    info = mne.create_info(list(recording.ch_names), recording.sfreq, "eeg")
    raw = mne.io.RawArray(recording.signal * 1e-6, info, verbose="error")
    events = recording.events
    words = {1: "Target", 0: "NonTarget", -1: "Stimulus"}
    texts = [
        f"{words[target]}/stimulus {stimulus}/character {character}".replace("/stimulus -1", "").replace(
            "/character -1", ""
        )
        for target, stimulus, character in zip(
            events.target.tolist(), events.stimulus.tolist(), events.character.tolist(), strict=True
        )
    ]
    raw.set_annotations(mne.Annotations(events.onset / recording.sfreq, 0.0, texts), verbose="error")
    places = {
        name: place
        for name, place in zip(recording.ch_names, recording.positions, strict=True)
        if np.isfinite(place).all()
    }
    montage = mne.channels.make_dig_montage(places, coord_frame="head")
    return raw.set_montage(montage, on_missing="ignore", verbose="error")


def _named_events(raw: mne.io.BaseRaw, source: str) -> tuple[NDArray[np.int64], list[str]]:
    """Onsets (samples) and names: annotations first, else the codes of the trigger channels."""
    mne = require("mne", "eeg")
    if len(raw.annotations):
        found, event_id = mne.events_from_annotations(raw, regexp=None, verbose="error")
        names = {code: name for name, code in event_id.items()}
        return found[:, 0] - raw.first_samp, [names[code] for code in found[:, 2]]
    if "stim" not in raw:
        raise RecordingError(source, "no events: no annotations and no trigger channel", "check the recording")
    found = mne.find_events(raw, shortest_event=1, verbose="error")
    return found[:, 0] - raw.first_samp, [str(code) for code in found[:, 2]]


def labelled_events(onset: NDArray[np.int64], names: list[str], labels: Labels) -> Events:
    """The events that `labels` has chosen, with the codes and characters in their names."""
    stimulus, character = stimulus_codes(names), tagged_numbers(names, "character")
    keep = labels.chosen
    place = onset[keep] if len(onset) == len(keep) else onset
    return Events.of(place, labels.target, stimulus[keep], character[keep])


def _positions(info: mne.Info) -> NDArray[np.float64]:
    """Positions in metres; MNE has zeros or NaN where it knows none."""
    places = np.array([channel["loc"][:3] for channel in info["chs"]], dtype=np.float64)
    unknown = ~np.isfinite(places).all(axis=1) | ~places.any(axis=1)
    places[unknown] = np.nan
    return positions_or_ideal(info["ch_names"], places)


_MISSING_SAMPLES = ("truncat", "does not match the file size", "incomplete", "outside data range")


def _notes(caught: list[warnings.WarningMessage], path: Path) -> tuple[str, ...]:
    """The warnings of MNE as notes; those that say that samples are missing are errors."""
    texts = tuple(str(warning.message).splitlines()[0] for warning in caught)
    for text in texts:
        if any(sign in text.lower() for sign in _MISSING_SAMPLES):
            raise RecordingError(path, f"it is incomplete ({text})", "copy it again")
    return texts
