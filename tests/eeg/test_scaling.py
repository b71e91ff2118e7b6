import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import iqr
from scipy.stats.mstats import winsorize
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from mixnorm.eeg import ChannelScaler


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    return rng.standard_normal((50, 3, 4)) * [[1.0], [20.0], [300.0]] + [[0.0], [5.0], [-1000.0]]


def channel(X, index):
    return X[:, index].ravel()


def test_windsor_is_hoffmanns_clip_at_percentiles_then_minus_one_to_one(X):
    out = ChannelScaler("windsor", 10.0).fit_transform(X)
    for index in range(3):
        values = channel(X, index)
        low, high = np.percentile(values, [10, 90])
        expected = 2 * (np.clip(values, low, high) - low) / (high - low) - 1
        assert_allclose(channel(out, index), expected, atol=1e-12)
        # SciPy's winsorize moves the same 20 of 200 values at each end
        moved = np.asarray(winsorize(values, limits=(0.1, 0.1))) != values
        assert_array_equal(np.abs(channel(out, index)) > 1 - 1e-12, moved)
    assert_allclose([out.min(), out.max()], [-1, 1], atol=1e-12)


def test_standard_is_mean_and_standard_deviation_clipped_at_k(X):
    out = ChannelScaler("standard", 1.5).fit_transform(X)
    for index in range(3):
        values = channel(X, index)
        expected = np.clip((values - values.mean()) / values.std(), -1.5, 1.5)
        assert_allclose(channel(out, index), expected, atol=1e-12)


def test_robust_does_not_move_with_one_artefact(X):
    spoilt = X.copy()
    spoilt[0, 1] = 1e7
    clean, dirty = ChannelScaler("robust").fit(X), ChannelScaler("robust").fit(spoilt)
    assert_allclose(dirty.scale_[1], clean.scale_[1], rtol=0.1)
    assert_allclose(clean.scale_[1], iqr(channel(X, 1)) / 1.349, rtol=1e-12)
    assert_allclose(clean.center_[1], np.median(channel(X, 1)), rtol=1e-12)
    assert np.abs(dirty.transform(spoilt)).max() <= 4.0 + 1e-12


def test_none_only_clips_in_microvolts(X):
    assert_array_equal(ChannelScaler("none", 50.0).fit_transform(X), np.clip(X, -50, 50))
    assert_array_equal(ChannelScaler("none", None).fit_transform(X), X)


@pytest.mark.parametrize("scaling", ["robust", "standard", "windsor"])
def test_dead_sensor_stays_exactly_zero(X, scaling):
    X[:, 2] = -7.0
    out = ChannelScaler(scaling).fit_transform(X)
    assert_array_equal(out[:, 2], 0.0)


def test_learned_on_training_trials_only(X):
    scaler = ChannelScaler("standard", None).fit(X[:30])
    once = scaler.transform(X[30:])
    X[45:] = 1e6
    assert_array_equal(scaler.transform(X[30:45]), once[:15])


def test_works_in_a_pipeline_and_clones(X):
    pipeline = make_pipeline(ChannelScaler("windsor", 5.0), ChannelScaler("none", 0.5))
    assert pipeline.fit_transform(X).shape == X.shape
    copy = clone(pipeline[0])
    assert (copy.scaling, copy.clip) == ("windsor", 5.0)
    with pytest.raises(NotFittedError, match="not fitted"):
        copy.transform(X)


@pytest.mark.parametrize(
    ("scaler", "spoil", "message"),
    [
        (ChannelScaler("max"), lambda X: X, "'scaling' parameter"),
        (
            ChannelScaler("windsor", 50),
            lambda X: X,
            "With scaling='windsor', allowed are percentages from 0 to below 50 and None, but got 50",
        ),
        (ChannelScaler("standard", -1), lambda X: X, "allowed are numbers from 0 and None, but got -1"),
        (ChannelScaler(), lambda X: X[0], "Trials must be an array"),
        (ChannelScaler(), lambda X: X[:0], "There are no trials"),
        (ChannelScaler(), lambda X: np.where(np.arange(3)[:, None] == 1, np.nan, X), r"channels \[1\]"),
    ],
)
def test_bad_input_is_refused(X, scaler, spoil, message):
    with pytest.raises(ValueError, match=message):
        scaler.fit(spoil(X))


def test_other_number_of_channels_is_refused(X):
    with pytest.raises(ValueError, match="X has 2 channels, but the scaler was fitted on 3"):
        ChannelScaler().fit(X).transform(X[:, :2])


def test_channels_have_names_or_numbers(X):
    scaler = ChannelScaler().fit(X)
    assert list(scaler.get_feature_names_out()) == ["0", "1", "2"]
    assert list(scaler.get_feature_names_out(["Fz", "Cz", "Pz"])) == ["Fz", "Cz", "Pz"]
    with pytest.raises(ValueError, match="input_features has 2 names, but there are 3 channels"):
        scaler.get_feature_names_out(["Fz", "Cz"])


def test_table_has_a_column_for_each_channel_and_sample(X):
    pytest.importorskip("pandas")
    scaler = ChannelScaler("standard", None)
    expected = scaler.fit_transform(X)
    table = clone(scaler.set_output(transform="pandas")).fit_transform(X)
    assert list(table.columns[:2]) == ["0_0", "0_1"]
    assert len(table.columns) == X.shape[1] * X.shape[2]
    assert_array_equal(table.to_numpy(), expected.reshape(len(X), -1))
    assert_array_equal(table["1_2"], expected[:, 1, 2])
    with pytest.raises(ValueError, match="output config must be in"):
        ChannelScaler().set_output(transform="list")


@pytest.mark.parametrize("reject", [None, "auto"])
def test_picked_channels_are_scaled_as_among_all(X, reject):
    scaler = ChannelScaler("robust", 3.0, reject).fit(X)
    part = scaler.picked([2, 0])
    assert_array_equal(part.transform(X[:, [2, 0]]), scaler.transform(X)[:, [2, 0]])
    assert_array_equal(part.limits_, scaler.limits_[[2, 0]])
    assert scaler.n_channels_in_ == 3
    with pytest.raises(ValueError, match="X has 3 channels, but the scaler was fitted on 2"):
        part.transform(X)


def test_a_scaler_that_is_not_fitted_has_no_channels_to_pick():
    with pytest.raises(NotFittedError, match="not fitted"):
        ChannelScaler().picked([0])
