"""The multi-subject experiment, by the built-in plan cut down to one draw at 100 trials per subject."""

import pytest

from mixnorm.study import load_plan, read_results, run_study


@pytest.mark.slow
def test_learning_together_with_similarity_is_ahead_of_each_alone_and_of_all_pooled(tmp_path):
    plan = load_plan("cohort").with_(splits=1, n_train=(100,), methods=("svm", "svm-full", "mgsvm-2s"))
    run_study(plan, tmp_path)
    results = read_results(tmp_path)
    # a cohort is one unit, with a record for each of its eight subjects
    assert results.n_units == 2 * (8 + 1 + 1)
    for dataset in ("similar", "dissimilar"):
        rows = {row.method: row for row in results.rows() if row.dataset == dataset}
        assert rows["mgsvm-2s"].auc > rows["svm"].auc + 0.5, dataset
        assert rows["mgsvm-2s"].auc > rows["svm-full"].auc, dataset
        records = results.of(dataset, "mgsvm-2s", 100)
        assert len(records) == rows["mgsvm-2s"].n_subjects == 8
        assert len({record["similarity"] for record in records}) == 1
