import csv
import io
from dataclasses import replace

import numpy as np
import pytest

from mixnorm.report import table
from mixnorm.report.paper import PAPER
from mixnorm.report.tables import as_text, characters_sheet
from mixnorm.study import DatasetPlan, Plan, Results
from mixnorm.study.letters import letters_right


def record(dataset="simulated", method="svm", subject="S1", split=0, **values):
    base = {"n_train_asked": None, "n_train": 100, "auc": 80.0, "sel": 100.0, "f_measure": None, "characters": None}
    return {"dataset": dataset, "method": method, "subject": subject, "split": split, "path": None, **base, **values}


def results(records, name="simulated", methods=("svm", "gsvm-2"), datasets=None, **changes):
    datasets = datasets or (DatasetPlan(name, "simulated"),)
    plan = Plan(name=name, datasets=datasets, methods=methods, **changes)
    return Results(plan, {}, records, [], [], len(records))


@pytest.fixture
def simulated():
    draws = range(6)
    return results(
        [record(split=k, auc=79.0 + k / 10, f_measure=200 / 3 + 1e-14 * k) for k in draws]
        + [record(method="gsvm-2", split=k, auc=80.5 + k / 10, sel=62.5, f_measure=90.0) for k in draws]
    )


def test_text_has_the_papers_rows_beside_ours(simulated):
    lines = table(simulated).splitlines()
    assert lines[0].split() == ["Method", "AUC", "%", "Sel", "%", "F", "%", "p", "paper:", "AUC", "Sel", "F", "p"]
    # six draws a tenth apart: √(0.035 / 6) = 0.076; what is the same in all of them has no spread
    svm = ["SVM", "79.25", "±", "0.08", "100.00", "66.67", "–", "79.79", "100.00", "66.67", "–"]
    gsvm = ["GSVM-2", "80.75", "±", "0.08", "62.50", "90.00", "0.031", "80.96", "62.50", "89.72", "0.004"]
    assert lines[2].split() == svm
    assert lines[3].split() == gsvm
    assert lines[4].startswith("simulated: means over 1 subject, 6 splits (random), 100 training trials")
    assert "; ±: standard error over draws of data; p: " in lines[4]


def test_columns_are_aligned(simulated):
    head, rule, *rows = table(simulated).splitlines()[:4]
    assert {len(line) for line in (rule, *rows)} == {len(head)}


def test_csv_holds_the_rows_unrounded_and_nothing_for_what_is_not_there(simulated):
    svm, gsvm = csv.DictReader(io.StringIO(table(simulated, "csv")))
    assert (svm["p_value"], svm["method"]) == ("", "svm")
    assert float(gsvm["p_value"]) == 2 / 2**6
    assert float(svm["auc"]) == pytest.approx(79.25)


def test_markdown_and_latex_hold_the_same_numbers(simulated):
    markdown = table(simulated, "markdown").splitlines()
    assert markdown[2] == "| SVM | 79.25 ± 0.08 | 100.00 | 66.67 | – | 79.79 | 100.00 | 66.67 | – |"
    latex = table(simulated, "latex")
    assert r"Method & AUC \% & Sel \% & F \% & p &" in latex
    assert r"SVM & 79.25 $\pm$ 0.08 & 100.00 & 66.67 & -- & 79.79" in latex
    assert latex.count(r"\\") == 3


def test_other_plans_have_no_column_of_the_paper_and_no_empty_column():
    found = results([record("mine", subject=who) for who in "AB"], "mine", methods=("svm",))
    assert table(found).splitlines()[0].split() == ["Method", "AUC", "%", "Sel", "%", "p"]


def test_means_are_over_splits_then_subjects():
    records = [record("mine", subject="A", split=k, auc=60.0) for k in range(3)] + [
        record("mine", subject="B", auc=90.0)
    ]
    (row,) = results(records, "mine", methods=("svm",)).rows()
    assert row.auc == pytest.approx(75.0)
    assert (row.n_subjects, row.n_splits) == (2, 3)


def test_spread_is_the_standard_error_over_subjects_and_splits_do_not_count():
    recordings = (DatasetPlan("mine", "mine.npz"),)
    shares = {"A": 60.0, "B": 70.0, "C": 80.0}
    records = [
        record("mine", subject=who, split=k, auc=auc + (k - 1), sel=auc)
        for who, auc in shares.items()
        for k in range(3)
    ]
    found = results(records, "mine", methods=("svm",), datasets=recordings)
    (row,) = found.rows()
    assert (row.auc_se, row.sel_se, row.f_measure_se) == (pytest.approx(10 / np.sqrt(3)), row.auc_se, None)
    lines = table(found).splitlines()
    assert lines[2].split() == ["SVM", "70.00", "±", "5.77", "70.00", "±", "5.77", "–"]
    assert "; ±: standard error over subjects; p: " in lines[3]
    (read,) = csv.DictReader(io.StringIO(table(found, "csv")))
    assert float(read["auc_se"]) == row.auc_se
    alone = results(records[:3], "mine", methods=("svm",), datasets=recordings)
    assert alone.rows()[0].auc_se is None
    assert "±" not in table(alone)


def test_spread_of_drawn_data_is_over_draws_not_over_their_subjects():
    records = [record("mine", subject=who, split=k, auc=70.0 + 10 * k) for who in "AB" for k in range(2)]
    (row,) = results(records, "mine", methods=("svm",)).rows()
    assert row.auc_se == pytest.approx(5.0)


def test_sizes_and_data_sets_have_columns_where_there_are_several():
    sets = (DatasetPlan("a", "x.npz"), DatasetPlan("b", "y.npz"))
    records = [record(d.name, n_train_asked=n, n_train=n) for d in sets for n in (50, 100)]
    found = results(records, "mine", methods=("svm",), datasets=sets, n_train=(50, 100))
    lines = table(found).splitlines()
    assert lines[0].split()[:4] == ["Data", "set", "Method", "Trials"]
    assert [line.split()[:3] for line in lines[2:6]] == [
        ["a", "SVM", "50"],
        ["a", "SVM", "100"],
        ["b", "SVM", "50"],
        ["b", "SVM", "100"],
    ]


def test_what_is_missing_or_failed_is_said():
    found = Results(
        Plan(name="mine", datasets=(DatasetPlan("mine", "x.npz"),), methods=("svm",)),
        {},
        [],
        [("mine, subject C, split 0, svm", "one class")],
        [f"unit {number}" for number in range(7)],
        8,
    )
    text = table(found)
    assert "NOT COMPLETE: 1 of 8 units done; missing: unit 0; unit 1; unit 2; unit 3; unit 4; and 2 more." in text
    assert "FAILED, and not in the means: 1 of 8 units: mine, subject C, split 0, svm: one class." in text
    assert "–" in text.splitlines()[2]


def test_fits_that_stopped_early_are_counted():
    found = results([record("mine")], "mine")
    assert "NOT CONVERGED" not in table(found)
    found = replace(found, above_tol=[("unit a", 2e-6), ("unit b", 3e-5)])
    note = (
        "NOT CONVERGED: 2 fits stopped at a relative duality gap above 1e-06, the largest at 3.0e-05: unit a; unit b."
    )
    assert note in table(found)


def test_characters_by_repetitions_for_as_many_as_all_have():
    records = [
        record("mine", subject="A", characters=[40.0, 80.0, 100.0]),
        record("mine", subject="B", characters=[20.0, 60.0]),
    ]
    content = characters_sheet(results(records, "mine", methods=("svm",)))
    assert content.heads == ("Method", "1", "2")
    # two subjects: the interval is mean ± 12.7 · 10, and is cut at 0 and 100
    assert content.rows == (("SVM", "30.0 [0, 100]", "70.0 [0, 100]"),)
    assert "Characters spelled right" in as_text(content)
    assert characters_sheet(results([record("mine")], "mine", methods=("svm",))) is None


def test_intervals_of_letters_are_those_of_students_t():
    shares = [[60.0, 90.0], [70.0, 90.0], [80.0, 90.0]]
    records = [record("mine", subject=who, characters=own) for who, own in zip("ABC", shares, strict=True)]
    (found,) = letters_right(results(records, "mine", methods=("svm",)))
    half = 4.302653 * 10 / np.sqrt(3)  # t of two degrees of freedom
    assert found.right == pytest.approx((70.0, 90.0))
    assert (found.low[0], found.high[0]) == pytest.approx((70 - half, 70 + half), abs=1e-4)
    assert (found.low[1], found.high[1]) == (90.0, 90.0)
    (alone,) = letters_right(results(records[:1], "mine", methods=("svm",)))
    assert alone.low is alone.high is None
    assert characters_sheet(results(records[:1], "mine", methods=("svm",))).rows == (("SVM", "60.0", "90.0"),)


def test_data_without_letters_say_why():
    def note(**changes):
        sets = (DatasetPlan("mine", "mine.npz"),)
        return table(results([record("mine", **changes)], "mine", methods=("svm",), datasets=sets))

    assert "mine: no letters, because the data have no stimulus codes and characters" in note(no_letters="codes")
    assert "mine: no letters, because the splits divide characters" in note(no_letters="split")
    assert "no letters" not in note(characters=[50.0], no_letters=None)


def test_the_papers_numbers_are_those_of_the_tables():
    assert PAPER["simulated"]["gsvm-a"].f_measure == 93.98
    assert PAPER["uam"]["gsvm-2"].auc == 84.94
    assert PAPER["errp"]["gsvm-a"].sel == 7.14
    assert PAPER["epfl"]["svm-1"].p_value == 0.15
