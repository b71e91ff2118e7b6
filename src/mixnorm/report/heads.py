"""Sensors on a head seen from above, the nose up. Nothing is interpolated between sensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mixnorm.eeg.positions import on_page
from mixnorm.report.safe_text import for_figure

_COLOUR = "#D55E00"
#: Width of the ring of a sensor that was selected in nearly all splits, relative to its size.
_WIDEST = 0.28
_SMALLEST_WITH_NAME = 11.0


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
    _outline(axes)
    spots = places(positions)
    size = marker_size(spots, points_per_unit)
    for name, (x, y) in zip(ch_names, spots, strict=True):
        share = often[name]
        axes.plot([x], [y], **_marker(share, size), zorder=2 if not share else 3)
        if share:
            _write_name(axes, name, (x, y), size, "white" if share == 1 else "black")
    axes.set_aspect("equal")
    axes.set_xlim(-1.25, 1.25)
    axes.set_ylim(-1.2, 1.3)
    axes.set_axis_off()


def _write_name(axes: Any, name: str, spot: tuple[float, float], size: float, inside: str) -> None:
    """Inside the marker where there is room, else above it."""
    name = for_figure(name)
    if size >= _SMALLEST_WITH_NAME:
        axes.annotate(name, spot, ha="center", va="center", fontsize=0.4 * size, zorder=4, color=inside)
        return
    above = {"xytext": (0, 0.5 * size), "textcoords": "offset points", "va": "bottom"}
    axes.annotate(name, spot, ha="center", fontsize=5, zorder=4, color="black", **above)


def draw_montage(
    axes: Any, ch_names: Sequence[str], spots: np.ndarray, weights: Mapping[str, float], points_per_unit: float
) -> None:
    """Draw the sensors of one montage filled, as large as their weight, and all others hollow.

    Parameters
    ----------
    axes : matplotlib axes
    ch_names : names of all sensors
    spots : (n, 2) array
        Where each is drawn, see `places`.
    weights : name → size of its weights, for the sensors of the montage
    points_per_unit : float
        Points for the radius of the head.
    """
    _outline(axes)
    size = marker_size(spots, points_per_unit)
    largest = max(weights.values(), default=0.0) or 1.0
    for name, (x, y) in zip(ch_names, spots, strict=True):
        if name in weights:
            own = size * (0.45 + 0.55 * weights[name] / largest)
            style = {"markerfacecolor": _COLOUR, "markeredgecolor": _COLOUR, "markersize": own}
            above = {"xytext": (0, 0.5 * own), "textcoords": "offset points", "va": "bottom"}
            axes.annotate(for_figure(name), (x, y), ha="center", fontsize=6, zorder=4, **above)
        else:
            style = {"markerfacecolor": "white", "markeredgecolor": "#9a9a9a", "markersize": 0.4 * size}
        axes.plot([x], [y], marker="o", linestyle="", zorder=3 if name in weights else 2, **style)
    axes.set_aspect("equal")
    axes.set_xlim(-1.25, 1.25)
    axes.set_ylim(-1.3, 1.3)
    axes.set_axis_off()


def places(positions: Sequence[Sequence[float] | None]) -> np.ndarray:
    """Positions (n, 2) on the page: distance from the middle = angle from the vertex, 1 at the rim of the head.

    Sensors of unknown position are drawn in a row below the head.
    """
    return unknown_below([None if place is None else on_page(place)[0] for place in positions])


def unknown_below(spots: Sequence[Sequence[float] | None]) -> np.ndarray:
    """Places on the page (n, 2), those that are None in a row below the head."""
    unknown = [index for index, place in enumerate(spots) if place is None]
    across = np.linspace(-1, 1, len(unknown)) if len(unknown) > 1 else np.zeros(len(unknown))
    row = dict(zip(unknown, across, strict=True))
    flat = [(row[index], -1.15) if place is None else tuple(place) for index, place in enumerate(spots)]
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
