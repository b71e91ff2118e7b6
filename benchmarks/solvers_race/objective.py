"""What every solver minimises, and how good its answer is: the harness grades, a solver never grades itself."""

import warnings

import numpy as np

from mixnorm import group_svc_path
from mixnorm.core.certificate import certify
from mixnorm.estimators import objective as estimators_objective
from mixnorm.estimators.inputs import read_fit

#: The tasks: a whole path of alphas, or one fit, as shares of alpha_max.
TASKS = {"path": np.geomspace(1, 1e-3, 20), "fit": np.array([0.1])}


#: The relative gap of the points that all others are compared with.
REFERENCE_TOL = 1e-12


class Objective:
    """mean_i max(0, 1 − y_i (x_i·w + b))² + alpha Σ_g ‖w_g‖_2 at every alpha of a task, b free, g the sensors.

    Parameters
    ----------
    X : array of shape (n, sensors, samples)
    y : array of shape (n,), −1 or +1
    task : {"path", "fit"}
    """

    def __init__(self, X: np.ndarray, y: np.ndarray, task: str):
        self.X, self.y = X, y
        method = estimators_objective.Objective("group", 2.0, None, None, True)
        self.stack = method.stack(read_fit(_Nobody(), X, y)[0], y, np.ones((len(y), 1)))
        self.alphas = estimators_objective.largest_alpha(self.stack) * TASKS[task]

    def reference(self) -> dict:
        """Return the objectives (A,) and relative gaps (A,) of mixnorm at the tolerance of the reference."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # rounding may leave it at 1e-11; the gap is reported
            path = group_svc_path(self.X, self.y, alphas=self.alphas, tol=REFERENCE_TOL)
        return self.evaluate(path.coefs, path.intercepts)

    def evaluate(self, coefs: np.ndarray, intercepts: np.ndarray) -> dict:
        """Return the objectives (A,) at the points as they are, and their relative duality gaps (A,)."""
        objectives, gaps = [], []
        for alpha, w, b in zip(self.alphas, coefs, intercepts):
            stack = self.stack.with_alpha(np.full((1, 1), alpha))
            W, b = w.reshape(1, 1, -1, 1), np.reshape(b, (1, 1, 1))
            objectives.append(stack.objective(W, stack.scores(W, b)).item())
            gaps.append(certify(stack, W, b).gap.item())
        return {"objectives": objectives, "gaps": gaps}


class _Nobody:
    """An estimator to validate data for."""
