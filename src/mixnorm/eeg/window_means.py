"""Means over windows: trials with many samples become trials with few, in a scikit-learn pipeline."""

from __future__ import annotations

from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted


class WindowMeans(TransformerMixin, BaseEstimator):
    r"""Replace the samples of each channel by means over windows of equal length.

    .. math:: \bar x_{ick} = \frac{1}{e_{k+1} - e_k} \sum_{t = e_k}^{e_{k+1} - 1} x_{ict},
              \qquad e_k = \operatorname{round}(k\,T/K)

    for K windows of T samples: the windows follow each other, use every sample once and differ by at most one sample.
    A recording needs no such step: `Preparation` takes means while it cuts trials. This is for trials that others cut,
    as MOABB does.

    Parameters
    ----------
    n_windows : int
        K, at most the number of samples.

    Attributes
    ----------
    edges_ : (n_windows + 1,) array of int
        The first sample of every window, and the number of samples.

    See Also
    --------
    Preparation : The same for recordings, with ``n_samples`` and ``reduce="mean"``.
    ChannelScaler : The next step of a pipeline.

    Examples
    --------
    >>> import numpy as np
    >>> from mixnorm.eeg import WindowMeans
    >>> WindowMeans(2).fit_transform([[[1.0, 3.0, 5.0, 7.0]]])
    array([[[2., 6.]]])
    """

    def __init__(self, n_windows: int = 10) -> None:
        self.n_windows = n_windows

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn where the windows are from the number of samples.

        Parameters
        ----------
        X : array of shape (n_trials, n_channels, n_times)
            Trials.
        y : object
            Not used; for scikit-learn.

        Returns
        -------
        WindowMeans
            The transformer itself.
        """
        n_times = _trials(X).shape[2]
        if not 1 <= self.n_windows <= n_times:
            raise ValueError(
                "Invalid value for the 'n_windows' parameter. Allowed are whole numbers from 1 to the number of "
                f"samples, {n_times}, but got {self.n_windows!r} instead."
            )
        # the edges are rounded and not the lengths, so that every sample is used once
        self.edges_ = np.linspace(0, n_times, self.n_windows + 1).round().astype(np.int64)
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the means of every trial and channel.

        Parameters
        ----------
        X : array of shape (n_trials, n_channels, n_times)
            Trials with as many samples as those of the fit.

        Returns
        -------
        ndarray of shape (n_trials, n_channels, n_windows)
            The means.
        """
        check_is_fitted(self)
        trials = _trials(X)
        if trials.shape[2] != self.edges_[-1]:
            raise ValueError(
                f"X has {trials.shape[2]} samples per channel, but WindowMeans was fitted on {self.edges_[-1]}."
            )
        return np.stack([trials[:, :, a:b].mean(axis=2) for a, b in pairwise(self.edges_)], axis=2)


def _trials(X: ArrayLike) -> NDArray[np.float64]:
    # np.asarray of mne.Epochs would be an array of objects, with an error that says nothing of it
    trials = np.asarray(X, dtype=np.float64) if not hasattr(X, "get_data") else np.empty(0)
    if trials.ndim != 3:
        raise ValueError(
            "WindowMeans takes an array (n_trials, n_channels, n_times); of epochs, "
            "epochs.get_data(picks='eeg', units='uV') is one."
        )
    return trials
