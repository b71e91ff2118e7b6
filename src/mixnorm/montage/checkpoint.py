"""Finished parts of a long computation, kept in a folder until the whole is done: stopped, it goes on from there.

A part is one file, ``DIGEST-NAME-NUMBER.npz``. The digest is of everything the result depends on (data, wishes,
version), so that no part of another computation is ever taken for one of this. Nothing in a file is executed or
unpickled: it holds arrays, and one text that says how they belong together. Numbers come back bit for bit.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from mixnorm.core.files import whole_file
from mixnorm.estimators.stability import StabilitySelection
from mixnorm.montage.scoring import Models, Tested

Call = tuple[Callable, tuple, dict]
"""A function and its arguments, as ``joblib.delayed`` gives them."""

# A file may name no other class than these.
_CLASSES = {kind.__name__: kind for kind in (Models, Tested, StabilitySelection)}
_MISSING = object()


@dataclass(frozen=True)
class Parts:
    """Where parts are kept, and of what computation.

    Attributes
    ----------
    folder : path
        Made when the first part is finished.
    version : str
        Of the code: a part that another version computed is not taken.
    tell : callable
        Is told, in words, how many parts were taken from the folder.
    """

    folder: Path
    version: str
    tell: Callable[[str], None] = lambda what: None

    def run(self, name: str, digest: str, calls: Iterable[Call], n_jobs: int | None = None) -> list[Any]:
        """Results of the calls, in order: those in the folder, and the others computed and kept one by one.

        Parameters
        ----------
        name : str
            Of the calls, among those of one computation.
        digest : str
            Of all that their results depend on, as :func:`digest` gives it.
        calls : iterable of delayed calls
        n_jobs : int or None
            So many at a time.
        """
        calls = list(calls)
        stem = f"{_digest_of([self.version, digest, name])}-{re.sub(r'[^a-zA-Z0-9]+', '-', name)}"
        places = [self.folder / f"{stem}-{number}.npz" for number in range(len(calls))]
        results = [_read(place) for place in places]
        missing = [number for number, result in enumerate(results) if result is _MISSING]
        if len(missing) < len(calls):
            self.tell(f"{name}: {len(calls) - len(missing)} of {len(calls)} parts taken from {self.folder}")
        done = run_calls((call_of(_kept, places[number], calls[number]) for number in missing), n_jobs)
        for number, result in zip(missing, done, strict=True):
            results[number] = result
        return results

    def remove(self) -> None:
        """Remove the folder, once the whole is written elsewhere."""
        shutil.rmtree(self.folder, ignore_errors=True)


def call_of(function: Callable, *positional: Any, **named: Any) -> Call:
    """A call to be made later."""
    return function, positional, named


def run_calls(calls: Iterable[Call], n_jobs: int | None = None) -> list[Any]:
    """Results of delayed calls, in order, so many at a time."""
    return Parallel(n_jobs=n_jobs)(delayed(_made)(*call) for call in calls)


def _made(function: Callable, positional: tuple, named: dict) -> Any:
    return function(*positional, **named)


def digest(*values: Any) -> str:
    """SHA-256 of arrays (type, shape and bytes) and of the text of anything else.

    Examples
    --------
    >>> digest(np.zeros(2), 1) == digest(np.zeros(2), 1), digest(np.zeros(2)) == digest(np.zeros((2, 1)))
    (True, False)
    """
    return _digest_of(values)


def _digest_of(values: Iterable[Any]) -> str:
    found = hashlib.sha256()
    for value in values:
        if isinstance(value, np.ndarray):
            found.update(f"{value.dtype.str} {value.shape}\n".encode())
            found.update(np.ascontiguousarray(value).tobytes())
        else:
            found.update(f"{value!r}\n".encode())
    return found.hexdigest()


def _kept(place: Path, call: Call) -> Any:
    """Make the call and keep its result; the file appears whole or not at all."""
    result = _made(*call)
    place.parent.mkdir(parents=True, exist_ok=True)
    arrays: list[np.ndarray] = []
    text = json.dumps(_packed(result, arrays))
    with whole_file(place) as file:
        np.savez(file, text=np.array(text), **{f"array{number}": array for number, array in enumerate(arrays)})
    return result


def _read(place: Path) -> Any:
    """What was kept, or ``_MISSING`` where there is nothing or not what was written: it is then computed anew."""
    try:
        with place.open("rb") as file, np.load(file, allow_pickle=False) as found:
            arrays = [found[f"array{number}"] for number in range(len(found.files) - 1)]
            return _unpacked(json.loads(str(found["text"])), arrays)
    except Exception:  # whatever a damaged file makes of its reader: an unknown compression, a password, …
        return _MISSING


def _packed(value: Any, arrays: list[np.ndarray]) -> Any:
    """JSON of a tree of lists, dicts, numbers, text and the classes above; arrays are set aside and numbered."""
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, np.generic):
        return _packed(value.item(), arrays)
    if isinstance(value, list | tuple):
        return {type(value).__name__: [_packed(inner, arrays) for inner in value]}
    if isinstance(value, dict):
        return {"dict": {key: _packed(inner, arrays) for key, inner in value.items()}}
    if is_dataclass(value):
        own = {field.name: _packed(getattr(value, field.name), arrays) for field in fields(value)}
        return {"class": type(value).__name__, "fields": own}
    return value


def _unpacked(value: Any, arrays: list[np.ndarray]) -> Any:
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "class" in value:
        own = {name: _unpacked(inner, arrays) for name, inner in value["fields"].items()}
        return _CLASSES[value["class"]](**own)
    if "dict" in value:
        return {key: _unpacked(inner, arrays) for key, inner in value["dict"].items()}
    kind = tuple if "tuple" in value else list
    return kind(_unpacked(inner, arrays) for inner in value[kind.__name__])
