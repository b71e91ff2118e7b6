"""The published results of the paper: AUC, Sel and F-measure in percent, p-value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """A row of Table 1 or 2 of Flamary et al. (2014); None: not in the table."""

    auc: float
    sel: float
    f_measure: float | None = None
    p_value: float | None = None


#: Data set of a built-in plan → method → the paper's row. Its GSVM-1 is svm-1, its GSVM-p gsvm-q.
PAPER: dict[str, dict[str, Published]] = {
    "simulated": {
        "svm": Published(79.79, 100.0, 66.67),
        "svm-1": Published(79.32, 98.75, 67.25, 0.027),
        "gsvm-2": Published(80.96, 62.50, 89.72, 0.004),
        "gsvm-q": Published(80.74, 63.12, 89.40, 0.020),
        "gsvm-a": Published(80.51, 45.62, 93.98, 0.014),
    },
    "epfl": {
        "svm": Published(80.35, 100.0),
        "svm-1": Published(79.88, 87.66, None, 0.15),
        "gsvm-2": Published(80.53, 78.24, None, 0.31),
        "gsvm-q": Published(80.38, 77.81, None, 0.74),
        "gsvm-a": Published(79.01, 26.60, None, 0.01),
    },
    "uam": {
        "svm": Published(84.47, 100.0),
        "svm-1": Published(84.45, 96.27, None, 0.5577),
        "gsvm-2": Published(84.94, 88.77, None, 0.0001),
        "gsvm-q": Published(84.94, 90.80, None, 0.0001),
        "gsvm-a": Published(84.12, 45.07, None, 0.1109),
    },
    "errp": {
        "svm": Published(76.96, 100.0),
        "svm-1": Published(68.84, 45.85, None, 0.3125),
        "gsvm-2": Published(77.29, 29.84, None, 0.5469),
        "gsvm-q": Published(76.84, 37.18, None, 0.7422),
        "gsvm-a": Published(67.25, 7.14, None, 0.1484),
    },
}
