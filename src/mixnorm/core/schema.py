"""What a file may hold, as data: kinds of values with their ranges and sizes, checked before anything is used.

A file comes from anywhere. Instead of testing a value where it happens to be used, a module lists what its files hold
in a `Record`, one line per name, and checks the whole content at once:

>>> point = Record({"x": Number(0, 1), "label": Text()}, optional={"weights": Array("f", "n", low=0)})
>>> check(point, {"x": 0.5, "label": "a"}, "the point")
>>> check(point, {"x": 2, "label": "a"}, "the point")
Traceback (most recent call last):
...
mixnorm.core.schema.SchemaError: the point: 'x' must be a number from 0 to 1, but it is 2.

A size is a number or a letter. A letter has the same value wherever it occurs in one check: with
``Array("f", "T", "d")`` and ``Array("f", "T")`` both arrays must have as many rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from mixnorm.core.values import HUGE, MOST, in_words, is_label, is_number, is_unicode, shown

#: Letter → its value in the check that is under way. "..." stands for the leading axes of an array, a tuple.
Sizes = dict[str, Any]

# names of sensors, subjects and classes need no deeper nesting, and a file must not exhaust the stack
_DEEPEST_LABEL = 3


class SchemaError(ValueError):
    """A value that its schema does not allow; the message says which one and what is allowed."""


class Kind(Protocol):
    """A kind of value."""

    @property
    def words(self) -> str:
        """What is allowed, for an error message."""

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        """What is wrong with a value, as the end of a sentence about it; None: nothing is."""


def check(kind: Kind, value: Any, what: str, sizes: Sizes | None = None) -> None:
    """Raise a `SchemaError` that begins with ``what`` if a value is not of a kind."""
    problem = kind.problem(value, {} if sizes is None else sizes)
    if problem is not None:
        raise SchemaError(f"{what}: {problem}." if isinstance(kind, Record) else f"{what} {problem}.")


class _Unfit(str):
    """The problem of a value that is not of its kind at all; other problems are of something inside the value."""


def _unfit(kind: Kind, value: Any) -> _Unfit:
    return _Unfit(f"must be {kind.words}, but it is {shown(value)}")


@dataclass(frozen=True)
class Number:
    """A number in a range, bounds included; ``above``: the lower bound excluded. Infinity only as a bound."""

    low: float = -HUGE
    high: float = HUGE
    above: bool = False

    @property
    def words(self) -> str:
        """As in `Kind`."""
        return f"a number {in_words(self.low, self.high, HUGE, 'above' if self.above else 'from')}".strip()

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        """As in `Kind`."""
        fits = is_number(value) and self.low <= value <= self.high and not (self.above and value == self.low)
        return None if fits else _unfit(self, value)


@dataclass(frozen=True)
class Whole:
    """An integer in a range, bounds included. ``size``: the letter whose value it is."""

    low: int = 0
    high: int = MOST
    size: str | None = None

    @property
    def words(self) -> str:
        """As in `Kind`."""
        return f"an integer {in_words(self.low, self.high, MOST, 'from')}"

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        """As in `Kind`."""
        if not isinstance(value, int) or isinstance(value, bool) or not self.low <= value <= self.high:
            return _unfit(self, value)
        return _bind(sizes, self.size, value) if self.size else None


@dataclass(frozen=True)
class Flag:
    """True or false."""

    words = "true or false"

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        """As in `Kind`."""
        return None if isinstance(value, bool) else _unfit(self, value)


@dataclass(frozen=True)
class Nothing:
    """None, which is null in JSON."""

    words = "nothing (null)"

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        """As in `Kind`."""
        return None if value is None else _unfit(self, value)


@dataclass(frozen=True)
class Text:
    """Text of at most ``longest`` characters; ``empty``: it may be empty."""

    longest: int = 1000
    empty: bool = False

    @property
    def words(self) -> str:
        """As in `Kind`."""
        return f"text of at most {self.longest} characters"

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        """As in `Kind`."""
        fits = isinstance(value, str) and len(value) <= self.longest and (value or self.empty) and is_unicode(value)
        return None if fits else _unfit(self, value)


class Word:
    """One of some words."""

    def __init__(self, *allowed: str) -> None:
        self.allowed = allowed

    @property
    def words(self) -> str:
        """As in `Kind`."""
        return ", ".join(map(repr, self.allowed[:-1])) + " or " * (len(self.allowed) > 1) + repr(self.allowed[-1])

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        """As in `Kind`."""
        return None if isinstance(value, str) and value in self.allowed else _unfit(self, value)


@dataclass(frozen=True)
class Label:
    """The name of a class, a sensor or a subject: text, a finite number, a truth value, or a tuple of these."""

    words = "a label (text, a number, or a tuple of these)"

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        """As in `Kind`."""
        return None if is_label(value, _DEEPEST_LABEL) else _unfit(self, value)


class Either:
    """Any of some kinds."""

    def __init__(self, *kinds: Kind) -> None:
        self.kinds = kinds

    @property
    def words(self) -> str:
        """As in `Kind`."""
        return ", or ".join(kind.words for kind in self.kinds)

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        """As in `Kind`."""
        # All are asked, because the most telling of their messages is shown.
        problems = [kind.problem(value, sizes) for kind in self.kinds]
        if None in problems:
            return None
        # The one that looked furthest into the value says most.
        inner = [problem for problem in problems if not isinstance(problem, _Unfit | None)]
        return inner[0] if inner else _unfit(self, value)


def or_none(kind: Kind) -> Either:
    """A kind, or None."""
    return Either(Nothing(), kind)


@dataclass(frozen=True)
class Many:
    """A list, tuple or one-dimensional array of items of one kind. ``size``: the letter of its length."""

    item: Kind
    most: int = 1_000_000
    least: int = 0
    size: str | None = None

    @property
    def words(self) -> str:
        """As in `Kind`."""
        return f"a list of {self.least} to {self.most} items, each {self.item.words}"

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        """As in `Kind`."""
        # `tolist` gives Python's numbers and strings, which the kinds check for.
        if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "biufU":
            value = value.tolist()
        if not isinstance(value, list | tuple) or not self.least <= len(value) <= self.most:
            return _unfit(self, value)
        for place, item in enumerate(value):
            problem = self.item.problem(item, sizes)
            if problem is not None:
                return f"has an item {place} that {problem}"
        return _bind(sizes, self.size, len(value)) if self.size else None


@dataclass(frozen=True)
class Pairs:
    """A mapping with keys of one kind to values of one kind."""

    key: Kind
    item: Kind
    most: int = 100_000

    @property
    def words(self) -> str:
        """As in `Kind`."""
        return f"a mapping from {self.key.words} to {self.item.words}"

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        """As in `Kind`."""
        if not isinstance(value, Mapping) or len(value) > self.most:
            return _unfit(self, value)
        for key, item in value.items():
            if self.key.problem(key, sizes) is not None:
                return f"has the key {shown(key)}, which {self.key.problem(key, sizes)}"
            problem = self.item.problem(item, sizes)
            if problem is not None:
                return f"has under {shown(key)} a value that {problem}"
        return None


class Array:
    """An array of one of some types and a shape, with all values in a range, which excludes NaN unless allowed.

    Parameters
    ----------
    types : str
        Letters of NumPy's kinds of types: "f" floats of 4 or 8 bytes, "i" integers, "b" truth values, "U" text.
        `LABELS` for labels.
    *shape : str or int
        Sizes; "..." first: any leading axes, the same wherever "..." occurs.
    low, high : float
        Bounds of the values, included.
    below : str
        The letter of the size that integers must be below.
    nan : bool
        Whether values may be NaN.
    """

    def __init__(
        self,
        types: str,
        *shape: str | int,
        low: float = -HUGE,
        high: float = HUGE,
        below: str | None = None,
        nan: bool = False,
    ) -> None:
        self.types, self.shape, self.low, self.high, self.below, self.nan = types, shape, low, high, below, nan

    @property
    def words(self) -> str:
        """As in `Kind`."""
        return f"an array of type {' or '.join(map(repr, self.types))} with the axes {self._axes()}"

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        """As in `Kind`."""
        if not isinstance(value, np.ndarray) or value.dtype.kind not in self.types:
            return _unfit(self, value)
        # float16 and the long double of some platforms have other ranges, and BLAS does not take them.
        if value.dtype.kind == "f" and value.dtype.itemsize not in (4, 8):
            return f"must have floats of 4 or 8 bytes, but its type is {value.dtype}"
        return self._shape_problem(value, sizes) or self._value_problem(value, sizes)

    def _shape_problem(self, value: np.ndarray, sizes: Sizes) -> str | None:
        axes, shape = self.shape, value.shape
        found: Sizes = {}
        if axes[:1] == ("...",):
            lead = max(0, value.ndim - len(axes) + 1)
            found["..."], axes, shape = shape[:lead], axes[1:], shape[lead:]
        if len(axes) != len(shape):
            return f"must have the axes {self._axes()}, but its shape is {value.shape}"
        for axis, length in zip(axes, shape, strict=True):
            if isinstance(axis, int) and length != axis:
                return f"must have the axes {self._axes()}, but its shape is {value.shape}"
            if isinstance(axis, str) and found.setdefault(axis, length) != length:
                return f"must have the axes {self._axes()}, but its shape is {value.shape}"
        # Letters are noted only after the whole shape fits; otherwise an error would name the next array.
        for letter, length in found.items():
            if sizes.get(letter, length) != length:
                known = f"{letter} = {sizes[letter]}"
                return f"must have the axes {self._axes()} with {known}, but its shape is {value.shape}"
        sizes.update(found)
        return None

    def _value_problem(self, value: np.ndarray, sizes: Sizes) -> str | None:
        if value.dtype.kind == "U":
            return None if is_unicode(value) else "must contain valid text"
        if self.nan and value.dtype.kind == "f":
            value = value[~np.isnan(value)]
        if value.dtype.kind not in "iuf" or not value.size:
            return None
        high = self.high if self.below is None else sizes[self.below] - 1
        low, most = value.min().item(), value.max().item()  # NaN where any value is NaN
        # min and max of an array with NaN are NaN, so that one pass finds it
        if math.isnan(low):
            return "must not contain NaN"
        if not (self.low <= low and most <= high):
            beyond = low if low < self.low else most
            return f"must have {in_words(self.low, high, HUGE, 'values from') or 'finite values'}, but has {beyond:g}"
        return None

    def _axes(self) -> str:
        return f"({', '.join(map(str, self.shape))})"


#: The types of arrays of labels.
LABELS = "iufbUS"


@dataclass(frozen=True)
class Record:
    """A mapping with these keys and no others, each of its own kind.

    Parameters
    ----------
    required : dict of name to Kind
        Checked in this order: a size that others depend on comes first.
    optional : dict of name to Kind
        Keys that may be missing.
    rules : functions of the mapping
        What must agree between values that are each of their kind: return what is wrong, or None.
    """

    required: Mapping[str, Kind] = field(default_factory=dict)
    optional: Mapping[str, Kind] = field(default_factory=dict)
    rules: Sequence[Callable[[Mapping[str, Any]], str | None]] = ()

    words = "a mapping"

    def __or__(self, other: Record) -> Record:
        """The entries and rules of both; those of ``other`` replace entries of the same name."""
        required = {**self.required, **other.required}
        optional = {name: kind for name, kind in {**self.optional, **other.optional}.items() if name not in required}
        return Record(required, optional, (*self.rules, *other.rules))

    def problem(self, value: Any, sizes: Sizes) -> str | None:
        """As in `Kind`."""
        if not isinstance(value, Mapping):
            return _unfit(self, value)
        # First of all: a file of a later version should be recognised as such, and not by a detail that changed.
        unknown = [name for name in value if name not in self.required and name not in self.optional]
        if unknown:
            return f"{shown(unknown[0])} is unknown; a later version of mixnorm may have written it"
        missing = [name for name in self.required if name not in value]
        if missing:
            return f"{missing[0]!r} is missing"
        # Required entries first, because they define the sizes that optional ones refer to.
        for name, kind in {**self.required, **self.optional}.items():
            problem = kind.problem(value[name], sizes) if name in value else None
            if problem is not None:
                return f"{name!r}: {problem}" if isinstance(kind, Record) else f"{name!r} {problem}"
        return next((problem for rule in self.rules if (problem := rule(value)) is not None), None)


def _bind(sizes: Sizes, letter: str, value: int) -> str | None:
    """Note the value of a letter, or say that it had another."""
    if sizes.setdefault(letter, value) != value:
        return f"must agree with {letter} = {sizes[letter]}, but it gives {value}"
    return None
