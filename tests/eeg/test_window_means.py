import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from mixnorm.eeg import Preparation, WindowMeans, prepare, simulated_recording


@given(st.integers(1, 40), st.data())
def test_windows_use_every_sample_once_and_differ_by_one_at_most(n_times, data):
    n_windows = data.draw(st.integers(1, n_times))
    X = np.random.default_rng(0).standard_normal((3, 2, n_times))
    model = clone(WindowMeans(n_windows)).fit(X)
    lengths = np.diff(model.edges_)
    assert lengths.sum() == n_times
    assert lengths.max() - lengths.min() <= 1
    parts = np.split(X, model.edges_[1:-1], axis=2)
    expected = np.stack([part.sum(axis=2) / part.shape[2] for part in parts], axis=2)
    assert np.allclose(model.transform(X), expected)


def test_it_agrees_with_the_means_of_a_preparation():
    recording = simulated_recording(60, n_channels=3, n_informative=2)
    cut = {"band": None, "window": (0.0, 0.625), "reduce": "mean", "baseline": None}
    every = prepare([recording], Preparation(**cut, n_samples=None)).X
    assert every.shape[2] % 8 == 0
    assert np.allclose(WindowMeans(8).fit_transform(every), prepare([recording], Preparation(**cut, n_samples=8)).X)


def test_bad_input_is_named():
    X = np.zeros((2, 3, 5))
    with pytest.raises(ValueError, match="from 1 to the number of samples, 5, but got 6"):
        WindowMeans(6).fit(X)
    with pytest.raises(ValueError, match="but got 0"):
        WindowMeans(0).fit(X)
    with pytest.raises(ValueError, match=r"takes an array \(n_trials, n_channels, n_times\)"):
        WindowMeans(2).fit(X[0])
    with pytest.raises(ValueError, match="X has 4 samples per channel, but WindowMeans was fitted on 5"):
        WindowMeans(2).fit(X).transform(X[:, :, :4])
