"""Recordings that MNE reads, continuous or in epochs, and the conversion to an MNE Raw."""

from __future__ import annotations

import io
import warnings
from collections import Counter
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.events import BadSpan, Events
from mixnorm.eeg.readers.guard import check_expansion, check_size, mat_declared_bytes, reading, refuse_links, require
from mixnorm.eeg.readers.options import (
    Labels,
    ReadOptions,
    is_mark,
    labels_of,
    stimulus_codes,
    tagged_numbers,
    who_from_path,
)
from mixnorm.eeg.recording import EpochedRecording, Recording, RecordingError, positions_or_ideal

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
        # before the samples are read: preload=False has read the header only
        check_size(path, 8 * len(raw.ch_names) * raw.n_times, options)
        subject, session, told = who_from_path(path, options)
        return from_raw(raw, options, str(path), (subject, session), (*notes, *told))


def read_epochs(path: Path, options: ReadOptions) -> EpochedRecording:
    """Trials from an MNE epochs file; EEG channels only, in µV."""
    mne = require("mne", "eeg")
    with reading(path, "an MNE epochs file"):
        epochs = mne.read_epochs(path, preload=True, verbose="error")
        subject, session, told = who_from_path(path, options)
        return from_epochs(epochs, options, str(path), (subject, session), told)


def from_epochs(
    epochs: mne.BaseEpochs,
    options: ReadOptions,
    source: str,
    who: tuple[str, str],
    notes: tuple[str, ...] = (),
) -> EpochedRecording:
    """Trials from MNE epochs: their EEG channels in µV, their event names as labels."""
    mne = require("mne", "eeg")
    with mne.use_log_level("error"):
        # a copy: epochs of the user may be on disk, and reading them would change the object
        epochs = epochs.copy().load_data()
    names = {code: name for name, code in epochs.event_id.items()}
    events = [names[code] for code in epochs.events[:, 2]]
    labels = labels_of(events, options, source)
    picks, excluded, found = _picked(epochs.info, options, source)
    X = epochs.get_data(picks=picks, copy=True)[labels.chosen] * 1e6
    return EpochedRecording(
        X=X,
        ch_names=tuple(epochs.ch_names[pick] for pick in picks),
        times=np.asarray(epochs.times, dtype=np.float64),
        events=labelled_events(np.arange(len(X)), events, labels),
        subject=np.full(len(X), who[0]),
        session=np.full(len(X), who[1]),
        source=source,
        positions=_positions(mne.pick_info(epochs.info, picks)),
        notes=(labels.note, *found, *_dropped_before(epochs), *notes),
        bad=None if options.use_bads else _bad_epochs(epochs)[labels.chosen],
        excluded=excluded,
    )


def from_raw(
    raw: mne.io.BaseRaw,
    options: ReadOptions,
    source: str,
    who: tuple[str, str],
    notes: tuple[str, ...] = (),
) -> Recording:
    """A recording from an MNE Raw: its EEG channels in µV, its annotations (or trigger channel) as events.

    Channels and segments that are marked as bad are left out, unless the options say otherwise.
    """
    onset, names = _named_events(raw, source)
    labels = labels_of(names, options, source)
    mne = require("mne", "eeg")
    picks, excluded, found = _picked(raw.info, options, source)
    signal = raw.get_data(picks=picks)
    # MNE holds volts; in place, because a copy of a long recording is large
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
        notes=(labels.note, *found, *notes),
        bad_spans=() if options.use_bads else _bad_spans(raw, {names[i] for i in np.flatnonzero(labels.chosen)}),
        excluded=excluded,
    )


def _picked(info: mne.Info, options: ReadOptions, source: str) -> tuple[list[int], dict[str, str], tuple[str, ...]]:
    """The EEG channels to use, those left out as bad, and notes on channel types, reference and projections."""
    mne = require("mne", "eeg")
    # `exclude=()`: MNE would leave bad channels out silently, and they are to be named.
    eeg = mne.pick_types(info, eeg=True, exclude=()).tolist()
    types = info.get_channel_types()
    if not eeg:
        found = ", ".join(sorted(set(types)))
        raise RecordingError(source, f"it has no EEG channels (found: {found})", "set the channel types")
    bads = [info["ch_names"][pick] for pick in eeg if info["ch_names"][pick] in info["bads"]]
    notes = []
    if bads and not options.use_bads:
        notes.append(f"channels marked as bad are left out: {', '.join(bads)}; use_bads=True uses them")
        eeg = [pick for pick in eeg if info["ch_names"][pick] not in bads]
    elif bads:
        notes.append(f"channels marked as bad are used, as asked: {', '.join(bads)}")
    if not eeg:
        raise RecordingError(
            source, f"all EEG channels are marked as bad ({', '.join(bads)})", "to use them, give use_bads=True"
        )
    others = [f"{name} ({kind})" for name, kind in zip(info["ch_names"], types, strict=True) if kind != "eeg"]
    if others:
        notes.append(f"channels of other types are left out: {', '.join(others)}")
    # only a note, because which reference it was cannot be told
    if info["custom_ref_applied"]:
        notes.append("the EEG was re-referenced before it was saved; it is used as it is")
    waiting = [str(projection["desc"]) for projection in info["projs"] if not projection["active"]]
    if waiting:
        notes.append(f"projections that are not applied: {', '.join(waiting)}; apply them in MNE with apply_proj()")
    excluded = {} if options.use_bads else dict.fromkeys(bads, "marked as bad")
    return eeg, excluded, tuple(notes)


def _bad_spans(raw: mne.io.BaseRaw, stimuli: set[str]) -> tuple[BadSpan, ...]:
    """The annotations whose names begin with BAD, in samples; not those that the user says are stimuli."""
    # Onsets of annotations count from the first sample of the acquisition, which may have been cropped.
    first = 0.0 if raw.annotations.orig_time is None else raw.first_time
    return tuple(
        BadSpan(
            float((annotation["onset"] - first) * raw.info["sfreq"]),
            float((annotation["onset"] - first + annotation["duration"]) * raw.info["sfreq"]),
            str(annotation["description"]),
        )
        for annotation in raw.annotations
        if _is_bad(annotation["description"]) and annotation["description"] not in stimuli
    )


def _bad_epochs(epochs: mne.BaseEpochs) -> NDArray[np.str_]:
    """For every epoch the annotation that marks it as bad, "" for none."""
    if epochs.annotations is None:
        return np.full(len(epochs), "")
    # An annotation is (onset, duration, description, …).
    marks = [[str(one[2]) for one in own if _is_bad(one[2])] for own in epochs.get_annotations_per_epoch()]
    return np.array([texts[0] if texts else "" for texts in marks], dtype=str)


def _dropped_before(epochs: mne.BaseEpochs) -> tuple[str, ...]:
    """How many epochs MNE has dropped before, and why."""
    reasons = Counter(reason for log in epochs.drop_log for reason in log if reason != "IGNORED")
    if not reasons:
        return ()
    count = sum(1 for log in epochs.drop_log if log and "IGNORED" not in log)
    listed = ", ".join(f"{reason} {number}" for reason, number in reasons.most_common(8))
    return (f"{count} epochs were dropped in MNE: {listed}",)


def _is_bad(description: str) -> bool:
    return str(description).lower().startswith("bad")


def to_raw(recording: Recording) -> mne.io.RawArray:
    """Return an MNE Raw (in volts) with the events as annotations and the positions as montage.

    An event is written as "Target/stimulus 3/character 0", which `read_recording`
    understands.

    Parameters
    ----------
    recording : Recording
        A continuous recording.

    Returns
    -------
    mne.io.RawArray
        With the channels of the recording, all of them EEG.

    See Also
    --------
    read_recording : Reads an MNE Raw.

    Examples
    --------
    >>> from mixnorm.eeg import simulated_recording, to_raw
    >>> raw = to_raw(simulated_recording(12, n_channels=3, n_informative=1))
    >>> raw.ch_names, raw.info["sfreq"], len(raw.annotations)
    (['Fz', 'Cz', 'Pz'], 256.0, 12)
    """
    mne = require("mne", "eeg")
    info = mne.create_info(list(recording.ch_names), recording.sfreq, "eeg")
    raw = mne.io.RawArray(recording.signal * 1e-6, info, verbose="error")
    events = recording.events
    words = {1: "Target", 0: "NonTarget", -1: "Stimulus"}
    texts = [
        # unknown codes and characters are left out of the name
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
    """Onsets (samples) and names: annotations first, else the codes of the trigger channels.

    Annotations that only mark segments, as BAD does, leave the events to the trigger channels.
    """
    mne = require("mne", "eeg")
    # Many files have both: triggers, and annotations such as "BAD" or "EDGE boundary" that MNE or a person added.
    only_marks = all(is_mark(text) for text in raw.annotations.description)
    if len(raw.annotations) and not (only_marks and "stim" in raw):
        found, event_id = mne.events_from_annotations(raw, regexp=None, verbose="error")
        names = {code: name for name, code in event_id.items()}
        return found[:, 0] - raw.first_samp, [names[code] for code in found[:, 2]]
    if "stim" not in raw:
        raise RecordingError(source, "no events: no annotations and no trigger channel", "check the recording")
    # triggers of one sample count; MNE's default would refuse them
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


#: Words of MNE's warnings: all of them are RuntimeWarning, and only the text says which one it is.
_MISSING_SAMPLES = ("truncat", "does not match the file size", "incomplete")
_OUTSIDE = "outside data range"


def _notes(caught: list[warnings.WarningMessage], path: Path) -> tuple[str, ...]:
    """The warnings of MNE as notes; those that say that samples are missing are errors."""
    # A truncated file is only a warning in MNE, and a recording that ends early would go unnoticed.
    texts = tuple(str(warning.message).splitlines()[0] for warning in caught)
    for text in texts:
        if any(sign in text.lower() for sign in _MISSING_SAMPLES):
            raise RecordingError(path, f"it is incomplete ({text})", "copy it again")
        if _OUTSIDE in text.lower():
            raise RecordingError(
                path, f"annotations are outside the recording ({text})", "copy it again, or correct its annotations"
            )
    return texts
