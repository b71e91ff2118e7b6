"""Recordings as bytes: a JSON document and the arrays it refers to. Nothing is pickled.

A message is one line of JSON and then the bytes of its arrays, one after another:

    {"value": …, "arrays": [["<f8", [8, 2560]], …]}

In `value` an array is {"array": place in the list}, a tuple {"tuple": […]}, and a dataclass of
`mixnorm.eeg.recording` {"class": name, "fields": {…}}.
"""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from typing import Any, BinaryIO

import numpy as np

from mixnorm.eeg import recording as records

#: The longest JSON line: names, notes and events of a recording need far less.
MAX_LINE = 64 * 2**20
_BLOCK = 2**20


class WireError(Exception):
    """The other process sent something else than a message, or ended before its end."""


def send(stream: BinaryIO, value: Any) -> None:
    """Write one message."""
    arrays: list[np.ndarray] = []
    document = _encoded(value, arrays)
    head = {"value": document, "arrays": [[array.dtype.str, list(array.shape)] for array in arrays]}
    stream.write(json.dumps(head).encode() + b"\n")
    for array in arrays:
        _write(stream, array)
    stream.flush()


def receive(stream: BinaryIO, max_bytes: float) -> Any:
    """Read one message whose arrays have at most `max_bytes` together; sizes are checked before memory is taken."""
    line = stream.readline(MAX_LINE)
    if not line.endswith(b"\n"):
        raise WireError("the line is not complete")
    try:
        head = json.loads(line)
        plans = [_planned(dtype, shape) for dtype, shape in head["arrays"]]
        # The worker may be under the control of a hostile file: its answer is checked too.
        if sum(dtype.itemsize * math.prod(shape) for dtype, shape in plans) > max_bytes:
            raise WireError("the arrays are larger than allowed")
        arrays = [_filled(stream, np.empty(shape, dtype=dtype)) for dtype, shape in plans]
        return _decoded(head["value"], arrays)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise WireError(f"not a message ({error})") from error


def _encoded(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if is_dataclass(value):
        inner = {field.name: _encoded(getattr(value, field.name), arrays) for field in fields(value)}
        return {"class": type(value).__name__, "fields": inner}
    if isinstance(value, tuple):
        return {"tuple": [_encoded(item, arrays) for item in value]}
    if isinstance(value, list):
        return [_encoded(item, arrays) for item in value]
    if isinstance(value, dict):
        return {"dict": [[_encoded(key, arrays), _encoded(item, arrays)] for key, item in value.items()]}
    return value.item() if isinstance(value, np.generic) else value


def _decoded(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, list):
        return [_decoded(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "tuple" in value:
        return tuple(_decoded(item, arrays) for item in value["tuple"])
    if "dict" in value:
        return {_decoded(key, arrays): _decoded(item, arrays) for key, item in value["dict"]}
    # Only dataclasses of that module can be made, not any class that a message names.
    kind = getattr(records, value["class"])
    if not (isinstance(kind, type) and is_dataclass(kind)):
        raise WireError(f"{value['class']} is not a record")
    return kind(**{name: _decoded(item, arrays) for name, item in value["fields"].items()})


def _planned(dtype: str, shape: list[int]) -> tuple[np.dtype, tuple[int, ...]]:
    found = np.dtype(dtype)
    if found.kind not in "biufU" or not all(isinstance(size, int) and size >= 0 for size in shape):
        raise WireError(f"an array of {dtype}, {shape}")
    return found, tuple(shape)


def _write(stream: BinaryIO, array: np.ndarray) -> None:
    """Write the values in C order; an array in another order is copied row by row, not as a whole."""
    if array.ndim and not array.flags.c_contiguous:
        for row in array:
            _write(stream, row)
    elif array.size:
        stream.write(memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8)))


def _filled(stream: BinaryIO, array: np.ndarray) -> np.ndarray:
    if array.nbytes:
        view = memoryview(array.reshape(-1).view(np.uint8))
        while len(view):
            count = stream.readinto(view[:_BLOCK])  # type: ignore[attr-defined]
            if not count:
                raise WireError("the arrays are not complete")
            view = view[count:]
    return array
