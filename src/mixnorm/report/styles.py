"""Colours, markers and axes that the figures share."""

from __future__ import annotations

from typing import Any

from mixnorm.eeg.readers.guard import require
from mixnorm.study import METHODS

# The colours of Okabe and Ito, which people with a colour vision deficiency can tell apart
ORANGE, BLUE, *_ = COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#000000")
GREY = "#9a9a9a"
MARKERS = "os^Dv"
# The same and more for the methods of studies. The numbers of colours and of markers have no common divisor: each of
# 12 · 11 methods has a pair of its own.
_METHOD_COLOURS = (
    *("#000000", "#E69F00", "#0072B2", "#56B4E9", "#D55E00", "#999999"),
    *("#009E73", "#CC79A7", "#8B5A2B", "#6A3D9A", "#B8A000", "#8C1D40"),
)
_METHOD_MARKERS = "os^vDPXhd<>"


def method_style(method: str) -> dict[str, str]:
    """Colour and marker of a method of studies, the same in every figure."""
    place = list(METHODS).index(method)
    return {
        "color": _METHOD_COLOURS[place % len(_METHOD_COLOURS)],
        "marker": _METHOD_MARKERS[place % len(_METHOD_MARKERS)],
    }


def plain(axes: Any) -> None:
    """A light grid behind the curves, and no frame above and on the right."""
    axes.grid(color="#e5e5e5", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def figure_for_file(size: tuple[float, float]) -> Any:
    """Axes on a new figure of a size in inches, which has no window and is saved by the caller."""
    return require("matplotlib.figure", "report").Figure(figsize=size, layout="constrained").subplots()


def figure_on_screen(size: tuple[float, float]) -> Any:
    """Axes on a new figure of pyplot, which notebooks and ``plt.show()`` show."""
    return require("matplotlib.pyplot", "report").subplots(figsize=size, layout="constrained")[1]
