import numpy as np
import pytest

from mixnorm.study import PlanError
from mixnorm.study.data import open_data
from mixnorm.study.splits import rules, split_trials
from mixnorm.study.units import expand


def splits_of(plan, subject=None):
    data = open_data(plan.datasets[0], plan.seed)
    design = data.of(None if plan.split_by == "subject" else subject).first()
    return design, [(rule, split_trials(design, rule)) for rule in rules(plan, design, subject)]


def test_random_splits_have_the_asked_size_and_share_nothing(around, write_bundle):
    design, splits = splits_of(around(write_bundle(), n_train=(40, 80)), "B")
    assert len(splits) == 4
    for rule, split in splits:
        assert len(split.train) == rule.n_train
        assert len(split.test) == len(design) - 80
        assert not set(split.train) & set(split.test)
    assert not np.array_equal(splits[0][1].train, splits[1][1].train)


def test_a_smaller_training_set_is_part_of_a_larger_one_and_both_are_tested_alike(around, write_bundle):
    _, splits = splits_of(around(write_bundle(), n_train=(40, 80), splits=1), "B")
    (_, small), (_, large) = splits
    assert set(small.train) < set(large.train)
    assert np.array_equal(small.test, large.test)


def test_random_splits_keep_the_share_of_targets(around, write_bundle):
    design, splits = splits_of(around(write_bundle(), n_train=(20,), splits=8), "C")
    assert len(splits) == 8
    for _, split in splits:
        assert abs(design.y[split.train].mean() - design.y.mean()) <= 1 / 20


def test_a_seed_gives_the_same_splits_and_another_seed_others(around, write_bundle):
    path = write_bundle()
    one, same, other = (splits_of(around(path, seed=seed), "A")[1][0][1].train for seed in (3, 3, 4))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_without_a_number_four_fifths_are_trained_on(around, write_bundle):
    design, splits = splits_of(around(write_bundle(), n_train=()), "A")
    assert len(splits[0][1].train) == len(design) * 4 // 5


def test_by_session_each_is_left_out_in_turn(around, write_bundle):
    design, splits = splits_of(around(write_bundle(), split_by="session", n_train=()), "A")
    assert len(splits) == 2
    for number, (_, split) in enumerate(splits):
        assert set(design.session[split.test]) == {str(number)}
        assert set(design.session[split.train]) == {str(1 - number)}


def test_by_character_none_is_torn(around, write_bundle):
    design, splits = splits_of(around(write_bundle(), split_by="character", n_train=(70,), splits=3), "A")
    assert len(splits) == 3
    assert sorted(np.concatenate([split.test for _, split in splits])) == list(range(len(design)))
    for _, split in splits:
        assert not set(design.character[split.train]) & set(design.character[split.test])
        assert len(split.train) == 70
        assert np.all(np.diff(split.train) > 0)


def test_by_subject_one_is_left_out_and_all_others_trained_on(around, write_bundle):
    design, splits = splits_of(around(write_bundle(), split_by="subject", n_train=(30,)), "C")
    ((_, split),) = splits
    assert set(design.subject[split.test]) == {"C"}
    assert {who: int(np.sum(design.subject[split.train] == who)) for who in "ABD"} == {"A": 30, "B": 30, "D": 30}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_train": (5000,)}, r"bundle: the plan asks for 5000 training trials, but subject A has 192 trials"),
        ({"n_train": (192,)}, r"asks for 192 training trials, but subject A has 192 trials"),
        (
            {"n_train": (97,), "split_by": "session"},
            r"asks for 97 training trials.*96 of which can be training trials",
        ),
    ],
)
def test_more_training_trials_than_there_are_is_refused(around, write_bundle, changes, message):
    with pytest.raises(PlanError, match=message):
        expand(around(write_bundle(), **changes))


def test_what_cannot_be_left_out_is_refused(around, write_bundle):
    with pytest.raises(PlanError, match="the source has no characters; split by 'session' or 'random'"):
        expand(around(write_bundle(character=None), split_by="character", n_train=()))
    with pytest.raises(PlanError, match="Subject A: it has only one session; leaving one out needs at least two"):
        expand(around(write_bundle(session=None), split_by="session", n_train=()))
    alone = around(write_bundle(subject=None), split_by="subject", n_train=())
    with pytest.raises(PlanError, match="bundle: it has only one subject; leaving one subject out needs at least two"):
        expand(alone)
