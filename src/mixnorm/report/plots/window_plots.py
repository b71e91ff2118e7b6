"""Pictures of windows of time: a map of electrodes and windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixnorm.eeg.readers.guard import require
from mixnorm.estimators.windows import cell_norms, window_of_samples
from mixnorm.montage.assembly import window_ends
from mixnorm.montage.result import SelectionResult
from mixnorm.montage.sentences import span_name
from mixnorm.report.safe_text import for_figure
from mixnorm.report.styles import figure_on_screen

#: Rows beyond this do not fit on a page; the electrodes with the largest norms are drawn, and the figure says so.
_MOST_ROWS = 32


def plot_windows(
    result: Any,
    axes: Any = None,
    *,
    ch_names: Sequence[str] | None = None,
    times: Sequence[float] | None = None,
) -> Any:
    """Draw which electrodes are chosen in which windows of time.

    A row is a chosen electrode, the one with the largest norm first, and a column is a window. The colour is the norm
    of the coefficients that they share; a cell that is not chosen is empty. Of a selection, the share of the folds in
    which a window was chosen is written below it.

    Parameters
    ----------
    result : SelectionResult, Decoder, or fitted GroupSVC or GroupSVCCV
        A selection with ``windows``, or a classifier that was fitted on epochs with ``windows=…``.
    axes : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure of pyplot.
    ch_names : sequence of str, optional
        Names of the channels; selections and decoders know them.
    times : sequence of float, optional
        Seconds of the samples; selections and decoders know them. By default samples are numbered.

    Returns
    -------
    matplotlib.axes.Axes
        The axes that were drawn on.

    See Also
    --------
    plot_montage : Electrodes on a head.
    plot_patterns : Where and when the decoded signal appears.
    mixnorm.GroupSVC : Has ``window_norms_`` and ``selected_windows_``.

    Examples
    --------
    >>> import numpy as np
    >>> from mixnorm import GroupSVC
    >>> X, y = np.random.default_rng(0).standard_normal((100, 3, 4)), np.tile([0, 1], 50)
    >>> X[y == 1, 1, 2:] += 1  # only Cz, and only late
    >>> model = GroupSVC(0.6, windows=2, window_share=0.5).fit(X, y)
    >>> axes = plot_windows(model, ch_names=["Fz", "Cz", "Pz"], times=[0.1, 0.2, 0.3, 0.4])
    >>> axes.get_title(), [label.get_text() for label in axes.get_xticklabels()]
    ('1 of 3 electrodes, 1 of 2 windows', ['50–250', '250–450'])
    """
    found = _Map.of(result, ch_names, times)
    rows = found.rows()
    axes = figure_on_screen(_size(len(rows), len(found.columns))) if axes is None else axes
    _draw_cells(axes, found.norms[rows])
    axes.set_xticks(range(len(found.columns)), found.columns, fontsize=8)
    axes.set_yticks(range(len(rows)), [for_figure(found.names[row]) for row in rows], fontsize=8)
    axes.set_xlabel(found.axis_name, fontsize=9)
    chosen = int(found.norms.any(axis=1).sum())
    left_out = f", the first {len(rows)} drawn" if len(rows) < chosen else ""
    n_windows = int(found.norms.any(axis=0).sum())
    title = f"{chosen} of {len(found.names)} electrodes{left_out}, {n_windows} of {len(found.columns)} windows"
    axes.set_title(title, fontsize=10)
    return axes


def windows_size(selection: SelectionResult) -> tuple[float, float]:
    """Inches of a figure of `plot_windows` of a selection."""
    found = _Map.of(selection)
    return _size(len(found.rows()), len(found.columns))


def _size(n_rows: int, n_columns: int) -> tuple[float, float]:
    return max(4.0, 1.9 + 0.75 * n_columns), 1.5 + 0.24 * max(n_rows, 3)


@dataclass(frozen=True, eq=False)
class _Map:
    """Norms (electrodes, windows) with names of both, and what the columns are."""

    norms: NDArray[np.float64]
    names: list[str]
    columns: list[str]
    axis_name: str

    @classmethod
    def of(cls, result: Any, ch_names: Sequence[str] | None = None, times: Sequence[float] | None = None) -> _Map:
        if isinstance(result, SelectionResult):
            return cls._of_selection(result)
        return cls._of_model(result, ch_names, times)

    @classmethod
    def _of_selection(cls, selection: SelectionResult) -> _Map:
        if not selection.windows:
            raise ValueError("The selection has no windows of time; select with windows=… (--windows N).")
        names = [sensor.name for sensor in selection.sensors]
        norms = np.array([[one.norms[name] for one in selection.windows] for name in names])
        columns = [f"{_in_ms(one.start, one.stop)}\n{100 * one.frequency:.0f} %" for one in selection.windows]
        return cls(norms, names, columns, "ms after the stimulus; below: share of folds in which it was chosen")

    @classmethod
    def _of_model(cls, model: Any, ch_names: Sequence[str] | None, times: Sequence[float] | None) -> _Map:
        # a decoder has a classifier, names and times; an estimator is the classifier itself
        classifier = getattr(model, "classifier", model)
        norms = cell_norms(classifier)
        found = getattr(model, "feature_names", classifier.groups_) if ch_names is None else ch_names
        names = [str(name) for name in found]
        if len(names) != len(norms):
            raise ValueError(f"The classifier has {len(norms)} channels, but {len(names)} are named in ch_names.")
        known = getattr(model, "times", None) if times is None else times
        n_samples = len(classifier.filters_)
        if known is not None and len(known) != n_samples:
            raise ValueError(f"times has {len(known)} entries, but the classifier was fitted on {n_samples} samples.")
        window = window_of_samples(classifier, n_samples)
        if known is None:
            return cls(norms, names, [str(label) for label in classifier.windows_], "window")
        ends = window_ends(np.asarray(known, dtype=float), window)
        return cls(norms, names, [_in_ms(*one) for one in ends], "ms after the stimulus")

    def rows(self) -> NDArray[np.intp]:
        """The chosen electrodes, the one with the largest norm first, as many as there is room for."""
        total = np.linalg.norm(self.norms, axis=1)
        # stable: electrodes of equal norm keep the order of the cap, in every run
        order = np.argsort(-total, kind="stable")
        return order[total[order] > 0][:_MOST_ROWS]


def _in_ms(start: float, stop: float) -> str:
    return span_name(start, stop).removesuffix(" ms")


def _draw_cells(axes: Any, norms: NDArray[np.float64]) -> None:
    """Coloured cells with a colour bar; those that are 0 are left empty, and a grid shows where they are."""
    n_rows, n_columns = norms.shape
    # A model without sensors is drawn too: a row of empty cells, whose colours need some scale.
    limit = float(norms.max(initial=0.0)) or 1.0
    image = axes.imshow(
        np.ma.masked_equal(norms, 0.0) if n_rows else np.ma.masked_all((1, n_columns)),
        aspect="auto",
        interpolation="nearest",
        cmap="Blues",
        # not from white, which an empty cell is
        norm=require("matplotlib.colors", "report").Normalize(-0.25 * limit, limit),
    )
    axes.set_xticks(np.arange(n_columns + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(max(n_rows, 1) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="#d5d9de", linewidth=0.8)
    axes.tick_params(which="both", length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.8)
    bar.ax.set_ylim(0, limit)
    bar.set_label("norm of the coefficients (empty: not chosen)", fontsize=8)
    bar.ax.tick_params(labelsize=8)
    bar.outline.set_visible(False)
