"""`GroupSVC`: the classifier of one subject for given parameters."""

import warnings
from dataclasses import replace

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mixnorm.core.arrays import to_numpy
from mixnorm.core.problem import Solution, Stack
from mixnorm.estimators.inputs import Trials, all_or_nothing, class_balance, read_training
from mixnorm.estimators.linear import LinearSensorClassifier
from mixnorm.estimators.objective import (
    Objective,
    adaptive_weights,
    check_alpha,
    largest_alpha,
    solve_with,
    warn_unconverged,
)
from mixnorm.estimators.patterns import haufe_pattern
from mixnorm.estimators.quadratic import Quadratic, check_enough_trials, warn_light_trials
from mixnorm.execution import SolverOptions

#: ``stacklevel`` of a warning that points to the user's line: the function that warns, `fit`, the decorator of `fit`,
#: and the caller.
TO_THE_USER = 4


class SingleSubject(LinearSensorClassifier):
    """Methods that the fits with and without cross-validation have in common."""

    _not_archived = ("_noise",)

    def _keep_noise(self, quadratic: Quadratic | None) -> None:
        """Keep what `noise_` is computed from, without the trials."""
        # The metric alone: the noise of the fit also holds a reference to all trials, which would keep them in memory.
        self._noise = None if quadratic is None or quadratic.noise is None else quadratic.noise.last()

    def _keep_pattern(self, trials: Trials, weights: np.ndarray) -> None:
        """Keep the pattern of the classifier on its training trials, a vector like ``coef_``."""
        self._pattern = haufe_pattern(trials.matrix, self.coef_[0, :], weights).astype(trials.dtype)

    @property
    def filters_(self) -> np.ndarray:
        """Weights (times, channels); for trials that are vectors, (1, d)."""
        check_is_fitted(self)
        return self._by_time(to_numpy(self.coef_)[0])

    @property
    def patterns_(self) -> np.ndarray:
        """Patterns (times, channels): how strongly each feature follows the score (see `haufe_pattern`)."""
        check_is_fitted(self)
        # AttributeError, so that hasattr(model, "patterns_") is False, as for any attribute that is missing
        if "_pattern" not in vars(self):
            raise AttributeError(
                f"This {type(self).__name__} has no patterns_: it was loaded from a file of version 0.1, which does "
                "not contain them. Fit it again."
            )
        return self._by_time(self._pattern)

    def _by_time(self, vector: np.ndarray) -> np.ndarray:
        """Return a vector (d,) as (times, channels), as MNE takes filters and patterns."""
        return vector[None].copy() if self._epochs_shape is None else vector.reshape(self._epochs_shape).T.copy()

    @property
    def noise_(self) -> np.ndarray:
        """N of the fit, (d, d)."""
        noise = vars(self).get("_noise")
        if noise is None:
            raise AttributeError(
                f"This {type(self).__name__} has no noise_: it was not fitted with noise, or was loaded from a file, "
                "which does not contain the matrix. Fit it again with noise."
            )
        return noise.matrix()

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags


class GroupSVC(SingleSubject):
    r"""Large-margin classifier that selects sensors: squared hinge loss and mixed-norm penalty, with a certificate.

    Minimises, over w and b,

        Σ_i s_i max(0, 1 − y_i (x_i·w + b))² / Σ_i s_i + alpha Ω(w)

    with Ω(w) = Σ_g β_g ‖w_g‖_q (``penalty="group"``, the paper's GSVM-q; GSVM-2 for q = 2; GSVM-a with
    ``adaptive=True``), ‖w‖₁ (``"l1"``, SVM-1) or ½ w'N w (``"l2"``, SVM), where N is the identity or, with ``noise``,
    a covariance of the ongoing activity. To a norm, ridge · ½ w'N w may be added. This is the paper's equation 2, with
    the loss averaged over trials instead of summed; its regularisers are equations 3 (ℓ2), 4 (ℓ1), 5 (group) and 6
    (group with weights β).

    With ``windows`` and 0 < τ = ``window_share`` ≤ 1 sensors and windows of time are chosen together:

        Ω(w) = (1 − τ) Σ_s β_s ‖w_s‖₂ + τ Σ_k ‖w^(k)‖₂,

    s over sensors, k over windows (sets of samples of all sensors). A coefficient is zero unless its sensor and its
    window are selected.

    Parameters
    ----------
    alpha : float
        Strength of the penalty; at alpha_max and above no sensor is selected.
    penalty : {"group", "l1", "l2"}
        Which Ω is used: the mixed norm, which selects sensors, the ℓ1 norm, or the squared ℓ2 norm.
    q : float
        Inner norm, 1 ≤ q ≤ 2; for ``penalty="group"``.
    noise : {"structured", "evoked", "kronecker", "toeplitz", "shrunk"}, array of shape (d, d), or None
        N of the quadratic term: None for the identity (the paper), the name of an estimate from the training trials,
        which is scaled to a mean diagonal of 1 (see `mixnorm.noise`), or a positive definite matrix.
        ``penalty="l2", noise="evoked"`` decodes best from few trials. With a norm, ``noise`` requires
        ``ridge`` > 0. Within a sensor the columns must be equally spaced samples in order of time. "evoked" takes the
        sum of the sample weights as the number of trials; where it is 2 or less, "evoked" is "structured", with a
        warning.
    ridge : float
        Strength of the quadratic term that is added to a norm; with ``noise=None`` the penalty is then an elastic net.
        It also applies to sensors of weight 0. Must be 0 with ``penalty="l2"``, whose strength is alpha.
    groups : one label per column of a 2-D X
        The sensor of every feature; None: every column is a sensor. Must be None for epochs (trials, channels, times).
    group_weights : array in the order of ``groups_``, or dict by label
        The weights β_g of the groups; 0: always selected, infinity: never selected.
    windows : int, one label per sample of epochs (per column of a 2-D X), or None
        The windows of time; an integer: so many of equal length, to within one sample, of the samples of every
        sensor. With ``window_share=0`` they have no effect on the fit, and ``window_norms_`` describes it.
    window_share : float
        Weight τ of the windows, from 0 (sensors alone: the norm without windows) to 1 (windows alone). Values above 0
        are for ``penalty="group"`` with ``q=2`` and without ``adaptive``. All windows have the weight 1, whatever
        their length, as all sensors have by default: then τ = 1 is the group norm with windows as groups at the same
        alpha. A sensor of weight 0 is under the norms of the windows alone.
    adaptive : bool
        Whether every group is weighted by 1/‖w*_g‖_q, where w* is a first fit at the same alpha.
    fit_intercept : bool
        Whether b is fitted; it is not penalised. Otherwise b = 0.
    class_weight : dict, "balanced" or None
        Weights of the classes by label, with which the weights of their trials are multiplied; "balanced": so that
        both classes have the same total weight. None: all 1.
    tol : float
        Relative duality gap (P − D)/P to reach.
    max_iter : int
        Largest number of iterations; a warning is given if ``tol`` is not reached.
    solver : {"auto", "newton", "fista", "forward-backward"}
        Algorithm. "auto" is Newton's method; "forward-backward" is the paper's (equation 8).

    Attributes
    ----------
    coef_ : ndarray of shape (1, d)
        The weights w; exactly zero for sensors that are not selected.
    intercept_ : ndarray of shape (1,)
        The intercept b.
    classes_ : ndarray of shape (2,)
        The two labels; scores are positive for the second one.
    groups_ : ndarray of shape (G,)
        Labels of the sensors: sorted, or the channels in order.
    group_norms_ : ndarray of shape (G,)
        ‖w_g‖_q of every sensor.
    selected_groups_ : ndarray
        The sensors whose coefficients are not all zero.
    windows_, window_norms_, selected_windows_ : ndarray
        The same for the windows: labels in order of time, ‖w^(k)‖₂ of each, and those that are not zero. Only if
        ``windows`` was given.
    dual_gap_, objective_ : float
        The certificate: the objective is at most ``dual_gap_ * objective_`` above the optimum.
    n_iter_ : int
        Iterations of the solver.
    filters_, patterns_ : ndarray of shape (times, channels), or (1, d) for trials that are vectors
        The weights, and their patterns: covariance of the training trials × weights / variance of the score (Haufe et
        al. 2014). Plot the patterns: weights also cancel noise, and do not show where a signal comes from.
    noise_ : ndarray of shape (d, d)
        N of the fit, if ``noise`` was given; computed when accessed, and not stored in model files. Rows and columns
        of sensors that are constant or forbidden are zero.

    See Also
    --------
    GroupSVCCV : The same classifier with alpha chosen by cross-validation.
    group_svc_path : Solutions for a whole sequence of alphas.
    SensorSelector : Transformer that keeps a given number of sensors.
    MultiTaskGroupSVC : Joint fit of several subjects.
    mixnorm.eeg.Decoder : From recordings to scores, with this classifier inside.

    Notes
    -----
    With scikit-learn's array API dispatch enabled (``sklearn.config_context(array_api_dispatch=True)``), X may be an
    array of PyTorch, CuPy or another array-API library. The problem is then solved on the device of X, and ``coef_``,
    ``intercept_``, numeric ``classes_``, scores and predictions are arrays of the same library on the same device;
    attributes that describe sensors are NumPy arrays. For NumPy arrays, use `mixnorm.use_device` to solve on a device.

    Examples
    --------
    >>> import numpy as np
    >>> from mixnorm import GroupSVC
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["nontarget", "target"], 50)
    >>> X = rng.standard_normal((100, 4, 3))
    >>> X[y == "target", 2] += 1  # only channel 2 carries the effect
    >>> model = GroupSVC(alpha=0.6).fit(X, y)
    >>> model.selected_groups_
    array([2])
    >>> model.dual_gap_ < 1e-6
    True

    Sensors and windows together: the effect is in the last of three samples.

    >>> X[y == "target", 2] -= [1, 1, 0]
    >>> model = GroupSVC(alpha=0.7, windows=3, window_share=0.5).fit(X, y)
    >>> model.selected_groups_, model.selected_windows_
    (array([2]), array([2]))
    """

    def __init__(
        self,
        alpha=0.01,
        *,
        penalty="group",
        q=2.0,
        noise=None,
        ridge=0.0,
        groups=None,
        group_weights=None,
        windows=None,
        window_share=0.0,
        adaptive=False,
        fit_intercept=True,
        class_weight=None,
        tol=1e-6,
        max_iter=10_000,
        solver="auto",
    ):
        self.alpha = alpha
        self.penalty = penalty
        self.q = q
        self.noise = noise
        self.ridge = ridge
        self.groups = groups
        self.group_weights = group_weights
        self.windows = windows
        self.window_share = window_share
        self.adaptive = adaptive
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.solver = solver

    @all_or_nothing
    def fit(self, X, y, sample_weight=None) -> "GroupSVC":
        """Fit the classifier.

        Parameters
        ----------
        X : array of shape (n, d) or (n, channels, times), DataFrame, or mne.Epochs (EEG taken in µV)
            The training trials.
        y : array of shape (n,)
            Any two labels.
        sample_weight : array of shape (n,), or None
            The weights s_i of the trials; None: all 1.

        Returns
        -------
        GroupSVC
            The fitted classifier.
        """
        # Parameters first: an error in them should not wait until the data are read.
        alpha, options = check_alpha(self.alpha), SolverOptions.of(self)
        objective = Objective.of(self, self.q, self.ridge, self.window_share)
        trials, self.classes_, signs, weights = read_training(self, X, y, sample_weight)
        stack = objective.stack(
            trials, signs, class_balance(weights, signs, self.classes_, self.class_weight)[:, None]
        )
        quadratic = objective.quadratic(stack, weights[:, None])
        check_enough_trials(objective.noise, signs, weights, self.classes_)
        warn_light_trials(objective.noise, weights, TO_THE_USER)
        alphas = np.full((1, 1, 1), alpha)
        solution = solve_with(quadratic, stack, alphas, options)[0]
        solved = [solution]
        if self.adaptive:
            # The second stage keeps alpha: the weights are divided by their geometric mean, so that its meaning stays.
            stack = second_stage(stack, solution, objective.q)
            solution = solve_with(quadratic, stack, alphas, options)[0]
            solved.append(solution)
        else:
            # With the adaptive norm, `second_stage` warns of the same.
            warn_zero_model(alpha, solution, stack, quadratic)
        warn_unconverged(solved, self.tol, stacklevel=TO_THE_USER)
        self._keep(trials, stack, solution, objective.norm_order)
        self._set_windows(objective.window_groups(trials))
        self._keep_noise(quadratic)
        self._keep_pattern(trials, weights)
        return self

    @property
    def predict_proba(self):
        """Not available: a single fit has no held-out trials that could calibrate its scores."""
        raise AttributeError(
            "GroupSVC has no probabilities, because it has no held-out trials to calibrate its scores with. Use "
            "GroupSVCCV, or sklearn.calibration.CalibratedClassifierCV(GroupSVC(...))."
        )


def second_stage(stack: Stack, first: Solution, q: float) -> Stack:
    """Return the stack with the adaptive weights of a first-stage solution, problem by problem."""
    beta = adaptive_weights(first.W[0], stack.groups, q, stack.group_weights[0])
    if not np.isfinite(beta[:, -1]).any():
        warnings.warn(
            "The first stage of the adaptive norm chose no sensor, so that the second stage has none and all "
            "coefficients are zero; use a smaller alpha.",
            UserWarning,
            stacklevel=3,
        )
    return replace(stack, group_weights=beta[None])


def warn_zero_model(alpha: float, solution: Solution, stack: Stack, quadratic: Quadratic | None = None) -> None:
    """Warn if alpha is at or above alpha_max, and give alpha_max."""
    # ℓ2 selects all sensors at any alpha, and sensors of weight 0 are selected in any case.
    if solution.W.any() or not stack.penalty.is_norm or stack.has_unpenalised:
        return
    top = largest_alpha(stack, quadratic)
    if alpha >= top:
        warnings.warn(
            f"alpha={alpha:.3g} is at or above alpha_max={top:.6g}: no sensor is chosen and all coefficients are "
            "zero; use a smaller alpha.",
            UserWarning,
            stacklevel=TO_THE_USER,
        )
