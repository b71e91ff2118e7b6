"""Constraints on a montage, by channel name: which electrodes to keep, which to forbid, and what each costs."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.positions import standard_name


@dataclass(frozen=True, eq=False)
class Constraints:
    """What is decided about the sensors before the search.

    Attributes
    ----------
    keep, forbid : bool ndarrays of shape (G,)
        Sensors that are in every montage, and sensors that are in none.
    cost : ndarray of shape (G,)
        Cost of each sensor, > 0.
    """

    keep: NDArray[np.bool_]
    forbid: NDArray[np.bool_]
    cost: NDArray[np.float64]

    @classmethod
    def none(cls, n_sensors: int) -> Constraints:
        """No constraint: any sensor may be chosen or left out, all at the same cost."""
        return cls(np.zeros(n_sensors, dtype=bool), np.zeros(n_sensors, dtype=bool), np.ones(n_sensors))

    @classmethod
    def by_name(
        cls,
        ch_names: Sequence[str],
        keep: Iterable[str] = (),
        forbid: Iterable[str] = (),
        cost: Mapping[str, float] | None = None,
    ) -> Constraints:
        """Look up channel names in a recording and check the costs; a sensor without a cost costs 1.

        Names may differ from those of the recording in case, dots or an ``EEG`` prefix, as in `standard_name`.
        """
        found = cls.none(len(ch_names))
        found.keep[[channel_index(name, ch_names, "keep") for name in keep]] = True
        found.forbid[[channel_index(name, ch_names, "forbid") for name in forbid]] = True
        for name, value in (cost or {}).items():
            found.cost[channel_index(name, ch_names, "cost")] = _checked_cost(name, value)
        both = np.flatnonzero(found.keep & found.forbid)
        if len(both):
            raise ValueError(f"{', '.join(ch_names[i] for i in both)}: cannot be both kept and forbidden.")
        if found.forbid.all():
            raise ValueError(f"All {len(ch_names)} electrodes are forbidden; allow at least one.")
        return found

    @property
    def allowed(self) -> NDArray[np.intp]:
        """Indices of the sensors that are not forbidden."""
        return np.flatnonzero(~self.forbid)

    @property
    def smallest(self) -> int:
        """Number of sensors of the smallest montage: those to keep, but at least one."""
        return max(1, int(self.keep.sum()))

    @property
    def group_weights(self) -> NDArray[np.float64]:
        """β of the mixed norm: 0 for sensors to keep, ∞ for forbidden ones, otherwise the cost over its mean."""
        free = ~(self.keep | self.forbid)
        # relative to the mean, so that alpha means the same whatever the unit of the costs
        mean = self.cost[free].mean() if free.any() else 1.0
        return np.where(self.forbid, np.inf, np.where(self.keep, 0.0, self.cost / mean))

    def check_size(self, asked: int) -> None:
        """Raise ValueError where no montage of this many sensors can be made."""
        allowed, kept = len(self.allowed), int(self.keep.sum())
        if asked < 1:
            raise ValueError(f"{asked} electrodes were asked for; a montage has at least one.")
        if asked > allowed:
            forbidden = f" ({self.forbid.sum()} forbidden)" if self.forbid.any() else ""
            raise ValueError(f"{asked} electrodes were asked for, but only {allowed} are available{forbidden}.")
        if asked < kept:
            raise ValueError(f"{asked} electrodes were asked for, but {kept} are to be kept; ask for at least {kept}.")


def _checked_cost(name: str, value: object) -> float:
    if not (isinstance(value, int | float) and math.isfinite(value) and value > 0):
        raise ValueError(
            f"The cost of {name!r} must be a number above 0, but got {value!r}. To exclude the electrode, forbid it."
        )
    return value


def channel_index(name: str, ch_names: Sequence[str], option: str) -> int:
    """Index of a channel name in a recording; the error suggests similar names where there is no such channel."""
    # exactly as written first: two channels of a recording may differ in nothing but case
    if name in ch_names:
        return list(ch_names).index(name)
    standard = [standard_name(own) or own.lower() for own in ch_names]
    wanted = standard_name(name) or name.strip().lower()
    # a name that fits several channels is not guessed
    if standard.count(wanted) == 1:
        return standard.index(wanted)
    near = difflib.get_close_matches(name.lower(), [own.lower() for own in ch_names], n=3, cutoff=0.5)
    similar = [own for low in near for own in ch_names if own.lower() == low]
    hint = f"did you mean {' or '.join(dict.fromkeys(similar))}? " if similar else ""
    raise ValueError(f"{option}: unknown channel {name!r}; {hint}available: {', '.join(ch_names)}.")


def read_costs(path: str | Path) -> dict[str, float]:
    r"""Read the costs of electrodes from a file.

    It holds a JSON object, or one name and number per line (tab, comma or space between). Lines that begin with # are
    comments; a first line that ends in the word "cost" is a heading.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    dict of str to float
        Cost of each electrode that is named.

    See Also
    --------
    SelectOptions : Takes them as ``cost``.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from mixnorm.eeg import read_costs
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "costs.csv"
    ...     _ = file.write_text("electrode,cost\nFp1,2\nOz,0.5")
    ...     read_costs(file)
    {'Fp1': 2.0, 'Oz': 0.5}
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not a text file in UTF-8: {error}.") from error
    # by the content, too: a list of electrodes saved as .txt may well be JSON
    if path.suffix.lower() == ".json" or text.lstrip()[:1] in ("{", "["):
        return _costs_of_json(text, path)
    costs = _costs_of_lines(text.splitlines(), path)
    if not costs:
        raise ValueError(f"{path}: no cost found; write one name and number per line.")
    return costs


def _costs_of_json(text: str, path: Path) -> dict[str, float]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: not valid JSON: {error}.") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path}: expected one JSON object, {{name: cost}}.")
    return found


def _costs_of_lines(lines: list[str], path: Path) -> dict[str, float]:
    costs: dict[str, float] = {}
    for number, line in enumerate(lines, 1):
        words = line.replace(",", " ").replace("\t", " ").split()
        if not words or words[0][0] == "#" or (number == 1 and words[-1].lower() == "cost"):
            continue
        # names may contain spaces, as in "EEG Cz"; the number is the last word
        name = " ".join(words[:-1])
        try:
            value = float(words[-1])
        except ValueError:
            name = ""
        if not name:
            raise ValueError(f"{path}, line {number}: expected a name and a number, but got {line!r}.")
        if name in costs:
            raise ValueError(f"{path}, line {number}: {name} already has a cost.")
        costs[name] = value
    return costs
