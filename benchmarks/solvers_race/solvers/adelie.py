"""adelie 1.1: block coordinate descent in C++ inside proximal Newton; the loss is a GLM of our own in NumPy."""

import adelie
import numpy as np


class SquaredHinge(adelie.glm.GlmBase64):
    """mean_i max(0, 1 − y_i η_i)² with its generalised Hessian: 2/n for trials inside the margin, else 0."""

    def __init__(self, y):
        self.y, self.w = y, np.full(len(y), 1 / len(y))
        adelie.glm.GlmBase64.__init__(self, "squared_hinge", self.y, self.w)

    def gradient(self, eta, grad):
        grad[...] = 2 * self.w * self.y * np.maximum(1 - self.y * eta, 0)

    def hessian(self, eta, grad, hess):
        hess[...] = 2 * self.w * (self.y * eta < 1)

    def loss(self, eta):
        slack = np.maximum(1 - self.y * eta, 0)
        return slack @ (self.w * slack)

    def loss_full(self):
        return 0.0


class Solver:
    name = "adelie"
    tolerances = (1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 5e-13, 1e-13)

    def set_objective(self, X, y, alphas):
        n, n_sensors, n_samples = X.shape
        self.X = np.asfortranarray(X.reshape(n, -1))
        self.options = {
            "glm": SquaredHinge(y),
            "groups": np.arange(n_sensors) * n_samples,
            "penalty": np.ones(n_sensors),
            "lmda_path": alphas,
            "early_exit": False,
            "progress_bar": False,
            "n_threads": 1,
        }

    def run(self, tol):
        self.state = adelie.grpnet(self.X, tol=tol, irls_tol=tol, **self.options)

    def get_result(self):
        return self.state.betas.toarray(), np.asarray(self.state.intercepts)
