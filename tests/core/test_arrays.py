"""Helpers for arrays of all libraries."""

from dataclasses import replace

import numpy as np
import pytest

from mixnorm.core.arrays import by_columns, matmul_by_columns, matmul_transposed, put_rows, to_numpy, without_repeats
from mixnorm.core.problem import Stack
from mixnorm.solvers.sequence import side_by_side
from stacks import LIBRARIES, converted, make_stack


@pytest.mark.parametrize("asarray", LIBRARIES)
def test_rows_are_written_in_place(asarray):
    target = asarray(np.zeros((4, 2)))
    put_rows(target, asarray(np.array([2, 0])), asarray(np.array([[1.0, 2.0], [3.0, 4.0]])))
    np.testing.assert_array_equal(to_numpy(target), [[3, 4], [0, 0], [1, 2], [0, 0]])


@pytest.mark.parametrize("asarray", LIBRARIES)
def test_products_are_those_of_matrices_in_any_order_of_memory(asarray):
    rng = np.random.default_rng(0)
    X, W, A = rng.standard_normal((2, 3, 5, 4)), rng.standard_normal((2, 3, 4, 6)), rng.standard_normal((2, 3, 5, 6))
    found = to_numpy(matmul_by_columns(asarray(X), asarray(W)))
    np.testing.assert_allclose(found, np.einsum("btnd,btdk->btnk", X, W), rtol=1e-12, atol=1e-14)
    found = to_numpy(matmul_transposed(asarray(X), asarray(A)))
    np.testing.assert_allclose(found, np.einsum("btnd,btnk->btdk", X, A), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(to_numpy(by_columns(asarray(A))), A)


def test_only_columns_that_are_the_same_memory_are_left_out():
    column = np.arange(5.0)[:, None]
    np.testing.assert_array_equal(without_repeats(np.broadcast_to(column, (5, 3))), column)
    assert without_repeats(np.repeat(column, 3, axis=1)).shape == (5, 3)


def _moments(stack: Stack, power: int) -> np.ndarray:
    weight = to_numpy(stack.trial_weight).mean(axis=-1)
    return np.sum(weight[..., None] * to_numpy(stack.X) ** power, axis=2) / weight.sum(axis=2)[..., None]


@pytest.mark.parametrize("asarray", LIBRARIES)
@pytest.mark.parametrize("equal", ["everywhere", "within subjects", "nowhere"])
@pytest.mark.parametrize("K", [1, 3])
def test_sums_of_a_stack_are_those_of_its_trials(asarray, equal, K):
    stack = make_stack("q=2", T=2, K=K)
    if equal != "nowhere":
        weight = np.ones_like(stack.sample_weight)
        if equal == "within subjects":
            weight[:, 1] = 3.0
        stack = replace(stack, sample_weight=weight)
    p, X = stack.trial_weight, stack.X
    lengths = np.einsum("btnk,btnd->bk", p, X**2)
    stack = converted(stack, asarray)
    total = to_numpy(stack.total_weight).sum(axis=2)[..., None]
    for power, moment in ((1, stack.first_moment), (2, stack.second_moment)):
        np.testing.assert_allclose(to_numpy(moment) / total, _moments(stack, power), rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(to_numpy(stack.square_length), lengths, rtol=1e-12)
    assert stack.with_alpha(2 * stack.alpha).second_moment is stack.second_moment  # not computed again
    both = side_by_side([stack.with_alpha(stack.alpha), stack.with_alpha(2 * stack.alpha)])
    np.testing.assert_allclose(to_numpy(both.trial_weight), np.tile(p, 2), rtol=1e-14)
    wide = np.broadcast_to(to_numpy(both.square_length), (len(lengths), 2 * K))
    np.testing.assert_allclose(wide, np.tile(lengths, 2), rtol=1e-12)
    # the mean of squares divides one sum over all problems by another
    for stacks in (both, side_by_side([both, both])):
        mean = to_numpy(stacks.second_moment) / to_numpy(stacks.total_weight).sum(axis=2)[..., None]
        np.testing.assert_allclose(mean, _moments(stack, 2), rtol=1e-10)
