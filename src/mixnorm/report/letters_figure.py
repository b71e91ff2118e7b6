"""Figures of spelled letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mixnorm.eeg.readers.guard import require
from mixnorm.eeg.spelling_rates import Rates

_FIXED, _EARLY = "#0072B2", "#D55E00"


def letters_figure(by_repetition: Sequence[Rates], by_threshold: Sequence[Rates]) -> Any:
    """Letters right against the mean number of flashes: fixed numbers of repetitions, and stopping thresholds."""
    figure = require("matplotlib.figure", "report").Figure(figsize=(5.6, 4.2), layout="constrained")
    axes = figure.subplots()
    for found, color, marker, label in (
        (by_repetition, _FIXED, "o", "fixed number of repetitions"),
        (by_threshold, _EARLY, "s", "stopped at a probability"),
    ):
        flashes, right = [one.n_flashes for one in found], [100 * one.right for one in found]
        axes.plot(flashes, right, color=color, marker=marker, markersize=5, linewidth=1.4, label=label)
        for one, x, y in zip(found, flashes, right, strict=True):
            text = f"{one.repetitions}" if one.threshold is None else f"{one.threshold:g}"
            below = one.threshold is None
            axes.annotate(
                text, (x, y), xytext=(0, -11 if below else 6), textcoords="offset points", ha="center", fontsize=7
            )
    axes.set_xlabel("Flashes per letter (mean)", fontsize=9)
    axes.set_ylabel("Letters right (%)", fontsize=9)
    axes.set_ylim(0, 108)
    axes.set_xlim(left=0)
    axes.grid(color="#e5e5e5", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(loc="lower right", frameon=False, fontsize=8)
    return figure
