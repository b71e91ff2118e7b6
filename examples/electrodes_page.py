"""Take a picture of the page of a selection, as Chromium shows it: the picture in the README.

mixnorm select RECORDING --out here
python examples/electrodes_page.py here/selection.json docs/electrodes-page.png
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from mixnorm.report.page import PAGE_NAME, read_selection, write_page

WINDOW = (1280, 860)


def main(source, target):
    with tempfile.TemporaryDirectory() as folder:
        page = write_page(read_selection(source), Path(folder) / PAGE_NAME)
        photograph(page, Path(target).resolve(), Path(folder) / "profile")


def photograph(page, target, profile):
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("chromium is not installed (Debian: apt-get install chromium).")
    flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars")
    quiet = ("--disable-background-networking", "--disable-component-update", "--disable-sync")
    size = "--window-size={},{}".format(*WINDOW)
    command = [chromium, *flags, *quiet, f"--user-data-dir={profile}", size, f"--screenshot={target}", page.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


if __name__ == "__main__":
    main(*sys.argv[1:])
