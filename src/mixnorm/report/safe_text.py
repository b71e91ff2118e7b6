"""Names from recordings and plans as text that other programs show and do not interpret.

A terminal follows escape sequences, a spreadsheet computes formulas, LaTeX has commands that read and write files, and
Markdown is turned into HTML. There is one function for each of them.
"""

from __future__ import annotations

import json
import re
import unicodedata

# Control characters, bidirectional overrides, lone surrogates, and separators of lines and paragraphs.
_NOT_SHOWN = ("Cc", "Cf", "Cs", "Zl", "Zp")
# Full-width forms are formulas too in East Asian versions of spreadsheets.
_FORMULA = re.compile(r"'*[=+\-@＝＋－＠\t\r\n]")
# The characters of Markdown and, before a letter or a sign of a tag, of HTML.
_MARKDOWN = re.compile(r"[\\`*_\[\]|~&]|<(?=[A-Za-z/!?])")
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "–": "--",
    "±": r"$\pm$",
    # After the end of a row these two would be its arguments.
    "[": "{[}",
    "*": "{*}",
    **{sign: f"\\{sign}" for sign in "%_&#${}"},
}


def for_terminal(text: str, keep: str = "") -> str:
    r"""Write characters that could control a terminal as escape sequences; those in ``keep`` stay.

    Examples
    --------
    >>> print(for_terminal("Cz\x1b[31m"))
    Cz\x1b[31m
    """
    return "".join(_escaped(one) if one not in keep else one for one in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii") if _is_hidden(character) else character


def _is_hidden(character: str) -> bool:
    return unicodedata.category(character) in _NOT_SHOWN


def for_json(text: str) -> str:
    r"""JSON with the characters that could control a terminal written as ``\uXXXX``, which means the same.

    Examples
    --------
    >>> print(for_json('{"name": "Cz\x9b31m"}'))
    {"name": "Cz\u009b31m"}
    """
    # The text is JSON already: its line breaks are those of the layout, and inside strings they are escaped.
    return "".join(json.dumps(one)[1:-1] if one != "\n" and _is_hidden(one) else one for one in text)


def for_markdown(text: str) -> str:
    r"""Text that Markdown shows as it is: no cell, link, image, emphasis or HTML.

    Examples
    --------
    >>> print(for_markdown("a|b <img src=x> <0.001"))
    a\|b \<img src=x> <0.001
    """
    return _MARKDOWN.sub(r"\\\g<0>", for_terminal(text))


def for_latex(text: str) -> str:
    r"""Text that LaTeX typesets as it is: no command, group, mathematics or comment.

    Examples
    --------
    >>> print(for_latex(r"\input{/etc/passwd} 5 %"))
    \textbackslash{}input\{/etc/passwd\} 5 \%
    """
    return "".join(_LATEX.get(one, one) for one in for_terminal(text))


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
