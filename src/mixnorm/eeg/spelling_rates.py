"""How good and how fast spelled text is: letters right, letters per minute, information transfer rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mixnorm.eeg.flashes import Flashes
from mixnorm.eeg.speller import Speller
from mixnorm.eeg.spelling import Spelled, Stopping

#: Thresholds of the table by threshold.
THRESHOLDS = (0.5, 0.7, 0.8, 0.9, 0.95, 0.99)


@dataclass(frozen=True)
class Timing:
    """Seconds from one flash to the next, and between the last flash of a character and the next character."""

    interval: float
    pause: float

    @classmethod
    def of(cls, flashes: Sequence[Flashes]) -> Timing | None:
        """Medians over a recording; None for epochs, which have no times."""
        times = [one.onset for one in flashes]
        gaps = [np.diff(onset) for onset in times if onset is not None]
        if len(gaps) < len(times) or not sum(map(len, gaps)):
            return None
        interval = float(np.median(np.concatenate(gaps)))
        between = [
            after.onset[0] - before.onset[-1] - interval
            for before, after in pairwise(flashes)
            if after.onset[0] > before.onset[-1]  # the next recording begins at 0 again
        ]
        return cls(interval, float(max(0.0, np.median(between))) if between else 0.0)

    def seconds(self, n_flashes: float) -> float:
        """Seconds of a character with this many flashes, with the pause after it."""
        return n_flashes * self.interval + self.pause


@dataclass(frozen=True)
class Rates:
    """Accuracy and speed of a way of stopping.

    Attributes
    ----------
    threshold : float or None
    repetitions : int or None
        Of a fixed number of repetitions.
    right : float
        Share of letters that are right.
    stopped, right_if_stopped : float
        Share of letters that passed the threshold, and how many of these are right (None if there are none).
    n_flashes : float
        Mean number of flashes.
    seconds, letters_per_minute, bits_per_minute : float or None
        Mean seconds per letter, pause included; None where there are no times.
    """

    threshold: float | None
    repetitions: int | None
    right: float
    stopped: float
    right_if_stopped: float | None
    n_flashes: float
    seconds: float | None
    letters_per_minute: float | None
    bits_per_minute: float | None


def accuracy_by_repetition(spelled: Sequence[Spelled], speller: Speller) -> list[float] | None:
    """Share of characters whose most probable symbol after 1, 2, … complete repetitions is the true one.

    For as many repetitions as every character has; None where a true symbol is not known.
    """
    if not spelled or any(one.true_symbol is None for one in spelled):
        return None
    least = min(int(one.trace.repetitions[-1]) for one in spelled)
    return [
        float(np.mean([speller.symbols[one.trace.first[one.trace.after(k)]] == one.true_symbol for one in spelled]))
        for k in range(1, least + 1)
    ]


def rates(spelled: Sequence[Spelled], speller: Speller, stopping: Stopping, timing: Timing | None) -> Rates | None:
    """Accuracy and speed with another rule of stopping, from the same posteriors; None where the truth is unknown."""
    if not spelled or any(one.true_symbol is None for one in spelled):
        return None
    ends = [one.trace.end(stopping) for one in spelled]
    right = np.array(
        [speller.symbols[one.trace.first[end]] == one.true_symbol for one, (end, _) in zip(spelled, ends, strict=True)]
    )
    stopped = np.array([passed for _, passed in ends])
    n_flashes = float(np.mean([end + 1 for end, _ in ends]))
    seconds = None if timing is None else timing.seconds(n_flashes)
    per_minute = None if seconds is None else 60 / seconds
    return Rates(
        threshold=stopping.threshold,
        repetitions=stopping.max_repetitions if stopping.threshold is None else None,
        right=float(right.mean()),
        stopped=float(stopped.mean()),
        right_if_stopped=float(right[stopped].mean()) if stopped.any() else None,
        n_flashes=n_flashes,
        seconds=seconds,
        letters_per_minute=per_minute,
        bits_per_minute=None if per_minute is None else per_minute * wolpaw_bits(len(speller.symbols), right.mean()),
    )


def rates_by_repetition(
    spelled: Sequence[Spelled], speller: Speller, timing: Timing | None = None
) -> list[Rates] | None:
    """`rates` after 1, 2, … complete repetitions, for as many as every character has; None without the truth."""
    accuracy = accuracy_by_repetition(spelled, speller)
    if accuracy is None:
        return None
    return _rates_of(spelled, speller, [Stopping(max_repetitions=k + 1) for k in range(len(accuracy))], timing)


def rates_by_threshold(
    spelled: Sequence[Spelled], speller: Speller, timing: Timing | None = None, stopping: Stopping | None = None
) -> list[Rates] | None:
    """`rates` with each of `THRESHOLDS`, within the repetitions of ``stopping``; None without the truth."""
    limits = stopping or Stopping()
    rules = [Stopping(threshold, limits.min_repetitions, limits.max_repetitions) for threshold in THRESHOLDS]
    return _rates_of(spelled, speller, rules, timing)


def _rates_of(
    spelled: Sequence[Spelled], speller: Speller, rules: Sequence[Stopping], timing: Timing | None
) -> list[Rates] | None:
    found = [rates(spelled, speller, rule, timing) for rule in rules]
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else None


def wolpaw_bits(n_symbols: int, accuracy: float) -> float:
    r"""Bits per letter after Wolpaw et al. (2002); 0 where the accuracy is not above chance.

    .. math:: \log_2 N + P \log_2 P + (1 - P) \log_2 \frac{1 - P}{N - 1}

    Examples
    --------
    >>> wolpaw_bits(4, 1.0), round(wolpaw_bits(36, 0.9), 3), wolpaw_bits(36, 0.01)
    (2.0, 4.188, 0.0)
    """
    if accuracy <= 1 / n_symbols:
        return 0.0
    wrong = 1 - accuracy
    lost = wrong * np.log2(wrong / (n_symbols - 1)) if wrong > 0 else 0.0
    return float(np.log2(n_symbols) + accuracy * np.log2(accuracy) + lost)
