"""Pictures of a selection: a montage on a head, and the AUC by number of electrodes."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np

from mixnorm.montage import sentences
from mixnorm.montage.result import Montage, SelectionResult
from mixnorm.montage.verdict_records import Trace
from mixnorm.report.heads import draw_montage, height_range, unknown_below
from mixnorm.report.safe_text import for_figure
from mixnorm.report.styles import COLOURS, MARKERS, ORANGE, figure_on_screen, plain

#: Size of the drawn head: inches for its radius.
_INCHES_PER_UNIT = 5.0 / 2.7
CURVE_SIZE = (6.4, 4.2)


def plot_montage(selection: SelectionResult, axes: Any = None, *, n_sensors: int | None = None) -> Any:
    """Draw a montage on a head seen from above.

    Its electrodes are filled, as large as their weight; all others are hollow.

    Parameters
    ----------
    selection : Selection or SelectionResult
        What `select_montage` returns or `mixnorm select` wrote.
    axes : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure of pyplot.
    n_sensors : int, optional
        Number of electrodes; by default that of the montage put forward.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on.

    See Also
    --------
    plot_auc_curve : The AUC of all montages.
    mixnorm.eeg.select_montage : Makes the selection.

    Examples
    --------
    >>> from mixnorm.eeg import SelectOptions, select_montage, simulated_recording
    >>> options = SelectOptions(n_resamplings=0, compare=False)
    >>> found = select_montage(simulated_recording(240, n_channels=4, n_informative=2), options)
    >>> plot_montage(found, n_sensors=2).get_title()[:15]
    '2 of 4 electrod'
    """
    montage = _montage(selection, n_sensors)
    axes = figure_on_screen(montage_size(selection, n_sensors)) if axes is None else axes
    axes.set_title(_montage_title(selection, montage), fontsize=10)
    # in lines that are not wider than a small head
    key = axes.text(0.5, 0, "Filled: chosen, size by weight.\nHollow: not chosen.", fontsize=8, ha="center", va="top")
    key.set_transform(axes.transAxes)
    weights = {name: float(np.linalg.norm(_floats(montage.weights[name]))) for name in montage.sensors}
    left_out = draw_montage(axes, [s.name for s in selection.sensors], _spots(selection), weights)
    if left_out:
        key.set_text(f"{key.get_text()}\n{sentences.count(left_out, 'name')} left out for lack of room.")
    return axes


def montage_size(selection: SelectionResult, n_sensors: int | None = None) -> tuple[float, float]:
    """Inches of a figure of `plot_montage`: with room for the title, so that the head has the same size in all."""
    low, high = height_range(_spots(selection))
    lines = _montage_title(selection, _montage(selection, n_sensors)).count("\n")
    return 5.0, 0.55 + 0.17 * lines + _INCHES_PER_UNIT * (high - low)


def _montage(selection: SelectionResult, n_sensors: int | None) -> Montage:
    if n_sensors is None:
        return selection.chosen
    found = {montage.n_sensors: montage for montage in selection.montages}
    if n_sensors not in found:
        raise ValueError(f"No montage has {n_sensors} electrodes; there are montages of {', '.join(map(str, found))}.")
    return found[n_sensors]


def _montage_title(selection: SelectionResult, montage: Montage) -> str:
    recommended, n_all = selection.recommended, len(selection.sensors)
    auc = "unknown" if montage.auc is None else f"{montage.auc:.3f}"
    if montage is not selection.chosen:
        return f"{montage.n_sensors} of {sentences.count(n_all, 'electrode')}, AUC {auc}"
    few = f"{sentences.few_of(recommended, n_all)}, AUC {auc}"
    unsure = recommended.verdict == "unsure"
    lines = [
        sentences.headline(recommended),
        f"{sentences.label(recommended).capitalize()}: {few}" if unsure else few,
        _caution(selection, 62),
    ]
    return "\n".join(line for line in lines if line)


def _spots(selection: SelectionResult) -> np.ndarray:
    return unknown_below([None if s.x is None or s.y is None else (s.x, s.y) for s in selection.sensors])


def plot_auc_curve(selection: SelectionResult, axes: Any = None) -> Any:
    """Draw the AUC on held-out trials against the number of electrodes.

    The curve of this package has its 95 % interval. The other ways to order electrodes, where they were compared, and
    the montage put forward are drawn, too.

    Parameters
    ----------
    selection : Selection or SelectionResult
        What `select_montage` returns or `mixnorm select` wrote.
    axes : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure of pyplot.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on.

    See Also
    --------
    plot_montage : One montage on a head.
    mixnorm.eeg.select_montage : Makes the selection.

    Examples
    --------
    >>> from mixnorm.eeg import SelectOptions, select_montage, simulated_recording
    >>> options = SelectOptions(n_resamplings=0, compare=False)
    >>> found = select_montage(simulated_recording(240, n_channels=4, n_informative=2), options)
    >>> plot_auc_curve(found).get_xlabel()
    'Electrodes'
    """
    axes = figure_on_screen(CURVE_SIZE) if axes is None else axes
    # from the last to the first, so that the curve of this package is above the others
    for place, curve in reversed(list(enumerate(selection.curves))):
        style = {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)]}
        name = for_figure(curve.method)
        axes.plot(curve.n_sensors, _floats(curve.auc), markersize=3, linewidth=1.2, label=name, **style)
        if place == 0 and curve.low and curve.high:
            band = (_floats(curve.low), _floats(curve.high))
            axes.fill_between(curve.n_sensors, *band, color=style["color"], alpha=0.15, linewidth=0)
    chosen = selection.chosen
    mark = {"marker": "o", "markersize": 11, "markerfacecolor": "none", "color": ORANGE, "linestyle": ""}
    # A ring around the point, which stays visible in it.
    axes.plot([chosen.n_sensors], _floats((chosen.auc,)), label=sentences.label(selection.recommended), **mark)
    axes.set_xlabel("Electrodes")
    axes.set_ylabel("AUC on held-out trials (band: 95 % interval)")
    plain(axes)
    title = [line for line in (sentences.headline(selection.recommended), _caution(selection, 80)) if line]
    axes.set_title("\n".join(title), fontsize=10)
    _draw_chance(axes)
    axes.legend(frameon=False, fontsize=8)
    return axes


def _caution(selection: SelectionResult, width: int) -> str:
    """The caution in lines of at most so many characters."""
    return textwrap.fill(sentences.caution(selection.recommended) or "", width)


def _draw_chance(axes: Any) -> None:
    """A line at chance level, if the axis of AUCs, limited to 0 … 1, contains it."""
    low, high = axes.get_ylim()
    # intervals can reach beyond 1, an AUC cannot
    low, high = max(low, 0.0), min(high, 1.0)
    axes.set_ylim(low, high)
    if low <= 0.5 <= high:
        axes.axhline(0.5, color="#777777", linewidth=0.8, zorder=1)
        place = {"xycoords": ("axes fraction", "data"), "xytext": (0, 2), "textcoords": "offset points"}
        axes.annotate("chance", (1, 0.5), **place, ha="right", va="bottom", fontsize=8, color="#555555")


def _floats(values: Trace) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in values])
