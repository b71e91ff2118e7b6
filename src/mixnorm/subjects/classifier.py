"""Base class of the classifiers for many subjects: validation, one row of coefficients per subject, prediction."""

import warnings
from dataclasses import dataclass, replace

import numpy as np
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from mixnorm.core.arrays import like
from mixnorm.estimators.cross_validation import Fold, check_fold_classes, score_models, split_folds
from mixnorm.estimators.inputs import (
    Trials,
    check_both_classes,
    check_sample_weight,
    class_balance,
    encode_labels,
    read_fit,
    read_predict,
)
from mixnorm.estimators.linear import LinearSensorClassifier
from mixnorm.subjects.joint import Subjects, read_subjects, subject_labels


@dataclass(frozen=True, eq=False)
class SubjectTrials:
    """Validated training data of many subjects: trials, y as −1 and +1, sample weights, and the subject of each trial.

    The weights do not include class weights.
    """

    trials: Trials
    signs: np.ndarray
    weights: np.ndarray
    subjects: Subjects

    def take(self, labels: list) -> "SubjectTrials":
        """Return the trials of some subjects only, in their original order."""
        kept = self.subjects.only(labels)
        rows = np.sort(np.concatenate(kept.rows))
        trials = replace(self.trials, matrix=self.trials.matrix[rows])
        places = [np.searchsorted(rows, own) for own in kept.rows]
        return SubjectTrials(trials, self.signs[rows], self.weights[rows], Subjects(kept.labels, places))


class SubjectClassifier(LinearSensorClassifier):
    """A linear classifier for each of several subjects; subclasses fit ``coef_`` (T, d) and ``intercept_`` (T,)."""

    # The names that MOABB's evaluations use. Requested by default, so that a pipeline passes them on without settings.
    __metadata_request__fit = dict.fromkeys(
        ("subjects", "X_target_labeled", "y_target_labeled", "X_target_unlabeled"), True
    )

    #: Whether subjects have classifiers of their own, so that their labels are needed.
    _separates_subjects = True

    @property
    def subjects_(self) -> np.ndarray:
        """Labels of the subjects, in the order of the rows of ``coef_``."""
        check_is_fitted(self)
        # An array of labels of different types would be one of strings, and one of tuples a matrix.
        labels = np.empty(len(self._labels), dtype=object)
        labels[:] = self._labels
        plain = np.array(self._labels) if len({type(label) for label in self._labels}) == 1 else labels
        return plain if plain.ndim == 1 else labels

    def decision_function(self, X, subjects=None) -> np.ndarray:
        """Return the score of every trial, x·w_t + b_t; positive for ``classes_[1]``.

        Parameters
        ----------
        X : array of shape (n, d) or (n, channels, times), DataFrame, or mne.Epochs
            The trials; channels and columns are matched by name, as in `GroupSVC.decision_function`.
        subjects : array of n labels, one label for all trials, or None
            The subjects that the trials belong to. For a subject without a classifier of its own, the mean classifier
            is used. None: the classifier of the subject that was adapted last, or the mean classifier if `adapt` was
            not called.

        Returns
        -------
        ndarray of shape (n,)
            One score per trial.
        """
        check_is_fitted(self)
        matrix = read_predict(self, X, self.selected_groups_).matrix
        xp = self._namespace_of(matrix)
        matrix = xp.astype(matrix, self.coef_.dtype, copy=False)
        by_label = Subjects.of(self._labels_at_predict(subjects, matrix.shape[0]))
        scores = []
        for label, rows in zip(by_label.labels, by_label.rows, strict=True):
            w, b = self._classifier_of(label)
            scores.append(xp.matmul(xp.take(matrix, like(matrix, rows, dtype=xp.int64), axis=0), w) + b)
        # from the order of the subjects back to that of the trials
        order = np.argsort(np.concatenate(by_label.rows))
        return xp.take(xp.concat(scores), like(matrix, order, dtype=xp.int64))

    def predict(self, X, subjects=None) -> np.ndarray:
        """Return the label of every trial.

        Parameters
        ----------
        X : array of shape (n, d) or (n, channels, times), DataFrame, or mne.Epochs
            The trials, as for `decision_function`.
        subjects : array of n labels, one label for all trials, or None
            The subjects that the trials belong to, as for `decision_function`.

        Returns
        -------
        ndarray of shape (n,)
            One of ``classes_`` per trial.
        """
        return self._label(self.decision_function(X, subjects) > 0)

    def score(self, X, y, sample_weight=None, subjects=None) -> float:
        """Return the share of trials whose label is predicted correctly.

        Parameters
        ----------
        X : array of shape (n, d) or (n, channels, times), DataFrame, or mne.Epochs
            The trials, as for `decision_function`.
        y : array of shape (n,)
            The true labels.
        sample_weight : array of shape (n,), or None
            Weights of the trials; None: all 1.
        subjects : array of n labels, one label for all trials, or None
            The subjects that the trials belong to, as for `decision_function`.

        Returns
        -------
        float
            Between 0 and 1.
        """
        check_is_fitted(self)
        if subjects is None and getattr(self, "_newcomer", None) is None and len(self._labels) > 1:
            warnings.warn(
                f"score was called without subjects, so that the mean classifier of {len(self._labels)} subjects "
                "scores all trials. Give subjects=… to score every trial with the classifier of its subject.",
                UserWarning,
                stacklevel=2,
            )
        return float(accuracy_score(y, self.predict(X, subjects), sample_weight=sample_weight))

    def _labels_at_predict(self, subjects, n_trials: int) -> list:
        if subjects is None:
            # None is not a valid label, and so selects the mean classifier.
            return [getattr(self, "_newcomer", None)] * n_trials
        # A tuple can be the label of one subject as well as one label for each trial.
        if isinstance(subjects, tuple) and subjects in self._labels:
            return [subjects] * n_trials
        labels = subject_labels(subjects, n_trials)
        if len(labels) != n_trials:
            raise ValueError(f"X has {n_trials} trials, but subjects has {len(labels)} labels.")
        return labels

    def _classifier_of(self, label) -> tuple[np.ndarray, float]:
        if label in self._labels:
            row = self._labels.index(label)
            return self.coef_[row, :], self.intercept_[row]
        return self.mean_coef_, float(self.mean_intercept_)

    def _read(self, X, y, subjects, sample_weight) -> SubjectTrials:
        """Validate the arguments of fit; both classes must occur over all subjects.

        That they occur in each subject is checked by the estimators that need it.
        """
        labels = subject_labels(subjects)
        trials, y = read_fit(self, X, y, labels)
        whose = read_subjects(labels, len(trials.matrix))
        self.classes_, signs = encode_labels(y)
        weights = check_sample_weight(sample_weight, len(signs))
        check_both_classes(weights, signs, self.classes_)
        if labels is None and self._separates_subjects:
            warnings.warn(
                "fit was called without subjects, so that all trials are taken for those of one subject. Give "
                "subjects=…, one label per trial.",
                UserWarning,
                stacklevel=4,
            )
        return SubjectTrials(trials, signs, weights, whose)

    def _balanced(self, data: SubjectTrials, weights: np.ndarray, where: str = "") -> np.ndarray:
        """Multiply the weights of trials (n,) by their class weights; "balanced" is computed within each subject.

        ``where`` describes these weights in error messages.
        """
        out = weights.copy()
        for label, rows in zip(data.subjects.labels, data.subjects.rows, strict=True):
            whose = f"of subject {label!r} {where}"
            out[rows] = class_balance(weights[rows], data.signs[rows], self.classes_, self.class_weight, whose)
        return out

    def _columns(self, data: SubjectTrials, folds: list[Fold]) -> np.ndarray:
        """Weights (n, folds + 1): the training trials of every fold, then all trials for the refit."""
        # All trials come first: if a class is missing altogether, the error must not name a fold.
        everything = self._balanced(data, data.weights)
        columns = [
            self._balanced(data, data.weights * fold.train, f"in the training part of fold {k} of cv ")
            for k, fold in enumerate(folds)
        ]
        return np.stack([*columns, everything], axis=1)

    def _keep_mean(self, labels: list) -> None:
        """Keep the subjects of the rows of ``coef_``, and the plain mean over these rows."""
        self._labels = labels
        self.mean_coef_ = self.coef_.mean(axis=0)
        self.mean_intercept_ = self.intercept_.mean()
        # The subject that was adapted last. The name stays, because model files contain it.
        self._newcomer = None


def split_subjects(cv, data: SubjectTrials, labels: np.ndarray, params: dict) -> list[Fold]:
    """Split the trials of each subject separately, and join fold k of all subjects to fold k.

    If ``cv`` is an iterable of splits, it divides the trials of all subjects at once. In both cases the training and
    the test part of every fold must contain both classes of every subject.
    """
    n, matrix, parts = len(labels), data.trials.matrix, []
    # Listed splits have the numbers of trials of all subjects, and cannot be asked for those of one subject.
    if not hasattr(cv, "split") and np.iterable(cv):
        folds = split_folds(list(cv), matrix, labels, params)
    else:
        for label, rows in zip(data.subjects.labels, data.subjects.rows, strict=True):
            own = {name: np.asarray(v)[rows] if np.shape(v)[:1] == (n,) else v for name, v in params.items()}
            folds = split_folds(cv, matrix[rows], labels[rows], own, whose=f"of subject {label!r} ")
            parts.append([_widen(fold, rows, n) for fold in folds])
        return _merge(parts, data.subjects.labels)
    for label, rows in zip(data.subjects.labels, data.subjects.rows, strict=True):
        # As for the AUC, whatever the scoring: every subject is scored by itself, in every fold.
        check_fold_classes(folds, labels, "roc_auc", rows, f"of subject {label!r} ")
    return folds


def score_subjects(data: SubjectTrials, labels: np.ndarray, fold: Fold, models, scoring, params: dict) -> np.ndarray:
    """Score A models of T subjects, W (A, T, d) and b (A, T), on the test trials of a fold; returns (A, T)."""
    W, b = models
    matrix, scores = data.trials.matrix, []
    for t, rows in enumerate(data.subjects.rows):
        test = np.zeros(len(labels), dtype=bool)
        test[rows] = fold.test[rows]
        scores.append(score_models(matrix[test], labels, test, (W[:, t].T, b[:, t]), scoring, params))
    return np.stack(scores, axis=1)


def check_scores(scores: np.ndarray, subjects: Subjects, scoring, k: int) -> None:
    """Raise an error if scores (A, T) on the test part of fold k are not finite: no model can be chosen by them."""
    odd = np.flatnonzero(~np.isfinite(scores).all(axis=0))
    if len(odd):
        raise ValueError(
            f"scoring={scoring!r} returned a score that is not finite on the test part of fold {k} of cv, for subject "
            f"{subjects.labels[odd[0]]!r}; use another scoring or other folds."
        )


def fewest_of_a_class(data: SubjectTrials) -> int:
    """Return the smallest number of trials of one class that any subject has; those of weight zero do not count."""
    used = data.weights > 0
    return min(int((used & (data.signs == sign))[rows].sum()) for rows in data.subjects.rows for sign in (-1, 1))


def _widen(fold: Fold, rows: np.ndarray, n: int) -> Fold:
    train, test = np.zeros(n, dtype=int), np.zeros(n, dtype=bool)
    train[rows], test[rows] = fold.train, fold.test
    return Fold(train, test)


def _merge(parts: list[list[Fold]], labels: list) -> list[Fold]:
    counts = [len(part) for part in parts]
    if len(set(counts)) > 1:
        odd = next(t for t, count in enumerate(counts) if count != counts[0])
        raise ValueError(
            f"cv divides the trials of subject {labels[0]!r} into {counts[0]} folds and those of subject "
            f"{labels[odd]!r} into {counts[odd]}; use a splitter that gives every subject the same number of folds."
        )
    return [
        Fold(np.sum([f.train for f in same], axis=0), np.any([f.test for f in same], axis=0))
        for same in zip(*parts, strict=True)
    ]
