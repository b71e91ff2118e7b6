"""The single-subject estimators: one fit, and a fit with its parameters chosen by cross-validation."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from sklearn.utils.metadata_routing import MetadataRouter

from mixnorm.core.problem import Solution, Stack
from mixnorm.estimators.choice import Choice, check_rule, choose, count_selected
from mixnorm.estimators.folds import Fold, cv_routing, route, score_folds, split_folds
from mixnorm.estimators.inputs import Trials, all_or_nothing, encode_labels, read_fit
from mixnorm.estimators.linear import LinearSensorClassifier
from mixnorm.estimators.objective import (
    Objective,
    check_alpha,
    check_alphas,
    largest_alpha,
    make_penalty,
    warn_unconverged,
)
from mixnorm.estimators.weights import adaptive_weights, check_sample_weight, class_balance
from mixnorm.execution import SolverOptions, solve, together_elsewhere

#: From a warning up through the function that warns, `fit` and its guard.
_TO_THE_USER = 4


class _SingleSubject(LinearSensorClassifier):
    """What fitting has in common, with and without cross-validation."""

    def _read(self, X, y, sample_weight) -> tuple[Trials, np.ndarray, np.ndarray]:
        """Validate X, y and the weights; return the trials, y as −1 and +1, and the weights of trials."""
        trials, y = read_fit(self, X, y)
        self.classes_, signs = encode_labels(y)
        weights = check_sample_weight(sample_weight, len(signs))
        return trials, signs, weights

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags


class GroupSVC(_SingleSubject):
    r"""Large-margin classifier that chooses its sensors: squared hinge with a mixed-norm penalty, certified.

    Minimises, over w and b,

        Σ_i s_i max(0, 1 − y_i (x_i·w + b))² / Σ_i s_i + alpha Ω(w)

    with Ω(w) = Σ_g β_g ‖w_g‖_q (``penalty="group"``, the paper's GSVM-q; GSVM-2 for q = 2; GSVM-a with
    ``adaptive=True``), ‖w‖₁ (``"l1"``, SVM-1) or ½‖w‖² (``"l2"``, SVM).

    Parameters
    ----------
    alpha : float
        Strength of the penalty; at alpha_max and above no sensor is chosen.
    penalty : {"group", "l1", "l2"}
    q : float
        Inner norm, 1 ≤ q ≤ 2; for ``penalty="group"``.
    groups : one label per column of a 2-D X
        Which sensor a feature belongs to; None: every column its own. Epochs (trials, channels, times) need none.
    group_weights : array in the order of ``groups_``, or dict by label
        β; 0: always kept, infinity: never chosen.
    adaptive : bool
        Weigh every group by 1/‖w*_g‖_q of a first fit at the same alpha.
    fit_intercept : bool
    class_weight : dict, "balanced" or None
    tol : float
        Relative duality gap (P − D)/P to reach.
    max_iter : int
    solver : {"auto", "newton", "fista", "forward-backward"}

    Attributes
    ----------
    coef_ : ndarray of shape (1, d)
    intercept_ : ndarray of shape (1,)
    classes_ : ndarray of shape (2,)
    groups_ : ndarray of shape (G,)
        Labels of the sensors: sorted, or the channels in order.
    group_norms_ : ndarray of shape (G,)
        ‖w_g‖_q of every sensor.
    selected_groups_ : ndarray
        The sensors whose coefficients are not all zero.
    dual_gap_, objective_ : float
        The certificate: the objective is at most ``dual_gap_ * objective_`` above the optimum.
    n_iter_ : int

    Notes
    -----
    With scikit-learn's array API dispatch enabled (``sklearn.config_context(array_api_dispatch=True)``), X may be an
    array of PyTorch, CuPy or another array-API library: the problem is solved where X lives, ``coef_``, ``intercept_``
    and numeric ``classes_`` live there too, and scores and predictions come back in the same library and on the same
    device; what names sensors stays in NumPy. NumPy arrays are solved on a device inside `mixnorm.use_device`.

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
    """

    def __init__(
        self,
        alpha=0.01,
        *,
        penalty="group",
        q=2.0,
        groups=None,
        group_weights=None,
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
        self.groups = groups
        self.group_weights = group_weights
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
        y : array of shape (n,)
            Any two labels.
        sample_weight : array of shape (n,)

        Returns
        -------
        self
        """
        alpha, objective, options = check_alpha(self.alpha), Objective.of(self, self.q), SolverOptions.of(self)
        trials, signs, weights = self._read(X, y, sample_weight)
        weights = class_balance(weights, signs, self.classes_, self.class_weight)
        stack = objective.stack(trials, signs, weights[:, None])
        alphas = np.full((1, 1, 1), alpha)
        solution = solve(stack, alphas, options)[0]
        solved = [solution]
        if self.adaptive:
            stack = second_stage(stack, solution, objective.q)
            solution = solve(stack, alphas, options)[0]
            solved.append(solution)
        else:
            warn_zero_model(alpha, solution, stack)
        warn_unconverged(solved, self.tol, stacklevel=_TO_THE_USER)
        self._keep(trials, stack, solution, objective.norm_order)
        return self


class GroupSVCCV(_SingleSubject):
    r"""`GroupSVC` with alpha, and q if several are given, chosen by cross-validation.

    All folds and alphas, and the path of the refit on all trials, go to the solver in one call.

    Parameters
    ----------
    alphas : int or sequence of floats
        A number: a log grid from alpha_max (on all training data, for each q) down to 1e-3 of it.
    penalty, groups, group_weights, fit_intercept, class_weight, tol, max_iter, solver
        As in `GroupSVC`; so are arrays of other libraries, and devices, on which ``n_jobs`` has no effect.
    q : float or sequence of floats
    adaptive : bool
        The adaptive norm: alpha of a first stage is chosen by CV with plain weights, then every fold takes its
        weights β_g = 1/‖w*_g‖_q (over their geometric mean) from its own first-stage fit, the refit from the full one.
    cv : int, splitter or iterable of splits
    scoring : str or callable
    rule : {"best", "1se"}
        The best mean score (among scores within 1e-12 the sparser model), or the largest alpha whose mean score is
        within one standard error of the best (for several q the one with the fewest sensors).
    max_sensors : int or None
        Only models with at most this many sensors are considered.
    n_jobs : int or None
        Folds in parallel.

    Attributes
    ----------
    alpha_, q_ : float
        What was chosen.
    alphas_ : ndarray of shape (A,), or (Q, A) for several q
    scores_ : ndarray of shape (A, folds) or (Q, A, folds)
    n_selected_ : ndarray of shape (A,) or (Q, A)
        Number of sensors along the refit path.
    path_coefs_, path_intercepts_ : ndarray of shape (A, d) and (A,)
        The refit path at the chosen q: what fewer or more sensors would have given.
    coef_, intercept_, classes_, groups_, group_norms_, selected_groups_, n_iter_, dual_gap_, objective_
        Of the model refitted on all trials, as in `GroupSVC`.

    Examples
    --------
    >>> import numpy as np
    >>> from mixnorm import GroupSVCCV
    >>> rng = np.random.default_rng(0)
    >>> y = np.tile([0, 1], 60)
    >>> X = rng.standard_normal((120, 6, 3))
    >>> X[y == 1, 2] += 1
    >>> model = GroupSVCCV(alphas=10, rule="1se").fit(X, y)
    >>> model.selected_groups_
    array([2])
    """

    def __init__(
        self,
        alphas=20,
        *,
        penalty="group",
        q=2.0,
        groups=None,
        group_weights=None,
        adaptive=False,
        fit_intercept=True,
        class_weight=None,
        cv=3,
        scoring="roc_auc",
        rule="best",
        max_sensors=None,
        n_jobs=None,
        tol=1e-6,
        max_iter=10_000,
        solver="auto",
    ):
        self.alphas = alphas
        self.penalty = penalty
        self.q = q
        self.groups = groups
        self.group_weights = group_weights
        self.adaptive = adaptive
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.cv = cv
        self.scoring = scoring
        self.rule = rule
        self.max_sensors = max_sensors
        self.n_jobs = n_jobs
        self.tol = tol
        self.max_iter = max_iter
        self.solver = solver

    @all_or_nothing
    def fit(self, X, y, sample_weight=None, **params) -> "GroupSVCCV":
        """Choose the parameters by cross-validation and fit on all trials.

        Parameters
        ----------
        X : array of shape (n, d) or (n, channels, times), DataFrame, or mne.Epochs (EEG taken in µV)
        y : array of shape (n,)
        sample_weight : array of shape (n,)
            Also given to the scorer.
        **params : dict
            ``groups``: one label per trial, for a group-wise splitter (trials of one character stay together). With
            metadata routing enabled, whatever splitter and scorer request.

        Returns
        -------
        self
        """
        several, qs = self._qs()
        check_rule(self.rule, self.max_sensors)
        trials, signs, weights = self._read(X, y, sample_weight)
        routed = route(self, params, sample_weight)
        labels = self.classes_[(signs > 0).astype(int)]
        folds = split_folds(self.cv, trials.matrix, labels, routed.split, self.scoring)
        options, objectives = SolverOptions.of(self), [Objective.of(self, q) for q in qs]
        stack = objectives[0].stack(trials, signs, self._columns(weights, signs, folds))
        parts = [trials.matrix[fold.test] for fold in folds]
        score = partial(
            score_folds, folds=folds, parts=parts, labels=labels, scoring=self.scoring, params=routed.score
        )
        stacks = [replace(stack, penalty=make_penalty(self.penalty, q)) for q in qs]
        stages = together_elsewhere(
            [partial(self._stages, q, own, options, score) for q, own in zip(qs, stacks, strict=True)]
        )
        candidates = [stage[-1] for stage in stages]
        best, alpha = choose(candidates, self.rule, self.max_sensors)
        self._set_choice(candidates, several, qs, best, alpha)
        found = candidates[best]
        solved = [solution for stage in stages for choice in stage for solution in choice.solutions]
        warn_unconverged(solved, self.tol, stacklevel=_TO_THE_USER)
        self._keep(trials, found.stack, found.solutions[alpha], objectives[best].norm_order)
        self.path_coefs_ = np.stack([s.W[0, 0, :, -1] for s in found.solutions]).astype(trials.dtype)
        self.path_intercepts_ = np.stack([s.b[0, 0, -1] for s in found.solutions]).astype(trials.dtype)
        return self

    def _qs(self) -> tuple[bool, list[float]]:
        several = np.ndim(self.q) > 0
        qs = list(np.atleast_1d(np.asarray(self.q, dtype=object)))
        if not qs:
            raise ValueError("q must hold at least one value.")
        # With ℓ1 and ℓ2 all q are the same method.
        return several, qs

    def _columns(self, weights: np.ndarray, signs: np.ndarray, folds: list[Fold]) -> np.ndarray:
        """Weights (n, folds + 1): the training trials of every fold, then all trials for the refit."""
        how = signs, self.classes_, self.class_weight
        everything = class_balance(weights, *how)  # first: a class without any trial is no fold's fault
        columns = [
            class_balance(weights * fold.train, *how, f"in the training part of fold {k} of cv ")
            for k, fold in enumerate(folds)
        ]
        return np.stack([*columns, everything], axis=1)

    def _stages(self, q: float, stack: Stack, options: SolverOptions, score: Callable) -> list[Choice]:
        """Solve and score the grid of one q; for the adaptive norm, twice."""
        found = self._grid(stack, options, score)
        if not self.adaptive:
            return [found]
        _, first = choose([found], "best", None)
        return [found, self._grid(second_stage(stack, found.solutions[first], q), options, score)]

    def _grid(self, stack: Stack, options: SolverOptions, score: Callable) -> Choice:
        alphas = check_alphas(self.alphas, stack)
        grid = np.repeat(alphas[:, None, None], stack.shape[-1], axis=2)
        solutions = solve(stack, grid, options, n_jobs=self.n_jobs)
        return Choice(stack, alphas, solutions, score(solutions), count_selected(stack, solutions))

    def _set_choice(self, candidates, several: bool, qs, best: int, alpha: int) -> None:
        self.alpha_ = float(candidates[best].alphas[alpha])
        self.q_ = float(qs[best])
        stacked = [np.stack([getattr(c, name) for c in candidates]) for name in ("alphas", "scores", "n_selected")]
        self.alphas_, self.scores_, self.n_selected_ = stacked if several else [array[0] for array in stacked]

    def get_metadata_routing(self) -> MetadataRouter:
        """Return how metadata reach the splitter and the scorer."""
        return cv_routing(self)


def second_stage(stack: Stack, first: Solution, q: float) -> Stack:
    """Return the stack with the adaptive weights of a first-stage solution, problem by problem."""
    beta = adaptive_weights(first.W[0], stack.groups, q, stack.group_weights[0])
    if not np.isfinite(beta[:, -1]).any():
        warnings.warn(
            "The first stage of the adaptive norm chose no sensor, so that all are left out and the model is zero; "
            "take a smaller alpha.",
            UserWarning,
            stacklevel=3,
        )
    return replace(stack, group_weights=beta[None])


def warn_zero_model(alpha: float, solution: Solution, stack: Stack) -> None:
    """Warn of an alpha at or above alpha_max, naming it."""
    if solution.W.any() or not stack.penalty.is_norm or stack.has_unpenalised:
        return
    top = largest_alpha(stack)
    if alpha >= top:
        warnings.warn(
            f"alpha={alpha:.3g} is at or above alpha_max={top:.6g}: no sensor is chosen and the model is zero; take a "
            "smaller alpha.",
            UserWarning,
            stacklevel=_TO_THE_USER,
        )
