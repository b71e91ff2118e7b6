r"""Which windows of time carry the response: sensors and windows chosen together, and scored on held-out trials.

The classifier is the mixed norm of sensors and windows with the structured noise beside it (`GroupSVCCV` with
``windows``). Its alpha and its window share are chosen on inner folds. All of that is repeated without the trials of
each outer fold, which are then scored, by this classifier and by the one with a window share of 0, which has no norms
of windows and so leaves none out. Several subjects, each scaled by itself, have one classifier in common.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from mixnorm.eeg.splitting import InOrder
from mixnorm.estimators.cross_validation import auc
from mixnorm.estimators.settings import NOISE_RIDGES, WINDOW_SHARES
from mixnorm.estimators.svc_cv import GroupSVCCV
from mixnorm.estimators.windows import cell_norms
from mixnorm.montage.checkpoint import Call, Work
from mixnorm.montage.intervals import mean_known
from mixnorm.montage.progress import report_share
from mixnorm.montage.trials import SubjectTrials, divided, inner_folds

#: Number of alphas, ridge and relative duality gap of the classifiers. On development splits (seeds 100 and 101; 6
#: windows) the noise with this ridge raised the AUC from 0.78 to 0.79 for uam-p300 and from 0.85 to 0.89 for
#: ner2015-errp. Few alphas and a large gap keep one fold of 56 electrodes to some ten seconds.
_N_ALPHAS, _RIDGE, _TOL = 10, NOISE_RIDGES[1], 1e-3
#: Work of the classifier without norms of windows relative to that of all window shares; only for the progress.
_PLAIN = 0.1


@dataclass(frozen=True, eq=False)
class ScoredWindows:
    """What `score_windows` returns, for G sensors, V windows, T subjects and J outer folds.

    Attributes
    ----------
    norms : ndarray of shape (G, V)
        ‖w‖₂ of every sensor in every window, of the classifier fitted on all trials; exactly 0 where it is not chosen.
    share : float
        The window share that this classifier chose.
    chosen : bool ndarray of shape (J, V)
        Which windows were chosen without each fold.
    aucs : ndarray of shape (2, J, T)
        AUC of the held-out trials: with the window share that was chosen, and with a window share of 0; NaN where a
        subject has no held-out trials of both classes.
    """

    norms: NDArray[np.float64]
    share: float
    chosen: NDArray[np.bool_]
    aucs: NDArray[np.float64]

    @property
    def by_fold(self) -> NDArray[np.float64]:
        """AUC with the chosen window share and with a window share of 0 in every fold, mean over subjects, (2, J)."""
        return mean_known(self.aucs, axis=2)


def check_windows(number: int, n_samples: int) -> None:
    """Raise ValueError unless trials of so many samples can be divided into so many windows."""
    if number < 1:
        raise ValueError(f"{number} windows were asked for; there must be at least one.")
    if number > n_samples:
        raise ValueError(
            f"{number} windows were asked for, but the trials have {n_samples} samples each; ask for at most "
            f"{n_samples} windows, or prepare the recordings with more samples (n_samples=…)."
        )


def score_windows(
    subjects: Sequence[SubjectTrials],
    n_windows: int,
    group_weights: NDArray[np.float64],
    *,
    scaler: Any,
    folds: Sequence[int],
    work: Work,
) -> ScoredWindows:
    """Choose sensors and windows together on all trials, and score the choice on the held-out trials of every fold.

    Parameters
    ----------
    subjects : sequence of SubjectTrials
    n_windows : int
        Number of windows of equal length, to within one sample.
    group_weights : ndarray of shape (G,)
        Weights of the sensors: 0 for those to keep, ∞ for forbidden ones.
    scaler : transformer
        Fitted on the training trials of each fold and subject.
    folds : sequence of int
        The outer folds to score.
    work : Work
        Runs one call for each outer fold and one for all trials.
    """
    settings = _Settings(n_windows, group_weights, scaler)
    calls = [Call.of(_without_fold, subjects, fold, settings) for fold in (*folds, None)]
    *held_out, whole = work.run(f"windows, {n_windows} of them", calls)
    return ScoredWindows(
        norms=whole["norms"],
        share=float(whole["share"]),
        chosen=np.array([one["norms"].any(axis=0) for one in held_out]),
        aucs=np.stack([one["aucs"] for one in held_out], axis=1),
    )


@dataclass(frozen=True, eq=False)
class _Settings:
    """What is the same in every fold."""

    n_windows: int
    group_weights: NDArray[np.float64]
    scaler: Any


def _without_fold(subjects: Sequence[SubjectTrials], fold: int | None, settings: _Settings) -> dict[str, Any]:
    """Fit without the trials of a fold (None: on all), and score these by subject, if there are any."""
    parts = [divided(one, fold, settings.scaler) for one in subjects]
    training = [train for train, _ in parts]
    model = _fitted(training, settings, WINDOW_SHARES)
    found = {"norms": cell_norms(model), "share": model.window_share_}
    if fold is None:
        return found
    report_share(1 - _PLAIN)
    # The same noise, ridge and folds, so that the difference is due to the norms of windows alone.
    models = model, _fitted(training, settings, 0.0)
    return found | {"aucs": np.array([[_auc(one, test) for _, test in parts] for one in models])}


def _fitted(training: Sequence[SubjectTrials], settings: _Settings, shares: Any) -> GroupSVCCV:
    """One classifier of all subjects; alpha and the window share by folds inside each subject's trials."""
    X, signs = (np.concatenate([getattr(one, name) for one in training]) for name in ("X", "signs"))
    folds = inner_folds(InOrder(), signs, np.concatenate([_inner_number(one) for one in training]))
    model = GroupSVCCV(
        _N_ALPHAS,
        windows=settings.n_windows,
        window_share=shares,
        noise="structured",
        ridge=_RIDGE,
        group_weights=settings.group_weights,
        cv=[(np.flatnonzero(fold.train), np.flatnonzero(fold.test)) for fold in folds],
        tol=_TOL,
    )
    with warnings.catch_warnings():
        # a model without sensors is replaced here, if there is another
        warnings.filterwarnings("ignore", ".*selects no sensor", UserWarning)
        return _with_sensors(model.fit(X, signs), X, signs)


def _with_sensors(model: GroupSVCCV, X: NDArray[np.float64], signs: NDArray[np.float64]) -> GroupSVCCV:
    """Return the model or, where it chose no sensor, the best one of its grid that chooses any.

    At the largest alpha the model of all trials is zero, but those of the inner folds need not be, and may score best.
    """
    scores = np.where(model.n_selected_ > 0, model.scores_.mean(axis=-1), -np.inf)
    if len(model.selected_groups_) or not np.isfinite(scores).any():
        return model
    place = np.unravel_index(np.argmax(scores), scores.shape)
    share = model.window_share if np.ndim(model.window_share) == 0 else model.window_share[place[0]]
    return clone(model).set_params(alphas=[model.alphas_[place]], window_share=share).fit(X, signs)


def _inner_number(one: SubjectTrials) -> NDArray[np.integer]:
    """The inner fold of each of a subject's trials: as trial groups, they keep the folds of all subjects in step."""
    number = np.empty(len(one.signs), dtype=np.intp)
    for fold, (_, test) in enumerate(InOrder().split(one.X, groups=one.trial_groups)):
        number[test] = fold
    return number


def _auc(model: GroupSVCCV, test: SubjectTrials) -> float:
    if not test.has_both_classes:
        return np.nan
    return float(auc(test.signs, model.decision_function(test.X)[:, None])[0])
