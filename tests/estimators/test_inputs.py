"""What may go in, in which forms, and what is refused: by an error that names the culprit, and without side effects."""

import mne
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from mixnorm import GroupSVC, GroupSVCCV, SensorSelector, group_svc_path
from reference import random_problem

N_CHANNELS, N_TIMES, N_TRIALS = 4, 3, 60
NAMES = ["Pz", "Cz", "Fz", "Oz"]  # not in alphabetical order: channels keep theirs


@pytest.fixture(scope="module")
def trials():
    X, y, groups = random_problem(np.random.default_rng(3), N_TRIALS, N_CHANNELS, N_TIMES)
    return X, y, groups


@pytest.fixture
def X(trials):
    return trials[0].copy()


@pytest.fixture
def y(trials):
    return trials[1].copy()


@pytest.fixture
def groups(trials):
    return trials[2]


def epochs_of(X, names=NAMES, kinds="eeg", sfreq=100.0):
    """The trials as mne.Epochs, whose unit is the volt."""
    info = mne.create_info(list(names), sfreq, kinds)
    return mne.EpochsArray(1e-6 * X.reshape(len(X), len(names), -1), info, tmin=0.1, verbose="error")


def as_3d(X):
    return X.reshape(len(X), N_CHANNELS, -1)


ESTIMATORS = [GroupSVC(0.05), GroupSVCCV(4), SensorSelector(2)]
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)


def refuses(text, fit, *args, error=ValueError, **kwargs):
    with pytest.raises(error, match=text):
        fit(*args, **kwargs)


# --- values ---


@every_estimator
@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_non_finite_value_is_named_by_trial_and_feature(estimator, X, y, value, word):
    X[17, 8] = value
    refuses(rf"{word}: trial 17, feature 8\.$", clone(estimator).fit, X, y)
    refuses(rf"{word}: trial 17, channel 2, sample 2\.$", clone(estimator).fit, as_3d(X), y)
    refuses(rf"{word}: trial 17, channel 'Fz', sample 2\.$", clone(estimator).fit, epochs_of(X), y)
    frame = pd.DataFrame(X, columns=[f"column{i}" for i in range(12)])
    refuses(rf"{word}: trial 17, column 'column8'\.$", clone(estimator).fit, frame, y)


def test_several_bad_values_are_counted(X, y):
    X[3, 1] = X[5, 2] = np.nan
    X[50] = np.inf
    refuses(r"trial 3, feature 1 \(and 13 more values", GroupSVC().fit, X, y)


@every_estimator
def test_non_finite_value_is_refused_by_a_fitted_model_too(estimator, X, y):
    model = clone(estimator).fit(as_3d(X), y)
    apply = model.transform if isinstance(model, SensorSelector) else model.predict
    X[2, 4] = np.nan
    refuses("NaN: trial 2, channel 1, sample 1", apply, as_3d(X))
    refuses("NaN: trial 2, channel 1, sample 1", apply, X)  # the same epochs, flattened


def test_large_values_whose_sum_overflows_are_not_infinite(X, y):
    X[:, 0] *= 1e308 / np.abs(X[:, 0]).max()
    with pytest.raises(ValueError, match="infinity") as refusal:
        GroupSVC().fit(np.where(np.arange(12) == 5, np.inf, X), y)
    assert "trial 0, feature 5" in str(refusal.value)


@every_estimator
@pytest.mark.parametrize("kind", ["str", "S", "list", "object", "bytes in objects", "DataFrame", "3-D"])
def test_strings_that_look_like_numbers_are_refused(estimator, X, y, kind):
    text = X.round(3).astype(str)
    mixed = X.astype(object)
    mixed[4, 5] = b"1.5" if kind == "bytes in objects" else "1.5"
    given, message = {
        "str": (text, "strings such as"),
        "S": (text.astype("S"), "strings such as"),
        "list": (text.tolist(), "strings such as"),
        "object": (mixed, "trial 4 holds the string '1.5'"),
        "bytes in objects": (mixed, "trial 4 holds the string b'1.5'"),
        "DataFrame": (pd.DataFrame(X).astype({3: str}).rename(columns=str), "column '3' holds strings"),
        "3-D": (as_3d(text), "strings such as"),
    }[kind]
    refuses(message, clone(estimator).fit, given, y)


@every_estimator
def test_complex_input_is_refused(estimator, X, y):
    refuses("Complex data not supported", clone(estimator).fit, X + 0j, y)
    refuses("Complex data not supported", clone(estimator).fit, as_3d(X + 0j), y)


@every_estimator
def test_empty_input_is_refused(estimator, X, y):
    refuses(r"0 sample\(s\)", clone(estimator).fit, X[:0], y[:0])
    refuses(r"0 sample\(s\)", clone(estimator).fit, as_3d(X)[:0], y[:0])
    refuses(r"0 feature\(s\)", clone(estimator).fit, X[:, :0], y)
    refuses(
        r"\(trials, channels, times\), with at least one of each, but got \(60, 0, 3\)",
        estimator.fit,
        as_3d(X)[:, :0],
        y,
    )
    refuses(r"with at least one of each, but got \(60, 4, 0\)", clone(estimator).fit, as_3d(X)[:, :, :0], y)


def test_epochs_without_an_eeg_channel_are_refused(X, y):
    refuses("no EEG channel; their channels are Pz, Cz, Fz, Oz", GroupSVC().fit, epochs_of(X, kinds="misc"), y)


def test_other_numbers_of_axes_are_refused(X, y):
    refuses("Expected 2D array, got 1D array", GroupSVC().fit, X[:, 0], y)
    refuses("dim 4", GroupSVC().fit, X[:, None, None], y)


# --- labels ---


@every_estimator
def test_one_class_is_named(estimator, X):
    refuses("one class only, 'target'; ", clone(estimator).fit, X, np.full(N_TRIALS, "target"))
    refuses("one class only, 3; ", clone(estimator).fit, as_3d(X), np.full(N_TRIALS, 3))


@every_estimator
def test_three_classes_and_continuous_labels_are_refused(estimator, X):
    refuses("Only binary classification.* multiclass", clone(estimator).fit, X, np.arange(N_TRIALS) % 3)
    refuses("continuous", clone(estimator).fit, X, np.linspace(0, 1, N_TRIALS))


@every_estimator
def test_missing_labels_and_other_lengths_are_refused(estimator, X, y):
    refuses("requires y to be passed", clone(estimator).fit, X, None)
    refuses("requires y to be passed", clone(estimator).fit, as_3d(X), None)
    refuses("inconsistent numbers of samples", clone(estimator).fit, X, y[:-1])
    refuses("X has 60 trials, but y has 59 labels", clone(estimator).fit, as_3d(X), y[:-1])
    refuses("y contains NaN", clone(estimator).fit, as_3d(X), np.where(np.arange(N_TRIALS) == 4, np.nan, y))


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["off", "on"]),
        np.array(["off", "on"], dtype=object),
        np.array([False, True]),
        np.array([-7, 12]),
        np.array([0.0, 3.0]),
        np.array([2, 5], dtype=np.uint8),
    ],
    ids=lambda labels: str(labels.dtype),
)
@pytest.mark.parametrize("container", [np.asarray, list, pd.Series])
@pytest.mark.parametrize("shape", ["2-D", "3-D"])
def test_labels_of_any_kind(X, y, groups, labels, container, shape):
    plain = GroupSVC(0.05, groups=groups).fit(X, y)
    named = container(labels[(y > 0).astype(int)])
    model = GroupSVC(0.05, groups=groups).fit(X, named) if shape == "2-D" else GroupSVC(0.05).fit(as_3d(X), named)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    assert model.classes_.tolist() == labels.tolist()
    expected = labels[(plain.decision_function(X) > 0).astype(int)]
    assert model.predict(X if shape == "2-D" else as_3d(X)).tolist() == expected.tolist()


# --- weights of trials and classes ---


@every_estimator
@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_bad_sample_weight_is_named_by_trial(estimator, X, y, bad):
    weights = np.ones(N_TRIALS)
    weights[7] = bad
    refuses(f"sample_weight .* trial 7 is {bad}", clone(estimator).fit, X, y, sample_weight=weights)


@every_estimator
def test_sample_weights_that_leave_nothing_are_refused(estimator, X, y):
    refuses("must not be zero for all", clone(estimator).fit, X, y, sample_weight=np.zeros(N_TRIALS))
    refuses("class -1.0 have weight zero", clone(estimator).fit, X, y, sample_weight=(y > 0).astype(float))
    refuses(r"sample_weight.shape == \(59,\), expected \(60,\)", clone(estimator).fit, X, y, sample_weight=np.ones(59))
    refuses("sample_weight must be numeric", clone(estimator).fit, X, y, sample_weight=["1"] * N_TRIALS)
    refuses("1D array or scalar, got 2D", clone(estimator).fit, X, y, sample_weight=np.ones((N_TRIALS, 1)))


@every_estimator
def test_class_weights_that_silence_a_class_or_are_no_weights_are_refused(estimator, X, y):
    for bad in (-1.0, np.nan, np.inf):
        refuses("class_weight must be finite", clone(estimator).set_params(class_weight={-1: bad, 1: 1.0}).fit, X, y)
    silent = clone(estimator).set_params(class_weight={-1: 0.0, 1: 1.0})
    refuses("class -1.0 have weight zero", silent.fit, X, y)
    refuses("class_weight", clone(estimator).set_params(class_weight="even").fit, X, y)


# --- groups and their weights ---


@every_estimator
def test_wrong_groups_are_named(estimator, X, y, groups):
    refuses("feature 11 is the first without one", clone(estimator).set_params(groups=groups[:-1]).fit, X, y)
    surplus = [*groups, 99]
    refuses("label 99 is for feature 12, which is not there", clone(estimator).set_params(groups=surplus).fit, X, y)
    refuses(r"shape is \(12, 1\)", clone(estimator).set_params(groups=groups[:, None]).fit, X, y)
    holes = groups.astype(float)
    holes[4] = np.nan
    refuses("that of feature 4 is nan", clone(estimator).set_params(groups=holes).fit, X, y)
    mixed = np.array([*["Cz"] * 11, 4], dtype=object)
    refuses("cannot be put in order", clone(estimator).set_params(groups=mixed).fit, X, y)
    refuses("groups must be None for epochs", clone(estimator).set_params(groups=groups).fit, as_3d(X), y)


@every_estimator
def test_bad_group_weights_are_named_by_label(estimator, X, y):
    names = np.repeat(NAMES, N_TIMES)  # sorted: Cz, Fz, Oz, Pz
    grouped = clone(estimator).set_params(groups=names)
    refuses("'Oz' is -1.0", clone(grouped).set_params(group_weights=[1, 1, -1, 1]).fit, X, y)
    refuses("'Pz' is nan", clone(grouped).set_params(group_weights={"Pz": np.nan}).fit, X, y)
    listing = "unknown group 'C3'; available: 'Cz', 'Fz', 'Oz', 'Pz'"
    refuses(listing, clone(grouped).set_params(group_weights={"C3": 1.0}).fit, X, y)
    refuses("must be numbers, but got '2'", clone(grouped).set_params(group_weights=["2", 1, 1, 1]).fit, X, y)
    refuses(r"each of the 4 groups, but its shape is \(3,\)", grouped.set_params(group_weights=[1, 1, 1]).fit, X, y)


def test_group_weights_follow_sorted_labels_or_channels_in_order(X, y):
    forbid_third = [1, 1, np.inf, 1]
    table = GroupSVC(0.01, groups=np.repeat(NAMES, N_TIMES), group_weights=forbid_third).fit(X, y)
    assert table.groups_.tolist() == ["Cz", "Fz", "Oz", "Pz"]
    assert table.selected_groups_.tolist() == ["Cz", "Fz", "Pz"]
    epochs = GroupSVC(0.01, group_weights=forbid_third).fit(epochs_of(X), y)
    assert epochs.groups_.tolist() == NAMES
    assert epochs.selected_groups_.tolist() == ["Pz", "Cz", "Oz"]
    by_name = GroupSVC(0.01, group_weights={"Fz": np.inf}).fit(epochs_of(X), y)
    np.testing.assert_array_equal(by_name.coef_, epochs.coef_)


# --- parameters ---


@pytest.mark.parametrize("bad", [0.9, 2.1, np.nan, np.inf, "2", None, 1j])
@every_estimator
def test_q_outside_one_to_two_is_refused(estimator, X, y, bad):
    refuses("'q' parameter. Allowed are values from 1 to 2, but got", clone(estimator).set_params(q=bad).fit, X, y)


@pytest.mark.parametrize("bad", [0.0, -0.1, np.nan, np.inf, "0.1", None])
def test_alpha_that_is_not_finite_and_positive_is_refused(X, y, bad):
    refuses("'alpha' parameter. Allowed are finite values > 0, but got", GroupSVC(bad).fit, X, y)
    if isinstance(bad, float):
        refuses("'alpha' parameter. Allowed are finite values > 0", GroupSVCCV([0.1, bad]).fit, X, y)
        refuses("'alpha' parameter. Allowed are finite values > 0", group_svc_path, X, y, alphas=[0.1, bad])


@every_estimator
@pytest.mark.parametrize(
    ("parameter", "bad", "text"),
    [
        ("tol", 0.0, "'tol' parameter. Allowed are values > 0"),
        ("tol", np.nan, "'tol' parameter"),
        ("tol", "1e-6", "'tol' parameter"),
        ("max_iter", 0, "'max_iter' parameter. Allowed are whole numbers from 1"),
        ("max_iter", 2.5, "'max_iter' parameter"),
        ("solver", "simplex", "'solver' parameter. Allowed values are 'auto', .*but got 'simplex'"),
    ],
)
def test_bad_settings_of_the_solver_are_named(estimator, X, y, parameter, bad, text):
    refuses(text, clone(estimator).set_params(**{parameter: bad}).fit, X, y)


@pytest.mark.parametrize("model", [GroupSVC(), GroupSVCCV(3)], ids=lambda e: type(e).__name__)
def test_unknown_penalty_and_adaptive_with_another_are_refused(model, X, y):
    refuses("'penalty' parameter.*but got 'l3'", clone(model).set_params(penalty="l3").fit, X, y)
    refuses("adaptive=True is for penalty='group'", clone(model).set_params(penalty="l1", adaptive=True).fit, X, y)


# --- other data than those of the fit ---


@every_estimator
def test_other_numbers_of_features_and_channels_are_refused(estimator, X, y):
    model = clone(estimator).fit(as_3d(X), y)
    apply = model.transform if isinstance(model, SensorSelector) else model.decision_function
    refuses("X has 3 channels x 3 samples.* fitted on 4 channels x 3 samples", apply, as_3d(X)[:, :3])
    refuses("X has 4 channels x 2 samples", apply, as_3d(X)[:, :, :2])
    refuses("X has 11 features, but .* is expecting 12", apply, X[:, :11])
    table = clone(estimator).fit(X, y)
    apply = table.transform if isinstance(table, SensorSelector) else table.predict
    refuses("was fitted on a matrix of 12 features", apply, as_3d(X))


@every_estimator
def test_channels_are_matched_by_name_or_refused(estimator, X, y):
    model = clone(estimator).fit(epochs_of(X), y)
    apply = model.transform if isinstance(model, SensorSelector) else model.decision_function
    moved = [2, 0, 3, 1]
    other = np.concatenate([as_3d(X)[:, moved], np.ones((N_TRIALS, 1, N_TIMES))], axis=1)
    reordered = epochs_of(other, [*(NAMES[i] for i in moved), "EOG"])
    expected, found = apply(epochs_of(X)), apply(reordered)
    if isinstance(model, SensorSelector):
        assert found.ch_names == expected.ch_names == model.selected_groups_.tolist()
        expected, found = expected.get_data(), found.get_data()
    np.testing.assert_array_equal(found, expected)
    gone = NAMES.index(model.selected_groups_[0])
    renamed = [*NAMES[:gone], "C3", *NAMES[gone + 1 :]]
    refuses(f"needs channels that the epochs do not have: {NAMES[gone]}", apply, epochs_of(X, renamed))
    kept = [i for i in range(4) if i != gone]
    left = [NAMES[i] for i in kept]
    text = rf"do not have: {NAMES[gone]}\. The epochs have {', '.join(left)}"
    refuses(text, apply, epochs_of(as_3d(X)[:, kept], left))


def test_columns_of_a_frame_in_another_order_are_refused(X, y):
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(12)])
    model = GroupSVC().fit(frame, y)
    refuses("feature names should match", model.predict, frame[frame.columns[::-1]])


@pytest.mark.parametrize("kind", [np.int64, np.int8, bool, float])
def test_a_plain_matrix_is_read_as_scikit_learn_reads_it(X, y, kind):
    # whole numbers in arrays are not validated a second time by scikit-learn; lists are
    labels = (y > 0).astype(kind)
    plain, validated = GroupSVC().fit(pd.DataFrame(X), labels).fit(X, labels), GroupSVC().fit(X.tolist(), labels)
    assert not hasattr(plain.fit(X, labels), "feature_names_in_")
    assert plain.n_features_in_ == validated.n_features_in_ == X.shape[1]
    np.testing.assert_array_equal(plain.classes_, validated.classes_)
    np.testing.assert_array_equal(plain.coef_, validated.coef_)


@pytest.mark.parametrize("value", [0.5, np.nan])
def test_labels_that_are_no_whole_numbers_are_still_refused(X, y, value):
    labels = np.where(y > 0, 1.0, value)
    refuses("Unknown label type|NaN", GroupSVC().fit, X, labels)


# --- refusing changes nothing ---


def snapshot(model):
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in vars(model).items()}


def assert_unchanged(model, before):
    now = vars(model)
    assert now.keys() == before.keys()
    for name, value in before.items():
        np.testing.assert_array_equal(now[name], value, err_msg=name)


@every_estimator
def test_a_fitted_model_that_refuses_data_keeps_its_attributes(estimator, X, y):
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(12)])
    model = clone(estimator).fit(frame, y)
    before = snapshot(model)
    bad = X[:, :7].copy()
    bad[0, 0] = np.nan
    refuses("NaN", model.fit, bad, y)
    assert_unchanged(model, before)
    refuses("one class only", model.fit, as_3d(X), np.full(N_TRIALS, "one"))
    assert_unchanged(model, before)
    refuses("class 'no' have weight zero", model.fit, X[:, :5], np.where(y > 0, "yes", "no"), sample_weight=y > 0)
    assert_unchanged(model, before)
    for name, value, text in [("q", 3.0, "'q'"), ("max_iter", 0, "'max_iter'"), ("groups", [0] * 5, "feature 5")]:
        old = getattr(model, name)
        refuses(text, model.set_params(**{name: value}).fit, as_3d(X) if name != "groups" else X, y > 0)
        assert_unchanged(model.set_params(**{name: old}), before)
    assert model.n_features_in_ == 12


@every_estimator
def test_an_unfitted_model_that_refuses_data_stays_unfitted(estimator, X, y):
    model = clone(estimator)
    X[0, 0] = np.nan
    refuses("NaN", model.fit, X, y)
    assert vars(model).keys() == model.get_params().keys()


@every_estimator
def test_fitting_and_applying_modify_neither_data_nor_weights(estimator, X, y, groups):
    weights, beta = np.linspace(0.5, 2, N_TRIALS), np.array([1.0, 2.0, 0.0, np.inf])
    X[:, groups == 1] = 3.0  # a constant sensor gets a weight of its own, but not in the caller's array
    originals = [array.copy() for array in (X, y, weights, beta, groups)]
    given = [X, y, weights, beta, groups]
    for array in given:
        array.flags.writeable = False  # what tries to write raises
    model = clone(estimator).set_params(groups=groups, group_weights=beta, class_weight="balanced")
    model = model.fit(X, y, sample_weight=weights)
    model.transform(X) if isinstance(model, SensorSelector) else model.predict(X)
    for array, original in zip(given, originals, strict=True):
        np.testing.assert_array_equal(array, original)


def test_epochs_are_not_modified(X, y):
    epochs = epochs_of(X)
    SensorSelector(2).fit(epochs, y).transform(epochs)
    assert epochs.ch_names == NAMES
    np.testing.assert_array_equal(epochs.get_data(), 1e-6 * as_3d(X))


# --- one fit, whatever the form ---


def fitted_numbers(model):
    names = ("coef_", "intercept_", "scores_", "alphas_", "n_selected_", "alpha_", "group_norms_", "dual_gap_")
    return {name: getattr(model, name) for name in names if hasattr(model, name)}


@every_estimator
@pytest.mark.parametrize("form", ["3-D", "DataFrame", "list", "Epochs", "Fortran order", "integers"])
def test_all_forms_of_input_give_the_same_fit(estimator, X, y, groups, form):
    if form == "integers":
        X = np.rint(10 * X)
    plain = clone(estimator).set_params(groups=groups).fit(X, y)
    given = {
        "3-D": as_3d(X),
        "DataFrame": pd.DataFrame(X, columns=[f"c{i}" for i in range(12)]),
        "list": X.tolist(),
        "Epochs": epochs_of(X),
        "Fortran order": np.asfortranarray(X),
        "integers": X.astype(np.int32),
    }[form]
    whole = form in ("3-D", "Epochs")
    model = clone(estimator).set_params(groups=None if whole else groups).fit(given, y)
    # volts to microvolts round once; everything else is the same matrix
    tolerance = {"rtol": 1e-6, "atol": 1e-9} if form == "Epochs" else {"rtol": 0, "atol": 0}
    for name, value in fitted_numbers(plain).items():
        if name != "dual_gap_" or form != "Epochs":
            np.testing.assert_allclose(getattr(model, name), value, **tolerance, err_msg=name)
    assert hasattr(model, "feature_names_in_") == (form == "DataFrame")
    assert model.n_features_in_ == 12
    expected = [NAMES[g] for g in plain.selected_groups_] if form == "Epochs" else plain.selected_groups_.tolist()
    assert model.selected_groups_.tolist() == expected


def test_epochs_are_taken_in_microvolts_and_eeg_alone(X, y):
    with_eog = np.concatenate([as_3d(X), 1e3 * np.ones((N_TRIALS, 1, N_TIMES))], axis=1)
    epochs = epochs_of(with_eog, [*NAMES, "EOG"], ["eeg"] * 4 + ["eog"])
    model, plain = GroupSVC(0.05).fit(epochs, y), GroupSVC(0.05).fit(as_3d(X), y)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-6, atol=1e-9)
    assert model.groups_.tolist() == NAMES


def test_names_of_a_frame_are_forgotten_by_a_fit_on_an_array(X, y):
    model = GroupSVC().fit(pd.DataFrame(X, columns=[f"c{i}" for i in range(12)]), y)
    assert model.feature_names_in_.tolist() == [f"c{i}" for i in range(12)]
    assert not hasattr(model.fit(as_3d(X), y), "feature_names_in_")


@pytest.mark.parametrize("shape", ["2-D", "3-D"])
@pytest.mark.parametrize("penalty", ["group", "l1", "l2"])
def test_float32_in_gives_float32_out_and_the_numbers_of_float64(X, y, groups, shape, penalty):
    single = X.astype(np.float32)
    double = single.astype(np.float64)
    options = {"alpha": 0.05, "penalty": penalty, "groups": groups if shape == "2-D" else None}
    if shape == "3-D":
        single, double = as_3d(single), as_3d(double)
    small, large = (GroupSVC(**options).fit(given, y) for given in (single, double))
    for name in ("coef_", "intercept_", "group_norms_"):
        assert getattr(small, name).dtype == np.float32
        assert getattr(large, name).dtype == np.float64
    # solved in float64, then rounded once
    np.testing.assert_array_equal(small.coef_, large.coef_.astype(np.float32))
    np.testing.assert_array_equal(small.intercept_, large.intercept_.astype(np.float32))
    assert (small.objective_, small.dual_gap_) == (large.objective_, large.dual_gap_)
    assert small.decision_function(single).dtype == np.float32
    # twelve products of size one, each rounded to float32
    np.testing.assert_allclose(small.decision_function(single), large.decision_function(double), atol=2e-6)


def test_float32_of_the_other_estimators_and_of_the_path(X, y, groups):
    single = X.astype(np.float32)
    cv, cv64 = (GroupSVCCV(4, groups=groups).fit(given, y) for given in (single, single.astype(float)))
    assert cv.coef_.dtype == np.float32
    np.testing.assert_array_equal(cv.scores_, cv64.scores_)
    np.testing.assert_array_equal(cv.coef_, cv64.coef_.astype(np.float32))
    assert SensorSelector(2, groups=groups).fit(single, y).transform(single).dtype == np.float32
    path = group_svc_path(single, y, groups=groups, alphas=3)
    assert path.coefs.dtype == path.intercepts.dtype == np.float32


# --- sensors that say nothing ---


@pytest.mark.parametrize("value", [0.0, 1e-3, 50.0, 1e6])
@pytest.mark.parametrize(
    "model",
    [
        *(GroupSVC(1e-3, penalty=penalty) for penalty in ("group", "l1", "l2")),
        GroupSVC(1e-3, q=1.3),
        GroupSVC(1e-3, adaptive=True),
        GroupSVCCV(5),
        GroupSVCCV(5, penalty="l2"),
        SensorSelector(3, strategy="path"),
    ],
    ids=repr,
)
def test_constant_sensor_is_never_selected(model, X, y, value):
    live = as_3d(X)
    with_constant = np.insert(live, 1, value, axis=1)
    model = clone(model).fit(with_constant, y)
    assert 1 not in model.selected_groups_
    assert model.group_norms_[1] == 0.0


@pytest.mark.parametrize("penalty", ["group", "l1", "l2"])
def test_dead_sensor_is_never_selected_without_intercept(X, y, penalty):
    with_dead = np.insert(as_3d(X), 1, 0.0, axis=1)
    model = GroupSVC(1e-3, penalty=penalty, fit_intercept=False).fit(with_dead, y)
    assert model.selected_groups_.tolist() == [0, 2, 3, 4]


@pytest.mark.parametrize("penalty", ["group", "l1", "l2"])
def test_constant_sensor_changes_nothing(X, y, penalty):
    model = GroupSVC(0.01, penalty=penalty).fit(np.insert(as_3d(X), 2, 9.0, axis=1), y)
    plain = GroupSVC(0.01, penalty=penalty).fit(as_3d(X), y)
    assert model.objective_ == pytest.approx(plain.objective_, rel=2e-6)  # each is certified to 1e-6
    np.testing.assert_allclose(np.delete(model.coef_.reshape(5, 3), 2, axis=0).ravel(), plain.coef_[0], atol=1e-5)


def test_nothing_but_constant_sensors_is_the_zero_model(X, y):
    with pytest.warns(UserWarning, match="no sensor is chosen"):
        model = GroupSVC(2.0).fit(np.ones_like(X), y)
    assert not model.coef_.any()


# --- warnings reach the user's own line ---


@pytest.mark.parametrize(
    "fit",
    [
        lambda X, y: GroupSVC(1e-4, max_iter=1).fit(X, y),
        lambda X, y: GroupSVC(1e-4, max_iter=1, adaptive=True).fit(X, y),
        lambda X, y: GroupSVCCV(3, max_iter=1).fit(X, y),
        lambda X, y: SensorSelector(12, strategy="path", max_iter=1).fit(X, y),
        lambda X, y: group_svc_path(X, y, alphas=3, max_iter=1),
    ],
    ids=["GroupSVC", "adaptive", "GroupSVCCV", "SensorSelector", "group_svc_path"],
)
def test_fit_that_misses_tol_warns_where_it_was_called(X, y, fit):
    what_to_do = "increase max_iter if .*; otherwise increase alpha or tol, or decrease similarity"
    with pytest.warns(
        ConvergenceWarning, match=rf"relative duality gap of \d\.\d+e[-+]\d+, above tol=1\.00e-06: {what_to_do}"
    ) as seen:
        fit(X, y)
    assert [warning.filename for warning in seen] == [__file__]


def test_warning_of_the_zero_model_is_where_it_was_called(X, y):
    with pytest.warns(UserWarning, match="alpha_max=") as seen:
        GroupSVC(1e3).fit(X, y)
    assert seen[0].filename == __file__


@pytest.mark.parametrize("model", [GroupSVC(1e3, adaptive=True), GroupSVCCV([1e3], adaptive=True)], ids=repr)
def test_adaptive_norm_without_a_survivor_is_the_zero_model_and_warns(X, y, model):
    with pytest.warns(UserWarning, match="first stage of the adaptive norm chose no sensor"):
        model = clone(model).fit(X, y)
    assert not model.coef_.any()
    assert len(model.selected_groups_) == 0
