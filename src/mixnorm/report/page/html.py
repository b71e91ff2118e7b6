"""One HTML file from a selection: template, style, scripts and the selection itself, nothing fetched from anywhere."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from mixnorm.core.files import write_text
from mixnorm.report.page.contract import check_selection, headline, standing

PAGE_NAME = "index.html"
"""What the page is called in a folder of results."""

_SCRIPTS = tuple(
    f"{name}.js" for name in ("dom", "numbers", "plot", "head", "curve", "traces", "path", "tables", "page")
)


def write_page(selection: dict[str, Any], path: str | Path) -> Path:
    """Write the page of a selection; the file appears whole or not at all.

    Parameters
    ----------
    selection : dict
        What ``selection.json`` holds.
    path : path
        The HTML file.

    Raises
    ------
    ValueError
        Where the selection lacks a key or contradicts itself; nothing is written then.
    """
    return write_text(path, page_html(selection))


def page_html(selection: dict[str, Any]) -> str:
    """The page as text."""
    check_selection(selection)
    style = _part("page.css")
    script = '"use strict";\n' + "\n".join(_part(name) for name in _SCRIPTS)
    parts = {
        "policy": _policy(script, style),
        "title": html.escape(f"{', '.join(selection['source']['recordings'][:3])}: which electrodes?"),
        "headline": headline(selection),
        "standing": standing(selection),
        "style": style,
        "selection": _embedded(selection),
        "script": script,
    }
    # one pass: what is put in is never searched for further places
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], _part("template.html"))


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _policy(script: str, style: str) -> str:
    """A content security policy under which nothing runs but our script, and nothing is fetched."""
    return (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _embedded(selection: dict[str, Any]) -> str:
    r"""JSON that can end no script element and is JavaScript too.

    Examples
    --------
    >>> print(_embedded({"name": "</script>\u2028&"}))
    {"name":"\u003c/script\u003e\u2028\u0026"}
    """
    text = json.dumps(selection, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return re.sub("[<>&\u2028\u2029]", lambda sign: f"\\u{ord(sign[0]):04x}", text)
