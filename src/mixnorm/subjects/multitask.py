"""Many subjects learned together: shared sensors, similar classifiers (equations 8 and 9), and newcomers."""

import numpy as np

from mixnorm.estimators.inputs import all_or_nothing
from mixnorm.estimators.objective import Objective, check_alpha, warn_unconverged
from mixnorm.estimators.svc import second_stage, warn_zero_model
from mixnorm.execution import SolverOptions, solve
from mixnorm.subjects.alignment import aligned
from mixnorm.subjects.joint import check_subject_classes, joint_stack
from mixnorm.subjects.multitask_classifier import MultiTaskClassifier


class MultiTaskGroupSVC(MultiTaskClassifier):
    r"""Several subjects learned together: sensors chosen for all of them, classifiers drawn to their mean, certified.

    Minimises, over W (T, d) and b (T,),

        Σ_{t,i} s_ti max(0, 1 − y_ti (x_ti·w_t + b_t))² / Σ_{t,i} s_ti + similarity Σ_t ‖w_t − w̄‖² + alpha Ω(W)

    with Ω(W) = Σ_g β_g ‖W_g‖_q (``penalty="group"``), W_g being one sensor's coefficients over all subjects: the
    paper's MGSVM-2 (equation 8) with ``similarity=0``, MGSVM-2s (equation 9) with ``similarity>0``; or ‖W‖₁
    (``"l1"``), or ½‖W‖² (``"l2"``). With one subject this is `GroupSVC`.

    Parameters
    ----------
    alpha : float
        Strength of the penalty.
    similarity : float
        Strength of the pull to the mean classifier, in (loss units) × (feature units)², with ``align=True`` in loss
        units; 0: sensors alone are shared.
    penalty, q, groups, group_weights, adaptive, fit_intercept, tol, max_iter, solver
        As in `GroupSVC`.
    align : bool
        Whether classifiers are compared in coordinates that make everybody's trials white, similarity
        Σ_t ‖A_t w_t − v̄‖² with v̄ the mean of the A_t w_t and A_t = R_t^½ ⊗ S_t^½, R_t and S_t being the covariances
        between the sensors and between the samples of subject t's trials, 3 % white noise added; sensors are chosen as
        before. Ongoing activity differs between people more than their responses do: this gained 2 to 4 points of AUC
        on the recordings in benchmarks/many_subjects.md. It needs the same samples of every sensor.
    asymmetric : list of subjects or None
        These lean on the others without pulling them: the joint problem is solved without them, then each minimises
        its own mean loss + similarity ‖w − w̄‖² + alpha Σ_g β_g ‖w_g‖_q with the others' mean w̄ fixed (aligned, from
        five trials on: similarity ‖A w − v̄‖²). One with trials of one class only gets the mean classifier (aligned:
        the nearest to v̄).
    class_weight : dict, "balanced" or None
        "balanced" within each subject.
    rehearse : bool
        Whether the subjects rehearse being newcomers, for the strength that `adapt` will take: the joint problem is
        solved again without each of them (twelve times at most, then without several), and each is adapted to the
        others with a few of its trials.

    Attributes
    ----------
    subjects_ : ndarray of shape (T,)
        Labels in order of first appearance; the rows of ``coef_``. Newcomers come last.
    coef_, intercept_ : ndarrays of shape (T, d) and (T,)
    mean_coef_, mean_intercept_ : ndarray of shape (d,), float
        The mean classifier: the plain mean over those who were learned jointly.
    mean_aligned_coef_ : ndarray of shape (d,), or None
        v̄, with ``align=True``.
    groups_, group_norms_, selected_groups_ : ndarrays
        As in `GroupSVC`; norms over all subjects.
    dual_gap_, objective_, n_iter_
        Of the joint problem.
    strength_ : float
        Of the latest `adapt`.
    newcomer_trials_, newcomer_gains_ : ndarrays of shape (M,) and (M, 13), or None
        Numbers of calibration trials that were rehearsed, and the AUC that every strength (∞, 1e2 … 1e-3, 0 in units
        of the mean square of the features) gained over ∞ in the mean of the subjects. None: not rehearsed, or by fewer
        than three subjects.
    newcomer_covariance_ : ndarray of shape (m, m), or None
        C of the newcomer's pull, on the m features of the sensors selected at fit, at most 1000; see `adapt`. None
        with ``align=True``.

    Notes
    -----
    Arrays of PyTorch, CuPy and other array-API libraries, and devices: as in `GroupSVC`.

    ``fit`` requests scikit-learn metadata under MOABB's names ``subjects``, ``X_target_labeled``, ``y_target_labeled``
    (given: fit, then `adapt`) and ``X_target_unlabeled`` (the same without labels, if they are all there is and the
    subjects are aligned; else not used). In a Pipeline that transforms the trials, set
    ``transform_input=["X_target_labeled", "X_target_unlabeled"]`` so that those of the target are transformed too.

    Examples
    --------
    >>> import numpy as np
    >>> from mixnorm import MultiTaskGroupSVC
    >>> rng = np.random.default_rng(0)
    >>> y, subjects = np.tile([0, 1], 60), np.repeat(["ann", "bob", "eve"], 40)
    >>> X = rng.standard_normal((120, 4, 3))
    >>> X[y == 1, 2] += 1  # channel 2 carries the effect, in everybody
    >>> model = MultiTaskGroupSVC(alpha=0.3, similarity=0.1).fit(X, y, subjects=subjects)
    >>> model.selected_groups_, model.subjects_
    (array([2]), array(['ann', 'bob', 'eve'], dtype='<U3'))
    >>> bool(model.adapt(X[:20], y[:20], subject="zoe").dual_gap_ < 1e-6)
    True
    """

    def __init__(
        self,
        alpha=0.01,
        *,
        similarity=0.0,
        penalty="group",
        q=2.0,
        groups=None,
        group_weights=None,
        adaptive=False,
        align=False,
        asymmetric=None,
        fit_intercept=True,
        class_weight=None,
        rehearse=False,
        tol=1e-6,
        max_iter=10_000,
        solver="auto",
    ):
        self.alpha = alpha
        self.similarity = similarity
        self.penalty = penalty
        self.q = q
        self.groups = groups
        self.group_weights = group_weights
        self.adaptive = adaptive
        self.align = align
        self.asymmetric = asymmetric
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.rehearse = rehearse
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
    ) -> "MultiTaskGroupSVC":
        """Fit the classifiers of all subjects.

        Parameters
        ----------
        X : array of shape (n, d) or (n, channels, times), DataFrame, or mne.Epochs (EEG taken in µV)
            The trials of all subjects, in any order.
        y : array of shape (n,)
            Any two labels.
        subjects : array of n hashable labels
            Whose every trial is; None: all trials are one subject's.
        sample_weight : array of shape (n,)
        X_target_labeled, y_target_labeled
            Calibration trials of a newcomer, for `adapt`.
        X_target_unlabeled
            Trials of a newcomer without labels, for `adapt` where there are none with; not used without ``align``.

        Returns
        -------
        self
        """
        alpha, similarity = check_alpha(self.alpha), check_similarity(self.similarity)
        objective, options = Objective.of(self, self.q), SolverOptions.of(self)
        data = self._read(X, y, subjects, sample_weight)
        joint = self._joint(data)
        weights = self._balanced(joint, joint.weights)
        check_subject_classes(weights, joint.signs, self.classes_, joint.subjects)
        stack = joint_stack(objective, joint.trials, joint.signs, weights[:, None], joint.subjects)
        if self.align:
            stack = aligned(stack, joint)
        cell = np.full((1, 1, 1), alpha), options, np.full((1, 1, 1), similarity)
        solution = solve(stack, *cell)[0]
        if self.adaptive:
            stack = second_stage(stack, solution, objective.q)
            solution = solve(stack, *cell)[0]
        else:
            warn_zero_model(alpha, solution, stack)
        warn_unconverged([solution], self.tol, stacklevel=4)
        self._keep_joint(data, joint, stack, solution)
        self._rehearse(joint)
        self._adapt_to_target(X_target_labeled, y_target_labeled, X_target_unlabeled)
        return self

    def _alpha(self) -> float:
        return float(self.alpha)

    def _similarity(self) -> float:
        return float(self.similarity)


def check_similarity(similarity) -> float:
    """Return a similarity as a float, or refuse it."""
    if not (isinstance(similarity, float | int | np.number) and np.isfinite(similarity) and similarity >= 0):
        raise ValueError(
            "Invalid value for the 'similarity' parameter. Allowed are finite values from 0, but got "
            f"{similarity!r} instead."
        )
    return float(similarity)
