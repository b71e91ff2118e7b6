"""Canonical JSON and its SHA-256: the names of the results of a study."""

from __future__ import annotations

import hashlib
import json
from difflib import get_close_matches
from typing import Any


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces; NaN and infinity are refused."""
    # One text for equal values, because its hash is the name of a result.
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def sha256(text: str | bytes) -> str:
    """The full digest in hexadecimal.

    Examples
    --------
    >>> sha256("mixnorm")[:8]
    '7c1bcdcc'
    """
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


def known(word: Any, allowed: Any, what: str) -> str:
    """Return the word; raise an error that names the most similar valid one where it is unknown."""
    allowed = list(allowed)
    if word in allowed:
        return word
    near = get_close_matches(str(word), allowed, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else "no name is similar."
    raise ValueError(f"Unknown {what} {word!r}: {hint} Available: {', '.join(allowed)}.")
