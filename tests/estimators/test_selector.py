"""SensorSelector: exactly as many sensors as asked for, whatever the data, with their names."""

import mne
import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mixnorm import GroupSVC, SensorSelector, group_svc_path
from reference import random_problem

N_GROUPS, SIZE = 6, 2


def plain_data():
    return random_problem(np.random.default_rng(0), 60, N_GROUPS, SIZE)


def identical_sensors():
    """Sensors 0, 3 and 5 are the same: they enter together."""
    X, y, groups = plain_data()
    for copy in (3, 5):
        X[:, groups == copy] = X[:, groups == 0]
    return X, y, groups


def dead_sensors():
    X, y, groups = plain_data()
    X[:, groups == 1], X[:, groups == 4] = 0.0, 3.5
    return X, y, groups


def fewer_trials_than_features():
    return random_problem(np.random.default_rng(1), 16, N_GROUPS, 4, flipped=0.0)


def separable_by_one_sensor():
    """The path ends before all sensors were chosen: one of them is enough for a loss of zero."""
    X, y, groups = plain_data()
    X[:, groups == 2] = 10 * y[:, None] + 0.1 * X[:, groups == 2]
    return X, y, groups


DATA = [plain_data, identical_sensors, dead_sensors, fewer_trials_than_features, separable_by_one_sensor]
DEAD = {dead_sensors: {1, 4}}


# where one sensor is enough the path is followed to its end: once will do
CASES = [(data, q) for data in DATA for q in (2.0, 1.4, 1.0) if q == 2 or data is not separable_by_one_sensor]


@pytest.mark.parametrize(("data", "q"), CASES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_exactly_k_sensors_for_every_k(data, q):
    X, y, groups = data()
    dead = DEAD.get(data, set())
    for k in range(1, N_GROUPS - len(dead) + 1):
        selector = SensorSelector(k, q=q, groups=groups, strategy="path").fit(X, y)
        chosen = set(selector.selected_groups_.tolist())
        assert len(selector.selected_groups_) == len(chosen) == k
        assert not chosen & dead
        np.testing.assert_array_equal(selector.get_support(), np.isin(groups, selector.selected_groups_))
        assert selector.selected_groups_.tolist() == sorted(chosen)


def test_sensors_are_those_of_the_path():
    """Where some alpha has exactly k sensors, the selection is what the plain fit at that alpha selects."""
    X, y, groups = plain_data()
    seen = 0
    for k in range(1, N_GROUPS):
        selector = SensorSelector(k, groups=groups, strategy="path").fit(X, y)
        model = GroupSVC(selector.alpha_, groups=groups).fit(X, y)
        if len(model.selected_groups_) == k:
            seen += 1
            np.testing.assert_array_equal(selector.selected_groups_, model.selected_groups_)
            np.testing.assert_allclose(selector.group_norms_, model.group_norms_, atol=1e-4)
    assert seen >= 3


def test_alpha_is_the_first_on_the_path_with_so_many():
    """Steps of the search are a seventh of a decade: a fine path further above alpha_ never has k sensors."""
    X, y, groups = plain_data()
    top = group_svc_path(X, y, groups=groups, alphas=1).alphas[0]
    looked = 0
    for k in range(1, N_GROUPS + 1):
        selector = SensorSelector(k, groups=groups, strategy="path").fit(X, y)
        fine = np.geomspace(top, 1e-2 * top, 100)
        fine = fine[fine > selector.alpha_ * 10 ** (1 / 7)]
        looked += len(fine)
        coefs = group_svc_path(X, y, groups=groups, alphas=fine).coefs if len(fine) else []
        assert all(len(np.unique(groups[coef != 0])) < k for coef in coefs)
    assert looked > 20


def test_ties_go_to_the_larger_norm_then_to_the_earlier_sensor():
    X, y, groups = identical_sensors()
    y = np.where(X[:, 0] + 0.1 * X[:, 4] > 0, 1, -1)  # the identical sensors are the best there are
    assert SensorSelector(1, groups=groups, strategy="path").fit(X, y).selected_groups_.tolist() in ([0], [3], [5])
    two = SensorSelector(2, groups=groups, strategy="path").fit(X, y).selected_groups_.tolist()
    assert len(set(two) & {0, 3, 5}) == 2
    again = SensorSelector(2, groups=groups, strategy="path").fit(X, y).selected_groups_.tolist()
    assert again == two


# --- kept and forbidden ---


@pytest.mark.parametrize("weight", [1.0, 0.01, 100.0])
def test_kept_sensors_are_always_among_them_and_forbidden_ones_never(weight):
    X, y, groups = plain_data()
    beta = [1.0, np.inf, 1.0, 0.0, weight, 0.0]
    for k in range(2, 6):
        selected = SensorSelector(k, groups=groups, group_weights=beta, strategy="path").fit(X, y).selected_groups_
        assert len(selected) == k
        assert {3, 5} <= set(selected.tolist())
        assert 1 not in selected


def test_graded_weights_lead_to_the_cheaper_sensor():
    X, y, groups = plain_data()
    cheap = SensorSelector(1, groups=groups, group_weights={4: 1e-3}, strategy="path").fit(X, y)
    assert cheap.selected_groups_.tolist() == [4]
    assert SensorSelector(1, groups=groups, strategy="path").fit(X, y).selected_groups_.tolist() != [4]


def test_fewer_sensors_than_are_kept_is_refused():
    X, y, groups = plain_data()
    with pytest.raises(ValueError, match="n_sensors=1 is too small: 2 sensors have weight 0 and are always kept"):
        SensorSelector(1, groups=groups, group_weights={0: 0.0, 1: 0.0}, strategy="path").fit(X, y)


# --- too many ---


@pytest.mark.parametrize("data", [plain_data, dead_sensors], ids=lambda data: data.__name__)
def test_more_sensors_than_there_are_is_refused(data):
    X, y, groups = data()
    usable = N_GROUPS - len(DEAD.get(data, ()))
    with pytest.raises(
        ValueError, match=rf"n_sensors={usable + 1} is larger than the number of usable sensors, {usable}"
    ):
        SensorSelector(usable + 1, groups=groups, strategy="path").fit(X, y)


def test_sensors_that_do_not_count_are_named():
    X, y, groups = dead_sensors()
    with pytest.raises(
        ValueError, match=r"usable sensors, 3 \(not counting \[0, 1, 4\], which are constant or have infinite weight"
    ):
        SensorSelector(4, groups=groups, group_weights={0: np.inf}, strategy="path").fit(X, y)


@pytest.mark.parametrize("bad", [0, -1, 1.5, "2", None])
def test_number_of_sensors_must_be_a_whole_number_from_one(bad):
    X, y, groups = plain_data()
    with pytest.raises(ValueError, match="n_sensors must be a whole number from 1, but got"):
        SensorSelector(bad, groups=groups, strategy="path").fit(X, y)


# --- weights of trials ---


def test_trials_of_weight_zero_have_no_influence():
    X, y, groups = dead_sensors()
    wild = X.copy()
    wild[::4] = 1e3 * np.random.default_rng(0).standard_normal(X[::4].shape)  # here the dead sensors live
    weights = np.ones(len(y))
    weights[::4] = 0.0
    for k in range(1, 5):
        selector = SensorSelector(k, groups=groups, strategy="path").fit(wild, y, sample_weight=weights)
        without = SensorSelector(k, groups=groups, strategy="path").fit(X[weights > 0], y[weights > 0])
        np.testing.assert_array_equal(selector.selected_groups_, without.selected_groups_)
    with pytest.raises(ValueError, match="n_sensors=5 is larger than the number of usable sensors, 4"):
        SensorSelector(5, groups=groups, strategy="path").fit(wild, y, sample_weight=weights)


def test_class_weight_is_a_sample_weight():
    X, y, groups = plain_data()
    by_class = SensorSelector(3, groups=groups, class_weight={-1: 1.0, 1: 30.0}, strategy="path").fit(X, y)
    by_trial = SensorSelector(3, groups=groups, strategy="path").fit(X, y, sample_weight=np.where(y > 0, 30.0, 1.0))
    np.testing.assert_allclose(by_class.group_norms_, by_trial.group_norms_, atol=1e-9)
    assert by_class.alpha_ == pytest.approx(by_trial.alpha_)


# --- names and containers ---

NAMES = ["Pz", "Cz", "Fz", "Oz", "C3", "C4"]


def test_epochs_stay_epochs_with_the_chosen_channels():
    X, y, _ = plain_data()
    cube = X.reshape(60, N_GROUPS, SIZE)
    info = mne.create_info([*NAMES, "EOG"], 100.0, ["eeg"] * 6 + ["eog"])
    epochs = mne.EpochsArray(np.concatenate([1e-6 * cube, cube[:, :1]], axis=1), info, verbose="error")
    selector = SensorSelector(2, strategy="path").fit(epochs, y)
    chosen = SensorSelector(2, strategy="path").fit(cube, y).selected_groups_
    assert selector.selected_groups_.tolist() == [NAMES[g] for g in chosen]
    assert selector.get_feature_names_out().tolist() == selector.selected_groups_.tolist()
    out = selector.transform(epochs)
    assert isinstance(out, mne.BaseEpochs)
    assert out.ch_names == selector.selected_groups_.tolist()
    np.testing.assert_allclose(out.get_data(units="uV"), cube[:, chosen], rtol=1e-12)
    assert selector.get_support().shape == (N_GROUPS,)
    np.testing.assert_array_equal(selector.get_support(indices=True), chosen)


def test_arrays_of_epochs_keep_their_shape():
    X, y, _ = plain_data()
    cube = X.reshape(60, N_GROUPS, SIZE)
    selector = SensorSelector(4, strategy="path").fit(cube, y)
    np.testing.assert_array_equal(selector.transform(cube), cube[:, selector.get_support()])
    assert selector.transform(cube).shape == (60, 4, SIZE)
    assert selector.get_feature_names_out().tolist() == [str(g) for g in selector.selected_groups_]
    assert selector.get_feature_names_out(NAMES).tolist() == [NAMES[g] for g in selector.selected_groups_]
    with pytest.raises(ValueError, match="input_features has 2 names, but there are 6 channels"):
        selector.get_feature_names_out(["Cz", "Pz"])


def test_frames_keep_their_columns():
    X, y, groups = plain_data()
    frame = pd.DataFrame(X, columns=[f"{NAMES[g]}-{i}" for i, g in enumerate(groups)])
    selector = SensorSelector(2, groups=[NAMES[g] for g in groups], strategy="path").fit(frame, y)
    expected = [name for name in frame.columns if name.split("-")[0] in selector.selected_groups_]
    assert selector.get_feature_names_out().tolist() == expected
    np.testing.assert_array_equal(selector.transform(frame), frame[expected])
    np.testing.assert_array_equal(selector.get_support(indices=True), [frame.columns.get_loc(c) for c in expected])


def test_support_is_a_copy():
    X, y, groups = plain_data()
    selector = SensorSelector(2, groups=groups, strategy="path").fit(X, y)
    selector.get_support()[:] = True
    assert selector.get_support().sum() == 2 * SIZE


def test_in_a_pipeline_before_a_classifier_on_epochs():
    X, y, _ = plain_data()
    cube = X.reshape(60, N_GROUPS, SIZE)
    steps = make_pipeline(SensorSelector(3, strategy="path"), GroupSVC(0.01)).fit(cube, y)
    kept = steps[0].get_support()
    np.testing.assert_array_equal(steps[1].coef_, GroupSVC(0.01).fit(cube[:, kept], y).coef_)
    assert steps.predict(cube).shape == (60,)
    assert steps[0].get_feature_names_out().tolist() == np.flatnonzero(kept).astype(str).tolist()


def test_in_a_pipeline_after_a_scaler_on_a_matrix():
    X, y, groups = plain_data()
    steps = make_pipeline(StandardScaler(), SensorSelector(3, groups=groups, strategy="path")).fit(X, y)
    assert steps.transform(X).shape == (60, 3 * SIZE)
    assert len(steps.get_feature_names_out()) == 3 * SIZE
