"""Two crossing families of groups: prox and dual norm against a convex solver, and the properties that define them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mixnorm.core.crossed_groups import largest_ratio, shrink, smallest_scale
from mixnorm.core.groups import Groups
from mixnorm.core.where_when import SensorsAndWindows
from windows_reference import dual_norm, penalty, prox

FEW = settings(max_examples=60, deadline=None, derandomize=True)
#: Cells of ordinary size, many of them zero.
ENTRIES = st.one_of(st.just(0.0), st.floats(1e-3, 10.0))
#: Weights of sensors may be zero, those of windows not.
ROWS = st.one_of(st.just(0.0), st.floats(1e-2, 5.0))


@st.composite
def problems(draw, n=1):
    """(n matrices (S, K), weights of rows, weights of columns)."""
    S, K = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    m = [draw(arrays(float, (S, K), elements=ENTRIES)) for _ in range(n)]
    return m, draw(arrays(float, S, elements=ROWS)), draw(arrays(float, K, elements=st.floats(1e-2, 5.0)))


def omega(w, rows, columns):
    return rows @ np.linalg.norm(w, axis=1) + columns @ np.linalg.norm(w, axis=0)


# --- the dual norm -------------------------------------------------------------------------------------------


@FEW
@given(problems())
def test_decomposition_is_feasible_and_its_scale_is_bounded_from_both_sides(problem):
    (m,), rows, columns = problem
    split = smallest_scale(m, rows, columns)
    np.testing.assert_allclose(split.u + split.v, m, atol=1e-14 * (1 + m.max()))
    assert not split.u[rows == 0].any()
    assert (split.u >= 0).all()
    assert (split.v >= -1e-15 * m.max()).all()
    assert largest_ratio(split.u, split.v, rows, columns) <= split.scale * (1 + 1e-14)
    assert split.least <= split.scale <= split.least * (1 + 1e-9)


@FEW
@given(problems(n=2))
def test_dual_norm_bounds_every_product(problem):
    """⟨m, w⟩ ≤ Ω°(m) Ω(w): no scale below could do."""
    (m, w), rows, columns = problem
    assert np.sum(m * w) <= smallest_scale(m, rows, columns).scale * omega(w, rows, columns) * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_dual_norm_is_that_of_a_convex_solver(seed):
    rng = np.random.default_rng(seed)
    S, K = rng.integers(2, 12), rng.integers(1, 6)
    m, rows, columns = np.abs(rng.standard_normal((S, K))), rng.uniform(0.2, 2, S), rng.uniform(0.2, 2, K)
    rows[0] *= seed % 2
    assert smallest_scale(m, rows, columns).scale == pytest.approx(dual_norm(m, rows, columns), rel=1e-7)


def test_dual_norm_of_one_family_alone():
    m = np.array([[3.0, 4.0], [0.0, 1.0]])
    assert smallest_scale(m, np.zeros(2), np.array([1.0, 2.0])).scale == pytest.approx(3.0)  # 3, √17/2
    # a column so dear that rows take everything
    assert smallest_scale(m, np.array([1.0, 1.0]), np.full(2, 1e-9)).scale == pytest.approx(5.0, rel=1e-7)
    assert smallest_scale(0 * m, np.ones(2), np.ones(2)).scale == 0


@pytest.mark.parametrize("unit", [1e-150, 1e-9, 1e12, 1e150])
def test_units_of_the_dual_norm(unit):
    rng = np.random.default_rng(0)
    m, rows, columns = np.abs(rng.standard_normal((5, 3))), rng.uniform(0.2, 2, 5), rng.uniform(0.2, 2, 3)
    at = smallest_scale(m, rows, columns).scale
    assert smallest_scale(unit * m, rows, columns).scale == pytest.approx(unit * at, rel=1e-12)
    assert smallest_scale(m, unit * rows, unit * columns).scale == pytest.approx(at / unit, rel=1e-12)


def test_dual_norm_where_many_rows_and_columns_are_nearly_in():
    """A method whose z s falls faster than what the slacks lack does not reach the end on most of these."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        S, K = rng.integers(1, 40), rng.integers(1, 12)
        m = np.abs(rng.standard_normal((S, K))) * np.exp(rng.standard_normal((S, 1)) * rng.choice([0.1, 1, 3]))
        rows, columns = np.exp(rng.standard_normal(S)), np.exp(rng.standard_normal(K)) * rng.choice([0.1, 1, 2, 5, 30])
        split = smallest_scale(m, rows, columns)
        assert split.scale <= split.least * (1 + 1e-12)


def test_a_row_that_is_barely_in_is_kept():
    """Its coefficient is far below the rounding of the value, and yet the certificate asks for it."""
    rng = np.random.default_rng(0)
    m, rows, columns = np.abs(rng.standard_normal((6, 3))), np.full(6, 0.2), np.full(3, 0.4)
    w = shrink(m, rows, columns)
    present = w.any(axis=0)
    assert present.all()
    m = np.vstack([m, [[0.2 * (1 + 1e-10), 0.0, 0.0]]])
    found = shrink(m, np.append(rows, 0.2), columns)
    assert found[6, 0] > 0
    m[6, 0] = 0.2 * (1 - 1e-10)
    assert not shrink(m, np.append(rows, 0.2), columns)[6].any()


# --- the prox ------------------------------------------------------------------------------------------------


def value(w, m, rows, columns, bend=1.0):
    return 0.5 * np.sum(bend * w**2) - np.sum(m * w) + omega(w, rows, columns)


@FEW
@given(problems(n=2))
def test_shrink_is_firmly_non_expansive(problem):
    (m, other), rows, columns = problem
    p, q = shrink(m, rows, columns), shrink(other, rows, columns)
    assert np.sum((p - q) ** 2) <= np.sum((p - q) * (m - other)) + 1e-9


@FEW
@given(problems())
def test_moreau(problem):
    """m − prox(m) is the projection onto the dual ball: within it, and on its boundary where prox(m) is not zero."""
    (m,), rows, columns = problem
    w = shrink(m, rows, columns)
    rest = smallest_scale(np.maximum(m - w, 0.0), rows, columns).scale
    assert rest <= 1 + 1e-9
    assert np.sum((m - w) * w) == pytest.approx(omega(w, rows, columns), rel=1e-9, abs=1e-9)
    scale = smallest_scale(m, rows, columns).scale
    if abs(scale - 1) > 1e-9:
        assert w.any() == (scale > 1)


@FEW
@given(problems(n=2), st.floats(0.1, 10.0))
def test_no_other_point_has_a_lower_value(problem, bend):
    (m, other), rows, columns = problem
    w = shrink(m, rows, columns, bend)
    assert value(w, m, rows, columns, bend) <= value(other, m, rows, columns, bend) + 1e-10
    assert value(w, m, rows, columns, bend) <= 1e-12
    near = w * (1 + 1e-4 * (other - other.mean()))
    assert value(w, m, rows, columns, bend) <= value(near, m, rows, columns, bend) + 1e-10


@pytest.mark.parametrize("seed", range(6))
def test_shrink_is_that_of_a_convex_solver_with_exact_zeros(seed):
    rng = np.random.default_rng(seed)
    S, K = rng.integers(2, 12), rng.integers(1, 6)
    m, rows, columns = np.abs(rng.standard_normal((S, K))), rng.uniform(0.1, 1, S), rng.uniform(0.1, 1, K)
    rows[0] *= seed % 2
    expected, found = prox(m, rows, columns), shrink(m, rows, columns)
    np.testing.assert_allclose(found, expected, atol=2e-5)  # of the reference
    for axis in (0, 1):
        norms = np.linalg.norm(expected, axis=axis)
        np.testing.assert_array_equal(found.any(axis=axis)[norms > 1e-3], True)
        np.testing.assert_array_equal(found.any(axis=axis)[norms < 1e-6], False)


# --- the penalty ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crossed():
    """Sensors and windows whose cells have 0, 1 or several features, in no order."""
    rng = np.random.default_rng(4)
    sensors, windows = rng.integers(0, 5, 40), rng.integers(0, 3, 40)
    windows[sensors == 2] = 1
    return SensorsAndWindows(Groups.from_labels(sensors, 40), Groups.from_labels(windows, 40))


def weights(rng, share=0.4):
    beta = rng.uniform(0.5, 2.0, 5)
    return beta, np.concatenate([(1 - share) * beta, np.full(3, share)])


def test_value_is_the_formula(crossed):
    rng = np.random.default_rng(0)
    w, (beta, weight) = rng.standard_normal((2, 1, 40, 3)), weights(rng)
    weight = np.repeat(np.stack([weight, 2 * weight])[..., None], 3, axis=2)
    found = crossed.value(crossed.groups.to_blocks(w), weight)
    for i, k in np.ndindex(2, 3):
        own = (1 + i) * penalty(w[i, 0, :, k], crossed.groups.index, crossed.windows.index, 0.4, beta)
        assert found[i, k] == pytest.approx(own, rel=1e-12)


def test_value_with_a_forbidden_sensor(crossed):
    rng = np.random.default_rng(0)
    weight = weights(rng)[1]
    weight[3] = np.inf
    w = rng.standard_normal(40)
    assert crossed.value_of(w, weight) == np.inf
    w[crossed.groups.index == 3] = 0.0
    assert np.isfinite(crossed.value_of(w, weight))


@pytest.mark.parametrize("scale", [0.05, 0.3, 1.0, 3.0, 30.0])
def test_prox_by_either_algorithm_and_its_conditions(crossed, scale):
    """Dykstra's algorithm and the interior-point method agree; zeros are exact; T(0) = 0."""
    rng = np.random.default_rng(1)
    w, weight = rng.standard_normal(40), scale * weights(rng)[1]
    found = crossed.prox_of(w, weight)
    m = crossed.cell_norms(w)
    expected = crossed.scaled(w, m, shrink(m, *crossed.divided(weight)))
    np.testing.assert_allclose(found, expected, atol=1e-10)
    np.testing.assert_array_equal(found == 0, expected == 0)
    assert not crossed.prox_of(np.zeros(40), weight).any()
    assert found.any() == (crossed.gauge_of(w, weight) > 1)


def test_prox_keeps_a_forbidden_sensor_out_and_spares_a_free_one(crossed):
    rng = np.random.default_rng(1)
    w, weight = rng.standard_normal(40), weights(rng)[1]
    weight[:2] = np.inf, 0.0
    found = crossed.prox_of(w, 0.5 * weight)
    assert not found[crossed.groups.index == 0].any()
    chosen = crossed.cell_norms(found).any(axis=0)
    assert found[(crossed.groups.index == 1) & chosen[crossed.windows.index]].all()


def test_gauge_is_at_the_threshold_of_the_prox(crossed):
    rng = np.random.default_rng(2)
    w, weight = rng.standard_normal(40), weights(rng)[1]
    scale = crossed.gauge_of(w, weight)
    assert not crossed.prox_of(w, scale * (1 + 1e-9) * weight).any()
    assert crossed.prox_of(w, scale * (1 - 1e-6) * weight).any()


def test_only_some_sensors(crossed):
    kept = np.array([True, False, True, True, False])
    features = kept[crossed.groups.index]
    w = np.random.default_rng(3).standard_normal(40)
    np.testing.assert_array_equal(crossed.only(kept).cell_norms(w[features]), crossed.cell_norms(w)[kept])
