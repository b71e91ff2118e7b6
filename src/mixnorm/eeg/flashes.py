"""The flashes of a recording, divided into characters, and what is known of the symbols that were attended to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.event_scores import Scores
from mixnorm.eeg.left_out import LeftOut
from mixnorm.eeg.recording import UNKNOWN, EpochedRecording, Recording, RecordingError
from mixnorm.eeg.speller import MATRICES, Speller


@dataclass(frozen=True)
class Flashes:
    """The flashes of one character, in order.

    `code`, `score`, `target` (n,); `onset` (n,) in seconds, or None for epochs, which have no times; `letter`: the
    attended symbol where the recording names it; `where` describes the character in messages; `event` (n,): their
    numbers among the events of the recording.
    """

    code: NDArray[np.int64] = field(repr=False)
    score: NDArray[np.float64] = field(repr=False)
    target: NDArray[np.int64] = field(repr=False)
    onset: NDArray[np.float64] | None = field(repr=False)
    letter: str | None
    where: str
    event: NDArray[np.int64] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.code)


def divide_into_characters(recording: Recording | EpochedRecording, scores: Scores) -> list[Flashes]:
    """The flashes of every character, in the order in which the characters begin."""
    if np.all(scores.stimulus == UNKNOWN):
        raise RecordingError(
            recording.source,
            "it has no flash codes, which say what every flash lit up",
            "record them with the triggers (StimulusCode in BCI2000, 'stimulus' in a bundle, 'Target/stimulus 3' as "
            "event names); without them flashes can be scored with `mixnorm predict`, but nothing can be spelled",
        )
    lost = np.flatnonzero(scores.stimulus == UNKNOWN)
    if len(lost):
        raise RecordingError(
            recording.source,
            f"{len(lost)} of {len(scores)} flashes have no code (the first: event {lost[0]})",
            "give every flash its code, or leave out events that are not flashes",
        )
    epochs = isinstance(recording, EpochedRecording)
    whose = zip(recording.subject, recording.session, strict=True) if epochs else [("", "")] * len(scores)
    # Epochs can be of several subjects and sessions, each of which numbers its characters from the start.
    labels = [(str(who), str(when), int(number)) for (who, when), number in zip(whose, scores.character, strict=True)]
    letters = getattr(recording, "letter", None)
    found = []
    for number, label in enumerate(dict.fromkeys(labels)):
        mine = np.array([own == label for own in labels])
        found.append(
            Flashes(
                code=scores.stimulus[mine],
                score=scores.score[mine],
                target=scores.target[mine],
                onset=None if epochs else scores.onset[mine],
                letter=None if letters is None else str(letters[mine][0]),
                where=f"{recording.source}, character {number + 1}",
                event=np.flatnonzero(mine),
            )
        )
    return found


def check_codes(recording: Recording | EpochedRecording, speller: Speller) -> None:
    """Refuse a recording with codes of another speller, before it is scored."""
    found = set(recording.events.stimulus.tolist()) - {UNKNOWN}
    strange = sorted(found - set(speller.codes))
    if strange:
        known, odd = (", ".join(map(str, codes[:20])) for codes in (speller.codes, strange))
        raise RecordingError(
            recording.source,
            f"the matrix {speller.name} does not have its flash codes {odd}; it has {known}",
            "describe the speller of this recording in a matrix file",
        )


def true_symbol(flashes: Flashes, speller: Speller) -> str | None:
    """The attended symbol: as the recording names it, else from the labels of the flashes; None if not known."""
    # A letter is known even where flashes have no labels. Files differ in upper and lower case.
    if flashes.letter is not None:
        return next((symbol for symbol in speller.symbols if symbol.upper() == flashes.letter.upper()), None)
    target = {}
    for code in np.unique(flashes.code).tolist():
        labels = set(flashes.target[flashes.code == code].tolist())
        if labels not in ({0}, {1}):  # unknown, or not the labels of a single character
            return None
        target[code] = labels == {1}
    return speller.symbol_of(target)


def speller_of(recording: Recording | EpochedRecording) -> Speller | None:
    """The matrix of `MATRICES` in which the letters of a recording are lit by its target codes; None if not known."""
    if getattr(recording, "letter", None) is None:
        return None
    events = recording.events
    n = len(events)
    about = events.target, events.stimulus, events.character, np.full(n, ""), LeftOut.nothing(n)
    # The scores are not used: only the division into characters is.
    scores = Scores(events.onset.astype(float), np.zeros(n), *about)
    if np.any(events.stimulus == UNKNOWN) or np.any(events.target == UNKNOWN):
        return None
    for speller in MATRICES.values():
        if set(events.stimulus.tolist()) <= set(speller.codes) and _agrees(
            divide_into_characters(recording, scores), speller
        ):
            return speller
    return None


def _agrees(found: Sequence[Flashes], speller: Speller) -> bool:
    """Whether the target codes of all characters light up the letters that the recording names."""
    return all(
        speller.symbol_of({code: bool(one.target[one.code == code][0]) for code in np.unique(one.code).tolist()})
        == true_symbol(one, speller)
        for one in found
    )
