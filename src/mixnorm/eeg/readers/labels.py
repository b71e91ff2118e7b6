"""Compare what was read with what the user said of it: sampling rate, channel names, sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from mixnorm.eeg.readers.options import NOBODY, ReadOptions
from mixnorm.eeg.recording import EpochedRecording, Recording, RecordingError

AnyRecording = Recording | EpochedRecording


def as_told(recording: AnyRecording, told: ReadOptions) -> AnyRecording:
    """Return the recording; refuse it where its rate or channel names differ from those that the user gave."""
    # sample times in a file of epochs are rounded: three digits must agree
    if told.sfreq is not None and not np.isclose(recording.sfreq, told.sfreq, rtol=1e-3, equal_nan=True):
        raise RecordingError(
            recording.source,
            f"its sampling rate is {recording.sfreq:g} Hz, but sfreq=… says {told.sfreq:g} Hz",
            "leave sfreq=… out, or correct the file",
        )
    if told.ch_names and recording.ch_names != told.ch_names:
        raise RecordingError(
            recording.source,
            f"its channel names ({', '.join(recording.ch_names)}) differ from those in ch_names=…",
            "leave ch_names=… out, or correct the file",
        )
    return recording


def unnamed_recordings(recordings: Sequence[AnyRecording]) -> tuple[str, ...]:
    """File names of the recordings that name no subject, where there are several: they count as one subject's."""
    unnamed = tuple(Path(str(one.source)).name for one in recordings if np.all(np.asarray(one.subject) == NOBODY))
    return unnamed if len(unnamed) > 1 else ()


def distinct_sessions(recordings: Sequence[AnyRecording]) -> list[AnyRecording]:
    """Files of one name in several folders become separate sessions, named after the part of the path that differs.

    Only where a session is named after its file; runs of a session that the path names stay together.
    """
    named = [_called_after_file(recording) for recording in recordings]
    count = Counter(who for who in named if who)
    # "day1/run.edf" and "day2/run.edf" would be one session otherwise, and its folds would mix days.
    clashing = {who: _tails(recordings, named, who) for who, times in count.items() if times > 1}
    return [
        _renamed(recording, clashing[who].pop(0)) if who in clashing else recording
        for recording, who in zip(recordings, named, strict=True)
    ]


def _called_after_file(recording: AnyRecording) -> tuple[str, str] | None:
    """Subject and session of a recording whose session is the bare name of its file."""
    subjects, sessions = np.unique(recording.subject), np.unique(recording.session)
    if len(subjects) == len(sessions) == 1 and sessions[0] == Path(recording.source).stem:
        return str(subjects[0]), str(sessions[0])
    return None


def _tails(recordings: Sequence[AnyRecording], named: Sequence[object], who: object) -> list[str]:
    """The shortest ends of the paths that differ, in order."""
    mine = [recording.source for recording, name in zip(recordings, named, strict=True) if name == who]
    paths = [Path(source).absolute().with_suffix("").parts for source in mine]
    for length in range(2, max(map(len, paths)) + 1):
        tails = ["/".join(parts[-length:]) for parts in paths]
        if len(set(tails)) == len(tails):
            return tails
    return mine  # one folder, two suffixes: the whole names


def _renamed(recording: AnyRecording, session: str) -> AnyRecording:
    epochs = isinstance(recording, EpochedRecording)
    old = f"session {Path(recording.source).stem} from the path"
    notes = tuple(note.replace(old, f"session {session} from the path") for note in recording.notes)
    return replace(recording, session=np.full(len(recording.X), session) if epochs else session, notes=notes)
