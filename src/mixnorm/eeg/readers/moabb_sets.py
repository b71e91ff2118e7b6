"""MOABB's P300 and ERP data sets: ``moabb:EPFLP300``, ``moabb:EPFLP300/1,2`` for subjects 1 and 2 only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mixnorm.eeg.readers.guard import reading, require
from mixnorm.eeg.readers.mne_files import from_raw
from mixnorm.eeg.readers.network import downloading
from mixnorm.eeg.readers.options import ReadOptions, subject_of
from mixnorm.eeg.recording import Recording, RecordingError

PREFIX = "moabb:"

#: Data sets in which MOABB calls correct trials Target and errors NonTarget.
REVERSED = ("BNCI2015_013", "BNCI2015-013")


def read_moabb(name: str, options: ReadOptions) -> list[Recording]:
    """All runs of a data set, or of some of its subjects, by name."""
    require("mne", "eeg")
    datasets = require("moabb.datasets", "moabb")
    dataset_name, _, chosen = name.removeprefix(PREFIX).partition("/")
    dataset_class = getattr(datasets, dataset_name, None)
    if not isinstance(dataset_class, type):
        raise RecordingError(name, f"unknown MOABB data set {dataset_name!r}", "see moabb.datasets for the names")
    with downloading(name), reading(name, "a MOABB data set"):
        dataset = dataset_class()
        # MOABB numbers subjects from 1
        subjects = [int(subject) for subject in chosen.split(",")] if chosen else None
        return from_moabb(dataset, options, subjects)


def from_moabb(dataset: Any, options: ReadOptions | None = None, subjects: list[int] | None = None) -> list[Recording]:
    """Read all runs of a MOABB data set object, sessions and subjects named as MOABB does.

    Parameters
    ----------
    dataset : moabb.datasets.base.BaseDataset
        Any data set with two kinds of events that can be told apart by name.
    options : ReadOptions, optional
        Which event names are targets, where they are not called Target and NonTarget.
    subjects : list of int, optional
        All by default.

    Returns
    -------
    list of Recording
        One for each run.

    See Also
    --------
    read_recordings : Also reads "moabb:NAME/SUBJECT".

    Examples
    --------
    >>> from mixnorm.eeg import from_moabb
    >>> from moabb.datasets import BNCI2014_009  # doctest: +SKIP
    >>> recordings = from_moabb(BNCI2014_009(), subjects=[1])  # doctest: +SKIP
    """
    options = options or ReadOptions()
    swapped = any(name in REVERSED for name in (type(dataset).__name__, getattr(dataset, "code", "")))
    # what the user names counts more than the correction
    if swapped and not options.target:
        options = replace(options, target=("NonTarget",), nontarget=("Target",))
    recordings = []
    for subject, sessions in dataset.get_data(subjects).items():
        for session, runs in sessions.items():
            for run, raw in runs.items():
                source = f"{PREFIX}{dataset.code}/{subject}/{session}/{run}"
                named = _with_names(raw, dataset.event_id)
                who = (subject_of(source, str(subject), options), options.session or str(session))
                notes = ("errors are the targets: MOABB has the labels of this data set reversed",) if swapped else ()
                recordings.append(from_raw(named, options, source, who, notes))
    return recordings


def _with_names(raw: Any, event_id: dict[str, Any]) -> Any:
    """The trigger codes of a run as annotations with the data set's own event names."""
    mne = require("mne", "eeg")
    if "stim" not in raw:
        return raw
    names = {code: name for name, codes in event_id.items() for code in _codes(codes)}
    # triggers of one sample are events too
    found = mne.find_events(raw, shortest_event=0, verbose="error")
    found = found[[code in names for code in found[:, 2]]]
    # Onsets count from the first sample of the run, or from the start of the acquisition where its time is known.
    start = raw.annotations.orig_time
    about = {"first_samp": raw.first_samp if start is None else 0, "orig_time": start}
    annotations = mne.annotations_from_events(found, raw.info["sfreq"], names, **about)
    # Annotations of bad segments are kept; others are replaced by those of the trigger channel.
    marks = [place for place, text in enumerate(raw.annotations.description) if text.upper().startswith("BAD")]
    return raw.copy().set_annotations(annotations + raw.annotations[marks], verbose="error")


def _codes(codes: Any) -> tuple[int, ...]:
    return (codes,) if isinstance(codes, int) else tuple(codes)
