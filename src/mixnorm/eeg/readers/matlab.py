"""Structures, cell arrays and texts of MATLAB files, as SciPy returns them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.recording import RecordingError

#: Nested structures are looked into so far; layouts of recordings need three levels.
DEPTH = 5
#: Elements of a cell array or structure array that are looked into.
ELEMENTS = 64


def structs(value: Any) -> list[dict[str, Any]]:
    """The structures in a structure, a structure array or a cell array of structures, each as a dict.

    Anything else in a cell array is left out.
    """
    if not isinstance(value, np.ndarray):
        return []
    if value.dtype.names is not None:
        return [{name: element[name] for name in value.dtype.names} for element in value.ravel()[:ELEMENTS]]
    if value.dtype.kind != "O":
        return []
    # A cell array of thousands of cells is data and no list of runs.
    return [inner for element in value.ravel()[:ELEMENTS] for inner in structs(element)[:1]]


def struct(variables: dict[str, Any], name: str) -> dict[str, Any]:
    """The fields of a structure of size 1; nothing where it is none."""
    found = structs(variables.get(name))
    return found[0] if len(found) == 1 else {}


def texts(value: Any) -> list[str]:
    """The texts in a cell array of texts or in a character array, without spaces around them."""
    if isinstance(value, str):
        return [value.strip()]
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "UO":
        return []
    return [text for element in value.ravel() for text in texts(element if value.dtype.kind == "O" else str(element))]


def leaves(variables: dict[str, Any], depth: int = DEPTH) -> dict[str, Any]:
    """Every array below the variables by its path, as in "EEG.data" or "data.2.X" (elements count from 1)."""
    found: dict[str, Any] = {}
    for name, value in variables.items():
        if name.startswith("__"):
            continue
        # a file of structures nested a thousand times deep must not exhaust the stack
        inner = structs(value) if depth > 1 else []
        if not inner:
            found[name] = value
        for place, fields in enumerate(inner, start=1):
            prefix = f"{name}.{place}" if len(inner) > 1 else name
            found |= {f"{prefix}.{path}": leaf for path, leaf in leaves(fields, depth - 1).items()}
    return found


def channels_first(path: Path, signal: np.ndarray) -> NDArray[np.float64]:
    """A signal of (samples, channels) as (channels, samples)."""
    if signal.ndim != 2 or signal.shape[0] < signal.shape[1]:
        raise RecordingError(path, f"the signal has shape {signal.shape}, not (samples, channels)", "transpose it")
    return np.ascontiguousarray(signal.T, dtype=np.float64)
