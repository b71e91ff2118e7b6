"""What the user says about the parts of a file: "signal=EEG.data,labels=trig,rate=fs"."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches

from mixnorm.eeg.recording import RecordingError


def parsed(recipe: str | Mapping[str, str], allowed: Collection[str], source: object) -> dict[str, str]:
    """The recipe as a dict; keys that mean nothing for this format are refused.

    Examples
    --------
    >>> parsed("signal=EEG.data, rate=256", ("signal", "rate"), "a.mat")
    {'signal': 'EEG.data', 'rate': '256'}
    """
    found = dict(recipe) if isinstance(recipe, Mapping) else _pairs(recipe, source)
    for key, value in found.items():
        if key not in allowed:
            raise RecordingError(
                source, f"the recipe has the key {key!r}{nearest(key, allowed)}", f"possible: {', '.join(allowed)}"
            )
        # the question marks of a suggested recipe that were not filled in
        if str(value).strip() in ("", "?"):
            raise RecordingError(
                source, f"the recipe does not say what {key} is", f"write {key}=NAME, or leave it out"
            )
    return {key: str(value).strip() for key, value in found.items()}


def nearest(name: str, names: Collection[str]) -> str:
    """A question that offers the most similar name, or nothing where none is similar."""
    plain = {other.lower(): other for other in names}
    similar = get_close_matches(name.lower(), plain, n=1, cutoff=0.5)
    return f" (did you mean {plain[similar[0]]!r}?)" if similar else ""


def _pairs(recipe: str, source: object) -> dict[str, str]:
    found = {}
    for part in filter(None, (part.strip() for part in recipe.split(","))):
        key, equals, value = part.partition("=")
        if not equals:
            raise RecordingError(source, f"the recipe has {part!r}", "write it as KEY=NAME,KEY=NAME")
        found[key.strip()] = value.strip()
    return found
