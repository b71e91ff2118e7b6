"""Values that a file may hold, and how messages show them."""

import math
import reprlib
from typing import Any

import numpy as np

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80
#: Values beyond this are no measurement and no coefficient in any unit, and their products are not finite.
HUGE = 1e100
#: Integers beyond this have no meaning in any file here, and the largest of them have no float.
MOST = 2**63


def shown(value: Any) -> str:
    """A value in at most about 80 characters, control characters escaped."""
    if isinstance(value, np.ndarray):
        return f"an array of type {value.dtype} and shape {value.shape}"
    return _SHORT.repr(value)


def is_number(value: Any) -> bool:
    """Whether a value is a number that a float can hold; NaN and truth values are none."""
    if isinstance(value, int):
        # a larger integer would overflow where it is compared with floats or stored in an array
        return not isinstance(value, bool) and abs(value) <= MOST
    return isinstance(value, float) and not math.isnan(value)


def is_unicode(value: str | np.ndarray) -> bool:
    """Whether text can be written: it has no lone surrogates, and an array no code beyond the last character."""
    if isinstance(value, str):
        return not any("\ud800" <= character <= "\udfff" for character in value)
    # The bytes and not the strings: NumPy raises an error for a code that is no character.
    codes = np.frombuffer(value.astype(value.dtype.newbyteorder("=")).tobytes(), np.uint32)
    return not np.any((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes <= 0xDFFF)))


def is_label(value: Any, depth: int) -> bool:
    """Whether a value is text, a finite number, a truth value, or a tuple of these nested at most so deep."""
    if isinstance(value, tuple):
        return depth > 0 and len(value) <= 100 and all(is_label(item, depth - 1) for item in value)
    if isinstance(value, str):
        return len(value) <= 10_000 and is_unicode(value)
    return isinstance(value, bool) or (is_number(value) and math.isfinite(value))


def in_words(low: float, high: float, unbounded: float, least: str) -> str:
    """The words for a range, without bounds that only say that a value is finite."""
    first, last = (str(bound) if isinstance(bound, int) else f"{bound:g}" for bound in (low, high))
    parts = [] if low <= -unbounded else [f"{least} {first}"]
    parts += [] if high >= unbounded else [f"to {last}" if parts else f"up to {last}"]
    return " ".join(parts)
