import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mne")

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "reading.py"


@pytest.mark.slow
def test_ten_minutes_of_64_channels_stay_under_a_gigabyte():
    done = subprocess.run([sys.executable, BENCHMARK, "--json"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for row in json.loads(done.stdout):
        assert row["peak_mb"] < 1000
        assert 0 < row["filter_share"] < 1
        assert row["trials"] == 2250
