"""The figures of a selection: what they say, and what they must not say where nothing is sure."""

import pytest
from matplotlib.text import Text

from mixnorm.montage.caution import NOT_SURE
from mixnorm.report.selection_files import draw_curves, draw_recommended, write_selection
from selections import selection
from unsure import CAUTION, unsure

DRAWINGS = pytest.mark.parametrize("draw", [draw_recommended, draw_curves])


def words(figure):
    """All that is written on a figure, with lines joined."""
    return " ".join(" ".join(text.get_text().split()) for text in figure.findobj(Text))


@DRAWINGS
def test_where_nothing_is_sure_a_figure_says_so_and_recommends_nothing(draw):
    found = words(draw(unsure(selection(8))))
    assert NOT_SURE in found
    assert CAUTION in found
    assert "smallest near the best" in found.lower()
    assert "recommended" not in found.replace(NOT_SURE, "").replace(CAUTION, "").lower()


@DRAWINGS
def test_a_caution_is_written_also_beside_a_recommendation(draw):
    wanted = selection(8)
    assert CAUTION not in words(draw(wanted))
    wanted["recommended"]["caution"] = CAUTION
    found = words(draw(wanted))
    assert CAUTION in found
    assert NOT_SURE not in found


@DRAWINGS
def test_what_is_written_stays_within_the_figure(draw):
    figure = draw(unsure(selection(8)))
    figure.draw_without_rendering()
    width = figure.get_window_extent().width
    for text in figure.findobj(Text):
        if "holds" in text.get_text():
            box = text.get_window_extent()
            assert 0 <= box.x0 < box.x1 <= width


def test_the_axis_holds_the_whole_interval_and_says_what_chance_is():
    axes = draw_curves(unsure(selection(8))).axes[0]
    low, high = axes.get_ylim()
    assert 0 <= low <= 0.41
    assert 0.94 <= high <= 1
    assert "chance" in [text.get_text() for text in axes.texts]
    sure = draw_curves(selection(8)).axes[0]
    assert sure.get_ylim()[0] > 0.5
    assert [text.get_text() for text in sure.texts] == []


def test_an_interval_that_does_not_exist_is_not_drawn():
    wanted = selection(8)
    wanted["curves"][0] |= {"low": None, "high": None}
    assert len(draw_curves(wanted).axes[0].collections) == 0


def test_the_table_keeps_its_format_where_nothing_is_sure(tmp_path):
    """A line of comment would be a row to most readers."""
    wanted = unsure(selection(8))
    write_selection(wanted, tmp_path, figures=False)
    lines = (tmp_path / "montage.tsv").read_text(encoding="utf-8").splitlines()
    assert lines[0].split("\t") == ["name", "x", "y", "cost", "stability"]
    assert len(lines) == 1 + wanted["recommended"]["n_sensors"]
