"""The benchmarks grade what they are told to grade: their problems, their objective, their ranking of points."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
RACE = BENCHMARKS / "solvers_race"
pytestmark = pytest.mark.skipif(not RACE.exists(), reason="benchmarks are not part of the source distribution")


@pytest.fixture
def race(monkeypatch):
    for folder in (BENCHMARKS, RACE):
        monkeypatch.syspath_prepend(str(folder))
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.setenv(name, "1")  # as the runner does for good when it is imported
    import race

    return race


@pytest.fixture
def problem(race):
    from _problems import eeg_like

    return eeg_like(60, 5, 3, seed=3)


def objective_by_formula(X, y, w, b, alpha):
    loss = sum(max(0.0, 1 - label * (trial.ravel() @ w + b)) ** 2 for trial, label in zip(X, y, strict=True)) / len(y)
    return loss + alpha * sum(np.sqrt((block**2).sum()) for block in w.reshape(X.shape[1], -1))


def test_the_problem_is_as_described(race):
    from _problems import eeg_like

    X, y = eeg_like(2000, 32, 8, seed=0)
    assert (y > 0).mean() == 0.17
    assert np.allclose(X.mean(axis=0), 0, atol=1e-12)
    assert np.allclose(X.std(axis=0), 1)
    background = X[y < 0].reshape(-1, 256)
    correlation = np.corrcoef(background.T).reshape(32, 8, 32, 8)
    over_time = np.mean([correlation[g, t, g, t + 1] for g in range(32) for t in range(7)])
    nearest = np.mean([np.sort(np.abs(correlation[g, 4, :, 4]))[-2] for g in range(32)])
    assert over_time > 0.4
    assert nearest > 0.7
    assert np.array_equal(eeg_like(50, 4, 3, seed=1)[0], eeg_like(50, 4, 3, seed=1)[0])
    assert not np.array_equal(eeg_like(50, 4, 3, seed=1)[0], eeg_like(50, 4, 3, seed=2)[0])


def test_points_are_graded_by_the_formula_as_they_are(race, problem):
    X, y = problem
    objective = race.Objective(X, y, "path")
    rng = np.random.default_rng(0)
    coefs, intercepts = rng.standard_normal((20, 15)), rng.standard_normal(20)
    found = objective.evaluate(coefs, intercepts)
    points = zip(coefs, intercepts, objective.alphas, strict=True)
    assert np.allclose(found["objectives"], [objective_by_formula(X, y, *point) for point in points], rtol=1e-12)
    assert min(found["gaps"]) > 1e-3


def test_the_worst_alpha_counts_and_the_lowest_objective_of_all_is_the_optimum(race):
    points = {"one": [{"objectives": [1.0, 3.0]}], "other": [{"objectives": [1.1, 2.0]}]}
    record = {"solvers": points, "reference": {"objectives": [1.0, 2.5]}}
    race.grade(record)
    assert points["one"][0]["suboptimality"] == pytest.approx(0.5)
    assert points["other"][0]["suboptimality"] == pytest.approx(0.1)
    assert record["reference_above_best"] == pytest.approx(0.25)


@pytest.mark.parametrize("solver", ["mixnorm", "numpy_fista"])
def test_a_solver_is_run_apart_and_reaches_what_it_was_asked_for(race, problem, solver, tmp_path):
    X, y = problem
    objective = race.Objective(X, y, "path")
    np.savez(tmp_path / "data.npz", X=X, y=y, alphas=objective.alphas)
    command = [RACE / "_worker.py", RACE / "solvers" / f"{solver}.py", tmp_path / "data.npz", tmp_path, "--repeats", 1]
    subprocess.run([sys.executable, *map(str, command)], check=True, timeout=300)
    points = [race.read_point(file, objective) for file in sorted(tmp_path.glob("[0-9]*.npz"))]
    assert [point["tol"] for point in points] == list(
        race.load_class(RACE / "solvers" / f"{solver}.py", "Solver").tolerances
    )
    assert all(max(point["gaps"]) <= 1.01 * point["tol"] + 1e-12 for point in points)
    assert all(point["seconds"] > 0 for point in points)
