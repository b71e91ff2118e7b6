"""The subjects of a joint fit: their labels, checks of their trials, and the stack of their joint problems."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mixnorm.core.problem import Stack
from mixnorm.estimators.inputs import Trials
from mixnorm.estimators.objective import Objective, check_ridge


@dataclass(frozen=True, eq=False)
class Subjects:
    """The subjects of a set of trials.

    Attributes
    ----------
    labels : list of T labels, in order of first appearance
    rows : list of T ndarrays
        Indices of the trials of every subject, in increasing order.
    """

    labels: list
    rows: list[np.ndarray]

    @classmethod
    def of(cls, labels: list) -> "Subjects":
        """Collect the trials of each subject, given the label of every trial."""
        # In order of first appearance: labels of different types cannot be sorted.
        place = {label: t for t, label in enumerate(dict.fromkeys(labels))}
        codes = np.array([place[label] for label in labels])
        return cls(list(place), [np.flatnonzero(codes == t) for t in range(len(place))])

    def only(self, labels: Sequence) -> "Subjects":
        """Return some of the subjects, in their original order."""
        kept = [t for t, label in enumerate(self.labels) if label in labels]
        return Subjects([self.labels[t] for t in kept], [self.rows[t] for t in kept])

    def pad(self, values: np.ndarray, fill: float = 0.0) -> np.ndarray:
        """Arrange values (n, ...) as (T, n_max, ...); subjects with fewer trials are padded with ``fill``.

        The values themselves, without a copy, if the subjects come one after the other with equally many trials.
        """
        T, most = len(self.rows), max(map(len, self.rows))
        is_full = all(len(rows) == most for rows in self.rows)
        if is_full and values.dtype == float and np.array_equal(np.concatenate(self.rows), np.arange(len(values))):
            return values.reshape(T, most, *values.shape[1:])
        out = np.empty((T, most, *values.shape[1:]))
        for t, rows in enumerate(self.rows):
            out[t, : len(rows)] = values[rows]
            out[t, len(rows) :] = fill
        return out


def subject_labels(subjects, n_trials: int | None = None) -> list | None:
    """Return one hashable label per trial as plain Python values; None stays None.

    A single label (a string, a number, or another value without a length) is used for all trials if ``n_trials`` is
    given.
    """
    if subjects is None:
        return None
    if isinstance(subjects, str | bytes) or not hasattr(subjects, "__len__"):
        return [subjects] * (n_trials or 0)
    if getattr(subjects, "ndim", 1) != 1:
        raise ValueError(f"subjects must hold one label per trial, but its shape is {subjects.shape}.")
    labels = subjects.tolist() if hasattr(subjects, "tolist") else list(subjects)
    # Plain values, so that labels are the same in a model that was saved and loaded.
    labels = [label.item() if isinstance(label, np.generic) else label for label in labels]
    for trial, label in enumerate(labels):
        # NaN is not equal to itself: every trial of such a label would be a subject of its own.
        if label is None or (isinstance(label, float) and not np.isfinite(label)):
            raise ValueError(f"subjects must hold a label for every trial, but that of trial {trial} is {label}.")
        if not isinstance(label, Hashable):
            raise ValueError(f"The labels of subjects must be hashable, but that of trial {trial} is {label!r}.")
    return labels


def check_label(subject) -> None:
    """Raise an error for a value that cannot be the label of one subject."""
    missing = subject is None or (isinstance(subject, float) and not np.isfinite(subject))
    if missing or not isinstance(subject, Hashable):
        raise ValueError(f"subject must be one hashable label (a name, a number), but got {subject!r}.")


def read_subjects(labels: list | None, n_trials: int) -> Subjects:
    """Return the subjects of the trials; without labels, all trials belong to one subject with the label 0."""
    labels = [0] * n_trials if labels is None else labels
    if len(labels) != n_trials:
        raise ValueError(f"X has {n_trials} trials, but subjects has {len(labels)} labels.")
    return Subjects.of(labels)


def check_asymmetric(asymmetric, subjects: Subjects) -> list:
    """Return the labels listed in ``asymmetric``; each must have trials, and at least one subject must be unlisted."""
    if asymmetric is None:
        return []
    # A string is a sequence of letters, which would be taken for the labels.
    if isinstance(asymmetric, str):
        raise ValueError(f"asymmetric must be a list of subjects, but got {asymmetric!r}.")
    listed = subject_labels(asymmetric)
    for label in listed:
        if label not in subjects.labels:
            raise ValueError(
                f"asymmetric contains the unknown subject {label!r}; available: "
                f"{', '.join(map(repr, subjects.labels))}."
            )
    if len(set(listed)) == len(subjects.labels):
        raise ValueError(
            "asymmetric contains every subject; leave out at least one, so that a mean classifier can be fitted."
        )
    return listed


def check_subject_classes(weights: np.ndarray, signs: np.ndarray, classes: np.ndarray, subjects: Subjects) -> None:
    """Raise an error that names a subject without trials of both classes (trials of weight zero do not count)."""
    for label, rows in zip(subjects.labels, subjects.rows, strict=True):
        missing = [
            name
            for sign, name in zip((-1, 1), classes.tolist(), strict=True)
            if not weights[rows][signs[rows] == sign].any()
        ]
        if missing:
            count = int((weights[rows] > 0).sum())
            raise ValueError(
                f"Subject {label!r} has {count} trial{'s' * (count != 1)} and none of class {missing[0]!r}; add "
                "trials of this class, leave the subject out, or (in MultiTaskGroupSVC and MultiTaskGroupSVCCV) list "
                "it in asymmetric."
            )


def joint_stack(
    objective: Objective, trials: Trials, signs: np.ndarray, weights: np.ndarray, subjects: Subjects
) -> Stack:
    """Return K joint problems over the subjects, for weights (n, K); alpha and similarity are set later."""
    single = objective.stack(trials, signs, weights)
    # Padding has weight 0 and so no influence. Its label is 1, because every y is −1 or +1.
    stack = replace(
        single,
        X=subjects.pad(trials.matrix)[None],
        y=subjects.pad(signs, 1.0)[None],
        sample_weight=subjects.pad(weights)[None],
    )
    return with_ridge(stack, check_ridge(objective.ridge, objective.penalty))


def with_ridge(stack: Stack, ridge: float) -> Stack:
    """Return the stack, B = 1, with a ridge term; 0: without."""
    # None and not 0: then solver and certificate leave the term out.
    return replace(stack, ridge=np.full((1, stack.shape[-1]), ridge) if ridge > 0 else None)
