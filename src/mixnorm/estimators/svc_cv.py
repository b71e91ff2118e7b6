"""`GroupSVCCV`: the classifier of one subject with its parameters chosen by cross-validation."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np
from sklearn.utils.metadata_routing import MetadataRouter

from mixnorm.core.problem import Solution, Stack
from mixnorm.estimators.calibration import Probabilities, held_out_scores, plain
from mixnorm.estimators.cross_validation import (
    Choice,
    Fold,
    check_rule,
    choose,
    cv_routing,
    route,
    score_folds,
    scored_grids,
    split_folds,
    warn_zero_choice,
)
from mixnorm.estimators.inputs import all_or_nothing, class_balance, read_training
from mixnorm.estimators.objective import Objective, check_alphas, largest_alphas, solve_all_with, warn_unconverged
from mixnorm.estimators.quadratic import Quadratic, check_enough_trials, warn_light_trials
from mixnorm.estimators.svc import TO_THE_USER, SingleSubject, second_stage
from mixnorm.execution import Job, SolverOptions

#: Parameters that may be sequences, in the order of the axes that they add to the grid of alphas.
_CHOSEN = ("window_share", "ridge", "q")


class GroupSVCCV(Probabilities, SingleSubject):
    r"""`GroupSVC` with alpha, and q, ridge and window_share if several are given, chosen by cross-validation.

    All folds and alphas, and the path of the refit on all trials, go to the solver in one call. The problem is that of
    `GroupSVC` (the paper's equation 2); choosing alpha and q within the training set is the paper's protocol.

    Parameters
    ----------
    alphas : int or sequence of floats
        A number: a log grid from alpha_max (on all training data, for each q) down to 1e-3 of it; for ``penalty="l2"``
        with noise from 100 alpha_max.
    penalty : {"group", "l1", "l2"}
        Which norm is the penalty, as in `GroupSVC`.
    q : float or sequence of floats
        Inner norm, 1 ≤ q ≤ 2, for ``penalty="group"``. Of several values one is chosen together with alpha; the
        paper's GSVM-q tries 1, 1.2, …, 2.
    noise : str, array of shape (d, d), or None
        Covariance N of the quadratic term, as in `GroupSVC`. A named estimate is computed for every fold from
        its own training trials.
    ridge : float or sequence of floats
        Strength of the quadratic term that is added to a norm. Of several values one is chosen together with alpha.
    groups : one label per column of a 2-D X
        The sensor of every feature; None: every column is a sensor. Must be None for epochs (trials, channels, times).
    group_weights : array in the order of ``groups_``, or dict by label
        The weights β_g of the groups; 0: always selected, infinity: never selected.
    windows : int, one label per sample of epochs (per column of a 2-D X), or None
        The windows of time, as in `GroupSVC`.
    window_share : float or sequence of floats
        Weight τ of the norms of windows, as in `GroupSVC`. Of several values one is chosen together with alpha.
    adaptive : bool
        Whether the adaptive norm is used: alpha of a first stage is chosen by cross-validation with plain weights;
        then the weights β_g = 1/‖w*_g‖_q, divided by their geometric mean, are computed from the first-stage fit of
        every fold, and for the refit from the first-stage fit on all trials.
    fit_intercept : bool
        Whether b is fitted; it is not penalised.
    class_weight : dict, "balanced" or None
        Weights of the classes, as in `GroupSVC`; "balanced" is computed from the training trials of each fold.
    cv : int, splitter or iterable of splits
        A number: so many stratified folds. For trials of one character, give a splitter that keeps groups together,
        such as `mixnorm.eeg.InOrder`.
    scoring : str or callable
        What is maximised on the held-out trials: a name of a scorer of scikit-learn, or a scorer.
    rule : {"best", "1se"}
        The best mean score (among scores within 1e-12 the sparser model), or the largest alpha whose mean score is
        within one standard error of the best (for several q the one with the fewest sensors). An alpha at which the
        refit on all trials selects no sensor, but the model of a fold does, is chosen only if a model without sensors
        scores better than every other, by more than one standard error.
    max_sensors : int or None
        Only models with at most this many sensors are considered.
    n_jobs : int or None
        Number of folds fitted in parallel, as in joblib. On a device it has no effect.
    tol : float
        Relative duality gap (P − D)/P to reach, by every fit.
    max_iter : int
        Largest number of iterations of one fit; a warning is given if ``tol`` is not reached.
    solver : {"auto", "newton", "fista", "forward-backward"}
        Algorithm, as in `GroupSVC`.

    Attributes
    ----------
    alpha_, q_, ridge_, window_share_ : float
        The chosen values.
    alphas_ : ndarray of shape (A,), or (Q, A) for several q
        Several ridges add an axis in front, here and in ``scores_`` and ``n_selected_``, and several window shares
        one in front of that.
    scores_ : ndarray of shape (A, folds) or (Q, A, folds)
        Score of every alpha on the held-out trials of every fold.
    n_selected_ : ndarray of shape (A,) or (Q, A)
        Number of sensors that the refit on all trials selects at every alpha.
    path_coefs_, path_intercepts_ : ndarray of shape (A, d) and (A,)
        The refit on all trials at every alpha, for the chosen q, ridge and window share: models with
        fewer and with more sensors.
    calibration_ : dict
        ``slope`` and ``intercept`` of the sigmoid of `predict_proba`, the standard error ``slope_error``, and the
        ``log_odds`` of the classes; fitted to ``out_of_fold_scores_``.
    out_of_fold_scores_ : ndarray of shape (n,)
        Score of every training trial, at the chosen parameters, by the model of the fold that held it out (their mean
        over several folds; NaN if none did).
    coef_, intercept_, classes_, groups_, group_norms_, selected_groups_, n_iter_, dual_gap_, objective_
        Of the model refitted on all trials, as in `GroupSVC`.
    windows_, window_norms_, selected_windows_, filters_, patterns_, noise_ : ndarray
        Of the model refitted on all trials, as in `GroupSVC`.

    See Also
    --------
    GroupSVC : The same classifier for given parameters.
    group_svc_path : Solutions for a sequence of alphas, without cross-validation.
    MultiTaskGroupSVCCV : The joint fit of several subjects.
    mixnorm.eeg.default_classifier : This classifier with the settings of ``mixnorm train``.

    Notes
    -----
    Arrays of PyTorch, CuPy and other array-API libraries, and devices, are used as in `GroupSVC`.

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
    >>> model.predict_proba(X[:2]).shape
    (2, 2)
    """

    def __init__(
        self,
        alphas=20,
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
        self.noise = noise
        self.ridge = ridge
        self.groups = groups
        self.group_weights = group_weights
        self.windows = windows
        self.window_share = window_share
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
            The training trials.
        y : array of shape (n,)
            Any two labels.
        sample_weight : array of shape (n,), or None
            Weights of the trials, also given to the scorer; None: all 1.
        **params : dict
            ``groups``: one label per trial, for a splitter that keeps groups together (such as the trials of one
            character). With metadata routing enabled, everything that the splitter and the scorer request.

        Returns
        -------
        GroupSVCCV
            The fitted classifier.
        """
        # Here and not where the rule is used: an error after minutes of fitting would be too late.
        check_rule(self.rule, self.max_sensors)
        options = SolverOptions.of(self)
        objectives = self._objectives()
        trials, self.classes_, signs, weights = read_training(self, X, y, sample_weight)
        routed = route(self, params, sample_weight)
        # Splitter and scorer get the labels of the user: a scorer may name one of them (pos_label).
        labels = self.classes_[(signs > 0).astype(int)]
        folds = split_folds(self.cv, trials.matrix, labels, routed.split, self.scoring)
        windows = objectives[0].window_groups(trials)
        # One stack for all candidates: q, ridge and window share change the penalty, not the trials.
        stack = objectives[0].plain_stack(trials, signs, self._columns(weights, signs, folds))
        # Noise is estimated without class weights: how much a class counts in the loss says nothing about ongoing
        # activity.
        own_weights = np.stack([*(weights * fold.train for fold in folds), weights], axis=1)
        quadratics = _shared([objective.quadratic(stack, own_weights) for objective in objectives])
        if objectives[0].noise is not None:
            self._check_enough_trials(objectives[0].noise, signs, own_weights)
            warn_light_trials(objectives[0].noise, weights, TO_THE_USER)
        # Copied when the grids are solved: otherwise many fits that wait for a device would hold a copy each.
        parts = partial(_test_trials, trials.matrix, folds)
        score = partial(
            score_folds, folds=folds, parts=parts, labels=labels, scoring=self.scoring, params=routed.score
        )
        stacks = [objective.penalised(stack, windows) for objective in objectives]
        is_grid_given = np.ndim(self.alphas) > 0
        tops = [None] * len(stacks) if is_grid_given else largest_alphas(stacks)
        grids = [_Grid(*each, options) for each in zip(stacks, tops, quadratics, strict=True)]
        stages = self._stages(grids, score)
        candidates = stages[-1]
        best, alpha = choose(candidates, self.rule, self.max_sensors)
        self._set_choice(candidates, objectives[best], alpha, best)
        found = candidates[best]
        # `second_stage` has warned already if the first stage left no sensor.
        if not self.adaptive or np.isfinite(found.stack.group_weights[..., -1]).any():
            warn_zero_choice(found, alpha, stacklevel=TO_THE_USER)
        # All candidates, not the chosen one alone: the choice depends on the solutions of the others.
        solved = [solution for stage in stages for choice in stage for solution in choice.solutions]
        warn_unconverged(solved, self.tol, stacklevel=TO_THE_USER)
        self._keep(trials, found.stack, found.solutions[alpha], objectives[best].norm_order)
        self._set_windows(windows)
        self._keep_noise(quadratics[best])
        self._keep_pattern(trials, weights)
        self._calibrate(trials.matrix, signs, weights, folds, found.solutions[alpha])
        self.path_coefs_ = np.stack([s.W[0, 0, :, -1] for s in found.solutions]).astype(trials.dtype)
        self.path_intercepts_ = np.stack([s.b[0, 0, -1] for s in found.solutions]).astype(trials.dtype)
        return self

    def _objectives(self) -> list[Objective]:
        """Return the candidate objectives: window shares, ridges and q, the last changing fastest.

        With ℓ1 and ℓ2, q has no effect.
        """
        grids = [as_list(getattr(self, name), name) for name in _CHOSEN]
        return [Objective.of(self, q, ridge, share) for share, ridge, q in product(*grids)]

    def _columns(self, weights: np.ndarray, signs: np.ndarray, folds: list[Fold]) -> np.ndarray:
        """Weights (n, folds + 1): the training trials of every fold, then all trials for the refit."""
        how = signs, self.classes_, self.class_weight
        # All trials come first: if a class is missing altogether, the error must not name a fold.
        everything = class_balance(weights, *how)
        columns = [
            class_balance(weights * fold.train, *how, f"in the training part of fold {k} of cv ")
            for k, fold in enumerate(folds)
        ]
        return np.stack([*columns, everything], axis=1)

    def _check_enough_trials(self, noise, signs: np.ndarray, weights: np.ndarray) -> None:
        """Raise an error if the noise would be estimated from too few trials.

        All trials are checked first: if they are too few altogether, the error must not name a fold.
        """
        check_enough_trials(noise, signs, weights[:, -1], self.classes_)
        for k, own in enumerate(weights.T[:-1]):
            check_enough_trials(noise, signs, own, self.classes_, f"in the training part of fold {k} of cv")

    def _stages(self, grids: list["_Grid"], score: Callable) -> list[list[Choice]]:
        """Solve and score all grids of alphas; for the adaptive norm, twice."""
        found = self._solved(grids, score)
        if not self.adaptive:
            return [found]
        second = []
        for grid, own in zip(grids, found, strict=True):
            # The first stage is only a means: rule and max_sensors apply to the second stage, which is the model.
            _, first = choose([own], "best", None)
            stack = second_stage(grid.stack, own.solutions[first], grid.stack.penalty.q)
            second.append(replace(grid, stack=stack, largest_alpha=None))
        return [found, self._solved(second, score)]

    def _solved(self, grids: list["_Grid"], score: Callable) -> list[Choice]:
        alphas = [check_alphas(self.alphas, grid.stack, grid.quadratic, largest=grid.largest_alpha) for grid in grids]
        # The alphas of the refit for all folds, as in LassoCV: alphas relative to each fold would not be comparable.
        jobs = [
            Job(grid.stack, np.repeat(own[:, None, None], grid.stack.shape[-1], axis=2))
            for grid, own in zip(grids, alphas, strict=True)
        ]
        # On a device it takes little longer to solve all grids than one of them; on the host they follow one another.
        solutions = solve_all_with([grid.quadratic for grid in grids], jobs, grids[0].options, self.n_jobs)
        return scored_grids([grid.stack for grid in grids], alphas, solutions, score)

    def _set_choice(self, candidates: list[Choice], chosen: Objective, alpha: int, best: int) -> None:
        """Set the chosen values and the whole grid, which has an axis for each of `_CHOSEN` that is a sequence."""
        self.alpha_ = float(candidates[best].alphas[alpha])
        for name in _CHOSEN:
            setattr(self, f"{name}_", float(getattr(chosen, name)))
        axes = [len(getattr(self, name)) for name in _CHOSEN if np.ndim(getattr(self, name)) > 0]
        for name in ("alphas", "scores", "n_selected"):
            stacked = np.stack([getattr(c, name) for c in candidates])
            setattr(self, f"{name}_", stacked.reshape(*axes, *stacked.shape[1:]))

    def _calibrate(
        self, matrix: np.ndarray, signs: np.ndarray, weights: np.ndarray, folds: list[Fold], chosen: Solution
    ) -> None:
        """Fit the sigmoid to the scores of held-out trials; column k of the solution is the model of fold k."""
        held_out = held_out_scores(matrix, folds, (chosen.W[0, 0, :, :-1], chosen.b[0, 0, :-1]))
        self.calibration_ = plain(held_out.calibration(signs, weights))
        self.out_of_fold_scores_ = held_out.mean(len(signs))

    def get_metadata_routing(self) -> MetadataRouter:
        """Return how metadata reach the splitter and the scorer.

        Returns
        -------
        MetadataRouter
            The routing of scikit-learn.
        """
        return cv_routing(self)


@dataclass(frozen=True, eq=False)
class _Grid:
    """The folds and the refit of one q and one ridge, to be solved at a grid of alphas.

    ``largest_alpha``: alpha_max; None if it is not known yet.
    """

    stack: Stack
    largest_alpha: float | None
    quadratic: Quadratic | None
    options: SolverOptions


def _test_trials(matrix: np.ndarray, folds: list[Fold]) -> Iterator[np.ndarray]:
    """Copy the test trials of every fold, one after the other."""
    return (matrix[fold.test] for fold in folds)


def as_list(given, name: str) -> list:
    """Return a single value or a sequence of values as a list."""
    values = list(np.atleast_1d(np.asarray(given, dtype=object)))
    if not values:
        raise ValueError(f"{name} must hold at least one value.")
    return values


def _shared(quadratics: list[Quadratic | None]) -> list[Quadratic | None]:
    """Give all quadratic parts, which differ in the ridge only, the same noise object: it is then estimated once."""
    noise = next((term.noise for term in quadratics if term is not None and term.noise is not None), None)
    return [term if term is None or noise is None else replace(term, noise=noise) for term in quadratics]
