"""Typed records to plain JSON values and back: the types of the fields are the checks.

A record is a frozen dataclass whose fields are records, tuples, mappings from text, numbers, text, literals, or None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

T = TypeVar("T")
#: Name of the whole document in messages.
_ROOT = "selection"
_WORDS = {str: "a text", int: "an integer", float: "a number", bool: "true or false"}


def number(value: float, digits: int = 4) -> float | None:
    """A number rounded to so many significant digits; None where it is not finite, which JSON cannot say."""
    value = float(value)
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def numbers(values: Any, digits: int = 4) -> tuple[float | None, ...]:
    """The same for every number of a sequence."""
    return tuple(number(value, digits) for value in np.asarray(values, dtype=float).tolist())


def to_plain(value: Any) -> Any:
    """Dicts, lists, numbers, text and None for a record.

    Examples
    --------
    >>> from mixnorm.montage.result import Drop
    >>> to_plain((Drop("Cz", -0.01),))
    [{'sensor': 'Cz', 'auc_change': -0.01, 'standard_error': None}]
    """
    if is_dataclass(value):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: to_plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [to_plain(inner) for inner in value]
    return value


def from_plain(kind: type[T], value: Any, where: str = "") -> T:
    """Build a value of a type from plain JSON values; ValueError, naming the key, where it does not fit.

    Unknown keys are ignored. A missing key is an error unless its field has a default.

    Examples
    --------
    >>> from mixnorm.montage.result import Drop
    >>> from_plain(Drop, {"sensor": "Cz", "auc_change": -0.01}, "drop")
    Drop(sensor='Cz', auc_change=-0.01, standard_error=None)
    >>> from_plain(Drop, {"sensor": 3, "auc_change": None}, "drop")
    Traceback (most recent call last):
    ValueError: drop.sensor: expected a text, but got 3.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _record(kind, value, where)
    if origin in (Union, UnionType):
        if value is None:
            return None
        # the only unions are those with None: with others, the error could not name the type that was expected
        (inner,) = (one for one in arguments if one is not NoneType)
        return from_plain(inner, value, where)
    if origin is tuple:
        _expect(isinstance(value, list | tuple), "a list", value, where)
        return tuple(from_plain(arguments[0], inner, f"{where}[{i}]") for i, inner in enumerate(value))
    if origin is Mapping:
        _expect(isinstance(value, dict), "an object", value, where)
        return {key: from_plain(arguments[1], inner, f"{where}.{key}") for key, inner in value.items()}
    if origin is Literal:
        _expect(value in arguments, " or ".join(map(repr, arguments)), value, where)
        return value
    return _scalar(kind, value, where)


def _record(kind: type, value: Any, where: str) -> Any:
    _expect(isinstance(value, dict), "an object", value, where)
    found = {}
    for field in fields(kind):
        if field.name in value:
            inside = f"{where}.{field.name}" if where else field.name
            found[field.name] = from_plain(_types(kind)[field.name], value[field.name], inside)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{where or _ROOT}: {field.name!r} is missing.")
    try:
        return kind(**found)
    except ValueError as error:  # the record's own check of its fields against each other
        raise ValueError(f"{where or _ROOT}: {error}") from None


@cache
def _types(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _scalar(kind: type, value: Any, where: str) -> Any:
    accepted = (int, float) if kind is float else kind
    # True is an integer to Python, and a number of NumPy is not one of JSON
    fits = isinstance(value, accepted) and (kind is bool or not isinstance(value, bool))
    _expect(fits, _WORDS[kind], value, where)
    if kind is float and not math.isfinite(value):
        raise ValueError(f"{where}: {value} is not allowed; write null for a value that does not exist.")
    return value


def _expect(fits: bool, wanted: str, value: Any, where: str) -> None:
    if not fits:
        raise ValueError(f"{where or _ROOT}: expected {wanted}, but got {value!r:.60}.")
