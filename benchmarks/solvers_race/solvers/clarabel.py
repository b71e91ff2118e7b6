"""Clarabel, an interior-point conic solver, through cvxpy."""

from _conic import ConicSolver


class Solver(ConicSolver):
    name = "Clarabel"
    tolerances = (1e-4, 1e-6, 1e-8)

    def options(self, tol):
        return {"solver": "CLARABEL", "tol_gap_abs": tol, "tol_gap_rel": tol, "tol_feas": tol}
