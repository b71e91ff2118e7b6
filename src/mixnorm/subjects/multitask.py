"""`MultiTaskGroupSVC`: a joint fit of many subjects with common sensors and similar classifiers (equations 9, 10)."""

import numpy as np

from mixnorm.estimators.inputs import all_or_nothing
from mixnorm.estimators.objective import check_alpha, warn_unconverged
from mixnorm.estimators.svc import second_stage, warn_zero_model
from mixnorm.execution import SolverOptions
from mixnorm.subjects.joint import check_subject_classes, joint_stack
from mixnorm.subjects.multitask_classifier import MultiTaskClassifier
from mixnorm.subjects.noise import solve_joint


class MultiTaskGroupSVC(MultiTaskClassifier):
    r"""Joint fit of several subjects: common sensors, classifiers regularised towards their mean, with a certificate.

    Minimises, over W (T, d) and b (T,),

        Σ_{t,i} s_ti max(0, 1 − y_ti (x_ti·w_t + b_t))² / Σ_{t,i} s_ti + similarity Σ_t ‖w_t − w̄‖² + alpha Ω(W)

    with Ω(W) = Σ_g β_g ‖W_g‖_q (``penalty="group"``), where W_g are the coefficients of one sensor in all subjects.
    This is the paper's problem (equation 9, with the loss averaged over trials) and its regulariser (equation 10):
    MGSVM-2 with ``similarity=0`` and MGSVM-2s with ``similarity>0``.
    Alternatively Ω(W) = ‖W‖₁ (``"l1"``) or ½‖W‖² (``"l2"``). With one subject this is `GroupSVC`. With ``noise``
    the similarity is Σ_t ‖R_t w_t − mean‖² and the ℓ2 penalty ½ Σ_t ‖R_t w_t‖², R_t = N_t^½ being the symmetric root
    of the noise covariance of subject t. To a norm, ridge · ½ Σ_t ‖R_t w_t‖² may be added.

    Parameters
    ----------
    alpha : float
        Strength of the penalty.
    similarity : float
        Strength of the regularisation towards the mean classifier, in (loss units) × (feature units)². 0: the subjects
        have only their sensors in common.
    penalty : {"group", "l1", "l2"}
        Which Ω is used, as above. Only "group" and "l1" select sensors.
    q : float
        Inner norm, 1 ≤ q ≤ 2; for ``penalty="group"``.
    noise : str, array of shape (d, d), dict by subject, or None
        Covariance N_t of the ongoing activity of each subject: an estimate by name, as in `GroupSVC`, made of the
        trials of each subject; a matrix for all; or a dict with a name or a matrix for each subject. Classifiers are
        then compared in the coordinates R_t w_t, where the activity of every subject is white: it differs more between
        subjects than their responses do. With ``penalty="l2"`` N_t is the metric of the penalty as well, with
        ``"group"`` and ``"l1"``, which select sensors by the w_t, that of ``ridge``.
        ``penalty="l2", noise="evoked"`` decodes well from few trials (benchmarks/many_subjects.md).
    ridge : float
        Strength of ½ Σ_t w_t'N_t w_t beside ``"group"`` or ``"l1"``; without ``noise`` an elastic net. 0: none.
        Refused with ``"l2"``, whose strength is alpha. A new subject (`adapt`) is regularised by its distance from
        the mean instead.
    groups : one label per column of a 2-D X
        The sensor of every feature; None: every column is a sensor. Must be None for epochs (trials, channels, times).
    group_weights : array in the order of ``groups_``, or dict by label
        The weights β_g of the groups; 0: always selected, infinity: never selected.
    adaptive : bool
        Whether every group is weighted by 1/‖W*_g‖_q, where W* is a first fit at the same alpha and similarity.
    align : bool
        Deprecated: the former name of ``noise="kronecker"``.
    asymmetric : list of subjects or None
        Subjects that are regularised towards the mean of the others but do not influence the others. The joint
        problem is solved without them; then mean loss + similarity ‖w − w̄‖² + alpha Σ_g β_g ‖w_g‖_q is minimised on
        the trials of each, with the mean w̄ of the others fixed, and with ``ridge``. With ``noise`` the second term is
        similarity ‖R w − v̄‖², where v̄ is the mean of the R_t w_t and R the root of the noise of this subject (see
        `adapt`). A subject with trials of one class only gets the mean classifier, with ``noise`` the w with the
        smallest ‖R w − v̄‖².
    fit_intercept : bool
        Whether the b_t are fitted; they are not penalised and not part of the similarity.
    class_weight : dict, "balanced" or None
        Weights of the classes, as in `GroupSVC`; "balanced" is computed within each subject.
    rehearse : bool
        Whether `fit` also makes a leave-one-subject-out trial of adaptation on the known subjects, from which `adapt`
        later chooses its strength. Each known subject is left out of the joint problem, adapted with a few of its
        trials, and tested on the others. The joint problem is solved at most twelve times; with more than twelve
        subjects, several are left out at a time.
    tol : float
        Relative duality gap (P − D)/P to reach.
    max_iter : int
        Largest number of iterations; a warning is given if ``tol`` is not reached.
    solver : {"auto", "newton", "fista", "forward-backward"}
        Algorithm, as in `GroupSVC`.

    Attributes
    ----------
    subjects_ : ndarray of shape (T,)
        Labels in order of first appearance, which is the order of the rows of ``coef_``. New subjects come last.
    coef_, intercept_ : ndarrays of shape (T, d) and (T,)
        The classifier of every subject.
    mean_coef_, mean_intercept_ : ndarray of shape (d,), float
        The mean classifier: the plain mean over the subjects of the joint problem.
    mean_white_coef_ : ndarray of shape (d,), or None
        v̄, the mean of the R_t w_t, with ``noise``.
    mean_noise_ : ndarray of shape (m, m), or None
        Mean of the N_t over subjects, on the features of the sensors that may be used.
    mean_structured_noise_, mean_response_penalty_ : ndarrays of shape (m, m), or None
        With ``noise="evoked"``: means over subjects of the structured noise, and of the penalty of a response in
        coordinates where that is white, for trials of a new subject without labels.
    transfer_auc_ : float or None
        Result of ``rehearse``: AUC of the mean classifier of the others on a subject that was left out, as a mean over
        subjects. A warning is given if it is not above chance level.
    groups_, group_norms_, selected_groups_ : ndarrays
        As in `GroupSVC`; the norms are over all subjects.
    dual_gap_, objective_, n_iter_ : float, float, int
        Certificate and iterations of the joint problem, as in `GroupSVC`.
    strength_ : float
        Strength of the regularisation towards the mean classifier that the latest `adapt` chose.
    newcomer_trials_, newcomer_gains_ : ndarrays of shape (M,) and (M, 13), or None
        Result of ``rehearse``: numbers of calibration trials, and for each of them the mean over the known subjects of
        the AUC at every strength (∞, 1e2 … 1e-3, 0, in units of the mean square of the features) minus the AUC at
        strength ∞. None without ``rehearse``, or with fewer than three subjects.
    newcomer_covariance_ : ndarray of shape (m, m), or None
        C in the regularisation of a new subject (see `adapt`), on the m features of the sensors selected at fit. None
        with ``noise``, and for m above 1000.

    See Also
    --------
    MultiTaskGroupSVCCV : The same joint fit with alpha and similarity chosen by cross-validation.
    GroupSVC : The classifier of one subject.
    PerSubjectSVC : Baseline without anything in common.
    PooledSVC : Baseline with one classifier for all subjects.
    mixnorm.eeg.CohortDecoder : From recordings of several subjects to their decoders.

    Notes
    -----
    Arrays of PyTorch, CuPy and other array-API libraries, and devices: as in `GroupSVC`.

    ``fit`` requests scikit-learn metadata under MOABB's names ``subjects``, ``X_target_labeled``, ``y_target_labeled``
    (if given, `adapt` is called after the fit) and ``X_target_unlabeled`` (used in the same way with ``noise`` if no
    labelled trials are given; otherwise ignored). In a Pipeline that transforms the trials, set
    ``transform_input=["X_target_labeled", "X_target_unlabeled"]``, so that the trials of the target subject are
    transformed too.

    Examples
    --------
    >>> import numpy as np
    >>> from mixnorm import MultiTaskGroupSVC
    >>> rng = np.random.default_rng(0)
    >>> y, subjects = np.tile([0, 1], 60), np.repeat(["ann", "bob", "eve"], 40)
    >>> X = rng.standard_normal((120, 4, 3))
    >>> X[y == 1, 2] += 1  # channel 2 carries the effect, in all subjects
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
        noise=None,
        ridge=0.0,
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
        self.noise = noise
        self.ridge = ridge
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
            The subject of every trial; None: all trials belong to one subject, with a warning.
        sample_weight : array of shape (n,), or None
            The weights s_ti of the trials; None: all 1.
        X_target_labeled, y_target_labeled : arrays as X and y, or None
            Calibration trials of a new subject, for `adapt`.
        X_target_unlabeled : array as X, or None
            Trials of a new subject without labels, for `adapt`. Used only with ``noise`` and without labelled trials.

        Returns
        -------
        MultiTaskGroupSVC
            The fitted model.
        """
        alpha, similarity = check_alpha(self.alpha), check_similarity(self.similarity)
        objective, options = self._objective(self.ridge), SolverOptions.of(self)
        data = self._read(X, y, subjects, sample_weight)
        joint = self._joint(data)
        weights = self._balanced(joint, joint.weights)
        # With the class weights, of which one can be 0.
        check_subject_classes(weights, joint.signs, self.classes_, joint.subjects)
        stack = joint_stack(objective, joint.trials, joint.signs, weights[:, None], joint.subjects)
        # Without class weights: how much a class counts says nothing about ongoing activity.
        noise = self._joint_noise(stack, joint, joint.weights[:, None])
        cell = np.full((1, 1, 1), alpha), options, np.full((1, 1, 1), similarity)
        solution = solve_joint(noise, stack, *cell)[0]
        if self.adaptive:
            # At the same alpha and similarity: the weights of the second stage are divided by their geometric mean.
            stack = second_stage(stack, solution, objective.q)
            solution = solve_joint(noise, stack, *cell)[0]
        else:
            warn_zero_model(alpha, solution, stack)
        warn_unconverged([solution], self.tol, stacklevel=4)
        self._keep_joint(data, joint, stack, solution, noise)
        # Before a new subject is adapted, because its strength depends on what the rehearsal finds.
        self._rehearse(joint)
        self._adapt_to_target(X_target_labeled, y_target_labeled, X_target_unlabeled)
        return self

    def _alpha(self) -> float:
        return float(self.alpha)

    def _similarity(self) -> float:
        return float(self.similarity)

    def _ridge(self) -> float:
        return float(self.ridge)


def check_similarity(similarity) -> float:
    """Return a similarity as a float; raise an error if it is not finite or below 0."""
    if not (isinstance(similarity, float | int | np.number) and np.isfinite(similarity) and similarity >= 0):
        raise ValueError(
            "Invalid value for the 'similarity' parameter. Allowed are finite values from 0, but got "
            f"{similarity!r} instead."
        )
    return float(similarity)
