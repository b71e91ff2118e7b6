from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.metrics import roc_auc_score

from mixnorm import GroupSVCCV
from mixnorm.eeg import InOrder, honest_folds, prepare, simulated_recording
from mixnorm.eeg.splitting import auc_by_fold, fitted, held_out_scores


@pytest.fixture(scope="module")
def design():
    return prepare(simulated_recording(720, n_channels=6, n_informative=4, amplitude=8.0, seed=2))


def test_several_sessions_are_left_out_one_by_one(design):
    sessions = replace(design, session=np.repeat(["b", "a", "c"], 240))
    folds = honest_folds(sessions)
    assert folds.by == "session"
    assert_array_equal(folds.number, np.repeat([0, 1, 2], 240))


def test_of_two_sessions_the_runs_are_left_out_one_by_one(design):
    """Two folds would leave one degree of freedom to the interval of their mean."""
    two = replace(design, session=np.repeat(["b", "a"], 360))
    assert honest_folds(two).by == "session"
    runs = replace(two, run=np.repeat([0, 1, 2], [360, 180, 180]))
    assert honest_folds(runs).by == "run"
    assert_array_equal(honest_folds(runs).number, runs.run)
    people = replace(runs, subject=np.repeat(["A", "B"], 360), session=np.full(720, "a"))
    assert_array_equal(honest_folds(people).number, np.repeat([0, 1], 360))  # nobody is on both sides


def test_many_sessions_share_ten_folds(design):
    sessions = np.repeat([f"s{number:02d}" for number in range(24)], 30)
    folds = honest_folds(replace(design, session=sessions))
    assert len(folds) == 10
    for session in np.unique(sessions):
        assert len(set(folds.number[sessions == session])) == 1


def test_equal_session_names_of_two_subjects_are_two_sessions(design):
    assert len(honest_folds(replace(design, subject=np.repeat(["A", "B"], 360)))) == 2


def test_one_session_is_split_by_characters(design):
    folds = honest_folds(design, n_folds=3)
    assert folds.by == "character"
    assert_array_equal(folds.number, np.repeat([0, 1, 2], 240))
    for character in np.unique(design.character):
        assert len(set(folds.number[design.character == character])) == 1


@pytest.mark.parametrize("character", [-1, 7])
def test_without_several_characters_the_folds_are_contiguous_blocks(design, character):
    folds = honest_folds(replace(design, character=np.full(720, character)))
    assert folds.by == "block"
    assert_array_equal(folds.number, np.repeat(np.arange(5), 144))


def test_auc_of_each_fold_is_that_of_a_fit_on_the_others(design, lda):
    folds = honest_folds(design, n_folds=3)
    seen = []
    aucs = auc_by_fold(design, held_out_scores(design, lambda: lda, folds, seen.append).score, folds)
    train, test = folds.number != 2, folds.number == 2
    scaler = design.preparation.scaler().fit(design.X[train])
    model = lda.fit(scaler.transform(design.X[train]), design.y[train])
    assert aucs[2] == roc_auc_score(design.y[test], model.decision_function(scaler.transform(design.X[test])))
    assert seen == [0, 1, 2]
    assert min(aucs) > 0.7


def test_fold_without_a_class_has_no_auc(design, lda):
    folds = honest_folds(replace(design, character=np.full(720, -1)))
    y = design.y.copy()
    y[folds.number == 1] = 0
    design = replace(design, y=y)
    aucs = auc_by_fold(design, held_out_scores(design, lambda: lda, folds).score, folds)
    assert aucs[1] is None
    assert all(auc is not None for auc in aucs[2:])


def test_inner_folds_keep_groups_whole_and_in_order():
    groups = np.repeat([5, 2, 9, 7, 1], [3, 4, 2, 5, 6])
    tests = [test for _, test in InOrder(3).split(np.zeros((20, 2)), groups=groups)]
    assert_array_equal(np.concatenate(tests), np.arange(20))
    for group in np.unique(groups):
        assert sum(np.any(groups[test] == group) for test in tests) == 1


@pytest.mark.parametrize("groups", [None, np.zeros(9), np.repeat([0, 1], [4, 5])])
def test_too_few_groups_are_replaced_by_blocks(groups):
    splits = list(InOrder(3).split(np.zeros((9, 2)), groups=groups))
    assert [test.tolist() for _, test in splits] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert_array_equal(splits[1][0], [0, 1, 2, 6, 7, 8])


def test_groups_reach_the_splitter_of_the_classifier(design):
    class Spy(InOrder):
        seen = None

        def split(self, X, y=None, groups=None):
            type(self).seen = groups
            return super().split(X, y, groups)

    X, y, groups = design.to_sklearn()
    fitted(GroupSVCCV(alphas=3, cv=Spy()), X, y, groups)
    assert_array_equal(Spy.seen, groups)
    model = fitted(GroupSVCCV(alphas=3, cv=2), X, y, groups)
    assert model.scores_.shape == (3, 2)
