"""Validation of what estimators are given: tables, arrays of epochs, mne.Epochs; labels; weights of trials.

All trials become a float64 matrix with one column per feature, in channel-major order. The names of the channels are
kept, so that every error can name the trial and the channel.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps

import numpy as np
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from mixnorm.core.arrays import is_array, is_numpy_array, to_numpy
from mixnorm.core.groups import Groups
from mixnorm.estimators.by_name import check_marks, match_columns, read_mne, without_marked
from mixnorm.execution.array_api import fitted_on_host, foreign_array, in_library_of

#: If the largest weight of a trial exceeds this, all weights are divided by it.
_LARGE = 1e100


@dataclass(frozen=True, eq=False)
class Trials:
    """Trials as a matrix, with a description of its columns.

    Attributes
    ----------
    matrix : ndarray of shape (n, d), float64
    ch_names : tuple of str, or None
        Names of the channels of mne.Epochs.
    shape : tuple (channels, times), or None
        For epochs; None for a plain matrix.
    dtype : dtype
        Type of the results: float32 if the data were float32, otherwise float64.
    recording : dict or None
        Sampling rate, filter, window and units of mne.Epochs. Stored in model files.
    columns : tuple of str, or None
        Names of the columns of a DataFrame.
    """

    matrix: np.ndarray
    ch_names: tuple[str, ...] | None
    shape: tuple[int, int] | None
    dtype: np.dtype
    recording: dict | None = None
    columns: tuple[str, ...] | None = None

    @property
    def channels(self) -> list:
        """Label of every channel: its name, or its number where there are no names."""
        if self.ch_names:
            return list(self.ch_names)
        assert self.shape is not None  # asked of epochs only: a plain matrix has no channels
        return list(range(self.shape[0]))

    def describe(self, feature: int) -> str:
        """Return a description of a column for error messages: its channel and sample, or its name."""
        if self.shape is None:
            return f"feature {feature}" if self.columns is None else f"column {self.columns[feature]!r}"
        channel, sample = divmod(feature, self.shape[1])
        return f"channel {self.channels[channel]!r}, sample {sample}"

    def groups(self, labels) -> Groups:
        """Return the sensors: the channels of epochs, or the labels given for the columns of a matrix."""
        if self.shape is None:
            return Groups.from_labels(labels, self.matrix.shape[1])
        if labels is not None:
            raise ValueError(
                "groups must be None for epochs (trials, channels, times), where every channel is a group; it is for "
                "2-D input only."
            )
        return Groups.from_channels(self.channels, self.shape[1])


def all_or_nothing(fit: Callable) -> Callable:
    """Decorate a fit method so that the estimator does not change if the fit raises an error.

    Arrays of other libraries (scikit-learn's array API dispatch) are converted by `fitted_on_host`. Epochs that MNE
    marks as bad are left out, unless ``cv`` is a list of splits, whose trial numbers would then be wrong.
    """

    @wraps(fit)
    def guarded(self, *args, **kwargs):
        # A model that was fitted before stays usable if a new fit fails half-way or is interrupted (Ctrl-C).
        before = dict(vars(self))
        X = args[0] if args else kwargs.get("X")
        try:
            # Here, and not where X is read: y, sample_weight and everything else given per trial must lose the same
            # trials.
            if is_mne(X) and not _has_listed_splits(self):
                args, kwargs = without_marked(X, args, kwargs)
            if _is_plain(X):
                return fit(self, *args, **kwargs)
            with fitted_on_host(self, args, kwargs) as (args, kwargs):
                return fit(self, *args, **kwargs)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return guarded


def _has_listed_splits(estimator) -> bool:
    cv = getattr(estimator, "cv", None)
    # A splitter computes its splits from the trials that are left; listed splits have numbers of the trials as given.
    return not hasattr(cv, "split") and np.iterable(cv)


def _is_plain(X) -> bool:
    """Whether X is not an array of another library, such as PyTorch."""
    return not is_array(X) or is_numpy_array(X)


def is_mne(X) -> bool:
    """Whether X is an mne.Epochs, or a list of them, which is what scikit-learn's splitters make of epochs."""
    if isinstance(X, list):
        return len(X) > 0 and all(is_mne(one) for one in X)
    return hasattr(X, "get_data") and hasattr(X, "ch_names") and hasattr(X, "info")


def read_training(estimator, X, y, sample_weight) -> tuple[Trials, np.ndarray, np.ndarray, np.ndarray]:
    """Validate the arguments of a fit; return the trials, the two classes, y as −1 and +1, and the trials' weights."""
    trials, y = read_fit(estimator, X, y)
    classes, signs = encode_labels(y)
    return trials, classes, signs, check_sample_weight(sample_weight, len(signs))


def read_fit(estimator, X, y, subjects: list | None = None) -> tuple[Trials, np.ndarray]:
    """Validate training data, set ``n_features_in_`` and feature names, and return the trials and the labels y.

    ``subjects``: one label per trial, if errors should name the subject as well.
    """
    if is_mne(X) or _n_dim(X) == 3:
        trials = _read_epochs(X)
        if is_mne(X):
            check_marks(X)
        # y is checked as `validate_data` does it for a matrix.
        if y is not None and not (type(y) is np.ndarray and y.size and _are_whole_numbers(y)):
            y = column_or_1d(check_array(y, ensure_2d=False, dtype=None, input_name="y"), warn=True)
        _same_length(trials.matrix, y, estimator)
        estimator.n_features_in_ = trials.matrix.shape[1]
        # left by an earlier fit on a DataFrame, and wrong for epochs
        if hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
    else:
        # then scikit-learn has nothing to check or to convert, and a tenth of a small fit is saved
        if _needs_no_validation(X, y):
            vars(estimator).pop("feature_names_in_", None)
            estimator.n_features_in_ = X.shape[1]
        else:
            _refuse_strings(X)
            # NaN and infinity are refused below, by an error that names the trial and the feature.
            X, y = validate_data(
                estimator, X, y, dtype=[np.float64, np.float32], ensure_all_finite=False, multi_output=False
            )
        trials = _table(X, estimator)
    _refuse_non_finite(trials, subjects)
    return trials, y


def _needs_no_validation(X, y) -> bool:
    """Whether X is a matrix of floating-point numbers and y a vector of whole numbers, one for each of its rows."""
    if not (_are_floats(X) and type(y) is np.ndarray and X.ndim == 2 and y.ndim == 1):
        return False
    return y.dtype.kind in "biu" and len(y) == len(X)


def _are_floats(X) -> bool:
    """Whether X is an array of floating-point numbers, in which scikit-learn has nothing to check or to convert."""
    return type(X) is np.ndarray and X.dtype in (np.float64, np.float32) and X.size > 0


def read_predict(estimator, X, needed=None) -> Trials:
    """Validate data for a fitted estimator: the same channels, reordered by name where names are known.

    ``needed``: labels of the sensors that the result depends on. Where sensors have names (mne.Epochs, or a DataFrame
    whose columns belong to sensors), the others are ignored, may be missing, and are zero in the matrix. None: all.

    With scikit-learn's array API dispatch the matrix stays in the array library and on the device of X.
    """
    if foreign_array(X) is not None:
        trials = read_predict(estimator, to_numpy(X))
        return replace(trials, matrix=in_library_of(X, trials.matrix))
    if is_mne(X) or _n_dim(X) == 3:
        trials = _match_channels(_read_epochs(X), estimator, needed)
        _refuse_non_finite(trials)
        return trials
    _refuse_strings(X)
    if needed is not None:
        # Before `validate_data`, which would refuse columns that are missing or in another order.
        X = match_columns(estimator, X, needed)
    X = validate_data(estimator, X, dtype=[np.float64, np.float32], ensure_all_finite=False, reset=False)
    # a matrix for a model of epochs holds them flattened, channel by channel
    shape, names = getattr(estimator, "_epochs_shape", None), getattr(estimator, "_ch_names", None)
    trials = replace(_table(X, estimator), shape=shape, ch_names=names if shape else None)
    _refuse_non_finite(trials)
    return trials


def _n_dim(X) -> int | None:
    return X.ndim if hasattr(X, "ndim") else np.asarray(X).ndim


def _table(X: np.ndarray, estimator) -> Trials:
    names = getattr(estimator, "feature_names_in_", None)
    columns = None if names is None else tuple(names.tolist())
    # Always the same memory order, so that the results do not depend on the container of the data.
    return Trials(np.ascontiguousarray(X, dtype=np.float64), None, None, X.dtype, columns=columns)


def _read_epochs(X) -> Trials:
    names: tuple[str, ...] | None = None
    recording: dict[str, float | str] | None = None
    if is_mne(X):
        X, names, recording = read_mne(X)
    if not _are_floats(X):
        _refuse_strings(X)
        X = check_array(
            X, allow_nd=True, dtype=[np.float64, np.float32], ensure_all_finite=False, ensure_min_features=1
        )
    # `check_array` refuses an array without trials, but of three axes it does not look at the others.
    if X.ndim != 3 or 0 in X.shape:
        raise ValueError(
            f"Epochs must have the shape (trials, channels, times), with at least one of each, but got {X.shape}."
        )
    flat = X.reshape(len(X), -1).astype(np.float64, copy=False)
    return Trials(flat, names, X.shape[1:], X.dtype, recording)


def _match_channels(trials: Trials, estimator, needed) -> Trials:
    fitted_shape = getattr(estimator, "_epochs_shape", None)
    if fitted_shape is None:
        raise ValueError(
            f"X has the shape (trials, channels, times), but {type(estimator).__name__} was fitted on a matrix of "
            f"{estimator.n_features_in_} features; reshape X to (trials, {estimator.n_features_in_})."
        )
    fitted_names = getattr(estimator, "_ch_names", None)
    if fitted_names and trials.ch_names:
        trials = _reorder(trials, fitted_names, fitted_names if needed is None else needed)
    assert trials.shape is not None  # the caller has epochs
    if trials.shape != fitted_shape:
        raise ValueError(
            f"X has {trials.shape[0]} channels x {trials.shape[1]} samples, but {type(estimator).__name__} was fitted "
            f"on {fitted_shape[0]} channels x {fitted_shape[1]} samples."
        )
    return trials


def _reorder(trials: Trials, names: tuple[str, ...], needed) -> Trials:
    """Put the channels into the order of ``names``; those that are not ``needed`` are zero."""
    own, shape = trials.ch_names, trials.shape
    assert own is not None  # the caller has epochs with names
    assert shape is not None
    used = [place for place, name in enumerate(names) if name in needed]
    missing = [names[place] for place in used if names[place] not in own]
    if missing:
        raise ValueError(
            f"The model needs channels that the epochs do not have: {', '.join(missing)}. "
            f"The epochs have {', '.join(own)} (channels marked as bad do not count)."
        )
    # Zeros and not NaN in channels that are not needed: their weights are 0, and 0 · NaN would be NaN.
    matrix = np.zeros((len(trials.matrix), len(names), shape[1]))
    matrix[:, used] = trials.matrix.reshape(-1, *shape)[:, [own.index(names[place]) for place in used]]
    return Trials(matrix.reshape(len(matrix), -1), tuple(names), (len(names), shape[1]), trials.dtype)


def _refuse_strings(X) -> None:
    """Raise an error for strings, which scikit-learn would convert to numbers silently."""
    if not _is_plain(X):  # arrays of other libraries cannot contain strings
        return
    values = np.asarray(X) if not hasattr(X, "dtype") and not hasattr(X, "columns") else X
    if hasattr(values, "columns"):
        # A numeric table ends here; only one with text or objects is searched column by column.
        table = np.asarray(values)
        if table.dtype.kind not in "OUS":
            return
        for name, column in zip(values.columns, table.T, strict=True):
            if any(isinstance(value, str | bytes) for value in column):
                raise ValueError(f"X must be numeric, but its column {name!r} holds strings; convert them first.")
        return
    if values.dtype.kind in "US":
        shown = values.ravel()[:1].tolist()
        raise ValueError(f"X must be numeric, but it holds strings such as {shown[0]!r}; convert them first.")
    # Only here every value is looked at: an array of objects can be numeric except for one cell.
    if values.dtype.kind == "O":
        for place, value in np.ndenumerate(values):
            if isinstance(value, str | bytes):
                raise ValueError(
                    f"X must be numeric, but trial {place[0]} holds the string {value!r}; convert it first."
                )


def _refuse_non_finite(trials: Trials, subjects: list | None = None) -> None:
    total = trials.matrix.sum()  # in the usual case one pass over the data and no memory
    if np.isfinite(total):
        return
    bad = np.argwhere(~np.isfinite(trials.matrix))
    if not len(bad):
        return
    trial, feature = bad[0]
    kind = "NaN" if np.isnan(trials.matrix[trial, feature]) else "infinity"
    whose = f"subject {subjects[trial]!r}, " if subjects and trial < len(subjects) else ""
    raise ValueError(
        f"Input X contains {kind}: {whose}trial {trial}, {trials.describe(feature)}"
        + (f" (and {len(bad) - 1} more values that are NaN or infinity)." if len(bad) > 1 else ".")
    )


def _same_length(matrix: np.ndarray, y, estimator) -> None:
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")
    if len(y) != len(matrix):
        raise ValueError(f"X has {len(matrix)} trials, but y has {len(y)} labels.")


def _are_whole_numbers(y) -> bool:
    if not (isinstance(y, np.ndarray) and y.ndim == 1):
        return False
    return y.dtype.kind in "biu" or (y.dtype.kind == "f" and bool((np.rint(y) == y).all() and np.isfinite(y).all()))


def encode_labels(y) -> tuple[np.ndarray, np.ndarray]:
    """Return the two classes, sorted, and for every trial −1 for the first and +1 for the second class, (n,)."""
    if _are_whole_numbers(y):
        # these are classes; `type_of_target` takes a tenth of a small fit to say so
        classes = np.unique(y)
        kind = "binary" if len(classes) <= 2 else "multiclass"
    else:
        kind = type_of_target(y, input_name="y")
        if kind not in ("binary", "multiclass"):
            check_classification_targets(y)  # determines the type again, which takes 0.17 ms
        if kind not in ("binary", "multiclass") or np.ndim(y) != 1:
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        classes = np.unique(y)
    if len(classes) == 1:
        raise ValueError(f"y holds one class only, {classes.tolist()[0]!r}; a classifier needs trials of two classes.")
    if len(classes) > 2:
        raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
    return classes, np.where(y == classes[1], 1.0, -1.0)


def check_sample_weight(sample_weight, n_trials: int) -> np.ndarray:
    """Return the weight of every trial, (n,); None: all 1."""
    if sample_weight is None:
        return np.ones(n_trials)
    weights = np.asarray(sample_weight)
    if weights.ndim == 0:
        # scikit-learn also allows a single number for all trials.
        weights = np.full(n_trials, weights)
    if weights.dtype.kind not in "fiub":
        raise ValueError(f"sample_weight must be numeric, but its type is {weights.dtype}.")
    weights = weights.astype(float)
    if weights.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar, got {weights.ndim}D array.")
    if weights.shape != (n_trials,):
        raise ValueError(f"sample_weight.shape == {weights.shape}, expected {(n_trials,)}!")
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        raise ValueError(
            f"sample_weight must be finite and not negative, but that of trial {bad[0]} is {weights[bad[0]]}."
        )
    if not weights.any():
        raise ValueError("sample_weight must not be zero for all trials.")
    # Only the ratios of weights matter, and sums and products of very large weights would overflow.
    return weights / weights.max() if weights.max() > _LARGE else weights


def class_balance(
    weights: np.ndarray, signs: np.ndarray, classes: np.ndarray, class_weight, whose: str = ""
) -> np.ndarray:
    """Multiply the weights of trials, (n,), by their class weights; both classes must have a positive weight.

    ``whose`` describes the trials in error messages, as in "All trials of class 0 … have weight zero".

    With "balanced" the class weight is Σs / (2 Σ s of the class), so that both classes have the same total weight; a
    trial of weight 2 counts as two trials.
    """
    check_both_classes(weights, signs, classes, whose)
    if class_weight is None:
        return weights
    positive = signs > 0
    if isinstance(class_weight, str) and class_weight == "balanced":
        # A trial of weight 2 must equal two trials: weights are summed, and trials are not counted.
        total = np.array([weights[~positive].sum(), weights[positive].sum()])
        factors = weights.sum() / (2 * total)
    else:
        factors = compute_class_weight(class_weight, classes=classes, y=classes[positive.astype(int)])
        if not (np.all(np.isfinite(factors)) and np.all(factors >= 0)):
            raise ValueError(f"class_weight must be finite and not negative, but got {class_weight!r}.")
    weights = weights * factors[positive.astype(int)]
    # again, because a class weight can be 0
    check_both_classes(weights, signs, classes, whose)
    return weights


def check_both_classes(weights: np.ndarray, signs: np.ndarray, classes: np.ndarray, whose: str = "") -> None:
    """Raise an error if all trials of a class have weight zero."""
    for sign, label in zip((-1, 1), classes.tolist(), strict=True):
        if not weights[signs == sign].any():
            raise ValueError(
                f"All trials of class {label!r} {whose}have weight zero; both classes need at least one trial."
            )
