"""Scaling and clipping of channels, learned on training trials only."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mixnorm.eeg.rejection import all_rejected, check_reject, learned_limits, peak_to_peak

SCALINGS = ("robust", "standard", "windsor", "none")


class ChannelScaler(TransformerMixin, BaseEstimator):
    r"""Clip and scale each channel by statistics of its training trials.

    .. math:: x \mapsto (\min(\max(x, l_c), u_c) - m_c) / s_c

    with, over all training trials and times of channel c,

    - "standard": m the mean, s the standard deviation, l and u = m ∓ clip·s;
    - "robust": m the median, s the interquartile range / 1.349 (the standard deviation of a normal
      distribution), which is robust to artefacts; l and u as above;
    - "windsor": l and u the percentiles clip and 100 − clip, scaled to [−1, 1] (Hoffmann 2008: clip=10);
    - "none": nothing but clipping at ∓ clip.

    A constant channel is only centred, so that it is exactly zero.

    With `reject`, training trials with a channel whose peak-to-peak value is beyond a limit are left out first, and
    `accepted` says which remain. Trials to be scored are clipped, but never rejected.

    Parameters
    ----------
    scaling : {"robust", "standard", "windsor", "none"}
        As above.
    clip : float or None
        As above; None: no clipping ("windsor": percentiles 0 and 100).
    reject : float, "auto" or None
        The limit in µV, the same for all channels; or learned from the training trials
        (`mixnorm.eeg.rejection.learned_limits`); None: no limit.

    Attributes
    ----------
    lower_, upper_, center_, scale_ : (n_channels,) arrays
    limits_ : (n_channels,) array
        Peak-to-peak limits; infinite without `reject`.
    ch_names_in_ : tuple of str
        Names of the channels, if fitted on `mne.Epochs`.

    Examples
    --------
    >>> X = np.arange(12.0).reshape(3, 2, 2)
    >>> ChannelScaler("windsor", clip=None).fit_transform(X)[:, 0, 0]
    array([-1.        , -0.11111111,  0.77777778])
    """

    def __init__(self, scaling: str = "robust", clip: float | None = 4.0, reject: float | str | None = None) -> None:
        self.scaling = scaling
        self.clip = clip
        self.reject = reject

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn limits and scales from training trials (n_trials, n_channels, n_times)."""
        X = _trials(X)
        if self.scaling not in SCALINGS:
            raise ValueError(
                f"Invalid value for the 'scaling' parameter. Allowed values are"
                f" {', '.join(map(repr, SCALINGS))}, but got {self.scaling!r} instead."
            )
        highest = 50 if self.scaling == "windsor" else np.inf
        if self.clip is not None and not 0 <= self.clip < highest:
            raise ValueError(f"Invalid value for the 'clip' parameter: {self.clip} with {self.scaling!r} scaling.")
        check_reject(self.reject)
        self.limits_ = learned_limits(X, self.reject)
        accepted = X[self._within(X)]
        if not len(accepted):
            raise ValueError(all_rejected(X, self.reject))
        values = accepted.transpose(1, 0, 2).reshape(X.shape[1], -1)
        self.center_, self.scale_, self.lower_, self.upper_ = self._learned(values)
        self.scale_ = np.where(self.scale_ > 0, self.scale_, 1.0)
        self.n_channels_in_ = X.shape[1]
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Clip and scale trials of the same channels."""
        check_is_fitted(self)
        X = _trials(X)
        if X.shape[1] != self.n_channels_in_:
            raise ValueError(f"X has {X.shape[1]} channels, but the scaler was fitted on {self.n_channels_in_}.")
        clipped = np.clip(X, self.lower_[:, None], self.upper_[:, None])
        return (clipped - self.center_[:, None]) / self.scale_[:, None]

    def accepted(self, X: ArrayLike, y: ArrayLike | None = None) -> NDArray[np.bool_]:
        """Which training trials (n_trials, n_channels, n_times) are within the limits.

        With labels `y`, an error is raised where all trials of a class are beyond them.
        """
        check_is_fitted(self)
        X = _trials(X)
        within = self._within(X)
        if y is not None:
            labels = np.asarray(y)
            for label in np.unique(labels):
                if not within[labels == label].any():
                    raise ValueError(all_rejected(X[labels == label], self.reject, f" of class {label}"))
        return within

    def _within(self, X: NDArray[np.float64]) -> NDArray[np.bool_]:
        if self.reject is None:
            return np.ones(len(X), dtype=bool)
        return (peak_to_peak(X) <= self.limits_).all(axis=1)

    def _learned(self, values: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        """Centre, scale, lower and upper limit from values (n_channels, n)."""
        if self.scaling == "windsor":
            clip = self.clip or 0.0
            lower, upper = np.percentile(values, [clip, 100 - clip], axis=1)
            return (lower + upper) / 2, (upper - lower) / 2, lower, upper
        if self.scaling == "standard":
            center, scale = values.mean(axis=1), values.std(axis=1)
        elif self.scaling == "robust":
            low, center, high = np.percentile(values, [25, 50, 75], axis=1)
            scale = (high - low) / 1.349
        else:
            center, scale = np.zeros(len(values)), np.ones(len(values))
        reach = np.inf if self.clip is None else self.clip * np.where(scale > 0, scale, 1.0)
        return center, scale, center - reach, center + reach


def _trials(X: ArrayLike) -> NDArray[np.float64]:
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 3:
        raise ValueError(f"Trials must be an array (n_trials, n_channels, n_times), but got shape {X.shape}.")
    if X.size == 0:
        raise ValueError(f"There are no trials in an array of shape {X.shape}.")
    bad = ~np.isfinite(X).all(axis=(0, 2))
    if bad.any():
        raise ValueError(f"NaN or infinite values in channels {np.flatnonzero(bad).tolist()}.")
    return X
