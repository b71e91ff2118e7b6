"""`filters_` and `patterns_` against the formula, and through MNE to a picture."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mixnorm import GroupSVC, GroupSVCCV, load, save


@pytest.fixture(scope="module")
def trials():
    """Channel 1 contains the signal and a disturbance; channel 3 the disturbance alone."""
    rng = np.random.default_rng(100)
    y = np.tile([0, 1, 0, 0], 1000)
    X = rng.standard_normal((4000, 5, 3)) * 0.3
    disturbance = 2 * rng.standard_normal((4000, 3))
    X[:, 1] += disturbance + 0.7 * y[:, None]
    X[:, 3] += disturbance
    return X + 5.0, y


@pytest.mark.parametrize("model", [GroupSVC(alpha=0.01), GroupSVCCV(3, noise="structured", penalty="l2")])
@pytest.mark.parametrize("weighted", [False, True])
def test_pattern_is_covariance_times_filter_over_variance_of_the_score(trials, model, weighted):
    X, y = trials
    counts = np.random.default_rng(101).integers(0, 3, len(y)) if weighted else np.ones(len(y), dtype=int)
    model.fit(X, y, sample_weight=counts if weighted else None)
    flat = X.reshape(len(X), -1).repeat(counts, axis=0)
    score = flat @ model.coef_[0]
    expected = np.cov(flat.T) @ model.coef_[0] / np.var(score, ddof=1)
    assert_allclose(model.patterns_, expected.reshape(5, 3).T, rtol=1e-9, atol=1e-12)
    assert_array_equal(model.filters_, model.coef_[0].reshape(5, 3).T)


def test_a_sensor_that_only_cancels_noise_has_weight_but_no_pattern(trials):
    model = GroupSVC(alpha=0.001).fit(*trials)
    weights, patterns = np.abs(model.filters_).mean(axis=0), np.abs(model.patterns_).mean(axis=0)
    assert weights[3] > 0.5 * weights[1]
    assert patterns[3] < 0.2 * patterns[1]


def test_vectors_have_one_row_and_the_zero_model_no_pattern(trials):
    X, y = trials
    model = GroupSVC(alpha=0.01).fit(X[:, :, 0], y)
    assert model.filters_.shape == model.patterns_.shape == (1, 5)
    with pytest.warns(UserWarning, match="at or above alpha_max"):
        zero = GroupSVC(alpha=100.0).fit(X, y)
    assert not zero.patterns_.any()


def test_patterns_are_in_model_files_and_missing_ones_are_named(trials, tmp_path):
    model = GroupSVC(alpha=0.01).fit(*trials)
    save(model, tmp_path / "m.mixnorm")
    loaded = load(tmp_path / "m.mixnorm")
    assert_array_equal(loaded.patterns_, model.patterns_)
    del loaded._pattern
    with pytest.raises(AttributeError, match=r"has no patterns_: it was loaded from a file of version 0.1"):
        _ = loaded.patterns_


def test_mne_takes_filters_and_patterns_of_an_estimator_and_of_a_pipeline(trials):
    mne = pytest.importorskip("mne")
    from sklearn.pipeline import make_pipeline

    from mixnorm.eeg import ChannelScaler

    if not hasattr(mne.decoding, "get_spatial_filter_from_estimator"):
        pytest.skip("this version of MNE has no get_spatial_filter_from_estimator")
    X, y = trials
    info = mne.create_info(["Fz", "Cz", "Pz", "Oz", "P3"], 10.0, "eeg").set_montage("colin27_1020")
    model = GroupSVC(alpha=0.01).fit(X, y)
    how = {"get_coefs": ("filters_", "patterns_"), "patterns_method": "haufe"}
    spatial = mne.decoding.get_spatial_filter_from_estimator(model, info, **how)
    assert_array_equal(spatial.patterns, model.patterns_)
    assert_array_equal(spatial.filters, model.filters_)
    pipeline = make_pipeline(ChannelScaler(), GroupSVC(alpha=0.01)).fit(X, y)
    spatial = mne.decoding.get_spatial_filter_from_estimator(pipeline, info, **how)
    assert_array_equal(spatial.patterns, pipeline[-1].patterns_)
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    figure = spatial.plot_patterns(components=[0, 2], show=False)
    drawn = [axes.get_title() for axes in figure.axes]
    assert drawn[:2] == ["Pattern0", "Pattern2"]
    figure.canvas.draw()
    image = np.asarray(figure.canvas.buffer_rgba())
    assert len(np.unique(image.reshape(-1, 4), axis=0)) > 50  # colours of a map, not an empty frame
    matplotlib.pyplot.close(figure)


def test_patterns_of_a_decoder_are_in_microvolts_and_those_of_the_raw_trials():
    from mixnorm.eeg import Decoder, Preparation, prepare, simulated_recording

    recording = simulated_recording(300, n_channels=4, n_informative=2, seed=100)
    preparation = Preparation(scaling="standard", clip=None)  # nothing but linear steps
    decoder = Decoder.fit(recording, preparation, GroupSVC(alpha=0.05))
    X = prepare(recording, preparation).X
    flat = X.reshape(len(X), -1)
    w = decoder.filters_.T.ravel()
    score = decoder.predict(recording).score
    assert_allclose(flat @ w - (flat @ w).mean(), score - score.mean(), atol=1e-9)
    expected = np.cov(flat.T) @ w / np.var(score, ddof=1)
    assert_allclose(decoder.patterns_, expected.reshape(4, -1).T, rtol=1e-8, atol=1e-10)
