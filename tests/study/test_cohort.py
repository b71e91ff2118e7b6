"""The multi-subject experiment, by the built-in plan cut down to one draw at 100 trials per subject."""

import pytest

from mixnorm.study import load_plan, read_results, run_study


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cohort")
    run_study(load_plan("cohort").with_(splits=1, n_train=(100,), methods=("svm", "svm-full", "mgsvm-2s")), folder)
    return read_results(folder)


@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["similar", "dissimilar"])
def test_learning_together_with_similarity_is_ahead_of_each_alone_and_of_all_pooled(results, dataset):
    rows = {row.method: row for row in results.rows() if row.dataset == dataset}
    assert rows["mgsvm-2s"].auc > rows["svm"].auc + 0.5
    assert rows["mgsvm-2s"].auc > rows["svm-full"].auc
    assert rows["mgsvm-2s"].n_subjects == 8


@pytest.mark.slow
def test_a_cohort_is_one_unit_with_a_record_for_each_subject(results):
    assert results.n_units == 2 * (8 + 1 + 1)
    assert len(results.of("similar", "mgsvm-2s", 100)) == 8
    similarities = {record["similarity"] for record in results.of("similar", "mgsvm-2s", 100)}
    assert len(similarities) == 1
    assert similarities.pop() > 0
