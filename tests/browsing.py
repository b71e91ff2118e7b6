"""What tests ask of a page in a browser; the browser itself is in ``report/conftest.py``."""

import time

DESKTOP, PHONE = (1280, 800), (390, 844)
#: Set the slider to every value in turn, and read the page each time.
EVERY_MONTAGE = """
const slider = document.getElementById("k"), text = (id) => document.getElementById(id).textContent, found = [];
for (let k = Number(slider.min); k <= Number(slider.max); k++) {
  slider.value = k;
  slider.dispatchEvent(new Event("input"));
  found.push({
    n: text("n-sensors"), auc: text("auc"), interval: text("interval"), names: text("names"),
    drop: [text("drop-sensor"), text("drop-change")], next: [text("next-sensor"), text("next-gain")],
    all: [text("all-auc"), text("all-gain")],
    lit: [...document.querySelectorAll('#scalp .electrode[data-chosen="true"]')].map((e) => e.dataset.name).filter(Boolean),
    radii: Object.fromEntries([...document.querySelectorAll("g.electrode[data-name]")].map(
      (e) => { const c = e.querySelector(".disc"); return [e.dataset.name, Number(c.getAttribute("r")) + Number(c.getAttribute("stroke-width")) / 2]; })),
    cards: [...document.querySelectorAll(".trace-card figcaption")].map((e) => e.textContent),
    key: [...document.querySelectorAll("#curve-key .value")].map((e) => e.textContent),
    row: document.querySelector("#montage-table tr[aria-current] th").textContent,
    spoken: slider.getAttribute("aria-valuetext"),
  });
}
return found;
"""
#: Every line of text that can be seen, as [text, left, top, right, bottom, index of its card]; tables scroll and are left out.
LINES = """
const found = [], cards = [...document.querySelectorAll(".card")];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode, parent = node.parentElement;
  if (!node.textContent.trim() || parent.closest("script, .unseen, .skip, .scroll, title")) continue;
  if (!parent.checkVisibility({ visibilityProperty: true })) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  for (const box of range.getClientRects()) {
    if (box.width > 0.5) found.push([node.textContent.slice(0, 30), box.left, box.top, box.right, box.bottom, cards.indexOf(parent.closest(".card"))]);
  }
}
return found;
"""


def by_id(driver, name):
    return driver.find_element("id", name)


def text(driver, name):
    return driver.execute_script("return document.getElementById(arguments[0]).textContent", name)


def auc(value, digits=3):
    return f"{value:.{digits}f}".removeprefix("0")


def wait_until(met):
    for _ in range(300):
        if met():
            return
        time.sleep(0.05)
    raise AssertionError("did not come true")


def hide(found, count):
    """A selection in which the last sensors have no known position."""
    for sensor in found["sensors"][-count:]:
        sensor["x"] = sensor["y"] = None
    return found


def luminance(colour):
    channels = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    return sum(
        share * (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4)
        for share, c in zip((0.2126, 0.7152, 0.0722), channels, strict=True)
    )
