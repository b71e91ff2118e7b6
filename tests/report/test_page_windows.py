"""Windows of time on the page of a selection: the strip over the evoked responses, and the map."""

from itertools import combinations

import pytest

from browsing import DESKTOP, LINES, PHONE, by_id, text, wait_until
from selections import selection, with_windows

#: Every cell of a picture, as [left, right, whether it is empty, its opacity, what it says].
CELLS = """
const box = (e) => e.getBoundingClientRect();
return [...document.querySelectorAll(`#${arguments[0]} rect.cell`)].filter((e) => e.querySelector("title")).map((e) => [
  box(e).left, box(e).right, e.classList.contains("empty"), Number(e.getAttribute("fill-opacity")), e.textContent]);
"""
ROWS = """
return [...document.querySelectorAll("#where-plot .row-name")].map((e) => [
  e.firstChild.textContent, e.classList.contains("in-montage")]);
"""


def ordered(wanted):
    """Names of the chosen electrodes, the largest norm first."""
    total = {
        sensor["name"]: sum(one["norms"][sensor["name"]] ** 2 for one in wanted["windows"])
        for sensor in wanted["sensors"]
    }
    return [name for name in sorted(total, key=lambda name: -total[name]) if total[name] > 0]


def test_the_strip_shows_windows_at_their_times_and_what_is_not_chosen_is_empty(driver, show):
    wanted = with_windows(selection(8))
    show(wanted)
    cells = driver.execute_script(CELLS, "when-plot")
    assert [empty for _, _, empty, _, _ in cells] == [not one["selected"] for one in wanted["windows"]]
    wide = cells[-1][1] - cells[0][0]
    for (left, right, *_), one in zip(cells, wanted["windows"], strict=True):
        begin, end = wanted["windows"][0]["start"], wanted["windows"][-1]["stop"]
        assert left - cells[0][0] == pytest.approx((one["start"] - begin) / (end - begin) * wide, abs=2)
        assert right - cells[0][0] == pytest.approx((one["stop"] - begin) / (end - begin) * wide, abs=2)
    shades = {one["norm"]: cell[3] for cell, one in zip(cells, wanted["windows"], strict=True) if one["selected"]}
    assert [shades[norm] for norm in sorted(shades)] == sorted(shades.values())
    assert shades[max(shades)] == 1
    assert cells[0][4] == "-17–117 ms: not chosen, in 1 of 5 folds; norm 0"
    assert by_id(driver, "when-text").text == wanted["window_scores"]["statement"]


def test_the_strip_follows_the_electrode_that_is_looked_at(driver, show):
    wanted = with_windows(selection(8))
    show(wanted)
    first = wanted["montages"][0]["sensors"][0]
    assert f"{first}: evoked, µV" in by_id(driver, "when-plot").text
    other = next(sensor["name"] for sensor in wanted["sensors"] if sensor["name"] != first)
    driver.execute_script(f"document.querySelector('g[data-name={other}]').dispatchEvent(new Event('pointerenter'))")
    assert f"{other}: evoked, µV" in by_id(driver, "when-plot").text
    wanted["evoked"] = None
    show(wanted)
    assert "evoked" not in by_id(driver, "when-plot").text
    assert len(driver.execute_script(CELLS, "when-plot")) == 6


def test_the_map_has_a_cell_for_every_chosen_electrode_and_window(driver, show):
    wanted = with_windows(selection(64))
    show(wanted, hash_="#k=3")
    names = ordered(wanted)
    shown = wanted["montages"][2]["sensors"]
    assert driver.execute_script(ROWS) == [[name, name in shown] for name in names[:16]]
    by_id(driver, "all-rows").click()
    assert [name for name, _ in driver.execute_script(ROWS)] == names
    cells = driver.execute_script(CELLS, "where-plot")
    empty = [one["norms"][name] == 0 for name in names for one in wanted["windows"]]
    assert [cell[2] for cell in cells] == empty
    assert cells[1][4].startswith(f"{names[0]}, 117–250 ms: norm ")
    rows = driver.execute_script(
        "return [...document.querySelectorAll('#window-table tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))"
    )
    assert rows[0] == ["-17–117 ms", "no", "1 of 5 folds", "0", "–"]
    assert rows[1][:3] == ["117–250 ms", "yes", "5 of 5 folds"]
    norms = wanted["windows"][1]["norms"]
    assert rows[1][4].split(", ") == sorted((name for name in norms if norms[name]), key=lambda name: -norms[name])


def test_without_windows_nothing_is_said_about_them(driver, show):
    show(selection(8))
    assert [name for name in ("when", "where", "windows") if by_id(driver, name).is_displayed()] == []
    assert text(driver, "when-text") == ""


def test_the_strip_stands_beside_the_head(driver, show):
    show(with_windows(selection(8)))
    head, when = by_id(driver, "scalp").rect, by_id(driver, "when").rect
    assert when["x"] > head["x"] + head["width"]
    assert when["y"] + when["height"] <= head["y"] + head["height"] + 1
    show(with_windows(selection(8)), PHONE)
    head, when = by_id(driver, "scalp").rect, by_id(driver, "when").rect
    assert when["y"] > head["y"] + head["height"]


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: with_windows(selection(64), 24, left_out=range(9)),
        lambda: with_windows(selection(names=("Cz", "A name that is much longer than any name should be"))),
        lambda: with_windows(selection(8), left_out=range(6)),
    ],
    ids=["many", "long name", "none chosen"],
)
def test_nothing_overlaps_or_leaves_its_card(driver, show, size, make):
    show(make(), size)
    wait_until(lambda: by_id(driver, "when-plot").text)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= size[0]
    cards = driver.execute_script(
        "return [...document.querySelectorAll('.card')].map((c) => { const b = c.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom, c.id]; })"
    )
    kept = [place for place, card in enumerate(cards) if card[4] in ("when", "where")]
    lines = [line for line in driver.execute_script(LINES) if line[5] in kept]
    assert len(lines) > 10
    for a, b in combinations(lines, 2):
        across, down = min(a[3], b[3]) - max(a[1], b[1]), min(a[4], b[4]) - max(a[2], b[2])
        assert across <= 0.5 or down <= 0.12 * (a[4] - a[2]) + 0.5, (a, b)
    for _, left, _, right, _, card in lines:
        assert cards[card][0] - 0.5 <= left < right <= cards[card][2] + 0.5


def test_paper_shows_the_windows(driver, show):
    show(with_windows(selection(8)), scheme="dark")
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    for name in ("when-plot", "where-plot", "window-table"):
        assert by_id(driver, name).is_displayed()
