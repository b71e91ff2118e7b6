"""Appearance of the page of a selection: positions, sizes, no overlaps, contrast, print."""

import base64
from itertools import combinations, pairwise

import numpy as np
import pytest

from browsing import DESKTOP, EVERY_MONTAGE, LINES, PHONE, by_id, hide, luminance, text, wait_until
from mixnorm.eeg.simulate import ELECTRODES
from selections import selection
from unsure import unsure


def test_size_follows_weight_and_ring_follows_stability(driver, show):
    wanted = selection(10)
    show(wanted)
    found = driver.execute_script(EVERY_MONTAGE)
    for montage, seen in zip(wanted["montages"], found, strict=True):
        norms = {name: sum(w * w for w in trace) for name, trace in montage["weights"].items()}
        by_weight = sorted(montage["sensors"], key=norms.get)
        radii = [seen["radii"][name] for name in by_weight]
        assert radii == sorted(radii)
        assert len(radii) < 3 or radii[0] < radii[-1]
        left_out = [radius for name, radius in seen["radii"].items() if name not in norms]
        assert max(left_out, default=0) - min(left_out, default=0) < 0.05
    rings = driver.execute_script(
        "return Object.fromEntries([...document.querySelectorAll('g.electrode[data-name]')].map("
        "(e) => [e.dataset.name, Number(e.querySelector('.disc').getAttribute('stroke-width')) / e.querySelector('.disc').getBBox().width]))"
    )
    by_stability = sorted(wanted["sensors"], key=lambda sensor: sensor["stability"])
    shares = [rings[sensor["name"]] for sensor in by_stability]
    assert all(a <= b + 2e-3 for a, b in pairwise(shares))
    assert shares[-1] > 2 * shares[0]


def test_electrodes_sit_where_the_selection_says_and_unknown_ones_are_listed(driver, show):
    wanted = hide(selection(64), 3)
    show(wanted)
    place = driver.execute_script(
        "return Object.fromEntries([...document.querySelectorAll('g.electrode[data-name]')].map((e) => "
        "{ const b = e.querySelector('.disc').getBoundingClientRect(); return [e.dataset.name, [b.left + b.width / 2, b.top + b.height / 2]]; }))"
    )
    known = [sensor for sensor in wanted["sensors"] if sensor["x"] is not None]
    assert set(place) == {sensor["name"] for sensor in known}
    (x0, y0), (x1, _), (_, y2) = (place[name] for name in ("Cz", "C4", "Fz"))
    at = {sensor["name"]: sensor for sensor in known}
    scale = (x1 - x0) / at["C4"]["x"]
    assert (y0 - y2) / at["Fz"]["y"] == pytest.approx(scale, rel=0.01)
    for sensor in known:
        assert place[sensor["name"]] == pytest.approx([x0 + scale * sensor["x"], y0 - scale * sensor["y"]], abs=0.6)
    listed = [button.text for button in driver.find_elements("css selector", "#unplaced button")]
    assert listed == [sensor["name"] for sensor in wanted["sensors"] if sensor["x"] is None]


def test_every_name_is_written_on_a_head_of_64(driver, show):
    for size in (DESKTOP, PHONE):
        show(selection(64), size)
        written = driver.execute_script(
            "return [...document.querySelectorAll('#head text')].filter((t) => t.checkVisibility({ visibilityProperty: true }))"
            ".map((t) => [t.textContent, parseFloat(getComputedStyle(t).fontSize)])"
        )
        assert [name for name, _ in written] == list(ELECTRODES)
        assert min(font for _, font in written) >= 8.5


ODD = (*ELECTRODES[:20], "EOG left of the eye", "EEG 021-REF", "A name that is much longer than any name should be")


def long_text():
    found = selection(names=ODD, subjects=("S1", "S2"))
    found["source"]["folds"]["by_subject"] = dict.fromkeys(("S1", "S2"), "block")
    found["recommended"]["few_folds"] = {"count": 2, "low": 0.1, "high": 0.9}
    return found


def dense(count=128):
    """Electrodes all over the head, closer together than names are long."""
    found = selection(names=[f"E{number + 1}" for number in range(count)])
    turn, radius = 2.4 * np.arange(count), np.sqrt((np.arange(count) + 0.5) / count)
    for sensor, x, y in zip(found["sensors"], radius * np.cos(turn), radius * np.sin(turn), strict=True):
        sensor |= {"x": float(x), "y": float(y)}
    return found


def long_names():
    """Names too long to stand side by side, of electrodes whose place is known."""
    return selection(names=[f"EEG {name}-REF" for name in ELECTRODES[:32]])


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize(
    "make", [lambda: selection(8), lambda: selection(64), lambda: unsure(selection(8)), long_text, long_names, dense]
)
def test_nothing_overlaps(driver, show, size, make):
    wanted = make()
    show(wanted, size)
    for n in {1, wanted["recommended"]["n_sensors"], len(wanted["sensors"])}:
        driver.execute_script(f"location.hash = '#k={n}'")
        wait_until(lambda n=n: text(driver, "n-sensors") == str(n))
        assert driver.execute_script("return document.documentElement.scrollWidth") <= size[0]
        cards = driver.execute_script(
            "return [...document.querySelectorAll('.card')].map((c) => { const b = c.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; })"
        )
        assert not [pair for pair in combinations([c for c in cards if c[2] > c[0]], 2) if overlap(*pair, slack=0)]
        lines = driver.execute_script(LINES)
        assert len(lines) > 40
        # the box of a line is higher than its letters
        assert not [(a, b) for a, b in combinations(lines, 2) if overlap(a[1:5], b[1:5], slack=0.12 * (a[4] - a[2]))]
        for line, left, _, right, _, card in lines:
            edge = cards[card] if card >= 0 else (0, 0, *size)
            assert edge[0] - 0.5 <= left < right <= edge[2] + 0.5, (line, left, right, edge)


def overlap(a, b, slack):
    across = min(a[2], b[2]) - max(a[0], b[0])
    down = min(a[3], b[3]) - max(a[1], b[1])
    return across > 0.5 and down > slack + 0.5


def widened(found, low, high):
    """With one interval for every montage."""
    n = len(found["montages"])
    found["curves"][0] |= {"low": [low] * n, "high": [high] * n}
    for montage in found["montages"]:
        montage |= {"low": low, "high": high}
    return found


#: From the labels of the axis: where an AUC lies, in pixels from above; with it the band, the frame and the axis.
CURVE = """
const svg = document.querySelector("#curve svg"), box = (e) => e.getBoundingClientRect();
const rules = [...svg.querySelectorAll(".axis")][0].querySelectorAll("line");
const values = [...[...svg.querySelectorAll(".axis")][0].querySelectorAll("text")].map((t) => Number(t.textContent));
const line = svg.querySelector(".chance line"), band = svg.querySelector(".band");
return {
  values, tops: [...rules].map((rule) => box(rule).top), band: band && [box(band).top, box(band).bottom],
  chance: line && box(line).top, word: svg.querySelector(".chance text")?.textContent ?? null,
};
"""


@pytest.mark.parametrize(("low", "high"), [(0.41, 0.82), (0.0, 1.0), (-0.1, 1.2), (0.55, 0.985), (0.96, 1.0)])
def test_the_axis_holds_the_whole_interval_and_says_what_chance_is(driver, show, low, high):
    wanted = widened(selection(8), low, high)
    wanted["curves"] = wanted["curves"][:1]
    for entry in (*wanted["montages"], wanted["curves"][0]):
        middle = (max(low, 0) + min(high, 1)) / 2
        entry["auc"] = [middle] * 8 if isinstance(entry["auc"], list) else middle
    show(wanted)
    seen = driver.execute_script(CURVE)
    slope, start = np.polyfit(seen["values"], seen["tops"], 1)
    assert seen["band"] == pytest.approx([start + slope * min(high, 1), start + slope * max(low, 0)], abs=1)
    assert min(seen["values"]) >= 0
    assert max(seen["values"]) <= 1
    if low <= 0.5:
        assert seen["word"] == "chance"
        assert seen["chance"] == pytest.approx(start + slope * 0.5, abs=1)
    else:
        assert seen["chance"] is None


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_table_of_letters_fits_the_window(driver, show, size):
    wanted = selection(64)
    right = [[min(1.0, 0.01 * n + 0.04 * r) for r in range(1, 36)] for n in range(1, 65)]
    wanted["letters"] = {"n_characters": 32, "n_sensors": list(range(1, 65)), "right": right}
    show(wanted, size)
    letters = driver.execute_script(CELLS)[0]
    assert letters["heads"] == [f"{r}×" for r in (1, 2, 3, 5, 10, 15, 20, 30, 35)]
    assert letters["over"] <= 0
    assert letters["cut"] == 0
    assert driver.execute_script("return document.documentElement.scrollWidth") <= size[0]


def test_intervals_of_two_folds_are_called_too_wide(driver, show):
    wanted = widened(selection(64), 0.0, 1.0)
    wanted["source"]["folds"]["count"] = 2
    show(wanted)
    assert "With 2 folds they are too wide to be useful." in text(driver, "scoring")


CELLS = """
const box = (e) => e.getBoundingClientRect();
return [...document.querySelectorAll("table")].filter((table) => table.tHead).map((table) => ({
  over: table.parentElement.scrollWidth - table.parentElement.clientWidth,
  cut: [...table.querySelectorAll("tbody th, tbody td")].filter((c) => c.scrollWidth > c.clientWidth + 1).length,
  heads: [...table.tHead.rows[0].cells].map((c) => c.textContent).slice(1),
  said: [...table.tBodies[0].rows[0].cells].slice(1).map((c) => getComputedStyle(c, "::before").content),
}));
"""


@pytest.mark.parametrize("make", [lambda: selection(64, subjects=("S1", "S2")), lambda: long_text()])
def test_a_table_too_wide_for_the_window_stands_row_by_row(driver, show, make):
    wanted = make()
    wanted["by_subject"][1]["few_trials"] = {"n_targets": 13, "n_nontargets": None}
    show(wanted, PHONE)
    for table in driver.execute_script(CELLS):
        assert table["over"] <= 0
        assert table["cut"] == 0
        assert table["said"] == [f'"{head}"' for head in table["heads"]]
    show(wanted, DESKTOP)
    assert [set(table["said"]) for table in driver.execute_script(CELLS)] == [{"none"}] * 2


WORDS = [
    *(("ink", ground) for ground in ("paper", "card", "button", "chosen", "warning")),
    *(("muted", ground) for ground in ("paper", "card", "button")),
    ("accent", "card"),
]
SHAPES = [
    *((name, "card") for name in ("accent", "ring", "outline", "warning-edge", "target", "nontarget")),
    *((f"method-{i}", "card") for i in range(1, 7)),
]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_is_enough_for_everyone(driver, show, scheme):
    """WCAG AA: 4.5 for words, 3 for what is drawn."""
    show(selection(8), scheme=scheme)
    colours = driver.execute_script(
        "const probe = document.body.appendChild(document.createElement('i')), found = {};"
        "for (const name of arguments[0]) { probe.style.color = `var(--${name})`; found[name] = getComputedStyle(probe).color; }"
        "probe.remove(); return found",
        sorted({name for pair in WORDS + SHAPES for name in pair}),
    )
    value = {name: luminance(colour) for name, colour in colours.items()}
    assert (value["paper"] > value["ink"]) == (scheme == "light")
    found = {pair: contrast(*(value[name] for name in pair)) for pair in WORDS + SHAPES}
    assert {pair: found[pair] for pair in WORDS if found[pair] < 4.5} == {}
    assert {pair: found[pair] for pair in SHAPES if found[pair] < 3} == {}


def contrast(a, b):
    return (max(a, b) + 0.05) / (min(a, b) + 0.05)


def test_theme_button_turns_light_to_dark_and_back(driver, show):
    show(selection(8), scheme="dark")
    ground = "return getComputedStyle(document.body).backgroundColor"
    dark = driver.execute_script(ground)
    by_id(driver, "theme").click()
    assert luminance(driver.execute_script(ground)) > luminance(dark)
    assert text(driver, "theme") == "Dark"
    by_id(driver, "theme").click()
    assert driver.execute_script(ground) == dark


def test_paper_shows_the_montage_on_the_slider_without_the_slider(driver, show, tmp_path):
    wanted = hide(selection(8), 1)
    show(wanted, hash_="#k=2", scheme="dark")
    driver.execute_script(
        "addEventListener('beforeprint', () => { window.printed = document.getElementById('names').textContent; })"
    )
    pdf = base64.b64decode(driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    assert pdf.startswith(b"%PDF")
    assert driver.execute_script("return window.printed") == ", ".join(wanted["montages"][1]["sensors"])
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    hidden, shown = ("k", "theme", "copy"), ("answer", "figures", "names", "head", "curve", "gains", "montage-table")
    assert [name for name in hidden if by_id(driver, name).is_displayed()] == []
    assert [name for name in shown if not by_id(driver, name).is_displayed()] == []
    # the answer names the recommended montage, the figures are those of the one that is shown
    n = wanted["recommended"]["n_sensors"]
    assert by_id(driver, "answer").text.startswith(f"{n} of 8 electrodes: ")
    assert by_id(driver, "n-sensors").text == "2"
    assert driver.find_element("css selector", "#unplaced button").is_displayed()
    ground = driver.execute_script("return getComputedStyle(document.querySelector('.card')).backgroundColor")
    assert luminance(ground) == 1
