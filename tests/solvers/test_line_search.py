"""The least value along a Newton step that is too long, against a fine grid."""

from dataclasses import replace

import numpy as np
import pytest

from mixnorm.core.penalties import L1, L2, GroupNorm
from mixnorm.core.problem import SquaredHinge
from mixnorm.solvers.newton.host.atoms import Atoms
from mixnorm.solvers.newton.host.line import Line, least_ahead, least_along

PENALTIES = {"l1": L1(), "l2": L2(), "group": GroupNorm(2.0), "group, q = 1.3": GroupNorm(1.3)}
NEAR_L1 = GroupNorm(1.005)
GRID = np.linspace(0, 1, 501)


def drawn(name, seed, tau):
    """A line of 2 subjects, 30 trials and 6 coefficients, and its value at any length."""
    rng, penalty = np.random.default_rng(seed), PENALTIES[name]
    label = np.arange(12).reshape(2, 6) if name == "l1" else np.tile(np.repeat(np.arange(3), 2), (2, 1))
    atoms = Atoms(label, np.ones_like(label, dtype=bool), label.max() + 1, penalty, penalty.q)
    w, dw = rng.standard_normal((2, 2, 6))
    p = rng.uniform(0, 1, (2, 30)) / 30
    price, bend = rng.uniform(0, 0.1, 2)
    margins, change = rng.standard_normal((2, 2, 30))
    line, weight = Line(SquaredHinge(), p, margins, 3 * change, price, bend), np.full(atoms.count, tau)

    def value(s):
        loss = np.sum(p * np.maximum(0, 1 - margins - 3 * s * change) ** 2)
        return loss + price * s + bend * s**2 / 2 + atoms.value(w + s * dw, weight)

    return (line, atoms, w, dw, weight), value


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("tau", [1e-3, 0.1, 1.0])
def test_the_length_has_the_least_value_of_a_fine_grid(name, tau):
    inside = 0
    for seed in range(8):
        args, value = drawn(name, seed, tau)
        length, w = least_along(*args)
        values = [value(s) for s in GRID]
        assert 0 <= length <= 1
        assert value(length) <= min(values) + 1e-3 * (values[0] - min(values)) + 1e-12
        np.testing.assert_allclose(w, args[2] + length * args[3], atol=1e-12)
        inside += 0 < length < 1
    assert inside >= 2  # else the lines would say nothing


def test_with_l1_a_coefficient_whose_kink_is_the_minimum_is_exactly_zero():
    at_kinks = 0
    for seed in range(40):
        args, value = drawn("l1", seed, 1.0)
        length, w = least_along(*args)
        if 0 < length < 1 and not w.all():
            at_kinks += 1
            assert np.sum(w == 0) == 1
            assert value(length) <= min(value(length - 1e-6), value(length + 1e-6))
    assert at_kinks >= 10


def through_zero(penalty, group, seed=3):
    """A line along which some coordinates of the first group pass zero together at 0.4, for a price that is large."""
    args, _ = drawn("group", seed, 1.0)
    line, atoms, w, dw, weight = args
    atoms = Atoms(atoms.label, atoms.mask, atoms.count, penalty, penalty.q)
    w, dw = w.copy(), 1e-6 * dw
    passing = (atoms.label == 0) if group else (np.arange(12).reshape(2, 6) == 0)
    dw[passing] = -w[passing] / 0.4
    line = Line(line.loss, line.p, line.margins, 0 * line.change, -1.0, 1e-3)
    steepness = np.vdot(atoms.gradient(w, weight), dw)
    return (line, atoms, w, dw, weight / -steepness * 2), passing


@pytest.mark.parametrize("penalty", [GroupNorm(2.0), GroupNorm(1.5), NEAR_L1], ids=str)
def test_a_group_whose_zero_is_the_minimum_is_exactly_zero(penalty):
    args, passing = through_zero(penalty, group=True)
    length, w = least_along(*args)
    assert length == pytest.approx(0.4, rel=2e-3)
    assert not w[passing].any()
    np.testing.assert_array_equal(w[~passing], (args[2] + length * args[3])[~passing])


def test_a_coefficient_whose_zero_is_the_minimum_is_exactly_zero_where_q_is_nearly_1():
    args, passing = through_zero(NEAR_L1, group=False)
    length, w = least_along(*args)
    assert length == pytest.approx(0.4, rel=2e-3)
    assert w[passing] == 0
    assert np.all(w[~passing] != 0)


def test_coefficients_of_the_l2_penalty_have_no_kink():
    (line, atoms, w, dw, weight), _ = through_zero(GroupNorm(2.0), group=True)
    smooth = Atoms(atoms.label, atoms.mask, atoms.count, L2(), 2.0)
    length, reached = least_along(line, smooth, w, dw, weight)
    np.testing.assert_array_equal(reached, w + length * dw)


@pytest.mark.parametrize("size", [0.1, 0.3, 3.0, 40.0])
def test_the_way_ahead_ends_at_its_least_value_after_few_derivatives(monkeypatch, size):
    # without trials that cross the margin the slope is linear, and Newton's method meets its zero exactly
    rng = np.random.default_rng(0)
    p, change = np.full((1, 20), 1 / 20), rng.uniform(0.1, 0.2, (1, 20)) / size
    line = Line(SquaredHinge(), p, np.full((1, 20), -9.0), change, 0.0, 0.0)
    price, seen = float(2 * np.sum(p * (10 - size * change) * change)), []
    plain = Line.slope_and_curvature
    monkeypatch.setattr(Line, "slope_and_curvature", lambda self, s: seen.append(s) or plain(self, s))
    assert least_ahead(line, price) == pytest.approx(size, rel=1e-3)
    assert len(seen) <= 3


@pytest.mark.parametrize("name", PENALTIES)
def test_a_step_that_overflows_has_no_length(name):
    # such steps come from systems that are singular but for rounding; they used to end in an error of the root finder
    (line, atoms, w, dw, weight), _ = drawn(name, 0, 0.1)
    huge = replace(line, p=np.ones_like(line.p), change=1.5e308 * np.sign(line.change), price=0.0)
    length, found = least_along(huge, atoms, w, dw, weight)
    assert length == 0
    np.testing.assert_array_equal(found, w)


def test_slope_and_curvature_are_derivatives():
    (line, *_), value = drawn("l2", 3, 0.0)
    for s in (0.2, 0.7):
        slope, curvature = line.slope_and_curvature(s)
        assert slope == line.slope(s)
        assert slope == pytest.approx((value(s + 1e-6) - value(s - 1e-6)) / 2e-6, rel=1e-6)
        assert curvature == pytest.approx((line.slope(s + 1e-7) - line.slope(s - 1e-7)) / 2e-7, rel=1e-5)
