"""skglm 0.5: block coordinate descent with working sets and Anderson acceleration; our own datafit, in numba."""

import warnings

import numpy as np
from numba import int32
from skglm.datafits.base import BaseDatafit
from skglm.penalties import WeightedGroupL2
from skglm.solvers import GroupBCD
from skglm.utils.jit_compilation import compiled_clone


class SquaredHingeGroup(BaseDatafit):
    """mean_i max(0, 1 − y_i (Xw)_i)²."""

    def __init__(self, grp_ptr, grp_indices):
        self.grp_ptr, self.grp_indices = grp_ptr, grp_indices

    def get_spec(self):
        return (("grp_ptr", int32[:]), ("grp_indices", int32[:]))

    def params_to_dict(self):
        return {"grp_ptr": self.grp_ptr, "grp_indices": self.grp_indices}

    def get_lipschitz(self, X, y):
        lipschitz = np.zeros(len(self.grp_ptr) - 1)
        for g in range(len(lipschitz)):
            X_g = X[:, self.grp_ptr[g] : self.grp_ptr[g + 1]]
            lipschitz[g] = 2 * np.linalg.norm(X_g, ord=2) ** 2 / len(y)
        return lipschitz

    def initialize(self, X, y):
        pass

    def value(self, y, w, Xw):
        return np.mean(np.maximum(1 - y * Xw, 0) ** 2)

    def gradient_g(self, X, y, w, Xw, g):
        raw = y * np.maximum(1 - y * Xw, 0) * (-2 / len(y))
        return X[:, self.grp_ptr[g] : self.grp_ptr[g + 1]].T @ raw

    def intercept_update_step(self, y, Xw):
        return -np.mean(y * np.maximum(1 - y * Xw, 0))


class Solver:
    name = "skglm"
    tolerances = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)

    def set_objective(self, X, y, alphas):
        n, n_sensors, n_samples = X.shape
        self.X, self.y, self.alphas = np.asfortranarray(X.reshape(n, -1)), y, alphas
        pointers = np.arange(n_sensors + 1, dtype=np.int32) * np.int32(n_samples)
        indices = np.arange(n_sensors * n_samples, dtype=np.int32)
        self.datafit = compiled_clone(SquaredHingeGroup(pointers, indices))
        self.penalty = compiled_clone(WeightedGroupL2(1.0, np.ones(n_sensors), pointers, indices))

    def warm_up(self):
        """The JIT's seconds are not timed."""
        self.run(1e-1)

    def run(self, tol):
        w, Xw = np.zeros(self.X.shape[1] + 1), np.zeros(len(self.y))
        self.coefs = []
        solver = GroupBCD(tol=tol, fit_intercept=True, max_iter=200, max_epochs=1000)
        for alpha in self.alphas:
            self.penalty.alpha = alpha
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                w = solver._solve(self.X, self.y, self.datafit, self.penalty, w, Xw)[0]
            self.coefs.append(w.copy())

    def get_result(self):
        coefs = np.stack(self.coefs)
        return coefs[:, :-1], coefs[:, -1]
