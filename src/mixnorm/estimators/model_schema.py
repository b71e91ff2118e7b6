"""What the model file of an estimator may hold: parameters and fitted attributes, with their types, shapes and bounds.

`mixnorm.load` sets no attribute that is not listed here, and `mixnorm.save` writes none, so that every file that is
written can be read.

To store a new parameter, add one line to `PARAMETERS`. To store a new fitted attribute, add one line to the table of
the classes that have it (`LINEAR`, `SUBJECTS`, …), among the optional ones: files of earlier versions do not have it.
To store a new class, add a line to `MODELS` and one to the table of classes in `mixnorm.estimators.persistence`.
``tests/estimators/test_model_schema.py`` fails for a parameter without a line, and `save` for an attribute.

Sizes: d features, T subjects (rows of ``coef_``), G sensors, A alphas, K folds, S similarities, P separate fits of a
baseline, V windows of time,
D features with a covariance, F features with noise, M numbers of trials in the rehearsal, H strengths.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

import numpy as np

from mixnorm.core.schema import (
    LABELS,
    Array,
    Either,
    Flag,
    Kind,
    Label,
    Many,
    Nothing,
    Number,
    Pairs,
    Record,
    SchemaError,
    Text,
    Whole,
    Word,
    check,
    or_none,
)
from mixnorm.estimators.elimination import STRATEGIES
from mixnorm.noise.estimates import NOISES
from mixnorm.solvers import SOLVERS

_POSITIVE = Number(0, above=True)
_NOT_NEGATIVE = Number(0)
_Q = Number(1, 2)
# A list of splits: pairs of training and test trials, as indices or as masks.
_SPLITS = Many(Many(Many(Either(Whole(), Flag())), least=2, most=2), most=10_000)

#: Parameters of the estimators. A parameter has the same meaning in every class that has it.
PARAMETERS: dict[str, Kind] = {
    "adaptive": Flag(),
    "align": Flag(),
    "alpha": _POSITIVE,
    "alphas": Either(Whole(1, 100_000), Many(_POSITIVE, least=1)),
    "asymmetric": or_none(Many(Label())),
    "class_weight": or_none(Either(Word("balanced"), Pairs(Label(), _NOT_NEGATIVE))),
    "cv": or_none(Either(Whole(2, 100_000), _SPLITS)),
    "fit_intercept": Either(Flag(), Whole(0, 1)),
    "group_weights": or_none(Either(Many(Number(0, inf)), Pairs(Label(), Number(0, inf)))),
    "groups": or_none(Many(Label())),
    "max_iter": Whole(1),
    "max_sensors": or_none(Whole(0)),
    "n_jobs": or_none(Whole(-10_000, 10_000)),
    "n_sensors": Whole(1),
    "noise": or_none(Either(Word(*NOISES), Pairs(Label(), or_none(Word(*NOISES))))),  # by subject
    "penalty": Word("group", "l1", "l2"),
    "q": Either(_Q, Many(_Q, least=1)),
    "rehearse": Flag(),
    "ridge": Either(_NOT_NEGATIVE, Many(_NOT_NEGATIVE, least=1)),
    "rule": Word("auto", "best", "1se", "centre"),
    "scoring": or_none(Text()),
    "similarities": Either(Whole(1, 100_000), Many(_NOT_NEGATIVE, least=1)),
    "similarity": _NOT_NEGATIVE,
    "solver": Word("auto", *SOLVERS),
    "strategy": Word(*STRATEGIES),
    "tol": Number(0, inf, above=True),
    "window_share": Either(Number(0, 1), Many(Number(0, 1), least=1)),
    "windows": or_none(Either(Whole(1), Many(Label(), least=1))),
}


def _layout_agrees(values: Mapping[str, Any]) -> str | None:
    """Channels × times of epochs are the features, and the channels have names or none."""
    shape, names = values["_epochs_shape"], values["_ch_names"]
    if shape is not None and shape[0] * shape[1] != values["n_features_in_"]:
        return f"'_epochs_shape' {tuple(shape)} does not give {values['n_features_in_']} features"
    if names is not None and (shape is None or len(names) != shape[0] or len(set(names)) < len(names)):
        return "'_ch_names' must be a different name for each channel of '_epochs_shape'"
    return None


def _sensors_agree(values: Mapping[str, Any]) -> str | None:
    """The labels differ, and as many belong to features as there are sensors."""
    groups, shape = values["groups_"], values["_epochs_shape"]
    if len(np.unique(groups)) < len(groups):
        return "'groups_' must be labels that differ"
    fits = len(groups) == shape[0] if shape is not None else 1 <= len(groups) <= values["n_features_in_"]
    if not fits:
        return f"'groups_' has {len(groups)} labels, which do not fit {values['n_features_in_']} features"
    return None


def _selected_agree(values: Mapping[str, Any]) -> str | None:
    # Predictions use `selected_groups_` to decide which channels may be missing, so that it must agree with the
    # weights.
    expected = values["groups_"][values["group_norms_"] != 0]
    same = np.array_equal(values["selected_groups_"], expected)
    return None if same else "'selected_groups_' must be the labels in 'groups_' whose norm is not 0"


def _windows_agree(values: Mapping[str, Any]) -> str | None:
    """The windows are there with their norms and labels, or not at all."""
    names = ("windows_", "window_norms_", "selected_windows_")
    if not any(name in values for name in names):
        return None
    # Optional entries for files without windows, but only together.
    missing = [name for name in names if name not in values]
    if missing:
        return f"{missing[0]!r} is missing, which belongs to the windows"
    windows, norms, selected = (values[name] for name in names)
    if len(np.unique(windows)) < len(windows):
        return "'windows_' must be labels that differ"
    same = np.array_equal(selected, windows[norms != 0])
    return None if same else "'selected_windows_' must be the labels in 'windows_' whose norm is not 0"


def _support_agrees(values: Mapping[str, Any]) -> str | None:
    """The mask of a selector covers the channels of epochs, or the columns of a matrix."""
    support, shape = values["_support"], values["_epochs_shape"]
    if len(support) != (values["n_features_in_"] if shape is None else shape[0]):
        return f"'_support' has {len(support)} values, which do not fit the features"
    if not np.isin(values["selected_groups_"], values["groups_"]).all():
        return "'selected_groups_' must be labels in 'groups_'"
    if shape is not None and not np.array_equal(values["groups_"][support], values["selected_groups_"]):
        return "'_support' must be the mask of 'selected_groups_'"
    return None


def _subjects_agree(values: Mapping[str, Any]) -> str | None:
    labels, latest = values["_labels"], values["_newcomer"]
    if len(set(labels)) < len(labels):
        return "'_labels' must be labels that differ"
    if latest is not None and latest not in labels:
        return "'_newcomer' must be one of '_labels'"
    return None


def _weights_are_normal(values: Mapping[str, Any]) -> str | None:
    weights = values["_group_weights"]
    # `check_group_weights` sets them to 0; in a file they can only come from outside.
    tiny = (weights > 0) & (weights < np.finfo(float).tiny)
    return "'_group_weights' must not be subnormal numbers" if tiny.any() else None


def _adaptation_is_whole(values: Mapping[str, Any]) -> str | None:
    """What `adapt` uses together is there together."""
    for name, other in (
        ("newcomer_covariance_", "_covariance_features"),
        ("newcomer_gains_", "newcomer_trials_"),
        ("mean_aligned_coef_", "_mean_score"),
        ("mean_response_penalty_", "mean_structured_noise_"),
        ("mean_structured_noise_", "mean_response_penalty_"),
    ):
        if values.get(name) is not None and values.get(other) is None:
            return f"{other!r} is missing, which belongs to {name!r}"
    return None


#: What is known of the recording of mne.Epochs; see `mixnorm.estimators.inputs.Trials`.
_RECORDING = Record(
    {
        "sfreq": Number(0, 1e9, above=True),
        "highpass": Number(0, inf),
        "lowpass": Number(0, inf),
        "tmin": Number(-1e9, 1e9),
        "tmax": Number(-1e9, 1e9),
        "units": Word("uV"),
    }
)

#: The description of the features, which every estimator has.
INPUT = Record(
    {
        "n_features_in_": Whole(1, size="d"),
        "_epochs_shape": or_none(Many(Whole(1), least=2, most=2)),
        "_ch_names": or_none(Many(Text())),
        "_recording": or_none(_RECORDING),
        "groups_": Array(LABELS, "G"),
        "selected_groups_": Array(LABELS, "selected"),
    },
    {"feature_names_in_": Array("U", "d")},
    (_layout_agrees, _sensors_agree),
)

_NORMS = Array("f", "G", low=0)

#: What `set_output` of scikit-learn leaves on a transformer.
OUTPUT_CONFIG = Record({}, {"transform": or_none(Word("default", "pandas", "polars"))})

#: Linear classifiers, T rows of coefficients.
LINEAR = INPUT | Record(
    {
        "group_norms_": _NORMS,
        "classes_": Array(LABELS, 2),
        "coef_": Array("f", "T", "d"),
        "intercept_": Array("f", "T"),
        "n_iter_": Whole(0),
        "dual_gap_": Number(-1, inf),
        "objective_": Number(0, inf),
    },
    rules=[_selected_agree],
)

SINGLE = LINEAR | Record(
    {"coef_": Array("f", 1, "d"), "intercept_": Array("f", 1)},
    {
        "_pattern": Array("f", "d"),
        "windows_": Array(LABELS, "V"),
        "window_norms_": Array("f", "V", low=0),
        "selected_windows_": Array(LABELS, "chosen windows"),
    },
    [_windows_agree],
)

#: A sigmoid fitted to held-out scores; see `mixnorm.estimators.calibration.Calibration`.
_CALIBRATION = or_none(
    Record({"slope": Number(), "intercept": Number(), "slope_error": Number(0, inf), "log_odds": Number()})
)

#: The grid of `GroupSVCCV`; its leading axes, if any, are the ridges and the values of q.
GRID = Record(
    {
        "alpha_": _POSITIVE,
        "q_": _Q,
        "alphas_": Array("f", "...", "A", low=0),
        "scores_": Array("f", "...", "A", "K"),
        "n_selected_": Array("i", "...", "A", low=0),
        "path_coefs_": Array("f", "A", "d"),
        "path_intercepts_": Array("f", "A"),
    },
    {
        "ridge_": _NOT_NEGATIVE,
        "window_share_": Number(0, 1),
        "calibration_": _CALIBRATION,
        "out_of_fold_scores_": Array("f", "n", nan=True),  # of a trial that no fold held out
    },
)

#: One row of ``coef_`` for each of several subjects.
SUBJECTS = LINEAR | Record(
    {
        "_labels": Many(Label(), least=1, size="T"),
        "mean_coef_": Array("f", "d"),
        "mean_intercept_": Either(Number(), Array("f")),  # of other array libraries, an array without axes
        "_newcomer": or_none(Label()),
    },
    rules=[_subjects_agree],
)

BASELINE = SUBJECTS | Record(
    {
        "alpha_": Array("f", "P", low=0),
        "alphas_": Array("f", "P", "A", low=0),
        "scores_": Array("f", "P", "A", "K"),
    }
)

#: What `adapt` needs of the joint fit.
JOINT = SUBJECTS | Record(
    {"_group_weights": Array("f", "G", low=0, high=inf), "_group_index": Array("i", "d", low=0, below="G")},
    {
        "mean_aligned_coef_": or_none(Array("f", "d")),
        "mean_white_coef_": or_none(Array("f", "d")),
        "mean_noise_": or_none(Array("f", "F", "F")),
        "mean_structured_noise_": or_none(Array("f", "F", "F")),
        "mean_response_penalty_": or_none(Array("f", "F", "F")),
        "_noise_features": or_none(Array("i", "F", low=0, below="d")),
        "_noise_name": or_none(Word(*NOISES)),
        "_n_joint": Whole(1),
        "_trials_of_mean": Number(0, inf),
        "transfer_auc_": or_none(Number(0, 1)),
        "_mean_score": Number(),
        "_covariance_features": Array("i", "D", low=0, below="d"),
        "newcomer_covariance_": or_none(Array("f", "D", "D")),
        "newcomer_trials_": or_none(Array("fi", "M", low=1)),
        "newcomer_gains_": or_none(Array("f", "M", "H")),
        "strength_": Number(0, inf),
    },
    [_weights_are_normal, _adaptation_is_whole],
)

JOINT_GRID = Record(
    {
        "alpha_": _POSITIVE,
        "similarity_": _NOT_NEGATIVE,
        "alphas_": Array("f", "...", "A", low=0),  # several ridges are the first axis
        # one for each alpha where they are in units of it
        "similarities_": Either(Array("f", "S", low=0), Array("f", "S", "A", low=0)),
        "scores_": Array("f", "...", "S", "A", "K"),
        "n_selected_": Array("i", "...", "S", "A", low=0),
    },
    {"calibrations_": Pairs(or_none(Label()), _CALIBRATION), "ridge_": _NOT_NEGATIVE},
)

#: "path" has norms and an alpha, "elimination" an order.
SELECTOR = INPUT | Record(
    {"n_iter_": Whole(0), "_support": Array("b", "mask")},
    {
        "alpha_": _POSITIVE,
        "group_norms_": _NORMS,
        "order_": Array(LABELS, "ordered"),
        "_sklearn_output_config": OUTPUT_CONFIG,
    },
    [_support_agrees],
)

#: Fitted attributes by class.
MODELS: dict[str, Record] = {
    "GroupSVC": SINGLE,
    "GroupSVCCV": SINGLE | GRID,
    "MultiTaskGroupSVC": JOINT,
    "MultiTaskGroupSVCCV": JOINT | JOINT_GRID,
    "PerSubjectSVC": BASELINE,
    "PooledSVC": BASELINE,
    "SensorSelector": SELECTOR,
}


def check_estimator(name: str, params: Mapping[str, Any], fitted: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Raise a `SchemaError` if the content of a model file is not that of a fitted estimator of class ``name``.

    ``known``: the parameters of the class.
    """
    if name not in MODELS:
        raise SchemaError(f"{name} has no entry in mixnorm.estimators.model_schema.MODELS")
    # A parameter without a line can be None only, so that `save` refuses it until it has one.
    own = {parameter: PARAMETERS.get(parameter, Nothing()) for parameter in known}
    check(Record(optional=own), params, f"parameters of {name}")
    check(MODELS[name], fitted, f"fitted attributes of {name}")
