"""Models need the sensors they use, by name and in any order, and nothing else; what MNE marks as bad is obeyed."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from mixnorm import GroupSVC, GroupSVCCV, MultiTaskGroupSVC, SensorSelector, group_svc_path, load, save
from mixnorm.eeg import ChannelScaler

mne = pytest.importorskip("mne")

NAMES = ["Pz", "Cz", "Fz", "Oz", "P3", "P4"]


@pytest.fixture(scope="module")
def trials():
    rng = np.random.default_rng(5)
    y = np.tile([0, 1], 40)
    X = rng.standard_normal((80, 6, 4))
    X[y == 1, 1] += 1.5
    X[y == 1, 4] -= 1.0
    return X, y


def epochs_of(X, names=NAMES):
    info = mne.create_info(list(names), 100.0, "eeg")
    seconds = np.column_stack([100 * np.arange(len(X)), np.zeros(len(X), int), np.ones(len(X), int)])
    return mne.EpochsArray(1e-6 * X, info, seconds, verbose="error")


def fitted(X, y):
    model = GroupSVC(0.3).fit(epochs_of(X), y)
    assert 0 < len(model.selected_groups_) < 5
    return model


@pytest.mark.parametrize("saved", [False, True])
def test_epochs_with_only_the_selected_channels_give_the_same_bits(trials, saved, tmp_path):
    X, y = trials
    model = fitted(X, y)
    expected = model.decision_function(epochs_of(X))
    if saved:
        save(model, tmp_path / "m.mixnorm")
        model = load(tmp_path / "m.mixnorm")
    used = [NAMES.index(name) for name in model.selected_groups_][::-1]
    own = epochs_of(X[:, used], [NAMES[i] for i in used])
    assert_array_equal(model.decision_function(own), expected)
    broken = X.copy()
    broken[:, [i for i in range(6) if i not in used]] = np.nan
    assert_array_equal(model.decision_function(epochs_of(broken)), expected)
    with pytest.raises(ValueError, match=f"needs channels that the epochs do not have: {NAMES[used[0]]}"):
        model.predict(epochs_of(X[:, used[1:]], [NAMES[i] for i in used[1:]]))


def test_selector_needs_only_what_it_keeps(trials):
    X, y = trials
    selector = SensorSelector(2).fit(epochs_of(X), y)
    used = [NAMES.index(name) for name in selector.selected_groups_]
    own = epochs_of(X[:, used], [NAMES[i] for i in used])
    assert_array_equal(selector.transform(own).get_data(), selector.transform(epochs_of(X)).get_data())


def test_many_subjects_need_only_what_they_use(trials):
    X, y = trials
    subjects = np.repeat(["A", "B"], 40)
    model = MultiTaskGroupSVC(0.4).fit(epochs_of(X), y, subjects=subjects)
    used = [NAMES.index(name) for name in model.selected_groups_]
    assert 0 < len(used) < 6
    own = epochs_of(X[:, used], [NAMES[i] for i in used])
    assert_array_equal(
        model.decision_function(own, subjects=subjects), model.decision_function(epochs_of(X), subjects=subjects)
    )


def test_columns_that_belong_to_sensors_are_matched_by_name(trials):
    X, y = trials
    columns = [f"{name}_{sample}" for name in NAMES for sample in range(4)]
    frame = pd.DataFrame(X.reshape(80, -1), columns=columns)
    groups = [name.split("_")[0] for name in columns]
    model = GroupSVC(0.3, groups=groups).fit(frame, y)
    used = set(model.selected_groups_)
    assert 0 < len(used) < 6
    expected = model.decision_function(frame)
    assert_array_equal(model.decision_function(frame[columns[::-1]].assign(other=1.0)), expected)
    own = frame[[name for name in columns if name.split("_")[0] in used]]
    assert_array_equal(model.decision_function(own), expected)
    unused = [name for name in columns if name.split("_")[0] not in used]
    assert_array_equal(model.decision_function(frame.assign(**dict.fromkeys(unused, np.nan))), expected)
    gone = own.columns[0]
    with pytest.raises(ValueError, match=f"needs columns that X does not have: {gone}"):
        model.predict(own.drop(columns=gone))


def test_bad_channels_of_epochs_are_left_out_with_a_warning(trials):
    X, y = trials
    epochs = epochs_of(X)
    epochs.info["bads"] = ["Cz"]
    with pytest.warns(UserWarning, match=r"Channels marked as bad are left out: Cz; to use them, empty epochs.info"):
        model = GroupSVC(0.1).fit(epochs, y)
    assert "Cz" not in model.groups_
    others = [i for i in range(6) if i != 1]
    plain = GroupSVC(0.1).fit(epochs_of(X[:, others], [NAMES[i] for i in others]), y)
    assert_array_equal(model.coef_, plain.coef_)
    assert_array_equal(model.decision_function(epochs), plain.decision_function(epochs_of(X)))
    whole = fitted(X, y)
    with pytest.raises(ValueError, match=r"do not have: Cz\. .* \(channels marked as bad do not count\)"):
        whole.predict(epochs)
    epochs.info["bads"] = NAMES
    with pytest.raises(ValueError, match="All EEG channels of the epochs are marked as bad: Pz, Cz"):
        GroupSVC(0.1).fit(epochs, y)


def test_epochs_under_a_bad_annotation_are_left_out_and_counted(trials):
    X, y = trials
    epochs = epochs_of(X)
    epochs.set_annotations(mne.Annotations([5.0, 7.5], [0.01, 0.0], ["BAD_blink", "Target"]))
    message = r"1 of 80 epochs are left out because they overlap .*: BAD_blink 1; to use them, remove the annotations"
    weights = np.linspace(1, 2, 80)
    kept = np.delete(np.arange(80), 5)
    for estimator in (GroupSVC(0.1), GroupSVCCV(3), SensorSelector(2)):
        with pytest.warns(UserWarning, match=message):
            model = clone(estimator).fit(epochs, y, sample_weight=weights)
        plain = clone(estimator).fit(epochs_of(X[kept]), y[kept], sample_weight=weights[kept])
        found = "order_" if isinstance(model, SensorSelector) else "group_norms_"
        assert_array_equal(getattr(model, found), getattr(plain, found))
    one_by_one = [epochs[i] for i in range(80)]
    with pytest.warns(UserWarning, match=message):
        model = GroupSVC(0.1).fit(one_by_one, list(y))
    assert_array_equal(model.coef_, GroupSVC(0.1).fit(epochs_of(X[kept]), y[kept]).coef_)


def test_marked_epochs_are_refused_where_trials_are_numbered(trials):
    X, y = trials
    epochs = epochs_of(X)
    epochs.set_annotations(mne.Annotations([5.0], [0.01], ["BAD_blink"]))
    splits = [(np.arange(40), np.arange(40, 80))]
    text = r"1 epochs overlap .*: trials 5 \(BAD_blink\)\. Leave them out, in X and in y"
    with pytest.raises(ValueError, match=text):
        GroupSVCCV(3, cv=splits).fit(epochs, y)
    with pytest.raises(ValueError, match=text):
        group_svc_path(epochs, y)
    epochs.set_annotations(mne.Annotations([0.0], [100.0], ["BAD_all"]))
    with pytest.raises(ValueError, match=r"All 80 epochs overlap an annotation that marks them as bad: BAD_all 80\."):
        GroupSVC().fit(epochs, y)


def test_scikit_learn_splits_epochs_as_it_splits_arrays(trials):
    X, y = trials
    scores = cross_val_score(GroupSVCCV(4), epochs_of(X), y, cv=2, scoring="roc_auc")
    assert_array_equal(scores, cross_val_score(GroupSVCCV(4), 1e6 * (1e-6 * X), y, cv=2, scoring="roc_auc"))
    pipeline = make_pipeline(ChannelScaler(), GroupSVC(0.1))
    expected = cross_val_score(pipeline, X, y, cv=2, scoring="roc_auc")
    assert_allclose(cross_val_score(pipeline, epochs_of(X), y, cv=2, scoring="roc_auc"), expected, atol=1e-12)


def test_names_survive_the_scaler(trials):
    X, y = trials
    pipeline = make_pipeline(ChannelScaler(), SensorSelector(2), GroupSVC(0.05)).fit(epochs_of(X), y)
    assert set(pipeline[-1].groups_) == {"Cz", "P3"}
    assert list(pipeline[:-1].get_feature_names_out()) == ["Cz", "P3"]
    moved = [3, 1, 0, 5, 4, 2]
    reordered = epochs_of(X[:, moved], [NAMES[i] for i in moved])
    assert_array_equal(pipeline.decision_function(reordered), pipeline.decision_function(epochs_of(X)))
