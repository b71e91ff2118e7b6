import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata, sem, wilcoxon
from scipy.stats import t as student

from mixnorm.study import wilcoxon_exact
from mixnorm.study.statistics import half_interval, standard_error


def brute_force(difference):
    """Two-sided p-value by all sign flips, from the definition."""
    difference = np.array([d for d in difference if d != 0], dtype=float)
    ranks = rankdata(np.abs(difference))
    center = ranks.sum() / 2
    observed = abs(ranks[difference > 0].sum() - center)
    flips = [
        abs(ranks[np.array(signs)].sum() - center) >= observed - 1e-9
        for signs in itertools.product([True, False], repeat=len(ranks))
    ]
    return np.mean(flips)


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=9).filter(any))
def test_all_sign_flips_give_the_same_p_value_with_ties_and_zeros(difference):
    p = wilcoxon_exact(difference, np.zeros(len(difference)))
    assert p == pytest.approx(brute_force(difference), abs=1e-12)


@given(st.integers(3, 25), st.integers(0, 2**31))
def test_without_ties_it_agrees_with_scipy(n, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(0.4, 1, n), rng.standard_normal(n)
    assert wilcoxon_exact(x, y) == pytest.approx(wilcoxon(x, y, method="exact").pvalue, abs=1e-12)


def test_signs_do_not_matter_and_thirty_subjects_are_quick():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 30))
    assert wilcoxon_exact(x, y) == wilcoxon_exact(y, x)
    assert wilcoxon_exact(np.arange(1, 31), np.zeros(30)) == pytest.approx(2 / 2**30, rel=1e-9)


def test_what_cannot_be_tested_is_none_or_refused():
    assert wilcoxon_exact([1, 2], [1, 2]) is None
    assert wilcoxon_exact([], []) is None
    with pytest.raises(ValueError, match="leave incomplete pairs out"):
        wilcoxon_exact([1.0, np.nan], [0.0, 0.0])


def test_the_papers_smallest_p_value_over_ten_runs():
    # nine of ten better, the worst difference being the smallest: 2 · 2 / 2^10
    assert wilcoxon_exact([-1, 2, 3, 4, 5, 6, 7, 8, 9, 10], np.zeros(10)) == pytest.approx(0.00390625)


@given(st.lists(st.floats(0, 100), min_size=2, max_size=20), st.integers(1, 3))
def test_intervals_are_those_of_scipy(values, columns):
    values = np.array(values)
    assert standard_error(values) == pytest.approx(sem(values), abs=1e-12)
    table = np.stack([values + k for k in range(columns)], axis=1)
    if values.std() > 1e-9:
        low, high = student.interval(0.95, len(values) - 1, loc=0, scale=sem(values))
        assert half_interval(table) == pytest.approx(np.full(columns, (high - low) / 2))


def test_one_value_has_no_spread():
    assert standard_error([3.0]) is None
    assert half_interval([[3.0, 4.0]]) is None
