"""The paper's Table 1, by the built-in plan: bands and orderings, not digits."""

import pytest

from mixnorm.study import load_plan, read_results, run_study

AUC = {
    "svm": (79.0, 80.5),
    "svm-1": (78.6, 79.9),
    "gsvm-2": (80.2, 81.3),
    "gsvm-q": (80.0, 81.2),
    "gsvm-a": (79.6, 81.0),
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("simulated")
    run_study(load_plan("simulated"), folder)
    return {row.method: row for row in read_results(folder).rows()}


@pytest.mark.slow
def test_table_1_comes_out(rows):
    for method, (low, high) in AUC.items():
        assert low <= rows[method].auc <= high, method
        assert (rows[method].n_train, rows[method].n_subjects, rows[method].n_splits) == (1000, 1, 10)
    assert rows["svm"].sel == 100
    assert rows["svm"].f_measure == pytest.approx(200 / 3)
    assert 50 <= rows["gsvm-2"].sel <= 78
    assert rows["gsvm-a"].sel == min(row.sel for row in rows.values()) <= 56
    assert rows["gsvm-a"].f_measure == max(row.f_measure for row in rows.values()) >= 90
    assert rows["gsvm-2"].p_value < 0.05
