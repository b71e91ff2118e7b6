"""SCS, a first-order conic solver, through cvxpy; warm-started along the path."""

from _conic import ConicSolver


class Solver(ConicSolver):
    name = "SCS"
    tolerances = (1e-5, 1e-6, 1e-7)

    def options(self, tol):
        return {"solver": "SCS", "eps_abs": tol, "eps_rel": tol, "max_iters": 100_000, "warm_start": True}
