"""Linear systems of the batched engine, against dense matrices."""

import numpy as np
import pytest

from mixnorm.core.arrays import to_numpy
from mixnorm.core.groups import Groups
from mixnorm.core.penalties import L1, L2, GroupNorm
from mixnorm.core.problem import Stack
from mixnorm.solvers import Newton
from mixnorm.solvers.newton.batched import system
from mixnorm.solvers.newton.batched.blocks import BlocksThroughTrials, FactorisedBlocks, solve_coupled
from mixnorm.solvers.newton.batched.linalg import inverse_factor, less_square, solve_posdef
from mixnorm.solvers.newton.batched.solver import StackedNewton
from stacks import converted, every_library

M, T, a, k = 2, 3, 4, 2


def positive_definite(rng, *shape):
    Z = rng.standard_normal((*shape, shape[-1] + 3))
    return Z @ np.swapaxes(Z, -1, -2) + np.eye(shape[-1])


@every_library
@pytest.mark.parametrize("m", [1, 5, 64, 65, 150])  # one block, a whole one, one and a row, and three
def test_inverse_factor_is_the_inverse_of_the_cholesky_factor(asarray, m):
    S = positive_definite(np.random.default_rng(m), 2, 3, m)
    found = to_numpy(inverse_factor(asarray(S)))
    np.testing.assert_allclose(found @ np.linalg.cholesky(S), np.broadcast_to(np.eye(m), S.shape), atol=1e-11)
    assert np.all(found == np.tril(found))


@every_library
def test_positive_definite_systems_and_less_square(asarray):
    rng = np.random.default_rng(0)
    S, right, V = positive_definite(rng, 4, 70), rng.standard_normal((4, 70, k)), rng.standard_normal((4, 70, a))
    found = to_numpy(solve_posdef(asarray(S), asarray(right)))
    np.testing.assert_allclose(found, np.linalg.solve(S, right), rtol=1e-9, atol=1e-12)
    both = to_numpy(less_square(asarray(S), [asarray(V[..., :1]), asarray(V[..., 1:])]))
    np.testing.assert_allclose(both, S - V @ np.swapaxes(V, -1, -2), rtol=1e-12, atol=1e-11)


def dense_coupled(S, directions, common, right):
    """The whole system of T subjects in one matrix, (M, T m, T m), solved."""
    m = S.shape[-1]
    found = []
    for i in range(M):
        matrix = np.zeros((T * m, T * m))
        for t in range(T):
            matrix[t * m : (t + 1) * m, t * m : (t + 1) * m] = S[i, t]
        for columns in (directions, common):
            if columns is not None:
                if columns.ndim == 3:
                    columns = columns[..., None] * np.eye(m)
                U = columns[i].reshape(T * m, -1)
                matrix -= U @ U.T
        found.append(np.linalg.solve(matrix, right[i].reshape(T * m, -1)).reshape(T, m, -1))
    return np.array(found)


@every_library
@pytest.mark.parametrize("has_directions", [True, False])
@pytest.mark.parametrize("kind", ["none", "diagonal", "dense"])
@pytest.mark.parametrize("through", [False, True], ids=["factors", "trials"])
def test_coupled_systems(asarray, has_directions, kind, through):
    if through and kind == "dense":
        pytest.skip("with a metric, blocks are not a diagonal and few trials")
    rng = np.random.default_rng(1)
    m, n = 70, 9
    Z, diagonal = rng.standard_normal((M, T, m, n)), rng.uniform(0.5, 2.0, (M, T, m))
    S = Z @ np.swapaxes(Z, -1, -2) + diagonal[..., None] * np.eye(m)
    right = rng.standard_normal((M, T, m, k))
    directions = 0.03 * rng.standard_normal((M, T, m, a)) if has_directions else None
    shape = {"none": None, "diagonal": (M, T, m), "dense": (M, T, m, 5)}[kind]
    common = None if shape is None else 0.03 * rng.standard_normal(shape)  # small: the matrix is positive definite
    blocks = BlocksThroughTrials(asarray(diagonal), asarray(Z)) if through else FactorisedBlocks(asarray(S))
    given = [None if part is None else asarray(part) for part in (directions, common)]
    found = to_numpy(solve_coupled(blocks, *given, asarray(right)))
    np.testing.assert_allclose(found, dense_coupled(S, directions, common, right), rtol=1e-9, atol=1e-12)


def joint_stack(penalty, n, similarity=0.1, free=False):
    rng = np.random.default_rng(3)
    G, r = 4, 6
    X = rng.standard_normal((2, T, n, G * r))
    y = np.where(rng.random((2, T, n)) < 0.5, -1.0, 1.0)
    y[..., :2] = [-1.0, 1.0]
    X[..., :r] += 0.7 * y[..., None]
    s = np.ones((2, T, n, 2))
    s[..., ::3, 0] = 0.0
    weights = np.ones((2, G, 2))
    weights[:, 1] = 0.0 if free else 1.0
    groups = Groups.from_channels(range(G), r)
    alpha = np.full((2, 2), 0.05)
    return Stack(X, y, s, alpha, weights, np.full((2, 2), similarity), groups, penalty)


@every_library
@pytest.mark.parametrize("similarity", [0.0, 0.1, 100.0])
@pytest.mark.parametrize("penalty", [GroupNorm(2.0), GroupNorm(1.5), L2()], ids=["q=2", "q=1.5", "l2"])
def test_few_trials_give_the_solutions_of_the_host(asarray, penalty, similarity, monkeypatch):
    used, solve = [], system._solve_through_trials
    monkeypatch.setattr(system, "_solve_through_trials", lambda *args: used.append(1) or solve(*args))
    stack = joint_stack(penalty, 12, similarity)
    alphas = np.geomspace(1, 0.02, 4)[:, None, None] * stack.alpha
    plain = Newton().path(stack, alphas, 1e-9, 10_000)
    found = StackedNewton().path(converted(stack, asarray), asarray(alphas), 1e-9, 1000)
    assert used
    for mine, theirs in zip(plain, found, strict=True):
        assert to_numpy(theirs.gap).max() <= 1e-9
        np.testing.assert_allclose(to_numpy(theirs.objective), mine.objective, rtol=1e-9)


@pytest.mark.parametrize(("n", "free"), [(30, False), (12, True)], ids=["many trials", "an unpenalised sensor"])
def test_systems_are_not_solved_through_trials_where_these_do_not_suffice(n, free, monkeypatch):
    monkeypatch.setattr(system, "_solve_through_trials", None)
    stack = joint_stack(GroupNorm(2.0), n, free=free)
    found = StackedNewton().path(stack, stack.alpha[None], 1e-8, 1000)[0]
    assert found.gap.max() <= 1e-8


@pytest.mark.parametrize("n", [12, 40], ids=["few trials", "many trials"])
@pytest.mark.parametrize("similarity", [0.0, 0.1, 1e4])
@pytest.mark.parametrize("penalty", [GroupNorm(2.0), GroupNorm(1.2), L1(), L2()], ids=["q=2", "q=1.2", "l1", "l2"])
@every_library
def test_features_that_are_zero_in_all_trials_of_a_subject(asarray, penalty, similarity, n):
    """The similarity moves their coefficients towards the mean of the others: as exactly, and in as few steps."""
    stack = joint_stack(penalty, n, similarity)
    stack.X[:, 0, :, [0, 7]] = 0.0
    alphas = np.geomspace(1, 0.1, 3)[:, None, None] * stack.alpha
    plain = Newton().path(stack, alphas, 1e-8, 10_000)
    found = StackedNewton().path(converted(stack, asarray), asarray(alphas), 1e-8, 1000)
    for mine, theirs in zip(plain, found, strict=True):
        assert to_numpy(theirs.gap).max() <= 1e-8
        np.testing.assert_allclose(to_numpy(theirs.objective), mine.objective, rtol=1e-8)
        assert to_numpy(theirs.n_iter).max() < 300
