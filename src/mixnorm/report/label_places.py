"""Where to write names beside markers, so that no two names overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: Directions in which a name may stand beside its marker, in order of preference.
_DIRECTIONS = ((0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1))


@dataclass(frozen=True)
class Box:
    """A rectangle by its middle and its half sizes, in points."""

    x: float
    y: float
    half_width: float
    half_height: float

    def overlaps(self, other: Box) -> bool:
        """Whether two rectangles have points in common."""
        across = abs(self.x - other.x) < self.half_width + other.half_width
        return across and abs(self.y - other.y) < self.half_height + other.half_height


def place_names(
    markers: Sequence[Box], named: Sequence[int], widths: Sequence[float], height: float, cover: bool = True
) -> list[tuple[float, float] | None]:
    """Middles of the names of some markers, relative to the markers, in points; None where there is no room.

    Parameters
    ----------
    markers : sequence of Box
        All markers that are drawn.
    named : sequence of int
        Indices of the markers whose names are written, the most important one first.
    widths : sequence of float
        Widths of these names.
    height : float
        Height of a line of text.
    cover : bool
        Whether a name may cover the marker of another one where all other places are occupied. It never covers
        another name.
    """
    # Greedy, the most important name first: dozens of names, for which the best arrangement of all is not worth
    # computing.
    written: list[Box] = []
    found: list[tuple[float, float] | None] = []
    for index, width in zip(named, widths, strict=True):
        own = markers[index]
        others = [box for place, box in enumerate(markers) if place != index]
        candidates = [_beside(own, dx, dy, width, height) for dx, dy in _DIRECTIONS]
        apart = [box for box in candidates if not any(box.overlaps(other) for other in written)]
        clear = [box for box in apart if not any(box.overlaps(other) for other in others)]
        best = next(iter(clear or (apart if cover else ())), None)
        if best is not None:
            written.append(best)
        found.append(None if best is None else (best.x - own.x, best.y - own.y))
    return found


def _beside(own: Box, dx: int, dy: int, width: float, height: float) -> Box:
    """The box of a name beside a marker; diagonally it touches the corner of the marker's inner square."""
    near = np.sqrt(0.5) if dx and dy else 1.0
    x = own.x + dx * (near * own.half_width + width / 2)
    y = own.y + dy * (near * own.half_height + height / 2)
    return Box(float(x), float(y), width / 2, height / 2)
