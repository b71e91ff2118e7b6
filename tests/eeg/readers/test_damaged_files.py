"""A few hundred damaged files for every run of the tests; benchmarks/fuzz_readers.py has the larger campaign."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

for module in ("mne", "mne_bids", "pyxdf", "edfio", "eeglabio", "pybv"):
    pytest.importorskip(module)

CAMPAIGN = Path(__file__).parents[3] / "benchmarks" / "fuzz_readers.py"
READERS = ("npz", "dat", "mat speller", "mat epfl", "mat bnci", "mat recipe")
READERS += ("fif", "epochs fif", "edf", "set", "vhdr", "bids", "xdf")


@pytest.fixture(scope="module")
def results():
    """All readers in one process of at most 3 GiB, 30 damaged files each, at most 5 s of CPU time for a file."""
    command = [
        sys.executable,
        CAMPAIGN,
        "--count",
        "30",
        "--seed",
        "0",
        "--seconds",
        "5",
        "--limit-gib",
        "3",
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.stdout, done.stderr
    return {row["reader"]: row for row in json.loads(done.stdout)}


@pytest.mark.parametrize("reader", READERS)
def test_damaged_files_give_a_recording_or_a_recording_error(results, reader):
    row = results[reader]
    assert row["failures"] == []
    assert row.get("refused", 0) + row.get("same", 0) + row.get("other", 0) == 30
    assert row["refused"] > 0  # otherwise nothing was damaged


def test_every_reader_of_the_campaign_is_tested(results):
    assert set(results) == set(READERS)
