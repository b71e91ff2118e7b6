"""Peak-to-peak limits: which training trials are beyond them, and limits that are learned from the trials."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: The learned limit lies so many robust standard deviations above the median, on a logarithmic scale. Chosen on
#: development splits, see docs/eeg.md.
SPREADS = 4.0


def check_reject(reject: object) -> None:
    """Refuse anything but a positive number, "auto" and None."""
    if reject is None or (isinstance(reject, str) and reject == "auto"):
        return
    # True would be a limit of 1 µV.
    if isinstance(reject, bool | str) or not isinstance(reject, int | float | np.number) or not 0 < reject < np.inf:
        raise ValueError(
            f"Invalid value for the 'reject' parameter. Allowed values are a limit in µV above 0, 'auto' and None, "
            f"but got {reject!r} instead."
        )


def peak_to_peak(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Largest minus smallest value of each channel in each trial (n, channels, times): (n, channels)."""
    return X.max(axis=2) - X.min(axis=2)


def learned_limits(X: NDArray[np.float64], reject: float | str | None) -> NDArray[np.float64]:
    r"""The limit of each channel (n_channels,) in the unit of the trials X (n, channels, times).

    A number is the limit of all channels, None is no limit. "auto": with p_ic the peak-to-peak value of channel c in
    trial i, m_c its median over trials and r_i = max_c p_ic / m_c,

    .. math:: \text{limit}_c = m_c \exp(\text{median}_i \log r_i + k \cdot \text{IQR}_i(\log r_i) / 1.349),

    k = `SPREADS`: how far the worst channel of a trial may be from what is usual. The maximum over channels is what
    the limit is learned from, so that a cap of many electrodes does not lose more trials than one of few.
    """
    n_channels = X.shape[1]
    if reject is None:
        return np.full(n_channels, np.inf)
    if reject != "auto":
        return np.full(n_channels, float(reject))
    sizes = peak_to_peak(X)
    median = np.median(sizes, axis=0)
    usual = np.where(median > 0, median, np.inf)  # a channel that is flat in most trials has no say
    # in logarithms, because sizes are positive and some are many times the usual one
    worst = np.log(np.maximum((sizes / usual).max(axis=1), np.finfo(float).tiny))
    low, middle, high = np.percentile(worst, [25, 50, 75])
    limit = np.exp(middle + SPREADS * (high - low) / 1.349)
    return np.where(median > 0, median * limit, np.inf)


def all_rejected(X: NDArray[np.float64], reject: float | str | None, whose: str = "") -> str:
    """The text of an error: no trial of X is within the limit, and how many would be within higher ones."""
    worst = np.sort(peak_to_peak(X).max(axis=1))
    # limits within which half and nine tenths of the trials are; a dict keeps the order and drops equal ones
    higher = dict.fromkeys(_up(worst[(share * len(worst) - 1) // 10]) for share in (5, 9))
    kept = [f"{int(np.sum(worst <= limit))} would remain at {limit:g} µV" for limit in higher]
    limit = "learned peak-to-peak limit" if reject == "auto" else f"peak-to-peak limit of {reject:g} µV"
    return f"all {len(worst)} trials{whose} are beyond the {limit}; {', '.join(kept)}; use a higher limit reject=…"


def _up(value: float) -> float:
    """The value with three digits, rounded up, so that a trial of this size is within it."""
    step = 10.0 ** (np.floor(np.log10(value)) - 2) if value > 0 else 1.0
    return float(np.ceil(value / step) * step)
