"""The methods that a study compares, by the names that plans and rows use.

A method is a function from training trials, test trials and settings to an `Outcome`; it never sees the labels
of the test trials.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from mixnorm import GroupSVCCV, MultiTaskGroupSVCCV
from mixnorm.eeg.cohort import default_joint_classifier
from mixnorm.eeg.readers.guard import require
from mixnorm.eeg.splitting import InOrder
from mixnorm.estimators.settings import SETTINGS
from mixnorm.study.peers import lda, toeplitz_lda, xdawn_lda, xdawncov_ts_lr


@dataclass(frozen=True)
class Settings:
    """Grids and folds of the inner cross-validation.

    `honest`: whether the inner folds keep trials of one character (or block) together, as the outer split does.
    """

    alphas: tuple[float, ...]
    qs: tuple[float, ...]
    similarities: tuple[float, ...]
    folds: int
    honest: bool


@dataclass(frozen=True)
class Training:
    """Scaled trials X (n, channels, times), labels y, subjects, and groups that inner folds must not split."""

    X: NDArray[np.float64] = field(repr=False)
    y: NDArray[np.int64] = field(repr=False)
    subject: NDArray[np.str_] = field(repr=False)
    groups: NDArray[np.int64] = field(repr=False)


@dataclass(frozen=True)
class Outcome:
    """The result of a method on test trials.

    Attributes
    ----------
    scores : (n_test,) array
    selected : (n_channels,) mask
    chosen : dict
        The parameters that the inner cross-validation chose, and the certificate of the final fit.
    path_scores : (n_alphas, n_test) array or None
        Along the grid of alphas, where the method has a path.
    path_selected : (n_alphas, n_channels) mask or None
    """

    scores: NDArray[np.float64] = field(repr=False)
    selected: NDArray[np.bool_] = field(repr=False)
    chosen: Mapping[str, float | None]
    path_scores: NDArray[np.float64] | None = field(default=None, repr=False)
    path_selected: NDArray[np.bool_] | None = field(default=None, repr=False)


Fit = Callable[[Training, NDArray, NDArray, Settings], Outcome]


@dataclass(frozen=True)
class Method:
    """A method of the table below.

    `title` is its name in print, `cohort` whether it learns from all subjects at once, `uses` the grids it
    depends on, `needs` the optional module and extra without which it cannot run.
    """

    title: str
    fit: Fit
    cohort: bool = False
    uses: tuple[str, ...] = ("alphas",)
    needs: tuple[str, str] | None = None

    def check(self) -> None:
        """Import what the method needs, or raise an error that names the extra to install."""
        if self.needs:
            require(*self.needs)


def _sensor_svm(
    train: Training,
    X: NDArray,
    _who: NDArray,
    settings: Settings,
    *,
    several_q: bool = False,
    windows: int | None = None,
    **options: Any,
) -> Outcome:
    """The paper's single-subject methods; the path is that of the refit at the chosen q and window share.

    ``windows``: so many windows of time, or one for each sample where there are fewer.
    """
    # Only "gsvm-q" chooses q; the paper's other methods have q = 2.
    q = settings.qs if several_q else 2.0
    windows = None if windows is None else min(windows, X.shape[2])
    options = {"q": q, "windows": windows, "cv": inner_folds(train, settings), **options}
    model = GroupSVCCV(settings.alphas, **options).fit(train.X, train.y)
    coefs, intercepts = model.path_coefs_, model.path_intercepts_
    return Outcome(
        scores=model.decision_function(X),
        selected=np.isin(np.arange(X.shape[1]), model.selected_groups_),
        chosen={
            "alpha": model.alpha_,
            "q": model.q_ if options["penalty"] == "group" else None,
            "window_share": None if windows is None else model.window_share_,
            "windows_kept": None if windows is None else 100 * len(model.selected_windows_) / windows,
            "dual_gap": model.dual_gap_,
        },
        # AUC along the path on test trials is reported for the figure only: alpha is chosen on the training trials.
        path_scores=coefs @ X.reshape(len(X), -1).T + intercepts[:, None],
        path_selected=(coefs.reshape(len(coefs), X.shape[1], -1) != 0).any(axis=2),
    )


def _noise_svm(train: Training, X: NDArray, _who: NDArray, settings: Settings, *, method: str) -> Outcome:
    """An SVM with ``noise="evoked"``; alpha is chosen on the automatic grid, not on that of the plan."""
    # The grid of the plan is for penalties without noise; alphas with noise have another scale.
    model = GroupSVCCV(20, cv=inner_folds(train, settings), **SETTINGS[method]).fit(train.X, train.y)
    chosen = {"alpha": model.alpha_, "ridge": model.ridge_ or None, "dual_gap": model.dual_gap_}
    return Outcome(model.decision_function(X), np.isin(np.arange(X.shape[1]), model.selected_groups_), chosen)


def _multi_subject(
    train: Training, X: NDArray, who: NDArray, settings: Settings, *, similar: bool, noise: str | None = None
) -> Outcome:
    """Sensors selected for all subjects together; a held-out subject is scored by the mean classifier."""
    similarities = settings.similarities if similar else (0.0,)
    # The paper chooses the best score. No new subject is adapted here, so no rehearsal is needed.
    options = {"cv": inner_folds(train, settings), "rule": "best", "rehearse": False, "noise": noise}
    return _joint(MultiTaskGroupSVCCV(settings.alphas, similarities=similarities, **options), train, X, who)


def _noise_multi_subject(train: Training, X: NDArray, who: NDArray, settings: Settings) -> Outcome:
    """A joint SVM with ``noise="evoked"`` of each subject, on the automatic grid of alphas and similarities."""
    return _joint(default_joint_classifier(cv=inner_folds(train, settings), rehearse=False), train, X, who)


def _joint(model: MultiTaskGroupSVCCV, train: Training, X: NDArray, who: NDArray) -> Outcome:
    model.fit(train.X, train.y, subjects=train.subject)
    # Held-out subjects are not in the fit.
    known = np.isin(who, train.subject).all()
    return Outcome(
        scores=model.decision_function(X, subjects=who) if known else model.decision_function(X),
        selected=np.isin(np.arange(X.shape[1]), model.selected_groups_),
        chosen={"alpha": model.alpha_, "similarity": model.similarity_, "dual_gap": model.dual_gap_},
    )


def _peer(train: Training, X: NDArray, _who: NDArray, settings: Settings, *, make: Callable[[Any], Any]) -> Outcome:
    """Common alternatives: all sensors, parameters by a grid search on the same inner folds."""
    search = make(inner_folds(train, settings)).fit(train.X, train.y)
    return Outcome(search.decision_function(X), np.ones(X.shape[1], dtype=bool), {})


def inner_folds(train: Training, settings: Settings) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Folds of the inner cross-validation within each subject: stratified, or whole characters in order."""
    # Within each subject, so that every fold has trials of every subject in the same proportion.
    number = np.empty(len(train.y), dtype=np.int64)
    for who in np.unique(train.subject):
        mine = np.flatnonzero(train.subject == who)
        if settings.honest:
            splits = InOrder(settings.folds).split(mine, groups=train.groups[mine])
        else:
            splits = StratifiedKFold(settings.folds).split(mine, train.y[mine])
        for fold, (_, test) in enumerate(splits):
            number[mine[test]] = fold
    return [(np.flatnonzero(number != fold), np.flatnonzero(number == fold)) for fold in range(settings.folds)]


_RIEMANN = ("pyriemann", "moabb")

#: Name in plans and rows → method.
METHODS: dict[str, Method] = {
    "svm": Method("SVM", partial(_sensor_svm, **SETTINGS["svm"])),
    "svm-1": Method("SVM-1", partial(_sensor_svm, **SETTINGS["svm-1"])),
    "gsvm-2": Method("GSVM-2", partial(_sensor_svm, **SETTINGS["gsvm-2"])),
    "gsvm-q": Method("GSVM-q", partial(_sensor_svm, penalty="group", several_q=True), uses=("alphas", "qs")),
    "gsvm-a": Method("GSVM-a", partial(_sensor_svm, **SETTINGS["gsvm-a"])),
    "svm-noise": Method("SVM, noise", partial(_noise_svm, method="svm-noise"), uses=()),
    "gsvm-2-noise": Method("GSVM-2, noise", partial(_noise_svm, method="gsvm-2-noise"), uses=()),
    "svm-full": Method("SVM-Full", partial(_sensor_svm, penalty="l2"), cohort=True),
    "mgsvm-2": Method("MGSVM-2", partial(_multi_subject, similar=False), cohort=True),
    "mgsvm-2s": Method(
        "MGSVM-2s", partial(_multi_subject, similar=True), cohort=True, uses=("alphas", "similarities")
    ),
    "mgsvm-2s-aligned": Method(
        "MGSVM-2s, aligned",
        partial(_multi_subject, similar=True, noise="kronecker"),
        cohort=True,
        uses=("alphas", "similarities"),
    ),
    "msvm-noise": Method("Joint SVM, noise", _noise_multi_subject, cohort=True, uses=()),
    "lda": Method("LDA (shrinkage)", partial(_peer, make=lda), uses=()),
    "toeplitz-lda": Method("Toeplitz LDA", partial(_peer, make=toeplitz_lda), uses=()),
    "xdawn-lda": Method("Xdawn + LDA", partial(_peer, make=xdawn_lda), uses=(), needs=_RIEMANN),
    "xdawncov-ts-lr": Method("XdawnCov + TS + LR", partial(_peer, make=xdawncov_ts_lr), uses=(), needs=_RIEMANN),
    "gsvm-2-when": Method("GSVM-2, windows", partial(_sensor_svm, **SETTINGS["gsvm-2-when"])),
}
