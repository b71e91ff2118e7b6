"""``mixnorm spell MODEL RECORDING…``: the spelled text, how sure it is, and how many letters are right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from mixnorm.commands.bars import progress
from mixnorm.commands.common import (
    check_writable,
    json_option,
    load_decoder,
    messages,
    print_json,
    read_options,
    reading_options,
)
from mixnorm.eeg import (
    MATRICES,
    Decoder,
    EpochedRecording,
    LetterLearner,
    LetterPrior,
    Recording,
    Spelled,
    Speller,
    Stopping,
    read_recordings,
    spell,
)
from mixnorm.eeg.flashes import speller_of
from mixnorm.eeg.spelling_rates import (
    Rates,
    Timing,
    accuracy_by_repetition,
    rates_by_repetition,
    rates_by_threshold,
)
from mixnorm.report.safe_text import for_terminal

DEFAULT_MATRIX = "6x6"


@dataclass(frozen=True)
class _Result:
    """What was spelled, by which matrix, and its rates by repetitions and by threshold (None: truth not known)."""

    speller: Speller
    spelled: list[Spelled]
    stopping: Stopping
    timing: Timing | None
    accuracy: list[float] | None
    by_repetition: list[Rates] | None
    by_threshold: list[Rates] | None
    learned: int | None  # characters that were learned from; None: without --learn


@click.command(name="spell")
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("recordings", nargs=-1, required=True)
@click.option(
    "--matrix",
    metavar="NAME|FILE.toml",
    help=f"Symbols and flash codes: {', '.join(MATRICES)}, or a file [default: by the letters of the recording, else "
    f"{DEFAULT_MATRIX}].",
)
@click.option(
    "--prior",
    type=click.Path(exists=True, dir_okay=False),
    help="Text file, from which it is estimated how likely each letter is after the one before.",
)
@click.option(
    "--learn",
    "calibration",
    multiple=True,
    metavar="CALIBRATION",
    help="Learn from every spelled character, without its labels; needs the recordings that MODEL was trained on "
    "(give the option once for each).",
)
@click.option("--repetitions", type=click.IntRange(1), help="Use this many complete repetitions of every character.")
@click.option("--stop", type=float, metavar="P", help="Stop when a symbol has this probability, for example 0.95.")
@click.option(
    "--min-repetitions",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Smallest number of repetitions with --stop.",
)
@click.option(
    "--max-repetitions", type=click.IntRange(1), help="Largest number of repetitions with --stop [default: all]."
)
@click.option("--interval", type=float, metavar="S", help="Seconds between flashes, for epochs, which have no times.")
@click.option(
    "--pause", type=float, metavar="S", help="Seconds between characters [default: as recorded; 0 for epochs]."
)
@click.option(
    "--figure", type=click.Path(dir_okay=False, path_type=Path), help="Draw how many letters are right (PNG and SVG)."
)
@click.option("--unlabelled", is_flag=True, help="Use every stimulus, with or without a label.")
@reading_options
@json_option
def spell_command(
    model: Path,
    recordings: tuple[str, ...],
    calibration: tuple[str, ...],
    figure: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Spell RECORDINGS with MODEL: the text, and for every character how probable its symbol is."""
    with messages():
        # Options that exclude each other first: reading and scoring take minutes.
        stopping = _stopping(options)
        matrix, prior = options.pop("matrix"), options.pop("prior")
        times = options.pop("interval"), options.pop("pause")
        if figure is not None:
            check_writable(figure, "--figure")
        decoder = _decoder(model)
        learner = _learner(decoder, calibration, options)
        runs = read_recordings(*recordings, **read_options(options))
        speller = _speller(matrix, runs)
        letters = None if prior is None else LetterPrior.from_file(prior, speller.symbols)
        spelled = _spelled(decoder, runs, speller, stopping, letters, learner)
        learned = None if learner is None else learner.n_learned
        result = _result(spelled, speller, stopping, _timing(spelled, *times), learned)
        if figure is not None:
            _draw(result, figure)
    if as_json:
        print_json(_document(result))
    else:
        click.echo(for_terminal(_text(result), keep="\n"))


def _stopping(options: dict[str, Any]) -> Stopping:
    fixed, threshold = options.pop("repetitions"), options.pop("stop")
    least, most = options.pop("min_repetitions"), options.pop("max_repetitions")
    if fixed is not None and threshold is not None:
        raise click.UsageError("--repetitions and --stop exclude each other; give one of them.")
    if threshold is None and (most is not None or least != 1):
        raise click.UsageError("--min-repetitions and --max-repetitions are limits of --stop; use --repetitions.")
    return Stopping(threshold, least, most) if fixed is None else Stopping(max_repetitions=fixed)


def _decoder(model: Path) -> Decoder:
    decoder = load_decoder(model)
    try:
        # asked for here, so that a model without calibration is refused before the recordings are read
        _ = decoder.evidence
    except ValueError as error:
        raise ValueError(f"{model}: {error}") from error
    return decoder


def _learner(decoder: Decoder, calibration: Sequence[str], options: dict[str, Any]) -> LetterLearner | None:
    """What learns from the spelled characters, beside labelled recordings; None: nothing does."""
    if not calibration:
        return None
    return LetterLearner(decoder, read_recordings(*calibration, **read_options(options | {"unlabelled": False})))


def _speller(matrix: str | None, runs: Sequence[Recording | EpochedRecording]) -> Speller:
    if matrix is not None:
        return Speller.named(matrix)
    # The matrix of the recording itself, where it has one, is better than any default.
    known = speller_of(runs[0])
    if known is not None:
        return known
    others = ", ".join(name for name in MATRICES if name != DEFAULT_MATRIX)
    click.echo(
        f"Note: the recording does not name its matrix. {DEFAULT_MATRIX} is assumed (A–Z, 1–9, _; columns 1–6, rows "
        f"7–12); if it is another one, use --matrix {others} or --matrix FILE.toml",
        err=True,
    )
    return MATRICES[DEFAULT_MATRIX]


def _spelled(
    decoder: Decoder,
    runs: Sequence[Recording | EpochedRecording],
    speller: Speller,
    stopping: Stopping,
    prior: LetterPrior | None,
    learner: LetterLearner | None,
) -> list[Spelled]:
    spelled: list[Spelled] = []
    with progress(len(runs), "recordings") as bar:
        # one by one for the progress bar; characters do not go across recordings
        for run in runs:
            spelled += spell(decoder, [run], speller, stopping, prior, learner)
            bar.update()
    return spelled


def _result(
    spelled: list[Spelled], speller: Speller, stopping: Stopping, timing: Timing | None, learned: int | None
) -> _Result:
    return _Result(
        speller,
        spelled,
        stopping,
        timing,
        accuracy_by_repetition(spelled, speller),
        rates_by_repetition(spelled, speller, timing),
        rates_by_threshold(spelled, speller, timing, stopping),
        learned,
    )


def _timing(spelled: Sequence[Spelled], interval: float | None, pause: float | None) -> Timing | None:
    """The times of the recording, or those given."""
    for name, value in (("--interval", interval), ("--pause", pause)):
        if value is not None and not value >= 0:
            raise ValueError(f"{name} must be a number of seconds from 0, but got {value}.")
    found = Timing.of([one.flashes for one in spelled])
    # Without times there are letters, but no letters per minute.
    if found is None and not interval:
        return None
    known = found or Timing(0.0, 0.0)
    return Timing(known.interval if interval is None else interval, known.pause if pause is None else pause)


def _document(result: _Result) -> dict[str, Any]:
    known = all(one.true_symbol is not None for one in result.spelled)
    return {
        "text": "".join(one.symbol for one in result.spelled),
        "true_text": "".join(one.true_symbol for one in result.spelled) if known else None,
        "matrix": result.speller.name,
        "characters": [_character(one, result.timing) for one in result.spelled],
        # null where the true text is not known, which an empty list would not say
        "accuracy_by_repetition": result.accuracy,
        "by_repetition": result.by_repetition and [asdict(one) for one in result.by_repetition],
        "by_threshold": result.by_threshold and [asdict(one) for one in result.by_threshold],
        "interval": result.timing and result.timing.interval,
        "pause": result.timing and result.timing.pause,
        "learned": result.learned,
    }


def _character(one: Spelled, timing: Timing | None) -> dict[str, Any]:
    names = ("symbol", "probability", "runner_up", "runner_up_probability", "n_flashes", "n_repetitions", "stopped")
    return {
        **{name: getattr(one, name) for name in names},
        # without the pause after it, in which nothing flashes; the rates of a whole text include it
        "seconds": None if timing is None else one.n_flashes * timing.interval,
        "true_symbol": one.true_symbol,
        "where": one.flashes.where,
    }


def _text(result: _Result) -> str:
    document = _document(result)
    lines = [document["text"]]
    if document["true_text"] is not None:
        right = sum(one.symbol == one.true_symbol for one in result.spelled)
        lines[0] += f"   (true: {document['true_text']}; {right} of {len(result.spelled)} letters right)"
    lines += ["", "symbol  probability  next           flashes  true"]
    for one in result.spelled:
        runner = f"{one.runner_up} {one.runner_up_probability:.3f}"
        mark = "–" if one.true_symbol is None else one.true_symbol + ("" if one.symbol == one.true_symbol else " !")
        lines.append(f"{one.symbol:6}  {one.probability:11.3f}  {runner:13}  {one.n_flashes:7d}  {mark}")
    if result.learned is not None:
        lines += ["", f"learned from {result.learned} characters"]
    for title, found in (("repetitions", result.by_repetition), ("stop at", result.by_threshold)):
        lines += _rates_lines(title, found) if found else []
    return "\n".join(lines)


def _rates_lines(title: str, found: Sequence[Rates]) -> list[str]:
    # Either all rows have times or none has: the times are those of the recordings, not of a row.
    timed = found[0].seconds is not None
    head = f"{title:>11}  right %  flashes" + ("  seconds  letters/min  bits/min" if timed else "")
    lines = ["", head]
    for one in found:
        name = f"{one.repetitions:d}" if one.threshold is None else f"{one.threshold:g}"
        line = f"{name:>11}  {100 * one.right:7.1f}  {one.n_flashes:7.1f}"
        if timed:
            line += f"  {one.seconds:7.1f}  {one.letters_per_minute:11.2f}  {one.bits_per_minute:8.1f}"
        lines.append(line)
    return lines


def _draw(result: _Result, path: Path) -> None:
    # matplotlib is an extra, which is needed with --figure only
    from mixnorm.report.figures import save_figure
    from mixnorm.report.plots.letter_plots import LETTERS_SIZE, plot_letters
    from mixnorm.report.styles import figure_for_file

    if result.by_repetition is None:
        raise ValueError("--figure shows how many letters are right, but the true text is not known; leave it out.")
    axes = figure_for_file(LETTERS_SIZE)
    plot_letters(result.spelled, axes, speller=result.speller, stopping=result.stopping)
    # Both formats are written, whichever the name ends in; a dot elsewhere in the name belongs to it.
    for file in save_figure(axes.figure, path.with_suffix("") if path.suffix in (".png", ".svg") else path):
        click.echo(f"Figure {file}", err=True)
