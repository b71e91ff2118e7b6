"""The protocol on the real recordings, cut down to seconds; the full tables are in benchmarks/."""

import pytest

from mixnorm.study import DatasetPlan, Plan, read_results, run_study

QUICK = {"methods": ("svm", "gsvm-2"), "splits": 2, "alphas": (0.01, 0.1)}


@pytest.mark.slow
def test_a_real_speller_by_whole_characters(data, tmp_path):
    sets = (DatasetPlan("uam-p300", str(data / "uam-p300.npz"), subjects=("ACS", "APM")),)
    run_study(Plan(name="speller", datasets=sets, split_by="character", n_train=(600,), **QUICK), tmp_path)
    found = read_results(tmp_path)
    # one row for a method, one record for a subject, a split and a method
    assert len(found.records) == 4 * len(found.rows()) > 0
    for row in found.rows():
        assert 75 < row.auc < 100
        assert (row.n_subjects, row.n_splits, row.n_train) == (2, 2, 600)
    for record in found.records:
        shares = record["characters"]
        # a row and a column of six each: chance is 1 in 36
        assert len(shares) >= 10
        assert max(shares[-3:]) > shares[0]
        assert max(shares) > 50


@pytest.mark.slow
def test_real_error_potentials_by_the_papers_random_splits(data, tmp_path):
    preparation = {"band": None, "window": [0.0, 0.6], "n_samples": 6, "reduce": "mean"}
    sets = (DatasetPlan("errp", str(data / "ner2015-errp.npz"), preparation, subjects=("S06", "S12")),)
    run_study(Plan(name="errp", datasets=sets, n_train=(57,), **QUICK), tmp_path)
    svm, gsvm = read_results(tmp_path).rows()
    assert svm.sel == 100
    assert gsvm.sel < 100
    assert svm.auc > 55
