"""The objective for the conic solvers that cvxpy knows."""

import cvxpy
import numpy as np


class ConicSolver:
    """A path through cvxpy: one problem whose alpha is a parameter, compiled once."""

    largest = 500_000  # numbers in X; beyond, it takes hours

    def set_objective(self, X, y, alphas):
        n, n_sensors, n_samples = X.shape
        self.w, self.b = cvxpy.Variable((n_sensors, n_samples)), cvxpy.Variable()
        self.alpha, self.alphas = cvxpy.Parameter(pos=True), alphas
        scores = X.reshape(n, -1) @ cvxpy.vec(self.w, order="C") + self.b
        loss = cvxpy.sum_squares(cvxpy.pos(1 - cvxpy.multiply(y, scores))) / n
        penalty = cvxpy.sum(cvxpy.norm(self.w, axis=1))
        self.problem = cvxpy.Problem(cvxpy.Minimize(loss + self.alpha * penalty))

    def run(self, tol):
        self.coefs, self.intercepts = [], []
        for alpha in self.alphas:
            self.alpha.value = alpha
            self.problem.solve(**self.options(tol))
            self.coefs.append(self.w.value.ravel())
            self.intercepts.append(self.b.value)

    def get_result(self):
        return np.stack(self.coefs), np.array(self.intercepts)
