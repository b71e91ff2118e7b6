"""Positions of the electrodes of the extended 10–20 system on a spherical head.

A sphere of radius 95 mm, in metres: x to the right ear, y to the nose, z up through Cz. The rim
(Fp1 … T7 … O1) lies 72° below the vertex, the nasion–inion circle at 90°. Positions are computed from the
names, so nothing here needs MNE.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

#: Radius of the idealised head, in metres.
HEAD_RADIUS = 0.095

_ROWS = ("Fp", "AF", "F", "FC", "C", "CP", "P", "PO", "O")
# The ends of these rows carry names of their own: FT7 ends the FC row, T7 the C row, TP7 the CP row.
_TEMPORAL = {"FC": "FT", "C": "T", "CP": "TP"}
_NO_ELECTRODE = re.compile(
    r"eog|ecg|ekg|emg|\b[hv]eo[lrud]?\b|\bexg|\beye|\beyes|\b(lo|io|so)[12]\b|resp(?![a-z])|respiration|pulse|gsr|photo|"
    r"\bacc|trig|event|marker|status|(?<![a-z])sti(m|\b|\s*\d)",
    re.IGNORECASE,
)
# names of the 10–20 system that the 10–10 system renamed
_OLD_NAMES = {"t3": "T7", "t4": "T8", "t5": "P7", "t6": "P8"}


def standard_name(name: str) -> str | None:
    """The usual spelling of an electrode name, or None when it names no electrode of the 10–10 system.

    Case, dots, spaces, an `EEG` prefix and a reference suffix are ignored; T3, T4, T5, T6 are
    T7, T8, P7, P8.

    Examples
    --------
    >>> standard_name("FP1"), standard_name("Fc5."), standard_name("EEG Cz-REF"), standard_name("T5")
    ('Fp1', 'FC5', 'Cz', 'P7')
    >>> standard_name("EOG left") is None
    True
    """
    # EDF files call a channel "EEG Cz-REF", BCI2000 "Cz..", old systems "FP1".
    bare = re.sub(r"^eeg[\s:_-]*", "", name.strip().lower())
    bare = re.sub(r"[\s:_-]+(ref|le|a1|a2|m1|m2|avg|ar)$", "", bare).strip(" .")
    return _OLD_NAMES.get(bare) or _by_lowercase().get(bare)


def no_electrodes(ch_names: Sequence[str]) -> list[str]:
    """The names that denote eye, heart, muscle or trigger channels, whatever type the file gives them.

    Names of mastoids and ear lobes are not returned.

    Examples
    --------
    >>> no_electrodes(["Fz", "HEO", "EXG1", "left eye", "LO1", "ACC_X", "Pulse"])
    ['HEO', 'EXG1', 'left eye', 'LO1', 'ACC_X', 'Pulse']
    >>> no_electrodes(["Fz", "EOG", "HEOGL", "EEG VEOG", "EKG1", "emg-chin", "M1", "A2", "FeedBackEvent", "STI 014"])
    ['EOG', 'HEOGL', 'EEG VEOG', 'EKG1', 'emg-chin', 'FeedBackEvent', 'STI 014']
    """
    # A name of the 10–10 system is an electrode, whatever the pattern finds in it.
    return [name for name in ch_names if standard_name(name) is None and _NO_ELECTRODE.search(name)]


def electrode_positions(ch_names: Sequence[str]) -> NDArray[np.float64]:
    """Return the positions of electrodes on the idealised head.

    Parameters
    ----------
    ch_names : sequence of str
        Names of the 10–10 system; case does not matter.

    Returns
    -------
    (n, 3) array
        Metres; NaN where the name is no 10–10 electrode.

    See Also
    --------
    Recording : Has the positions of its source, where that knows them.

    Examples
    --------
    >>> from mixnorm.eeg import electrode_positions
    >>> electrode_positions(["Cz", "T8", "ECG"]).round(3) + 0.0
    array([[0.   , 0.   , 0.095],
           [0.09 , 0.   , 0.029],
           [  nan,   nan,   nan]])
    """
    table = _table()
    nowhere = np.full(3, np.nan)
    return np.array([table.get(standard_name(name) or "", nowhere) for name in ch_names]).reshape(-1, 3)


def on_page(positions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Places (n, 2) on a head seen from above, nose up, for positions (n, 3) in metres; NaN stays NaN.

    The distance from the middle is the angle from the vertex, 1 at the rim of the head.

    Examples
    --------
    >>> on_page(electrode_positions(["Cz", "Iz", "EOG"])).round(2) + 0.0
    array([[ 0.,  0.],
           [ 0., -1.],
           [nan, nan]])
    """
    positions = np.asarray(positions, dtype=float).reshape(-1, 3)
    radius = np.linalg.norm(positions, axis=1)
    # By angle and not by a projection from above, in which the rim would be crowded.
    angle = np.arccos(np.clip(positions[:, 2] / np.where(radius > 0, radius, HEAD_RADIUS), -1, 1))
    across = np.hypot(positions[:, 0], positions[:, 1])
    return (angle / (np.pi / 2) / np.where(across > 0, across, 1.0))[:, None] * positions[:, :2]


@cache
def _by_lowercase() -> dict[str, str]:
    return {name.lower(): name for name in _table()}


@cache
def _table() -> dict[str, NDArray[np.float64]]:
    """Every electrode of the 10–10 system with its position."""
    table = {"Nz": _on_sphere(90.0, 0.0), "Iz": _on_sphere(90.0, 180.0)}
    for index, row in enumerate(_ROWS):
        # 10 % of the half circle from nasion to inion are 18°: the rows lie that far apart.
        below_vertex, azimuth = 72.0 - 18.0 * index, 18.0 * (index + 1)
        middle = table[f"{row}z"] = _on_sphere(abs(below_vertex), 0.0 if below_vertex >= 0 else 180.0)
        for side, first in ((-1, 1), (1, 2)):
            rim = _on_sphere(72.0, side * azimuth)
            if row in ("Fp", "O"):
                table[f"{row}{first}"] = rim
                continue
            for step in range(4):
                table[_lateral_name(row, 2 * step + first)] = _between(middle, rim, (step + 1) / 4)
            # Numbers 9 and 10 lie on the circle through nasion and inion, 18° below the rim.
            table[_lateral_name(row, 8 + first)] = _on_sphere(90.0, side * azimuth)
    return table


def _lateral_name(row: str, number: int) -> str:
    """FC7 is called FT7, C9 T9, CP8 TP8: the outer ends of the central rows lie over the temporal lobe."""
    return f"{_TEMPORAL.get(row, row) if number >= 7 else row}{number}"


def _on_sphere(polar: float, azimuth: float) -> NDArray[np.float64]:
    """The point `polar` degrees below the vertex, `azimuth` degrees to the right of the nose."""
    theta, phi = np.deg2rad([polar, azimuth])
    return HEAD_RADIUS * np.array([np.sin(theta) * np.sin(phi), np.sin(theta) * np.cos(phi), np.cos(theta)])


def _between(start: NDArray, end: NDArray, fraction: float) -> NDArray[np.float64]:
    """The point at `fraction` of the great circle from `start` to `end`."""
    angle = np.arccos(np.clip(start @ end / HEAD_RADIUS**2, -1.0, 1.0))
    return (np.sin((1 - fraction) * angle) * start + np.sin(fraction * angle) * end) / np.sin(angle)
