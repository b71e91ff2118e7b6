"""Scaling and clipping of channels, learned on training trials only."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from importlib import import_module
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._set_output import _get_container_adapter, _get_output_config
from sklearn.utils.validation import check_is_fitted

from mixnorm.eeg.rejection import all_rejected, check_reject, learned_limits, peak_to_peak
from mixnorm.estimators.by_name import read_mne
from mixnorm.estimators.inputs import is_mne

SCALINGS = ("robust", "standard", "windsor", "none")


class ChannelScaler(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
    r"""Clip and scale each channel by statistics of its training trials.

    .. math:: x \mapsto (\min(\max(x, l_c), u_c) - m_c) / s_c

    with, over all training trials and times of channel c,

    - "standard": m the mean, s the standard deviation, l and u = m ∓ clip·s;
    - "robust": m the median, s the interquartile range / 1.349 (the standard deviation of a normal
      distribution), which is robust to artefacts; l and u as above;
    - "windsor": l and u the percentiles clip and 100 − clip, scaled to [−1, 1] (Hoffmann 2008: clip=10);
    - "none": nothing but clipping at ∓ clip.

    A constant channel is only centred, so that it is exactly zero.

    Trials are arrays (n_trials, n_channels, n_times) or `mne.Epochs`, whose EEG channels are then matched by name and
    taken in µV. The result is of the same kind, so that an estimator after the scaler still knows the names (scaled
    epochs hold their values in millionths, which estimators read as 1). With ``set_output(transform="pandas")`` it is
    a table with one column for each channel and sample, "Cz_0", "Cz_1", ….

    With `reject`, training trials with a channel whose peak-to-peak value is beyond a limit are left out first, and
    `accepted` says which remain. Trials to be scored are clipped, but never rejected.

    Parameters
    ----------
    scaling : {"robust", "standard", "windsor", "none"}
        Which statistics are used, as above.
    clip : float or None
        Limit of the amplitudes, as above; None: no clipping ("windsor": percentiles 0 and 100).
    reject : float, "auto" or None
        The limit in µV, the same for all channels; or learned from the training trials
        (`mixnorm.eeg.rejection.learned_limits`); None: no limit.

    Attributes
    ----------
    lower_, upper_, center_, scale_ : (n_channels,) arrays
        l, u, m and s of every channel.
    limits_ : (n_channels,) array
        Peak-to-peak limits; infinite without `reject`.
    ch_names_in_ : tuple of str
        Names of the channels, if fitted on `mne.Epochs`.

    See Also
    --------
    Preparation : Its `scaler` makes one with the settings of the preparation.
    Decoder : Has a fitted one, which scales the trials before the classifier.
    WindowMeans : Reduces trials that others cut to few samples.

    Examples
    --------
    >>> import numpy as np
    >>> from mixnorm.eeg import ChannelScaler
    >>> X = np.arange(12.0).reshape(3, 2, 2)
    >>> ChannelScaler("windsor", clip=None).fit_transform(X)[:, 0, 0]
    array([-1.        , -0.11111111,  0.77777778])
    """

    def __init__(self, scaling: str = "robust", clip: float | None = 4.0, reject: float | str | None = None) -> None:
        self.scaling = scaling
        self.clip = clip
        self.reject = reject

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn limits and scales from training trials (n_trials, n_channels, n_times).

        Parameters
        ----------
        X : array of shape (n_trials, n_channels, n_times), or mne.Epochs
            The training trials.
        y : object
            Not used; for scikit-learn.

        Returns
        -------
        ChannelScaler
            The fitted scaler itself.
        """
        X, names = _named_trials(X)
        if self.scaling not in SCALINGS:
            raise ValueError(
                f"Invalid value for the 'scaling' parameter. Allowed values are"
                f" {', '.join(map(repr, SCALINGS))}, but got {self.scaling!r} instead."
            )
        highest = 50 if self.scaling == "windsor" else np.inf
        if self.clip is not None and not 0 <= self.clip < highest:
            allowed = "percentages from 0 to below 50" if self.scaling == "windsor" else "numbers from 0"
            raise ValueError(
                f"Invalid value for the 'clip' parameter. With scaling={self.scaling!r}, allowed are {allowed} and "
                f"None, but got {self.clip!r} instead."
            )
        check_reject(self.reject)
        self.limits_ = learned_limits(X, self.reject)
        accepted = X[self._within(X)]
        if not len(accepted):
            raise ValueError(all_rejected(X, self.reject))
        # All times of a channel share one scale, which keeps the shape of the response.
        values = accepted.transpose(1, 0, 2).reshape(X.shape[1], -1)
        self.center_, self.scale_, self.lower_, self.upper_ = self._learned(values)
        # a constant channel is 0 after centring, and 0/0 would be NaN
        self.scale_ = np.where(self.scale_ > 0, self.scale_, 1.0)
        self.n_channels_in_, self.ch_names_in_ = X.shape[1], names
        return self

    def transform(self, X: Any) -> Any:
        """Clip and scale trials of the same channels; the result is of the kind of X, or a table (`set_output`).

        Parameters
        ----------
        X : array of shape (n_trials, n_channels, n_times), or mne.Epochs
            Trials of the channels that the scaler was fitted on.

        Returns
        -------
        array of the shape of X, mne.Epochs or DataFrame
            The scaled trials.
        """
        check_is_fitted(self)
        trials, names = _named_trials(X)
        # Arrays have no names: their channels must be in the order of the fit.
        if names and getattr(self, "ch_names_in_", None):
            missing = [name for name in self.ch_names_in_ if name not in names]
            if missing:
                raise ValueError(f"The scaler needs channels that the epochs do not have: {', '.join(missing)}.")
            trials = trials[:, [names.index(name) for name in self.ch_names_in_]]
        if trials.shape[1] != self.n_channels_in_:
            raise ValueError(f"X has {trials.shape[1]} channels, but the scaler was fitted on {self.n_channels_in_}.")
        clipped = np.clip(trials, self.lower_[:, None], self.upper_[:, None])
        scaled = (clipped - self.center_[:, None]) / self.scale_[:, None]
        if _get_output_config("transform", self)["dense"] != "default":
            return self._table(scaled, X)
        return scaled if names is None else _as_epochs(scaled, X, self.get_feature_names_out().tolist())

    def picked(self, channels: Sequence[int]) -> Self:
        """Return the fitted scaler of some channels, by their indices, in the order in which they are given.

        Parameters
        ----------
        channels : sequence of int
            Indices of channels that the scaler was fitted on.

        Returns
        -------
        ChannelScaler
            With the same settings, and the limits and scales of these channels.
        """
        check_is_fitted(self)
        part, chosen = copy(self), list(channels)
        for name in ("lower_", "upper_", "center_", "scale_", "limits_"):
            setattr(part, name, getattr(self, name)[chosen])
        names = getattr(self, "ch_names_in_", None)
        part.n_channels_in_ = len(chosen)
        part.ch_names_in_ = names and tuple(names[channel] for channel in chosen)
        return part

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what `transform` returns: "default", "pandas" or "polars"; None changes nothing.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None
            Kind of the result, as in scikit-learn.

        Returns
        -------
        ChannelScaler
            The scaler itself.
        """
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}
            _get_output_config("transform", self)  # refuses what scikit-learn does not know
        return self

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return names of the channels: those of the epochs of the fit, or those given, or their numbers.

        Parameters
        ----------
        input_features : sequence of str, or None
            Names to use instead, one per channel.

        Returns
        -------
        ndarray of str
            One name per channel.
        """
        check_is_fitted(self)
        names = getattr(self, "ch_names_in_", None)
        if input_features is not None:
            names = [str(name) for name in input_features]
        if names is not None and len(names) != self.n_channels_in_:
            raise ValueError(f"input_features has {len(names)} names, but there are {self.n_channels_in_} channels.")
        return np.array(names or [str(channel) for channel in range(self.n_channels_in_)], dtype=object)

    def _table(self, scaled: NDArray[np.float64], X: Any) -> Any:
        columns = [f"{name}_{sample}" for name in self.get_feature_names_out() for sample in range(scaled.shape[2])]
        adapter = _get_container_adapter("transform", self)
        return adapter.create_container(X_output=scaled.reshape(len(scaled), -1), X_original=X, columns=columns)

    def accepted(self, X: ArrayLike, y: ArrayLike | None = None) -> NDArray[np.bool_]:
        """Which training trials (n_trials, n_channels, n_times) are within the limits.

        With labels `y`, an error is raised where all trials of a class are beyond them.

        Parameters
        ----------
        X : array of shape (n_trials, n_channels, n_times)
            The training trials.
        y : array of shape (n_trials,), or None
            Their labels.

        Returns
        -------
        ndarray of bool, of shape (n_trials,)
            True for trials that are used.
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
            # the values are a copy already
            low, center, high = np.percentile(values, [25, 50, 75], axis=1, overwrite_input=True)
            scale = (high - low) / 1.349
        else:
            center, scale = np.zeros(len(values)), np.ones(len(values))
        # Limits of a constant channel must leave it where it is, not clip everything to one value.
        reach = np.inf if self.clip is None else self.clip * np.where(scale > 0, scale, 1.0)
        return center, scale, center - reach, center + reach


def _named_trials(X: Any) -> tuple[NDArray[np.float64], tuple[str, ...] | None]:
    """The trials and, for `mne.Epochs`, the names of their channels."""
    if is_mne(X):
        X, names, _ = read_mne(X)
        return _trials(X), names
    return _trials(X), None


def _as_epochs(scaled: NDArray[np.float64], X: Any, names: list[str]) -> Any:
    """Scaled trials as `mne.Epochs` with the events of X; estimators read volts times a million."""
    mne = import_module("mne")
    parts = X if isinstance(X, list) else [X]
    info = mne.pick_info(parts[0].info, mne.pick_channels(parts[0].ch_names, names, ordered=True))
    events = np.concatenate([part.events for part in parts])
    events[:, 0] = np.arange(len(events))  # single epochs of a list may come from several recordings
    return mne.EpochsArray(1e-6 * scaled, info, events, parts[0].tmin, verbose="error")


def _trials(X: ArrayLike) -> NDArray[np.float64]:
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 3:
        raise ValueError(f"Trials must be an array (n_trials, n_channels, n_times), but got shape {X.shape}.")
    if X.size == 0:
        raise ValueError(f"There are no trials in an array of shape {X.shape}.")
    bad = ~np.isfinite(X).all(axis=(0, 2))
    if bad.any():
        raise ValueError(
            f"The trials contain NaN or infinite values in channels {np.flatnonzero(bad).tolist()} (counted from 0); "
            "leave out these channels, or the trials with such values."
        )
    return X
