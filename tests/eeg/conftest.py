"""Recordings, stand-in classifiers and writers of file formats that the tests of the ring share."""

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from mixnorm.eeg import simulated_recording


class FlatLDA(ClassifierMixin, BaseEstimator):
    """A shrinkage LDA on flattened trials, with the interface of the group classifiers."""

    def fit(self, X, y, groups=None):
        self.lda_ = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.3).fit(X.reshape(len(X), -1), y)
        self.selected_groups_ = np.arange(X.shape[1])
        return self

    def decision_function(self, X):
        return self.lda_.decision_function(X.reshape(len(X), -1))


@pytest.fixture
def lda():
    return FlatLDA()


@pytest.fixture(scope="session")
def recording():
    return simulated_recording(240, n_channels=6, n_informative=4, seed=11)


@pytest.fixture(scope="session")
def data():
    """The folder of real recordings, or a skip that says why there is none."""
    folder = os.environ.get("MIXNORM_DATA")
    if not folder:
        pytest.skip("MIXNORM_DATA is not set: no real recordings to test on")
    if not Path(folder).is_dir():
        pytest.skip(f"MIXNORM_DATA={folder} is no folder: no real recordings to test on")
    return Path(folder)


@pytest.fixture
def write_bci2000():
    """A writer of BCI2000 files after the published description, independent of the reader."""

    def write(path, stored, states, **changes):
        """``stored`` (samples, channels) of the sample type; ``states`` name → (bits, values per sample)."""
        dtype = stored.dtype
        version = changes.pop("version", "1.1")
        n_samples, n_channels = stored.shape
        parameters = {
            "SamplingRate": "int SamplingRate= 256Hz 256Hz 1 % // rate",
            "SourceChOffset": f"floatlist SourceChOffset= {n_channels} " + " ".join(["0"] * n_channels) + " // o",
            "SourceChGain": f"floatlist SourceChGain= {n_channels} " + " ".join(["1"] * n_channels) + " // gain",
            "ChannelNames": f"list ChannelNames= {n_channels} " + " ".join(changes.pop("names")) + " // names",
        } | changes
        lines, place = [], 0
        for name, (bits, _) in states.items():
            lines.append(f"{name} {bits} 0 {place // 8} {place % 8}")
            place += bits
        n_bytes = -(-place // 8)
        packed = np.zeros((n_samples, n_bytes), dtype=np.uint8)
        place = 0
        for bits, values in states.values():
            for bit in range(bits):
                packed[:, (place + bit) // 8] |= (((values >> bit) & 1) << ((place + bit) % 8)).astype(np.uint8)
            place += bits
        body = "\r\n".join(
            ["[ State Vector Definition ]", *lines, "[ Parameter Definition ]"]
            + [f"Source:Signal%20Properties {text}" for text in parameters.values()]
            + ["", ""]
        )
        kind = {"int16": "int16", "int32": "int32", "float32": "float32"}[dtype.name]
        begin = "BCI2000V= 1.1 " if version == "1.1" else ""
        end = f" DataFormat= {kind}" if version == "1.1" else ""
        first = f"{begin}HeaderLen= {{length:6d}} SourceCh= {n_channels} StatevectorLen= {n_bytes}{end}\r\n"
        length = len(first.format(length=0)) + len(body)
        frames = [
            stored[sample].astype(dtype.newbyteorder("<")).tobytes() + packed[sample].tobytes()
            for sample in range(n_samples)
        ]
        path.write_bytes((first.format(length=length) + body).encode("latin-1") + b"".join(frames))
        return path

    return write


@pytest.fixture
def speller_states():
    """States of a speller: 3 characters of 24 flashes, one every 64 samples; 8 samples lit."""
    n_samples = 3 * (24 * 64 + 512) + 512
    code, kind, lit, phase = (np.zeros(n_samples, dtype=np.int64) for _ in range(4))
    onsets = []
    for character in range(3):
        begin = 256 + character * (24 * 64 + 512)
        phase[begin - 64 : begin] = 1
        phase[begin : begin + 24 * 64] = 2
        phase[begin + 24 * 64 : begin + 24 * 64 + 100] = 3
        for flash in range(24):
            at = begin + 64 * flash
            onsets.append(at)
            lit[at : at + 8] = 1
            code[at : at + 8] = flash % 12 + 1
            kind[at : at + 8] = flash % 12 in (character, 6 + character)
    return {
        "states": {
            "Running": (1, np.ones(n_samples, dtype=np.int64)),
            "StimulusCode": (5, code),
            "SourceTime": (16, np.arange(n_samples) % 65536),
            "StimulusType": (1, kind),
            "PhaseInSequence": (2, phase),
            "Flashing": (1, lit),
        },
        "onsets": np.array(onsets),
        "n_samples": n_samples,
    }
