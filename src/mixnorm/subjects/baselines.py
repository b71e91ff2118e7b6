"""Baselines for the joint fits: one SVM for each subject, and one SVM for the pooled trials of all subjects."""

from functools import partial

import numpy as np
from sklearn.utils.metadata_routing import MetadataRouter

from mixnorm.core.problem import Solution
from mixnorm.estimators.cross_validation import Choice, Fold, check_rule, choose, cv_routing, route, scored_grids
from mixnorm.estimators.objective import Objective, check_alphas, warn_unconverged
from mixnorm.execution import SolverOptions, solve
from mixnorm.subjects.classifier import SubjectClassifier, SubjectTrials, check_scores, score_subjects, split_subjects
from mixnorm.subjects.joint import Subjects, check_subject_classes


class _Baseline(SubjectClassifier):
    """Parameters and fitted attributes of the baselines; a subclass defines which subjects share a classifier."""

    def __init__(
        self,
        alphas=10,
        *,
        penalty="l2",
        q=2.0,
        groups=None,
        group_weights=None,
        fit_intercept=True,
        class_weight=None,
        cv=3,
        scoring="roc_auc",
        rule="best",
        max_sensors=None,
        tol=1e-6,
        max_iter=10_000,
        solver="auto",
    ):
        self.alphas = alphas
        self.penalty = penalty
        self.q = q
        self.groups = groups
        self.group_weights = group_weights
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.cv = cv
        self.scoring = scoring
        self.rule = rule
        self.max_sensors = max_sensors
        self.tol = tol
        self.max_iter = max_iter
        self.solver = solver

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
    ):
        """Choose alpha by cross-validation within each subject and fit on all trials.

        Parameters
        ----------
        X : array of shape (n, d) or (n, channels, times), DataFrame, or mne.Epochs
            The trials of all subjects, in any order.
        y : array of shape (n,)
            Any two labels.
        subjects : array of n hashable labels
            The subject of every trial; None: all trials belong to one subject.
        sample_weight : array of shape (n,), or None
            Weights of the trials, also given to the scorer; None: all 1.
        X_target_labeled, y_target_labeled, X_target_unlabeled : arrays, or None
            Accepted for MOABB and not used: a baseline cannot be adapted to a new subject.
        **params : dict
            For the splitter and the scorer, as in `GroupSVCCV`.

        Returns
        -------
        object
            The fitted model itself.
        """
        check_rule(self.rule, self.max_sensors)
        data = self._read(X, y, subjects, sample_weight)
        check_subject_classes(data.weights, data.signs, self.classes_, data.subjects)
        routed = route(self, params, sample_weight)
        labels = self.classes_[(data.signs > 0).astype(int)]
        folds = split_subjects(self.cv, data, labels, routed.split)
        self._keep_parts(data, [self._part(data, part, folds, routed.score) for part in self._parts(data.subjects)])
        return self

    def _part(self, data: SubjectTrials, part: Subjects, folds: list[Fold], params: dict) -> tuple[Choice, int]:
        """Fit one classifier to the subjects of a part; return its scored grid and the index of the chosen alpha."""
        rows, objective = np.sort(np.concatenate(part.rows)), Objective.of(self, self.q)
        own = data.take(part.labels)
        # The same folds for all parts, so that pooled and separate classifiers are scored on the same trials.
        folds = [Fold(fold.train[rows], fold.test[rows]) for fold in folds]
        params = {
            name: np.asarray(v)[rows] if np.shape(v)[:1] == data.signs.shape else v for name, v in params.items()
        }
        stack = objective.stack(own.trials, own.signs, self._columns(own, folds))
        # An automatic grid starts at alpha_max, which differs between subjects.
        alphas = check_alphas(self.alphas, stack)
        solutions = solve(stack, np.repeat(alphas[:, None, None], stack.shape[-1], axis=2), SolverOptions.of(self))
        found = scored_grids([stack], [alphas], [solutions], partial(self._score, own, folds, params))[0]
        warn_unconverged(solutions, self.tol)
        return found, choose([found], self.rule, self.max_sensors)[1]

    def _score(self, own: SubjectTrials, folds: list[Fold], params: dict, solutions: list[Solution]) -> np.ndarray:
        """Return the scores (A, folds) of solutions, means over the subjects of a part."""
        labels, n_subjects = self.classes_[(own.signs > 0).astype(int)], len(own.subjects.labels)
        scores = []
        for k, fold in enumerate(folds):
            # Every subject of the part has the same classifier.
            W = np.stack([np.repeat(s.W[0, :, :, k], n_subjects, axis=0) for s in solutions])
            b = np.stack([np.repeat(s.b[0, :, k], n_subjects, axis=0) for s in solutions])
            by_subject = score_subjects(own, labels, fold, (W, b), self.scoring, params)
            check_scores(by_subject, own.subjects, self.scoring, k)
            # Over subjects and not over trials: a subject with many trials must not decide for the others.
            scores.append(by_subject.mean(axis=1))
        return np.stack(scores, axis=1)

    def _keep_parts(self, data: SubjectTrials, parts: list[tuple[Choice, int]]) -> None:
        """Set the fitted attributes; if all subjects share one classifier, its row is repeated for each of them."""
        chosen = [found.solutions[place] for found, place in parts]
        T, dtype = len(data.subjects.labels), data.trials.dtype
        self._note_input(data.trials)
        self.coef_ = np.concatenate([s.W[0, :, :, -1] for s in chosen]).repeat(T // len(parts), axis=0).astype(dtype)
        self.intercept_ = np.concatenate([s.b[0, :, -1] for s in chosen]).repeat(T // len(parts)).astype(dtype)
        self.alpha_ = np.array([found.alphas[place] for found, place in parts])
        self.alphas_ = np.stack([found.alphas for found, _ in parts])
        self.scores_ = np.stack([found.scores for found, _ in parts])
        self.n_iter_ = max(int(s.n_iter[0, -1]) for s in chosen)
        self.dual_gap_ = max(float(s.gap[0, -1]) for s in chosen)
        self.objective_ = float(np.mean([s.objective[0, -1] for s in chosen]))
        self._set_sensors(parts[0][0].stack.groups, self.coef_, Objective.of(self, self.q).norm_order)
        self._keep_mean(data.subjects.labels)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return how metadata reach the splitter and the scorer.

        Returns
        -------
        MetadataRouter
            The routing of scikit-learn.
        """
        return cv_routing(self)


class PerSubjectSVC(_Baseline):
    """A separate SVM for each subject, with alpha chosen by cross-validation: the paper's "SVM" for many subjects.

    Parameters
    ----------
    alphas : int or sequence of floats
        A number: a log grid from alpha_max down to 1e-3 of it, for each subject its own. A sequence: as given.
    penalty : {"group", "l1", "l2"}
        Which norm is the penalty, as in `GroupSVC`.
    q : float
        Inner norm, 1 ≤ q ≤ 2; for ``penalty="group"``.
    groups : one label per column of a 2-D X
        The sensor of every feature; None: every column is a sensor. Must be None for epochs (trials, channels, times).
    group_weights : array in the order of ``groups_``, or dict by label
        The weights β_g of the groups; 0: always selected, infinity: never selected.
    fit_intercept : bool
        Whether intercepts are fitted; they are not penalised.
    class_weight : dict, "balanced" or None
        Weights of the classes, as in `GroupSVC`.
    cv : int, splitter or iterable of splits
        Divides the trials of each subject separately; an iterable of splits divides all trials at once.
    scoring : str or callable
        What is maximised on the held-out trials: a name of a scorer of scikit-learn, or a scorer.
    rule : {"best", "1se"}
        The best mean score, or the largest alpha whose mean score is within one standard error of the best.
    max_sensors : int or None
        Only models with at most this many sensors are considered.
    tol : float
        Relative duality gap (P − D)/P to reach.
    max_iter : int
        Largest number of iterations; a warning is given if ``tol`` is not reached.
    solver : {"auto", "newton", "fista", "forward-backward"}
        Algorithm, as in `GroupSVC`.

    Attributes
    ----------
    subjects_ : ndarray of shape (T,)
        Labels in the order of the rows of ``coef_``.
    coef_, intercept_ : ndarrays of shape (T, d) and (T,)
        The classifier of every subject.
    alpha_ : ndarray of shape (T,)
        The chosen alpha of each subject.
    alphas_, scores_ : ndarrays of shape (T, A) and (T, A, folds)
        The grid of each subject, and its scores on the held-out trials of every fold.
    dual_gap_, objective_ : float
        The largest gap and the mean objective of the T problems.

    See Also
    --------
    PooledSVC : One classifier for all subjects.
    MultiTaskGroupSVCCV : The joint fit that is compared with these baselines.

    Examples
    --------
    >>> import numpy as np
    >>> from mixnorm import PerSubjectSVC
    >>> rng = np.random.default_rng(0)
    >>> y, subjects = np.tile([0, 1], 60), np.repeat(["a", "b"], 60)
    >>> X = rng.standard_normal((120, 4, 3)) + np.where(subjects == "a", y, -y)[:, None, None]
    >>> model = PerSubjectSVC().fit(X, y, subjects=subjects)
    >>> float(np.mean(model.predict(X, subjects=subjects) == y)) > 0.9
    True
    """

    def _parts(self, subjects: Subjects) -> list[Subjects]:
        return [subjects.only([label]) for label in subjects.labels]


class PooledSVC(_Baseline):
    """One SVM on the pooled trials of all subjects, with one intercept: the paper's "SVM-Full".

    The score of an alpha is the mean over subjects of the score on their trials. ``coef_`` repeats the classifier for
    every subject, so that it has the same shape as in the other estimators; ``alpha_`` (1,), ``alphas_`` (1, A) and
    ``scores_`` (1, A, folds) describe the single problem.

    Parameters
    ----------
    alphas : int or sequence of floats
        A number: a log grid from alpha_max down to 1e-3 of it. A sequence: as given.
    penalty : {"group", "l1", "l2"}
        Which norm is the penalty, as in `GroupSVC`.
    q : float
        Inner norm, 1 ≤ q ≤ 2; for ``penalty="group"``.
    groups : one label per column of a 2-D X
        The sensor of every feature; None: every column is a sensor. Must be None for epochs (trials, channels, times).
    group_weights : array in the order of ``groups_``, or dict by label
        The weights β_g of the groups; 0: always selected, infinity: never selected.
    fit_intercept : bool
        Whether intercepts are fitted; they are not penalised.
    class_weight : dict, "balanced" or None
        Weights of the classes, as in `GroupSVC`.
    cv : int, splitter or iterable of splits
        Divides the trials of each subject separately; an iterable of splits divides all trials at once.
    scoring : str or callable
        What is maximised on the held-out trials: a name of a scorer of scikit-learn, or a scorer.
    rule : {"best", "1se"}
        The best mean score, or the largest alpha whose mean score is within one standard error of the best.
    max_sensors : int or None
        Only models with at most this many sensors are considered.
    tol : float
        Relative duality gap (P − D)/P to reach.
    max_iter : int
        Largest number of iterations; a warning is given if ``tol`` is not reached.
    solver : {"auto", "newton", "fista", "forward-backward"}
        Algorithm, as in `GroupSVC`.

    Attributes
    ----------
    subjects_ : ndarray of shape (T,)
        Labels in the order of the rows of ``coef_``.
    coef_, intercept_ : ndarrays of shape (T, d) and (T,)
        The one classifier, in the row of every subject.
    alpha_ : ndarray of shape (1,)
        The chosen alpha.
    alphas_, scores_ : ndarrays of shape (1, A) and (1, A, folds)
        The grid, and its scores on the held-out trials of every fold.
    dual_gap_, objective_ : float
        The certificate, as in `GroupSVC`.

    See Also
    --------
    PerSubjectSVC : A separate classifier for each subject.
    MultiTaskGroupSVCCV : The joint fit that is compared with these baselines.

    Examples
    --------
    >>> import numpy as np
    >>> from mixnorm import PooledSVC
    >>> rng = np.random.default_rng(0)
    >>> y, subjects = np.tile([0, 1], 60), np.repeat(["a", "b"], 60)
    >>> X = rng.standard_normal((120, 4, 3)) + y[:, None, None]
    >>> model = PooledSVC().fit(X, y, subjects=subjects)
    >>> model.coef_.shape, bool(np.all(model.coef_[0] == model.coef_[1]))
    ((2, 12), True)
    """

    _separates_subjects = False

    def _parts(self, subjects: Subjects) -> list[Subjects]:
        return [subjects]
