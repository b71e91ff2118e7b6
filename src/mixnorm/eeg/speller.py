"""The description of a speller: its symbols, and which of them every flash code lights up."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: The rows of the usual matrix.
SYMBOLS_6X6 = ("ABCDEF", "GHIJKL", "MNOPQR", "STUVWX", "YZ1234", "56789_")


class SpellerError(ValueError):
    """A description of a speller that cannot be used, or flashes that do not belong to it.

    See Also
    --------
    Speller : Raises it where its description is not valid.
    read_speller : Raises it for files.

    Examples
    --------
    >>> from mixnorm.eeg import Speller, SpellerError
    >>> try:
    ...     Speller.named("7x7")
    ... except SpellerError as error:
    ...     print(error)
    Unknown matrix '7x7'; there are ...
    """


@dataclass(frozen=True)
class Speller:
    """Symbols, and the symbols that each flash code lights up: rows and columns of a matrix, or any other sets.

    Attributes
    ----------
    symbols : tuple of str
        In the order of the matrix, row by row.
    codes : tuple of int
        The flash codes, ascending.
    sets : tuple of tuples of str
        The symbols of every code.
    name : str
        For messages.

    See Also
    --------
    read_speller : Reads one from a matrix file.
    spell : Spells recordings with it.
    StreamSpeller : Spells on a stream with it.

    Examples
    --------
    >>> from mixnorm.eeg import Speller
    >>> speller = Speller.of_matrix(["AB", "CD"], rows=[1, 2], columns=[3, 4])
    >>> speller.symbols, speller.sets[speller.codes.index(3)]
    (('A', 'B', 'C', 'D'), ('A', 'C'))
    >>> Speller.of_codes({1: "A", 2: "B", 3: "C"}).codes
    (1, 2, 3)
    """

    symbols: tuple[str, ...]
    codes: tuple[int, ...]
    sets: tuple[tuple[str, ...], ...] = field(repr=False)
    name: str = "speller"

    def __post_init__(self) -> None:
        _check_symbols(self)
        _check_distinct(self)

    @classmethod
    def of_matrix(
        cls, symbols: Sequence[Sequence[str]], rows: Sequence[int], columns: Sequence[int], name: str = "matrix"
    ) -> Speller:
        """A matrix whose rows and columns flash.

        Parameters
        ----------
        symbols : sequence of rows
            Each a string, one symbol per letter, or a sequence of strings.
        rows, columns : sequences of int
            Their flash codes, from top to bottom and from left to right.
        name : str
            For messages.

        Returns
        -------
        Speller
            With one code for each row and column.
        """
        widths = {len(row) for row in symbols}
        if len(widths) != 1 or widths == {0}:
            raise SpellerError(f"{name}: the rows of 'symbols' must be of one length, but got {list(symbols)!r}.")
        for what, given, needed in (("rows", rows, len(symbols)), ("columns", columns, widths.pop())):
            if len(given) != needed:
                raise SpellerError(f"{name}: '{what}' must give {needed} codes, one for each, but gives {len(given)}.")
        sets = {code: tuple(row) for code, row in zip(rows, symbols, strict=True)}
        down = {code: tuple(column) for code, column in zip(columns, zip(*symbols, strict=True), strict=True)}
        # A dict keeps one of two equal codes: codes that occur twice are found by counting.
        repeated = sorted(set(sets) & set(down))
        if len(sets) < len(rows) or len(down) < len(columns) or repeated:
            raise SpellerError(f"{name}: every row and column needs a flash code of its own; check {rows}, {columns}.")
        return cls.of_codes(sets | down, [symbol for row in symbols for symbol in row], name)

    @classmethod
    def of_codes(
        cls, codes: Mapping[int, Sequence[str]], symbols: Sequence[str] | None = None, name: str = "codes"
    ) -> Speller:
        """Any sets of symbols: a checkerboard, single characters, rapid serial presentation.

        Parameters
        ----------
        codes : mapping
            Flash code → its symbols, a string or a sequence of strings.
        symbols : sequence of str, optional
            All symbols; by default those of the codes, in order of appearance.
        name : str
            For messages.

        Returns
        -------
        Speller
            With these codes, in ascending order.
        """
        ordered = sorted(codes)
        sets = tuple(tuple(codes[code]) for code in ordered)
        found = tuple(dict.fromkeys(symbol for own in sets for symbol in own))
        return cls(found if symbols is None else tuple(symbols), tuple(ordered), sets, name)

    @classmethod
    def named(cls, name: str) -> Speller:
        """One of `MATRICES`, or a matrix file (.toml).

        Parameters
        ----------
        name : str
            A key of `MATRICES`, or the path of a matrix file.

        Returns
        -------
        Speller
            The speller of this name.
        """
        if name in MATRICES:
            return MATRICES[name]
        # A .toml that does not exist is a missing file, and not an unknown matrix.
        if name.endswith(".toml") or Path(name).exists():
            return read_speller(name)
        raise SpellerError(f"Unknown matrix {name!r}; there are {', '.join(MATRICES)}, or give a .toml file.")

    @property
    def members(self) -> NDArray[np.bool_]:
        """Whether a code lights up a symbol, (codes, symbols)."""
        return np.array([[symbol in own for symbol in self.symbols] for own in self.sets])

    def place(self, code: int) -> int:
        """Position of a code; an error for a code that the speller does not have.

        Parameters
        ----------
        code : int
            Flash code.

        Returns
        -------
        int
            Index in `codes`.
        """
        if code not in self.codes:
            raise SpellerError(
                f"{self.name}: it has no flash code {code}; its codes are {_listed(map(str, self.codes))}. Describe "
                "the speller of this recording in a matrix file."
            )
        return self.codes.index(code)

    def symbol_of(self, target: Mapping[int, bool]) -> str | None:
        """The symbol that is lit by exactly the target codes among those given; None where it is not unique.

        Parameters
        ----------
        target : mapping of int to bool
            Flash code → whether its flashes were targets.

        Returns
        -------
        str or None
            The symbol.

        Examples
        --------
        >>> MATRICES["6x6"].symbol_of({code: code in (3, 7) for code in range(1, 13)})
        'C'
        """
        rows = [self.place(code) for code in target]
        wanted = np.array(list(target.values()))
        found = np.flatnonzero((self.members[rows] == wanted[:, None]).all(axis=0))
        return self.symbols[found[0]] if len(found) == 1 else None

    def describe(self) -> str:
        """Name, number of symbols and codes.

        Returns
        -------
        str
            One line, for messages.

        Examples
        --------
        >>> MATRICES["6x6"].describe()
        '6x6 (36 symbols, 12 flash codes)'
        """
        return f"{self.name} ({len(self.symbols)} symbols, {len(self.codes)} flash codes)"


def read_speller(path: str | Path) -> Speller:
    r"""Read a matrix file.

    It holds ``symbols``, ``rows`` and ``columns``, or a table ``[codes]`` from code to symbols.

    Parameters
    ----------
    path : str or path
        A TOML file.

    Returns
    -------
    Speller
        Its name is the path.

    See Also
    --------
    Speller.of_matrix : The same in Python.
    Speller.of_codes : Any other sets of symbols.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from mixnorm.eeg import read_speller
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "matrix.toml"
    ...     _ = file.write_text('symbols = ["AB", "CD"]\nrows = [1, 2]\ncolumns = [3, 4]')
    ...     speller = read_speller(file)
    >>> speller.symbols
    ('A', 'B', 'C', 'D')
    """
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpellerError(f"{path}: not a TOML file ({error}).") from error
    unknown = sorted(set(content) - {"symbols", "rows", "columns", "codes"})
    if unknown:
        raise SpellerError(f"{path}: unknown key {unknown[0]!r}; allowed are symbols, rows, columns and codes.")
    if "codes" in content:
        return Speller.of_codes(_codes(content["codes"], path), content.get("symbols"), str(path))
    missing = [key for key in ("symbols", "rows", "columns") if key not in content]
    if missing:
        raise SpellerError(
            f"{path}: no {', '.join(missing)} in it; give symbols, rows and columns, or a table [codes]."
        )
    for key in ("symbols", "rows", "columns"):
        if not isinstance(content[key], list):
            raise SpellerError(f"{path}: {key!r} must be a list, but is {content[key]!r}.")
    for key in ("rows", "columns"):
        # true is an integer in Python, but no flash code
        odd = [code for code in content[key] if not isinstance(code, int) or isinstance(code, bool)]
        if odd:
            raise SpellerError(f"{path}: {key!r} must hold flash codes (integers), but holds {odd[0]!r}.")
    return Speller.of_matrix(content["symbols"], content["rows"], content["columns"], str(path))


def _codes(table: Any, path: str | Path) -> dict[int, Sequence[str]]:
    if not isinstance(table, dict):
        raise SpellerError(f"{path}: [codes] must be a table from flash code to symbols, but is {table!r}.")
    codes: dict[int, Sequence[str]] = {}
    for key, own in table.items():
        # keys of TOML are always strings
        if not key.lstrip("-").isdigit():
            raise SpellerError(f"{path}: a key of [codes] must be a flash code (an integer), but got {key!r}.")
        if not (isinstance(own, str) or (isinstance(own, list) and all(isinstance(one, str) for one in own))):
            raise SpellerError(f"{path}: the symbols of code {key} must be a string or strings, but are {own!r}.")
        codes[int(key)] = own
    return codes


def _check_symbols(speller: Speller) -> None:
    name, known = speller.name, set(speller.symbols)
    if len(speller.symbols) < 2:
        raise SpellerError(f"{name}: a speller needs at least two symbols, but has {len(speller.symbols)}.")
    odd = [one for one in speller.symbols if not isinstance(one, str) or not one]
    if odd:
        raise SpellerError(f"{name}: a symbol must be a text of at least one letter, but got {odd[0]!r}.")
    if len(known) < len(speller.symbols):
        twice = next(symbol for symbol in speller.symbols if speller.symbols.count(symbol) > 1)
        raise SpellerError(f"{name}: the symbol {twice!r} occurs twice; give every symbol a name of its own.")
    for code, own in zip(speller.codes, speller.sets, strict=True):
        strange = [symbol for symbol in own if symbol not in known]
        if strange:
            raise SpellerError(f"{name}: code {code} lights {strange[0]!r}, which is not among the symbols.")


def _check_distinct(speller: Speller) -> None:
    """Refuse codes that cannot tell two symbols apart: every one of their flashes has both or neither of them."""
    patterns: dict[bytes, list[str]] = {}
    for symbol, column in zip(speller.symbols, speller.members.T, strict=True):
        patterns.setdefault(column.tobytes(), []).append(symbol)
    alike = [own for own in patterns.values() if len(own) > 1]
    if alike:
        raise SpellerError(
            f"{speller.name}: the flash codes cannot tell {_listed(alike[0])} apart, because every code lights all of "
            "them or none; give codes that separate them."
        )


def _listed(items: Any, most: int = 15) -> str:
    shown = list(items)
    return ", ".join(shown[:most]) + (", …" if len(shown) > most else "")


_LOW, _HIGH = tuple(range(1, 7)), tuple(range(7, 13))
#: Name → speller. BCI competition files number the columns first, other BCI2000 recordings the rows.
MATRICES: dict[str, Speller] = {
    "6x6": Speller.of_matrix(SYMBOLS_6X6, rows=_HIGH, columns=_LOW, name="6x6"),
    "6x6-rows-first": Speller.of_matrix(SYMBOLS_6X6, rows=_LOW, columns=_HIGH, name="6x6-rows-first"),
}
