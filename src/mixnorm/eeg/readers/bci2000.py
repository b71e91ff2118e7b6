"""BCI2000 ``.dat`` files, versions 1.0 and 1.1.

A text header of `HeaderLen` bytes (CRLF lines), then for each sample the values of all channels (int16,
int32 or float32, little endian) and `StatevectorLen` bytes of states, packed bit by bit. The first line
says all that is needed to find the samples; ``[ State Vector Definition ]`` says where in the bits each
state lies (name, length, value, byte, bit); ``[ Parameter Definition ]`` holds rate, gains, offsets and
channel names, with ``%``-escapes.

    microvolts = (stored − SourceChOffset) · SourceChGain
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.readers.guard import check_expansion, reading
from mixnorm.eeg.readers.options import ReadOptions, who_from_path
from mixnorm.eeg.readers.speller_mat import speller_events
from mixnorm.eeg.recording import Recording, RecordingError, positions_or_ideal

SAMPLE_TYPES = {"int16": "<i2", "int32": "<i4", "float32": "<f4"}


@dataclass(frozen=True)
class State:
    """Where a state lies in the state vector."""

    length: int
    byte: int
    bit: int


@dataclass(frozen=True)
class Header:
    """What the header says; parameters as lists of text."""

    length: int
    n_channels: int
    state_bytes: int
    sample_type: str
    states: dict[str, State]
    parameters: dict[str, list[str]]

    @property
    def frame(self) -> np.dtype:
        """One sample of all channels with its states."""
        samples = (SAMPLE_TYPES[self.sample_type], (self.n_channels,))
        return np.dtype([("signal", *samples), ("states", "u1", (self.state_bytes,))])


def read_bci2000(path: Path, options: ReadOptions) -> Recording:
    """A BCI2000 file whose application was a P300 speller."""
    with reading(path, "a BCI2000 .dat file"):
        header = read_header(path)
        frames = _frames(path, header, options)
        signal = _microvolts(frames["signal"], header)
        states = {name: state_values(frames["states"], state) for name, state in _wanted(header).items()}
    if "StimulusCode" not in states:
        raise RecordingError(
            path,
            f"it has no state StimulusCode (found: {', '.join(header.states)})",
            "check that it is a run of a speller",
        )
    events, notes = speller_events(states, path, options)
    ch_names, named = _channel_names(path, header, options)
    subject, session, told = who_from_path(path, options)
    return Recording(
        signal=signal,
        ch_names=ch_names,
        sfreq=_rate(header.parameters, options, path),
        events=events,
        subject=subject,
        session=session,
        source=str(path),
        positions=positions_or_ideal(ch_names),
        notes=(f"BCI2000, {header.sample_type} samples", *named, *notes, *told),
    )


def read_header(path: Path) -> Header:
    """The header of a BCI2000 file."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        # A limit, because a file of another type may have no line break at all; Latin-1 decodes any byte.
        first = stream.readline(4096).decode("latin-1")
        meta = dict(re.findall(r"(\w+)=\s*(\S+)", first))
        if not {"HeaderLen", "SourceCh", "StatevectorLen"} <= set(meta):
            raise RecordingError(path, "its first line is not that of a BCI2000 file", "check the type of the file")
        length = int(meta["HeaderLen"])
        if length > size:
            raise RecordingError(path, f"the header has {length} bytes, the file {size}: truncated", "copy it again")
        lines = stream.read(length - len(first)).decode("latin-1").splitlines()
    # files of version 1.0 do not say: they have int16
    sample_type = meta.get("DataFormat", "int16")
    if sample_type not in SAMPLE_TYPES:
        raise RecordingError(path, f"samples of type {sample_type}", f"supported: {', '.join(SAMPLE_TYPES)}")
    states, parameters = _sections(lines)
    return Header(length, int(meta["SourceCh"]), int(meta["StatevectorLen"]), sample_type, states, parameters)


def state_values(states: NDArray[np.uint8], state: State) -> NDArray[np.int64]:
    """The values of one state from the packed bytes (n_samples, n_bytes); low bits come first."""
    start = 8 * state.byte + state.bit
    first, last = start // 8, (start + state.length + 7) // 8
    # A state may begin and end inside a byte.
    bits = np.unpackbits(states[:, first:last], axis=1, bitorder="little")[:, start - 8 * first :]
    return bits[:, : state.length].astype(np.int64) @ (1 << np.arange(state.length, dtype=np.int64))


def _wanted(header: Header) -> dict[str, State]:
    names = ("StimulusCode", "StimulusType", "Flashing", "PhaseInSequence")
    return {name: header.states[name] for name in names if name in header.states}


def _sections(lines: list[str]) -> tuple[dict[str, State], dict[str, list[str]]]:
    states, parameters, section = {}, {}, ""
    for line in lines:
        if line.startswith("["):
            section = line.strip("[] ")
        # name, length, initial value, byte, bit; the value at the start is not needed
        elif section == "State Vector Definition" and len(line.split()) >= 5:
            name, length, _, byte, bit = line.split()[:5]
            states[name] = State(int(length), int(byte), int(bit))
        elif section == "Parameter Definition" and "= " in line:
            name, values = _parameter(line)
            parameters[name] = values
    return states, parameters


def _parameter(line: str) -> tuple[str, list[str]]:
    """``Section Type Name= Value Default Low High // comment``; lists begin with their length."""
    declaration, _, rest = line.partition("= ")
    *_, kind, name = declaration.split()
    tokens = rest.split("//")[0].split()
    if kind.endswith("list") and tokens and tokens[0].isdigit():
        # what follows the values of a list are its default and range
        tokens = tokens[1 : 1 + int(tokens[0])]
    else:
        tokens = tokens[:1]
    return name, [unquote(token) if token != "%" else "" for token in tokens]


def _frames(path: Path, header: Header, options: ReadOptions) -> NDArray[np.void]:
    size = path.stat().st_size - header.length
    n_samples, left_over = divmod(size, header.frame.itemsize)
    if left_over or n_samples == 0:
        raise RecordingError(
            path,
            f"{size} bytes are not a whole number of {header.frame.itemsize}-byte samples: truncated",
            "copy it again",
        )
    check_expansion(path, 8 * n_samples * header.n_channels, options)
    return np.fromfile(path, dtype=header.frame, offset=header.length)


def _microvolts(stored: NDArray, header: Header) -> NDArray[np.float64]:
    signal = np.ascontiguousarray(stored.T, dtype=np.float64)
    # The offset is in stored units, and so comes before the gain.
    for name, apply in (("SourceChOffset", np.subtract), ("SourceChGain", np.multiply)):
        values = [_leading_number(text) for text in header.parameters.get(name, [])]
        if len(values) == header.n_channels:
            apply(signal, np.array(values)[:, None], out=signal)
    return signal


def _channel_names(path: Path, header: Header, options: ReadOptions) -> tuple[tuple[str, ...], tuple[str, ...]]:
    names = tuple(name for name in header.parameters.get("ChannelNames", []) if name)
    # Names of some of the channels only do not say which channels they belong to.
    if len(names) == header.n_channels and not options.ch_names:
        return names, ()
    return options.names_for(header.n_channels, str(path))


def _rate(parameters: dict[str, list[str]], options: ReadOptions, path: Path) -> float:
    found = parameters.get("SamplingRate")
    if not found and options.sfreq is None:
        raise RecordingError(path, "there is no parameter SamplingRate", "give it with sfreq=… (Hz)")
    return _leading_number(found[0]) if found else options.sfreq


def _leading_number(text: str) -> float:
    """The number in "256Hz" or "0.1muV"; microvolts are meant where a gain has no unit."""
    match = re.match(r"\s*([-+]?[0-9.]+(?:[eE][-+]?\d+)?)\s*(\w*)", text)
    if not match:
        raise ValueError(f"{text!r} is no number")
    factor = {"mV": 1e3, "V": 1e6, "nV": 1e-3, "kHz": 1e3}.get(match.group(2), 1.0)
    return float(match.group(1)) * factor
