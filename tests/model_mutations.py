"""Damaged and forged model files, for the fuzzing test and for `benchmarks/fuzz_models.py`.

    python tests/model_mutations.py FOLDER [--count 300] [--seed 0] [--memory 1024]

An *altered* file has other bytes than `mixnorm.save` wrote: it must be refused, or give the same model. A *forged* file
has another header or other arrays, with checksums that agree: it must be refused, or give a model that works (a number,
name or coefficient may be another one that is allowed). The process gets ``--memory`` MiB beyond what it uses when it
starts. One line of JSON: how many files were refused, gave the same model, gave a model that works, and what else
happened.
"""

import argparse
import contextlib
import faulthandler
import hashlib
import io
import json
import sys
import time
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np

import mixnorm
from mixnorm.eeg import simulated_recording
from mixnorm.estimators.persistence import ModelFileError

FOLDER = Path(__file__).parent / "data" / "models-0.1.0"
_SECONDS = 600
#: Values that a schema must expect anywhere.
ODD = (
    *(None, True, 0, -1, 2.5, 1e308, 10**400, 2**63, "", "x", "\ud800", "\x1b[31m", "NaN", [], {}, [[]]),
    *({"float": "inf"}, {"float": "nan"}, {"float": []}, {"array": [1, "a", None]}, {"array": {}}, {"tuple": [[]]}),
    *({"dict": [[{"list": []}, 1]]}, {"dict": [1]}, {"list": [None] * 50}, {"nothing": 1}, {"array": [], "list": []}),
)
#: Headers of arrays that say what is not so.
DESCRIPTIONS = (
    *("('" * 50, "-" * 5000, "{'descr': '<f8'", "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }"),
    "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }",
    "{'descr': '<f8', 'fortran_order': True, 'shape': (99999999999, 99999999999), }",
    "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (2,), }",
    "{'descr': '<M8[s]', 'fortran_order': False, 'shape': (2,), }",
    "{'descr': '|b1', 'fortran_order': False, 'shape': (64,), }",
)


def originals() -> dict[str, bytes]:
    """The bytes of one model file of every class."""
    return {path.stem: path.read_bytes() for path in sorted(FOLDER.glob("*.mixnorm"))}


def altered(rng: np.random.Generator, data: bytes) -> bytes:
    """The file with bytes changed, removed, doubled or inserted."""
    damaged = bytearray(data)
    for _ in range(rng.integers(1, 5)):
        start = int(rng.integers(len(damaged) or 1))
        length = int(2 ** rng.uniform(0, 8))
        kind = rng.integers(5)
        if kind == 0 and damaged:
            damaged[start] ^= 1 << rng.integers(8)
        elif kind == 1:
            damaged[start : start + length] = rng.bytes(min(length, len(damaged) - start))
        elif kind == 2:
            del damaged[start : start + length]
        elif kind == 3:
            damaged[start:start] = damaged[start : start + length]
        else:
            damaged = damaged[: max(1, start)]
    return bytes(damaged)


def forged(rng: np.random.Generator, data: bytes) -> bytes:
    """The file with a changed header or array, and checksums that agree with it."""
    members = members_of(data)
    header = json.loads(members["header.json"])
    if rng.random() < 0.5:
        name = str(rng.choice(sorted(header["arrays"])))
        body = members[f"{name}.npy"] = _forged_array(rng, members[f"{name}.npy"])
        header["arrays"][name] = hashlib.sha256(body).hexdigest()
    else:
        for _ in range(rng.integers(1, 3)):
            _forge_value(rng, header)
    return archive_of(header, members)


def members_of(data: bytes) -> dict[str, bytes]:
    """The members of a zip by name."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive_of(header: object, members: dict[str, bytes]) -> bytes:
    """A model file of a header and the other members, the checksum of the header made right."""
    text = json.dumps(header).encode()
    own = {"header.json": text, "header.sha256": hashlib.sha256(text).hexdigest().encode()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in {**members, **own}.items():
            archive.writestr(name, body)
    return buffer.getvalue()


def _forge_value(rng: np.random.Generator, header: dict) -> None:
    """Replace, remove, rename or copy one value somewhere in the header."""
    places = list(_places(header))
    holder, key = places[rng.integers(len(places))]
    kind = rng.integers(5)
    other, source = places[rng.integers(len(places))]
    if kind < 2:
        holder[key] = ODD[rng.integers(len(ODD))]
    elif kind == 2:
        del holder[key]
    elif kind == 3 and isinstance(holder, dict):
        holder[str(rng.choice(["__class__", "fit", "predict", "coef_", "_labels", "q"]))] = holder.pop(key)
    else:
        holder[key] = json.loads(json.dumps(other[source]))


def _places(value: object):
    """Every (container, key) in nested dictionaries and lists."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from _places(inner)


def _forged_array(rng: np.random.Generator, body: bytes) -> bytes:
    array = np.load(io.BytesIO(body), allow_pickle=False)
    kind = rng.integers(7)
    if kind == 0:
        return _described(str(rng.choice(DESCRIPTIONS)), body[-64:])
    if kind == 1:
        array = array[: rng.integers(len(array))] if array.ndim else array
    elif kind == 2:
        array = array[..., None] if rng.random() < 0.5 else np.concatenate([array, array])
    elif kind == 3 and array.size and array.dtype.kind == "f":
        array = array.copy()
        array.flat[rng.integers(array.size)] = rng.choice([np.nan, np.inf, -np.inf, 1e308, 1e-6, -1.0])
    elif kind == 4:
        types = ["U3", "S3", ">U9"] if array.dtype.kind == "U" else ["f4", "f2", "i8", "U3", "c16", ">f8", "b1", "u1"]
        array = array.astype(rng.choice(types))
    elif kind == 5:
        damaged = bytearray(body)
        damaged[rng.integers(len(damaged))] ^= 1 << rng.integers(8)
        return bytes(damaged)
    else:
        array = np.asfortranarray(array[::-1]) if array.ndim else array
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _described(text: str, values: bytes) -> bytes:
    """An array file with any text where its description belongs."""
    line = text.encode().ljust(63 - 10) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(line).to_bytes(2, "little") + line + values


class Campaign:
    """Loads damaged files and counts what happens."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "model.mixnorm"
        self._recording = simulated_recording(24, n_channels=4, n_informative=2, seed=3)
        self._originals = originals()
        self._expected = {name: self._scores(self._load(data)) for name, data in self._originals.items()}
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []
        self.slowest = 0.0

    def run(self, count: int, seed: int) -> None:
        """Try ``count`` files: altered and forged in turn, of every class in turn."""
        rng = np.random.default_rng(seed)
        names = list(self._originals)
        for number in range(count):
            name, kind = names[(number // 2) % len(names)], (altered, forged)[number % 2]
            before = time.process_time()
            self._try(name, kind.__name__, kind(rng, self._originals[name]), f"seed {seed}, file {number}")
            self.slowest = max(self.slowest, time.process_time() - before)

    def _try(self, name: str, kind: str, data: bytes, where: str) -> None:
        try:
            outcome = self._outcome(name, kind, data)
        except Exception as error:  # every other exception is what the campaign looks for
            outcome = "failed"
            self.failures.append(f"{kind} {name}, {where}: {type(error).__name__}: {error}"[:300])
        self.counts[f"{kind} {outcome}"] += 1

    def _outcome(self, name: str, kind: str, data: bytes) -> str:
        try:
            model = self._load(data)
        except ModelFileError:
            return "refused"
        found = self._scores(model)
        if found.shape == self._expected[name].shape and np.array_equal(found, self._expected[name]):
            return "same"
        if kind == "altered":
            raise AssertionError("an altered file gave another model")
        return "works"

    def _load(self, data: bytes) -> object:
        self._path.write_bytes(data)
        return mixnorm.load(self._path)

    def _scores(self, model: object) -> np.ndarray:
        """What a model says of some trials; it must also be possible to save it again."""
        mixnorm.save(model, self._path)
        if type(model).__name__ == "Decoder":
            if model.ch_names != self._recording.ch_names:
                return np.empty(0)  # it asks for other channels
            try:
                return model.predict(self._recording).score
            except ValueError:  # another rate or window than that of the recording
                return np.empty(0)
        X = np.random.default_rng(0).standard_normal((6, model.n_features_in_))
        scores = model.transform(X) if hasattr(model, "transform") else model.decision_function(X)
        assert np.isfinite(scores).all()
        if not hasattr(model, "transform"):
            model.predict(X)
        if hasattr(model, "adapt"):
            with contextlib.suppress(ValueError):  # a strange covariance has no Cholesky factor
                model.adapt(X, model.classes_[[0, 1, 0, 1, 0, 1]])
        return np.asarray(scores)


def limit_resources(megabytes: int) -> None:
    """Give this process so much memory beyond what it has, more raises a MemoryError; and ten minutes of processor."""
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS,) * 2)
    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (megabytes << 20),) * 2)


def main() -> None:
    """Run a campaign from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path, help="For the files.")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", type=int, default=1024, help="MiB beyond those at the start.")
    options = parser.parse_args()
    faulthandler.enable()
    warnings.simplefilter("ignore")
    campaign = Campaign(options.folder)
    limit_resources(options.memory)
    campaign.run(options.count, options.seed)
    found = {"counts": dict(sorted(campaign.counts.items())), "failures": campaign.failures[:20]}
    print(json.dumps(found | {"slowest_s": round(campaign.slowest, 3)}))
    sys.exit(bool(campaign.failures))


if __name__ == "__main__":
    main()
