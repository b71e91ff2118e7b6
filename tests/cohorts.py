"""Small simulated cohorts for the tests of many subjects: subjects of unequal size with common and own parts."""

import numpy as np

from reference import random_problem

SIZES = (40, 25, 60, 31, 33, 50)


def cohort(n_subjects, seed=0, n_groups=6, group_size=3, sizes=SIZES):
    """Return (Xs, ys, groups): lists over subjects, y in {−1, +1}."""
    rng = np.random.default_rng(seed)
    subjects = [random_problem(rng, sizes[t], n_groups, group_size) for t in range(n_subjects)]
    return [X for X, _, _ in subjects], [y for _, y, _ in subjects], subjects[0][2]


def stacked(Xs, ys, names=None, seed=None):
    """Return (X, y, subjects) as an estimator takes them; with a seed in random order."""
    names = [f"S{t}" for t in range(len(Xs))] if names is None else names
    subjects = np.repeat(np.array(names), [len(y) for y in ys])
    X, y = np.concatenate(Xs), np.concatenate(ys)
    if seed is None:
        return X, y, subjects
    order = np.random.default_rng(seed).permutation(len(y))
    return X[order], y[order], subjects[order]


def correlated(Xs, seed=0):
    """Mix the features, the same way in every subject: some directions vary a hundred times as much as others."""
    rng, d = np.random.default_rng(seed), Xs[0].shape[1]
    mixing = np.linalg.qr(rng.normal(size=(d, d)))[0] * np.geomspace(3.0, 0.03, d)
    return [X @ mixing for X in Xs]


def within_subject_metric(Xs, weights, usable):
    """M of a new subject's regularisation, trial by trial: 0.97 of the covariance within subjects, of mean variance 1, and 0.03 I."""
    covariance = np.zeros((len(usable), len(usable)))
    for X, s in zip(Xs, weights, strict=True):
        for x, weight in zip(X - np.average(X, axis=0, weights=s), s, strict=True):
            covariance += weight * np.outer(x, x)
    covariance[~usable] = covariance[:, ~usable] = 0.0
    return 0.97 * covariance * usable.sum() / np.trace(covariance) + 0.03 * np.eye(len(usable))
