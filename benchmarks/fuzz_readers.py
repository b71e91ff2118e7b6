"""Damaged recordings: every reader answers with a `RecordingError` or a recording, and nothing else happens.

    python benchmarks/fuzz_readers.py [--count 1000] [--seed 0] [--reader NAME …] [--json]

For each format a small recording is written and damaged in `--count` ways: bits flipped, numbers replaced by extreme
ones, blocks removed, repeated, overwritten or exchanged, the end cut off. Contents of compressed files are damaged
before they are compressed, so that checksums do not protect them. A result is counted as

- refused: a `RecordingError`;
- same, other: a recording, equal to that of the whole file or not (a changed sample of a format without checksums);
- crashed, slow, large: a `RecordingError` that says that the process that reads has crashed, or met a limit; these
  are counted as refused, too;
- warned: a recording that came with a warning; it is counted as same or other, too;
- failed: any other exception, or more memory of this process than `--limit-gib`.

The process itself runs under that limit. Seeds are printed for what failed; the same seed gives the same file.
"""

from __future__ import annotations

import argparse
import io
import json
import struct
import sys
import tempfile
import time
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.io import savemat

from mixnorm.eeg import RecordingError, read_recordings, simulated_recording, to_raw
from mixnorm.eeg.readers import isolated

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

EXTREME = (0, 1, -1, 2**31 - 1, -(2**31), 2**16, 2**28, 255, 1000)


def small_recording():
    return simulated_recording(36, n_channels=4, n_informative=2, sfreq=64.0, seed=5)


def write_fif(folder, recording):
    to_raw(recording).save(folder / "a_raw.fif", verbose="error")
    return folder / "a_raw.fif", ["a_raw.fif"], {}


def write_epochs(folder, recording):
    import mne

    raw = to_raw(recording)
    events, _ = mne.events_from_annotations(raw, lambda name: 2 if name.startswith("Target") else 1, verbose="error")
    kinds = {"Target": 2, "NonTarget": 1}
    mne.Epochs(raw, events, kinds, 0, 0.5, baseline=None, preload=True, verbose="error").save(
        folder / "a-epo.fif", verbose="error"
    )
    return folder / "a-epo.fif", ["a-epo.fif"], {}


def exported(name, *parts):
    def write(folder, recording):
        import mne

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mne.export.export_raw(folder / name, to_raw(recording), verbose="error")
        return folder / name, list(parts or (name,)), {}

    return write


def write_bids(folder, recording):
    import mne_bids

    raw = to_raw(recording)
    raw.info["line_freq"] = 50
    path = mne_bids.BIDSPath(subject="01", task="x", root=folder, datatype="eeg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mne_bids.write_raw_bids(raw, path, format="BrainVision", allow_preload=True, verbose="error")
    parts = [file for file in (folder / "sub-01" / "eeg").iterdir() if file.suffix != ".eeg"]
    return folder / "sub-01", sorted(str(file.relative_to(folder)) for file in parts), {}


def write_xdf(folder, recording):
    from xdf_files import recording_as_xdf

    return recording_as_xdf(folder / "a.xdf", recording), ["a.xdf"], {}


def write_speller(folder, recording):
    trigger = np.zeros(recording.signal.shape[1])
    trigger[recording.events.onset] = 2 * recording.events.target - 1
    savemat(folder / "a.mat", {"y": recording.signal.T, "trig": trigger, "fs": recording.sfreq})
    return folder / "a.mat", ["a.mat"], {}


def write_recipe(folder, recording):
    events = recording.events
    eeg = {"data": recording.signal, "srate": recording.sfreq, "names": np.array(recording.ch_names, dtype=object)}
    savemat(folder / "a.mat", {"EEG": eeg, "at": events.onset + 1, "kind": events.target, "code": events.stimulus})
    recipe = "signal=EEG.data,onsets=at,labels=kind,codes=code,rate=EEG.srate,names=EEG.names"
    return folder / "a.mat", ["a.mat"], {"recipe": recipe}


def write_bnci(folder, recording):
    label, code = (np.zeros((recording.signal.shape[1], 1)) for _ in range(2))
    label[recording.events.onset, 0] = recording.events.target + 1
    code[recording.events.onset, 0] = recording.events.stimulus
    run = {"X": recording.signal.T, "y": label, "y_stim": code, "channels": np.array(recording.ch_names, dtype=object)}
    savemat(folder / "a.mat", {"data": {**run, "classes_stim": np.array(["a", "b"], dtype=object), "trial": [1, 500]}})
    return folder / "a.mat", ["a.mat"], {}


def write_epfl(folder, _recording):
    rng = np.random.default_rng(0)
    clock = np.tile([2006.0, 5, 19, 12, 0, 0], (6, 1))
    clock[:, 5] = 0.4 * np.arange(6)
    data = rng.standard_normal((34, 8000)).astype(np.float32)
    savemat(folder / "a.mat", {"data": data, "events": clock, "stimuli": np.arange(6) + 1, "target": 3})
    return folder / "a.mat", ["a.mat"], {}


def write_bundle(folder, recording):
    events = recording.events
    X = np.random.default_rng(0).standard_normal((36, 4, 6))
    names = np.array(recording.ch_names)
    np.savez(
        folder / "a.npz", X=X, y=events.target, ch_names=names, times=np.arange(6) / 10, character=events.character
    )
    return folder / "a.npz", ["a.npz"], {}


def write_bci2000(folder, recording):
    n_samples, lit = recording.signal.shape[1], np.zeros(recording.signal.shape[1], dtype=np.uint8)
    lit[recording.events.onset] = recording.events.stimulus
    lit[recording.events.onset[recording.events.target == 1]] |= 0x80
    names = " ".join(recording.ch_names)
    body = (
        "[ State Vector Definition ]\r\nStimulusCode 7 0 0 0\r\nStimulusType 1 0 0 7\r\n[ Parameter Definition ]\r\n"
        "S int SamplingRate= 64 64 1 % // rate\r\nS floatlist SourceChGain= 4 0.1 0.1 0.1 0.1 // gain\r\n"
        f"S list ChannelNames= 4 {names} // names\r\n\r\n"
    )
    first = "BCI2000V= 1.1 HeaderLen= {:6d} SourceCh= 4 StatevectorLen= 1 DataFormat= int16\r\n"
    head = first.format(len(first.format(0)) + len(body)) + body
    stored = (recording.signal.T * 10).astype("<i2")
    frames = b"".join(stored[i].tobytes() + lit[i : i + 1].tobytes() for i in range(n_samples))
    (folder / "a.dat").write_bytes(head.encode() + frames)
    return folder / "a.dat", ["a.dat"], {}


READERS: dict[str, Callable] = {
    "npz": write_bundle,
    "dat": write_bci2000,
    "mat speller": write_speller,
    "mat epfl": write_epfl,
    "mat bnci": write_bnci,
    "mat recipe": write_recipe,
    "fif": write_fif,
    "epochs fif": write_epochs,
    "edf": exported("a.edf"),
    "set": exported("a.set"),
    "vhdr": exported("a.vhdr", "a.vhdr", "a.vhdr", "a.vmrk"),
    "bids": write_bids,
    "xdf": write_xdf,
}


def damaged(body: bytes, rng: np.random.Generator) -> bytes:
    """One to four changes to some bytes, most of them near the beginning, where headers are."""
    out = bytearray(body)
    for _ in range(rng.choice([1, 1, 2, 4])):
        if not out:
            break
        at = int(len(out) * rng.random() ** rng.choice([1, 3, 6]))
        length = int(min(len(out) - at, 2 ** rng.integers(0, 9)))
        change = rng.integers(8)
        if change == 0:
            out[at] ^= 1 << int(rng.integers(8))
        elif change == 1:
            out[at] = int(rng.integers(256))
        elif change == 2:
            at -= at % 4
            order = "<" if rng.random() < 0.5 else ">"
            out[at : at + 4] = struct.pack(f"{order}I", int(rng.choice(EXTREME)) & 0xFFFFFFFF)
        elif change == 3:
            del out[at : at + length]
        elif change == 4:
            out[at:at] = out[at : at + length]
        elif change == 5:
            out[at : at + length] = bytes(rng.integers(0, 256, length, dtype=np.uint8))
        elif change == 6:
            other = int(rng.integers(len(out)))
            out[at : at + length] = out[other : other + length]
        else:
            del out[at:]
    return bytes(out)


def damaged_file(path: Path, body: bytes, rng: np.random.Generator) -> bytes:
    """A damaged file; every other one of a compressed format is damaged inside."""
    if path.suffix == ".npz" and rng.random() < 0.7:
        return _damaged_zip(body, rng)
    broken = damaged(body, rng)
    if path.suffix in (".mat", ".set") and len(broken) > 136 and rng.random() < 0.5:
        packed = zlib.compress(broken[128:])
        return broken[:128] + struct.pack("<II", 15, len(packed)) + packed
    return broken


def _damaged_zip(body: bytes, rng: np.random.Generator) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(body)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        names = old.namelist()
        chosen = rng.choice(names)
        for name in names:
            content = old.read(name)
            new.writestr(name, damaged(content, rng) if name == chosen else content)
    return out.getvalue()


def equal(one, other) -> bool:
    """Whether two lists of recordings have the same signals and events."""
    return len(one) == len(other) and all(
        np.array_equal(getattr(a, "signal", getattr(a, "X", 0)), getattr(b, "signal", getattr(b, "X", 0)))
        and all(np.array_equal(x, y) for x, y in zip(vars(a.events).values(), vars(b.events).values()))
        for a, b in zip(one, other)
    )


def campaign(reader: str, count: int, seed: int) -> dict:
    """Counts of results, what failed, and the slowest file in seconds."""
    counts, failures, slowest = Counter(), [], 0.0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        source, parts, options = READERS[reader](folder, small_recording())
        whole = {part: (folder / part).read_bytes() for part in parts}
        expected = read_recordings(source, **options)
        for number in range(seed, seed + count):
            rng = np.random.default_rng([number, *reader.encode()])
            part = str(rng.choice(parts))
            (folder / part).write_bytes(damaged_file(folder / part, whole[part], rng))
            begin = time.perf_counter()
            try:
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    found = read_recordings(source, **options)
                counts["warned"] += bool(caught)
                counts["same" if equal(found, expected) else "other"] += 1
            except RecordingError as error:
                counts["refused"] += 1
                for word, sign in (("crashed", "crashed ("), ("slow", "took longer"), ("large", "took more than")):
                    counts[word] += sign in str(error)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                failures.append(f"seed {number}, {part}: {type(error).__name__}: {str(error)[:200]}")
            slowest = max(slowest, time.perf_counter() - begin)
            (folder / part).write_bytes(whole[part])
        assert equal(read_recordings(source, **options), expected)
    return {
        "reader": reader,
        "count": count,
        **counts,
        "failed": len(failures),
        "failures": failures,
        "slowest_s": slowest,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reader", nargs="*", default=list(READERS), choices=list(READERS))
    parser.add_argument("--limit-gib", type=float, default=3.0)
    parser.add_argument("--seconds", type=float, default=10.0, help="CPU time that one file may take")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (int(arguments.limit_gib * 2**30), resource.RLIM_INFINITY))
    except (ImportError, ValueError):
        print("no limit on memory on this system", file=sys.stderr)
    isolated.BASE_SECONDS = arguments.seconds
    rows = []
    for reader in arguments.reader:
        rows.append(campaign(reader, arguments.count, arguments.seed))
        if not arguments.json:
            words = ("refused", "same", "other", "crashed", "slow", "large", "warned", "failed")
            counts = ", ".join(f"{word} {rows[-1].get(word, 0)}" for word in words)
            print(f"{reader:12} {counts}; slowest {rows[-1]['slowest_s']:.1f} s", flush=True)
            for failure in rows[-1]["failures"]:
                print(f"    {failure}", flush=True)
    if arguments.json:
        print(json.dumps(rows))
    sys.exit(any(row["failed"] for row in rows))


if __name__ == "__main__":
    main()
