"""Debian's Chromium, without a screen; what needs it is skipped where it is not installed."""

import json
import os
import shutil

import pytest

from browsing import DESKTOP, wait_until
from mixnorm.montage.reading import selection_from_json
from mixnorm.report.page import write_page

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
#: Not every complaint reaches the log of the browser: that of a ResizeObserver is heard by the window alone.
LISTEN = "window.complaints = []; addEventListener('error', (event) => window.complaints.push(event.message))"
#: Whether the page asked for is there and has drawn itself.
SHOWN = "return location.href.startsWith(arguments[0]) && Boolean(document.getElementById('n-sensors')?.textContent)"


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    chromium, driver = (shutil.which(name) for name in ("chromium", "chromedriver"))
    if not (chromium and driver):
        pytest.skip("chromium and chromedriver are not installed (Debian: chromium, chromium-driver)")
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed (the extra `test`)")
    # with both programs named selenium has nothing to download; this makes sure of it
    os.environ["SE_OFFLINE"] = "true"
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    # what the browser itself opens at its start is not the page's doing
    browser.get("about:blank")
    browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": LISTEN})
    yield browser
    browser.quit()


@pytest.fixture
def show(driver, tmp_path):
    """Open the page of a selection; at the end, nothing may have been complained of or asked of any network."""

    pages = []

    def open_page(chosen, size=DESKTOP, hash_="", scheme="light"):
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
        # a new name each time: the same one with another hash would not be loaded again
        pages.append(write_page(selection_from_json(chosen), tmp_path / f"page-{len(pages)}.html").as_uri())
        driver.get(pages[-1] + hash_)
        wait_until(lambda: driver.execute_script(SHOWN, pages[-1]))

    driver.get_log("browser"), driver.get_log("performance")
    yield open_page
    assert driver.get_log("browser") == []
    assert not pages or driver.execute_script("return window.complaints") == []
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    asked = {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}
    assert {url.partition("#")[0] for url in asked} - {"data:,"} == set(pages)
