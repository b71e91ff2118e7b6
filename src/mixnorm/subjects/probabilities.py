"""Probabilities of joint classifiers: a sigmoid for each subject, fitted to the scores of its held-out trials."""

import numpy as np

from mixnorm.core.arrays import like
from mixnorm.core.problem import Solution
from mixnorm.estimators.calibration import (
    both_classes,
    held_out_scores,
    join_held_out,
    plain,
    read_calibration,
    sigmoid,
)
from mixnorm.estimators.cross_validation import Fold
from mixnorm.subjects.classifier import SubjectTrials
from mixnorm.subjects.multitask_classifier import MultiTaskClassifier


class SubjectProbabilities(MultiTaskClassifier):
    """A joint classifier whose cross-validation calibrates the scores of every subject."""

    def _calibrate(self, joint: SubjectTrials, folds: list[Fold], chosen: Solution) -> None:
        """Fit a sigmoid to the held-out scores of each subject, and one to those of all."""
        parts = []
        for t, rows in enumerate(joint.subjects.rows):
            own = [Fold(fold.train[rows], fold.test[rows]) for fold in folds]
            # The last column is the refit, which has seen the trials of all folds.
            models = chosen.W[0, t, :, :-1], chosen.b[0, t, :-1]
            parts.append(held_out_scores(joint.trials.matrix[rows], own, models).of_trials(rows))
        # None stands for all subjects together: a new subject has no held-out scores of its own.
        labels = [*joint.subjects.labels, None]
        found = [part.calibration(joint.signs, joint.weights) for part in (*parts, join_held_out(parts))]
        self.calibrations_ = {label: plain(one) for label, one in zip(labels, found, strict=True)}

    def _put(self, subject, w: np.ndarray, b: float) -> None:
        """A classifier that takes the place of another one does not keep its sigmoid."""
        super()._put(subject, w, b)
        getattr(self, "calibrations_", {}).pop(subject, None)

    def predict_proba(self, X, subjects=None) -> np.ndarray:
        """Return the probabilities of both classes, in the order of ``classes_``.

        The sigmoid of each subject is fitted to the held-out scores of its own trials; a subject that was not in the
        joint fit gets the one of all subjects. `predict` remains the sign of the score.

        Parameters
        ----------
        X : array of shape (n, d) or (n, channels, times), DataFrame, or mne.Epochs
            The trials, as for `decision_function`.
        subjects : array of n labels, one label for all trials, or None
            The subjects that the trials belong to, as for `decision_function`.

        Returns
        -------
        ndarray of shape (n, 2)
            One row per trial; the rows sum to 1.
        """
        scores = self.decision_function(X, subjects)
        known = getattr(self, "calibrations_", {None: None})  # a model file of an earlier version has none
        labels = self._labels_at_predict(subjects, scores.shape[0])
        own = {label: read_calibration(self, known[label if label in known else None]) for label in set(labels)}
        slope, intercept = (
            like(scores, np.array([getattr(own[label], name) for label in labels])) for name in ("slope", "intercept")
        )
        return both_classes(sigmoid(slope * scores + intercept))
