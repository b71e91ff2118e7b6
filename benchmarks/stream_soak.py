"""A stream with random faults, chunk after chunk: what is scored, memory, and latency per chunk.

python benchmarks/stream_soak.py [--chunks 2000000] [--minutes 20] [--json]

A simulated recording of 8 channels at 256 Hz repeats without end in chunks of 0 to 32 samples, with faults at random:
NaN in some channels, infinite values, packets lost without a trace, long interruptions, and channels that come back in
another order. Every event must come back once; those whose window holds no lost sample must have a score.
"""

import argparse
import gc
import json
import os
import time
from pathlib import Path

import numpy as np
from _machine import describe

from mixnorm import GroupSVC
from mixnorm.eeg import Decoder, StreamDecoder, simulated_recording

#: How often each fault occurs, per chunk.
FAULTS = {"nan": 4e-3, "inf": 5e-4, "lost": 1e-3, "interrupted": 2e-5, "reordered": 1e-3}
#: Samples from one event to the next.
EVENT_EVERY = 40


class Source:
    """Chunks with faults from an endless signal, and an independent record of which samples were lost."""

    def __init__(self, recording, used, seed):
        self.signal, self.used, self.rng = recording.signal, used, np.random.default_rng(seed)
        self.order = np.arange(len(self.signal))
        self.at, self.due = 0, {}
        self.lost_until = -1  # last sample so far that was lost in a used channel

    def chunk(self, grid):
        """Chunk, events, number of samples lost before it, and whether the next chunk has another order."""
        rng, n_samples = self.rng, int(self.rng.integers(0, 33))
        lost = self._lost()
        if lost:
            self._note(self.at, self.at + lost, grid)
            self.at += lost
        places = (self.at + np.arange(n_samples)) % self.signal.shape[1]
        chunk = self.signal[:, places]
        events = [place for place in range(n_samples) if (self.at + place) % EVENT_EVERY == 0]
        for place in events:
            onset = self.at + place
            self.due[onset] = self.lost_until >= onset + grid.start
        if n_samples:
            self._damage(chunk, grid)
        self.at += n_samples
        sent, reordered = chunk[self.order], rng.random() < FAULTS["reordered"]
        if reordered:  # from the next chunk on
            self.order = rng.permutation(len(self.signal))
        return sent, events, lost, reordered

    def _lost(self):
        if self.rng.random() < FAULTS["interrupted"]:
            return int(self.rng.integers(1000, 10_000_000))
        return int(self.rng.integers(1, 200)) if self.rng.random() < FAULTS["lost"] else 0

    def _damage(self, chunk, grid):
        for kind, value in (("nan", np.nan), ("inf", np.inf)):
            if self.rng.random() < FAULTS[kind]:
                begin = int(self.rng.integers(chunk.shape[1]))
                end = int(self.rng.integers(begin, chunk.shape[1])) + 1
                hit = self.rng.random(len(chunk)) < 0.3
                chunk[np.ix_(hit, np.arange(begin, end))] = value
                if hit[self.used].any():
                    self._note(self.at + begin, self.at + end, grid)

    def _note(self, begin, end, grid):
        """Mark the events whose windows meet the lost samples begin … end − 1."""
        self.lost_until = max(self.lost_until, end - 1)
        for onset in self.due:
            if onset + grid.start < end and begin < onset + grid.stop:
                self.due[onset] = True


def resident():
    """Bytes of memory of this process."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def soak(n_chunks, seconds=np.inf, seed=0, memory=resident):
    """Run; return counts, growth of memory in bytes after the first tenth, and seconds of each push (clock, CPU)."""
    recording = simulated_recording(400, n_channels=8, n_informative=3, seed=7)
    decoder = Decoder.fit(recording, classifier=GroupSVC(alpha=0.3))
    grid = decoder.preparation.grid(decoder.sfreq)
    used = [recording.ch_names.index(name) for name in decoder.selected]
    source, stream = Source(recording, used, seed), StreamDecoder(decoder)
    counts = dict.fromkeys(("chunks", "samples", "events", "scored", "without_score", "wrong"), 0)
    took, before, started = np.ones((2, n_chunks)), 0, time.perf_counter()
    for number in range(n_chunks):
        if time.perf_counter() - started > seconds:
            break
        chunk, events, lost, reordered = source.chunk(grid)
        begin = time.perf_counter(), time.thread_time()
        scores = stream.push(chunk, events, lost)
        took[:, number] = time.perf_counter() - begin[0], time.thread_time() - begin[1]
        if reordered:
            stream.reorder([recording.ch_names[channel] for channel in source.order])
        counts["chunks"] += 1
        counts["events"] += len(events)
        for one in scores:
            disturbed, scored = source.due.pop(one.onset), bool(np.isfinite(one.score))
            counts["scored" if scored else "without_score"] += 1
            # a score where there must be none, none where there must be one, or no score and no reason
            counts["wrong"] += scored == disturbed or (disturbed and not one.reason)
        if number == n_chunks // 10:
            before = memory()
    growth = memory() - before
    unfinished = {one.onset for one in stream.reset()}
    counts["wrong"] += len(unfinished ^ set(source.due))
    counts["samples"] = source.at
    return counts | {"growth_bytes": growth, "seconds": time.perf_counter() - started}, took[:, : counts["chunks"]]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=2_000_000)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    counts, took = soak(asked.chunks, 60 * asked.minutes)
    result = counts | describe()
    for name, own in zip(("clock", "processor"), took):
        p50, p99 = np.percentile(own, [50, 99])
        result[f"{name}_us"] = {"p50": 1e6 * p50, "p99": 1e6 * p99, "max": 1e6 * own.max()}
    if asked.json:
        print(json.dumps(result))
    else:
        print("\n".join(f"{name}: {value}" for name, value in result.items()))
