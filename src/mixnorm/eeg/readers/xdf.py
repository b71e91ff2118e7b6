"""XDF files, the recordings of the Lab Streaming Layer (LSL).

A file has several streams with clocks of their own. One stream is the EEG (type "EEG"), those of type "Markers" or
"Events" are the stimuli: texts such as "Target/7", or numbers. `pyxdf` brings the clocks together and smooths the time
stamps; an event belongs to the sample whose time stamp is nearest. Where samples are missing for a second or more, the
recording is divided, as no filter may run across a gap.

With several EEG streams, or markers of another type, a recipe names them: "signal=MyAmplifier,events=Presentation".
"""

from __future__ import annotations

import gzip
import logging
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.events import Events
from mixnorm.eeg.readers.guard import check_size, reading, require
from mixnorm.eeg.readers.mne_files import labelled_events
from mixnorm.eeg.readers.options import ReadOptions, labels_of, who_from_path
from mixnorm.eeg.readers.recipe import nearest, parsed
from mixnorm.eeg.recording import Recording, RecordingError, positions_or_ideal

KEYS = ("signal", "events")
#: Microvolts per unit; LSL recommends "microvolts".
UNITS = {"": 1.0, "microvolts": 1.0, "microvolt": 1.0, "uv": 1.0, "µv": 1.0, "μv": 1.0}
UNITS |= {"millivolts": 1e3, "mv": 1e3, "volts": 1e6, "volt": 1e6, "v": 1e6, "nanovolts": 1e-3, "nv": 1e-3}
#: The rate that was measured may differ so much from the one declared before samples must be missing.
RATE_TOLERANCE = 0.02


def read_xdf(path: Path, options: ReadOptions) -> list[Recording]:
    """The EEG stream of a file with its events; several recordings where samples are missing."""
    pyxdf = require("pyxdf", "lsl")
    with reading(path, "an XDF file"):
        _check_end(path)
        # `pyxdf` reads what it can of a damaged file and logs the rest; a recording with holes must not pass for a
        # whole one.
        with _complete(path):
            streams, _ = pyxdf.load_xdf(path, verbose=False)
        recipe = parsed(options.recipe or "", KEYS, path)
        eeg = _eeg_stream(path, streams, recipe.get("signal"))
        onset_s, names = _markers(path, streams, recipe.get("events"))
        return _recordings(path, eeg, (onset_s, names), options)


def _recordings(
    path: Path, eeg: dict[str, Any], markers: tuple[NDArray[np.float64], list[str]], options: ReadOptions
) -> list[Recording]:
    signal, ch_names, notes = _signal(path, eeg, options)
    stamps, sfreq = np.asarray(eeg["time_stamps"], dtype=np.float64), float(eeg["info"]["nominal_srate"][0])
    _check_rate(path, eeg, sfreq)
    labels = labels_of(markers[1], options, str(path))
    subject, session, told = who_from_path(path, options)
    # `pyxdf` divides a stream where its time stamps jump.
    parts = eeg["info"].get("segments") or [(0, len(stamps) - 1)]
    recordings = []
    for first, last in parts:
        onset = _nearest_samples(stamps[first : last + 1], markers[0], sfreq)
        events = labelled_events(onset, markers[1], labels)
        inside = events.onset >= 0
        # a part without events, such as the seconds before a reconnection, has no trials
        if len(parts) > 1 and not inside.any():
            continue
        recordings.append(
            Recording(
                signal=signal[:, first : last + 1],
                ch_names=ch_names,
                sfreq=sfreq,
                events=Events.of(*(values[inside] for values in vars(events).values())) if len(parts) > 1 else events,
                subject=subject,
                session=session,
                source=str(path) if len(parts) == 1 else f"{path}/{len(recordings) + 1}",
                positions=positions_or_ideal(ch_names),
                notes=(labels.note, *notes, *([f"divided at {len(parts) - 1} gaps"] if len(parts) > 1 else []), *told),
            )
        )
    return recordings


def _eeg_stream(path: Path, streams: list[dict[str, Any]], asked: str | None) -> dict[str, Any]:
    regular = [one for one in streams if _is_signal(one)]
    found = [one for one in regular if (_name(one) == asked if asked else _type(one) == "eeg")]
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"{_name(one)} ({_type(one)})" for one in streams) or "none"
    if asked:
        raise RecordingError(
            path,
            f"{len(found)} streams of numbers are called {asked!r}{nearest(asked, [_name(one) for one in regular])}",
            f"found: {known}",
        )
    signal = _name(regular[0]) if regular else "?"
    raise RecordingError(
        path,
        f"{len(found)} of its streams are of the type EEG (found: {known})",
        f"name the stream with recipe='signal={signal}'",
    )


def _markers(path: Path, streams: list[dict[str, Any]], asked: str | None) -> tuple[NDArray[np.float64], list[str]]:
    """Times and names of the events of all marker streams, in order of time."""
    found = [one for one in streams if (_name(one) == asked if asked else _type(one) in ("markers", "events"))]
    if not found:
        known = ", ".join(f"{_name(one)} ({_type(one)})" for one in streams) or "none"
        problem = f"no stream is called {asked!r}" if asked else "none of its streams is of the type Markers"
        raise RecordingError(path, f"{problem} (found: {known})", "name it with recipe='events=NAME'")
    times = np.concatenate([np.asarray(one["time_stamps"], dtype=np.float64) for one in found])
    names = [_event_name(row) for one in found for row in one["time_series"]]
    order = np.argsort(times, kind="stable")
    return times[order], [names[place] for place in order]


def _event_name(row: Any) -> str:
    value = row[0] if len(row) else ""
    return str(value) if isinstance(value, str) else f"{float(value):g}"


def _signal(
    path: Path, eeg: dict[str, Any], options: ReadOptions
) -> tuple[NDArray[np.float64], tuple[str, ...], tuple[str, ...]]:
    """Channels of the type EEG in µV; all channels where the stream does not say."""
    series = np.asarray(eeg["time_series"])
    check_size(path, 8 * series.size, options)
    described = _described(eeg)
    if len(described) != series.shape[1]:
        names, notes = options.names_for(series.shape[1], str(path))
        return np.ascontiguousarray(series.T, dtype=np.float64), names, ("the stream has no unit: µV assumed", *notes)
    kinds = [_text(channel, "type").lower() for channel in described]
    # amplifiers send accelerometers and triggers in the same stream
    keep = [place for place, kind in enumerate(kinds) if kind in ("eeg", "")]
    if not keep:
        raise RecordingError(
            path, f"none of its channels is EEG ({', '.join(sorted(set(kinds)))})", "name another stream"
        )
    units = [_text(described[place], "unit").lower() for place in keep]
    strange = sorted({unit for unit in units if unit not in UNITS})
    if strange:
        raise RecordingError(
            path, f"its channels have the unit {', '.join(strange)}", "correct it; microvolts are usual"
        )
    signal = np.ascontiguousarray(series[:, keep].T, dtype=np.float64)
    signal *= np.array([UNITS[unit] for unit in units])[:, None]
    unstated = ("the stream has no unit: µV assumed",) if "" in units else ()
    return signal, tuple(_text(described[place], "label") for place in keep), unstated


def _nearest_samples(stamps: NDArray[np.float64], times: NDArray[np.float64], sfreq: float) -> NDArray[np.int64]:
    """The sample nearest to each time; −1 more than half a sample outside the signal."""
    after = np.clip(np.searchsorted(stamps, times), 1, max(len(stamps) - 1, 1))
    if len(stamps) < 2:
        return np.full(len(times), -1)
    onset = np.where(times - stamps[after - 1] <= stamps[after] - times, after - 1, after)
    return np.where(np.abs(stamps[onset] - times) <= 1 / sfreq, onset, -1)


def _check_rate(path: Path, eeg: dict[str, Any], sfreq: float) -> None:
    measured = float(eeg["info"].get("effective_srate") or sfreq)
    if sfreq > 0 and abs(measured / sfreq - 1) > RATE_TOLERANCE:
        raise RecordingError(
            path,
            f"its EEG was sampled at {measured:.2f} Hz, but the stream declares {sfreq:g} Hz: samples are missing",
            "check the connection of the amplifier, and record again",
        )


def _is_signal(stream: dict[str, Any]) -> bool:
    regular = float(stream["info"]["nominal_srate"][0]) > 0
    return regular and isinstance(stream["time_series"], np.ndarray) and stream["time_series"].ndim == 2


def _described(eeg: dict[str, Any]) -> list[dict[str, Any]]:
    """What the stream says of its channels: a list of dicts with `label`, `type` and `unit`; empty where nothing."""
    try:
        return [dict(channel) for channel in eeg["info"]["desc"][0]["channels"][0]["channel"]]
    except (KeyError, IndexError, TypeError, ValueError):
        return []


def _text(fields: dict[str, Any], name: str) -> str:
    values = fields.get(name) or [""]
    return str(values[0] or "").strip()


def _name(stream: dict[str, Any]) -> str:
    return _text(stream["info"], "name")


def _type(stream: dict[str, Any]) -> str:
    return _text(stream["info"], "type").lower()


def _check_end(path: Path) -> None:
    """Follow the lengths of the chunks to the end of the file; `pyxdf` fills a last sample that is cut off."""
    # a chunk says first how many bytes its length has
    sizes = {1: "<B", 4: "<I", 8: "<Q"}
    with gzip.open(path) if path.suffix.lower() == ".xdfz" else path.open("rb") as stream:
        if stream.read(4) != b"XDF:":
            raise ValueError("it does not begin with XDF:")
        while n_bytes := stream.read(1):
            length = stream.read(n_bytes[0])
            if n_bytes[0] not in sizes or len(length) < n_bytes[0]:
                raise RecordingError(path, "it is incomplete (the length of a chunk is missing)", "copy it again")
            (left,) = struct.unpack(sizes[n_bytes[0]], length)
            while left and (skipped := len(stream.read(min(left, 2**20)))):
                left -= skipped
            if left:
                raise RecordingError(
                    path, f"it is incomplete ({left} bytes of its last chunk are missing)", "copy it again"
                )


@contextmanager
def _complete(path: Path) -> Iterator[None]:
    """Refuse a file of which `pyxdf` can read only parts: it logs this, and goes on."""
    logger, seen = logging.getLogger("pyxdf.pyxdf"), []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: seen.append(record.getMessage())  # type: ignore[method-assign]
    # the messages become one error, and do not appear on the terminal as well
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
    if seen:
        raise RecordingError(path, f"it is incomplete ({seen[0].splitlines()[0][:120]})", "copy it again")
