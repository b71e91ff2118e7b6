"""One HTML file from a selection: template, style, scripts and the selection; nothing is loaded from elsewhere."""

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
from mixnorm.montage import sentences
from mixnorm.montage.result import SelectionResult

PAGE_NAME = "index.html"
"""File name of the page in a folder of results."""

_SCRIPTS = tuple(
    f"{name}.js"
    for name in ("dom", "numbers", "plot", "head", "curve", "gains", "traces", "path", "tables", "when", "page")
)


def write_page(selection: SelectionResult, path: str | Path) -> Path:
    """Write the page of a selection to an HTML file, which appears complete or not at all."""
    return write_text(path, page_html(selection))


def page_html(selection: SelectionResult) -> str:
    """The page as text."""
    recommended = selection.recommended
    # The policy holds the hashes of exactly these texts, so that nothing else in the file can run.
    style = _part("page.css")
    script = '"use strict";\n' + "\n".join(_part(name) for name in _SCRIPTS)
    parts = {
        "policy": _policy(script, style),
        "title": html.escape(f"{', '.join(selection.source.recordings[:3])}: which electrodes?"),
        "headline": sentences.headline(recommended),
        "verdict": recommended.verdict,
        "label": sentences.label(recommended),
        "decoders": sentences.NEW_SUBJECT,
        "style": style,
        "selection": _embedded(selection.to_json()),
        "script": script,
    }
    # one pass: inserted text is not searched for further placeholders
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], _part("template.html"))


def _part(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _policy(script: str, style: str) -> str:
    """A content security policy under which only our script runs and nothing is loaded."""
    return (
        # A page that a colleague sends must not be able to load or send anything, whatever names the recording has.
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _embedded(document: dict[str, Any]) -> str:
    r"""JSON that cannot end its script element, and that is valid JavaScript too.

    Examples
    --------
    >>> print(_embedded({"name": "</script>\u2028&"}))
    {"name":"\u003c/script\u003e\u2028\u0026"}
    """
    text = json.dumps(document, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return re.sub("[<>&\u2028\u2029]", lambda sign: f"\\u{ord(sign[0]):04x}", text)
