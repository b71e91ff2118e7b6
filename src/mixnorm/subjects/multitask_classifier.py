"""Base class of the joint fits: fitted attributes, subjects in ``asymmetric``, and adaptation to a new subject."""

import warnings
from dataclasses import replace

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mixnorm.core.groups import Groups
from mixnorm.core.problem import Solution, Stack
from mixnorm.estimators.cross_validation import auc
from mixnorm.estimators.inputs import Trials, class_balance, read_predict
from mixnorm.estimators.objective import Objective
from mixnorm.estimators.svc import TO_THE_USER
from mixnorm.execution import SolverOptions
from mixnorm.execution.array_api import fitted_on_host
from mixnorm.subjects.adaptation import AdaptationProblem, adapt_to
from mixnorm.subjects.alignment import AlignedPrior
from mixnorm.subjects.classifier import SubjectClassifier, SubjectTrials
from mixnorm.subjects.joint import check_asymmetric, check_label, check_subject_classes
from mixnorm.subjects.new_subject_metric import new_subject_metric, within_covariance
from mixnorm.subjects.noise import JointNoise
from mixnorm.subjects.prior import (
    TRIALS_OF_MEAN,
    ExpectedResponse,
    NoisePrior,
    Placed,
    PlainPrior,
    Prior,
    new_subject_alpha,
)
from mixnorm.subjects.rehearsal import CHANCE, Rehearsal, expected_gains

#: Smallest number of trials of each class from which an AUC is computed to judge a transfer; with fewer it is mostly
#: chance.
_FEWEST_TO_JUDGE = 3


class MultiTaskClassifier(SubjectClassifier):
    """Methods that the joint fits with and without cross-validation have in common."""

    def adapt(self, X=None, y=None, subject="newcomer"):
        r"""Add a classifier for a new subject, on the selected sensors and regularised towards the mean classifier.

        Minimises over w (on the selected sensors) and b

            Σ_i s_i max(0, 1 − y_i (x_i·w + b))² / Σ_i s_i + strength (w − w̄)'M(w − w̄) + alpha Σ_g β_g ‖w_g‖_q

        with M = 0.97 C/c + 0.03 I, where C is the covariance of the known subjects' trials within subjects and c its
        mean variance. Changes of w that would change the scores of the known subjects' trials cost much, and changes
        that would not cost little, as in a joint fit with the new subject. With more than 1000 features, and for a
        model file of an earlier version, there is no C, and M = I.

        The strength is chosen from {0, a log grid, ∞}. Two estimates of the AUC at each strength are combined, each
        weighted by its precision: 3-fold cross-validation within these trials, repeated five times, and the mean gain
        in the leave-one-subject-out trial of adaptation on the known subjects (``rehearse``). With few trials the
        second estimate decides, with many trials the first. Without ``rehearse`` the strength with the best
        cross-validated AUC is chosen if it is more than one standard error above the AUC of ∞, otherwise ∞. On equal
        scores the larger strength is chosen. Strengths below 10 divided by the number of trials are tried only while
        one of the last two is the best so far. The strengths are compared by approximate fits; the chosen one is
        solved to ``tol``.

        The coefficients of the other subjects do not change, and their trials are not needed. Without trials, or with
        trials of one class only, the new subject gets the mean classifier. With one trial of a class the strength is
        ∞: w = w̄, with an intercept fitted to the new subject.

        With ``noise`` the mean v̄ of the known subjects' R_t w_t replaces w̄, and the regularisation is
        strength ‖R w − v̄‖². R is the root of the noise of the new subject: that of its n trials, averaged with the
        mean over known subjects, which counts as two trials, or as 20 where that was better in the trial of adaptation
        on the known subjects. With ``penalty="l2"`` alpha is
        multiplied by the number of known subjects, as in the joint problem, where their losses are averaged. Trials
        without labels (``y=None``) or of one class can be used as well: w is then the one with the smallest
        ‖R w − v̄‖², and the intercept makes the mean score of these trials equal to the mean score of the known
        subjects' trials. With ``noise="evoked"`` such trials say where the noise is, and the known subjects where the
        response is expected.

        A warning is given if the classifier that the new subject is regularised towards is not above chance level on
        its labelled trials.

        Parameters
        ----------
        X : array of shape (n, d) or (n, channels, times), DataFrame, mne.Epochs, or None
            Trials of the new subject, on the channels of `fit`; None: there are none.
        y : array of shape (n,), or None
            Their labels, of ``classes_``; None: they have none.
        subject : hashable
            Label of the new subject. If the label is known already, its row is replaced. `predict` uses the classifier
            of the latest adapted subject when no subject is named.

        Returns
        -------
        object
            The model itself, with one more subject.
        """
        check_is_fitted(self)
        check_label(subject)
        with fitted_on_host(self, (X, y), {}, reference=self.coef_) as ((X, y), _):
            try:
                w, b, self.strength_ = self._new_subject_classifier(X, y)
            except ValueError as error:
                raise ValueError(f"Subject {subject!r}: {error}") from error
            self._put(subject, w, b)
            self._newcomer = subject
        return self

    def _adapted_scores(self, X, y, X_test) -> np.ndarray:
        """Return the scores of trials of the latest new subject by an adaptation to other trials of it.

        With its strength and its intercept, so that the scores of several parts of its trials can be compared: with a
        large alpha they differ little, and an intercept follows the share of the classes in a part. The model does
        not change.
        """
        w, _, _ = self._new_subject_classifier(X, y, self.strength_)
        return read_predict(self, X_test).matrix @ w + self._classifier_of(self._newcomer)[1]

    def _new_subject_classifier(self, X, y, strength: float | None = None) -> tuple[np.ndarray, float, float]:
        """Return w (d,), b and the strength of a new subject, which is chosen where none is given."""
        if X is None or len(X) == 0:
            return self.mean_coef_, self.mean_intercept_, np.inf
        trials = read_predict(self, X)
        signs = None if y is None else _signs(y, self.classes_, len(trials.matrix))
        prior = self._prior()
        if signs is None and isinstance(prior, PlainPrior):
            raise ValueError(
                "y is missing. Give the labels of the trials; only a model fitted with noise can use trials without "
                "labels."
            )
        beta = np.where(self.group_norms_ != 0, self._group_weights, np.inf)
        problem = self._adaptation(trials, signs, beta)
        if isinstance(prior, NoisePrior):
            problem = replace(problem, alpha=new_subject_alpha(self._alpha(), problem.objective, self._n_joint))
        placed = prior.place(problem, trials.matrix, signs)
        if signs is None or len(np.unique(signs)) < 2:
            return placed.center, self._intercept_without_labels(placed, trials.matrix), np.inf

        def weights(mask: np.ndarray) -> np.ndarray:
            return class_balance(mask.astype(float), signs, self.classes_, self.class_weight)

        if strength is not None:
            W, b = placed.problem.solve(weights(np.ones(len(signs), dtype=bool))[:, None], np.array([strength]))
            return placed.restored(W[0, :, 0]), float(b[0, 0]), strength
        _warn_of_chance(signs, trials.matrix @ placed.center)
        gains = getattr(self, "newcomer_gains_", None)  # a model file of an earlier version has none
        expected = None if gains is None else expected_gains(self.newcomer_trials_, gains, len(signs))
        w, b, strength = adapt_to(placed.problem, weights, expected)
        return placed.restored(w), b, strength

    def _objective(self, ridge: float) -> Objective:
        """Return the objective of the joint problem at one ridge; the noise of each subject is set later."""
        return replace(Objective.without_noise(self, self.q), ridge=ridge)

    def _adaptation(self, trials: Trials, signs: np.ndarray | None, beta: np.ndarray) -> AdaptationProblem:
        """Return the problem of one subject with group weights beta (G,); its prior is set later."""
        return AdaptationProblem(
            Objective.without_noise(self, self.q),
            SolverOptions.of(self),
            trials,
            signs=np.zeros(len(trials.matrix)) if signs is None else signs,
            center=self.mean_coef_,
            alpha=self._alpha(),
            group_weights=beta,
        )

    def _prior(self) -> Prior:
        """Return what a new subject takes over from the subjects of the joint problem."""
        if getattr(self, "mean_white_coef_", None) is not None:
            noise = self.mean_white_coef_, self.mean_noise_, self._noise_features
            count = getattr(self, "_trials_of_mean", TRIALS_OF_MEAN)  # a model file of an earlier version has none
            return NoisePrior(*noise, self._partition, self._noise_name, count, self._expected_response())
        usable = (self.group_norms_ != 0)[self._group_index]
        if getattr(self, "mean_aligned_coef_", None) is not None:
            return AlignedPrior(self.mean_coef_, self.mean_aligned_coef_, self._partition)
        covariance = getattr(self, "newcomer_covariance_", None)  # a model file of an earlier version has none
        if covariance is None:
            return PlainPrior(self.mean_coef_)
        kept = usable[self._covariance_features]
        return PlainPrior(self.mean_coef_, new_subject_metric(covariance[np.ix_(kept, kept)]))

    def _expected_response(self) -> ExpectedResponse | None:
        """Return what a new subject's trials without labels need; a model file of an earlier version has none."""
        matrices = [getattr(self, name, None) for name in ("mean_structured_noise_", "mean_response_penalty_")]
        return None if any(matrix is None for matrix in matrices) else ExpectedResponse(*matrices)

    def _intercept_without_labels(self, placed: Placed, X: np.ndarray) -> float:
        """Return the intercept of a subject whose trials have no labels, or are all of one class.

        This is the mean intercept of the known subjects. Where the subject's own trials have a part in the centre,
        that intercept does not belong to it: b is then chosen so that the mean score of the trials X is the mean score
        of the known subjects' trials.
        """
        if not (placed.by_own_trials and self.fit_intercept):
            return self.mean_intercept_
        return float(self._mean_score - X.mean(axis=0) @ placed.center)

    def _put(self, subject, w: np.ndarray, b: float) -> None:
        """Append a row for a subject, or replace its row, and update the attributes that describe the sensors."""
        rows, intercepts, labels = list(self.coef_), list(self.intercept_), list(self._labels)
        # The row of a known subject is replaced: the same subject may be calibrated again, with more trials.
        place = labels.index(subject) if subject in labels else len(labels)
        rows[place : place + 1], intercepts[place : place + 1], labels[place : place + 1] = [w], [b], [subject]
        self.coef_ = np.stack(rows).astype(self.coef_.dtype)
        self.intercept_ = np.array(intercepts, dtype=self.intercept_.dtype)
        self._labels = labels
        self._set_sensors(self._partition, self.coef_, Objective.without_noise(self, self.q).norm_order)

    @property
    def _partition(self) -> Groups:
        """The sensors, as a partition of the features."""
        return Groups(self.groups_.copy(), self._group_index.copy())

    def _joint_noise(self, stack: Stack, joint: SubjectTrials, weights: np.ndarray) -> JointNoise | None:
        """Return the noise of the K problems of a stack, given weights (n, K) without class weights."""
        given = self.noise
        if self.align:
            if given is not None:
                raise ValueError("align=True is the former name of noise='kronecker'; give noise alone.")
            warnings.warn(
                "align=True is deprecated and will be removed in the next version: use noise='kronecker', which "
                "replaces it.",
                FutureWarning,
                stacklevel=TO_THE_USER,
            )
            given = "kronecker"
        noise = JointNoise.of(given, stack, joint, weights)
        if noise is not None:
            noise.check_enough_trials(self.classes_)
            noise.warn_light_trials(TO_THE_USER + 1)
        return noise

    def _keep_joint(
        self, data: SubjectTrials, joint: SubjectTrials, stack: Stack, solution: Solution, noise: JointNoise | None
    ) -> None:
        """Set the fitted attributes from the joint problem, then fit the subjects in ``asymmetric``."""
        self._keep(joint.trials, stack, solution, Objective.without_noise(self, self.q).norm_order)
        self._group_weights = stack.group_weights[0, :, -1]
        self._group_index = stack.groups.index.copy()
        self._keep_mean(joint.subjects.labels)
        self._trials_of_mean = TRIALS_OF_MEAN  # until a rehearsal has chosen it; not that of a former fit
        self._keep_noise(joint, solution, noise)
        # After the mean classifier, which these subjects must not influence.
        listed = [label for label in data.subjects.labels if label not in self._labels]
        for label in listed:
            self._put(label, *self._asymmetric_classifier(data.take([label])))
        # Their rows were appended; the promised order is that of first appearance.
        order = [self._labels.index(label) for label in data.subjects.labels]
        self.coef_, self.intercept_, self._labels = self.coef_[order], self.intercept_[order], data.subjects.labels
        self._covariance_features = np.flatnonzero(self.group_norms_[self._group_index])
        plain = noise is None
        self.newcomer_covariance_ = within_covariance(stack, self._covariance_features) if plain else None

    def _keep_noise(self, joint: SubjectTrials, solution: Solution, noise: JointNoise | None) -> None:
        """Keep what a new subject needs of the noise of the known subjects."""
        self.mean_aligned_coef_ = None  # only model files of version 0.1.0 have one
        self.mean_white_coef_ = self.mean_noise_ = self._noise_features = self._noise_name = None
        self.mean_structured_noise_ = self.mean_response_penalty_ = None
        if noise is None:
            return
        W, b = solution.W[0, :, :, -1], solution.b[0, :, -1]
        prior = NoisePrior.of(noise, W)
        self.mean_white_coef_, self.mean_noise_ = prior.coef, prior.mean_noise
        self._noise_features, self._noise_name = prior.features, prior.noise
        if (response := ExpectedResponse.of(noise)) is not None:
            self.mean_structured_noise_, self.mean_response_penalty_ = response.noise, response.penalty
        self._n_joint = len(W)
        means = [
            np.average(joint.trials.matrix[rows], axis=0, weights=joint.weights[rows]) for rows in joint.subjects.rows
        ]
        self._mean_score = float(np.mean(np.sum(means * W, axis=1) + b))

    def _rehearse(self, joint: SubjectTrials) -> None:
        """With ``rehearse=True``, make the leave-one-subject-out trial of adaptation and keep its table of gains."""
        self.newcomer_trials_ = self.newcomer_gains_ = self.transfer_auc_ = None
        if not self.rehearse:
            return

        def weigh(data: SubjectTrials, mask: np.ndarray) -> np.ndarray:
            return self._balanced(data, data.weights * mask)

        found = Rehearsal(
            self._objective(self._ridge()),
            SolverOptions.of(self),
            joint,
            self._group_weights,
            alpha=self._alpha(),
            similarity=self._similarity(),
            weigh=weigh,
            noise="kronecker" if self.align else self.noise,
        ).run()
        if found is not None:
            self.newcomer_trials_, self.newcomer_gains_ = found.sizes, found.gains
            self.transfer_auc_, self._trials_of_mean = float(found.transferred.mean()), found.trials_of_mean
            found.warn_of_chance()

    def _asymmetric_classifier(self, data: SubjectTrials) -> tuple[np.ndarray, float]:
        """Fit a subject listed in ``asymmetric``; with trials of one class only it gets the mean classifier."""
        used = data.weights > 0
        signs = data.signs[used] if len(np.unique(data.signs[used])) > 1 else None
        problem = replace(self._adaptation(data.trials, data.signs, self._group_weights), ridge=self._ridge())
        # without noise by the plain distance, as in the joint problem; M of `adapt` is for new subjects
        prior = PlainPrior(self.mean_coef_) if self.mean_white_coef_ is None else self._prior()
        placed = prior.place(problem, data.trials.matrix[used], signs)
        if signs is None:
            return placed.center, self._intercept_without_labels(placed, data.trials.matrix[used])
        W, b = placed.problem.solve(self._balanced(data, data.weights)[:, None], np.array([self._similarity()]))
        return placed.restored(W[0, :, 0]), b[0, 0]

    def _joint(self, data: SubjectTrials) -> SubjectTrials:
        """Return the trials of the subjects of the joint problem; each must have both classes."""
        listed = check_asymmetric(self.asymmetric, data.subjects)
        joint = data.take([label for label in data.subjects.labels if label not in listed]) if listed else data
        check_subject_classes(joint.weights, joint.signs, self.classes_, joint.subjects)
        return joint

    def _adapt_to_target(self, X, y, unlabeled) -> None:
        if (X is None) != (y is None):
            given, missing = ("y", "X") if X is None else ("X", "y")
            raise ValueError(
                f"{given}_target_labeled was given without {missing}_target_labeled; give both or neither."
            )
        # Labelled trials say all that trials without labels could say. Without noise the latter say nothing.
        if self.mean_white_coef_ is not None and unlabeled is not None and (X is None or not len(X)):
            self.adapt(unlabeled)
        elif X is not None:
            self.adapt(X, y)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags


def _warn_of_chance(signs: np.ndarray, scores: np.ndarray) -> None:
    """Warn if the classifier of the others is at or below chance level on the trials of a new subject."""
    # A zero classifier has an AUC of 0.5 on any trials, and few trials have any AUC by chance.
    if not scores.any() or min((signs > 0).sum(), (signs < 0).sum()) < _FEWEST_TO_JUDGE:
        return
    own = float(auc(signs, scores[:, None])[0])
    if own <= CHANCE:
        warnings.warn(
            f"The mean classifier of the known subjects has an AUC of {own:.3f} on the {len(signs)} labelled trials "
            f"of the new subject, which is not above chance level ({CHANCE}). Check the labels and the order of the "
            "channels; the result relies on the new subject's own trials.",
            UserWarning,
            stacklevel=TO_THE_USER,
        )


def _signs(y, classes: np.ndarray, n_trials: int) -> np.ndarray:
    """Return −1 and +1 for labels that must be among the two classes of a fitted model."""
    labels = np.asarray(y)
    if labels.shape != (n_trials,):
        raise ValueError(f"X has {n_trials} trials, but the shape of y is {labels.shape}.")
    unknown = np.flatnonzero(~np.isin(labels, classes))
    if len(unknown):
        strange, (first, second) = labels.tolist()[unknown[0]], classes.tolist()
        raise ValueError(
            f"y holds the unknown label {strange!r} (trial {unknown[0]}); the classes of the model are {first!r} and "
            f"{second!r}."
        )
    return np.where(labels == classes[1], 1.0, -1.0)
