"""The page in Debian's Chromium, without a screen; skipped where it is not installed."""

import base64
import json
import os
import shutil
import time
from itertools import combinations, pairwise

import pytest

from mixnorm.eeg.simulate import ELECTRODES
from mixnorm.report.page import write_page
from selections import selection

CHROMIUM, DRIVER = (shutil.which(name) for name in ("chromium", "chromedriver"))
if not (CHROMIUM and DRIVER):
    pytest.skip(
        "chromium and chromedriver are not installed (Debian: chromium, chromium-driver)", allow_module_level=True
    )
webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed (the extra `test`)")
By = pytest.importorskip("selenium.webdriver.common.by").By
Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys

DESKTOP, PHONE = (1280, 800), (390, 844)
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
#: Set the slider to every value in turn, and read the page each time.
EVERY_MONTAGE = """
const slider = document.getElementById("k"), text = (id) => document.getElementById(id).textContent, found = [];
for (let k = Number(slider.min); k <= Number(slider.max); k++) {
  slider.value = k;
  slider.dispatchEvent(new Event("input"));
  found.push({
    n: text("n-sensors"), auc: text("auc"), interval: text("interval"), names: text("names"),
    drop: [text("drop-sensor"), text("drop-change")],
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


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    os.environ["SE_OFFLINE"] = "true"
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    # what the browser itself opens at its start is not the page's doing
    driver.get("about:blank")
    yield driver
    driver.quit()


@pytest.fixture
def show(driver, tmp_path):
    """Open the page of a selection; at the end, nothing may have been complained of or asked of any network."""

    def open_page(chosen, size=DESKTOP, hash_="", scheme="light"):
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
        driver.get("about:blank")
        driver.get(write_page(chosen, tmp_path / "page.html").as_uri() + hash_)

    driver.get_log("browser"), driver.get_log("performance")
    yield open_page
    assert driver.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    asked = {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}
    assert {url.partition("#")[0] for url in asked} <= {(tmp_path / "page.html").as_uri(), "about:blank", "data:,"}
    assert asked, "the log of requests is empty: it would not show one"


def by_id(driver, name):
    return driver.find_element(By.ID, name)


def text(driver, name):
    return driver.execute_script("return document.getElementById(arguments[0]).textContent", name)


def auc(value, digits=3):
    return f"{value:.{digits}f}".removeprefix("0")


def wait_until(met):
    for _ in range(60):
        if met():
            return
        time.sleep(0.05)
    raise AssertionError("did not come true within three seconds")


def hide(found, count):
    """A selection in which the last sensors have no known position."""
    for sensor in found["sensors"][-count:]:
        sensor["x"] = sensor["y"] = None
    return found


@pytest.mark.parametrize("n_sensors", [8, 10, 56, 64])
def test_slider_changes_everything_consistently_with_the_selection(driver, show, n_sensors):
    wanted = hide(selection(n_sensors, stability=n_sensors != 10), 2)
    show(wanted)
    found = driver.execute_script(EVERY_MONTAGE)
    assert len(found) == n_sensors
    for montage, seen in zip(wanted["montages"], found):
        names, n = montage["sensors"], montage["n_sensors"]
        assert seen["n"] == str(n)
        assert seen["auc"] == auc(montage["auc"])
        assert seen["interval"] == f"[{auc(montage['low'], 2)}, {auc(montage['high'], 2)}]"
        assert seen["names"] == ", ".join(names)
        assert sorted(seen["lit"]) == sorted(names)
        assert seen["cards"] == names[:12]
        cap = f"{auc(0.861)} with 8" if n != 8 else auc(0.861)
        assert seen["key"] == [*(auc(curve["auc"][n - 1]) for curve in wanted["curves"][:4]), cap]
        assert seen["row"].split() == [str(n), *(["recommended"] if n == wanted["recommended"]["n_sensors"] else [])]
        assert seen["spoken"] == f"{n} electrode{'s' if n > 1 else ''}, AUC {auc(montage['auc'])}"
        if n == 1:
            assert seen["drop"] == ["–", "nothing left to drop"]
        else:
            change = montage["drop"]["auc_change"]
            sign = "±" if abs(change) < 0.0005 else "−" if change < 0 else "+"
            assert seen["drop"] == [montage["drop"]["sensor"], f"AUC {sign}{auc(abs(change))}"]


def test_size_follows_weight_and_ring_follows_stability(driver, show):
    wanted = selection(10)
    show(wanted)
    found = driver.execute_script(EVERY_MONTAGE)
    for montage, seen in zip(wanted["montages"], found):
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
    listed = [button.text for button in driver.find_elements(By.CSS_SELECTOR, "#unplaced button")]
    assert listed == [sensor["name"] for sensor in wanted["sensors"] if sensor["x"] is None]


def test_a_method_that_was_not_tried_with_as_many_says_with_how_many(driver, show):
    wanted = selection(10)
    peer = wanted["curves"][1]
    peer |= {"n_sensors": [2, 4, 9], "auc": [0.7, None, 0.8]}
    show(wanted)
    found = [seen["key"][1] for seen in driver.execute_script(EVERY_MONTAGE)]
    assert found == [".700 with 2", ".700", *[".700 with 2"] * 3, *[".800 with 9"] * 3, ".800", ".800 with 9"]


def test_the_address_typed_last_wins(driver, show):
    """Also when the page is about to write its own into the address."""
    show(selection(10))
    driver.execute_script("location.hash = '#k=2'; history.replaceState(null, '', '#k=5')")
    wait_until(lambda: text(driver, "n-sensors") == "2")
    wait_until(lambda: driver.current_url.endswith("#k=2"))


def test_the_answer_comes_first(driver, show):
    wanted = selection(64)
    wanted["source"]["optimistic"] = "Only one session: this may be optimistic."
    show(wanted)
    n = wanted["recommended"]["n_sensors"]
    best, whole = wanted["montages"][n - 1], wanted["montages"][-1]
    interval = f"[{auc(best['low'], 2)}, {auc(best['high'], 2)}]"
    assert (
        by_id(driver, "answer").text
        == f"{n} of 64 electrodes: AUC {auc(best['auc'])} {interval}; the whole cap {auc(whole['auc'])}"
    )
    assert by_id(driver, "reason").text == wanted["recommended"]["reason"]
    assert by_id(driver, "recommended-names").text == ", ".join(best["sensors"])
    assert by_id(driver, "optimistic").text == "Only one session: this may be optimistic."
    assert text(driver, "n-sensors") == str(n)
    assert wanted["stability"]["statement"] in text(driver, "stability")


def test_table_holds_every_montage_and_every_subject(driver, show):
    wanted = selection(10, subjects=("S1", "S2"))
    show(wanted)
    rows = driver.execute_script(
        "return [...document.querySelectorAll('#montage-table tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))"
    )
    assert [row[0].split()[0] for row in rows] == [str(n) for n in range(1, 11)]
    assert [row[1] for row in rows] == [auc(montage["auc"]) for montage in wanted["montages"]]
    assert [row[-1] for row in rows] == [", ".join(montage["sensors"]) for montage in wanted["montages"]]
    subjects = driver.execute_script(
        "return [...document.querySelectorAll('#subject-table tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))"
    )
    assert [row[:3] for row in subjects] == [
        [row["subject"], auc(row["common_auc"]), auc(row["auc"])] for row in wanted["by_subject"]
    ]


def test_keyboard_alone(driver, show):
    wanted = selection(64)
    show(wanted)
    best = wanted["recommended"]["n_sensors"]
    body = driver.switch_to.active_element
    seen = {}
    while True:
        body.send_keys(Keys.TAB)
        body = driver.switch_to.active_element
        if body.tag_name == "body" or len(seen) > 30:
            break
        name = (
            body.get_attribute("id")
            or body.get_attribute("data-name")
            or body.get_attribute("aria-labelledby")
            or body.text
        )
        outline, halo = driver.execute_script(
            "const e = document.activeElement, h = e.querySelector('.halo'); "
            "return [getComputedStyle(e).outlineStyle, h ? getComputedStyle(h).strokeWidth : null]"
        )
        seen[name] = outline != "none" or halo == "4px"
        if name == "k":
            steps = [(Keys.ARROW_RIGHT, best + 1), (Keys.ARROW_LEFT, best), (Keys.HOME, 1), (Keys.END, 64)]
            for key, n in steps:
                body.send_keys(key)
                assert text(driver, "n-sensors") == str(n)
        if name == "curve":
            for key, n in [
                (Keys.HOME, 1),
                (Keys.ARROW_RIGHT, 2),
                (Keys.ARROW_UP, 3),
                (Keys.ARROW_LEFT, 2),
                (Keys.END, 64),
            ]:
                body.send_keys(key)
                assert text(driver, "n-sensors") == body.get_attribute("aria-valuenow") == str(n)
        if name == wanted["montages"][0]["sensors"][0]:
            body.send_keys(Keys.ARROW_UP)
            above = driver.switch_to.active_element.get_attribute("data-name")
            assert above != name
            assert text(driver, "looking").startswith(f"{above}: ")
            assert by_id(driver, "detail").text.startswith(above)
            driver.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
            assert driver.switch_to.active_element.get_attribute("data-name") == name
            body = driver.switch_to.active_element
    assert all(seen.values()), [name for name, visible in seen.items() if not visible]
    assert {"copy-recommended", "theme", "k", "fewer", "return", "curve", "copy", "all-cards", "table-title"} <= set(
        seen
    )


def test_buttons_click_and_hash(driver, show):
    wanted = selection(10)
    show(wanted, hash_="#k=3")
    assert text(driver, "n-sensors") == "3"
    by_id(driver, "more").click()
    by_id(driver, "more").click()
    by_id(driver, "fewer").click()
    assert text(driver, "n-sensors") == "4"
    wait_until(lambda: driver.current_url.endswith("#k=4"))
    wait_until(lambda: text(driver, "live").startswith(f"4 electrodes: AUC {auc(wanted['montages'][3]['auc'])}"))
    by_id(driver, "return").click()
    assert text(driver, "n-sensors") == str(wanted["recommended"]["n_sensors"])
    driver.execute_script("location.hash = '#k=2'")
    wait_until(lambda: text(driver, "n-sensors") == "2")
    driver.execute_script(
        "const b = document.querySelector('#curve svg').getBoundingClientRect(); "
        "document.getElementById('curve').dispatchEvent(new PointerEvent('pointerdown', {clientX: b.right - 20, clientY: b.top + 50}))"
    )
    assert text(driver, "n-sensors") == "10"


@pytest.mark.parametrize(("refused", "n"), [(False, 3), (True, 4)])
def test_names_are_copied_also_where_the_browser_refuses_its_clipboard(driver, show, refused, n):
    wanted = selection(8)
    show(wanted, hash_=f"#k={n}")
    if refused:
        driver.execute_script("navigator.clipboard.writeText = () => Promise.reject(new Error('refused'))")
    driver.execute_script("document.body.append(document.createElement('textarea'))")
    by_id(driver, "copy").click()
    wait_until(lambda: text(driver, "copy") == "Copied")
    area = driver.find_element(By.TAG_NAME, "textarea")
    area.click()
    area.send_keys(Keys.CONTROL, "v")
    assert area.get_property("value").strip() == ", ".join(wanted["montages"][n - 1]["sensors"])


def test_a_name_that_looks_like_html_is_shown_as_text(driver, show):
    hostile = "<img src=x onerror=window.hit=1>"
    wanted = selection(names=("Cz", "Pz", hostile, "</script>"))
    wanted["source"]["recordings"] = [hostile]
    wanted["source"]["optimistic"] = wanted["recommended"]["reason"] = hostile
    show(wanted, hash_="#k=4")
    assert driver.execute_script("return [window.hit ?? null, document.images.length]") == [None, 0]
    assert hostile in by_id(driver, "names").text
    assert by_id(driver, "reason").text == hostile


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
    found["source"]["optimistic"] = "Only one session: the score may be optimistic. " * 3
    found["recommended"]["reason"] *= 2
    return found


def long_names():
    """Names too long to stand side by side, of electrodes whose place is known."""
    return selection(names=[f"EEG {name}-REF" for name in ELECTRODES[:32]])


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("make", [lambda: selection(8), lambda: selection(64), long_text, long_names])
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


def luminance(colour):
    channels = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    return sum(
        share * (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4)
        for share, c in zip((0.2126, 0.7152, 0.0722), channels)
    )


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


def test_paper_shows_the_recommended_montage_without_the_slider(driver, show, tmp_path):
    wanted = hide(selection(8), 1)
    show(wanted, hash_="#k=2", scheme="dark")
    driver.execute_script(
        "addEventListener('beforeprint', () => { window.printed = document.getElementById('names').textContent; })"
    )
    pdf = base64.b64decode(driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    assert pdf.startswith(b"%PDF")
    best = wanted["montages"][wanted["recommended"]["n_sensors"] - 1]
    assert driver.execute_script("return window.printed") == ", ".join(best["sensors"])
    assert text(driver, "n-sensors") == "2"
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    shown = {
        name: by_id(driver, name).is_displayed()
        for name in ("k", "theme", "copy", "answer", "head", "curve", "montage-table")
    }
    assert shown == {
        "k": False,
        "theme": False,
        "copy": False,
        "answer": True,
        "head": True,
        "curve": True,
        "montage-table": True,
    }
    assert driver.find_element(By.CSS_SELECTOR, "#unplaced button").is_displayed()
    ground = driver.execute_script("return getComputedStyle(document.querySelector('.card')).backgroundColor")
    assert luminance(ground) == 1


def unknown(found):
    return hide(found, len(found["sensors"]))


@pytest.mark.parametrize(
    "wanted",
    [
        selection(8, stability=False, path=None, evoked=None),
        selection(1),
        unknown(selection(8)),
        {
            **selection(8),
            "montages": selection(8)["montages"][2:5],
            "recommended": {"n_sensors": 4, "reason": "Two are kept."},
        },
    ],
    ids=["nothing optional", "one sensor", "no position known", "from three to five"],
)
def test_less_than_usual_is_shown_without_complaint(driver, show, wanted):
    show(wanted)
    found = driver.execute_script(EVERY_MONTAGE)
    assert [seen["names"] for seen in found] == [", ".join(montage["sensors"]) for montage in wanted["montages"]]
    assert [sorted(seen["lit"]) for seen in found] == [sorted(montage["sensors"]) for montage in wanted["montages"]]


def test_a_complaint_would_be_heard(driver, show):
    show(selection(8))
    driver.execute_script("setTimeout(() => { throw new Error('heard'); })")
    wait_until(lambda: any("heard" in entry["message"] for entry in driver.get_log("browser")))
