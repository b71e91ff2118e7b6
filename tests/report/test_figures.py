import sys
from dataclasses import replace

import numpy as np
import pytest

from mixnorm.eeg import electrode_positions
from mixnorm.eeg.simulate import ELECTRODES
from mixnorm.report import write_report
from mixnorm.report.figures import auc_against_sensors, auc_against_trials, scatter, sensors
from mixnorm.report.heads import marker_size, places
from mixnorm.study import METHODS, DatasetPlan, Plan, Results

NAMES = ["Fz", "Cz", "Pz", "Oz", "odd"]


@pytest.fixture
def results():
    """Two subjects, two sizes, three splits, with paths and characters."""
    rng = np.random.default_rng(0)
    methods = ("svm", "gsvm-2", "gsvm-a", "mgsvm-2s")
    records = [
        {
            "dataset": "mine",
            "method": method,
            "subject": who,
            "split": split,
            "n_train_asked": n_train,
            "n_train": n_train,
            "auc": 70 + 5 * rng.random() + n_train / 100,
            "sel": 60.0,
            "f_measure": None,
            "selected": NAMES if method == "svm" else ["Cz", "Pz"] if split else ["Cz"],
            "characters": [50.0, 75.0],
            "path": None if method.startswith("m") else [{"n_selected": k, "auc": 60.0 + k} for k in (5, 2, 0)],
        }
        for method in methods
        for who in ("A", "B")
        for split in range(3)
        for n_train in (50, 500)
    ]
    plan = Plan(
        name="mine", datasets=(DatasetPlan("mine", "x.npz"),), methods=methods, n_train=(50, 500), scatter_at=50
    )
    places = [None if np.isnan(p).any() else p.tolist() for p in electrode_positions(NAMES)]
    about = {"mine": {"ch_names": NAMES, "positions": places, "subjects": ["A", "B"]}}
    return Results(plan, about, records, [], [], 48)


def texts(figure):
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def test_every_figure_is_written_as_png_and_as_svg(results, tmp_path):
    first = write_report(results, tmp_path / "one")
    names = {
        "sensors-gsvm-2",
        "sensors-gsvm-a",
        "sensors-mgsvm-2s",
        "auc-sensors",
        "auc-trials",
        "scatter",
        "characters",
    }
    assert sorted(path.name for path in first.figures) == sorted(
        f"{name}{suffix}" for name in names for suffix in (".png", ".svg")
    )
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == sorted(
        path.name for path in (*first.figures, *first.tables)
    )
    assert {path.name for path in first.tables} >= {"table.txt", "table.csv", "table.md", "table.tex", "characters.md"}


def results_of(methods, with_results, n_train=(50, 500)):
    """Results of a study in which only some methods have any."""
    records = [
        {
            "dataset": "mine",
            "method": method,
            "subject": who,
            "split": 0,
            "n_train_asked": n,
            "n_train": n,
            "auc": 70.0 + len(method) + (n or 0) / 100,
            "sel": 60.0,
            "f_measure": 50.0,
            "selected": ["Cz"],
            "characters": [50.0],
            "windows_kept": 62.5 if method == "gsvm-2-when" else None,
            "path": [{"n_selected": k, "auc": 60.0 + k} for k in (5, 2)],
        }
        for method in with_results
        for who in ("A", "B")
        for n in n_train or (None,)
    ]
    plan = Plan(name="mine", datasets=(DatasetPlan("mine", "x.npz"),), methods=tuple(methods), n_train=n_train)
    about = {"mine": {"ch_names": NAMES, "positions": [None] * len(NAMES), "subjects": ["A", "B"]}}
    return Results(plan, about, records, [], [], len(records))


def test_every_method_goes_through_every_table_and_figure(tmp_path):
    written = write_report(results_of(METHODS, METHODS), tmp_path)
    assert {path.stem for path in written.figures} > {"auc-sensors", "auc-trials", "scatter", "characters"}
    for path in written.tables:
        names = METHODS if path.suffix == ".csv" else [method.title for method in METHODS.values()]
        assert all(name in path.read_text(encoding="utf-8") for name in names), path
    assert "sensors-gsvm-2-when" in {path.stem for path in written.figures}


def test_the_windows_that_are_kept_have_a_column_where_a_method_chooses_them(tmp_path):
    for methods, there in ((("svm", "gsvm-2-when"), True), (("svm", "gsvm-2"), False)):
        write_report(results_of(methods, methods), tmp_path, figures=False)
        text = (tmp_path / "table.txt").read_text(encoding="utf-8")
        assert ("Windows %" in text) == ("62.5" in text) == there


def test_every_method_has_a_look_of_its_own():
    curves = auc_against_trials(results_of(METHODS, METHODS), "mine").axes[0]
    lines = {container.get_label(): container.lines[0] for container in curves.containers}
    looks = {label: (line.get_color(), line.get_marker()) for label, line in lines.items()}
    assert set(looks) == {method.title for method in METHODS.values()}
    assert len(set(looks.values())) == len(METHODS)


@pytest.mark.parametrize("with_results", [(), ("svm",), ("gsvm-2",), ("mgsvm-2s",)], ids=str)
@pytest.mark.parametrize("n_train", [(50, 500), ()], ids=["sizes", "one size"])
def test_methods_without_results_leave_the_rest_of_the_report(with_results, n_train, tmp_path):
    methods = ("svm", "gsvm-2", "mgsvm-2s")
    written = write_report(results_of(methods, with_results, n_train), tmp_path)
    drawn = {path.stem for path in written.figures}
    assert "scatter" not in drawn
    assert ("characters" in drawn) == bool(with_results)
    assert ("auc-trials" in drawn) == (bool(with_results) and len(n_train) > 1)
    assert "MGSVM-2s" in (tmp_path / "table.txt").read_text(encoding="utf-8")


def test_the_same_results_give_the_same_files(results, tmp_path):
    few = replace(results, plan=results.plan.with_(methods=("svm", "gsvm-2"), n_train=(50,)))
    one, two = (write_report(few, tmp_path / name).figures for name in ("one", "two"))
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]


def test_rings_are_as_wide_as_sensors_were_chosen_often(results):
    axes = sensors(results, "mine", "gsvm-a", 50).axes[0]
    circles = {tuple(np.round(line.get_xydata()[0], 3)): line for line in axes.lines if line.get_marker() == "o"}
    assert len(circles) == len(NAMES)
    cz, pz, fz = (
        circles[tuple(np.round(place, 3))] for place in places([[0, 0, 1], [0, -0.588, 0.809], [0, 0.588, 0.809]])
    )
    assert cz.get_markerfacecolor() != "white"
    assert pz.get_markerfacecolor() == "white"
    assert pz.get_markeredgewidth() == pytest.approx(2 / 3 * cz.get_markeredgewidth())
    assert fz.get_markersize() < pz.get_markersize()
    shown = [text.get_text() for text in axes.texts]
    assert sorted(shown) == ["Cz", "Position unknown:", "Pz"]


def test_the_best_model_is_marked_where_it_lies(results):
    figure = auc_against_sensors(results, "mine", 50)
    axes = figure.axes[0]
    marks = {line.get_label(): line.get_xydata()[0] for line in axes.lines if line.get_markersize() == 8}
    assert set(marks) == {"SVM", "GSVM-2", "GSVM-a"}
    assert marks["GSVM-2"][0] == pytest.approx(5 / 3)
    path = next(line for line in axes.lines if line.get_markersize() == 3)
    # the model without sensors is not drawn
    assert path.get_xdata().tolist() == [2, 5]
    assert "Sensors used" in texts(figure)
    assert "AUC on test trials (%)" in texts(figure)


def test_curves_over_trials_and_scatter_are_at_the_asked_size(results):
    figure = auc_against_trials(results, "mine")
    curves = [container.lines[0].get_xdata() for container in figure.axes[0].containers]
    assert len(curves) == 4
    assert np.allclose(curves, [[50, 500]] * 4, rtol=0.05)
    assert len({tuple(curve) for curve in curves}) == 4  # bars stand beside each other
    assert "Training trials per subject" in texts(figure)
    figure = scatter(results, "mine", 50)
    assert len(figure.axes) == 3
    assert all(len(axes.collections[0].get_offsets()) == 2 for axes in figure.axes)
    assert any("50 training trials: one point per subject" in text for text in texts(figure))


def test_bars_are_intervals_of_the_mean_over_subjects(results):
    figure = auc_against_trials(results, "mine")
    assert any("95 % intervals of the mean over subjects" in text for text in texts(figure))
    container = figure.axes[0].containers[0]  # svm
    (bars,) = container.lines[2]
    for n_train, (low, high) in zip((50, 500), bars.get_segments(), strict=True):
        own = [r for r in results.records if r["method"] == "svm" and r["n_train"] == n_train]
        a, b = (np.mean([r["auc"] for r in own if r["subject"] == who]) for who in "AB")
        half = (
            12.706205 * abs(a - b) / 2
        )  # t of one degree of freedom; the standard error of two values is |a − b| / 2
        assert (low[1], high[1]) == pytest.approx(((a + b) / 2 - half, (a + b) / 2 + half), abs=1e-5)


def test_one_subject_has_no_bars(results):
    alone = replace(results, records=[r for r in results.records if r["subject"] == "A"])
    (bars,) = auc_against_trials(alone, "mine").axes[0].containers[0].lines[2]
    assert all(low[1] == high[1] for low, high in bars.get_segments())


def test_sensors_do_not_touch_each_other():
    spots = places([p.tolist() for p in electrode_positions(ELECTRODES)])
    size = marker_size(spots, 80.0)
    distances = np.linalg.norm(spots[:, None] - spots[None], axis=2) + 10 * np.eye(len(spots))
    assert size <= distances.min() * 80.0
    assert marker_size(spots[:1], 80.0) == 16.0


def test_sensors_without_a_place_stand_in_a_row_below():
    spots = places([[0, 0, 0.095], None, None])
    assert spots[0].tolist() == [0.0, 0.0]
    assert (spots[1:, 1] < -1).all()
    assert spots[1, 0] != spots[2, 0]


def test_without_matplotlib_the_extra_is_named_and_tables_still_come(results, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r'pip install "mixnorm\[report\]"'):
        write_report(results, tmp_path)
    assert (tmp_path / "table.txt").is_file()
    assert write_report(results, tmp_path, figures=False).figures == ()
