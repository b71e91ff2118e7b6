"""Check the built documentation site: links, and with ``--browser`` how its pages look and whether its search works.

    python docs/check_site.py docs/_build/html
    python docs/check_site.py docs/_build/html --browser --pictures pictures

Links: every link to a page, an anchor, an image, a script or a style of the site leads somewhere, and nothing that a
page needs comes from a network. Browser (Chromium, from disk): every page at 1280 and 390 pixels, light and dark, has
no sideways scroll, no text on other text, and complains of nothing; a word that is typed into the search is found.
"""

import argparse
import base64
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Attributes that name another file → whether the page cannot be shown without it.
NEEDED = {("a", "href"): False, ("link", "href"): True, ("img", "src"): True, ("script", "src"): True}
#: Templates of the theme, which are no pages.
NO_PAGES = ("_static/webpack-macros.html",)
WIDTHS, SCHEMES = (1280, 390), ("light", "dark")
#: How many twentieths of a second the search may take.
PATIENCE = 400
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage")


class Page(HTMLParser):
    """The anchors and the links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = {"", "top"}
        self.links: list[tuple[str, bool]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep ids, names and links."""
        values = dict(attrs)
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        # where the page would be on the network, and its icon, are not shown
        if tag == "link" and values.get("rel") not in ("stylesheet", "preload"):
            return
        for (kind, name), needed in NEEDED.items():
            if kind == tag and values.get(name):
                self.links.append((values[name], needed))


def pages_of(site: Path) -> list[Path]:
    """The HTML files of the site, sorted."""
    found = sorted(site.rglob("*.html"))
    return [path for path in found if path.relative_to(site).as_posix() not in NO_PAGES]


def broken_links(site: Path) -> Iterator[str]:
    """One sentence for every link that leads nowhere, and for everything that would be loaded from a network."""
    site = site.resolve()
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in pages_of(site)}
    for path, page in pages.items():
        where = path.relative_to(site).as_posix()
        for link, needed in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if needed and parts.scheme != "data":
                    yield f"{where}: needs {link}, which is not part of the site."
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                yield f"{where}: {link} leads to no file."
            elif target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{where}: {link} leads to no anchor."
    for style in sorted(site.rglob("*.css")):
        for link in re.findall(r"url\(\s*['\"]?([^'\")]+)", style.read_text(encoding="utf-8", errors="replace")):
            local = not link.startswith(("data:", "#")) and unquote(link.partition("?")[0].partition("#")[0])
            if local and not (style.parent / local).is_file():
                yield f"{style.relative_to(site).as_posix()}: {link} leads to no file."


# In the browser

#: Width of the page beyond the window, pairs of texts that lie on each other, and texts that end outside the window in
#: a place that does not scroll. Text inside formulas is left out; text that its box scrolls or cuts off counts as far
#: as the box reaches. A text cannot lie on itself: that is where the end of a line was cut off.
LOOK = r"""
const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
const whole = { left: -1e9, top: -1e9, right: 1e9, bottom: 1e9, fixed: false, scrolls: false };
const known = new Map([[document.body, whole]]);
const frame = (element) => {  // what can be seen of the inside of an element, and whether it scrolls with the page
  if (!known.has(element)) {
    const style = getComputedStyle(element), own = { ...frame(element.parentElement) };
    own.fixed ||= ["fixed", "sticky"].includes(style.position);
    own.scrolls ||= ["auto", "scroll"].includes(style.overflowX) || style.textOverflow === "ellipsis";
    if (style.overflowX !== "visible") {
      const edge = element.getBoundingClientRect();
      [own.left, own.top] = [Math.max(own.left, edge.left), Math.max(own.top, edge.top)];
      [own.right, own.bottom] = [Math.min(own.right, edge.right), Math.min(own.bottom, edge.bottom)];
    }
    known.set(element, own);
  }
  return known.get(element);
};
const clip = (box, edge) => ({
  left: Math.max(box.left, edge.left), top: Math.max(box.top, edge.top),
  right: Math.min(box.right, edge.right), bottom: Math.min(box.bottom, edge.bottom), fixed: edge.fixed,
});
const boxes = [], cut = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode, parent = node.parentElement;
  if (!node.textContent.trim() || parent.closest("script, style, math, dialog, svg, template, .skip-link")) continue;
  if (!parent.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  for (const line of range.getClientRects()) {
    const box = clip(line, frame(parent));
    if (line.right > innerWidth + 1 && line.left < innerWidth && !frame(parent).scrolls)
      cut.push(node.textContent.trim().slice(0, 40));
    const seen = box.right - box.left > 1 && box.bottom - box.top > 1;
    if (seen) boxes.push([node.textContent.trim().slice(0, 40), box, node]);
  }
}
boxes.sort((a, b) => a[1].top - b[1].top);
const overlaps = [];
for (let i = 0; i < boxes.length; i++) {
  const [text, one, place] = boxes[i];
  for (let j = i + 1; j < boxes.length && boxes[j][1].top < one.bottom; j++) {
    const [other, two, there] = boxes[j];
    const across = Math.min(one.right, two.right) - Math.max(one.left, two.left);
    const down = Math.min(one.bottom, two.bottom) - two.top;
    if (across > 2 && down > 0.4 * Math.min(one.bottom - one.top, two.bottom - two.top)
        && place !== there && one.fixed === two.fixed) overlaps.push(`${text} | ${other}`);
  }
}
return [wide, overlaps, cut];
"""


#: Without movements: what moves when the window becomes narrow is looked at where it ends.
STILL = """
const style = document.createElement("style");
style.textContent = "* { transition: none !important; animation: none !important; }";
document.head.append(style);
"""
#: Wait until the window has been drawn in its new size.
DRAWN = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()));"


def start_browser(profile: Path):
    """Chromium without a screen, as the tests of the page use it."""
    from selenium import webdriver

    os.environ["SE_OFFLINE"] = "true"  # selenium would look for another browser on the network
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or sys.exit("chromium is not installed.")
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))


def set_window(driver, width: int, scheme: str) -> None:
    """Width of the window in pixels, and whether the reader prefers light or dark."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [
        {"name": "prefers-color-scheme", "value": scheme},
        {"name": "prefers-reduced-motion", "value": "reduce"},
    ]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})


def faults_of_looks(driver, site: Path, pictures: Path | None) -> Iterator[str]:
    """One sentence for every page, width and scheme in which something scrolls, overlaps or complains."""
    site = site.resolve()
    for path in pages_of(site):
        where = path.relative_to(site).as_posix()
        if where == "index.html":  # leads on to docs/index.html, and shows nothing
            continue
        driver.get(path.as_uri())
        driver.execute_script(STILL)
        for width, scheme in product(WIDTHS, SCHEMES):
            set_window(driver, width, scheme)
            driver.execute_async_script(DRAWN)
            wide, overlaps, cut = driver.execute_script(LOOK)
            at = f"{where}, {width} pixels, {scheme}"
            if wide > 0:
                yield f"{at}: {wide} pixels too wide."
            elif cut:
                yield f"{at}: text that is cut off at the right: {'; '.join(cut[:3])}."
            if overlaps:
                yield f"{at}: text on text: {'; '.join(overlaps[:3])}."
            if pictures:
                save_picture(driver, pictures / f"{where.replace('/', '-')[:-5]}-{width}-{scheme}.png")
        complaints = [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
        yield from (f"{where}: {entry['message']}" for entry in complaints)


def save_picture(driver, path: Path) -> None:
    """The whole page, up to 6000 pixels."""
    height = min(6000, driver.execute_script("return document.documentElement.scrollHeight"))
    width = driver.execute_script("return innerWidth")
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    found = driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(base64.b64decode(found["data"]))


def faults_of_search(driver, site: Path, word: str = "shrinkage") -> Iterator[str]:
    """Type a word into the search of the first page, as a reader does, and look at what is found."""
    set_window(driver, WIDTHS[0], SCHEMES[0])
    driver.get((site.resolve() / "docs" / "index.html").as_uri())
    driver.execute_script("document.querySelector('button.search-button-field, button.search-button').click()")
    box = driver.switch_to.active_element
    box.send_keys(word + "\n")
    for _ in range(PATIENCE):
        found = driver.execute_script("return [...document.querySelectorAll('ul.search li a')].map((a) => a.href)")
        if found:
            break
        time.sleep(0.05)
    else:
        yield f"Search for {word!r}: nothing was found (at {driver.current_url})."
        return
    driver.get_log("browser")  # the summaries of results are read over HTTP, which a page from disk may not do
    for link in found:
        path = Path(unquote(urlsplit(link).path))
        if not path.is_file():
            yield f"Search for {word!r}: {link} leads to no file."


def main() -> None:
    """Print every fault; the exit status is 1 if there is one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=Path)
    parser.add_argument("--browser", action="store_true", help="look at every page in Chromium, and try the search")
    parser.add_argument("--pictures", type=Path, help="folder for pictures of all pages (with --browser)")
    options = parser.parse_args()
    if not (options.site / "docs" / "index.html").is_file():
        sys.exit(f"{options.site}: there is no site here; `make docs` builds it.")
    faults = list(broken_links(options.site))
    if options.browser:
        with tempfile.TemporaryDirectory() as profile:
            driver = start_browser(Path(profile))
            try:
                faults += faults_of_search(driver, options.site)
                faults += faults_of_looks(driver, options.site, options.pictures)
            finally:
                driver.quit()
    print("\n".join([*faults, f"{len(pages_of(options.site))} pages, {len(faults)} faults"]))
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
