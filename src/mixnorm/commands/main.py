"""The `mixnorm` command: a group whose subcommands are imported when they are called.

A subcommand is one line in `COMMANDS` and one module in `mixnorm.commands`.
"""

from __future__ import annotations

import sys
from importlib import import_module

from mixnorm.version import __version__

#: Name of a subcommand → where it is defined, and what it does.
COMMANDS = {
    "select": (
        "mixnorm.commands.select:select",
        "Select electrodes: montages of every size, their AUC, and a report page.",
    ),
    "train": ("mixnorm.commands.train:train", "Train a decoder on recordings; print its AUC and its electrodes."),
    "study": (
        "mixnorm.commands.study:study",
        "Compare methods on a data set by the protocol of the paper; print the table.",
    ),
    "report": (
        "mixnorm.commands.report:report",
        "Write the tables and figures of a study, or the page of a selection.",
    ),
    "predict": ("mixnorm.commands.predict:predict", "Score every event of a recording."),
    "stream": ("mixnorm.commands.stream:stream", "Score the events of a running Lab Streaming Layer stream."),
    "export": ("mixnorm.commands.export:export", "Write a model for another program: ONNX or BCI2000."),
    "info": ("mixnorm.commands.info:info", "Describe a model file."),
    "card": ("mixnorm.commands.card:card", "Write a model card: one page about a model."),
    "spell": (
        "mixnorm.commands.spell:spell_command",
        "Spell a recording: text, probabilities, letters right by repetitions.",
    ),
}

#: Commands that take minutes: they show at once that they have started, because the import of scikit-learn alone can
#: take some seconds on a busy machine.
ANNOUNCED = ("select",)

#: Options that end the program, whatever else is given.
_AT_ONCE = {"is_flag": True, "expose_value": False, "is_eager": True}


def main() -> None:
    """Run the command line, or say which extra to install."""
    try:
        # Here and not above, so that a missing package is answered by the extra to install.
        import click
    except ImportError:
        sys.exit('The mixnorm command needs click, which is not installed: pip install "mixnorm[cli]".')

    class LazyGroup(click.Group):
        """Imports a subcommand only when it is called, so that each needs only its own extra."""

        def list_commands(self, ctx: click.Context) -> list[str]:
            return list(COMMANDS)

        def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple:
            if args[0] not in ANNOUNCED or "--help" in args:
                return super().resolve_command(ctx, args)
            click.echo(f"Starting mixnorm {args[0]} …", err=True)
            from mixnorm.commands.bars import work_bar  # tqdm is part of the same extra as click

            with work_bar("starting"):
                return super().resolve_command(ctx, args)

        def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
            if name not in COMMANDS:
                return None
            module, _, attribute = COMMANDS[name][0].partition(":")
            return getattr(import_module(module), attribute)

        def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            with formatter.section("Commands"):
                formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    LazyGroup(
        "mixnorm",
        help="Which EEG electrodes does a brain-computer interface need?",
        no_args_is_help=True,
        params=[click.Option(["--version"], callback=_version, help="Show the version and exit.", **_AT_ONCE)],
    )()


def _version(context: object, _parameter: object, asked: bool) -> None:
    if asked:
        print(f"mixnorm {__version__}")
        context.exit()


if __name__ == "__main__":
    main()
