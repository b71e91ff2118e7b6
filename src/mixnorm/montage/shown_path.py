"""The path of the mixed norm, which the page shows beside the montages; nothing is chosen by it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from mixnorm.estimators.cross_validation import auc
from mixnorm.estimators.path import group_svc_path
from mixnorm.montage.case import Case
from mixnorm.montage.checkpoint import Call
from mixnorm.montage.plain import numbers
from mixnorm.montage.result import Path
from mixnorm.subjects.multitask_cv import MultiTaskGroupSVCCV

N_ALPHAS = 20
"""Number of alphas of the mixed-norm path."""
TOL = 1e-3
"""Relative duality gap to reach on that path."""


def shown_path(case: Case) -> Path:
    """The mixed-norm path, one norm over all subjects: numbers of selected sensors, and AUC on held-out trials."""
    with warnings.catch_warnings():  # here, and not in the calls: on a device these run in threads
        # Sensors to keep are not penalised; where they alone separate the trials there is no certificate. The path is
        # shown, and nothing is chosen by it.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return _path_and_scores(case)


def _path_and_scores(case: Case) -> Path:
    work = case.work(case.subjects)
    # on all trials first: its alphas are those of every fold, so that the scores can be averaged
    (whole,) = work.run("path", [Call.of(_path_without, case, None, N_ALPHAS)])
    calls = []
    for fold in np.unique(np.concatenate([one.fold for one in case.subjects])):
        # One norm over all subjects needs all of them in every fold.
        parts = [one.take(mask) for one in case.subjects for mask in (one.fold == fold, one.fold != fold)]
        if all(part.has_both_classes for part in parts):
            calls.append(Call.of(_path_without, case, fold, whole["alphas"]))
    scores = [found["auc"] for found in work.run("path in folds", calls)]
    mean = np.mean(scores, axis=0) if scores else np.full(N_ALPHAS, np.nan)
    return Path(
        alphas=numbers(whole["alphas"], 6),
        n_selected=tuple(int(count) for count in whole["n_selected"]),
        auc=numbers(mean, 6),
    )


def _path_without(case: Case, fold: int | None, alphas: Any) -> dict[str, NDArray]:
    """Fit the path without the trials of a fold and score it on these; None: fit and score it on all trials."""
    fold_of = np.concatenate([one.fold for one in case.subjects])
    parts = [case.scaled(one, one.fold != fold) for one in case.subjects]
    X, train = (np.concatenate(part) for part in zip(*parts, strict=True))
    test = fold_of == fold if fold is not None else train
    signs = np.concatenate([one.signs for one in case.subjects])
    if not case.is_shared:
        return _path_of_one(X, signs, (train, test), alphas, case.constraints.group_weights)
    rows = train | test
    model = MultiTaskGroupSVCCV(
        alphas,
        similarities=[0.0],
        group_weights=case.constraints.group_weights,
        cv=[(np.flatnonzero(train[rows]), np.flatnonzero(test[rows]))],
        rehearse=False,
        tol=TOL,
    )
    whose = np.repeat(case.names, [len(one.signs) for one in case.subjects])
    model.fit(X[rows], signs[rows], subjects=whose[rows])
    return {"alphas": model.alphas_, "n_selected": model.n_selected_[0], "auc": model.scores_[0, :, 0]}


def _path_of_one(X: NDArray, signs: NDArray, split: tuple[NDArray, NDArray], alphas: Any, beta: NDArray) -> dict:
    """The same for one subject: only the path on the training trials is needed, and none on all trials beside it."""
    train, test = split
    path = group_svc_path(X[train], signs[train], alphas=alphas, group_weights=beta, tol=TOL)
    n_selected = path.coefs.reshape(len(path.alphas), X.shape[1], -1).any(axis=2).sum(axis=1)
    scores = X[test].reshape(int(test.sum()), -1) @ path.coefs.T + path.intercepts
    return {"alphas": path.alphas, "n_selected": n_selected, "auc": auc(signs[test], scores)}
