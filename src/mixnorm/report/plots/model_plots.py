"""Pictures of models: coefficients along a path, and patterns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mixnorm.eeg.positions import electrode_positions
from mixnorm.eeg.readers.guard import require
from mixnorm.estimators.path import Path
from mixnorm.report.heads import draw_values, places
from mixnorm.report.safe_text import for_figure
from mixnorm.report.styles import GREY, ORANGE, figure_on_screen, plain

_SIZE = (6.0, 3.8)
#: Curves of a path that are coloured and named if it is not said which.
_N_NAMED = 8


def plot_path(
    path: Path, axes: Any = None, *, groups: Sequence | None = None, highlight: Sequence | None = None
) -> Any:
    """Draw the norm of the coefficients of every group along a path.

    Alpha decreases from left to right, so that one group after the other is selected.

    Parameters
    ----------
    path : Path
        What `group_svc_path` returns.
    axes : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure of pyplot.
    groups : sequence, optional
        Names of the channels, for a path of epochs, or one label per column; by default every column is a group.
    highlight : sequence, optional
        Groups whose curves are coloured and named; by default the first eight that enter.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on.

    See Also
    --------
    mixnorm.group_svc_path : Computes the path.

    Examples
    --------
    >>> from mixnorm import group_svc_path
    >>> from mixnorm.eeg import simulated_p300
    >>> data = simulated_p300(200, seed=0)
    >>> axes = plot_path(group_svc_path(data.X, data.y, alphas=5), groups=data.ch_names, highlight=["Pz"])
    >>> [text.get_text() for text in axes.texts]
    ['Pz']
    """
    norms = _group_norms(path, groups)
    # a group that entered earlier is not zero at more alphas
    entered = sorted(norms, key=lambda name: (-np.count_nonzero(norms[name]), -norms[name].max()))
    coloured = set(entered[:_N_NAMED] if highlight is None else highlight)
    if unknown := coloured - set(norms):
        raise ValueError(f"highlight: unknown group {_listed(unknown)}; available: {_listed(norms)}.")
    axes = figure_on_screen(_SIZE) if axes is None else axes
    for name, norm in norms.items():
        style = {"color": ORANGE, "linewidth": 1.5, "zorder": 3} if name in coloured else {"color": GREY, "zorder": 2}
        axes.plot(path.alphas, norm, **({"linewidth": 0.8} | style))
    axes.set_xscale("log")
    axes.set_xlim(path.alphas.max(), path.alphas.min())
    axes.set_ylim(bottom=0)
    axes.set_xlabel("alpha (strength of the penalty)")
    axes.set_ylabel("norm of the coefficients")
    plain(axes)
    last = int(np.argmin(path.alphas))
    _name_ends(axes, path.alphas[last], {str(name): norms[name][last] for name in norms if name in coloured})
    return axes


def _group_norms(path: Path, groups: Sequence | None) -> dict[Any, np.ndarray]:
    """The norms (A,) of every group, in order of the columns."""
    n_columns = path.coefs.shape[1]
    labels = list(range(n_columns)) if groups is None else list(groups)
    if not labels or n_columns % len(labels):
        raise ValueError(
            f"groups has {len(labels)} entries for {n_columns} columns; give the name of every channel, or the label "
            "of every column."
        )
    # Columns of epochs are channel-major: all samples of the first channel, then those of the next.
    of_column = [label for label in labels for _ in range(n_columns // len(labels))]
    columns = {label: [i for i, own in enumerate(of_column) if own == label] for label in dict.fromkeys(of_column)}
    return {label: np.linalg.norm(path.coefs[:, own], axis=1) for label, own in columns.items()}


def _name_ends(axes: Any, x: float, ends: dict[str, float]) -> None:
    """Write names at the ends of curves on the right, far enough apart to be read."""
    height, last = 0.05 * axes.get_ylim()[1], -np.inf
    for name, y in sorted(ends.items(), key=lambda item: item[1]):
        # from below: each name is moved up until it is clear of the one before
        last = max(y, last + height)
        axes.annotate(
            for_figure(name),
            (x, last),
            xytext=(4, 0),
            textcoords="offset points",
            fontsize=8,
            color=ORANGE,
            va="center",
            annotation_clip=False,
        )


def plot_patterns(
    model: Any,
    axes: Any = None,
    *,
    ch_names: Sequence[str] | None = None,
    times: Sequence[float] | None = None,
    time: float | None = None,
    weights: bool = False,
) -> Any:
    """Draw the patterns of a classifier by channel and time, or those of one time on a head.

    Patterns show where and when the decoded signal appears (Haufe et al. 2014 [1]_). Nothing is interpolated between
    electrodes.

    Parameters
    ----------
    model : Decoder, or fitted GroupSVC or GroupSVCCV
        An estimator must have been fitted on epochs (trials, channels, times).
    axes : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure of pyplot.
    ch_names : sequence of str, optional
        Names of the channels; a decoder knows them.
    times : sequence of float, optional
        Seconds of the samples; a decoder knows them. By default samples are numbered.
    time : float, optional
        Draw electrodes on a head, coloured by their pattern at the sample nearest to this time.
    weights : bool, default=False
        Whether to draw the weights (``filters_``) instead, to compare. They also cancel noise, and do not show where
        a signal is.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on.

    See Also
    --------
    mixnorm.GroupSVC : Has ``patterns_`` and ``filters_``.
    mixnorm.eeg.Decoder : Has both in the unit of the recording.

    References
    ----------
    .. [1] Haufe, S., et al. (2014). On the interpretation of weight vectors of linear models in multivariate
       neuroimaging. NeuroImage 87, 96–110. https://doi.org/10.1016/j.neuroimage.2013.10.067

    Examples
    --------
    >>> from mixnorm.eeg import Decoder, simulated_recording
    >>> decoder = Decoder.fit(simulated_recording(240, n_channels=4, n_informative=2))
    >>> [label.get_text() for label in plot_patterns(decoder).get_yticklabels()]
    ['Fz', 'Cz', 'Pz', 'Oz']
    """
    values = np.asarray(model.filters_ if weights else model.patterns_)
    names, seconds, in_ms = _channels_and_times(model, values, ch_names, times)
    axes = figure_on_screen(_SIZE if time is None else (4.0, 4.0)) if axes is None else axes
    colours = _draw_bar(axes, float(np.abs(values).max()) or 1.0, _unit(model, weights))
    if time is None:
        _draw_image(axes, values.T, [for_figure(name) for name in names], in_ms, colours)
        axes.set_xlabel("sample" if in_ms is seconds else "ms after the stimulus")
    else:
        at = int(np.argmin(np.abs(seconds - time)))
        axes.set_title(f"sample {at}" if in_ms is seconds else f"{in_ms[at]:.0f} ms", fontsize=10)
        spots = places([None if np.isnan(place).any() else place for place in electrode_positions(names)])
        draw_values(axes, names, spots, values[at], colours)
    return axes


def _channels_and_times(
    model: Any, values: np.ndarray, ch_names: Sequence[str] | None, times: Sequence[float] | None
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Names, times, and times as they are written, in ms; samples without times are numbered, which is written."""
    found = getattr(model, "feature_names", getattr(model, "groups_", ())) if ch_names is None else ch_names
    names = [str(name) for name in found]
    if values.shape[1] != len(names):
        raise ValueError(
            f"The patterns are {values.shape[0]} × {values.shape[1]} (times × channels), but {len(names)} channels "
            "are named. Name each of them in ch_names, and fit the model on epochs (trials, channels, times)."
        )
    known = getattr(model, "times", None) if times is None else times
    seconds = np.arange(len(values), dtype=float) if known is None else np.asarray(known, dtype=float)
    if len(seconds) != len(values):
        raise ValueError(f"times has {len(seconds)} entries, but the patterns have {len(values)} samples.")
    return names, seconds, seconds if known is None else 1000 * seconds


def _unit(model: Any, weights: bool) -> str:
    """What the colours mean; a decoder knows the unit of its channels."""
    if hasattr(model, "feature_names"):
        return "weight (1/µV)" if weights else "pattern (µV per unit of score)"
    return "weight" if weights else "pattern"


def _draw_bar(axes: Any, limit: float, label: str) -> dict[str, Any]:
    """A colour bar from −limit to limit; return its colours. They are the same for all times, to compare heads."""
    # Symmetric, so that white is zero.
    norm = require("matplotlib.colors", "report").Normalize(-limit, limit)
    colours = {"cmap": "RdBu_r", "norm": norm}
    bar = axes.figure.colorbar(require("matplotlib.cm", "report").ScalarMappable(**colours), ax=axes, shrink=0.8)
    bar.set_label(label, fontsize=8)
    bar.ax.tick_params(labelsize=8)
    bar.outline.set_visible(False)
    return colours


def _draw_image(
    axes: Any, values: np.ndarray, names: Sequence[str], times: np.ndarray, colours: dict[str, Any]
) -> None:
    """Colours by channel (rows, the first one at the top) and time; a column is around its time."""
    step = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else 1.0
    extent = (times[0] - step / 2, times[-1] + step / 2, len(names) - 0.5, -0.5)
    axes.imshow(values, aspect="auto", interpolation="nearest", extent=extent, **colours)
    row_height = axes.get_window_extent().height * 72 / axes.figure.figure.dpi / len(names)
    axes.set_yticks(range(len(names)), names, fontsize=float(np.clip(0.75 * row_height, 3, 8)))


def _listed(labels: Iterable) -> str:
    return ", ".join(map(str, labels))
