"""The map of electrodes and windows for notebooks and papers."""

import numpy as np
import pytest

from mixnorm import GroupSVC
from mixnorm.report import plot_windows
from mixnorm.report.selection_files import write_selection, write_views
from selections import selection, typed, with_windows

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure


@pytest.fixture
def axes():
    return Figure(layout="constrained").subplots()


@pytest.fixture(scope="module")
def epochs():
    rng = np.random.default_rng(0)
    y = np.tile([0, 1], 60)
    X = rng.standard_normal((120, 4, 6))
    X[y == 1, 1:3, 2:4] += [[1.0], [0.6]]
    return X, y


@pytest.fixture(scope="module")
def model(epochs):
    return GroupSVC(0.8, windows=3, window_share=0.5).fit(*epochs)


def drawn(axes):
    """The values of the picture; NaN where a cell is empty."""
    return np.ma.filled(axes.images[0].get_array().astype(float), np.nan)


def labels(axes):
    return [t.get_text() for t in axes.get_xticklabels()], [t.get_text() for t in axes.get_yticklabels()]


def test_a_model_is_drawn_with_its_norms_and_empty_cells(model, axes):
    assert plot_windows(model, axes, ch_names=["Fz", "Cz", "Pz", "Oz"], times=0.1 * np.arange(1, 7)) is axes
    cells = np.linalg.norm(model.coef_.reshape(4, 3, 2), axis=2)
    rows = [1, 2]
    assert np.flatnonzero(cells.any(axis=1)).tolist() == rows
    np.testing.assert_allclose(drawn(axes), np.where(cells[rows] > 0, cells[rows], np.nan))
    assert np.isnan(drawn(axes)).any()
    assert labels(axes) == (["50–250", "250–450", "450–650"], ["Cz", "Pz"])
    assert axes.get_title() == "2 of 4 electrodes, 1 of 3 windows"
    bar = axes.figure.axes[1]
    assert bar.get_ylabel() == "norm of the coefficients (empty: not chosen)"
    assert bar.get_ylim()[0] == 0


def test_labels_of_windows_and_unnamed_channels_are_written_as_they_are(epochs, axes):
    X, y = epochs
    windows = np.array(["early", "early", "mid", "mid", "late", "late"])
    model = GroupSVC(0.1, windows=windows, window_share=0.5).fit(X, y)
    plot_windows(model, axes)
    columns, rows = labels(axes)
    assert columns == ["early", "mid", "late"]
    assert set(rows) <= {"0", "1", "2", "3"}
    np.testing.assert_allclose(np.nanmax(drawn(axes)), np.linalg.norm(model.coef_.reshape(4, 6)[:, 2:4], axis=1).max())


def test_a_selection_is_drawn_with_its_folds(axes):
    found = typed(with_windows(selection(64)))
    plot_windows(found, axes)
    columns, rows = labels(axes)
    assert columns[:2] == ["-17–117\n20 %", "117–250\n100 %"]
    assert len(rows) == 32
    assert axes.get_title() == "32 of 64 electrodes, 4 of 6 windows"
    plot_windows(typed(with_windows(selection(8), left_out=range(6))), Figure().subplots())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ch_names": ["Fz"]}, "has 4 channels, but 1 are named"),
        ({"times": [0.1]}, "times has 1 entries, but the classifier was fitted on 6 samples"),
    ],
)
def test_names_and_times_must_fit(model, options, message):
    with pytest.raises(ValueError, match=message):
        plot_windows(model, **options)


def test_what_has_no_windows_is_refused(epochs):
    X, y = epochs
    with pytest.raises(ValueError, match="The selection has no windows"):
        plot_windows(typed(selection(8)))
    with pytest.raises(ValueError, match="fitted without windows"):
        plot_windows(GroupSVC(0.5).fit(X, y))
    flat = GroupSVC(0.5, groups=np.repeat(np.arange(4), 6), windows=3, window_share=0.5).fit(X.reshape(120, -1), y)
    with pytest.raises(ValueError, match=r"fitted on vectors; fit it on epochs \(trials, channels, times\)"):
        plot_windows(flat)
    # a matrix whose every column is a sensor has no samples to divide
    with pytest.raises(ValueError, match="to the number of samples, 1, but got 6"):
        GroupSVC(0.5, windows=6, window_share=0.5).fit(X.reshape(120, -1), y)


def test_files_of_windows_are_written_and_old_ones_removed(tmp_path):
    written = write_selection(typed(with_windows(selection(8))), tmp_path)
    assert {"windows.tsv", "windows.png", "windows.svg"} <= {path.name for path in written}
    head, first, second, *rest = (tmp_path / "windows.tsv").read_text(encoding="utf-8").splitlines()
    assert head.split("\t") == ["start", "stop", "norm", "frequency", "selected", "sensors"]
    assert first.split("\t")[2:] == ["0.0", "0.2", "false", ""]
    assert second.split("\t")[3:5] == ["1.0", "true"]
    assert len(second.split("\t")[5].split(", ")) == 4
    assert len(rest) == 4
    write_views(typed(with_windows(selection(8))), tmp_path, figures=False)
    assert sorted(path.name for path in tmp_path.glob("windows*")) == ["windows.tsv"]
    write_views(typed(selection(8)), tmp_path, figures=False)
    assert not list(tmp_path.glob("windows*"))
