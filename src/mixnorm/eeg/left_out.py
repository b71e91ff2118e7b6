"""Trials that were left out: counted by reason, class, session and channel, and said in one sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.events import UNKNOWN
from mixnorm.eeg.faults import FLAT, LOST, MARKED, OUTSIDE

#: Kind of a trial that is beyond the peak-to-peak limit.
BEYOND = "beyond"

#: A channel that is the reason for more than this share of all trials is named, with what to do about it.
SPOILS = 0.1

_TEXTS = {
    OUTSIDE: "with a window that is not wholly inside the recording",
    MARKED: "overlapping an annotation",
    LOST: "with NaN",
    FLAT: "with a flat channel",
    BEYOND: "beyond the peak-to-peak limit",
}
_CLASSES = {1: "target", 0: "non-target", UNKNOWN: "unlabelled"}


@dataclass(frozen=True)
class LeftOut:
    """The trials that were left out, one entry each.

    Attributes
    ----------
    kind : (n,) str array
        "outside", "marked", "lost", "flat" (see `mixnorm.eeg.faults`) or "beyond".
    because : tuple of tuples of str
        The channels, or the annotations, that are the reason.
    target : (n,) int array
    subject, session : (n,) str arrays
    of : int
        Number of trials before anything was left out.
    """

    kind: NDArray[np.str_]
    because: tuple[tuple[str, ...], ...] = field(repr=False)
    target: NDArray[np.int64] = field(repr=False)
    subject: NDArray[np.str_] = field(repr=False)
    session: NDArray[np.str_] = field(repr=False)
    of: int

    def __len__(self) -> int:
        return len(self.kind)

    @classmethod
    def nothing(cls, of: int) -> LeftOut:
        """None of some number of trials."""
        text = np.empty(0, dtype=str)
        return cls(text, (), np.empty(0, dtype=np.int64), text, text, of=of)

    @classmethod
    def together(cls, parts: Sequence[LeftOut]) -> LeftOut:
        """The trials of several recordings."""
        arrays = (np.concatenate([getattr(part, name) for part in parts]) for name in ("target", "subject", "session"))
        return cls(
            np.concatenate([part.kind for part in parts]),
            tuple(names for part in parts for names in part.because),
            *arrays,
            of=sum(part.of for part in parts),
        )

    def counts(self) -> dict[str, Any]:
        """Plain numbers, for JSON: in all, by reason, class, session and channel (or annotation)."""
        several = len(set(self.subject.tolist())) > 1
        # Sessions of several subjects may have the same name.
        sessions = [
            f"{subject}/{session}" if several else session
            for subject, session in zip(self.subject.tolist(), self.session.tolist(), strict=True)
        ]
        return {
            "n_trials": len(self),
            "of": self.of,
            "by_reason": dict(Counter(self.kind.tolist())),
            "by_class": dict(Counter(_CLASSES[label] for label in self.target.tolist())),
            "by_session": dict(Counter(sessions)),
            "by_channel": dict(self._blamed().most_common()),
        }

    def spoilers(self) -> list[str]:
        """The channels that are the reason for more than `SPOILS` of all trials, the worst first."""
        blamed = Counter(
            name
            for kind, names in zip(self.kind, self.because, strict=True)
            # an annotation is not the fault of a channel
            if kind in (LOST, FLAT, BEYOND)
            for name in names
        )
        return [name for name, count in blamed.most_common() if count > SPOILS * self.of]

    def describe(self) -> str:
        """One sentence; "" where no trial was left out.

        Examples
        --------
        >>> who = np.full(3, "S1"), np.array(["1", "1", "2"])
        >>> because = (("Cz",), ("Cz", "Pz"), ("BAD_blink",))
        >>> print(LeftOut(np.array(["lost", "lost", "marked"]), because, np.array([1, 0, 0]), *who, of=60).describe())
        3 of 60 trials are left out: 1 overlapping an annotation (BAD_blink 1), 2 with NaN (Cz 2, Pz 1); 1 target,
        2 non-target; session 1: 2, session 2: 1
        """
        if not len(self):
            return ""
        reasons = ", ".join(self._reason(kind) for kind in _TEXTS if np.any(self.kind == kind))
        counts = self.counts()
        classes = ", ".join(f"{count} {name}" for name, count in counts["by_class"].items())
        sessions = ", ".join(f"session {name}: {count}" for name, count in counts["by_session"].items())
        text = f"{len(self)} of {self.of} trials are left out: {reasons}; {classes}; {sessions}"
        spoilers = self.spoilers()
        if spoilers:
            share = ", ".join(f"{name} ({100 * counts['by_channel'][name] / self.of:.0f} %)" for name in spoilers)
            text += f"; channels that cost many trials: {share}: exclude them with drop={[*spoilers]}"
        return text

    def _blamed(self, kind: str | None = None) -> Counter[str]:
        return Counter(
            name
            for own, names in zip(self.kind, self.because, strict=True)
            if own != OUTSIDE and kind in (None, own)
            for name in names
        )

    def _reason(self, kind: str) -> str:
        names = self._blamed(kind).most_common(5) if kind != OUTSIDE else []
        more = len(self._blamed(kind)) - len(names) if names else 0
        listed = ", ".join(f"{name} {count}" for name, count in names) + (f" and {more} more" if more else "")
        return f"{np.sum(self.kind == kind)} {_TEXTS[kind]}" + (f" ({listed})" if listed else "")


def nothing_left_out() -> LeftOut:
    """The record of a design of which nothing is known."""
    labels = np.array([], dtype=str)
    return LeftOut(labels, (), np.array([], dtype=np.int64), labels, labels, of=0)
