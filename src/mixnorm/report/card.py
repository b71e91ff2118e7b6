"""A model card: one page, Markdown or HTML, on what a decoder does, how it was made and how well it works."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from mixnorm.eeg import Decoder, Preparation, electrode_positions
from mixnorm.report.heads import places
from mixnorm.report.model_facts import decoder_facts
from mixnorm.report.safe_text import for_terminal

_CHANCE = "0.5 is chance, 1 is perfect"


class Section(NamedTuple):
    """A heading, sentences, and perhaps a table whose first row is its head, or code.

    `drawn`: whether the drawing of the electrodes belongs here.
    """

    title: str
    sentences: tuple[str, ...]
    table: tuple[tuple[str, ...], ...] = ()
    code: str = ""
    drawn: bool = False


def card_sections(decoder: Decoder, facts: Mapping[str, Any]) -> list[Section]:
    """The content of the card of a decoder; `facts` as `model_facts` gives them."""
    return [
        Section("What it decodes", tuple(_purpose(decoder))),
        Section("Training recordings", tuple(_recordings(decoder))),
        Section("Held-out scores", tuple(_scores(decoder)), _fold_table(decoder)),
        Section("Calibration", tuple(_calibration(decoder)), _calibration_table(decoder)),
        Section("Preparation", (decoder.preparation.describe() + ".",), _preparation_table(decoder)),
        Section("Electrodes", (_electrodes(decoder),), drawn=True),
        Section("Classifier", (), _classifier_table(decoder)),
        Section("Versions", (), (("package", "version"), *sorted(facts["versions"].items()))),
        Section("How to use it", (), code=_usage(facts["file"], decoder.preparation)),
    ]


def _purpose(decoder: Decoder) -> Iterable[str]:
    yield "From EEG around a stimulus, a score: the larger it is, the more probable is a target."
    # NaN differs from itself: epochs of one sample have no rate
    rate = f"{decoder.sfreq:g} Hz" if decoder.sfreq == decoder.sfreq else "epochs"
    needed = ", ".join(decoder.ch_names)
    yield f"Input: {len(decoder.ch_names)} channels in µV at {rate} ({needed})."
    if decoder.preparation.window is None:
        yield "It was trained on epochs and scores epochs only: it cannot run on a stream."
    elif not decoder.preparation.is_causal:
        yield "Its zero-phase filter needs later samples: for recordings only."
    else:
        yield "It can run on a stream."


def _recordings(decoder: Decoder) -> Iterable[str]:
    known = decoder.training
    if known is None:
        yield "Not known: the file does not say from which recordings the model was made."
        return
    yield f"{known.n_trials} trials, {known.n_targets} of them targets, from {', '.join(known.recordings)}."
    yield f"Subjects: {', '.join(known.subjects)}. Sessions: {', '.join(known.sessions)}."


def _scores(decoder: Decoder) -> Iterable[str]:
    known = decoder.training
    if known is None or known.auc is None:
        yield "Not known."
        return
    interval = "" if known.auc_low is None else f" (95 % interval {known.auc_low:.3f} to {known.auc_high:.3f})"
    yield f"AUC {known.auc:.3f}{interval}; {_CHANCE}."
    yield (
        f"Each {known.folds_by} fold was scored by a model of the other folds, with scaling and parameters learned on "
        "these alone. The interval is that of the mean over folds, corrected for the overlap of the training sets "
        "(Nadeau and Bengio 2003). The model in this file was trained on all trials."
    )


def _calibration(decoder: Decoder) -> Iterable[str]:
    known = decoder.training
    if known is None or not known.calibration:
        yield "Not known."
        return
    if not known.calibrated:
        yield "The probability of a target is estimated as (1 + score) / 2, limited to 0 to 1."
    else:
        yield "The probability of a target is a sigmoid of the score, fitted to scores of inner held-out trials."
    yield "Trials of the folds above, which had no part in score or sigmoid, in bins of increasing probability:"


def _fold_table(decoder: Decoder) -> tuple[tuple[str, ...], ...]:
    if decoder.training is None or decoder.training.auc is None:
        return ()
    aucs = decoder.training.auc_by_fold
    rows = [(str(fold + 1), "–" if auc is None else f"{auc:.3f}") for fold, auc in enumerate(aucs)]
    return ((f"{decoder.training.folds_by} fold", "AUC"), *rows)


def _calibration_table(decoder: Decoder) -> tuple[tuple[str, ...], ...]:
    if decoder.training is None or not decoder.training.calibration:
        return ()
    head = ("trials", "mean probability", "share of targets")
    bins = decoder.training.calibration
    return (head, *((str(one.n_trials), f"{one.probability:.3f}", f"{one.targets:.3f}") for one in bins))


def _preparation_table(decoder: Decoder) -> tuple[tuple[str, ...], ...]:
    rows = [(name, _shown(value)) for name, value in decoder.preparation.to_dict().items()]
    return (("step", "value"), *rows)


def _classifier_table(decoder: Decoder) -> tuple[tuple[str, ...], ...]:
    facts = decoder_facts(decoder)["classifier"]
    rows = {"class": facts["class"], **facts["parameters"]}
    rows |= {name: facts[name] for name in ("alpha", "q", "ridge", "dual_gap") if name in facts}
    return (("parameter", "value"), *((name, _shown(value)) for name, value in rows.items()))


def _electrodes(decoder: Decoder) -> str:
    chosen = decoder.selected
    return f"{len(chosen)} of {len(decoder.feature_names)} electrodes have a weight: {', '.join(chosen)}."


def _usage(name: str, preparation: Preparation) -> str:
    live = f"\nmixnorm stream {name}" if preparation.is_causal and preparation.window is not None else ""
    return f'mixnorm predict {name} RECORDING{live}\n\nfrom mixnorm import load\ndecoder = load("{name}")'


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, list):
        return ", ".join(_shown(item) for item in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def as_markdown(title: str, sections: Iterable[Section], picture: str | None = None) -> str:
    """The card as Markdown; `picture`: name of the file with the drawing of the electrodes."""
    lines = [f"# {_marked(title)}", ""]
    for section in sections:
        lines += [f"## {section.title}", ""]
        lines += [line for sentence in section.sentences for line in (_marked(sentence), "")]
        if section.drawn and picture:
            lines += [f"![Electrodes on the head]({picture})", ""]
        if section.table:
            # A name with a pipe would begin another cell.
            head, *rows = (tuple(_marked(cell).replace("|", "\\|") for cell in row) for row in section.table)
            lines += [_row(head), _row(["---"] * len(head)), *map(_row, rows), ""]
        if section.code:
            lines += ["```", for_terminal(section.code, keep="\n"), "```", ""]
    return "\n".join(lines)


def as_html(title: str, sections: Iterable[Section], drawing: str) -> str:
    """The card as one HTML file without anything to load; `drawing`: the electrodes as SVG."""
    parts = []
    for section in sections:
        parts.append(f"<h2>{html.escape(section.title)}</h2>")
        parts += [f"<p>{html.escape(for_terminal(sentence))}</p>" for sentence in section.sentences]
        if section.drawn:
            parts.append(drawing)
        if section.table:
            parts.append(_html_table(section.table))
        if section.code:
            parts.append(f"<pre>{html.escape(for_terminal(section.code, keep=chr(10)))}</pre>")
    name = html.escape(for_terminal(title))
    fits = '<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">'
    head = f'<!doctype html>\n<html lang="en">\n{fits}\n<title>{name}</title>\n<style>{_STYLE}</style>'
    return "\n".join([head, f"<h1>{name}</h1>", *parts, "</html>", ""])


_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:44rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse}td,th{border-bottom:1px solid #ccc;padding:.2rem .8rem .2rem 0;text-align:left}"
    "pre{background:#f4f4f4;padding:.8rem;overflow:auto}svg{max-width:22rem}"
)


def drawing(decoder: Decoder) -> str:
    """The electrodes on a head seen from above as SVG: those with a weight filled, as large as their weight."""
    names = decoder.feature_names
    positions = electrode_positions(names)
    # NaN where a name is no electrode of the 10–10 system
    spots = places([None if (place != place).any() else place for place in positions])
    norms = dict(zip(names, decoder.classifier.group_norms_.tolist(), strict=True))
    # A decoder without any weight is drawn too, with all electrodes hollow.
    largest = max(norms.values(), default=0.0) or 1.0
    marks = []
    for name, (x, y) in zip(names, spots, strict=True):
        if norms[name]:
            radius = 0.025 + 0.035 * norms[name] / largest
            style = 'fill="#D55E00"'
            label = f'<text x="{x:.3f}" y="{-y - radius - 0.015:.3f}">{html.escape(for_terminal(name))}</text>'
        else:
            radius, style, label = 0.018, 'fill="white" stroke="#9a9a9a" stroke-width="0.008"', ""
        # SVG counts y downwards, and the nose is up.
        marks.append(f'<circle cx="{x:.3f}" cy="{-y:.3f}" r="{radius:.3f}" {style}/>{label}')
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="-1.25 -1.3 2.5 2.6" role="img" '
        'aria-label="Electrodes on the head">'
        '<g fill="none" stroke="#555" stroke-width="0.01"><circle r="1"/><path d="M-0.1 -0.995 L0 -1.12 L0.1 -0.995"/>'
        '</g><g font-family="sans-serif" font-size="0.075" text-anchor="middle">' + "".join(marks) + "</g></svg>"
    )


def _html_table(table: tuple[tuple[str, ...], ...]) -> str:
    head, *rows = ([html.escape(for_terminal(cell)) for cell in row] for row in table)
    lines = ["<tr>" + "".join(f"<th>{cell}</th>" for cell in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows]
    return "<table>" + "".join(lines) + "</table>"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _marked(text: str) -> str:
    """Text in which names cannot become Markdown or HTML."""
    # First the control characters, then the signs of Markdown, of which the backslash must be the first.
    text = for_terminal(text)
    for sign in "\\`*_<[":
        text = text.replace(sign, f"\\{sign}")
    return text
