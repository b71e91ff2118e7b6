"""A selection on a device: the same montages as on the host, everything in stacks, and progress."""

import numpy as np
import pytest

from mixnorm import GroupSVC
from mixnorm.eeg import SelectOptions, select_montage
from mixnorm.estimators.cross_validation import Fold
from mixnorm.execution import SolverOptions
from mixnorm.execution.device import sending
from mixnorm.montage import noise_problems, refits
from mixnorm.montage.refits import Ranking, refit, refit_all
from mixnorm.montage.trials import Training
from mixnorm.solvers.newton.batched import solver as stacked_newton

torch = pytest.importorskip("torch")


def training(seed, n=150, constant=None):
    rng = np.random.default_rng(seed)
    signs = np.where(rng.uniform(size=n) < 0.3, 1.0, -1.0)
    X = rng.standard_normal((n, 7, 3)) + rng.standard_normal((n, 1, 3))
    X[signs > 0, :4] += 0.5
    if constant is not None:
        X[:, constant] = 1.0
    number = np.arange(n) * 3 // n
    return Training(X, signs, [Fold((number != k).astype(int), number == k) for k in range(3)])


ORDER = np.array([2, 0, 5, 1, 3, 6, 4])
RANKING = Ranking(ORDER, np.arange(1, 8))


@pytest.fixture
def stacks(monkeypatch):
    """Shapes of the stacks that the batched solver was given."""
    shapes = []
    plain = stacked_newton._solve_chunk
    monkeypatch.setattr(
        stacked_newton, "_solve_chunk", lambda cells, *rest: shapes.append(cells[0].shape) or plain(cells, *rest)
    )
    return shapes


@pytest.fixture
def exact(monkeypatch):
    """Solve so exactly that a gap of 1e-6 on either side does not decide between alphas of nearly the same score."""
    monkeypatch.setattr(refits, "_OPTIONS", SolverOptions(tol=1e-9))


@pytest.mark.parametrize("constant", [None, 2])
@pytest.mark.usefixtures("exact")
def test_refits_of_several_sets_of_trials_are_those_of_the_host(constant, stacks):
    cases = [(training(seed, n, constant), RANKING) for seed, n in ((0, 150), (1, 120))]
    expected = [refit(*case) for case in cases]
    assert not stacks
    with sending(torch.as_tensor):
        found = refit_all(cases)
    # sizes 1, 2, 3, 4, 6 and 7 by three folds and all trials of both, and size 5 of both
    assert sum(B * K for B, _, _, _, K in stacks) >= (6 - (constant is not None)) * 4 * 2 + 2
    assert len(stacks) <= 5
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.alphas, other.alphas, rtol=1e-6)
        np.testing.assert_allclose(one.coefs, other.coefs, atol=2e-3 * np.abs(other.coefs).max())
        np.testing.assert_allclose(one.intercepts, other.intercepts, atol=2e-3)


def test_constant_sensor_has_no_part_in_a_decoder():
    own = training(0, constant=2)
    models, penalties = refit(own, RANKING), refits.MontagePenalties.of(own.X, own.signs)
    assert not models.coefs[:, 2].any()
    for size, alpha, coef, intercept in zip(models.sizes, models.alphas, models.coefs, models.intercepts, strict=True):
        sensors = np.sort(ORDER[:size])
        alone = GroupSVC(alpha, penalty="l2", noise=penalties.matrix(sensors)).fit(own.X[:, sensors], own.signs)
        np.testing.assert_allclose(coef[sensors].ravel(), alone.coef_[0], atol=1e-9)
        assert intercept == pytest.approx(alone.intercept_[0])


@pytest.mark.usefixtures("exact")
def test_large_stacks_are_divided(monkeypatch):
    case = training(0), RANKING
    expected = refit(*case)
    monkeypatch.setattr(noise_problems, "_BYTES", 200_000)
    with sending(torch.as_tensor):
        found = refit(*case)
    np.testing.assert_allclose(found.coefs, expected.coefs, atol=2e-3 * np.abs(expected.coefs).max())


def test_progress_is_told_for_every_size_and_never_goes_back():
    shares = []
    refit(training(0), RANKING, shares.append)
    assert len(shares) >= len(RANKING.sizes)
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)


@pytest.fixture(scope="module")
def source():
    own = training(4, 240)
    names = np.array(["Fz", "Cz", "Pz", "Oz", "P3", "P4", "PO7"])
    return {"X": own.X, "y": (own.signs > 0).astype(int), "ch_names": names, "times": 0.1 * np.arange(3)}


@pytest.mark.usefixtures("exact")
def test_selection_is_the_same_as_on_the_host(source, stacks):
    options = SelectOptions(n_resamplings=2, compare=False)
    host, told = select_montage(source, options), []
    with sending(torch.as_tensor):
        found = select_montage(source, options, told.append)
    assert [one.sensors for one in found.montages] == [one.sensors for one in host.montages]
    np.testing.assert_allclose([m.auc for m in found.montages], [m.auc for m in host.montages], atol=1e-9)
    assert found.recommended.n_sensors == host.recommended.n_sensors
    assert found.decoder.selected == host.decoder.selected
    done = [now.done for now in told]
    assert done == sorted(done)
    montages = [now.done for now in told if now.step == "montages and their scores"]
    assert len(set(montages)) > 6  # it grows while all folds are fitted together
