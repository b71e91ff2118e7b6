"""``mixnorm stream MODEL``: score the events of a running Lab Streaming Layer stream."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import click
import numpy as np

from mixnorm.commands.common import check_writable, json_option, load_decoder, messages, print_json
from mixnorm.eeg import MATRICES, Decoder, Speller, Stopping, StreamDecoder
from mixnorm.eeg.live import LiveScore, LiveSession
from mixnorm.eeg.live.live_speller import LiveLetter, LiveSpeller
from mixnorm.eeg.live.log import SessionLog, replay
from mixnorm.eeg.live.lsl import ConnectionLost, EegStream, MarkerStream, Outlets, StreamError, find, marker_delay
from mixnorm.eeg.stream import UNITS
from mixnorm.report.safe_text import for_terminal

#: How often streams are read, and how long an EEG stream may be silent before it is looked for again (s).
_POLL, _SILENT = 0.05, 5.0


@click.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--eeg", "eeg_name", metavar="NAME", help="Name of the EEG stream [default: the only one of type EEG].")
@click.option("--markers", "marker_name", metavar="NAME", help="Name of the marker stream [default: the only one].")
@click.option(
    "--event", "events", multiple=True, metavar="NAME", help="Marker to score; may be repeated [default: all]."
)
@click.option("--unit", type=click.Choice(list(UNITS)), help="Unit of the EEG [default: that of the stream].")
@click.option("--marker-delay", type=float, metavar="MS", help="Milliseconds to add to the times of markers.")
@click.option("--wait", default=60.0, show_default=True, metavar="S", help="How long to wait for streams and markers.")
@click.option("--seconds", type=float, metavar="S", help="Stop after this time [default: on Ctrl+C].")
@click.option(
    "--log", type=click.Path(dir_okay=False, path_type=Path), help="Write what arrives, and the scores, to this file."
)
@click.option(
    "--replay",
    "replayed",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Score a file of --log again.",
)
@click.option(
    "--spell",
    "matrix",
    metavar="NAME|FILE.toml",
    help=f"Print letters instead of scores; the matrix: {', '.join(MATRICES)}, or a file.",
)
@click.option(
    "--stop",
    type=float,
    default=0.95,
    show_default=True,
    metavar="P",
    help="Decide on a letter when it has this probability.",
)
@click.option(
    "--pause",
    type=float,
    default=2.0,
    show_default=True,
    metavar="S",
    help="Pause that ends a character, if markers do not say where it ends.",
)
@json_option
def stream(model: Path, as_json: bool, replayed: Path | None, log: Path | None, **asked: Any) -> None:
    """Score the markers of a running EEG stream with MODEL; positive scores indicate a target.

    Streams are those of the Lab Streaming Layer. Scores are published as a stream "mixnorm-scores", letters as
    "mixnorm-letters".
    """
    with messages():
        decoder = load_decoder(model)
        output = _Output(as_json, _speller(decoder, asked))
        if replayed is not None:
            output.take(replay(replayed, decoder))
            output.end()
            # a log has what arrived; how many samples were lost is not counted again
            lost = None
        else:
            StreamDecoder(decoder)  # a model that cannot run on a stream is refused before anything is awaited
            if log is not None:
                check_writable(log, "--log")
            lost = _live(decoder, model, log, output, asked)
    if as_json:
        print_json({"model": str(model), **output.facts(), "lost_samples": lost})


def _speller(decoder: Decoder, asked: dict[str, Any]) -> LiveSpeller | None:
    if asked["matrix"] is None:
        return None
    stopping = Stopping(threshold=asked["stop"])
    return LiveSpeller(decoder, Speller.named(asked["matrix"]), stopping, asked["pause"])


@dataclass
class _Output:
    """Prints scores or, with a speller, letters; keeps them only where they are printed at the end."""

    as_json: bool
    speller: LiveSpeller | None
    scores: list[LiveScore] = field(default_factory=list)
    letters: list[LiveLetter] = field(default_factory=list)

    def take(self, scores: Iterable[LiveScore]) -> list[LiveLetter]:
        """Take scores; return the letters that are decided on now."""
        decided: list[LiveLetter] = []
        for one in scores:
            # A session may last for hours: scores that are printed at once are not kept.
            if self.as_json:
                self.scores.append(one)
            if self.speller is not None:
                decided += self._written(self.speller.take(one))
            elif not self.as_json:
                click.echo(_line(one))
        return decided

    def end(self) -> list[LiveLetter]:
        """The last letter."""
        return [] if self.speller is None else self._written(self.speller.end())

    def facts(self) -> dict[str, Any]:
        """Everything, for JSON."""
        text = None if self.speller is None else "".join(one.symbol for one in self.letters)
        letters = [one._asdict() for one in self.letters]
        return {"scores": [_row(one) for one in self.scores], "text": text, "letters": letters}

    def _written(self, letters: list[LiveLetter]) -> list[LiveLetter]:
        self.letters += letters
        for one in letters if not self.as_json else ():
            click.echo(f"{one.time:.3f}  {for_terminal(one.symbol)}  {one.probability:.3f}")
        return letters


def _live(decoder: Decoder, model: Path, log: Path | None, output: _Output, asked: dict[str, Any]) -> int:
    """Run until Ctrl+C or the end of `--seconds`; return the number of lost samples."""
    with ExitStack() as stack:
        # Not through `whole_file`: a log must be on disk while the session runs.
        file = stack.enter_context(log.open("w", encoding="utf-8")) if log else None
        live = _Live(decoder, model, SessionLog(file) if file else None, output, asked)
        try:
            live.connect(asked["wait"])
            live.run()
        except KeyboardInterrupt:
            click.echo("Stopped.", err=True)
        finally:
            live.end()
    return live.session.n_lost if live.session else 0


@dataclass
class _Live:
    """One session on running streams; `connect` again after a stream was lost."""

    decoder: Decoder
    model: Path
    log: SessionLog | None
    output: _Output
    asked: dict[str, Any]
    session: LiveSession | None = None
    outlets: Outlets | None = None
    eeg: EegStream | None = field(default=None, init=False)
    markers: MarkerStream | None = field(default=None, init=False)
    n_markers: int = field(default=0, init=False)

    def connect(self, timeout: float) -> None:
        """Find the streams, check them, and start the session or go on with it."""
        self.eeg = EegStream.open(
            find("eeg", self.asked["eeg_name"], timeout, self.tell), self.decoder, self.asked["unit"]
        )
        self.markers = MarkerStream.open(find("markers", self.asked["marker_name"], timeout, self.tell))
        if self.session is None:
            self.session = self._new_session()
            self.outlets = Outlets(f"mixnorm-{self.model.stem}", self.output.speller is not None)
        else:
            # An amplifier that was switched off and on may send its channels in another order. The session goes on:
            # the gap is known from the time stamps.
            self.session.reorder(self.eeg.ch_names)
        eeg, delay = self.eeg, self.session.marker_delay
        if self.log:
            self.log.connected(eeg.ch_names, eeg.unit, self.decoder.sfreq, delay, self.model.name)
        self.tell(
            f"connected: {len(eeg.ch_names)} channels in {eeg.unit} from {eeg.name!r}, markers from "
            f"{self.markers.name!r}; after a gap, scores may deviate for {self.session.settling_s:.1f} s"
        )

    def _new_session(self) -> LiveSession:
        given, played = self.asked["marker_delay"], marker_delay(self.eeg, self.markers)
        # What the user says counts more than what is known of a program.
        delay = given / 1000 if given is not None else played or 0.0
        return LiveSession(self.decoder, self.eeg.ch_names, self.eeg.unit, delay)

    def run(self) -> None:
        """Read until the time is over."""
        started = heard = time.monotonic()
        while time.monotonic() - started < (self.asked["seconds"] or inf):
            try:
                n_samples = self.step()
            except ConnectionLost:
                self._reconnect("the connection was lost")
                heard = time.monotonic()
                continue
            now = time.monotonic()
            # An amplifier that is switched off need not close its stream: silence is the only sign of it.
            heard = now if n_samples else heard
            if now - heard > _SILENT:
                self._reconnect(f"no sample for {_SILENT:g} s")
                heard = time.monotonic()
            # The wrong marker stream would otherwise be noticed only at the end of the session.
            if not self.n_markers and now - started > self.asked["wait"]:
                raise StreamError(
                    f"No marker arrived from stream {self.markers.name!r} within {self.asked['wait']:g} s; is the "
                    "stimulus program running?"
                )

    def step(self) -> int:
        """Read what has arrived; return the number of samples."""
        samples, times = self.eeg.pull(_POLL)
        markers = [one for one in self.markers.pull() if not self.asked["events"] or one.name in self.asked["events"]]
        self.n_markers += len(markers)
        if not len(times) and not markers:
            return 0
        if self.log:
            # before they are scored: a block on which the program fails can then be replayed
            self.log.pushed(samples, times, markers)
        self._publish(self.session.push(samples, times, markers))
        return len(times)

    def end(self) -> None:
        """Return what is left."""
        if self.session is not None:
            self._publish(self.session.end())
            self.outlets.push_letters(self.output.end())

    def _publish(self, scores: list[LiveScore]) -> None:
        if self.log:
            self.log.scored(scores)
        self.outlets.push_scores(scores)
        self.outlets.push_letters(self.output.take(scores))

    def _reconnect(self, why: str) -> None:
        self.tell(f"{why}; looking for the streams again")
        while True:
            try:
                # Without the limit of --wait, which is for the start: an interruption may last long.
                return self.connect(inf)
            except (ConnectionLost, RuntimeError, TimeoutError):
                continue  # a stream went away again while it was being opened

    def tell(self, text: str) -> None:
        """Say what happens, on stderr and in the log."""
        click.echo(for_terminal(text), err=True)
        if self.log:
            self.log.noted(text)


def _line(one: LiveScore) -> str:
    score = "no score" if np.isnan(one.score) else f"{one.score:+.4f}"
    reason = f"  ({for_terminal(one.reason)})" if one.reason else ""
    return f"{one.time:.3f}  {for_terminal(one.name)}  {score}{reason}"


def _row(one: LiveScore) -> dict[str, Any]:
    score = None if np.isnan(one.score) else one.score
    return {"time": float(one.time), "marker": one.name, "onset": one.onset, "score": score, "reason": one.reason}
