"""Take a picture of the page of a selection, as Chromium shows it: the picture in the README.

python examples/electrodes_page.py docs/electrodes-page.png                    simulated: 8 of 32 are informative
python examples/electrodes_page.py picture.png DIR/selection.json              what `mixnorm select` wrote
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from mixnorm.montage.reading import read_selection
from mixnorm.report.page import PAGE_NAME, write_page

WINDOW = (1280, 860)


def main(target, source=None):
    with tempfile.TemporaryDirectory() as folder:
        selection = read_selection(source) if source else simulated()
        page = write_page(selection, Path(folder) / PAGE_NAME)
        photograph(page, Path(target).resolve(), Path(folder) / "profile")


def simulated():
    from mixnorm.eeg import select_montage, simulated_recording

    return select_montage(simulated_recording(1200, n_channels=32, n_informative=8, seed=3))


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
