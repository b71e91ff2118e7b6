"""Model files, which are loaded without executing code: a zip of plain arrays and a JSON header.

A ``.mixnorm`` file holds ``header.json`` and one ``.npy`` member per array (never pickled). The header names the
class and its parameters, describes the model (channel names in order, classes, versions), and holds the SHA-256 of
every array. The header has a checksum too, so that a truncated or altered file is detected.

`mixnorm.estimators.archive` reads the container within limits of size. `mixnorm.estimators.model_schema` lists what an
estimator's file may hold; every value is checked against it before it is used, and before it is saved.

A class that can be saved has ``_to_archive() -> (header, arrays)`` and ``_from_archive(header, arrays)`` and an entry
in the table below. A file cannot name code to import.
"""

import contextlib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from mixnorm.core.arrays import is_array, is_numpy_array, to_numpy
from mixnorm.core.schema import SchemaError, shown
from mixnorm.estimators.archive import ModelFileError, read_archive, refusing, write_archive
from mixnorm.estimators.model_schema import check_estimator
from mixnorm.version import __version__

__all__ = ["Archivable", "ModelFileError", "check_model_path", "import_class", "load", "save"]

_CLASSES = {
    "GroupSVC": "mixnorm.estimators.svc:GroupSVC",
    "GroupSVCCV": "mixnorm.estimators.svc_cv:GroupSVCCV",
    "MultiTaskGroupSVC": "mixnorm.subjects.multitask:MultiTaskGroupSVC",
    "MultiTaskGroupSVCCV": "mixnorm.subjects.multitask_cv:MultiTaskGroupSVCCV",
    "PerSubjectSVC": "mixnorm.subjects.baselines:PerSubjectSVC",
    "PooledSVC": "mixnorm.subjects.baselines:PooledSVC",
    "SensorSelector": "mixnorm.estimators.selector:SensorSelector",
    "Decoder": "mixnorm.eeg.decoder:Decoder",
    "Pipeline": "mixnorm.estimators.pipelines:PipelineFile",
    "CohortDecoder": "mixnorm.eeg.cohort:CohortDecoder",
}
#: Deepest nesting of an encoded value: splits of a cross-validation, a list of tuples of arrays, have 3.
_DEEPEST = 8


def save(model, path) -> None:
    """Save a fitted model to a ``.mixnorm`` file.

    The file is written under another name and renamed when complete: an interrupted save leaves the former file.

    Parameters
    ----------
    model : fitted estimator, or a scikit-learn Pipeline of estimators of this package
        Other steps may be `StandardScaler`, `mixnorm.eeg.ChannelScaler` and MNE's `Vectorizer`.
    path : str or path-like
        Must end in ``.mixnorm``.

    See Also
    --------
    load : Reads the file.
    mixnorm.eeg.Decoder : A model of recordings, with its preparation.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from mixnorm import GroupSVC, load, save
    >>> y = np.tile([0, 1], 20)
    >>> X = np.random.default_rng(0).standard_normal((40, 3, 2)) + y[:, None, None]
    >>> model = GroupSVC().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, Path(folder) / "my.mixnorm")
    ...     again = load(Path(folder) / "my.mixnorm")
    >>> bool(np.all(again.decision_function(X) == model.decision_function(X)))
    True
    """
    path = Path(path)
    check_model_path(path)
    name = type(model).__name__
    if isinstance(model, Pipeline):
        name, model = "Pipeline", import_class(_CLASSES["Pipeline"])(model)
    if name not in _CLASSES or not hasattr(model, "_to_archive"):
        raise TypeError(f"{name} cannot be saved; only {', '.join(_CLASSES)} can.")
    # What can be wrong with a model is found here, before a file is written.
    header, arrays = model._to_archive()
    versions = {
        "mixnorm": __version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "sklearn": sklearn.__version__,
    }
    write_archive(path, {"class": name, "versions": versions, "model": header}, arrays)


def check_model_path(path: Path) -> None:
    """Raise an error where a path cannot be that of a model file, by its name."""
    if path.suffix != ".mixnorm":
        raise ValueError(f"{path}: the name of a model file must end in .mixnorm.")


def load(path):
    """Load a model that `save` wrote.

    No code from the file is executed.

    Parameters
    ----------
    path : str or path-like
        A ``.mixnorm`` file.

    Returns
    -------
    object
        The fitted model; its scores are bit-identical to those of the saved one.

    See Also
    --------
    save : Writes the file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from mixnorm import GroupSVC, load, save
    >>> y = np.tile([0, 1], 20)
    >>> X = np.random.default_rng(0).standard_normal((40, 3, 2)) + y[:, None, None]
    >>> model = GroupSVC().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, Path(folder) / "my.mixnorm")
    ...     again = load(Path(folder) / "my.mixnorm")
    >>> bool(np.all(again.decision_function(X) == model.decision_function(X)))
    True
    """
    path = Path(path)
    header, arrays = read_archive(path)
    given = header.get("class")
    if not isinstance(given, str) or given not in _CLASSES:
        raise ModelFileError(f"{path}: unknown class of model, {shown(given)}.")
    with refusing(path, f"the header does not describe a {given}"):
        return import_class(_CLASSES[given])._from_archive(header["model"], arrays)


def import_class(place: str) -> Any:
    """Return the class at "module:name", which must come from a table in the code, never from a file."""
    module, name = place.split(":")
    return getattr(import_module(module), name)


#: Attributes that scikit-learn keeps beside the fitted ones, about the routing of metadata to `fit`.
_NOT_FITTED = ("_metadata_request",)


class Archivable:
    """Saves an estimator's parameters and fitted attributes; for classes whose state is plain arrays and values.

    Parameters that are objects (a splitter, a scoring function) are not saved: they are needed for fitting only, and
    the loaded model has the defaults instead.
    """

    #: Fitted attributes that are too large for a file and can be computed again by a fit.
    _not_archived: tuple[str, ...] = ()
    #: That of scikit-learn's BaseEstimator, which every class here derives from as well.
    get_params: Callable[..., dict[str, Any]]

    def _to_archive(self) -> tuple[dict, dict[str, np.ndarray]]:
        check_is_fitted(self)
        known = self.get_params(deep=False)
        params, values, arrays = {}, {}, {}
        for name, value in known.items():
            # A splitter or a scorer cannot be encoded; `load` then uses the default, as the class docstring says.
            with contextlib.suppress(TypeError):
                params[name] = _encode(value)
        for name, value in vars(self).items():
            if name in known or name in (*self._not_archived, *_NOT_FITTED):
                continue
            if isinstance(value, np.ndarray) or (is_array(value) and not is_numpy_array(value)):
                arrays[name] = _plain_array(name, to_numpy(value))
            else:
                values[name] = _encode(value)
        _checked(type(self).__name__, params, values, arrays, known)
        return {"params": params, "fitted": values}, arrays

    @classmethod
    def _from_archive(cls, header: dict, arrays: dict[str, np.ndarray]):
        if set(header) != {"params", "fitted"} or not all(isinstance(part, dict) for part in header.values()):
            raise SchemaError(f"it must have 'params' and 'fitted', but has {shown(header)}.")
        known = cls().get_params(deep=False)
        params, fitted = _checked(cls.__name__, header["params"], header["fitted"], arrays, known)
        model = cls(**params)
        for name, value in fitted.items():
            setattr(model, name, value)
        return model


def _checked(name: str, params: dict, values: dict, arrays: dict, known: dict) -> tuple[dict, dict]:
    """Decode parameters and fitted attributes; a `SchemaError` if they are not those of the class ``name``.

    What is saved is checked in the encoded form too, so that every file that is written can be read.
    """
    params = {key: _decode(value) for key, value in params.items()}
    fitted = {key: _decode(value) for key, value in values.items()}
    twice = sorted(set(fitted) & set(arrays))
    if twice:
        raise SchemaError(f"{shown(twice[0])} occurs twice.")
    fitted |= arrays
    check_estimator(name, params, fitted, known)
    return params, fitted


def _encode(value):
    """Return a value as JSON that `_decode` turns back exactly."""
    # JSON knows no numbers of NumPy, and a float64 is the same number as a Python float.
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and np.isfinite(value)):
        return value
    # infinity and NaN, which JSON does not have
    if isinstance(value, float):
        return {"float": repr(value)}
    if isinstance(value, np.ndarray) and value.ndim < 2:  # a noise matrix that was given is not worth its room
        return {"array": [_encode(item) for item in value.tolist()]}
    if isinstance(value, tuple | list):
        # Tuples and lists are kept apart, so that the parameters of a loaded model have the same repr.
        return {type(value).__name__: [_encode(item) for item in value]}
    if isinstance(value, dict):
        # A list of pairs, because JSON would turn keys that are numbers into text.
        return {"dict": [[_encode(key), _encode(item)] for key, item in value.items()]}
    raise TypeError(f"{type(value).__name__} cannot be saved in a model file.")


def _decode(value, depth: int = _DEEPEST):
    """Return the value that `_encode` wrote; a `SchemaError` for anything that it does not write."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    # A file nested a million times deep would otherwise end in a RecursionError.
    if not isinstance(value, dict) or len(value) != 1 or not depth:
        raise SchemaError(f"{shown(value)} is not an encoded value.")
    ((kind, content),) = value.items()
    # Only what `_encode` writes: float() would accept any text that looks like a number.
    if kind == "float" and content in ("inf", "-inf", "nan"):
        return float(content)
    if kind not in ("dict", "list", "tuple", "array") or not isinstance(content, list):
        raise SchemaError(f"{shown(value)} is not an encoded value.")
    if kind == "dict":
        return dict(_decode_pair(pair, depth - 1) for pair in content)
    items = [_decode(item, depth - 1) for item in content]
    if kind == "array":
        return _decode_array(items)
    return tuple(items) if kind == "tuple" else items


def _decode_pair(pair, depth: int) -> tuple:
    if not isinstance(pair, list) or len(pair) != 2:
        raise SchemaError(f"{shown(pair)} is not a key and a value.")
    key = _decode(pair[0], depth)
    if not isinstance(key, bool | int | float | str | tuple | None):
        raise SchemaError(f"{shown(key)} cannot be a key.")
    return key, _decode(pair[1], depth)


def _decode_array(items: list) -> np.ndarray:
    if not all(isinstance(item, bool | int | float | str) for item in items):
        raise SchemaError(f"{shown(items)} is not an array of numbers or text.")
    return np.array(items)


def _plain_array(name: str, array: np.ndarray) -> np.ndarray:
    """Arrays of Python strings become arrays of text; other objects cannot be kept without pickling."""
    if array.dtype.kind != "O":
        return array
    if all(isinstance(item, str) for item in array.ravel()):
        return array.astype(str)
    raise TypeError(f"{name} holds Python objects ({array.ravel()[0]!r}, …), which cannot be saved in a model file.")
