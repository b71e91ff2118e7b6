"""An emulator of BCI2000's signal processing for P300, after its documentation.

User Reference: TransmissionFilter, SpatialFilter, IIRBandpass, P3TemporalFilter, LinearClassifier, and Technical
Reference: Parameter Definition (bci2000.org). It reads parameter lines and takes the signal block by block, as the
module does; it shares nothing with the exporter.
"""

import math
from urllib.parse import unquote

import numpy as np
from scipy import signal as sps


def read_parameters(text):
    """Name → value: a string, or (row labels, column labels, values row by row) of a list or matrix."""
    found = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        definition, _, _ = line.partition(" // ")
        _, kind, name, *words = definition.split()
        assert name.endswith("=")
        if kind.endswith("list"):
            labels, words = _labels(words)
            found[name[:-1]] = [unquote(word, encoding="latin-1") for word in words[: len(labels)]]
        elif kind.endswith("matrix"):
            rows, words = _labels(words)
            columns, words = _labels(words)
            values = [unquote(word, encoding="latin-1") for word in words[: len(rows) * len(columns)]]
            table = [values[at : at + len(columns)] for at in range(0, len(values), len(columns))]
            found[name[:-1]] = (rows, columns, table)
        else:
            found[name[:-1]] = unquote(words[0], encoding="latin-1")
    return found


def _labels(words):
    """Labels in braces, or the number of entries, whose labels are then "1", "2", …"""
    if words[0] not in ("{", "["):
        return [str(number + 1) for number in range(int(words[0]))], words[1:]
    end = words.index("}" if words[0] == "{" else "]")
    return [unquote(word, encoding="latin-1") for word in words[1:end]], words[end + 1 :]


class Module:
    """The chain of filters with one set of parameters."""

    def __init__(self, text, ch_names, sfreq, block_size):
        self.parameters, self.sfreq, self.block_size = read_parameters(text), sfreq, block_size
        assert self._number("SamplingRate", "Hz") == sfreq
        self.transmitted = [ch_names.index(name) for name in self.parameters["TransmitChList"]]
        self.rows, columns, table = self.parameters["SpatialFilter"]
        assert self.parameters["SpatialFilterType"] == "1"
        assert list(columns) == self.parameters["TransmitChList"]
        self.spatial = np.array(table, dtype=float)
        self.filters = self._design()
        # in sample blocks, then in samples, rounded up
        blocks = self._number("EpochLength", "ms") / 1000 * sfreq / block_size
        self.n_elements = math.ceil(round(blocks * block_size, 9))
        self.channels, self.elements, self.weights = (
            np.array(column)
            for column in zip(*(self._entry(*row) for row in self.parameters["Classifier"][2]), strict=True)
        )
        self.start_run()

    def start_run(self):
        self.delays = [np.zeros((max(len(a), len(b)) - 1, len(self.rows))) for b, a in self.filters]
        self.previous, self.epochs = 0, []

    def process(self, block, stimulus_code):
        """One block (channels, block_size) and the state StimulusCode; output and StimulusCodeRes per finished epoch."""
        signal = self.spatial @ block[self.transmitted]
        for number, (b, a) in enumerate(self.filters):
            signal, delay = sps.lfilter(b, a, signal, axis=1, zi=self.delays[number].T)
            self.delays[number] = delay.T
        if stimulus_code > 0 and self.previous == 0:
            self.epochs.append((stimulus_code, []))
        self.previous = stimulus_code
        finished = []
        for code, parts in self.epochs:
            parts.append(signal)
            if sum(part.shape[1] for part in parts) >= self.n_elements:
                epoch = np.hstack(parts)[:, : self.n_elements]
                finished.append((code, self.weights @ epoch[self.channels, self.elements]))
        self.epochs = [one for one in self.epochs if sum(part.shape[1] for part in one[1]) < self.n_elements]
        return finished

    def _number(self, name, unit):
        value = self.parameters[name]
        assert value.endswith(unit)
        return float(value.removesuffix(unit))

    def _design(self):
        """IIRBandpass: a Butterworth high-pass and low-pass, each where its corner and order are not 0."""
        if "HighPassCorner" not in self.parameters:
            return []
        assert self.parameters["Downsample"] == "0"
        assert self._number("NotchCenter", "Hz") == 0
        found = []
        for name, kind in (("HighPass", "highpass"), ("LowPass", "lowpass")):
            corner, order = self._number(f"{name}Corner", "Hz"), int(self.parameters[f"{name}Order"])
            if corner and order:
                found.append(sps.butter(order, corner / (self.sfreq / 2), kind))
        return found

    def _entry(self, channel, element, output, weight):
        """An address is a label, a number with a unit, or an ordinal number that counts from 1."""
        assert output == "1"
        place = self.rows.index(channel) if channel in self.rows else int(channel) - 1
        index = round(float(element[:-2]) / 1000 * self.sfreq) if element.endswith("ms") else int(element) - 1
        assert 0 <= index < self.n_elements
        return place, index, float(weight)


def run(text, recording, block_size=1, seconds=None):
    """Outputs of the module over a recording (its first seconds), one per event, in the order of the events.

    An event lasts one block here, so that StimulusCode is 0 before every stimulus.
    """
    module = Module(text, list(recording.ch_names), recording.sfreq, block_size)
    blocks = {int(onset) // block_size for onset in recording.events.onset}
    outputs = []
    n_samples = recording.signal.shape[1] if seconds is None else int(seconds * recording.sfreq)
    for number in range(n_samples // block_size):
        block = recording.signal[:, number * block_size : (number + 1) * block_size]
        outputs += [score for _, score in module.process(block, int(number in blocks))]
    return np.array(outputs)
