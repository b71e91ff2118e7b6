"""Sensors on a head seen from above, the nose up. Nothing is interpolated between sensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mixnorm.eeg.positions import on_page
from mixnorm.report.label_places import Box, place_names
from mixnorm.report.safe_text import for_figure

_COLOUR = "#D55E00"
#: Width of the ring of a sensor that was selected in nearly all splits, relative to its size.
_WIDEST = 0.28
# markers smaller than this, in points, have no room for letters that can be read
_SMALLEST_WITH_NAME = 11.0
#: Sizes of names beside electrodes, in points: the largest at which all have room that no other marker takes.
_FONTS = (10.0, 8.0, 6.0)
FIRST_ROW = -1.45
"""Height of the first row of sensors of unknown position, below the head."""
_ROW_HEIGHT, _PER_ROW = 0.24, 10


def draw_head(
    axes: Any,
    ch_names: Sequence[str],
    positions: Sequence[Sequence[float] | None],
    often: Mapping[str, float],
    points_per_unit: float,
) -> None:
    """Draw all sensors of a montage.

    Parameters
    ----------
    axes : matplotlib axes
    ch_names : names of the sensors
    positions : (x, y, z) of each, in metres; None where not known
    often : name → share of splits in which it was chosen, 0 to 1
        A small grey dot: never; a ring, the wider the more often; filled: always.
    points_per_unit : float
        Points for the radius of the head. Markers are scaled to fit, with names inside or above.
    """
    spots = places(positions)
    size = marker_size(spots, points_per_unit)
    for name, (x, y) in zip(ch_names, spots, strict=True):
        share = often[name]
        # Sensors that were chosen are above those that were not, where markers of a dense cap overlap.
        axes.plot([x], [y], **_marker(share, size), zorder=2 if not share else 3)
        # names of sensors that were never chosen would only hide the others
        if share:
            _write_name(axes, name, (x, y), size, "white" if share == 1 else "black")
    frame(axes, spots)


def _write_name(axes: Any, name: str, spot: tuple[float, float], size: float, inside: str) -> None:
    """Inside the marker where there is room, else above it."""
    name = for_figure(name)
    if size >= _SMALLEST_WITH_NAME:
        axes.annotate(name, spot, ha="center", va="center", fontsize=0.4 * size, zorder=4, color=inside)
        return
    above = {"xytext": (0, 0.5 * size), "textcoords": "offset points", "va": "bottom"}
    axes.annotate(name, spot, ha="center", fontsize=5, zorder=4, color="black", **above)


def draw_montage(axes: Any, ch_names: Sequence[str], spots: np.ndarray, weights: Mapping[str, float]) -> int:
    """Draw the sensors of one montage filled, as large as their weight, and all others hollow.

    Parameters
    ----------
    axes : matplotlib axes
        What else takes room on the figure, such as a title, must be there already: names are placed for this size.
    ch_names : names of all sensors
    spots : (n, 2) array
        Where each is drawn, see `places`.
    weights : name → size of its weights, for the sensors of the montage

    Returns
    -------
    int
        Number of names that were left out, because they would overlap others.
    """
    frame(axes, spots)
    points_per_unit = measured(axes)
    size = marker_size(spots, points_per_unit)
    largest = max(weights.values(), default=0.0) or 1.0
    sizes = [size * (0.45 + 0.55 * weights[name] / largest) if name in weights else 0.4 * size for name in ch_names]
    for name, (x, y), own in zip(ch_names, spots, sizes, strict=True):
        face, edge = (_COLOUR, _COLOUR) if name in weights else ("white", "#9a9a9a")
        style = {"markerfacecolor": face, "markeredgecolor": edge, "markersize": own}
        axes.plot([x], [y], marker="o", linestyle="", zorder=3 if name in weights else 2, **style)
    # The largest weight first: if there is no room for all names, the least important ones are left out.
    named = sorted((i for i, name in enumerate(ch_names) if name in weights), key=lambda i: -weights[ch_names[i]])
    return _write_names(axes, [for_figure(ch_names[i]) for i in named], named, spots, points_per_unit, sizes)


def draw_values(
    axes: Any, ch_names: Sequence[str], spots: np.ndarray, values: np.ndarray, colours: dict[str, Any]
) -> None:
    """Draw every sensor in the colour of its value, with its name beside it where there is room.

    Parameters
    ----------
    axes : matplotlib axes
    ch_names : names of the sensors
    spots : (n, 2) array
        Where each is drawn, see `places`.
    values : (n,) array
    colours : dict
        ``cmap`` and ``norm``, as in ``axes.scatter``.
    """
    frame(axes, spots)
    points_per_unit = measured(axes)
    size = marker_size(spots, points_per_unit)
    axes.scatter(*spots.T, s=size**2, c=values, edgecolors="#555555", linewidths=0.6, zorder=3, **colours)
    named = np.argsort(-np.abs(values), kind="stable").tolist()
    names = [for_figure(ch_names[index]) for index in named]
    _write_names(axes, names, named, spots, points_per_unit, [size] * len(spots))


def _write_names(
    axes: Any, names: Sequence[str], named: Sequence[int], spots: np.ndarray, points_per_unit: float, sizes: Sequence
) -> int:
    """Write names beside their markers, where there is room; return how many had none."""
    points = spots * points_per_unit
    per_point = [_width(name) for name in names]
    markers = [Box(x, y, size / 2 + 1, size / 2 + 1) for (x, y), size in zip(points, sizes, strict=True)]
    # Smaller letters before names that cover other markers, and these before names that are left out.
    for font, cover in (*((font, False) for font in _FONTS), (_FONTS[-1], True)):
        widths = [font * width + 2.0 for width in per_point]
        offsets = place_names(markers, named, widths, 1.2 * font, cover)
        if None not in offsets:
            break
    for name, index, offset in zip(names, named, offsets, strict=True):
        if offset is not None:
            place = {"xytext": offset, "textcoords": "offset points", "ha": "center", "va": "center"}
            axes.annotate(name, tuple(spots[index]), fontsize=font, zorder=4, **place)
    return sum(offset is None for offset in offsets)


def _width(name: str) -> float:
    """Width of a name, relative to the size of the font."""
    from matplotlib.textpath import TextPath

    return float(TextPath((0, 0), name, size=10.0).get_extents().width) / 10.0


def frame(axes: Any, spots: np.ndarray) -> None:
    """Head, limits, and where there are sensors below the head what these are."""
    below = spots[:, 1] <= FIRST_ROW
    if below.any():
        axes.annotate("Position unknown:", (-1.2, FIRST_ROW + 0.17), fontsize=8, va="bottom", color="#555555")
    if not below.all():
        _outline(axes)
    axes.set_aspect("equal")
    axes.set_xlim(-1.25, 1.25)
    axes.set_ylim(*height_range(spots))
    axes.set_axis_off()


def measured(axes: Any) -> float:
    """Points for one unit of the axes, the radius of a head, in the layout that the figure has now."""
    figure = axes.figure.figure  # of subfigures the whole figure
    # The layout engine decides on the size of the axes only when the figure is drawn.
    figure.draw_without_rendering()
    (left, _), (right, _) = axes.transData.transform([(0, 0), (1, 0)])
    return float((right - left) * 72 / figure.dpi)


def height_range(spots: np.ndarray) -> tuple[float, float]:
    """Lowest and highest y of a drawing: of the head with its nose, and of the sensors below it."""
    below = spots[:, 1] <= FIRST_ROW
    lowest = float(spots[:, 1].min()) - 0.15 if below.any() else -1.1
    return lowest, FIRST_ROW + 0.35 if below.all() else 1.2


def places(positions: Sequence[Sequence[float] | None]) -> np.ndarray:
    """Positions (n, 2) on the page: distance from the middle = angle from the vertex, 1 at the rim of the head.

    Sensors of unknown position are drawn in rows below the head.
    """
    return unknown_below([None if place is None else on_page(place)[0] for place in positions])


def unknown_below(spots: Sequence[Sequence[float] | None]) -> np.ndarray:
    """Places on the page (n, 2), those that are None in rows below the head."""
    unknown = [index for index, place in enumerate(spots) if place is None]
    row = {}
    for start in range(0, len(unknown), _PER_ROW):
        part = unknown[start : start + _PER_ROW]
        # the spacing of a full row, also where the last row is not full
        across = np.linspace(-1.1, 1.1, _PER_ROW)[: len(part)]
        y = FIRST_ROW - _ROW_HEIGHT * (start // _PER_ROW)
        row |= {index: (x, y) for index, x in zip(part, across, strict=True)}
    flat = [row[index] if place is None else tuple(place) for index, place in enumerate(spots)]
    return np.array(flat, dtype=float).reshape(-1, 2)


def key_of_rings(figure: Any) -> None:
    """The legend that says what rings mean."""
    from matplotlib.lines import Line2D

    shares = [(0.0, "never chosen"), (0.3, "chosen in 30 % of splits"), (0.7, "in 70 %"), (1.0, "always")]
    handles = [Line2D([], [], **_marker(share, 11.0), label=label) for share, label in shares]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=8)


def marker_size(spots: np.ndarray, points_per_unit: float) -> float:
    """The size in points at which no two sensors touch, between 3 and 18."""
    if len(spots) < 2:
        return 16.0
    distances = np.linalg.norm(spots[:, None] - spots[None], axis=2)
    # 0.92, so that neighbours do not touch; limits, so that sparse and dense caps can both be read
    nearest = distances[~np.eye(len(spots), dtype=bool)].min()
    return float(np.clip(0.92 * nearest * points_per_unit, 3.0, 18.0))


def _marker(share: float, size: float) -> dict[str, Any]:
    if not share:
        return {"linestyle": "", "marker": "o", "markersize": min(4.0, 0.6 * size), "color": "#c8c8c8"}
    ring = _WIDEST * size * share
    return {
        "linestyle": "",
        "marker": "o",
        # the ring is drawn half outside the circle
        "markersize": size - ring,
        "markerfacecolor": _COLOUR if share == 1 else "white",
        "markeredgecolor": _COLOUR,
        "markeredgewidth": ring,
    }


def _outline(axes: Any) -> None:
    turn = np.linspace(0, 2 * np.pi, 200)
    line = {"color": "#888888", "linewidth": 1.0, "zorder": 1}
    axes.plot(1.0 * np.cos(turn), 1.0 * np.sin(turn), **line)
    axes.plot([-0.12, 0, 0.12], [0.993, 1.13, 0.993], **line)
    for side in (-1, 1):
        ear = np.linspace(-np.pi / 2, np.pi / 2, 50)
        axes.plot(side * (1.0 + 0.09 * np.cos(ear)), 0.17 * np.sin(ear), **line)
