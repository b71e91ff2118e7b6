"""What a lab wishes of a montage, by the names of its electrodes: which to keep, which to forbid, what each costs."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from mixnorm.eeg.positions import standard_name
from mixnorm.montage.elimination import Wishes


def wishes_by_name(
    ch_names: Sequence[str],
    keep: Iterable[str] = (),
    forbid: Iterable[str] = (),
    cost: Mapping[str, float] | None = None,
) -> Wishes:
    """Check names against those of a recording, and costs; sensors without a cost cost 1.

    Spelling that differs in case, dots or an ``EEG`` prefix is understood, as by `standard_name`.
    """
    n = len(ch_names)
    kept, out, price = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool), np.ones(n)
    kept[[place_of(name, ch_names, "keep") for name in keep]] = True
    out[[place_of(name, ch_names, "forbid") for name in forbid]] = True
    for name, value in (cost or {}).items():
        if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
            raise ValueError(f"The cost of {name!r} must be a number above 0, but it is {value!r}; forbid it instead?")
        price[place_of(name, ch_names, "cost")] = value
    both = np.flatnonzero(kept & out)
    if len(both):
        raise ValueError(f"{', '.join(ch_names[i] for i in both)}: cannot be both kept and forbidden.")
    if out.all():
        raise ValueError(f"All {n} sensors are forbidden; there is nothing left to choose from.")
    return Wishes(kept, out, price)


def place_of(name: str, ch_names: Sequence[str], where: str) -> int:
    """Position of a name among those of the recording; the nearest names are offered where it is none of them."""
    if name in ch_names:
        return list(ch_names).index(name)
    usual = [standard_name(own) or own.lower() for own in ch_names]
    meant = standard_name(name) or name.strip().lower()
    if usual.count(meant) == 1:
        return usual.index(meant)
    near = difflib.get_close_matches(name.lower(), [own.lower() for own in ch_names], n=3, cutoff=0.5)
    offered = [own for low in near for own in ch_names if own.lower() == low]
    hint = f"did you mean {' or '.join(dict.fromkeys(offered))}? " if offered else ""
    raise ValueError(f"{where} names {name!r}, which is no sensor here; {hint}There are {', '.join(ch_names)}.")


def read_costs(path: str | Path) -> dict[str, float]:
    """Read what electrodes cost: a JSON object, or lines of a name and a number (tab, comma or blank between).

    Lines that begin with # are comments; a first line that ends in the word cost is a heading.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: this is no text: {error}.") from error
    if path.suffix.lower() == ".json" or text.lstrip().startswith(("{", "[")):
        try:
            found = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}: this is no JSON: {error}.") from error
        if not isinstance(found, dict):
            raise ValueError(f"{path}: a JSON file of costs holds one object, {{name: cost}}.")
        return found
    costs: dict[str, float] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.replace(",", " ").replace("\t", " ").split()
        if not words or line.lstrip().startswith("#"):
            continue
        try:
            name, value = " ".join(words[:-1]), float(words[-1])
        except ValueError:
            if number == 1 and words[-1].lower() == "cost":
                continue
            raise ValueError(f"{path}, line {number}: a name and a number are needed, but it is {line!r}.") from None
        if not name:
            raise ValueError(f"{path}, line {number}: a name and a number are needed, but it is {line!r}.")
        if name in costs:
            raise ValueError(f"{path}, line {number}: {name} has a cost already.")
        costs[name] = value
    if not costs:
        raise ValueError(f"{path}: there is no cost in it; lines of a name and a number are needed.")
    return costs
