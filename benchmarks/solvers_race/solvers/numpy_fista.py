"""Restarted FISTA as a competent person writes it in NumPy: backtracking, two products with X per iteration."""

import numpy as np


class Solver:
    name = "FISTA, NumPy"
    tolerances = (1e-2, 3e-3, 1e-3, 5e-4, 2e-4, 1e-4, 1e-5, 1e-6)
    max_iter = 100_000

    def set_objective(self, X, y, alphas):
        n, self.n_sensors, self.n_samples = X.shape
        # The intercept is the coefficient of a last column, which the prox leaves alone.
        self.X = np.hstack([X.reshape(n, -1), np.ones((n, 1))])
        self.y, self.alphas = y, alphas

    def run(self, tol):
        w = np.zeros(self.X.shape[1])
        self.step = 1.0 / np.linalg.norm(self.X[:, 0]) ** 2 * len(self.y)
        self.coefs = []
        for alpha in self.alphas:
            w = self._solve(w, alpha, tol)
            self.coefs.append(w)

    def get_result(self):
        coefs = np.stack(self.coefs)
        return coefs[:, :-1], coefs[:, -1]

    def _solve(self, w, alpha, tol):
        Xw = self.X @ w
        w_old, Xw_old, theta = w, Xw, 1.0
        for k in range(self.max_iter):
            if k % 20 == 0:
                gap, b = self._gap(w, Xw, alpha)
                if gap <= tol:
                    return np.append(w[:-1], b)
            theta_new = (1 + np.sqrt(1 + 4 * theta**2)) / 2
            pull, theta = (theta - 1) / theta_new, theta_new
            v, Xv = w + pull * (w - w_old), Xw + pull * (Xw - Xw_old)
            slack = np.maximum(1 - self.y * Xv, 0)
            value, gradient = slack @ slack / len(slack), self.X.T @ (self.y * slack) * (-2 / len(slack))
            self.step *= 1.02  # and back again where it was too long
            while True:
                new = self._prox(v - self.step * gradient, alpha * self.step)
                Xnew, move = self.X @ new, new - v
                model = value + gradient @ move + move @ move / (2 * self.step)
                rounding = 1e-13 * value + 1e-14 * np.sqrt(value)
                if np.mean(np.maximum(1 - self.y * Xnew, 0) ** 2) <= model + rounding:
                    break
                self.step /= 1.5
            if (v - new) @ (new - w) > 0:
                theta = 1.0
            w_old, Xw_old, w, Xw = w, Xw, new, Xnew
        return w

    def _prox(self, v, threshold):
        blocks = v[:-1].reshape(self.n_sensors, self.n_samples)
        norms = np.sqrt(np.einsum("gt,gt->g", blocks, blocks))
        shrunk = blocks * np.maximum(1 - threshold / np.maximum(norms, 1e-300), 0)[:, None]
        return np.append(shrunk.ravel(), v[-1])

    def _gap(self, w, Xw, alpha):
        """Relative gap at the best intercept, which makes the dual point feasible up to its scale; and that."""
        n, y = len(self.y), self.y
        b = _intercept(Xw - w[-1], y, w[-1])
        Xw = Xw - w[-1] + b
        slack = np.maximum(1 - y * Xw, 0)
        norms = np.linalg.norm(w[:-1].reshape(self.n_sensors, -1), axis=1)
        primal = slack @ slack / n + alpha * norms.sum()
        a = 2 * slack / n
        v = np.linalg.norm((self.X.T @ (a * y))[:-1].reshape(self.n_sensors, -1), axis=1)
        total, square = a.sum(), a @ a * n / 4
        kappa = min(total / (2 * square), alpha / v.max()) if square > 0 else 0.0
        return (primal - kappa * total + kappa**2 * square) / primal, b


def _intercept(scores, y, b):
    """Newton's method in the intercept alone: the loss is piecewise quadratic in it."""
    for _ in range(50):
        open_ = y * (scores + b) < 1
        if not open_.any():
            break
        new = np.mean((y - scores)[open_])
        if abs(new - b) < 1e-15 * (1 + abs(b)):
            break
        b = new
    return b
