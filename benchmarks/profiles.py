"""Where the time goes in what is done after training: predicting, a stream, reading a file. Also l2 with noise.

    python benchmarks/profiles.py [--only predict,decoder,stream,fif,edf,noise] [--top 4]

Every task is run once to warm up, then timed (CPU seconds on one thread, least of five), then run under cProfile; the
table has the functions with the largest share of the profiled time of their own. ``fif`` and ``edf`` are read in this
process and without the time of importing MNE. Recordings are simulated: 64 channels, 512 Hz, 10 minutes (``decoder``
and ``stream``: 4 minutes).
"""

import argparse
import cProfile
import os
import pstats
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

import numpy as np  # noqa: E402
from _problems import eeg_like  # noqa: E402

from mixnorm import GroupSVC  # noqa: E402
from mixnorm.eeg import Decoder, StreamDecoder, read_recording, simulated_recording, to_raw  # noqa: E402

#: Samples of one chunk of the stream: 1/32 s.
CHUNK = 16


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(TASKS))
    parser.add_argument("--top", type=int, default=4)
    options = parser.parse_args()
    print("| task | s | where: share of the time, function |\n| --- | ---: | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only:
            title, call = TASKS[name](Path(folder))
            call()
            seconds = min(seconds_of(call) for _ in range(5))
            print(f"| {title} | {seconds:.4f} | {'; '.join(largest(call, options.top))} |", flush=True)


def seconds_of(call: Callable) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


def largest(call: Callable, top: int) -> list[str]:
    """The functions that took most of the time themselves."""
    profile = cProfile.Profile(time.thread_time)
    profile.runcall(call)
    stats = pstats.Stats(profile).stats.items()
    whole = sum(own for _, (_, _, own, _, _) in stats)
    ranked = sorted(((own, place) for place, (_, _, own, _, _) in stats), reverse=True)[:top]
    return [f"{own / whole:.0%} {described(*place)}" for own, place in ranked]


def described(path: str, _line: int, function: str) -> str:
    function = function.removeprefix("<built-in method ").removeprefix("<method ").removesuffix(">")
    return f"`{function}`" if path == "~" else f"`{function}` ({Path(path).parent.name}/{Path(path).name})"


def predict(_folder: Path):
    X, y = eeg_like(20_000, 64, 32, seed=0)
    model = GroupSVC(0.01, tol=1e-3).fit(X[:1000], y[:1000])
    return "`predict`, 20,000 trials of 64 × 32", lambda: model.predict(X)


@cache
def decoder_and_recording():
    recording = simulated_recording(900, n_channels=64, sfreq=512.0)
    return Decoder.fit(recording), recording


def decoder(_folder: Path):
    fitted, recording = decoder_and_recording()
    return "`Decoder.predict`, 4 min", lambda: fitted.predict(recording)


def stream(_folder: Path):
    fitted, recording = decoder_and_recording()
    onsets = np.asarray(recording.events.onset)
    starts = range(0, recording.signal.shape[1] - CHUNK, CHUNK)
    chunks = [recording.signal[:, start : start + CHUNK] for start in starts]
    events = [(onsets[(onsets >= start) & (onsets < start + CHUNK)] - start).tolist() for start in starts]

    def run():
        running = StreamDecoder(fitted)
        for chunk, own in zip(chunks, events, strict=True):
            running.push(chunk, own)

    return f"`StreamDecoder`, 4 min in {len(chunks)} chunks of {CHUNK} samples", run


@cache
def long_raw():
    return to_raw(simulated_recording(2250, n_channels=64, sfreq=512.0))


def fif(folder: Path):
    path = folder / "long_raw.fif"
    long_raw().save(path, verbose="error")
    return "reading fif, 10 min", lambda: read_recording(path, isolate=False)


def edf(folder: Path):
    path = folder / "long.edf"
    long_raw().export(path, verbose="error")
    return "reading EDF, 10 min", lambda: read_recording(path, isolate=False)


def noise(_folder: Path):
    X, y = eeg_like(1000, 32, 16, seed=0)
    return "l2 with structured noise, 1000 × 32·16", lambda: GroupSVC(0.1, penalty="l2", noise="structured").fit(X, y)


TASKS = {task.__name__: task for task in (predict, decoder, stream, fif, edf, noise)}

if __name__ == "__main__":
    main()
