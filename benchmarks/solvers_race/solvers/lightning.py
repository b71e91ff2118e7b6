"""lightning 0.6: its FISTA, with a penalty object of our own; no stopping rule and no warm start, only iterations."""

import numpy as np
from lightning.classification import FistaClassifier


class GroupPenalty:
    """Σ_g ‖w_g‖_2 over the sensors; the last column is the intercept, which lightning has not, and is free."""

    def __init__(self, n_sensors):
        self.n_sensors = n_sensors

    def projection(self, coef, alpha, L):
        blocks = coef[0, :-1].reshape(self.n_sensors, -1)
        norms = np.linalg.norm(blocks, axis=1, keepdims=True)
        shrunk = blocks * np.maximum(1 - alpha / (L * np.maximum(norms, 1e-300)), 0)
        return np.append(shrunk.ravel(), coef[0, -1])[None]

    def regularization(self, coef):
        return np.linalg.norm(coef[0, :-1].reshape(self.n_sensors, -1), axis=1).sum()


class Solver:
    name = "lightning"
    tolerances = (1e-2, 3e-3, 1e-3, 3e-4)

    def set_objective(self, X, y, alphas):
        self.X = np.hstack([X.reshape(len(X), -1), np.ones((len(X), 1))])
        self.y, self.alphas = y, alphas
        self.penalty = GroupPenalty(X.shape[1])

    def run(self, tol):
        self.coefs = []
        for alpha in self.alphas:
            model = FistaClassifier(1 / len(self.y), alpha, penalty=self.penalty, max_iter=round(1 / tol))
            self.coefs.append(model.fit(self.X, self.y).coef_[0])

    def get_result(self):
        coefs = np.stack(self.coefs)
        return coefs[:, :-1], coefs[:, -1]
