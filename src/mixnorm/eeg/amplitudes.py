"""Recordings in different units are told apart by the size of their amplitudes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.recording import RecordingError

#: Amplitudes that differ by this factor are in different units: those of EEG differ by 10 between people and
#: amplifiers, and units by 1000.
OTHER_UNIT = 100.0

# what a recording is probably in, by its size relative to microvolts
_UNITS = {1e-6: "volts", 1e-3: "millivolts", 1e3: "nanovolts"}


def check_units(sources: Sequence[str], trials: Sequence[NDArray[np.float64]]) -> None:
    """Raise a `RecordingError` where the trials (n, channels, times) of recordings are of very different size."""
    found = [(_size(X), source) for source, X in zip(sources, trials, strict=True)]
    for one in found[1:]:
        if _differ(one[0], found[0][0]):
            # The smaller one is the odd one: volts that are taken for microvolts.
            (size, odd), (usual, other) = sorted((one, found[0]))
            raise _other_unit(odd, size, f"those of {other}", usual)


def check_unit_of(source: str, X: NDArray[np.float64], scale: NDArray[np.float64]) -> None:
    """Raise a `RecordingError` where trials (n, channels, times) are of another size than those of training.

    `scale` is the spread of each channel in training.
    """
    size, usual = _size(X), float(np.median(scale))
    if _differ(size, usual):
        raise _other_unit(source, size, "those of the training recordings", usual)


def _size(X: NDArray[np.float64]) -> float:
    """Median over channels of the interquartile range / 1.349 of trials, which artefacts hardly change."""
    # Divided by 1.349, the interquartile range of a normal distribution is its standard deviation.
    low, high = np.percentile(X, [25, 75], axis=(0, 2))
    return float(np.median(high - low)) / 1.349


def _differ(size: float, usual: float) -> bool:
    # A size of 0 (mostly flat channels) says nothing about the unit.
    return size > 0 and usual > 0 and not 1 / OTHER_UNIT < size / usual < OTHER_UNIT


def _other_unit(source: str, size: float, whose: str, usual: float) -> RecordingError:
    ratio = size / usual
    unit = _UNITS[min(_UNITS, key=lambda factor: abs(np.log(ratio / factor)))]
    return RecordingError(
        source,
        f"its amplitudes ({size:.2g} µV) are {ratio:.1g} times {whose} ({usual:.2g} µV). Is it in {unit}?",
        "all recordings must be in µV: convert it (MNE objects hold volts)",
    )
