"""The log of a live session: one JSON object per line, from which the session can be replayed bit for bit."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.decoder import Decoder
from mixnorm.eeg.live.session import LiveScore, LiveSession, Marker

FORMAT = 1


class SessionLog:
    """Writes what arrived and what was scored; every line is on disk before the next block is read."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def connected(self, ch_names: Sequence[str], unit: str, sfreq: float, marker_delay: float, model: str) -> None:
        """An EEG stream was found, at the beginning or again."""
        self._write(
            "connected",
            format=FORMAT,
            model=model,
            ch_names=list(ch_names),
            unit=unit,
            sfreq=sfreq,
            marker_delay=marker_delay,
        )

    def pushed(self, samples: NDArray[np.float64], times: NDArray[np.float64], markers: Iterable[Marker]) -> None:
        """Samples and markers arrived."""
        self._write("pushed", samples=_packed(samples), times=_packed(times), markers=[list(one) for one in markers])

    def scored(self, scores: Iterable[LiveScore]) -> None:
        """Scores were computed."""
        for one in scores:
            # JSON has no NaN.
            score = None if np.isnan(one.score) else one.score
            self._write("scored", time=one.time, marker=one.name, onset=one.onset, score=score, reason=one.reason)

    def noted(self, text: str) -> None:
        """Anything else that happened."""
        self._write("note", text=text)

    def _write(self, kind: str, **values: Any) -> None:
        self._file.write(json.dumps({"kind": kind, **values}, ensure_ascii=False, allow_nan=False) + "\n")
        # a session that is killed loses at most the block that was being handled
        self._file.flush()


def replay(path: Path, decoder: Decoder) -> Iterator[LiveScore]:
    """The scores of a logged session, computed again; those that were not complete at its end come last."""
    session = None
    for number, line in enumerate(_lines(path), 1):
        kind = line.get("kind")
        try:
            if kind == "connected" and session is None:
                session = LiveSession(decoder, line["ch_names"], line["unit"], line["marker_delay"])
            # connected again after a loss; the session goes on, as it did live
            elif kind == "connected":
                session.reorder(line["ch_names"])
            elif kind == "pushed":
                times = _unpacked(line["times"])
                samples = _unpacked(line["samples"])
                yield from session.push(samples, times, [Marker(*one) for one in line["markers"]])
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"{path}: line {number} is not one of a log of mixnorm stream ({error}).") from error
    if session is None:
        raise ValueError(f"{path}: this is not a log of mixnorm stream: it names no EEG stream.")
    yield from session.end()


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a log; a last line that is not complete, because the session was killed, is left out."""
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            # the line that was being written when the session was killed
            if not line.endswith("\n"):
                return
            try:
                found = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{path}: line {number} is not JSON; is this a log of mixnorm stream?") from error
            if not isinstance(found, dict):
                raise ValueError(f"{path}: line {number} is not one of a log of mixnorm stream.")
            yield found


def _packed(values: NDArray[np.float64]) -> dict[str, Any]:
    # Base64 of the bytes is exact, and shorter than decimal numbers; the byte order is fixed, so that a log reads the
    # same everywhere.
    values = np.ascontiguousarray(values, dtype="<f8")
    return {"shape": list(values.shape), "float64": base64.b64encode(values.tobytes()).decode("ascii")}


def _unpacked(packed: dict[str, Any]) -> NDArray[np.float64]:
    values = np.frombuffer(base64.b64decode(packed["float64"]), dtype="<f8")
    return values.astype(np.float64).reshape(packed["shape"])
