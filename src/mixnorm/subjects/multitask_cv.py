"""`MultiTaskGroupSVCCV`: the joint fit with alpha and similarity chosen by cross-validation within each subject."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from sklearn.utils.metadata_routing import MetadataRouter

from mixnorm.core.problem import Solution, Stack
from mixnorm.estimators.cross_validation import (
    Choice,
    Divisions,
    Fold,
    check_rule,
    choose,
    cv_routing,
    route,
    scored_grids,
    warn_zero_choice,
)
from mixnorm.estimators.inputs import all_or_nothing
from mixnorm.estimators.objective import check_alphas, warn_unconverged
from mixnorm.estimators.svc import TO_THE_USER, second_stage
from mixnorm.estimators.svc_cv import as_list
from mixnorm.execution import SolverOptions
from mixnorm.subjects.classifier import SubjectTrials, check_scores, fewest_of_a_class, score_subjects, split_subjects
from mixnorm.subjects.joint import joint_stack
from mixnorm.subjects.noise import JointNoise, solve_joint
from mixnorm.subjects.probabilities import SubjectProbabilities
from mixnorm.subjects.similarity_grid import grid_order, similarity_table


class MultiTaskGroupSVCCV(SubjectProbabilities):
    r"""`MultiTaskGroupSVC` with alpha and similarity chosen by cross-validation within each subject.

    All folds and the refit on all trials form one stack, which is solved at every (alpha, similarity) of the grid,
    always starting from the solution at a neighbouring point. The score of a grid point is the mean over subjects.

    Parameters
    ----------
    alphas : int or sequence of floats
        A number: a log grid from alpha_max (on all training data) down to 1e-3 of it.
    similarities : int or sequence of floats
        A number S: 0 and S − 1 values log-spaced from 1e-2 to 1e2. Their unit is the mean square of the features
        divided by the number of subjects, which is the curvature of one subject's loss. With ``penalty="l2"`` and
        ``noise``: 0 and S − 1 values log-spaced from 0.3 to 100 in units of alpha/2, another one for every alpha; the
        ratio says how much a classifier takes over from the mean. A sequence: as given.
    penalty : {"group", "l1", "l2"}
        Which norm is the penalty, as in `MultiTaskGroupSVC`.
    q : float
        Inner norm, 1 ≤ q ≤ 2; for ``penalty="group"``.
    noise : str, array of shape (d, d), dict by subject, or None
        Covariance of the ongoing activity of each subject, as in `MultiTaskGroupSVC`. A named estimate is computed in
        every fold from the subject's training trials alone.
    ridge : float or sequence of floats
        As in `MultiTaskGroupSVC`. Of several, the one with the best score is chosen, then alpha and similarity by
        ``rule``.
    groups : one label per column of a 2-D X
        The sensor of every feature; None: every column is a sensor. Must be None for epochs (trials, channels, times).
    group_weights : array in the order of ``groups_``, or dict by label
        The weights β_g of the groups; 0: always selected, infinity: never selected.
    adaptive : bool
        Whether the adaptive norm is used, as in `GroupSVCCV`, with the first stage at the (alpha, similarity) that
        cross-validation with plain weights chooses.
    align : bool
        Deprecated: the former name of ``noise="kronecker"``.
    asymmetric : list of subjects or None
        Subjects that are regularised towards the mean of the others but do not influence the others.
    fit_intercept : bool
        Whether intercepts are fitted; they are not penalised.
    class_weight : dict, "balanced" or None
        Weights of the classes, as in `GroupSVC`; "balanced" is computed within each subject.
    cv : int, splitter, iterable of splits, or None
        Divides the trials of each subject separately; an iterable of splits divides all trials at once. None: two
        divisions, one into three stratified folds in order and one into five shuffled ones, or fewer folds if a
        subject has fewer trials of a class. Three folds alone leave fewer trials for training, and therefore choose a
        larger similarity than is best for all trials; a single division gives unreliable scores with few trials.
    scoring : str or callable
        What is maximised on the held-out trials of each subject: a name of a scorer of scikit-learn, or a scorer.
    rule : {"auto", "centre", "best", "1se"}
        "auto": "best" for ``penalty="l2"`` with ``noise``, else "centre". "centre": of all grid points whose mean
        score is within one standard error over folds of the best, the one nearest to their centre. With few trials per
        subject, many grid points have indistinguishable scores, and the one that scores best by chance is often at the
        edge of this region. "best": the best mean score (among scores within 1e-12 the sparser model, then the larger
        similarity). "1se": the largest alpha within one standard error of the best. A point at which the refit on all
        trials selects no sensor, but the model of a fold does, is chosen only if a model without sensors scores better
        than every other, by more than one standard error.
    max_sensors : int or None
        Only models with at most this many sensors are considered.
    rehearse : bool
        As in `MultiTaskGroupSVC`, at the chosen alpha and similarity.
    n_jobs : int or None
        Number of folds fitted in parallel, as in joblib; on the workers of a dask cluster inside
        ``joblib.parallel_config("dask")``. The results are the same.
    tol : float
        Relative duality gap (P − D)/P to reach.
    max_iter : int
        Largest number of iterations; a warning is given if ``tol`` is not reached.
    solver : {"auto", "newton", "fista", "forward-backward"}
        Algorithm, as in `GroupSVC`.

    Attributes
    ----------
    alpha_, similarity_, ridge_ : float
        The chosen values.
    alphas_, similarities_ : ndarrays of shape (A,) and (S,), or (S, A) where every alpha has its own similarities
        The grid. Several ridges add an axis in front of ``alphas_``, and of ``scores_`` and ``n_selected_``.
    scores_ : ndarray of shape (S, A, folds)
        Means over subjects.
    n_selected_ : ndarray of shape (S, A)
        Number of sensors selected by the refit on all trials at every grid point.
    calibrations_ : dict
        Label of every subject of the joint fit → its sigmoid, as ``calibration_`` of `GroupSVCCV`; None → that of the
        held-out scores of all subjects, which any other subject gets.
    subjects_, coef_, intercept_, mean_coef_, mean_intercept_, groups_, group_norms_, selected_groups_
        Of the model refitted on all trials, as in `MultiTaskGroupSVC`.
    mean_white_coef_, mean_noise_, mean_structured_noise_, mean_response_penalty_
        Of the model refitted on all trials, as in `MultiTaskGroupSVC`.
    transfer_auc_, newcomer_trials_, newcomer_gains_, newcomer_covariance_
        Of the model refitted on all trials, as in `MultiTaskGroupSVC`, for `adapt`.
    dual_gap_, objective_, n_iter_
        Certificate and iterations of the refit.

    See Also
    --------
    MultiTaskGroupSVC : The same joint fit for given parameters.
    GroupSVCCV : The classifier of one subject.
    PerSubjectSVC : Baseline without anything in common.
    PooledSVC : Baseline with one classifier for all subjects.
    mixnorm.eeg.CohortDecoder : From recordings of several subjects to their decoders.

    Examples
    --------
    >>> import numpy as np
    >>> from mixnorm import MultiTaskGroupSVCCV
    >>> rng = np.random.default_rng(0)
    >>> y, subjects = np.tile([0, 1], 60), np.repeat([1, 2, 3], 40)
    >>> X = rng.standard_normal((120, 4, 3))
    >>> X[y == 1, 2] += 1
    >>> model = MultiTaskGroupSVCCV(alphas=5, similarities=3).fit(X, y, subjects=subjects)
    >>> model.scores_.shape, model.similarity_ > 0
    ((3, 5, 8), True)
    """

    def __init__(
        self,
        alphas=10,
        *,
        similarities=6,
        penalty="group",
        q=2.0,
        noise=None,
        ridge=0.0,
        groups=None,
        group_weights=None,
        adaptive=False,
        align=False,
        asymmetric=None,
        fit_intercept=True,
        class_weight=None,
        cv=None,
        scoring="roc_auc",
        rule="auto",
        max_sensors=None,
        rehearse=True,
        n_jobs=None,
        tol=1e-6,
        max_iter=10_000,
        solver="auto",
    ):
        self.alphas = alphas
        self.similarities = similarities
        self.penalty = penalty
        self.q = q
        self.noise = noise
        self.ridge = ridge
        self.groups = groups
        self.group_weights = group_weights
        self.adaptive = adaptive
        self.align = align
        self.asymmetric = asymmetric
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.cv = cv
        self.scoring = scoring
        self.rule = rule
        self.max_sensors = max_sensors
        self.rehearse = rehearse
        self.n_jobs = n_jobs
        self.tol = tol
        self.max_iter = max_iter
        self.solver = solver

    @all_or_nothing
    def fit(
        self,
        X,
        y,
        *,
        subjects=None,
        sample_weight=None,
        X_target_labeled=None,
        y_target_labeled=None,
        X_target_unlabeled=None,
        **params,
    ) -> "MultiTaskGroupSVCCV":
        """Choose alpha and similarity by cross-validation and fit the classifiers of all subjects.

        Parameters
        ----------
        X : array of shape (n, d) or (n, channels, times), DataFrame, or mne.Epochs (EEG taken in µV)
            The trials of all subjects, in any order.
        y : array of shape (n,)
            Any two labels.
        subjects : array of n hashable labels
            The subject of every trial; None: all trials belong to one subject, with a warning.
        sample_weight : array of shape (n,), or None
            Weights of the trials, also given to the scorer; None: all 1.
        X_target_labeled, y_target_labeled : arrays as X and y, or None
            Calibration trials of a new subject, for `adapt`.
        X_target_unlabeled : array as X, or None
            Trials of a new subject without labels, for `adapt`. Used only with ``noise`` and without labelled trials.
        **params : dict
            For the splitter and the scorer, as in `GroupSVCCV.fit`.

        Returns
        -------
        MultiTaskGroupSVCCV
            The fitted model.
        """
        check_rule(self.rule, self.max_sensors, ("auto", "best", "1se", "centre"))
        objectives, options = (
            [self._objective(ridge) for ridge in as_list(self.ridge, "ridge")],
            SolverOptions.of(self),
        )
        data = self._read(X, y, subjects, sample_weight)
        # Without the subjects in ``asymmetric``, which have no part in the choice either.
        joint = self._joint(data)
        routed = route(self, params, sample_weight)
        labels = self.classes_[(joint.signs > 0).astype(int)]
        cv = Divisions(fewest_of_a_class(joint)) if self.cv is None else self.cv
        folds = split_subjects(cv, joint, labels, _rows_of(routed.split, data, joint))
        columns = self._columns(joint, folds)
        stacks = [joint_stack(each, joint.trials, joint.signs, columns, joint.subjects) for each in objectives]
        # Each fold estimates the noise from its own training trials, without class weights.
        trained = [*(joint.weights * fold.train for fold in folds), joint.weights]
        noise = self._joint_noise(stacks[0], joint, np.stack(trained, axis=1))
        scorer = _Scorer(joint, labels, folds, self.scoring, _rows_of(routed.score, data, joint))
        by_ridge = [self._candidates(_Grid(stack, noise, options), scorer) for stack in stacks]
        found, place = self._choose(by_ridge, [float(objective.ridge) for objective in objectives])
        solutions = (s for candidates in by_ridge for one in candidates for s in one.solutions)
        warn_unconverged(solutions, self.tol, stacklevel=TO_THE_USER)
        if not self.adaptive or np.isfinite(found.stack.group_weights[..., -1]).any():
            warn_zero_choice(found, place, stacklevel=TO_THE_USER)
        self._keep_joint(data, joint, found.stack, found.solutions[place], noise)
        self._calibrate(joint, folds, found.solutions[place])
        self._rehearse(joint)
        self._adapt_to_target(X_target_labeled, y_target_labeled, X_target_unlabeled)
        return self

    def _candidates(self, grid: "_Grid", score: "_Scorer") -> list[Choice]:
        """Solve and score the grid, one candidate for each similarity; for the adaptive norm, twice."""
        found = self._solved(grid, score)
        if not self.adaptive:
            return found
        # The first stage is only a means: rule and max_sensors apply to the second stage, which is the model.
        s, a = choose(found, "best", None)
        second = second_stage(grid.stack, found[s].solutions[a], self.q)
        return self._solved(replace(grid, stack=second), score)

    def _solved(self, grid: "_Grid", score: "_Scorer") -> list[Choice]:
        stack, noise = grid.stack, grid.noise
        # with unpenalised sensors alpha_max depends on the ridge term, and that on the noise
        last = stack if noise is None or stack.ridge is None or not stack.has_unpenalised else noise.last(stack)
        alphas = check_alphas(self.alphas, last, has_noise=noise is not None)
        table = similarity_table(self.similarities, alphas, stack, noise is not None)
        self.similarities_ = table if table.shape[1] > 1 else table[:, 0]
        # One similarity for all alphas is repeated: then every point of the grid is found in the same way.
        table = np.broadcast_to(table, (len(table), len(alphas)))
        cells = grid_order(alphas, len(table))
        alpha_of = np.array([alphas[a] for a, _ in cells])
        similarity_of = np.array([table[s, a] for a, s in cells])
        grids = [np.repeat(values[:, None, None], stack.shape[-1], axis=2) for values in (alpha_of, similarity_of)]
        solutions = solve_joint(noise, stack, grids[0], grid.options, grids[1], self.n_jobs)
        solved = dict(zip(cells, solutions, strict=True))
        by_similarity = [[solved[a, s] for a in range(len(alphas))] for s in range(len(table))]
        number = len(by_similarity)
        return scored_grids([stack] * number, [alphas] * number, by_similarity, score)

    def _choose(self, by_ridge: list[list[Choice]], ridges: list[float]) -> tuple[Choice, int]:
        """Set the grid and the chosen values, and return the candidate and the index of the alpha in it."""
        # The ridge by the best score, whatever the rule: steps between ridges do not compare with those of the grid.
        every = [one for candidates in by_ridge for one in candidates]
        best = choose(every, "best", self.max_sensors)[0] // len(by_ridge[0])
        self.ridge_, axes = ridges[best], np.shape(self.ridge)
        alphas = np.stack([candidates[0].alphas for candidates in by_ridge])
        self.alphas_ = alphas.reshape(*axes, -1)
        for name in ("scores", "n_selected"):
            whole = np.stack([[getattr(one, name) for one in candidates] for candidates in by_ridge])
            setattr(self, f"{name}_", whole.reshape(*axes, *whole.shape[1:]))
        return self._choose_at(by_ridge[best], alphas[best])

    def _choose_at(self, candidates: list[Choice], alphas: np.ndarray) -> tuple[Choice, int]:
        """Choose alpha and similarity at one ridge."""
        # `choose` takes the first of equal candidates. The largest similarity comes first, so that it is preferred.
        table = self.similarities_.reshape(len(candidates), -1)
        order = np.argsort(-table[:, 0], kind="stable")
        s, a = choose([candidates[s] for s in order], self._rule(), self.max_sensors)
        similarities = np.broadcast_to(table, (len(table), len(alphas)))
        self.alpha_, self.similarity_ = float(alphas[a]), float(similarities[order[s], a])
        return candidates[order[s]], a

    def _rule(self) -> str:
        """Return the rule that is meant by "auto".

        With ℓ2 and noise the scores depend little on alpha, so that the grid points within one standard error reach
        far, and their centre was 0.2 to 0.7 points below the best (benchmarks/many_subjects.md).
        """
        if self.rule != "auto":
            return self.rule
        return "best" if self.penalty == "l2" and (self.noise is not None or self.align) else "centre"

    def _alpha(self) -> float:
        return self.alpha_

    def _similarity(self) -> float:
        return self.similarity_

    def _ridge(self) -> float:
        return getattr(self, "ridge_", 0.0)  # a model file of an earlier version has none

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
    """The folds and the refit, to be solved at a grid of alphas and similarities."""

    stack: Stack
    noise: JointNoise | None
    options: SolverOptions


@dataclass(frozen=True, eq=False)
class _Scorer:
    """Computes the scores of all folds of a solved grid; column k of a solution is the model of fold k."""

    data: SubjectTrials
    labels: np.ndarray
    folds: list[Fold]
    scoring: str | Callable
    params: dict

    def __call__(self, solutions: list[Solution]) -> np.ndarray:
        """Return the mean score over subjects of every solution and fold, (A, folds)."""
        columns = []
        for k, fold in enumerate(self.folds):
            models = np.stack([s.W[0, :, :, k] for s in solutions]), np.stack([s.b[0, :, k] for s in solutions])
            scores = score_subjects(self.data, self.labels, fold, models, self.scoring, self.params)
            check_scores(scores, self.data.subjects, self.scoring, k)
            # Over subjects and not over trials: a subject with many trials must not decide for the others.
            columns.append(scores.mean(axis=1))
        return np.stack(columns, axis=1)


def _rows_of(params: dict, data: SubjectTrials, joint: SubjectTrials) -> dict:
    """Restrict metadata with one value per trial to the trials of the joint problem."""
    rows = np.sort(np.concatenate(data.subjects.only(joint.subjects.labels).rows))
    n = len(data.signs)
    return {name: np.asarray(v)[rows] if np.shape(v)[:1] == (n,) else v for name, v in params.items()}
