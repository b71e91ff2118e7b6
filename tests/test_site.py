"""The check of the built site finds what is broken; the site itself is checked after it is built (.ci/run)."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "docs" / "check_site.py"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="the docs are not part of the source distribution")


@pytest.fixture
def check():
    spec = importlib.util.spec_from_file_location("check_site", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def site(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "picture.png").write_bytes(b"")
    page = '<a href="other.html#there">x</a><a href="#here" id="here">y</a><img src="picture.png"><a href="https://x.org">z</a>'
    (tmp_path / "docs" / "index.html").write_text(page, encoding="utf-8")
    (tmp_path / "docs" / "other.html").write_text('<h1 id="there">Other</h1>', encoding="utf-8")
    return tmp_path


def add(site, markup):
    (site / "docs" / "third.html").write_text(markup, encoding="utf-8")


def test_a_whole_site_has_no_faults(check, site):
    assert list(check.broken_links(site)) == []


@pytest.mark.parametrize(
    ("markup", "fault"),
    [
        ('<a href="gone.html">x</a>', "docs/third.html: gone.html leads to no file."),
        ('<a href="other.html#gone">x</a>', "docs/third.html: other.html#gone leads to no anchor."),
        ('<a href="#gone">x</a>', "docs/third.html: #gone leads to no anchor."),
        ('<img src="gone.png">', "docs/third.html: gone.png leads to no file."),
        ('<script src="https://x.org/a.js"></script>', "docs/third.html: needs https://x.org/a.js, which is not part"),
        ('<link rel="stylesheet" href="//x.org/a.css">', "docs/third.html: needs //x.org/a.css, which is not part"),
    ],
)
def test_what_leads_nowhere_is_named(check, site, markup, fault):
    add(site, markup)
    (found,) = check.broken_links(site)
    assert found.startswith(fault)


def test_pictures_of_a_style_are_looked_for(check, site):
    (site / "a.css").write_text("p { background: url('docs/picture.png') } b { background: url(gone.svg#x) }")
    assert list(check.broken_links(site)) == ["a.css: gone.svg#x leads to no file."]


def test_the_exit_status_says_whether_there_are_faults(site):
    def run():
        return subprocess.run([sys.executable, str(SCRIPT), str(site)], capture_output=True, text=True, check=False)

    whole = run()
    assert (whole.returncode, whole.stdout) == (0, "2 pages, 0 faults\n")
    add(site, '<a href="gone.html">x</a>')
    assert run().returncode == 1
    (site / "docs" / "index.html").unlink()
    assert "there is no site here; `make docs` builds it" in run().stderr


@pytest.fixture
def browser(check, tmp_path_factory):
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("chromium and chromedriver are not installed (Debian: chromium, chromium-driver)")
    pytest.importorskip("selenium", reason="selenium is not installed (the extra `test`)")
    driver = check.start_browser(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


def test_what_is_too_wide_or_overlaps_is_seen_in_the_browser(check, site, browser):
    assert list(check.faults_of_looks(browser, site, None)) == []
    wide = '<div style="width: 800px">wide</div>'
    above = '<p>some text</p><p style="margin-top: -1.6em">other text</p>'
    add(site, f'<html><meta name="viewport" content="width=device-width">{wide}{above}</html>')
    found = list(check.faults_of_looks(browser, site, None))
    # 800 pixels and a margin fit into 1280, not into 390
    assert [line.partition(" pixels too wide")[0].rpartition(" ")[0] for line in found if "too wide" in line] == [
        "docs/third.html, 390 pixels, light:",
        "docs/third.html, 390 pixels, dark:",
    ]
    overlaps = [line for line in found if "text on text: some text | other text" in line]
    assert len(overlaps) == 4
    assert len(found) == 6


def test_text_that_is_cut_off_is_seen_and_text_that_scrolls_is_allowed(check, site, browser):
    row = '<div style="overflow-x: {}"><div style="width: 800px">{}</div></div>'
    text = "long " * 40
    add(site, row.format("auto", text))
    assert list(check.faults_of_looks(browser, site, None)) == []
    add(site, row.format("hidden", text))
    found = list(check.faults_of_looks(browser, site, None))
    assert [line.partition(" long")[0] for line in found] == [
        f"docs/third.html, 390 pixels, {scheme}: text that is cut off at the right:" for scheme in ("light", "dark")
    ]


def test_a_search_without_results_is_a_fault(check, site, browser, monkeypatch):
    monkeypatch.setattr(check, "PATIENCE", 3)
    page = "<button class='search-button' onclick='document.querySelector(\"input\").focus()'>s</button><input>"
    (site / "docs" / "index.html").write_text(page, encoding="utf-8")
    (found,) = check.faults_of_search(browser, site)
    assert found.startswith("Search for 'shrinkage': nothing was found")
    index = page + '<ul class="search"><li><a href="other.html">a</a></li><li><a href="gone.html">b</a></li></ul>'
    (site / "docs" / "index.html").write_text(index, encoding="utf-8")
    (found,) = check.faults_of_search(browser, site)
    assert "gone.html leads to no file" in found
