"""``mixnorm card MODEL``: one page about a model, Markdown or HTML."""

from __future__ import annotations

from pathlib import Path

import click

from mixnorm.commands.common import check_writable, load_decoder, messages
from mixnorm.core.files import write_text
from mixnorm.report.card import as_html, as_markdown, card_sections, drawing
from mixnorm.report.model_facts import model_facts


@click.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Output file, .md or .html [default: Markdown on standard output].",
)
def card(model: Path, output: Path | None) -> None:
    """Write a model card of MODEL: what it decodes, from which recordings, how well, and how to use it."""
    with messages():
        if output is not None:
            check_writable(output, "-o")
            if output.suffix not in (".md", ".html"):
                raise ValueError(f"{output}: the name of a model card must end in .md or .html.")
        decoder = load_decoder(model)
        sections, title = card_sections(decoder, model_facts(model)), f"Model card: {model.name}"
        if output is None:
            click.echo(as_markdown(title, sections), nl=False)
            return
        if output.suffix == ".html":
            write_text(output, as_html(title, sections, drawing(decoder)))
        else:
            # Markdown cannot contain a drawing; HTML does. The drawing first: the card must not name a file that could
            # not be written.
            picture = output.with_suffix(".svg")
            write_text(picture, drawing(decoder) + "\n")
            write_text(output, as_markdown(title, sections, picture.name))
    click.echo(str(output))
