"""Model files, which are loaded without executing code: a zip of plain arrays and a JSON header.

A ``.mixnorm`` file holds ``header.json`` and one ``.npy`` member per array (never pickled). The header names the
class and its parameters, describes the model (channel names in order, classes, versions), and holds the SHA-256 of
every array. The header has a checksum too, so that a truncated or altered file is detected.

A class that can be saved has ``_to_archive() -> (header, arrays)`` and ``_from_archive(header, arrays)`` and an entry
in the table below. A file cannot name code to import.
"""

import contextlib
import hashlib
import io
import json
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from sklearn.utils.validation import check_is_fitted

from mixnorm.core.arrays import is_array, is_numpy_array, to_numpy
from mixnorm.core.files import whole_file
from mixnorm.version import __version__

FORMAT = 1
_CLASSES = {
    "GroupSVC": "mixnorm.estimators.svc:GroupSVC",
    "GroupSVCCV": "mixnorm.estimators.svc_cv:GroupSVCCV",
    "MultiTaskGroupSVC": "mixnorm.subjects.multitask:MultiTaskGroupSVC",
    "MultiTaskGroupSVCCV": "mixnorm.subjects.multitask_cv:MultiTaskGroupSVCCV",
    "PerSubjectSVC": "mixnorm.subjects.baselines:PerSubjectSVC",
    "PooledSVC": "mixnorm.subjects.baselines:PooledSVC",
    "SensorSelector": "mixnorm.estimators.selector:SensorSelector",
    "Decoder": "mixnorm.eeg.decoder:Decoder",
    "CohortDecoder": "mixnorm.eeg.cohort:CohortDecoder",
}
#: Largest uncompressed size of one array (a small file could declare a huge one).
_MAX_BYTES = 4 << 30


#: Errors that zipfile, json and NumPy raise for a file that `save` did not write or that was altered. An altered flag
#: can also request a password (RuntimeError), or another compression or zip version (NotImplementedError, a subclass).
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    AttributeError,
    EOFError,
    KeyError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


class ModelFileError(ValueError):
    """An invalid model file: truncated, altered, of another format, or not a model file."""


def save(model, path) -> None:
    """Save a fitted model to a ``.mixnorm`` file.

    The file is written under another name and renamed when complete: an interrupted save leaves the former file.

    Parameters
    ----------
    model : fitted estimator
    path : str or path-like
        Must end in ``.mixnorm``.
    """
    path = Path(path)
    check_model_path(path)
    name = type(model).__name__
    if name not in _CLASSES or not hasattr(model, "_to_archive"):
        raise TypeError(f"{name} cannot be saved; only {', '.join(_CLASSES)} can.")
    header, arrays = model._to_archive()
    members = {key: _array_bytes(value) for key, value in arrays.items()}
    header = {
        "format": FORMAT,
        "class": name,
        "versions": {
            "mixnorm": __version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "sklearn": sklearn.__version__,
        },
        "arrays": {key: hashlib.sha256(data).hexdigest() for key, data in members.items()},
        "model": header,
    }
    text = json.dumps(header, indent=1, allow_nan=False, sort_keys=True).encode()
    _write(path, text, members)


def check_model_path(path: Path) -> None:
    """Raise an error where a path cannot be that of a model file, by its name."""
    if path.suffix != ".mixnorm":
        raise ValueError(f"{path}: the name of a model file must end in .mixnorm.")


def load(path):
    """Load a model that `save` wrote. No code from the file is executed.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    The fitted model; its scores are bit-identical to those of the saved one.
    """
    header, arrays = _read(Path(path))
    if header.get("class") not in _CLASSES:
        raise ModelFileError(f"{path}: unknown class of model, {header.get('class')!r}.")
    module, name = _CLASSES[header["class"]].split(":")
    cls = getattr(import_module(module), name)
    try:
        return cls._from_archive(header["model"], arrays)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"{path}: the header does not describe a {name} ({error}).") from error


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
        params, values, arrays = {}, {}, {}
        for name, value in self.get_params(deep=False).items():
            with contextlib.suppress(TypeError):
                params[name] = _encode(value)
        for name, value in vars(self).items():
            if name in self.get_params(deep=False) or name in self._not_archived:
                continue
            if isinstance(value, np.ndarray) or (is_array(value) and not is_numpy_array(value)):
                arrays[name] = _plain_array(name, to_numpy(value))
            else:
                values[name] = _encode(value)
        return {"params": params, "fitted": values}, arrays

    @classmethod
    def _from_archive(cls, header: dict, arrays: dict[str, np.ndarray]):
        known = cls().get_params(deep=False)
        model = cls(**{name: _decode(value) for name, value in header["params"].items() if name in known})
        for name, value in header["fitted"].items():
            setattr(model, name, _decode(value))
        for name, array in arrays.items():
            setattr(model, name, array)
        return model


def _encode(value):
    """Return a value as JSON that `_decode` turns back exactly."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and np.isfinite(value)):
        return value
    if isinstance(value, float):
        return {"float": repr(value)}
    if isinstance(value, np.ndarray) and value.ndim < 2:  # a noise matrix that was given is not worth its room
        return {"array": [_encode(item) for item in value.tolist()]}
    if isinstance(value, tuple | list):
        return {type(value).__name__: [_encode(item) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[_encode(key), _encode(item)] for key, item in value.items()]}
    raise TypeError(f"{type(value).__name__} cannot be saved in a model file.")


def _decode(value):
    if not isinstance(value, dict):
        return value
    (kind, content), *_ = value.items()
    if kind == "float":
        return float(content)
    if kind == "dict":
        return {_decode(key): _decode(item) for key, item in content}
    items = [_decode(item) for item in content]
    return np.array(items) if kind == "array" else tuple(items) if kind == "tuple" else items


def _plain_array(name: str, array: np.ndarray) -> np.ndarray:
    """Arrays of Python strings become arrays of text; other objects cannot be kept without pickling."""
    if array.dtype.kind != "O":
        return array
    if all(isinstance(item, str) for item in array.ravel()):
        return array.astype(str)
    raise TypeError(f"{name} holds Python objects ({array.ravel()[0]!r}, …), which cannot be saved in a model file.")


def _write(path: Path, header: bytes, members: dict[str, bytes]) -> None:
    everything: dict[str, bytes | str] = {"header.json": header, "header.sha256": hashlib.sha256(header).hexdigest()}
    everything |= {f"{key}.npy": data for key, data in members.items()}
    with whole_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in everything.items():
            # ZipInfo leaves out the time of writing, so that the same model always gives the same file.
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)


def _read(path: Path) -> tuple[dict, dict[str, np.ndarray]]:
    if not path.exists():
        raise FileNotFoundError(f"{path}: this file does not exist.")
    try:
        with zipfile.ZipFile(path) as archive:
            text = archive.read("header.json")
            if hashlib.sha256(text).hexdigest().encode() != archive.read("header.sha256"):
                raise ModelFileError(f"{path}: the header was altered after the model was saved.")
            header = json.loads(text)
            if not isinstance(header, dict):
                raise ModelFileError(f"{path}: the header is not a JSON object.")
            if header.get("format") != FORMAT:
                raise ModelFileError(
                    f"{path}: file format {header.get('format')!r} is not supported; this version reads {FORMAT}."
                )
            return header, {key: _read_array(archive, path, key, sha) for key, sha in header["arrays"].items()}
    except ModelFileError:
        raise
    except _UNREADABLE as error:
        raise ModelFileError(f"{path}: not a model file, or truncated or altered ({error}).") from error


def _read_array(archive: zipfile.ZipFile, path: Path, key: str, sha: str) -> np.ndarray:
    info = archive.getinfo(f"{key}.npy")
    if info.file_size > _MAX_BYTES:
        raise ModelFileError(f"{path}: array {key!r} claims {info.file_size} bytes, more than the limit for a model.")
    data = archive.read(info)
    if hashlib.sha256(data).hexdigest() != sha:
        raise ModelFileError(f"{path}: array {key!r} was altered after the model was saved.")
    return np.load(io.BytesIO(data), allow_pickle=False)


def _array_bytes(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()
