"""``mixnorm info MODEL``: what a model file contains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from mixnorm.commands.common import json_option, messages, print_json
from mixnorm.report.model_facts import model_facts
from mixnorm.report.safe_text import for_terminal


@click.command()
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
def info(model: Path, as_json: bool) -> None:
    """Describe MODEL: its class, electrodes, preparation, training and versions."""
    with messages():
        facts = model_facts(model)
    if as_json:
        print_json(facts)
    else:
        click.echo("\n".join(_lines(facts)))


def _lines(facts: dict[str, Any], indent: str = "") -> list[str]:
    # Names and values come from a file, perhaps somebody else's, and may contain control characters of a terminal.
    lines = []
    for name, value in facts.items():
        if isinstance(value, dict):
            lines += [f"{indent}{for_terminal(str(name))}:", *_lines(value, indent + "  ")]
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            lines.append(f"{indent}{name}:")
            for one in value:
                lines += _lines(one, indent + "  ")
        else:
            lines.append(f"{indent}{for_terminal(str(name))}: {for_terminal(_shown(value))}")
    return lines


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_shown(item) for item in value) or "–"
    if isinstance(value, float):
        return f"{value:.6g}"
    return "–" if value is None else str(value)
