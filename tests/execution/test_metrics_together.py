"""Fits whose problems hold a metric, solved together: one stack with a metric for each data set."""

from functools import partial

import numpy as np
import pytest

from cohorts import cohort, stacked
from mixnorm import MultiTaskGroupSVC
from mixnorm.execution import batching
from mixnorm.execution.batching import together

MODEL = {"alpha": 0.05, "similarity": 0.3, "noise": "kronecker", "rehearse": False, "tol": 1e-9}


@pytest.fixture
def data_sets(monkeypatch):
    """The number of data sets of every stack that is solved."""
    counts = []
    plain = batching.solve_directly
    monkeypatch.setattr(
        batching, "solve_directly", lambda stack, *rest: counts.append(stack.shape[0]) or plain(stack, *rest)
    )
    return counts


def fit_with_noise(seed=0, **options):
    Xs, ys, groups = cohort(2, seed=seed, sizes=(40, 30))
    X, y, subjects = stacked(Xs, ys)
    fit_options = {name: options.pop(name) for name in ("sample_weight",) if name in options}
    return partial(
        MultiTaskGroupSVC(groups=groups, **{**MODEL, **options}).fit, X, y, subjects=subjects, **fit_options
    )


def test_every_data_set_keeps_its_own_metric(data_sets):
    fits = [fit_with_noise(seed) for seed in range(3)]
    alone = [fit().coef_ for fit in fits]
    joint = together(fits)
    assert data_sets == [3]
    for one, other in zip(alone, joint, strict=True):
        np.testing.assert_allclose(other.coef_, one, atol=1e-7)


def test_problems_that_differ_in_the_metric_alone_are_different_problems(data_sets):
    """Class weights have no part in the metric, sample weights have; the weights of the trials are the same."""
    y = stacked(*cohort(2, seed=0, sizes=(40, 30))[:2])[1]
    fits = [
        fit_with_noise(class_weight={-1.0: 1.0, 1.0: 3.0}),
        fit_with_noise(sample_weight=np.where(y > 0, 3.0, 1.0)),
    ]
    alone = [fit().coef_ for fit in fits]
    assert np.abs(alone[0] - alone[1]).max() > 1e-3
    joint = together(fits)
    assert data_sets == [2]
    for one, other in zip(alone, joint, strict=True):
        np.testing.assert_allclose(other.coef_, one, atol=1e-7)


def test_equal_problems_with_equal_metrics_are_solved_once(data_sets):
    first, second = together([fit_with_noise(), fit_with_noise()])
    assert data_sets == [1]
    np.testing.assert_array_equal(first.coef_, second.coef_)


def test_problems_with_and_without_a_metric_are_not_merged(data_sets):
    fits = [fit_with_noise(), fit_with_noise(1), fit_with_noise(2, noise=None)]
    alone = [fit().coef_ for fit in fits]
    joint = together(fits)
    assert sorted(data_sets) == [1, 2]
    for one, other in zip(alone, joint, strict=True):
        np.testing.assert_allclose(other.coef_, one, atol=1e-7)
