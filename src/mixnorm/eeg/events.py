"""What happened during a recording: stimuli, and segments that are marked as bad."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: A label, a stimulus code or a character that the source does not contain.
UNKNOWN = -1


@dataclass(frozen=True)
class Events:
    """Stimuli, one entry each.

    Attributes
    ----------
    onset : (n,) int array
        Sample at which the stimulus began.
    target : (n,) int array
        1 target (or error), 0 non-target, −1 not known.
    stimulus : (n,) int array
        Code of what was shown, for instance the row or column of a speller; −1 not known.
    character : (n,) int array
        Number of the character that the subject attended to; trials of one character must not be split
        between folds. −1 not known.

    See Also
    --------
    Recording : Has events.

    Examples
    --------
    >>> from mixnorm.eeg import Events
    >>> events = Events.of([300, 100], target=[1, 0])
    >>> events.onset.tolist(), events.target.tolist(), events.stimulus.tolist()
    ([100, 300], [0, 1], [-1, -1])
    """

    onset: NDArray[np.int64]
    target: NDArray[np.int64]
    stimulus: NDArray[np.int64]
    character: NDArray[np.int64]

    @classmethod
    def of(cls, onset: object, target: object = None, stimulus: object = None, character: object = None) -> Events:
        """Events from array-likes, sorted by onset; what is left out is unknown.

        Parameters
        ----------
        onset : array-like of int
            Sample at which each stimulus began, in any order.
        target, stimulus, character : array-like of int, or None
            One value for each onset, or one for all, as in the attributes.

        Returns
        -------
        Events
            In the order of the onsets.
        """
        onset = np.asarray(onset, dtype=np.int64).ravel()
        order = np.argsort(onset, kind="stable")

        def column(values: object) -> NDArray[np.int64]:
            given = UNKNOWN if values is None else np.asarray(values).ravel()
            return np.broadcast_to(np.asarray(given, dtype=np.int64), onset.shape)[order].copy()

        return cls(onset[order], column(target), column(stimulus), column(character))

    def take(self, mask: NDArray[np.bool_]) -> Events:
        """The events where `mask` is true.

        Parameters
        ----------
        mask : (n,) bool array
            True for the events to keep.

        Returns
        -------
        Events
            Those that are kept, in order.
        """
        return Events(self.onset[mask], self.target[mask], self.stimulus[mask], self.character[mask])

    def __len__(self) -> int:
        return len(self.onset)


@dataclass(frozen=True)
class BadSpan:
    """A segment that the source marks as bad: samples ``start`` to ``stop`` (not included), and its description."""

    start: float
    stop: float
    description: str
