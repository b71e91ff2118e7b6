"""What tests ask of a folder of results."""

from pathlib import Path


def contents(folder):
    """Name → bytes of every result of a study."""
    return {path.name: path.read_bytes() for path in (Path(folder) / "results").iterdir()}
