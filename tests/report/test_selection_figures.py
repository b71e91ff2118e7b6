"""The figures and tables of a selection: what they say, and what they must not say where the result is unsure."""

import csv
import json
import re
from itertools import combinations

import numpy as np
import pytest
from matplotlib.text import Text

from browsing import hide
from mixnorm.report.plots.selection_plots import CURVE_SIZE, montage_size, plot_auc_curve, plot_montage
from mixnorm.report.safe_text import from_spreadsheet
from mixnorm.report.selection_files import write_selection
from mixnorm.report.styles import figure_for_file
from selections import selection, typed
from unsure import CAUTION, HEADLINE, unsure


def draw_recommended(found):
    """The figure montage.png."""
    return plot_montage(found, figure_for_file(montage_size(found))).figure


def draw_curves(found):
    """The figure auc-sensors.png."""
    return plot_auc_curve(found, figure_for_file(CURVE_SIZE)).figure


DRAWINGS = pytest.mark.parametrize("draw", [draw_recommended, draw_curves])


def words(figure):
    """All that is written on a figure, with lines joined."""
    return " ".join(" ".join(text.get_text().split()) for text in figure.findobj(Text))


@DRAWINGS
def test_where_nothing_is_sure_a_figure_says_so_and_recommends_nothing(draw):
    found = words(draw(typed(unsure(selection(8)))))
    assert HEADLINE in found
    assert CAUTION in found
    assert "smallest near the best" in found.lower()
    assert "recommended" not in found.replace(HEADLINE, "").replace(CAUTION, "").lower()


@DRAWINGS
def test_a_caution_is_written_also_beside_a_recommendation(draw):
    wanted = selection(8)
    assert "folds" not in words(draw(typed(wanted)))
    wanted["recommended"]["few_folds"] = {"count": 2, "low": 0.1, "high": 0.9}
    found = words(draw(typed(wanted)))
    assert "Only 2 folds: the decoder is better than chance" in found
    assert HEADLINE not in found


@DRAWINGS
def test_what_is_written_stays_within_the_figure(draw):
    figure = draw(typed(unsure(selection(8))))
    figure.draw_without_rendering()
    width = figure.get_window_extent().width
    for text in figure.findobj(Text):
        if "chance level" in text.get_text():
            box = text.get_window_extent()
            assert 0 <= box.x0 < box.x1 <= width


def test_the_axis_holds_the_whole_interval_and_says_what_chance_is():
    axes = draw_curves(typed(unsure(selection(8)))).axes[0]
    low, high = axes.get_ylim()
    assert 0 <= low <= 0.41
    assert 0.94 <= high <= 1
    assert "chance" in [text.get_text() for text in axes.texts]
    sure = draw_curves(typed(selection(8))).axes[0]
    assert sure.get_ylim()[0] > 0.5
    assert [text.get_text() for text in sure.texts] == []


def test_an_interval_that_does_not_exist_is_not_drawn():
    wanted = selection(8)
    wanted["curves"][0] |= {"low": None, "high": None}
    assert len(draw_curves(typed(wanted)).axes[0].collections) == 0


@DRAWINGS
@pytest.mark.parametrize("verdict", ["recommended", "asked"])
def test_a_number_that_was_asked_for_is_not_called_recommended(draw, verdict):
    wanted = selection(8)
    if verdict == "asked":
        wanted["recommended"] |= {"verdict": "asked", "n_asked": wanted["recommended"]["n_sensors"]}
    found = words(draw(typed(wanted)))
    assert "recommended" not in found if verdict == "asked" or draw is draw_recommended else "recommended" in found
    assert ("asked for" in found) == (verdict == "asked")


def scattered(count):
    """Electrodes all over the head, closer together than names are long; all of them are chosen."""
    found = selection(names=[f"E{number + 1}" for number in range(count)])
    turn, radius = 2.4 * np.arange(count), np.sqrt((np.arange(count) + 0.5) / count)
    for sensor, x, y in zip(found["sensors"], radius * np.cos(turn), radius * np.sin(turn), strict=True):
        sensor |= {"x": float(x), "y": float(y)}
    found["recommended"] |= {"n_sensors": count, "best_n_sensors": count}
    return found


@pytest.mark.parametrize(
    "make",
    [lambda: scattered(128), lambda: scattered(64), lambda: hide(scattered(40), 25), lambda: unsure(scattered(64))],
)
def test_no_two_names_on_the_head_overlap_and_none_is_lost_silently(make):
    wanted = make()
    figure = draw_recommended(typed(wanted))
    figure.draw_without_rendering()
    boxes = {text.get_text(): text.get_window_extent() for text in figure.axes[0].texts}
    # letters have no room above and below within their box
    apart = [(a, b) for a, b in combinations(boxes, 2) if boxes[a].padded(-1).overlaps(boxes[b].padded(-1))]
    assert apart == []
    missing = {sensor["name"] for sensor in wanted["sensors"]} - set(boxes)
    left_out = re.search(r"(\d+) names? left out for lack of room", words(figure))
    assert len(missing) == (int(left_out[1]) if left_out else 0)
    assert len(missing) < len(wanted["sensors"]) / 2


def test_the_head_says_which_positions_are_unknown():
    assert "Position unknown" not in words(draw_recommended(typed(selection(8))))
    some = draw_recommended(typed(hide(selection(64), 25)))
    assert "Position unknown:" in words(some)
    lowest = min(line.get_ydata().min() for line in some.axes[0].lines)
    assert some.axes[0].get_ylim()[0] < lowest
    none = draw_recommended(typed(hide(selection(8), 8)))
    assert "Position unknown:" in words(none)
    # without any position there is no head: every line is an electrode
    assert {len(line.get_xdata()) for line in none.axes[0].lines} == {1}
    assert len(none.axes[0].lines) == 8


def rows(folder):
    with (folder / "montage.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter="\t"))


def test_the_table_keeps_its_format_where_the_result_is_unsure(tmp_path):
    """A comment line would be a row to most readers."""
    wanted = unsure(selection(8))
    write_selection(typed(wanted), tmp_path, figures=False)
    found = rows(tmp_path)
    assert found[0] == ["name", "x", "y", "cost", "stability"]
    assert len(found) == 1 + wanted["recommended"]["n_sensors"]


#: Mathematics to matplotlib, formulas to a spreadsheet, control sequences to a terminal, separators to a table.
HOSTILE = ("$x^{$", r"\$\frac$", "=cmd|' /C calc'!A0", "'=1", "@SUM(A1)", "-1+1", "Cz\x1b[31m", 'a\tb"c\nd', "'Cz")


def hostile():
    wanted = selection(names=HOSTILE)
    n = len(HOSTILE)
    wanted["recommended"] |= {"n_sensors": n, "best_n_sensors": n}
    wanted["curves"][1]["method"] = HOSTILE[0]
    return typed(wanted)


def test_names_are_drawn_as_they_are(tmp_path):
    figure = draw_recommended(hostile())
    figure.savefig(tmp_path / "montage.svg")
    names = [text.get_text() for text in figure.findobj(Text)]
    assert r"\$x^{\$" in names
    assert r"Cz\x1b[31m" in names
    curves = draw_curves(hostile())
    curves.savefig(tmp_path / "curves.svg")
    assert r"\$x^{\$" in [text.get_text() for text in curves.findobj(Text)]


def test_no_name_is_a_formula_to_a_spreadsheet_and_all_names_read_back(tmp_path):
    wanted = hostile()
    write_selection(wanted, tmp_path, figures=False)
    names = [row[0] for row in rows(tmp_path)[1:]]
    assert not [name for name in names if name[0] in "=+-@\t\r"]
    assert [from_spreadsheet(name) for name in names] == list(wanted.montage)
    assert json.loads((tmp_path / "montage.json").read_text(encoding="utf-8"))["sensors"] == list(wanted.montage)
    assert {len(row) for row in rows(tmp_path)} == {5}
