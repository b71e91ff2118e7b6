"""Names from recordings as text that a terminal, a figure or a spreadsheet shows and does not interpret."""

from __future__ import annotations

import re
import unicodedata

# Control characters, bidirectional overrides, lone surrogates, and separators of lines and paragraphs.
_NOT_SHOWN = ("Cc", "Cf", "Cs", "Zl", "Zp")
_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")


def for_terminal(text: str, keep: str = "") -> str:
    r"""Write characters that could control a terminal as escape sequences; those in ``keep`` stay.

    Examples
    --------
    >>> print(for_terminal("Cz\x1b[31m"))
    Cz\x1b[31m
    """
    return "".join(_escaped(one) if one not in keep else one for one in text)


def _escaped(character: str) -> str:
    hidden = unicodedata.category(character) in _NOT_SHOWN
    return character.encode("unicode_escape").decode("ascii") if hidden else character


def for_figure(text: str) -> str:
    r"""Text that matplotlib draws as it is: a pair of ``$`` would be read as mathematics.

    Examples
    --------
    >>> print(for_figure("$x^{$"))
    \$x^{\$
    """
    return for_terminal(text).replace("$", r"\$")


def for_spreadsheet(text: str) -> str:
    """Text that a spreadsheet does not read as a formula: an apostrophe before ``=``, ``+``, ``-`` or ``@``.

    Text that already has apostrophes before such a character gets one more, so that removing one apostrophe from
    everything that `for_spreadsheet` changed gives the text back: see `from_spreadsheet`.

    Examples
    --------
    >>> for_spreadsheet("=cmd|' /C calc'!A0"), for_spreadsheet("Cz")
    ("'=cmd|' /C calc'!A0", 'Cz')
    """
    return f"'{text}" if _FORMULA.match(text) else text


def from_spreadsheet(text: str) -> str:
    """Undo `for_spreadsheet`.

    Examples
    --------
    >>> from_spreadsheet("'=1"), from_spreadsheet("'Cz")
    ('=1', "'Cz")
    """
    return text[1:] if text[:1] == "'" and _FORMULA.match(text) else text
