"""How long `mixnorm select` takes, and how long it shows no progress.

    python benchmarks/select_speed.py hour [--file hour_raw.fif] [--profile]
    python benchmarks/select_speed.py command [--file hour_raw.fif]
    python benchmarks/select_speed.py arrays --device cuda [--compare]

hour     256 channels, one hour at 256 Hz, 1800 trials: `--resamplings 5 --no-compare` on one thread. The recording is
         made on the first run (1 GB; needs MNE).
command  the same by the command line, with what it writes to standard error while that is no terminal.
arrays   64 channels x 12 samples, 1600 trials in memory, without MNE: on a device, with `--compare` also on the CPU,
         and whether both find the same montages.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from _machine import processor
from _problems import N_SOURCES, SENSOR_NOISE, _mixing, eeg_like
from _sampling import sampled

from mixnorm import use_device
from mixnorm.eeg import SelectOptions, select_montage

SFREQ, N_TRIALS, SECONDS = 256.0, 1800, 3600
QUICK = {"n_resamplings": 5, "compare": False}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["hour", "command", "arrays"])
    parser.add_argument("--file", type=Path, default=Path(tempfile.gettempdir()) / "hour_raw.fif")
    parser.add_argument("--channels", type=int)
    parser.add_argument("--trials", type=int)
    parser.add_argument("--samples", type=int, default=12, help="per trial, for arrays")
    parser.add_argument("--device", metavar="cuda", help="for arrays")
    parser.add_argument("--compare", action="store_true", help="arrays: the same on the CPU")
    parser.add_argument("--profile", action="store_true", help="hour and arrays: print where the time goes")
    options = parser.parse_args()
    print(f"{processor()}, OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS')}")
    if options.part != "arrays" and not options.file.exists():
        write_hour(options.file, options.channels or 256)
    {"hour": hour, "command": command, "arrays": arrays}[options.part](options)


def hour(options):
    from mixnorm.eeg import read_recordings

    waits = Waits()
    with profiled(options.profile, "hour"):
        runs = read_recordings(options.file)
        waits.say("reading")
        select_montage(runs, SelectOptions(**QUICK), waits)
    waits.report()


def command(options):
    """Print when the command first writes to standard error, and how long it writes nothing."""
    asked = ["--resamplings", "5", "--no-compare", "--no-figures"]
    with tempfile.TemporaryDirectory() as folder:
        run = [sys.executable, "-m", "mixnorm", "select", str(options.file.resolve()), *asked, "--out", folder]
        begin = last = time.perf_counter()
        first = longest = 0.0
        written = b""
        with subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            while text := os.read(process.stderr.fileno(), 2**16):
                written += text
                now = time.perf_counter()
                first, longest, last = first or now - begin, max(longest, now - last), now
    if process.returncode:
        raise SystemExit(f"the command ended with status {process.returncode}:\n{written.decode().strip()}")
    now = time.perf_counter()
    print(f"{now - begin:.1f} s, first message after {first:.2f} s, longest silence {max(longest, now - last):.1f} s")


def write_hour(path: Path, n_channels: int) -> None:
    """EEG-like activity of 10 µV at every channel, and a small wave at eight of them after one event in six."""
    import mne

    rng = np.random.default_rng(0)
    n_samples, chunk = int(SECONDS * SFREQ), int(60 * SFREQ)
    mixing, memory = _mixing(n_channels, rng), 0.95
    signal, activity = np.empty((n_channels, n_samples)), np.zeros(N_SOURCES)
    from scipy.signal import lfilter

    state = np.zeros((N_SOURCES, 1))
    for start in range(0, n_samples, chunk):
        stop = min(start + chunk, n_samples)
        white = rng.standard_normal((N_SOURCES, stop - start)) * np.sqrt(1 - memory**2)
        activity, state = lfilter([1.0], [1.0, -memory], white, axis=1, zi=state)
        noise = SENSOR_NOISE * rng.standard_normal((n_channels, stop - start))
        signal[:, start:stop] = 10.0 * (mixing.T @ activity + noise)
    onset = (np.arange(N_TRIALS) * (SECONDS - 2) / N_TRIALS + 0.5) * SFREQ
    target = rng.permutation(N_TRIALS) < N_TRIALS // 6
    times = np.arange(int(0.8 * SFREQ)) / SFREQ
    for channel in rng.choice(n_channels, 8, replace=False):
        wave = 1.2 * rng.uniform(0.4, 1.0) * np.exp(-((times - rng.uniform(0.3, 0.5)) ** 2) / (2 * 0.08**2))
        for at in np.rint(onset[target]).astype(int):
            signal[channel, at : at + len(times)] += wave
    signal *= 1e-6
    info = mne.create_info([f"E{number + 1}" for number in range(n_channels)], SFREQ, "eeg")
    raw = mne.io.RawArray(signal, info, verbose="error")
    texts = np.where(target, "Target", "NonTarget").tolist()
    raw.set_annotations(mne.Annotations(onset / SFREQ, 0.0, texts), verbose="error")
    raw.save(path, verbose="error", overwrite=True)


def arrays(options):
    n_channels, n_trials = options.channels or 64, options.trials or 1600
    X, y = eeg_like(n_trials, n_channels, options.samples, 0)
    source = {
        "X": X,
        "y": (y > 0).astype(int),
        "ch_names": np.array([f"E{number + 1}" for number in range(n_channels)]),
        "times": np.arange(options.samples) * 0.05,
    }
    found = []
    for device in [options.device, None] if options.compare else [options.device]:
        with use_device(device):
            if device:  # what is set up once per process is not the selection's time
                small = {**source, "X": X[:200, :6], "y": source["y"][:200], "ch_names": source["ch_names"][:6]}
                select_montage(small, SelectOptions(n_resamplings=1, compare=False))
            waits = Waits()
            with profiled(options.profile, device or "CPU"):
                found.append(select_montage(source, SelectOptions(**QUICK), waits))
            print(f"{device or 'CPU'}:")
            waits.report()
    if options.compare:
        compare(*found)


def compare(mine, theirs) -> None:
    """Print whether two selections agree."""
    same = [a.sensors == b.sensors for a, b in zip(mine.montages, theirs.montages, strict=True)]
    auc = max(abs(a.auc - b.auc) for a, b in zip(mine.montages, theirs.montages, strict=True))
    print(
        f"same electrodes in {sum(same)} of {len(same)} montages; largest difference of an AUC {auc:.1e}; "
        f"recommended {mine.recommended.n_sensors} and {theirs.recommended.n_sensors}"
    )


class Waits:
    """Seconds between messages of progress, and by step."""

    def __init__(self):
        self.begin = self.last = time.perf_counter()
        self.cpu = time.process_time()
        self.by_step: dict[str, list[float]] = {}
        self.first = 0.0

    def __call__(self, now) -> None:
        """Take a message of `select_montage`."""
        self.say(now.step)

    def say(self, step: str) -> None:
        now = time.perf_counter()
        wait, self.last = now - self.last, now
        self.first = self.first or now - self.begin
        self.by_step.setdefault(step, []).append(wait)

    def report(self) -> None:
        total, cpu = time.perf_counter() - self.begin, time.process_time() - self.cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"  {total:.1f} s wall, {cpu:.1f} s CPU, peak {peak:.1f} GB")
        print(f"  first message after {self.first:.2f} s, longest wait {max(map(max, self.by_step.values())):.1f} s")
        for step, waits in self.by_step.items():
            print(f"  {sum(waits):8.1f} s, longest wait {max(waits):5.1f} s  {step}")


def profiled(asked: bool, title: str):
    return sampled(title) if asked else contextlib.nullcontext()


if __name__ == "__main__":
    main()
