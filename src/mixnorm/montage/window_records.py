"""The records of a selection about windows of time. Like all of `mixnorm.montage.result`, they check themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Window:
    """One window of time, in the classifier that chooses electrodes and windows together.

    Attributes
    ----------
    start, stop : float
        Seconds after the stimulus.
    norm : float
        ‖w‖₂ of its coefficients over all sensors, for scaled signals, of the classifier fitted on all trials.
    frequency : float
        Share of the outer folds without whose trials it was chosen.
    selected : bool
        Whether it is chosen on all trials: whether its norm is not 0.
    norms : mapping of str to float
        ‖w‖₂ of its coefficients at each sensor; 0 unless the sensor and the window are chosen.
    """

    start: float
    stop: float
    norm: float
    frequency: float
    selected: bool
    norms: Mapping[str, float] = field(repr=False)

    def __post_init__(self) -> None:
        if self.stop < self.start:
            raise ValueError(f"stop ({self.stop}) is before start ({self.start}).")
        if self.norm < 0 or not 0 <= self.frequency <= 1:
            raise ValueError(f"norm ({self.norm}) must be at least 0, and frequency ({self.frequency}) from 0 to 1.")
        if self.selected != (self.norm > 0) or self.selected != any(norm != 0 for norm in self.norms.values()):
            raise ValueError(f"selected is {str(self.selected).lower()}, but norm or norms mean the opposite.")


@dataclass(frozen=True)
class WindowScores:
    """Held-out AUC of the classifier that chooses windows, and of the same classifier without norms of windows.

    Attributes
    ----------
    auc, low, high : float or None
        With the window share chosen inside each training set: mean over the outer folds, and its 95 % interval.
    all_windows_auc : float or None
        With a window share of 0, which leaves no window out.
    gain, gain_error : float or None
        ``auc`` minus ``all_windows_auc``, and its standard error, paired over folds.
    n_folds : int
        Number of outer folds.
    """

    auc: float | None
    low: float | None
    high: float | None
    all_windows_auc: float | None
    gain: float | None
    gain_error: float | None
    n_folds: int


def check_together(
    windows: tuple[Window, ...] | None, share: float | None, scores: WindowScores | None, sensors: list[str]
) -> None:
    """Raise ValueError unless windows, their share and their scores are all there or all missing, and agree."""
    if len({value is None for value in (windows, share, scores)}) > 1:
        raise ValueError("windows, window_share and window_scores must be given together.")
    for index, window in enumerate(windows or ()):
        if sorted(window.norms) != sorted(sensors):
            raise ValueError(f"windows[{index}].norms: must name every sensor once.")
        if index and window.start < windows[index - 1].stop - 1e-9:
            raise ValueError(f"windows[{index}]: starts before the window before it ends.")
