"""On a machine without MNE, MOABB and click the core and everything that is arrays must work."""

import subprocess
import sys

import pytest

BLOCKED = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"mne", "moabb", "click", "tqdm", "matplotlib", "pandas"}:
            raise ModuleNotFoundError(f"No module named {name!r}")
sys.meta_path.insert(0, Missing())
"""


def run(code):
    return subprocess.run([sys.executable, "-c", BLOCKED + code], capture_output=True, text=True, timeout=300)


def test_core_and_arrays_work(tmp_path):
    done = run(
        f"""
import numpy as np
import mixnorm
from mixnorm.eeg import Preparation, prepare, read_recording, simulated_cohort, simulated_p300, simulated_recording
assert simulated_p300(20).X.shape == (20, 16, 8)
assert simulated_cohort(2, 20).X.shape == (40, 16, 8)
assert prepare(simulated_recording(24), Preparation()).X.shape == (24, 16, 12)
np.savez(r"{tmp_path}/b.npz", X=np.random.rand(4, 2, 3), y=[0, 1, 0, 1], ch_names=["Fz", "Cz"], times=[0, .1, .2])
assert read_recording(r"{tmp_path}/b.npz").X.shape == (4, 2, 3)
assert "mne" not in sys.modules
"""
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("source", "extra"),
    [("a_raw.fif", "eeg"), ("a.edf", "eeg"), ("a-epo.fif", "eeg"), ("moabb:EPFLP300", "eeg")],
)
def test_readers_name_the_extra(tmp_path, source, extra):
    path = source if source.startswith("moabb") else tmp_path / source
    if not source.startswith("moabb"):
        path.write_bytes(b"something")
    done = run(f"from mixnorm.eeg import read_recording\nread_recording(r'{path}')")
    assert f'ImportError: This needs mne, which is not installed: pip install "mixnorm[{extra}]".' in done.stderr


def test_writing_a_raw_names_the_extra():
    done = run("from mixnorm.eeg import simulated_recording, to_raw\nto_raw(simulated_recording(12))")
    assert 'pip install "mixnorm[eeg]"' in done.stderr
