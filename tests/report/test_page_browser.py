"""Behaviour of the page of a selection: consistent with its JSON, usable by keyboard, without network."""

import re
import time

import numpy as np
import pytest

from browsing import EVERY_MONTAGE, auc, by_id, hide, text, wait_until
from selections import selection
from unsure import CAUTION, HEADLINE, unsure


@pytest.mark.parametrize("n_sensors", [8, 10, 56, 64])
def test_slider_changes_everything_consistently_with_the_selection(driver, show, n_sensors):
    wanted = hide(selection(n_sensors, stability=n_sensors != 10), 2)
    show(wanted)
    found = driver.execute_script(EVERY_MONTAGE)
    assert len(found) == n_sensors
    for montage, seen in zip(wanted["montages"], found, strict=True):
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
            assert seen["drop"] == ["–", "the only electrode"]
        else:
            change = montage["drop"]["auc_change"]
            assert seen["drop"] == [montage["drop"]["sensor"], f"without it: AUC {signed(change)} ± .004"]
        if n == n_sensors:
            assert seen["next"] == ["–", "there is no other"]
            assert seen["all"] == [auc(montage["auc"]), "this montage"]
        else:
            added = wanted["montages"][n]["drop"]
            assert seen["next"] == [added["sensor"], f"with it: AUC {signed(-added['auc_change'])} ± .004"]
            all_of_them = wanted["montages"][-1]["auc"]
            assert seen["all"] == [auc(all_of_them), f"AUC {signed(montage['below_all'])} ± .006"]


def signed(change):
    return f"{'' if abs(change) < 0.0005 else '−' if change < 0 else '+'}{auc(abs(change))}"


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
    wait_until(lambda: text(driver, "n-sensors") == "2" and driver.current_url.endswith("#k=2"))
    time.sleep(0.3)  # what the page was about to write, it would have written by now
    assert text(driver, "n-sensors") == "2"
    assert driver.current_url.endswith("#k=2")


def test_the_answer_comes_first(driver, show):
    wanted = selection(64)
    wanted["source"]["folds"]["by_subject"] = {"S1": "block"}
    show(wanted)
    n = wanted["recommended"]["n_sensors"]
    best, whole = wanted["montages"][n - 1], wanted["montages"][-1]
    interval = f"[{auc(best['low'], 2)}, {auc(best['high'], 2)}]"
    assert (
        by_id(driver, "answer").text
        == f"{n} of 64 electrodes: AUC {auc(best['auc'])} {interval}; all electrodes: {auc(whole['auc'])}"
    )
    assert by_id(driver, "reason").text == wanted["recommended"]["reason"]
    assert by_id(driver, "trade").text == wanted["recommended"]["trade"]
    assert not by_id(driver, "caution").is_displayed()
    assert by_id(driver, "recommended-names").text == ", ".join(best["sensors"])
    assert by_id(driver, "optimistic").text.startswith("Only one session: training and held-out trials")
    assert text(driver, "n-sensors") == str(n)
    assert wanted["stability"]["statement"] in text(driver, "stability")


def test_of_many_recordings_the_first_are_named_and_all_are_listed_below(driver, show):
    names = [f"R{i:02}.dat" for i in range(12)]
    wanted = selection(8)
    wanted["source"]["recordings"] = names
    show(wanted)
    assert by_id(driver, "recordings").text.endswith("? R00.dat, R01.dat, R02.dat and 9 more")
    assert text(driver, "source").startswith(", ".join(names))


def test_table_holds_every_montage_and_every_subject(driver, show):
    wanted = selection(10, subjects=("S1", "S2"))
    show(wanted)
    rows = driver.execute_script(
        "return [...document.querySelectorAll('#montage-table tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))"
    )
    assert [row[0].split()[0] for row in rows] == [str(n) for n in range(1, 11)]
    assert [row[1] for row in rows] == [auc(montage["auc"]) for montage in wanted["montages"]]
    assert [row[-1] for row in rows] == [", ".join(montage["sensors"]) for montage in wanted["montages"]]
    gains = [f"{m['drop']['sensor']}: {signed(-m['drop']['auc_change'])} ± .004" for m in wanted["montages"][1:]]
    assert [row[3] for row in rows] == ["–", *gains]
    subjects = driver.execute_script(
        "return [...document.querySelectorAll('#subject-table tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))"
    )
    assert [[*row[:3], row[4]] for row in subjects] == [
        [row["subject"], auc(row["common_auc"]), auc(row["auc"]), auc(row["new_subject_auc"])]
        for row in wanted["by_subject"]
    ]
    assert "montage-SUBJECT.mixnorm" in by_id(driver, "decoders").text
    wanted["by_subject"][1]["few_trials"] = {"n_targets": 13, "n_nontargets": None}
    show(wanted)
    assert by_id(driver, "subject-table").text.count("Only 13 target trials: too few") == 1


def test_a_caution_is_next_to_the_recommendation(driver, show):
    wanted = selection(64)
    wanted["recommended"]["few_folds"] = {"count": 2, "low": 0.1, "high": 0.9}
    show(wanted)
    caution = by_id(driver, "caution")
    assert caution.text.startswith("Only 2 folds: ")
    assert caution.is_displayed()
    assert by_id(driver, "reason").rect["y"] < caution.rect["y"] < by_id(driver, "recommended-names").rect["y"]
    # before the first card, so that nobody must scroll to it
    assert caution.rect["y"] + caution.rect["height"] < by_id(driver, "panel").rect["y"]


def test_a_montage_that_was_asked_for_is_called_that(driver, show):
    wanted = selection(8)
    wanted["recommended"] |= {"verdict": "asked", "n_asked": 3, "n_sensors": 3}
    show(wanted)
    assert by_id(driver, "answer").text.startswith("3 of 8 electrodes, as asked for: AUC ")
    assert by_id(driver, "return").text == "Asked for: 3"
    seen = driver.find_element("tag name", "body").text
    assert "recommended" not in seen.lower()
    assert seen.count("asked for") >= 4  # answer, reason, key of the curve, table


def test_several_recordings_without_a_subject_are_said_to_be_taken_for_one_person(driver, show):
    wanted = selection(8)
    show(wanted)
    assert not by_id(driver, "one-subject").is_displayed()
    wanted["source"]["unnamed"] = ["a.edf", "b.edf", "c.edf"]
    wanted["recommended"] |= {
        "verdict": "unsure",
        "no_transfer": {"sessions": ["c"], "auc": [0.48], "low": [0.41], "high": [0.55]},
    }
    show(wanted)
    note = by_id(driver, "one-subject")
    assert note.text.startswith("3 recordings do not name their subject (a.edf, b.edf, c.edf) and are treated as")
    assert note.rect["y"] + note.rect["height"] < by_id(driver, "panel").rect["y"]
    assert by_id(driver, "answer").text == HEADLINE
    assert by_id(driver, "caution").text.startswith("A decoder of the other recordings is not better than chance on c")
    assert by_id(driver, "trade").text == ""


def test_the_decoder_of_the_montage_shown_is_a_file_or_a_command(driver, show):
    wanted = selection(8)
    wanted["arguments"] = ["my file.edf", "--keep", "Cz"]
    wanted["montages"][2]["decoder"] = "decoders/montage-3.mixnorm"
    show(wanted, hash_="#k=2")
    command = "mixnorm select 'my file.edf' --keep Cz --sensors 2 --out electrodes-2"
    assert by_id(driver, "decoder").text.split("\n")[0] == f"To get the decoder of this montage: {command}"
    by_id(driver, "more").click()
    assert text(driver, "decoder-code") == "decoders/montage-3.mixnorm"
    wanted["arguments"] = None
    show(wanted, hash_="#k=2")
    assert not by_id(driver, "decoder").is_displayed()


def test_letters_are_shown_by_number_of_electrodes_and_repetitions(driver, show):
    wanted = selection(10)
    show(wanted)
    assert not by_id(driver, "letters").is_displayed()
    right = [[min(1.0, 0.05 * n + 0.04 * r) for r in range(1, 13)] for n in range(1, 11)]
    wanted["letters"] = {"n_characters": 32, "n_sensors": list(range(1, 11)), "right": right}
    wanted["recommended"]["n_sensors"] = 6
    show(wanted)
    rows = driver.execute_script(
        "return [...document.querySelectorAll('#letters-table tr')].map((r) => [...r.cells].map((c) => c.textContent))"
    )
    repetitions = (1, 2, 3, 5, 10, 12)
    assert rows[0] == ["Electrodes", *(f"{r}×" for r in repetitions)]
    expected = [[str(n), *(f"{100 * right[n - 1][r - 1]:.0f} %" for r in repetitions)] for n in (1, 2, 4, 6, 8, 10)]
    assert rows[1:] == expected
    assert text(driver, "letters-text").startswith("32 held-out letters; ")


#: Middle and ends of the bar of every further electrode, in pixels from above, and the axis to read them by.
GAINS = """
const svg = document.querySelector("#gains svg"), box = (e) => e.getBoundingClientRect(), axis = svg.querySelector(".axis");
const middle = (e) => (box(e).top + box(e).bottom) / 2;
return {
  values: [...axis.querySelectorAll("text")].map((t) => Number(t.textContent.replace("−", "-"))),
  tops: [...axis.querySelectorAll("line")].map(middle),
  points: [...svg.querySelectorAll(".gains circle")].map(middle),
  bars: [...svg.querySelectorAll(".gains line")].map((e) => [box(e).top, box(e).bottom]),
  marked: middle(svg.querySelector(".here-dot")), seen: svg.querySelector(".here-dot").checkVisibility({ visibilityProperty: true }),
};
"""


def test_what_each_further_electrode_adds_is_drawn_with_its_error(driver, show):
    wanted = selection(10)
    for place, montage in enumerate(wanted["montages"][1:]):
        montage["drop"] |= {"auc_change": 0.004 * place - 0.02, "standard_error": 0.003 + 0.001 * place}
    show(wanted, hash_="#k=4")
    seen = driver.execute_script(GAINS)
    slope, start = np.polyfit(seen["values"], seen["tops"], 1)
    drops = [montage["drop"] for montage in wanted["montages"][1:]]
    gains = np.array([-drop["auc_change"] for drop in drops])
    errors = np.array([drop["standard_error"] for drop in drops])
    np.testing.assert_allclose(seen["points"], start + slope * gains, atol=1)
    np.testing.assert_allclose([top for top, _ in seen["bars"]], start + slope * (gains + errors), atol=1.2)
    np.testing.assert_allclose([low for _, low in seen["bars"]], start + slope * (gains - errors), atol=1.2)
    # the electrode that would be added to the four
    assert seen["marked"] == pytest.approx(seen["points"][3], abs=0.6)
    driver.execute_script("location.hash = '#k=10'")
    wait_until(lambda: not driver.execute_script(GAINS)["seen"])


@pytest.mark.parametrize(("n_asked", "mark"), [(None, "smallest near the best"), (2, "asked for")])
def test_an_unsure_montage_is_not_called_recommended(driver, show, n_asked, mark):
    wanted = unsure(selection(8), n_asked)
    show(wanted)
    n = wanted["recommended"]["n_sensors"]
    best = wanted["montages"][n - 1]
    answer, caution = by_id(driver, "answer"), by_id(driver, "caution")
    assert answer.text == HEADLINE
    assert caution.text == CAUTION
    assert 0 <= caution.rect["y"] - answer.rect["y"] - answer.rect["height"] < 12
    assert caution.rect["y"] < by_id(driver, "reason").rect["y"]
    assert by_id(driver, "return").text == f"{mark[0].upper()}{mark[1:]}: {n}"
    assert not by_id(driver, "copy-recommended").is_displayed()
    assert not by_id(driver, "recommended-names").is_displayed()
    named = f"{', '.join(best['sensors'])} ({n} of 8 electrodes: AUC {auc(best['auc'])} [.41, .94]; all electrodes: "
    assert by_id(driver, "reason").text.startswith(f"{mark[0].upper()}{mark[1:]}: {named}")
    assert by_id(driver, "reason").text.endswith(f"). {wanted['recommended']['reason']}")
    small, large = (
        float(by_id(driver, name).value_of_css_property("font-size")[:-2]) for name in ("reason", "answer")
    )
    assert small < 0.75 * large
    assert mark in by_id(driver, "curve-key").text
    assert mark in by_id(driver, "montage-table").text
    # the word is in the headline only
    seen = driver.find_element("tag name", "body").text.replace(answer.text, "").replace(CAUTION, "")
    assert "recommended" not in seen.lower()


#: Whether the window has this width, and the plots that of their places.
FITS = """
const fits = (place) => Number(place.querySelector("svg").getAttribute("width")) === place.clientWidth;
return innerWidth === arguments[0] && ["curve", "path-plot"].every((id) => fits(document.getElementById(id)));
"""


def test_a_window_that_changes_its_size_is_drawn_anew_without_complaint(driver, show):
    show(selection(8, subjects=("S1", "S2")))
    for width in (1000, 700, 390, 1280):
        metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        wait_until(lambda width=width: driver.execute_script(FITS, width))
    assert driver.execute_script("return window.complaints") == []


@pytest.mark.parametrize("wanted", [selection(1), selection(8)], ids=["one sensor", "eight"])
def test_one_is_not_many(driver, show, wanted):
    wanted["source"]["folds"]["count"] = wanted["source"]["n_trials"] = 1
    wanted["montages"][wanted["recommended"]["n_sensors"] - 1] |= {"low": 0.0, "high": 1.0}
    show(wanted, hash_="#k=1")
    seen = driver.find_element("tag name", "body").text
    assert "1 subject;" in seen
    assert re.findall(r"\b1 (?:electrode|sensor|subject|fold|trial|recording)s\b", seen) == []


def test_keyboard_alone(driver, show):
    Keys = pytest.importorskip("selenium.webdriver").Keys
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
    area = driver.find_element("tag name", "textarea")
    area.click()
    area.send_keys("\ue009v")  # Ctrl+V
    assert area.get_property("value").strip() == ", ".join(wanted["montages"][n - 1]["sensors"])


def test_a_name_that_looks_like_html_is_shown_as_text(driver, show):
    hostile = "<img src=x onerror=window.hit=1>"
    wanted = selection(names=("Cz", "Pz", hostile, "</script>"))
    wanted["source"]["recordings"] = [hostile]
    wanted["curves"][1]["method"] = hostile
    show(wanted, hash_="#k=4")
    assert driver.execute_script("return [window.hit ?? null, document.images.length]") == [None, 0]
    assert hostile in by_id(driver, "names").text
    assert hostile in by_id(driver, "curve-key").text


def without_intervals(found):
    """As where a single fold leaves nothing to compute them from."""
    for entry in (*found["montages"], *found["curves"]):
        entry["low"] = entry["high"] = None
    return found


def unknown(found):
    return hide(found, len(found["sensors"]))


@pytest.mark.parametrize(
    "wanted",
    [
        selection(8, stability=False, path=None, evoked=None),
        selection(1),
        unknown(selection(8)),
        without_intervals(selection(8)),
        {
            **selection(8),
            "montages": selection(8)["montages"][2:5],
            "recommended": {**selection(8)["recommended"], "n_sensors": 4, "best_n_sensors": 5},
        },
    ],
    ids=["nothing optional", "one sensor", "no position known", "no interval", "from three to five"],
)
def test_less_than_usual_is_shown_without_complaint(driver, show, wanted):
    show(wanted)
    found = driver.execute_script(EVERY_MONTAGE)
    assert [seen["names"] for seen in found] == [", ".join(montage["sensors"]) for montage in wanted["montages"]]
    assert [sorted(seen["lit"]) for seen in found] == [sorted(montage["sensors"]) for montage in wanted["montages"]]


def test_an_answer_without_interval(driver, show):
    wanted = without_intervals(selection(8))
    show(wanted)
    best = wanted["montages"][wanted["recommended"]["n_sensors"] - 1]
    assert f"AUC {auc(best['auc'])}; all electrodes" in by_id(driver, "answer").text


def test_a_complaint_would_be_heard(driver, show):
    show(selection(8))
    driver.execute_script("setTimeout(() => { throw new Error('heard'); })")
    wait_until(lambda: any("heard" in entry["message"] for entry in driver.get_log("browser")))
    assert len(driver.execute_script("return window.complaints.splice(0)")) == 1
