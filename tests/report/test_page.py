import base64
import copy
import hashlib
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from mixnorm.report.page import check_selection, page_html, read_selection, write_page
from selections import selection

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


def lookup(document, where):
    for key in where:
        document = document[key]
    return document


def test_page_holds_the_selection_exactly():
    wanted = selection(10)
    assert json.loads(Parts(page_html(wanted)).text("script", type="application/json", id="selection")) == wanted


def test_hostile_texts_stay_texts():
    wanted = selection(
        names=("Cz", HOSTILE, "Pz"), recommended={"n_sensors": 1, "reason": HOSTILE, "caution": HOSTILE}
    )
    wanted["source"]["recordings"] = [HOSTILE]
    text = page_html(wanted)
    parts = Parts(text)
    assert json.loads(parts.text("script", type="application/json", id="selection")) == wanted
    assert [tag for tag, _ in parts.tags].count("script") == 2
    assert parts.text("title") == f"{HOSTILE}: which electrodes?"
    assert not set("\u2028\u2029") & set(text.partition("</title>")[2])


def test_nothing_is_fetched_from_anywhere():
    text = page_html(selection(8))
    for tag, attributes in Parts(text).tags:
        links = [attributes[name] for name in ("src", "href", "action", "srcset", "data") if name in attributes]
        assert all(link.startswith(("#", "data:")) for link in links), (tag, links)
    assert re.findall(r"\w+://[\w./]*", text) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"@import|url\(|@font-face|fetch\(|XMLHttpRequest|import\(|innerHTML|eval\(", text)


def test_policy_lets_our_script_and_style_run_and_nothing_else():
    parts = Parts(page_html(selection(8)))
    (policy,) = [a["content"] for tag, a in parts.tags if a.get("http-equiv") == "Content-Security-Policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    for rule, text in (("script-src", parts.text("script")), ("style-src", parts.text("style"))):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    # a style attribute would be refused by that policy
    assert not [a for _, a in parts.tags if "style" in a or any(name.startswith("on") for name in a)]


@pytest.mark.parametrize(
    ("inside", "key"),
    [
        *(((), key) for key in ("source", "sensors", "montages", "recommended", "curves", "stability", "path")),
        *(((), key) for key in ("times", "evoked", "by_subject")),
        *((("source",), key) for key in ("recordings", "classes", "unit", "folds", "optimistic")),
        (("source", "folds"), "by"),
        *((("sensors", 2), key) for key in ("name", "x", "y", "keep", "forbid", "cost", "stability")),
        *((("montages", 3), key) for key in ("n_sensors", "sensors", "auc", "low", "high", "cost", "drop")),
        *((("montages", 3), key) for key in ("weights", "patterns")),
        (("montages", 3, "drop"), "auc_change"),
        (("recommended",), "reason"),
        (("recommended",), "caution"),
        (("curves", 1), "auc"),
        (("stability",), "statement"),
        (("path",), "alphas"),
        (("evoked",), "target"),
        (("evoked", "target"), "Pz"),
        (("by_subject", 1), "common_auc"),
        (("by_subject", 1), "newcomer_auc"),
    ],
)
def test_a_missing_key_is_named(inside, key):
    found = selection(8, subjects=("S1", "S2"))
    check_selection(found)
    del lookup(found, inside)[key]
    where = re.sub(r"\.(\d+)", r"[\1]", ".".join(map(str, inside))) or "selection"
    with pytest.raises(ValueError, match=f"^{re.escape(where)}: '{key}' is missing"):
        check_selection(found)


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (("format",), "something", 'selection: not a selection, which says "format": "mixnorm-selection"'),
        (("version",), 2, "version 2; this mixnorm shows version 1"),
        (("sensors",), [], "sensors: there are none"),
        (("sensors", 1, "name"), "Pz", "sensors: Pz named twice"),
        (("montages",), [], "montages: there are none"),
        (("montages", 0, "sensors"), ["Nowhere"], r"montages\[0\].sensors: 'Nowhere' is not among the sensors"),
        (("montages", 2, "n_sensors"), 4, r"montages\[2\]: n_sensors is 4 with 3 names, after 2"),
        (("montages", 2, "auc"), float("nan"), r"selection.montages\[2\].auc: nan; what does not exist is null"),
        (("montages", 2, "auc"), np.float32(0.5), r"montages\[2\].auc: .* is a float32, which JSON does not know"),
        (("montages", 1), None, r"montages\[1\]: should be an object, is None"),
        (("recommended", "n_sensors"), 9, "recommended.n_sensors: no montage has 9 sensors"),
        (("curves", 1, "auc"), [0.5], r"curves\[1\].auc \(SNR ranking\): not as long as its n_sensors"),
        (("evoked", "target", "Pz"), [0.5], "evoked.target.Pz: 1 values for 24 times"),
    ],
)
def test_what_contradicts_itself_is_refused(where, value, message):
    found = selection(8)
    lookup(found, where[:-1])[where[-1]] = value
    with pytest.raises(ValueError, match=message):
        page_html(found)


def test_montages_ascend():
    found = selection(8)
    found["montages"][1], found["montages"][2] = found["montages"][2], found["montages"][1]
    with pytest.raises(ValueError, match=r"montages\[2\]: n_sensors is 2 with 2 names, after 3"):
        check_selection(found)


def test_what_does_not_exist_may_be_null_and_more_may_be_there():
    nothing = {"stability": None, "path": None, "evoked": None, "by_subject": None}
    check_selection(selection(8, **nothing, notes="more than the page shows"))


def test_a_page_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    path = write_page(selection(8), tmp_path / "page.html")
    before = path.read_text(encoding="utf-8")
    assert before == page_html(selection(8))
    broken = copy.deepcopy(selection(8))
    del broken["times"]
    with pytest.raises(ValueError, match="'times' is missing"):
        write_page(broken, path)

    def full(*_):
        raise OSError("no room")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="no room"):
        write_page(selection(10), path)
    assert path.read_text(encoding="utf-8") == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["page.html"]


def test_a_file_that_is_no_selection_is_named(tmp_path):
    path = tmp_path / "selection.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"selection.json: Expecting property name"):
        read_selection(path)
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(ValueError, match=r"selection.json: selection: not a selection"):
        read_selection(path)
    path.write_text(json.dumps(selection(8)), encoding="utf-8")
    assert read_selection(path) == selection(8)
