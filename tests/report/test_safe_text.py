"""Names are shown and never interpreted: in a terminal, LaTeX, Markdown, spreadsheets and figures."""

import csv
import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mixnorm.report.safe_text import (
    for_figure,
    for_json,
    for_latex,
    for_markdown,
    for_spreadsheet,
    for_terminal,
    from_spreadsheet,
)
from mixnorm.report.tables import Sheet, as_latex, as_markdown, as_text, table
from mixnorm.study import DatasetPlan, Plan, Results

HOSTILE = [
    r"\input{/etc/passwd}",
    r"\immediate\write18{touch x}",
    "^^5cinput x",
    "=cmd|' /C calc'!A0",
    "＝1+1",
    "a | b | c",
    "[x](javascript:alert(1))",
    "<script>alert(1)</script>",
    "\x1b[31mred\x1b[0m",
    "\x9b2J",
    "two\nlines\r\n% three",
    "[5cm] *",
    "$x^{$",
]


def read_latex(text):
    """What LaTeX typesets of a line that has only the commands that `for_latex` writes; an error for any other."""
    words = {"textbackslash": "\\", "textasciitilde": "~", "textasciicircum": "^", r"$\pm$": "±"}
    pattern = r"\\(textbackslash|textasciitilde|textasciicircum)\{\}|(\$\\pm\$)|\\([%_&#${}])|\$([<>])\$|\{([\[*])\}|([^\\%_&#${}~^\[*])"
    shown, place = [], 0
    while place < len(text):
        found = re.compile(pattern, re.DOTALL).match(text, place)
        assert found, f"LaTeX would interpret {text[place:]!r}"
        part = next(one for one in found.groups() if one)
        shown.append(words.get(part, part))
        place = found.end()
    return "".join(shown)


@given(st.text(st.characters(exclude_characters="–"), max_size=30))
def test_latex_typesets_every_text_as_it_is(text):
    assert read_latex(for_latex(text)) == for_terminal(text)


@given(st.text(max_size=30))
def test_markdown_keeps_every_text_in_its_cell(text):
    found = for_markdown(text)
    assert "\n" not in found
    assert not re.search(r"(?<!\\)(?:\\\\)*[|`*_\[\]]", found)
    assert not re.search(r"(?<!\\)(?:\\\\)*<[A-Za-z/!?]", found)
    assert re.sub(r"\\([\\`*_\[\]|~&<])", r"\1", found) == for_terminal(text)


@given(st.text(max_size=20))
def test_spreadsheets_get_no_formula_and_the_name_can_be_read_back(text):
    assert not re.match("[=+\\-@＝＋－＠\t\r\n]", for_spreadsheet(text))
    assert from_spreadsheet(for_spreadsheet(text)) == text


@given(st.text(max_size=20))
def test_json_means_the_same_and_cannot_control_a_terminal(text):
    document = json.dumps({"name": text}, ensure_ascii=False, indent=1)
    assert json.loads(for_json(document)) == {"name": text}
    assert for_terminal(for_json(document), keep="\n") == for_json(document)


def hostile_results(name):
    """A study of two data sets of which one has a name that a plan allows, and failures that quote a subject."""
    datasets = (DatasetPlan(name, "simulated"), DatasetPlan("b", "simulated"))
    plan = Plan(name="mine", datasets=datasets, methods=("svm",))
    values = {"n_train_asked": None, "n_train": 100, "auc": 80.0, "sel": 100.0, "f_measure": None}
    records = [
        {"dataset": d, "method": "svm", "subject": "S", "split": 0, "path": None, "characters": None, **values}
        for d in (name, "b")
    ]
    return Results(plan, {}, records, [("b, subject \x1b[31m\n\\input{x}", "because | of <b>")], [], 3)


# names of data sets cannot hold a separator or a control character; see test_plan.py
NAMES = ["=1+2", "-1", "@x", "{$^~_#&%", "[5cm]", "`x`", "a\x9b2Jb", "\u202egpj.exe"]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_tables_show_names_as_they_are(name):
    results = hostile_results(name)
    text = table(results)
    assert for_terminal(text, keep="\n") == text
    assert text.count("\n") == 5
    rows = list(csv.DictReader(io.StringIO(table(results, "csv"))))
    assert from_spreadsheet(rows[0]["dataset"]) == for_terminal(name)
    assert not re.match(r"[=+\-@]", rows[0]["dataset"])
    cells = table(results, "latex").splitlines()[4].removesuffix(r" \\").split(" & ")
    assert read_latex(cells[0]) == for_terminal(name)
    markdown = table(results, "markdown").splitlines()
    assert len(re.findall(r"(?<!\\)\|", markdown[2])) == len(re.findall(r"(?<!\\)\|", markdown[0]))
    assert "because \\| of \\<b>" in table(results, "markdown")


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_cells_and_notes_of_any_table_are_safe(name):
    sheet = Sheet(("Method", "AUC %"), ((name, "80.00"),), (f"note on {name}",))
    latex = as_latex(sheet).splitlines()
    assert len(latex) == 8
    assert latex[-1].startswith("% note on ")
    assert read_latex(latex[4].removesuffix(r" & 80.00 \\")) == for_terminal(name)
    assert len(as_markdown(sheet).split("\n\n")) == 2
    assert len(as_text(sheet).splitlines()) == 4
    assert "\x1b" not in as_text(sheet) + as_markdown(sheet) + as_latex(sheet)


@pytest.mark.filterwarnings("ignore:Glyph .* missing from font")
@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_figures_draw_names_and_no_mathematics(name, tmp_path):
    figures = pytest.importorskip("matplotlib.figure")
    from matplotlib import rc_context

    from mixnorm.report.figures import save_figure

    with rc_context({"text.usetex": True}):  # the user's own setting
        figure = figures.Figure(figsize=(2, 1))
        text = figure.text(0.1, 0.5, for_figure(name))
    assert text.get_usetex()
    save_figure(figure, tmp_path / "figure")
    assert text._preprocess_math(for_figure(name)) == (for_terminal(name), False)


def test_commands_print_names_as_they_are(tmp_path, capsys):
    pytest.importorskip("click")
    from mixnorm.commands import common, predict, study

    with pytest.raises(SystemExit, match="3"):
        study._end(hostile_results("a\x9b2Jb"))
    common.print_json({"name": "a\x9b2Jb"})
    row = {"recording": "=1\x1b[31m", "onset": 1.0, "stimulus": None, "character": None, "target": 1, "score": 0.5}
    predict._write_csv([row], None)
    shown = capsys.readouterr()
    printed = shown.out.replace("\r", "") + shown.err
    assert for_terminal(printed, keep="\n") == printed
    assert "'=1\\x1b[31m,1.0,,,1,0.5" in shown.out
