import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from mixnorm.report.page import page_html, write_page
from selections import selection, typed
from unsure import HEADLINE, unsure

HOSTILE = '</script><script>alert(1)</script><!--<script "\u2028\u2029& {{script}} é'


class Parts(HTMLParser):
    """Tags with their attributes, and the texts of the elements that hold raw text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.raw, self.inside = [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style", "title"):
            self.inside = tag
            self.raw.append([tag, dict(attrs), ""])

    def handle_endtag(self, tag):
        if tag == self.inside:
            self.inside = None

    def handle_data(self, data):
        if self.inside:
            self.raw[-1][2] += data

    def text(self, tag, **attributes):
        (found,) = [text for name, has, text in self.raw if name == tag and attributes.items() == has.items()]
        return found


def test_page_contains_the_document_exactly():
    wanted = selection(10)
    assert (
        json.loads(Parts(page_html(typed(wanted))).text("script", type="application/json", id="selection")) == wanted
    )


def test_the_page_says_why_weights_are_not_sources():
    assert "Weights do not show where activity comes from" in page_html(typed(selection(10)))


def test_hostile_texts_stay_texts():
    wanted = selection(names=("Cz", HOSTILE, "Pz"), subjects=("S1", HOSTILE))
    wanted["source"]["recordings"] = [HOSTILE]
    wanted["curves"][1]["method"] = HOSTILE
    text = page_html(typed(wanted))
    parts = Parts(text)
    assert json.loads(parts.text("script", type="application/json", id="selection")) == wanted
    assert [tag for tag, _ in parts.tags].count("script") == 2
    assert parts.text("title") == f"{HOSTILE}: which electrodes?"
    assert not set("\u2028\u2029") & set(text.partition("</title>")[2])


def test_nothing_is_loaded_from_elsewhere():
    text = page_html(typed(selection(8)))
    for tag, attributes in Parts(text).tags:
        links = [attributes[name] for name in ("src", "href", "action", "srcset", "data") if name in attributes]
        assert all(link.startswith(("#", "data:")) for link in links), (tag, links)
    assert re.findall(r"\w+://[\w./]*", text) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"@import|url\(|@font-face|fetch\(|XMLHttpRequest|import\(|innerHTML|eval\(", text)


def test_policy_lets_our_script_and_style_run_and_nothing_else():
    parts = Parts(page_html(typed(selection(8))))
    (policy,) = [a["content"] for tag, a in parts.tags if a.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    for rule, text in (("script-src", parts.text("script")), ("style-src", parts.text("style"))):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    # a style attribute would be refused by that policy
    assert not [a for _, a in parts.tags if "style" in a or any(name.startswith("on") for name in a)]


def test_a_page_appears_complete_or_not_at_all(tmp_path, monkeypatch):
    path = write_page(typed(selection(8)), tmp_path / "page.html")
    before = path.read_text(encoding="utf-8")
    assert before == page_html(typed(selection(8)))

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="no space left"):
        write_page(typed(selection(10)), path)
    assert path.read_text(encoding="utf-8") == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    "make, verdict, label, headline",
    [
        (selection, "recommended", "recommended", ""),
        (lambda n: asked(selection(n), 2), "asked", "asked for", ""),
        (lambda n: unsure(selection(n)), "unsure", "smallest near the best", HEADLINE),
        (lambda n: unsure(selection(n), 2), "unsure", "asked for", HEADLINE),
    ],
)
def test_the_page_says_whether_the_montage_is_recommended_asked_for_or_unsure(make, verdict, label, headline):
    text = page_html(typed(make(8)))
    assert f'<body data-verdict="{verdict}" data-label="{label}">' in text
    assert f'<h1 id="answer">{headline}</h1>' in text


def asked(found, n):
    found["recommended"] |= {"verdict": "asked", "n_asked": n, "n_sensors": n}
    return found
