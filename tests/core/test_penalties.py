"""The penalties' values, proxes and dual norms against their definitions and the references.

Blocks are (..., G, r, K): G groups of r features (zero padded), K problems; thresholds and weights are (..., G, K).
The promise for the ℓq prox is 1e-10 of the largest entry; every tolerance below is that or follows from it.
"""

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixnorm.core import lq_prox
from mixnorm.core.penalties import L1, L2, GroupNorm, GroupNorms
from reference import conjugate_exponent, lq_norm, project_dual_ball, prox_reference

ACCURACY = 1e-10
EXPONENTS = [1.0, 1 + 1e-9, 1.001, 1.01, 1.2, 1.5, 1.8, 1.99, 1.999, 2 - 1e-9, 2.0]
PENALTIES = [L1(), L2(), *(GroupNorm(q) for q in EXPONENTS)]
LARGEST_SCALE = 990  # of 2: about 1e298, and 1e-298 on the other side, where doubles still have all their digits

exponents = st.one_of(st.sampled_from(EXPONENTS), st.floats(1.0, 2.0))
penalties = st.one_of(st.just(L1()), st.just(L2()), exponents.map(GroupNorm))
scales = st.one_of(st.just(0), st.integers(-LARGEST_SCALE, LARGEST_SCALE)).map(lambda k: 2.0**k)
seeds = st.integers(0, 2**32 - 1)


def exponent_of(penalty):
    """The q of the norm that is penalised; None for ℓ2, which is a square."""
    if isinstance(penalty, L2):
        return None
    return 1.0 if isinstance(penalty, L1) else penalty.q


def vector_prox(penalty, u, tau):
    """The prox of one vector, through the block interface."""
    blocks = penalty.prox(np.reshape(u, (1, -1, 1)), np.full((1, 1), float(tau)))
    assert blocks.shape == (1, len(u), 1)
    return blocks[0, :, 0]


def expected_prox(penalty, u, tau):
    q = exponent_of(penalty)
    return u / (1.0 + tau) if q is None else prox_reference(u, tau, q)


def prox_objective(penalty, x, u, tau):
    q = exponent_of(penalty)
    value = 0.5 * tau * np.sum(x**2) if q is None else tau * lq_norm(x, q)
    return 0.5 * np.sum((x - u) ** 2) + value


def dual_norm_of(penalty, u):
    return lq_norm(u, conjugate_exponent(exponent_of(penalty) or 2.0))


@st.composite
def vectors(draw, max_size=12):
    """Vectors of order 1: smooth, spread over decades, with ties, zeros, or one entry that dominates."""
    rng = np.random.default_rng(draw(seeds))
    size = draw(st.integers(1, max_size))
    u = rng.standard_normal(size)
    kind = draw(st.sampled_from(["plain", "decades", "ties", "zeros", "dominated"]))
    if kind == "decades":
        u *= 10.0 ** rng.uniform(-20, 0, size)
    elif kind == "ties":
        u = rng.choice([-1.0, 1.0], size)
    elif kind == "zeros":
        u *= rng.random(size) < 0.5
    elif kind == "dominated":
        u[0] *= 1e6
    return u


@st.composite
def thresholds(draw, penalty, u):
    """From nothing to everything, with both sides of the point at which all is zero."""
    fraction = draw(st.sampled_from([1e-9, 1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 1e-7, 1 + 1e-7, 2.0, 1e6]))
    return fraction * (dual_norm_of(penalty, u) or 1.0)


@st.composite
def prox_cases(draw, max_size=12):
    penalty, u = draw(penalties), draw(vectors(max_size))
    return penalty, u, draw(thresholds(penalty, u))


def random_blocks(rng, shape=(4, 5, 3), max_exponent=0):
    blocks = rng.standard_normal(shape)
    scale = 2.0 ** rng.integers(-max_exponent, max_exponent + 1, (*shape[:-2], 1, shape[-1]))
    threshold = rng.uniform(0.1, 2.0, (*shape[:-2], shape[-1])) * scale[..., 0, :]
    return blocks * scale, threshold


# --- the prox is the argmin ---


@pytest.mark.parametrize("q", [1.0001, 1.002, 1.05, 1.5, 1.98])
@pytest.mark.parametrize("size", [2, 8])
def test_prox_takes_few_iterations_up_to_the_dual_norm(q, size, monkeypatch):
    """Once 100 where the threshold was the dual norm but for rounding, of which no digit of the prox is left."""

    def never(*args):
        raise AssertionError("one Newton iteration for all unknowns did not end within 15 steps")

    monkeypatch.setattr(lq_prox, "_solve_nested", never)
    rng = np.random.default_rng(0)
    for u in rng.standard_normal((20, size)):
        for below in (*(10.0**-k for k in range(1, 16)), 2.0**-52, 2.0**-53):
            vector_prox(GroupNorm(q), u, (1 - below) * lq_norm(u, conjugate_exponent(q)))


@given(prox_cases())
def test_prox_agrees_with_the_reference(case):
    penalty, u, tau = case
    atol = ACCURACY * np.max(np.abs(u))
    np.testing.assert_allclose(vector_prox(penalty, u, tau), expected_prox(penalty, u, tau), rtol=0, atol=atol)


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
@pytest.mark.parametrize("size", [1, 2, 3, 30, 200])
def test_prox_accuracy_over_sizes_and_thresholds(penalty, size):
    rng = np.random.default_rng(size)
    u = rng.standard_normal(size)
    for fraction in (1e-6, 0.3, 0.9, 0.9999):
        tau = fraction * dual_norm_of(penalty, u)
        atol = ACCURACY * np.max(np.abs(u))
        np.testing.assert_allclose(vector_prox(penalty, u, tau), expected_prox(penalty, u, tau), rtol=0, atol=atol)


@given(prox_cases(), seeds)
def test_prox_beats_every_other_point(case, seed):
    penalty, u, tau = case
    rng, x = np.random.default_rng(seed), vector_prox(penalty, u, tau)
    largest = np.max(np.abs(u))
    least = prox_objective(penalty, x, u, tau)
    # an error of 1e-10·max|u| in x costs its square, plus rounding in a sum of this size
    slack = 1e-14 * u.size * (largest**2 + least)
    rivals = [u, np.zeros_like(u), expected_prox(penalty, u, tau)]
    rivals += [x + size * largest * rng.standard_normal(u.size) for size in 10.0 ** np.arange(-8, 1)]
    rivals += [x * (1 - size) for size in (1e-6, 1e-3, 0.5)]
    for rival in rivals:
        assert least <= prox_objective(penalty, rival, u, tau) + slack


@given(prox_cases())
def test_prox_and_projection_on_the_dual_ball_add_up(case):
    penalty, u, tau = case
    q = exponent_of(penalty)
    # Moreau; the conjugate of tau·½‖·‖² is ½‖·‖²/tau, whose prox is u·tau/(1 + tau)
    dual_part = u * (tau / (1.0 + tau)) if q is None else project_dual_ball(u, tau, q)
    total = vector_prox(penalty, u, tau) + dual_part
    np.testing.assert_allclose(total, u, rtol=0, atol=ACCURACY * np.max(np.abs(u)))


@given(penalties, seeds, st.integers(1, 12), st.sampled_from([1e-8, 1e-3, 1.0, 10.0]), st.floats(0.0, 3.0))
def test_prox_is_firmly_non_expansive(penalty, seed, size, distance, tau):
    rng = np.random.default_rng(seed)
    u = rng.standard_normal(size)
    v = u + distance * rng.standard_normal(size)
    moved, apart = vector_prox(penalty, u, tau) - vector_prox(penalty, v, tau), u - v
    # ‖Pu − Pv‖² ≤ ⟨Pu − Pv, u − v⟩, each P wrong by at most 1e-10·max
    error = ACCURACY * max(np.max(np.abs(u)), np.max(np.abs(v))) * np.sqrt(size)
    slack = 2 * error * (2 * np.linalg.norm(moved) + np.linalg.norm(apart)) + 4 * error**2
    assert moved @ moved <= moved @ apart + slack


# --- what holds exactly ---


@given(prox_cases())
def test_prox_is_odd(case):
    penalty, u, tau = case
    np.testing.assert_array_equal(vector_prox(penalty, -u, tau), -vector_prox(penalty, u, tau))


@given(penalties, st.integers(1, 200), st.floats(0.0, 1e300))
def test_prox_of_zero_is_zero(penalty, size, tau):
    np.testing.assert_array_equal(vector_prox(penalty, np.zeros(size), tau), 0.0)


@given(penalties, vectors(), scales)
def test_threshold_zero_changes_nothing(penalty, u, scale):
    np.testing.assert_array_equal(vector_prox(penalty, scale * u, 0.0), scale * u)


@given(penalties, vectors(), scales)
def test_infinite_threshold_gives_exact_zero(penalty, u, scale):
    np.testing.assert_array_equal(vector_prox(penalty, scale * u, np.inf), 0.0)


@given(exponents, vectors(max_size=200), scales, st.sampled_from([1 + 1e-12, 1 + 1e-6, 2.0, 1e10]))
def test_group_is_exactly_zero_from_its_dual_norm_on(q, u, scale, factor):
    penalty = GroupNorm(q)
    tau = factor * dual_norm_of(penalty, u) * scale
    np.testing.assert_array_equal(vector_prox(penalty, scale * u, tau), 0.0)


@given(exponents, vectors())
def test_group_is_not_zero_below_its_dual_norm(q, u):
    penalty = GroupNorm(q)
    dual_norm = dual_norm_of(penalty, u)
    if dual_norm > 0:
        assert np.any(vector_prox(penalty, u, 0.999 * dual_norm) != 0.0)


@given(vectors(), st.floats(0.0, 2.0))
def test_l1_sets_small_entries_exactly_to_zero(u, tau):
    np.testing.assert_array_equal(vector_prox(L1(), u, tau) == 0.0, np.abs(u) <= tau)


@given(prox_cases())
def test_prox_shrinks_and_keeps_signs(case):
    penalty, u, tau = case
    x = vector_prox(penalty, u, tau)
    assert np.all(x * u >= 0.0)
    assert np.all(np.abs(x) <= np.abs(u))


# --- scale, order, padding, stacking ---


@given(prox_cases(), scales)
def test_prox_commutes_with_scaling(case, scale):
    penalty, u, tau = case
    u, tau = u / np.max(np.abs(u), initial=1e-6), tau / np.max(np.abs(u), initial=1e-6)
    scaled_tau = tau if isinstance(penalty, L2) else scale * tau  # ½‖·‖² is of degree 2: its threshold has no unit
    if not np.isfinite(scaled_tau):
        return
    x = vector_prox(penalty, scale * u, scaled_tau)
    np.testing.assert_allclose(x, scale * vector_prox(penalty, u, tau), rtol=0, atol=ACCURACY * scale)


@given(prox_cases(max_size=30), seeds)
def test_prox_follows_a_permutation(case, seed):
    penalty, u, tau = case
    order = np.random.default_rng(seed).permutation(u.size)
    permuted, plain = vector_prox(penalty, u[order], tau), vector_prox(penalty, u, tau)
    np.testing.assert_allclose(permuted, plain[order], rtol=0, atol=ACCURACY * np.max(np.abs(u)))


@given(prox_cases(), st.integers(1, 5))
def test_padding_stays_zero_and_changes_nothing(case, padding):
    penalty, u, tau = case
    padded = vector_prox(penalty, np.concatenate([u, np.zeros(padding)]), tau)
    np.testing.assert_array_equal(padded[u.size :], 0.0)
    np.testing.assert_allclose(
        padded[: u.size], vector_prox(penalty, u, tau), rtol=0, atol=ACCURACY * np.max(np.abs(u))
    )


@settings(max_examples=30)
@given(penalties, seeds, st.sampled_from([(1, 1, 1), (4, 5, 3), (2, 4, 3, 2), (2, 1, 3, 2, 2)]))
def test_many_groups_at_once_equal_one_by_one(penalty, seed, shape):
    rng = np.random.default_rng(seed)
    blocks, threshold = random_blocks(rng, shape, max_exponent=600)
    if isinstance(penalty, L2):
        threshold = rng.uniform(0.1, 2.0, threshold.shape)
    special = rng.random(threshold.shape)
    threshold = np.where(special < 0.1, 0.0, np.where(special > 0.9, np.inf, threshold))
    together = penalty.prox(blocks, threshold)
    norms = penalty.dual_norm(blocks)
    assert together.shape == blocks.shape
    assert norms.shape == threshold.shape
    for index in np.ndindex(threshold.shape):
        u, x = (np.moveaxis(array, -2, -1)[index] for array in (blocks, together))
        atol = ACCURACY * np.max(np.abs(u))
        np.testing.assert_allclose(x, expected_prox(penalty, u, threshold[index]), rtol=0, atol=atol)
        np.testing.assert_allclose(norms[index], dual_norm_of(penalty, u), rtol=1e-10)


def test_prox_leaves_its_input_alone():
    rng = np.random.default_rng(0)
    for penalty in PENALTIES:
        blocks, threshold = random_blocks(rng)
        before = blocks.copy(), threshold.copy()
        penalty.prox(blocks, threshold)
        np.testing.assert_array_equal(blocks, before[0])
        np.testing.assert_array_equal(threshold, before[1])


# --- values and dual norms ---


@given(penalties, seeds, st.sampled_from([(1, 1, 1), (4, 5, 3), (2, 4, 3, 2)]))
def test_value_is_the_weighted_sum_over_groups(penalty, seed, shape):
    rng = np.random.default_rng(seed)
    blocks, weight = random_blocks(rng, shape)
    value = penalty.value(blocks, weight)
    assert value.shape == (*shape[:-3], shape[-1])
    q = exponent_of(penalty)
    expected = np.zeros(value.shape)
    for index in np.ndindex(weight.shape):
        block = np.moveaxis(blocks, -2, -1)[index]
        norm = 0.5 * np.sum(block**2) if q is None else lq_norm(block, q)
        expected[(*index[:-2], index[-1])] += weight[index] * norm
    np.testing.assert_allclose(value, expected, rtol=1e-12)


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
def test_value_of_zero_and_infinite_weights(penalty):
    blocks = np.zeros((3, 2, 2))
    blocks[0], blocks[1] = 1.0, 2.0
    blocks[2, :, 1] = 1e-200  # small, but there: in the second problem a forbidden group is used
    weight = np.array([[1.0, 1.0], [0.0, 0.0], [np.inf, np.inf]])
    value = penalty.value(blocks, weight)
    first_group = 1.0 if isinstance(penalty, L2) else 2.0 ** (1.0 / exponent_of(penalty))
    assert value[0] == pytest.approx(first_group, rel=1e-12)
    assert value[1] == np.inf


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
def test_zero_weight_of_a_zero_group_is_worth_nothing(penalty):
    value = penalty.value(np.zeros((2, 3, 1)), np.array([[np.inf], [0.0]]))
    np.testing.assert_array_equal(value, [0.0])


@given(exponents, vectors(max_size=200), scales)
def test_norms_neither_overflow_nor_underflow(q, u, scale):
    u = u / np.max(np.abs(u), initial=1e-6)
    blocks = np.reshape(scale * u, (1, -1, 1))
    value = GroupNorm(q).value(blocks, np.ones((1, 1)))
    np.testing.assert_allclose(value, [scale * lq_norm(u, q)], rtol=1e-12)
    dual_norm = GroupNorm(q).dual_norm(blocks)
    # p-th powers with p = q* up to 1e9: an ulp of the base is 1e-16·p of the power, and back in its p-th root
    np.testing.assert_allclose(dual_norm, [[scale * lq_norm(u, conjugate_exponent(q))]], rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 1e-244, 1.0, 1e200])
@pytest.mark.parametrize("penalty", [GroupNorm(2.0), L2()], ids=repr)
def test_euclidean_dual_norm_of_a_3_4_5_triangle(penalty, scale):
    blocks = scale * np.array([3.0, -4.0]).reshape(1, 2, 1)
    np.testing.assert_allclose(penalty.dual_norm(blocks), [[5.0 * scale]], rtol=1e-14)


@given(st.one_of(st.just(L1()), exponents.map(GroupNorm)), vectors(), vectors())
def test_norm_and_dual_norm_satisfy_hoelder(penalty, u, v):
    size = min(u.size, v.size)
    u, v = u[:size], v[:size]
    value = penalty.value(v.reshape(1, -1, 1), np.ones((1, 1)))[0]
    dual_norm = penalty.dual_norm(u.reshape(1, -1, 1))[0, 0]
    assert abs(u @ v) <= dual_norm * value * (1 + 1e-12)


# --- array backends ---


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
def test_array_api_strict_gives_what_numpy_gives(penalty):
    blocks, threshold = random_blocks(np.random.default_rng(5), (2, 6, 4, 3))
    threshold[0, 0], threshold[0, 1] = 0.0, np.inf
    blocks[:, 2] = 0.0
    blocks[0, 1] = 0.0  # so that the value stays finite
    strict = [array_api_strict.asarray(array) for array in (blocks, threshold)]
    for method in (penalty.prox, penalty.value):
        result = method(*strict)
        assert isinstance(result, type(strict[0]))
        np.testing.assert_allclose(np.asarray(result), method(blocks, threshold), rtol=1e-13, atol=1e-15)
    norms = penalty.dual_norm(strict[0])
    np.testing.assert_allclose(np.asarray(norms), penalty.dual_norm(blocks), rtol=1e-13)


@pytest.mark.parametrize("q", [0.999, 2.001, -1.0, np.nan, np.inf])
def test_exponents_outside_one_to_two_are_refused(q):
    with pytest.raises(ValueError, match="q"):
        GroupNorm(q)


@pytest.mark.parametrize("q", [1.05, 1.2, 1.5, 1.9])
def test_prox_in_a_fixed_number_of_steps_is_exact_up_to_the_dual_norm(q):
    """Near the dual norm the prox is nearly zero; a start far above it would not get there in six steps."""
    rng = np.random.default_rng(5)
    blocks = rng.standard_normal((500, 8, 1)) ** 3
    threshold = (1 - 10.0 ** -rng.uniform(0, 12, (500, 1))) * GroupNorm(q).dual_norm(blocks)
    error = np.abs(lq_prox.prox_lq_in_steps(blocks, threshold, q) - lq_prox.prox_lq(blocks, threshold, q)).max(
        axis=(1, 2)
    )
    np.testing.assert_array_less(error, 1e-14 / (q - 1) * np.abs(blocks).max(axis=(1, 2)))


@pytest.mark.parametrize("asarray", [np.asarray, array_api_strict.asarray], ids=["numpy", "array-api-strict"])
def test_several_orders_are_each_order_for_its_own_problems(asarray):
    rng = np.random.default_rng(0)
    q = np.array([[1.05, 1.3, 1.6], [1.9, 1.5, 1.2]])
    blocks, weight = rng.standard_normal((2, 4, 5, 3)), rng.uniform(0.1, 1.5, (2, 4, 3))
    blocks[0, 1], weight[1, 2, 0] = 0.0, 0.0
    several = GroupNorms(q)
    found = [several.value(asarray(blocks), asarray(weight)), several.prox(asarray(blocks), asarray(weight))]
    found.append(several.dual_norm(asarray(blocks)))
    for i, k in np.ndindex(*q.shape):
        one, own = GroupNorm(q[i, k]), (blocks[i, ..., k : k + 1], weight[i, :, k : k + 1])
        expected = one.value(*own), one.prox(*own), one.dual_norm(own[0])
        for mine, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(np.asarray(mine)[i, ..., k], theirs[..., 0], rtol=1e-13, atol=1e-14)
    np.testing.assert_array_equal(several.take(np.array([1]), np.array([2, 0])).q, [[1.2, 1.9]])
    np.testing.assert_array_equal(several.repeat(2).q, np.concatenate([q, q], axis=1))
    assert several.only(np.ones(4, dtype=bool)) is several
