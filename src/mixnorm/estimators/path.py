"""`group_svc_path`: the solutions at a sequence of alphas, each started from the one before."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator

from mixnorm.estimators.inputs import check_both_classes, read_training
from mixnorm.estimators.objective import (
    Objective,
    as_noise,
    check_alphas,
    check_window_share,
    solve_with,
    warn_unconverged,
)
from mixnorm.estimators.quadratic import check_enough_trials, warn_light_trials
from mixnorm.execution import SolverOptions


@dataclass(frozen=True, eq=False)
class Path:
    """Result of `group_svc_path`.

    Attributes
    ----------
    alphas : ndarray of shape (A,)
        Strengths of the penalty, in the order in which they were given or computed.
    coefs : ndarray of shape (A, d)
        Weights at every alpha; exactly zero for sensors that are not selected.
    intercepts : ndarray of shape (A,)
        Intercepts at every alpha.
    dual_gaps : ndarray of shape (A,)
        Relative duality gaps (P − D)/P.
    objectives : ndarray of shape (A,)
        Values P of the objective.
    n_iters : ndarray of shape (A,)
        Iterations of the solver.

    See Also
    --------
    group_svc_path : Computes it.

    Examples
    --------
    >>> import numpy as np
    >>> from mixnorm import group_svc_path
    >>> y = np.tile([0, 1], 30)
    >>> X = np.random.default_rng(0).standard_normal((60, 4, 3)) + y[:, None, None]
    >>> path = group_svc_path(X, y, alphas=5)
    >>> path.coefs.shape, bool(path.coefs[0].any())  # no sensor is selected at alpha_max
    ((5, 12), False)
    """

    alphas: np.ndarray
    coefs: np.ndarray
    intercepts: np.ndarray
    dual_gaps: np.ndarray
    objectives: np.ndarray
    n_iters: np.ndarray


def group_svc_path(
    X,
    y,
    *,
    groups: Sequence | None = None,
    alphas: int | Sequence[float] = 20,
    penalty: str = "group",
    q: float = 2.0,
    noise=None,
    ridge: float = 0.0,
    group_weights=None,
    windows=None,
    window_share: float = 0.0,
    sample_weight=None,
    fit_intercept: bool = True,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    solver: str = "auto",
) -> Path:
    """Compute a path of squared-hinge classifiers with the regularisers of the paper.

    The problem is that of `GroupSVC` (the paper's equations 2 to 6). Inside `mixnorm.use_device` the path is computed
    on the device.

    Parameters
    ----------
    X : array of shape (n, d) or (n, channels, times), DataFrame, or mne.Epochs
        The trials.
    y : array of shape (n,)
        Any two labels.
    groups : one label per column of a 2-D X
        The sensor of every feature; None: every column is a sensor. Must be None for epochs.
    alphas : int or sequence
        A number: that many from alpha_max down to 1e-3 of it, log-spaced. A sequence: as given, in any order.
    penalty : {"group", "l1", "l2"}
        Which norm is the penalty, as in `GroupSVC`.
    q : float
        Inner norm, 1 ≤ q ≤ 2; for penalty="group".
    noise : str, array of shape (d, d), or None
        Covariance N of the quadratic term, as in `GroupSVC`; the grid of alphas for penalty="l2" with noise starts at
        100 alpha_max.
    ridge : float
        Strength of the quadratic term that is added to a norm, as in `GroupSVC`.
    group_weights : array in the order of the sorted labels (channels in order for epochs), or dict by label
        0: not penalised and always selected; infinity: never selected.
    windows : int, one label per sample of epochs (per column of a 2-D X), or None
        The windows of time, as in `GroupSVC`.
    window_share : float
        Weight τ of the norms of windows, from 0 to 1, as in `GroupSVC`.
    sample_weight : array of shape (n,), or None
        Weights of the trials; None: all 1.
    fit_intercept : bool
        Whether an intercept is fitted; it is not penalised.
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Largest number of iterations for one alpha.
    solver : {"auto", "newton", "fista", "forward-backward"}
        Algorithm, as in `GroupSVC`.

    Returns
    -------
    Path
        Coefficients and certificates, one row per alpha.

    See Also
    --------
    GroupSVC : The classifier for one alpha.
    GroupSVCCV : Chooses alpha by cross-validation.

    Examples
    --------
    >>> import numpy as np
    >>> from mixnorm import group_svc_path
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 50)
    >>> X = rng.standard_normal((100, 4, 3))
    >>> X[y == 1, 2] += 1  # only channel 2 carries the effect
    >>> path = group_svc_path(X, y)
    >>> np.flatnonzero(path.coefs[1].reshape(4, 3).any(axis=1))  # the first to enter
    array([2])
    >>> bool(path.dual_gaps.max() < 1e-6)
    True
    """
    # A function has no estimator to note the features on; an empty one takes them.
    trials, classes, signs, weights = read_training(BaseEstimator(), X, y, sample_weight)
    check_both_classes(weights, signs, classes)
    share = check_window_share(window_share, windows, penalty, q, adaptive=False)
    objective = Objective(penalty, q, groups, group_weights, fit_intercept, as_noise(noise), ridge, windows, share)
    stack = objective.stack(trials, signs, weights[:, None])
    quadratic = objective.quadratic(stack, weights[:, None])
    check_enough_trials(objective.noise, signs, weights, classes)
    warn_light_trials(objective.noise, weights, stacklevel=3)
    grid = check_alphas(alphas, stack, quadratic)
    solutions = solve_with(quadratic, stack, grid[:, None, None], SolverOptions(solver, tol, max_iter))
    warn_unconverged(solutions, tol)
    return Path(
        grid,
        np.stack([s.W[0, 0, :, 0] for s in solutions]).astype(trials.dtype),
        np.stack([s.b[0, 0, 0] for s in solutions]).astype(trials.dtype),
        np.stack([s.gap[0, 0] for s in solutions]),
        np.stack([s.objective[0, 0] for s in solutions]),
        np.stack([s.n_iter[0, 0] for s in solutions]),
    )
